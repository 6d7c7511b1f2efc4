import { Ajv2020 } from "ajv/dist/2020.js";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parse } from "yaml";
import { TYPE_WORDS_TEXT } from "../../../src/domain/attestation/kinds.ts";
import {
  EMPTY_TEMPLATE_TEXT,
  buildLegacyTemplate,
  parseTemplate,
  renderTemplateProblems,
  TEMPLATE_SCHEMA,
} from "../../../src/domain/flow-template/template.ts";

const test = suite("domain/flow-template/template");

/** The refusal as users see it, or the template. */
function outcome(text: string): unknown {
  const { template, problems } = parseTemplate(text);
  return template ?? renderTemplateProblems(problems);
}
const empty = { version: 1, trail: { attestations: [], artifacts: [] } };
const trailOf = (attestations: unknown[], artifacts: unknown[] = []): unknown => ({
  version: 1,
  trail: { attestations, artifacts },
});
const MERGE_KEYS = "merge keys (<<) are not supported: write the keys of the other mapping here";
const refusal = (...problems: string[]): string =>
  [`${problems.length} validation errors for Template`, ...problems].join("\n");

const TYPES =
  "Input should be 'generic', 'junit', 'snyk', 'pull_request', 'jira', 'sonar', 'decision', 'sbom', " +
  "'custom:<type-name>' or '*'";
const whole = `
version: 1
trail:
  attestations:
  - {name: ticket, type: jira}
  - {name: "a,B-9_", type: "*"}
  artifacts:
  - name: app
    attestations:
    - name: ticket
      type: custom:coverage.v2
    - name: approval
      type: decision
  - name: db_1
    attestations:
    - name: ticket
      type: "*"
  - name: web
`;

