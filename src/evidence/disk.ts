// The file system calls of the evidence store in one table, so that tests can record their order and stop between any
// two of them. Plain descriptors instead of FileHandle: measured, a small publish costs the event loop a third less.
import fs from "node:fs";
import { promisify } from "node:util";
import { onPath } from "../domain/text/system-errors.ts";
import type { Owner } from "../store/db/state-directory.ts";

/** Every call the store makes once it is open. All are asynchronous and reject with the usual ErrnoException. */
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

const fchown = promisify(fs.fchown);
const lchown = promisify(fs.lchown);

/** The same calls for root in the data directory of another user, to whom all belongs that they create. */
export function diskOf({ uid, gid }: Owner): Disk {
  async function open(path: string, flags: number, mode?: number): Promise<number> {
    const fd = await disk.open(path, flags, mode);
    if ((flags & fs.constants.O_CREAT) !== 0) await onPath(path, fchown(fd, uid, gid));
    return fd;
  }
  async function mkdir(path: string, mode: number): Promise<void> {
    try {
      await disk.mkdir(path, mode);
    } finally {
      // Also if it was there: a process that was killed may have created it and not given it away.
      await lchown(path, uid, gid);
    }
  }
  return { ...disk, open: open as Disk["open"], mkdir: mkdir as Disk["mkdir"] };
}

/** The errno code ("ENOENT") of a file system error, null for any other value. */
export function errnoOf(error: unknown): string | null {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : null;
  return typeof code === "string" ? code : null;
}

/** Writes all of `bytes` at the descriptor's position, repeating short writes (a signal, a nearly full disk). */
export async function writeAll(disk: Disk, fd: number, bytes: Buffer): Promise<void> {
  let done = 0;
  while (done < bytes.length) done += (await disk.write(fd, bytes, done, bytes.length - done, null)).bytesWritten;
}

/** Removes a file; a file that does not exist is not an error. */
export async function removeIfPresent(disk: Disk, path: string): Promise<void> {
  try {
    await disk.unlink(path);
  } catch (error) {
    if (errnoOf(error) !== "ENOENT") throw error;
  }
}

/** Cleans up after a failure, which a second failure must not hide: a sweep removes what stays. */
export async function removeQuietly(disk: Disk, path: string): Promise<void> {
  await removeIfPresent(disk, path).catch(() => {});
}
