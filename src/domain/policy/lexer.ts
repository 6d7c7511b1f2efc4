/**
 * Expression text into tokens. Reading stops at the first character that fits nowhere: what follows it
 * could only be guessed.
 */
import { formatCodePoint, excerpt } from "../text/excerpt.ts";

export type TokenKind = "string" | "number" | "word" | "tag" | "symbol" | "end";

/**
 * `text` is the content: a string without its quotes, a tag without `flow.tags.`; `at` is the offset in code units from
 * 0.
 */
export type Token = { kind: TokenKind; text: string; at: number };

/** Why an expression is refused, and at which offset (code units from 0). */
export type ExpressionProblem = { at: number; problem: string };

const SPACE = /[ \t\r\n]+/y;
const WORD_CHARACTER = /[A-Za-z0-9_.~-]/y;

/**
 * Tried in this order. A tag key takes every dot and hyphen it can get: `flow.tags.risk-level.v2` is one key (semantics
 * 5.2).
 */
const KINDS: readonly (readonly [TokenKind, RegExp])[] = [
  ["string", /'([^']*)'|"([^"]*)"/y],
  ["number", /-?\d+(?:\.\d+)?/y],
  ["tag", /flow\.tags\.([A-Za-z0-9][A-Za-z0-9._~-]*)/y],
  ["word", /[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*/y],
  ["symbol", /==|!=|<=|>=|[<>()[\],]/y],
];

/** What people bring along from other languages. */
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
  function take(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = at;
    return pattern.exec(source);
  }
  while (true) {
    at += take(SPACE)?.[0].length ?? 0;
    if (at >= source.length) break;
    const start = at;
    for (const [kind, pattern] of KINDS) {
      const found = take(pattern);
      if (found === null) continue;
      tokens.push({ kind, text: found[1] ?? found[2] ?? found[0], at: start });
      at += found[0].length;
      if ((kind === "number" || kind === "word") && take(WORD_CHARACTER) !== null) {
        return {
          at: start,
          problem: `'${excerpt(/^[A-Za-z0-9_.~-]+/.exec(source.slice(start))?.[0] ?? "")}' is neither a number nor a known name`,
        };
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
  const shown = /[\p{C}\p{Z}]/u.test(character) ? formatCodePoint(character) : `'${character}'`;
  return { at, problem: `unexpected character ${shown}` };
}