/** Text, outcome, and `true` if JSON Schema cannot express the refusal, so that the served schema accepts the text. */
const table: [text: string, expected: unknown, beyondSchema?: boolean][] = [
  [EMPTY_TEMPLATE_TEXT, empty],
  ["{}", empty],
  ["trail:", empty],
  ["version: 1\ntrail: null", empty],
  ["version: 1\ntrail: {}", empty],
  ["version: 1\ntrail: {attestations: [], artifacts: []}", empty],
  ["---\nversion: 1\n...\n", empty],
  ["\ufeffversion: 1\r\ntrail: ~\r\n", empty],
  ["# a licence\n\nversion: 1 # one\n\n# the end", empty],
  [
    whole,
    trailOf(
      [
        { name: "ticket", type: "jira" },
        { name: "a,B-9_", type: "*" },
      ],
      [
        {
          name: "app",
          attestations: [
            { name: "ticket", type: "custom:coverage.v2" },
            { name: "approval", type: "decision" },
          ],
        },
        { name: "db_1", attestations: [{ name: "ticket", type: "*" }] },
        { name: "web", attestations: [] },
      ],
    ),
  ],
  // semantics 13.41: any type, on both levels
  ['trail: {attestations: [{name: a, type: "*"}]}', trailOf([{ name: "a", type: "*" }])],
  [
    'trail: {artifacts: [{name: x, attestations: [{name: a, type: "*"}]}]}',
    trailOf([], [{ name: "x", attestations: [{ name: "a", type: "*" }] }]),
  ],
  // reuse by alias
  [
    "trail:\n  attestations: &all\n  - {name: a, type: snyk}\n  artifacts:\n  - {name: x, attestations: *all}\n",
    trailOf([{ name: "a", type: "snyk" }], [{ name: "x", attestations: [{ name: "a", type: "snyk" }] }]),
  ],
  // the root
  ["", refusal("template_file\n  Input should be a valid object [input: null] (line 1, column 1)")],
  ["# only this", refusal("template_file\n  Input should be a valid object [input: null] (line 1, column 1)")],
  ["[a]", refusal("template_file\n  Input should be a valid object [input: [...]] (line 1, column 1)")],
  ["some text", refusal("template_file\n  Input should be a valid object [input: some text] (line 1, column 1)")],
  [
    "trial: {}",
    refusal(
      "trial\n  Extra inputs are not permitted [input: {...}]; did you mean trail?" +
        " Possible keys: version, trail (line 1, column 1)",
    ),
  ],
  ["<<: {version: 1}", refusal(`<<\n  ${MERGE_KEYS} (line 1, column 1)`)],
  // the version
  ["version: 2", refusal("version\n  Input should be 1 [input: 2] (line 1, column 10)")],
  ["version: '1'", refusal('version\n  Input should be 1 [input: "1"] (line 1, column 10)')],
  ["version: 1.5", refusal("version\n  Input should be 1 [input: 1.5] (line 1, column 10)")],
  ["version: true", refusal("version\n  Input should be 1 [input: true] (line 1, column 10)")],
  ["version:", refusal("version\n  Input should be 1 [input: null] (line 1, column 9)")],
  ["version: [1]", refusal("version\n  Input should be 1 [input: [...]] (line 1, column 10)")],
  // the trail
  ["trail: []", refusal("trail\n  Input should be a valid object [input: [...]] (line 1, column 8)")],
  [
    "trail: {attestations: null}",
    refusal("trail.attestations\n  Input should be a valid list [input: null] (line 1, column 23)"),
  ],
  [
    "trail: {artifacts: {}}",
    refusal("trail.artifacts\n  Input should be a valid list [input: {...}] (line 1, column 20)"),
  ],
  [
    "trail: {attestation: []}",
    refusal(
      "trail.attestation\n  Extra inputs are not permitted [input: [...]]" +
        "; did you mean attestations? Possible keys: attestations, artifacts (line 1, column 9)",
    ),
  ],
  // attestations
  [
    "trail: {attestations: [a]}",
    refusal("trail.attestations.0\n  Input should be a valid object [input: a] (line 1, column 24)"),
  ],
  ["trail: {attestations: [{type: snyk}]}", refusal("trail.attestations.0.name\n  Field required (line 1, column 24)")],
  [
    "trail: {attestations: [{name: a}]}",
    refusal(`trail.attestations.0.type\n  Field required: write ${TYPE_WORDS_TEXT} (line 1, column 24)`),
  ],
  [
    "trail: {attestations: [{name: '', type: snyk}]}",
    refusal("trail.attestations.0.name\n  String should have at least 1 character [input: ] (line 1, column 31)"),
  ],
  [
    "trail: {attestations: [{name: 12, type: snyk}]}",
    refusal("trail.attestations.0.name\n  Input should be a valid string [input: 12] (line 1, column 31)"),
  ],
  [
    "trail: {attestations: [{name: a, type: null}]}",
    refusal("trail.attestations.0.type\n  Input should be a valid string [input: null] (line 1, column 40)"),
  ],
  // semantics 13.42: names that no report can have
  [
    "trail: {attestations: [{name: a.b, type: snyk}]}",
    refusal(
      "trail.attestations.0.name\n  String should match pattern '^[a-zA-Z0-9\\-_,]+$' [input: a.b] (line 1, column 31)",
    ),
  ],
  [
    "trail: {artifacts: [{name: 'a,b'}]}",
    refusal(
      "trail.artifacts.0.name\n  String should match pattern '^[a-zA-Z0-9\\-_]+$' [input: a,b] (line 1, column 28)",
    ),
  ],
  [
    'trail: {artifacts: [{name: "a\\n"}]}',
    refusal(
      "trail.artifacts.0.name\n  String should match pattern '^[a-zA-Z0-9\\-_]+$' [input: a\\u000a] (line 1, " +
        "column 28)",
    ),
  ],
  [
    "trail: {attestations: [{name: a, type: pull-request}]}",
    refusal(`trail.attestations.0.type\n  ${TYPES} [input: pull-request] (line 1, column 40)`),
  ],
  [
    "trail: {attestations: [{name: a, type: artifact}]}",
    refusal(`trail.attestations.0.type\n  ${TYPES} [input: artifact] (line 1, column 40)`),
  ],
  [
    "trail: {attestations: [{name: a, type: 'custom:'}]}",
    refusal(`trail.attestations.0.type\n  ${TYPES} [input: custom:] (line 1, column 40)`),
  ],
  [
    "trail: {attestations: [{name: a, type: custom:-x}]}",
    refusal(`trail.attestations.0.type\n  ${TYPES} [input: custom:-x] (line 1, column 40)`),
  ],
  [
    "trail: {attestations: [{name: a, type: 'system:nothing'}]}",
    refusal(`trail.attestations.0.type\n  ${TYPES} [input: system:nothing] (line 1, column 40)`),
  ],
  [
    "trail: {attestations: [{name: a, type: snyk, x: 1}]}",
    refusal(
      "trail.attestations.0.x\n  Extra inputs are not permitted [input: 1]" +
        "; possible keys: name, type (line 1, column 46)",
    ),
  ],
  // artifacts
  ["trail: {artifacts: [{attestations: []}]}", refusal("trail.artifacts.0.name\n  Field required (line 1, column 21)")],
  [
    "trail: {artifacts: [{name: x, type: snyk}]}",
    refusal(
      "trail.artifacts.0.type\n  Extra inputs are not permitted [input: snyk]" +
        "; possible keys: name, attestations (line 1, column 31)",
    ),
  ],
  [
    "trail: {artifacts: [{name: x, attestations: [{name: a, type: b}]}]}",
    refusal(`trail.artifacts.0.attestations.0.type\n  ${TYPES} [input: b] (line 1, column 62)`),
  ],
  // repeated names: refused in one list, accepted in two lists
  [
    "trail: {attestations: [{name: a, type: snyk}, {name: a, type: jira}]}",
    refusal("trail.attestations.1.name\n  Name is used more than once in this list [input: a] (line 1, column 47)"),
    true,
  ],
  [
    "trail: {artifacts: [{name: a}, {name: a}]}",
    refusal("trail.artifacts.1.name\n  Name is used more than once in this list [input: a] (line 1, column 32)"),
    true,
  ],
  [
    "trail: {artifacts: [{name: x, attestations: [{name: a, type: snyk}]}, {name: y, attestations: [{name: " +
      "a, type: snyk}]}]}",
    trailOf(
      [],
      ["x", "y"].map((name) => ({ name, attestations: [{ name: "a", type: "snyk" }] })),
    ),
  ],
  // cycles end at the depth of the known shape
  [
    "trail: &a {attestations: *a}",
    refusal("trail.attestations\n  Input should be a valid list [input: {...}] (line 1, column 26)"),
    true,
  ],
  [
    "trail: {artifacts: &a [*a]}",
    refusal("trail.artifacts.0\n  Input should be a valid object [input: [...]] (line 1, column 24)"),
    true,
  ],
  [
    "trail: *b",
    refusal("trail\n  Input should be a valid object [input: *b, an alias without anchor] (line 1, column 8)"),
    true,
  ],
  // repeated keys
  ["version: 1\nversion: 1\n", refusal("version\n  Key is given more than once (line 2, column 1)"), true],
  // not YAML: one problem
  [
    "a: [",
    refusal(
      "template_file\n  Not YAML: Flow sequence in block collection must be sufficiently indented and end with " +
        "a ] (line 1, column 5)",
    ),
    true,
  ],
  [
    "a: b: c",
    refusal("template_file\n  Not YAML: Nested mappings are not allowed in compact mappings (line 1, column 4)"),
    true,
  ],
  [
    "trail:\n\tartifacts: []",
    refusal("template_file\n  Not YAML: Tabs are not allowed as indentation (line 2, column 1)"),
    true,
  ],
  [
    "trail:\n  attestations:\n  - name: x\n    type: *\n",
    refusal(
      'template_file\n  Not YAML: Alias cannot be an empty string (to accept any type write "*" in quotes) ' +
        "(line 4, column 11)",
    ),
    true,
  ],
  [
    "version: 1\n---\nversion: 1\n",
    refusal("template_file\n  Expected a single YAML document, but another one begins here (line 2, column 1)"),
    true,
  ],
  ["!python/object {}", refusal("template_file\n  Not YAML: Unresolved tag: !python/object (line 1, column 1)"), true],
  [
    "version: 1\u0000",
    refusal("template_file\n  Not YAML: the character U+0000 is not allowed in YAML (line 1, column 11)"),
    true,
  ],
  [
    "# x\nversion: \ud800",
    refusal("template_file\n  Not YAML: the character U+D800 is not allowed in YAML (line 2, column 10)"),
    true,
  ],
];

