/**
 * Attacks by templates, policies and JSON Schemas: long scalars, many tokens, deep nesting, costly expressions and
 * patterns.
 */
import { formRequest, refusal } from "./attack.ts";
import type { Attack, World } from "./attack.ts";

/** Just below the limit of 10 MB for a file. */
const FULL = 10_400_000;
const SCHEMA = "_schema: /v1\n";

/** Repeats a text to about `length` characters. */
const filled = (text: string, characters: number): string => text.repeat(Math.floor(characters / text.length));
const inTemplate =
  (file: string) =>
  ({ org, memberKey }: World) =>
    formRequest("PUT", `/flows/${org}/template_file`, memberKey, {
      json: JSON.stringify({ name: "attacked" }),
      file: { part: "template_file", content: file },
    });
const inPolicy =
  (file: string) =>
  ({ org, memberKey }: World) =>
    formRequest("PUT", `/policies/${org}`, memberKey, {
      field: "payload",
      json: JSON.stringify({ name: "attacked" }),
      file: { part: "policy_file", content: file },
    });
const withExpression = (expression: string): string =>
  `${SCHEMA}artifacts:\n  attestations:\n  - type: junit\n    if: >-\n      ${expression}\n`;

/**
 * `text` builds the file when it is sent; `problem` is the expected refusal of a template or policy, null where it is
 * accepted.
 */
type Row = { name: string; text: () => string; problem: string | null };

const templateRefusal = (problem: string): unknown =>
  refusal({ template_file: `1 validation errors for Template\n${problem}` });
const wholeFile = (problem: string, line: number, column: number): string =>
  `template_file\n  ${problem} (line ${line}, column ${column})`;

const LONG_VALUE = "This value is longer than 65536 characters";
const MANY_TOKENS =
  "The file is too large: it holds more than 100000 YAML tokens, each counted once for every 64 characters";
const MANY_BLANKS = "The file is too large: it holds more than 200000 comments, spaces and line ends";

const TEMPLATES: readonly Row[] = [
  {
    name: "a template of folded blank lines in quotes",
    text: () => `trail:\n  artifacts:\n  - name: "a${filled("\n", FULL)}b"\n`,
    problem: wholeFile(LONG_VALUE, 3, 11),
  },
  {
    name: "a template of folded words in quotes",
    text: () => `version: 'a${filled("\n b", FULL)}'`,
    problem: wholeFile(LONG_VALUE, 1, 10),
  },
  {
    name: "a template of folded blank lines in a plain value",
    text: () => `version: a${filled("\n", FULL)} b`,
    problem: wholeFile(LONG_VALUE, 1, 10),
  },
  {
    name: "a template of one long plain value",
    text: () => `version: ${filled("a ", FULL)}`,
    problem: wholeFile(LONG_VALUE, 1, 10),
  },
  {
    name: "a template of a folded block",
    text: () => `version: >\n a${filled("\n", FULL)}\n b\n`,
    problem: wholeFile(LONG_VALUE, 2, 1),
  },
  {
    name: "a template of a literal block",
    text: () => `version: |\n${filled(" a\n", FULL)}`,
    problem: wholeFile(LONG_VALUE, 2, 1),
  },
  {
    name: "a template of escaped line ends",
    text: () => `version: "${filled("\\\n", FULL)}"`,
    problem: wholeFile(MANY_TOKENS, 49_999, 1),
  },
  { name: "a template with a long key", text: () => `${filled("a", FULL)}: 1`, problem: wholeFile(LONG_VALUE, 1, 1) },
  {
    name: "a template with a long tag",
    text: () => `version: !${filled("a", FULL)} 1`,
    problem: wholeFile(LONG_VALUE, 1, 10),
  },
  {
    name: "a template with a long anchor",
    text: () => `version: &${filled("a", FULL)} 1`,
    problem: wholeFile(LONG_VALUE, 1, 10),
  },
  {
    name: "a template of long values",
    text: () => `version: [${filled(`${"a".repeat(60_000)}, `, FULL)}]`,
    problem: wholeFile(MANY_TOKENS, 1, 6_360_223),
  },
  { name: "a template of anchors", text: () => filled("- &a b\n", FULL), problem: wholeFile(MANY_TOKENS, 25_000, 6) },
  { name: "a template of tags", text: () => filled("- !a b\n", FULL), problem: wholeFile(MANY_TOKENS, 25_000, 6) },
  { name: "a template of empty entries", text: () => filled("-\n", FULL), problem: wholeFile(MANY_TOKENS, 100_000, 1) },
  {
    name: "a template of comments",
    text: () => `version: 1\n${filled("#\n", FULL)}trail: null`,
    problem: wholeFile(MANY_BLANKS, 100_001, 1),
  },
  {
    name: "a template of blank lines",
    text: () => `version: 1\n${filled("\n", FULL)}trail: null`,
    problem: wholeFile(MANY_BLANKS, 200_000, 1),
  },
  {
    name: "a template of nested lists",
    text: () => filled("[", FULL),
    problem: wholeFile("Nested deeper than 64 levels", 1, 65),
  },
  {
    name: "a template of nested lists, as deep as may be",
    text: () => `[${filled(`${"[".repeat(60)}${"]".repeat(60)},`, FULL)}]`,
    problem: wholeFile(MANY_TOKENS, 1, 100_000),
  },
  {
    name: "a template of 100 kB of commas",
    text: () => `[${filled(",", 100_000)}`,
    problem: wholeFile(MANY_TOKENS, 1, 100_000),
  },
  {
    name: "a template of comments around",
    text: () => `${filled("# padding\n", FULL / 2)}version: 1\n${filled("# padding\n", FULL / 2)}`,
    problem: null,
  },
  {
    name: "a template of 2,000 attestations with long names",
    text: () =>
      "trail:\n  attestations:\n" +
      Array.from({ length: 2_000 }, (_, n) => `  - {name: ${String(n).padStart(256, "n")}, type: "*"}\n`).join(""),
    problem: null,
  },
];

