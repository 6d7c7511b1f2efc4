/** JSON that is kept as it was sent: numbers with all digits, keys in their order. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import fc from "fast-check";
import { compareNumbers, isBeyondBounds, isExact, isHeld, isInteger, isMultiple } from "../../src/json/numbers.ts";
import { JsonText, indentJson, isPlainJson, membersOf, parseExact, stringifyJson } from "../../src/json/text.ts";
import { compactJson, findRepeatedKey, indentText, walkJson } from "../../src/json/walk.ts";
import { jsonText } from "../json-text.ts";

const test = suite("json/exact");
const RUNS = { seed: 20261125, numRuns: 2_000 };

test("whatever is sent comes back with the same characters, compact and indented", () => {
  fc.assert(
    fc.property(jsonText(), ({ text, compact }) => {
      const exact = parseExact(compactJson(text));
      assert.is(stringifyJson(exact), compact, text);
      assert.is(compactJson(indentJson(exact)), compact, text);
      assert.is(compactJson(indentJson({ deep: [exact] })), `{"deep":[${compact}]}`, text);
    }),
    RUNS,
  );
});

test("plain is exactly the text that JavaScript writes again as it is", () => {
  fc.assert(
    fc.property(jsonText(), ({ compact }) => {
      // An escaped or numeric key may be called not plain without being reordered.
      if (isPlainJson(compact)) assert.is(JSON.stringify(JSON.parse(compact)), compact);
      else assert.ok(JSON.stringify(JSON.parse(compact)) !== compact || /"[\d\\][^"]*":/.test(compact), compact);
    }),
    RUNS,
  );
});

test("indents as JSON.stringify does, and changes nothing else", () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
      assert.is(indentJson(value), JSON.stringify(value, null, 2));
    }),
    RUNS,
  );
  assert.is(indentText(' { "a" : 1.0 , "a":[ ] , "\\u0062" :{ }}'), '{\n  "a": 1.0,\n  "a": [],\n  "\\u0062": {}\n}');
  assert.ok(indentText("[".repeat(5_000) + "]".repeat(5_000)).length < 3_000_000);
});

test("plain JSON.stringify keeps the digits of numbers, too", () => {
  const value = { a: parseExact('{"b":[9007199254740993,1.0,-0,1e400]}') };
  assert.is(JSON.stringify(value), '{"a":{"b":[9007199254740993,1.0,-0,1e400]}}');
});

test("only what JavaScript cannot hold stays text", () => {
  assert.equal(parseExact('{"a":[1.0,1],"b":{"2":1,"1":{"x":2}},"c":{"1":1,"2":2}}'), {
    a: [new JsonText("1.0"), 1],
    b: new JsonText('{"2":1,"1":{"x":2}}'),
    c: { 1: 1, 2: 2 },
  });
  assert.equal(membersOf(new JsonText('{"2":1.0,"1":{"x":2}}')), [
    ["2", new JsonText("1.0")],
    ["1", { x: 2 }],
  ]);
  assert.equal(membersOf([1]), []);
});

test("a key that an object has twice is found with its place, after unescaping", () => {
  for (const [text, path] of [
    ['{"a":1,"b":2}', null],
    ['[{"a":1},{"a":1}]', null],
    ['{"a":{"a":1}}', null],
    ['[0,{"a":[{"b":1,"\\u0062":2}]}]', [1, "a", 0, "b"]],
    ['{ "\\ud83d\\ude00" : 1 , "😀" : 1 }', ["😀"]],
    ['{"a":"b","b":"a","a":0}', ["a"]],
  ] as const)
    assert.equal(findRepeatedKey(text), path, text);
});

test("the walk visits each number with its path", () => {
  const found: string[] = [];
  walkJson('{"a":[1,true,"2",{"b":-3.5e1}],"c":null}', {
    number: (text, path) => void found.push(`${path.join(".")}=${text}`),
  });
  assert.equal(found, ["a.0=1", "a.3.b=-3.5e1"]);
});

test("64 bits hold a number that some double prints, with as many digits as it was written", () => {
  const held = ["0", "-0", "1.0", "0.1", "0.10000000000000001", "1e2", "9007199254740992", "1e308", "5e-324", "0e5"];
  for (const text of [...held, "18446744073709551616", "1.7976931348623157e308"]) assert.is(isHeld(text), true, text);
  for (const text of ["9007199254740993", "18446744073709551615", "1e400", "-1e400", "1e-400", "0.1000000000000000057"])
    assert.is(isHeld(text), false, text);
  for (const [text, exact] of [
    ["1.0", true],
    ["0.10000000000000001", false],
    ["1e400", false],
  ] as const)
    assert.is(isExact(text), exact, text);
});

test("numbers are compared and divided without rounding", () => {
  const signed = fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n });
  fc.assert(
    fc.property(signed, signed, fc.nat(20), (a, b, shift) => {
      const scaled = (value: bigint): string => `${value}e-${shift}`;
      assert.is(Math.sign(compareNumbers(scaled(a), scaled(b))), a < b ? -1 : a > b ? 1 : 0);
      assert.is(compareNumbers(`${a}`, `${a}.0`), 0);
      if (b !== 0n) assert.is(isMultiple(scaled(a), scaled(b)), a % b === 0n, `${a} / ${b}`);
      if (b !== 0n) assert.is(isMultiple(scaled(a * b), scaled(b)), true);
    }),
    RUNS,
  );
  assert.is(isMultiple("1", "0"), false);
  for (const [text, expected] of [
    ["1e400", true],
    ["1.0", true],
    ["1.5e1", true],
    ["1.55e1", false],
    ["0.0", true],
  ] as const)
    assert.is(isInteger(text), expected, text);
});

test("numbers have a bound on their characters and on their exponent", () => {
  assert.is(isBeyondBounds("1".repeat(1_000)), false);
  assert.is(isBeyondBounds("1".repeat(1_001)), true);
  assert.is(isBeyondBounds("1e-999999999"), false);
  assert.is(isBeyondBounds("1e+0000000000999999999"), false);
  assert.is(isBeyondBounds("1E1000000000"), true);
});

test.run();
