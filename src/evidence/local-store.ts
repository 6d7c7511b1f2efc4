// The evidence store and its implementation on disk (s3-store.ts has the other one): a directory in which every file is
// named by the SHA-256 of its content. Only this folder knows its paths.
//
// A file is published in this order: content on disk -> rename -> directory on disk -> `publish` resolves -> the caller
// commits the row. Wherever the process or the machine stops, a name stands for complete content and a row never names
// a missing file. The worst that remains is a file that no row names, which `sweep` removes after a day, or a leftover
// in the staging directory, which `sweepStaging` removes at the next start. When the row is refused, uploads.ts removes
// the file at once.
//
// Publishing and sweeping the same content must not overlap: a sweep could find a file old and unreferenced while a
// publish decides to keep it. Two rules prevent that. Both run under a lock per digest, and a publish that keeps an
// existing file renews its mtime before it releases the lock, while a sweep checks the age under the lock. What remains
// is the time between the publish and the commit of the row, which the day of grace covers.
// The locks live in this process: one evidence directory belongs to one process, as the database does.
//
// An existing file is kept only if its content is right: a publish compares it with what it received, once while the
// file stays the same (device, inode, size, times), and replaces a damaged one.
import { createHash } from "node:crypto";
import { constants, statSync } from "node:fs";
import type { Stats } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { createLru } from "../domain/lru.ts";
import type { Lru } from "../domain/lru.ts";
import { withPath } from "../domain/text/system-errors.ts";
import { createDirectoryDurably } from "../store/db/directories.ts";
import { createShardDirectories } from "./directories.ts";
import type { ShardDirectories } from "./directories.ts";
import { disk as realDisk, errnoOf, removeIfPresent, removeQuietly } from "./disk.ts";
import type { Disk } from "./disk.ts";
import { DamagedEvidenceError, MissingEvidenceError, StagingElsewhereError } from "./errors.ts";
import { inlineHasher } from "./hashing.ts";
import type { Hasher } from "./hashing.ts";
import { digestAt, evidencePath, SHARD_PATTERN, splitDigest } from "./layout.ts";
import { createIngest, verifyContent } from "./ingest.ts";
import { createStaging } from "./staging.ts";
import type { Staged, StagedEntry, Staging } from "./staging.ts";

export type { Staged } from "./staging.ts";

/** A published file: `size` in bytes, `modifiedAt` (last published) in epoch seconds. */
export type StoredFile = { digest: string; size: number; modifiedAt: number };

/** `isReferenced` says whether any row names the content; `olderThan` is in epoch seconds. */
export type SweepRules = { isReferenced: (digest: string) => boolean; olderThan: number };

