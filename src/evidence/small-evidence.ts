/**
 * Evidence in two places: small files are rows of the database (store/attestations/small-evidence.ts), all others are
 * files of an evidence store. Every reader asks the database first: where both have the content, the file is a leftover
 * that the sweep removes.
 */
import { hash } from "node:crypto";
import { Readable } from "node:stream";
import type { StoreReader } from "../store/reader.ts";
import { DamagedEvidenceError } from "./errors.ts";
import type { EvidenceStore, StoredFile } from "./local-store.ts";

type SmallEvidence = StoreReader["smallEvidence"];

/** Rows that are read at a time. */
const PAGE_SIZE = 500;

/**
 * The content of a row, compared with its digest; null where the database does not hold it.
 * @throws DamagedEvidenceError
 */
export function findIntact(rows: Pick<SmallEvidence, "find">, digest: string): Buffer | null {
  const content = rows.find(digest);
  if (content === null) return null;
  const actual = hash("sha256", content);
  if (actual !== digest) throw new DamagedEvidenceError(digest, `its content in the database has the digest ${actual}`);
  return content;
}

/** What downloads need: a whole file or a range of inclusive byte offsets; `size` in bytes is what the row promises. */
type DownloadRequest = { digest: string; size: number; start?: number; end?: number };

type Downloads = { open(request: DownloadRequest): Promise<Readable> };

/** Opens content of the database, and everything else with `files`, whose errors it has. */
export const createCombinedReader = (rows: Pick<SmallEvidence, "find">, files: Downloads): Downloads => ({
  async open(request) {
    const { digest, size, start = 0, end = size - 1 } = request;
    const content = findIntact(rows, digest);
    if (content === null) return files.open(request);
    if (content.length !== size)
      throw new DamagedEvidenceError(digest, `it has ${content.length} bytes instead of ${size}`);
    return streamOf(content.subarray(start, end + 1));
  },
});

function streamOf(bytes: Buffer): Readable {
  const stream = new Readable({
    read() {
      stream.push(bytes);
      stream.push(null);
    },
  });
  return stream;
}

type Readings = Pick<EvidenceStore, "list" | "read" | "describe">;

/** Both places as one store to read; contents of the database have no time of their own and count as new. */
export const combineEvidence = (rows: SmallEvidence, files: Readings, now: number): Readings => ({
  async describe(digest) {
    const size = rows.sizeOf(digest);
    return size === null ? files.describe(digest) : { size };
  },
  async *read(digest) {
    const content = findIntact(rows, digest);
    if (content === null) yield* files.read(digest);
    else yield content;
  },
  list: () => mergeByDigest(listRows(rows, now), files.list()),
});

function* listRows(rows: SmallEvidence, now: number): Generator<StoredFile, undefined> {
  let page = rows.list("", PAGE_SIZE);
  while (page.length > 0) {
    for (const row of page) yield { ...row, modifiedAt: now };
    page = rows.list(page.at(-1)?.digest ?? "", PAGE_SIZE);
  }
}

/** All of both, each digest once, in the order of the digests. */
async function* mergeByDigest(
  rows: Generator<StoredFile, undefined>,
  files: AsyncIterable<StoredFile>,
): AsyncGenerator<StoredFile> {
  let row = rows.next();
  for await (const file of files) {
    for (; !row.done && row.value.digest < file.digest; row = rows.next()) yield row.value;
    if (row.done || row.value.digest !== file.digest) yield file;
  }
  for (; !row.done; row = rows.next()) yield row.value;
}
