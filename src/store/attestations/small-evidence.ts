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
  // Without recursive triggers, REPLACE removes the damaged row without the triggers that guard it; the one that counts
  // the new row counts it again.
  const replace = db.prepare<[string, Buffer]>("INSERT OR REPLACE INTO small_evidence (digest, content) VALUES (?, ?)");
  const uncount = db.prepare<[number]>(
    "UPDATE evidence_totals SET in_database = in_database - 1, bytes_in_database = bytes_in_database - ?",
  );
  const find = db.prepare<[string], Buffer>("SELECT content FROM small_evidence WHERE digest = ?").pluck();
  const size = db.prepare<[string], number>("SELECT length(content) FROM small_evidence WHERE digest = ?").pluck();
  const page = db.prepare<[string, number], SmallFile>(
    "SELECT digest, length(content) AS size FROM small_evidence WHERE digest > ? ORDER BY digest LIMIT ?",
  );
  return {
    /**
     * Keeps content of at most 65,536 bytes. If its digest is there with other content, which only damage of the
     * database explains, that is replaced. Runs in the transaction that records the attestation.
     * @param digest SHA-256 of `content`, in hex
     * @returns whether damaged content was replaced
     */
    insert(digest: string, content: Buffer): boolean {
      if (insert.run(digest, content).changes > 0 || find.get(digest)?.equals(content)) return false;
      replace.run(digest, content);
      uncount.run(content.length);
      return true;
    },
    /** The content with this digest; null where the database does not hold it. The caller compares its digest. */
    find: (digest: string): Buffer | null => find.get(digest) ?? null,
    /** The size in bytes of the content with this digest; null where the database does not hold it. */
    sizeOf: (digest: string): number | null => size.get(digest) ?? null,
    /** At most `limit` of all contents, ordered by digest, after the digest `after`. */
    list: (after: string, limit: number): SmallFile[] => page.all(after, limit),
  };
}
