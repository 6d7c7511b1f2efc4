/**
 * Free pages of the database file: their return to the file system in small steps (incremental vacuum), and rewriting
 * the whole database without them. For that the directory must be locked, so that no process serves it.
 */
import { statSync } from "node:fs";
import { join } from "node:path";
import { freeBytesSync } from "./disk-space.ts";
import { walBytes } from "./wal.ts";
import type { Db } from "./types.ts";

/**
 * Page counts of the database file. `bytes`: the size of one page. `isIncremental`: whether `reclaim` has an effect.
 */
type PageCounts = { total: number; free: number; bytes: number; isIncremental: boolean };

/** Value of the pragma auto_vacuum for INCREMENTAL. */
const INCREMENTAL = 2;

export function freePageStore(db: Db) {
  const number = (pragma: string): number => db.pragma(pragma, { simple: true }) as number;
  return {
    readPageCounts: (): PageCounts => ({
      total: number("page_count"),
      free: number("freelist_count"),
      bytes: number("page_size"),
      isIncremental: number("auto_vacuum") === INCREMENTAL,
    }),
    /**
     * Returns at most `pages` free pages to the file system. Call it inside a write. The file shrinks with the next
     * checkpoint.
     */
    reclaim: (pages: number): void => void db.pragma(`incremental_vacuum(${pages})`),
  };
}

/** There is too little disk space for the second copy; nothing was changed. Sizes in bytes. */
export class NoSpaceForVacuumError extends Error {
  override readonly name = "NoSpaceForVacuumError";
  constructor(directory: string, needed: number, free: number) {
    super(
      `rewriting the database takes ${mb(needed)} MB beside it for a while, ` +
        `and ${directory} has ${mb(free)} MB; nothing was changed`,
    );
  }
}

const mb = (bytes: number): string => (bytes / 1_048_576).toFixed(1);

/** Problems reported at most; one is enough to stop. */
const MAX_PROBLEMS = 20;

/** For the file system's own metadata. */
const MARGIN_BYTES = 8 << 20;

/** The problems that SQLite's integrity check finds, in its words; empty for a sound file. Reads the whole file. */
export const findDamage = (db: Db): string[] =>
  (db.pragma(`integrity_check(${MAX_PROBLEMS})`) as { integrity_check: string }[])
    .map((row) => row.integrity_check)
    .filter((line) => line !== "ok");

/** The size of the database with its write-ahead log, in bytes. */
export const databaseBytes = (directory: string): number =>
  statSync(join(directory, "assay.db")).size + walBytes(directory);

/**
 * Rewrites the database: first into a temporary file in `scratch`, then from there into the write-ahead log, then from
 * the log into the file. The database is consistent whenever the process dies: the old one until the log is complete,
 * the new one afterwards. The new file returns free pages in small steps (jobs/incremental-vacuum.ts).
 * @param directory the data directory, locked by this process.
 * @param free the bytes that may be used; for tests.
 * @throws NoSpaceForVacuumError; SQLite's errors, also when a reader of another process holds the log.
 */
export function vacuumDatabase(
  db: Db,
  {
    directory,
    scratch,
    free = () => freeBytesSync(directory),
  }: { directory: string; scratch: string; free?: () => number },
): void {
  db.pragma("wal_checkpoint(TRUNCATE)");
  const { total, free: unused, bytes } = freePageStore(db).readPageCounts();
  const needed = 2 * (total - unused) * bytes + MARGIN_BYTES;
  const available = free();
  if (available < needed) throw new NoSpaceForVacuumError(directory, needed, available);
  // Our connections keep temporary tables in memory; this one may exceed it. SQLite has one such directory per process.
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
