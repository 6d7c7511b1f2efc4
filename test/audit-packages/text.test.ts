/** Text layout of the report: no text leaves its column, and no character becomes an empty box. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { layOutLines, splitRuns } from "../../src/audit-packages/pdf/text.ts";
import type { Measure } from "../../src/audit-packages/pdf/text.ts";

const test = suite("audit-packages/text");

/** Every character is one point wide. */
const measure: Measure = ({ text }) => [...text].length;
const lines = (text: string, width: number, maxLines = 100): string[] =>
  layOutLines(text, { style: "plain", size: 9, width, maxLines, measure }).map((line) =>
    line.map((run) => run.text).join(""),
  );
const runs = (text: string) =>
  splitRuns(text, "plain").map(({ text: part, face, script }) => [part, face.name, script]);

test("each script has a font", () => {
  assert.equal(runs("Latin, Кириллица, Ελληνικά 😀"), [["Latin, Кириллица, Ελληνικά 😀", "plain", null]]);
  assert.equal(runs("版本"), [["版本", "chinese", null]]);
  assert.equal(runs("リリース版"), [["リリース版", "japanese", null]]);
  assert.equal(runs("결제 v1"), [
    ["결제", "korean", null],
    [" v1", "plain", null],
  ]);
  assert.equal(runs("a עברית, ב"), [
    ["a ", "plain", null],
    ["עברית, ב", "plain", "hebrew"],
  ]);
  assert.equal(runs("العربية"), [["العربية", "plain", "arabic"]]);
});

test("shows invisible characters, and those without a font, as code points", () => {
  assert.equal(runs(`𒀀a\u202eb\u0000c${String.fromCharCode(0xd800)}\u{10ffff}`), [
    ["<U+12000>a<U+202E>b<U+0000>c\ufffd<U+10FFFF>", "plain", null],
  ]);
  assert.equal(runs("a\tb\r\nc"), [["a b c", "plain", null]]);
});

test("breaks lines after spaces and separators of names, or else anywhere", () => {
  assert.equal(lines("one two three", 8), ["one two ", "three"]);
  assert.equal(lines("registry/payments/server", 18), ["registry/payments/", "server"]);
  assert.equal(lines("abcdefghij", 4), ["abcd", "efgh", "ij"]);
  assert.equal(lines("版本版本版本", 4), ["版本版本", "版本"]);
  assert.equal(lines("", 10), [""]);
  assert.equal(lines("   ", 10), [""]);
});

test("ends text beyond the last line in an ellipsis", () => {
  assert.equal(lines("one two three four", 6, 2), ["one ", "two…"]);
  assert.equal(lines("x".repeat(50), 5, 2), ["xxxxx", "xxxx…"]);
  assert.equal(lines("fits", 5, 1), ["fits"]);
});

test("no line is wider than its column", () => {
  const pieces = [
    "word",
    " ",
    "/",
    "-",
    "日",
    "ש",
    "العربية",
    "x".repeat(30),
    "\u0301",
    "👩‍👩‍👧",
    "\n",
    "<",
    "한글",
    "\u200b",
  ];
  for (let seed = 1; seed < 300; seed += 1) {
    const text = Array.from(
      { length: 25 },
      (_, place) => pieces[Math.imul(seed * 31 + place * 17, 2_654_435_761) >>> 28] ?? "z",
    ).join("");
    for (const line of layOutLines(text, { style: "bold", size: 9, width: 12, maxLines: 6, measure }))
      assert.ok(line.reduce((sum, run) => sum + run.width, 0) <= 12, text);
  }
});

test("orders right-to-left words visually", () => {
  const [line] = layOutLines("a עברית العربية b", { style: "plain", size: 9, width: 100, maxLines: 1, measure });
  assert.equal(
    line?.map(({ text, script }) => [text.trim(), script]),
    [
      ["a", null],
      ["العربية", "arabic"],
      ["עברית", "hebrew"],
      ["b", null],
    ],
  );
});

test.run();
