/**
 * The number of commits of a database: how a start notices that acknowledged commits are missing.
 *
 * A damaged write-ahead log looks to SQLite like one that ends earlier: it drops the commits from there on and reports
 * nothing. So each commit raises a number in the database, and after it, before anybody hears of it, the file
 * `assay.commits` (commit-file.ts). A database with a lower number than the file lost the commits in between. The file
 * is never ahead of a sound database: a kill or a power cut at any moment does not read as a loss.
 *
 * The random id of the database is in both. A copy has no number (`forgetCommitNumber`) and gets another id when it is
 * opened, so an earlier state that is restored on purpose does not read as a loss either.
 */
import { dirname } from "node:path";
import { withPath } from "../../domain/text/system-errors.ts";
import { acknowledgedNumber, openCommitFile, readCommitFile } from "./commit-file.ts";
import type { CommitFile, CommitMark } from "./commit-file.ts";
import type { Db, DbReader } from "./types.ts";

/** The database lacks commits that were acknowledged, and the operator has not accepted that. Nothing was changed. */
export class LostCommitsError extends Error {
  override readonly name = "LostCommitsError";

  constructor(missing: number) {
    super(`${describeLoss(missing)}; nothing was changed. ${REMEDY}`);
  }
}

const REMEDY =
  "The operator can restore a backup (assay help restore), or go on without them: assay accept-loss --data DIRECTORY";

/** The loss as a clause. */
export const describeLoss = (missing: number): string =>
  missing === 1
    ? "the database lacks 1 commit that was acknowledged"
    : `the database lacks ${missing} commits that were acknowledged`;

/** Why a server does not accept changes, as the end of a sentence. */
export const lossReason = (missing: number): string =>
  `${describeLoss(missing)}, because its write-ahead log was damaged or removed, or an older database was put in its ` +
  `place. ${REMEDY}`;

export type CommitNumbering = {
  /**
   * Raises the number of the open transaction, if it changed a row. Call it right before COMMIT.
   * @returns the number; null if no row was changed
   * @throws LostCommitsError while commits are missing
   */
  advance(): number | null;
  /** Raises the file. Call it when the commit is durable, before anybody hears of it. Never throws. */
  record(number: number): void;
  /** How many commits are missing. */
  missing(): number;
  /** Goes on from the latest acknowledged number: nothing is missing after the commit. Call it inside a transaction. */
  accept(): void;
  close(): void;
};

type NumberingOptions = {
  /** Called with the first error of the file, and with null when it can be written again. */
  onFile?(error: unknown): void;
  /** Whether this process serves the directory: it repairs a file that is damaged or of another database. */
  isServer?: boolean;
};

/** Numbers the commits of a connection to a database file, whose number exists (`ensureCommitNumber`). */
export function openCommitNumbering(
  db: Db,
  { onFile = () => undefined, isServer = false }: NumberingOptions = {},
): CommitNumbering {
  const start = readCommitMark(db);
  // Tests open databases of earlier schemas, and in memory.
  if (start === null || db.memory) return UNNUMBERED;
  const { databaseId } = start;
  const directory = dirname(db.name);
  const changes = db.prepare<[], number>("SELECT total_changes()").pluck();
  const raise = db.prepare<[], number>("UPDATE commit_number SET number = number + 1 RETURNING number").pluck();
  const read = db.prepare<[], number>("SELECT number FROM commit_number").pluck();
  const set = db.prepare<[number]>("UPDATE commit_number SET number = max(number, ?)");

  const contents = readCommitFile(directory);
  /** The latest commit that was acknowledged when the connection was opened. */
  const acknowledged = acknowledgedNumber(contents, databaseId);
  const missing = (): number => Math.max(0, acknowledged - (read.get() ?? 0));
  let [changesBefore, isFailing] = [changes.get() ?? 0, false];
  let file: CommitFile | null = null;

  function write(number: number): void {
    try {
      const isReset = isServer && acknowledged === 0;
      file ??= openCommitFile(directory, { databaseId, number }, { isReset });
      file.write({ databaseId, number });
      if (isFailing) onFile(null);
      isFailing = false;
    } catch (error) {
      // The commit is durable. Without its number, only this check of it is lost.
      if (!isFailing) onFile(error);
      isFailing = true;
    }
  }
  if (isServer && missing() === 0) write(start.number);

  return {
    advance() {
      const total = changes.get() ?? 0;
      if (total === changesBefore) return null;
      const number = raise.get() ?? 0;
      changesBefore = total + 1;
      if (number <= acknowledged) throw new LostCommitsError(acknowledged - number + 1);
      return number;
    },
    record: write,
    missing,
    accept: () => void set.run(acknowledged),
    close: () => file?.close(),
  };
}

