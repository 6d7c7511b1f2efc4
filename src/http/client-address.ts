/**
 * The client of a request, behind trusted proxies too.
 *
 * Headers that describe the client (X-Forwarded-For, -Proto and -Host, or Forwarded of RFC 7239) count only if the
 * connection itself comes from a trusted proxy. The client is the rightmost address of the list that is not trusted:
 * each proxy appends the address that it saw, so everything to the left of the first untrusted address was written by
 * the client at that address.
 */
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { createLru } from "../domain/lru.ts";
import { createRangeMatcher, normalizeAddress } from "../domain/network/ip-ranges.ts";

/** The proxies that the operator trusts: ranges of addresses, and every process that can open the Unix socket. */
export type TrustedProxies = { includes(address: string): boolean; unix: boolean };

type Peer = {
  /**
   * The client's IP address in its normal form; `unix` for a client at a Unix socket that no proxy describes, `unknown`
   * if the connection is closed already.
   */
  address: string;
  /** Whether the client speaks https: to this server, or to a proxy in front of it. */
  secure: boolean;
  /** Host that the client requested, with the port unless it is the scheme's default; null without a valid one. */
  host: string | null;
  /**
   * Scheme and host that a trusted proxy reports, such as `https://assay.example.com`; null if none does, and then the
   * configured public URL applies.
   */
  origin: string | null;
};

const UNIX = "unix";
const UNKNOWN = "unknown";

/** @param proxies option `trusted-proxies`: ranges in their normal form, and the word `unix`; null: none is trusted */
export function parseTrustedProxies(proxies: readonly string[] | null): TrustedProxies {
  const ranges = (proxies ?? []).filter((entry) => entry !== UNIX);
  return { includes: createRangeMatcher(ranges), unix: proxies?.includes(UNIX) ?? false };
}

const NO_PROXIES: TrustedProxies = { includes: () => false, unix: false };

/**
 * Determines the client from the connection and, if that comes from a trusted proxy, from the headers.
 * @param options.unix whether the connection came through a Unix socket; its address does not tell, because a closed
 *   connection has none either
 */
export function resolvePeer(
  request: IncomingMessage,
  { trust, unix = false }: { trust: TrustedProxies; unix?: boolean },
): Peer {
  const connected = unix ? UNIX : socketAddress(request.socket);
  const scheme: Scheme = "encrypted" in request.socket && request.socket.encrypted === true ? "https" : "http";
  const requested = request.headers.host ?? "";
  const direct: Peer = {
    address: connected,
    secure: scheme === "https",
    host: normalizeHost(requested, scheme),
    origin: null,
  };
  if (!(unix ? trust.unix : trust.includes(connected))) return direct;
  const claim = readClaim(request, trust);
  if (claim === null) return direct;
  const claimed = claim.proto ?? scheme;
  const host = normalizeHost(claim.host ?? requested, claimed);
  const origin = claim.proto === null && claim.host === null ? null : host && `${claimed}://${host}`;
  return { address: claim.address ?? connected, secure: claimed === "https", host, origin };
}

/** The other end of a connection, proxy or client, in the form of `Peer.address`. */
export function socketAddress(socket: Socket): string {
  const known = addresses.get(socket);
  if (known !== undefined) return known;
  const address = parseAddress(socket.remoteAddress ?? "") ?? UNKNOWN;
  // A closed connection has none; an open one keeps its address.
  if (address !== UNKNOWN) addresses.set(socket, address);
  return address;
}
const addresses = new WeakMap<Socket, string>();

const peers = new WeakMap<IncomingMessage, Peer>();

/** Stores the peer of a request. The listener calls it when the request arrives: a closed connection has no address. */
export const rememberPeer = (request: IncomingMessage, peer: Peer): void => void peers.set(request, peer);

/** The peer of a request; without a listener of ours, as in some tests, the connection alone decides. */
export const peerOf = (request: IncomingMessage): Peer =>
  peers.get(request) ?? resolvePeer(request, { trust: NO_PROXIES });

/** The client's address, as rate limits count it and the log shows it. */
export const clientAddress = (request: IncomingMessage): string => peerOf(request).address;

/** Whether the client's connection is encrypted, as far as is known: the condition for `Secure` cookies. */
export const isSecure = (request: IncomingMessage): boolean => peerOf(request).secure;

type Scheme = "http" | "https";

/** What headers say about the client; null for what they leave open. */
type Claim = { address: string | null; proto: Scheme | null; host: string | null };

/**
 * Reads the headers of a trusted proxy. A proxy writes one family of headers and usually passes the other on as the
 * client sent it, and it is impossible to tell which. So if both are present they must agree, or neither counts.
 */
function readClaim({ headers }: IncomingMessage, trust: TrustedProxies): Claim | null {
  const lists = readXForwarded(headers, trust);
  if (headers.forwarded === undefined) return lists;
  const claim = readForwarded(headers.forwarded, trust);
  const agree =
    lists === null || (lists.address === claim?.address && lists.proto === claim.proto && lists.host === claim.host);
  return agree ? claim : null;
}

