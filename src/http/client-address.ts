/**
 * Who is at the other end of a connection, and as whom a trusted proxy speaks.
 *
 * Headers that tell of a client (X-Forwarded-For, -Proto and -Host, or Forwarded of RFC 7239) count only when the
 * connection itself comes from a trusted proxy. The client is the rightmost address of the list that is not trusted:
 * each proxy adds the address that it saw at the right end, so whatever stands left of the first stranger was written
 * by that stranger.
 */
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { holderOf, normalAddress } from "../domain/network/ip-ranges.ts";

/** The operator's trust: in ranges of addresses, and in whoever can open the Unix socket of the server. */
export type TrustedProxies = { includes(address: string): boolean; unix: boolean };

export type Peer = {
  /**
   * The client's IP address in its normal form; `unix` for one at a Unix socket of which nothing else is known,
   * `unknown` for one that is gone already.
   */
  address: string;
  /** Whether the client speaks https: to this server, or to the proxies before it. */
  secure: boolean;
  /**
   * Host, with its port where it is not that of the scheme, that the client asked for; null when it named none that can
   * be one.
   */
  host: string | null;
  /**
   * Scheme and host as a trusted proxy told them, such as `https://assay.example.com`; null where none did, and then
   * the server's own address counts.
   */
  origin: string | null;
};

const UNIX = "unix";
const UNKNOWN = "unknown";

/** @param proxies `trusted-proxies`: ranges in their normal form, and the word `unix`; null: nobody is trusted. */
export function parseTrustedProxies(proxies: readonly string[] | null): TrustedProxies {
  const ranges = (proxies ?? []).filter((entry) => entry !== UNIX);
  return { includes: holderOf(ranges), unix: proxies?.includes(UNIX) ?? false };
}

const NO_PROXIES: TrustedProxies = { includes: () => false, unix: false };

/** @param unix whether the connection came through a Unix socket: a connection that is gone has no address either. */
export function resolvePeer(request: IncomingMessage, trust: TrustedProxies, unix = false): Peer {
  const own = unix ? UNIX : socketAddress(request.socket);
  const encrypted = "encrypted" in request.socket && request.socket.encrypted === true;
  const asked = request.headers.host ?? "";
  const direct: Peer = { address: own, secure: encrypted, host: normalizeHost(asked, encrypted), origin: null };
  if (!(unix ? trust.unix : trust.includes(own))) return direct;
  const told = readClaim(request, trust);
  if (told === null) return direct;
  const secure = told.proto === null ? encrypted : told.proto === "https";
  const host = normalizeHost(told.host ?? asked, secure);
  const origin = told.proto === null && told.host === null ? null : host && `${secure ? "https" : "http"}://${host}`;
  return { address: told.address ?? own, secure, host, origin };
}

/** Who is connected, proxy or client, in the form of `Peer.address`. */
export const socketAddress = (socket: Socket): string => parseAddress(socket.remoteAddress ?? "") ?? UNKNOWN;

const peers = new WeakMap<IncomingMessage, Peer>();

/**
 * Keeps the peer of a request. Called by the listener alone, when the request arrives: a closed connection has lost its
 * address.
 */
export const rememberPeer = (request: IncomingMessage, peer: Peer): void => void peers.set(request, peer);

/** The peer of a request; one that came past the listener is taken by its connection alone. */
export const peerOf = (request: IncomingMessage): Peer => peers.get(request) ?? resolvePeer(request, NO_PROXIES);

/** The client's address: what limits by address count, and what the log names. */
export const clientAddress = (request: IncomingMessage): string => peerOf(request).address;

/** Whether what is answered travels encrypted as far as anybody knows: the condition for cookies with `Secure`. */
export const isSecure = (request: IncomingMessage): boolean => peerOf(request).secure;

/** What headers say of the client; null for what they leave open. */
type Claim = { address: string | null; proto: string | null; host: string | null };

/**
 * What the headers of a trusted proxy say. A proxy writes one kind of headers and mostly passes on the other kind as
 * the client sent it, and nobody can tell from here which of them it writes. So where both are there they must say the
 * same, or neither counts.
 */
function readClaim({ headers }: IncomingMessage, trust: TrustedProxies): Claim | null {
  const lists = readXForwarded(
    joinHeader(headers["x-forwarded-for"]),
    joinHeader(headers["x-forwarded-proto"]),
    joinHeader(headers["x-forwarded-host"]),
    trust,
  );
  if (headers.forwarded === undefined) return lists;
  const claim = readForwarded(headers.forwarded, trust);
  const agree =
    lists === null || (lists.address === claim?.address && lists.proto === claim.proto && lists.host === claim.host);
  return agree ? claim : null;
}

function readXForwarded(addresses: string, protos: string, hosts: string, trust: TrustedProxies): Claim | null {
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

/** Proxies that a request goes through at most; longer lists are somebody's invention. */
const MAX_HOPS = 32;

const splitList = (text: string): string[] =>
  text === ""
    ? []
    : text
        .split(",")
        .slice(-MAX_HOPS)
        .map((entry) => entry.trim());

/**
 * The client of a list of addresses, and how far from the right end it stands, from 1. A text that is no address ends
 * the search: what is known then is the trusted proxy that wrote it.
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

/**
 * What a list says of one hop: proxies write one value for all of them, or add theirs at the right end as they add
 * addresses.
 */
const valueAtHop = (list: readonly string[], hop: number): string | undefined =>
  list.length >= hop ? list.at(-hop) : list.at(-1);

/**
 * An address as connections and headers write it, which may bring a port, brackets and a zone; null for everything
 * else.
 */
function parseAddress(text: string): string | null {
  const [, bracketed, bare] = /^(?:\[([^\]]*)\](?::\d{1,5})?|((?:\d{1,3}\.){3}\d{1,3}):\d{1,5})$/.exec(text) ?? [];
  return normalAddress((bracketed ?? bare ?? text).replace(/%.*$/s, ""));
}

const parseProto = (text: string | undefined): string | null =>
  /^https?$/i.test(text ?? "") ? (text ?? "").toLowerCase() : null;

const HOST = /^(?:[a-z0-9](?:[a-z0-9._-]{0,252})|\[[0-9a-f:.]{2,45}\])(?::\d{1,5})?$/i;

const parseHost = (text: string | undefined): string | null =>
  HOST.test(text ?? "") ? (text ?? "").toLowerCase() : null;

/** A host as it stands in URLs: in small letters, without the port of the scheme; null for a text that is none. */
function normalizeHost(text: string, secure: boolean): string | null {
  const url = `${secure ? "https" : "http"}://${parseHost(text) ?? ""}`;
  return URL.canParse(url) ? new URL(url).host : null;
}

const joinHeader = (header: string | string[] | undefined): string =>
  Array.isArray(header) ? header.join(",") : (header ?? "");

/** One parameter of a Forwarded header: a token or a quoted text, and what follows it. */
const PARAMETER =
  /[ \t]*([!#$%&'*+.^_`|~0-9a-z-]+)=(?:([!#$%&'*+.^_`|~0-9a-z:[\]-]+)|"((?:[^"\\]|\\.)*)")[ \t]*([;,]|$)/giy;

/**
 * The elements of a Forwarded header (RFC 7239, 4), left to right; null when it is none, or names a parameter twice.
 */
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
