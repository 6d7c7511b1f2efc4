/** Counting bytes in a multipart body on its way to the parser, to notice what the parser drops or replaces. */

/** What the parser inserts for bytes that are not UTF-8. */
export const REPLACEMENT = "\ufffd";

export const countReplacements = (text: string): number =>
  text.includes(REPLACEMENT) ? text.split(REPLACEMENT).length - 1 : 0;

export type PartScan = ReturnType<typeof createPartScan>;

/**
 * Follows the parts of a body: how many delimiters have passed, and how often a byte sequence occurs in each part. The
 * sequence and the delimiter have no bytes in common.
 */
export function createPartScan(delimiter: Buffer, sequence: Buffer) {
  /** By part; the first entry is what precedes all parts. */
  const occurrences = [0];
  // The first delimiter has no line break before it.
  let rest = Buffer.from("\r\n");
  return {
    add(chunk: Buffer): void {
      const bytes = Buffer.concat([rest, chunk]);
      let at = 0;
      for (let [end, found] = next(bytes, at); end >= 0 || found >= 0; [end, found] = next(bytes, at)) {
        const isSequence = end < 0 || (found >= 0 && found < end);
        if (isSequence) occurrences[occurrences.length - 1] = (occurrences.at(-1) ?? 0) + 1;
        else occurrences.push(0);
        at = isSequence ? found + sequence.length : end + delimiter.length;
      }
      rest = Buffer.from(bytes.subarray(Math.max(at, bytes.length - delimiter.length + 1)));
    },
    delimiters: (): number => occurrences.length - 1,
    /** How often the sequence occurs in a part; 1 is the first one. */
    occurrencesIn: (part: number): number => occurrences[part] ?? 0,
  };

  function next(bytes: Buffer, at: number): [delimiter: number, sequence: number] {
    return [bytes.indexOf(delimiter, at), bytes.indexOf(sequence, at)];
  }
}

const MEDIA_TYPE = /[!#$%&'*+.^_`|~0-9a-z-]+\/[!#$%&'*+.^_`|~0-9a-z-]+/iy;
/** With the value of RFC 9110 (a token) or RFC 2046 (in quotes), without characters that readers escape or decode. */
const PARAMETER =
  /[ \t]*;[ \t]*([!#$%&'*+.^_`|~0-9a-z-]+)=(?:([!#$%&'*+.^_`|~0-9a-z-]+)|"([\x20\x21\x23-\x5b\x5d-\x7e]*)")/iy;

/**
 * The bytes that start each part and end the last one. Null if the Content-Type has no boundary, or has it in a form
 * that another reader may understand differently: escapes, characters beyond ASCII, more than one boundary.
 */
export function parseDelimiter(contentType: string): Buffer | null {
  MEDIA_TYPE.lastIndex = 0;
  if (!MEDIA_TYPE.test(contentType)) return null;
  PARAMETER.lastIndex = MEDIA_TYPE.lastIndex;
  const boundaries: string[] = [];
  let end = PARAMETER.lastIndex;
  for (let found = PARAMETER.exec(contentType); found; found = PARAMETER.exec(contentType)) {
    end = PARAMETER.lastIndex;
    if (found[1]?.toLowerCase() === "boundary") boundaries.push(found[2] ?? found[3] ?? "");
  }
  const [boundary = ""] = boundaries;
  const isWhole = contentType.slice(end).trim() === "";
  return isWhole && boundaries.length === 1 && boundary !== "" ? Buffer.from(`\r\n--${boundary}`, "latin1") : null;
}
