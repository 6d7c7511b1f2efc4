/**
 * What every answer carries, whatever went wrong and wherever; all operations are walked in test/whole. And that every
 * request leaves one line.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import Koa from "koa";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createRequestBoundary } from "../../src/http/request-boundary.ts";
import { fresh, startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { dial, exchange, head, logged } from "./socket.ts";
import type { RawAnswer } from "./socket.ts";

const test = suite("http/security-headers");
let server: TestServer;
let at: { org: string; key: string };
test.before(async () => {
  server = await startServer({ limits: { json: 2000, evidence: 32_000_000 } });
  at = server.given.org();
});
test.after(() => server.stop());

const API_POLICY = "default-src 'none'; frame-ancestors 'none'";

function assertSecure(headers: Record<string, string>, label: string, policy: string | null = API_POLICY): void {
  const {
    "x-content-type-options": type,
    "x-frame-options": frame,
    "referrer-policy": referrer,
    "cross-origin-resource-policy": resource,
    "strict-transport-security": transport,
  } = headers;
  assert.equal(
    { type, frame, referrer, resource, transport },
    { type: "nosniff", frame: "DENY", referrer: "no-referrer", resource: "same-origin", transport: undefined },
    label,
  );
  if (policy === null)
    assert.match(headers["content-security-policy"] ?? "", /script-src 'self'.*frame-ancestors 'none'$/, label);
  else assert.is(headers["content-security-policy"], policy, label);
  assert.ok(headers["x-request-id"], `${label}: an id`);
  assert.ok(headers["cache-control"], `${label}: Cache-Control`);
}

/** The lines about one request. */
const linesOf = (id: string): Record<string, any>[] =>
  server.lines.map((line) => JSON.parse(line)).filter((line) => line.request_id === id && "status" in line);

const KEY = () => ({ Authorization: `Bearer ${at.key}` });

test("every kind of answer has the headers, and one line in the log with its id and the address of the client", async () => {
  const flow = await server.given.flow(at);
  const trail = await server.given.trail(at, { flow });
  const id = await server.given.attestation(at, {
    flow,
    trail,
    file: { name: "attachment_file", filename: "a.txt", content: "abc" },
  });
  const evidence = `/attestations/${at.org}/${flow}/trail/${trail}/attestation/${id}/evidence`;
  const kinds: [
    kind: string,
    status: number,
    method: string,
    path: string,
    headers: Record<string, string | number>,
    body?: string,
  ][] = [
    ["a read", 200, "GET", `/flows/${at.org}`, KEY()],
    ["its head", 200, "HEAD", `/flows/${at.org}`, KEY()],
    ["a read of what is known", 304, "GET", `/flows/${at.org}`, { ...KEY(), "If-None-Match": "*" }],
    [
      "a write",
      201,
      "PUT",
      `/flows/${at.org}`,
      { ...KEY(), "Content-Type": "application/json", "Content-Length": 31 },
      '{"name":"one","description":""}\n',
    ],
    ["a file", 200, "GET", evidence, KEY()],
    ["a part of it", 206, "GET", evidence, { ...KEY(), Range: "bytes=0-1" }],
    ["no part of it", 416, "GET", evidence, { ...KEY(), Range: "bytes=9-" }],
    ["a query that is wrong", 400, "GET", `/attestations/${at.org}?per_page=x`, KEY()],
    ["nobody", 401, "GET", `/flows/${at.org}`, {}],
    ["somebody else's", 403, "GET", `/flows/${fresh("org")}`, KEY()],
    ["nothing there", 404, "GET", `/flows/${at.org}/none`, KEY()],
    ["no such path", 404, "GET", "/nothing", {}],
    ["no such path outside the API", 404, "GET", "//nothing", {}],
    ["no such method", 405, "PATCH", `/flows/${at.org}`, KEY()],
    [
      "a body that is too large",
      413,
      "PUT",
      `/flows/${at.org}`,
      { ...KEY(), "Content-Type": "application/json", "Content-Length": 2001 },
    ],
    ["the page", 200, "GET", "//api/v2/doc/", {}],
    ["the way to the page", 302, "GET", "//doc", {}],
    ["no such file of the page", 404, "GET", "//api/v2/doc/none.js", {}],
    ["the document", 200, "GET", "/openapi.json", {}],
  ];
  for (const [kind, status, method, path, headers, body = ""] of kinds) {
    const requestId = fresh("request");
    const wire = await dial(server.url);
    await wire.send(head(method, path, { "X-Request-ID": requestId, ...headers }) + body);
    // What has no body says so by its status or its method, which the reader of answers does not look at.
    const answer = await (method === "HEAD" || status === 304 ? headOf(wire) : wire.answer());
    wire.vanish();
    assert.is(answer.status, status, `${kind}: ${answer.text}`);
    assertSecure(answer.headers, kind, status < 400 && path.includes("doc") ? null : API_POLICY);
    await logged(server, requestId);
    const [line, ...more] = linesOf(requestId);
    assert.equal(
      { status: line?.["status"], method: line?.["method"], client: line?.["client"], level: line?.["level"], more },
      { status, method, client: "127.0.0.1", level: "info", more: [] },
      kind,
    );
    if (method === "HEAD" || status === 304) assert.is(line?.["bytes_out"], 0, kind);
  }
});

