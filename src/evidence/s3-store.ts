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
// Existing content is kept only if the storage states the checksum that it computed, or, where it keeps none for the
// whole object (older storage; objects that were sent in parts), after it was read back once and compared.
//
// Only the storage can say that an object is missing: every inconclusive response is EvidenceUnavailableError, a 503.
import { createReadStream } from "node:fs";
import type { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { createLru } from "../domain/lru.ts";
import type { Lru } from "../domain/lru.ts";
import { createConcurrencyLimit } from "../workers/concurrency-limit.ts";
import type { ConcurrencyLimit } from "../workers/concurrency-limit.ts";
import { createDirectoryDurably } from "../store/db/directories.ts";
import { MAX_CHECKED_RANGE_BYTES } from "./byte-range.ts";
import { disk } from "./disk.ts";
import { DamagedEvidenceError, EvidenceUnavailableError } from "./errors.ts";
import { inlineHasher } from "./hashing.ts";
import type { Hasher } from "./hashing.ts";
import { createIngest, verifyContent } from "./ingest.ts";
import { digestAt } from "./layout.ts";
import type { EvidenceStore, OnRepair, StoredFile, SweepRules } from "./local-store.ts";
import { openS3Client, PART_BYTES } from "./s3-client.ts";
import type { S3Settings, StoredObject } from "./s3-client.ts";
import { keyOf, openObject, statObject } from "./s3-download.ts";
import type { S3Objects, S3ReadRequest } from "./s3-download.ts";
import { createStaging } from "./staging.ts";
import type { StagedEntry, Staging } from "./staging.ts";

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

/** Digests whose object is remembered as compared: about 2 MB. */
const MAX_COMPARED = 10_000;

/** Objects per listing request: the limit of S3. */
const LIST_PAGE_SIZE = 1000;

type S3Files = S3Objects & {
  readonly pageSize: number;
  readonly staging: Staging;
  readonly hasher: Hasher;
  readonly uploads: { single: ConcurrencyLimit; parts: ConcurrencyLimit };
  readonly onRepair: OnRepair;
  /** Digest -> the signature of the object whose content this process sent or read back. */
  readonly compared: Lru<string, string>;
  /**
   * Digest -> when a publish last found its content, in monotonic milliseconds, oldest first. Bounded by age and not a
   * cache: evicting an entry early would let a sweep remove an object whose row is about to commit.
   */
  readonly confirmed: Map<string, number>;
};

/**
 * Opens the store; sends no request yet. `staging` is a local directory, created where it is missing; `ids` returns
 * names that are unique across restarts and valid as file names. `onRepair` is called after a damaged object was
 * replaced. `pageSize` is for tests.
 */
export function openS3Store({
  settings,
  prefix,
  staging: stagingDirectory,
  ids,
  pageSize = LIST_PAGE_SIZE,
  hasher = inlineHasher,
  onRepair = () => undefined,
}: {
  settings: S3Settings;
  prefix: string;
  staging: string;
  ids: () => string;
  pageSize?: number;
  hasher?: Hasher | undefined;
  onRepair?: OnRepair | undefined;
}): S3Store {
  createDirectoryDurably(stagingDirectory);
  const client = openS3Client(settings);
  const staging = createStaging({ directory: stagingDirectory, ids, disk, hasher });
  const root = prefix === "" ? "" : `${prefix}/`;
  const { single, parts } = MAX_CONCURRENT_UPLOADS;
  const uploads = { single: createConcurrencyLimit(single), parts: createConcurrencyLimit(parts) };
  const compared = createLru<string, string>({ maxEntries: MAX_COMPARED });
  const files: S3Files = { client, root, pageSize, staging, hasher, uploads, onRepair, compared, confirmed: new Map() };
  const read = async function* (digest: string): AsyncGenerator<Buffer, void, undefined> {
    yield* (await openObject(files, ingest, { digest })) as AsyncIterable<Buffer>;
  };
  const verify = (digest: string) => verifyContent(read(digest));
  const ingest = createIngest(staging, (entry) => publishObject(files, entry, verify));
  const open = async (request: S3ReadRequest): Promise<Readable> => {
    if (isRange(request) && (request.size ?? 0) <= MAX_CHECKED_RANGE_BYTES)
      await verifySmallObject(files, request.digest, verify);
    return openObject(files, ingest, request);
  };
  return {
    stage: ingest.stage,
    stageBytes: ingest.stageBytes,
    publish: ingest.publish,
    withdraw: (digest, isNeeded) => ingest.withdraw(digest, isNeeded, () => removeObject(files, digest)),
    discard: ingest.discard,
    sweepStaging: ingest.sweepStaging,
    async describe(digest) {
      const object = await statObject(files, keyOf(files, digest));
      return object === null ? null : { size: object.size };
    },
    async stat(digest) {
      const object = await statObject(files, keyOf(files, digest));
      return object && { size: object.size, signature: signatureOf(object) };
    },
    async probe() {
      await client.isMissing(`${root}probe`);
    },
    async isIntact(digest, size) {
      const object = await statObject(files, keyOf(files, digest));
      if (!matches(object, { digest, size })) return false;
      return object?.checksum === digest || (await verifyContent(read(digest))) === "ok";
    },
    verify,
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

/** The digest of an object; null for a foreign key. */
function digestOfKey({ root }: S3Files, key: string): string | null {
  const [shard = "", name = "", ...rest] = key.slice(root.length).split("/");
  return rest.length === 0 ? digestAt(shard, name) : null;
}

const matches = (object: StoredObject | null, { digest, size }: { digest: string; size: number }): boolean =>
  object !== null && object.size === size && (object.checksum === null || object.checksum === digest);

/** Differs for a later object under the same name. */
const signatureOf = ({ etag, size, modifiedAt }: StoredObject): string => `${etag} ${size} ${modifiedAt}`;

type Verify = EvidenceStore["verify"];

/** @returns whether there was no object */
async function publishObject(files: S3Files, entry: StagedEntry, verify: Verify): Promise<boolean> {
  const { client, staging, confirmed, compared } = files;
  const { digest } = entry;
  const key = keyOf(files, digest);
  try {
    // A 404 that does not come from the storage only costs one more upload of existing content.
    const existing = await client.head(key);
    const found = await compareObject(files, { entry, object: existing }, verify);
    if (found === "ok") {
      confirmed.delete(digest);
      confirmed.set(digest, performance.now());
      return false;
    }
    await upload(files, entry, key);
    const stored = await client.head(key);
    if (stored === null || !matches(stored, entry))
      throw new EvidenceUnavailableError(`PUT ${key}: it was accepted, but the stored object is another one`);
    compared.set(digest, signatureOf(stored));
    if (found === "damaged") files.onRepair(digest);
    return found === "missing";
  } finally {
    await staging.drop(entry);
  }
}

/**
 * Whether an object has the content of its digest. One whose checksum the storage does not state is read back, once
 * while it stays the same: a size alone may come from a proxy, or from a damaged object.
 * @param object what the storage said about it, null: that there is none
 */
async function compareObject(
  { compared }: S3Files,
  { entry, object }: { entry: { digest: string; size: number }; object: StoredObject | null },
  verify: Verify,
): Promise<"ok" | "missing" | "damaged"> {
  if (object === null) return "missing";
  if (!matches(object, entry)) return "damaged";
  const { digest } = entry;
  if (object.checksum === digest || compared.get(digest) === signatureOf(object)) return "ok";
  const found = await verify(digest);
  if (found === "ok") compared.set(digest, signatureOf(object));
  return found;
}

const isRange = ({ start = 0, end, size }: S3ReadRequest): boolean =>
  start !== 0 || (end !== undefined && end + 1 !== size);

/**
 * Compares the content of a small object before a range of it is sent. Of a larger one a range is sent unchecked.
 * @throws DamagedEvidenceError, EvidenceUnavailableError; an object that is missing is left to the read
 */
async function verifySmallObject(files: S3Files, digest: string, verify: Verify): Promise<void> {
  const object = await files.client.head(keyOf(files, digest));
  if (object === null || object.size > MAX_CHECKED_RANGE_BYTES) return;
  const found = await compareObject(files, { entry: { digest, size: object.size }, object }, verify);
  if (found === "damaged") throw new DamagedEvidenceError(digest, "its content differs from its digest");
}

async function upload({ client, staging, hasher, uploads }: S3Files, entry: StagedEntry, key: string): Promise<void> {
  const { content, digest, size } = entry;
  if (Buffer.isBuffer(content)) return client.put(key, content, digest);
  const file = (): AsyncIterable<Buffer> => readStagedFile(digest, staging.pathOf(entry), hasher);
  if (size <= PART_BYTES) await uploads.single.run(async () => client.put(key, await buffer(file()), digest));
  else await uploads.parts.run(() => client.putParts(key, file(), size));
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
  if (files.confirmed.has(digest)) return null;
  const object = await files.client.head(keyOf(files, digest));
  if (object === null || object.modifiedAt >= rules.olderThan || rules.isReferenced(digest)) return null;
  await removeObject(files, digest);
  return object.size;
}

async function removeObject(files: S3Files, digest: string): Promise<void> {
  files.compared.delete(digest);
  await files.client.remove(keyOf(files, digest));
}

function expireConfirmations({ confirmed }: S3Files): void {
  for (const [digest, confirmedAt] of confirmed) {
    if (performance.now() - confirmedAt < CONFIRMATION_TTL_MS) return;
    confirmed.delete(digest);
  }
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
      const bytes = block.byteLength === block.buffer.byteLength ? block : Buffer.from(new Uint8Array(block).buffer);
      held = await hash.update(bytes, bytes.length);
    }
    const actual = await hash.digest();
    if (actual !== digest) throw new DamagedEvidenceError(digest, `its content has the digest ${actual}`);
    if (held) yield held;
  } finally {
    hash.abandon();
  }
}
