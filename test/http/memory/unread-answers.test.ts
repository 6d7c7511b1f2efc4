/** Answers that a client does not read, over real sockets: what they take from the memory budget, and how they end. */
import { createServer } from "node:http";
import type { Server } from "node:http";
import { connect } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { Readable } from "node:stream";
import Koa from "koa";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createAnswerWatch } from "../../../src/http/memory/answer-watch.ts";
import { STREAM_BYTES, createMemoryBudget } from "../../../src/http/memory/memory-budget.ts";
import type { MemoryBudget } from "../../../src/http/memory/memory-budget.ts";
import { createRequestBoundary } from "../../../src/http/request-boundary.ts";
import type { RequestEntry } from "../../../src/http/request-entry.ts";
import { recordForLog } from "../../../src/http/request-log.ts";
import { sendStream } from "../../../src/http/response.ts";
import { until } from "../../patience.ts";

const test = suite("http/memory/unread-answers");
const MB = 1 << 20;
/** More than the buffers of two sockets of the system hold. */
const LARGE = Buffer.alloc(24 * MB, "x");

let server: Server;
let url: string;
let memory: MemoryBudget;
let lines: RequestEntry[];
/** Passes a quarter of the time after which a client that does not read is cut off. */
let passQuarter: () => void;

test.before.each(async () => {
  memory = createMemoryBudget({ total: 100 * MB, bodies: MB, answers: 40 * MB });
  lines = [];
  passQuarter = () => undefined;
  const app = new Koa();
  app.silent = true;
  app.use(
    createRequestBoundary({
      limits: { json: 1, form: 1, document: 1, evidence: 1, smallEvidence: 0, stallTimeoutS: 60 },
      answerBudget: memory.answers,
      watchAnswer: createAnswerWatch({ limitS: 60, timer: (_, ring) => (passQuarter = ring) }),
      newId: () => "id",
      onRequest: () => undefined,
      onHungRequest: () => undefined,
      watchdogTimer: () => () => undefined,
      mapError: (error) => error,
      logRequest: (entry) => void lines.push(entry),
    }),
  );
  app.use(serve);
  server = createServer(app.callback());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
test.after.each(() => {
  server.closeAllConnections();
  server.close();
});

/** Answers with what the path says; the caller is who the header says. */
async function serve(ctx: Koa.Context): Promise<void> {
  const name = ctx.get("X-Caller");
  if (name !== "") recordForLog(ctx, { principal: { name, publicId: name } as never });
  if (ctx.path === "/large") ctx.body = LARGE;
  else if (ctx.path === "/text") ctx.body = "ü".repeat(LARGE.length / 2);
  else if (ctx.path === "/stream") await sendStream(ctx, { contentType: "a/b", filename: "a", open: () => endless() });
  else ctx.body = "small";
}

const endless = (): Readable =>
  new Readable({
    read() {
      this.push(Buffer.alloc(65_536));
    },
  });

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const held = (): number => memory.load().answers.bytes;
const untilReleased = (): Promise<boolean> => until("all room was given back", () => held() === 0);
const ask = (path: string, caller: string, method = "GET"): Promise<Response> =>
  fetch(`${url}${path}`, { method, headers: { "X-Caller": caller } });

/** Asks for an answer and reads nothing of it. */
async function askWithoutReading(path: string, caller: string): Promise<Socket> {
  const before = held();
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  socket.on("error", () => undefined);
  socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\nX-Caller: ${caller}\r\n\r\n`);
  await until("the answer took room", () => held() > before);
  return socket;
}

test("an answer that is not read keeps its room, and others are refused until its connection ends", async () => {
  const unread = await askWithoutReading("/large", "a");
  assert.is(held(), LARGE.length);
  for (const caller of ["a", "b"]) {
    const refused = await ask("/large", caller);
    assert.equal(
      { status: refused.status, body: await refused.json(), "Retry-After": refused.headers.get("Retry-After") },
      {
        status: 429,
        body: { message: "The server is sending too many large answers. Please try again in 5 seconds" },
        "Retry-After": "5",
      },
    );
  }
  assert.is(await (await ask("/small", "a")).text(), "small");
  const head = await ask("/large", "b", "HEAD");
  assert.equal(
    { status: head.status, length: head.headers.get("Content-Length") },
    { status: 200, length: String(LARGE.length) },
  );
  const change = await ask("/large", "b", "POST");
  assert.is(change.status, 200, "the answer to a change is not refused");
  assert.is(held(), 2 * LARGE.length, "but it counts");
  await change.arrayBuffer();
  unread.destroy();
  await untilReleased();
  assert.ok(LARGE.equals(Buffer.from(await (await ask("/large", "b")).arrayBuffer())));
  await untilReleased();
  assert.equal(memory.load().answers, { bytes: 0, waiting: 0, refused: 2 });
});

test("a text counts with its bytes, and a stream with its buffers", async () => {
  const text = await askWithoutReading("/text", "a");
  assert.is(held(), LARGE.length);
  text.destroy();
  await untilReleased();
  const stream = await askWithoutReading("/stream", "a");
  assert.is(held(), STREAM_BYTES);
  stream.destroy();
  await untilReleased();
});

for (const path of ["/large", "/stream"])
  test(`a client that does not read ${path} is cut off, and its line says so`, async () => {
    const unread = await askWithoutReading(path, "reader");
    let isClosed = false;
    unread.once("close", () => (isClosed = true));
    while (held() > 0) {
      passQuarter();
      await turn();
    }
    await until("the request was logged", () => lines.length > 0);
    const [{ actor, unread: isUnread, aborted } = {} as RequestEntry] = lines;
    assert.equal({ actor, isUnread, aborted }, { actor: "reader", isUnread: true, aborted: true });
    unread.resume();
    await until("the connection was closed", () => isClosed);
  });

test("a client that reads slowly is not cut off", async () => {
  const socket = await askWithoutReading("/large", "a");
  let [received, sinceQuarter] = [0, 0];
  socket.on("data", (bytes: Buffer) => {
    received += bytes.length;
    sinceQuarter += bytes.length;
    if (sinceQuarter < 4 * MB) return;
    sinceQuarter = 0;
    passQuarter();
  });
  await until("the answer was read", () => received > LARGE.length || socket.destroyed);
  await untilReleased();
  assert.equal(
    { isCut: socket.destroyed, lines: lines.map(({ unread }) => unread) },
    { isCut: false, lines: [undefined] },
  );
  socket.destroy();
});

test("a client that waits for an answer is not cut off, however long the answer takes", async () => {
  let began = false;
  let finish: () => void = () => undefined;
  const slow = new Readable({ read: () => void (began = true) });
  finish = () => {
    slow.push("late");
    slow.push(null);
  };
  const watched = createServer((_, response) => {
    watch(response, () => response.destroy());
    slow.pipe(response);
  });
  let pass: () => void = () => undefined;
  const watch = createAnswerWatch({ limitS: 60, timer: (_, ring) => (pass = ring) });
  await new Promise<void>((resolve) => watched.listen(0, "127.0.0.1", resolve));
  const answer = fetch(`http://127.0.0.1:${(watched.address() as AddressInfo).port}`).then((response) =>
    response.text(),
  );
  await until("the answer began", () => began);
  for (let quarter = 0; quarter < 20; quarter += 1) pass();
  finish();
  assert.is(await answer, "late");
  watched.closeAllConnections();
  watched.close();
});

test.run();
