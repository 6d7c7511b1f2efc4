/** What forms say instead of the words of validators. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { Type } from "typebox";
import { FLOW_NAME } from "../../src/domain/names.ts";
import { Closed, Matching, OneOf } from "../../src/http/schema.ts";
import { validate } from "../../src/http/validate.ts";
import { inWords } from "../../src/web/page/field-words.ts";

const test = suite("web/field-words");

/** What a form shows for a field with that shape and value. */
function wordsFor(shape: Parameters<typeof Type.Optional>[0], value: unknown): string | undefined {
  const problems = validate(Closed({ field: shape }), { field: value }, { mode: "plain", root: "body" });
  return problems === null ? undefined : inWords(Object.values(problems)[0] as string);
}

test("every refusal of a validator becomes what a person has to write", () => {
  const name = "Begin with a letter or a digit, and use only letters, digits and - _ . ~.";
  assert.is(wordsFor(Matching(FLOW_NAME), "two words"), name);
  assert.is(wordsFor(Matching(FLOW_NAME), "it's [input: x]"), name);
  assert.is(wordsFor(Matching("^[xyz]$"), "a"), "This has characters, or a form, that are not accepted here.");
  assert.is(wordsFor(Type.String({ minLength: 1 }), ""), "Fill this in.");
  assert.is(wordsFor(Type.String({ minLength: 3 }), "a"), "Write at least 3 characters.");
  assert.is(wordsFor(Type.String({ maxLength: 3 }), "abcd"), "Write at most 3 characters.");
  assert.is(wordsFor(Type.Array(Type.String(), { minItems: 1 }), []), "Give at least one.");
  assert.is(wordsFor(Type.Array(Type.String(), { maxItems: 1 }), ["a", "b"]), "Give at most 1.");
  assert.is(wordsFor(Type.Integer({ minimum: 5 }), 4), "Write 5 or more.");
  assert.is(wordsFor(Type.Integer({ maximum: 5 }), 6), "Write 5 or less.");
  assert.is(wordsFor(Type.Integer(), "x"), "Write a number.");
  assert.is(wordsFor(OneOf(["a", "b", "c d"]), "x"), "Choose one of these: a, b or c d.");
  assert.is(wordsFor(Type.String({ format: "web-url" }), "ftp://x"), "Write an http or https URL.");
  assert.is(inWords("Field required"), "Fill this in.");
});

test("a message of an operation stays, without what was typed", () => {
  assert.is(inWords("A flow with this name already exists [input: a [b] c]"), "A flow with this name already exists");
  assert.is(inWords("Rule 2: it is false"), "Rule 2: it is false");
});

test.run();
