// URLs in requests: which are refused, how legacy values become links again, and which pages of a forge follow from
// them. A URL is stored as it was sent. Only a flow's legacy `repo_url` is rewritten when it is read, and the result is
// either an absolute URL that a browser can open, or null.

/** Scheme, `//`, optional user, host, optional port, rest; group 1 is the scheme. Paths may contain spaces. */
const ABSOLUTE =
  /^([a-z][a-z0-9+.-]*):\/\/(?:[^/?#\s]*@)?(?:\[[0-9a-f:.]+\]|[^/?#\s@:[\]]+)(?::\d*)?(?:[/?#][^\x00-\x1f\x7f]*)?$/i;
/** Schemes that browsers execute. As a repository URL they can only be an attack on the user who clicks the link. */
const EXECUTED: readonly string[] = ["javascript", "data", "vbscript"];

/** Whether a text is an absolute http or https URL and so can be a link on a page. */
export function isWebUrl(text: string): boolean {
  return /^https?:\/\//i.test(text) && ABSOLUTE.test(text) && URL.canParse(text);
}

/**
 * The scheme that a browser finds in a text, in lower case; null without one. Browsers skip white space and control
 * characters before a URL, and tabs and line breaks anywhere in it; programs that trim the text first skip more.
 */
function schemeOf(text: string): string | null {
  const trimmed = text.replace(/[\t\n\r]/g, "").replace(/^[\s\p{Cc}\p{Cf}]+/u, "");
  return /^([a-z][a-z0-9+.-]*):/i.exec(trimmed)?.[1]?.toLowerCase() ?? null;
}

/**
 * Whether a text is accepted where a link is expected: an http or https URL, or a text without a scheme. Clients do not
 * check these URLs and send an empty text or a bare `www.example.com`; such a text is stored and shown as plain text
 * (isWebUrl).
 */
export function isLinkable(text: string): boolean {
  const scheme = schemeOf(text);
  // In `ci.example.com:8080/17` the host looks like a scheme with dots.
  return scheme === null || scheme === "http" || scheme === "https" || HOST_WITHOUT_SCHEME.test(text);
}

/**
 * Whether a text is accepted as the URL of a repository or of a commit. Clients derive both from the remote of a
 * checkout, which may be anything that git accepts (ssh, scp form, path), so only schemes that browsers execute are
 * refused.
 */
export function isGitRemote(text: string): boolean {
  const scheme = schemeOf(text);
  return scheme === null || !EXECUTED.includes(scheme);
}

/**
 * The field error (messages 2) for the URL of a repo info, or null. The URL needs a scheme and a host (semantics 3.1);
 * schemes other than http are common, since providers include plain git and Subversion.
 */
export function findRepoUrlProblem(url: string): string | null {
  const scheme = ABSOLUTE.exec(url)?.[1]?.toLowerCase();
  if (scheme !== undefined && !EXECUTED.includes(scheme)) return null;
  return `Input should be a valid URL with scheme and host [input: ${url}]`;
}

/** Placeholders that clients and templates send in place of a URL, in lower case. */
const PLACEHOLDERS: ReadonlySet<string> = new Set([
  "",
  "-",
  "n/a",
  "na",
  "nil",
  "none",
  "null",
  "undefined",
  "unknown",
  "tbd",
  "todo",
  "placeholder",
  "repo-url",
  "repo_url",
  "repourl",
  "your-repo-url",
  "**redacted**",
]);
/** Unexpanded variables: `${X}`, `$X`, `$(X)`, `{{X}}`, `<x>`, `%X%`. */
const UNEXPANDED = /^\$|\$[{(]|\{\{|[<>]|^%.*%$/;
/** Remotes that are URLs, but that browsers cannot open. Group 1: authority, group 2: path. */
const GIT_REMOTE = /^(?:ssh|git|git\+ssh|ssh\+git|git\+https?):\/\/([^/]+)\/(.+)$/i;
/** `host:path` with an optional user, as in git and scp. Groups: user with `@`, host, path. */
const SCP = /^([^\s@/:]+@)?([^\s@/:]+):(.+)$/;
/** After a host without a user, this is a port, and possibly the path of a URL. */
const PORT = /^\d+(?:\/|$)/;
/** A host with a dot, or localhost, with optional user, port and path. Group 1: everything but the user. */
const HOST_WITHOUT_SCHEME =
  /^(?:\/\/)?(?:[^\s@/:]+@)?((?:localhost|[a-z0-9-]+(?:\.[a-z0-9-]+)+)(?::\d+)?(?:[/?#]\S*)?)$/i;

/**
 * The URL to show for a flow's stored `repo_url` (semantics 2.2): an absolute URL is unchanged, a remote becomes the
 * https URL of its pages, a host without a scheme gets `https://`, and placeholders and texts without a host become
 * null. Never throws.
 * @param stored the reported text, or null
 */
export function repairRepoUrl(stored: string | null): string | null {
  const text = (stored ?? "").trim();
  if (PLACEHOLDERS.has(text.toLowerCase()) || UNEXPANDED.test(text)) return null;

  const remote = GIT_REMOTE.exec(text);
  if (remote !== null) return browseUrl(withoutUserAndPort(remote[1] ?? ""), remote[2] ?? "");
  if (text.includes("://")) return findRepoUrlProblem(text) === null ? text : null;

  const [, user, scpHost, path] = SCP.exec(text) ?? [];
  if (scpHost !== undefined && path !== undefined) {
    if (user !== undefined || (scpHost.includes(".") && !PORT.test(path))) return browseUrl(scpHost, path);
  }
  const host = HOST_WITHOUT_SCHEME.exec(text)?.[1];
  return host === undefined ? null : webUrlOrNull(`https://${host}`);
}

/** The page of a repository from the host and path of its remote. The remote's port is for ssh or git, never https. */
function browseUrl(host: string, remotePath: string): string | null {
  const path = trimSlashes(remotePath).replace(/\.git$/, "");
  // Azure is the only large host whose remotes and pages differ in more than the scheme.
  const azure = host === "ssh.dev.azure.com" ? /^v3\/([^/]+)\/([^/]+)\/([^/]+)$/.exec(path) : null;
  if (azure !== null) return webUrlOrNull(`https://dev.azure.com/${azure[1]}/${azure[2]}/_git/${azure[3]}`);
  return webUrlOrNull(`https://${host}/${path}`);
}

/** A reported commit: its id, its page, and the page of its repository; null when unknown. */
type CommitLocation = { sha: string | null; commitUrl: string; repoUrl: string | null };

type Forge = "github" | "gitlab" | "bitbucket";

/** Forges that the host alone identifies; others are recognized by the URLs of their commits. */
const HOSTS: Readonly<Record<string, Forge>> = {
  "github.com": "github",
  "gitlab.com": "gitlab",
  "bitbucket.org": "bitbucket",
};

/**
 * The page that compares two commits (semantics 6.5, diff_url): `/compare/old...new` on GitHub and similar forges,
 * `/-/compare/` on GitLab, `/branches/compare/new..old` on bitbucket.org. null if neither the commit URLs nor the
 * repository identify the forge, the commits belong to different repositories, or one of them is not known. Never
 * throws.
 */
export function buildCompareUrl(from: CommitLocation, to: CommitLocation): string | null {
  if (from.sha === null || to.sha === null) return null;
  const pages = repositoryOf({ ...to, sha: to.sha });
  const earlier = repositoryOf({ ...from, sha: from.sha });
  if (pages === null || (earlier !== null && earlier.base !== pages.base)) return null;
  const [before, after] = [encodeURIComponent(from.sha), encodeURIComponent(to.sha)];
  if (pages.forge === "bitbucket") return `${pages.base}/branches/compare/${after}..${before}`;
  return `${pages.base}${pages.forge === "gitlab" ? "/-" : ""}/compare/${before}...${after}`;
}

/** The repository pages of a commit: derived from the URL of the commit, else from that of the repository. */
function repositoryOf({
  sha,
  commitUrl,
  repoUrl,
}: CommitLocation & { sha: string }): { base: string; forge: Forge } | null {
  if (isWebUrl(commitUrl)) {
    const { origin, hostname, pathname } = new URL(commitUrl);
    const end = pathname.lastIndexOf("/");
    const abbreviation = pathname.slice(end + 1);
    const path = pathname.slice(0, end);
    if (abbreviation.length >= MIN_SHA_CHARS && sha.startsWith(abbreviation))
      for (const [suffix, forge] of COMMIT_PAGES)
        if (
          path.endsWith(suffix) &&
          path.length > suffix.length &&
          !path.includes("/_git/") &&
          (forge !== "bitbucket" || HOSTS[hostname] === forge)
        )
          return { base: origin + path.slice(0, -suffix.length), forge };
  }
  const repository = repairRepoUrl(repoUrl);
  if (repository === null || !isWebUrl(repository)) return null;
  const { origin, hostname, pathname } = new URL(repository);
  const path = trimSlashes(pathname).replace(/\.git$/, "");
  const forge = HOSTS[hostname];
  return forge === undefined || path === "" ? null : { base: `${origin}/${path}`, forge };
}

/**
 * The path of commit pages before the id. Azure also uses `/commit/`, below `/_git/`, but has no compare page for ids.
 */
const COMMIT_PAGES: readonly (readonly [string, Forge])[] = [
  ["/-/commit", "gitlab"],
  ["/commit", "github"],
  ["/commits", "bitbucket"],
];
/** The shortest commit id that git prints by default. */
const MIN_SHA_CHARS = 7;

function webUrlOrNull(text: string): string | null {
  return isWebUrl(text) ? text : null;
}

function withoutUserAndPort(authority: string): string {
  return authority.slice(authority.lastIndexOf("@") + 1).replace(/:\d*$/, "");
}

/** Written by hand, because `/\/+$/` takes quadratic time on a text of slashes. */
function trimSlashes(path: string): string {
  let begin = 0;
  let end = path.length;
  while (path[begin] === "/") begin += 1;
  while (end > begin && path[end - 1] === "/") end -= 1;
  return path.slice(begin, end);
}

/** Decodes a part of a path. What is not correctly encoded is taken literally: some clients encode nothing. */
export function decodePathPart(part: string): string {
  if (!part.includes("%")) return part;
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
