import { suite } from "uvu";
import * as assert from "uvu/assert";
import { simulate } from "./simulate.ts";
import type { Request } from "./simulate.ts";

/** Requests per second to the nearest ten: the first and the last requests are not part of the steady state. */
const rate = (processors: number, next: (n: number) => Request, clients = 32): number =>
  Math.round(simulate({ processors, clients, requests: 20_000 }, next) / 10) * 10;

const test = suite("bench/simulate");

const MAIN = 0;
const HELPER = 1;
const write: Request = {
  reply: [{ thread: MAIN, microseconds: 200 }],
  behind: [{ thread: HELPER, microseconds: 50 }],
};

test("on one processor, work behind the response takes its share", () => {
  assert.equal(
    rate(1, () => write),
    4000,
  );
});

test("with a second processor only the main thread limits, and a third changes nothing", () => {
  assert.equal(
    [2, 3].map((processors) => rate(processors, () => write)),
    [5000, 5000],
  );
});

test("threads share requests until the processors are busy, then until the thread that all of them need is", () => {
  const read = (n: number): Request => ({
    reply: [
      { thread: MAIN, microseconds: 50 },
      { thread: 2 + (n % 7), microseconds: 150 },
    ],
    behind: [],
  });
  assert.equal(
    [1, 2, 4, 8].map((processors) => rate(processors, read)),
    [5000, 10_000, 20_000, 20_000],
  );
});

test("a single client waits for every step", () => {
  assert.equal(
    rate(8, () => ({ reply: [...write.reply, { thread: HELPER, microseconds: 50 }], behind: [] }), 1),
    4000,
  );
});

test.run();
