/** The field texts of messages 2, word for word, and the bounds on the cost of a refusal. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { Type } from "typebox";
import type { TSchema } from "typebox";
import { Closed, Matching, Maybe, Nullable, OneOf, Repeated } from "../../src/http/schema.ts";
import { MAX_JSON_DEPTH } from "../../src/json/scan.ts";
import { inspectParsed, findTextProblem, validate } from "../../src/http/validate.ts";

const test = suite("http/validate");
const plain = (schema: TSchema, value: unknown) => validate(schema, value, { mode: "plain", root: "body" });
const coerced = (schema: TSchema, value: unknown) => validate(schema, value, { mode: "coercing", root: "query" });
/** Parses JSON, so that `__proto__` is an own property, as in a request. */
const sent = (json: string): any => JSON.parse(json);

const NAME = String.raw`^[a-zA-Z0-9][a-zA-Z0-9\.\-_~]*$`;
const Sample = Closed({
  name: Type.Optional(Matching(NAME, { maxLength: 5 })),
  text: Type.Optional(Type.String({ minLength: 1, maxLength: 3 })),
  one: Type.Optional(Type.String({ maxLength: 1 })),
  word: Type.Optional(OneOf(["a", "b", "c"])),
  pair: Type.Optional(OneOf(["a", "b"])),
  only: Type.Optional(OneOf(["a"])),
  fixed: Type.Optional(Type.Literal("OK")),
  count: Type.Optional(Type.Integer({ minimum: 1, maximum: 10 })),
  share: Type.Optional(Type.Number()),
  flag: Type.Optional(Type.Boolean()),
  list: Type.Optional(Type.Array(Type.String(), { minItems: 1, maxItems: 2 })),
  inner: Type.Optional(
    Closed({ needed: Type.String(), items: Type.Optional(Type.Array(Closed({ id: Type.Integer() }))) }),
  ),
  maybe: Maybe(Matching("^[a-f]+$")),
  either: Type.Optional(Type.Unsafe({ type: ["object", "array"] })),
});

/** The end of a text about a key that Sample does not have. */
const KEYS =
  "; possible keys: name, text, one, word, pair, only, fixed, count, share, flag, list, inner, maybe, either";

