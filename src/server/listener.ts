/**
 * Binding the server to its addresses, and leaving them: what happens on the level of connections, before there is a
 * request and after there is an answer.
 */
import { createServer } from "node:http";
import type { RequestListener, Server as HttpServer, ServerResponse } from "node:http";
import { createServer as createTlsServer, Server as HttpsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { SecureContextOptions } from "node:tls";
import { pathOf, answerMalformedRequest } from "../http/malformed-request.ts";
import type { MalformedRequest } from "../http/malformed-request.ts";
import { rememberPeer, resolvePeer, parseTrustedProxies } from "../http/client-address.ts";
import type { TrustedProxies } from "../http/client-address.ts";
import { letGroupIn, makeRoom } from "./unix-socket.ts";

type Server = HttpServer | HttpsServer;

/** Where to listen: an address, the path of a Unix socket, or a socket that somebody else bound and handed over. */
export type ListenAddress = { host: string; port: number } | { path: string } | { fd: number };

export type Listening = {
  server: Server;
  /**
   * The bound address: `http://HOST:PORT`, `https://HOST:PORT`, `unix:/PATH`, or `fd:N` of a Unix socket that was
   * handed over.
   */
  url: string;
  /** Where it is bound; null for a Unix socket. */
  bound: { host: string; port: number } | null;
};

export type ServerLimits = {
  /** Seconds for the headers of a request, and for the handshake of an encrypted connection. */
  headerTimeout: number;
  /** Seconds for a whole request. */
  requestTimeout: number;
};

export type Bindable = { callback(): RequestListener; refused(refusal: MalformedRequest): string };

/** A certificate, with those that lead to its authority behind it, and its key: both in PEM. */
export type Pair = { certificate: string; key: string };

export type ConnectionOptions = {
  /** With a pair the server speaks https, and only that. */
  tls?: Pair | null;
  /** Whose headers tell of a client; nobody's unless given. */
  trust?: TrustedProxies;
  /** Connections at a time; any number unless given. */
  maxConnections?: number;
  /** Told when a connection was refused because there are that many. */
  onConnectionLimit?(): void;
};

/** What a stop must know of a server: its connections, and the answers that are not finished. */
type Traffic = { sockets: Set<Socket>; answers: Set<ServerResponse>; stopping: boolean };
const trafficOf = new WeakMap<Server, Traffic>();

/**
 * Binds the app; only its request handler is asked for, so that who must know the port before they make the app can
 * hand in something that passes requests on. `refused` is told of what never became a request, and gives the id that it
 * is answered with.
 * @throws the system's error (EADDRINUSE, EACCES) when the address cannot be had; ENOTSOCK where a file that is no
 * socket is in the way;
 *   what OpenSSL says of a pair that it cannot use.
 */
export async function listen(
  app: Bindable,
  place: ListenAddress,
  limits: ServerLimits,
  manners: ConnectionOptions = {},
): Promise<Listening> {
  const {
    tls = null,
    trust = parseTrustedProxies(null),
    maxConnections: mostConnections,
    onConnectionLimit: crowded,
  } = manners;
  const handler = app.callback();
  const traffic: Traffic = { sockets: new Set(), answers: new Set(), stopping: false };
  const latest = new WeakMap<Duplex, ServerResponse>();
  let unix = "path" in place;
  const handle: RequestListener = (request, response) => {
    latest.set(request.socket, response);
    request.url = pathOf(request.url ?? "");
    rememberPeer(request, resolvePeer(request, { trust, unix }));
    traffic.answers.add(response);
    response.once("close", () => traffic.answers.delete(response));
    if (traffic.stopping) response.setHeader("Connection", "close");
    handler(request, response);
  };
  const options = {
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: limits.headerTimeout * 1000,
    requestTimeout: limits.requestTimeout * 1000,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // Node's own refusal of a request without a host has no body; arrive.ts refuses it like all others.
    requireHostHeader: false,
    // Node looks for late requests every so often: a limit of 5 seconds should not mean 35.
    connectionsCheckingInterval: Math.min(limits.headerTimeout * 250, 30_000),
  };
  const server = tls
    ? createTlsServer({ ...options, ...secure(tls), handshakeTimeout: options.headersTimeout }, handle)
    : createServer(options, handle);
  trafficOf.set(server, traffic);
  const met = (socket: Socket): void => {
    traffic.sockets.add(socket);
    socket.once("close", () => traffic.sockets.delete(socket));
  };
  server.on("connection", met);
  // Of an encrypted connection both are known: the one that carries it, which a stop can cut during the handshake too,
  // and what it carries.
  server.on("secureConnection", (socket: Socket) => (traffic.stopping ? socket.destroy() : met(socket)));
  // A client that asks first (`Expect: 100-continue`) is told to go on by body.ts, after it was authorized.
  server.on("checkContinue", handle);
  // Other expectations are met by answering as always.
  server.on("checkExpectation", handle);
  server.on("clientError", (error, socket) => {
    // Nothing can be said in a connection whose handshake failed.
    if (tls && !traffic.sockets.has(socket as Socket)) socket.destroy();
    else answerMalformedRequest({ error, socket, answer: latest.get(socket) ?? null, onRefusal: app.refused });
  });
  if (mostConnections !== undefined) server.maxConnections = mostConnections;
  if (crowded) server.on("drop", crowded);
  if ("path" in place) await makeRoom(place.path);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(place, resolve);
  });
  if ("path" in place) {
    letGroupIn(place.path);
    return { server, url: `unix:${place.path}`, bound: null };
  }
  const bound = server.address() as AddressInfo | null;
  unix = bound === null;
  if (bound === null) return { server, url: `fd:${"fd" in place ? place.fd : ""}`, bound };
  const host = bound.family === "IPv6" ? `[${bound.address}]` : bound.address;
  return {
    server,
    url: `${tls ? "https" : "http"}://${host}:${bound.port}`,
    bound: { host: bound.address, port: bound.port },
  };
}

