import { Worker } from "node:worker_threads";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  createPool,
  DeadlineError,
  PoolClosedError,
  QueueFullError,
  TaskError,
  WorkerDiedError,
} from "../../src/workers/pool.ts";
import type { Input } from "./pool-worker.ts";
import { rejection } from "../evidence/given.ts";

/** Long enough never to strike. */
const AMPLE = 60_000;
const ENTRY = new URL("pool-worker.ts", import.meta.url);

function givenPool({
  size = 1,
  queueLimit = 10,
  laneLimit = 10,
  idleTimeoutMs = null as number | null,
  start = () => new Worker(ENTRY),
} = {}) {
  const started: Worker[] = [];
  const pool = createPool<Input, unknown>({
    name: "test pool",
    size,
    queueLimit,
    laneLimit,
    idleTimeoutMs,
    start() {
      const worker = start();
      started.push(worker);
      return worker;
    },
  });
  return {
    pool,
    started,
    echo: (value: unknown) => pool.run({ kind: "echo", value }, { deadlineMs: AMPLE }),
    /** A task that has begun and ends when it is released. */
    async hold(value: unknown, options: { deadlineMs?: number; signal?: AbortSignal; lane?: string } = {}) {
      const flags = new Int32Array(new SharedArrayBuffer(8));
      const result = pool.run({ kind: "hold", value, flags }, { deadlineMs: AMPLE, ...options });
      let ended = false;
      result
        .catch(() => {})
        .finally(() => {
          ended = true;
        });
      while (Atomics.load(flags, 0) === 0 && !ended) await new Promise(setImmediate);
      const release = () => {
        Atomics.store(flags, 1, 1);
        Atomics.notify(flags, 1);
      };
      return { result, release };
    },
  };
}

const test = suite("workers: pool");
const unhandled: unknown[] = [];
const onUnhandled = (reason: unknown) => unhandled.push(reason);
test.before(() => void process.on("unhandledRejection", onUnhandled));
test.after(() => {
  process.off("unhandledRejection", onUnhandled);
  assert.equal(unhandled, []);
});

test("runs tasks one after the other in one thread, started when needed", async () => {
  const { pool, started, echo } = givenPool();
  assert.is(started.length, 0);
  const results = await Promise.all([1, "two", { three: [3] }, null].map(echo));
  assert.equal(results, [1, "two", { three: [3] }, null]);
  assert.is(started.length, 1);
  await pool.close();
});

test("runs as many at once as it has threads", async () => {
  const { pool, started, hold, echo } = givenPool({ size: 2 });
  const first = await hold("first");
  const second = await hold("second");
  const third = echo("third");
  second.release();
  assert.is(await third, "third");
  assert.is(await second.result, "second");
  first.release();
  assert.is(await first.result, "first");
  assert.is(started.length, 2);
  await pool.close();
});

test("buffers move there and back", async () => {
  const { pool } = givenPool();
  const value = new Uint8Array(1000);
  const result = await pool.run({ kind: "transfer", value }, { deadlineMs: AMPLE, transfer: [value.buffer] });
  assert.is(value.length, 0);
  assert.equal(result, new Uint8Array(1000).fill(7));
  await pool.close();
});

test("what a task throws comes back as a TaskError, and the thread goes on", async () => {
  const { pool, started, echo } = givenPool();
  for (const [kind, name, message] of [
    ["throw", "RangeError", "too far"],
    ["throw-text", "Error", "just text"],
    ["reject", "TypeError", "not that type"],
    ["unsendable", "DataCloneError", "() => {} could not be cloned."],
  ] as const) {
    const error = await rejection(pool.run({ kind }, { deadlineMs: AMPLE }));
    assert.instance(error, TaskError);
    assert.is((error as TaskError).task, name);
    assert.is(error.message, message);
  }
  assert.is(await echo(1), 1);
  assert.is(started.length, 1);
  await pool.close();
});

