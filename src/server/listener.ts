/**
 * Binding the server to its addresses and closing them again: everything on the level of connections, before there is a
 * request and after there is a response.
 */
import { createServer } from "node:http";
import type { RequestListener, Server as HttpServer, ServerResponse } from "node:http";
import { createServer as createTlsServer, Server as HttpsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { SecureContextOptions } from "node:tls";
import { parseTrustedProxies, rememberPeer, resolvePeer } from "../http/client-address.ts";
import type { TrustedProxies } from "../http/client-address.ts";
import { answerMalformedRequest, pathOf } from "../http/malformed-request.ts";
import type { MalformedRequest } from "../http/malformed-request.ts";
import { serveOneByOne } from "./one-by-one.ts";
import { allowGroup, removeStaleSocket } from "./unix-socket.ts";

type Server = HttpServer | HttpsServer;

/** Where to listen: an address, the path of a Unix socket, or a socket that another process bound and passed on. */
export type ListenAddress = { host: string; port: number } | { path: string } | { fd: number };

export type Listening = {
  server: Server;
  /**
   * The bound address: `http://HOST:PORT`, `https://HOST:PORT`, `unix:/PATH`, or `fd:N` of an inherited Unix socket.
   */
  url: string;
  /** null for a Unix socket. */
  bound: { host: string; port: number } | null;
};

export type ServerLimits = {
  /** Seconds for the headers of a request, and for the handshake of a TLS connection. */
  headerTimeout: number;
  /** Seconds for a whole request. */
  requestTimeout: number;
};

export type Bindable = {
  /** The request handler. It is asked for once, before the port is known. */
  callback(): RequestListener;
  /** Logs bytes that are not an HTTP request. @returns the request id for the response */
  recordMalformedRequest(refusal: MalformedRequest): string;
};

/** A certificate, followed by those that lead to its authority, and its key: both in PEM. */
export type CertificatePair = { certificate: string; key: string };

export type ConnectionOptions = {
  /** With a pair the server speaks https, and nothing else. */
  tls?: CertificatePair | null;
  /** The proxies whose headers about a client are trusted; none unless given. */
  trust?: TrustedProxies;
  /** Open connections; unlimited unless given. */
  maxConnections?: number;
  /** Called when a connection was refused because of `maxConnections`. */
  onConnectionLimit?(): void;
};

/** What closing a listener needs to know: its open connections and the responses that are not finished. */
type Traffic = { sockets: Set<Socket>; responses: Set<ServerResponse>; isStopping: boolean };
const trafficOf = new WeakMap<Server, Traffic>();

/** A list query names a thousand commits of 40 digits in its URL, which exceeds Node's default of 16 KB. */
const MAX_HEADER_BYTES = 262_144;

/**
 * How long an idle connection stays open: longer than proxies keep theirs (usually a minute). If the server closed
 * first while the proxy sends, that request would be lost; a proxy that closes first just opens another connection.
 */
const KEEP_ALIVE_MS = 75_000;

/**
 * Binds an application to an address.
 * @throws the system's error (EADDRINUSE, EACCES) when the address cannot be bound; ENOTSOCK when a file that is not a
 *   socket is in the way; OpenSSL's error for a certificate or key that it cannot use
 */
export async function listen(
  app: Bindable,
  address: ListenAddress,
  { limits, tls = null, trust = parseTrustedProxies(null), ...options }: ConnectionOptions & { limits: ServerLimits },
): Promise<Listening> {
  const traffic: Traffic = { sockets: new Set(), responses: new Set(), isStopping: false };
  const latestResponse = new WeakMap<Duplex, ServerResponse>();
  const serve = serveOneByOne(app.callback());
  let isUnixSocket = "path" in address;
  const handle: RequestListener = (request, response) => {
    latestResponse.set(request.socket, response);
    request.url = pathOf(request.url ?? "");
    rememberPeer(request, resolvePeer(request, { trust, unix: isUnixSocket }));
    traffic.responses.add(response);
    response.once("close", () => {
      traffic.responses.delete(response);
      // Its headers may have promised to keep the connection open; by the next turn it is an idle one.
      if (traffic.isStopping) setImmediate(() => server.closeIdleConnections());
    });
    if (traffic.isStopping) response.setHeader("Connection", "close");
    serve(request, response);
  };
  const server = createHttpServer({ tls, limits, handle });
  trafficOf.set(server, traffic);
  trackSockets(server, traffic);
  server.on("clientError", (error, socket) => {
    // There is no way to answer on a connection whose handshake failed.
    if (tls && !traffic.sockets.has(socket as Socket)) socket.destroy();
    else {
      const answer = latestResponse.get(socket) ?? null;
      answerMalformedRequest({ error, socket, answer, onRefusal: app.recordMalformedRequest });
    }
  });
  if (options.maxConnections !== undefined) server.maxConnections = options.maxConnections;
  if (options.onConnectionLimit) server.on("drop", options.onConnectionLimit);

  await bind(server, address);
  const bound = server.address() as AddressInfo | string | null;
  if (bound === null || typeof bound === "string") {
    isUnixSocket = true;
    return {
      server,
      url: "path" in address ? `unix:${address.path}` : `fd:${"fd" in address ? address.fd : ""}`,
      bound: null,
    };
  }
  const host = bound.family === "IPv6" ? `[${bound.address}]` : bound.address;
  return {
    server,
    url: `${tls ? "https" : "http"}://${host}:${bound.port}`,
    bound: { host: bound.address, port: bound.port },
  };
}

function createHttpServer({
  tls,
  limits,
  handle,
}: {
  tls: CertificatePair | null;
  limits: ServerLimits;
  handle: RequestListener;
}): Server {
  const options = {
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: limits.headerTimeout * 1000,
    requestTimeout: limits.requestTimeout * 1000,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // Node's own refusal of a request without a Host header has no body; request-boundary.ts refuses it like all
    // others.
    requireHostHeader: false,
    // Node checks for late requests at intervals: a limit of 5 seconds should not mean 35.
    connectionsCheckingInterval: Math.min(limits.headerTimeout * 250, 30_000),
  };
  const server = tls
    ? createTlsServer({ ...options, ...secureContext(tls), handshakeTimeout: options.headersTimeout }, handle)
    : createServer(options, handle);
  // body.ts answers `Expect: 100-continue`, after the client was authorized.
  server.on("checkContinue", handle);
  // Any other expectation is answered like a request without one.
  server.on("checkExpectation", handle);
  return server;
}

function trackSockets(server: Server, traffic: Traffic): void {
  const track = (socket: Socket): void => {
    traffic.sockets.add(socket);
    socket.once("close", () => traffic.sockets.delete(socket));
  };
  server.on("connection", track);
  // A TLS connection has two sockets: the raw one, which a stop can also cut during the handshake, and the encrypted
  // one.
  server.on("secureConnection", (socket: Socket) => (traffic.isStopping ? socket.destroy() : track(socket)));
}

async function bind(server: Server, address: ListenAddress): Promise<void> {
  if ("path" in address) await removeStaleSocket(address.path);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(address, resolve);
  });
  if ("path" in address) allowGroup(address.path);
}

