import { suite } from "uvu";
import * as assert from "uvu/assert";
import { renderDiagnostics } from "../../../src/domain/policy/diagnostics.ts";
import { controlReferencesOf, parsePolicy, dumpPolicy } from "../../../src/domain/policy/document.ts";
import type { PolicyDocument } from "../../../src/domain/policy/document.ts";
import { SCHEMA_URL } from "../../../src/domain/policy/schema.ts";

const S = "_schema: https://example.com/schemas/policy/v1\n";

function accepted(text: string): PolicyDocument {
  const { policy, problems } = parsePolicy(text);
  if (policy === null) throw new Error(renderDiagnostics(problems));
  return policy;
}

/** Problems as `line:column path: text`. */
function refused(text: string): string[] {
  const { problems } = parsePolicy(text);
  if (problems === null) throw new Error("the policy was accepted");
  return problems.map(({ line, column, path, problem }) => `${line}:${column} ${path}: ${problem}`);
}

const valid = suite("domain/policy/document: accepted files");

const EMPTY_RULE = { required: false, exceptions: [] };

valid("only _schema: every default", () => {
  assert.equal(dumpPolicy(accepted(S)), {
    schema_version: "1",
    artifacts: { provenance: EMPTY_RULE, trail_compliance: EMPTY_RULE, attestations: [] },
  });
});

valid("everything at once, normalized", () => {
  const policy = accepted(`# a comment
_schema: https://app.example.com/schemas/policy/environment/v1
artifacts:
  provenance:
    required: true
    exceptions:
      - if: \${{ matches(artifact.name, "^ghcr\\.io/") }}
      - if: null
      - if:
      - {}
  trail-compliance:
    required: false
    exceptions: []
  attestations:
    - type: "*"
      name: security-scan
    - type: generic
    - type: custom:coverage-report.v1~x
      name: "*"
      if: flow.tags.risk == 'high'
      must_be_compliant: false
    - type: decision
      for_control: SDLC-7
    - {type: decision, name: approval, for_control: null, if: null}
`);
  assert.equal(dumpPolicy(policy), {
    schema_version: "1",
    artifacts: {
      provenance: {
        required: true,
        exceptions: [
          { if_condition: { text: 'matches(artifact.name, "^ghcr\\.io/")' } },
          { if_condition: null },
          { if_condition: null },
          { if_condition: null },
        ],
      },
      trail_compliance: EMPTY_RULE,
      attestations: [
        { if_condition: null, name: "security-scan", type: "*", must_be_compliant: true, for_control: null },
        { if_condition: null, name: "*", type: "generic", must_be_compliant: true, for_control: null },
        {
          if_condition: { text: "flow.tags.risk == 'high'" },
          name: "*",
          type: "custom:coverage-report.v1~x",
          must_be_compliant: false,
          for_control: null,
        },
        { if_condition: null, name: "*", type: "decision", must_be_compliant: true, for_control: "SDLC-7" },
        { if_condition: null, name: "approval", type: "decision", must_be_compliant: true, for_control: null },
      ],
    },
  });
  assert.equal(controlReferencesOf(policy), [
    { control: "SDLC-7", line: 23, column: 20, path: "artifacts.attestations.3.for_control" },
  ]);
});

for (const type of ["generic", "junit", "snyk", "pull_request", "jira", "sonar", "decision", "sbom", "custom:x"]) {
  valid(`type ${type}`, () => {
    assert.is(accepted(`${S}artifacts: {attestations: [{type: "${type}"}]}`).attestations[0]?.type, type);
  });
}

for (const schema of [
  "https://h/schemas/policy/v1",
  "https://other.example/x/schemas/policy/environment/v1",
  "/schemas/v1",
  "http://h:8080/v1",
  "https://h/v1?x=/v2",
  "https://h/v1#top",
  "h.example/schemas/v1",
]) {
  valid(`_schema ${schema}`, () => void accepted(`_schema: "${schema}"`));
}

