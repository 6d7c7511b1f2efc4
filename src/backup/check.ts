/** Whether an archive is whole, without unpacking it. */
import { createReadStream } from "node:fs";
import type { Manifest } from "./format.ts";
import { readBackup, decompress } from "./read.ts";

/**
 * Reads an archive to its end and compares every size, hash and count in it; the database itself is not looked into.
 * @throws DamagedBackupError, NewerBackupError, what the source throws, what the signal was aborted with.
 */
export async function checkArchive(source: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<Manifest> {
  const through = async (content: AsyncIterable<Buffer>): Promise<void> => {
    for await (const _ of content) signal.throwIfAborted();
  };
  return readBackup(decompress(source), {
    head: () => undefined,
    database: through,
    evidence: (_, content) => through(content),
  });
}

/** The same for a file. */
export const checkArchiveFile = async (path: string, signal: AbortSignal): Promise<void> =>
  void (await checkArchive(createReadStream(path, { highWaterMark: 256 * 1024 }), signal));
