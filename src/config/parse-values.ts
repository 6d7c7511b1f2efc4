/** Parses the values of options. Each function returns null for an invalid text. */
import { isIPv4, isIPv6 } from "node:net";
import { isRole } from "../domain/access.ts";
import { normalizeRange } from "../domain/network/ip-ranges.ts";
import type { GroupRole, Listen, ListenPath } from "./types.ts";

export function parsePath(text: string): string | null {
  return text === "" || text.includes("\0") ? null : text;
}

export function parseListen(text: string): Listen | null {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^[\]:]+)):(\d{1,5})$/.exec(text);
  if (!match) return null;
  const [, v6, name, digits] = match;
  const port = Number(digits);
  const hostIsGood = v6 !== undefined ? isIPv6(v6) : name !== undefined && isHost(name);
  return hostIsGood && port <= 65_535 ? { host: v6 ?? name ?? "", port } : null;
}

/** Parses HOST:PORT, or `unix:` with the absolute path of a socket. */
export function parseListenAddress(text: string): Listen | ListenPath | null {
  if (!text.startsWith("unix:")) return parseListen(text);
  const path = text.slice("unix:".length);
  return /^\/[^\0]*[^\0/]$/.test(path) && Buffer.byteLength(path) <= MAX_SOCKET_PATH_BYTES ? { path } : null;
}

/** The operating system has 108 bytes for the path of a Unix socket, one of them for its terminator. */
const MAX_SOCKET_PATH_BYTES = 107;

/** Whether a text is a host name or an IPv4 address. A name whose last label is a number is a mistyped address. */
function isHost(name: string): boolean {
  if (isIPv4(name)) return true;
  if (name.length > 253 || /(?:^|\.)\d+$/.test(name)) return false;
  return name.split(".").every((label) => /^[a-zA-Z0-9_](?:[a-zA-Z0-9_-]{0,61}[a-zA-Z0-9_])?$/.test(label));
}

export function parseBaseUrl(text: string): string | null {
  // The URL parser tolerates blanks, backslashes and missing slashes, but an option should mean what it looks like.
  if (!/^https?:\/\/[^\s\\/?#@][^\s\\?#@]*$/i.test(text) || !URL.canParse(text)) return null;
  const url = new URL(text);
  const path = url.pathname.replace(/^(.*[^/])?\/*$/, "$1");
  return /\/api\/v2$/i.test(path) ? null : `${url.origin}${path}`;
}

export function parseRanges(text: string): readonly string[] | null {
  const ranges = text.split(",").map((range) => normalizeRange(range.trim()));
  return ranges.every((range) => range !== null) ? ranges : null;
}

/** Parses address ranges, and the word `unix` for clients of the Unix socket. */
export function parseProxies(text: string): readonly string[] | null {
  const entries = text.split(",").map((entry) => (entry.trim() === "unix" ? "unix" : normalizeRange(entry.trim())));
  return entries.every((entry) => entry !== null) ? entries : null;
}

/** Parses a base path. It must not hide what is always served at the root: the probes and the API. */
export function parseBasePath(text: string): string | null {
  const path = text.replace(/\/$/, "");
  return /^(?:\/[A-Za-z0-9._~-]+)+$/.test(path) &&
    !/\/\.{1,2}(?:\/|$)/.test(path) &&
    !/^\/(?:api|readyz?|healthz)(?:\/|$)/.test(path)
    ? path
    : null;
}

export const parseToken = (text: string): string | null => (/^[\x21-\x7e]{16,1024}$/.test(text) ? text : null);

export const parseLine = (text: string): string | null =>
  text.trim() !== "" && !/[\u0000-\u001f\u007f]/.test(text) ? text : null;

export function parseCount(text: string, min: number, max: number): number | null {
  const count = /^\d{1,9}$/.test(text) ? Number(text) : -1;
  return count >= min && count <= max ? count : null;
}

/** Parses an issuer URL. Plain http would expose logins and is allowed only for a provider on the same machine. */
export function parseIssuer(text: string): string | null {
  if (!URL.canParse(text)) return null;
  const { protocol, hostname, search, hash, username } = new URL(text);
  const isLoopback = hostname === "localhost" || hostname === "[::1]" || /^127\./.test(hostname);
  const isSafe = protocol === "https:" || (protocol === "http:" && isLoopback);
  return isSafe && search + hash + username === "" ? text : null;
}

export function parseEndpoint(text: string): string | null {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return null;
  const { origin, pathname, search, hash, username } = new URL(text);
  return pathname + search + hash + username === "/" ? origin : null;
}

/** Parses a bucket name that S3 allows, with an optional prefix of plain path segments. */
export const parseEvidenceStore = (text: string): string | null =>
  /^s3:\/\/[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:\/[A-Za-z0-9._-]+)*\/?$/.test(text) ? text.replace(/\/$/, "") : null;

export function parseGroupRoles(text: string): readonly GroupRole[] | null {
  const entries = text.split(",").map((entry): GroupRole | null => {
    const [, group, organization, role] = /^\s*(.+)=([^=:\s]+):([a-z]+)\s*$/.exec(entry) ?? [];
    return group && organization && role && isRole(role) ? { group, organization, role } : null;
  });
  return entries.every((entry) => entry !== null) ? entries : null;
}
