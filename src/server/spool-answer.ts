/** The reader thread's part of a large answer (http/answers/large-answers.ts): texts become the bytes of a file. */
import { closeSync, openSync, unlinkSync, writeSync } from "node:fs";
import { gzip } from "../archive/gzip.ts";
import { BLOCKS, SPOOL_BLOCK_BYTES, UNWANTED, returnBlocks } from "../http/answers/large-answers.ts";
import type { FreeBlocks, SpoolResult, SpoolTask } from "../http/answers/large-answers.ts";
import { GZIP_LEVEL } from "../http/representation.ts";
import { freeBytesSync } from "../store/db/disk-space.ts";

/** Blocks between two looks at the free space of the disk: 8 MB. */
const BLOCKS_PER_LOOK = 64;

export type SpoolLimits = {
  /** The data directory. */
  directory: string;
  freeBlocks: FreeBlocks;
  /** Free space that stays on the disk, in bytes. */
  reserveBytes: number;
};

/**
 * Writes the pieces to the file of a task.
 * @throws the error of the pieces, the system's error
 */
export function spoolAnswer(
  pieces: Iterable<string>,
  { path, control, gzip: gzipped }: Pick<SpoolTask, "path" | "control" | "gzip">,
  limits: SpoolLimits,
): SpoolResult {
  const fd = openSync(path, "r+");
  let isWhole = false;
  try {
    // Unlinked while it is open: nothing stays behind, however this process ends.
    unlinkSync(path);
    let bytes = 0;
    const blocks = encodeBlocks(pieces);
    for (const part of gzipped ? gzip(blocks, GZIP_LEVEL) : blocks) {
      if (Atomics.load(control, UNWANTED) === 1) return { stopped: "unwanted" };
      bytes += part.length;
      if (!takeBlocks(Math.ceil(bytes / SPOOL_BLOCK_BYTES), control, limits)) return { stopped: "full" };
      writeAll(fd, part);
    }
    isWhole = true;
    return { bytes };
  } finally {
    closeSync(fd);
    // The main thread, which set the flag, has returned what was taken until then.
    if (!isWhole || Atomics.load(control, UNWANTED) === 1) returnBlocks(limits.freeBlocks, control);
  }
}

/** Takes blocks until a file has as many. @returns false if there are none left, or the disk is nearly full */
function takeBlocks(
  wanted: number,
  control: SpoolTask["control"],
  { freeBlocks, directory, reserveBytes }: SpoolLimits,
): boolean {
  const taken = Atomics.load(control, BLOCKS);
  const more = wanted - taken;
  if (more <= 0) return true;
  Atomics.add(control, BLOCKS, more);
  if (Atomics.sub(freeBlocks, 0, more) < more) return false;
  const looks = Math.floor(wanted / BLOCKS_PER_LOOK) > Math.floor(taken / BLOCKS_PER_LOOK);
  return !looks || freeBytesSync(directory) > reserveBytes;
}

/** UTF-8 in blocks. Each is valid until the next one is requested. */
function* encodeBlocks(pieces: Iterable<string>): Generator<Uint8Array, void, undefined> {
  const encoder = new TextEncoder();
  const block = new Uint8Array(SPOOL_BLOCK_BYTES);
  let filled = 0;
  for (const piece of pieces)
    for (let at = 0; at < piece.length; ) {
      const { read, written } = encoder.encodeInto(at === 0 ? piece : piece.slice(at), block.subarray(filled));
      at += read;
      filled += written;
      // A character takes up to four bytes.
      if (filled <= SPOOL_BLOCK_BYTES - 4) continue;
      yield block.subarray(0, filled);
      filled = 0;
    }
  if (filled > 0) yield block.subarray(0, filled);
}

function writeAll(fd: number, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length; ) done += writeSync(fd, bytes, done, bytes.length - done);
}
