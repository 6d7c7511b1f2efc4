import { suite } from "uvu";
import * as assert from "uvu/assert";
import { JsonScan, MAX_JSON_DEPTH, scanWhole } from "../../src/json/scan.ts";
import type { ScanBounds, ScanProblem } from "../../src/json/scan.ts";

const test = suite("json/scan");
const ANY = { values: Infinity, containers: Infinity, scalars: Infinity, keys: Infinity, names: Infinity };

/** Scans a text in pieces of `pieceBytes`. */
function scan(
  text: string,
  bounds: Partial<ScanBounds> = {},
  pieceBytes = Infinity,
): { problem: ScanProblem | null; values: number; containers: number } {
  const bytes = Buffer.from(text);
  const state = new JsonScan({ ...ANY, ...bounds });
  let problem: ScanProblem | null = null;
  for (let at = 0; at < bytes.length && !problem; at += pieceBytes)
    problem = state.add(bytes.subarray(at, Math.min(bytes.length, at + pieceBytes)));
  return { problem, values: state.values, containers: state.containers };
}

/** Counts in a parsed value what the scan counts in its text. */
function countValues(value: unknown): number {
  if (typeof value !== "object" || value === null) return 1;
  if (Array.isArray(value)) return value.reduce((sum: number, item) => sum + countValues(item), 1);
  return Object.values(value).reduce((sum: number, item) => sum + 1 + countValues(item), 1);
}

const TEXTS = [
  "{}",
  "[]",
  "null",
  "7",
  '"a"',
  " [ 1 , -2.5e3 , true,false , null ] ",
  '{"a":{"b":[1,"x",{}]},"c":""}',
  '["\\"","\\\\","\\\\\\"","{[,:]}"]',
  '{"\\"":"\\u0022,","é":"中,"}',
  '[[],[[]],{"a":[]}]',
  '{"a":1,"b":{"a":2}}',
];

test("counts every object, list, string, number, word and key, however the text is split", () => {
  for (const text of TEXTS)
    for (const pieceBytes of [1, 2, 3, 7, Infinity]) {
      const { values, problem } = scan(text, {}, pieceBytes);
      assert.equal(
        { values, problem },
        { values: countValues(JSON.parse(text)), problem: null },
        `${text} in pieces of ${pieceBytes}`,
      );
    }
});

test("the scan of a whole text finds what a scan in pieces finds, whatever was scanned before", () => {
  const nested = (depth: number): string => `${'{"a":['.repeat(depth)}${"]}".repeat(depth)}`;
  const keys = JSON.stringify(Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`key ${n}`, n])));
  for (const text of [...TEXTS, nested(70), nested(64), keys, '{"a', nested(80)])
    for (const names of [2, 40, 49, 1_000]) {
      const bounds = { ...ANY, names, keys: 60, scalars: 100 };
      assert.equal(scanWhole(Buffer.from(text), bounds).problem, scan(text, bounds).problem, `${text}, ${names} names`);
    }
});

test("accepts the allowed number of values, and stops at the next one", () => {
  assert.is(scan("[1,2,3]", { values: 4 }).problem, null);
  assert.equal(scan("[1,2,3,4]", { values: 4 }).problem, { kind: "values" });
  assert.equal(scan('{"a":1,"b":2}', { values: 4 }).problem, { kind: "values" });
  assert.equal(scan("7", { values: 0 }).problem, { kind: "values" });
});

test("bounds objects and lists, keys of one object, and different keys", () => {
  assert.is(scan("[{},[]]", { containers: 3 }).problem, null);
  assert.equal(scan("[{},[],{}]", { containers: 3 }).problem, { kind: "containers" });
  assert.is(scan('{"a":1,"b":"x"}', { scalars: 2 }).problem, null);
  assert.equal(scan('{"a":1,"b":"x","c":null}', { scalars: 2 }).problem, { kind: "scalars" });
  assert.is(scan('[{"a":1,"b":1},{"a":1,"b":1}]', { keys: 2 }).problem, null);
  assert.equal(scan('[{"a":1,"b":1,"c":1}]', { keys: 2 }).problem, { kind: "keys" });
  assert.is(scan("[1,2,3]", { keys: 2 }).problem, null);
  assert.is(scan('[{"a":"x","b":"y"},{"b":"z","a":"c"}]', { names: 2 }).problem, null);
  assert.equal(scan('[{"a":1,"b":1},{"c":1}]', { names: 2 }).problem, { kind: "names" });
});

test("counts nearly all different keys among many", () => {
  const keys = Array.from({ length: 100_000 }, (_, n) => `{"k${n.toString(36)}":1}`).join(",");
  assert.is(scan(`[${keys}]`, { names: 100_000 }).problem, null);
  assert.equal(scan(`[${keys}]`, { names: 90_000 }).problem, { kind: "names" });
});

test("reports the path of nesting beyond the maximum, and accepts nesting up to it", () => {
  const nested = (levels: number): string => `{"a":[0,{"b\\"":${"[".repeat(levels - 3)}`;
  assert.is(scan(nested(MAX_JSON_DEPTH)).problem, null);
  const text = nested(MAX_JSON_DEPTH + 1);
  const expected = {
    kind: "depth",
    path: [{ key: text.indexOf('"a"') }, 1, { key: text.indexOf('"b') }, ...Array.from({ length: 9 }, () => 0)],
  };
  for (const pieceBytes of [1, 5, Infinity]) assert.equal(scan(text, {}, pieceBytes).problem, expected);
});

test("never counts less than the parser creates from the valid start of a malformed text", () => {
  for (const text of ['[1,2,"a', '{"a":1,}', "[1 2]", "]]]][1,2]", '{"a" "b"}', "}{"])
    assert.ok(scan(text).values >= 1, text);
  assert.is(scan("]]]]{}[1]").values, 3);
});

test.run();