test("an input that cannot be sent fails its own task only", async () => {
  const { pool, started, echo } = givenPool();
  const [failed, fine] = await Promise.allSettled([echo(() => {}), echo(2)]);
  assert.is(failed.status === "rejected" && failed.reason.name, "DataCloneError");
  assert.equal(fine, { status: "fulfilled", value: 2 });
  assert.is(started.length, 1);
  await pool.close();
});

test("a full queue refuses, and takes tasks again when there is room", async () => {
  const { pool, hold, echo } = givenPool({ queueLimit: 2 });
  const running = await hold("running");
  const waiting = [echo(1), echo(2)];
  const error = await rejection(echo(3));
  assert.instance(error, QueueFullError);
  assert.is(error.message, "test pool: 2 tasks are waiting already");
  running.release();
  assert.equal(await Promise.all(waiting), [1, 2]);
  assert.is(await echo(4), 4);
  await pool.close();
});

test("without a queue a task runs or is refused", async () => {
  const { pool, hold, echo } = givenPool({ queueLimit: 0 });
  assert.is(await echo(1), 1);
  const running = await hold("running");
  assert.instance(await rejection(echo(2)), QueueFullError);
  running.release();
  await running.result;
  await pool.close();
});

test("a task that never ends is stopped at its deadline, and its thread replaced", async () => {
  const { pool, started, echo } = givenPool();
  await echo("warm");
  const stuck = rejection(pool.run({ kind: "loop" }, { deadlineMs: 20 }));
  const next = echo("next");
  const error = await stuck;
  assert.instance(error, DeadlineError);
  assert.is(error.message, "test pool: not finished after 20 ms");
  assert.is((error as DeadlineError).started, true);
  assert.is(await next, "next");
  assert.is(started.length, 2);
  await pool.close();
});

test("a task whose turn does not come is refused at its deadline", async () => {
  const { pool, started, hold, echo } = givenPool();
  const running = await hold("running");
  const error = await rejection(pool.run({ kind: "echo" }, { deadlineMs: 5 }));
  assert.instance(error, DeadlineError);
  assert.is(error.message, "test pool: not begun after 5 ms");
  assert.is((error as DeadlineError).started, false);
  running.release();
  assert.is(await running.result, "running");
  assert.is(await echo(1), 1);
  assert.is(started.length, 1);
  await pool.close();
});

test("an aborted task is given up: before it is accepted, while it waits, while it runs", async () => {
  const { pool, started, hold, echo } = givenPool();
  const gone = () => new Error("the client is gone");
  const early = AbortSignal.abort(gone());
  assert.is(
    (await rejection(pool.run({ kind: "echo" }, { deadlineMs: AMPLE, signal: early }))).message,
    "the client is gone",
  );
  assert.is(started.length, 0);

  const controller = new AbortController();
  const running = await hold("running", { signal: controller.signal });
  const waiting = pool.run({ kind: "echo" }, { deadlineMs: AMPLE, signal: controller.signal });
  const other = echo("other");
  controller.abort(gone());
  assert.is((await rejection(running.result)).message, "the client is gone");
  assert.is((await rejection(waiting)).message, "the client is gone");
  running.release();
  assert.is(await other, "other");
  assert.is(started.length, 1);
  await pool.close();
});

test("an aborted task still ends at its deadline", async () => {
  const { pool, started, hold, echo } = givenPool();
  await echo("warm");
  const controller = new AbortController();
  const running = await hold("running", { deadlineMs: 200, signal: controller.signal });
  controller.abort(new Error("the client is gone"));
  assert.is((await rejection(running.result)).message, "the client is gone");
  assert.is(await echo("next"), "next");
  assert.is(started.length, 2);
  await pool.close();
});

