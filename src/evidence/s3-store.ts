// The evidence store on S3-compatible storage: every object is named by the SHA-256 of its content,
// PREFIX/ab/cdef.... It keeps the promises of the directory (local-store.ts) with the means of such storage:
//
// Complete content under its name before `publish` resolves. Uploads are received and hashed in the local staging
// directory, sent with their SHA-256, which the storage compares with what it received, and checked once more: the
// size, and the checksum where the storage returns one. An object is visible completely or not at all, so a kill at any
// moment leaves an object or none, and never a row without one.
//
// Publishing and sweeping do not overlap. The age of an object is its LastModified, which only an upload renews, and
// uploading existing content again would pile up versions in a versioned bucket. So a publish that finds its content
// remembers the digest in this process, for longer than any publish takes to its commit, and a sweep skips remembered
// digests; both run under the lock of the digest. A process that dies forgets them, but its uncommitted writes died
// with it. One process owns the storage, as it does the directory.
//
// Only the storage can say that an object is missing: every inconclusive response is EvidenceUnavailableError, a 503.
//
// A read that breaks off resumes where it stopped; its hash spans the whole content, and the last block is withheld
// until the hash matches.
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { createConcurrencyLimit } from "../workers/concurrency-limit.ts";
import type { ConcurrencyLimit } from "../workers/concurrency-limit.ts";
import { assertRange } from "./byte-range.ts";
import { disk } from "./disk.ts";
import { DamagedEvidenceError, EvidenceUnavailableError, MissingEvidenceError } from "./errors.ts";
import { inlineHasher } from "./hashing.ts";
import type { Hasher } from "./hashing.ts";
import { createIngest, verifyContent } from "./ingest.ts";
import type { Ingest } from "./ingest.ts";
import { digestAt, splitDigest } from "./layout.ts";
import { createDirectoryDurably } from "./local-store.ts";
import type { EvidenceStore, StoredFile, SweepRules } from "./local-store.ts";
import { openS3Client, PART_BYTES } from "./s3-client.ts";
import type { S3Client, S3Settings, StoredObject } from "./s3-client.ts";
import { createStaging } from "./staging.ts";
import type { StagedEntry, Staging } from "./staging.ts";

/** Bytes `start` to `end`, both inclusive and from 0, the whole object by default; `size` is what the row promises. */
export type S3ReadRequest = { digest: string; start?: number; end?: number; size?: number };

export type S3Store = EvidenceStore & {
  /**
   * Opens an object and resolves when it is known to exist. Rejects with MissingEvidenceError, DamagedEvidenceError
   * (wrong size), EvidenceUnavailableError or RangeError (malformed digest, range outside the object). The stream fails
   * with the same errors; a stream of a whole object fails before its last bytes when the content does not match the
   * digest. Destroying the stream releases its connection.
   */
  open(request: S3ReadRequest): Promise<Readable>;
  /**
   * The size of the object, and a signature that differs for a later object under the same name. Null: the storage says
   * that there is none.
   */
  stat(digest: string): Promise<{ size: number; signature: string } | null>;
  /** Sends a request to learn whether the storage responds. @throws EvidenceUnavailableError with its reason */
  probe(): Promise<void>;
};

/** Where objects are: `prefix` without slashes at its ends, "" for none. */
export type S3Location = { bucket: string; prefix: string };

/** Parses `s3://BUCKET/PREFIX`, which the option has validated. */
export function parseS3Url(url: string): S3Location {
  const [, bucket = "", prefix = ""] = /^s3:\/\/([^/]+)\/?(.*?)\/?$/.exec(url) ?? [];
  return { bucket, prefix };
}

/** Uploads from files: a single-part upload is held in memory as a whole, a larger one with a few of its parts. */
const MAX_CONCURRENT_UPLOADS = { single: 8, parts: 2 };

/** Bytes read at a time from a received file. */
const BLOCK_BYTES = 1_048_576;

