/** Creates directories, and makes them and files durable. */
import { closeSync, fsyncSync, mkdirSync, openSync, statSync } from "node:fs";
import { dirname, relative, sep } from "node:path";
import { onPathSync } from "../../domain/text/system-errors.ts";

/** Makes the content of a file, or the entries of a directory, durable. @throws the system's error */
export function syncToDisk(path: string): void {
  const descriptor = openSync(path, "r");
  try {
    onPathSync(path, () => fsyncSync(descriptor));
  } finally {
    closeSync(descriptor);
  }
}

/** The system lets no directory be made at this place. The `code` makes the message enough. */
class NoDirectoryError extends Error {
  override readonly name = "NoDirectoryError";
  readonly code = "ENOENT";

  constructor(path: string) {
    super(
      `cannot create the directory ${path}: ${dirname(path)} takes no new directories (ENOENT); give a path on a disk`,
    );
  }
}

/**
 * Creates a directory (mode 0700) and those above it that are missing. Not with the `recursive` of Node: below /proc,
 * where a directory that exists refuses new ones with ENOENT, it never ends.
 * @param path absolute
 * @returns the topmost directory that was created, null if all were there
 * @throws NoDirectoryError, or the system's error
 */
export function createDirectory(path: string): string | null {
  const missing: string[] = [];
  for (let at = path; statSync(at, { throwIfNoEntry: false }) === undefined && at !== dirname(at); at = dirname(at))
    missing.push(at);
  let topmost: string | null = null;
  for (const at of missing.reverse()) if (createOne(at)) topmost ??= at;
  // What is there may be a file.
  if (missing.length === 0 && !statSync(path).isDirectory()) mkdirSync(path);
  return topmost;
}

/** @returns false if another process created it meanwhile */
function createOne(path: string): boolean {
  try {
    mkdirSync(path, { mode: 0o700 });
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST" && statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) return false;
    if (code === "ENOENT" && statSync(dirname(path), { throwIfNoEntry: false })?.isDirectory() === true)
      throw new NoDirectoryError(path);
    throw error;
  }
}

/**
 * The same, and when this returns, the entry of each created directory is on disk.
 * @throws as createDirectory does
 */
export function createDirectoryDurably(path: string): void {
  const topmost = createDirectory(path);
  if (topmost === null) return;
  const levels = relative(dirname(topmost), path).split(sep).length;
  for (let child = path, left = levels; left > 0; child = dirname(child), left -= 1) syncToDisk(dirname(child));
}
