/** Counting bytes in a multipart body on its way to the parser, to notice what the parser drops or replaces. */

/** What the parser inserts for bytes that are not UTF-8. */
export const REPLACEMENT = "\ufffd";

export const countReplacements = (text: string): number =>
  text.includes(REPLACEMENT) ? text.split(REPLACEMENT).length - 1 : 0;

/** Counts how often a byte sequence occurs in a stream, also across chunks. */
export function createOccurrenceCounter(needle: Buffer) {
  let count = 0;
  let rest = Buffer.alloc(0);
  return {
    add(chunk: Buffer): void {
      const bytes = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk;
      let next = 0;
      for (let at = bytes.indexOf(needle); at >= 0; at = bytes.indexOf(needle, next)) {
        count += 1;
        next = at + needle.length;
      }
      rest = Buffer.from(bytes.subarray(Math.max(next, bytes.length - needle.length + 1)));
    },
    count: (): number => count,
  };
}

/** The bytes that start each part and end the last one; null if the header has no boundary in a simple form. */
export function parseDelimiter(contentType: string): Buffer | null {
  const [, quoted, bare] = /;\s*boundary=(?:"([^"\\]+)"|([^\s;"]+))/i.exec(contentType) ?? [];
  const boundary = quoted ?? bare;
  return boundary === undefined ? null : Buffer.from(`\r\n--${boundary}`, "latin1");
}
