/** Decodes an uploaded text file without loss: nothing is replaced and a byte order mark stays, so it encodes back. */
import type { SourcePosition } from "./source-position.ts";

/**
 * The text of a UTF-8 file (clients compare the stored text with their file byte for byte, wire-contract 14), or the
 * position of the first byte that is not UTF-8.
 */
export function decodeUtf8(bytes: Buffer): { text: string; broken: null } | { text: null; broken: SourcePosition } {
  try {
    return { text: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes), broken: null };
  } catch {
    return { text: null, broken: positionAfter(decodeValidPrefix(bytes)) };
  }
}

/** The text before the first byte that is not UTF-8, without byte order mark. */
function decodeValidPrefix(bytes: Buffer): string {
  // The file and its replaced text, encoded again, agree up to the broken character or to some bytes inside it; the
  // streaming decoder then withholds these bytes.
  const replaced = Buffer.from(new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes));
  let agree = 0;
  while (agree < bytes.length && bytes[agree] === replaced[agree]) agree += 1;
  return new TextDecoder("utf-8").decode(bytes.subarray(0, agree), { stream: true });
}

/** The position after a text. */
function positionAfter(text: string): SourcePosition {
  let line = 1;
  let start = 0;
  for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", start)) {
    line += 1;
    start = end + 1;
  }
  return { line, column: text.length - start + 1 };
}
