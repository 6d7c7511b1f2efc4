/**
 * JSON that is kept as it was sent. A value of JavaScript cannot hold every JSON: numbers are rounded to 64 bits (and
 * 1.0 becomes 1), and keys such as "10" and "2" are reordered. What it cannot hold stays text, in the smallest part
 * that needs it: one number, or one object. JsonText also stands for megabytes that the server never looks into:
 * parsing them only to serialise them again would take memory (ten times the text for many small values) and time.
 */
import { randomBytes } from "node:crypto";
import { isCanonical } from "./numbers.ts";
import { buildJson, indentText, itemTexts, memberTexts } from "./walk.ts";
import type { Entries } from "./walk.ts";

/**
 * Placeholder for a text while the value around it is serialised. Cannot occur in data: NUL is never accepted or
 * stored, and the rest is known to this process only.
 */
const PLACEHOLDER = `\u0000raw ${randomBytes(16).toString("hex")} `;
const PLACEHOLDER_PATTERN = new RegExp(`${JSON.stringify(PLACEHOLDER).slice(0, -1).replaceAll("\\", "\\\\")}(\\d+)"`);

/** What stands for the placeholders of the value that is being serialised, in order; null outside `jsonPieces`. */
let parts: Part[] | null = null;

const isNumber = (text: string): boolean => /^-?\d/.test(text);

/** One valid JSON value as text, without blanks between its parts. */
export class JsonText {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
  /** Plain JSON.stringify writes numbers as they are; only the order of keys that are numbers needs `stringifyJson`. */
  toJSON(): unknown {
    if (parts !== null) return placeholderOf(parts, this);
    if (isNumber(this.text)) return rawJson(this.text);
    const value = parseExact(this.text);
    return value instanceof JsonText ? toMembers(value) : value;
  }
  toString(): string {
    return this.text;
  }
}