const POLICY_LONG = "this value is longer than 131072 characters";

const POLICIES: readonly Row[] = [
  {
    name: "an expression of 1,100,000 terms",
    text: () => withExpression(Array(1_100_000).fill("true").join(" or ")),
    problem: `line 6, column 1: ${POLICY_LONG}`,
  },
  {
    name: "an expression of 100,000 characters",
    text: () => withExpression(Array(12_500).fill("true").join(" or ")),
    problem:
      "line 6, column 65543: artifacts.attestations.0.if: " +
      "an expression may hold 65536 characters, this is the next one",
  },
  {
    name: "an expression of 8,000 terms",
    text: () => withExpression(Array(8_000).fill("true").join(" or ")),
    problem:
      "line 6, column 40007: artifacts.attestations.0.if: an expression may have 5000 terms, this is the next one",
  },
  {
    name: "an expression of patterns that are costly to compile",
    text: () => withExpression(`matches(flow.name, '(?i)${"[\u00e9-\uffef]".repeat(160)}')`),
    problem:
      "line 6, column 26: artifacts.attestations.0.if: the regular expressions of this policy are too large together",
  },
  {
    name: "an expression of parentheses",
    text: () => withExpression(filled("(", 60_000)),
    problem: "line 6, column 58: artifacts.attestations.0.if: the expression nests deeper than 50 levels",
  },
  {
    name: "a policy of folded blank lines",
    text: () => `_schema: "a${filled("\n", FULL)}b"`,
    problem: `line 1, column 10: ${POLICY_LONG}`,
  },
  {
    name: "a policy of 8 kB of expressions by alias",
    text: () =>
      `${SCHEMA}artifacts: {attestations: [&a {type: junit, if: "flow.name in [${filled("'',", 4_000)}'x']"},` +
      `${"*a,".repeat(240)}]}`,
    problem: `${Array.from({ length: 100 }, (_, n) => {
      const bound = n + 8 < 65 ? "may have 10000 terms" : "may hold 262144 characters";
      return `line 2, column 50: artifacts.attestations.${n + 8}.if: the expressions of one policy ${bound} together; `;
    }).join("")}only the first 100 problems are listed`,
  },
  {
    name: "the largest policy",
    text: () =>
      withExpression(`${Array(4_990).fill("true").join(" and ")} and matches(artifact.name, '(?:a?){990}')`) +
      Array.from({ length: 249 }, (_, n) => `  - {type: generic, name: check-${n}}\n`).join(""),
    problem: null,
  },
];

const answerOf = (problem: string | null, field: (problem: string) => unknown) =>
  problem === null ? [{ status: 200 }, { status: 201 }] : [{ status: 400, body: field(problem) }];

export const DOCUMENT_ATTACKS: readonly Attack[] = [
  ...TEMPLATES.map(
    ({ name, text, problem }): Attack => ({
      name,
      request: (world) => inTemplate(text())(world),
      expect: answerOf(problem, templateRefusal),
    }),
  ),
  ...POLICIES.map(
    ({ name, text, problem }): Attack => ({
      name,
      request: (world) => inPolicy(text())(world),
      expect: answerOf(problem, (line) => refusal({ policy_file: line })),
    }),
  ),
];