const SAME: [string, string][] = [
  ["a byte order mark", `\ufeff${S}`],
  ["Windows line ends", "_schema: /v1\r\nartifacts:\r\n  provenance:\r\n    required: true\r\n"],
  ["document markers", `---\n${S}...\n`],
  ["comments around", `# a\n\n  # b\n${S}# c\n\n#d`],
  ["JSON", '{"_schema": "/v1", "artifacts": {"provenance": {"required": true}}}'],
  ["core schema booleans", "_schema: /v1\nartifacts: {provenance: {required: TRUE}}"],
  [
    "an anchor and an alias",
    '_schema: /v1\nartifacts:\n  provenance: &r {required: true, exceptions: [{if: &c "exists(flow)"}, {if: ' +
      "*c}]}\n  trail-compliance: *r\n",
  ],
  [
    "an anchor used again and again",
    `_schema: /v1\nartifacts:\n  attestations: [&a {type: junit}, ${"*a, ".repeat(200)}]\n`,
  ],
  ["a YAML 1.1 directive, read as 1.2", "%YAML 1.1\n---\n_schema: /v1\n"],
  ["explicit core tags", "!!map\n_schema: !!str /v1\n"],
];
for (const [what, text] of SAME) valid(what, () => void accepted(text));

valid("an alias for a whole rule", () => {
  const { provenance, trailCompliance } = accepted(SAME[6]?.[1] ?? "");
  assert.is(trailCompliance.required, true);
  assert.equal(trailCompliance.exceptions, provenance.exceptions);
});

valid("a comment after a block scalar, which is not a line of the scalar", () => {
  const policy = accepted(
    `${S}artifacts:\n  attestations:\n  - type: junit\n    if: |\n      flow.name\n      == 'a'\n\n# the end\n`,
  );
  assert.is(policy.attestations[0]?.condition?.text, "flow.name\n== 'a'");
  const scalar = accepted(`${S}artifacts:\n  attestations:\n  - type: junit\n    name: |-\n      a\n      # b`);
  assert.is(scalar.attestations[0]?.name, "a\n# b");
});

valid.run();

const invalid = suite("domain/policy/document: refused files");

