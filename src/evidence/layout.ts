// The layout of the evidence root, shared by the store, which writes, and the reader thread. 256 directories, named by
// the first byte of the digest, keep each of them small enough for every file system and every `ls`, up to millions of
// files.
import { join } from "node:path";

const DIGEST_PATTERN = /^[0-9a-f]{64}$/;

/** The name of a shard directory: the first two hexadecimal digits of the digests in it. */
export const SHARD_PATTERN = /^[0-9a-f]{2}$/;

/**
 * The directory and the file name of a content address, both relative: `abcd...` -> `{ shard: "ab", name: "cd..." }`.
 * @throws RangeError for anything but 64 lower-case hexadecimal digits, so that a digest can never smuggle in a path
 */
export function splitDigest(digest: string): { shard: string; name: string } {
  if (!DIGEST_PATTERN.test(digest)) throw new RangeError(`not a SHA-256 digest: ${JSON.stringify(digest)}`);
  return { shard: digest.slice(0, 2), name: digest.slice(2) };
}

/** The path of the file with this content below `root`. @throws RangeError as `splitDigest` does */
export function evidencePath(root: string, digest: string): string {
  const { shard, name } = splitDigest(digest);
  return join(root, shard, name);
}

/** The digest of the file `shard/name`, or null where the two do not form one (a foreign file in the directory). */
export function digestAt(shard: string, name: string): string | null {
  const digest = shard + name;
  return SHARD_PATTERN.test(shard) && DIGEST_PATTERN.test(digest) ? digest : null;
}
