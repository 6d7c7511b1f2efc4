/**
 * Pages under a cursor that goes down: lines of text, badges, tables, and a header and footer on each page. What does
 * not fit any more goes to the next page.
 */
import PDFDocument from "pdfkit";
import type { Face, Style } from "./fonts.ts";
import { linesOf } from "./text.ts";
import type { Line, Measure } from "./text.ts";

export const COLOR = {
  text: "#1c2733",
  dim: "#5b6b7b",
  rule: "#d5dce3",
  shade: "#f2f5f8",
  good: "#1a7f45",
  bad: "#b3261e",
  open: "#8a5a00",
  unknown: "#5b6b7b",
  white: "#ffffff",
} as const;
export type Color = (typeof COLOR)[keyof typeof COLOR];

export type TextOptions = {
  style?: Style;
  size?: number;
  color?: Color /** Points from the left margin. */;
  indent?: number;
  width?: number /** Lines. */;
  most?: number;
};
export type Cell = { text: string; style?: Style; color?: Color };
export type Column = { title: string /** Parts of the width. */; share: number };

const MARGIN = 48;
const TOP = 74;
const BOTTOM = 60;
const BODY = 9;
const LEADING = 1.35;
/** From the top of a line to what its letters stand on, in parts of the size, for all fonts alike. */
const ASCENT = 0.95;
const CELL_PADDING = 4;
/** Lines of a cell, at most: a row is always lower than a page. */
const CELL_LINES = 14;

export type Sheet = ReturnType<typeof createSheet>;

