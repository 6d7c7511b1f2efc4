// The evidence store on S3-compatible storage: every object carries the SHA-256 of its content as its name,
// PREFIX/ab/cdef.... It keeps what the directory (vault.ts) keeps, each promise by the means of such a store:
//
// Complete content under its name before `publish` resolves. Uploads are received and hashed in the local staging
// directory, then sent with their SHA-256, which the store compares with what arrived, and looked at once more: size,
// and checksum where the store tells it. A store shows an object whole or not at all, so a kill at any moment leaves an
// object, or none, and never a row without one.
//
// Publishing and sweeping do not cross. The age of an object is its LastModified, which only an upload renews, and
// uploading what is there again would pile up versions in a bucket that keeps them. So a publish that finds its content
// there remembers the name in this process, for longer than any way to a commit, and a sweep passes over what is
// remembered; both work under the turn of the digest. A process that died forgets, and with it died the writes that
// were under way. One process owns a store, as it does the directory.
//
// Missing is what the store says, and nothing else: everything that is no answer is EvidenceUnavailableError, a 503.
//
// A read that breaks off half way goes on where it stopped; its hash spans all of it, and the last block is given away
// only when it is right.
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { openS3Client, PART_BYTES } from "./s3-client.ts";
import type { S3Settings, StoredObject } from "./s3-client.ts";
import { disk } from "./disk.ts";
import { DamagedEvidenceError, EvidenceUnavailableError, MissingEvidenceError } from "./errors.ts";
import { inlineHasher } from "./hashing.ts";
import type { Hasher } from "./hashing.ts";
import { digestAt, splitDigest } from "./layout.ts";
import { createConcurrencyLimit } from "../workers/concurrency-limit.ts";
import { createIngest, verifyContent } from "./ingest.ts";
import { createStaging } from "./staging.ts";
import type { StagedEntry } from "./staging.ts";
import { createDirectoryDurably } from "./local-store.ts";
import type { SweepRules, EvidenceStore } from "./local-store.ts";

/** What to read: bytes from `start` to `end`, both inclusive and from 0; `size` is what the row promises. */
export type S3ReadRequest = { digest: string; start?: number; end?: number; size?: number };

export type S3Store = EvidenceStore & {
  /**
   * Opens an object and resolves when it is known to be there. Rejects with MissingEvidenceError, DamagedEvidenceError
   * (wrong size), EvidenceUnavailableError or RangeError (malformed digest, range outside the object). The stream fails
   * with the same errors; one of a whole object before its last bytes when the content is not what the digest says. A
   * destroyed stream gives its connection back.
   */
  open(request: S3ReadRequest): Promise<Readable>;
  /**
   * Looks at the object as it lies there: its size, and what tells it from a later one under its name. Null: the store
   * says that there is none.
   */
  stat(digest: string): Promise<{ size: number; signature: string } | null>;
  /** Asks the store for anything, to learn whether it answers. @throws EvidenceUnavailableError with its reason */
  probe(): Promise<void>;
};

/** Where objects are: `prefix` without slashes at its ends, "" for none. */
export type S3Location = { bucket: string; prefix: string };

/** `s3://BUCKET/PREFIX` as the option takes it. */
export function parseS3Url(url: string): S3Location {
  const [, bucket = "", prefix = ""] = /^s3:\/\/([^/]+)\/?(.*?)\/?$/.exec(url) ?? [];
  return { bucket, prefix };
}

/**
 * Uploads from files that are sent at once: one of a single part holds it in memory, a larger one a few of its parts.
 */
const MAX_CONCURRENT_UPLOADS = { single: 8, parts: 2 };

/** Bytes that are read of a received file at once. */
const BLOCK_BYTES = 1_048_576;

/**
 * For this long (milliseconds) a name that was found to be there is kept from the sweep; see `Vault.sweep` on times.
 */
const CONFIRMATION_TTL_MS = 2 * 3_600_000;

/** A read may stop this often without having brought a byte. */
const MAX_RESUMES = 3;

/** Objects of one listing: what stores give at most. */
const LIST_PAGE_SIZE = 1000;

/**
 * Opens the vault; asks the store for nothing yet. `staging` is a local directory, made where it is missing; `ids`
 * gives names that are unique over restarts and fit for file names. `pageSize` is for tests.
 */
