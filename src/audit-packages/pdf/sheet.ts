/** The elements of the report, drawn under the cursor of a canvas. What does not fit on a page goes to the next one. */
import type { Style } from "./fonts.ts";
import { BODY_PT, COLOR, LEADING, MARGIN_PT, createCanvas } from "./canvas.ts";
import type { Canvas, Color } from "./canvas.ts";
import { drawTable } from "./table.ts";
import type { Cell, Column } from "./table.ts";
import { widthOf } from "./text.ts";

export { COLOR } from "./canvas.ts";
export type { Color } from "./canvas.ts";
export type { Cell } from "./table.ts";

/** Lengths in points; `indent` from the left margin. */
type TextOptions = { style?: Style; size?: number; color?: Color; indent?: number; maxLines?: number };

/** A name and a value; facts without a value are not drawn. */
type Fact = readonly [name: string, value: string | null, style?: Style];

export type Sheet = ReturnType<typeof createSheet>;

/** @param info `at`: epoch seconds, the time of the document */
export function createSheet(info: { title: string; subject: string; at: number }) {
  const canvas = createCanvas(info);
  return {
    text: (content: string, options?: TextOptions): void => drawText(canvas, content, options),
    /** Leaves `points` free. */
    space(points: number): void {
      canvas.y += points;
    },
    heading: (title: string): void => drawHeading(canvas, title),
    /** A badge on a line of its own. `size`: text height in points. */
    badge: (badge: { word: string; color: Color; size: number }): void => drawBadgeLine(canvas, badge),
    /** A title with a badge in front of it. */
    titleWithBadge: (title: string, badge: { word: string; color: Color }): void =>
      drawTitleWithBadge(canvas, title, badge),
    /** Names and values in two columns. */
    facts: (facts: readonly Fact[], options?: { maxLines?: number }): void => drawFacts(canvas, facts, options),
    bullets: (items: readonly string[], options?: { indent?: number; maxLines?: number; color?: Color }): void =>
      drawBullets(canvas, items, options),
    /** A shaded box that a reader must not overlook. */
    warning: (title: string, texts: readonly string[]): void => drawWarning(canvas, title, texts),
    /** A table that repeats its header row on each page. */
    table: (columns: readonly Column[], rows: Iterable<readonly Cell[]>): void => drawTable(canvas, columns, rows),
    /** Draws header and footer of all pages and returns the bytes of the document. */
    finish(texts: PageTexts): Uint8Array {
      canvas.eachPage((page, count) => drawHeaderAndFooter(canvas, texts, `page ${page} of ${count}`));
      return canvas.toBytes();
    },
  };
}

function drawText(canvas: Canvas, content: string, options: TextOptions = {}): void {
  const { size = BODY_PT, color = COLOR.text, indent = 0, ...layout } = options;
  for (const line of canvas.layOut(content, { ...layout, size, width: canvas.width - indent })) {
    canvas.reserve(size * LEADING);
    canvas.drawLine(line, { x: MARGIN_PT + indent, y: canvas.y, size, color });
    canvas.y += size * LEADING;
  }
}

const HEADING_PT = 13;

function drawHeading(canvas: Canvas, title: string): void {
  canvas.y += HEADING_PT * 1.1;
  // Keeps the heading with the lines that follow it.
  canvas.reserve(HEADING_PT * 5);
  drawText(canvas, title, { style: "bold", size: HEADING_PT, maxLines: 2 });
  canvas.y += 2;
  canvas.drawRule(canvas.y);
  canvas.y += 6;
}

/** A word in a colored box at the cursor. @returns the width of the box */
function drawBadge(canvas: Canvas, { word, color, size }: { word: string; color: Color; size: number }): number {
  const [line = []] = canvas.layOut(word, { style: "bold", size });
  const padding = size * 0.7;
  const width = widthOf(line) + 2 * padding;
  const { y } = canvas;
  canvas.fillBox({ x: MARGIN_PT, y, width, height: size * 1.75, color, radius: 3 });
  canvas.drawLine(line, { x: MARGIN_PT + padding, y: y + size * 0.3, size, color: COLOR.white });
  return width;
}

function drawBadgeLine(canvas: Canvas, badge: { word: string; color: Color; size: number }): void {
  canvas.reserve(badge.size * 2);
  drawBadge(canvas, badge);
  canvas.y += badge.size * 1.75 + 6;
}

const TITLE_PT = 10;

function drawTitleWithBadge(canvas: Canvas, title: string, badge: { word: string; color: Color }): void {
  // Keeps the title with the lines that follow it.
  canvas.reserve(TITLE_PT * 10);
  const indent = drawBadge(canvas, { ...badge, size: TITLE_PT * 0.72 }) + 6;
  const lines = canvas.layOut(title, {
    style: "bold",
    size: TITLE_PT,
    width: canvas.width - indent,
    maxLines: 2,
  });
  for (const line of lines) {
    canvas.drawLine(line, { x: MARGIN_PT + indent, y: canvas.y, size: TITLE_PT, color: COLOR.text });
    canvas.y += TITLE_PT * LEADING;
  }
  canvas.y += 1;
}

