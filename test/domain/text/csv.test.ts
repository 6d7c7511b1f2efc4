import { suite } from "uvu";
import * as assert from "uvu/assert";
import { formatCsvLine } from "../../../src/domain/text/csv.ts";

const test = suite("domain/text/csv");

const SIGNS = [
  "=",
  "+",
  "-",
  "@",
  "\uff1d",
  "\uff0b",
  "\uff0d",
  "\uff20",
  "\ufe66",
  "\ufe62",
  "\ufe63",
  "\ufe6b",
  "\u2212",
];
const BLANKS = ["", " ", "   ", "\u00a0", "\u3000", "\u2003", "\ufeff", "\u200b", "\u0000", "\u000b", " \u00a0 "];

test("ends a line with CRLF, and writes null as an empty cell", () => {
  assert.is(formatCsvLine(["a", null, "b", ""]), "a,,b,\r\n");
  assert.is(formatCsvLine([]), "\r\n");
});

for (const [text, written] of [
  ["plain", "plain"],
  [" spaces stay ", " spaces stay "],
  ["a,b", '"a,b"'],
  ['say "yes"', '"say ""yes"""'],
  ["two\nlines", '"two\nlines"'],
  ["two\r\nlines", '"two\r\nlines"'],
  ["=1+1", "'=1+1"],
  ["+1", "'+1"],
  ["-1", "'-1"],
  ["@SUM(A1)", "'@SUM(A1)"],
  ["\t=1", "'\t=1"],
  ["\r=1", '"\'\r=1"'],
  ["\n=1", '"\'\n=1"'],
  ['=HYPERLINK("http://x","y")', '"\'=HYPERLINK(""http://x"",""y"")"'],
  ["a=1", "a=1"],
  ...SIGNS.flatMap((sign) => BLANKS.map((blank): [string, string] => [`${blank}${sign}1`, `'${blank}${sign}1`])),
  [" \t=1", "' \t=1"],
  [" \r\n=1", '"\' \r\n=1"'],
  ["\u3000 a=1", "\u3000 a=1"],
  ["\uff21", "\uff21"],
  [" 'quoted", " 'quoted"],
  ["'quoted", "'quoted"],
] as const)
  test(`${JSON.stringify(text)} is written ${JSON.stringify(written)}`, () =>
    assert.is(formatCsvLine([text]), `${written}\r\n`));

test("does not escape numbers", () =>
  assert.is(formatCsvLine([-1.5, 0, 1_700_000_000.25]), "-1.5,0,1700000000.25\r\n"));

test.run();
