/**
 * JSON text inside of a value that is about to become JSON. Reading megabytes of stored JSON only to write them again
 * costs memory (ten times the text for many small values) and time on the main thread; a RawJson passes through as it
 * is.
 */

/**
 * Stands for a text while the value around it is written. NUL is in no stored text, and the rest is not known outside
 * of this process.
 */
const MARK = `\u0000raw ${Math.random().toString(36).slice(2)} `;
const PLACE = new RegExp(`${JSON.stringify(MARK).slice(0, -1).replaceAll("\\", "\\\\")}(\\d+)"`);

/** The texts of the value that is being written, in the order of their places; null outside of `jsonPieces`. */
let texts: string[] | null = null;

/** A valid JSON text. Written by JSON.stringify alone, it is parsed like any other value. */
export class RawJson {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
  toJSON(): unknown {
    if (texts === null) return JSON.parse(this.text);
    return `${MARK}${texts.push(this.text) - 1}`;
  }
}

/**
 * The JSON text of a value in pieces, those of every RawJson in it as they are. @throws RangeError when the rest is
 * longer than a string can be
 */
export function jsonPieces(value: unknown): string[] {
  const outer = texts;
  const own: string[] = (texts = []);
  try {
    const written = JSON.stringify(value);
    return own.length === 0
      ? [written]
      : written.split(PLACE).map((piece, index) => (index % 2 === 0 ? piece : (own[Number(piece)] as string)));
  } finally {
    texts = outer;
  }
}
