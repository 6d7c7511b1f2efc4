/** What killed backups leave: files as large as the database, which nothing reads again. */
import { lstatSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Logger } from "../log.ts";
import { lockEvidence } from "../store/db/data-directory-lock.ts";
import { SCHEDULED_PARTIAL } from "./backup-schedule.ts";

/** A partial archive of a file named assay-backup..., or the copy of the database beside it. */
const REMAINS = /^assay-backup.*\.partial(-db(-journal|-wal|-shm)?)?$/;

/** A file to which nothing was written for so long belongs to a backup that was killed. */
const OLD_S = 3600;

/**
 * Removes what killed backups left in the backup directory: files of the server's own backups at once, and files of
 * commands when they are an hour old, because a command of another data directory may write here. While a backup of
 * this data directory runs, nothing is removed. Never throws: a server starts without it.
 * @param now epoch seconds
 */
export function removeBackupRemains(
  { dataDirectory, backupDirectory, now }: { dataDirectory: string; backupDirectory: string; now: number },
  logger: Pick<Logger, "info" | "warn">,
): void {
  const isOwn = (name: string): boolean => name.startsWith(SCHEDULED_PARTIAL);
  try {
    // Backups to standard output copy the database to the directory that is the default.
    const directories = new Set([backupDirectory, join(dataDirectory, "backups")]);
    const found = [...directories].flatMap((directory) =>
      listRemains(directory).filter(({ name, modifiedAt }) => isOwn(name) || modifiedAt <= now - OLD_S),
    );
    const lock = found.length > 0 ? lockEvidence(dataDirectory) : null;
    if (lock === null) return;
    try {
      for (const { path } of found) rmSync(path, { force: true });
    } finally {
      lock.release();
    }
    logger.info({ files: found.map(({ path }) => path) }, "removed what killed backups had left");
  } catch (error) {
    logger.warn({ err: error }, "what killed backups left could not be removed");
  }
}

/** Empty for a directory that does not exist or cannot be read: the first backup there reports that. */
function listRemains(directory: string): { name: string; path: string; modifiedAt: number }[] {
  let names: string[];
  try {
    names = readdirSync(directory).filter((name) => REMAINS.test(name));
  } catch {
    return [];
  }
  return names.flatMap((name) => {
    const path = join(directory, name);
    const stats = lstatSync(path, { throwIfNoEntry: false });
    return stats?.isFile() === true ? [{ name, path, modifiedAt: stats.mtimeMs / 1000 }] : [];
  });
}
