import { suite } from "uvu";
import * as assert from "uvu/assert";
import { archivedName, epochText } from "../../src/domain/time.ts";

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

test.run();
