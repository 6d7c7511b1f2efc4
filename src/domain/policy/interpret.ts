/**
 * Evaluates an expression for one artifact in one flow (semantics 5.2). Numbers stay texts: whether two values compare
 * as numbers depends on both of them, and decimals of any length compare exactly, so that rounding never makes two long
 * build numbers equal.
 *
 * The error texts are stored in evaluations and compared on a replay: another wording shows as a difference.
 */
import type { ComparisonOperator, Expr, Expression } from "./ast.ts";
import { excerpt } from "../text/excerpt.ts";

/** The values of the names in an expression; `flow` is null for an artifact without provenance. */
export type Scope = {
  flow: { name: string; tags: Readonly<Record<string, string>> } | null;
  artifact: { name: string; fingerprint: string };
};

type Whole = { whole: "flow" | "artifact"; present: boolean };
type Value = string | boolean | null | Whole | readonly Value[];

/** Thrown to abort an evaluation; never leaves this file. */
class EvaluationFailure extends Error {
  readonly at: number;
  constructor(at: number, problem: string) {
    super(problem);
    this.at = at;
  }
}

/** The value of an expression, or its error: one line with the problem and its position (semantics 13.10). */
export function evaluateExpression(expression: Expression, scope: Scope): { value: boolean } | { error: string } {
  try {
    return { value: evaluateBoolean(expression.tree, scope, "the expression") };
  } catch (error) {
    if (!(error instanceof EvaluationFailure)) throw error;
    const text = excerpt(expression.text.replace(/\s+/g, " "));
    return { error: `${error.message} (at character ${error.at + 1} of: ${text})` };
  }
}

function evaluateBoolean(expr: Expr, scope: Scope, what: string): boolean {
  const value = evaluate(expr, scope);
  if (typeof value === "boolean") return value;
  throw new EvaluationFailure(expr.at, `${what} is ${kindOf(value)}, not true or false`);
}

function evaluate(expr: Expr, scope: Scope): Value {
  switch (expr.kind) {
    case "literal":
      return expr.value;
    case "list":
      return expr.items.map((item) => evaluate(item, scope));
    case "tag":
      return readTag(expr.key, scope);
    case "context":
      return readContext(expr.name, scope);
    case "exists": {
      const value = evaluate(expr.operand, scope);
      return isWhole(value) ? value.present : value !== null;
    }
    case "matches":
      return matches(expr, scope);
    case "not":
      return !evaluateBoolean(expr.operand, scope, "the operand of not");
    case "and":
      return expr.terms.every((term) => evaluateBoolean(term, scope, "an operand of and"));
    case "or":
      return expr.terms.some((term) => evaluateBoolean(term, scope, "an operand of or"));
    case "compare":
      return compare(expr, evaluate(expr.left, scope), evaluate(expr.right, scope));
  }
}

const readTag = (key: string, { flow }: Scope): string | null =>
  flow !== null && Object.hasOwn(flow.tags, key) ? (flow.tags[key] ?? null) : null;

/** The value of a name for people: of `flow` and `artifact` themselves, whether there is one. */
export function readName(name: Extract<Expr, { kind: "context" | "tag" }>, scope: Scope): string | boolean | null {
  if (name.kind === "tag") return readTag(name.key, scope);
  const value = readContext(name.name, scope);
  return isWhole(value) ? value.present : (value as string | null);
}

function readContext(name: Extract<Expr, { kind: "context" }>["name"], { flow, artifact }: Scope): Value {
  switch (name) {
    case "flow":
      return { whole: "flow", present: flow !== null };
    case "flow.name":
      return flow?.name ?? null;
    case "artifact":
      return { whole: "artifact", present: true };
    case "artifact.name":
      return artifact.name;
    case "artifact.fingerprint":
      return artifact.fingerprint;
  }
}

/** False for null input (semantics 13.9), which includes `flow` itself without provenance. */
function matches(expr: Extract<Expr, { kind: "matches" }>, scope: Scope): boolean {
  const input = evaluate(expr.input, scope);
  if (input === null || (isWhole(input) && !input.present)) return false;
  if (typeof input === "string") return expr.regex.find(input);
  if (typeof input === "boolean") return expr.regex.find(String(input));
  throw new EvaluationFailure(expr.at, `matches was given ${kindOf(input)}, not a text`);
}

