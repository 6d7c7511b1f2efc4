/** Undoes the creation of a data directory after a start or a command was refused. */
import { existsSync, lstatSync, readdirSync, rmdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";

/** The state of a path before a data directory was created there. */
export type DirectoryState = {
  /** Whether the directory was missing or empty, so that everything now in it was created since. */
  readonly isFresh: boolean;
  /**
   * Restores a fresh directory: empties it or, if it was missing, removes it together with those of its new parents
   * that are empty. Does nothing to any other directory. Call it only while no other process can use the directory,
   * and only if nothing in it has been acknowledged to a client.
   * @throws the system error when something cannot be removed
   */
  undo(): void;
};

/** Records the state of an absolute path; call it before creating a data directory there. */
export function recordDirectoryState(directory: string): DirectoryState {
  const missing: string[] = [];
  // A link that leads nowhere is not missing: the operator or systemd made it.
  const isMissing = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false }) === undefined;
  for (let path = directory; isMissing(path); path = dirname(path)) missing.push(path);
  if (missing.length > 0) {
    return {
      isFresh: true,
      undo() {
        rmSync(directory, { recursive: true, force: true });
        for (const parent of missing.slice(1)) if (!removeEmptyDirectory(parent)) break;
      },
    };
  }
  if (!isEmptyDirectory(directory)) return { isFresh: false, undo: () => undefined };
  return {
    isFresh: true,
    undo() {
      for (const name of readdirSync(directory)) rmSync(join(directory, name), { recursive: true, force: true });
    },
  };
}

/** False also if the path is not a readable directory: nothing may be removed there. */
function isEmptyDirectory(directory: string): boolean {
  try {
    return readdirSync(directory).length === 0;
  } catch {
    return false;
  }
}

/** Removes a directory if it is empty. @returns whether it no longer exists. */
function removeEmptyDirectory(directory: string): boolean {
  try {
    rmdirSync(directory);
    return true;
  } catch {
    return !existsSync(directory);
  }
}
