/** Properties of a source repository that follow from its URL and its name alone (semantics 8.1). */

/** Scheme, optional user, host with an optional port. Groups: scheme, host, port. */
const AUTHORITY = /^([a-z][a-z0-9+.-]*):\/\/(?:[^/?#]*@)?([^/?#@]*?)(?::(\d*))?(?:[/?#]|$)/i;
/** Default ports by scheme: with and without them, a URL means the same instance. */
const DEFAULT_PORTS: Readonly<Record<string, string>> = {
  http: "80",
  https: "443",
  ssh: "22",
  git: "9418",
  svn: "3690",
};

/** The code host instance of a URL: its host in lower case, with the port if it is not the default; "" without one. */
export function vcsInstanceOf(url: string): string {
  const [, scheme = "", host = "", port = ""] = AUTHORITY.exec(url) ?? [];
  const isDefaultPort = port === "" || DEFAULT_PORTS[scheme.toLowerCase()] === port;
  return (isDefaultPort ? host : `${host}:${port}`).toLowerCase();
}

/**
 * The namespace of a repository, its levels joined by slashes: the reported one, else the name without its last part.
 * "" without a namespace.
 */
export function deriveNamespace(name: string, path: readonly string[] | null): string {
  return path && path.length > 0
    ? removeEmptyLevels(path.join("/"))
    : removeEmptyLevels(name.slice(0, Math.max(name.lastIndexOf("/"), 0)));
}

/** A path without empty levels, for comparing namespaces: `/acme//web/` becomes `acme/web`. */
export const removeEmptyLevels = (path: string): string =>
  path
    .split("/")
    .filter((level) => level !== "")
    .join("/");

/** The form of a name for case-insensitive search. SQLite's own lower() handles ASCII only. */
export const foldCase = (name: string): string => name.toLowerCase();
