/**
 * The reader of every YAML text that somebody hands to us: policies, templates, and the operators' files.
 *
 * Such a text may be hostile and is read inside a request. The composer of the yaml package recurses, spends about 10
 * microseconds on every error, and compares every pair of keys; so the limits are applied to its lexer and parser,
 * which do none of that, before anything is composed, and looking for repeated keys is left to whoever walks the tree.
 * Aliases are never unpacked: follow them with `resolve`, along a known shape only. Nothing here throws on any text,
 * and everything takes time linear in it.
 */
import { Composer, isAlias, isMap, isNode, isScalar, Lexer, Parser, visit } from "yaml";
import type { Alias, CST, Document, Node, Scalar } from "yaml";
import { formatCodePoint, truncate, excerpt } from "./excerpt.ts";

/**
 * Where something stands in a text, counted from 1 as editors do: columns in UTF-16 units, a byte order mark is none.
 */
export type SourcePosition = { line: number; column: number };

/**
 * What a problem is about. `size`, `nesting`: a limit was hit. `character`: YAML does not have it. `syntax`: not YAML.
 * `alias`: not YAML either, after a `*` that was hardly meant as an alias. `documents`: a second one. `tag`: an unknown
 * one. `anchor`: an alias without one. `plain`: refused in plain files.
 */
export type YamlProblemKind =
  | "size"
  | "nesting"
  | "character"
  | "syntax"
  | "alias"
  | "documents"
  | "tag"
  | "anchor"
  | "plain";

/** `text` is one line without a full stop. */
export type YamlProblem = SourcePosition & { kind: YamlProblemKind; text: string };

/**
 * How much is read. `tokens`: besides comments, spaces and line ends. `nesting`: collections inside one another.
 * `characters`: UTF-16 units of the whole text, unlimited unless given. `problems`: how many of one kind are listed.
 * `tokenCharacters`: a longer token counts once for every so many UTF-16 units that it begins; every token counts once
 * unless this is given. `scalarCharacters`: UTF-16 units of the longest value, unlimited unless given. `blanks`:
 * comments, spaces and line ends between the first and the last line of content, counted as tokens are; a million
 * unless given.
 */
export type YamlLimits = {
  tokens: number;
  nesting: number;
  chars?: number;
  problems: number;
  charsPerToken?: number;
  scalarChars?: number;
  blanks?: number;
};

/**
 * `plain`: for files of operators, which are data only. What can expand, point elsewhere or change the meaning of a
 * plain value is refused, repeated keys too, and no message repeats the text of the file, since that may be a secret;
 * keys are the exception.
 */
export type YamlOptions = { limits: YamlLimits; plain?: boolean };

/** The options for files that operators write: those are pages, not megabytes, and real ones nest five levels deep. */
export const OPERATOR_FILE: YamlOptions = {
  plain: true,
  limits: { tokens: 200_000, nesting: 64, chars: 1_048_576, problems: 20 },
};

/**
 * A text that was read. `root` is null when there is nothing to look at: no document, or a limit was hit; of a plain
 * file also when its syntax is wrong or all it holds is null. `problems` are in the order of the text.
 */
export type YamlText = {
  root: Node | null;
  problems: YamlProblem[];
  /** Offset of the first syntax error, null without one: nodes before it can be trusted. */
  brokenAt: number | null;
  /** Where a node begins, or an offset of a node's range is; for anything else, where the content begins. */
  positionOf(at: unknown): SourcePosition;
  /** The place of the character `index` of a scalar's value; the scalar's start where escapes make it unclear. */
  positionInside(scalar: Scalar, index: number): SourcePosition;
  /** The node an alias stands for; other nodes as they are, and also an alias without an anchor. */
  resolve<T>(node: T): T | Node;
};

/** Blank tokens unless told otherwise; about a second of reading. */
const MAX_BLANK_TOKENS = 1_000_000;