/** @param at epoch seconds: the only time in the document, so that the same content gives the same bytes */
export function createSheet({ title, subject, at }: { title: string; subject: string; at: number }) {
  const when = new Date(at * 1000);
  const doc = new PDFDocument({
    size: "A4",
    margin: 0,
    autoFirstPage: false,
    bufferPages: true,
    lang: "en",
    displayTitle: true,
    pdfVersion: "1.7",
    // None: the first text asks for one that is shipped.
    font: "",
    info: { Title: title, Subject: subject, Creator: "Assay", Producer: "Assay", CreationDate: when, ModDate: when },
  });
  let y = 0;
  let set: { face: Face | null; size: number } = { face: null, size: 0 };

  /** pdfkit takes a font that is read already; its types know only files and bytes. */
  function use(face: Face, size: number): void {
    if (set.face === face && set.size === size) return;
    doc.font(face.font as never, face.name, size);
    set = { face, size };
  }

  // With features, even none, pdfkit hands over a run as a whole; without, word by word, which turns the order of words
  // around.
  const options = (script: string | null) => ({ lineBreak: false, ...(script === null ? {} : { features: [] }) });

  const measure: Measure = ({ text, face, script }, size) => {
    use(face, size);
    return doc.widthOfString(text, options(script));
  };

  function addPage(): void {
    doc.addPage();
    y = TOP;
  }
  addPage();
  const { width: pageWidth, height: pageHeight } = doc.page;
  const width = pageWidth - 2 * MARGIN;

  /** Room for so many points, on this page or the next. */
  function reserve(height: number): void {
    if (y + height > pageHeight - BOTTOM && y > TOP) addPage();
  }

  function drawLine(line: Line, x: number, top: number, size: number, color: string): void {
    for (const { text, face, script, width: wide } of line) {
      use(face, size);
      doc.fillColor(color).text(text, x, top + size * ASCENT, { ...options(script), baseline: "alphabetic" });
      x += wide;
    }
  }

  const lay = (
    text: string,
    { style = "plain", size = BODY, width: wide = width, most = 1_000 }: TextOptions,
  ): Line[] => linesOf(text, { style, size, width: wide, most, measure });

  function text(content: string, given: TextOptions = {}): void {
    const { size = BODY, color = COLOR.text, indent = 0 } = given;
    for (const line of lay(content, { ...given, width: given.width ?? width - indent })) {
      reserve(size * LEADING);
      drawLine(line, MARGIN + indent, y, size, color);
      y += size * LEADING;
    }
  }

  function rule(): void {
    doc
      .moveTo(MARGIN, y)
      .lineTo(MARGIN + width, y)
      .lineWidth(0.6)
      .strokeColor(COLOR.rule)
      .stroke();
  }

  /** A word in a box of its colour. @returns its width */
  function badge(word: string, color: string, x: number, top: number, size: number): number {
    const [line = []] = lay(word, { style: "bold", size });
    const wide = line.reduce((sum, run) => sum + run.width, 0) + 2 * size * 0.7;
    doc
      .roundedRect(x, top, wide, size * 1.75, 3)
      .fillColor(color)
      .fill();
    drawLine(line, x + size * 0.7, top + size * 0.3, size, COLOR.white);
    return wide;
  }

  return {
    width,
    text,
    reserve,
    /** Leaves so many points free. */
    space(points: number): void {
      y += points;
    },
    heading(title: string, size = 13): void {
      y += size * 1.1;
      reserve(size * 5);
      text(title, { style: "bold", size, most: 2 });
      y += 2;
      rule();
      y += 6;
    },
    /** A line with a badge before a text. */
    titled(word: string, color: Color, title: string, given: { size?: number; most?: number } = {}): void {
      const { size = 10, most = 2 } = given;
      reserve(size * 10);
      const before = badge(word, color, MARGIN, y, size * 0.72) + 6;
      const lines = lay(title, { style: "bold", size, width: width - before, most });
      for (const line of lines) {
        drawLine(line, MARGIN + before, y, size, COLOR.text);
        y += size * LEADING;
      }
      y += 1;
    },
    /** Names and values in two columns; those without a value are left out. */
    facts(
      pairs: readonly (readonly [name: string, value: string | null, style?: Style])[],
      { indent = 0, most = 4 }: { indent?: number; most?: number } = {},
    ): void {
      const left = 92;
      for (const [name, value, style = "plain"] of pairs) {
        if (value === null || value === "") continue;
        const size = style === "mono" ? BODY - 1 : BODY;
        const lines = lay(value, { style, size, width: width - indent - left, most });
        reserve(Math.min(lines.length, 3) * BODY * LEADING);
        for (const [place, line] of lines.entries()) {
          reserve(BODY * LEADING);
          if (place === 0)
            drawLine(lay(name, { size: BODY, width: left - 6, most: 1 })[0] ?? [], MARGIN + indent, y, BODY, COLOR.dim);
          drawLine(line, MARGIN + indent + left, y, size, COLOR.text);
          y += BODY * LEADING;
        }
      }
    },
    bullets(
      lines: readonly string[],
      { indent = 0, most = 4, color = COLOR.text }: { indent?: number; most?: number; color?: Color } = {},
    ): void {
      for (const content of lines) {
        reserve(BODY * LEADING);
        drawLine(lay("•", {})[0] ?? [], MARGIN + indent, y, BODY, COLOR.dim);
        text(content, { indent: indent + 11, most, color });
      }
    },
    /** A shaded box with a title and text, for what nobody should overlook. */
    warning(title: string, lines: readonly string[]): void {
      const laid = lines.flatMap((content) => lay(content, { width: width - 24, most: 3 }));
      const height = 14 + 10 * LEADING + laid.length * BODY * LEADING;
      reserve(height + 6);
      doc.rect(MARGIN, y, width, height).fillColor("#fdf0ee").fill();
      doc.rect(MARGIN, y, 3, height).fillColor(COLOR.bad).fill();
      y += 7;
      text(title, { style: "bold", size: 10, indent: 12, color: COLOR.bad });
      for (const line of laid) {
        drawLine(line, MARGIN + 12, y, BODY, COLOR.text);
        y += BODY * LEADING;
      }
      y += 13;
    },
    /** A table whose head stands again on each page. */
    table(columns: readonly Column[], rows: Iterable<readonly Cell[]>): void {
      const size = BODY - 0.5;
      const total = columns.reduce((sum, { share }) => sum + share, 0);
      const widths = columns.map(({ share }) => (width * share) / total);
      const head = (): void => {
        doc
          .rect(MARGIN, y, width, size * LEADING + 2 * CELL_PADDING)
          .fillColor(COLOR.shade)
          .fill();
        row(
          columns.map(({ title }) => ({ text: title, style: "bold", color: COLOR.dim })),
          false,
        );
      };
      const row = (cells: readonly Cell[], breaks: boolean): void => {
        const laid = cells.map(({ text: content, style }, place) =>
          lay(content, {
            size,
            width: (widths[place] ?? 0) - 2 * CELL_PADDING,
            most: CELL_LINES,
            ...(style ? { style } : {}),
          }),
        );
        const height = Math.max(1, ...laid.map(({ length }) => length)) * size * LEADING + 2 * CELL_PADDING;
        if (breaks && y + height > pageHeight - BOTTOM) {
          addPage();
          head();
        }
        let x = MARGIN;
        for (const [place, lines] of laid.entries()) {
          for (const [number, line] of lines.entries())
            drawLine(
              line,
              x + CELL_PADDING,
              y + CELL_PADDING + number * size * LEADING,
              size,
              cells[place]?.color ?? COLOR.text,
            );
          x += widths[place] ?? 0;
        }
        y += height;
        rule();
      };
      reserve(60);
      head();
      for (const cells of rows) row(cells, true);
      y += 6;
    },
    badgeLine(word: string, color: Color, size: number): void {
      reserve(size * 2);
      badge(word, color, MARGIN, y, size);
      y += size * 1.75 + 6;
    },
    /** Adds header and footer, and gives the bytes of the document. */
    finish(head: { left: string; right: string; foot: string }): Uint8Array {
      const { start, count } = doc.bufferedPageRange();
      for (let page = start; page < start + count; page += 1) {
        doc.switchToPage(page);
        const half = width / 2 - 6;
        const size = 7.5;
        const right = (content: string, top: number): void => {
          const [line = []] = lay(content, { size, width: half, most: 1 });
          drawLine(line, MARGIN + width - line.reduce((sum, run) => sum + run.width, 0), top, size, COLOR.dim);
        };
        const left = (content: string, top: number, style: Style): void =>
          drawLine(
            lay(content, { size, width: half, most: 1, style })[0] ?? [],
            MARGIN,
            top,
            size,
            style === "bold" ? COLOR.text : COLOR.dim,
          );
        left(head.left, 36, "bold");
        right(head.right, 36);
        doc
          .moveTo(MARGIN, 52)
          .lineTo(MARGIN + width, 52)
          .lineWidth(0.6)
          .strokeColor(COLOR.rule)
          .stroke();
        doc
          .moveTo(MARGIN, pageHeight - 44)
          .lineTo(MARGIN + width, pageHeight - 44)
          .lineWidth(0.6)
          .strokeColor(COLOR.rule)
          .stroke();
        left(head.foot, pageHeight - 36, "plain");
        right(`page ${page - start + 1} of ${count}`, pageHeight - 36);
      }
      doc.end();
      const parts: Buffer[] = [];
      for (let part = doc.read() as Buffer | null; part !== null; part = doc.read() as Buffer | null) parts.push(part);
      return Buffer.concat(parts);
    },
  };
}
