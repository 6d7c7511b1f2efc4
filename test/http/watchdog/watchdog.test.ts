/**
 * Requests without progress: each is ended, answered, logged and counted, wherever it hangs, and returns what it holds.
 * Requests that make progress are not ended, however slowly they do.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import Koa from "koa";
import { newPublicId } from "../../../src/clock.ts";
import type { Timer } from "../../../src/domain/time.ts";
import type { AppError } from "../../../src/errors.ts";
import { openLocalStore } from "../../../src/evidence/local-store.ts";
import type { S3Store } from "../../../src/evidence/s3-store.ts";
import { ClientGoneError } from "../../../src/http/body/body.ts";
import { createMemoryBudget } from "../../../src/http/memory/memory-budget.ts";
import { createRequestBoundary } from "../../../src/http/request-boundary.ts";
import type { RequestEntry } from "../../../src/http/request-entry.ts";
import { progressOf } from "../../../src/http/watchdog/request-progress.ts";
import type { Phase } from "../../../src/http/watchdog/request-progress.ts";
import { CHECK_S } from "../../../src/http/watchdog/watchdog.ts";
import { closeListener, listen } from "../../../src/server/listener.ts";
import type { Listening } from "../../../src/server/listener.ts";
import { createMetrics } from "../../../src/server/metrics.ts";
import type { Metrics } from "../../../src/server/metrics.ts";
import { AMPLE, fresh, startServer } from "../../given.ts";
import { until } from "../../patience.ts";
import { dial, exchange, head, holdings, logged } from "../socket.ts";

const test = suite("http/watchdog/watchdog");

const MEMORY = { total: 1 << 30, bodies: 64 << 20, answers: 256 << 20 };

/** Checks until a request is ended, and until one is whose client is gone. */
const [CHECKS, CHECKS_GONE] = [600 / CHECK_S, 60 / CHECK_S];

/** A timer that rings when the test says so. */
function handTimer() {
  let rings: (() => void)[] = [];
  const timer: Timer = (_seconds, ring) => {
    rings.push(ring);
    return () => void (rings = rings.filter((other) => other !== ring));
  };
  return {
    timer,
    /** Lets so much time pass that the watchdog checks so many times. */
    pass(checks: number): void {
      for (let check = 0; check < checks; check += 1) for (const ring of rings.splice(0)) ring();
    },
  };
}

let clock: ReturnType<typeof handTimer>;
let listening: Listening;
let url = "";
let work: (ctx: Koa.Context) => Promise<void>;
let hung: { phase: Phase; idleS: number }[];
let ended: { entry: RequestEntry; error: unknown }[];
test.before.each(async () => {
  clock = handTimer();
  [hung, ended] = [[], []];
  const app = new Koa();
  app.silent = true;
  app.use(
    createRequestBoundary({
      limits: { json: 1, form: 1, document: 1, evidence: 1, smallEvidence: 0, stallTimeoutS: 5, lingerS: 0.01 },
      answerBudget: createMemoryBudget(MEMORY).answers,
      watchAnswer: () => () => undefined,
      newId: () => "id",
      onRequest: () => undefined,
      onHungRequest: ({ phase, idleS }) => void hung.push({ phase, idleS }),
      watchdogTimer: clock.timer,
      mapError: (error) => error,
      logRequest: (entry, error) => void ended.push({ entry, error }),
    }),
  );
  app.use((ctx) => work(ctx));
  const bindable = Object.assign(app, { recordMalformedRequest: () => "id" });
  listening = await listen(bindable, { host: "127.0.0.1", port: 0 }, { limits: AMPLE });
  ({ url } = listening);
});
test.after.each(() => closeListener(listening.server, 0));

const FOR_EVER = (): Promise<never> => new Promise(() => undefined);
const minutes = (phase: string, outcome = "Nothing was stored. Please try again") => ({
  message: `The request was given up ${phase}: it made no progress for 10 minutes. ${outcome}`,
});

