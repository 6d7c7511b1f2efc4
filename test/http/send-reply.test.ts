/** JSON answers that are text already are treated like any other JSON body. */
import { createServer } from "node:http";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import Koa from "koa";
import { Type } from "typebox";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { AppError } from "../../src/errors.ts";
import { createRequestBoundary } from "../../src/http/request-boundary.ts";
import { createMemoryBudget } from "../../src/http/memory/memory-budget.ts";
import { mountOperations } from "../../src/http/routing/router.ts";
import { operationFor } from "../../src/http/declare-operation.ts";
import { NO_BODY } from "../../src/http/operation.ts";
import type { Reply } from "../../src/http/operation.ts";
import { encodeUtf8 } from "../../src/http/response.ts";
import { Closed } from "../../src/http/schema.ts";
import type { RequestEntry } from "../../src/http/request-entry.ts";
import type { ServerContext } from "../../src/http/server-context.ts";

const test = suite("http/send-reply");
let server: Server;
let url: string;
/** The pieces of the next answer. */
let texts: string[] = [];
let handled = 0;
const lines: { entry: RequestEntry; error: unknown }[] = [];
const cached = new Map<string, { value: unknown; size: number }>();

const memory = createMemoryBudget({ total: 10 << 20, bodies: 1000, answers: 10 << 20 });

const declare = operationFor<null>();
const common = {
  method: "GET",
  tag: "Test",
  summary: "A text",
  description: "For this test.",
  permission: "public",
  audit: null,
  params: Closed({}),
  query: Closed({}),
  body: NO_BODY,
  example: {},
  responses: { 200: { description: "A text", schema: Closed({ name: Type.String(), size: Type.Integer() }) } },
  handle: (): Reply => {
    handled += 1;
    return { status: 200, texts, dependsOn: [] };
  },
} as const;
const serverContext = (checkResponses: boolean): ServerContext<null> => ({
  operations: [
    declare({ ...common, id: "get_text", path: "/text" }),
    declare({ ...common, id: "get_cached", path: "/cached", cacheable: true }),
  ],
  limits: { json: 1000, form: 1000, document: 1000, evidence: 1000, smallEvidence: 0, stallTimeoutS: 5 },
  authenticate: () => null,
  findSession: () => null,
  findMembership: () => null,
  findSignedEndpoint: () => null,
  isCredentialValid: () => false,
  readMembership: () => null,
  accessVersion: () => 1,
  createContext: () => null,
  updateContext: () => null,
  write: async (work) => work(),
  insertEvidence: () => undefined,
  audit: () => undefined,
  afterCommit: async () => undefined,
  read: (work) => work(),
  responseCache: {
    version: () => 1,
    get: (key) => cached.get(key)?.value,
    set: (key, value, { chars }) => void cached.set(key, { value, size: chars }),
  },
  answerReader: null,
  databaseState: () => 1,
  evidence: {
    stage: () => Promise.reject(new Error("not here")),
    stageBytes: () => Promise.reject(new Error("not here")),
    publishFor: async (_staged, write) => write(),
    discard: async () => undefined,
  },
  bodyBudget: memory.bodies,
  answerBudget: memory.answers,
  watchAnswer: () => () => undefined,
  largeJson: { read: () => Promise.reject(new Error("not here")) },
  ensureWritable: () => undefined,
  noteUnknown: () => undefined,
  noteUnknownRoute: () => Promise.resolve(),
  mapError: (error) => error,
  resolveBaseUrl: () => "http://assay.test",
  durable: () => null,
  newId: () => "id",
  rateLimits: { countAddress: () => undefined, countKey: () => undefined },
  onRequest: () => undefined,
  onHungRequest: () => undefined,
  watchdogTimer: () => () => undefined,
  logRequest: (entry, error) => void lines.push({ entry, error }),
  checkResponses,
});

