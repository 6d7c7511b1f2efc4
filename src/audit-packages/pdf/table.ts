/** A table that spans the page width and may continue over pages. */
import type { Style } from "./fonts.ts";
import { BODY_PT, COLOR, LEADING, MARGIN_PT } from "./canvas.ts";
import type { Canvas, Color } from "./canvas.ts";

export type Cell = { text: string; style?: Style; color?: Color };
/** `share`: width in proportion to the other columns. */
export type Column = { title: string; share: number };

const TEXT_PT = BODY_PT - 0.5;
const LINE_PT = TEXT_PT * LEADING;
const CELL_PADDING_PT = 4;
/** Lines of a cell, so that a row is always lower than a page. */
const MAX_CELL_LINES = 14;
/** The header row stays together with the first rows. */
const MIN_TABLE_PT = 60;

export function drawTable(canvas: Canvas, columns: readonly Column[], rows: Iterable<readonly Cell[]>): void {
  const totalShare = columns.reduce((sum, { share }) => sum + share, 0);
  const widths = columns.map(({ share }) => (canvas.width * share) / totalShare);
  const header = columns.map(({ title }): Cell => ({ text: title, style: "bold", color: COLOR.dim }));

  function drawHeader(): void {
    canvas.fillBox({
      x: MARGIN_PT,
      y: canvas.y,
      width: canvas.width,
      height: LINE_PT + 2 * CELL_PADDING_PT,
      color: COLOR.shade,
    });
    drawRow(canvas, layOutRow(canvas, header, widths));
  }

  canvas.reserve(MIN_TABLE_PT);
  drawHeader();
  for (const cells of rows) {
    const row = layOutRow(canvas, cells, widths);
    if (!canvas.fits(row.height)) {
      canvas.addPage();
      drawHeader();
    }
    drawRow(canvas, row);
  }
  canvas.y += 6;
}

type LaidOutCell = { lines: ReturnType<Canvas["layOut"]>; width: number; color: Color };
type LaidOutRow = { cells: LaidOutCell[]; height: number };

function layOutRow(canvas: Canvas, cells: readonly Cell[], widths: readonly number[]): LaidOutRow {
  const laidOut = cells.map(({ text, style = "plain", color = COLOR.text }, index): LaidOutCell => {
    const width = widths[index] ?? 0;
    const options = { style, size: TEXT_PT, width: width - 2 * CELL_PADDING_PT, maxLines: MAX_CELL_LINES };
    return { lines: canvas.layOut(text, options), width, color };
  });
  const lineCount = laidOut.reduce((most, { lines }) => Math.max(most, lines.length), 1);
  return { cells: laidOut, height: lineCount * LINE_PT + 2 * CELL_PADDING_PT };
}

function drawRow(canvas: Canvas, { cells, height }: LaidOutRow): void {
  let x = MARGIN_PT;
  for (const { lines, width, color } of cells) {
    for (const [index, line] of lines.entries())
      canvas.drawLine(line, {
        x: x + CELL_PADDING_PT,
        y: canvas.y + CELL_PADDING_PT + index * LINE_PT,
        size: TEXT_PT,
        color,
      });
    x += width;
  }
  canvas.y += height;
  canvas.drawRule(canvas.y);
}