/** How long a digest whose content existed is protected from the sweep; see `EvidenceStore.sweep` on times. */
const CONFIRMATION_TTL_MS = 2 * 3_600_000;

/** Consecutive resumptions of a read that bring no byte. */
const MAX_RESUMES = 3;

/** Objects per listing request: the limit of S3. */
const LIST_PAGE_SIZE = 1000;

type S3Files = {
  readonly client: S3Client;
  /** What all keys begin with: "" or "PREFIX/". */
  readonly root: string;
  readonly pageSize: number;
  readonly staging: Staging;
  readonly hasher: Hasher;
  readonly uploads: { single: ConcurrencyLimit; parts: ConcurrencyLimit };
  /**
   * Digest -> when a publish last found its content, in monotonic milliseconds, oldest first. Bounded by age and not a
   * cache: evicting an entry early would let a sweep remove an object whose row is about to commit.
   */
  readonly confirmed: Map<string, number>;
};

/**
 * Opens the store; sends no request yet. `staging` is a local directory, created where it is missing; `ids` returns
 * names that are unique across restarts and valid as file names. `pageSize` is for tests.
 */
export function openS3Store({
  settings,
  prefix,
  staging: stagingDirectory,
  ids,
  pageSize = LIST_PAGE_SIZE,
  hasher = inlineHasher,
}: {
  settings: S3Settings;
  prefix: string;
  staging: string;
  ids: () => string;
  pageSize?: number;
  hasher?: Hasher | undefined;
}): S3Store {
  createDirectoryDurably(stagingDirectory);
  const client = openS3Client(settings);
  const staging = createStaging({ directory: stagingDirectory, ids, disk, hasher });
  const root = prefix === "" ? "" : `${prefix}/`;
  const { single, parts } = MAX_CONCURRENT_UPLOADS;
  const uploads = { single: createConcurrencyLimit(single), parts: createConcurrencyLimit(parts) };
  const files: S3Files = { client, root, pageSize, staging, hasher, uploads, confirmed: new Map() };
  const ingest = createIngest(staging, (entry) => publishObject(files, entry));
  const open = (request: S3ReadRequest): Promise<Readable> => openObject(files, ingest, request);
  const read = async function* (digest: string): AsyncGenerator<Buffer, void, undefined> {
    yield* (await open({ digest })) as AsyncIterable<Buffer>;
  };
  return {
    stage: ingest.stage,
    stageBytes: ingest.stageBytes,
    publish: ingest.publish,
    discard: ingest.discard,
    sweepStaging: ingest.sweepStaging,
    async describe(digest) {
      const object = await statObject(files, keyOf(files, digest));
      return object === null ? null : { size: object.size };
    },
    async stat(digest) {
      const object = await statObject(files, keyOf(files, digest));
      return object && { size: object.size, signature: `${object.etag} ${object.size} ${object.modifiedAt}` };
    },
    async probe() {
      await client.isMissing(`${root}probe`);
    },
    async isIntact(digest, size) {
      const object = await statObject(files, keyOf(files, digest));
      if (!matches(object, { digest, size })) return false;
      return object?.checksum === digest || (await verifyContent(read(digest))) === "ok";
    },
    verify: (digest) => verifyContent(read(digest)),
    read,
    open,
    list: () => listFiles(files),
    sweep(rules) {
      expireConfirmations(files);
      return ingest.sweep(listOldUnreferenced(files, rules), (digest) => sweepObject(files, digest, rules));
    },
    async close() {
      await ingest.close();
      client.close();
    },
  };
}

function keyOf({ root }: S3Files, digest: string): string {
  const { shard, name } = splitDigest(digest);
  return `${root}${shard}/${name}`;
}

/** The digest of an object; null for a foreign key. */
function digestOfKey({ root }: S3Files, key: string): string | null {
  const [shard = "", name = "", ...rest] = key.slice(root.length).split("/");
  return rest.length === 0 ? digestAt(shard, name) : null;
}

const matches = (object: StoredObject | null, { digest, size }: { digest: string; size: number }): boolean =>
  object !== null && object.size === size && (object.checksum === null || object.checksum === digest);