/** The head of an answer without a body. */
async function headOf(wire: Awaited<ReturnType<typeof dial>>): Promise<RawAnswer> {
  let text = "";
  await new Promise<void>((resolve) =>
    wire.socket.on(
      "data",
      (chunk: Buffer) => ((text += chunk.toString("latin1")), text.includes("\r\n\r\n") && resolve()),
    ),
  );
  const [first = "", ...lines] = text.slice(0, text.indexOf("\r\n\r\n")).split("\r\n");
  return {
    status: Number(first.split(" ")[1]),
    headers: Object.fromEntries(
      lines.map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]),
    ),
    text: "",
    body: null,
  };
}

test("what is no HTTP is refused with the same headers, an id, and a line of its own", async () => {
  for (const [bytes, status, code] of [
    ["nonsense\r\n\r\n", 400, "HPE_INVALID_METHOD"],
    [`GET / HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(300_000)}\r\n\r\n`, 431, "HPE_HEADER_OVERFLOW"],
  ] as const) {
    const answer = await exchange(server.url, bytes);
    assert.is(answer.status, status);
    assertSecure(answer.headers, code);
    const [line, ...more] = linesOf(answer.headers["x-request-id"] as string);
    assert.equal(
      { ...line, time: null },
      {
        level: "info",
        time: null,
        method: null,
        route: null,
        path: null,
        status,
        client: "127.0.0.1",
        duration_ms: 0,
        actor: null,
        org: null,
        request_id: answer.headers["x-request-id"],
        bytes_in: 0,
        bytes_out: answer.text.length,
        error_code: code,
        msg: "request",
      },
    );
    assert.equal(more, []);
  }
});

test("a body that breaks off into something else is answered under the id of its request, which leaves the only line", async () => {
  const wire = await dial(server.url);
  await wire.send(
    `${head("PUT", `/flows/${at.org}`, { ...KEY(), "Content-Type": "application/json", "Transfer-Encoding": "chunked", "X-Request-ID": "broken" })}5\r\n{"nam\r\nno chunk\r\n`,
  );
  const answer = await wire.answer();
  wire.vanish();
  assert.equal(
    { status: answer.status, "x-request-id": answer.headers["x-request-id"], body: answer.body },
    { status: 400, "x-request-id": "broken", body: { message: "The request is not valid HTTP" } },
  );
  assertSecure(answer.headers, "a broken body");
  assert.is((await logged(server, "broken"))["route"], "create_flow");
  assert.is(linesOf("broken").length, 1);
});