const REFUSED: [what: string, text: string, problems: string[]][] = [
  ["an empty file", "", ["1:1 : the file is empty"]],
  ["a comment only", "# nothing\n", ["2:1 : the file is empty"]],
  ["a document start only", "---\n", ["1:4 : Input should be a valid mapping [input: null]"]],
  ["null", "null", ["1:1 : Input should be a valid mapping [input: null]"]],
  ["a list", "- a", ["1:1 : Input should be a valid mapping [input: [...]]"]],
  ["a text", "hello", ["1:1 : Input should be a valid mapping [input: hello]"]],
  ["two documents", `${S}---\n${S}`, ["2:1 : the file must hold one YAML document, not several"]],
  ["a second, empty document", `${S}---\n`, ["2:1 : the file must hold one YAML document, not several"]],
  ["no _schema", "artifacts: {}", [`1:1 _schema: Field required: begin with _schema: ${SCHEMA_URL}`]],
  ["_schema null", "_schema:", ["1:9 _schema: Input should be a valid string [input: null]"]],
  ["_schema a number", "_schema: 1", ["1:10 _schema: Input should be a valid string [input: 1]"]],
  ["_schema empty", '_schema: ""', ["1:10 _schema: String should have at least 1 character [input: ]"]],
  ...[
    "https://h/schemas/policy/v2",
    "https://h/schemas/policy/v10",
    "https://h/v1/",
    "https://v1",
    "v1",
    "https://h/v1x",
    "https://h/xv1",
    "https://h/?/v1",
    "https://h#/v1",
    "/V1",
  ].map((schema): [string, string, string[]] => [
    `_schema ${schema}`,
    `_schema: "${schema}"`,
    [`1:10 _schema: the schema is not supported; its path must end in /v1, as in ${SCHEMA_URL} [input: ${schema}]`],
  ]),
  [
    "unknown keys at every level",
    `${S}x: 1
artifacts:
  y: [1]
  trail_compliance: {required: true}
  provenance: {requiered: true, exceptions: [{if: null, unless: "true"}]}
  trail-compliance: {z: ~}
  attestations:
    - {type: junit, nam: x}
`,
    [
      "2:1 x: Extra inputs are not permitted [input: 1]; possible keys: _schema, artifacts",
      "4:3 artifacts.y: Extra inputs are not permitted [input: [...]]" +
        "; possible keys: provenance, trail-compliance, attestations",
      "5:3 artifacts.trail_compliance: Extra inputs are not permitted [input: {...}]; did you mean trail-compliance?" +
        " Possible keys: provenance, trail-compliance, attestations",
      "6:16 artifacts.provenance.requiered: Extra inputs are not permitted [input: true]; did you mean required?" +
        " Possible keys: required, exceptions",
      '6:57 artifacts.provenance.exceptions.0.unless: Extra inputs are not permitted [input: "true"]' +
        "; possible keys: if",
      "7:22 artifacts.trail-compliance.z: Extra inputs are not permitted [input: ~]" +
        "; possible keys: required, exceptions",
      "9:21 artifacts.attestations.0.nam: Extra inputs are not permitted [input: x]; did you mean name?" +
        " Possible keys: if, name, type, must_be_compliant, for_control",
    ],
  ],
  [
    "keys that are no texts",
    `${S}1: a\ntrue: b\n? [c]\n: d\n: e\n`,
    [
      "2:1 1: Extra inputs are not permitted [input: a]; possible keys: _schema, artifacts",
      "3:1 true: Extra inputs are not permitted [input: b]; possible keys: _schema, artifacts",
      "4:3 [...]: Extra inputs are not permitted [input: d]; possible keys: _schema, artifacts",
      "6:1 null: Extra inputs are not permitted [input: e]; possible keys: _schema, artifacts",
    ],
  ],
  [
    "merge keys",
    `${S}<<: {artifacts: {}}`,
    ["2:1 <<: merge keys (<<) are not supported: write the keys of the other mapping here"],
  ],
  [
    "keys named like object members",
    `${S}__proto__: {}\nconstructor: 1\n`,
    [
      "2:1 __proto__: Extra inputs are not permitted [input: {...}]; possible keys: _schema, artifacts",
      "3:1 constructor: Extra inputs are not permitted [input: 1]; possible keys: _schema, artifacts",
    ],
  ],
  [
    "duplicate keys",
    `${S}artifacts:\n  provenance: {required: true, required: false}\nartifacts: {}\n_schema: /v1\n`,
    [
      "3:32 artifacts.provenance.required: the key is given more than once",
      "4:1 artifacts: the key is given more than once",
      "5:1 _schema: the key is given more than once",
    ],
  ],
  ["nulls where only values are", `${S}artifacts:`, ["2:11 artifacts: Input should be a valid mapping [input: null]"]],
  [
    "null lists and rules",
    `${S}artifacts:\n  provenance:\n    exceptions:\n  trail-compliance: ~\n  attestations:\n`,
    [
      "4:16 artifacts.provenance.exceptions: Input should be a valid list [input: null]",
      "5:21 artifacts.trail-compliance: Input should be a valid mapping [input: ~]",
      "6:16 artifacts.attestations: Input should be a valid list [input: null]",
    ],
  ],
  [
    "wrong containers",
    `${S}artifacts:\n  provenance: true\n  trail-compliance: [a]\n  attestations: {type: junit}\n`,
    [
      "3:15 artifacts.provenance: Input should be a valid mapping [input: true]",
      "4:21 artifacts.trail-compliance: Input should be a valid mapping [input: [...]]",
      "5:17 artifacts.attestations: Input should be a valid list [input: {...}]",
    ],
  ],
  [
    "wrong list items",
    `${S}artifacts:\n  provenance: {exceptions: [null, "true"]}\n  attestations: [junit, ]\n`,
    [
      "3:29 artifacts.provenance.exceptions.0: Input should be a valid mapping [input: null]",
      '3:35 artifacts.provenance.exceptions.1: Input should be a valid mapping [input: "true"]',
      "4:18 artifacts.attestations.0: Input should be a valid mapping [input: junit]",
    ],
  ],
  [
    "booleans that are texts or numbers",
    `${S}artifacts:\n  provenance: {required: yes}\n  trail-compliance: {required: "true"}\n  ` +
      `attestations:\n  - {type: junit, must_be_compliant: 1}\n  - {type: junit, must_be_compliant: null}\n`,
    [
      "3:26 artifacts.provenance.required: Input should be a valid boolean, true or false [input: yes]",
      '4:32 artifacts.trail-compliance.required: Input should be a valid boolean, true or false [input: "true"]',
      "6:38 artifacts.attestations.0.must_be_compliant: Input should be a valid boolean, true or false [input: 1]",
      "7:38 artifacts.attestations.1.must_be_compliant: Input should be a valid boolean, true or false [input: null]",
    ],
  ],
  [
    "yes stays a text under a YAML 1.1 directive",
    `%YAML 1.1\n---\n${S}artifacts: {provenance: {required: yes}}`,
    ["4:36 artifacts.provenance.required: Input should be a valid boolean, true or false [input: yes]"],
  ],
  [
    "bad names and types",
    `${S}artifacts:
  attestations:
    - {name: a}
    - {type: null}
    - {type: pull-request}
    - {type: "custom:"}
    - {type: "custom:-x"}
    - {type: "custom:a b"}
    - {type: "system:nothing"}
    - {type: artifact}
    - {type: Generic}
    - {type: junit, name: null}
    - {type: junit, name: 12}
    - {type: junit, name: ""}
    - {type: junit, name: [a]}
`,
    [
      "4:7 artifacts.attestations.0.type: Field required: write 'generic', 'junit', 'snyk', 'pull_request', " +
        "'jira', 'sonar', 'decision', 'sbom', '*' or 'custom:<name>'",
      "5:14 artifacts.attestations.1.type: Input should be a valid string [input: null]",
      ...[["6:14", 2, "pull-request"]].map(
        ([at, n, v]) =>
          `${at} artifacts.attestations.${n}.type: Input should be 'generic', 'junit', 'snyk', 'pull_request', ` +
          `'jira', 'sonar', 'decision', 'sbom', '*' or 'custom:<name>' [input: ${v}]`,
      ),
      "7:14 artifacts.attestations.3.type: String should match pattern " +
        "'^custom:[a-zA-Z0-9][a-zA-Z0-9\\-_.~]*$' [input: custom:]",
      "8:14 artifacts.attestations.4.type: String should match pattern " +
        "'^custom:[a-zA-Z0-9][a-zA-Z0-9\\-_.~]*$' [input: custom:-x]",
      "9:14 artifacts.attestations.5.type: String should match pattern " +
        "'^custom:[a-zA-Z0-9][a-zA-Z0-9\\-_.~]*$' [input: custom:a b]",
      ...[
        ["10:14", 6, "system:nothing"],
        ["11:14", 7, "artifact"],
        ["12:14", 8, "Generic"],
      ].map(
        ([at, n, v]) =>
          `${at} artifacts.attestations.${n}.type: Input should be 'generic', 'junit', 'snyk', 'pull_request', ` +
          `'jira', 'sonar', 'decision', 'sbom', '*' or 'custom:<name>' [input: ${v}]`,
      ),
      "13:27 artifacts.attestations.9.name: Input should be a valid string [input: null]",
      "14:27 artifacts.attestations.10.name: Input should be a valid string [input: 12]",
      "15:27 artifacts.attestations.11.name: String should have at least 1 character [input: ]",
      "16:27 artifacts.attestations.12.name: Input should be a valid string [input: [...]]",
    ],
  ],
  [
    "type and name both *",
    `${S}artifacts:\n  attestations:\n  - type: "*"\n  - {type: "*", name: "*"}\n`,
    [
      "4:5 artifacts.attestations.0: a rule with type '*' and name '*' would accept any attestation; give a " +
        "type or a name",
      "5:5 artifacts.attestations.1: a rule with type '*' and name '*' would accept any attestation; give a " +
        "type or a name",
    ],
  ],
  [
    "for_control without decision",
    `${S}artifacts:\n  attestations:\n  - {type: junit, for_control: C-1}\n  - {type: "*", name: a, ` +
      `for_control: C-1}\n  - {type: decision, for_control: 5}\n  - {type: decision, for_control: ""}\n`,
    [
      "4:32 artifacts.attestations.0.for_control: for_control is only allowed with type 'decision' [input: C-1]",
      "5:39 artifacts.attestations.1.for_control: for_control is only allowed with type 'decision' [input: C-1]",
      "6:35 artifacts.attestations.2.for_control: Input should be a valid string [input: 5]",
      "7:35 artifacts.attestations.3.for_control: String should have at least 1 character [input: ]",
    ],
  ],
  [
    "exceptions in an attestation rule",
    `${S}artifacts:\n  attestations:\n  - type: junit\n    exceptions: []\n`,
    [
      "5:5 artifacts.attestations.0.exceptions: Extra inputs are not permitted [input: [...]]" +
        "; possible keys: if, name, type, must_be_compliant, for_control",
    ],
  ],
  [
    "conditions that are no texts",
    `${S}artifacts:\n  attestations:\n  - {type: junit, if: true}\n  - {type: junit, if: [a]}\n  - {type: ` +
      `junit, if: ""}\n`,
    [
      "4:23 artifacts.attestations.0.if: Input should be a valid string [input: true]",
      "5:23 artifacts.attestations.1.if: Input should be a valid string [input: [...]]",
      "6:24 artifacts.attestations.2.if: the expression is empty",
    ],
  ],
  [
    "unknown tags and aliases",
    `${S}artifacts: !policy\n  provenance: *nope\n  trail-compliance: {required: !!bool yes}\n`,
    [
      "2:12 : unresolved tag: !policy",
      "3:15 : the alias *nope has no anchor before it",
      "4:32 : unresolved tag: tag:yaml.org,2002:bool",
      "4:39 artifacts.trail-compliance.required: Input should be a valid boolean, true or false [input: yes]",
    ],
  ],
  [
    "an alias that holds itself",
    `${S}artifacts:\n  provenance: &p {exceptions: [*p]}\n`,
    [
      "3:19 artifacts.provenance.exceptions.0.exceptions: Extra inputs are not permitted [input: [...]]" +
        "; possible keys: if",
    ],
  ],
  [
    "characters that YAML has not",
    `${S}x\u0000: "\ud800"\n`,
    [
      '2:1 x\\u0000: Extra inputs are not permitted [input: "\\ud800"]; possible keys: _schema, artifacts',
      "2:2 : the character U+0000 is not allowed in YAML",
      "2:6 : the character U+D800 is not allowed in YAML",
    ],
  ],
  [
    "too many rules",
    `${S}artifacts:\n  attestations: [${"{type: junit},".repeat(1_001)}]\n  provenance: {exceptions: ` +
      `[${"{},".repeat(1_001)}]}`,
    [
      "3:17 artifacts.attestations: a policy may have at most 250 attestation rules",
      "4:28 artifacts.provenance.exceptions: a policy may have at most 1000 exceptions in a rule",
    ],
  ],
];

