import { openCopy } from "./database.ts";
import type { Db } from "./types.ts";

/** Pages that are copied in one step: two megabytes. */
const PAGES_PER_STEP = 512;

/** A database, or a copy of one, is damaged; each problem is one line. */
export class DamagedDatabaseError extends Error {
  override readonly name = "DamagedDatabaseError";
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`the database is damaged: ${problems.join("; ")}`);
    this.problems = problems;
  }
}

/** What a copy has: its schema version, and the number of rows of each table in the order of their names. */
export type CopyContents = { schemaVersion: number; rows: Record<string, number> };

/** Evidence that rows name: the SHA-256 of a file and its size in bytes. */
export type EvidenceReference = { digest: string; size: number };

/** The size of the database in bytes. */
export const sizeOf = (db: Db): number =>
  (db.pragma("page_count", { simple: true }) as number) * (db.pragma("page_size", { simple: true }) as number);

/**
 * Copies the database to `file`, which must exist and be empty, as a file that needs no log beside it. What is in it is
 * that of the moment of the call. Whatever fails, the caller removes the file.
 * @param reached is told bytes as they are copied.
 * @throws DamagedDatabaseError, what the signal was aborted with, the driver's errors.
 */
export async function copyDatabase(
  db: Db,
  file: string,
  { reached, signal }: { reached(done: number, total: number): void; signal: AbortSignal },
): Promise<void> {
  const page = db.pragma("page_size", { simple: true }) as number;
  db.exec("BEGIN");
  try {
    // The transaction begins with the first read.
    db.prepare("SELECT count(*) FROM sqlite_schema").get();
    await db.backup(file, {
      progress({ totalPages, remainingPages }) {
        signal.throwIfAborted();
        reached((totalPages - remainingPages) * page, totalPages * page);
        return PAGES_PER_STEP;
      },
    });
  } catch (error) {
    throw isDamage(error) ? new DamagedDatabaseError([error.message]) : error;
  } finally {
    if (db.inTransaction) db.exec("COMMIT");
  }
  // What was copied says that there is a log beside it.
  const copy = openCopy(file, false);
  try {
    copy.pragma("journal_mode = DELETE");
  } finally {
    copy.close();
  }
}

/**
 * Looks at every page of a copy. `thorough` also compares each index with its table and each reference with the row
 * that it names, which takes some ten times as long.
 * @throws DamagedDatabaseError
 */
export function checkCopy(file: string, thorough: boolean): CopyContents {
  try {
    const db = openCopy(file);
    try {
      const check = db.pragma(thorough ? "integrity_check(20)" : "quick_check(20)", { simple: false }) as Record<
        string,
        string
      >[];
      const problems = check.flatMap((row) => Object.values(row)).filter((text) => text !== "ok");
      const astray =
        thorough && problems.length === 0
          ? (db.pragma("foreign_key_check") as { table: string; parent: string }[])
          : [];
      for (const { table, parent } of astray.slice(0, 20))
        problems.push(`a row of ${table} names one of ${parent} that is not there`);
      if (problems.length > 0) throw new DamagedDatabaseError(problems);
      return contentsOf(db);
    } finally {
      db.close();
    }
  } catch (error) {
    throw isDamage(error) ? new DamagedDatabaseError([error.message]) : error;
  }
}

function contentsOf(db: Db): CopyContents {
  const tables = db
    .prepare<[], string>(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
    )
    .pluck()
    .all();
  const rows = tables.map((name): [string, number] => [
    name,
    db.prepare<[], number>(`SELECT count(*) FROM "${name}"`).pluck().get() ?? 0,
  ]);
  return { schemaVersion: db.pragma("user_version", { simple: true }) as number, rows: Object.fromEntries(rows) };
}

/**
 * All evidence that rows name, each once, in the order of the digests. The connection is busy until the last one was
 * taken.
 */
export const listEvidenceReferences = (db: Db): IterableIterator<EvidenceReference> =>
  db
    .prepare<[], EvidenceReference>(
      "SELECT evidence_digest AS digest, max(evidence_size) AS size FROM attestations WHERE evidence_digest IS NOT NULL GROUP BY evidence_digest ORDER BY evidence_digest",
    )
    .iterate();

/** How many files of evidence rows name, and their bytes. */
export function countEvidenceReferences(db: Db): { files: number; bytes: number } {
  let [files, bytes] = [0, 0];
  for (const { size } of listEvidenceReferences(db)) {
    files += 1;
    bytes += size;
  }
  return { files, bytes };
}

/** Whether SQLite says that a file is no whole database. */
const isDamage = (error: unknown): error is Error =>
  error instanceof Error && /^SQLITE_(CORRUPT|NOTADB)/.test(String((error as { code?: unknown }).code));
