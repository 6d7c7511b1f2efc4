/** Users' schemas: which are accepted, and the problems that they report. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { compileTypeSchema } from "../../../src/workers/sandbox/json-schema.ts";

const test = suite("workers/sandbox/json-schema");
const DRAFT_07 = "http://json-schema.org/draft-07/schema#";
const DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema";
type Json = Record<string, unknown>;

const textOf = (value: unknown): string => JSON.stringify(value);
/** What the check of a schema says about data, both as JSON text. */
function saysOf(schema: string, data: string): string | null {
  const compiled = compileTypeSchema(schema);
  if ("problem" in compiled) throw new Error(compiled.problem);
  return compiled.check(data);
}
const says = (schema: Json, data: unknown): string | null => saysOf(textOf(schema), textOf(data));
function problem(schema: Json): string | null {
  const compiled = compileTypeSchema(textOf(schema));
  return "problem" in compiled ? compiled.problem : null;
}

test("uses the dialect of $schema, 2020-12 by default", () => {
  const tuple = { prefixItems: [{ type: "string" }] };
  const wrong = "attestation_data.0: must be string";
  for (const $schema of [undefined, DRAFT_2020, `${DRAFT_2020}#`])
    assert.is(says($schema === undefined ? tuple : { $schema, ...tuple }, [1]), wrong);
  const old = { items: [{ type: "string" }] };
  for (const $schema of [DRAFT_07, DRAFT_07.slice(0, -1), DRAFT_07.replace("http:", "https:")])
    assert.is(says({ $schema, ...old }, [1]), wrong, $schema);
  assert.is(says({ $schema: DRAFT_07, ...tuple }, [1]), null, "a word that the dialect does not know says nothing");
  assert.match(String(problem(old)), /^type_schema\.items: must be object,boolean/);
});

test("refuses other dialects, invalid schemas and external references, in one line", () => {
  const choice = `is not served. Use draft-07 (${DRAFT_07}) or 2020-12 (${DRAFT_2020})`;
  for (const [schema, expected] of [
    [
      { $schema: "http://json-schema.org/draft-04/schema#" },
      `$schema: the dialect 'http://json-schema.org/draft-04/schema#' ${choice}`,
    ],
    [
      { $schema: "https://json-schema.org/draft/2019-09/schema" },
      `$schema: the dialect 'https://json-schema.org/draft/2019-09/schema' ${choice}`,
    ],
    [{ $schema: 7 }, `$schema: the dialect 7 ${choice}`],
    [{ $schema: "" }, `$schema: the dialect '' ${choice}`],
    [{ properties: { a: { minimum: "x" } } }, "type_schema.properties.a.minimum: must be number"],
    [{ required: ["a", "a"] }, "type_schema.required: must NOT have duplicate items (items ## 1 and 0 are identical)"],
    [{ $ref: "#/$defs/nothing" }, "can't resolve reference #/$defs/nothing from id #"],
    [
      { $ref: "https://schemas.example.com/other.json" },
      "can't resolve reference https://schemas.example.com/other.json from id #",
    ],
    [{ $id: DRAFT_2020 }, `schema with key or id "${DRAFT_2020}" already exists`],
    [{ pattern: "(" }, "the pattern '(' does not compile: Unterminated group"],
    [{ $async: true }, "$async is not a keyword of JSON Schema"],
    [{ properties: { a: { $async: true } } }, "$async is not a keyword of JSON Schema"],
    [{ enum: Array.from({ length: 10_001 }, (_, i) => i) }, "the schema has more than 10000 parts"],
  ] as const)
    assert.is(problem(schema), expected);
  assert.match(
    String(problem({ type: "text" })),
    new RegExp(
      "^type_schema\\.type: must match a schema in anyOf " +
        "\\(type_schema\\.type: must be equal to one of the allowed values: 'array', ",
    ),
  );
});

test("refuses endless references without following them", () => {
  let deep: Json = { type: "string" };
  for (let i = 0; i < 4_000; i++) deep = { not: deep };
  const endless = "the schema is too large, nests too deeply or refers to itself without end";
  assert.is(problem(deep), endless);
  assert.is(problem({ $ref: "#" }), endless);
  assert.is(problem({ not: { $ref: "#" } }), endless);
  assert.is(says({ if: { const: 1 }, then: { $ref: "#" } }, 1), `attestation_data: ${endless}`);
});