export type EvidenceStore = {
  /**
   * Receives `source` to its end and hashes it on the way; `limit` in bytes, content of exactly that size is accepted.
   * Rejects with TooLargeError as soon as more arrives, with the source's own error when it fails or is destroyed
   * early, or with an ErrnoException; by then nothing of it is left and the source is destroyed. Every Staged must end
   * in `publish` or `discard`. Chunks are copied.
   */
  stage(source: AsyncIterable<Buffer> | Readable, options: { limit: number }): Promise<Staged>;
  /** The same for content that is in memory as a whole, whatever its size. */
  stageBytes(bytes: Buffer): Promise<Staged>;
  /**
   * Gives content its permanent name; once this resolves, the content survives a power failure. Content that exists is
   * kept and the staged copy dropped; a damaged file under the name is replaced. Settles when all of `staged` are
   * settled. Rejects with the first error (ErrnoException, or Error for a token that was published or discarded
   * before); the staged files that failed are removed then, the others are published, which is harmless. Resolves with
   * the digests under which nothing was stored before.
   */
  publish(staged: readonly Staged[]): Promise<string[]>;
  /**
   * Removes published content, if there is any. `isNeeded` is called synchronously, right before the removal and while
   * no publish of this content runs: true keeps it.
   */
  withdraw(digest: string, isNeeded: () => boolean): Promise<void>;
  /** Drops staged content. Unknown, published and discarded tokens are ignored, so it may run in any `finally`. */
  discard(staged: readonly Staged[]): Promise<void>;
  /** The size in bytes of the file with this content, null when there is none. RangeError for a malformed digest. */
  describe(digest: string): Promise<{ size: number } | null>;
  /**
   * Whether the complete content exists and has this size: by the checksum that the storage computed on receipt, or,
   * without one, by reading the file. Fails as `read` does, except for missing or damaged files.
   */
  isIntact(digest: string, size: number): Promise<boolean>;
  /** Reads the whole file and compares its hash. An unreadable file (EIO) counts as damaged. RangeError as above. */
  verify(digest: string): Promise<"ok" | "missing" | "damaged">;
  /**
   * All files in the order of their digests. Files that are published or swept meanwhile may be listed or not.
   */
  list(): AsyncIterable<StoredFile>;
  /**
   * The content of a file in blocks, checked: a damaged file fails before its last block, so no reader takes it for
   * complete. Fails with MissingEvidenceError, DamagedEvidenceError (also for EIO), RangeError as above or an
   * ErrnoException. Leaving the loop early closes the file.
   */
  read(digest: string): AsyncIterable<Buffer>;
  /** Removes the leftovers of dead processes from the staging directory and returns their number. Call it at start. */
  sweepStaging(): Promise<number>;
  /**
   * Removes unreferenced files whose mtime is before `olderThan` (epoch seconds). `olderThan` must lie further back
   * than any publish takes to reach its commit, and at least two hours (see CONFIRMATION_TTL_MS): a day by design.
   * `isReferenced` is called synchronously, twice for a file that is removed. Returns the files and bytes removed.
   */
  sweep(rules: SweepRules): Promise<{ removed: number; bytes: number }>;
  /** Waits for running work and closes all descriptors; staged content is dropped. Later calls reject. */
  close(): Promise<void>;
};

/**
 * A name that this process made durable is trusted for this long after one stat, so that a pipeline that attaches the
 * same file again and again costs no sync. The TTL must be well below the age at which a sweep removes files, because
 * the mtime may lag behind the last publish by as much.
 */
const CONFIRMATION_TTL_MS = 3_600_000;

/** Names that are remembered as durable: about 4 MB. */
const MAX_CONFIRMED = 10_000;

/**
 * What this process knows about a file that it wrote or compared: which file that is (`identityOf`), and when it last
 * made it durable and renewed its mtime, in monotonic milliseconds.
 */
type Confirmation = { identity: string; at: number };

/** A damaged file was replaced by the content of an upload. */
export type OnRepair = (digest: string) => void;

/** Bytes per read: about 0.15 ms of hashing between two turns of the event loop. */
const BLOCK_BYTES = 256 * 1024;

/**
 * Bytes of the first block, and of a block after a short read: most files are small, and clearing large blocks would
 * cost more than reading.
 */
const SMALL_BLOCK_BYTES = 16 * 1024;

type LocalFiles = {
  readonly root: string;
  readonly disk: Disk;
  readonly directories: ShardDirectories;
  readonly staging: Staging;
  readonly hasher: Hasher;
  readonly onRepair: OnRepair;
  /** By digest. */
  readonly confirmed: Lru<string, Confirmation>;
};

/**
 * Opens the store and creates its two directories (mode 0700) where they are missing. `directory` is the evidence root;
 * `staging` must be on the same file system. `ids` returns names that are unique across restarts and valid as file
 * names. `disk` is another than the real one in tests, and where root works for the owner of the directory. `hasher`
 * hashes received content, in this thread by default. `onRepair` is called after a damaged file was replaced.
 * @throws StagingElsewhereError; ErrnoException when a directory cannot be created
 */
