import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  hasMembers,
  isListOf,
  isNumber,
  isObject,
  isText,
  readStoredJson,
  readStoredJsonOrNull,
  StoredJsonError,
} from "../../src/domain/stored-json.ts";

const test = suite("domain/stored-json");

const isFacts = hasMembers<{ name: string; state: number | null }>("name", "state");

test("reads a value of the shape that was written", () => {
  assert.equal(
    {
      texts: readStoredJson('["a","b"]', isListOf(isText)),
      numbers: readStoredJson("[1,2]", isListOf(isNumber)),
      facts: readStoredJson('{"name":"web","state":null}', isFacts),
    },
    { texts: ["a", "b"], numbers: [1, 2], facts: { name: "web", state: null } },
  );
});

for (const [damage, text] of Object.entries({
  "a text that is not JSON": '["a"',
  "a value of another kind": '{"0":"a"}',
  "a list with one element of another kind": '["a",1]',
}))
  test(`refuses ${damage}, and reads it as null where null is asked for`, () => {
    assert.throws(
      () => readStoredJson(text, isListOf(isText)),
      (error: unknown) => error instanceof StoredJsonError,
    );
    assert.is(readStoredJsonOrNull(text, isListOf(isText)), null);
  });

test("requires own members of an object", () => {
  const accepted = (text: string) => readStoredJsonOrNull(text, isFacts) !== null;
  assert.equal(
    { whole: accepted('{"name":"web","state":1}'), partial: accepted('{"name":"web"}'), list: accepted("[]") },
    { whole: true, partial: false, list: false },
  );
  assert.is(readStoredJsonOrNull("{}", hasMembers<{ toString: string }>("toString")), null);
  assert.equal(
    { array: isObject([]), null: isObject(null), object: isObject({}) },
    { array: false, null: false, object: true },
  );
});

test("reads a null column as null, and otherwise only damage", () => {
  assert.is(readStoredJsonOrNull(null, isText), null);
  const failing = (_value: unknown): _value is string => {
    throw new Error("a mistake of the guard");
  };
  assert.throws(() => readStoredJsonOrNull('"a"', failing), /a mistake of the guard/);
});

test.run();
