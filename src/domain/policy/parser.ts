/**
 * Recursive descent over the grammar of semantics 5.2. What a file may cost is bounded here: nesting by
 * MAX_DEPTH (the evaluator recurses over the same tree), text and compiled patterns by a budget that all
 * expressions of one policy share.
 */
import { excerpt } from "../excerpt.ts";
import { compileRegex } from "../regex.ts";
import { CONTEXT_NAMES } from "./ast.ts";
import type { ComparisonOperator, ContextName, Expr, Expression } from "./ast.ts";
import { MAX_DIAGNOSTICS } from "./diagnostics.ts";
import { lex } from "./lexer.ts";
import type { ExpressionProblem, Token } from "./lexer.ts";

/** Parentheses, `not` and lists inside one another. Nobody can read ten; recursion is safe far beyond fifty. */
export const MAX_DEPTH = 50;

/** Expression text of one policy in code units, counted per use. Room for 15,000 fingerprints in lists. */
const MAX_TEXT = 1_048_576;

/** RE2 instructions of one policy. Every pair of artifact and flow may run all of them over a name. */
const MAX_INSTRUCTIONS = 50_000;

/** What a pattern that came out too large takes from the budget, so that few of them can be compiled. */
const INSTRUCTIONS_OF_REFUSED = 5_000;

const COMPARISONS: ReadonlySet<string> = new Set(["==", "!=", "<", ">", "<=", ">=", "in"]);
const RESERVED: ReadonlySet<string> = new Set(["and", "or", "not", "in", "exists", "matches", "true", "false"]);

/** What is left for the expressions of one policy. */
export type ExpressionBudget = { text: number; instructions: number };

/** A full budget; make one per policy. */
export function expressionBudget(): ExpressionBudget {
  return { text: MAX_TEXT, instructions: MAX_INSTRUCTIONS };
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
export function parseExpression(source: string, budget: ExpressionBudget): { expression: Expression } | { problems: ExpressionProblem[] } {
  budget.text -= source.length;
  if (budget.text < 0) return { problems: [{ at: 0, problem: `the expressions of one policy may hold ${MAX_TEXT} characters together` }] };
  const inner = unwrap(source);
  if ("problem" in inner) return { problems: [inner] };
  const lexed = lex(inner.text);
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

function parseTokens(tokens: readonly Token[], budget: ExpressionBudget): { tree: Expr; problems: ExpressionProblem[] } {
  const problems: ExpressionProblem[] = [];
  const end = tokens.at(-1) as Token;
  let index = 0;
  let depth = 0;

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
    if (depth >= MAX_DEPTH) fail(`the expression nests deeper than ${MAX_DEPTH} levels`);
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
    if ((CONTEXT_NAMES as readonly string[]).includes(text)) return leaf({ kind: "context", name: text as ContextName, at });
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
    if (budget.instructions < 0) return refuse("the regular expressions of this policy are too large together");
    const compiled = compileRegex(pattern.text);
    budget.instructions -= "problem" in compiled && compiled.size > 0 ? INSTRUCTIONS_OF_REFUSED : compiled.size;
    return "problem" in compiled ? refuse(compiled.problem) : compiled;
  }

  const tree = or();
  if (peek().kind !== "end") fail(`expected an operator or the end of the expression but found ${describe(peek())}`);
  return { tree, problems };
}

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
