/**
 * The content of small evidence files, in the database. A row is durable together with the attestation that names it,
 * and triggers remove it with the last one (schema.sql).
 */
import type { Db } from "../db/types.ts";

/** Content in the database: its SHA-256 in hex, and its size in bytes. */
type SmallFile = { digest: string; size: number };

export type SmallEvidence = ReturnType<typeof smallEvidenceStore>;

export function smallEvidenceStore(db: Db) {
  const insert = db.prepare<[string, Buffer]>(
    "INSERT INTO small_evidence (digest, content) VALUES (?, ?) ON CONFLICT (digest) DO NOTHING",
  );
  const find = db.prepare<[string], Buffer>("SELECT content FROM small_evidence WHERE digest = ?").pluck();
  const size = db.prepare<[string], number>("SELECT length(content) FROM small_evidence WHERE digest = ?").pluck();
  const page = db.prepare<[string, number], SmallFile>(
    "SELECT digest, length(content) AS size FROM small_evidence WHERE digest > ? ORDER BY digest LIMIT ?",
  );
  return {
    /**
     * Keeps content of at most 65,536 bytes, unless its digest is there. Runs in the transaction that records the
     * attestation.
     * @param digest SHA-256 of `content`, in hex
     */
    insert: (digest: string, content: Buffer): void => void insert.run(digest, content),
    /** The content with this digest; null where the database does not hold it. The caller compares its digest. */
    find: (digest: string): Buffer | null => find.get(digest) ?? null,
    /** The size in bytes of the content with this digest; null where the database does not hold it. */
    sizeOf: (digest: string): number | null => size.get(digest) ?? null,
    /** At most `limit` of all contents, ordered by digest, after the digest `after`. */
    list: (after: string, limit: number): SmallFile[] => page.all(after, limit),
  };
}