for (const [what, value, errors] of [
  ["a pattern", { name: "a b" }, { name: `String should match pattern '${NAME}' [input: a b]` }],
  ["a pattern, empty text", { name: "" }, { name: `String should match pattern '${NAME}' [input: ]` }],
  [
    "a pattern, a line feed at the end",
    { name: "ab\n" },
    { name: `String should match pattern '${NAME}' [input: ab\\u000a]` },
  ],
  ["one of three", { word: "d" }, { word: "Input should be 'a', 'b' or 'c' [input: d]" }],
  ["one of two", { pair: "" }, { pair: "Input should be 'a' or 'b' [input: ]" }],
  ["one of one", { only: "B" }, { only: "Input should be 'a' [input: B]" }],
  ["a literal", { fixed: "ok" }, { fixed: "Input should be 'OK' [input: ok]" }],
  ["missing", { inner: {} }, { "inner.needed": "Field required" }],
  ["unknown", { other: [1] }, { other: `Extra inputs are not permitted [input: [1]]${KEYS}` }],
  ["unknown, null", { other: null }, { other: `Extra inputs are not permitted [input: null]${KEYS}` }],
  ["empty", { text: "" }, { text: "String should have at least 1 character [input: ]" }],
  ["too long", { text: "abcd" }, { text: "String should have at most 3 characters [input: abcd]" }],
  ["too long for one", { one: "ab" }, { one: "String should have at most 1 character [input: ab]" }],
  ["characters, not code units", { one: "🙂" }, null],
  ["a number for a text", { text: 7 }, { text: "Input should be a valid string [input: 7]" }],
  ["null for a text", { text: null }, { text: "Input should be a valid string [input: null]" }],
  ["a text for a number", { count: "7" }, { count: "Input should be a valid integer [input: 7]" }],
  ["a fraction", { count: 1.5 }, { count: "Input should be a valid integer [input: 1.5]" }],
  ["below", { count: 0 }, { count: "Input should be greater than or equal to 1 [input: 0]" }],
  ["above", { count: 11 }, { count: "Input should be less than or equal to 10 [input: 11]" }],
  ["a text for a truth", { flag: "true" }, { flag: "Input should be a valid boolean [input: true]" }],
  ["an object for a number", { share: { a: 1 } }, { share: 'Input should be a valid number [input: {"a":1}]' }],
  ["a text for a list", { list: "a" }, { list: "Input should be a valid array [input: a]" }],
  ["too few", { list: [] }, { list: "List should have at least 1 item [input: []]" }],
  ["too many", { list: ["a", "b", "c"] }, { list: "List should have at most 2 items" }],
  ["an item", { list: ["a", 1] }, { "list.1": "Input should be a valid string [input: 1]" }],
  [
    "deep inside",
    { inner: { needed: "x", items: [{ id: 1 }, { id: "2" }, {}] } },
    { "inner.items.1.id": "Input should be a valid integer [input: 2]", "inner.items.2.id": "Field required" },
  ],
  [
    "a key with signs of its own",
    { inner: { needed: "x", "a/b~c.d": 1 } },
    { "inner.a/b~c.d": "Extra inputs are not permitted [input: 1]; possible keys: needed, items" },
  ],
  ["null where it may be", { maybe: null }, null],
  ["neither null nor right", { maybe: "xyz" }, { maybe: "String should match pattern '^[a-f]+$' [input: xyz]" }],
  ["neither null nor of the type", { maybe: 7 }, { maybe: "Input should be a valid string [input: 7]" }],
  ["one of two types", { either: "x" }, { either: "Input should be a valid object or array [input: x]" }],
  [
    "several at once",
    { text: "", count: 0, other: 1 },
    {
      other: `Extra inputs are not permitted [input: 1]${KEYS}`,
      text: "String should have at least 1 character [input: ]",
      count: "Input should be greater than or equal to 1 [input: 0]",
    },
  ],
  ["the value itself", "text", { body: "Input should be a valid object [input: text]" }],
  ["the value itself, a list", [], { body: "Input should be a valid object [input: []]" }],
  ["the value itself, null", null, { body: "Input should be a valid object [input: null]" }],
] as [string, unknown, Record<string, string> | null][])
  test(`text: ${what}`, () => assert.equal(plain(Sample, value), errors));

test("the possible keys of a shape are listed once in a refusal", () => {
  const text = "Extra inputs are not permitted [input: 1]";
  const items = [
    { id: 1, x: 1 },
    { id: 1, x: 1, y: 1 },
  ];
  assert.equal(plain(Sample, { a: 1, b: 1, inner: { needed: "x", items } }), {
    a: `${text}${KEYS}`,
    b: text,
    "inner.items.0.x": `${text}; possible keys: id`,
    "inner.items.1.x": text,
    "inner.items.1.y": text,
  });
});

test("control characters and line separators do not break the line", () => {
  assert.equal(plain(Sample, { other: "a\r\n\tb\u0007\u007f\u2028c" }), {
    other: String.raw`Extra inputs are not permitted [input: a\u000d\u000a\u0009b\u0007\u007f\u2028c]` + KEYS,
  });
});

test("defaults are filled in, but not into answers", () => {
  const schema = Closed({ a: Type.Optional(Type.Integer({ default: 3 })) });
  const [value, answer] = [{}, {}];
  assert.is(plain(schema, value), null);
  assert.is(validate(schema, answer, { mode: "response", root: "body" }), null);
  assert.equal({ value, answer }, { value: { a: 3 }, answer: {} });
});

test("query texts become numbers and booleans; an empty text becomes neither", () => {
  const schema = Closed({
    page: Type.Optional(Type.Integer({ minimum: 1 })),
    all: Type.Optional(Type.Boolean()),
    tag: Repeated(Type.String()),
  });
  const value = { page: "12", all: "true", tag: ["a", "b"] };
  assert.is(coerced(schema, value), null);
  assert.equal(value, { page: 12, all: true, tag: ["a", "b"] });
  for (const page of ["", "x", "1.5", "1e999", "1e3", "0x10", " ", "1 ", "NaN", "Infinity", "1".repeat(100_000)])
    assert.equal(coerced(schema, { page }), {
      page: `Input should be a valid integer [input: ${page.length > 500 ? `${page.slice(0, 500)}…` : page}]`,
    });
  assert.equal(coerced(schema, { page: "0" }), { page: "Input should be greater than or equal to 1 [input: 0]" });
  assert.equal(coerced(schema, { all: "yes" }), { all: "Input should be a valid boolean [input: yes]" });
});

