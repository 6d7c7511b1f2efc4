// The file system calls of the vault, in one table: the seam at which tests record their order and stop them half way.
// Plain descriptors instead of FileHandle: measured, a small publish costs the event loop about a third less.
import fs from "node:fs";
import { promisify } from "node:util";

/** Every call the vault makes after it was opened. All asynchronous, all failing with the usual ErrnoException. */
export const disk = {
  open: promisify(fs.open),
  read: promisify(fs.read),
  write: promisify(fs.write),
  fdatasync: promisify(fs.fdatasync),
  fsync: promisify(fs.fsync),
  futimes: promisify(fs.futimes),
  close: promisify(fs.close),
  stat: promisify(fs.stat),
  rename: promisify(fs.rename),
  unlink: promisify(fs.unlink),
  mkdir: promisify(fs.mkdir),
  readdir: promisify(fs.readdir),
};

export type Disk = typeof disk;

/** The errno code ("ENOENT") of what a file system call threw, or null for any other kind of value. */
export function errnoOf(error: unknown): string | null {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : null;
  return typeof code === "string" ? code : null;
}

/** Writes all of `bytes` at the descriptor's position; a short write (a signal, a nearly full disk) is continued. */
export async function writeAll(disk: Disk, fd: number, bytes: Buffer): Promise<void> {
  let done = 0;
  while (done < bytes.length) done += (await disk.write(fd, bytes, done, bytes.length - done, null)).bytesWritten;
}

/** Removes a file; one that is already gone is what was wanted. */
export async function removeIfPresent(disk: Disk, path: string): Promise<void> {
  try {
    await disk.unlink(path);
  } catch (error) {
    if (errnoOf(error) !== "ENOENT") throw error;
  }
}
