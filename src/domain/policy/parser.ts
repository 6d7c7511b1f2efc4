/**
 * Recursive descent over the grammar of semantics 5.2. What a file may cost is bounded here: nesting by
 * MAX_DEPTH (the evaluator recurses over the same tree); text and terms of one expression; text, terms and compiled
 * patterns of one policy by a budget that all its expressions share. A policy within these bounds is parsed in less
 * than 50 ms, and evaluated for one artifact in one flow in at most 15 (cost.ts).
 */
import { excerpt } from "../text/excerpt.ts";
import { compileRegex, estimateEffort } from "../text/regex.ts";
import { CONTEXT_NAMES } from "./ast.ts";
import type { ComparisonOperator, ContextName, Expr, Expression } from "./ast.ts";
import { MAX_DIAGNOSTICS } from "./diagnostics.ts";
import { tokenize } from "./lexer.ts";
import type { ExpressionProblem, Token } from "./lexer.ts";

/** Parentheses, `not` and lists inside one another. Nobody can read ten; recursion is safe far beyond fifty. */
export const MAX_NESTING = 50;

/** UTF-16 code units of one expression, and terms in it: names, texts, numbers and lists. Room for 900 fingerprints. */
export const MAX_EXPRESSION_CHARS = 65_536;
export const MAX_EXPRESSION_TERMS = 5_000;

/** The same for all expressions of one policy together, an expression counted each time it is used. */
const MAX_TEXT = 262_144;
const MAX_TERMS = 10_000;

/**
 * RE2 instructions of one policy. Every pair of artifact and flow may run all of them over a name, which takes at most
 * 20 nanoseconds for an instruction and a character.
 */
const MAX_INSTRUCTIONS = 2_500;

/** Effort of compiling all patterns of one policy, in the units of `estimateEffort`: about 20 milliseconds. */
const MAX_COMPILATION_EFFORT = 10_000;

const COMPARISONS: ReadonlySet<string> = new Set(["==", "!=", "<", ">", "<=", ">=", "in"]);
const RESERVED: ReadonlySet<string> = new Set(["and", "or", "not", "in", "exists", "matches", "true", "false"]);

/** What is left for the expressions of one policy; `stored`: it was accepted before and is only loaded. */
export type ExpressionBudget = { text: number; terms: number; instructions: number; effort: number; stored: boolean };

/** A full budget; make one per policy. */
export function createExpressionBudget(): ExpressionBudget {
  return {
    text: MAX_TEXT,
    terms: MAX_TERMS,
    instructions: MAX_INSTRUCTIONS,
    effort: MAX_COMPILATION_EFFORT,
    stored: false,
  };
}

/**
 * A budget without an end, for policies that were accepted before: earlier versions had larger bounds (semantics 5.5).
 */
export function createUnlimitedBudget(): ExpressionBudget {
  return { text: Infinity, terms: Infinity, instructions: Infinity, effort: Infinity, stored: true };
}

/** Ends the descent at the first syntax error; never leaves this file. */
class SyntaxProblem extends Error {
  readonly at: number;
  constructor(at: number, problem: string) {
    super(problem);
    this.at = at;
  }
}

/**
 * Parses one expression with or without its `${{ }}` wrapper (semantics 5.2, decision 58). Problems carry
 * offsets into `source` in code units: one syntax error, or every refused regular expression. Whether the
 * result is boolean is decided at evaluation (decision 10), nothing of that is refused here. Never throws.
 */