for (const [phase, words] of [
  ["starting", minutes("before its body was read")],
  ["reading", minutes("while its body was read")],
  ["parsing", minutes("while its JSON was parsed")],
  ["preparing", minutes("while it was prepared")],
  ["writing", minutes("while it waited to be written")],
  ["finishing", minutes("after its change was stored", "The change itself is stored")],
] as const)
  test(`a request that hangs while ${phase} is ended with 503`, async () => {
    let isOver = false;
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
    work = (ctx) => {
      if (phase !== "starting") progressOf(ctx).enter(phase);
      progressOf(ctx).onOver(() => (isOver = true));
      begin();
      return FOR_EVER();
    };
    const asked = exchange(url, head("POST", "//", { "Content-Length": 0 }));
    await begun;
    // The first check learns where the request is.
    clock.pass(CHECKS);
    assert.equal(hung, [], "it has time");
    clock.pass(1);
    const { status, headers, body } = await asked;
    assert.equal({ status, retry: headers["retry-after"], body }, { status: 503, retry: "5", body: words });
    await until("the end", () => isOver);
    assert.equal(hung, [{ phase, idleS: 600 }]);
    assert.equal(
      ended.map(({ entry, error }) => ({ status: entry.status, error: (error as AppError).code })),
      [{ status: 503, error: "unavailable" }],
    );
    clock.pass(3 * CHECKS);
    assert.is(hung.length, 1, "it is over");
  });

test("a request that goes from phase to phase is not ended", async () => {
  const steps: (() => void)[] = [];
  work = async (ctx) => {
    for (const phase of ["reading", "parsing", "preparing", "writing"] as const) {
      progressOf(ctx).enter(phase);
      await new Promise<void>((resolve) => steps.push(resolve));
    }
    ctx.body = "done";
  };
  const asked = exchange(url, head("GET", "//", {}));
  for (let step = 0; step < 4; step += 1) {
    const next = await until("the next phase", () => steps[step]);
    clock.pass(CHECKS);
    next();
  }
  assert.is((await asked).text, "done");
  assert.equal(hung, []);
});

test("a phase may have more time, such as one that stores a large file", async () => {
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
  work = (ctx) => {
    progressOf(ctx).enter("publishing", { patienceS: 300 });
    begin();
    return FOR_EVER();
  };
  const asked = exchange(url, head("GET", "//", {}));
  await begun;
  clock.pass(CHECKS + 300 / CHECK_S);
  assert.equal(hung, []);
  clock.pass(1);
  assert.is((await asked).status, 503);
  assert.equal(hung, [{ phase: "publishing", idleS: 900 }]);
});

test("a request that was given up writes no more", async () => {
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
  const { promise: free, resolve: release } = Promise.withResolvers<void>();
  const { promise: tried, resolve: report } = Promise.withResolvers<unknown>();
  work = async (ctx) => {
    progressOf(ctx).enter("writing");
    progressOf(ctx).requireRunning();
    begin();
    await free;
    try {
      progressOf(ctx).requireRunning();
      report("it goes on");
    } catch (error) {
      report(error);
      throw error;
    }
  };
  const asked = exchange(url, head("POST", "//", { "Content-Length": 0 }));
  await begun;
  clock.pass(CHECKS + 1);
  assert.is((await asked).status, 503);
  release();
  assert.is(((await tried) as AppError).code, "unavailable");
});

test("a body that arrives a byte at a time is not ended, and one that stops is", async () => {
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
  let received = 0;
  work = async (ctx) => {
    progressOf(ctx).enter("reading");
    begin();
    for await (const chunk of ctx.req) received += (chunk as Buffer).length;
  };
  const wire = await dial(url);
  await wire.send(head("POST", "//", { "Content-Length": 100 }));
  await begun;
  for (let sent = 1; sent <= 4; sent += 1) {
    clock.pass(CHECKS);
    await wire.send("x");
    await until("the byte", () => received === sent);
  }
  assert.equal(hung, []);
  clock.pass(CHECKS + 1);
  assert.is((await wire.answer()).status, 503);
  assert.equal(hung, [{ phase: "reading", idleS: 600 }]);
  wire.vanish();
});

test("a stream that sends a byte at a time is not ended, and one that stops is cut", async () => {
  const stream = new PassThrough();
  work = async (ctx) => {
    ctx.body = stream;
  };
  const wire = await dial(url);
  let received = 0;
  wire.socket.on("data", (bytes: Buffer) => (received += bytes.length));
  await wire.send(head("GET", "//", {}));
  for (let sent = 0; sent < 4; sent += 1) {
    const before = received;
    stream.write("x");
    await until("the byte", () => received > before);
    clock.pass(CHECKS);
  }
  assert.equal(hung, []);
  clock.pass(1);
  await wire.closed();
  assert.equal(hung, [{ phase: "sending", idleS: 600 }]);
  await until("the log line", () => ended.length === 1);
  assert.is(ended[0]?.entry.aborted, true);
  assert.is(stream.destroyed, true);
});