/** ECMAScript's own way to write a number as it is; TypeScript does not declare it. */
const rawJson = (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON;

/**
 * A list whose items are made one after the other while they are written, so that a long list is never in memory as a
 * whole. It can be written once.
 */
export class JsonList<Item = unknown> {
  readonly items: Iterable<Item>;
  constructor(items: Iterable<Item>) {
    this.items = items;
  }
  /** The list of what `present` makes of each row. */
  static from<Row, Item>(rows: Iterable<Row>, present: (row: Row) => Item): JsonList<Item> {
    return new JsonList(mapEach(rows, present));
  }
  toJSON(): unknown {
    return parts === null ? [...this.items] : placeholderOf(parts, this);
  }
}

function* mapEach<Row, Item>(rows: Iterable<Row>, present: (row: Row) => Item): Generator<Item, void, undefined> {
  for (const row of rows) yield present(row);
}

/** A long text, which is serialised in slices. */
class LongText {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
  toJSON(): unknown {
    return parts === null ? this.text : placeholderOf(parts, this);
  }
}

type Part = JsonText | JsonList | LongText;

const placeholderOf = (all: Part[], part: Part): string => `${PLACEHOLDER}${all.push(part) - 1}`;

/** Longer texts are serialised in slices of this length where pieces are asked for. */
const SLICE_CHARS = 65_536;

/** The value with its long texts replaced. Parts without one are not copied. */
function withLongTexts(value: unknown): unknown {
  if (typeof value === "string") return value.length > SLICE_CHARS ? new LongText(value) : value;
  if (typeof value !== "object" || value === null || value instanceof JsonText || value instanceof JsonList)
    return value;
  if (Array.isArray(value)) {
    let items: unknown[] | null = null;
    for (let at = 0; at < value.length; at += 1) {
      const replaced = withLongTexts(value[at]);
      if (replaced !== value[at]) (items ??= [...(value as unknown[])])[at] = replaced;
    }
    return items ?? value;
  }
  let copy: Record<string, unknown> | null = null;
  for (const [name, part] of Object.entries(value)) {
    const replaced = withLongTexts(part);
    // Assigned to `__proto__`, it would be no member.
    if (replaced !== part && name !== "__proto__") (copy ??= { ...value })[name] = replaced;
  }
  return copy ?? value;
}

/** The JSON of a long text. No slice ends within a character. */
function* slicesOf(text: string): Generator<string, void, undefined> {
  let before = '"';
  for (let start = 0; start < text.length; ) {
    const end = start + SLICE_CHARS;
    const next = end < text.length && isLowSurrogate(text.charCodeAt(end)) ? end - 1 : end;
    yield before + JSON.stringify(text.slice(start, next)).slice(1, -1);
    before = "";
    start = next;
  }
  yield '"';
}

const isLowSurrogate = (code: number): boolean => code >= 0xdc00 && code <= 0xdfff;

/**
 * Serialises a value to pieces of JSON text, on demand; the text of every JsonText in it is one piece, unchanged, long
 * texts are several, and the items of every JsonList are made when their pieces are asked for.
 * @throws RangeError if a piece is longer than a string can be
 */
export const jsonPieces = (value: unknown): Generator<string, void, undefined> => piecesOf(value, withLongTexts);

function* piecesOf(value: unknown, prepare: (value: unknown) => unknown): Generator<string, void, undefined> {
  const prepared = prepare(value);
  const outer = parts;
  const own: Part[] = (parts = []);
  let written: string;
  try {
    written = JSON.stringify(prepared);
  } finally {
    parts = outer;
  }
  if (own.length === 0) yield written;
  else
    for (const [index, piece] of written.split(PLACEHOLDER_PATTERN).entries()) {
      const part = index % 2 === 0 ? piece : (own[Number(piece)] as Part);
      if (typeof part === "string") yield part;
      else if (part instanceof JsonText) yield part.text;
      else if (part instanceof LongText) yield* slicesOf(part.text);
      else yield* listPieces(part, prepare);
    }
}

function* listPieces({ items }: JsonList, prepare: (value: unknown) => unknown): Generator<string, void, undefined> {
  let before = "[";
  for (const item of items) {
    yield before;
    yield* piecesOf(item, prepare);
    before = ",";
  }
  yield before === "[" ? "[]" : "]";
}

const asIs = (value: unknown): unknown => value;

/** Serialises a value that is a JsonText, or may contain some. */
export const stringifyJson = (value: unknown): string =>
  value instanceof JsonText ? value.text : [...piecesOf(value, asIs)].join("");

/** As stringifyJson, indented by two spaces. @param maxChars of the result: the rest is cut off */
export const indentJson = (value: unknown, maxChars?: number): string =>
  indentText(stringifyJson(value ?? null), maxChars);

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const MINUS = 0x2d;
const ZERO = 0x30;
const NINE = 0x39;
const isDigit = (code: number): boolean => code >= ZERO && code <= NINE;
/** An integer of this length is held and written by JavaScript as it is. */
const MAX_PLAIN_DIGITS = 15;

/** Whether valid JSON text keeps its digits and the order of its keys when JavaScript parses and serialises it. */
export function isPlainJson(text: string): boolean {
  const { length } = text;
  for (let at = 0; at < length; at += 1) {
    const code = text.charCodeAt(at);
    const start = at;
    if (code === QUOTE) {
      for (at += 1; text.charCodeAt(at) !== QUOTE; at += 1) if (text.charCodeAt(at) === BACKSLASH) at += 1;
      const first = text.charCodeAt(start + 1);
      // An escape may stand for a digit.
      if ((isDigit(first) || first === BACKSLASH) && isKey(text, at + 1)) return false;
    } else if (isDigit(code) || code === MINUS) {
      let isInteger = true;
      for (at += 1; isInNumber(text.charCodeAt(at)); at += 1) isInteger &&= isDigit(text.charCodeAt(at));
      const isShort = isInteger && at - start <= MAX_PLAIN_DIGITS && code !== MINUS;
      if (!isShort && !isCanonical(text.slice(start, at))) return false;
      at -= 1;
    }
  }
  return true;
}

/** Digits, and the signs `+ - . E e`. */
const isInNumber = (code: number): boolean =>
  isDigit(code) || code === 0x2b || code === MINUS || code === 0x2e || code === 0x45 || code === 0x65;

/** Whether the string that ends before the position is a key. */
function isKey(text: string, end: number): boolean {
  let at = end;
  while (text.charCodeAt(at) <= 0x20) at += 1;
  return text.charCodeAt(at) === COLON;
}

/**
 * Parses valid JSON text without a change to what it says: numbers that JavaScript would write with other characters,
 * and objects whose keys it would reorder, are JsonTexts. The text has no blanks between its parts (`compactJson`).
 */
export const parseExact = (text: string): unknown => (isPlainJson(text) ? JSON.parse(text) : buildJson(text, EXACT));

/** An object of parseExact with its members, whatever their order. */
export const toMembers = (value: unknown): Record<string, unknown> =>
  value instanceof JsonText ? Object.fromEntries(membersOf(value)) : (value as Record<string, unknown>);

/** The keys and values of an object of parseExact, in the order in which they were sent; none for any other value. */
export function membersOf(value: unknown): Entries {
  if (!(value instanceof JsonText))
    return typeof value === "object" && value !== null && !Array.isArray(value) ? Object.entries(value) : [];
  let own: Entries = [];
  buildJson(value.text, {
    number: EXACT.number,
    object(entries, text) {
      // The outermost object comes last.
      own = entries;
      return EXACT.object(entries, text);
    },
  });
  return own;
}

/**
 * The members of the object in a text that is too long to be parsed: the short ones as parseExact has them, the long
 * ones as texts.
 */
export const outlineOf = ({ text }: JsonText): Record<string, unknown> =>
  Object.fromEntries(memberTexts(text).map(([key, member]) => [key, outlined(member)]));

/** The items of a list, of which a long one may be a text; those of a text one by one. None for any other value. */
export function* itemsOf(value: unknown): Generator<unknown, void, undefined> {
  if (Array.isArray(value)) yield* value;
  else if (value instanceof JsonText && value.text.startsWith("["))
    for (const item of itemTexts(value.text)) yield outlined(item);
}

/** The keys of an object, of which a long one may be a text; none for any other value. */
export const keysOf = (value: unknown): string[] =>
  value instanceof JsonText
    ? value.text.startsWith("{")
      ? memberTexts(value.text).map(([key]) => key)
      : []
    : Object.keys(value ?? {});

const outlined = (text: string): unknown => (text.length > SLICE_CHARS ? new JsonText(text) : parseExact(text));

const EXACT = {
  number: (text: string): unknown => (isCanonical(text) ? Number(text) : new JsonText(text)),
  object(entries: Entries, text: string): unknown {
    const object = Object.fromEntries(entries);
    return Object.keys(object).every((key, index) => key === entries[index]?.[0]) ? object : new JsonText(text);
  },
};

/**
 * The value with every JsonText in it parsed, as far as JavaScript can hold it, and every JsonList as an array. Parts
 * without one are not copied.
 */
export function withParsedTexts(value: unknown): unknown {
  if (value instanceof JsonText) return isNumber(value.text) ? value : parseExact(value.text);
  if (value instanceof JsonList) return Array.from(value.items, withParsedTexts);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    const items = value.map(withParsedTexts);
    return items.some((item, index) => item !== value[index]) ? items : value;
  }
  let copy: Record<string, unknown> | null = null;
  for (const [name, part] of Object.entries(value)) {
    const plain = withParsedTexts(part);
    if (plain !== part) (copy ??= { ...value })[name] = plain;
  }
  return copy ?? value;
}