test("names path and problem in one line", () => {
  const item = {
    type: "object",
    required: ["name"],
    properties: { name: { type: "string", minLength: 2 } },
    additionalProperties: false,
  };
  for (const [schema, data, expected] of [
    [
      { type: "array", items: item },
      [{ name: "ab" }, { name: "c" }],
      "attestation_data.1.name: must NOT have fewer than 2 characters",
    ],
    [{ type: "array", items: item }, [{}], "attestation_data.0: must have required property 'name'"],
    [item, { name: "ab", "a\nb": 1 }, "attestation_data: must NOT have additional properties ('a\\u000ab')"],
    [{ type: "object" }, [], "attestation_data: must be object"],
    [{ enum: ["a", 1, null] }, "b", "attestation_data: must be equal to one of the allowed values: 'a', 1, null"],
    [{ const: { a: 1 } }, 1, 'attestation_data: must be equal to constant {"a":1}'],
    [
      { anyOf: [{ type: "string" }, { minimum: 3 }] },
      1,
      "attestation_data: must match a schema in anyOf (attestation_data: must be string)",
    ],
    [{ properties: { "a/b~c": { type: "null" } } }, { "a/b~c": 1 }, "attestation_data.a/b~c: must be null"],
    [{ unevaluatedProperties: false }, { a: 1 }, "attestation_data: must NOT have unevaluated properties ('a')"],
    [{ const: "x".repeat(1_000) }, 1, `attestation_data: must be equal to constant '${"x".repeat(100)}...'`],
  ] as const)
    assert.is(says(schema, data), expected);
});

test("asserts formats, and ignores unknown formats and keywords", () => {
  for (const [format, good, bad] of [
    ["uri", "https://ci.test/1", "ci test"],
    ["date-time", "2026-01-31T12:00:00Z", "yesterday"],
    ["email", "ada@example.com", "ada"],
    ["uuid", "0f5c9a1d-2b3e-4f50-8172-8394a5b60000", "0f5c"],
    ["ipv4", "10.0.0.1", "10.0.0.256"],
  ] as const)
    for (const $schema of [DRAFT_07, DRAFT_2020]) {
      assert.is(says({ $schema, format }, good), null, format);
      assert.is(says({ $schema, format }, bad), `attestation_data: must match format "${format}"`);
    }
  assert.is(says({ format: "colour", "x-note": { type: "nothing" } }, "red"), null);
});

test("accepts any root type, and checks own properties only", () => {
  for (const data of [null, true, 0, "", [], {}]) assert.is(says({}, data), null);
  assert.is(says({ type: "array" }, []), null);
  for (const name of ["toString", "constructor", "hasOwnProperty"])
    assert.is(says({ required: [name] }, {}), `attestation_data: must have required property '${name}'`);
  assert.is(
    says({ additionalProperties: false }, JSON.parse('{"__proto__":1}')),
    "attestation_data: must NOT have additional properties ('__proto__')",
  );
  assert.is(
    says({ properties: { $async: { type: "string" } } }, { $async: 1 }),
    "attestation_data.$async: must be string",
  );
});

test("resolves references inside a schema and to the published meta-schema", () => {
  const tree = {
    $defs: { node: { type: "object", properties: { next: { $ref: "#/$defs/node" } }, additionalProperties: false } },
    $ref: "#/$defs/node",
  };
  assert.is(says(tree, { next: { next: {} } }), null);
  assert.is(says(tree, { next: { last: 1 } }), "attestation_data.next: must NOT have additional properties ('last')");
  assert.is(says({ $ref: DRAFT_2020 }, { minimum: "x" }), "attestation_data.minimum: must be number");
});

test("compares numbers without rounding, those of the data and those of the schema", () => {
  const OVER = "9007199254740993";
  const at = (text: string): string => `attestation_data: ${text}`;
  for (const [schema, data, expected] of [
    ['{"maximum":9007199254740992}', OVER, at("must be <= 9007199254740992")],
    ['{"maximum":9007199254740993}', OVER, null],
    ['{"maximum":9007199254740993}', "9007199254740994", at("must be <= 9007199254740993")],
    ['{"exclusiveMinimum":9007199254740993}', OVER, at("must be > 9007199254740993")],
    ['{"minimum":18446744073709551615}', "18446744073709551614", at("must be >= 18446744073709551615")],
    ['{"minimum":18446744073709551615}', "18446744073709551615.0", null],
    ['{"exclusiveMaximum":-9007199254740992}', "-9007199254740993", null],
    ['{"maximum":0}', "1e-400", at("must be <= 0")],
    ['{"exclusiveMinimum":0}', "1e-400", null],
    ['{"exclusiveMinimum":0}', "-0", at("must be > 0")],
    ['{"maximum":1e308}', "1e400", at("must be <= 1e+308")],
    ['{"maximum":1e400}', "10e399", null],
    ['{"maximum":0.1}', "0.1000000000000000055511151231257827", at("must be <= 0.1")],
    ['{"type":"integer"}', "1e400", null],
    ['{"type":"integer"}', "9007199254740993.5", at("must be integer")],
    ['{"type":"integer"}', "1e-400", at("must be integer")],
    ['{"type":"string"}', OVER, at("must be string")],
    ['{"const":9007199254740993}', OVER, null],
    ['{"const":9007199254740993}', "9007199254740993.0", null],
    ['{"const":9007199254740992}', OVER, at("must be equal to constant 9007199254740992")],
    ['{"const":{"a":[9007199254740993]}}', '{"a":[9007199254740993]}', null],
    ['{"const":1}', "1.0", null],
    ['{"const":0}', "-0", null],
    ['{"enum":[1,9007199254740993]}', OVER, null],
    [
      '{"enum":[9007199254740993]}',
      "9007199254740992",
      at("must be equal to one of the allowed values: 9007199254740993"),
    ],
    ['{"uniqueItems":true}', "[9007199254740993,9007199254740992]", null],
    ['{"uniqueItems":true}', "[1e400,10e399]", at("must NOT have duplicate items (items ## 1 and 0 are identical)")],
    [
      '{"uniqueItems":true}',
      '[{"a":1,"b":2},{"b":2,"a":1.0}]',
      at("must NOT have duplicate items (items ## 1 and 0 are identical)"),
    ],
    ['{"uniqueItems":true}', '["1",1,[1],{"1":1},true,"true",null,"null"]', null],
    ['{"uniqueItems":false}', "[1,1]", null],
    ['{"format":"int32"}', OVER, at('must match format "int32"')],
    ['{"maxLength":9007199254740993}', '"a"', null],
    [
      '{"items":{"maximum":9007199254740992}}',
      "[1,9007199254740993]",
      "attestation_data.1: must be <= 9007199254740992",
    ],
    ['{"$defs":{"n":{"maximum":9007199254740992}},"$ref":"#/$defs/n"}', OVER, at("must be <= 9007199254740992")],
    [
      '{"patternProperties":{"^n":{"not":{"maximum":9007199254740992}}}}',
      '{"n":9007199254740992}',
      "attestation_data.n: must NOT be valid",
    ],
  ] as const)
    assert.is(saysOf(schema, data), expected, `${data} by ${schema}`);
});

