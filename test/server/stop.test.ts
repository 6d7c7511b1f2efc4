/** Time limits and the stop of a server, on the level of connections. */
import type { RequestListener, ServerResponse } from "node:http";
import { connect } from "node:net";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { maxConnections } from "../../src/server/connection-limit.ts";
import { listen, closeListener } from "../../src/server/listener.ts";
import type { ListenAddress } from "../../src/server/listener.ts";
import { AMPLE, startServer } from "../given.ts";
import type { Network } from "../given.ts";
import { FIRST } from "./certificates.ts";
import { allOf, ask, dialPlain, dialTls, slowRequest } from "./client.ts";

const test = suite("server/stop");

const LOOPBACK: ListenAddress = { host: "127.0.0.1", port: 0 };
const MANNERS: [string, Network][] = [
  ["http", {}],
  ["https", { connections: { tls: FIRST } }],
];
const dial = (url: string) => (url.startsWith("https:") ? dialTls(url) : dialPlain(url));

for (const [scheme, network] of MANNERS) {
  test(`over ${scheme} a stop waits for running requests, refuses new ones, and closes idle connections`, async () => {
    const server = await startServer({ network });
    const { org, key } = server.given.org();
    const body = JSON.stringify({ name: "late", description: "" });
    const [silent, busy] = [await dial(server.url), await dial(server.url)];
    const silence = allOf(silent);
    const { answer, goesOn } = slowRequest(busy, { path: `/api/v2/flows/${org}`, key, body });
    await goesOn;
    busy.write(body.slice(0, 5));
    let stopped = false;
    const stopping = closeListener(server.server, 60).then(() => (stopped = true));
    assert.is(await silence, "");
    await ask(server.url, { path: "/ready" }).then(
      () => assert.unreachable("it still listens"),
      (error: Error & { code?: string }) => assert.is(error.code, "ECONNREFUSED"),
    );
    assert.is(stopped, false);
    busy.write(body.slice(5));
    assert.match(await answer, /HTTP\/1\.1 201 Created\r\n[^]*\r\nConnection: close\r\n/);
    await stopping;
    assert.ok(server.store.flows.find(server.store.organizations.find(org)?.id as number, "late"));
    await server.stop();
  });

  test(`over ${scheme} a silent client is cut at the time limit`, async () => {
    const server = await startServer({ network });
    const { org, key } = server.given.org();
    const socket = await dial(server.url);
    const { answer, goesOn } = slowRequest(socket, { path: `/api/v2/flows/${org}`, key, body: "{}" });
    await goesOn;
    await closeListener(server.server, 0.1);
    assert.not.match(await answer, "HTTP/1.1 200");
    await server.stop();
  });
}

test("a stop waits for an answer that is being sent, adds no listener to it, and closes its connection", async () => {
  const sending = Promise.withResolvers<ServerResponse>();
  const handle: RequestListener = (_, response) => {
    response.writeHead(200, { "Content-Length": 10 }).write("begun");
    sending.resolve(response);
  };
  const { server, url } = await listen({ callback: () => handle, recordMalformedRequest: () => "id" }, LOOPBACK, {
    limits: AMPLE,
  });
  const socket = await dialPlain(url);
  const answer = allOf(socket);
  socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  const response = await sending.promise;
  const listeners = response.listenerCount("close");
  const stopping = closeListener(server, 600);
  assert.is(response.listenerCount("close"), listeners);
  response.end("ended");
  assert.match(await answer, /^HTTP\/1\.1 200 OK\r\n[^]*\r\nConnection: keep-alive\r\n[^]*begunended$/);
  await stopping;
});

test("a handshake that never ends is cut at the time limit of the stop", async () => {
  const server = await startServer({
    network: { connections: { tls: FIRST }, limits: AMPLE },
  });
  const socket = await dialPlain(server.url);
  const all = allOf(socket);
  // Only the beginning of a TLS record.
  socket.write(Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01]));
  await ask(server.url, { path: "/ready" });
  await closeListener(server.server, 0.1);
  assert.is(await all, "");
  await server.stop();
});

test("answers slow headers with 408 and closes the connection, however regularly bytes arrive", async () => {
  const server = await startServer({ network: { limits: { headerTimeout: 1, requestTimeout: 2 } } });
  const socket = await dialPlain(server.url);
  const answer = allOf(socket);
  socket.write("GET /api/v2/openapi.json HTTP/1.1\r\nHost: x\r\nX-Slow: ");
  const dribble = setInterval(() => socket.writable && socket.write("a"), 20);
  const text = await answer;
  clearInterval(dribble);
  assert.match(text, /^HTTP\/1\.1 408 Request Timeout\r\nConnection: close\r\nContent-Type: application\/json/);
  assert.match(text, '{"message":"The request did not arrive in time"}');
  const silent = await dialPlain(server.url);
  assert.match(await allOf(silent), /^HTTP\/1\.1 408 /, "a silent connection is cut too");
  await server.stop();
});

test("a slow body is cut at the time limit of the whole request", async () => {
  const server = await startServer({ network: { limits: { headerTimeout: 1, requestTimeout: 1 } } });
  const { org, key } = server.given.org();
  const socket = await dialPlain(server.url);
  const { answer } = slowRequest(socket, { path: `/api/v2/flows/${org}`, key, body: " ".repeat(100_000) });
  const dribble = setInterval(() => socket.writable && socket.write(" "), 20);
  assert.match(await answer, /HTTP\/1\.1 408 /);
  clearInterval(dribble);
  await server.stop();
});

test("refuses connections beyond the limit of open files, and reports that", async () => {
  let crowded = 0;
  const server = await startServer({
    network: { connections: { maxConnections: 2, onConnectionLimit: () => (crowded += 1) } },
  });
  const [first, second] = [await dialPlain(server.url), await dialPlain(server.url)];
  const third = connect(Number(new URL(server.url).port), "127.0.0.1");
  assert.is(await allOf(third), "");
  assert.is(crowded, 1);
  const gone = allOf(first);
  first.end();
  await gone;
  second.write("GET /ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  assert.match(await allOf(second), /^HTTP\/1\.1 200 OK/);
  await server.stop();
});

test("derives the connection limit from the limit of open files", () => {
  const limits = (files: string): string =>
    `Limit  Soft Limit  Hard Limit  Units\nMax open files            ${files}               1048576              ` +
    `files     \nMax locked memory  1 2 bytes\n`;
  assert.is(maxConnections(limits("1024")), 768);
  assert.is(maxConnections(limits("1048576")), 1_048_320);
  assert.is(maxConnections(limits("300")), 150, "half of a low limit");
  assert.is(maxConnections(limits("unlimited")), Infinity);
  assert.is(maxConnections(""), Infinity);
  assert.ok(maxConnections() > 0);
});

test("idle connections stay open longer than proxies keep theirs", async () => {
  const { server } = await listen(
    { callback: () => (_, response) => void response.end(), recordMalformedRequest: () => "id" },
    LOOPBACK,
    { limits: AMPLE },
  );
  assert.ok(server.keepAliveTimeout > 60_000);
  await closeListener(server, 1);
});

test.run();
