import { suite } from "uvu";
import * as assert from "uvu/assert";
import { MAX_DIAGNOSTICS, renderDiagnostics } from "../../../src/domain/policy/diagnostics.ts";
import { parsePolicy, dumpPolicy } from "../../../src/domain/policy/document.ts";
import { evaluatePolicy, presentRuleVerdicts } from "../../../src/domain/policy/evaluate.ts";
import type { Subject } from "../../../src/domain/policy/evaluate.ts";
import { explainVerdict } from "../../../src/domain/policy/reasons.ts";

const S = "_schema: /v1\n";
const MB = 1_048_576;

function firstProblem(text: string): string {
  return renderDiagnostics(parsePolicy(text).problems?.slice(0, 1) ?? []);
}

const bounds = suite("domain/policy/hostile: limits");

const NESTED = /the file nests deeper than 50 levels/;
const LONG = /^line 1, column 1: this value is longer than 131072 characters/;
const UNCLOSED = LONG;
const MANY = /the file is too large: it holds more than 100000 YAML tokens, each counted once for every 64 characters/;

const HOSTILE: [what: string, text: string, problem: RegExp][] = [
  ["flow lists", "[".repeat(MB), NESTED],
  ["flow maps", "{".repeat(MB), NESTED],
  ["flow maps in lists", "[{a: ".repeat(MB / 5), NESTED],
  ["compact lists", "- ".repeat(MB / 2), NESTED],
  ["compact maps", "a: ".repeat(MB / 3), NESTED],
  ["explicit keys", "? ".repeat(MB / 2), NESTED],
  ["block maps", Array.from({ length: 1_400 }, (_, i) => `${" ".repeat(i)}a:`).join("\n"), NESTED],
  ["nesting inside a value nobody knows", `${S}x: ${"[".repeat(1_000)}${"]".repeat(1_000)}`, NESTED],
  ["closing brackets", "]".repeat(MB), /^line 1, column 1: unexpected flow-seq-end token in YAML document/],
  ["commas", `[${",".repeat(MB)}`, MANY],
  ["anchors", "&a ".repeat(MB / 3), MANY],
  ["tags", "!a ".repeat(MB / 3), MANY],
  [
    "documents",
    `${S}---\n${"---\n".repeat(MB / 4)}`,
    /^line 2, column 1: the file must hold one YAML document, not several$/,
  ],
  ["distinct keys", Array.from({ length: 100_000 }, (_, i) => `k${i}: 1`).join("\n"), MANY],
  ["aliases", `${S}x: &a []\ny: [${"*a,".repeat(MB / 3)}]`, MANY],
  ["an open quote", `"${"a\n".repeat(MB / 2)}`, UNCLOSED],
  ["NUL", "\0".repeat(MB), /U\+0000 is not allowed in YAML/],
  ["lone surrogates", "\ud800".repeat(MB / 2), /U\+D800 is not allowed in YAML/],
  ["tabs", "\t".repeat(MB), /the file is empty/],
  ["byte order marks", "\ufeff".repeat(1_000), /Input should be a valid mapping/],
  ["one endless scalar", "|".repeat(MB), LONG],
  [
    "a text folded over ten million lines",
    `${S}x: "a${"\n".repeat(9.9 * MB)}b"`,
    /^line 2, column 4: this value is longer than 131072 characters$/,
  ],
  [
    "a block of blank lines",
    `${S}x: >\n a${"\n".repeat(9.9 * MB)} b\n`,
    /^line 3, column 1: this value is longer than 131072 characters$/,
  ],
  ["many long values", `${S}x: [${`${"a".repeat(100_000)}, `.repeat(90)}]`, MANY],
  [
    "comments in the middle",
    `${S}${"#\n".repeat(600_000)}artifacts: {}`,
    /^line 100001, column 1: the file is too large: it holds more than 200000 comments, spaces and line ends$/,
  ],
  [
    "one expression",
    `${S}artifacts: {attestations: [{type: junit, if: "${"not ".repeat(15_000)}true"}]}`,
    /the expression nests deeper than 50 levels/,
  ],
  [
    "patterns",
    `${S}artifacts: {attestations: [${"{type: junit, if: \"matches(flow.name, '(?:a?a?a?){1000}')\"},".repeat(240)}]}`,
    /the regular expressions? (of this policy are|is) too large/,
  ],
];
for (const [what, text, problem] of HOSTILE) {
  bounds(what, () => assert.match(firstProblem(text), problem));
}

bounds("follows an alias bomb only as deep as the schema", () => {
  const levels = Array.from({ length: 20 }, (_, i) => `l${i + 1}: &l${i + 1} [${`*l${i},`.repeat(9)}]`).join("\n");
  const text = `${S}l0: &l0 [x]\n${levels}\nartifacts:\n  attestations: *l20\n`;
  const { problems } = parsePolicy(text);
  assert.is(problems?.length, 21 + 9);
  const refused = "Extra inputs are not permitted [input: [...]]; ";
  assert.ok(problems?.slice(0, 20).every((found) => found.problem.startsWith(refused)));
});

bounds("counts the expression of a repeated alias each time", () => {
  const text =
    `${S}artifacts: {attestations: [&a {type: junit, if: "flow.name in ` +
    `[${"'x',".repeat(1_000)}'x']"},${"*a,".repeat(200)}]}`;
  assert.match(firstProblem(text), /the expressions of one policy may have 10000 terms together/);
});

