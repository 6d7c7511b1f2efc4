/**
 * Lines of text in whatever script. A text is cut into runs, each of one font and one direction; runs are cut where a line may
 * end. Nothing of a user's text can leave its column: what is too long for a line is cut anywhere, and too many lines end in dots.
 */
import { codePoint } from "../../domain/excerpt.ts";
import { facesFor } from "./fonts.ts";
import type { Face, Style } from "./fonts.ts";

/** `rightToLeft`: within the run; runs follow each other from left to right. */
export type Run = { text: string; face: Face; rightToLeft: boolean; width: number };
export type Line = Run[];
/** The width of a text in one font, in points. */
export type Measure = (text: string, face: Face, size: number, rightToLeft: boolean) => number;

const RIGHT_TO_LEFT = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;
/** Characters without a direction of their own. */
const NEUTRAL = /[\s\p{P}\p{S}\p{M}]/u;
/** What nobody sees, or what would turn the text around: shown by its code point. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}]|\p{Surrogate}/u;
/** A variation of the character before, or a joiner: left out where the font has nothing for it. */
const JOINING = /[\u200c\u200d\ufe00-\ufe0f\u034f]/u;

/** The text in runs, in its order. White space of any kind is a space. */
export function runsOf(text: string, style: Style): Omit<Run, "width">[] {
  const plain = text.toWellFormed().replace(/\s+/gu, " ");
  const faces = facesFor(plain, style);
  const first = faces[0] as Face;
  const runs: Omit<Run, "width">[] = [];
  for (const character of plain) {
    const code = character.codePointAt(0) as number;
    const last = runs.at(-1);
    if (JOINING.test(character)) {
      if (last?.face.font.hasGlyphForCodePoint(code)) last.text += character;
      continue;
    }
    const face = INVISIBLE.test(character) ? undefined : last && /\p{M}/u.test(character) && last.face.font.hasGlyphForCodePoint(code) ? last.face : faces.find(({ font }) => font.hasGlyphForCodePoint(code));
    const shown = face ? character : `<${codePoint(character)}>`;
    const used = face ?? first;
    const rightToLeft = face !== undefined && (RIGHT_TO_LEFT.test(character) || (NEUTRAL.test(character) && last?.rightToLeft === true));
    if (last && last.face === used && last.rightToLeft === rightToLeft) last.text += shown;
    else runs.push({ text: shown, face: used, rightToLeft });
  }
  return runs;
}

/** Places where a line may end: after a space, after what joins the parts of a path or a name, and around an ideograph. */
const PIECES = /\s+|[^\s/\-_.,:;=?&\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef]*[/\-_.,:;=?&]+|[\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef]|[^\s/\-_.,:;=?&\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef]+/gu;

const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });

/** The lines of a text in a column. @param width in points @param most lines; the last ends in dots when there would be more */
export function linesOf(text: string, { style, size, width, most, measure }: { style: Style; size: number; width: number; most: number; measure: Measure }): Line[] {
  const lines: Line[] = [[]];
  let room = width;

  function put(piece: string, run: Omit<Run, "width">, pieceWidth: number): void {
    const line = lines.at(-1) as Line;
    const last = line.at(-1);
    if (last && last.face === run.face && last.rightToLeft === run.rightToLeft) {
      last.text += piece;
      last.width += pieceWidth;
    } else line.push({ text: piece, face: run.face, rightToLeft: run.rightToLeft, width: pieceWidth });
    room -= pieceWidth;
  }
  function breakLine(): void {
    lines.push([]);
    room = width;
  }

  for (const run of runsOf(text, style)) {
    for (const piece of run.text.match(PIECES) ?? []) {
      if (lines.length > most) break;
      const wide = measure(piece, run.face, size, run.rightToLeft);
      if (piece === " " && (lines.at(-1) as Line).length === 0) continue;
      if (wide <= room) put(piece, run, wide);
      else if (piece.trim() === "") breakLine();
      else {
        if ((lines.at(-1) as Line).length > 0) breakLine();
        if (wide <= width) put(piece, run, wide);
        else
          for (const { segment } of graphemes.segment(piece)) {
            const narrow = measure(segment, run.face, size, run.rightToLeft);
            if (narrow > room && room < width) breakLine();
            if (lines.length > most) break;
            put(segment, run, narrow);
          }
      }
    }
  }
  if (lines.length > most) {
    lines.length = most;
    shorten(lines[most - 1] as Line, width, size, style, measure);
  }
  // The width of words side by side is not exactly that of each.
  return lines.filter((line, index) => line.length > 0 || index === 0).map((line) => line.map((run) => ({ ...run, width: measure(run.text, run.face, size, run.rightToLeft) })));
}

/** Takes characters from the end of a line until dots fit behind it. */
function shorten(line: Line, width: number, size: number, style: Style, measure: Measure): void {
  const dots: Omit<Run, "width"> = { text: "…", face: facesFor("…", style)[0] as Face, rightToLeft: false };
  const room = width - measure(dots.text, dots.face, size, false);
  for (let last = line.at(-1); last && line.reduce((sum, run) => sum + run.width, 0) > room; last = line.at(-1)) {
    last.text = [...last.text].slice(0, -1).join("");
    last.width = measure(last.text, last.face, size, last.rightToLeft);
    if (last.text === "") line.pop();
  }
  line.push({ ...dots, width: 0 });
}
