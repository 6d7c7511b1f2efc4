/**
 * Lines of text in whatever script. A text is cut into runs, each of one font and one direction; runs are cut where a
 * line may end. Nothing of a user's text can leave its column: what is too long for a line is cut anywhere, and too
 * many lines end in dots.
 */
import { codePoint } from "../../domain/text/excerpt.ts";
import { facesFor } from "./fonts.ts";
import type { Face, Style } from "./fonts.ts";

/** `script`: the one that is written from right to left; null for all others, which need not be told apart. */
export type TextRun = { text: string; face: Face; script: string | null; width: number };
export type Line = TextRun[];
/** The width of a text in one font, in points. */
export type Measure = (run: Pick<TextRun, "text" | "face" | "script">, size: number) => number;

/**
 * Each has rules of its own for the forms of its letters, which the font engine takes from the first letter of a run.
 */
const RIGHT_TO_LEFT = [
  ["hebrew", /\p{Script=Hebrew}/u],
  ["arabic", /\p{Script=Arabic}/u],
  ["syriac", /\p{Script=Syriac}/u],
  ["thaana", /\p{Script=Thaana}/u],
  ["nko", /\p{Script=Nko}/u],
] as const;
const scriptOf = (character: string): string | null =>
  character < "\u0590" ? null : (RIGHT_TO_LEFT.find(([, letters]) => letters.test(character))?.[0] ?? null);
/** Characters without a direction of their own. */
const NEUTRAL = /[\s\p{P}\p{S}\p{M}]/u;
/** What nobody sees, or what would turn the text around: shown by its code point. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}]|\p{Surrogate}/u;
/** A variation of the character before, or a joiner: left out where the font has nothing for it. */
const JOINING = /[\u200c\u200d\ufe00-\ufe0f\u034f]/u;

/** The text in runs, in its order. White space of any kind is a space. */
export function runsOf(text: string, style: Style): Omit<TextRun, "width">[] {
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
    const shown = face ? character : `<${codePoint(character)}>`;
    const used = face ?? first;
    const script =
      face === undefined ? null : (scriptOf(character) ?? (NEUTRAL.test(character) ? (last?.script ?? null) : null));
    if (last && last.face === used && last.script === script) last.text += shown;
    else runs.push({ text: shown, face: used, script });
  }
  return runs;
}

/**
 * Places where a line may end: after a space, after what joins the parts of a path or a name, and around an ideograph.
 */
const PIECES =
  /\s+|[^\s/\-_=?&\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef]*[/\-_=?&]+|[\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef]|[^\s/\-_=?&\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef]+/gu;

const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });

type Setting = { style: Style; size: number; width: number; most: number; measure: Measure };

/**
 * The lines of a text in a column. @param width in points @param most lines; the last ends in dots when there would be
 * more
 */
export function linesOf(text: string, { style, size, width, most, measure }: Setting): Line[] {
  const lines: Line[] = [[]];

  /** Puts a piece at the end of the last line if it fits there. */
  function put(piece: string, { face, script }: Omit<TextRun, "width">): boolean {
    const line = lines.at(-1) as Line;
    const last = line.at(-1);
    const joins = last !== undefined && last.face === face && last.script === script;
    const run = { text: joins ? last.text + piece : piece, face, script };
    const wide = measure(run, size);
    if (widthOf(line) - (joins ? last.width : 0) + wide > width) return false;
    if (joins) line.pop();
    line.push({ ...run, width: wide });
    return true;
  }

  for (const run of runsOf(text, style))
    for (const piece of run.text.match(PIECES) ?? []) {
      if (lines.length > most) break;
      const begins = (lines.at(-1) as Line).length === 0;
      if (begins && piece.trim() === "") continue;
      if (put(piece, run)) continue;
      if (!begins) lines.push([]);
      if (piece.trim() === "" || put(piece, run)) continue;
      for (const { segment } of graphemes.segment(piece)) {
        if (lines.length > most || put(segment, run)) continue;
        lines.push([]);
        // What is wider than a whole line is left out; no letter is.
        put(segment, run);
      }
    }
  const full = lines.filter((line, index) => line.length > 0 || index === 0);
  if (full.length <= most) return full.map(inOrder);
  const last = full[most - 1] as Line;
  shorten(last, { style, size, width, most, measure });
  return full.slice(0, most).map(inOrder);
}

const widthOf = (line: Line): number => line.reduce((sum, run) => sum + run.width, 0);

/** Takes characters from the end of a line until dots fit behind it. */
function shorten(line: Line, { style, size, width, measure }: Setting): void {
  const dots = { text: "…", face: facesFor("…", style)[0] as Face, script: null };
  const wide = measure(dots, size);
  for (let last = line.at(-1); last && (widthOf(line) > width - wide || last.text.endsWith(" ")); last = line.at(-1)) {
    last.text = [...last.text].slice(0, -1).join("");
    last.width = measure(last, size);
    if (last.text === "") line.pop();
  }
  line.push({ ...dots, width: wide });
}

/** Runs from left to right: those that follow each other from right to left stand in the opposite order. */
function inOrder(line: Line): Line {
  const shown: Line = [];
  let at = 0;
  for (const run of line) {
    if (run.script === null) at = shown.length + 1;
    shown.splice(run.script === null ? shown.length : at, 0, run);
  }
  return shown;
}
