import { spawn } from "node:child_process";
import { once } from "node:events";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { addInterval, createStopwatch, giveUpAfter, readProcessorSeconds, until } from "./patience.ts";

const test = suite("patience");
const NONE = { clockS: 0, ownS: 0, processorS: 0 };
const reading = (at: number, processorS: number, waitedS: Record<string, number>) => ({
  at,
  processorS,
  waitedS: new Map(Object.entries(waitedS)),
});

test("seconds count for a limit unless the thread that waited longest had no processor", () => {
  const first = addInterval(NONE, reading(100, 7, { a: 1, b: 5 }), reading(110, 9, { a: 5, b: 6, new: 2 }));
  assert.equal(first, { clockS: 10, ownS: 6, processorS: 2 });
  assert.equal(addInterval(first, reading(110, 9, {}), reading(112, 9.5, {})), {
    clockS: 12,
    ownS: 8,
    processorS: 2.5,
  });
});

test("a twentieth counts at least, so that what never gets a processor ends too", () => {
  assert.equal(addInterval(NONE, reading(0, 0, { a: 0, b: 0 }), reading(20, 0, { a: 20, b: 20 })), {
    clockS: 20,
    ownS: 1,
    processorS: 0,
  });
});

test("a process that nobody waited for takes its processor time with it", () => {
  assert.is(addInterval(NONE, reading(0, 9, {}), reading(1, 2, {})).processorS, 0);
});

test("a stopwatch measures child processes, and starts anew", async () => {
  const stopwatch = createStopwatch();
  const child = spawn("sh", ["-c", "while :; do :; done"]);
  await until("it computed", () => readProcessorSeconds(child.pid as number) > 0.2);
  const { clockS, ownS, processorS } = stopwatch.read();
  assert.ok(processorS >= 0.2, `${processorS}`);
  assert.ok(ownS > 0 && ownS <= clockS, `${ownS} of ${clockS}`);
  stopwatch.restart();
  assert.ok(stopwatch.read().clockS < clockS);
  child.kill();
  await once(child, "exit");
});

test("gives up once, with the time in words, and not after it was told to stop", async () => {
  const given: string[] = [];
  const stop = giveUpAfter(0.5, () => given.push("stopped"));
  stop();
  giveUpAfter(1, (how) => given.push(how));
  await until("it gave up", () => given.length > 0);
  assert.is(given.length, 1);
  assert.match(given[0] as string, /^\d+ s, \d+ s of them without a processor; .* load average .* on \d+ processors$/);
});

test("until gives up what never happens, and names it", async () => {
  await until("the sun rose", () => false, 0.5).then(
    () => assert.unreachable(),
    (error: Error) =>
      assert.match(error.message, /^never happened: the sun rose \(\d+ s, \d+ s of them without a processor; .*\)$/),
  );
});

test("until returns what was found, from a promise too, and passes errors on", async () => {
  let looks = 0;
  assert.is(await until("three looks", () => (looks += 1) === 3 && "third"), "third");
  assert.is(await until("a promise", async () => (looks += 1) === 5 && "fifth"), "fifth");
  await until("an error", () => {
    throw new Error("cannot look");
  }).then(
    () => assert.unreachable(),
    (error: Error) => assert.is(error.message, "cannot look"),
  );
});

test.run();
