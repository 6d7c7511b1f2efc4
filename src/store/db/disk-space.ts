/** The bytes that this user may still write to the file system of a directory. Both throw the system's error. */
import { statfsSync } from "node:fs";
import { statfs } from "node:fs/promises";

export async function freeBytes(directory: string): Promise<number> {
  const { bavail, bsize } = await statfs(directory);
  return bavail * bsize;
}

export function freeBytesSync(directory: string): number {
  const { bavail, bsize } = statfsSync(directory);
  return bavail * bsize;
}
