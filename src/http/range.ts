// The Range header of a download (RFC 9110, 14.1.2 and 14.2). Clients that resume a download send a single byte range;
// anything else is answered with the whole file, which the RFC always allows.

// `bytes=first-last`, `bytes=first-` or `bytes=-length`; unit names are case-insensitive. Every run of digits is
// followed by a different character, so matching takes linear time.
const SINGLE_RANGE = /^bytes=[ \t]*(\d*)-(\d*)[ \t]*$/i;

/**
 * Parses the range that a request selects from a file of `size` bytes.
 * @returns `start` and `end`, inclusive and within the file; `"unsatisfiable"` (416) if the range starts beyond the end
 *   or is a suffix of zero bytes; null (200 with the whole file) for no header, another unit, several ranges, a
 *   malformed range, and a suffix of an empty file, which is satisfiable but cannot be written as Content-Range.
 */
export function parseRange(
  header: string | undefined,
  size: number,
): { start: number; end: number } | "unsatisfiable" | null {
  const match = SINGLE_RANGE.exec(header ?? "");
  if (match === null) return null;
  const [, first = "", last = ""] = match;
  if (first === "" && last === "") return null;
  if (first === "") {
    const length = Number(last);
    if (length === 0) return "unsatisfiable";
    return size === 0 ? null : { start: Math.max(0, size - length), end: size - 1 };
  }
  const start = Number(first);
  const end = last === "" ? Number.POSITIVE_INFINITY : Number(last);
  if (end < start) return null;
  return start >= size ? "unsatisfiable" : { start, end: Math.min(end, size - 1) };
}