const validate = new Ajv2020({ strict: true, strictRequired: false }).compile(TEMPLATE_SCHEMA);

for (const [text, expected, beyondSchema = false] of table) {
  test(`reads ${JSON.stringify(text)}`, () => {
    assert.equal(outcome(text), expected);
    if (!beyondSchema) assert.is(validate(parse(text)), typeof expected !== "string", "the schema agrees");
  });
}

test("reports all mistakes at once, in text order", () => {
  const text = `version: 3
trail:
  attestations:
  - name: x
    name: y
    type: foo
  - name: x
  - {name: '', type: 3}
  - 5
  artifacts: {}
  zzz: 1
`;
  assert.is(
    outcome(text),
    refusal(
      "version\n  Input should be 1 [input: 3] (line 1, column 10)",
      "trail.attestations.0.name\n  Key is given more than once (line 5, column 5)",
      `trail.attestations.0.type\n  ${TYPES} [input: foo] (line 6, column 11)`,
      `trail.attestations.1.type\n  Field required: write ${TYPE_WORDS_TEXT} (line 7, column 5)`,
      "trail.attestations.1.name\n  Name is used more than once in this list [input: x] (line 7, column 5)",
      "trail.attestations.2.name\n  String should have at least 1 character [input: ] (line 8, column 12)",
      "trail.attestations.2.type\n  Input should be a valid string [input: 3] (line 8, column 22)",
      "trail.attestations.3\n  Input should be a valid object [input: 5] (line 9, column 5)",
      "trail.artifacts\n  Input should be a valid list [input: {...}] (line 10, column 14)",
      "trail.zzz\n  Extra inputs are not permitted [input: 1]" +
        "; possible keys: attestations, artifacts (line 11, column 3)",
    ),
  );
});

