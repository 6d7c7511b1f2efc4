/**
 * Whose data directories are. Those of services with a dynamic user (systemd.exec(5), DynamicUser=): systemd keeps
 * /var/lib/assay in /var/lib/private/assay and makes the first a link to the second, and it starts no service that has
 * two directories.
 */
import { chownSync, lstatSync, readdirSync, readlinkSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";

/** The data directory is a link to a directory that does not exist. The `code` makes the message enough. */
class DanglingLinkError extends Error {
  override readonly name = "DanglingLinkError";
  readonly code = "ENOENT";

  constructor(directory: string, target: string) {
    super(
      `${directory} is a link to ${target}, which does not exist: move the data back to ${target}, ` +
        `or restore a backup into it with --data ${target}`,
    );
  }
}

/** The missing directory to which a link leads; null where the path is anything else. */
export function findMissingTarget(directory: string): string | null {
  const isLink = lstatSync(directory, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
  if (!isLink || statSync(directory, { throwIfNoEntry: false }) !== undefined) return null;
  return resolve(dirname(directory), readlinkSync(directory));
}

/** @throws DanglingLinkError */
export function refuseMissingTarget(directory: string): void {
  const target = findMissingTarget(directory);
  if (target !== null) throw new DanglingLinkError(directory, target);
}

/**
 * The directory with content that systemd keeps for this name, where the name itself does not lead to it; null where
 * there is none, or it may not be read.
 */
export function findPrivateDirectory(directory: string): string | null {
  const second = join(dirname(directory), "private", basename(directory));
  try {
    const found = lstatSync(second);
    const stats = statSync(directory, { throwIfNoEntry: false });
    if (!found.isDirectory() || (stats?.ino === found.ino && stats.dev === found.dev)) return null;
    return readdirSync(second).length > 0 ? second : null;
  } catch {
    return null;
  }
}

export type Owner = { uid: number; gid: number };

/**
 * To whom that belongs which root creates in `directory`: the owner of the database in it, or of `directory` where it
 * has no database. The server could not use it otherwise. Null where it stays with its creator: what other users than
 * root create belongs to themselves.
 * @throws the system's error
 */
export function findOwner(directory: string): Owner | null {
  if (process.getuid?.() !== 0) return null;
  const { uid, gid } = statSync(join(directory, "assay.db"), { throwIfNoEntry: false }) ?? statSync(directory);
  return uid === 0 ? null : { uid, gid };
}

/** Gives a file or directory that root created to the owner of `directory` (`findOwner`). @throws the system's error */
export function giveToOwner(path: string, directory: string): void {
  const owner = findOwner(directory);
  if (owner !== null) chownSync(path, owner.uid, owner.gid);
}
