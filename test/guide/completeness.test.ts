/** The pages for people who write policies, templates, types and actions show everything that the code accepts. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parse } from "yaml";
import { postCustomAttestationType } from "../../src/api/attestations/custom-attestation-types.ts";
import { putEnvironmentAction, putFlowAction } from "../../src/api/notifications/actions.ts";
import { ANY_TYPE, KINDS, SYSTEM_LABELS } from "../../src/domain/attestation/kinds.ts";
import { TEMPLATE_SCHEMA } from "../../src/domain/flow-template/template.ts";
import { TARGET_TYPES } from "../../src/domain/notification/targets.ts";
import { ENVIRONMENT_TRIGGERS, FLOW_TRIGGERS, eventTypeOf } from "../../src/domain/notification/triggers.ts";
import { CONTEXT_NAMES } from "../../src/domain/policy/ast.ts";
import { tokenize } from "../../src/domain/policy/lexer.ts";
import { COMPARISONS, RESERVED } from "../../src/domain/policy/parser.ts";
import { ATTESTATION_TYPES, POLICY_SCHEMA, SCHEMA_URL } from "../../src/domain/policy/schema.ts";
import { MAX_BUNDLE_BYTES, MAX_BUNDLE_FILES } from "../../src/domain/rego/bundle.ts";
import { MAX_INPUT_BYTES } from "../../src/contract/evaluation-input.ts";
import { MAX_PARAMS_BYTES, MAX_PARAMS_DEPTH } from "../../src/domain/rego/params.ts";
import { REGO_LIMITS } from "../../src/rego/engine.ts";
import { ROOT } from "../rules/source.ts";
import { readDocument } from "../rules/documentation.ts";
import { readExamples } from "./examples.ts";
import { readLines } from "./facts.ts";

const test = suite("guide/completeness");

type Schema = {
  $ref?: string;
  properties?: Record<string, Schema>;
  items?: Schema;
  anyOf?: readonly Schema[];
  $defs?: Record<string, Schema>;
};

const pathsOfSchema = (schema: object): string[] => pathsBelow(schema, schema, "");

/** The dotted paths of all keys of a JSON Schema; items of a list stand at `[]`. */
function pathsBelow(schema: Schema, root: Schema, path: string): string[] {
  const name = /^#\/\$defs\/(\w+)$/.exec(schema.$ref ?? "")?.[1];
  if (name !== undefined) return pathsBelow(root.$defs?.[name] ?? {}, root, path);
  return [
    ...Object.entries(schema.properties ?? {}).flatMap(([key, value]) => [
      `${path}.${key}`,
      ...pathsBelow(value, root, `${path}.${key}`),
    ]),
    ...(schema.items ? pathsBelow(schema.items, root, `${path}[]`) : []),
    ...(schema.anyOf ?? []).flatMap((branch) => pathsBelow(branch, root, path)),
  ];
}

/** The paths of all keys of a value, as above. */
function pathsOf(value: unknown, path = ""): string[] {
  if (Array.isArray(value)) return value.flatMap((item) => pathsOf(item, `${path}[]`));
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, item]) => [`${path}.${key}`, ...pathsOf(item, `${path}.${key}`)]);
}

const accepted = (topic: string, kind: string): string[] =>
  readExamples(topic).flatMap((example) => (example.kind === kind && example.refused === null ? [example.text] : []));

/** What no example of the page shows. */
const missing = (wanted: Iterable<string>, shown: Iterable<string>): string[] => {
  const all = new Set(shown);
  return [...wanted].filter((one) => !all.has(one));
};

const policies = accepted("policies", "policy").map((text) => parse(text));

test("the page policies has an accepted example of every key of the served JSON Schema", () => {
  assert.equal(
    missing(
      pathsOfSchema(POLICY_SCHEMA),
      policies.flatMap((policy) => pathsOf(policy)),
    ),
    [],
  );
});