export function openLocalStore({
  directory,
  staging: stagingDirectory,
  ids,
  disk = realDisk,
  hasher = inlineHasher,
  onRepair = () => undefined,
}: {
  directory: string;
  staging: string;
  ids: () => string;
  disk?: Disk | undefined;
  hasher?: Hasher | undefined;
  onRepair?: OnRepair | undefined;
}): EvidenceStore {
  createDirectoryDurably(directory);
  createDirectoryDurably(stagingDirectory);
  if (statSync(directory).dev !== statSync(stagingDirectory).dev)
    throw new StagingElsewhereError(stagingDirectory, directory);
  const directories = createShardDirectories({ root: directory, disk });
  const staging = createStaging({ directory: stagingDirectory, ids, disk, hasher });
  const confirmed = createLru<string, Confirmation>({ maxEntries: MAX_CONFIRMED });
  const files: LocalFiles = { root: directory, disk, directories, staging, hasher, onRepair, confirmed };
  const ingest = createIngest(staging, (entry) => publishFile(files, entry));
  const read = (digest: string) => readFile(files, digest);
  return {
    stage: ingest.stage,
    stageBytes: ingest.stageBytes,
    publish: ingest.publish,
    withdraw: (digest, isNeeded) => ingest.withdraw(digest, isNeeded, () => removeFile(files, digest)),
    discard: ingest.discard,
    sweepStaging: ingest.sweepStaging,
    async describe(digest) {
      const stats = await statOrNull(disk, evidencePath(directory, digest));
      return stats === null ? null : { size: stats.size };
    },
    async isIntact(digest, size) {
      const stats = await statOrNull(disk, evidencePath(directory, digest));
      return stats?.size === size && (await verifyContent(read(digest))) === "ok";
    },
    verify: (digest) => verifyContent(read(digest)),
    list: () => listFiles(files),
    read,
    sweep: (rules) => ingest.sweep(listUnreferenced(files, rules), (digest) => sweepFile(files, digest, rules)),
    async close() {
      await ingest.close();
      await directories.close();
    },
  };
}

/** @returns whether there was no file */
async function publishFile(files: LocalFiles, entry: StagedEntry): Promise<boolean> {
  const { directories, disk, staging } = files;
  const { digest } = entry;
  const { shard } = splitDigest(digest);
  const path = evidencePath(files.root, digest);
  let found: "kept" | "missing" | "damaged";
  try {
    await directories.prepare(shard);
    found = await keepExisting(files, path, entry);
  } catch (error) {
    await staging.drop(entry);
    throw error;
  }
  if (found === "kept") {
    await staging.drop(entry);
    return false;
  }
  await staging.move(entry, path);
  try {
    await directories.flush(shard);
  } catch (error) {
    // No other upload counts on the file: the lock has not been released since it appeared.
    if (found === "missing") await removeQuietly(disk, path);
    throw error;
  }
  await confirm(files, path, digest);
  if (found === "damaged") files.onRepair(digest);
  return found === "missing";
}

/** Remembers the file at `path`, whose content is right and durable. */
async function confirm({ disk, confirmed }: LocalFiles, path: string, digest: string): Promise<void> {
  const stats = await statOrNull(disk, path);
  if (stats !== null) confirmed.set(digest, { identity: identityOf(stats), at: performance.now() });
}

/**
 * Whether the complete content exists. If so ("kept"), it is durable and its mtime is renewed when this resolves. The
 * data is synced even though this store only ever renames synced files into place: the file may come from a restored
 * copy.
 */
async function keepExisting(
  files: LocalFiles,
  path: string,
  entry: StagedEntry,
): Promise<"kept" | "missing" | "damaged"> {
  const { disk, directories, confirmed } = files;
  const { digest, size } = entry;
  const stats = await statOrNull(disk, path);
  if (stats === null) return "missing";
  if (stats.size !== size) return "damaged";
  const known = confirmed.get(digest);
  const isKnown = known?.identity === identityOf(stats);
  if (!isKnown && !(await hasContent(files, path, entry))) return "damaged";
  if (isKnown && performance.now() - known.at < CONFIRMATION_TTL_MS) return "kept";
  const fd = await disk.open(path, constants.O_RDONLY);
  try {
    const now = Date.now() / 1000;
    await disk.futimes(fd, now, now);
    await disk.fdatasync(fd);
  } finally {
    await disk.close(fd);
  }
  await directories.flush(splitDigest(digest).shard);
  await confirm(files, path, digest);
  return "kept";
}

