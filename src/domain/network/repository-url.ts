/** What is told of a source repository by its address and its name alone (semantics 8.1). */

/** Scheme, optional user, host with an optional port. Groups: scheme, host, port. */
const AUTHORITY = /^([a-z][a-z0-9+.-]*):\/\/(?:[^/?#]*@)?([^/?#@]*?)(?::(\d*))?(?:[/?#]|$)/i;
/** Ports that say no more than their scheme does: with them and without, it is one and the same instance. */
const USUAL_PORTS: Readonly<Record<string, string>> = { http: "80", https: "443", ssh: "22", git: "9418", svn: "3690" };

/**
 * The instance of a code host that a URL points at: its host in lower case, with the port unless it is the usual one.
 * "" where there is none.
 */
export function vcsInstanceOf(url: string): string {
  const [, scheme = "", host = "", port = ""] = AUTHORITY.exec(url) ?? [];
  const isUsual = port === "" || USUAL_PORTS[scheme.toLowerCase()] === port;
  return (isUsual ? host : `${host}:${port}`).toLowerCase();
}

/**
 * The namespace that a repository lies in, its levels joined by slashes: as it was reported, else all of the name but
 * its last part. "" for a repository without one.
 */
export function deriveNamespace(name: string, path: readonly string[] | null): string {
  return path && path.length > 0
    ? removeEmptyLevels(path.join("/"))
    : removeEmptyLevels(name.slice(0, Math.max(name.lastIndexOf("/"), 0)));
}

/** A path without empty levels, as a namespace is compared: `/acme//web/` is `acme/web`. */
export const removeEmptyLevels = (path: string): string =>
  path
    .split("/")
    .filter((level) => level !== "")
    .join("/");

/** The form of a name in which a search that ignores case finds it. SQLite's own lower() knows ASCII only. */
export const foldCase = (name: string): string => name.toLowerCase();
