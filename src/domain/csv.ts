/** CSV as RFC 4180 has it, for files that people open in a spreadsheet. */

/** What a spreadsheet would run as a formula, were it the first character of a cell. */
const FORMULA = /^[=+\-@\t\r\n]/;
const SPECIAL = /[",\r\n]/;

/**
 * One line with its CRLF. A text that a spreadsheet would take for a formula gets an apostrophe in front; numbers do not.
 * null is an empty cell.
 */
export const csvLine = (cells: readonly (string | number | null)[]): string => `${cells.map(cell).join(",")}\r\n`;

function cell(value: string | number | null): string {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const text = FORMULA.test(value) ? `'${value}` : value;
  return SPECIAL.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
