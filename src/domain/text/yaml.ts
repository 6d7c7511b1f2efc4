/**
 * Reads every YAML text from outside: policies, templates and operators' files.
 *
 * Such a text may be hostile and is read while a request waits. The composer of the yaml package recurses, spends about
 * 10 microseconds on every error and compares every pair of keys. Its lexer and parser do none of that, so the limits
 * apply there, before anything is composed, and the callers that walk the tree find repeated keys. Aliases are never
 * expanded: follow them with `resolve`, along a known shape only. No text makes these functions throw, and they take
 * time linear in its length.
 */
import { Composer, isAlias, isMap, isNode, isPair, isScalar, isSeq, Lexer, Parser, visit } from "yaml";
import type { Alias, CST, Document, Node, Scalar } from "yaml";
import { formatCodePoint, truncate, excerpt } from "./excerpt.ts";
import { findNearestNames } from "./near-names.ts";
import { compareByPosition, createPositionIndex, findContent, isSpace } from "./source-position.ts";
import type { LineRange, SourcePosition } from "./source-position.ts";

/**
 * The kind of a problem. `size`, `nesting`: a limit was exceeded. `character`: not allowed in YAML. `syntax`: not YAML.
 * `alias`: not YAML after a `*` that was probably not meant as an alias. `documents`: a second document. `tag`: an
 * unknown tag. `anchor`: an alias without an anchor. `plain`: refused in plain files.
 */
type YamlProblemKind = "size" | "nesting" | "character" | "syntax" | "alias" | "documents" | "tag" | "anchor" | "plain";

/** `text` is one line without a full stop. */
export type YamlProblem = SourcePosition & { kind: YamlProblemKind; text: string };

/** Limits of reading. Lengths are in UTF-16 code units. */
export type YamlLimits = {
  /** Tokens other than comments, spaces and line ends. */
  tokens: number;
  /** Nested collections. */
  nesting: number;
  /** Problems of one kind that are reported. */
  problems: number;
  /** A token counts once per started `charsPerToken`; by default every token counts once. */
  charsPerToken?: number;
  /** Length of a value; unlimited by default. */
  scalarChars?: number;
  /** Comments, spaces and line ends between the first and last line of content, counted as tokens are. */
  blanks?: number;
};

/**
 * `plain` is for operators' files, which are data only. It refuses everything that can expand, refer elsewhere or
 * change the meaning of a plain value, and repeated keys. No message quotes the text of such a file except for keys,
 * because it may contain secrets.
 */
type YamlOptions = { limits: YamlLimits; plain?: boolean };

/**
 * The options for operators' files, which nest five levels deep. Their size is limited where they are read from disk
 * (cli/command-config.ts): an operator sees the size of a file, but no count of tokens.
 */
export const OPERATOR_FILE: YamlOptions = {
  plain: true,
  limits: { tokens: Infinity, blanks: Infinity, nesting: 64, problems: 20 },
};

/**
 * The result of reading. `root` is null without a document or after a limit was exceeded; for a plain file also after a
 * syntax error or if its only value is null. `problems` are in text order.
 */
export type YamlText = {
  root: Node | null;
  problems: YamlProblem[];
  /** Offset of the first syntax error, null without one; nodes before it are reliable. */
  brokenAt: number | null;
  /** The position of a node or of an offset from a node's range; that of the content for anything else. */
  positionOf(at: unknown): SourcePosition;
  /** The position of character `index` of a scalar's value; the start of the scalar if escapes make it uncertain. */
  positionInside(scalar: Scalar, index: number): SourcePosition;
  /**
   * The lines from the start of a node to the end of another one, without blank lines and comments after it. An alias
   * stands where it is written. A null `last` ends with `first`.
   */
  linesOf(first: Node, last?: Node | null): LineRange;
  /** The target of an alias; other nodes, and aliases without an anchor, are returned unchanged. */
  resolve<T>(node: T): T | Node;
};

/** Default of `blanks`: about a second of reading. */
const MAX_BLANK_TOKENS = 1_000_000;