test("the page policies has an example of every type, of a wildcard, and of every form of _schema", () => {
  const rules = policies.flatMap(({ artifacts }) => artifacts?.attestations ?? []);
  const types = rules.map(({ type }: any) => String(type).replace(/^custom:.*/, "custom:"));
  assert.equal(missing([...ATTESTATION_TYPES, ...SYSTEM_LABELS, "custom:"], types), []);
  assert.ok(rules.some(({ name }: any) => name === "*"));
  const schemas = policies.map(({ _schema }) => _schema);
  const refused = readExamples("policies").flatMap(({ kind, refused: text }) => (kind === "policy" && text) || []);
  assert.equal(missing([SCHEMA_URL, "https://docs.example.com/schemas/policy/v1", "/v1"], schemas), []);
  for (const part of ["begin with _schema:", "its path must end in /v1", "Possible keys:"])
    assert.ok(
      refused.some((text) => text.includes(part)),
      part,
    );
});

test("the page policy-expressions has an evaluated example of every operator, function, name and kind of value", () => {
  const lines = accepted("policy-expressions", "expressions").flatMap((text) =>
    readLines(text.slice(text.indexOf("\n") + 1)),
  );
  const read = lines.map(({ facts, result }) => {
    const lexed = tokenize(facts);
    return { tokens: "tokens" in lexed ? lexed.tokens : [], result };
  });
  const tokens = read.flatMap((line) => line.tokens);
  const texts = tokens.map(({ text }) => text);
  assert.equal(missing([...COMPARISONS, ...RESERVED, ...CONTEXT_NAMES, "(", ")", "[", "]", ","], texts), []);
  assert.equal(
    missing(
      ["string", "number", "word", "tag", "symbol"],
      tokens.map(({ kind }) => kind),
    ),
    [],
  );
  // One example in which it decides for true, one for false.
  for (const word of [...COMPARISONS, "exists", "matches"]) {
    const results = read.filter((line) => line.tokens.some(({ text }) => text === word)).map(({ result }) => result);
    assert.equal(missing(["true", "false"], results), [], word);
  }
  assert.ok(lines.some(({ result }) => result === "error"));
});

const templates = accepted("templates", "template").map((text) => parse(text));

test("the page templates has an accepted example of every key of the served JSON Schema, and of every type", () => {
  assert.equal(
    missing(
      pathsOfSchema(TEMPLATE_SCHEMA),
      templates.flatMap((template) => pathsOf(template)),
    ),
    [],
  );
  const types = templates.flatMap(({ trail }) =>
    [trail, ...(trail?.artifacts ?? [])].flatMap((level) => level?.attestations ?? []).map(({ type }: any) => type),
  );
  const words = KINDS.flatMap(({ word }) => (word === null ? [] : [word === "custom" ? "custom:coverage" : word]));
  assert.equal(missing([...words, ...SYSTEM_LABELS, ANY_TYPE], types), []);
});

test("the page attestation-types has every key of an upload, and both verdicts of every built-in type", () => {
  const uploads = accepted("attestation-types", "type").map((text) => JSON.parse(text));
  assert.equal(
    missing(
      pathsOfSchema(postCustomAttestationType.body.schema),
      uploads.flatMap((upload) => pathsOf(upload)),
    ),
    [],
  );
  const evaluators = uploads.map(({ evaluator }) => evaluator?.content_type);
  assert.equal(missing(["jq", "default"], evaluators), []);
  const lines = accepted("attestation-types", "reports").flatMap(readLines);
  const types = KINDS.flatMap(({ word }) => (word === null || word === "custom" ? [] : [word]));
  const named = lines.map(({ facts }) => facts.split(" ")[0] ?? "");
  assert.equal(missing(types, named), []);
  for (const type of types.filter((one) => !["generic", "decision", "sbom"].includes(one)))
    assert.equal(
      missing(
        ["COMPLIANT", "NON-COMPLIANT"],
        lines.filter(({ facts }) => facts.startsWith(`${type} `)).map(({ result }) => result),
      ),
      [],
      type,
    );
  const results = accepted("attestation-types", "rule").flatMap(readLines);
  assert.equal(
    missing(
      ["true", "false"],
      results.map(({ result }) => result),
    ),
    [],
  );
});

