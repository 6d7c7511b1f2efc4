// URLs that users send: which are refused, and how old values that are none become links again. A URL is stored as it
// was sent; only what is read from a flow's legacy `repo_url` is rewritten, and that result is either an absolute URL
// that a browser can be sent to, or null.

/** Scheme, `//`, optional user, host, optional port, rest; group 1 is the scheme. Spaces occur in paths and may stay. */
const ABSOLUTE = /^([a-z][a-z0-9+.-]*):\/\/(?:[^/?#\s]*@)?(?:\[[0-9a-f:.]+\]|[^/?#\s@:[\]]+)(?::\d*)?(?:[/?#][^\x00-\x1f\x7f]*)?$/i;
/** Schemes that browsers execute. As the URL of a repository they can only be an attack on whoever clicks it. */
const EXECUTED: readonly string[] = ["javascript", "data", "vbscript"];

/** Whether a text is an absolute http or https URL, fit for a link on a page. */
export function isWebUrl(text: string): boolean {
  return /^https?:\/\//i.test(text) && ABSOLUTE.test(text) && URL.canParse(text);
}

/**
 * What is wrong with the URL of a repo info, in the form of a field text (messages 2), or null. It needs scheme and host
 * (semantics 3.1); other schemes than http are common, since providers include plain git and subversion.
 */
export function repoUrlProblem(url: string): string | null {
  const scheme = ABSOLUTE.exec(url)?.[1]?.toLowerCase();
  if (scheme !== undefined && !EXECUTED.includes(scheme)) return null;
  return `Input should be a valid URL with scheme and host [input: ${url}]`;
}

/** Values that clients and templates left in place of a URL; compared without case. */
const PLACEHOLDERS: ReadonlySet<string> = new Set([
  "", "-", "n/a", "na", "nil", "none", "null", "undefined", "unknown", "tbd", "todo", "placeholder",
  "repo-url", "repo_url", "repourl", "your-repo-url", "**redacted**",
]);
/** Variables that nobody expanded: `${X}`, `$X`, `$(X)`, `{{X}}`, `<x>`, `%X%`. */
const UNEXPANDED = /^\$|\$[{(]|\{\{|[<>]|^%.*%$/;
/** Remotes that are URLs, but not for browsers. Group 1: authority, group 2: path. */
const GIT_REMOTE = /^(?:ssh|git|git\+ssh|ssh\+git|git\+https?):\/\/([^/]+)\/(.+)$/i;
/** `host:path` with an optional user, as git and scp write it. Groups: user with `@`, host, path. */
const SCP = /^([^\s@/:]+@)?([^\s@/:]+):(.+)$/;
/** Behind a host without user this is a port, and perhaps the path of a URL. */
const PORT = /^\d+(?:\/|$)/;
/** A host with a dot, or localhost, with optional user before and port and path behind. Group 1: all but the user. */
const HOST_WITHOUT_SCHEME = /^(?:\/\/)?(?:[^\s@/:]+@)?((?:localhost|[a-z0-9-]+(?:\.[a-z0-9-]+)+)(?::\d+)?(?:[/?#]\S*)?)$/i;

/**
 * The URL to show for a flow's stored `repo_url` (semantics 2.2): an absolute URL stays as it is, a remote becomes the
 * https URL of its pages, a host without scheme gets `https://`, and placeholders and everything without a host are
 * dropped. Never throws.
 * @param stored the text as reported, or null
 */
export function repairRepoUrl(stored: string | null): string | null {
  const text = (stored ?? "").trim();
  if (PLACEHOLDERS.has(text.toLowerCase()) || UNEXPANDED.test(text)) return null;

  const remote = GIT_REMOTE.exec(text);
  if (remote !== null) return browseUrl(withoutUserAndPort(remote[1] ?? ""), remote[2] ?? "");
  if (text.includes("://")) return repoUrlProblem(text) === null ? text : null;

  const [, user, scpHost, path] = SCP.exec(text) ?? [];
  if (scpHost !== undefined && path !== undefined) {
    if (user !== undefined || (scpHost.includes(".") && !PORT.test(path))) return browseUrl(scpHost, path);
  }
  const host = HOST_WITHOUT_SCHEME.exec(text)?.[1];
  return host === undefined ? null : webUrlOrNull(`https://${host}`);
}

/** The page of a repository given by the host and path of a remote. The remote's port speaks ssh or git, never https. */
function browseUrl(host: string, remotePath: string): string | null {
  const path = trimSlashes(remotePath).replace(/\.git$/, "");
  // Azure is the one large host whose remotes and pages differ in more than the scheme.
  const azure = host === "ssh.dev.azure.com" ? /^v3\/([^/]+)\/([^/]+)\/([^/]+)$/.exec(path) : null;
  if (azure !== null) return webUrlOrNull(`https://dev.azure.com/${azure[1]}/${azure[2]}/_git/${azure[3]}`);
  return webUrlOrNull(`https://${host}/${path}`);
}

function webUrlOrNull(text: string): string | null {
  return isWebUrl(text) ? text : null;
}

function withoutUserAndPort(authority: string): string {
  return authority.slice(authority.lastIndexOf("@") + 1).replace(/:\d*$/, "");
}

/** By hand, because `/\/+$/` takes quadratic time on a text of slashes. */
function trimSlashes(path: string): string {
  let begin = 0;
  let end = path.length;
  while (path[begin] === "/") begin += 1;
  while (end > begin && path[end - 1] === "/") end -= 1;
  return path.slice(begin, end);
}
