/** Positions in a text for error messages, and the range of its content. */

/**
 * A position as in editors: line and column start at 1, columns count UTF-16 code units, and a byte order mark counts
 * as none.
 */
export type SourcePosition = { line: number; column: number };

/** The lines of a text from the first to the last of a part, counted from 1, both inclusive. */
export type LineRange = { from: number; to: number };

/** Sorts positions in text order. */
export function compareByPosition(a: SourcePosition, b: SourcePosition): number {
  return a.line - b.line || a.column - b.column;
}

/**
 * The offsets at which the YAML content of a text begins and ends. Comments and blank lines around it are cut off
 * before lexing, so that even 10 MB of them are cheap: they carry no meaning. At the end, only lines that begin at
 * column 1 are cut, where no scalar of a map can continue.
 */
export function findContent(text: string): { start: number; end: number } {
  let start = text.startsWith("\ufeff") ? 1 : 0;
  while (start < text.length) {
    const lineEnd = text.indexOf("\n", start);
    if (lineEnd < 0 || !isCommentOrBlank(text, start, lineEnd)) break;
    start = lineEnd + 1;
  }
  let end = text.length;
  while (end > start) {
    const lineStart = text.lastIndexOf("\n", end - 2) + 1;
    if (lineStart <= start || (text[lineStart] !== "#" && !isBlank(text, lineStart, end))) break;
    end = lineStart;
  }
  return { start, end };
}

function isCommentOrBlank(text: string, start: number, end: number): boolean {
  let at = start;
  while (at < end && isSpace(text[at])) at += 1;
  return at === end || text[at] === "#";
}

function isBlank(text: string, start: number, end: number): boolean {
  for (let at = start; at < end; at += 1) if (!isSpace(text[at])) return false;
  return true;
}

export function isSpace(character: string | undefined): boolean {
  return character === " " || character === "\n" || character === "\t" || character === "\r";
}

/** Lines between two entries of the line index: a file of blank lines may have ten million. */
const LINES_PER_ENTRY = 64;

/**
 * Maps offsets in the content to positions in the whole text. The line index is built on the first call.
 * @param base offset of the content in the text
 */
export function createPositionIndex(text: string, base: number): (offset: number) => SourcePosition {
  let starts: number[] | null = null;
  // Positions are asked for in text order, and a line may be as long as the text: its end is searched once.
  let found: Line = { line: 0, start: 0, end: 0 };
  return (offset) => {
    starts ??= indexLines(text);
    const target = Math.min(Math.max(offset + base, 0), text.length);
    if (target < found.start || target >= found.end) found = findLine(text, starts, target);
    const { line, start } = found;
    const byteOrderMark = line === 0 && text.startsWith("\ufeff") ? 1 : 0;
    return { line: line + 1, column: Math.max(1, target - start + 1 - byteOrderMark) };
  };
}

/** A line, counted from 0, with the offsets of its first character and of that of the next line. */
type Line = { line: number; start: number; end: number };

/** @param starts the result of indexLines */
function findLine(text: string, starts: readonly number[], target: number): Line {
  let low = 0;
  let high = starts.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((starts[middle] ?? 0) <= target) low = middle;
    else high = middle - 1;
  }
  let line = low * LINES_PER_ENTRY;
  let start = starts[low] ?? 0;
  let next = text.indexOf("\n", start) + 1;
  while (next > 0 && next <= target) {
    line += 1;
    start = next;
    next = text.indexOf("\n", next) + 1;
  }
  return { line, start, end: next === 0 ? text.length + 1 : next };
}

/** The offsets of every LINES_PER_ENTRY-th line, from the first line on. */
function indexLines(text: string): number[] {
  const starts = [0];
  let lines = 0;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) {
    lines += 1;
    if (lines % LINES_PER_ENTRY === 0) starts.push(at + 1);
  }
  return starts;
}
