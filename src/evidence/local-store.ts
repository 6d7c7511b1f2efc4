// The evidence store, and its form on disk (s3.ts has the other one): a directory in which every file carries the
// SHA-256 of its content as its name. Nothing outside this folder (and the evidence worker, which reads) knows paths.
//
// A file gets its name in this order: content on disk -> rename -> directory on disk -> `publish` resolves -> the
// caller commits the row. So whenever the process or the machine stops, a name stands for complete content, a row never
// points at nothing, and the worst that stays is a file nobody points at, which `sweep` removes after a day, or a
// leftover in the staging directory, which `sweepStaging` removes at the next start.
//
// Publishing and sweeping the same content must not cross: a sweep could judge an old unreferenced file while a publish
// decides to keep it. Two rules prevent that. Both work under a lock per digest, and a publish that keeps an existing
// file makes it young again (mtime) before it releases the lock; a sweep looks at the age under the lock. What is left
// is the time from publish to the commit of the row, and that is what the day of grace is for.
// The locks live in this process: one evidence directory belongs to one process, as the database does.
import { createHash } from "node:crypto";
import { closeSync, constants, fsyncSync, mkdirSync, openSync, statSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import type { Readable } from "node:stream";
import { createShardDirectories } from "./directories.ts";
import { disk as realDisk, errnoOf, removeIfPresent } from "./disk.ts";
import type { Disk } from "./disk.ts";
import { DamagedEvidenceError, MissingEvidenceError } from "./errors.ts";
import type { Hasher } from "./hashing.ts";
import { digestAt, evidencePath, splitDigest, SHARD_PATTERN } from "./layout.ts";
import { createIngest, verifyContent } from "./ingest.ts";
import { createStaging } from "./staging.ts";
import type { StagedEntry, Staged } from "./staging.ts";

export type { Staged } from "./staging.ts";

/** A file of the vault. */
export type StoredFile = { digest: string; size: number; modifiedAt: number };

/** `isReferenced` tells whether any row names the content; `olderThan` in epoch seconds. */
export type SweepRules = { isReferenced: (digest: string) => boolean; olderThan: number };

export type EvidenceStore = {
  /**
   * Receives `source` to its end and hashes it on the way; `limit` in bytes, content of exactly that size passes.
   * Rejects with TooLargeError as soon as more came, with the source's own error when it fails or is destroyed early,
   * or with an ErrnoException; by then nothing of it is left and the source is destroyed. Every Staged must end in
   * `publish` or `discard`. Chunks are copied.
   */
  stage(source: AsyncIterable<Buffer> | Readable, opts: { limit: number }): Promise<Staged>;
  /**
   * Gives content its lasting name; when this resolves, a power failure cannot take it back. Content that is there
   * already is kept and the staged copy dropped; a file of the wrong size under the name is replaced. Settles when all
   * of `staged` are settled. Rejects with the first error (ErrnoException, or Error for a token that was published or
   * discarded before); the staged files that failed are gone then, the others are published, which is harmless.
   */
  publish(staged: readonly Staged[]): Promise<void>;
  /** Drops staged content. What was published, discarded or lost before is ignored, so it may run in any `finally`. */
  discard(staged: readonly Staged[]): Promise<void>;
  /** The size in bytes of the file with this content, null when there is none. RangeError for a malformed digest. */
  describe(digest: string): Promise<{ size: number } | null>;
  /**
   * Whether the content of this size is there, whole: by the checksum that the storage kept of what it received, or,
   * without one, by reading it. Fails as `read` does, except for what is missing or damaged.
   */
  isIntact(digest: string, size: number): Promise<boolean>;
  /** Reads the whole file and compares its hash. An unreadable file (EIO) counts as damaged. RangeError as above. */
  verify(digest: string): Promise<"ok" | "missing" | "damaged">;
  /**
   * All files, shard by shard, in the order of their digests. What is published or swept meanwhile may be among them or
   * not. `size` in bytes, `modifiedAt` in epoch seconds: when it was last published.
   */
  list(): AsyncIterable<StoredFile>;
  /**
   * The content of a file in blocks, checked: a damaged file fails before its last block, so nobody takes it for whole.
   * Fails with MissingEvidenceError, DamagedEvidenceError (also for EIO), RangeError as above or an ErrnoException.
   * Stopping early closes the file.
   */
  read(digest: string): AsyncIterable<Buffer>;
  /** Removes the leftovers of a dead process from the staging directory, returns how many. For the start. */
  sweepStaging(): Promise<number>;
  /**
   * Removes files that nobody references and whose mtime is before `olderThan` (epoch seconds). `olderThan` must lie
   * further back than any publish takes to reach its commit, and at least two hours (see CONFIRMED_FOR): a day by
   * design. `isReferenced` is called synchronously, twice for what is removed. Returns files and bytes removed.
   */
  sweep(rules: SweepRules): Promise<{ removed: number; bytes: number }>;
  /** Waits for what is running and closes all descriptors; staged content is dropped. Later calls reject. */
  close(): Promise<void>;
};

/**
 * For this long (milliseconds) a name that this process made durable is trusted after one stat: the same file attached
 * again and again, by a pipeline that runs often, then costs no sync at all. It must be well below the age at which a
 * sweep takes files, because the mtime may lag behind the last publish by as much.
 */
const CONFIRMATION_TTL_MS = 3_600_000;

/** How many such names are remembered: about 2 MB. */
const MAX_CONFIRMED = 10_000;

/** Bytes read at a time: about 0.15 ms of hashing between two turns of the event loop. */
const BLOCK_BYTES = 256 * 1024;

/**
 * Bytes of the first block, and of those after a short one: most files are small, and clearing away large blocks would
 * cost more than reading.
 */
const SMALL_BLOCK_BYTES = 16 * 1024;

/**
 * Opens the vault and creates its two directories (mode 0700) where they are missing. `directory` is the evidence root,
 * `staging` must be on the same file system (Error otherwise: a rename would not be one). `ids` gives names that are
 * unique over restarts and fit for file names. `disk` is for tests. `hashing` of what is received: here, unless given.
 * Throws ErrnoException when it cannot.
 */
export function openLocalStore({
  directory,
  staging,
  ids,
  disk = realDisk,
  hashing,
}: {
  directory: string;
  staging: string;
  ids: () => string;
  disk?: Disk;
  hashing?: Hasher | undefined;
}): EvidenceStore {
  createDirectoryDurably(directory);
  createDirectoryDurably(staging);
  if (statSync(directory).dev !== statSync(staging).dev) {
    throw new Error(`the staging directory ${staging} must be on the same file system as ${directory}`);
  }
  const directories = createShardDirectories({ root: directory, disk });
  const waiting = createStaging({ directory: staging, ids, disk, ...(hashing ? { hashing } : {}) });
  const receiving = createIngest(waiting, place);
  /** Digest -> when (monotonic milliseconds) this process last made its file durable and young. */
  const confirmed = new Map<string, number>();

  function confirm(digest: string): void {
    confirmed.delete(digest);
    confirmed.set(digest, performance.now());
    if (confirmed.size > MAX_CONFIRMED) for (const [oldest] of confirmed) return void confirmed.delete(oldest);
  }

  async function place(entry: StagedEntry): Promise<void> {
    const { shard } = splitDigest(entry.digest);
    const path = evidencePath(directory, entry.digest);
    let keeps: boolean;
    try {
      await directories.prepare(shard);
      keeps = await keepExisting(path, entry);
    } catch (error) {
      await waiting.drop(entry);
      throw error;
    }
    if (keeps) {
      await waiting.drop(entry);
    } else {
      await waiting.move(entry, path);
      await directories.flush(shard);
      confirm(entry.digest);
    }
  }

  /**
   * Whether complete content is there already; then it is durable and young when this resolves. The data is synced
   * again although this vault never renames anything else: the file may come from a restored copy.
   */
  async function keepExisting(path: string, { digest, size }: StagedEntry): Promise<boolean> {
    const found = await statOrNull(path);
    if (found === null || found.size !== size) return false;
    const last = confirmed.get(digest);
    if (last !== undefined && performance.now() - last < CONFIRMATION_TTL_MS) return true;
    const fd = await disk.open(path, constants.O_RDONLY);
    try {
      const now = Date.now() / 1000;
      await disk.futimes(fd, now, now);
      await disk.fdatasync(fd);
    } finally {
      await disk.close(fd);
    }
    await directories.flush(splitDigest(digest).shard);
    confirm(digest);
    return true;
  }

  async function statOrNull(path: string): Promise<{ size: number; mtimeMs: number } | null> {
    try {
      return await disk.stat(path);
    } catch (error) {
      if (errnoOf(error) === "ENOENT") return null;
      throw error;
    }
  }

  async function* readChecked(digest: string): AsyncGenerator<Buffer, void, undefined> {
    const fd = await disk.open(evidencePath(directory, digest), constants.O_RDONLY).catch((error: unknown) => {
      throw errnoOf(error) === "ENOENT" ? new MissingEvidenceError(digest) : error;
    });
    try {
      const hash = createHash("sha256");
      // One block is held back: it is given away when the digest of all is known.
      let held: Buffer | null = null;
      for (let size = SMALL_BLOCK_BYTES; ; ) {
        const block = Buffer.allocUnsafeSlow(size);
        const { bytesRead } = await disk.read(fd, block, 0, size, null);
        if (bytesRead === 0) break;
        size = bytesRead < size ? SMALL_BLOCK_BYTES : BLOCK_BYTES;
        if (held) yield held;
        held = block.subarray(0, bytesRead);
        hash.update(held);
      }
      const actual = hash.digest("hex");
      if (actual !== digest) throw new DamagedEvidenceError(digest, `its content has the digest ${actual}`);
      if (held) yield held;
    } catch (error) {
      throw errnoOf(error) === "EIO" ? new DamagedEvidenceError(digest, "it cannot be read") : error;
    } finally {
      await disk.close(fd);
    }
  }

  /** The reference is asked for first: nearly every file has one, and that answer costs no system call. */
  async function* unreferenced({ isReferenced }: SweepRules): AsyncGenerator<string> {
    for (const shard of (await disk.readdir(directory)).filter((name) => SHARD_PATTERN.test(name))) {
      for (const name of await disk.readdir(join(directory, shard))) {
        const digest = digestAt(shard, name);
        if (digest !== null && !isReferenced(digest)) yield digest;
      }
    }
  }

  /** The size in bytes of the file if it was old and unreferenced and is now gone, null if it stays. Needs the lock. */
  async function sweepOne(digest: string, rules: SweepRules) {
    const path = evidencePath(directory, digest);
    const found = await statOrNull(path);
    if (found === null || found.mtimeMs / 1000 >= rules.olderThan || rules.isReferenced(digest)) return null;
    confirmed.delete(digest);
    await removeIfPresent(disk, path);
    return found.size;
  }

  return {
    stage: receiving.stage,
    publish: receiving.publish,
    discard: receiving.discard,
    sweepStaging: receiving.sweepStaging,

    async describe(digest) {
      const found = await statOrNull(evidencePath(directory, digest));
      return found === null ? null : { size: found.size };
    },

    async isIntact(digest, size) {
      return (
        (await statOrNull(evidencePath(directory, digest)))?.size === size &&
        (await verifyContent(readChecked(digest))) === "ok"
      );
    },

    verify: (digest) => verifyContent(readChecked(digest)),

    async *list() {
      for (const shard of (await disk.readdir(directory)).filter((name) => SHARD_PATTERN.test(name)).sort()) {
        for (const name of (await disk.readdir(join(directory, shard))).sort()) {
          const digest = digestAt(shard, name);
          const found = digest === null ? null : await statOrNull(join(directory, shard, name));
          if (digest !== null && found !== null) yield { digest, size: found.size, modifiedAt: found.mtimeMs / 1000 };
        }
      }
    },

    read: readChecked,

    sweep: (rules) => receiving.sweep(unreferenced(rules), (digest) => sweepOne(digest, rules)),

    async close() {
      await receiving.close();
      await directories.close();
    },
  };
}

/**
 * Creates a directory (0700) with its parents. When this returns, the entry of each directory that was made is on the
 * disk.
 * @throws the system's error.
 */
export function createDirectoryDurably(path: string): void {
  const topmost = mkdirSync(path, { recursive: true, mode: 0o700 });
  if (topmost === undefined) return;
  const levels = relative(dirname(topmost), path).split(sep).length;
  for (let made = path, left = levels; left > 0; made = dirname(made), left -= 1) syncDirectory(dirname(made));
}

/** What a directory lists is on the disk when this returns. @throws the system's error. */
export function syncDirectory(path: string): void {
  const descriptor = openSync(path, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