/** Characters outside the printable set of YAML 1.2 (section 5.1 there), lone surrogates included. */
const NOT_PRINTABLE = /[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu;

type Report = (kind: YamlProblemKind, at: number, text: string) => void;

/**
 * Reads exactly one YAML 1.2 document (core schema whatever a directive says, no merge keys). Never throws; linear
 * time.
 */
export function readYaml(text: string, { limits, plain = false }: YamlOptions): YamlText {
  const { start, end } = contentRange(text);
  const body = text.slice(start, end);
  const problems: YamlProblem[] = [];
  const position = lineIndex(text, start);
  const report: Report = (kind, at, problem) => void problems.push({ ...position(at), kind, text: problem });
  const source: YamlText = {
    root: null,
    problems,
    brokenAt: null,
    positionOf: (at) => position(typeof at === "number" ? at : offsetOf(at)),
    positionInside: (scalar, index) => position(offsetInside(body, scalar, index)),
    resolve: (node) => node,
  };

  const { chars: characters = Infinity } = limits;
  if (text.length > characters) {
    report("size", -start, `the file is longer than ${characters.toLocaleString("en-US")} characters`);
    return source;
  }
  refuseUnprintable(text, start, limits, report);
  // The library makes an Error object for everything that it finds wrong. Nobody reads their stacks, and recording them
  // takes most of the time that a text full of mistakes needs.
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    const parsed = parse(body, { limits, plain }, report);
    if (parsed !== null) compose(source, parsed, body, { limits, plain }, report);
  } catch (error) {
    // The library promises to collect errors instead of throwing them. Should it fail to, it is still the text that
    // cannot be read.
    source.root = null;
    report("syntax", 0, syntaxProblem(error instanceof Error ? error.message : String(error), plain));
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
  problems.sort(compareByPosition);
  return source;
}

/** Order of the text, for sorting what has a place. */
export function compareByPosition(a: SourcePosition, b: SourcePosition): number {
  return a.line - b.line || a.column - b.column;
}

/** A value as it was written, in one short line; of lists and mappings only the kind, since they may be long. */
export function describeNode(node: unknown): string {
  if (isMap(node)) return "{...}";
  if (isAlias(node)) return `*${excerpt(node.source)}, an alias without anchor`;
  if (isScalar(node))
    return excerpt(typeof node.value === "string" ? node.value : (node.source ?? String(node.value)) || "null");
  return isNode(node) ? "[...]" : "null";
}

/** Whether a value is null, written or left out. */
export function isNullNode(node: unknown): boolean {
  return node === null || node === undefined || (isScalar(node) && node.value === null);
}

function refuseUnprintable(text: string, start: number, limits: YamlLimits, report: Report): void {
  let count = 0;
  for (const { index, 0: character } of text.matchAll(NOT_PRINTABLE)) {
    if (++count > limits.problems) return;
    report("character", index - start, `the character ${formatCodePoint(character)} is not allowed in YAML`);
  }
}

/** What the parser makes of the first document; `errors` are those it found, by offset. */
type Parsed = { tokens: CST.Token[]; errors: CST.ErrorToken[] };

/**
 * The tokens of the first document, null after a report when a limit is hit. Reading ends where a second document does,
 * and when the parser has found as many errors as will be listed.
 */
function parse(body: string, { limits, plain }: Required<YamlOptions>, report: Report): Parsed | null {
  const parser = new Parser();
  const tokens: CST.Token[] = [];
  const errors: CST.ErrorToken[] = [];
  let documents = 0;
  let contents = 0;
  let blanks = 0;
  let isScalarText = false;

  const take = (produced: Iterable<CST.Token>): void => {
    for (const token of produced) {
      if (token.type === "document" && ++documents === 2)
        report("documents", token.offset, "a second document begins here, one file holds one document");
      if (documents > 1) return;
      if (token.type !== "error") tokens.push(token);
      else if (errors.push(token) <= limits.problems)
        report("syntax", token.offset, syntaxProblem(token.message, plain));
    }
  };
  const refuse = (kind: YamlProblemKind, text: string): null => {
    report(kind, parser.offset, text);
    return null;
  };
  const {
    charsPerToken: tokenCharacters = Infinity,
    scalarChars: scalarCharacters = Infinity,
    blanks: maxBlanks = MAX_BLANK_TOKENS,
  } = limits;
  for (const lexeme of new Lexer().lex(body)) {
    const weight = Math.max(1, Math.ceil(lexeme.length / tokenCharacters));
    // The text of a scalar follows a mark, and may begin with what would be blank elsewhere.
    const blank = !isScalarText && isBlankLexeme(lexeme);
    isScalarText = lexeme === SCALAR_MARK;
    if (!blank && lexeme.length > scalarCharacters) return refuse("size", tooLongValue(scalarCharacters));
    if (blank) blanks += weight;
    else contents += weight;
    if (contents > limits.tokens) return refuse("size", tooManyTokens(limits));
    if (blanks > maxBlanks)
      return refuse("size", `the file is too large: it holds more than ${maxBlanks} comments, spaces and line ends`);
    take(parser.next(lexeme));
    if (parser.stack.length > limits.nesting) return refuse("nesting", `more than ${limits.nesting} levels deep`);
    if (documents > 1 || errors.length >= limits.problems) break;
  }
  if (documents < 2) take(parser.end());
  return { tokens, errors };
}

/** The lexeme before the text of a plain or block scalar. */
const SCALAR_MARK = "\x1f";

/** Whether a lexeme is a space, a line end or a comment. */
const isBlankLexeme = (lexeme: string): boolean => /^[\s#]/.test(lexeme);

function tooManyTokens({ tokens, charsPerToken: tokenCharacters }: YamlLimits): string {
  const counting = tokenCharacters === undefined ? "" : `, each counted once for every ${tokenCharacters} characters`;
  return `the file is too large: it holds more than ${tokens} YAML tokens${counting}`;
}

const tooLongValue = (characters: number): string => `this value is longer than ${characters} characters`;

/** Makes the tree of the first document, and reports what is wrong with it. */
function compose(
  source: YamlText,
  { tokens, errors }: Parsed,
  body: string,
  { limits, plain }: Required<YamlOptions>,
  report: Report,
): void {
  // With the schema named, a %YAML 1.1 directive cannot switch to another reading of `yes`, `<<` and `!!binary`.
  const composer = new Composer({
    schema: "core",
    merge: false,
    uniqueKeys: false,
    stringKeys: plain,
    prettyErrors: false,
    logLevel: "silent",
  });
  const document = composer.compose(tokens, true, body.length).next().value as Document.Parsed | undefined;
  if (document === undefined) return;
  const found = document.errors.sort((a, b) => a.pos[0] - b.pos[0]);
  for (const { code, pos, message } of found.slice(0, limits.problems)) {
    report(code === "BAD_ALIAS" ? "alias" : "syntax", pos[0], syntaxProblem(message, plain));
  }
  const broken = [...errors.map(({ offset }) => offset), ...found.slice(0, 1).map(({ pos }) => pos[0])];
  if (broken.length > 0) source.brokenAt = broken.reduce((first, offset) => Math.min(first, offset));
  if (plain) {
    for (const token of tokens)
      if (token.type === "directive") report("plain", token.offset, "directives (%) are not supported");
    if (source.brokenAt !== null || isNullNode(document.contents)) return;
    refuseMeaning(document, source, report);
  } else {
    for (const { code, pos, message } of document.warnings.slice(0, limits.problems)) {
      if (code === "TAG_RESOLVE_FAILED") report("tag", pos[0], syntaxProblem(message, plain));
    }
    const targets = aliasTargets(document, (alias) => {
      report("anchor", offsetOf(alias), `the alias *${excerpt(alias.source)} has no anchor before it`);
    });
    source.resolve = (node) => (isAlias(node) ? (targets.get(node) ?? node) : node);
  }
  source.root = document.contents;
}

/**
 * The library's sentences in one line. They may repeat a piece of the file, which may be long; in a plain one it may be
 * secret, and stands after the colon.
 */
function syntaxProblem(message: string, plain: boolean): string {
  return plain ? message.replace(/(?<! ): .*$/s, "") : excerpt(message, 200);
}

/** What a plain file may not have: signs that change the meaning of a value, and keys given twice in one mapping. */
function refuseMeaning(document: Document.Parsed, { positionOf: place }: YamlText, report: Report): void {
  visit(document, {
    Node: (_, node) => {
      // The name is not repeated: a key that somebody forgot to quote may begin with any of these characters.
      const sign = isAlias(node) ? "aliases (*)" : node.anchor ? "anchors (&)" : node.tag ? "tags (!)" : null;
      if (sign) report("plain", offsetOf(node), `${sign} are not supported, put quotes around a text`);
      if (!isMap(node)) return;
      const seen = new Map<unknown, number>();
      for (const { key } of node.items) {
        if (!isScalar(key)) continue;
        const earlier = seen.get(key.value);
        if (earlier === undefined) seen.set(key.value, place(key).line);
        else
          report(
            "plain",
            offsetOf(key),
            `the key ${JSON.stringify(truncate(String(key.value), 100))} stands in line ${earlier} already`,
          );
      }
    },
  });
}

/**
 * Targets of all aliases: the last anchor of that name before the alias in the text, as YAML has it. An alias without a
 * name is a syntax error already.
 */
function aliasTargets(document: Document.Parsed, missing: (alias: Alias) => void): Map<Alias, Node> {
  const anchors = new Map<string, Node>();
  const targets = new Map<Alias, Node>();
  visit(document, (_, node) => {
    if (!isNode(node)) return;
    if (isAlias(node)) {
      const target = anchors.get(node.source);
      if (target !== undefined) targets.set(node, target);
      else if (node.source !== "") missing(node);
    } else if ("anchor" in node && typeof node.anchor === "string") anchors.set(node.anchor, node);
  });
  return targets;
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

/** Lines between two entries of an index of lines: a file of blank lines has ten millions. */
const INDEXED_LINES = 64;

/** Offsets of the cut text to lines and columns of the whole one. The index is made when first asked for. */
function lineIndex(text: string, base: number): (offset: number) => SourcePosition {
  let starts: number[] | null = null;
  return (offset) => {
    starts ??= everyLine(text, INDEXED_LINES);
    const target = Math.min(Math.max(offset + base, 0), text.length);
    let low = 0;
    let high = starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((starts[middle] ?? 0) <= target) low = middle;
      else high = middle - 1;
    }
    let line = low * INDEXED_LINES;
    let start = starts[low] ?? 0;
    for (let next = text.indexOf("\n", start) + 1; next > 0 && next <= target; next = text.indexOf("\n", next) + 1) {
      line += 1;
      start = next;
    }
    const mark = line === 0 && text.startsWith("\ufeff") ? 1 : 0;
    return { line: line + 1, column: Math.max(1, target - start + 1 - mark) };
  };
}

/** Where every `step`-th line begins, the first one included. */
function everyLine(text: string, step: number): number[] {
  const starts = [0];
  let lines = 0;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) {
    lines += 1;
    if (lines % step === 0) starts.push(at + 1);
  }
  return starts;
}

function offsetOf(node: unknown): number {
  return (isNode(node) && node.range?.[0]) || 0;
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
