/** What forms say instead of the words of validators. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { Type } from "typebox";
import { listTemplateProblems, parseTemplate } from "../../src/domain/flow-template/template.ts";
import { FLOW_NAME } from "../../src/domain/names.ts";
import { listDiagnostics } from "../../src/domain/policy/diagnostics.ts";
import { parsePolicy } from "../../src/domain/policy/document.ts";
import { Closed, Matching, OneOf } from "../../src/http/schema.ts";
import { validate } from "../../src/http/validate.ts";
import { inWords, textProblemInWords } from "../../src/web/page/field-words.ts";

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
  assert.is(inWords("A flow with this name already exists [input: a [b] c]"), "A flow with this name already exists.");
  assert.is(inWords("Rule 2: it is false"), "Rule 2: it is false.");
});

test("what is not there is said in one way, whatever the operation says", () => {
  const cases: [string, string][] = [
    ["Flow named 'shop' does not exist for organization 'acme'", "There is no flow 'shop' in acme."],
    ["Policy 'shop' does not exist in organization 'acme'", "There is no policy 'shop' in acme."],
    ["Custom attestation type 'x' does not exist for org 'acme'", "There is no custom attestation type 'x' in acme."],
    ["Rego policy 'x' does not exist in org 'acme'", "There is no Rego policy 'x' in acme."],
    ["Repo 'a/b' not found in organization 'acme'", "There is no repository 'a/b' in acme."],
    ["Environment named 'prod' has been archived for organization 'acme'", "Environment 'prod' of acme is archived."],
    [
      "Trail with name 'it's' does not exist for Organization 'acme' and Flow 'shop'",
      "There is no trail 'it's' in flow 'shop'.",
    ],
    [
      "Artifact with fingerprint 'abc' does not exist in flow 'shop' belonging to organization 'acme'",
      "There is no artifact with the fingerprint 'abc' in flow 'shop'.",
    ],
    [
      "Org: 'acme'. Snapshot 'prod#9' resolves to 'prod#9'. len(snapshots) == 3. Indexes are 1-based",
      "There is no snapshot 'prod#9': prod has 3 snapshots.",
    ],
    [
      "Org: 'acme'. Snapshot 'prod~1' resolves to 'prod#-1'. len(snapshots) == 0. Indexes are 1-based",
      "There is no snapshot 'prod~1': prod has no snapshot yet.",
    ],
    [
      "Org: 'acme'. Snapshot 'prod#3' has no artifact with fingerprint 'abc'",
      "Snapshot #3 of 'prod' has no artifact with the fingerprint 'abc'.",
    ],
    ["API key not found", "There is no such API key."],
    ["Service account not found", "There is no such service account."],
  ];
  for (const [message, words] of cases) assert.is(inWords(message), words);
});

const inTemplate = (text: string): string[] =>
  listTemplateProblems(parseTemplate(text).problems ?? []).map(textProblemInWords);
const inPolicy = (text: string): string[] => inFile(`_schema: https://a.example/v1\n${text}`);
const inFile = (text: string): string[] => listDiagnostics(parsePolicy(text).problems ?? []).map(textProblemInWords);

test("an editor names the key of each mistake in a template, and says what to write there", () => {
  assert.equal(inTemplate("version: 9"), ["version: only 1 is known"]);
  assert.equal(inTemplate("version: 1\ntrial: {}"), [
    "trial: this key has no place here; did you mean trail? Possible keys: version, trail",
  ]);
  assert.equal(inTemplate("trail: yes please"), ["trail: write keys with values here, such as name: unit-tests"]);
  assert.equal(inTemplate("trail: {attestations: 3}"), [
    "attestations: write a list here: each entry in a line that begins with a hyphen",
  ]);
  assert.equal(inTemplate("trail: {artifacts: [{name: 12}]}"), [
    "name: write a text here. A number, true, false or null needs quotes to be one",
  ]);
  const name = "name: use only letters, digits and - _ and the comma";
  assert.equal(inTemplate("trail: {attestations: [{name: a b, type: junit}]}"), [name]);
  assert.equal(inTemplate("trail: {attestations: [{name: '', type: junit}]}"), ["name: write a value: this is empty"]);
  const [missing = "", ...others] = inTemplate("trail: {attestations: [{name: a}]}");
  assert.match(missing, /^type: this is missing\. Write one of these: generic, .*, custom:<type-name> or "\*"$/);
  assert.equal(others, []);
  assert.equal(inTemplate("trail: {artifacts: [{}]}"), ["name: this is missing"]);
});

test("an editor names the key of each mistake in a policy, and says what to write there", () => {
  const rule = (text: string): string[] => inPolicy(`artifacts: {attestations: [{${text}}]}`);
  assert.match(rule("type: pull-request")[0] ?? "", /^type: write one of these: generic, .* "\*" or custom:<name>$/);
  const custom = "type: write custom: and the name of a type, which has only letters, digits and - _ . ~";
  assert.equal(rule("type: custom:a b"), [custom]);
  assert.equal(rule("type: junit, must_be_compliant: 'yes'"), [
    "must_be_compliant: write true or false, without quotes",
  ]);
  assert.equal(rule("type: junit, for_control: C-1"), ["for_control is only allowed with type 'decision'"]);
  assert.match(inFile("artifacts: {}")[0] ?? "", /^_schema: this is missing: begin with/);
});

test("no message of the editor has the words of a validator", () => {
  const wrong = [
    "[1]",
    "version: {}",
    "trail: {attestations: [1, {name: true, type: *x}]}",
    "a: [",
    "trail: {trail: 1}",
  ];
  const found = wrong.flatMap((text) => [...inTemplate(text), ...inPolicy(text), ...inPolicy(`artifacts: ${text}`)]);
  assert.ok(found.length > wrong.length);
  for (const text of found) assert.not.match(text, /Input should|String should|Extra inputs|pattern|\[input:/i, text);
});

test.run();
