import { Ajv2020 } from "ajv/dist/2020.js";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parse } from "yaml";
import { parsePolicy } from "../../../src/domain/policy/document.ts";
import { MAX_EXCEPTIONS, MAX_RULES, POLICY_SCHEMA } from "../../../src/domain/policy/schema.ts";

const validate = new Ajv2020({ allErrors: true, strict: true, strictRequired: false, strictTypes: false }).compile(
  POLICY_SCHEMA,
);

const schema = suite("domain/policy/schema");

const rule = (text: string): string => `_schema: /v1\nartifacts: {attestations: [${text}]}`;
const boolean = (text: string): string => `_schema: /v1\nartifacts: {provenance: ${text}, trail-compliance: ${text}}`;

const DOCUMENTS: [text: string, valid: boolean][] = [
  ["_schema: https://h/schemas/policy/v1", true],
  ["_schema: https://h/schemas/policy/environment/v1", true],
  ["_schema: https://h/v1?a=/v2#b", true],
  ["_schema: /v1", true],
  ["_schema: h.example/x/v1", true],
  ["_schema: https://h/schemas/policy/v2", false],
  ["_schema: https://h/v1/", false],
  ["_schema: https://v1", false],
  ["_schema: https://h?/v1", false],
  ["_schema: v1", false],
  ["_schema: ''", false],
  ["_schema: 1", false],
  ["_schema:", false],
  ["{}", false],
  ["[]", false],
  ["text", false],
  ["{_schema: /v1, more: 1}", false],
  ["{_schema: /v1, artifacts: {}}", true],
  ["{_schema: /v1, artifacts: null}", false],
  ["{_schema: /v1, artifacts: []}", false],
  ["{_schema: /v1, artifacts: {attestations: []}}", true],
  ["{_schema: /v1, artifacts: {attestations: null}}", false],
  ["{_schema: /v1, artifacts: {attestations: {}}}", false],
  ["{_schema: /v1, artifacts: {trail_compliance: {}}}", false],
  [boolean("{}"), true],
  [boolean("{required: true}"), true],
  [boolean("{required: yes}"), false],
  [boolean("{required: 'true'}"), false],
  [boolean("{required: null}"), false],
  [boolean("null"), false],
  [boolean("true"), false],
  [boolean("{exceptions: [{if: 'true'}, {if: null}, {}]}"), true],
  [boolean("{exceptions: null}"), false],
  [boolean("{exceptions: [null]}"), false],
  [boolean("{exceptions: [{if: true}]}"), false],
  [boolean("{exceptions: [{if: ''}]}"), false],
  [boolean("{exceptions: [{unless: 'true'}]}"), false],
  [boolean("{required: true, if: 'true'}"), false],
  ...[
    "generic",
    "junit",
    "snyk",
    "pull_request",
    "jira",
    "sonar",
    "decision",
    "sbom",
    "system:decision",
    "system:sbom",
    "custom:x",
    "custom:1-_.~",
  ].map((type): [string, boolean] => [rule(`{type: "${type}"}`), true]),
  ...[
    "pull-request",
    "custom",
    "custom:",
    "custom:-a",
    "custom:a b",
    "custom:*",
    "system:nothing",
    "artifact",
    "Junit",
    "",
  ].map((type): [string, boolean] => [rule(`{type: "${type}"}`), false]),
  [rule("{type: 'system:decision', for_control: C}"), true],
  [rule("{type: sbom}"), true],
  [rule("{type: 'system:sbom'}"), true],
  [rule("{type: sbom, for_control: C}"), false],
  [rule("{}"), false],
  [rule("{name: a}"), false],
  [rule("null"), false],
  [rule("{type: null}"), false],
  [rule("{type: '*'}"), false],
  [rule("{type: '*', name: '*'}"), false],
  [rule("{type: '*', name: a}"), true],
  [rule("{type: junit, name: '*'}"), true],
  [rule("{type: junit, name: ''}"), false],
  [rule("{type: junit, name: null}"), false],
  [rule("{type: junit, name: 1}"), false],
  [rule("{type: junit, must_be_compliant: false}"), true],
  [rule("{type: junit, must_be_compliant: null}"), false],
  [rule("{type: junit, must_be_compliant: no}"), false],
  [rule("{type: junit, if: null}"), true],
  [rule("{type: junit, if: exists(flow)}"), true],
  [rule("{type: junit, if: false}"), false],
  [rule("{type: junit, exceptions: []}"), false],
  [rule("{type: junit, for_control: null}"), true],
  [rule("{type: junit, for_control: C}"), false],
  [rule("{type: '*', name: a, for_control: C}"), false],
  [rule("{type: decision, for_control: C}"), true],
  [rule("{type: decision, for_control: ''}"), false],
  [rule("{type: decision, for_control: 1}"), false],
  [rule("{type: junit},".repeat(MAX_RULES)), true],
  [rule("{type: junit},".repeat(MAX_RULES + 1)), false],
  [boolean(`{exceptions: [${"{},".repeat(MAX_EXCEPTIONS)}]}`), true],
  [boolean(`{exceptions: [${"{},".repeat(MAX_EXCEPTIONS + 1)}]}`), false],
  [rule(`{type: junit, name: ${"n".repeat(256)}}`), true],
  [rule(`{type: junit, name: ${"n".repeat(257)}}`), false],
];

for (const [text, valid] of DOCUMENTS) {
  schema(text.slice(0, 90), () => {
    assert.is(validate(parse(text)), valid, "by the schema");
    assert.is(parsePolicy(text).problems === null, valid, "by the server");
  });
}

schema("accepts by the schema what only the server can check", () => {
  for (const text of [rule("{type: junit, if: nonsense}"), rule("{type: junit, if: \"matches(flow.name, '[')\"}")]) {
    assert.ok(validate(parse(text)));
    assert.ok(parsePolicy(text).problems !== null);
  }
});

schema("is plain JSON", () => {
  assert.equal(JSON.parse(JSON.stringify(POLICY_SCHEMA)), POLICY_SCHEMA);
});

schema.run();
