/** Where people go after they signed in. */

/**
 * A path of this server below its own root, from a parameter that anybody may have put into a link; null for whatever
 * could lead elsewhere. Browsers read `//host`, `\\host` and addresses with line feeds in them as other hosts, also
 * where dots come first.
 */
export function parseNextPath(text: string | null): string | null {
  if (text === null || text.length > 2000 || !/^\/(?![/\\])[\x21-\x7e]*$/.test(text) || text.includes("\\"))
    return null;
  if (!URL.canParse(text, HERE)) return null;
  const { origin, pathname, search, hash } = new URL(text, HERE);
  return origin === HERE && !pathname.startsWith("//") ? `${pathname}${search}${hash}` : null;
}

const HERE = "http://here.invalid";
