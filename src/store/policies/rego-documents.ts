/**
 * Bundles and inputs of Rego evaluations, by the SHA-256 of their compressed bytes. The content of a small one is in
 * its row; that of a larger one is a file of evidence storage, which was published before the row was written.
 *
 * Invariants: a row is written in the transaction of the first record that names it, is never changed, and a trigger
 * removes it with the last one (schema.sql).
 */
import type { Db } from "../db/types.ts";

/** Bytes up to which content is kept in its row. */
export const MAX_ROW_CONTENT_BYTES = 65_536;

/** `content` is null for a file of evidence storage; `size` in bytes. */
export type RegoDocumentRow = { digest: string; size: number; content: Buffer | null };

export function regoDocumentStore(db: Db) {
  const insert = db.prepare<[string, number, Buffer | null]>(
    "INSERT INTO rego_documents (digest, size, content) VALUES (?, ?, ?) ON CONFLICT (digest) DO NOTHING",
  );
  const find = db.prepare<[string], RegoDocumentRow>(
    "SELECT digest, size, content FROM rego_documents WHERE digest = ?",
  );
  const contentOf = db
    .prepare<[string], Buffer>("SELECT content FROM rego_documents WHERE digest = ? AND content IS NOT NULL")
    .pluck();
  const contentSize = db
    .prepare<[string], number>("SELECT size FROM rego_documents WHERE digest = ? AND content IS NOT NULL")
    .pluck();
  const removeUnused = db.prepare<[string]>(
    `DELETE FROM rego_documents AS rd WHERE digest = ?
       AND NOT EXISTS (SELECT 1 FROM rego_policy_versions WHERE bundle_digest = rd.digest)
       AND NOT EXISTS (SELECT 1 FROM rego_evaluations WHERE bundle_digest = rd.digest)
       AND NOT EXISTS (SELECT 1 FROM rego_evaluations WHERE input_digest = rd.digest)`,
  );
  return {
    /** Keeps a document, unless it is there. Call it inside the write that records what names it. */
    insert: ({ digest, size, content }: RegoDocumentRow): void => void insert.run(digest, size, content),
    /** Removes a document that no record names. Call it inside the write that inserted it. */
    removeUnused: (digest: string): void => void removeUnused.run(digest),
    /** The document with this digest; null without one. The caller compares content and digest. */
    find: (digest: string): RegoDocumentRow | null => find.get(digest) ?? null,
    /** The content of a small one; null for a file, and without one. The caller compares it with the digest. */
    findContent: (digest: string): Buffer | null => contentOf.get(digest) ?? null,
    /** The size in bytes of a small one; null as `findContent`. */
    contentSizeOf: (digest: string): number | null => contentSize.get(digest) ?? null,
  };
}