export function openS3Store({
  settings,
  prefix,
  staging,
  ids,
  pageSize = LIST_PAGE_SIZE,
  hashing = inlineHasher,
}: {
  settings: S3Settings;
  prefix: string;
  staging: string;
  ids: () => string;
  pageSize?: number;
  hashing?: Hasher | undefined;
}): S3Store {
  createDirectoryDurably(staging);
  const bucket = openS3Client(settings);
  const waiting = createStaging({ directory: staging, ids, disk, hashing });
  const receiving = createIngest(waiting, place);
  const [single, parts] = [createConcurrencyLimit(MAX_CONCURRENT_UPLOADS.single), createConcurrencyLimit(MAX_CONCURRENT_UPLOADS.parts)];
  /** Digest -> when (monotonic milliseconds) a publish last found its content there; the oldest first. */
  const kept = new Map<string, number>();
  const root = prefix === "" ? "" : `${prefix}/`;

  function keyOf(digest: string): string {
    const { shard, name } = splitDigest(digest);
    return `${root}${shard}/${name}`;
  }

  function digestOf(key: string): string | null {
    const [shard = "", name = "", ...rest] = key.slice(root.length).split("/");
    return rest.length === 0 ? digestAt(shard, name) : null;
  }

  const isWhole = (found: StoredObject | null, { digest, size }: { digest: string; size: number }): boolean =>
    found !== null && found.size === size && (found.checksum === null || found.checksum === digest);

  async function place(entry: StagedEntry): Promise<void> {
    const key = keyOf(entry.digest);
    try {
      // A 404 that is not the store's costs an upload of what is there, and nothing else.
      if (isWhole(await bucket.head(key), entry)) {
        kept.delete(entry.digest);
        kept.set(entry.digest, performance.now());
        return;
      }
      await upload(entry, key);
      if (!isWhole(await bucket.head(key), entry))
        throw new EvidenceUnavailableError(`PUT ${key}: it was accepted, but what lies there is not it`);
    } finally {
      await waiting.drop(entry);
    }
  }

  async function upload(entry: StagedEntry, key: string): Promise<void> {
    const { content, digest, size } = entry;
    if (Buffer.isBuffer(content)) return bucket.put(key, content, digest);
    const file = (): AsyncIterable<Buffer> => wholeFile(digest, waiting.pathOf(entry), hashing);
    if (size <= PART_BYTES) await single.run(async () => bucket.put(key, await buffer(file()), digest));
    else await parts.run(() => bucket.putParts(key, file(), size));
  }

  /** What lies there; null when the store itself says that there is nothing. */
  async function lookAt(key: string): Promise<StoredObject | null> {
    const found = await bucket.head(key);
    if (found !== null || (await bucket.missing(key))) return found;
    throw new EvidenceUnavailableError(`HEAD ${key}: 404, but the store lists it`);
  }

  async function open({ digest, start = 0, end, size: expected }: S3ReadRequest): Promise<Readable> {
    receiving.assertOpen();
    const key = keyOf(digest);
    if (!isOffset(start) || (end !== undefined && (!isOffset(end) || end < start)))
      throw new RangeError(`bytes ${start} to ${end ?? "the end"} are not a range`);
    // A range of an object of unknown size: first its size.
    const size = expected ?? (start === 0 && end === undefined ? null : ((await lookAt(key)) ?? missing(digest)).size);
    const isAll = start === 0 && (end === undefined || end + 1 === size);
    const first = await fetch(key, digest, isAll || size === null ? null : { start, end: rangeEnd(start, end, size) });
    const last = (end ?? first.total - 1) + 1;
    if (size !== null && first.total !== size) {
      first.body.destroy();
      throw new DamagedEvidenceError(digest, `it has ${first.total} bytes instead of ${size}`);
    }
    const source: Source = { key, digest, body: first.body, position: start, end: last };
    const stream = Readable.from(isAll ? whole(digest, blocks(source)) : blocks(source), {
      objectMode: false,
      highWaterMark: 1,
    });
    // Also when nobody ever began to read.
    stream.once("close", () => void source.body.destroy());
    return stream;
  }

  function rangeEnd(start: number, end: number | undefined, size: number): number {
    const last = end ?? size - 1;
    if (start > last || last >= size)
      throw new RangeError(`bytes ${start} to ${last} are not within a file of ${size} bytes`);
    return last;
  }

  /** @throws MissingEvidenceError, DamagedEvidenceError where the object ends before the range */
  async function fetch(key: string, digest: string, range: { start: number; end: number } | null) {
    const found = (await bucket.get(key, range)) ?? missing(digest);
    if (found === "too short")
      throw new DamagedEvidenceError(digest, `it has less than ${(range?.start ?? 0) + 1} bytes`);
    return found;
  }

  /** The bytes of an object that was opened; goes on where a connection broke off. */
  async function* blocks(source: Source): AsyncGenerator<Buffer, void, undefined> {
    for (let stops = 0; ; ) {
      try {
        for await (const block of source.body as AsyncIterable<Buffer>) {
          source.position += block.length;
          if (source.position > source.end)
            throw new EvidenceUnavailableError(`GET ${source.key}: it brings more than ${source.end} bytes`);
          stops = 0;
          yield block;
        }
        if (source.position === source.end) return;
        throw new EvidenceUnavailableError(
          `GET ${source.key}: it ended after ${source.position} of ${source.end} bytes`,
        );
      } catch (error) {
        stops += 1;
        if (receiving.isClosed() || stops > MAX_RESUMES || source.position >= source.end)
          throw unreadable(source, error);
        source.body.destroy();
        source.body = (await fetch(source.key, source.digest, { start: source.position, end: source.end - 1 })).body;
      }
    }
  }

  async function* read(digest: string): AsyncGenerator<Buffer, void, undefined> {
    yield* (await open({ digest })) as AsyncIterable<Buffer>;
  }

  /**
   * The size in bytes of the object if it was old and unreferenced and is now gone, null if it stays. Needs the turn.
   */
  async function sweepOne(digest: string, rules: SweepRules): Promise<number | null> {
    const key = keyOf(digest);
    if (kept.has(digest)) return null;
    const found = await bucket.head(key);
    if (found === null || found.modifiedAt >= rules.olderThan || rules.isReferenced(digest)) return null;
    await bucket.remove(key);
    return found.size;
  }

  /**
   * What one listing shows to be old and unreferenced: nearly everything is neither, and costs no request of its own.
   */
  async function* old({ isReferenced, olderThan }: SweepRules): AsyncGenerator<string> {
    for await (const page of bucket.list(root, pageSize)) {
      for (const { key, modifiedAt } of page) {
        const digest = digestOf(key);
        if (digest !== null && modifiedAt < olderThan && !isReferenced(digest)) yield digest;
      }
    }
  }

  function forgetOld(): void {
    for (const [digest, at] of kept) {
      if (performance.now() - at < CONFIRMATION_TTL_MS) return;
      kept.delete(digest);
    }
  }

  return {
    stage: receiving.stage,
    publish: receiving.publish,
    discard: receiving.discard,
    sweepStaging: receiving.sweepStaging,

    async describe(digest) {
      const found = await lookAt(keyOf(digest));
      return found === null ? null : { size: found.size };
    },

    async stat(digest) {
      const found = await lookAt(keyOf(digest));
      return found && { size: found.size, signature: `${found.etag} ${found.size} ${found.modifiedAt}` };
    },

    async probe() {
      await bucket.missing(`${root}probe`);
    },

    async isIntact(digest, size) {
      const found = await lookAt(keyOf(digest));
      if (!isWhole(found, { digest, size })) return false;
      return found?.checksum === digest || (await verifyContent(read(digest))) === "ok";
    },

    verify: (digest) => verifyContent(read(digest)),
    read,
    open,

    async *list() {
      for await (const page of bucket.list(root, pageSize)) {
        for (const { key, size, modifiedAt } of page) {
          const digest = digestOf(key);
          if (digest !== null) yield { digest, size, modifiedAt };
        }
      }
    },

    sweep(rules) {
      forgetOld();
      return receiving.sweep(old(rules), (digest) => sweepOne(digest, rules));
    },

    async close() {
      await receiving.close();
      bucket.close();
    },
  };
}

type Source = { readonly key: string; readonly digest: string; body: Readable; position: number; readonly end: number };

const isOffset = (value: number): boolean => Number.isSafeInteger(value) && value >= 0;

function missing(digest: string): never {
  throw new MissingEvidenceError(digest);
}

function unreadable({ key }: Source, error: unknown): Error {
  if (error instanceof EvidenceUnavailableError || error instanceof MissingEvidenceError) return error;
  return new EvidenceUnavailableError(`GET ${key}: ${error instanceof Error ? error.message : String(error)}`);
}

/**
 * The blocks of a received file, hashed as `hashing` does it: the last one is held back until the hash of all is known.
 * @throws DamagedEvidenceError
 */
async function* wholeFile(digest: string, path: string, hashing: Hasher): AsyncGenerator<Buffer, void, undefined> {
  const hash = hashing.begin();
  try {
    let held: Buffer | null = null;
    for await (const block of createReadStream(path, { highWaterMark: BLOCK_BYTES }) as AsyncIterable<Buffer>) {
      if (held) yield held;
      // Memory of its own can move to a thread.
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
 * The same blocks, of whole content: the last one is held back until the hash of all is known. @throws
 * DamagedEvidenceError
 */
async function* whole(digest: string, content: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, undefined> {
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
