/**
 * Parses the expressions of semantics 5.2 by recursive descent, and bounds their cost: nesting by MAX_NESTING (the
 * evaluator recurses over the same tree); text and terms per expression; text, terms and compiled patterns per policy,
 * by a budget that its expressions share. A policy within these bounds is parsed in less than 50 ms, and evaluated for
 * one artifact in one flow in at most 15 ms (cost.ts).
 */
import { excerpt } from "../text/excerpt.ts";
import { compileRegex, estimateEffort } from "../text/regex.ts";
import type { Regex } from "../text/regex.ts";
import { CONTEXT_NAMES } from "./ast.ts";
import type { ComparisonOperator, ContextName, Expr, Expression } from "./ast.ts";
import { MAX_DIAGNOSTICS } from "./diagnostics.ts";
import { tokenize } from "./lexer.ts";
import type { ExpressionProblem, Token } from "./lexer.ts";

/** Nested parentheses, `not` and lists. Ten levels are already unreadable; recursion is safe far beyond fifty. */
const MAX_NESTING = 50;

/** UTF-16 code units of one expression: room for 900 fingerprints. */
export const MAX_EXPRESSION_CHARS = 65_536;
/** Names, texts, numbers and lists in one expression. */
const MAX_EXPRESSION_TERMS = 5_000;

/** The same for all expressions of a policy together, each counted every time it is used. */
const MAX_POLICY_CHARS = 262_144;
const MAX_POLICY_TERMS = 10_000;

/**
 * RE2 instructions of a policy. Every pair of artifact and flow may run all of them over a name, which takes at most 20
 * nanoseconds per instruction and character.
 */
const MAX_POLICY_INSTRUCTIONS = 2_500;

/** Effort of compiling all patterns of a policy, in the units of `estimateEffort`: about 20 milliseconds. */
const MAX_POLICY_EFFORT = 10_000;

export const COMPARISONS: ReadonlySet<string> = new Set(["==", "!=", "<", ">", "<=", ">=", "in"]);
/** Words that cannot be names. */
export const RESERVED: ReadonlySet<string> = new Set(["and", "or", "not", "in", "exists", "matches", "true", "false"]);

/** What the expressions of a policy may still use. `isStored`: it was accepted before and is only loaded. */
export type ExpressionBudget = {
  chars: number;
  terms: number;
  instructions: number;
  effort: number;
  readonly isStored: boolean;
};

/** A full budget; create one per policy. */
export function createExpressionBudget(): ExpressionBudget {
  return {
    chars: MAX_POLICY_CHARS,
    terms: MAX_POLICY_TERMS,
    instructions: MAX_POLICY_INSTRUCTIONS,
    effort: MAX_POLICY_EFFORT,
    isStored: false,
  };
}

/** An unlimited budget for policies that were accepted before: earlier versions had larger limits (semantics 5.5). */
export function createUnlimitedBudget(): ExpressionBudget {
  return { chars: Infinity, terms: Infinity, instructions: Infinity, effort: Infinity, isStored: true };
}

/** Thrown at the first syntax error; never leaves this file. */
class SyntaxProblem extends Error {
  readonly at: number;
  constructor(at: number, problem: string) {
    super(problem);
    this.at = at;
  }
}

/**
 * Parses an expression with or without its `${{ }}` wrapper (semantics 5.2, 13.58). Problems have offsets into
 * `source` in code units: one syntax error, or every refused regular expression. Whether the result is boolean is
 * checked at evaluation (semantics 13.10), not here. Never throws.
 */
