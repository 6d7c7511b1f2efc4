import type { Db, SchemaSources } from "../db/types.ts";

/** The place that is no storage elsewhere: the evidence directory of the data directory. */
export const IN_DIRECTORY = "directory";

/** A file that attestations name: its SHA-256 in hex, and its size in bytes. */
export type NamedFile = { digest: string; size: number };

const PLACE = "SELECT place FROM evidence_place WHERE id = 1";
const ANY = "SELECT 1 FROM attestations WHERE evidence_digest IS NOT NULL LIMIT 1";

/** Before 0004 there was only the directory, and no table. */
const hasPlace = (db: Db): boolean =>
  db.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'evidence_place'").get() !== undefined;

/** What `current` of the store says, of a database of any schema since the first. */
export function findRecordedLocation(db: Db): string | null {
  const place = hasPlace(db) ? db.prepare<[], string>(PLACE).pluck().get() : undefined;
  return place ?? (db.prepare(ANY).get() === undefined ? null : IN_DIRECTORY);
}

/**
 * The place that a server must be started with; null where any will do, because no attestation names a file. Of a
 * database of any schema.
 */
export const findRequiredLocation = (db: Db): string | null =>
  db.prepare(ANY).get() === undefined ? null : findRecordedLocation(db);

/** Makes the directory the place again, in a database of any schema. */
export function clearLocation(db: Db): void {
  if (hasPlace(db)) db.prepare("DELETE FROM evidence_place").run();
}

export function evidenceLocationStore(db: Db, sources: SchemaSources) {
  const current = db.prepare<[], string>(PLACE).pluck();
  const set = db.prepare<[string, number]>(
    "INSERT INTO evidence_place (id, place, since) VALUES (1, ?, ?) ON CONFLICT (id) DO UPDATE SET place = excluded.place, since = excluded.since",
  );
  const any = db.prepare<[], 1>(ANY).pluck();
  const page = db.prepare<[string, number], NamedFile>(
    `SELECT evidence_digest AS digest, max(evidence_size) AS size FROM attestations
     WHERE evidence_digest IS NOT NULL AND evidence_digest > ? GROUP BY evidence_digest ORDER BY evidence_digest LIMIT ?`,
  );
  return {
    /**
     * `directory` or an s3:// URL; null while nothing says so and no attestation names a file, which means the
     * directory as well.
     */
    findCurrent: (): string | null => current.get() ?? (any.get() === undefined ? null : IN_DIRECTORY),
    /** Whether any attestation names a file. */
    hasEvidence: (): boolean => any.get() !== undefined,
    set: (place: string): void => void set.run(place, sources.now()),
    /**
     * The files that attestations name, each once, in the order of their digests: at most `limit` of them behind the
     * digest `after`.
     */
    listFiles: (after: string, limit: number): NamedFile[] => page.all(after, limit),
  };
}
