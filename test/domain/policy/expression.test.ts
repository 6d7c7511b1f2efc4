import { readFileSync } from "node:fs";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parse } from "yaml";
import type { Expr } from "../../../src/domain/policy/ast.ts";
import { evaluateExpression } from "../../../src/domain/policy/interpret.ts";
import type { Scope } from "../../../src/domain/policy/interpret.ts";
import { createExpressionBudget, parseExpression, createUnlimitedBudget } from "../../../src/domain/policy/parser.ts";

const artifact = { name: "registry.example.com/shop/api:v1.2", fingerprint: "fb0a" };
const tags = {
  team: "payments",
  "risk-level": "high",
  "risk-level.v2": "low",
  "2nd": "x",
  "a_b~c": "y",
  empty: "",
  count: "10",
  flag: "true",
};
const SCOPES: Record<string, Scope> = {
  full: { flow: { name: "backend-ci", tags }, artifact },
  nothing: { flow: null, artifact },
};

const values = suite("domain/policy/expression: values");

type Case = { if: string; scope?: string; is: boolean | string };

for (const { if: text, scope = "full", is } of parse(
  readFileSync(new URL("../../cases/policy/expressions.yaml", import.meta.url), "utf8"),
) as Case[]) {
  values(`${text} in ${scope}`, () => {
    const parsed = parseExpression(text, createExpressionBudget());
    if ("problems" in parsed) throw new Error(parsed.problems[0]?.problem);
    const result = evaluateExpression(parsed.expression, SCOPES[scope] as Scope);
    if (typeof is === "boolean") assert.equal(result, { value: is });
    else assert.ok("error" in result && result.error.includes(is), `${JSON.stringify(result)} should hold: ${is}`);
  });
}

values.run();

const refusals = suite("domain/policy/expression: refusals");

const REFUSED: [source: string, at: number, problem: string][] = [
  ["", 0, "the expression is empty"],
  ["   ", 3, "the expression is empty"],
  ["${{ }}", 3, "the expression is empty"],
  ["${{ true", 0, "the expression opens with ${{ but does not end with }}"],
  ["true }}", 5, "unexpected character '}'"],
  ["${{ true }} and ${{ true }}", 9, "unexpected character '}'"],
  ["flow.name = 'x'", 10, "unexpected '='; write =="],
  ["true && false", 5, "unexpected '&&'; write and"],
  ["true || false", 5, "unexpected '||'; write or"],
  ["!true", 0, "unexpected '!'; write not"],
  ["flow.name =~ 'x'", 10, "unexpected '=~'; write matches(input, regex)"],
  ["TRUE", 0, "unknown name 'TRUE'; write 'true'"],
  ["true AND false", 5, "expected an operator or the end of the expression but found 'AND'"],
  ["flow.name == 'x", 13, "the text that begins with ' is not closed"],
  ['flow.name == "x', 13, 'the text that begins with " is not closed'],
  [
    "flow.name == x",
    13,
    "unknown name 'x'; known are flow, flow.name, artifact, artifact.name, artifact.fingerprint and " +
      "flow.tags.<key>; put texts in quotes",
  ],
  ["flow.tags == 'x'", 0, "flow.tags needs a key, as in flow.tags.team"],
  ["flow.tags. == 'x'", 0, "'flow.tags.' is neither a number nor a known name"],
  [
    "flow.tags._x == 'x'",
    0,
    "unknown name 'flow.tags._x'; known are flow, flow.name, artifact, artifact.name, artifact.fingerprint " +
      "and flow.tags.<key>; put texts in quotes",
  ],
  ["flow.name-x == 'x'", 0, "'flow.name-x' is neither a number nor a known name"],
  ["12abc == 1", 0, "'12abc' is neither a number nor a known name"],
  [
    "trail.name == 'x'",
    0,
    "unknown name 'trail.name'; known are flow, flow.name, artifact, artifact.name, artifact.fingerprint and " +
      "flow.tags.<key>; put texts in quotes",
  ],
  ["1 < 2 < 3", 6, "comparisons cannot be chained; use parentheses"],
  ["'a' not in ['a']", 4, "unexpected 'not'; write not (a in [b])"],
  ["true and", 8, "expected a value but found the end of the expression"],
  ["and true", 0, "expected a value but found 'and'"],
  ["not", 3, "expected a value but found the end of the expression"],
  ["(true", 5, "expected ')' but found the end of the expression"],
  ["true)", 4, "expected an operator or the end of the expression but found ')'"],
  ["'a' in ['a'", 11, "expected ']' but found the end of the expression"],
  ["'a' in ['a',]", 12, "expected a value but found ']'"],
  ["[true and false]", 6, "expected ']' but found 'and'"],
  ["exists()", 7, "expected a value but found ')'"],
  ["exists flow", 7, "expected '(' but found 'flow'"],
  ["exists(flow, artifact)", 11, "expected ')' but found ','"],
  ["exists(not true)", 7, "expected a value but found 'not'"],
  ["matches(flow.name)", 17, "expected ',' but found ')'"],
  ["matches(flow.name, flow.tags.re)", 19, "expected a regular expression in quotes but found 'flow.tags.re'"],
  ["matches(flow.name, '[')", 19, "the regular expression is not valid RE2: missing closing ]: `[`"],
  [
    "${{ matches(flow.name, '(?=a)') }}",
    23,
    "the regular expression is not valid RE2: invalid or unsupported Perl syntax: `(?=`",
  ],
  ["true 'x'", 5, "expected an operator or the end of the expression but found the text 'x'"],
  ["true; false", 4, "unexpected character ';'"],
  ["true \u0000", 5, "unexpected character U+0000"],
  ["true \ud800", 5, "unexpected character U+D800"],
  [
    "contains(flow.name, 'x')",
    0,
    "unknown name 'contains'; known are flow, flow.name, artifact, artifact.name, artifact.fingerprint and " +
      "flow.tags.<key>; put texts in quotes",
  ],
  [`${"(".repeat(51)}true${")".repeat(51)}`, 51, "the expression nests deeper than 50 levels"],
  [`${"not ".repeat(51)}true`, 204, "the expression nests deeper than 50 levels"],
  [`'a' in ${"[".repeat(60_000)}`, 58, "the expression nests deeper than 50 levels"],
  [`${"(".repeat(60_000)}`, 51, "the expression nests deeper than 50 levels"],
  [Array(5_001).fill("true").join(" or "), 40_000, "an expression may have 5000 terms, this is the next one"],
  [`'a' in [${Array(4_999).fill("'b'").join(",")}]`, 20_000, "an expression may have 5000 terms, this is the next one"],
  [`${" ".repeat(65_533)}true`, 65_536, "an expression may hold 65536 characters, this is the next one"],
  [Array(1_100_000).fill("true").join(" or "), 65_536, "an expression may hold 65536 characters, this is the next one"],
];