export function parseExpression(
  source: string,
  budget: ExpressionBudget,
): { expression: Expression } | { problems: ExpressionProblem[] } {
  if (source.length > MAX_EXPRESSION_CHARS && !budget.stored) {
    const problem = `an expression may hold ${MAX_EXPRESSION_CHARS} characters, this is the next one`;
    return { problems: [{ at: MAX_EXPRESSION_CHARS, problem }] };
  }
  budget.text -= source.length;
  if (budget.text < 0)
    return { problems: [{ at: 0, problem: `the expressions of one policy may hold ${MAX_TEXT} characters together` }] };
  // Reading what is too much already would take as long as the rest.
  if (budget.terms < 0) return { problems: [{ at: 0, problem: TOO_MANY_TERMS }] };
  const inner = unwrap(source);
  if ("problem" in inner) return { problems: [inner] };
  const lexed = tokenize(inner.text);
  if ("problem" in lexed) return { problems: [{ at: lexed.at + inner.at, problem: lexed.problem }] };
  try {
    const { tree, problems } = parseTokens(lexed.tokens, budget);
    if (problems.length > 0) return { problems: problems.map(({ at, problem }) => ({ at: at + inner.at, problem })) };
    return { expression: { text: inner.text, tree } };
  } catch (error) {
    if (!(error instanceof SyntaxProblem)) throw error;
    return { problems: [{ at: error.at + inner.at, problem: error.message }] };
  }
}

function unwrap(source: string): { text: string; at: number } | ExpressionProblem {
  const trimmed = source.trim();
  let at = source.length - source.trimStart().length;
  let text = trimmed;
  if (trimmed.startsWith("${{")) {
    if (!trimmed.endsWith("}}")) return { at, problem: "the expression opens with ${{ but does not end with }}" };
    const wrapped = trimmed.slice(3, -2);
    text = wrapped.trim();
    at += 3 + (text === "" ? 0 : wrapped.length - wrapped.trimStart().length);
  }
  return text === "" ? { at, problem: "the expression is empty" } : { text, at };
}

