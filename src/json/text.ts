/**
 * JSON that stays text on its way from a body to the database, and from the database into an answer. What reporters
 * send of their own may be megabytes that nobody looks into: parsing it only to write it again costs memory (ten times
 * the text for many small values) and time on the main thread.
 */
import { randomBytes } from "node:crypto";

/**
 * Stands for a text while the value around it is written. NUL is in no text that is accepted or stored, and the rest is
 * unknown outside this process.
 */
const MARK = `\u0000raw ${randomBytes(16).toString("hex")} `;
const PLACE = new RegExp(`${JSON.stringify(MARK).slice(0, -1).replaceAll("\\", "\\\\")}(\\d+)"`);

/** The texts of the value that is being written, in the order of their places; null outside `jsonPieces`. */
let texts: string[] | null = null;

/** One valid JSON value as text. JSON.stringify alone parses it and writes it again, like any other value. */
export class JsonText {
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
 * The JSON text of a value in pieces, those of every JsonText in it as they are.
 * @throws RangeError when the rest is longer than a string can be
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

/** The JSON text of a value that is a JsonText, or holds some, or none. */
export const stringifyJson = (value: unknown): string =>
  value instanceof JsonText ? value.text : jsonPieces(value).join("");
