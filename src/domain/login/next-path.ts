/** The path to which the browser returns after login. */

/** Characters; longer than any path of ours. */
const MAX_PATH_CHARS = 2000;
/** Any origin will do: the URL parser needs one to resolve a path. */
const PLACEHOLDER_ORIGIN = "http://here.invalid";

/**
 * Parses the path from a parameter that anyone may have put into a link. null for anything that could lead off this
 * server: browsers read `//host`, `\\host` and paths with line feeds as other hosts, also after leading dots.
 */
export function parseNextPath(text: string | null): string | null {
  if (text === null || text.length > MAX_PATH_CHARS) return null;
  if (!/^\/(?![/\\])[\x21-\x7e]*$/.test(text) || text.includes("\\")) return null;
  if (!URL.canParse(text, PLACEHOLDER_ORIGIN)) return null;
  const { origin, pathname, search, hash } = new URL(text, PLACEHOLDER_ORIGIN);
  return origin === PLACEHOLDER_ORIGIN && !pathname.startsWith("//") ? `${pathname}${search}${hash}` : null;
}
