/** Undoing the creation of a data directory, for a start or a command that was refused. */
import { existsSync, readdirSync, rmdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";

/** What was at a path before a data directory was made there. */
export type DirectoryBefore = {
  /** Whether there was no directory, or an empty one: all that is in it now was made since. */
  readonly isFresh: boolean;
  /**
   * Puts a fresh directory back: removes it where there was none, and the parents made for it as far as they are empty,
   * or else its content. Does nothing to any other. Call it only while nobody else can use the directory, and only
   * where nothing in it was acknowledged to anybody.
   * @throws the system's error when something cannot be removed.
   */
  undo(): void;
};

/** Notes what is at an absolute path; to be called before a data directory is made there. */
export function noteDirectory(directory: string): DirectoryBefore {
  const missing: string[] = [];
  for (let path = directory; !existsSync(path); path = dirname(path)) missing.push(path);
  if (missing.length > 0) {
    return {
      isFresh: true,
      undo() {
        rmSync(directory, { recursive: true, force: true });
        for (const parent of missing.slice(1)) if (!removeEmpty(parent)) break;
      },
    };
  }
  if (!isEmpty(directory)) return { isFresh: false, undo: () => undefined };
  return {
    isFresh: true,
    undo() {
      for (const name of readdirSync(directory)) rmSync(join(directory, name), { recursive: true, force: true });
    },
  };
}

/** False for what is no directory, or cannot be read: nothing is removed there. */
function isEmpty(directory: string): boolean {
  try {
    return readdirSync(directory).length === 0;
  } catch {
    return false;
  }
}

/** @returns whether the directory is gone; not when something else was put into it meanwhile. */
function removeEmpty(directory: string): boolean {
  try {
    rmdirSync(directory);
    return true;
  } catch {
    return !existsSync(directory);
  }
}