async function publishObject(files: S3Files, entry: StagedEntry): Promise<void> {
  const { client, staging, confirmed } = files;
  const key = keyOf(files, entry.digest);
  try {
    // A 404 that does not come from the storage only costs one more upload of existing content.
    if (matches(await client.head(key), entry)) {
      confirmed.delete(entry.digest);
      confirmed.set(entry.digest, performance.now());
      return;
    }
    await upload(files, entry, key);
    if (!matches(await client.head(key), entry))
      throw new EvidenceUnavailableError(`PUT ${key}: it was accepted, but the stored object is another one`);
  } finally {
    await staging.drop(entry);
  }
}

async function upload({ client, staging, hasher, uploads }: S3Files, entry: StagedEntry, key: string): Promise<void> {
  const { content, digest, size } = entry;
  if (Buffer.isBuffer(content)) return client.put(key, content, digest);
  const file = (): AsyncIterable<Buffer> => readStagedFile(digest, staging.pathOf(entry), hasher);
  if (size <= PART_BYTES) await uploads.single.run(async () => client.put(key, await buffer(file()), digest));
  else await uploads.parts.run(() => client.putParts(key, file(), size));
}

/** The metadata of an object; null when the storage itself says that there is none. */
async function statObject({ client }: S3Files, key: string): Promise<StoredObject | null> {
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

async function openObject(
  files: S3Files,
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
  { client }: S3Files,
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
  files: S3Files,
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

async function* listFiles(files: S3Files): AsyncGenerator<StoredFile> {
  for await (const page of files.client.list(files.root, files.pageSize)) {
    for (const { key, size, modifiedAt } of page) {
      const digest = digestOfKey(files, key);
      if (digest !== null) yield { digest, size, modifiedAt };
    }
  }
}

/** Filters by the listing, because nearly every object is young or referenced and should cost no request of its own. */
async function* listOldUnreferenced(files: S3Files, { isReferenced, olderThan }: SweepRules): AsyncGenerator<string> {
  for await (const { digest, modifiedAt } of listFiles(files)) {
    if (modifiedAt < olderThan && !isReferenced(digest)) yield digest;
  }
}

/**
 * Removes the object if it is old and unreferenced. Runs under the lock of the digest.
 * @returns the size in bytes of the removed object, null if it stays
 */
async function sweepObject(files: S3Files, digest: string, rules: SweepRules): Promise<number | null> {
  const { client, confirmed } = files;
  const key = keyOf(files, digest);
  if (confirmed.has(digest)) return null;
  const object = await client.head(key);
  if (object === null || object.modifiedAt >= rules.olderThan || rules.isReferenced(digest)) return null;
  await client.remove(key);
  return object.size;
}

function expireConfirmations({ confirmed }: S3Files): void {
  for (const [digest, confirmedAt] of confirmed) {
    if (performance.now() - confirmedAt < CONFIRMATION_TTL_MS) return;
    confirmed.delete(digest);
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
 * The blocks of a received file, hashed by `hasher`. The last block is withheld until the hash of the whole matches.
 * @throws DamagedEvidenceError
 */
async function* readStagedFile(digest: string, path: string, hasher: Hasher): AsyncGenerator<Buffer, void, undefined> {
  const hash = hasher.begin();
  try {
    let held: Buffer | null = null;
    for await (const block of createReadStream(path, { highWaterMark: BLOCK_BYTES }) as AsyncIterable<Buffer>) {
      if (held) yield held;
      // Only a block that owns its memory can be transferred to a thread.
      const own = block.byteLength === block.buffer.byteLength ? block : Buffer.from(new Uint8Array(block).buffer);
      held = await hash.update(own, own.length);
    }
    const actual = await hash.digest();
    if (actual !== digest) throw new DamagedEvidenceError(digest, `its content has the digest ${actual}`);
    if (held) yield held;
  } finally {
    hash.abandon();
  }
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
