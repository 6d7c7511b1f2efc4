/**
 * Layout of text in any script. A text is split into runs of one font and one direction, and runs are split where a
 * line may break. No text can leave its column: a word that is too long for a line breaks anywhere, and text beyond the
 * last line is replaced by an ellipsis.
 */
import { formatCodePoint } from "../../domain/text/excerpt.ts";
import { facesFor } from "./fonts.ts";
import type { Face, Style } from "./fonts.ts";

/** A part of a line. `script`: a right-to-left script; null for all others, which are treated alike. */
type TextRun = { text: string; face: Face; script: string | null; width: number };
export type Line = TextRun[];
/** The width in points of a text in one font. @param size text height in points */
export type Measure = (run: Pick<TextRun, "text" | "face" | "script">, size: number) => number;

/** Each script has its own shaping rules; the font engine takes them from the first letter of a run. */
const RIGHT_TO_LEFT_SCRIPTS = [
  ["hebrew", /\p{Script=Hebrew}/u],
  ["arabic", /\p{Script=Arabic}/u],
  ["syriac", /\p{Script=Syriac}/u],
  ["thaana", /\p{Script=Thaana}/u],
  ["nko", /\p{Script=Nko}/u],
] as const;
const scriptOf = (character: string): string | null =>
  character < "\u0590" ? null : (RIGHT_TO_LEFT_SCRIPTS.find(([, letters]) => letters.test(character))?.[0] ?? null);
/** Characters without a direction of their own. */
const NEUTRAL = /[\s\p{P}\p{S}\p{M}]/u;
/** Characters that are invisible or change the writing direction; shown as their code point. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}]|\p{Surrogate}/u;
/** Variation selectors and joiners; omitted where the font has no glyph for them. */
const JOINING = /\u200c|\u200d|[\ufe00-\ufe0f]|\u034f/u;

/** Splits a text into runs, in reading order. White space of any kind becomes a space. */
export function splitRuns(text: string, style: Style): Omit<TextRun, "width">[] {
  const plain = text.toWellFormed().replace(/\s+/gu, " ");
  const faces = facesFor(plain, style);
  const first = faces[0] as Face;
  const runs: Omit<TextRun, "width">[] = [];
  for (const character of plain) {
    const code = character.codePointAt(0) as number;
    const last = runs.at(-1);
    if (JOINING.test(character)) {
      if (last?.face.font.hasGlyphForCodePoint(code)) last.text += character;
      continue;
    }
    const face = INVISIBLE.test(character)
      ? undefined
      : last && /\p{M}/u.test(character) && last.face.font.hasGlyphForCodePoint(code)
        ? last.face
        : faces.find(({ font }) => font.hasGlyphForCodePoint(code));
    const glyph = face ? character : `<${formatCodePoint(character)}>`;
    const used = face ?? first;
    const script =
      face === undefined ? null : (scriptOf(character) ?? (NEUTRAL.test(character) ? (last?.script ?? null) : null));
    if (last && last.face === used && last.script === script) last.text += glyph;
    else runs.push({ text: glyph, face: used, script });
  }
  return runs;
}

const IDEOGRAPHS = "\\u2e80-\\u9fff\\uac00-\\ud7ff\\uf900-\\ufaff\\uff00-\\uffef";
/** Pieces that a line may break between: after a space or a separator of paths and names, and around an ideograph. */
const PIECES = new RegExp(
  String.raw`\s+|[^\s/\-_=?&${IDEOGRAPHS}]*[/\-_=?&]+|[${IDEOGRAPHS}]|[^\s/\-_=?&${IDEOGRAPHS}]+`,
  "gu",
);

const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });

/** `size`: text height; `width`: of the column; both in points. */
type Layout = { style: Style; size: number; width: number; maxLines: number; measure: Measure };

/** The lines of a text in a column; the last one ends in an ellipsis when the text needs more than `maxLines`. */
export function layOutLines(text: string, layout: Layout): Line[] {
  const lines = breakLines(text, layout).filter((line, index) => line.length > 0 || index === 0);
  if (lines.length <= layout.maxLines) return lines.map(toVisualOrder);
  addEllipsis(lines[layout.maxLines - 1] as Line, layout);
  return lines.slice(0, layout.maxLines).map(toVisualOrder);
}

/** Breaks a text into lines, up to one more than `maxLines`. */
function breakLines(text: string, layout: Layout): Line[] {
  const lines: Line[] = [[]];
  const lastLine = (): Line => lines.at(-1) as Line;
  for (const run of splitRuns(text, layout.style))
    for (const piece of run.text.match(PIECES) ?? []) {
      if (lines.length > layout.maxLines) return lines;
      const isBlank = piece.trim() === "";
      const isLineEmpty = lastLine().length === 0;
      if (isLineEmpty && isBlank) continue;
      if (appendIfFits(lastLine(), { ...run, text: piece }, layout)) continue;
      if (!isLineEmpty) lines.push([]);
      if (isBlank || appendIfFits(lastLine(), { ...run, text: piece }, layout)) continue;
      for (const { segment } of graphemes.segment(piece)) {
        const grapheme = { ...run, text: segment };
        if (lines.length > layout.maxLines || appendIfFits(lastLine(), grapheme, layout)) continue;
        lines.push([]);
        // A grapheme wider than a whole line is dropped; no letter is that wide.
        appendIfFits(lastLine(), grapheme, layout);
      }
    }
  return lines;
}

/** Appends a piece to a line if it fits, and joins it with the last run where both have the same font and script. */
function appendIfFits(line: Line, piece: Omit<TextRun, "width">, { size, width, measure }: Layout): boolean {
  const last = line.at(-1);
  const joined = last !== undefined && last.face === piece.face && last.script === piece.script ? last : null;
  const run = { ...piece, text: (joined?.text ?? "") + piece.text };
  const runWidth = measure(run, size);
  if (widthOf(line) - (joined?.width ?? 0) + runWidth > width) return false;
  if (joined) line.pop();
  line.push({ ...run, width: runWidth });
  return true;
}

export const widthOf = (line: Line): number => line.reduce((sum, run) => sum + run.width, 0);

/** Removes characters from the end of a line until an ellipsis fits. */
function addEllipsis(line: Line, { style, size, width, measure }: Layout): void {
  const ellipsis = { text: "…", face: facesFor("…", style)[0] as Face, script: null };
  const ellipsisWidth = measure(ellipsis, size);
  const maxWidth = width - ellipsisWidth;
  for (let last = line.at(-1); last && (widthOf(line) > maxWidth || last.text.endsWith(" ")); last = line.at(-1)) {
    last.text = [...last.text].slice(0, -1).join("");
    last.width = measure(last, size);
    if (last.text === "") line.pop();
  }
  line.push({ ...ellipsis, width: ellipsisWidth });
}

/** Reorders runs for drawing from left to right: consecutive right-to-left runs are reversed. */
function toVisualOrder(line: Line): Line {
  const ordered: Line = [];
  let insertAt = 0;
  for (const run of line) {
    if (run.script === null) insertAt = ordered.length + 1;
    ordered.splice(run.script === null ? ordered.length : insertAt, 0, run);
  }
  return ordered;
}
