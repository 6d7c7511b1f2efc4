/** Measuring JSON without serialising it, and passing JSON on without parsing it. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import fc from "fast-check";
import { isWithinBytes } from "../../src/json/bytes.ts";
import { JsonList, JsonText, itemsOf, jsonPieces, keysOf, outlineOf, stringifyJson } from "../../src/json/text.ts";

const test = suite("json/text");

test("a value is within a bound exactly if its JSON text is", () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 4 }), fc.integer({ min: -3, max: 3 }), (value, difference) => {
      const bytes = Buffer.byteLength(JSON.stringify(value));
      assert.is(isWithinBytes(value, bytes + difference), difference >= 0, JSON.stringify(value));
    }),
    { seed: 20261122, numRuns: 300 },
  );
});

test("characters that JSON escapes count in their escaped form", () => {
  for (const text of ["\u0001", "\n", '"', "\\", "€", "😀", "\u007f"]) {
    const bytes = Buffer.byteLength(JSON.stringify([text]));
    assert.is(isWithinBytes([text], bytes), true, JSON.stringify(text));
    assert.is(isWithinBytes([text], bytes - 1), false, JSON.stringify(text));
  }
});

test("JsonText is serialised unchanged, wherever it occurs in the value", () => {
  const value = {
    a: new JsonText('{"b": 1e2}'),
    list: [new JsonText("[ ]"), "text", { deep: new JsonText("null") }],
    end: 1,
  };
  const pieces = [...jsonPieces(value)];
  assert.is(pieces.join(""), '{"a":{"b": 1e2},"list":[[ ],"text",{"deep":null}],"end":1}');
  assert.ok(pieces.includes('{"b": 1e2}'));
});

test("a value without JsonText is one piece, and a JsonText alone is its text", () => {
  assert.equal([...jsonPieces({ a: ["\u0000raw 0 0", '"'] })], [JSON.stringify({ a: ["\u0000raw 0 0", '"'] })]);
  assert.is([...jsonPieces(new JsonText("[1, 2]"))].join(""), "[1, 2]");
});

test("a long text is several pieces, none of which ends within a character", () => {
  fc.assert(
    fc.property(
      fc.constantFrom("x", "é", "😀", '"', "\n", "\ud83d"),
      fc.integer({ min: 65_530, max: 65_545 }),
      (sign, length) => {
        const text = sign.repeat(length) + "😀".repeat(70_000);
        const value = { short: "a", list: [text, { __proto__: null, deep: text }], more: new JsonList([text]) };
        const pieces = [...jsonPieces(value)];
        assert.ok(pieces.join("") === JSON.stringify({ ...value, more: [text] }), JSON.stringify({ sign, length }));
        assert.ok(Math.max(...pieces.map((piece) => piece.length)) < 7 * 65_536);
        assert.ok(pieces.every((piece) => piece.isWellFormed()));
      },
    ),
    { seed: 20261126, numRuns: 30 },
  );
});

test("the outline of an object has its short members as values, and its long ones as texts", () => {
  const long = `[${"{},".repeat(30_000)}{}]`;
  const text = String.raw`{"a":1.0,"2":"two","1":{"b":[true,null]},"long":${long},"e":"}","k\"":"\\"}`;
  const outline = outlineOf(new JsonText(text));
  assert.equal(Object.keys(outline), ["1", "2", "a", "long", "e", 'k"']);
  assert.is(stringifyJson(outline["a"]), "1.0");
  assert.equal(outline["1"], { b: [true, null] });
  assert.equal([outline["2"], outline["e"], outline['k"']], ["two", "}", "\\"]);
  assert.ok(outline["long"] instanceof JsonText);
  assert.ok((outline["long"] as JsonText).text === long);
  assert.is([...itemsOf(outline["long"])].length, 30_001);
});

test("the items and keys of any JSON text are those of its value", () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 3 }), (value) => {
      const text = new JsonText(JSON.stringify(value));
      const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
      assert.is(stringifyJson([...itemsOf(text)]), JSON.stringify(Array.isArray(value) ? value : []));
      assert.equal(new Set(keysOf(text)), new Set(isObject ? Object.keys(value) : []));
      if (isObject) assert.equal(JSON.parse(stringifyJson(outlineOf(text))), value);
    }),
    { seed: 20261126, numRuns: 300 },
  );
});

test("plain JSON.stringify writes a JsonText like any other value", () => {
  assert.is(JSON.stringify({ a: new JsonText('{ "b" : 1 }') }), '{"a":{"b":1}}');
});

test("the items of a JsonList are made one by one while it is written", () => {
  const made: number[] = [];
  function* items(): Generator<unknown> {
    try {
      for (const n of [1, 2, 3]) {
        made.push(n);
        yield { n, inner: new JsonList(n === 2 ? ["a", new JsonText("[ ]")] : []) };
      }
    } finally {
      made.push(0);
    }
  }
  const value = { before: 1, list: new JsonList(items()), after: [new JsonList([])] };
  const pieces = jsonPieces(value);
  let text = "";
  for (let next = pieces.next(); !next.done; next = pieces.next()) {
    text += next.value;
    assert.ok(made.length <= 1 + text.split('"n":').length, "none ahead of the text");
  }
  assert.is(text, '{"before":1,"list":[{"n":1,"inner":[]},{"n":2,"inner":["a",[ ]]},{"n":3,"inner":[]}],"after":[[]]}');
  assert.equal(made, [1, 2, 3, 0]);
});

test("a JsonList whose writing is given up is closed", () => {
  let isClosed = false;
  function* items(): Generator<number> {
    try {
      for (let n = 0; ; n += 1) yield n;
    } finally {
      isClosed = true;
    }
  }
  for (const piece of jsonPieces([new JsonList(items())])) if (piece === "9") break;
  assert.ok(isClosed);
});

test("plain JSON.stringify writes a JsonList as an array", () => {
  assert.is(JSON.stringify({ a: new JsonList([1, new JsonText("{ }")]) }), '{"a":[1,{}]}');
});

test.run();
