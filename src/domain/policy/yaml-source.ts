/**
 * YAML text into a tree of nodes with positions, within bounds. The composer of the yaml package recurses
 * and spends about 10 microseconds on every error, so the limits are applied to its lexer and parser, which
 * do neither, before anything is composed.
 */
import { Composer, isAlias, isNode, Lexer, Parser, visit } from "yaml";
import type { Alias, CST, Document, Node, Scalar } from "yaml";
import type { Diagnostic } from "./diagnostics.ts";
import { excerpt, MAX_DIAGNOSTICS } from "./diagnostics.ts";

/** Tokens besides comments, spaces and line ends. A rule takes about 20 of them. */
const MAX_TOKENS = 100_000;

/** Comments, spaces and line ends after the first and before the last content line; about a second of reading. */
const MAX_BLANK_TOKENS = 1_000_000;

/** Collections inside one another. A policy needs five levels. */
const MAX_NESTING = 50;

/** Characters outside the printable set of YAML 1.2 (section 5.1 there), lone surrogates included. */
const NOT_PRINTABLE = /[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu;

/**
 * A YAML text that was read. `root` is null when there is nothing to look at: no document, or a limit was
 * hit. `brokenAt` is the offset of the first syntax error, null without one: nodes before it can be trusted.
 */
export type YamlSource = {
  root: Node | null;
  problems: Diagnostic[];
  brokenAt: number | null;
  /** Line and column, from 1, of an offset that a node's range gives. */
  position(offset: number): { line: number; column: number };
  /** The place of the character `index` of a scalar's value; the scalar's start where escapes make it unclear. */
  positionInside(scalar: Scalar, index: number): { line: number; column: number };
  /** The node an alias stands for, other nodes as they are; also an alias without an anchor, which `problems` names. */
  resolve(node: Node): Node;
};

/** Reads exactly one YAML 1.2 document (core schema, no merge keys). Never throws; linear time. */
export function readYaml(text: string): YamlSource {
  const { start, end } = contentRange(text);
  const body = text.slice(start, end);
  const problems: Diagnostic[] = [];
  const position = lineIndex(text, start);
  const report = (offset: number, problem: string): void => {
    problems.push({ ...position(offset), path: "", problem });
  };
  const source: YamlSource = {
    root: null,
    problems,
    brokenAt: null,
    position,
    positionInside: (scalar, index) => position(offsetInside(body, scalar, index)),
    resolve: (node) => node,
  };

  let unprintable = 0;
  for (const found of text.matchAll(NOT_PRINTABLE)) {
    if (found.index === 0 && found[0] === "\ufeff") continue;
    if (++unprintable > MAX_DIAGNOSTICS) break;
    const code = found[0].codePointAt(0) ?? 0;
    report(found.index - start, `the character U+${code.toString(16).toUpperCase().padStart(4, "0")} is not allowed in YAML`);
  }

  const composed = compose(body, report);
  if (composed === null) return source;
  const { documents, document } = composed;
  for (const offset of documents.slice(1, 2)) report(offset, "the file must hold one YAML document, not several");
  for (const { pos, message } of document.errors.slice(0, MAX_DIAGNOSTICS)) report(pos[0], syntaxProblem(message));
  const errors = document.errors.map(({ pos }) => pos[0]);
  source.brokenAt = errors.length === 0 ? null : errors.reduce((a, b) => Math.min(a, b));
  for (const { code, pos, message } of document.warnings.slice(0, MAX_DIAGNOSTICS)) {
    if (code === "TAG_RESOLVE_FAILED") report(pos[0], syntaxProblem(message));
  }
  if (document.contents === null) {
    if (problems.length === 0) report(0, "the file is empty");
    return source;
  }
  const targets = aliasTargets(document, ({ source, range }) => {
    report(range?.[0] ?? 0, `the alias *${excerpt(source)} has no anchor before it`);
  });
  source.root = document.contents;
  source.resolve = (node) => (isAlias(node) ? (targets.get(node) ?? node) : node);
  return source;
}

/** Composes the first document; null, with a problem reported, when a limit is hit. `documents` are the offsets of all. */
function compose(body: string, report: (offset: number, problem: string) => void): { documents: number[]; document: Document.Parsed } | null {
  const parser = new Parser();
  const composer = new Composer({ schema: "core", merge: false, uniqueKeys: false, prettyErrors: false, logLevel: "silent" });
  const documents: number[] = [];
  let document: Document.Parsed | null = null;
  let tokens = 0;
  let blanks = 0;
  function* parse(): Generator<CST.Token> {
    for (const lexeme of new Lexer().lex(body)) {
      if (/^[\s#]/.test(lexeme)) blanks += 1;
      else tokens += 1;
      if (tokens > MAX_TOKENS) return report(parser.offset, `the file is too large: it holds more than ${MAX_TOKENS} YAML tokens`);
      if (blanks > MAX_BLANK_TOKENS) return report(parser.offset, "the file is too large: it holds too many comments and line ends");
      yield* parser.next(lexeme);
      if (parser.stack.length > MAX_NESTING) return report(parser.offset, `the file nests deeper than ${MAX_NESTING} levels`);
    }
    yield* parser.end();
    complete = true;
  }
  let complete = false;
  const read = [...parse()];
  if (!complete) return null;
  for (const token of read) {
    if (token.type === "document") documents.push(token.offset);
    for (const next of composer.next(token)) document ??= next;
  }
  for (const next of composer.end(true, body.length)) document ??= next;
  return document === null ? null : { documents, document };
}

/** The library's sentences, in one line and in our voice. They may repeat a token of the file, which may be long. */
function syntaxProblem(message: string): string {
  return excerpt(message.charAt(0).toLowerCase() + message.slice(1), 200);
}

/**
 * Where the content begins and ends. Comments and blank lines around it are cut off before lexing, which
 * makes even 10 MB of them cheap: they carry nothing, and the last lines count only down to column 1,
 * where no scalar of a map can continue.
 */
function contentRange(text: string): { start: number; end: number } {
  let start = text.startsWith("\ufeff") ? 1 : 0;
  while (start < text.length) {
    const lineEnd = text.indexOf("\n", start);
    if (lineEnd < 0 || !isBlank(text, start, lineEnd, true)) break;
    start = lineEnd + 1;
  }
  let end = text.length;
  while (end > start) {
    const lineStart = text.lastIndexOf("\n", end - 2) + 1;
    if (lineStart <= start || (text[lineStart] !== "#" && !isBlank(text, lineStart, end, false))) break;
    end = lineStart;
  }
  return { start, end };
}

function isBlank(text: string, start: number, end: number, comments: boolean): boolean {
  for (let i = start; i < end; i += 1) {
    if (text[i] === "#") return comments;
    if (!isSpace(text[i])) return false;
  }
  return true;
}

/** Offsets of the cut text to lines and columns of the whole one. The index is made when first asked for. */
function lineIndex(text: string, base: number): YamlSource["position"] {
  let starts: number[] | null = null;
  return (offset) => {
    if (starts === null) {
      starts = [0];
      for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
    }
    const target = Math.min(Math.max(offset + base, 0), text.length);
    let low = 0;
    let high = starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((starts[middle] ?? 0) <= target) low = middle;
      else high = middle - 1;
    }
    const mark = low === 0 && text.startsWith("\ufeff") ? 1 : 0;
    return { line: low + 1, column: Math.max(1, target - (starts[low] ?? 0) + 1 - mark) };
  };
}

/** Targets of all aliases: the last anchor of that name before the alias in the text, as YAML has it. */
function aliasTargets(document: Document.Parsed, missing: (alias: Alias) => void): Map<Alias, Node> {
  const anchors = new Map<string, Node>();
  const targets = new Map<Alias, Node>();
  visit(document, (_, node) => {
    if (!isNode(node)) return;
    if (isAlias(node)) {
      const target = anchors.get(node.source);
      if (target === undefined) missing(node);
      else targets.set(node, target);
    } else if ("anchor" in node && typeof node.anchor === "string") anchors.set(node.anchor, node);
  });
  return targets;
}

/**
 * Folding and indentation only change white space, so the n-th other character of the value is the n-th
 * one of the source. Escapes break that: after the first one the texts differ, and the start has to do.
 */
function offsetInside(body: string, scalar: Scalar, index: number): number {
  const [start, end] = scalar.range ?? [0, 0];
  const value = String(scalar.value);
  let at = start;
  if (scalar.type === "QUOTE_DOUBLE" || scalar.type === "QUOTE_SINGLE") at += 1;
  if (scalar.type === "BLOCK_LITERAL" || scalar.type === "BLOCK_FOLDED") at = body.indexOf("\n", start) + 1;
  let last = at;
  for (let i = 0; i <= index && i < value.length; i += 1) {
    if (isSpace(value[i])) continue;
    while (at < end && isSpace(body[at])) at += 1;
    if (at >= end || body[at] !== value[i]) return start;
    if (i === index) return at;
    at += 1;
    last = at;
  }
  return last;
}

function isSpace(character: string | undefined): boolean {
  return character === " " || character === "\n" || character === "\t" || character === "\r";
}