/**
 * From now on new connections get this pair; those that are open go on with theirs. @throws what OpenSSL says of it;
 * then the old one stays.
 */
export function replacePair(server: Server, pair: Pair): void {
  if (server instanceof HttpsServer) server.setSecureContext(secure(pair));
}

const secure = ({ certificate, key }: Pair): SecureContextOptions => ({
  cert: certificate,
  key,
  minVersion: "TLSv1.2",
});

/** A list query names a thousand commits with 40 digits each in its address; node's own 16 KB would not take them. */
const MAX_HEADER_BYTES = 262_144;

/**
 * An idle connection stays open longer than proxies keep theirs (a minute, mostly): whoever closes first while the
 * other one sends loses a request, and a proxy can take another connection, but a server cannot call back.
 */
const KEEP_ALIVE_MS = 75_000;

/**
 * Stops taking connections, lets running requests end (at most `patience` seconds), then cuts what is left. Connections
 * that clients only keep open, for a next request or for a first one, delay nothing.
 */
export async function closeListener(server: Server, patience: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  const traffic = trafficOf.get(server);
  if (traffic) {
    traffic.stopping = true;
    for (const answer of traffic.answers) {
      if (!answer.headersSent) answer.setHeader("Connection", "close");
      // Its head promised to keep the connection; by the next turn it is an idle one.
      else answer.once("close", () => setImmediate(() => server.closeIdleConnections()));
    }
    // Node takes a connection for busy until its first request came.
    for (const socket of traffic.sockets) if (socket.bytesRead === 0) socket.destroy();
  }
  server.closeIdleConnections();
  const timer = setTimeout(() => {
    server.closeAllConnections();
    // A handshake that never ends is no connection to Node yet.
    for (const socket of traffic?.sockets ?? []) socket.destroy();
  }, patience * 1000);
  await closed;
  clearTimeout(timer);
}
