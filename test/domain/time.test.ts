import { suite } from "uvu";
import * as assert from "uvu/assert";
import { archivedName, epochText, mergedByTime } from "../../src/domain/time.ts";

const test = suite("time");

const texts: [number, string][] = [
  [1700000000.25, "1700000000.25"],
  [1700000000, "1700000000"],
  [0, "0"],
  [-0, "0"],
  [-1.5, "-1.5"],
  [1e-6, "0.000001"],
  [1e-7, "0.0000001"],
  [1.5e-7, "0.00000015"],
  [-1e-300, "0"],
  [1e21, "1000000000000000000000"],
  [-1e21, "-1000000000000000000000"],
  [4102444800, "4102444800"],
];
for (const [seconds, text] of texts) test(`${seconds} is written as ${text}`, () => assert.is(epochText(seconds), text));

test("what is no number has no text", () => {
  for (const seconds of [NaN, Infinity, -Infinity]) assert.throws(() => epochText(seconds), RangeError);
});


test("an archived name ends in whole seconds", () => {
  assert.is(archivedName("prod", 1700000000.99), "prod-archived-at-1700000000");
});

test("two histories become one by time, and each keeps its own order", () => {
  const entries = (...times: (readonly [string, number])[]) => times.map(([name, timestamp]) => ({ name, timestamp }));
  const merged = (one: ReturnType<typeof entries>, other: ReturnType<typeof entries>) => mergedByTime(one, other).map(({ name }) => name).join("");
  assert.is(merged([], []), "");
  assert.is(merged(entries(["a", 1]), []), "a");
  assert.is(merged([], entries(["x", 1])), "x");
  assert.is(merged(entries(["a", 1], ["b", 3], ["c", 5]), entries(["x", 2], ["y", 4], ["z", 6])), "axbycz");
  assert.is(merged(entries(["a", 3]), entries(["x", 1], ["y", 2], ["z", 3])), "xyaz");
  // Of the same moment; and times that go back.
  assert.is(merged(entries(["a", 1], ["b", 1]), entries(["x", 1])), "abx");
  assert.is(merged(entries(["a", 5], ["b", 1]), entries(["x", 2], ["y", 9])), "xaby");
});

test.run();
