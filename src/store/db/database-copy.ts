/** Copies of the database as single files: how they are made and checked. */
import { withPath } from "../../domain/text/system-errors.ts";
import { forgetCommitNumber } from "./commit-number.ts";
import { openCopy } from "./connection.ts";
import { DamagedDatabaseError, isDamage, requireSchema } from "./database.ts";
import type { Db } from "./types.ts";

/** Pages copied in one step: 2 MiB at 4 KiB a page. The event loop runs between two steps. */
const PAGES_PER_STEP = 512;

/** The schema version of a copy, and the row count of each table, by table name. */
export type CopyContents = { schemaVersion: number; rows: Record<string, number> };

/**
 * Copies the database, as of the moment of the call, to `file`, which must exist and be empty. The copy needs no
 * write-ahead log beside it, and gets its own commit number. After an error the caller removes the file.
 * @param onProgress called with the bytes copied so far and the total.
 * @throws DamagedDatabaseError, the reason of the abort signal, the driver's errors.
 */
export async function copyDatabase(
  db: Db,
  file: string,
  { onProgress, signal }: { onProgress(done: number, total: number): void; signal: AbortSignal },
): Promise<void> {
  const page = db.pragma("page_size", { simple: true }) as number;
  db.exec("BEGIN");
  try {
    // BEGIN is deferred: the first read starts the transaction.
    db.prepare("SELECT count(*) FROM sqlite_schema").get();
    await db.backup(file, {
      progress({ totalPages, remainingPages }) {
        signal.throwIfAborted();
        onProgress((totalPages - remainingPages) * page, totalPages * page);
        return PAGES_PER_STEP;
      },
    });
  } catch (error) {
    throw isDamage(error) ? new DamagedDatabaseError([error.message]) : withPath(error, file);
  } finally {
    if (db.inTransaction) db.exec("COMMIT");
  }
  // The copied header says that the database is in WAL mode.
  const copy = openCopy(file, { readonly: false });
  try {
    copy.pragma("journal_mode = DELETE");
    forgetCommitNumber(copy);
  } finally {
    copy.close();
  }
}

/**
 * Checks the schema and every page of a copy. `thorough` also compares each index with its table and each foreign key
 * with its target, which takes about ten times as long.
 * @throws DamagedDatabaseError with at most 20 problems of a kind.
 */
export function checkCopy(file: string, { thorough }: { thorough: boolean }): CopyContents {
  try {
    const db = openCopy(file);
    try {
      // First, because the other checks run what is in the schema.
      requireSchema(db);
      const check = db.pragma(thorough ? "integrity_check(20)" : "quick_check(20)") as Record<string, string>[];
      const problems = check.flatMap((row) => Object.values(row)).filter((text) => text !== "ok");
      const dangling =
        thorough && problems.length === 0
          ? (db.pragma("foreign_key_check") as { table: string; parent: string }[])
          : [];
      for (const { table, parent } of dangling.slice(0, 20))
        problems.push(`a row of ${table} refers to a row of ${parent} that does not exist`);
      if (problems.length > 0) throw new DamagedDatabaseError(problems);
      return readContents(db);
    } finally {
      db.close();
    }
  } catch (error) {
    throw isDamage(error) ? new DamagedDatabaseError([error.message]) : error;
  }
}

function readContents(db: Db): CopyContents {
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
