/**
 * Whether the server may send to a URL from a user, as far as the URL itself shows. The addresses of its host are
 * resolved and checked just before each request (notifications/dial.ts), because they may change.
 */
import { excerpt } from "../text/excerpt.ts";
import { findAddressProblem } from "./outbound-policy.ts";

/** What the API document publishes of parseTarget; a pattern cannot express the rules for hosts and ports. */
export const TARGET_PATTERN = String.raw`^[hH][tT][tT][pP][sS]?://[^\s\x00/?#\\][^\s\x00-\x1f\x7f\\]*$`;

/** A parsed target. `host` is in lower case, without brackets and without a final dot. */
export type WebhookTarget = { url: URL; host: string; isAddress: boolean };

/** No legitimate webhook has a longer URL. */
const MAX_URL_CHARS = 2048;

/**
 * Suffixes of names that resolve only within a machine, a network or a cluster (RFC 6761, 6762, 8375, ICANN's
 * `internal`, Kubernetes, and the names of home and office networks).
 */
const INTERNAL_SUFFIXES = [
  "localhost",
  "localdomain",
  "local",
  "internal",
  "intranet",
  "private",
  "corp",
  "home",
  "lan",
  "svc",
  "cluster.local",
  "home.arpa",
];

/**
 * Ports of other protocols: those that browsers block ("bad port" of the Fetch standard), Redis and memcached. A server
 * there could read the text of a request as commands.
 */
const OTHER_PROTOCOLS: ReadonlySet<number> = new Set([
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
  111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
  540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
  6000, 6379, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080, 11211,
]);

/**
 * What is wrong with a URL as a WEBHOOK or SLACK target, as a sentence for the user; null if it is valid as far as can
 * be checked without resolving its name. Never throws.
 * @param allow the operator's ranges (webhook-allow). If there are any, internal names pass, because their addresses
 *   may lie in these ranges.
 */
export function findTargetProblem(url: string, allow: readonly string[]): string | null {
  const target = parseTarget(url, allow);
  return typeof target === "string" ? target : null;
}

/** Parses a target; returns what is wrong with it as a text (see findTargetProblem). */
export function parseTarget(text: string, allow: readonly string[]): WebhookTarget | string {
  if (text.length > MAX_URL_CHARS) return `The URL is longer than ${MAX_URL_CHARS} characters`;
  // The URL parser tolerates blanks, backslashes and missing slashes; other programs parse such a text differently.
  if (!/^https?:\/\/[^\s\\/?#][^\s\\\x00-\x1f\x7f]*$/i.test(text)) {
    return /^[a-z][a-z0-9+.-]*:/i.test(text) && !/^https?:/i.test(text)
      ? "The URL must begin with https:// or http://"
      : "The URL is not a valid web address";
  }
  if (!URL.canParse(text)) return "The URL is not a valid web address";
  const url = new URL(text);
  if (url.username !== "" || url.password !== "" || authorityOf(text).includes("@"))
    return "The URL must not contain a user name or password";
  const problem = portProblem(url);
  if (problem !== null) return problem;

  const isIpv6 = url.hostname.startsWith("[");
  const host = isIpv6 ? url.hostname.slice(1, -1) : url.hostname.replace(/\.$/, "");
  // The parser converts every other notation (2130706433, 0x7f.1, 127.1) into four decimal parts.
  const isAddress = isIpv6 || /^\d+\.\d+\.\d+\.\d+$/.test(host);
  if (isAddress) {
    const problem = findAddressProblem(host, allow);
    return problem === null
      ? { url, host, isAddress }
      : `The address ${host} is not allowed as a target: it is ${problem}`;
  }
  if (!isHostName(host)) return `The host name ${excerpt(host)} is not valid`;
  if (allow.length === 0 && isInternalName(host))
    return `The host name ${excerpt(host)} is not allowed as a target: it is internal`;
  return { url, host, isAddress };
}

/** Whether a name resolves only locally; resolvers look up a single label in the network's own domains. */
export const isInternalName = (host: string): boolean =>
  !host.includes(".") || INTERNAL_SUFFIXES.some((suffix) => host === suffix || host.endsWith(`.${suffix}`));

/** Labels of letters, digits, hyphens and underscores, the last one not a number; other scripts arrive as xn--. */
const isHostName = (host: string): boolean =>
  host.length <= 253 &&
  !/(?:^|\.)\d+$/.test(host) &&
  host.split(".").every((label) => /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/.test(label));

function portProblem({ protocol, port }: URL): string | null {
  if (port === "") return null;
  return OTHER_PROTOCOLS.has(Number(port)) ? `The port ${port} is not allowed for ${protocol.slice(0, -1)}` : null;
}

/** The text between `//` and the path; the parsed URL does not show an empty user name. */
const authorityOf = (text: string): string => /^[^/]*\/\/([^/?#]*)/.exec(text)?.[1] ?? "";
