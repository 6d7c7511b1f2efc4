/** Renders lists as aligned columns for people; scripts use --json. */
import { escapeLine } from "./command.ts";

const COLUMN_GAP = "  ";

/**
 * Renders rows below `headers`, each column as wide as its widest cell; without rows, only the line `empty`. Escapes
 * control characters in cells. Ends in a line feed.
 */
export function renderTable(headers: readonly string[], rows: readonly (readonly string[])[], empty: string): string {
  if (rows.length === 0) return `${empty}\n`;
  const lines = [headers, ...rows.map((row) => row.map(escapeLine))];
  const widths = headers.map((_, column) => lines.reduce((most, line) => Math.max(most, widthOf(line[column])), 0));
  const pad = (cell: string, column: number): string => cell + " ".repeat((widths[column] ?? 0) - widthOf(cell));
  return lines.map((line) => `${line.map(pad).join(COLUMN_GAP).trimEnd()}\n`).join("");
}

/** Width in code points, not in UTF-16 units. */
const widthOf = (cell = ""): number => Array.from(cell).length;
