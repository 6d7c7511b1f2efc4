/** Rego bundles: files by path, their limits and what a path may be (newer-clients 4.1). */

/** The text of each file by its path: relative, with `/`. */
export type RegoFiles = Readonly<Record<string, string>>;

export const MAX_BUNDLE_FILES = 100;
/** Bytes of all paths and contents together, in UTF-8. */
export const MAX_BUNDLE_BYTES = 1_048_576;
/** Bytes of one path in UTF-8: what file systems take. */
const MAX_PATH_BYTES = 1_024;

const CONTROL_CHARACTER = /[\u0000-\u001f\u007f]/;

/**
 * Why a bundle is too large or too small; null for one within the limits.
 * @param bytes of all paths and contents, in UTF-8
 */
export function findBundleSizeProblem(files: number, bytes: number): string | null {
  if (bytes > MAX_BUNDLE_BYTES) return `policy bundle is ${bytes} bytes, over the ${MAX_BUNDLE_BYTES} byte limit`;
  if (files > MAX_BUNDLE_FILES) return `policy bundle holds ${files} files, over the limit of ${MAX_BUNDLE_FILES}`;
  return files === 0 ? "policy bundle holds no files" : null;
}

/** Why a path may not be in a bundle, as one line; null for a valid one. */
function findPathProblem(path: string): string | null {
  if (path === "") return "The path of a file must not be empty";
  if (!path.isWellFormed()) return "The path is not valid Unicode";
  if (CONTROL_CHARACTER.test(path)) return "The path must not contain control characters";
  if (path.includes("\\")) return "The path must use '/' between directories";
  if (path.startsWith("/")) return "The path must be relative to the bundle";
  if (Buffer.byteLength(path) > MAX_PATH_BYTES) return `The path is longer than ${MAX_PATH_BYTES} bytes`;
  const segments = path.split("/");
  if (segments.includes("..")) return "The path must not contain '..'";
  if (segments.includes("") || segments.includes(".")) return "The path must not contain empty directories or '.'";
  return null;
}

/** The problems of all paths, by path; a file in the place of a directory is one too. */
export function findPathProblems(paths: readonly string[]): Map<string, string> {
  const problems = new Map<string, string>();
  const files = new Set(paths);
  for (const path of paths) {
    const problem = findPathProblem(path) ?? findFileAbove(path, files);
    if (problem !== null) problems.set(path, problem);
  }
  return problems;
}

function findFileAbove(path: string, files: ReadonlySet<string>): string | null {
  for (let at = path.indexOf("/"); at !== -1; at = path.indexOf("/", at + 1))
    if (files.has(path.slice(0, at))) return `'${path.slice(0, at)}' is a file, so it cannot be a directory`;
  return null;
}

/** The order of paths in digests and archives: that of their bytes in UTF-8. */
export const comparePaths = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

/** What the engine takes a file for by its path (newer-clients 6.2): it reads no `other` files. */
export function kindOfFile(path: string): "module" | "test" | "data" | "other" {
  const name = path.slice(path.lastIndexOf("/") + 1);
  if (name.endsWith(".rego")) return name.endsWith("_test.rego") ? "test" : "module";
  return DATA_FILE.test(name) ? "data" : "other";
}

const DATA_FILE = /^(data\.(json|yaml|yml)|.*\.ergo\.(yaml|yml))$/;
