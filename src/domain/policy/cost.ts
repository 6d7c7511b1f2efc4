/**
 * What evaluating a policy costs, so that whoever evaluates it for many artifacts knows whether that is work for a
 * thread.
 */
import type { Expr, Expression, PolicyDocument } from "./ast.ts";

/** Milliseconds, measured on the slowest policies within the bounds of parser.ts and schema.ts. */
const RULE_MS = 0.008;
const TERM_MS = 0.0002;
/** An RE2 instruction over the longest name: 256 characters of 20 nanoseconds. */
const INSTRUCTION_MS = 0.005;

const known = new WeakMap<PolicyDocument, number>();

/**
 * Milliseconds that evaluating the policy for one artifact in one flow takes at most. Computed once for each document.
 */
export function estimateEvaluationMs(policy: PolicyDocument): number {
  let cost = known.get(policy);
  if (cost === undefined) {
    const conditions = [
      ...policy.provenance.exceptions.map(({ condition }) => condition),
      ...policy.trailCompliance.exceptions.map(({ condition }) => condition),
      ...policy.attestations.map(({ condition }) => condition),
    ];
    cost = policy.attestations.length * RULE_MS;
    for (const condition of conditions) cost += conditionMs(condition);
    known.set(policy, cost);
  }
  return cost;
}

const conditionMs = (condition: Expression | null): number => (condition === null ? 0 : expressionMs(condition.tree));

/** Recursion is bounded by the depth of expressions. */
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
