/** HTTPS: what clients of a TLS server get, and that its certificate is replaced without disturbing them. */
import { Agent as TlsAgent } from "node:https";
import { connect } from "node:net";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { replaceCertificate } from "../../src/server/listener.ts";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { FIRST, SECOND } from "./certificates.ts";
import { allOf, ask, dialPlain, dialTls, fingerprintAt, fingerprintOf, slowRequest } from "./client.ts";

const test = suite("server/tls");

let server: TestServer;
test.before(async () => {
  server = await startServer({
    limits: { json: 10_000 },
    baseUrl: "https://assay.example.com",
    network: { connections: { tls: FIRST } },
  });
});
test.after(() => server.stop());

test("speaks https only, from TLS 1.2 on", async () => {
  assert.match(server.url, /^https:\/\/127\.0\.0\.1:\d+$/);
  assert.equal((await ask(server.url, { path: "/ready" })).text, "OK");
  assert.is((await dialTls(server.url)).getProtocol(), "TLSv1.3");
  assert.is((await dialTls(server.url, { maxVersion: "TLSv1.2" })).getProtocol(), "TLSv1.2");
  const refused = await dialTls(server.url, { maxVersion: "TLSv1.1" }).then(
    () => null,
    (error: Error & { code?: string }) => error.code,
  );
  assert.ok(refused !== null, "TLS 1.1 is over");
});

test("closes plain http connections to the TLS port, and no others", async () => {
  const plain = await dialPlain(server.url);
  const answer = allOf(plain);
  plain.write("GET /ready HTTP/1.1\r\nHost: x\r\n\r\n");
  assert.not.match(await answer, /HTTP\/1\.1 200/);
  const noise = await dialPlain(server.url);
  const silence = allOf(noise);
  noise.write(Buffer.alloc(2000, 0xff));
  await silence;
  assert.is((await ask(server.url, { path: "/ready" })).status, 200);
});

test("responses have https URLs, and the usual limits apply to bodies", async () => {
  const { org, key } = server.given.org();
  const flow = await ask(server.url, {
    method: "PUT",
    path: `/api/v2/flows/${org}`,
    key,
    body: JSON.stringify({ name: "f", description: "" }),
  });
  assert.is(flow.status, 201, flow.text);
  assert.is(
    (await ask(server.url, { path: "/api/v2/openapi.json" })).body.servers[0].url,
    "https://assay.example.com/api/v2",
  );
  const large = await ask(server.url, {
    method: "PUT",
    path: `/api/v2/flows/${org}`,
    key,
    body: JSON.stringify({ name: "g", description: "x".repeat(10_000) }),
  });
  assert.is(large.status, 413);
});

test("cuts slow headers and a handshake that never starts", async () => {
  const hasty = await startServer({
    network: { connections: { tls: FIRST }, limits: { headerTimeout: 1, requestTimeout: 2 } },
  });
  const slow = await dialTls(hasty.url);
  slow.write("GET /ready HTTP/1.1\r\nHost: x\r\nX-A: ");
  assert.match(await allOf(slow), /^HTTP\/1\.1 408 Request Timeout\r\n[^]*The request did not arrive in time/);
  const silent = connect(Number(new URL(hasty.url).port), "127.0.0.1");
  assert.is(await allOf(silent), "", "the connection was cut");
  await hasty.stop();
});

test("a new certificate is used by new connections; uploads and kept connections continue", async () => {
  const { org, key } = server.given.org();
  const agent = new TlsAgent({ keepAlive: true, maxSockets: 1 });
  const body = JSON.stringify({ name: "slow", description: "" });
  assert.is(await fingerprintAt(server.url), fingerprintOf(FIRST));
  assert.is((await ask(server.url, { path: "/ready", agent })).status, 200);
  const pooled = Object.values(agent.freeSockets)[0]?.[0];
  const upload = await dialTls(server.url);
  const { answer, goesOn, received } = slowRequest(upload, { path: `/api/v2/flows/${org}`, key, body });
  await goesOn;
  upload.write(body.slice(0, 10));

  replaceCertificate(server.server, SECOND);
  assert.is(await fingerprintAt(server.url), fingerprintOf(SECOND));
  assert.is((await ask(server.url, { path: "/ready", agent })).status, 200);
  assert.ok(pooled && Object.values(agent.freeSockets)[0]?.[0] === pooled, "the same connection");
  upload.write(body.slice(10));
  await new Promise<void>((resolve) =>
    received().includes("201 Created")
      ? resolve()
      : upload.on("data", () => received().includes("201 Created") && resolve()),
  );
  upload.end();
  assert.match(await answer, /HTTP\/1\.1 201 Created/);
  assert.is((await ask(server.url, { path: `/api/v2/flows/${org}/slow`, key })).body.name, "slow");
  assert.is(
    (await dialTls(server.url, { maxVersion: "TLSv1.2" })).getProtocol(),
    "TLSv1.2",
    "the same minimum TLS version applies",
  );
  const old = await dialTls(server.url, { maxVersion: "TLSv1.1" }).then(
    () => "accepted",
    () => "refused",
  );
  assert.is(old, "refused");
  agent.destroy();
});

test("a pair that OpenSSL rejects leaves the current one in use", async () => {
  const before = await fingerprintAt(server.url);
  assert.throws(() => replaceCertificate(server.server, { certificate: FIRST.certificate, key: SECOND.key }));
  assert.throws(() => replaceCertificate(server.server, { certificate: "", key: "no key" }));
  assert.is(await fingerprintAt(server.url), before);
});

test.run();
