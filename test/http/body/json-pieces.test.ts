import { suite } from "uvu";
import * as assert from "uvu/assert";
import { JsonText, stringifyJson } from "../../../src/json/text.ts";
import { readFirstElements } from "../../../src/workers/sandbox/json-elements.ts";
import { assembleJson, hasManyValues, splitJson, stringifyInTurns } from "../../../src/http/body/json-pieces.ts";
import type { Pieces } from "../../../src/http/body/json-pieces.ts";

const test = suite("http/body/json-pieces");

/** The longest text that is parsed in one go; a single long string cannot be split. */
function longestPiece(pieces: Pieces): number {
  if (typeof pieces === "string") return pieces.startsWith('"') ? 0 : pieces.length;
  if (pieces.kind === "text") return 0;
  return pieces.runs.reduce((longest: number, run) => {
    if (Array.isArray(run)) return Math.max(longest, longestPiece(run[1]));
    if (typeof run === "object" && "elements" in run) return Math.max(longest, run.elements.length);
    if (typeof run === "object" && "properties" in run) return Math.max(longest, run.properties.length);
    return Math.max(longest, longestPiece(run as Pieces));
  }, 0);
}

const LARGE = {
  list: Array.from({ length: 30_000 }, (_, n) => ({ n, text: `text ${n}` })),
  table: Object.fromEntries(Array.from({ length: 20_000 }, (_, n) => [`key ${n}`, [n]])),
  nested: [[[Array.from({ length: 20_000 }, (_, n) => n)]], "x".repeat(100_000)],
  "__proto__ beside it": JSON.parse(`{"__proto__":{"a":1},"b":${JSON.stringify("y".repeat(50_000))}}`) as unknown,
  small: { a: [1, null, true, 'é\\"'] },
  empty: [{}, []],
};

test("rebuilds a large value unchanged, from short pieces", async () => {
  const pieces = splitJson(LARGE);
  assert.ok(longestPiece(pieces) <= 70_000, String(longestPiece(pieces)));
  const value = await assembleJson(structuredClone(pieces));
  assert.is(JSON.stringify(value), JSON.stringify(LARGE));
  assert.is(Object.getPrototypeOf((value as typeof LARGE)["__proto__ beside it"]), Object.prototype);
});

test("serialises a large value as it does in one go, and lets others have their turn", async () => {
  const value = {
    ...LARGE,
    deep: { list: [{ items: Array.from({ length: 200_000 }, (_, n) => ({ n, exact: new JsonText("1.10") })) }] },
    'quoted "key"': new JsonText("1e2"),
    absent: undefined,
  };
  let turns = 0;
  const other = setInterval(() => (turns += 1));
  const text = await stringifyInTurns(value);
  clearInterval(other);
  assert.is(text, stringifyJson(value));
  assert.ok(turns > 0);
});

test("tells values with more than a thousand values in them, wherever those are", () => {
  const list = (length: number): number[] => Array.from({ length }, () => 1);
  const values = [
    list(999),
    list(1_000),
    { a: { b: [list(500), list(500)] } },
    { a: list(500) },
    "x".repeat(5_000),
    null,
  ];
  assert.equal(
    values.map((value) => hasManyValues(value)),
    [false, true, true, false, false, false],
  );
});

test("keeps small values, and null, in one piece", async () => {
  for (const value of [null, 7, "a", [], {}, [1, { a: "b" }], { a: { b: [] } }]) {
    assert.type(splitJson(value), "string");
    assert.equal(await assembleJson(splitJson(value)), value);
  }
});

test("keeps the requested top-level objects and lists as text", async () => {
  const value = { user_data: { a: [1] }, attestation_data: "text", other: { user_data: [2] } };
  const got = (await assembleJson(splitJson(value, ["user_data", "attestation_data"]))) as Record<string, unknown>;
  assert.instance(got["user_data"], JsonText);
  assert.equal({ ...got, user_data: (got["user_data"] as JsonText).text }, { ...value, user_data: '{"a":[1]}' });
  assert.is(((await assembleJson(splitJson([1, 2], "whole"))) as JsonText).text, "[1,2]");
});

test("serialises JSON text among values unchanged", () => {
  const text = new JsonText('{"a":1}');
  assert.is(stringifyJson(text), '{"a":1}');
  assert.is(stringifyJson({ x: text, y: undefined, 'z"': [1] }), '{"x":{"a":1},"z\\"":[1]}');
  assert.is(stringifyJson({ x: { y: text } }.x), '{"y":{"a":1}}');
  assert.is(stringifyJson([1]), "[1]");
});

test("finds the first elements of a list in its text, and counts all", () => {
  for (const list of [[], [1], ["a,b", "]", '"\\"', {}], [[1, [2]], { a: [1, 2], b: "," }, null, true, -1.5]])
    for (const limit of [0, 1, 2, 9])
      assert.equal(readFirstElements(JSON.stringify(list), limit), {
        elements: list.slice(0, limit).map((item) => JSON.stringify(item)),
        count: list.length,
      });
});

test.run();
