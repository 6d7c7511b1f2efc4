/**
 * Whether the server may send to a URL that a user named, as far as the URL itself tells. What its name stands for is
 * asked just before each request (outgoing/http.ts), because it may be something else by then.
 */
import { excerpt } from "../text/excerpt.ts";
import { findAddressProblem } from "./outbound-policy.ts";

/** What the API document publishes of readTarget; which hosts and ports are targets no pattern tells. */
export const TARGET_PATTERN = String.raw`^[hH][tT][tT][pP][sS]?://[^\s\x00/?#\\][^\s\x00-\x1f\x7f\\]*$`;

/** A target taken apart. `host` is in lower case, without brackets and without a dot at its end. */
export type WebhookTarget = { url: URL; host: string; isAddress: boolean };

/** Characters. Longer ones come from nobody who wants to be reached. */
const LONGEST = 2048;

/**
 * Suffixes of names that mean something only within a machine, a network or a cluster (RFC 6761, 6762, 8375, ICANN's
 * `internal`, Kubernetes, and what home and office networks use).
 */
const INTERNAL = [
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
 * Ports of other protocols: those that browsers refuse ("bad port" of the Fetch standard), Redis and memcached. Text
 * that a request carries could be a command to what listens there.
 */
const OTHER_PROTOCOLS: ReadonlySet<number> = new Set([
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
  111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
  540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
  6000, 6379, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080, 11211,
]);

/**
 * What is wrong with a URL as a target of WEBHOOK or SLACK, a sentence for the user; null when it may be sent to, as
 * far as can be said without asking for the addresses of its name. Never throws.
 * @param allow the operator's ranges (webhook-allow). Where there are any, internal names pass, because their addresses
 * may
 *   lie in them.
 */
export function findTargetProblem(url: string, allow: readonly string[]): string | null {
  const target = parseTarget(url, allow);
  return typeof target === "string" ? target : null;
}

/** The target, or what is wrong with it (`targetProblem`). */
export function parseTarget(text: string, allow: readonly string[]): WebhookTarget | string {
  if (text.length > LONGEST) return `The URL is longer than ${LONGEST} characters`;
  // The parser of URLs forgives blanks, backslashes and missing slashes; other programs read such a text in another
  // way.
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
  // The parser turned every other spelling (2130706433, 0x7f.1, 127.1) into four decimal parts.
  const isAddress = isIpv6 || /^\d+\.\d+\.\d+\.\d+$/.test(host);
  if (isAddress) {
    const problem = findAddressProblem(host, allow);
    return problem === null
      ? { url, host, isAddress }
      : `The address ${host} is not allowed as a target: it is ${problem}`;
  }
  if (!isName(host)) return `The host name ${excerpt(host)} is not valid`;
  if (allow.length === 0 && isInternalName(host))
    return `The host name ${excerpt(host)} is not allowed as a target: it is internal`;
  return { url, host, isAddress };
}

/**
 * Whether a name means something only in here: one of a single label is searched for within the network's own names.
 */
export const isInternalName = (host: string): boolean =>
  !host.includes(".") || INTERNAL.some((suffix) => host === suffix || host.endsWith(`.${suffix}`));

/** Labels of letters, digits, hyphens and underscores, the last one no number; other scripts come as xn--. */
const isName = (host: string): boolean =>
  host.length <= 253 &&
  !/(?:^|\.)\d+$/.test(host) &&
  host.split(".").every((label) => /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/.test(label));

function portProblem({ protocol, port }: URL): string | null {
  if (port === "") return null;
  return OTHER_PROTOCOLS.has(Number(port)) ? `The port ${port} is not allowed for ${protocol.slice(0, -1)}` : null;
}

/** What stands between `//` and the path: an empty user name leaves no trace in the parsed URL. */
const authorityOf = (text: string): string => /^[^/]*\/\/([^/?#]*)/.exec(text)?.[1] ?? "";