export function parseExpression(
  source: string,
  budget: ExpressionBudget,
): { expression: Expression } | { problems: ExpressionProblem[] } {
  if (source.length > MAX_EXPRESSION_CHARS && !budget.isStored) {
    const problem = `an expression may hold ${MAX_EXPRESSION_CHARS} characters, this is the next one`;
    return { problems: [{ at: MAX_EXPRESSION_CHARS, problem }] };
  }
  budget.chars -= source.length;
  if (budget.chars < 0) {
    const problem = `the expressions of one policy may hold ${MAX_POLICY_CHARS} characters together`;
    return { problems: [{ at: 0, problem }] };
  }
  // Parsing further expressions would take as long as the rest of the policy.
  if (budget.terms < 0) return { problems: [{ at: 0, problem: TOO_MANY_TERMS }] };
  const inner = unwrap(source);
  if ("problem" in inner) return { problems: [inner] };
  const lexed = tokenize(inner.text);
  if ("problem" in lexed) return { problems: [{ at: lexed.at + inner.at, problem: lexed.problem }] };
  try {
    const parser = new TokenParser(lexed.tokens, budget);
    const tree = parser.parse();
    const { problems } = parser;
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

/** A pattern in place of a refused one, so that the rest of the expression is still checked. */
const NEVER_MATCHES: Regex = { find: () => false, size: 0 };

/** Recursive descent over the tokens of one expression. */
class TokenParser {
  readonly problems: ExpressionProblem[] = [];
  readonly #tokens: readonly Token[];
  readonly #budget: ExpressionBudget;
  readonly #end: Token;
  #index = 0;
  #depth = 0;
  #terms = 0;

  constructor(tokens: readonly Token[], budget: ExpressionBudget) {
    this.#tokens = tokens;
    this.#budget = budget;
    this.#end = tokens.at(-1) as Token;
  }

  /** @throws SyntaxProblem for the first syntax error; refused patterns are collected in `problems` */
  parse(): Expr {
    const tree = this.#or();
    if (this.#peek().kind !== "end")
      this.#fail(`expected an operator or the end of the expression but found ${describe(this.#peek())}`);
    return tree;
  }

  #peek(): Token {
    return this.#tokens[this.#index] ?? this.#end;
  }

  #is(kind: Token["kind"], text: string): boolean {
    const token = this.#peek();
    return token.kind === kind && token.text === text;
  }

  #accept(kind: Token["kind"], text: string): boolean {
    if (!this.#is(kind, text)) return false;
    this.#index += 1;
    return true;
  }

  #expect(text: string): void {
    if (!this.#accept("symbol", text)) this.#fail(`expected '${text}' but found ${describe(this.#peek())}`);
  }

  #fail(problem: string): never {
    throw new SyntaxProblem(this.#peek().at, problem);
  }

  #nest<T>(parse: () => T): T {
    if (this.#depth >= MAX_NESTING) this.#fail(`the expression nests deeper than ${MAX_NESTING} levels`);
    this.#depth += 1;
    const result = parse();
    this.#depth -= 1;
    return result;
  }

  #chain(kind: "and" | "or", next: () => Expr): Expr {
    const first = next();
    if (!this.#is("word", kind)) return first;
    const terms = [first];
    while (this.#accept("word", kind)) terms.push(next());
    return { kind, terms, at: first.at };
  }

  readonly #or = (): Expr => this.#chain("or", this.#and);
  readonly #and = (): Expr => this.#chain("and", this.#not);

  readonly #not = (): Expr => {
    const { at } = this.#peek();
    if (!this.#accept("word", "not")) return this.#comparison();
    return { kind: "not", operand: this.#nest(this.#not), at };
  };

  #comparison(): Expr {
    const left = this.#operand();
    const { kind, text, at } = this.#peek();
    if (kind === "word" && text === "not") this.#fail("unexpected 'not'; write not (a in [b])");
    if ((kind !== "symbol" && kind !== "word") || !COMPARISONS.has(text)) return left;
    this.#index += 1;
    const right = this.#operand();
    const following = this.#peek();
    if (COMPARISONS.has(following.text) && (following.kind === "symbol" || following.kind === "word")) {
      this.#fail("comparisons cannot be chained; use parentheses");
    }
    return { kind: "compare", operator: text as ComparisonOperator, left, right, at };
  }

  readonly #operand = (): Expr => {
    const token = this.#peek();
    const { kind, text, at } = token;
    this.#countTerm();
    if (kind === "string" || kind === "number") return this.#leaf({ kind: "literal", value: text, at });
    if (kind === "tag") return this.#leaf({ kind: "tag", key: text, at });
    if (this.#accept("symbol", "(")) {
      const inner = this.#nest(this.#or);
      this.#expect(")");
      return inner;
    }
    if (this.#accept("symbol", "[")) return { kind: "list", items: this.#nest(this.#items), at };
    if (kind !== "word") this.#fail(`expected a value but found ${describe(token)}`);
    return this.#word(token);
  };

  #countTerm(): void {
    this.#terms += 1;
    this.#budget.terms -= 1;
    const isOneTooMany = this.#terms > MAX_EXPRESSION_TERMS && !this.#budget.isStored;
    if (isOneTooMany) this.#fail(`an expression may have ${MAX_EXPRESSION_TERMS} terms, this is the next one`);
    if (this.#budget.terms < 0) this.#fail(TOO_MANY_TERMS);
  }

  #word({ text, at }: Token): Expr {
    if (text === "true" || text === "false") return this.#leaf({ kind: "literal", value: text === "true", at });
    if ((CONTEXT_NAMES as readonly string[]).includes(text))
      return this.#leaf({ kind: "context", name: text as ContextName, at });
    if (text === "exists") return this.#call(() => ({ kind: "exists", operand: this.#nest(this.#operand), at }));
    if (text === "matches") return this.#call(() => this.#matches(at));
    if (RESERVED.has(text)) this.#fail(`expected a value but found '${text}'`);
    return this.#fail(describeUnknownName(text));
  }

  #leaf(expr: Expr): Expr {
    this.#index += 1;
    return expr;
  }

  readonly #items = (): Expr[] => {
    const items: Expr[] = [];
    if (this.#accept("symbol", "]")) return items;
    do items.push(this.#operand());
    while (this.#accept("symbol", ","));
    this.#expect("]");
    return items;
  };

  #call(parseArguments: () => Expr): Expr {
    this.#index += 1;
    this.#expect("(");
    const result = parseArguments();
    this.#expect(")");
    return result;
  }

  #matches(at: number): Expr {
    const input = this.#nest(this.#operand);
    this.#expect(",");
    const pattern = this.#peek();
    if (pattern.kind !== "string") this.#fail(`expected a regular expression in quotes but found ${describe(pattern)}`);
    this.#index += 1;
    return { kind: "matches", input, regex: this.#compile(pattern), at };
  }

  /** Compiles a pattern; a refused one is reported and replaced, because the rest may contain further mistakes. */
  #compile(pattern: Token): Regex {
    const budget = this.#budget;
    if (!budget.isStored) budget.effort -= estimateEffort(pattern.text);
    if (budget.effort < 0 || budget.instructions < 0) return this.#refuse(pattern, TOO_LARGE_TOGETHER);
    const compiled = compileRegex(pattern.text, { isStored: budget.isStored });
    if ("problem" in compiled) return this.#refuse(pattern, compiled.problem);
    budget.instructions -= compiled.size;
    return budget.instructions < 0 ? this.#refuse(pattern, TOO_LARGE_TOGETHER) : compiled;
  }

  #refuse({ at }: Token, problem: string): Regex {
    if (this.problems.length < MAX_DIAGNOSTICS) this.problems.push({ at, problem });
    return NEVER_MATCHES;
  }
}

const TOO_MANY_TERMS = `the expressions of one policy may have ${MAX_POLICY_TERMS} terms together`;
const TOO_LARGE_TOGETHER = "the regular expressions of this policy are too large together";

function describe(token: Token): string {
  if (token.kind === "end") return "the end of the expression";
  if (token.kind === "string") return `the text '${excerpt(token.text)}'`;
  return `'${token.kind === "tag" ? "flow.tags." : ""}${excerpt(token.text)}'`;
}

function describeUnknownName(text: string): string {
  if (text === "flow.tags") return "flow.tags needs a key, as in flow.tags.team";
  const lower = text.toLowerCase();
  if (RESERVED.has(lower)) return `unknown name '${excerpt(text)}'; write '${lower}'`;
  const known = `${CONTEXT_NAMES.join(", ")} and flow.tags.<key>`;
  return `unknown name '${excerpt(text)}'; known are ${known}; put texts in quotes`;
}