/** Width of the column of names. */
const FACT_NAME_PT = 92;
/** Lines of a value that are kept together on one page. */
const MIN_FACT_LINES_TOGETHER = 3;

function drawFacts(canvas: Canvas, facts: readonly Fact[], { maxLines = 4 }: { maxLines?: number } = {}): void {
  for (const [name, value, style = "plain"] of facts) {
    if (value === null || value === "") continue;
    const size = style === "mono" ? BODY_PT - 1 : BODY_PT;
    const lines = canvas.layOut(value, { style, size, width: canvas.width - FACT_NAME_PT, maxLines });
    canvas.reserve(Math.min(lines.length, MIN_FACT_LINES_TOGETHER) * BODY_PT * LEADING);
    for (const [index, line] of lines.entries()) {
      canvas.reserve(BODY_PT * LEADING);
      if (index === 0) {
        const [nameLine = []] = canvas.layOut(name, { width: FACT_NAME_PT - 6, maxLines: 1 });
        canvas.drawLine(nameLine, { x: MARGIN_PT, y: canvas.y, size: BODY_PT, color: COLOR.dim });
      }
      canvas.drawLine(line, { x: MARGIN_PT + FACT_NAME_PT, y: canvas.y, size, color: COLOR.text });
      canvas.y += BODY_PT * LEADING;
    }
  }
}

const BULLET_PT = 11;

function drawBullets(
  canvas: Canvas,
  items: readonly string[],
  { indent = 0, maxLines = 4, color = COLOR.text }: { indent?: number; maxLines?: number; color?: Color } = {},
): void {
  for (const item of items) {
    canvas.reserve(BODY_PT * LEADING);
    const [bullet = []] = canvas.layOut("•");
    canvas.drawLine(bullet, { x: MARGIN_PT + indent, y: canvas.y, size: BODY_PT, color: COLOR.dim });
    drawText(canvas, item, { indent: indent + BULLET_PT, maxLines, color });
  }
}

const WARNING_TITLE_PT = 10;
const WARNING_INDENT_PT = 12;
/** Lines of each text in a warning. */
const MAX_WARNING_LINES = 3;

function drawWarning(canvas: Canvas, title: string, texts: readonly string[]): void {
  const width = canvas.width - 2 * WARNING_INDENT_PT;
  const lines = texts.flatMap((text) => canvas.layOut(text, { width, maxLines: MAX_WARNING_LINES }));
  const height = 14 + WARNING_TITLE_PT * LEADING + lines.length * BODY_PT * LEADING;
  canvas.reserve(height + 6);
  const { y } = canvas;
  canvas.fillBox({ x: MARGIN_PT, y, width: canvas.width, height, color: COLOR.badShade });
  canvas.fillBox({ x: MARGIN_PT, y, width: 3, height, color: COLOR.bad });
  canvas.y += 7;
  drawText(canvas, title, { style: "bold", size: WARNING_TITLE_PT, indent: WARNING_INDENT_PT, color: COLOR.bad });
  for (const line of lines) {
    canvas.drawLine(line, { x: MARGIN_PT + WARNING_INDENT_PT, y: canvas.y, size: BODY_PT, color: COLOR.text });
    canvas.y += BODY_PT * LEADING;
  }
  canvas.y += 13;
}

/** The texts at the top left, top right and bottom left of every page. */
type PageTexts = { left: string; right: string; foot: string };

const PAGE_TEXT_PT = 7.5;
/** From the top of the page: header text, and the rule below it. */
const HEADER_PT = 36;
const HEADER_RULE_PT = 52;
/** From the bottom of the page: footer text, and the rule above it. */
const FOOTER_PT = 36;
const FOOTER_RULE_PT = 44;

function drawHeaderAndFooter(canvas: Canvas, { left, right, foot }: PageTexts, pageNumber: string): void {
  const size = PAGE_TEXT_PT;
  const half = canvas.width / 2 - 6;
  const layOut = (text: string, style: Style = "plain") =>
    canvas.layOut(text, { size, width: half, maxLines: 1, style })[0] ?? [];
  const drawRight = (text: string, y: number): void => {
    const line = layOut(text);
    canvas.drawLine(line, { x: MARGIN_PT + canvas.width - widthOf(line), y, size, color: COLOR.dim });
  };
  const footerY = canvas.pageHeight - FOOTER_PT;
  canvas.drawLine(layOut(left, "bold"), { x: MARGIN_PT, y: HEADER_PT, size, color: COLOR.text });
  drawRight(right, HEADER_PT);
  canvas.drawRule(HEADER_RULE_PT);
  canvas.drawRule(canvas.pageHeight - FOOTER_RULE_PT);
  canvas.drawLine(layOut(foot), { x: MARGIN_PT, y: footerY, size, color: COLOR.dim });
  drawRight(pageNumber, footerY);
}