/** The operator of a comparison and its offset, for errors. */
type Comparison = { operator: ComparisonOperator; at: number };

function compare({ operator, at }: Comparison, left: Value, right: Value): boolean {
  if (operator === "in") {
    if (!Array.isArray(right)) throw new EvaluationFailure(at, `the right side of in is ${kindOf(right)}, not a list`);
    return isMember(left, right as readonly Value[], at);
  }
  const result = order({ operator, at }, left, right);
  if (operator === "==") return result === 0;
  if (operator === "!=") return result !== 0;
  if (result === null) return false;
  if (operator === "<") return result < 0;
  if (operator === ">") return result > 0;
  return operator === "<=" ? result <= 0 : result >= 0;
}

/** As `order` with "==" for each item, but parses the left side only once, because it may be as long as the list. */
function isMember(left: Value, items: readonly Value[], at: number): boolean {
  const text = String(left);
  const decimal = typeof left === "string" ? parseDecimal(text) : null;
  return items.some((item) => {
    requireComparable(left, at);
    requireComparable(item, at);
    if (left === null || item === null) return false;
    const other = typeof item === "string" && decimal !== null ? parseDecimal(item) : null;
    return decimal !== null && other !== null ? compareDecimals(decimal, other) === 0 : text === String(item);
  });
}

function requireComparable(value: Value, at: number): void {
  if (isWhole(value) || Array.isArray(value)) throw new EvaluationFailure(at, `${kindOf(value)} cannot be compared`);
}

/**
 * Negative, 0 or positive; null if the values have no order (semantics 13.7 and 13.8): one of them is null, or the
 * operator needs an order and one is a boolean or only one is a number.
 */
function order({ operator, at }: Comparison, left: Value, right: Value): number | null {
  requireComparable(left, at);
  requireComparable(right, at);
  if (left === null || right === null) return null;
  const [a, b] = [String(left), String(right)];
  const [x, y] = [parseDecimal(a), parseDecimal(b)];
  if (x !== null && y !== null) return compareDecimals(x, y);
  if (operator === "==" || operator === "!=") return a === b ? 0 : 1;
  if (x !== null || y !== null || typeof left === "boolean" || typeof right === "boolean") return null;
  return compareCodePoints(a, b);
}

type Decimal = { negative: boolean; whole: string; fraction: string };

/**
 * Parses plain decimals only. With exponents, abbreviated hashes such as `12e4567` and `12e4568` would be numbers, and
 * equal.
 */
function parseDecimal(text: string): Decimal | null {
  const match = /^([+-]?)(\d*)(?:\.(\d*))?$/.exec(text);
  const [, sign = "", digits = "", decimals = ""] = match ?? [];
  if (match === null || (digits === "" && decimals === "")) return null;
  const whole = digits.replace(/^0+/, "");
  let end = decimals.length;
  while (decimals[end - 1] === "0") end -= 1;
  const fraction = decimals.slice(0, end);
  return { negative: sign === "-" && (whole !== "" || fraction !== ""), whole, fraction };
}

function compareDecimals(a: Decimal, b: Decimal): number {
  if (a.negative !== b.negative) return a.negative ? -1 : 1;
  const size =
    a.whole.length - b.whole.length || compareTexts(a.whole, b.whole) || compareTexts(a.fraction, b.fraction);
  return a.negative ? -size : size;
}

function compareTexts(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** JavaScript compares UTF-16 units, which sorts characters beyond U+FFFF before U+E000; here they come after. */
function compareCodePoints(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i += 1) {
    const [x, y] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (x !== y) return rank(x) - rank(y);
  }
  return a.length - b.length;
}

function rank(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit;
}

function isWhole(value: Value): value is Whole {
  return typeof value === "object" && value !== null && "whole" in value;
}

function kindOf(value: Value): string {
  if (value === null) return "null";
  if (typeof value === "boolean") return String(value);
  if (typeof value === "string") return `the text '${excerpt(value)}'`;
  return isWhole(value) ? `${value.whole} itself` : "a list";
}
