// URLs that users send: which are refused, how old values that are none become links again, and which pages of a forge
// follow from them. A URL is stored as it
// was sent; only what is read from a flow's legacy `repo_url` is rewritten, and that result is either an absolute URL
// that a browser can be sent to, or null.

/**
 * Scheme, `//`, optional user, host, optional port, rest; group 1 is the scheme. Spaces occur in paths and may stay.
 */
const ABSOLUTE =
  /^([a-z][a-z0-9+.-]*):\/\/(?:[^/?#\s]*@)?(?:\[[0-9a-f:.]+\]|[^/?#\s@:[\]]+)(?::\d*)?(?:[/?#][^\x00-\x1f\x7f]*)?$/i;
/** Schemes that browsers execute. As the URL of a repository they can only be an attack on whoever clicks it. */
const EXECUTED: readonly string[] = ["javascript", "data", "vbscript"];

/** Whether a text is an absolute http or https URL, fit for a link on a page. */
export function isWebUrl(text: string): boolean {
  return /^https?:\/\//i.test(text) && ABSOLUTE.test(text) && URL.canParse(text);
}

/**
 * The scheme that a browser sees in a text, in lower case; null for none. Browsers skip blanks and control characters
 * in front of a URL, and tabs and line breaks anywhere in it; programs that trim the text first skip further blanks.
 */
function schemeOf(text: string): string | null {
  const seen = text.replace(/[\t\n\r]/g, "").replace(/^[\s\p{Cc}\p{Cf}]+/u, "");
  return /^([a-z][a-z0-9+.-]*):/i.exec(seen)?.[1]?.toLowerCase() ?? null;
}

/**
 * Whether a text may stand where people expect a link: an http or https URL, or a text without a scheme. Clients do not
 * check these URLs and send the empty text or a bare `www.example.com`; such a text is kept, and shown as text
 * (isWebUrl).
 */
export function isLinkable(text: string): boolean {
  const scheme = schemeOf(text);
  // `ci.example.com:8080/17` looks like a scheme with dots.
  return scheme === null || scheme === "http" || scheme === "https" || HOST_WITHOUT_SCHEME.test(text);
}

/**
 * Whether a text may be the URL of a repository or of a commit in one. Clients derive both from the remote of a
 * checkout, which may be anything that git takes (ssh, scp form, path), so only what a browser would execute is
 * refused.
 */
export function isGitRemote(text: string): boolean {
  const scheme = schemeOf(text);
  return scheme === null || !EXECUTED.includes(scheme);
}

/**
 * What is wrong with the URL of a repo info, in the form of a field text (messages 2), or null. It needs scheme and
 * host (semantics 3.1); other schemes than http are common, since providers include plain git and subversion.
 */
export function findRepoUrlProblem(url: string): string | null {
  const scheme = ABSOLUTE.exec(url)?.[1]?.toLowerCase();
  if (scheme !== undefined && !EXECUTED.includes(scheme)) return null;
  return `Input should be a valid URL with scheme and host [input: ${url}]`;
}

/** Values that clients and templates left in place of a URL; compared without case. */
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
/** Variables that nobody expanded: `${X}`, `$X`, `$(X)`, `{{X}}`, `<x>`, `%X%`. */
const UNEXPANDED = /^\$|\$[{(]|\{\{|[<>]|^%.*%$/;
/** Remotes that are URLs, but not for browsers. Group 1: authority, group 2: path. */
const GIT_REMOTE = /^(?:ssh|git|git\+ssh|ssh\+git|git\+https?):\/\/([^/]+)\/(.+)$/i;
/** `host:path` with an optional user, as git and scp write it. Groups: user with `@`, host, path. */
const SCP = /^([^\s@/:]+@)?([^\s@/:]+):(.+)$/;
/** Behind a host without user this is a port, and perhaps the path of a URL. */
const PORT = /^\d+(?:\/|$)/;
/** A host with a dot, or localhost, with optional user before and port and path behind. Group 1: all but the user. */
const HOST_WITHOUT_SCHEME =
  /^(?:\/\/)?(?:[^\s@/:]+@)?((?:localhost|[a-z0-9-]+(?:\.[a-z0-9-]+)+)(?::\d+)?(?:[/?#]\S*)?)$/i;

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
  if (text.includes("://")) return findRepoUrlProblem(text) === null ? text : null;

  const [, user, scpHost, path] = SCP.exec(text) ?? [];
  if (scpHost !== undefined && path !== undefined) {
    if (user !== undefined || (scpHost.includes(".") && !PORT.test(path))) return browseUrl(scpHost, path);
  }
  const host = HOST_WITHOUT_SCHEME.exec(text)?.[1];
  return host === undefined ? null : webUrlOrNull(`https://${host}`);
}

/**
 * The page of a repository given by the host and path of a remote. The remote's port speaks ssh or git, never https.
 */
function browseUrl(host: string, remotePath: string): string | null {
  const path = trimSlashes(remotePath).replace(/\.git$/, "");
  // Azure is the one large host whose remotes and pages differ in more than the scheme.
  const azure = host === "ssh.dev.azure.com" ? /^v3\/([^/]+)\/([^/]+)\/([^/]+)$/.exec(path) : null;
  if (azure !== null) return webUrlOrNull(`https://dev.azure.com/${azure[1]}/${azure[2]}/_git/${azure[3]}`);
  return webUrlOrNull(`https://${host}/${path}`);
}

/**
 * A commit as a report names it: its id, its page as reported, and the page of its repository, null when that is not
 * known.
 */
export type CommitLocation = { sha: string; commitUrl: string; repoUrl: string | null };

type Forge = "github" | "gitlab" | "bitbucket";

/** Forges whose pages are known by their host alone; others show themselves in the addresses of their commits. */
const HOSTS: Readonly<Record<string, Forge>> = {
  "github.com": "github",
  "gitlab.com": "gitlab",
  "bitbucket.org": "bitbucket",
};

/**
 * The page that shows what changed from one commit to another (semantics 6.5, diff_url): `/compare/old...new` as GitHub
 * and its likes have it, `/-/compare/` on GitLab, `/branches/compare/new..old` on bitbucket.org. null when neither the
 * addresses of the commits nor the repository tell, and when the two commits are of different repositories. Never
 * throws.
 */
export function buildCompareUrl(from: CommitLocation, to: CommitLocation): string | null {
  const pages = repositoryOf(to);
  const earlier = repositoryOf(from);
  if (pages === null || (earlier !== null && earlier.base !== pages.base)) return null;
  const [before, after] = [encodeURIComponent(from.sha), encodeURIComponent(to.sha)];
  if (pages.forge === "bitbucket") return `${pages.base}/branches/compare/${after}..${before}`;
  return `${pages.base}${pages.forge === "gitlab" ? "/-" : ""}/compare/${before}...${after}`;
}

/** Where the pages of a commit's repository are: from the address of the commit, else from that of the repository. */
function repositoryOf({ sha, commitUrl, repoUrl }: CommitLocation): { base: string; forge: Forge } | null {
  if (isWebUrl(commitUrl)) {
    const { origin, hostname, pathname } = new URL(commitUrl);
    const end = pathname.lastIndexOf("/");
    const shown = pathname.slice(end + 1);
    const path = pathname.slice(0, end);
    if (shown.length >= SHORTEST_SHA && sha.startsWith(shown))
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
 * What commit pages have before the id. Azure has `/commit/` too, below `/_git/`, and no page for two commits by their
 * ids alone.
 */
const COMMIT_PAGES: readonly (readonly [string, Forge])[] = [
  ["/-/commit", "gitlab"],
  ["/commit", "github"],
  ["/commits", "bitbucket"],
];
/** As short as git prints a commit id. */
const SHORTEST_SHA = 7;

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