test("a file that a client did not take to its end is told as such, with what was sent of it", async () => {
  const flow = await server.given.flow(at);
  const trail = await server.given.trail(at, { flow });
  const size = 24_000_000;
  const id = await server.given.attestation(at, {
    flow,
    trail,
    file: { name: "attachment_file", filename: "a.bin", content: Buffer.alloc(size) },
  });
  const path = `/attestations/${at.org}/${flow}/trail/${trail}/attestation/${id}/evidence`;
  const wire = await dial(server.url);
  await wire.send(head("GET", path, { ...KEY(), "X-Request-ID": "cut" }));
  wire.socket.once("data", () => wire.vanish());
  const { status, aborted, bytes_out } = await logged(server, "cut");
  assert.equal({ status, aborted }, { status: 200, aborted: true });
  assert.ok(bytes_out > 0 && bytes_out < size, `${bytes_out} bytes`);
  const whole = await server.call("GET", path, { key: at.key, headers: { "X-Request-ID": "whole" } });
  assert.is(whole.text.length, size);
  const line = await logged(server, "whole");
  assert.equal([line["aborted"], line["bytes_out"] >= size], [undefined, true]);
});

test("a client that goes away leaves one line too", async () => {
  const wire = await dial(server.url);
  await wire.send(`${head("PUT", `/flows/${at.org}`, { ...KEY(), "Content-Length": 1000, "X-Request-ID": "gone" })}{`);
  wire.vanish();
  assert.is((await logged(server, "gone"))["status"], 499);
  assert.is(linesOf("gone").length, 1);
});

test("probes and failures have them, and a failure takes back what was said of the body", async () => {
  const broken = await startServer();
  for (const probe of ["//ready", "//healthz"])
    assertSecure(Object.fromEntries((await broken.call("GET", probe)).headers), probe);
  assert.equal(
    broken.lines.filter((line) => line.includes("get_ready")),
    [],
    "who asks every few seconds fills no log",
  );
  broken.db.close();
  const ready = await broken.call("GET", "//ready");
  assert.equal(
    { status: ready.status, "Cache-Control": ready.headers.get("Cache-Control") },
    { status: 503, "Cache-Control": "no-store" },
  );
  assertSecure(Object.fromEntries(ready.headers), "not ready");
  const failure = await broken.call("GET", "/flows/acme", { key: "x" });
  assert.is(failure.status, 500);
  assertSecure(Object.fromEntries(failure.headers), "a failure");
  assert.is(
    broken.lines.filter((line) => line.includes('"route":"get_ready"')).length,
    1,
    "a probe that fails is told",
  );
  await broken.stop().catch(() => undefined);
});

test("only who came over TLS is told to stay there, and a failure keeps no header of what it replaces", async () => {
  let secure = true;
  const lines: unknown[] = [];
  const app = new Koa();
  app.use(
    createRequestBoundary({
      limits: { json: 1, form: 1, document: 1, evidence: 1, stallTimeoutS: 1 },
      newId: () => "id",
      onRequest: () => undefined,
      mapError: (error) => error,
      logRequest: (entry) => void lines.push(entry.client),
    }),
  );
  app.use((ctx) => {
    ctx.set({
      ETag: '"x"',
      "Content-Disposition": "attachment",
      "Accept-Ranges": "bytes",
      "Content-Encoding": "gzip",
      "Cache-Control": "private, no-cache",
    });
    throw new Error("the disk is gone");
  });
  const handle = app.callback();
  const bare = createServer((request, response) => {
    Object.assign(request.socket, { encrypted: secure });
    handle(request, response);
  });
  await new Promise<void>((resolve) => bare.listen(0, "127.0.0.1", resolve));
  try {
    const url = `http://127.0.0.1:${(bare.address() as AddressInfo).port}/`;
    const answer = await fetch(url);
    assert.equal(
      { status: answer.status, "Strict-Transport-Security": answer.headers.get("Strict-Transport-Security") },
      { status: 500, "Strict-Transport-Security": "max-age=31536000" },
    );
    assert.equal(
      ["ETag", "Content-Disposition", "Accept-Ranges", "Content-Encoding", "Cache-Control"].map((name) =>
        answer.headers.get(name),
      ),
      [null, null, null, null, "no-store"],
    );
    assert.match(await answer.text(), /^\{"message":"Internal server error\./);
    secure = false;
    assert.is((await fetch(url)).headers.get("Strict-Transport-Security"), null);
    assert.equal(lines, ["127.0.0.1", "127.0.0.1"]);
  } finally {
    bare.closeAllConnections();
    bare.close();
  }
});

test.run();