test("an answer that its client does not read is cut", async () => {
  work = async (ctx) => {
    ctx.body = Buffer.alloc(64 << 20);
  };
  const wire = await dial(url);
  wire.socket.pause();
  await wire.send(head("GET", "//", {}));
  let isCut = false;
  // The buffers of the two systems fill up, which no check may mistake for a client that reads.
  for (let round = 0; round < 50 && !isCut; round += 1) {
    clock.pass(CHECKS + 1);
    isCut = hung.length > 0;
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.equal(hung, [{ phase: "sending", idleS: 600 }]);
  wire.socket.resume();
  await wire.closed();
});

test("a request whose client is gone is ended sooner", async () => {
  const { promise: begun, resolve: begin } = Promise.withResolvers<Koa.Context>();
  let isOver = false;
  work = (ctx) => {
    progressOf(ctx).enter("preparing");
    progressOf(ctx).onOver(() => (isOver = true));
    begin(ctx);
    return FOR_EVER();
  };
  const wire = await dial(url);
  await wire.send(head("POST", "//", { "Content-Length": 0 }));
  const { res } = await begun;
  wire.vanish();
  await until("the disconnection", () => res.destroyed);
  clock.pass(CHECKS_GONE + 1);
  await until("the end", () => isOver);
  assert.equal(hung, [{ phase: "preparing", idleS: 60 }]);
  assert.equal(
    ended.map(({ entry, error }) => ({ status: entry.status, isGone: error instanceof ClientGoneError })),
    [{ status: 499, isGone: true }],
  );
});

// --- the whole server

const metricsOf = (): Metrics =>
  createMetrics({
    figures: {
      readSpace: () => ({ bytes: 4096, free: 0 }),
      listJobs: () => [],
      countFailingJobs: () => 0,
      summarizeDeliveries: () => ({ waiting: 0, dead: 0, oldest: null }),
      summarizeUnknownInputs: () => [],
      summarizeEvidence: () => ({ files: 0, bytes: 0, inDatabase: 0, bytesInDatabase: 0 }),
    },
    directory: null,
    now: () => 1000,
    build: { version: "1.2.3", commit: null },
    jobKinds: () => [],
    pools: () => ({}),
    memory: createMemoryBudget(MEMORY),
  });

test("an upload to storage that hangs is answered, logged with its phase and counted, and leaves nothing", async () => {
  const { timer, pass } = handTimer();
  let published = 0;
  const server = await startServer({
    watchdogTimer: timer,
    memory: { bodies: 200_000 },
    limits: { smallEvidence: 0 },
    metrics: { metrics: metricsOf(), key: "token" },
    openRemoteEvidence: (staging) =>
      ({
        ...openLocalStore({ directory: join(staging, "..", "evidence"), staging, ids: newPublicId }),
        publish() {
          published += 1;
          return published === 1 ? FOR_EVER() : Promise.resolve([]);
        },
        open: FOR_EVER,
        stat: async () => null,
        probe: async () => undefined,
      }) as S3Store,
  });
  const at = server.given.org();
  await server.given.flow(at, { name: "flow" });
  const id = fresh("hung");
  const upload = (requestId: string) =>
    server.call("POST", `/attestations/${at.org}/flow/trail/t/generic`, {
      key: at.key,
      headers: { "X-Request-ID": requestId },
      form: {
        json: { attestation_name: "a", is_compliant: true },
        file: { name: "attachment_file", filename: "a", content: Buffer.alloc(150_000) },
      },
    });
  const before = holdings(server).rows;
  const asked = upload(id);
  await until("the publication", () => published === 1);
  pass(CHECKS + 2);
  const answer = await asked;
  assert.equal(
    { status: answer.status, body: answer.body },
    { status: 503, body: minutes("while its evidence was stored") },
  );
  assert.equal(holdings(server).rows, before);
  assert.equal(server.memory.bodies.load(), { bytes: 0, waiting: 0 });
  assert.is((await logged(server, id))["error_code"], "unavailable");
  const line = server.lines.map((text) => JSON.parse(text) as Record<string, unknown>).find(({ phase }) => phase);
  assert.equal(
    { ...line, time: null, client: null },
    {
      level: "error",
      time: null,
      request_id: id,
      method: "POST",
      route: "post_generic_attestation",
      actor: `${at.org}-admin`,
      org: at.org,
      client: null,
      phase: "publishing",
      // A large file has more time.
      idle_s: 630,
      msg: "the request makes no progress and is ended",
    },
  );
  const metrics = await fetch(`${server.url}/metrics`, { headers: { Authorization: "Bearer token" } });
  const text = await metrics.text();
  assert.match(text, 'assay_http_requests_hung_total{phase="publishing"} 1');
  assert.match(text, 'assay_http_requests_hung_total{phase="reading"} 0');
  // The budget has room for one of these.
  assert.is((await upload(fresh("next"))).status, 201);
  await server.stop();
});

test.run();