test("reports the branch of a union that was probably meant", () => {
  const schema = Closed({
    value: Type.Union([
      Closed({ kind: Type.Literal("a"), x: Type.Integer() }),
      Closed({ kind: Type.Literal("b"), y: Type.String(), z: Type.String() }),
      Type.Array(Nullable(Type.Integer())),
    ]),
  });
  assert.equal(plain(schema, { value: { kind: "a", x: "1" } }), {
    "value.x": "Input should be a valid integer [input: 1]",
  });
  assert.equal(plain(schema, { value: { kind: "b", y: "1", z: 2 } }), {
    "value.z": "Input should be a valid string [input: 2]",
  });
  assert.equal(plain(schema, { value: [1, null, "x"] }), { "value.2": "Input should be a valid integer [input: x]" });
  assert.equal(plain(schema, { value: 7 }), { value: "Input should be a valid object or array [input: 7]" });
});

test("tells unions in items 1 and 10 apart", () => {
  const schema = Type.Array(Nullable(Matching("^a$")));
  const value = Array.from({ length: 12 }, (_, i) => (i === 1 || i === 10 ? "b" : "a"));
  const text = "String should match pattern '^a$' [input: b]";
  assert.equal(plain(schema, value), { 1: text, 10: text });
});

test("reports keys of Object.prototype like any others", () => {
  for (const key of ["__proto__", "constructor", "toString", "hasOwnProperty", "valueOf", "__defineGetter__"]) {
    const errors = plain(Sample, sent(`{"${key}":1}`));
    assert.equal(Object.entries(errors ?? {}), [[key, `Extra inputs are not permitted [input: 1]${KEYS}`]]);
  }
  const Needy = Closed({ constructor: Type.String(), toString: Type.String() } as Record<string, TSchema>);
  assert.equal(Object.entries(plain(Needy, {}) ?? {}), [
    ["constructor", "Field required"],
    ["toString", "Field required"],
  ]);
  assert.is(({} as Record<string, unknown>)["x"], undefined);
});

test("truncates what it shows of a value, and never splits a character", () => {
  const long = (plain(Sample, { text: "🙂".repeat(100_000) }) as Record<string, string>)["text"] ?? "";
  assert.is(long, `String should have at most 3 characters [input: ${"🙂".repeat(250)}…]`);
  const odd = (plain(Sample, { text: `a${"🙂".repeat(100_000)}` }) as Record<string, string>)["text"] ?? "";
  assert.ok(odd.isWellFormed());
  assert.is(odd, `String should have at most 3 characters [input: a${"🙂".repeat(249)}…]`);
  assert.equal(plain(Sample, { text: Array.from({ length: 51 }, () => 1) }), {
    text: "Input should be a valid string [input: list of 51 items]",
  });
  assert.equal(plain(Sample, { text: Object.fromEntries(Array.from({ length: 51 }, (_, i) => [`k${i}`, i])) }), {
    text: "Input should be a valid string [input: object]",
  });
  const [key] = Object.keys(plain(Sample, { ["k".repeat(1_000_000)]: 1 }) ?? {});
  assert.is(key, `${"k".repeat(256)}…`);
});

test("reports at most a hundred fields", () => {
  const errors = plain(Sample, Object.fromEntries(Array.from({ length: 1500 }, (_, i) => [`k${i}`, i])));
  assert.is(Object.keys(errors ?? {}).length, 100);
});