bounds("accepts 10 MB of comments around a policy", () => {
  const line = "# padding\n";
  const half = line.repeat((5 * MB) / line.length - 10);
  assert.is(parsePolicy(`${half}${S}${half}`).problems, null);
  assert.is(parsePolicy(`${S}#${"x".repeat(9 * MB)}`).problems, null);
  assert.is(parsePolicy(`${S}${"\n".repeat(9 * MB)}`).problems, null);
});

bounds("reports at most a hundred problems", () => {
  assert.is(parsePolicy("a: !x\n".repeat(10_000)).problems?.length, MAX_DIAGNOSTICS);
});

bounds.run();

const random = suite("domain/policy/hostile: random files");

/** A small seeded generator (mulberry32), so that failures are reproducible. */
function generator(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

const SAMPLE = `# policy
_schema: https://example.com/schemas/policy/v1
artifacts:
  provenance: &base
    required: true
    exceptions:
      - if: \${{ matches(artifact.name, "^ghcr\\.io/[a-z]{1,5}") or not exists(flow) }}
      - if: null
  trail-compliance: *base
  attestations:
    - {type: "*", name: 'scan', must_be_compliant: false}
    - type: custom:x
      if: >-
        flow.tags.risk-level in ["high", 'low', 3] and
        (flow.name != "a" or artifact.fingerprint == 'b')
    - type: decision
      for_control: "C-\\u0031"
      if: |
        flow.tags.a >= -1.5
`;

const PIECES = [
  ..."[]{}:,-?!&*#|>'\"%@`\n\t \\\0~<=()$",
  "\r\n",
  "\n  ",
  "\n    - ",
  ": ",
  "- ",
  "---\n",
  "...\n",
  "&a ",
  "*a",
  "*base",
  "!!str ",
  "!x ",
  "<<: *base\n",
  "null",
  "true",
  "yes",
  "\ufeff",
  "\ud800",
  "\u2028",
  "\u{1f600}",
  "if: ",
  "type: ",
  "${{",
  "}}",
  "not ",
  "and ",
  "or ",
  "in ",
  "exists(",
  "matches(",
  "flow",
  "flow.tags.",
  "artifact",
  "==",
  "'x'",
  "(?=a)",
  "a{1000}",
  "_schema: /v2\n",
  "%YAML 1.1\n",
];

const SUBJECT: Subject = {
  fingerprint: "b",
  artifactName: "ghcr.io/abc",
  flows: [
    {
      flowName: "a",
      flowTags: { "risk-level": "high", a: "2" },
      artifactName: "x",
      artifactState: "COMPLIANT",
      trail: null,
    },
    {
      flowName: "b",
      flowTags: {},
      artifactName: "x",
      artifactState: "INCOMPLETE",
      trail: { name: "t", candidates: [] },
    },
  ],
};

function exercise(text: string): boolean {
  const { policy, problems } = parsePolicy(text);
  if (policy === null) {
    assert.ok(problems.length > 0 && problems.length <= MAX_DIAGNOSTICS, text);
    const lines = text.split("\n").length;
    for (const { line, column } of problems) assert.ok(line >= 1 && line <= lines && column >= 1, text);
    assert.not.match(renderDiagnostics(problems), /[\n\r\u2028\0]/);
    return false;
  }
  dumpPolicy(policy);
  for (const subject of [SUBJECT, { ...SUBJECT, flows: [] }]) {
    const verdict = evaluatePolicy(policy, subject);
    presentRuleVerdicts(verdict.rules);
    assert.is(explainVerdict(verdict, "p").length > 0, verdict.status === "NON-COMPLIANT");
  }
  return true;
}

random("the sample itself is a policy", () => assert.ok(exercise(SAMPLE)));

random("never throws for mutations, some of which are still policies", () => {
  const next = generator(20_240_501);
  let policies = 0;
  for (let round = 0; round < 400; round += 1) {
    let text = SAMPLE;
    for (let edits = next(4) + 1; edits > 0; edits -= 1) {
      const at = next(text.length + 1);
      const cut = next(3) === 0 ? next(12) : next(2);
      const piece = next(3) === 0 ? "" : (PIECES[next(PIECES.length)] ?? "");
      text = text.slice(0, at) + piece + text.slice(at + cut);
    }
    if (exercise(text)) policies += 1;
  }
  assert.ok(policies > 20 && policies < 350, `${policies} policies`);
});

random("never throws for random texts", () => {
  const next = generator(7);
  for (let round = 0; round < 400; round += 1) {
    let text = next(2) === 0 ? S : "";
    for (let pieces = next(40); pieces > 0; pieces -= 1) text += PIECES[next(PIECES.length)] ?? "";
    exercise(text);
  }
});

random("never throws for random expressions", () => {
  const next = generator(11);
  const words = [
    "flow",
    "flow.name",
    "flow.tags.a",
    "artifact",
    "'x'",
    "1",
    "-2.5",
    "true",
    "(",
    ")",
    "[",
    "]",
    ",",
    "and",
    "or",
    "not",
    "in",
    "==",
    "!=",
    "<",
    ">=",
    "exists(",
    "matches(",
    "'^a'",
  ];
  let policies = 0;
  for (let round = 0; round < 800; round += 1) {
    const parts = Array.from({ length: next(9) + 1 }, () => words[next(words.length)] ?? "");
    if (exercise(`${S}artifacts: {attestations: [{type: junit, if: "${parts.join(" ")}"}]}`)) policies += 1;
  }
  assert.ok(policies > 5, `${policies} policies`);
});

random.run();