for (const [kind, cause] of [
  ["exit", null],
  ["crash", "outside of the task"],
] as const) {
  test(`a thread that ends by "${kind}" fails its task and is replaced`, async () => {
    const { pool, started, echo } = givenPool();
    const dying = rejection(pool.run({ kind }, { deadlineMs: AMPLE }));
    const next = echo("next");
    const error = await dying;
    assert.instance(error, WorkerDiedError);
    assert.is((error.cause as Error | null)?.message ?? null, cause);
    assert.is(await next, "next");
    assert.is(started.length, 2);
    await pool.close();
  });
}

test("a thread that runs out of its memory takes nothing else with it", async () => {
  const { pool, echo } = givenPool({
    start: () => new Worker(ENTRY, { resourceLimits: { maxOldGenerationSizeMb: 16 } }),
  });
  const error = await rejection(pool.run({ kind: "exhaust" }, { deadlineMs: AMPLE }));
  assert.instance(error, WorkerDiedError);
  assert.is((error.cause as NodeJS.ErrnoException).code, "ERR_WORKER_OUT_OF_MEMORY");
  assert.is(await echo("next"), "next");
  await pool.close();
});

test("a thread that cannot be started fails one task per attempt", async () => {
  let attempts = 0;
  const { pool, echo } = givenPool({
    start() {
      attempts += 1;
      if (attempts === 1) throw new Error("no threads left");
      return new Worker(attempts === 2 ? "throw new Error('broken entry')" : ENTRY, { eval: attempts === 2 });
    },
  });
  const first = await rejection(echo(1));
  assert.instance(first, WorkerDiedError);
  assert.is((first.cause as Error).message, "no threads left");
  const second = await rejection(echo(2));
  assert.instance(second, WorkerDiedError);
  assert.is((second.cause as Error).message, "broken entry");
  assert.is(await echo(3), 3);
  await pool.close();
});

test(
  "an allowance counts from the moment that a thread begins: waiting for one and starting one cost nothing " + "of it",
  async () => {
    const { pool, hold, started } = givenPool();
    const first = await hold("first");
    const waiting = pool.run({ kind: "echo", value: "waited" }, { deadlineMs: AMPLE, allowanceMs: 300 });
    const stuck = rejection(pool.run({ kind: "loop" }, { deadlineMs: AMPLE, allowanceMs: 20 }));
    const afterwards = pool.run({ kind: "echo", value: "new thread" }, { deadlineMs: AMPLE, allowanceMs: AMPLE });
    // The first task is held for longer than the allowance of the second.
    const clock = givenPool();
    await rejection(clock.pool.run({ kind: "loop" }, { deadlineMs: 400 }));
    await clock.pool.close();
    first.release();
    assert.is(await waiting, "waited");
    const error = await stuck;
    assert.instance(error, DeadlineError);
    assert.equal(
      { message: error.message, started: (error as DeadlineError).started },
      { message: "test pool: not finished after 20 ms", started: true },
    );
    assert.is(await afterwards, "new thread");
    assert.is(started.length, 2);
    await pool.close();
  },
);

test("a task with an allowance whose turn does not come before its deadline did not start", async () => {
  const { pool, hold } = givenPool();
  const running = await hold("running");
  const error = await rejection(pool.run({ kind: "echo" }, { deadlineMs: 5, allowanceMs: AMPLE }));
  assert.instance(error, DeadlineError);
  assert.is((error as DeadlineError).started, false);
  running.release();
  await running.result;
  await pool.close();
});

test("a lane never has all threads, and lanes take turns", async () => {
  const { pool, hold, started } = givenPool({ size: 2 });
  const order: unknown[] = [];
  const run = (lane: string, value: string) =>
    pool.run({ kind: "echo", value }, { deadlineMs: AMPLE, lane }).then((result) => order.push(result));
  const held = await hold("a held", { lane: "a" });
  const waiting = ["a1", "a2", "a3"].map((value) => run("a", value));
  await run("b", "b1");
  assert.equal(order, ["b1"]);
  const other = await hold("b held", { lane: "b" });
  const more = ["b2", "b3"].map((value) => run("b", value));
  const third = run("c", "c1");
  other.release();
  await Promise.all([...more, third]);
  assert.equal(order, ["b1", "c1", "b2", "b3"], "a lane that had no turn yet comes before one that had");
  held.release();
  await Promise.all(waiting);
  assert.equal(order.slice(4), ["a1", "a2", "a3"]);
  assert.is(started.length, 2);
  await pool.close();
});

