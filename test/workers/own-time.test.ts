import { suite } from "uvu";
import * as assert from "uvu/assert";
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { LOW_PRIORITY, countAllowance, lowerPriority, nameOfThread, readWaitedMs } from "../../src/workers/own-time.ts";
import { priorityOf } from "./priority.ts";

const test = suite("workers/own-time");

/** An allowance of 100 ms that begins when the clock shows 5 s and the thread has waited for 1 s. */
function given() {
  const clock = { now: 5_000, waited: 1_000 };
  const leftMs = countAllowance(100, { nowMs: () => clock.now, waitedMs: () => clock.waited });
  return {
    /** What is left when so much time has passed, of which the thread waited a part. */
    after(milliseconds: number, waited: number): number {
      clock.now += milliseconds;
      clock.waited += waited;
      return leftMs();
    },
  };
}

test("an allowance lasts longer by what its thread waited for a processor", () => {
  const { after } = given();
  assert.is(after(60, 0), 40);
  assert.is(after(40, 30), 30);
  assert.is(after(30, 10), 10);
  assert.is(after(10, 0), 0);
});

test("it never grows, however the system counts", () => {
  assert.is(given().after(10, 15), 100);
});

test("it ends after ten times its length in any case", () => {
  const { after } = given();
  assert.is(after(950, 950), 50);
  assert.is(after(50, 50), 0);
});

test("the system says how long this thread waited, and nothing of one that it does not know", () => {
  assert.match(nameOfThread() ?? "", new RegExp(`^${process.pid}/task/${process.pid}$`));
  const waited = readWaitedMs(nameOfThread());
  assert.ok(waited > 0 && Number.isFinite(waited), `${waited}`);
  assert.is(readWaitedMs("0/task/0"), 0);
  assert.is(readWaitedMs(null), 0);
});

test("a thread with a lower priority leaves the others as they are", async () => {
  const module = JSON.stringify(new URL("../../src/workers/own-time.ts", import.meta.url).href);
  const worker = new Worker(
    `const { parentPort } = require("node:worker_threads");
     import(${module}).then(({ lowerPriority, nameOfThread }) => {
       lowerPriority(nameOfThread());
       parentPort.once("message", () => undefined);
       parentPort.postMessage(nameOfThread());
     });`,
    { eval: true },
  );
  const [name] = (await once(worker, "message")) as [string | null];
  const own = nameOfThread();
  if (name !== null && own !== null) assert.is(priorityOf(name), Math.min(priorityOf(own) + LOW_PRIORITY, 19));
  await worker.terminate();
  lowerPriority(null);
});

test.run();
