/**
 * Where evidence files are stored, recorded in the database, so that a server with another setting is noticed; and the
 * files that records need: the evidence of attestations, and the documents of Rego evaluations. Content that is in the
 * database (small_evidence, rego_documents) needs no file. A backup, a restore and the doctor ask in databases of any
 * schema version, without a store.
 */
import { hash } from "node:crypto";
import type { Db, DbReader, SchemaSources } from "../db/types.ts";

/** The location of evidence kept in the data directory, not in object storage. */
export const IN_DIRECTORY = "directory";

/** A file of evidence storage that records need: its SHA-256 in hex and its size in bytes. */
export type NamedFile = { digest: string; size: number };

const PLACE = "SELECT place FROM evidence_place WHERE id = 1";
const ANY = "SELECT 1 FROM evidence_totals WHERE files > in_database";
/** For schemas before small_evidence. */
const ANY_NAMED = "SELECT 1 FROM attestations WHERE evidence_digest IS NOT NULL LIMIT 1";

const hasTable = (db: DbReader, name: string): boolean =>
  db.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?").get(name) !== undefined;

/** Whether the database can hold content of evidence; it has the table since migration 0007. */
const hasSmallEvidence = (db: DbReader): boolean => hasTable(db, "small_evidence");

/** Whether the database can have documents of Rego evaluations; it has the table since migration 0012. */
const hasRegoDocuments = (db: Db): boolean => hasTable(db, "rego_documents");

/** Those that no attestation names too. */
const REGO_FILES = `UNION ALL
  SELECT digest, size FROM rego_documents WHERE content IS NULL AND digest > @after
    AND NOT EXISTS (SELECT 1 FROM attestations WHERE evidence_digest = digest)`;

/**
 * Selects each file that records need once, as NamedFile ordered by digest, in a database of any schema version;
 * `@after` is the digest after which it begins. Every part is read in the order of an index, so that nothing is sorted.
 */
const namedFilesSql = (db: Db): string => `
  SELECT evidence_digest AS digest, evidence_size AS size FROM attestations AS att
  WHERE evidence_digest IS NOT NULL AND evidence_digest > @after
    AND NOT EXISTS (SELECT 1 FROM attestations WHERE evidence_digest = att.evidence_digest AND id < att.id)
    ${hasSmallEvidence(db) ? "AND NOT EXISTS (SELECT 1 FROM small_evidence WHERE digest = att.evidence_digest)" : ""}
  ${hasRegoDocuments(db) ? REGO_FILES : ""}
  ORDER BY digest`;

/** Whether any record needs a file, in a database of any schema version. */
const hasFiles = (db: DbReader): boolean => db.prepare(hasSmallEvidence(db) ? ANY : ANY_NAMED).get() !== undefined;

/** Before migration 0004 there was only the directory, and no table. */
const hasPlace = (db: DbReader): boolean => hasTable(db, "evidence_place");

/** As `findCurrent` of the store, for a database of any schema version. */
export function findRecordedLocation(db: DbReader): string | null {
  const place = hasPlace(db) ? db.prepare<[], string>(PLACE).pluck().get() : undefined;
  return place ?? (hasFiles(db) ? IN_DIRECTORY : null);
}

/**
 * The location that a server must be started with, for a database of any schema version; null where any will do,
 * because no record needs a file.
 */
export const findRequiredLocation = (db: DbReader): string | null => (hasFiles(db) ? findRecordedLocation(db) : null);

/** Makes the data directory the location again, in a database of any schema version. */
export function clearLocation(db: Db): void {
  if (hasPlace(db)) db.prepare("DELETE FROM evidence_place").run();
}

export function evidenceLocationStore(db: Db, sources: SchemaSources) {
  const current = db.prepare<[], string>(PLACE).pluck();
  const set = db.prepare<[string, number]>(
    `INSERT INTO evidence_place (id, place, since) VALUES (1, ?, ?)
     ON CONFLICT (id) DO UPDATE SET place = excluded.place, since = excluded.since`,
  );
  const any = db.prepare<[], 1>(ANY).pluck();
  const page = db.prepare<[{ after: string; limit: number }], NamedFile>(`${namedFilesSql(db)} LIMIT @limit`);
  const reference = db.prepare<[{ digest: string }], 1>(
    `SELECT 1 WHERE EXISTS (SELECT 1 FROM attestations WHERE evidence_digest = @digest
         AND NOT EXISTS (SELECT 1 FROM small_evidence WHERE digest = @digest))
       OR EXISTS (SELECT 1 FROM rego_documents WHERE digest = @digest AND content IS NULL)`,
  );
  return {
    /** `directory` or an s3:// URL; null when none was recorded and no record needs a file: then the directory. */
    findCurrent: (): string | null => current.get() ?? (any.get() === undefined ? null : IN_DIRECTORY),
    /** Whether any record needs a file. */
    hasEvidence: (): boolean => any.get() !== undefined,
    set: (place: string): void => void set.run(place, sources.now()),
    /** The files that records need, once each: at most `limit`, ordered by digest, after the digest `after`. */
    listFiles: (after: string, limit: number): NamedFile[] => page.all({ after, limit }),
    /** Whether any record needs the file with this SHA-256 (hex): the database does not hold its content. */
    isReferenced: (digest: string): boolean => reference.get({ digest }) !== undefined,
  };
}

/**
 * Every evidence file that rows need, once each, ordered by digest. The connection is busy until the iterator ends.
 */
export const listNamedFiles = (db: Db): IterableIterator<NamedFile> =>
  db.prepare<[{ after: string }], NamedFile>(namedFilesSql(db)).iterate({ after: "" });

/** The digests of all content in the database that differs from its digest. The connection is busy meanwhile. */
export function* listDamagedContent(db: Db): Generator<string> {
  const tables = [
    ...(hasSmallEvidence(db) ? ["SELECT digest, content FROM small_evidence"] : []),
    ...(hasRegoDocuments(db) ? ["SELECT digest, content FROM rego_documents WHERE content IS NOT NULL"] : []),
  ];
  for (const sql of tables) {
    const rows = db.prepare<[], { digest: string; content: Buffer }>(sql);
    for (const { digest, content } of rows.iterate()) if (hash("sha256", content) !== digest) yield digest;
  }
}

/** How many evidence files rows need, and their total size in bytes. */
export function countNamedFiles(db: Db): { files: number; bytes: number } {
  let [files, bytes] = [0, 0];
  for (const { size } of listNamedFiles(db)) {
    files += 1;
    bytes += size;
  }
  return { files, bytes };
}
