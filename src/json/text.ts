/**
 * JSON that stays text on its way from a body to the database, and from the database into an answer. The data that
 * reporters attach may be megabytes that the server never looks into: parsing them only to serialise them again costs
 * memory (ten times the text for many small values) and time on the main thread.
 */
import { randomBytes } from "node:crypto";

/**
 * Placeholder for a text while the value around it is serialised. Cannot occur in data: NUL is never accepted or
 * stored, and the rest is known to this process only.
 */
const PLACEHOLDER = `\u0000raw ${randomBytes(16).toString("hex")} `;
const PLACEHOLDER_PATTERN = new RegExp(`${JSON.stringify(PLACEHOLDER).slice(0, -1).replaceAll("\\", "\\\\")}(\\d+)"`);

/** The texts of the value that is being serialised, in order; null outside `jsonPieces`. */
let texts: string[] | null = null;

/** One valid JSON value as text. Plain JSON.stringify parses it and writes it again, like any other value. */
export class JsonText {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
  toJSON(): unknown {
    if (texts === null) return JSON.parse(this.text);
    return `${PLACEHOLDER}${texts.push(this.text) - 1}`;
  }
}

/**
 * Serialises a value to pieces of JSON text; the text of every JsonText in it is one piece, unchanged.
 * @throws RangeError if the rest is longer than a string can be
 */
export function jsonPieces(value: unknown): string[] {
  const outer = texts;
  const own: string[] = (texts = []);
  try {
    const written = JSON.stringify(value);
    return own.length === 0
      ? [written]
      : written
          .split(PLACEHOLDER_PATTERN)
          .map((piece, index) => (index % 2 === 0 ? piece : (own[Number(piece)] as string)));
  } finally {
    texts = outer;
  }
}

/** Serialises a value that is a JsonText, or may contain some. */
export const stringifyJson = (value: unknown): string =>
  value instanceof JsonText ? value.text : jsonPieces(value).join("");

/** The value with every JsonText in it parsed. Parts without one are not copied. */
export function withoutJsonText(value: unknown): unknown {
  if (value instanceof JsonText) return JSON.parse(value.text);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    const items = value.map(withoutJsonText);
    return items.some((item, index) => item !== value[index]) ? items : value;
  }
  let copy: Record<string, unknown> | null = null;
  for (const [name, part] of Object.entries(value)) {
    const plain = withoutJsonText(part);
    if (plain !== part) (copy ??= { ...value })[name] = plain;
  }
  return copy ?? value;
}
