/** Creates a data directory, durably. */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { createDirectory, createDirectoryDurably, syncToDisk } from "../store/db/directories.ts";
import { refuseUnfinishedRestore } from "../store/db/database.ts";
import { giveToOwner, refuseMissingTarget } from "../store/db/state-directory.ts";

/**
 * Creates the data directory and its subdirectories, readable by their owner only. Their directory entries are synced
 * when this returns: a record in a database is not durable while the directory that holds the database is not.
 * @returns absolute paths of the subdirectories
 * @throws DanglingLinkError, UnfinishedRestoreError, or the system's error
 */
export function prepareDirectory(directory: string): { evidence: string; staging: string } {
  refuseMissingTarget(directory);
  refuseUnfinishedRestore(directory);
  const [evidence, staging] = [join(directory, "evidence"), join(directory, "staging")];
  createDirectoryDurably(directory);
  const created = [evidence, staging].filter((path) => createDirectory(path) !== null);
  for (const path of created) giveToOwner(path, directory);
  // Without a database, the process that created these directories may have died before it synced them.
  const hasNoDatabase = !existsSync(join(directory, "assay.db"));
  if (created.length > 0 || hasNoDatabase) syncToDisk(directory);
  if (hasNoDatabase) syncParent(directory);
  return { evidence, staging };
}

/** Syncs the parent directory, unless this user may not open it: another user may own it. */
function syncParent(directory: string): void {
  try {
    syncToDisk(dirname(directory));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EACCES") throw error;
  }
}
