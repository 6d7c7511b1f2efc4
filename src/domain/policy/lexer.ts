/**
 * Splits the text of an expression into tokens. Stops at the first invalid character, because the meaning of the rest
 * is uncertain.
 */
import { formatCodePoint, excerpt } from "../text/excerpt.ts";

type TokenKind = "string" | "number" | "word" | "tag" | "symbol" | "end";

/** `text` is the content: a string without quotes, a tag without `flow.tags.`; `at` is the offset in code units. */
export type Token = { kind: TokenKind; text: string; at: number };

/** Why an expression is refused, and at which offset (code units from 0). */
export type ExpressionProblem = { at: number; problem: string };

const SPACE = /[ \t\r\n]+/y;
const WORD_CHARACTER = /[A-Za-z0-9_.~-]/y;

/**
 * Tried in this order. A tag key includes all following dots and hyphens: `flow.tags.risk-level.v2` is one key
 * (semantics 5.2).
 */
const KINDS: readonly (readonly [TokenKind, RegExp])[] = [
  ["string", /'([^']*)'|"([^"]*)"/y],
  ["number", /-?\d+(?:\.\d+)?/y],
  ["tag", /flow\.tags\.([A-Za-z0-9][A-Za-z0-9._~-]*)/y],
  ["word", /[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*/y],
  ["symbol", /==|!=|<=|>=|[<>()[\],]/y],
];

/** Operators of other languages, and what to write instead. */
const FOREIGN: readonly [string, string][] = [
  ["&&", "and"],
  ["||", "or"],
  ["=~", "matches(input, regex)"],
  ["=", "=="],
  ["!", "not"],
];

/** Splits an expression (semantics 5.2) into tokens; the last one is always `end`. Linear, never throws. */
export function tokenize(source: string): { tokens: Token[] } | ExpressionProblem {
  const tokens: Token[] = [];
  let at = 0;
  function match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = at;
    return pattern.exec(source);
  }
  while (true) {
    at += match(SPACE)?.[0].length ?? 0;
    if (at >= source.length) break;
    const start = at;
    for (const [kind, pattern] of KINDS) {
      const token = match(pattern);
      if (token === null) continue;
      tokens.push({ kind, text: token[1] ?? token[2] ?? token[0], at: start });
      at += token[0].length;
      if ((kind === "number" || kind === "word") && match(WORD_CHARACTER) !== null) {
        const word = /^[A-Za-z0-9_.~-]+/.exec(source.slice(start))?.[0] ?? "";
        return { at: start, problem: `'${excerpt(word)}' is neither a number nor a known name` };
      }
      break;
    }
    if (at === start) return unexpected(source, at);
  }
  tokens.push({ kind: "end", text: "", at: source.length });
  return { tokens };
}

function unexpected(source: string, at: number): ExpressionProblem {
  const character = String.fromCodePoint(source.codePointAt(at) ?? 0);
  if (character === "'" || character === '"')
    return { at, problem: `the text that begins with ${character} is not closed` };
  for (const [foreign, ours] of FOREIGN) {
    if (source.startsWith(foreign, at)) return { at, problem: `unexpected '${foreign}'; write ${ours}` };
  }
  const symbol = /[\p{C}\p{Z}]/u.test(character) ? formatCodePoint(character) : `'${character}'`;
  return { at, problem: `unexpected character ${symbol}` };
}