for (const [what, text, problems] of REFUSED) {
  invalid(what, () => {
    assert.equal(refused(text), problems);
  });
}

const SYNTAX: [what: string, text: string, line: number, column: number][] = [
  ["an open flow map", "_schema: {a: b", 1, 15],
  ["an open quote", '_schema: "a', 1, 12],
  ["tabs", "a:\n\tb: c", 2, 1],
  ["a reserved character", "_schema: @x", 1, 10],
  ["a bad escape", '_schema: "\\q"', 1, 11],
  ["nested compact maps", "a: b: c", 1, 4],
];
for (const [what, text, line, column] of SYNTAX) {
  invalid(`syntax: ${what}`, () => {
    const { problems } = parsePolicy(text);
    assert.ok(
      problems?.some((found) => found.line === line && found.column === column && found.path === ""),
      JSON.stringify(problems),
    );
  });
}

invalid("checks the text before a syntax error, but does not report missing keys", () => {
  const found = refused("artifacts:\n  provenanse: {}\n  attestations:\n    - if: tru\n      x: @\n    - type: nope\n");
  assert.equal(
    found.map((line) => line.split(" ")[0]),
    ["2:3", "4:11", "5:7", "5:10"],
  );
  assert.match(found[3] ?? "", /reserved character/);
});

