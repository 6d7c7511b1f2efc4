/**
 * A data directory without a database that holds what only a database explains. SQLite would create an empty one, the
 * server would offer its first account to the network, and what is left of the log would be deleted.
 */
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { COMMIT_FILE } from "./commit-file.ts";

/** The database of a data directory is gone, and other parts of its data are not. Nothing was changed. */
export class LostDatabaseError extends Error {
  override readonly name = "LostDatabaseError";

  constructor(directory: string, remains: readonly string[]) {
    super(
      `${directory} holds ${remains.join(" and ")}, but its database assay.db is ${stateOf(directory)}. ` +
        "Nothing was changed. Move assay.db back if it was moved away, or restore a backup: move this directory away " +
        "and run assay restore (assay help restore). Only to begin without any records, run this again with " +
        "--new-database",
    );
  }
}

const stateOf = (directory: string): string => (isMissing(join(directory, "assay.db")) ? "missing" : "empty");

const isMissing = (path: string): boolean => statSync(path, { throwIfNoEntry: false }) === undefined;

/**
 * What a directory without a database holds of one that it had, in words; empty for a new directory and for one that
 * has a database. A file of no bytes is none: SQLite creates it before it writes.
 */
export function listRemains(directory: string): string[] {
  const sizeOf = (name: string): number => statSync(join(directory, name), { throwIfNoEntry: false })?.size ?? 0;
  if (sizeOf("assay.db") > 0) return [];
  return [
    ...(hasEvidence(join(directory, "evidence")) ? ["evidence"] : []),
    ...(sizeOf("assay.db-wal") > 0 ? ["a write-ahead log"] : []),
    ...(sizeOf(COMMIT_FILE) > 0 ? [`the number of its latest commit (${COMMIT_FILE})`] : []),
    ...(listNames(join(directory, "backups")).some((name) => BACKUP.test(name)) ? ["backups"] : []),
  ];
}

/** Scheduled backups, and copies from before upgrades. */
const BACKUP = /^assay-(backup|schema)-.*\.(tar|db)$/;

const hasEvidence = (root: string): boolean =>
  listNames(root).some((name) => /^[0-9a-f]{2}$/.test(name) && listNames(join(root, name)).length > 0);

function listNames(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    if (["ENOENT", "ENOTDIR"].includes((error as NodeJS.ErrnoException).code ?? "")) return [];
    throw error;
  }
}

/** @throws LostDatabaseError, or the system's error when the directory cannot be read */
export function refuseLostDatabase(directory: string): void {
  const remains = listRemains(directory);
  if (remains.length > 0) throw new LostDatabaseError(directory, remains);
}
