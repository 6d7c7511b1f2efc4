/** Limits of the engine: whatever a policy does ends as a failure that says why, and the next evaluation works. */
import { readdirSync, readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { openRego, startRegoWorker } from "../../src/server/worker-threads.ts";
import { LOW_PRIORITY } from "../../src/workers/own-time.ts";
import { PoolClosedError } from "../../src/workers/pool.ts";
import type { RegoInput } from "../../src/rego/types.ts";
import { createMemoryBudget } from "../../src/http/memory/memory-budget.ts";
import { rejection } from "../evidence/given.ts";
import { priorityOf } from "../workers/priority.ts";
import { ENDLESS_RULE, failureOf, givenEngine, givenPolicy, givenQuestion, SMALL_POLICY } from "./given.ts";

const test = suite("rego/limits");
const MB = 1 << 20;

test("an evaluation ends at its time limit, and its thread runs the next one", async () => {
  const engine = givenEngine({ timeMs: 300 });
  assert.is(await failureOf(engine, ENDLESS_RULE), "evaluate: The evaluation took longer than 0.3 s");
  await engine.close();
});

test("an evaluation inside one built-in function ends shortly after its time limit", async () => {
  const engine = givenEngine({ timeMs: 100 });
  const rules =
    'allow if regex.match(`^(a|b|ab)*(a{1,500}){1,2}c$`, concat("", ["ab" | some _ in numbers.range(1, 300000)]))';
  assert.is(await failureOf(engine, rules), "evaluate: The evaluation took longer than 0.1 s");
  await engine.close();
});

test("an evaluation ends at its memory limit", async () => {
  const engine = givenEngine({ memoryBytes: 64 * MB });
  const rules = "allow if count(numbers.range(1, 100000000)) == 1";
  assert.is(await failureOf(engine, rules), "evaluate: The evaluation needed more than 64 MiB of memory");
  await engine.close();
});

test("a thread whose engine exited is thrown away, and one whose engine ended a call itself stays", async () => {
  let started = 0;
  const start: typeof startRegoWorker = (data) => {
    started += 1;
    return startRegoWorker(data);
  };
  const short = givenEngine({ timeMs: 300, start });
  // Longer lists would leave the thread with more memory than one may keep.
  const rules = ENDLESS_RULE.replaceAll("100000", "10000");
  assert.is(await failureOf(short, rules), "evaluate: The evaluation took longer than 0.3 s");
  assert.is(started, 1, "the next evaluation ran in the same thread");
  await short.close();
  const small = givenEngine({ memoryBytes: 64 * MB, start });
  await failureOf(small, "allow if count(numbers.range(1, 100000000)) == 1");
  assert.is(started, 3, "the next evaluation ran in another thread");
  await small.close();
});

test("a regular expression cannot make the engine backtrack", async () => {
  const engine = givenEngine();
  const rules = `default allow := false\nallow if regex.match("^(a+)+$", "${"a".repeat(5_000)}!")`;
  const outcome = await engine.evaluate(givenPolicy(`package policy\n${rules}\n`), givenQuestion());
  assert.ok(outcome.ok && !outcome.value.allow);
  await engine.close();
});

test("loading a policy and running tests have the same limits", async () => {
  const engine = givenEngine({ timeMs: 200, memoryBytes: 128 * MB });
  const { input: _, ...question } = givenQuestion();
  const slow = `package p\n${ENDLESS_RULE.replace("allow", "test_slow")}\n`;
  const tests = await engine.test({ "p.rego": "package p\n", "p_test.rego": slow }, question);
  assert.equal(tests.ok ? null : tests.error, {
    kind: "evaluate",
    message: "The tests took longer than 0.2 s; stopped in p_test.rego:2",
  });
  const loading = await engine.check(givenPolicy(`package p\nallow := [${"[1],".repeat(240_000)}]\n`));
  assert.match(
    loading.ok ? "" : loading.error.message,
    /^Loading the policy (took longer than 0.2 s|needed more than 128 MiB of memory)$/,
  );
  await engine.close();
});

test("a call ends when nobody waits for it any more, also in the queue", async () => {
  const engine = givenEngine();
  const policy = givenPolicy(`package policy\n${ENDLESS_RULE}\n`);
  const running = engine.evaluate(policy, givenQuestion(), { overallMs: 400 });
  const waiting = engine.evaluate(SMALL_POLICY, givenQuestion(), { overallMs: 50 });
  const [first, second] = [await running, await waiting];
  // On a busy machine it may not have begun by then.
  assert.match(
    first.ok ? "" : first.error.message,
    /^The evaluation (did not end in the 0.4 s left for it|waited longer than 0.4 s for its turn)$/,
  );
  assert.is(second.ok ? "" : second.error.message, "The evaluation waited longer than 0.1 s for its turn");
  await engine.close();
});

test("takes the memory of each call from the budget, and waits for it", async () => {
  const { threads, load } = createMemoryBudget({ total: 512 * MB, bodies: MB, answers: MB });
  const engine = givenEngine({ threads: 2, memoryBytes: 256 * MB, memory: threads });
  const policy = givenPolicy(`package policy\n${ENDLESS_RULE}\n`);
  const calls = [1, 2].map(() => engine.evaluate(policy, givenQuestion(), { timeMs: 300 }));
  while (load().threads.waiting === 0) await new Promise(setImmediate);
  assert.equal(engine.load(), { running: 1, waiting: 1 });
  assert.ok(load().threads.bytes >= 256 * MB && load().threads.bytes < 512 * MB);
  for (const outcome of await Promise.all(calls))
    assert.is(outcome.ok ? "" : outcome.error.message, "The evaluation took longer than 0.3 s");
  // A thread may still return the garbage of its call.
  while (load().threads.bytes > 0) await new Promise(setImmediate);
  assert.equal(load().threads, { bytes: 0, waiting: 0, refused: 0 });
  await engine.close();
});

test("takes the memory of an input, packed and unpacked", async () => {
  const { threads, load } = createMemoryBudget({ total: 512 * MB, bodies: MB, answers: MB });
  const engine = givenEngine({ memory: threads });
  const takenFor = async (input: RegoInput): Promise<number> => {
    const call = engine.evaluate(SMALL_POLICY, { ...givenQuestion(), input });
    while (load().threads.bytes === 0) await new Promise(setImmediate);
    const { bytes } = load().threads;
    await call;
    while (load().threads.bytes > 0) await new Promise(setImmediate);
    return bytes;
  };
  const text = JSON.stringify({ ok: " ".repeat(32 * MB) });
  const packed = gzipSync(text);
  const small = await takenFor(Buffer.from('{"ok": ""}'));
  assert.is(await takenFor({ packed, bytes: text.length }), small - 10 + packed.length + text.length);
  await engine.close();
});

test("reads nothing and starts no thread before the first call", async () => {
  const before = process.memoryUsage().external;
  const engine = givenEngine({ threads: 2, keepsReady: true });
  assert.equal(engine.load(), { running: 0, waiting: 0 });
  assert.ok(process.memoryUsage().external - before < MB);
  assert.not.match(readFileSync("/proc/self/maps", "latin1"), /engine\.wasm/);
  await engine.close();
});

test("a server with less than a gigabyte has one engine of 128 MiB, a larger one two of 256 MiB", async () => {
  const policy = givenPolicy(`package policy\n${ENDLESS_RULE}\n`);
  for (const [available, { running, waiting }, memory] of [
    [999_000_000, { running: 1, waiting: 1 }, 128],
    [1_000_000_000, { running: 2, waiting: 0 }, 256],
  ] as const) {
    const budget = createMemoryBudget({ total: 2048 * MB, bodies: MB, answers: MB });
    const engine = openRego({ available, memory: budget.threads });
    const calls = [1, 2].map(() => engine.evaluate(policy, givenQuestion()));
    const ends = calls.map((call) => rejection(call));
    while (engine.load().running + engine.load().waiting < 2) await new Promise(setImmediate);
    assert.equal(engine.load(), { running, waiting });
    const taken = budget.load().threads.bytes / running;
    assert.ok(taken > memory * MB && taken < (memory + 129) * MB, `${taken}`);
    await engine.close();
    for (const end of await Promise.all(ends)) assert.instance(end, PoolClosedError);
  }
});

test("a thread of the engine runs after the other threads of the process", async () => {
  const engine = givenEngine();
  await engine.check(SMALL_POLICY);
  const tasks = `${process.pid}/task`;
  const priorities = readdirSync(`/proc/${tasks}`).map((id) => priorityOf(`${tasks}/${id}`));
  const lower = Math.min(priorityOf(`${tasks}/${process.pid}`) + LOW_PRIORITY, 19);
  assert.is(priorities.filter((priority) => priority === lower).length, 1);
  await engine.close();
});

test("closing ends what runs and what waits", async () => {
  const engine = givenEngine();
  const policy = givenPolicy(`package policy\n${ENDLESS_RULE}\n`);
  const calls = [engine.evaluate(policy, givenQuestion()), engine.evaluate(SMALL_POLICY, givenQuestion())];
  while (engine.load().running === 0) await new Promise(setImmediate);
  const errors = calls.map((call) => rejection(call));
  await engine.close();
  for (const error of await Promise.all(errors)) assert.instance(error, PoolClosedError);
  assert.instance(await rejection(engine.check(SMALL_POLICY)), PoolClosedError);
});

test.run();
