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

/** What stands for the placeholders of the value that is being serialised, in order; null outside `jsonPieces`. */
let parts: (JsonText | JsonList)[] | null = null;

/** One valid JSON value as text. Plain JSON.stringify parses it and writes it again, like any other value. */
export class JsonText {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
  toJSON(): unknown {
    return parts === null ? JSON.parse(this.text) : placeholderOf(parts, this);
  }
}

/**
 * A list whose items are made one after the other while they are written, so that a long list is never in memory as a
 * whole. It can be written once.
 */
export class JsonList<Item = unknown> {
  readonly items: Iterable<Item>;
  constructor(items: Iterable<Item>) {
    this.items = items;
  }
  toJSON(): unknown {
    return parts === null ? [...this.items] : placeholderOf(parts, this);
  }
}

const placeholderOf = (all: (JsonText | JsonList)[], part: JsonText | JsonList): string =>
  `${PLACEHOLDER}${all.push(part) - 1}`;

/**
 * Serialises a value to pieces of JSON text, on demand; the text of every JsonText in it is one piece, unchanged, and
 * the items of every JsonList are made when their pieces are asked for.
 * @throws RangeError if a piece is longer than a string can be
 */
export function* jsonPieces(value: unknown): Generator<string, void, undefined> {
  const outer = parts;
  const own: (JsonText | JsonList)[] = (parts = []);
  let written: string;
  try {
    written = JSON.stringify(value);
  } finally {
    parts = outer;
  }
  if (own.length === 0) yield written;
  else
    for (const [index, piece] of written.split(PLACEHOLDER_PATTERN).entries()) {
      const part = index % 2 === 0 ? piece : (own[Number(piece)] as JsonText | JsonList);
      if (typeof part === "string") yield part;
      else if (part instanceof JsonText) yield part.text;
      else yield* listPieces(part);
    }
}

function* listPieces({ items }: JsonList): Generator<string, void, undefined> {
  let before = "[";
  for (const item of items) {
    yield before;
    yield* jsonPieces(item);
    before = ",";
  }
  yield before === "[" ? "[]" : "]";
}

/** Serialises a value that is a JsonText, or may contain some. */
export const stringifyJson = (value: unknown): string =>
  value instanceof JsonText ? value.text : [...jsonPieces(value)].join("");

/** The value with every JsonText in it parsed, and every JsonList as an array. Parts without one are not copied. */
export function withoutJsonText(value: unknown): unknown {
  if (value instanceof JsonText) return JSON.parse(value.text);
  if (value instanceof JsonList) return Array.from(value.items, withoutJsonText);
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
