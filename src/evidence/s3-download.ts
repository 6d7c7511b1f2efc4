/**
 * Reading objects of S3-compatible storage. A read that breaks off resumes where it stopped; its hash spans the whole
 * content, and the last block is withheld until the hash matches.
 */
import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { assertRange } from "./byte-range.ts";
import { DamagedEvidenceError, EvidenceUnavailableError, MissingEvidenceError } from "./errors.ts";
import type { Ingest } from "./ingest.ts";
import { splitDigest } from "./layout.ts";
import type { S3Client, StoredObject } from "./s3-client.ts";

/** Bytes `start` to `end`, both inclusive and from 0, the whole object by default; `size` is what the row promises. */
export type S3ReadRequest = { digest: string; start?: number; end?: number; size?: number };

/** Consecutive resumptions of a read that bring no byte. */
const MAX_RESUMES = 3;

/** A client, and what all keys begin with: "" or "PREFIX/". */
export type S3Objects = { readonly client: S3Client; readonly root: string };

export function keyOf({ root }: Pick<S3Objects, "root">, digest: string): string {
  const { shard, name } = splitDigest(digest);
  return `${root}${shard}/${name}`;
}

/** The metadata of an object; null when the storage itself says that there is none. */
export async function statObject({ client }: Pick<S3Objects, "client">, key: string): Promise<StoredObject | null> {
  const object = await client.head(key);
  if (object !== null || (await client.isMissing(key))) return object;
  throw new EvidenceUnavailableError(`HEAD ${key}: 404, but the storage lists it`);
}

/** A download: `position` is the next byte to deliver, `end` the first byte behind the last one. */
type Download = {
  readonly key: string;
  readonly digest: string;
  body: Readable;
  position: number;
  readonly end: number;
};

/** Opens an object, as `S3Store.open` says, but does not check a small object before a range of it. */
export async function openObject(
  files: S3Objects,
  ingest: Ingest,
  { digest, start = 0, end, size: expected }: S3ReadRequest,
): Promise<Readable> {
  ingest.assertOpen();
  const key = keyOf(files, digest);
  assertRange(start, end);
  const needsSize = expected === undefined && (start !== 0 || end !== undefined);
  const size = needsSize ? ((await statObject(files, key)) ?? missing(digest)).size : (expected ?? null);
  const isWhole = start === 0 && (end === undefined || end + 1 === size);
  const range = isWhole || size === null ? null : { start, end: lastByte(start, end, size) };
  const first = await fetchObject(files, { key, digest }, range);
  if (size !== null && first.total !== size) {
    first.body.destroy();
    throw new DamagedEvidenceError(digest, `it has ${first.total} bytes instead of ${size}`);
  }
  const download: Download = { key, digest, body: first.body, position: start, end: (end ?? first.total - 1) + 1 };
  const blocks = readBlocks(files, ingest, download);
  const stream = Readable.from(isWhole ? checkContent(digest, blocks) : blocks, {
    objectMode: false,
    highWaterMark: 1,
  });
  // Also for a stream that was never read.
  stream.once("close", () => void download.body.destroy());
  return stream;
}

function lastByte(start: number, end: number | undefined, size: number): number {
  const last = end ?? size - 1;
  if (start > last || last >= size)
    throw new RangeError(`bytes ${start} to ${last} are not within a file of ${size} bytes`);
  return last;
}

/** @throws MissingEvidenceError; DamagedEvidenceError where the object ends before the range */
async function fetchObject(
  { client }: S3Objects,
  { key, digest }: { key: string; digest: string },
  range: { start: number; end: number } | null,
): Promise<{ body: Readable; total: number }> {
  const response = (await client.get(key, range)) ?? missing(digest);
  if (response === "too short")
    throw new DamagedEvidenceError(digest, `it has less than ${(range?.start ?? 0) + 1} bytes`);
  return response;
}

/** The bytes of an opened object; resumes where a connection broke off. */
async function* readBlocks(
  files: S3Objects,
  ingest: Ingest,
  download: Download,
): AsyncGenerator<Buffer, void, undefined> {
  const { key, end } = download;
  for (let resumes = 0; ; ) {
    try {
      for await (const block of download.body as AsyncIterable<Buffer>) {
        download.position += block.length;
        if (download.position > end)
          throw new EvidenceUnavailableError(`GET ${key}: the response has more than ${end} bytes`);
        resumes = 0;
        yield block;
      }
      if (download.position === end) return;
      throw new EvidenceUnavailableError(`GET ${key}: it ended after ${download.position} of ${end} bytes`);
    } catch (error) {
      resumes += 1;
      if (ingest.isClosed() || resumes > MAX_RESUMES || download.position >= end) throw toReadError(download, error);
      download.body.destroy();
      download.body = (await fetchObject(files, download, { start: download.position, end: end - 1 })).body;
    }
  }
}

function missing(digest: string): never {
  throw new MissingEvidenceError(digest);
}

function toReadError({ key }: Download, error: unknown): Error {
  if (error instanceof EvidenceUnavailableError || error instanceof MissingEvidenceError) return error;
  return new EvidenceUnavailableError(`GET ${key}: ${error instanceof Error ? error.message : String(error)}`);
}

/**
 * Passes the blocks of whole content on. The last block is withheld until the hash of the whole matches.
 * @throws DamagedEvidenceError
 */
async function* checkContent(digest: string, content: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, undefined> {
  const hash = createHash("sha256");
  let held: Buffer | null = null;
  for await (const block of content) {
    if (held) yield held;
    hash.update(block);
    held = block;
  }
  const actual = hash.digest("hex");
  if (actual !== digest) throw new DamagedEvidenceError(digest, `its content has the digest ${actual}`);
  if (held) yield held;
}
