// Where a content address lives below the evidence root: the only function that knows, shared by the vault, which
// writes, and the evidence worker, which reads. 256 directories by the first byte keep each of them small enough for
// every file system and every `ls` up to millions of files.
import { join } from "node:path";

const DIGEST_PATTERN = /^[0-9a-f]{64}$/;

/** The names a directory of the evidence root may have: the first two hexadecimal digits of the digests in it. */
export const SHARD_PATTERN = /^[0-9a-f]{2}$/;

/**
 * The directory and the file name of a content address, both relative: `abcd...` -> `{ shard: "ab", name: "cd..." }`.
 * Throws RangeError for anything but 64 lower-case hexadecimal digits, so that no path can be smuggled in as a digest.
 */
export function splitDigest(digest: string): { shard: string; name: string } {
  if (!DIGEST_PATTERN.test(digest)) throw new RangeError(`not a SHA-256 digest: ${JSON.stringify(digest)}`);
  return { shard: digest.slice(0, 2), name: digest.slice(2) };
}

/** The path of the file with this content below `root`. Throws RangeError as `placeOf` does. */
export function evidencePath(root: string, digest: string): string {
  const { shard, name } = splitDigest(digest);
  return join(root, shard, name);
}

/** The digest of a file found at `shard/name`, or null where the two do not make one (a stranger in the directory). */
export function digestAt(shard: string, name: string): string | null {
  const digest = shard + name;
  return SHARD_PATTERN.test(shard) && DIGEST_PATTERN.test(digest) ? digest : null;
}
