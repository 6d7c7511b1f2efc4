/** Checks whether an archive is complete and unchanged, without unpacking it to disk. */
import { createReadStream } from "node:fs";
import type { Manifest } from "./format.ts";
import { decompress, readBackup } from "./read.ts";

/** Bytes read at a time. */
const BLOCK_BYTES = 256 * 1024;

/**
 * Reads an archive to its end and compares every size, hash and count in it; the database itself is not opened.
 * @throws DamagedBackupError, NewerBackupError, errors of the source, the abort reason of the signal
 */
export async function checkArchive(source: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<Manifest> {
  const drain = async (content: AsyncIterable<Buffer>): Promise<void> => {
    for await (const _ of content) signal.throwIfAborted();
  };
  return readBackup(decompress(source), {
    head: () => undefined,
    database: drain,
    evidence: (_, content) => drain(content),
  });
}

/** `checkArchive` for a file. */
export async function checkArchiveFile(path: string, signal: AbortSignal): Promise<void> {
  await checkArchive(createReadStream(path, { highWaterMark: BLOCK_BYTES }), signal);
}
