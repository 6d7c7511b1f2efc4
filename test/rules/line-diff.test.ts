import { suite } from "uvu";
import * as assert from "uvu/assert";
import { lineDiff } from "./line-diff.ts";

const test = suite("rules/line-diff");

const diff = (before: string, after: string) => lineDiff(before.split("").join("\n"), after.split("").join("\n"));

test("equal texts have no difference", () => assert.equal(diff("abc", "abc"), []));

test("an inserted line is told with its number", () => assert.equal(diff("abcd", "abxcd"), ["+ 3: x"]));

test("a removed line is told with the number that it had", () => assert.equal(diff("abcd", "acd"), ["- 2: b"]));

test("lines in common between two changes are left out", () =>
  assert.equal(diff("abcdef", "axcdyef"), ["- 2: b", "+ 2: x", "+ 5: y"]));

test("an empty golden shows every line as new", () =>
  assert.equal(lineDiff("", "a\nb"), ["- 1: ", "+ 1: a", "+ 2: b"]));

test.run();