invalid("reports at most a hundred problems", () => {
  const { problems } = parsePolicy(`${S}artifacts:\n  attestations:\n${"  - {type: nope}\n".repeat(200)}`);
  assert.is(problems?.length, 100);
  assert.is(problems?.[99]?.line, 103);
  assert.match(
    renderDiagnostics(problems ?? []),
    /^line 4, column 12: artifacts\.attestations\.0\.type: Input should be .*; only the first 100 problems are listed$/,
  );
});

invalid.run();

const places = suite("domain/policy/document: positions inside expressions");

/** In each text, the mark ^ precedes the offending character. */
const MARKED: [what: string, text: string][] = [
  ["plain", "if: flow.name ^= 'x'"],
  ["plain with wrapper", "if: ${{ flow.name ^= 'x' }}"],
  ["plain over two lines", "if: flow.name\n        ^= 'x'"],
  ["single quotes", "if: '^flow.nam == 1'"],
  ["single quotes over lines", "if: 'true\n\n        and ^nope'"],
  ["double quotes", "if: \"flow.name == 'x' ^&& true\""],
  ["double quotes before an escape", 'if: "^nope == \\"x\\""'],
  ["literal block", "if: |\n        true and\n          ^nope"],
  ["folded block", "if: >-\n        true\n        and\n\n        ^nope"],
  ["block with indentation indicator", "if: |2-\n          true and\n        ^nope"],
  ["with a tag", "if: !!str true and ^nope"],
  ["with an anchor", "if: &a true and ^nope"],
  ["a regular expression", "if: matches(flow.name, ^'[')"],
  ["a regular expression in a block", "if: |\n        matches(flow.name, 'ok') or\n        matches(flow.name, ^'*')"],
  ["the end", "if: true and^"],
  ["the end in quotes", "if: 'true and^ '"],
  ["after an escape: the start", 'if: ^"flow.name == \\"x\\" and nope"'],
  ["after a doubled quote: the start", "if: ^'flow.name == ''x'' and nope'"],
  ["an empty quoted one", 'if: "^"'],
];
for (const [what, marked] of MARKED) {
  places(what, () => {
    const text = `${S}artifacts:\n  attestations:\n    - type: junit\n      ${marked}\n`;
    const before = text.slice(0, text.indexOf("^")).split("\n");
    const { problems } = parsePolicy(text.replace("^", ""));
    assert.equal(
      problems?.map(({ line, column, path }) => ({ line, column, path })),
      [{ line: before.length, column: (before.at(-1)?.length ?? 0) + 1, path: "artifacts.attestations.0.if" }],
    );
  });
}

