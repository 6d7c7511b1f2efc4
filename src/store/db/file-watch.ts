/**
 * Notices that the files of an open database were replaced, removed, cut or overwritten. SQLite goes on with the files
 * that it has open, so commits would be acknowledged that no later start finds. Three files belong together: the
 * database, its write-ahead log, and the index of the log, which holds the locks. While a connection is open, SQLite
 * itself keeps all three under their names, also when it empties the log.
 *
 * One look costs three calls of stat(2) and one of pread(2), some six microseconds.
 */
import { closeSync, openSync, readSync, statSync } from "node:fs";
import type { BigIntStats } from "node:fs";
import { join } from "node:path";
import { FILE_HEADER_BYTES, parseFileHeader } from "./file-header.ts";
import type { Db } from "./types.ts";

export type FileWatch = {
  /**
   * Looks at the files. Once something was wrong, it stays wrong until `recheck`.
   * @returns what is wrong, as the end of a sentence; null if nothing is
   */
  check(): string | null;
  /** As `check`, but accepts the original files if they are back under their names and nothing has written to them. */
  recheck(): string | null;
  /** What was wrong at the latest look, without a look. */
  problem(): string | null;
  /** Whether the database may be written from the log: only if the file is the one that belongs to the log. */
  mayCheckpoint(): boolean;
  /**
   * Copies the log into the database, if the log alone is gone: it exists only as long as this process has it open.
   * Call it outside a transaction.
   * @returns whether everything committed is in the database file; null where that must not be tried
   */
  saveLog(): boolean | null;
  /** Call it after the database was closed: closing a file drops the locks that SQLite has on it in this process. */
  close(): void;
};

const FILES = ["assay.db", "assay.db-wal", "assay.db-shm"] as const;
type File = (typeof FILES)[number];

const STAT = { bigint: true, throwIfNoEntry: false } as const;

/** Starts to watch the files of a database that was just opened in WAL mode. @throws the system's error */
export function openFileWatch(db: Db, directory: string): FileWatch {
  // The first read opens the log and its index.
  db.prepare("SELECT count(*) FROM sqlite_schema").get();
  const paths = FILES.map((name) => join(directory, name));
  const statOf = (index: number): BigIntStats | undefined => statSync(paths[index] as string, STAT);
  const originals = paths.map((_path, index) => statOf(index));
  const dataVersion = db.prepare<[], number>("PRAGMA data_version").pluck();
  const descriptor = openSync(paths[0] as string, "r");
  const header = createHeaderCheck(descriptor);
  /** The latest look at which everything was right. */
  let good: { database: BigIntStats | undefined; log: BigIntStats | undefined } = {
    database: originals[0],
    log: originals[1],
  };
  let problem: { file: File; text: string; dataVersion: number | undefined } | null = null;

  /** @throws the system's error */
  function look(): { file: File; text: string } | null {
    const [database, log, index] = [statOf(0), statOf(1), statOf(2)];
    for (const [at, found] of [database, log, index].entries()) {
      const file = FILES[at] as File;
      if (!found) return { file, text: `${file} was removed or moved away` };
      const original = (originals[at] ??= found);
      if (!isSameFile(found, original)) return { file, text: `${file} was replaced by another file` };
    }
    // The second look is for a page that a checkpoint was just writing.
    if (!header.isRight(sizeOf(database)) && !header.isRight(sizeOf(statOf(0))))
      return { file: "assay.db", text: "assay.db was cut or overwritten" };
    good = { database, log };
    return null;
  }

  const textOf = (): string | null =>
    problem && `${problem.text} while the server was running (assay help database-files)`;

  function check(): string | null {
    if (problem) return textOf();
    const found = lookSafely();
    if (found) problem = { ...found, dataVersion: dataVersion.get() };
    return textOf();
  }

  function lookSafely(): { file: File; text: string } | null {
    try {
      return look();
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code ?? String(error);
      return { file: "assay.db", text: `assay.db could not be looked at (${code})` };
    }
  }

  const areOriginalsBack = (): boolean =>
    FILES.every((_file, at) => isSameFile(statOf(at), originals[at])) &&
    isDatabaseUntouched() &&
    isUnchanged(statOf(1), good.log);

  const isDatabaseUntouched = (): boolean => isUnchanged(statOf(0), good.database);

  return {
    check,
    recheck() {
      try {
        if (problem && areOriginalsBack() && problem.dataVersion === dataVersion.get()) problem = null;
      } catch {
        return textOf();
      }
      return check();
    },
    problem: textOf,
    mayCheckpoint: () => check() === null || (problem?.file === "assay.db-wal" && isDatabaseUntouched()),
    saveLog() {
      const index = statOf(2);
      if (problem?.file !== "assay.db-wal" || !isDatabaseUntouched()) return null;
      // Another index: another process has opened the database, and its locks are not ours.
      if (index && !isSameFile(index, originals[2])) return null;
      const [result] = db.pragma("wal_checkpoint(PASSIVE)") as { busy: number; log: number; checkpointed: number }[];
      good = { ...good, database: statOf(0) };
      return result?.busy === 0 && result.log === result.checkpointed;
    },
    close: () => closeSync(descriptor),
  };
}

const sizeOf = (stats: BigIntStats | undefined): number => Number(stats?.size ?? 0);

const isSameFile = (one: BigIntStats | undefined, other: BigIntStats | undefined): boolean =>
  one !== undefined && other !== undefined && one.ino === other.ino && one.dev === other.dev;

const isUnchanged = (one: BigIntStats | undefined, other: BigIntStats | undefined): boolean =>
  isSameFile(one, other) && one?.size === other?.size && one?.mtimeNs === other?.mtimeNs;

/**
 * Checks the first page of the database file, as checkpoints have written it: the file is at least as long as it says,
 * and its change counter, which SQLite raises with every change of that page, never goes back.
 */
function createHeaderCheck(descriptor: number): { isRight(bytes: number): boolean } {
  const buffer = Buffer.alloc(FILE_HEADER_BYTES);
  let [lastPages, lastCounter] = [0, null as number | null];
  return {
    isRight(bytes) {
      const length = readSync(descriptor, buffer, 0, FILE_HEADER_BYTES, 0);
      const header = length === FILE_HEADER_BYTES ? parseFileHeader(buffer) : null;
      if (!header) return false;
      const { pages, pageSize, changeCounter } = header;
      // A checkpoint that runs now has written the first page, and writes those that it appends later.
      if (bytes < Math.min(pages, lastPages) * pageSize) return false;
      // Both are 32 bits, and wrap around.
      if (lastCounter !== null && ((changeCounter - lastCounter) | 0) < 0) return false;
      lastPages = Math.min(pages, Math.floor(bytes / pageSize));
      lastCounter = changeCounter;
      return true;
    },
  };
}
