/**
 * Locks on a data directory: one process serves it, and one process at a time copies or sweeps its evidence. A lock is
 * an exclusive SQLite transaction on a file of its own. The kernel releases it when the process ends, however it ends,
 * so a lock never outlives its holder and needs no clean-up.
 */
import { chmodSync, statSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { onPathSync, withPath } from "../../domain/text/system-errors.ts";
import { loadAddon } from "./native-addon.ts";
import { giveToOwner } from "./state-directory.ts";

/** Another process serves this data directory, or runs a task that is limited to one process at a time. */
export class DataDirectoryInUseError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "DataDirectoryInUseError";
  }
}

export type Lock = { release(): void };

/** `isServed` holds the lock for less than a millisecond; that must not keep a server from starting. */
const PROBE_TIMEOUT_MS = 100;

/**
 * Locks the directory for this process until `release` is called or the process ends.
 * @throws DataDirectoryInUseError when another process holds the lock.
 */
export function lockDirectory(directory: string): Lock {
  const lock = tryLock(directory, "assay.lock", PROBE_TIMEOUT_MS);
  if (lock) return lock;
  throw new DataDirectoryInUseError(
    `the data directory ${directory} is in use by another Assay process. ` +
      "Stop that process first, or give this one a data directory of its own with --data",
  );
}

/**
 * Takes the lock that excludes backups and evidence sweeps from each other: a sweep must not remove a file that a
 * copied database names before the backup has read it. Independent of the lock of a serving process.
 * @returns null while another process holds it.
 */
export const lockEvidence = (directory: string): Lock | null => tryLock(directory, "evidence.lock", 0);

function tryLock(directory: string, name: string, timeoutMs: number): Lock | null {
  const file = join(directory, name);
  const options = { nativeBinding: loadAddon(directory) as unknown as string, timeout: timeoutMs };
  const db = onPathSync(file, () => new Database(file, options));
  try {
    chmodSync(file, 0o600);
    giveToOwner(file, directory);
    db.pragma("locking_mode = EXCLUSIVE");
    db.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    db.close();
    if (String((error as { code?: unknown }).code).startsWith("SQLITE_BUSY")) return null;
    throw withPath(error, file);
  }
  return { release: () => void db.close() };
}

/**
 * Whether a process serves the directory now. Takes, creates and changes nothing.
 * @throws the system's error when this user may not read the lock file.
 */
export function isServed(directory: string): boolean {
  const file = join(directory, "assay.lock");
  if (!statSync(file, { throwIfNoEntry: false })) return false;
  const nativeBinding = loadAddon(directory) as unknown as string;
  const options = { readonly: true, fileMustExist: true, nativeBinding, timeout: 0 };
  const db = onPathSync(file, () => new Database(file, options));
  try {
    db.prepare("SELECT count(*) FROM sqlite_schema").get();
    return false;
  } catch (error) {
    if (String((error as { code?: unknown }).code).startsWith("SQLITE_BUSY")) return true;
    throw withPath(error, file);
  } finally {
    db.close();
  }
}
