/**
 * Binding the server to an address, and leaving it: what happens on the level of connections, before there is a request and after
 * there is an answer.
 */
import { createServer } from "node:http";
import type { RequestListener, Server, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { pathOf, refuseBroken } from "./http/broken.ts";
import type { Refusal } from "./http/broken.ts";

export type Listening = { server: Server; url: string };

export type ServerLimits = {
  /** Seconds for the headers of a request. */
  headerTimeout: number;
  /** Seconds for a whole request. */
  requestTimeout: number;
};

export type Bindable = { callback(): RequestListener; refused(refusal: Refusal): string };

/** What a stop must know of a server: its connections, and the answers that are not finished. */
type Traffic = { sockets: Set<Socket>; answers: Set<ServerResponse>; stopping: boolean };
const trafficOf = new WeakMap<Server, Traffic>();

/**
 * Binds the app; only its request handler is asked for, so that who must know the port before they make the app can hand in
 * something that passes requests on. `refused` is told of what never became a request, and gives the id that it is answered with.
 * @throws the system's error (EADDRINUSE, EACCES) when the address cannot be had.
 */
export async function listen(app: Bindable, address: { host: string; port: number }, limits: ServerLimits): Promise<Listening> {
  const handler = app.callback();
  const traffic: Traffic = { sockets: new Set(), answers: new Set(), stopping: false };
  const latest = new WeakMap<Duplex, ServerResponse>();
  const handle: RequestListener = (request, response) => {
    latest.set(request.socket, response);
    request.url = pathOf(request.url ?? "");
    traffic.answers.add(response);
    response.once("close", () => traffic.answers.delete(response));
    if (traffic.stopping) response.setHeader("Connection", "close");
    handler(request, response);
  };
  const timing = {
    headersTimeout: limits.headerTimeout * 1000,
    requestTimeout: limits.requestTimeout * 1000,
    // Node looks for late requests every so often: a limit of 5 seconds should not mean 35.
    connectionsCheckingInterval: Math.min(limits.headerTimeout * 250, 30_000),
  };
  const server = createServer({ ...timing, maxHeaderSize: MAX_HEADER_BYTES }, handle);
  trafficOf.set(server, traffic);
  server.on("connection", (socket: Socket) => {
    traffic.sockets.add(socket);
    socket.once("close", () => traffic.sockets.delete(socket));
  });
  // A client that asks first (`Expect: 100-continue`) is told to go on by body.ts, after it was authorized.
  server.on("checkContinue", handle);
  // Other expectations are met by answering as always.
  server.on("checkExpectation", handle);
  server.on("clientError", (error, socket) => refuseBroken(error, socket, latest.get(socket) ?? null, app.refused));
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(address.port, address.host, resolve);
  });
  const bound = server.address() as AddressInfo;
  const host = bound.family === "IPv6" ? `[${bound.address}]` : bound.address;
  return { server, url: `http://${host}:${bound.port}` };
}

/** A list query names a thousand commits with 40 digits each in its address; node's own 16 KB would not take them. */
const MAX_HEADER_BYTES = 262_144;

/**
 * Stops taking connections, lets running requests end (at most `patience` seconds), then cuts what is left. Connections
 * that clients only keep open, for a next request or for a first one, delay nothing.
 */
export async function unlisten(server: Server, patience: number): Promise<void> {
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
  const timer = setTimeout(() => server.closeAllConnections(), patience * 1000);
  await closed;
  clearTimeout(timer);
}
