// From the text of a template to one YAML document, or the first thing that prevents it.
//
// The text comes from users and may be hostile, and it is read inside a request. The invariants that keep reading it
// harmless: at most MAX_TOKENS tokens are looked at, nesting ends at MAX_DEPTH before any recursive code sees the tree,
// and the library's check for duplicate keys, which compares every pair, stays off: whoever walks the document does it.
// Nothing in this file throws on any text.
import { Composer, Lexer, Parser, visit } from "yaml";
import type { CST, Document } from "yaml";

/** A right template nests seven deep; the rest is room for wrong ones, so that they get a precise refusal. */
const MAX_DEPTH = 64;
/**
 * Some 10,000 expected attestations, read in well under a second. The size limit of the file alone (10 MB) would let one
 * request hold the process for the better part of a minute.
 */
const MAX_TOKENS = 200_000;
/** Longest part of a user's value that a problem repeats; problems are single lines. */
const MAX_SHOWN = 100;

/** Characters outside YAML's printable set; with the u flag the last class matches only surrogates without partner. */
const UNPRINTABLE = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]|\p{Cs}/u;

/** Where something stands in the text as an editor counts, from 1. */
export type Place = { line: number; column: number };

/** A well-formed document. Nodes are those of the `yaml` library; `resolve` follows an alias, `place` finds a node. */
export type YamlDocument = {
  root: unknown;
  /** What an alias stands for; any other node, and an alias of nothing, is returned as it is. */
  resolve(node: unknown): unknown;
  place(node: unknown): Place;
};

type Refusal = { problem: string; offset: number };

/**
 * The text as a single YAML 1.2 document (core schema, whatever a %YAML directive says), or the first mistake. Aliases
 * may form cycles and bombs: follow them along a known shape only, and count.
 */
export function readYaml(
  text: string,
): { document: YamlDocument; mistake: null } | { document: null; mistake: { problem: string } & Place } {
  const { begin, end } = withoutPadding(text);
  const place = (offset: number): Place => placeOf(text, begin + offset);
  const reading = compose(text.slice(begin, end));
  if ("problem" in reading) return { document: null, mistake: { problem: reading.problem, ...place(reading.offset) } };

  const targets = aliasTargets(reading);
  const document: YamlDocument = {
    root: reading.contents,
    resolve: (node) => targets.get(node) ?? node,
    place: (node) => place(offsetOf(node)),
  };
  return { document, mistake: null };
}

/**
 * The part of the text between leading and trailing lines that are empty or comments from their first column on. Such
 * lines never carry content, and left to the library a long licence or padding would use up the tokens.
 */
function withoutPadding(text: string): { begin: number; end: number } {
  let begin = 0;
  while (isPadding(text, begin)) {
    const next = text.indexOf("\n", begin);
    if (next === -1) break;
    begin = next + 1;
  }
  let end = text.length;
  while (end > begin) {
    const start = text.lastIndexOf("\n", end - 1 - (text[end - 1] === "\n" ? 1 : 0)) + 1;
    if (start < begin || !isPadding(text, start)) break;
    end = start;
  }
  return { begin, end };
}

function isPadding(text: string, lineStart: number): boolean {
  const char = text[lineStart];
  return char === "#" || char === "\n" || (char === "\r" && text[lineStart + 1] === "\n");
}

function compose(text: string): Document.Parsed | Refusal {
  const unprintable = UNPRINTABLE.exec(text);
  if (unprintable !== null) {
    return { problem: `Not YAML: the character ${escaped(unprintable[0])} is not allowed`, offset: unprintable.index };
  }
  try {
    const tokens = parseTokens(text);
    return "problem" in tokens ? tokens : composeDocument(tokens, text.length);
  } catch (error) {
    // The library promises to collect errors instead of throwing them. Should it fail to, it is still the user's text
    // that cannot be read, and the answer is a refusal (semantics 2.1: bad YAML of any kind).
    return { problem: `Not YAML: ${shortened(error instanceof Error ? error.message : String(error))}`, offset: 0 };
  }
}