test("reports only the first problem of a huge value that is wrong everywhere", () => {
  const million = Array.from({ length: 1_000_000 }, () => 1);
  for (const [schema, value] of [
    [Closed({ list: Type.Array(Type.String(), { maxItems: 5 }) }), { list: million }],
    [Type.Array(Nullable(Type.String())), million],
    [Type.Array(Type.Union([Type.String(), Type.Array(Type.String()), Closed({})])), million],
    [Sample, Object.fromEntries(million.slice(0, 200_000).map((_, i) => [`k${i}`, i]))],
  ] as [TSchema, unknown][]) {
    plain(schema, null);
    const errors = plain(schema, value);
    assert.is(Object.keys(errors ?? {}).length, 1);
    assert.ok(JSON.stringify(errors).length < 2000);
  }
});

test("reports a hundred fields of a small value with hundreds of problems", () => {
  const schema = Type.Array(
    Nullable(Closed({ a: Nullable(Type.Integer()), b: Nullable(Type.Array(Nullable(Type.Integer()))) })),
  );
  const value = Array.from({ length: 390 }, () => ({ a: "x", b: ["x", "y"] }));
  plain(schema, []);
  const errors = plain(schema, value);
  assert.is(Object.keys(errors ?? {}).length, 100);
});

// --- inspectParsed: what no schema states

const findUnstorable = (value: unknown): [path: string, text: string] | null => inspectParsed(value).problem;

test("accepts valid values, whatever their keys", () => {
  for (const json of [
    '{"a":[1,-0,1.5e300,null,true,"\\u00e9\\ud83d\\ude42"],"":{"__proto__":{"constructor":"x"}}}',
    "null",
    "[]",
    '"x"',
    "1",
  ])
    assert.is(findUnstorable(sent(json)), null);
});

test("reports the first problem with its path", () => {
  const NUL = "String should not contain a NUL character";
  const LONE = "String should be valid Unicode without lone surrogates";
  for (const [json, problem] of [
    ['"\\u0000"', ["", NUL]],
    ['{"a":{"b":[0,"x\\u0000y"]}}', ["a.b.1", NUL]],
    ['{"a":"\\ud800"}', ["a", LONE]],
    ['{"a":"\\udc00\\ud800"}', ["a", LONE]],
    ['{"x":{"k\\u0000":1}}', ["x", `A key of the object is not acceptable: ${NUL}`]],
    ['{"\\udfff":1}', ["", `A key of the object is not acceptable: ${LONE}`]],
    ['{"__proto__":{"a":"\\u0000"}}', ["__proto__.a", NUL]],
    ['[{"a":[1,2,{"b":"fine"}]},{"c":"\\u0000"}]', ["1.c", NUL]],
  ] as [string, [string, string]][])
    assert.equal(findUnstorable(sent(json)), problem, json);
  assert.is(findTextProblem("\u0001\uffff\u{10ffff}"), null);
});

test("accepts nesting up to the maximum depth and no further", () => {
  const nested = (depth: number, open: string, close: string): unknown =>
    sent(`${open.repeat(depth)}1${close.repeat(depth)}`);
  assert.is(findUnstorable(nested(MAX_JSON_DEPTH, "[", "]")), null);
  assert.is(findUnstorable(nested(MAX_JSON_DEPTH, '{"a":', "}")), null);
  const text = `Input should not be nested deeper than ${MAX_JSON_DEPTH} levels`;
  assert.equal(findUnstorable(nested(MAX_JSON_DEPTH + 1, "[", "]")), [`${"0.".repeat(12).slice(0, -1)}…`, text]);
  assert.equal(findUnstorable(nested(MAX_JSON_DEPTH + 1, '{"a":', "}"))?.[1], text);
  assert.equal(findUnstorable(nested(500_000, "[", "]"))?.[1], text);
});

test("truncates the path of a problem", () => {
  const key = "k".repeat(10_000);
  assert.equal(findUnstorable({ [key]: "\u0000" })?.[0], `${"k".repeat(256)}…`);
});

test("finds a problem behind millions of items", () => {
  for (const item of ["1", '""', "null", "[]", "{}"]) {
    assert.is(findUnstorable(sent(`[${`${item},`.repeat(1_000_000)}1]`)), null);
    assert.equal(findUnstorable(sent(`[${`${item},`.repeat(1_000_000)}"\\u0000"]`)), [
      "1000000",
      "String should not contain a NUL character",
    ]);
  }
});

test.run();
