// The Range header of a download (RFC 9110, 14.1.2 and 14.2). One range of bytes is all that clients which resume a
// download send; whatever else comes is answered with the whole file, which the RFC always allows.

// `bytes=first-last`, `bytes=first-` or `bytes=-length`. Unit names are compared without regard to case. Digits are
// followed by other characters only, so that the match takes linear time.
const SINGLE = /^bytes=[ \t]*(\d*)-(\d*)[ \t]*$/i;

/**
 * The bytes a request asks for of a file of `size` bytes: `start` and `end` inclusive, within the file.
 * `"unsatisfiable"` (416) when the range begins behind the end or is a suffix of no bytes. Null, to be answered with
 * the whole file (200): no header, another unit, several ranges, a malformed one, and a suffix of an empty file, which
 * is satisfiable but has no form in Content-Range.
 */
export function parseRange(
  header: string | undefined,
  size: number,
): { start: number; end: number } | "unsatisfiable" | null {
  const match = SINGLE.exec(header ?? "");
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