test("the page actions has an example of every key, trigger and target, and of every message", () => {
  const actions = accepted("actions", "action").map((text) => JSON.parse(text));
  const wanted = [putEnvironmentAction, putFlowAction].flatMap(({ body }) => pathsOfSchema(body.schema));
  const ignored = /^\.targets\[\]\.last_(?:success|failure)_at$/;
  assert.ok(wanted.some((path) => ignored.test(path)));
  const shown = actions.flatMap((action) => pathsOf(action));
  assert.equal(
    missing(
      wanted.filter((path) => !ignored.test(path)),
      shown,
    ),
    [],
  );
  const triggers = [...ENVIRONMENT_TRIGGERS, ...FLOW_TRIGGERS];
  assert.equal(
    missing(
      triggers,
      actions.flatMap((action) => action.triggers),
    ),
    [],
  );
  const targets = actions.flatMap((action) => action.targets.map(({ type }: any) => type));
  assert.equal(missing(TARGET_TYPES, targets), []);
  const sent = accepted("actions", "messages").flatMap(
    (text) => text.match(/\b[A-Z]+_[A-Z_]+\b|\bATTESTATION\b/g) ?? [],
  );
  const never = ["ON_APPROVAL", "ON_RELEASE"];
  assert.equal(missing(triggers.filter((one) => !never.includes(one)).map(eventTypeOf), sent), []);
});

test("every recipe has a policy that is accepted, and a verdict or a command for both outcomes", () => {
  const recipes = readDocument("src/guide/policy-recipes.md").split(/^## /m).slice(1);
  assert.ok(recipes.length >= 7);
  for (const recipe of recipes) {
    const title = recipe.split("\n", 1)[0];
    assert.match(recipe, /^```yaml policy(?: file=\S+)?$/m, title);
    for (const outcome of [/(?:=>|is) COMPLIANT\b/, /(?:=>|is) NON-COMPLIANT\b/]) assert.match(recipe, outcome, title);
  }
});

test("the page rego names every kind of failure, every limit, and what policies cannot call", () => {
  const page = readDocument("src/guide/rego.md");
  const kinds = [
    ...readFileSync(join(ROOT, "src/rego/types.ts"), "utf8").matchAll(
      /"([a-z]+(?:_[a-z]+)+|entrypoint|compile|evaluate)"/g,
    ),
  ];
  assert.ok(kinds.length >= 6);
  const forbidden = /var forbidden = \[\]string\{(.*)\}/.exec(
    readFileSync(join(ROOT, "src/rego/engine/load.go"), "utf8"),
  )?.[1];
  const calls = [...(forbidden ?? "").matchAll(/"(.*?)"/g)];
  assert.is(calls.length, 3);
  for (const [, name] of [...kinds, ...calls]) assert.ok(page.includes(`\`${name}\``), name);
  const { timeMs, memoryBytes } = REGO_LIMITS;
  for (const limit of [
    `${MAX_BUNDLE_FILES} files and ${MAX_BUNDLE_BYTES.toLocaleString("en")} bytes`,
    `${timeMs / 1_000} seconds and ${memoryBytes / 2 ** 20} MiB`,
    `an input ${MAX_INPUT_BYTES / 2 ** 20} MB`,
    `parameters ${MAX_PARAMS_BYTES.toLocaleString("en")} bytes and ${MAX_PARAMS_DEPTH} levels`,
  ])
    assert.ok(page.includes(limit), limit);
  assert.ok(page.split("\n").length <= 121);
});

test.run();