/** Differs after every write to a file, and for every other file under its name. */
const identityOf = ({ dev, ino, size, mtimeMs, ctimeMs }: Stats): string =>
  `${dev} ${ino} ${size} ${mtimeMs} ${ctimeMs}`;

/** Whether the file at `path` has the content of an entry. Larger content is hashed by the hasher. */
async function hasContent({ disk, hasher }: LocalFiles, path: string, { content, digest }: StagedEntry) {
  const fd = await disk.open(path, constants.O_RDONLY);
  const hash = Buffer.isBuffer(content) ? null : hasher.begin();
  try {
    let block = Buffer.allocUnsafeSlow(Buffer.isBuffer(content) ? content.length + 1 : BLOCK_BYTES);
    for (let filled = 0; ; ) {
      const { bytesRead } = await disk.read(fd, block, filled, block.length - filled, null);
      if (hash === null) {
        filled += bytesRead;
        if (bytesRead === 0) return block.subarray(0, filled).equals(content as Buffer);
      } else if (bytesRead === 0) return (await hash.digest()) === digest;
      else block = (await hash.update(block, bytesRead)) as typeof block;
    }
  } catch (error) {
    if (errnoOf(error) === "EIO") return false;
    throw error;
  } finally {
    hash?.abandon();
    await disk.close(fd);
  }
}

async function statOrNull(disk: Disk, path: string): Promise<Stats | null> {
  try {
    return await disk.stat(path);
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return null;
    throw error;
  }
}

async function* readFile({ root, disk }: LocalFiles, digest: string): AsyncGenerator<Buffer, void, undefined> {
  const fd = await disk.open(evidencePath(root, digest), constants.O_RDONLY).catch((error: unknown) => {
    throw errnoOf(error) === "ENOENT" ? new MissingEvidenceError(digest) : error;
  });
  try {
    const hash = createHash("sha256");
    // The last block is held back until the digest of the whole content is known.
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
    if (errnoOf(error) === "EIO") throw new DamagedEvidenceError(digest, "it cannot be read");
    throw withPath(error, evidencePath(root, digest));
  } finally {
    await disk.close(fd);
  }
}

async function* listFiles({ root, disk }: LocalFiles): AsyncGenerator<StoredFile> {
  for (const shard of (await listShards(disk, root)).sort()) {
    for (const name of (await disk.readdir(join(root, shard))).sort()) {
      const digest = digestAt(shard, name);
      const stats = digest === null ? null : await statOrNull(disk, join(root, shard, name));
      if (digest !== null && stats !== null) yield { digest, size: stats.size, modifiedAt: stats.mtimeMs / 1000 };
    }
  }
}

/** Asks for the reference first: nearly every file has one, and the question costs no system call. */
async function* listUnreferenced({ root, disk }: LocalFiles, { isReferenced }: SweepRules): AsyncGenerator<string> {
  for (const shard of await listShards(disk, root)) {
    for (const name of await disk.readdir(join(root, shard))) {
      const digest = digestAt(shard, name);
      if (digest !== null && !isReferenced(digest)) yield digest;
    }
  }
}

const listShards = async (disk: Disk, root: string): Promise<string[]> =>
  (await disk.readdir(root)).filter((name) => SHARD_PATTERN.test(name));

/**
 * Removes the file if it is old and unreferenced. Runs under the lock of the digest.
 * @returns the size in bytes of the removed file, null if the file stays
 */
async function sweepFile(files: LocalFiles, digest: string, rules: SweepRules): Promise<number | null> {
  const stats = await statOrNull(files.disk, evidencePath(files.root, digest));
  if (stats === null || stats.mtimeMs / 1000 >= rules.olderThan || rules.isReferenced(digest)) return null;
  await removeFile(files, digest);
  return stats.size;
}

async function removeFile({ disk, root, confirmed }: LocalFiles, digest: string): Promise<void> {
  confirmed.delete(digest);
  await removeIfPresent(disk, evidencePath(root, digest));
}
