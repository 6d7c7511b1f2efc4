/** Estimates the cost of evaluating a policy; an expensive evaluation of many artifacts runs in a worker thread. */
import type { Expr, Expression, PolicyDocument } from "./ast.ts";

/** Milliseconds, measured on the slowest policies within the bounds of parser.ts and schema.ts. */
const RULE_MS = 0.008;
const TERM_MS = 0.0002;
/** An RE2 instruction over the longest name: 256 characters at 20 nanoseconds each. */
const INSTRUCTION_MS = 0.005;

const estimates = new WeakMap<PolicyDocument, number>();

/** Most milliseconds that evaluating the policy takes for one artifact in one flow. Computed once per document. */
export function estimateEvaluationMs(policy: PolicyDocument): number {
  let cost = estimates.get(policy);
  if (cost === undefined) {
    const conditions = [
      ...policy.provenance.exceptions.map(({ condition }) => condition),
      ...policy.trailCompliance.exceptions.map(({ condition }) => condition),
      ...policy.attestations.map(({ condition }) => condition),
    ];
    cost = policy.attestations.length * RULE_MS;
    for (const condition of conditions) cost += conditionMs(condition);
    estimates.set(policy, cost);
  }
  return cost;
}

const conditionMs = (condition: Expression | null): number => (condition === null ? 0 : expressionMs(condition.tree));

/** The depth of expressions bounds the recursion. */
function expressionMs(expr: Expr): number {
  switch (expr.kind) {
    case "literal":
    case "context":
    case "tag":
      return TERM_MS;
    case "list":
      return sum(expr.items);
    case "exists":
    case "not":
      return TERM_MS + expressionMs(expr.operand);
    case "matches":
      return expressionMs(expr.input) + expr.regex.size * INSTRUCTION_MS;
    case "compare":
      return expressionMs(expr.left) + expressionMs(expr.right);
    case "and":
    case "or":
      return sum(expr.terms);
  }
}

function sum(expressions: readonly Expr[]): number {
  let cost = TERM_MS;
  for (const expr of expressions) cost += expressionMs(expr);
  return cost;
}