function readXForwarded(headers: IncomingMessage["headers"], trust: TrustedProxies): Claim | null {
  const addresses = joinHeader(headers["x-forwarded-for"]);
  const protos = joinHeader(headers["x-forwarded-proto"]);
  const hosts = joinHeader(headers["x-forwarded-host"]);
  if (addresses + protos + hosts === "") return null;
  const { address, hop } = findClient(splitList(addresses), trust);
  return {
    address,
    proto: parseProto(valueAtHop(splitList(protos), hop)),
    host: parseHost(valueAtHop(splitList(hosts), hop)),
  };
}

function readForwarded(text: string, trust: TrustedProxies): Claim | null {
  const elements = parseForwarded(text);
  if (elements === null) return null;
  const { address, hop } = findClient(
    elements.map((element) => element.get("for") ?? ""),
    trust,
  );
  const element = elements.at(-hop);
  return { address, proto: parseProto(element?.get("proto")), host: parseHost(element?.get("host")) };
}

/** Hops that are read, from the right; a longer list is forged. */
const MAX_HOPS = 32;

const splitList = (text: string): string[] =>
  text === ""
    ? []
    : text
        .split(",")
        .slice(-MAX_HOPS)
        .map((entry) => entry.trim());

/**
 * Finds the client in a list of addresses, and its position from the right, starting at 1. A text that is not an
 * address ends the search with the trusted proxy that wrote it.
 */
function findClient(list: readonly string[], trust: TrustedProxies): { address: string | null; hop: number } {
  let known: string | null = null;
  for (let hop = 1; hop <= list.length; hop += 1) {
    const address = parseAddress(list.at(-hop) ?? "");
    if (address === null) return { address: known, hop };
    if (!trust.includes(address)) return { address, hop };
    known = address;
  }
  return { address: known, hop: Math.max(list.length, 1) };
}

/** The value for one hop: proxies write one value for all hops, or append theirs as they append addresses. */
const valueAtHop = (list: readonly string[], hop: number): string | undefined =>
  list.length >= hop ? list.at(-hop) : list.at(-1);

/** Parses an address as connections and headers write it, with or without port, brackets and zone; else null. */
function parseAddress(text: string): string | null {
  const [, bracketed, bare] = /^(?:\[([^\]]*)\](?::\d{1,5})?|((?:\d{1,3}\.){3}\d{1,3}):\d{1,5})$/.exec(text) ?? [];
  return normalizeAddress((bracketed ?? bare ?? text).replace(/%.*$/s, ""));
}

const parseProto = (text: string | undefined): Scheme | null =>
  /^https?$/i.test(text ?? "") ? ((text ?? "").toLowerCase() as Scheme) : null;

const HOST = /^(?:[a-z0-9](?:[a-z0-9._-]{0,252})|\[[0-9a-f:.]{2,45}\])(?::\d{1,5})?$/i;

const parseHost = (text: string | undefined): string | null =>
  HOST.test(text ?? "") ? (text ?? "").toLowerCase() : null;

/** A host as URLs write it: in lower case, without the default port of the scheme; null for an invalid one. */
function normalizeHost(text: string, scheme: Scheme): string | null {
  const key = `${scheme}://${text}`;
  const known = hosts.get(key);
  if (known !== undefined) return known;
  const url = `${scheme}://${parseHost(text) ?? ""}`;
  const host = URL.canParse(url) ? new URL(url).host : null;
  hosts.set(key, host, key.length);
  return host;
}
/** Clients keep sending the same few; what they invent does not fill the memory. */
const hosts = createLru<string, string | null>({ maxEntries: 100, maxWeight: 10_000 });

const joinHeader = (header: string | string[] | undefined): string =>
  Array.isArray(header) ? header.join(",") : (header ?? "");

/** One parameter of a Forwarded header: a token or a quoted string, and the separator after it. */
const PARAMETER =
  /[ \t]*([!#$%&'*+.^_`|~0-9a-z-]+)=(?:([!#$%&'*+.^_`|~0-9a-z:[\]-]+)|"((?:[^"\\]|\\.)*)")[ \t]*([;,]|$)/giy;

/** The elements of a Forwarded header (RFC 7239, 4), left to right; null if it is malformed or repeats a parameter. */
function parseForwarded(text: string): Map<string, string>[] | null {
  const elements = [new Map<string, string>()];
  PARAMETER.lastIndex = 0;
  for (let end = false; !end; ) {
    const [whole, name = "", token, quoted = "", next] = PARAMETER.exec(text) ?? [];
    const element = elements.at(-1) as Map<string, string>;
    if (whole === undefined || element.has(name.toLowerCase())) return null;
    element.set(name.toLowerCase(), token ?? quoted.replace(/\\(.)/g, "$1"));
    if (next === ",") elements.push(new Map());
    end = next === "";
  }
  return elements.slice(-MAX_HOPS);
}