places("counts stripped comments as lines, and a byte order mark as no column", () => {
  assert.equal(refused("\ufeffartifacts: {}"), [`1:1 _schema: Field required: begin with _schema: ${SCHEMA_URL}`]);
  assert.equal(refused("\ufeff# one\r\n\r\n  # three\n_schema: v1\n# five\n"), [
    `4:10 _schema: the schema is not supported; its path must end in /v1, as in ${SCHEMA_URL} [input: v1]`,
  ]);
});

places.run();

const rendering = suite("domain/policy/document: diagnostics");

rendering("joins position, path and problem in one line", () => {
  assert.is(
    renderDiagnostics([
      { line: 3, column: 7, path: "artifacts.attestations.0.type", problem: "Field required" },
      { line: 9, column: 3, path: "", problem: "bad\u0000\r\nthing\u2028!" },
    ]),
    "line 3, column 7: artifacts.attestations.0.type: Field required; line 9, column 3: bad thing !",
  );
  assert.is(renderDiagnostics([]), "");
});

rendering("truncates long values between characters", () => {
  const { problems } = parsePolicy(`_schema: "${"\u{1f600}".repeat(200)}"`);
  assert.is(
    problems?.[0]?.problem,
    `the schema is not supported; its path must end in /v1, as in ${SCHEMA_URL} [input: ${"\u{1f600}".repeat(80)}...]`,
  );
  const rendered = renderDiagnostics(parsePolicy(`"${"k\\n".repeat(1_000)}": 1`).problems ?? []);
  assert.ok(!rendered.includes("\n") && rendered.length < 400, rendered);
});

rendering.run();
