/**
 * One serving process per data directory. The lock is an exclusive SQLite transaction on a file of its own: the kernel
 * releases it when the process ends, however it ends, so a lock never outlives its holder and needs no cleaning up.
 */
import { chmodSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { loadAddon } from "./addon.ts";

/** Another process serves this data directory. */
export class DataDirectoryInUseError extends Error {
  constructor(directory: string) {
    super(
      `the data directory ${directory} is in use by another Assay process. ` +
        "Stop that process first, or give this one a data directory of its own with --data",
    );
    this.name = "DataDirectoryInUseError";
  }
}

/**
 * Takes the directory for this process until `release` is called or the process ends.
 * @throws DataDirectoryInUseError at once when another process holds it.
 */
export function lockDirectory(directory: string): { release(): void } {
  const file = join(directory, "assay.lock");
  const db = new Database(file, { nativeBinding: loadAddon(directory) as unknown as string, timeout: 0 });
  try {
    chmodSync(file, 0o600);
    db.pragma("locking_mode = EXCLUSIVE");
    db.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    db.close();
    if (String((error as { code?: unknown }).code).startsWith("SQLITE_BUSY")) throw new DataDirectoryInUseError(directory);
    throw error;
  }
  return { release: () => void db.close() };
}
