/**
 * Packed bundles and inputs: small ones in the database, larger ones in evidence storage (store/policies/
 * rego-documents.ts). A large one is durable before the row that names it is written.
 */
import { hash } from "node:crypto";
import { Readable, pipeline } from "node:stream";
import { createGunzip } from "node:zlib";
import { DamagedEvidenceError } from "../evidence/errors.ts";
import type { EvidenceStore, Staged } from "../evidence/local-store.ts";
import { MAX_ROW_CONTENT_BYTES } from "../store/policies/rego-documents.ts";
import type { RegoDocumentRow } from "../store/policies/rego-documents.ts";
import type { StoreReader } from "../store/reader.ts";

/** Inclusive offsets. */
type ByteRange = { start: number; end: number };

type EvidenceFiles = Pick<EvidenceStore, "stageBytes" | "discard"> & {
  /** As the reader of evidence opens a file (contract/evidence-reader.ts). */
  open(file: { digest: string; size: number }, range: ByteRange | null): Promise<Readable>;
};

/** Rows in the order of the documents; files that are staged for them. */
export type StagedDocuments = { rows: RegoDocumentRow[]; staged: Staged[] };

export type RegoDocuments = ReturnType<typeof createRegoDocuments>;

export function createRegoDocuments(store: Pick<StoreReader, "regoDocuments">, evidence: EvidenceFiles) {
  function get(digest: string): RegoDocumentRow {
    const row = store.regoDocuments.find(digest);
    if (!row) throw new Error(`document ${digest} of an evaluation is gone`);
    return row;
  }

  /** @throws DamagedEvidenceError, MissingEvidenceError, EvidenceUnavailableError */
  async function open(digest: string, range: ByteRange | null = null): Promise<Readable> {
    const { size, content } = get(digest);
    if (content === null) return evidence.open({ digest, size }, range);
    const actual = hash("sha256", content);
    if (actual !== digest)
      throw new DamagedEvidenceError(digest, `its content in the database has the digest ${actual}`);
    return Readable.from([range ? content.subarray(range.start, range.end + 1) : content]);
  }

  async function read(digest: string): Promise<Buffer> {
    const blocks: Buffer[] = [];
    for await (const block of await open(digest)) blocks.push(block as Buffer);
    return Buffer.concat(blocks);
  }

  return {
    /**
     * Packed documents on their way to the write that records what names them: insert their `rows` there, and publish
     * what is `staged` around it (Operation.stages).
     * @throws EvidenceUnavailableError, ErrnoException; nothing stays staged then
     */
    async stage(packed: readonly Buffer[]): Promise<StagedDocuments> {
      const staged: Staged[] = [];
      try {
        const rows: RegoDocumentRow[] = [];
        for (const content of packed) {
          const size = content.length;
          if (size <= MAX_ROW_CONTENT_BYTES) {
            rows.push({ digest: hash("sha256", content), size, content });
            continue;
          }
          const file = await evidence.stageBytes(content);
          staged.push(file);
          rows.push({ digest: file.digest, size, content: null });
        }
        return { rows, staged };
      } catch (error) {
        await evidence.discard(staged);
        throw error;
      }
    },
    /** The size in bytes of a packed document, which must exist. */
    sizeOf: (digest: string): number => get(digest).size,
    /**
     * A packed document, or a range of it, as a stream, checked: a damaged one fails before its last block.
     * @throws as `read`
     */
    open,
    /** A packed document. @throws DamagedEvidenceError, MissingEvidenceError, EvidenceUnavailableError */
    read,
    /** An unpacked document, or a range of it, as a stream. @throws as `read` */
    openUnpacked: async (digest: string, range: ByteRange | null = null): Promise<Readable> => {
      const packed = await open(digest);
      const unpacked = createGunzip();
      // The failure of either end is that of the result, and closing the result closes the source.
      pipeline(packed, unpacked, () => undefined);
      return range === null ? unpacked : Readable.from(cut(unpacked, range));
    },
  };
}

/** The bytes of a range. */
async function* cut(source: Readable, { start, end }: ByteRange): AsyncGenerator<Buffer> {
  let at = 0;
  for await (const block of source as AsyncIterable<Buffer>) {
    const part = block.subarray(Math.max(0, start - at), Math.max(0, end + 1 - at));
    at += block.length;
    if (part.length > 0) yield part;
    if (at > end) return;
  }
}
