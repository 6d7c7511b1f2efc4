import { suite } from "uvu";
import * as assert from "uvu/assert";
import { readStoredText } from "../../../src/domain/flow-template/stored.ts";

const test = suite("domain/flow-template/stored");

test("reads an empty template from a text of which nothing can be read, and never throws", () => {
  const empty = { version: 1, trail: { attestations: [], artifacts: [] } };
  const bomb = `a: &a [x,x]\n${"bcdefgh"
    .split("")
    .map((k, n) => `${k}: &${k} [${`*${"abcdefgh"[n]},`.repeat(20)}]`)
    .join("\n")}\ntrail: *h\n`;
  for (const text of [
    "",
    "[",
    "7",
    "trail: 7",
    "trail: {attestations: {}, artifacts: [1, null]}",
    "- - - x: *y",
    bomb,
    "[".repeat(100_000),
  ])
    assert.equal(readStoredText(text), empty);
});

test.run();