/** False where the file has been damaged, or has marks of other databases only. A file that is missing is usable. */
export function isCommitFileUsable(directory: string, db: DbReader): boolean {
  const contents = readCommitFile(directory);
  const mark = readCommitMark(db);
  if (contents === null || mark === null) return true;
  const isForeign =
    contents.marks.length > 0 && contents.marks.every(({ databaseId }) => databaseId !== mark.databaseId);
  return !contents.isDamaged && !isForeign;
}

const UNNUMBERED: CommitNumbering = {
  advance: () => null,
  record: () => undefined,
  missing: () => 0,
  accept: () => undefined,
  close: () => undefined,
};

/**
 * Runs `work` in one write transaction and numbers its commit. `acceptsLoss`: commits that are missing now are not
 * missing any more afterwards.
 * @throws LostCommitsError, every error of `work`, SQLITE_BUSY
 */
export function runNumbered<T>(db: Db, work: () => T, { acceptsLoss = false } = {}): T {
  const numbering = openCommitNumbering(db);
  try {
    const { value, number } = db
      .transaction(() => {
        const value = work();
        if (acceptsLoss) numbering.accept();
        return { value, number: numbering.advance() };
      })
      .immediate();
    if (number !== null) numbering.record(number);
    return value;
  } catch (error) {
    throw withPath(error, db.name);
  } finally {
    numbering.close();
  }
}

/**
 * As runNumbered, for work that waits between its statements. Nothing else may use the connection meanwhile; statements
 * of the work that begin a transaction of their own need a savepoint.
 */
export async function runNumberedSteps<T>(db: Db, work: () => Promise<T>): Promise<T> {
  const numbering = openCommitNumbering(db);
  try {
    db.exec("BEGIN IMMEDIATE");
    const value = await work();
    const number = numbering.advance();
    db.exec("COMMIT");
    if (number !== null) numbering.record(number);
    return value;
  } catch (error) {
    throw withPath(error, db.name);
  } finally {
    if (db.inTransaction) db.exec("ROLLBACK");
    numbering.close();
  }
}

const hasTable = (db: DbReader): boolean =>
  db.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'commit_number'").get() !== undefined;

/** The id and the number of a database; null before schema 9, and for a copy that was not opened yet. */
export function readCommitMark(db: DbReader): CommitMark | null {
  if (!hasTable(db)) return null;
  const row = db.prepare<[], CommitMark>("SELECT database_id AS databaseId, number FROM commit_number").get();
  return row ?? null;
}

/**
 * Gives a new database, and a copy, its id. It is in the main file when this returns: a log that is damaged later does
 * not take the id with it.
 */
export function ensureCommitNumber(db: Db): void {
  if (readCommitMark(db) !== null || !hasTable(db)) return;
  db.exec(
    "INSERT INTO commit_number (id, database_id, number) VALUES (1, lower(hex(randomblob(16))), 0) " +
      "ON CONFLICT (id) DO NOTHING",
  );
  db.pragma("wal_checkpoint(TRUNCATE)");
}

/** Makes a copy a database of its own: its number is not compared with any file. */
export function forgetCommitNumber(copy: Db): void {
  if (hasTable(copy)) copy.exec("DELETE FROM commit_number");
}