test("reports problems of the whole text with the others, as long as it is YAML", () => {
  assert.is(
    outcome("version: !one 2\ntrail: *nobody\n---\n"),
    refusal(
      "template_file\n  Not YAML: Unresolved tag: !one (line 1, column 10)",
      "version\n  Input should be 1 [input: 2] (line 1, column 15)",
      "trail\n  Input should be a valid object [input: *nobody, an alias without anchor] (line 2, column 8)",
      "template_file\n  Expected a single YAML document, but another one begins here (line 3, column 1)",
    ),
  );
  assert.is(parseTemplate(`${"- !x y\n".repeat(200)}---\n`).problems?.length, 100);
});

test("reports only the earliest syntax error of a text that is not YAML", () => {
  const table: [text: string, problem: string][] = [
    [
      "version: 3\nx: @y\nz: b: c\n\u0000",
      "Not YAML: Plain value cannot start with reserved character @ (line 2, column 4)",
    ],
    ["version: 3\nx: b: c\ny: [", "Not YAML: Nested mappings are not allowed in compact mappings (line 2, column 4)"],
    ["# \u0000\nx: @y", "Not YAML: the character U+0000 is not allowed in YAML (line 1, column 3)"],
    ["version: 1\n# \u001b\n", "Not YAML: the character U+001B is not allowed in YAML (line 2, column 3)"],
    ["\n#\udc00\nversion: 1", "Not YAML: the character U+DC00 is not allowed in YAML (line 2, column 2)"],
    [`version: 1\n]\n${"[".repeat(100)}`, "Not YAML: Unexpected flow-seq-end token in YAML stream (line 2, column 1)"],
  ];
  for (const [text, problem] of table)
    assert.is(outcome(text), refusal(`template_file\n  ${problem}`), JSON.stringify(text));
});

test("reports at most a hundred problems, each of a bounded length", () => {
  const { problems } = parseTemplate(
    `trail: {attestations: [${`{name: ${"a.".repeat(5000)}, type: x},`.repeat(200)}]}`,
  );
  assert.is(problems?.length, 100);
  for (const { problem } of problems ?? []) assert.ok(problem.length < 400, problem);
});

test("converts a list of names into one artifact with attestations of any type", () => {
  const { text, template } = buildLegacyTemplate(["artifact", "unit-test", "123", "null", "unit-test", "a,b"]);
  assert.equal(parseTemplate(text).template, template);
  assert.ok(text.startsWith("version: 1\n"));
  assert.equal(
    outcome(text),
    trailOf(
      [],
      [{ name: "artifact", attestations: ["unit-test", "123", "null", "a,b"].map((name) => ({ name, type: "*" })) }],
    ),
  );
  for (const names of [[], ["artifact"]])
    assert.equal(outcome(buildLegacyTemplate(names).text), trailOf([], [{ name: "artifact", attestations: [] }]));
});

test.run();
