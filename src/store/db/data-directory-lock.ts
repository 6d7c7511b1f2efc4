/**
 * One serving process per data directory, and one who copies or sweeps its evidence. A lock is an exclusive SQLite
 * transaction on a file of its own: the kernel releases it when the process ends, however it ends, so a lock never
 * outlives its holder and needs no cleaning up.
 */
import { chmodSync, statSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { loadAddon } from "./native-addon.ts";

/** Another process serves this data directory, or does what only one may do at a time. */
export class DataDirectoryInUseError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "DataDirectoryInUseError";
  }
}

export type Lock = { release(): void };

/**
 * Whoever only looks whether the lock is taken (isServed) holds it for less than a millisecond, and must not keep a
 * server from starting.
 */
const PROBE_TIMEOUT_MS = 100;

/**
 * Takes the directory for this process until `release` is called or the process ends.
 * @throws DataDirectoryInUseError when another process holds it.
 */
export function lockDirectory(directory: string): Lock {
  const lock = take(directory, "assay.lock");
  if (lock) return lock;
  throw new DataDirectoryInUseError(
    `the data directory ${directory} is in use by another Assay process. ` +
      "Stop that process first, or give this one a data directory of its own with --data",
  );
}

/**
 * Takes the right to rely on evidence staying where it is, which a backup needs, or else to remove some, which a sweep
 * does: what a copy of the database names must be there until it was read. null while somebody has it. Beside serving.
 */
export const lockEvidence = (directory: string): Lock | null => take(directory, "evidence.lock");

function take(directory: string, name: string): Lock | null {
  const file = join(directory, name);
  const db = new Database(file, {
    nativeBinding: loadAddon(directory) as unknown as string,
    timeout: PROBE_TIMEOUT_MS,
  });
  try {
    chmodSync(file, 0o600);
    db.pragma("locking_mode = EXCLUSIVE");
    db.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    db.close();
    if (String((error as { code?: unknown }).code).startsWith("SQLITE_BUSY")) return null;
    throw error;
  }
  return { release: () => void db.close() };
}

/**
 * Whether a process serves the directory now; nothing is taken, created or changed. Somebody who may not
 * read the lock is told by the system's error.
 */
export function isServed(directory: string): boolean {
  const file = join(directory, "assay.lock");
  if (!statSync(file, { throwIfNoEntry: false })) return false;
  const db = new Database(file, {
    readonly: true,
    fileMustExist: true,
    nativeBinding: loadAddon(directory) as unknown as string,
    timeout: 0,
  });
  try {
    db.prepare("SELECT count(*) FROM sqlite_schema").get();
    return false;
  } catch (error) {
    if (String((error as { code?: unknown }).code).startsWith("SQLITE_BUSY")) return true;
    throw error;
  } finally {
    db.close();
  }
}
