/**
 * The headers of every answer, whatever went wrong and wherever (test/whole visits all operations), and the single log
 * line of every request.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import Koa from "koa";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createMemoryBudget } from "../../src/http/memory/memory-budget.ts";
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

/** The log lines of one request. */
const linesOf = (id: string): Record<string, any>[] =>
  server.lines.map((line) => JSON.parse(line)).filter((line) => line.request_id === id && "status" in line);

const authorization = () => ({ Authorization: `Bearer ${at.key}` });

test("every kind of answer has the headers, and one log line with its id and the client address", async () => {
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
    ["a read", 200, "GET", `/flows/${at.org}`, authorization()],
    ["HEAD of a read", 200, "HEAD", `/flows/${at.org}`, authorization()],
    ["a read that is not modified", 304, "GET", `/flows/${at.org}`, { ...authorization(), "If-None-Match": "*" }],
    [
      "a write",
      201,
      "PUT",
      `/flows/${at.org}`,
      { ...authorization(), "Content-Type": "application/json", "Content-Length": 31 },
      '{"name":"one","description":""}\n',
    ],
    ["a file", 200, "GET", evidence, authorization()],
    ["a range of it", 206, "GET", evidence, { ...authorization(), Range: "bytes=0-1" }],
    ["an unsatisfiable range", 416, "GET", evidence, { ...authorization(), Range: "bytes=9-" }],
    ["an invalid query", 400, "GET", `/attestations/${at.org}?per_page=x`, authorization()],
    ["no credentials", 401, "GET", `/flows/${at.org}`, {}],
    ["an organization of others", 403, "GET", `/flows/${fresh("org")}`, authorization()],
    ["an unknown flow", 404, "GET", `/flows/${at.org}/none`, authorization()],
    ["an unknown path", 404, "GET", "/nothing", {}],
    ["an unknown path outside the API", 404, "GET", "//nothing", { Accept: "application/json" }],
    ["a wrong method", 405, "PATCH", `/flows/${at.org}`, authorization()],
    [
      "a body that is too large",
      413,
      "PUT",
      `/flows/${at.org}`,
      { ...authorization(), "Content-Type": "application/json", "Content-Length": 2001 },
    ],
    ["the API reference", 200, "GET", "//api/v2/doc/", {}],
    ["the redirect to the API reference", 302, "GET", "//doc", {}],
    ["an unknown file of the API reference", 404, "GET", "//api/v2/doc/none.js", {}],
    ["the OpenAPI document", 200, "GET", "/openapi.json", {}],
  ];
  for (const [kind, status, method, path, headers, body = ""] of kinds) {
    const requestId = fresh("request");
    const wire = await dial(server.url);
    await wire.send(head(method, path, { "X-Request-ID": requestId, ...headers }) + body);
    // The client of this test does not know that these statuses and methods have no body.
    const answer = await (method === "HEAD" || status === 304 ? readHead(wire) : wire.answer());
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

/** Reads an answer without a body. */
async function readHead(wire: Awaited<ReturnType<typeof dial>>): Promise<RawAnswer> {
  let text = "";
  await new Promise<void>((resolve) =>
    wire.socket.on("data", (chunk: Buffer) => {
      text += chunk.toString("latin1");
      if (text.includes("\r\n\r\n")) resolve();
    }),
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

test("bytes that are not HTTP are refused with the same headers, an id, and a log line of their own", async () => {
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

test("a malformed body is answered under the id of its request, which has the only log line", async () => {
  const wire = await dial(server.url);
  const start = head("PUT", `/flows/${at.org}`, {
    ...authorization(),
    "Content-Type": "application/json",
    "Transfer-Encoding": "chunked",
    "X-Request-ID": "broken",
  });
  await wire.send(`${start}5\r\n{"nam\r\nno chunk\r\n`);
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

test("an aborted download is logged as aborted, with the bytes that were sent", async () => {
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
  await wire.send(head("GET", path, { ...authorization(), "X-Request-ID": "cut" }));
  wire.socket.once("data", () => wire.vanish());
  const { status, aborted, bytes_out } = await logged(server, "cut");
  assert.equal({ status, aborted }, { status: 200, aborted: true });
  assert.ok(bytes_out > 0 && bytes_out < size, `${bytes_out} bytes`);
  const whole = await server.call("GET", path, { key: at.key, headers: { "X-Request-ID": "whole" } });
  assert.is(whole.text.length, size);
  const line = await logged(server, "whole");
  assert.is(line["aborted"], undefined);
  assert.ok(line["bytes_out"] >= size);
});

test("a client that disconnects leaves one log line too", async () => {
  const wire = await dial(server.url);
  await wire.send(
    `${head("PUT", `/flows/${at.org}`, { ...authorization(), "Content-Length": 1000, "X-Request-ID": "gone" })}{`,
  );
  wire.vanish();
  assert.is((await logged(server, "gone"))["status"], 499);
  assert.is(linesOf("gone").length, 1);
});

test("probes and failures have the headers, and only failing probes are logged", async () => {
  const broken = await startServer();
  for (const probe of ["//ready", "//healthz"])
    assertSecure(Object.fromEntries((await broken.call("GET", probe)).headers), probe);
  assert.equal(
    broken.lines.filter((line) => line.includes("get_ready")),
    [],
    "frequent probes do not fill the log",
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
  assert.is(broken.lines.filter((line) => line.includes('"route":"get_ready"')).length, 1, "a failing probe is logged");
  await broken.stop().catch(() => undefined);
});

test("only TLS clients get Strict-Transport-Security, and a failure drops the headers set before", async () => {
  let secure = true;
  const lines: unknown[] = [];
  const app = new Koa();
  app.use(
    createRequestBoundary({
      limits: { json: 1, form: 1, document: 1, evidence: 1, smallEvidence: 0, stallTimeoutS: 1 },
      answerBudget: createMemoryBudget({ total: 1, bodies: 1, answers: 1 }).answers,
      watchAnswer: () => () => undefined,
      newId: () => "id",
      onRequest: () => undefined,
      onHungRequest: () => undefined,
      watchdogTimer: () => () => undefined,
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
