/** File answers that are produced while they are sent. */
import { createServer } from "node:http";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import Koa from "koa";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Stream } from "../../src/http/operation.ts";
import { sendStream } from "../../src/http/response.ts";

const test = suite("http/stream");
let server: Server;
let url: string;
/** The answer to the next request. */
let reply: Stream;
const failures: string[] = [];

test.before(async () => {
  const app = new Koa();
  app.on("error", (error: Error) => failures.push(error.message));
  app.use((ctx) => {
    ctx.state["answerRoom"] = { take: () => undefined };
    return sendStream(ctx, reply);
  });
  server = createServer(app.callback());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
});
test.after(() => {
  server.closeAllConnections();
  server.close();
});

const file = (open: () => Readable, filename = "log.csv"): Stream => ({
  contentType: "text/csv; charset=utf-8",
  filename,
  open,
});

test("sends an attachment in chunks, with its own type and without a length", async () => {
  reply = file(() => Readable.from(["a,b\r\n", "é,ü\r\n"]));
  const answer = await fetch(url);
  assert.is(answer.status, 200);
  assert.is(await answer.text(), "a,b\r\né,ü\r\n");
  const header = (name: string) => answer.headers.get(name);
  assert.equal(
    [
      "Content-Type",
      "Content-Disposition",
      "Cache-Control",
      "Content-Length",
      "Transfer-Encoding",
      "Accept-Ranges",
    ].map(header),
    ["text/csv; charset=utf-8", 'attachment; filename="log.csv"', "private, no-cache", null, "chunked", null],
  );
});

test("ignores ranges and sends everything", async () => {
  reply = file(() => Readable.from(["0123456789"]));
  const answer = await fetch(url, { headers: { Range: "bytes=2-3" } });
  assert.equal({ status: answer.status, answer: await answer.text() }, { status: 200, answer: "0123456789" });
});

test("sends an empty file", async () => {
  reply = file(() => Readable.from([]));
  const answer = await fetch(url);
  assert.equal({ status: answer.status, answer: await answer.text() }, { status: 200, answer: "" });
});

test("answers HEAD with the same headers and opens nothing", async () => {
  let opened = 0;
  reply = file(() => {
    opened += 1;
    return Readable.from(["x"]);
  }, "größe.csv");
  const answer = await fetch(url, { method: "HEAD" });
  assert.equal({ status: answer.status, answer: await answer.text(), opened }, { status: 200, answer: "", opened: 0 });
  assert.is(answer.headers.get("Content-Type"), "text/csv; charset=utf-8");
  assert.is(
    answer.headers.get("Content-Disposition"),
    "attachment; filename=\"gr__e.csv\"; filename*=UTF-8''gr%C3%B6%C3%9Fe.csv",
  );
});

test("cuts the connection when a stream fails, so that no client mistakes a part for the whole", async () => {
  async function* failing() {
    yield "first line\r\n";
    throw new Error("the disk is gone");
  }
  reply = file(() => Readable.from(failing()));
  const broken = await fetch(url)
    .then((answer) => answer.text())
    .catch((error: Error) => error);
  assert.instance(broken, Error);
  assert.ok(failures.includes("the disk is gone"));
});

test("stops reading when the client disconnects", async () => {
  let ended: () => void = () => undefined;
  const over = new Promise<void>((resolve) => (ended = resolve));
  async function* endless() {
    try {
      for (;;) yield "x".repeat(65_536);
    } finally {
      ended();
    }
  }
  reply = file(() => Readable.from(endless()));
  const leaving = new AbortController();
  const answer = await fetch(url, { signal: leaving.signal });
  await answer.body?.getReader().read();
  leaving.abort();
  await over;
});

test.run();
