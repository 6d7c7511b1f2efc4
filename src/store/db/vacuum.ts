/** Writing the whole database anew, without holes. The directory must be locked: nobody else may serve it meanwhile. */
import { statSync } from "node:fs";
import { join } from "node:path";
import { freeBytesSync } from "./disk-space.ts";
import { freePageStore } from "./incremental-vacuum.ts";
import { walBytes } from "./wal.ts";
import type { Db } from "./types.ts";

/** There is too little room for the second copy; nothing was changed. Numbers in bytes. */
export class NoSpaceForVacuumError extends Error {
  override readonly name = "NoRoomError";
  constructor(directory: string, needed: number, free: number) {
    super(
      `writing the database anew takes ${mb(needed)} MB beside it for a while, and ${directory} has ${mb(free)} MB; nothing was changed`,
    );
  }
}

const mb = (bytes: number): string => (bytes / 1_048_576).toFixed(1);

/** Mistakes that are told at most; one is enough not to go on. */
const MAX_PROBLEMS = 20;

/** For the file system's own books, in bytes. */
const MARGIN_BYTES = 8 << 20;

/** What is wrong with the file, in SQLite's words; empty when nothing is. Reads all of it. */
export const findDamage = (db: Db): string[] =>
  (db.pragma(`integrity_check(${MAX_PROBLEMS})`) as { integrity_check: string }[])
    .map((row) => row.integrity_check)
    .filter((line) => line !== "ok");

/** The size of the database with its log, in bytes. */
export const databaseBytes = (directory: string): number =>
  statSync(join(directory, "assay.db")).size + walBytes(directory);

/**
 * Writes the database anew: first a copy into a temporary file in `scratch`, then that copy into the log, then the log
 * into the file. Whenever it ends, the database is whole: before the log is complete the old one, and from then on the
 * new one. From then on free pages can be given back in small steps (space.ts).
 * @param directory the data directory, locked by this process. @param free bytes that may be used; for tests.
 * @throws NoRoomError; SQLite's errors, also when a reader of another process keeps the log.
 */
export function vacuumDatabase(
  db: Db,
  directory: string,
  scratch: string,
  free: () => number = () => freeBytesSync(directory),
): void {
  db.pragma("wal_checkpoint(TRUNCATE)");
  const { total, free: unused, bytes } = freePageStore(db).readPageCounts();
  const needed = 2 * (total - unused) * bytes + MARGIN_BYTES;
  const room = free();
  if (room < needed) throw new NoSpaceForVacuumError(directory, needed, room);
  // Our connections keep temporary things in memory; this one may be larger than that. The directory counts for the
  // whole process.
  db.pragma("temp_store = FILE");
  db.pragma(`temp_store_directory = '${scratch.replaceAll("'", "''")}'`);
  try {
    db.pragma("auto_vacuum = INCREMENTAL");
    db.exec("VACUUM");
  } finally {
    db.pragma("temp_store_directory = ''");
    db.pragma("temp_store = MEMORY");
  }
  db.pragma("wal_checkpoint(TRUNCATE)");
}
