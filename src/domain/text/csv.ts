/** CSV (RFC 4180) for files that people open in a spreadsheet. */

/**
 * A text that a spreadsheet may execute as a formula. Spreadsheets and their imports skip blanks, control characters
 * and zero-width characters, and treat the full-width and small forms of a sign as the sign. A leading tab or line
 * break is enough by itself.
 */
const FORMULA = /^(?:[\t\r\n]|[\s\p{Cc}\p{Cf}]*[=+\-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u2212])/u;
const SPECIAL = /[",\r\n]/;

/**
 * One line with its CRLF. A text that a spreadsheet may execute as a formula is prefixed with an apostrophe; numbers
 * are not. null is an empty cell.
 */
export const formatCsvLine = (cells: readonly (string | number | null)[]): string =>
  `${cells.map(formatCell).join(",")}\r\n`;

function formatCell(value: string | number | null): string {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const text = FORMULA.test(value) ? `'${value}` : value;
  return SPECIAL.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
