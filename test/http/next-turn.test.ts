import { suite } from "uvu";
import * as assert from "uvu/assert";
import { inTurns } from "../../src/http/next-turn.ts";

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
test("the steps of a task leave turns of the event loop to others", async () => {
  const log: string[] = [];
  const steps = inTurns(task("a", 3, log));
  setImmediate(() => log.push("other"));
  assert.is(await steps, "a");
  assert.equal(log, ["a0", "other", "a1", "a2", "a ends"]);
});

test.run();