/** Characters outside the printable set of YAML 1.2 (its section 5.1), including lone surrogates. */
const NOT_PRINTABLE = /[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu;

type Report = (kind: YamlProblemKind, at: number, text: string) => void;
type Reading = { limits: YamlLimits; plain: boolean; report: Report };

/** Reads exactly one YAML 1.2 document (core schema regardless of directives, no merge keys). */
export function readYaml(text: string, { limits, plain = false }: YamlOptions): YamlText {
  const { start, end } = findContent(text);
  const body = text.slice(start, end);
  const problems: YamlProblem[] = [];
  const toPosition = createPositionIndex(text, start);
  const report: Report = (kind, at, problem) => void problems.push({ ...toPosition(at), kind, text: problem });
  const reading = { limits, plain, report };
  const source: YamlText = {
    root: null,
    problems,
    brokenAt: null,
    positionOf: (at) => toPosition(typeof at === "number" ? at : offsetOf(at)),
    positionInside: (scalar, index) => toPosition(findOffsetInside(body, scalar, index)),
    linesOf: (first, last) => ({
      from: toPosition(findFirstOffset(body, first)).line,
      to: toPosition(Math.max(offsetOf(first), findLastOffset(body, last ?? first))).line,
    }),
    resolve: (node) => node,
  };

  refuseUnprintable(text, start, reading);
  // The library creates an Error for every problem. Their stacks are not used, and recording them takes most of the
  // time for a text full of mistakes.
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    const parsed = parse(body, reading);
    const document = parsed && compose(parsed.tokens, body.length, { plain });
    if (parsed && document) inspect(source, { ...parsed, document }, reading);
  } catch (error) {
    // The library should collect errors instead of throwing them. If it throws all the same, the text is unreadable.
    source.root = null;
    report("syntax", 0, formatSyntaxProblem(error instanceof Error ? error.message : String(error), { plain }));
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
  problems.sort(compareByPosition);
  return source;
}

/**
 * A value as it was written, in one short line: a text in quotes where quotes make it one, so that `"true"` does not
 * read as true. Of lists and mappings, which may be long, only the kind.
 */
export function describeNode(node: unknown): string {
  if (isMap(node)) return "{...}";
  if (isAlias(node)) return `*${excerpt(node.source)}, an alias without anchor`;
  if (isScalar(node)) {
    const text = excerpt(typeof node.value === "string" ? node.value : (node.source ?? String(node.value)) || "null");
    return node.type === "QUOTE_DOUBLE" || node.type === "QUOTE_SINGLE" ? `"${text}"` : text;
  }
  return isNode(node) ? "[...]" : "null";
}

/** A key in one short line. */
export const describeKey = (node: unknown): string =>
  isScalar(node) ? excerpt(String(node.value)) : describeNode(node);

/**
 * The problem of a key that a mapping must not have: the keys that it may have, and the one that was probably meant.
 * @param key as it was written @param value its value, resolved @param known the keys that the mapping may have
 */
export function describeUnknownKey(key: string, value: unknown, known: readonly string[]): string {
  if (key === "<<") return "merge keys (<<) are not supported: write the keys of the other mapping here";
  const near = findNearestNames(key, known);
  const keys = `ossible keys: ${known.join(", ")}`;
  const hint = near.length > 0 ? `did you mean ${near.join(" or ")}? P${keys}` : `p${keys}`;
  return `Extra inputs are not permitted [input: ${describeNode(value)}]; ${hint}`;
}

/** Whether a value is null or absent. */
export function isNullNode(node: unknown): boolean {
  return node === null || node === undefined || (isScalar(node) && node.value === null);
}

function refuseUnprintable(text: string, start: number, { limits, report }: Reading): void {
  let count = 0;
  for (const { index, 0: character } of text.matchAll(NOT_PRINTABLE)) {
    if (++count > limits.problems) return;
    report("character", index - start, `the character ${formatCodePoint(character)} is not allowed in YAML`);
  }
}

/** The parser's tokens and errors of the first document, in text order. */
type Parsed = { tokens: CST.Token[]; errors: CST.ErrorToken[] };

/**
 * Parses the first document; null after reporting that a limit was exceeded. Parsing ends at a second document, or when
 * as many errors as will be listed were found.
 */
function parse(body: string, { limits, plain, report }: Reading): Parsed | null {
  const parser = new Parser();
  const tokens: CST.Token[] = [];
  const errors: CST.ErrorToken[] = [];
  let documents = 0;
  const count = createTokenCounter(limits);

  const accept = (produced: Iterable<CST.Token>): void => {
    for (const token of produced) {
      if (token.type === "document" && ++documents === 2)
        report("documents", token.offset, "a second document begins here, one file holds one document");
      if (documents > 1) return;
      if (token.type !== "error") tokens.push(token);
      else if (errors.push(token) <= limits.problems)
        report("syntax", token.offset, formatSyntaxProblem(token.message, { plain }));
    }
  };
  for (const lexeme of new Lexer().lex(body)) {
    const problem = count(lexeme);
    if (problem !== null) {
      report("size", parser.offset, problem);
      return null;
    }
    accept(parser.next(lexeme));
    if (parser.stack.length > limits.nesting) {
      report("nesting", parser.offset, `more than ${limits.nesting} levels deep`);
      return null;
    }
    if (documents > 1 || errors.length >= limits.problems) break;
  }
  if (documents < 2) accept(parser.end());
  return { tokens, errors };
}

/** The lexeme before the text of a plain or block scalar. */
const SCALAR_MARK = "\x1f";

/** Whether a lexeme is a space, a line end or a comment. */
const isBlankLexeme = (lexeme: string): boolean => /^[\s#]/.test(lexeme);

/** Counts lexemes against the limits on size; returns the problem of the first one beyond them. */
function createTokenCounter(limits: YamlLimits): (lexeme: string) => string | null {
  const { charsPerToken = Infinity, scalarChars = Infinity, blanks: maxBlanks = MAX_BLANK_TOKENS } = limits;
  let contents = 0;
  let blanks = 0;
  let isScalarText = false;
  return (lexeme) => {
    const weight = Math.max(1, Math.ceil(lexeme.length / charsPerToken));
    // The text of a scalar follows a mark, and may begin with characters that are blank elsewhere.
    const isBlank = !isScalarText && isBlankLexeme(lexeme);
    isScalarText = lexeme === SCALAR_MARK;
    if (!isBlank && lexeme.length > scalarChars) return `this value is longer than ${scalarChars} characters`;
    if (isBlank) blanks += weight;
    else contents += weight;
    if (contents > limits.tokens) return describeTooManyTokens(limits);
    return blanks > maxBlanks
      ? `the file is too large: it holds more than ${maxBlanks} comments, spaces and line ends`
      : null;
  };
}

function describeTooManyTokens({ tokens, charsPerToken }: YamlLimits): string {
  const counting = charsPerToken === undefined ? "" : `, each counted once for every ${charsPerToken} characters`;
  return `the file is too large: it holds more than ${tokens} YAML tokens${counting}`;
}

function compose(tokens: CST.Token[], length: number, { plain }: { plain: boolean }): Document.Parsed | undefined {
  // With a named schema, a %YAML 1.1 directive cannot switch to another reading of `yes`, `<<` and `!!binary`.
  const composer = new Composer({
    schema: "core",
    merge: false,
    uniqueKeys: false,
    stringKeys: plain,
    prettyErrors: false,
    logLevel: "silent",
  });
  const forceDocument = true;
  return composer.compose(tokens, forceDocument, length).next().value as Document.Parsed | undefined;
}

/** Reports the problems of a composed document, and completes the source with its tree and its aliases. */
function inspect(
  source: YamlText,
  { tokens, errors, document }: Parsed & { document: Document.Parsed },
  { limits, plain, report }: Reading,
): void {
  const composeErrors = document.errors.sort((a, b) => a.pos[0] - b.pos[0]);
  for (const { code, pos, message } of composeErrors.slice(0, limits.problems)) {
    report(code === "BAD_ALIAS" ? "alias" : "syntax", pos[0], formatSyntaxProblem(message, { plain }));
  }
  const broken = [...errors.map(({ offset }) => offset), ...composeErrors.slice(0, 1).map(({ pos }) => pos[0])];
  if (broken.length > 0) source.brokenAt = broken.reduce((first, offset) => Math.min(first, offset));
  if (plain) {
    for (const token of tokens)
      if (token.type === "directive") report("plain", token.offset, "directives (%) are not supported");
    if (source.brokenAt !== null || isNullNode(document.contents)) return;
    refuseIndirection(document, source, report);
  } else {
    for (const { code, pos, message } of document.warnings.slice(0, limits.problems)) {
      if (code === "TAG_RESOLVE_FAILED") report("tag", pos[0], formatSyntaxProblem(message, { plain }));
    }
    const targets = findAliasTargets(document, (alias) => {
      report("anchor", offsetOf(alias), `the alias *${excerpt(alias.source)} has no anchor before it`);
    });
    source.resolve = (node) => (isAlias(node) ? (targets.get(node) ?? node) : node);
  }
  source.root = document.contents;
}

/**
 * A message of the library in one line. It may quote a piece of the file, which may be long; in a plain file it may be
 * a secret, and follows the colon.
 */
function formatSyntaxProblem(message: string, { plain }: { plain: boolean }): string {
  return plain ? message.replace(/(?<! ): .*$/s, "") : excerpt(message, 200);
}

/** Reports what a plain file must not have: signs that change the meaning of a value, and repeated keys. */
function refuseIndirection(document: Document.Parsed, { positionOf }: YamlText, report: Report): void {
  visit(document, {
    Node: (_, node) => {
      // The message does not quote the name: an unquoted secret may begin with any of these characters.
      const sign = isAlias(node) ? "aliases (*)" : node.anchor ? "anchors (&)" : node.tag ? "tags (!)" : null;
      if (sign) report("plain", offsetOf(node), `${sign} are not supported, put quotes around a text`);
      if (!isMap(node)) return;
      const seen = new Map<unknown, number>();
      for (const { key } of node.items) {
        if (!isScalar(key)) continue;
        const earlier = seen.get(key.value);
        if (earlier === undefined) {
          seen.set(key.value, positionOf(key).line);
          continue;
        }
        const name = JSON.stringify(truncate(String(key.value), 100));
        report("plain", offsetOf(key), `the key ${name} is given more than once, first in line ${earlier}`);
      }
    },
  });
}

/**
 * The targets of all aliases: the last anchor of that name before the alias in the text, as YAML defines. An alias
 * without a name is already a syntax error.
 */
function findAliasTargets(document: Document.Parsed, reportMissing: (alias: Alias) => void): Map<Alias, Node> {
  const anchors = new Map<string, Node>();
  const targets = new Map<Alias, Node>();
  visit(document, (_, node) => {
    if (!isNode(node)) return;
    if (isAlias(node)) {
      const target = anchors.get(node.source);
      if (target !== undefined) targets.set(node, target);
      else if (node.source !== "") reportMissing(node);
    } else if ("anchor" in node && typeof node.anchor === "string") anchors.set(node.anchor, node);
  });
  return targets;
}

function offsetOf(node: unknown): number {
  return (isNode(node) && node.range?.[0]) || 0;
}

/**
 * The offset of character `index` of a scalar's value. Folding and indentation only change white space, so the n-th
 * other character of the value is the n-th one of the source. After an escape the texts differ, and the result is the
 * start of the scalar.
 */
function findOffsetInside(body: string, scalar: Scalar, index: number): number {
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

/** The offset at which a node is written, with its anchor, which its range does not include. */
function findFirstOffset(body: string, node: Node): number {
  const start = offsetOf(node);
  const at = !isAlias(node) && node.anchor ? body.lastIndexOf(`&${node.anchor}`, start) : start;
  return at < 0 ? start : at;
}

/**
 * The offset of the last character of a node, white space excluded. The range of a block collection includes the
 * comments after it, so that its last item counts.
 */
function findLastOffset(body: string, node: Node): number {
  let last: unknown = node;
  for (;;) {
    const item: unknown = (isMap(last) || isSeq(last)) && last.flow !== true ? last.items.at(-1) : undefined;
    const inner: unknown = isPair(item) ? (item.value ?? item.key) : item;
    if (!isNode(inner)) break;
    last = inner;
  }
  const [start, valueEnd] = (isNode(last) && last.range) || [0, 0];
  let end = valueEnd;
  while (end > 0 && isSpace(body[end - 1])) end -= 1;
  // An empty value has no text of its own; the white space before it leads back to its key.
  return end === 0 ? start : end - 1;
}
