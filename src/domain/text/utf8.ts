/**
 * Bytes of an uploaded text file to text, so that the way back gives the same bytes: nothing is replaced, a byte order
 * mark stays.
 */
import type { SourcePosition } from "./yaml.ts";

/**
 * The text of a file in UTF-8 (wire-contract 14: clients compare what was stored with their file byte for byte), or the
 * place, counted from 1, of the first byte that is not UTF-8.
 */
export function decodeUtf8(bytes: Buffer): { text: string; broken: null } | { text: null; broken: SourcePosition } {
  try {
    return { text: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes), broken: null };
  } catch {
    return { text: null, broken: placeAfter(validStart(bytes)) };
  }
}

/** The text before the first byte that is not UTF-8, without byte order mark. */
function validStart(bytes: Buffer): string {
  // Writing the replaced text again agrees with the file up to the broken character, or to some bytes inside it;
  // decoding as a stream then holds such bytes back.
  const replaced = Buffer.from(new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes));
  let agree = 0;
  while (agree < bytes.length && bytes[agree] === replaced[agree]) agree += 1;
  return new TextDecoder("utf-8").decode(bytes.subarray(0, agree), { stream: true });
}

/** Line and column, from 1, of what would follow a text. */
function placeAfter(text: string): SourcePosition {
  let line = 1;
  let start = 0;
  for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", start)) {
    line += 1;
    start = end + 1;
  }
  return { line, column: text.length - start + 1 };
}
