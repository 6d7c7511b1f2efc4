/** CSV as RFC 4180 has it, for files that people open in a spreadsheet. */

/**
 * A text that a spreadsheet may run as a formula. Spreadsheets and their imports skip blanks, control characters and
 * what has no width, and take the full-width and small forms of a sign for the sign. A leading tab or line break counts
 * by itself.
 */
const FORMULA = /^(?:[\t\r\n]|[\s\p{Cc}\p{Cf}]*[=+\-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u2212])/u;
const SPECIAL = /[",\r\n]/;

/**
 * One line with its CRLF. A text that a spreadsheet may take for a formula gets an apostrophe in front; numbers do not.
 * null is an empty cell.
 */
export const formatCsvLine = (cells: readonly (string | number | null)[]): string => `${cells.map(cell).join(",")}\r\n`;

function cell(value: string | number | null): string {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const text = FORMULA.test(value) ? `'${value}` : value;
  return SPECIAL.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
