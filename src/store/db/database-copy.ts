/** Copies of the database as single files: how they are made and checked, and what evidence they name. */
import { hash } from "node:crypto";
import { withPath } from "../../domain/text/system-errors.ts";
import { hasSmallEvidence } from "../attestations/evidence-location.ts";
import { forgetCommitNumber } from "./commit-number.ts";
import { openCopy } from "./connection.ts";
import { DamagedDatabaseError, isDamage, requireSchema } from "./database.ts";
import type { Db } from "./types.ts";

/** Pages copied in one step: 2 MiB at 4 KiB a page. The event loop runs between two steps. */
const PAGES_PER_STEP = 512;

/** The schema version of a copy, and the row count of each table, by table name. */
export type CopyContents = { schemaVersion: number; rows: Record<string, number> };

/** An evidence file that rows need, because the database does not hold its content: SHA-256 in hex, size in bytes. */
export type EvidenceReference = { digest: string; size: number };

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

/**
 * Every evidence file that rows need, once each, ordered by digest. The connection is busy until the iterator ends.
 */
export const listEvidenceReferences = (db: Db): IterableIterator<EvidenceReference> =>
  db
    .prepare<[], EvidenceReference>(
      `SELECT evidence_digest AS digest, max(evidence_size) AS size FROM attestations
       WHERE evidence_digest IS NOT NULL
         ${hasSmallEvidence(db) ? "AND NOT EXISTS (SELECT 1 FROM small_evidence WHERE digest = evidence_digest)" : ""}
       GROUP BY evidence_digest ORDER BY evidence_digest`,
    )
    .iterate();

/** The digests of all content in the database that differs from its digest. The connection is busy meanwhile. */
export function* listDamagedContent(db: Db): Generator<string> {
  if (!hasSmallEvidence(db)) return;
  const rows = db.prepare<[], { digest: string; content: Buffer }>("SELECT digest, content FROM small_evidence");
  for (const { digest, content } of rows.iterate()) if (hash("sha256", content) !== digest) yield digest;
}

/** How many evidence files rows need, and their total size in bytes. */
export function countEvidenceReferences(db: Db): { files: number; bytes: number } {
  let [files, bytes] = [0, 0];
  for (const { size } of listEvidenceReferences(db)) {
    files += 1;
    bytes += size;
  }
  return { files, bytes };
}