/**
 * Uses another certificate for new connections; open ones keep theirs.
 * @throws OpenSSL's error; the old certificate stays in use then
 */
export function replaceCertificate(server: Server, pair: CertificatePair): void {
  if (server instanceof HttpsServer) server.setSecureContext(secureContext(pair));
}

const secureContext = ({ certificate, key }: CertificatePair): SecureContextOptions => ({
  cert: certificate,
  key,
  minVersion: "TLSv1.2",
});

/**
 * Stops accepting connections, waits up to `timeoutS` seconds for running requests, then cuts the rest. Idle
 * connections are closed at once, including those that have not sent a first request; so are streams of server-sent
 * events, which do not end by themselves.
 */
export async function closeListener(server: Server, timeoutS: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  const traffic = trafficOf.get(server);
  if (traffic) {
    traffic.isStopping = true;
    for (const response of traffic.responses) {
      if (!response.headersSent) response.setHeader("Connection", "close");
      else if (isEventStream(response)) endEventStream(response);
    }
    // Node counts a connection as busy until its first request arrives.
    for (const socket of traffic.sockets) if (socket.bytesRead === 0) socket.destroy();
  }
  server.closeIdleConnections();
  const timer = setTimeout(() => {
    server.closeAllConnections();
    // Node does not know a connection yet whose handshake has not ended.
    for (const socket of traffic?.sockets ?? []) socket.destroy();
  }, timeoutS * 1000);
  await closed;
  clearTimeout(timer);
}

const isEventStream = (response: ServerResponse): boolean =>
  String(response.getHeader("Content-Type")).startsWith("text/event-stream");

function endEventStream(response: ServerResponse): void {
  // A client that does not read would hold the stop up.
  if (response.writableLength > 0) response.destroy();
  else response.end();
}