/** Drives the library's lexer and parser one token at a time, so that hostile texts are left at once. */
function parseTokens(text: string): CST.Token[] | Refusal {
  const parser = new Parser();
  const tokens: CST.Token[] = [];
  let documents = 0;
  let refusal: Refusal | null = null;

  const take = (produced: Iterable<CST.Token>): void => {
    for (const token of produced) {
      if (refusal !== null) return;
      if (token.type === "error") refusal = { problem: `Not YAML: ${shortened(token.message)}`, offset: token.offset };
      else if (token.type === "document" && ++documents > 1) {
        refusal = { problem: "Expected a single YAML document, but another one begins here", offset: token.offset };
      }
      tokens.push(token);
    }
  };

  let count = 0;
  for (const lexeme of new Lexer().lex(text)) {
    take(parser.next(lexeme));
    if (refusal !== null) return refusal;
    if (parser.stack.length > MAX_DEPTH) return { problem: `Nested deeper than ${MAX_DEPTH} levels`, offset: parser.offset };
    if (++count > MAX_TOKENS) return { problem: `Longer than ${MAX_TOKENS} YAML tokens`, offset: parser.offset };
  }
  take(parser.end());
  return refusal ?? tokens;
}

function composeDocument(tokens: readonly CST.Token[], length: number): Document.Parsed | Refusal {
  // The schema is named so that a %YAML 1.1 directive cannot switch to another reading of `yes`, `<<` and `!!binary`.
  const composer = new Composer({ schema: "core", uniqueKeys: false });
  for (const document of composer.compose(tokens, true, length)) {
    const error = first(document.errors) ?? first(document.warnings.filter(({ code }) => code === "TAG_RESOLVE_FAILED"));
    if (error === null) return document as Document.Parsed;
    const hint = error.code === "BAD_ALIAS" ? ' (to accept any type write "*" in quotes)' : "";
    return { problem: `Not YAML: ${shortened(error.message)}${hint}`, offset: Math.max(0, error.pos[0]) };
  }
  return { problem: "Not YAML: no document", offset: 0 };
}

function first<E extends { pos: [number, number] }>(errors: readonly E[]): E | null {
  let earliest: E | null = null;
  for (const error of errors) if (earliest === null || error.pos[0] < earliest.pos[0]) earliest = error;
  return earliest;
}

/** What each alias stands for: the latest anchor of its name before it. An alias without one stays without an entry. */
function aliasTargets(document: Document.Parsed): Map<unknown, unknown> {
  const anchors = new Map<string, unknown>();
  const targets = new Map<unknown, unknown>();
  visit(document, {
    Alias(_key, alias) {
      if (anchors.has(alias.source)) targets.set(alias, anchors.get(alias.source));
    },
    Value(_key, node) {
      if (node.anchor !== undefined) anchors.set(node.anchor, node);
    },
  });
  return targets;
}

/** A user's text in one short line. */
export function shortened(text: string): string {
  return text.length > MAX_SHOWN ? `${escaped(text.slice(0, MAX_SHOWN))}...` : escaped(text);
}

/** Line breaks would break the form of the refusal, control characters the terminal, lone surrogates the encoding. */
function escaped(text: string): string {
  const unsafe = /[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]|\p{Cs}/gu;
  return text.replace(unsafe, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}


/** UTF-16 offset of a node; the start of the text for the empty document, which has none. */
function offsetOf(node: unknown): number {
  const range = (node as { range?: readonly number[] | null } | null)?.range;
  return range?.[0] ?? 0;
}

/** Line and column, from 1, as an editor counts them. Linear in the text, so for reported problems only. */
function placeOf(text: string, offset: number): { line: number; column: number } {
  let line = 1;
  let start = 0;
  for (let end = text.indexOf("\n"); end !== -1 && end < offset; end = text.indexOf("\n", start)) {
    line += 1;
    start = end + 1;
  }
  return { line, column: offset - start + 1 };
}