async function startServer(checkResponses: boolean): Promise<void> {
  const app = new Koa();
  app.use(createRequestBoundary(serverContext(checkResponses)));
  app.use(mountOperations(serverContext(checkResponses)));
  server = createServer(app.callback());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/v2`;
}
test.before.each(async () => {
  [handled, lines.length] = [0, 0];
  cached.clear();
  await startServer(true);
});
test.after.each(() => {
  server.closeAllConnections();
  server.close();
});

const header = (answer: Response, name: string): string | null => answer.headers.get(name);

test("joins the pieces to one body, with the type of JSON and the length in bytes", async () => {
  texts = ['{"name":', '"é', "😀", '"', "", ',"size":1', "}"];
  const answer = await fetch(`${url}/text`);
  const text = '{"name":"é😀","size":1}';
  assert.equal(
    {
      "answer.status": answer.status,
      "header Content-Type": header(answer, "Content-Type"),
      "header Content-Length": header(answer, "Content-Length"),
    },
    {
      "answer.status": 200,
      "header Content-Type": "application/json; charset=utf-8",
      "header Content-Length": String(Buffer.byteLength(text)),
    },
  );
  assert.is(await answer.text(), text);
  const head = await fetch(`${url}/text`, { method: "HEAD" });
  assert.equal(
    { status: head.status, header: header(head, "Content-Length"), head: await head.text() },
    { status: 200, header: String(Buffer.byteLength(text)), head: "" },
  );
});

test("sends a text of megabytes completely", async () => {
  const piece = "x".repeat(1 << 20);
  texts = ['{"name":"', piece, "ü", piece, '","size":2}'];
  const { name } = (await (await fetch(`${url}/text`)).json()) as { name: string };
  assert.ok(name === `${piece}ü${piece}`);
});

test("checks the text against the declared shape, like any body", async () => {
  for (const wrong of ['{"name":"a"}', '{"name":"a","size":1,"more":2}', '{"name":1,"size":1}', '"text"', "[]"]) {
    texts = [wrong.slice(0, 2), wrong.slice(2)];
    lines.length = 0;
    const answer = await fetch(`${url}/text`);
    assert.is(answer.status, 500, wrong);
    assert.not.ok((await answer.text()).includes(wrong), "the answer reveals nothing of it");
    const { error } = lines[0] ?? {};
    assert.ok(error instanceof AppError);
    assert.equal(
      { code: error.code, message: error.message, body: (error.internal as { body?: unknown }).body },
      { code: "internal", message: "response does not match its declared shape", body: JSON.parse(wrong) },
    );
  }
  texts = ['{"name":'];
  assert.is((await fetch(`${url}/text`)).status, 500, "not JSON at all");
});

test("does not parse the text in production", async () => {
  server.close();
  await startServer(false);
  texts = ["not ", "checked"];
  const answer = await fetch(`${url}/text`);
  assert.equal({ status: answer.status, answer: await answer.text() }, { status: 200, answer: "not checked" });
});

test("caches an answer with its size in bytes, and sends it again unchanged", async () => {
  texts = ['{"name":"é"', ',"size":1}'];
  const first = await fetch(`${url}/cached`);
  texts = ['{"name":"other","size":2}'];
  const again = await fetch(`${url}/cached`);
  assert.equal(
    { first: await first.text(), again: await again.text(), handled },
    { first: '{"name":"é","size":1}', again: '{"name":"é","size":1}', handled: 1 },
  );
  assert.equal(
    {
      "again.status": again.status,
      "header Content-Type": header(again, "Content-Type"),
      "header Content-Length": header(again, "Content-Length"),
    },
    { "again.status": 200, "header Content-Type": "application/json; charset=utf-8", "header Content-Length": "22" },
  );
  assert.equal(
    [...cached.values()].map(({ size }) => size),
    [22],
  );
});

test("encodes pieces like their joined text, whatever the characters", () => {
  for (const pieces of [
    [],
    [""],
    ["a"],
    ["a", "é", "€", "😀"],
    ["", "ü", ""],
    [`x${"y".repeat(20)}`.slice(3), `${"é".repeat(5000)}z`],
  ])
    assert.equal(encodeUtf8(pieces).toString(), pieces.join(""));
});

test.run();
