/** Counting bytes in a multipart body on its way to the parser, to notice what the parser drops or replaces. */

/** What the parser inserts for bytes that are not UTF-8. */
export const REPLACEMENT = "\ufffd";

export const countReplacements = (text: string): number =>
  text.includes(REPLACEMENT) ? text.split(REPLACEMENT).length - 1 : 0;

export type PartScan = ReturnType<typeof createPartScan>;

const HEADER_END = Buffer.from("\r\n\r\n");

/**
 * Follows the parts of a body: how many delimiters have passed, how often a byte sequence occurs in each part, and
 * whether the header of each part has ended. The sequence and the delimiter have no bytes in common.
 */
export function createPartScan(delimiter: Buffer, sequence: Buffer) {
  /** By part; the first entry is what precedes all parts. */
  const occurrences = [0];
  /** Whether the header of the part at hand has ended; there is none in what precedes all parts. */
  let isHeaderOver = true;
  /** The first two bytes behind the latest delimiter, empty until both are there: the closing one is followed by --. */
  let lead = "--";
  // The first delimiter has no line break before it.
  let rest = Buffer.from("\r\n");
  return {
    /** @returns the number of a part, from 1, whose header did not end before the next delimiter; null for none */
    add(chunk: Buffer): number | null {
      const bytes = Buffer.concat([rest, chunk]);
      const [nextDelimiter, nextSequence, nextHeaderEnd] = [delimiter, sequence, HEADER_END].map((what) =>
        searcher(bytes, what),
      ) as [Search, Search, Search];
      let unfinished: number | null = null;
      let at = 0;
      for (;;) {
        if (lead === "" && bytes.length - at >= 2) lead = bytes.toString("latin1", at, at + 2);
        const end = nextDelimiter(at);
        const found = nextSequence(at);
        const isSequence = found >= 0 && (end < 0 || found < end);
        const stop = isSequence ? found : end;
        if (!isHeaderOver) isHeaderOver = isOver(nextHeaderEnd(at), stop, bytes.length);
        if (stop < 0) break;
        if (isSequence) occurrences[occurrences.length - 1] = (occurrences.at(-1) ?? 0) + 1;
        else {
          if (!isHeaderOver && lead !== "--") unfinished ??= occurrences.length - 1;
          occurrences.push(0);
          isHeaderOver = false;
          lead = "";
        }
        at = stop + (isSequence ? sequence : delimiter).length;
      }
      rest = Buffer.from(bytes.subarray(Math.max(at, bytes.length - delimiter.length - 1)));
      return unfinished;
    },
    delimiters: (): number => occurrences.length - 1,
    /** How often the sequence occurs in a part; 1 is the first one. */
    occurrencesIn: (part: number): number => occurrences[part] ?? 0,
  };

  /**
   * Whether a header is over, which ends with the empty line at `found` (-1: there is none).
   * @param stop where the next delimiter or sequence starts; -1: neither has arrived, and the line break of the empty
   *   line may turn out to belong to a delimiter
   */
  function isOver(found: number, stop: number, arrived: number): boolean {
    if (found < 0) return false;
    return stop < 0 ? found + 2 + delimiter.length <= arrived : found + HEADER_END.length <= stop;
  }
}

type Search = (at: number) => number;

/** Finds the next occurrence at or behind a position that only grows; looks at each byte once. -1: there is none. */
function searcher(bytes: Buffer, what: Buffer): Search {
  let found: number | null = null;
  return (at) => (found = found === null || (found >= 0 && found < at) ? bytes.indexOf(what, at) : found);
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
