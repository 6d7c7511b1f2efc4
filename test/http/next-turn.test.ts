import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createStepQueue, inTurns } from "../../src/http/next-turn.ts";

const test = suite("http/next-turn");

/** Yields `count` times; `log` gets the name before each step and at the end. */
function* task(name: string, count: number, log: string[]): Generator<undefined, string> {
  for (let n = 0; n < count; n += 1) {
    log.push(`${name}${n}`);
    yield;
  }
  log.push(`${name} ends`);
  return name;
}
function* failing(log: string[]): Generator<undefined, string> {
  yield;
  log.push("fails");
  throw new Error("damaged");
}

test("the steps of a task leave turns of the event loop to others", async () => {
  const log: string[] = [];
  const steps = inTurns(task("a", 3, log));
  setImmediate(() => log.push("other"));
  assert.is(await steps, "a");
  assert.equal(log, ["a0", "other", "a1", "a2", "a ends"]);
});

test("a task of one step is finished at once, whatever its lane assembles", async () => {
  const finish = createStepQueue();
  const log: string[] = [];
  const long = finish(1, task("long", 3, log));
  const short = finish(1, task("short", 0, log));
  assert.equal(log, ["long0", "short ends"]);
  assert.equal(await Promise.all([long, short]), ["long", "short"]);
});

test("long tasks of a lane end one after the other, in the order in which they came", async () => {
  const finish = createStepQueue();
  const log: string[] = [];
  assert.equal(await Promise.all(["a", "b", "c"].map((name) => finish(1, task(name, 3, log)))), ["a", "b", "c"]);
  assert.equal(log, ["a0", "b0", "c0", "a1", "a2", "a ends", "b1", "b2", "b ends", "c1", "c2", "c ends"]);
});

test("a lane does not wait for another one", async () => {
  const finish = createStepQueue();
  const log: string[] = [];
  const long = finish(1, task("long", 50, log));
  assert.is(await finish(2, task("other", 2, log)), "other");
  assert.not.ok(log.includes("long ends"));
  assert.is(await long, "long");
});

test("a task that fails lets the next one of its lane go on", async () => {
  const finish = createStepQueue();
  const log: string[] = [];
  const failed = finish(1, failing(log));
  const next = finish(1, task("next", 2, log));
  assert.is(await failed.catch((error: unknown) => (error as Error).message), "damaged");
  assert.is(await next, "next");
  assert.is(await finish(1, task("later", 2, log)), "later");
});

test.run();