test("multipleOf counts in decimals", () => {
  for (const [divisor, data, isMultiple] of [
    ["0.01", "19.99", true],
    ["0.01", "19.999", false],
    ["0.1", "0.3", true],
    ["0.0001", "0.0075", true],
    ["3", "9007199254740993", true],
    ["3", "9007199254740992", false],
    ["1e-400", "1e400", true],
    ["3", "1e400", false],
    ["9", "9e999999999", true],
    ["2.5", "1e1", true],
    ["1e1", "5", false],
    ["5", "0", true],
    ["0.5", "-1.5", true],
  ] as const)
    assert.is(
      saysOf(`{"multipleOf":${divisor}}`, data),
      isMultiple ? null : `attestation_data: must be multiple of ${divisor.replace("1e1", "10")}`,
      `${data} by ${divisor}`,
    );
});

test("refuses a schema whose bounds are no bounds, whatever their digits", () => {
  const problemOf = (schema: string): string | null => {
    const compiled = compileTypeSchema(schema);
    return "problem" in compiled ? compiled.problem : null;
  };
  assert.match(String(problemOf('{"minLength":2.00000000000000000001}')), "type_schema.minLength: must be integer");
  assert.match(String(problemOf('{"multipleOf":-1e-400}')), "type_schema.multipleOf: must be > 0");
  assert.is(problemOf('{"multipleOf":1e-400}'), null);
});

test("takes patterns that compile only without the flag u, and gives all others their meaning with it", () => {
  const pattern = (source: string): Json => ({ pattern: source });
  for (const [source, matching, other] of [
    [String.raw`^\d{4}\-\d{2}\-\d{2}$`, "2026-01-31", "2026:01:31"],
    [String.raw`^https\:\/\/`, "https://x", "http://x"],
    [String.raw`^[A-Za-z0-9\-\_]+$`, "a-b_c", "a b"],
    [String.raw`^\$\{\{.*}}$`, "${{ x }}", "{{ x }}"],
    [String.raw`^\p{Lu}$`, "É", "p{Lu}"],
    [String.raw`^\-\*+$`, "-**", "-"],
    ["^.$", "😀", "ab"],
    [String.raw`^\\A$`, String.raw`\A`, "A"],
  ] as const) {
    assert.is(says(pattern(source), matching), null, source);
    assert.match(String(says(pattern(source), other)), "must match pattern", source);
  }
  const properties = { patternProperties: { [String.raw`^a\-b$`]: { type: "string" } } };
  assert.is(says(properties, { "a-b": 1 }), "attestation_data.a-b: must be string");
});

test("says so where a pattern has the syntax of Python or needs the flag u", () => {
  const python = (source: string, found: string, instead: string): void =>
    assert.is(
      problem({ pattern: source }),
      `the pattern '${source}' has ${found}, which JSON Schema does not know (Python's re does): use ${instead}`,
    );
  python("^(?P<day>x)$", "(?P<day>", "(?<name>...)");
  python("(?P<a>x)(?P=a)", "(?P<a>", "(?<name>...)");
  python("(?i)abc", "(?i)", "[Aa] for letters of both cases");
  python(String.raw`\Aabc`, String.raw`\A`, "^");
  python(String.raw`abc\Z`, String.raw`\Z`, "$");
  python("^a{,3}$", "{,3}", "{0,N}");
  python("a(?#b)", "(?#b)", "$comment beside the pattern");
  python("a++b", "++", "the repetition without its last +");
  assert.is(problem({ pattern: "(" }), "the pattern '(' does not compile: Unterminated group");
  assert.is(
    problem({ pattern: String.raw`^\p{L}\-$` }),
    String.raw`the pattern '^\p{L}\-$' does not compile: Invalid escape`,
  );
});

test.run();
