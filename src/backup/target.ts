/** Where a backup is written to: its file, the space for it, and the bytes on their way there. */
import { createHash } from "node:crypto";
import { open, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { withCompressors } from "../archive/compressors.ts";
import { onPath } from "../domain/text/system-errors.ts";
import { MB } from "../domain/text/units.ts";
import { freeBytes } from "../store/db/disk-space.ts";
import { countReleasedBytes } from "../workers/memory-reclaim.ts";
import { syncPath } from "./durable.ts";
import { BackupError } from "./errors.ts";

/**
 * `file` is an absolute path; the archive is compressed if it ends in .gz or .tgz. `partial` is its name until it is
 * complete, FILE.partial by default.
 */
type FileTarget = { file: string; partial?: string; overwrite: boolean };

/** A file, or a function that takes the bytes of the archive. */
export type BackupTarget = FileTarget | { write(bytes: Uint8Array): Promise<void> };

/** The archive as it was written. */
type Written = { bytes: number; sha256: string };

/** Bytes that are written at a time. */
const BLOCK_BYTES = 256 * 1024;
/** Bytes between two syncs: a single sync at the end would block every other process that uses the disk. */
const SYNC_INTERVAL_BYTES = 64 * MB;

export const partialOf = ({ file, partial = `${file}.partial` }: FileTarget): string => partial;

/** @throws BackupError unless the file can be created or replaced */
export async function assertTarget({ file, overwrite }: FileTarget): Promise<void> {
  const parent = await stat(dirname(file)).catch(() => null);
  if (!parent?.isDirectory()) throw new BackupError(`there is no directory ${dirname(file)}; create it first`);
  const existing = await stat(file).catch(() => null);
  if (existing && !existing.isFile()) throw new BackupError(`${file} is not a file; give the name of one`);
  if (existing && !overwrite)
    throw new BackupError(`${file} already exists; give another name, or --overwrite to replace it`);
}

/**
 * Requires space for the copy of the database (`size`) and for the archive, whose size is known unless it is
 * compressed. All sizes in bytes.
 * @param directory the data directory @param reserve bytes to leave free on its disk
 * @param parent the directory that copy and archive are written to
 * @throws BackupError
 */
export async function requireSpace({
  directory,
  target,
  reserve,
  parent,
  size,
  evidenceBytes,
}: {
  directory: string;
  target: BackupTarget;
  reserve: number;
  parent: string;
  size: number;
  /** Asked only where it counts, because it reads all references. */
  evidenceBytes(): number;
}): Promise<void> {
  const isPlainFile = "file" in target && !isCompressed(target.file);
  const needed = size + (isPlainFile ? size + evidenceBytes() : 0);
  const [place, data] = await Promise.all([stat(parent), stat(directory)]);
  const isDataDisk = place.dev === data.dev;
  const free = (await freeBytes(parent)) - (isDataDisk ? reserve : 0);
  if (needed <= free) return;
  const reserved = isDataDisk ? `, not counting the ${megabytes(reserve)} reserved for the server` : "";
  throw new BackupError(
    `the backup needs up to ${megabytes(needed)} in ${parent}, where ${megabytes(Math.max(0, free))} are free` +
      `${reserved}; give a directory with more space`,
  );
}

const isCompressed = (file: string): boolean => /\.(gz|tgz)$/.test(file);
const megabytes = (bytes: number): string => `${Math.ceil(bytes / MB)} MB`;

/** Joins pieces to blocks, each in memory of its own: members of a few bytes would cost three writes each. */
export async function* toBlocks(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let block = Buffer.allocUnsafe(BLOCK_BYTES);
  let filled = 0;
  for await (const piece of pieces) {
    for (let taken = 0; taken < piece.length; ) {
      const part = piece.subarray(taken, taken + BLOCK_BYTES - filled);
      block.set(part, filled);
      filled += part.length;
      taken += part.length;
      if (filled < BLOCK_BYTES) continue;
      yield block;
      block = Buffer.allocUnsafe(BLOCK_BYTES);
      filled = 0;
    }
  }
  if (filled > 0) yield block.subarray(0, filled);
}

/** Passes all bytes to `write` and returns their number and hash. */
export async function writeHashed(
  pieces: AsyncIterable<Uint8Array>,
  write: (piece: Uint8Array) => Promise<void>,
): Promise<Written> {
  const hash = createHash("sha256");
  let bytes = 0;
  for await (const piece of pieces) {
    hash.update(piece);
    bytes += piece.length;
    await write(piece);
    countReleasedBytes(piece.length);
  }
  return { bytes, sha256: hash.digest("hex") };
}

/**
 * Writes an archive under its partial name, checks it, and gives it its name; on failure nothing is left of it.
 * @throws BackupError, errors of `check` and the operating system
 */
export async function writeArchiveFile(
  target: FileTarget,
  archive: AsyncIterable<Uint8Array>,
  check?: (partial: string) => Promise<void>,
): Promise<Written> {
  const { file: name } = target;
  const partial = partialOf(target);
  // An existing file was left by a killed process, because the lock admits one backup of this directory at a time.
  await rm(partial, { force: true });
  const file = await open(partial, "wx", 0o600);
  try {
    let unsynced = 0;
    const write = async (piece: Uint8Array): Promise<void> => {
      for (let done = 0; done < piece.length; ) done += (await onPath(partial, file.write(piece, done))).bytesWritten;
      unsynced += piece.length;
      if (unsynced < SYNC_INTERVAL_BYTES) return;
      unsynced = 0;
      await onPath(partial, file.datasync());
    };
    let written: Written = { bytes: 0, sha256: "" };
    const consume = async (source: AsyncIterable<Uint8Array>): Promise<void> => {
      written = await writeHashed(source, write);
    };
    if (isCompressed(name))
      await pipeline(
        archive,
        withCompressors(() => createGzip()),
        consume,
      );
    else await consume(archive);
    await onPath(partial, file.sync());
    await check?.(partial);
    await assertTarget(target);
    const [own, named] = await Promise.all([file.stat(), stat(partial)]);
    if (own.ino !== named.ino)
      throw new BackupError(
        `another process writes to ${partial}; give every data directory a backup directory of its own`,
      );
    await rename(partial, name);
    await syncPath(dirname(name));
    return written;
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  } finally {
    await file.close();
  }
}
