/** Lists for people: columns below headers. Scripts take --json. */
import { oneLine } from "./command.ts";

/** Blanks between two columns. */
const GAP = "  ";

/**
 * The rows below `headers`, each cell on one line and each column as wide as its widest cell; `empty` as a line of its
 * own where there is no row. Texts of other people are shown with their control characters escaped. Ends in a line
 * feed.
 */
export function tableText(headers: readonly string[], rows: readonly (readonly string[])[], empty: string): string {
  if (rows.length === 0) return `${empty}\n`;
  const lines = [headers, ...rows.map((row) => row.map(oneLine))];
  const widths = headers.map((_, column) => lines.reduce((most, line) => Math.max(most, lengthOf(line[column])), 0));
  const pad = (cell: string, column: number): string => cell + " ".repeat((widths[column] ?? 0) - lengthOf(cell));
  return lines.map((line) => `${line.map(pad).join(GAP).trimEnd()}\n`).join("");
}

/** In characters as terminals count them, which is not UTF-16. */
const lengthOf = (cell = ""): number => Array.from(cell).length;