for (const [source, at, problem] of REFUSED) {
  refusals(source.slice(0, 60), () => {
    assert.equal(parseExpression(source, createExpressionBudget()), { problems: [{ at, problem }] });
  });
}

refusals("reports every invalid pattern of an expression", () => {
  const parsed = parseExpression(
    "matches(flow.name, '(') or matches(flow.name, 'ok') or matches(flow.name, ')')",
    createExpressionBudget(),
  );
  assert.equal("problems" in parsed && parsed.problems.map(({ at }) => at), [19, 74]);
});

refusals("shares the budget for patterns, so that small ones still fit", () => {
  const budget = createExpressionBudget();
  const large = "matches(flow.name, '(?:a?){1000}')";
  const results = Array.from({ length: 4 }, () => parseExpression(large, budget));
  assert.ok("expression" in (results[0] ?? {}));
  assert.equal(results[3], {
    problems: [{ at: 19, problem: "the regular expressions of this policy are too large together" }],
  });
  const fresh = createExpressionBudget();
  for (let i = 0; i < 100; i += 1) {
    assert.ok("expression" in parseExpression("matches(artifact.name, '^registry/team-[0-9]+/')", fresh));
  }
});

refusals("shares the budget for text", () => {
  const budget = createExpressionBudget();
  const list = `artifact.fingerprint in [${Array.from({ length: 950 }, () => `"${"a".repeat(64)}"`).join(",")}]`;
  for (let i = 0; i < 4; i += 1) assert.ok("expression" in parseExpression(list, budget));
  assert.equal(parseExpression(list, budget), {
    problems: [{ at: 0, problem: "the expressions of one policy may hold 262144 characters together" }],
  });
});

refusals("counts the terms of all expressions of a policy together", () => {
  const budget = createExpressionBudget();
  const chain = Array(4_000).fill("true").join(" or ");
  for (let i = 0; i < 2; i += 1) assert.ok("expression" in parseExpression(chain, budget));
  assert.equal(parseExpression(chain, budget), {
    problems: [{ at: 16_000, problem: "the expressions of one policy may have 10000 terms together" }],
  });
});

refusals("counts case-insensitive classes beyond ASCII by the effort of compiling them", () => {
  const costly = `matches(flow.name, '(?i)${"[\u00e9-\uffff]".repeat(12)}')`;
  assert.equal(parseExpression(costly, createExpressionBudget()), {
    problems: [{ at: 19, problem: "the regular expressions of this policy are too large together" }],
  });
  assert.ok("expression" in parseExpression("matches(flow.name, '(?i)^[\\pL0-9_-]+$')", createExpressionBudget()));
});

refusals("loads an expression that was accepted before, whatever its size", () => {
  const budget = createUnlimitedBudget();
  for (const text of [
    Array(30_000).fill("true").join(" or "),
    `matches(flow.name, '(?i)${"[\u00e9-\uffff]".repeat(12)}')`,
  ]) {
    assert.ok("expression" in parseExpression(text, budget));
  }
});

refusals.run();

const trees = suite("domain/policy/expression: trees");

trees("keeps the text without wrapper and surrounding white space", () => {
  const parsed = parseExpression("  ${{  flow.name  ==  'x'  }} ", createExpressionBudget());
  assert.ok("expression" in parsed);
  assert.is(parsed.expression.text, "flow.name  ==  'x'");
});

trees("parses a long chain into one node, and fifty levels of nesting", () => {
  const chain = parseExpression(Array(5_000).fill("true").join(" and "), createExpressionBudget());
  assert.ok(
    "expression" in chain && chain.expression.tree.kind === "and" && chain.expression.tree.terms.length === 5_000,
  );
  for (const deep of [`${"(".repeat(50)}true${")".repeat(50)}`, `${"not ".repeat(50)}true`]) {
    const parsed = parseExpression(deep, createExpressionBudget());
    assert.ok("expression" in parsed);
    assert.equal(evaluateExpression(parsed.expression, SCOPES["full"] as Scope), { value: true });
  }
});

trees("gives comparison precedence over not, not over and, and and over or", () => {
  const parsed = parseExpression("not 1 == 2 and true or false", createExpressionBudget());
  assert.ok("expression" in parsed);
  const kinds = (expr: Expr): unknown =>
    expr.kind === "and" || expr.kind === "or"
      ? [expr.kind, ...expr.terms.map(kinds)]
      : expr.kind === "not"
        ? ["not", kinds(expr.operand)]
        : expr.kind;
  assert.equal(kinds(parsed.expression.tree), ["or", ["and", ["not", "compare"], "literal"], "literal"]);
});

trees.run();
