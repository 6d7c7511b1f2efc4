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
import type { TaskOptions } from "../../src/workers/pool-thread.ts";
import { nameOfThread } from "../../src/workers/own-time.ts";
import type { BeginAllowance } from "../../src/workers/own-time.ts";
import type { PoolMemory } from "../../src/workers/task-memory.ts";
import type { Input } from "./pool-worker.ts";
import { rejection } from "../evidence/given.ts";

/** Long enough never to expire. */
const AMPLE = 600_000;
const ENTRY = new URL("pool-worker.ts", import.meta.url);
const working = () => new Worker(ENTRY);
const ended = (worker: Worker | undefined) => new Promise((resolve) => worker?.on("exit", resolve));

function givenPool({
  size = 1,
  queueLimit = 10,
  laneLimit = 10,
  idleTimeoutMs = null,
  start = working,
  memory = null,
  ...others
}: {
  size?: number;
  queueLimit?: number;
  laneLimit?: number;
  idleTimeoutMs?: number | null;
  start?: () => Worker;
  memory?: PoolMemory<Input> | null;
  keepsReady?: boolean;
  beginAllowance?: BeginAllowance;
} = {}) {
  const started: Worker[] = [];
  const pool = createPool<Input, unknown>({
    name: "test pool",
    size,
    queueLimit,
    laneLimit,
    idleTimeoutMs,
    memory,
    ...others,
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
    /** A task that has begun, and ends when it is released. */
    async hold(value: unknown, options: Partial<TaskOptions> = {}) {
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

const test = suite("workers/pool");
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

test("runs as many tasks at once as it has threads", async () => {
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

test("moves buffers to the thread and back", async () => {
  const { pool } = givenPool();
  const value = new Uint8Array(1000);
  const result = await pool.run({ kind: "transfer", value }, { deadlineMs: AMPLE, transfer: [value.buffer] });
  assert.is(value.length, 0);
  assert.equal(result, new Uint8Array(1000).fill(7));
  await pool.close();
});

test("rejects with a TaskError when the task throws, and keeps the thread", async () => {
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

test("collects the garbage of a task that leaves much while no other one has room", async () => {
  const { pool } = givenPool({ memory: givenMemory(10) });
  await pool.run({ kind: "litter" }, { deadlineMs: AMPLE });
  assert.is(await pool.run({ kind: "is-littered" }, { deadlineMs: AMPLE }), false);
  await pool.close();
});

test("a task that follows at once begins before the garbage is collected, and holds the memory instead", async () => {
  const memory = givenMemory(20);
  const { pool, started } = givenPool({ memory });
  await pool.run({ kind: "litter" }, { deadlineMs: AMPLE });
  assert.is(await pool.run({ kind: "is-littered" }, { deadlineMs: AMPLE }), true);
  assert.equal({ held: memory.held, started: started.length }, { held: 10, started: 1 });
  await pool.close();
});

test("the memory of a task that leaves much garbage comes back when that is collected", async () => {
  const memory = givenMemory(10);
  const { pool, started } = givenPool({ size: 2, memory });
  await pool.run({ kind: "litter" }, { deadlineMs: AMPLE });
  assert.equal({ held: memory.held, load: pool.load() }, { held: 10, load: { waiting: 0, running: 0 } });
  await pool.run({ kind: "hold", flags: released() }, { deadlineMs: AMPLE });
  assert.equal({ held: memory.held, started: started.length }, { held: 0, started: 1 });
  await pool.close();
});

test("the memory of a thread that ends while it collects comes back", async () => {
  const memory = givenMemory(10);
  const { pool, started } = givenPool({ memory });
  await pool.run({ kind: "litter" }, { deadlineMs: AMPLE });
  await started[0]?.terminate();
  assert.is(memory.held, 0);
  await pool.close();
});

test("fails only the task whose input cannot be sent", async () => {
  const { pool, started, echo } = givenPool();
  const [failed, fine] = await Promise.allSettled([echo(() => {}), echo(2)]);
  assert.is(failed.status === "rejected" && failed.reason.name, "DataCloneError");
  assert.equal(fine, { status: "fulfilled", value: 2 });
  assert.is(started.length, 1);
  await pool.close();
});

test("refuses tasks while the queue is full", async () => {
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

test("runs or refuses a task without a queue", async () => {
  const { pool, hold, echo } = givenPool({ queueLimit: 0 });
  assert.is(await echo(1), 1);
  const running = await hold("running");
  assert.instance(await rejection(echo(2)), QueueFullError);
  running.release();
  await running.result;
  await pool.close();
});

test("stops an endless task at its deadline, and replaces its thread", async () => {
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

test("rejects a task that has not run by its deadline", async () => {
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

test("gives up an aborted task before it is accepted, while it waits, and while it runs", async () => {
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

test("stops an aborted task at its deadline", async () => {
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
  test(`fails the task of a thread that ends by "${kind}", and replaces the thread`, async () => {
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

test("contains a thread that runs out of memory", async () => {
  const { pool, echo } = givenPool({
    start: () => new Worker(ENTRY, { resourceLimits: { maxOldGenerationSizeMb: 16 } }),
  });
  const error = await rejection(pool.run({ kind: "exhaust" }, { deadlineMs: AMPLE }));
  assert.instance(error, WorkerDiedError);
  assert.is((error.cause as NodeJS.ErrnoException).code, "ERR_WORKER_OUT_OF_MEMORY");
  assert.is(await echo("next"), "next");
  await pool.close();
});

test("fails one task per failed start of a thread", async () => {
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

test("counts an allowance from the start of the task, not while it waits or a thread starts", async () => {
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
});

test("looks at the end of an allowance whether its thread could use all of it, and waits for the rest", async () => {
  const asked: { allowanceMs: number; thread: string | null }[] = [];
  let checks = 0;
  let release: () => void = () => undefined;
  const { pool, hold } = givenPool({
    beginAllowance(allowanceMs, thread) {
      asked.push({ allowanceMs, thread });
      return () => {
        checks += 1;
        if (checks > 2) release();
        return 1;
      };
    },
  });
  const running = await hold("slow", { allowanceMs: 5 });
  release = running.release;
  assert.is(await running.result, "slow");
  assert.ok(checks > 2, `${checks} checks`);
  const [{ allowanceMs, thread } = { allowanceMs: 0, thread: null }, ...others] = asked;
  assert.equal({ allowanceMs, others }, { allowanceMs: 5, others: [] });
  assert.match(thread ?? "", new RegExp(`^${process.pid}/task/\\d+$`));
  assert.is.not(thread, nameOfThread());
  await pool.close();

  const left = [3, 2, 0];
  const other = givenPool({ beginAllowance: () => () => left.shift() ?? 0 });
  const error = await rejection(other.pool.run({ kind: "loop" }, { deadlineMs: AMPLE, allowanceMs: 5 }));
  assert.is(error.message, "test pool: not finished after 5 ms");
  assert.equal(left, []);
  await other.pool.close();
});

test("reports a task with an allowance as not started if it has not run by its deadline", async () => {
  const { pool, hold } = givenPool();
  const running = await hold("running");
  const error = await rejection(pool.run({ kind: "echo" }, { deadlineMs: 5, allowanceMs: AMPLE }));
  assert.instance(error, DeadlineError);
  assert.is((error as DeadlineError).started, false);
  running.release();
  await running.result;
  await pool.close();
});

test("never gives all threads to one lane, and lets lanes take turns", async () => {
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

test("limits a lane to its part of the queue", async () => {
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

test("reports whether the task of a dead thread had begun", async () => {
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

test("finishes accepted tasks on close, refuses later ones, and stops the threads", async () => {
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

test("waits on close at most until the deadline of a stuck task", async () => {
  const { pool } = givenPool();
  const stuck = rejection(pool.run({ kind: "loop" }, { deadlineMs: 20 }));
  await pool.close();
  assert.instance(await stuck, DeadlineError);
});

test("stops an idle thread, and starts another on demand", async () => {
  const { pool, started, echo } = givenPool({ idleTimeoutMs: 1 });
  for (const number of [1, 2]) {
    assert.is(await echo(number), number);
    const thread = started[number - 1] as Worker;
    if (thread.threadId !== -1) await new Promise((resolve) => thread.once("exit", resolve));
    assert.is(started.length, number);
  }
  await pool.close();
});

test("does not stop a working thread as idle", async () => {
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

test("ends a thread that is spent, and runs the next task in another one", async () => {
  const { pool, started, echo } = givenPool();
  assert.is(await pool.run({ kind: "spend", value: "last" }, { deadlineMs: AMPLE }), "last");
  assert.is(await echo("next"), "next");
  assert.is(started.length, 2);
  assert.is(started[0]?.threadId, -1);
  await pool.close();
});

test("a spent thread keeps the memory of its task until it has ended", async () => {
  const order: string[] = [];
  const memory: PoolMemory<Input> = {
    bytesOf: () => 1,
    take: () => ({ release: () => void order.push("released") }),
    keepHeap: () => undefined,
  };
  const { pool, started } = givenPool({ memory });
  const running = pool.run({ kind: "spend" }, { deadlineMs: AMPLE });
  const exited = new Promise<void>((resolve) => {
    started[0]?.prependListener("exit", () => {
      order.push("ended");
      resolve();
    });
  });
  await running;
  await exited;
  assert.equal(order, ["ended", "released"]);
  await pool.close();
});

test("keeps all threads ready once it is used, and replaces those that tasks ended", async () => {
  const { pool, started, echo } = givenPool({ size: 2, keepsReady: true });
  assert.is(started.length, 0);
  await echo("first");
  assert.is(started.length, 2, "the other thread stands ready");
  await pool.run({ kind: "spend" }, { deadlineMs: AMPLE });
  await ended(started[0]);
  assert.is(started.length, 3);
  await rejection(pool.run({ kind: "exit" }, { deadlineMs: AMPLE }));
  assert.is(started.length, 4);
  await pool.close();
});

test("does not replace ready threads that cannot start or were idle", async () => {
  const broken = () => new Worker("throw new Error('broken entry')", { eval: true });
  const some = givenPool({
    size: 2,
    keepsReady: true,
    start: () => (some.started.length === 0 ? working() : broken()),
  });
  await some.echo("first");
  await ended(some.started[1]);
  assert.is(some.started.length, 2);
  await some.pool.close();
  const idle = givenPool({ size: 2, keepsReady: true, idleTimeoutMs: 1 });
  await idle.echo("first");
  await Promise.all(idle.started.map(ended));
  assert.is(idle.started.length, 2);
  await idle.pool.close();
});

test("terminates running and waiting tasks at once", async () => {
  const { pool, started, echo, hold } = givenPool();
  const [running, waiting] = [await hold("running"), echo("waiting")];
  const errors = [rejection(running.result), rejection(waiting)];
  await pool.terminate();
  for (const error of await Promise.all(errors)) assert.instance(error, PoolClosedError);
  assert.instance(await rejection(echo("late")), PoolClosedError);
  assert.equal(
    started.map(({ threadId }) => threadId),
    [-1],
  );
  await pool.close();
});

test("closes an unused pool", async () => {
  await givenPool().pool.close();
});

/** Memory for so many bytes; `held` says how much is taken. */
function givenMemory(total: number) {
  const waiting: (() => void)[] = [];
  const memory = {
    held: 0,
    bytesOf: ({ kind }: Input) => (kind === "echo" ? 0 : 10),
    take(bytes: number, onRoom: () => void) {
      if (memory.held + bytes > total) {
        waiting.push(onRoom);
        return null;
      }
      memory.held += bytes;
      return {
        release() {
          memory.held -= bytes;
          waiting.shift()?.();
        },
      };
    },
    keepHeap: () => undefined,
  };
  return memory;
}

test("a task takes memory until its thread has done with it, and the next one waits for it", async () => {
  const memory = givenMemory(10);
  const { pool, hold, echo } = givenPool({ size: 3, memory });
  const first = await hold("first");
  const second = pool.run({ kind: "hold", value: "second", flags: released() }, { deadlineMs: AMPLE });
  assert.equal({ load: pool.load(), held: memory.held }, { load: { waiting: 1, running: 1 }, held: 10 });
  assert.is(await echo("needs none"), "needs none");
  first.release();
  assert.equal([await first.result, await second], ["first", "second"]);
  assert.is(memory.held, 0);
  await pool.close();
});

test("memory comes back when a task has expired and its thread has ended", async () => {
  const memory = givenMemory(10);
  const { pool, hold } = givenPool({ memory });
  const expiring = await hold("late", { deadlineMs: 50 });
  const next = pool.run({ kind: "hold", value: "next", flags: released() }, { deadlineMs: AMPLE });
  assert.instance(await rejection(expiring.result), DeadlineError);
  assert.is(await next, "next");
  assert.is(memory.held, 0);
  await pool.close();
});

test("the heap of a thread that ends within a task is kept before the memory of the task comes back", async () => {
  const order: string[] = [];
  const memory: PoolMemory<Input> = {
    bytesOf: () => 1,
    take: () => ({ release: () => void order.push("released") }),
    keepHeap: (bytes) => void order.push(`kept ${bytes}`),
  };
  const start = () =>
    new Worker(ENTRY, { resourceLimits: { maxOldGenerationSizeMb: 60, maxYoungGenerationSizeMb: 4 } });
  const { pool, started, echo, hold } = givenPool({ memory, start });
  await echo("done");
  await started[0]?.terminate();
  assert.equal(order, ["released"], "an idle thread has nothing to keep");
  const { result } = await hold("killed");
  await started[1]?.terminate();
  assert.instance(await rejection(result), WorkerDiedError);
  assert.equal(order, ["released", `kept ${64 << 20}`, "released"]);
  await pool.close();
});

test("tasks that wait for memory count for the limit of the queue, and expire there", async () => {
  const memory = givenMemory(10);
  const { pool, hold } = givenPool({ size: 3, queueLimit: 1, memory });
  const first = await hold("first");
  const waiting = pool.run({ kind: "hold", value: 1, flags: released() }, { deadlineMs: 20 });
  assert.instance(
    await rejection(pool.run({ kind: "hold", value: 2, flags: released() }, { deadlineMs: AMPLE })),
    QueueFullError,
  );
  const error = (await rejection(waiting)) as DeadlineError;
  assert.equal({ name: error.name, started: error.started }, { name: "DeadlineError", started: false });
  first.release();
  await first.result;
  assert.is(memory.held, 0);
  await pool.close();
});

/** Flags of a task that does not wait. */
const released = (): Int32Array<SharedArrayBuffer> => {
  const flags = new Int32Array(new SharedArrayBuffer(8));
  flags[1] = 1;
  return flags;
};

test.run();