function parseTokens(
  tokens: readonly Token[],
  budget: ExpressionBudget,
): { tree: Expr; problems: ExpressionProblem[] } {
  const problems: ExpressionProblem[] = [];
  const end = tokens.at(-1) as Token;
  let index = 0;
  let depth = 0;
  let terms = 0;

  const peek = (): Token => tokens[index] ?? end;
  const is = (kind: Token["kind"], text: string): boolean => peek().kind === kind && peek().text === text;

  function accept(kind: Token["kind"], text: string): boolean {
    if (!is(kind, text)) return false;
    index += 1;
    return true;
  }

  function expect(text: string): void {
    if (!accept("symbol", text)) fail(`expected '${text}' but found ${describe(peek())}`);
  }

  function fail(problem: string): never {
    throw new SyntaxProblem(peek().at, problem);
  }

  function nested<T>(parse: () => T): T {
    if (depth >= MAX_NESTING) fail(`the expression nests deeper than ${MAX_NESTING} levels`);
    depth += 1;
    const result = parse();
    depth -= 1;
    return result;
  }

  function chain(kind: "and" | "or", next: () => Expr): Expr {
    const first = next();
    if (!is("word", kind)) return first;
    const terms = [first];
    while (accept("word", kind)) terms.push(next());
    return { kind, terms, at: first.at };
  }

  const or = (): Expr => chain("or", and);
  const and = (): Expr => chain("and", not);

  function not(): Expr {
    const { at } = peek();
    if (!accept("word", "not")) return comparison();
    return { kind: "not", operand: nested(not), at };
  }

  function comparison(): Expr {
    const left = operand();
    const { kind, text, at } = peek();
    if (kind === "word" && text === "not") fail("unexpected 'not'; write not (a in [b])");
    if ((kind !== "symbol" && kind !== "word") || !COMPARISONS.has(text)) return left;
    index += 1;
    const right = operand();
    if (COMPARISONS.has(peek().text) && (peek().kind === "symbol" || peek().kind === "word")) {
      fail("comparisons cannot be chained; use parentheses");
    }
    return { kind: "compare", operator: text as ComparisonOperator, left, right, at };
  }

  function operand(): Expr {
    const token = peek();
    const { kind, text, at } = token;
    terms += 1;
    budget.terms -= 1;
    const isOneTooMany = terms > MAX_EXPRESSION_TERMS && !budget.stored;
    if (isOneTooMany) fail(`an expression may have ${MAX_EXPRESSION_TERMS} terms, this is the next one`);
    if (budget.terms < 0) fail(TOO_MANY_TERMS);
    if (kind === "string" || kind === "number") return leaf({ kind: "literal", value: text, at });
    if (kind === "tag") return leaf({ kind: "tag", key: text, at });
    if (accept("symbol", "(")) {
      const inner = nested(or);
      expect(")");
      return inner;
    }
    if (accept("symbol", "[")) return { kind: "list", items: nested(items), at };
    if (kind !== "word") fail(`expected a value but found ${describe(token)}`);
    if (text === "true" || text === "false") return leaf({ kind: "literal", value: text === "true", at });
    if ((CONTEXT_NAMES as readonly string[]).includes(text))
      return leaf({ kind: "context", name: text as ContextName, at });
    if (text === "exists") return call(() => ({ kind: "exists", operand: nested(operand), at }));
    if (text === "matches") return call(() => matches(at));
    if (RESERVED.has(text)) fail(`expected a value but found '${text}'`);
    return fail(unknownName(text));
  }

  function leaf(expr: Expr): Expr {
    index += 1;
    return expr;
  }

  function items(): Expr[] {
    const found: Expr[] = [];
    if (accept("symbol", "]")) return found;
    do found.push(operand());
    while (accept("symbol", ","));
    expect("]");
    return found;
  }

  function call(inside: () => Expr): Expr {
    index += 1;
    expect("(");
    const result = inside();
    expect(")");
    return result;
  }

  function matches(at: number): Expr {
    const input = nested(operand);
    expect(",");
    const pattern = peek();
    if (pattern.kind !== "string") fail(`expected a regular expression in quotes but found ${describe(pattern)}`);
    index += 1;
    return { kind: "matches", input, regex: compile(pattern), at };
  }

  /** A refused pattern is noted and replaced by one that never matches: the rest may hold further mistakes. */
  function compile(pattern: Token): Extract<Expr, { kind: "matches" }>["regex"] {
    const nothing = { find: () => false, size: 0 };
    const refuse = (problem: string): typeof nothing => {
      if (problems.length < MAX_DIAGNOSTICS) problems.push({ at: pattern.at, problem });
      return nothing;
    };
    if (!budget.stored) budget.effort -= estimateEffort(pattern.text);
    if (budget.effort < 0 || budget.instructions < 0) return refuse(TOO_LARGE_TOGETHER);
    const compiled = compileRegex(pattern.text, budget.stored);
    if ("problem" in compiled) return refuse(compiled.problem);
    budget.instructions -= compiled.size;
    return budget.instructions < 0 ? refuse(TOO_LARGE_TOGETHER) : compiled;
  }

  const tree = or();
  if (peek().kind !== "end") fail(`expected an operator or the end of the expression but found ${describe(peek())}`);
  return { tree, problems };
}

const TOO_MANY_TERMS = `the expressions of one policy may have ${MAX_TERMS} terms together`;
const TOO_LARGE_TOGETHER = "the regular expressions of this policy are too large together";

function describe(token: Token): string {
  if (token.kind === "end") return "the end of the expression";
  if (token.kind === "string") return `the text '${excerpt(token.text)}'`;
  return `'${token.kind === "tag" ? "flow.tags." : ""}${excerpt(token.text)}'`;
}

function unknownName(text: string): string {
  if (text === "flow.tags") return "flow.tags needs a key, as in flow.tags.team";
  const lower = text.toLowerCase();
  if (RESERVED.has(lower)) return `unknown name '${excerpt(text)}'; write '${lower}'`;
  return `unknown name '${excerpt(text)}'; known are ${CONTEXT_NAMES.join(", ")} and flow.tags.<key>; texts stand in quotes`;
}
