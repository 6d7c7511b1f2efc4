import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parseRange } from "../../src/http/range.ts";

const test = suite("http/range");

const CASES: readonly [header: string | undefined, size: number, expected: ReturnType<typeof parseRange>][] = [
  [undefined, 100, null],
  ["bytes=0-0", 100, { start: 0, end: 0 }],
  ["bytes=0-99", 100, { start: 0, end: 99 }],
  ["bytes=10-19", 100, { start: 10, end: 19 }],
  ["bytes=10-", 100, { start: 10, end: 99 }],
  ["bytes=99-", 100, { start: 99, end: 99 }],
  ["bytes=10-1000", 100, { start: 10, end: 99 }],
  ["bytes=-1", 100, { start: 99, end: 99 }],
  ["bytes=-30", 100, { start: 70, end: 99 }],
  ["bytes=-1000", 100, { start: 0, end: 99 }],
  ["Bytes=1-2", 100, { start: 1, end: 2 }],
  ["bytes= 1-2\t", 100, { start: 1, end: 2 }],
  ["bytes=007-008", 100, { start: 7, end: 8 }],
  [`bytes=5-${"9".repeat(400)}`, 100, { start: 5, end: 99 }],
  [`bytes=-${"9".repeat(400)}`, 100, { start: 0, end: 99 }],
  // Beyond the end: 416.
  ["bytes=100-", 100, "unsatisfiable"],
  ["bytes=100-200", 100, "unsatisfiable"],
  [`bytes=${"9".repeat(400)}-`, 100, "unsatisfiable"],
  ["bytes=-0", 100, "unsatisfiable"],
  ["bytes=0-", 0, "unsatisfiable"],
  ["bytes=0-0", 0, "unsatisfiable"],
  ["bytes=-0", 0, "unsatisfiable"],
  ["bytes=-5", 0, null],
  // Not exactly one well-formed byte range: the whole file.
  ["bytes=20-10", 100, null],
  ["bytes=200-150", 100, null],
  ["bytes=0-1,5-6", 100, null],
  ["bytes=0-1,", 100, null],
  ["bytes=-", 100, null],
  ["bytes=", 100, null],
  ["bytes", 100, null],
  ["", 100, null],
  ["bytes=a-b", 100, null],
  ["bytes=1-2x", 100, null],
  ["bytes=+1-2", 100, null],
  ["bytes=--1", 100, null],
  ["bytes=1.5-2", 100, null],
  ["bytes=1 - 2", 100, null],
  ["bytes 1-2", 100, null],
  ["bytes =1-2", 100, null],
  ["items=0-5", 100, null],
  ["xbytes=0-5", 100, null],
];

for (const [header, size, expected] of CASES) {
  const shown = header !== undefined && header.length > 40 ? `${header.slice(0, 40)}...` : header;
  test(`${JSON.stringify(shown) ?? "no header"} of ${size} bytes`, () => {
    assert.equal(parseRange(header, size), expected);
  });
}

test("parses the longest headers that the server accepts in linear time", () => {
  for (const header of [
    `bytes=${"1".repeat(100_000)}x`,
    `bytes=${" ".repeat(100_000)}x`,
    `bytes=1-2${"\t".repeat(100_000)}x`,
  ]) {
    assert.is(parseRange(header, 100), null);
  }
});

test.run();
