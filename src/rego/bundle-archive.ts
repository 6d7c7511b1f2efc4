/**
 * Bundles as bytes: the gzipped tar in which they are stored and downloaded, the one in which clients send them, and
 * the digest that does not depend on either.
 */
import { hash } from "node:crypto";
import { gunzipWhole, gzipWhole } from "../archive/compress.ts";
import { tar } from "../archive/tar.ts";
import { DamagedTarError, untar } from "../archive/untar.ts";
import type { UntarredMember } from "../archive/untar.ts";
import { MAX_BUNDLE_BYTES, MAX_BUNDLE_FILES, comparePaths, findBundleSizeProblem } from "../domain/rego/bundle.ts";
import type { RegoFiles } from "../domain/rego/bundle.ts";
import { badRequest } from "../errors.ts";

/** Bytes of tar that a bundle within its limits may take: contents, and headers, padding and records of each file. */
const MAX_TAR_BYTES = MAX_BUNDLE_BYTES + MAX_BUNDLE_FILES * 8_192;

/** A file of a bundle as versions list it: size in bytes, SHA-256 in hex. */
export type BundleFile = { path: string; size: number; sha256: string };

const DIRECTORY = "5";
const REGULAR_FILE = "0";

/** The paths in the order of digests and archives. */
const sortedPaths = (files: RegoFiles): string[] => Object.keys(files).sort(comparePaths);

/** The SHA-256 of a bundle, in hex: of path, NUL, decimal length, NUL and content of each file (newer-clients 5.1). */
export function bundleSha256(files: RegoFiles): string {
  const parts = sortedPaths(files).flatMap((path) => {
    const content = Buffer.from(files[path] as string);
    return [Buffer.from(`${path}\0${content.length}\0`), content];
  });
  return hash("sha256", Buffer.concat(parts));
}

/** The files of a bundle, by path. */
export const listBundleFiles = (files: RegoFiles): BundleFile[] =>
  sortedPaths(files).map((path) => {
    const content = Buffer.from(files[path] as string);
    return { path, size: content.length, sha256: hash("sha256", content) };
  });

/** A gzipped tar of a bundle. Equal bundles give equal bytes: sorted paths, no times, no owners. */
export const packBundle = async (files: RegoFiles): Promise<Buffer> =>
  gzipWhole(
    Buffer.concat([
      ...tar(
        sortedPaths(files).map((name) => {
          const content = Buffer.from(files[name] as string);
          return { name, size: content.length, mtime: 0, content: [content] };
        }),
      ),
    ]),
  );

/**
 * The files of a gzipped tar. Directories are skipped, and a leading `./` is dropped; whether the paths are valid is
 * for the caller to check.
 * @throws AppError 400 for what is not such an archive, holds anything but files, or is over the limits
 */
export async function unpackBundle(archive: Uint8Array): Promise<RegoFiles> {
  const unpacked = await gunzipWhole(archive, MAX_TAR_BYTES).catch((error: Error) => {
    throw error instanceof RangeError ? badRequest(TOO_LARGE, error) : badRequest(NOT_AN_ARCHIVE, error);
  });
  try {
    return collectFiles(untar(unpacked));
  } catch (error) {
    throw error instanceof DamagedTarError
      ? badRequest(`The policy bundle cannot be unpacked: ${error.message}`, error)
      : error;
  }
}

/** It is not unpacked to the end, so whether files or bytes are too many is not known. */
const TOO_LARGE = `policy bundle is over the limit of ${MAX_BUNDLE_FILES} files and ${MAX_BUNDLE_BYTES} bytes`;
const NOT_AN_ARCHIVE = "The policy bundle is not a gzipped tar archive";

/** @throws AppError 400 */
function collectFiles(members: Iterable<UntarredMember>): RegoFiles {
  // Without a prototype, because a path may be `__proto__`.
  const files: Record<string, string> = Object.create(null);
  const total = { files: 0, bytes: 0 };
  for (const { name, type, content } of members) {
    if (type === DIRECTORY) continue;
    const path = name.replace(/^(\.\/)+/, "");
    if (type !== REGULAR_FILE) throw badRequest(`The policy bundle may contain files only: '${path}' is not a file`);
    if (Object.hasOwn(files, path)) throw badRequest(`The policy bundle contains '${path}' twice`);
    total.files += 1;
    total.bytes += Buffer.byteLength(path) + content.length;
    const problem = findBundleSizeProblem(total.files, total.bytes);
    if (problem !== null) throw badRequest(problem);
    files[path] = decodeText(path, content);
  }
  if (total.files === 0) throw badRequest("policy bundle holds no files");
  return files;
}

/** @throws AppError 400 for a file that is not UTF-8 */
function decodeText(path: string, bytes: Buffer): string {
  try {
    // A byte-order mark is content like any other: without it the digest would be that of another file.
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (error) {
    throw badRequest(`'${path}' of the policy bundle is not UTF-8 text`, error);
  }
}