test("a lane that fills its part of the queue leaves the rest to others", async () => {
  const { pool, hold } = givenPool({ size: 2, queueLimit: 3, laneLimit: 2 });
  const run = (lane: string) => pool.run({ kind: "echo", value: lane }, { deadlineMs: AMPLE, lane });
  const [a, b] = [await hold("a", { lane: "a" }), await hold("b", { lane: "b" })];
  const waiting = [run("a"), run("a")];
  assert.is((await rejection(run("a"))).message, "test pool: 2 tasks are waiting already");
  waiting.push(run("b"));
  assert.is((await rejection(run("c"))).message, "test pool: 3 tasks are waiting already");
  a.release();
  b.release();
  assert.equal(await Promise.all(waiting), ["a", "a", "b"]);
  assert.is(await run("c"), "c");
  await pool.close();
});

test("a thread that died says whether its task had begun", async () => {
  const { pool } = givenPool();
  const begun = await rejection(pool.run({ kind: "exit" }, { deadlineMs: AMPLE, allowanceMs: AMPLE }));
  assert.equal(
    { "begun instanceof WorkerDiedError": begun instanceof WorkerDiedError, began: (begun as WorkerDiedError).began },
    { "begun instanceof WorkerDiedError": true, began: true },
  );
  await pool.close();
  const broken = givenPool({ start: () => new Worker("throw new Error('broken entry')", { eval: true }) });
  const unbegun = await rejection(broken.pool.run({ kind: "echo" }, { deadlineMs: AMPLE, allowanceMs: AMPLE }));
  assert.equal(
    {
      "unbegun instanceof WorkerDiedError": unbegun instanceof WorkerDiedError,
      began: (unbegun as WorkerDiedError).began,
    },
    { "unbegun instanceof WorkerDiedError": true, began: false },
  );
  await broken.pool.close();
});

test("close finishes what was accepted, refuses what comes later, ends the threads", async () => {
  const { pool, started, hold, echo } = givenPool();
  const running = await hold("running");
  const waiting = echo("waiting");
  const closing = pool.close();
  assert.instance(await rejection(echo("late")), PoolClosedError);
  running.release();
  await closing;
  assert.is(await running.result, "running");
  assert.is(await waiting, "waiting");
  assert.is(started[0]?.threadId, -1);
  await pool.close();
});

test("close waits no longer than the deadline of what is stuck", async () => {
  const { pool } = givenPool();
  const stuck = rejection(pool.run({ kind: "loop" }, { deadlineMs: 20 }));
  await pool.close();
  assert.instance(await stuck, DeadlineError);
});

test("a thread with nothing to do is ended after a while, and another started when there is", async () => {
  const { pool, started, echo } = givenPool({ idleTimeoutMs: 1 });
  for (const number of [1, 2]) {
    assert.is(await echo(number), number);
    const thread = started[number - 1] as Worker;
    if (thread.threadId !== -1) await new Promise((resolve) => thread.once("exit", resolve));
    assert.is(started.length, number);
  }
  await pool.close();
});

test("a thread that works is not taken for idle", async () => {
  const { pool, started, hold } = givenPool({ idleTimeoutMs: 1 });
  const working = await hold("working");
  const clock = givenPool();
  await rejection(clock.pool.run({ kind: "loop" }, { deadlineMs: 50 }));
  await clock.pool.close();
  working.release();
  assert.is(await working.result, "working");
  assert.is(started.length, 1);
  await pool.close();
});

test("an unused pool closes", async () => {
  await givenPool().pool.close();
});

test.run();
