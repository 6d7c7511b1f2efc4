/**
 * Walks valid JSON text token by token, for what a result of JSON.parse no longer shows: keys that are given twice, the
 * digits of numbers, and the order of keys. Takes ten times as long as JSON.parse, so callers look first whether the
 * text has anything to find.
 */

/** The way to a value: keys of objects and indices of lists. */
export type JsonPath = readonly (string | number)[];

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** What stands between values. */
const SIGNS: ReadonlySet<number> = new Set([COMMA, COLON, CLOSE_LIST, CLOSE_OBJECT]);

const isBlank = (code: number): boolean => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
/** Whether a value that is not a string, an object or a list ends here; also at the end of the text. */
const endsScalar = (code: number): boolean =>
  code === COMMA || code === CLOSE_LIST || code === CLOSE_OBJECT || isBlank(code) || Number.isNaN(code);

/** A position in valid JSON text. */
class JsonCursor {
  readonly text: string;
  at = 0;
  constructor(text: string) {
    this.text = text;
  }

  /** The code of the next character that is not blank. */
  next(): number {
    while (isBlank(this.text.charCodeAt(this.at))) this.at += 1;
    return this.text.charCodeAt(this.at);
  }

  /** Passes the string at the position. @returns it, decoded */
  string(): string {
    const start = this.at;
    let isEscaped = false;
    for (this.at += 1; this.text.charCodeAt(this.at) !== QUOTE; this.at += 1)
      if (this.text.charCodeAt(this.at) === BACKSLASH) {
        isEscaped = true;
        this.at += 1;
      }
    this.at += 1;
    return isEscaped
      ? (JSON.parse(this.text.slice(start, this.at)) as string)
      : this.text.slice(start + 1, this.at - 1);
  }

  /** Passes the number, `true`, `false` or `null` at the position. @returns its text */
  scalar(): string {
    const start = this.at;
    while (!endsScalar(this.text.charCodeAt(this.at))) this.at += 1;
    return this.text.slice(start, this.at);
  }

  /** Passes the list or object at the position; `visit` is called at each element, or at each value with its key. */
  members(visit: (key: string | number) => void): void {
    const isObject = this.text.charCodeAt(this.at) === OPEN_OBJECT;
    this.at += 1;
    for (let index = 0; ; index += 1) {
      const code = this.next();
      if (code === CLOSE_LIST || code === CLOSE_OBJECT) break;
      if (code === COMMA) {
        this.at += 1;
        this.next();
      }
      if (!isObject) {
        visit(index);
        continue;
      }
      const key = this.string();
      this.next();
      this.at += 1;
      this.next();
      visit(key);
    }
    this.at += 1;
  }

  /** Passes the value at the position, without a look at its parts. @returns its text */
  value(): string {
    const start = this.at;
    const kind = this.kind();
    if (kind === "text") this.string();
    else if (kind === "scalar") this.scalar();
    else this.#container();
    return this.text.slice(start, this.at);
  }

  #container(): void {
    const { text } = this;
    let { at } = this;
    for (let depth = 0; ; at += 1) {
      const code = text.charCodeAt(at);
      if (code === QUOTE) {
        for (at += 1; text.charCodeAt(at) !== QUOTE; at += 1) if (text.charCodeAt(at) === BACKSLASH) at += 1;
      } else if (code === OPEN_LIST || code === OPEN_OBJECT) depth += 1;
      else if (code === CLOSE_LIST || code === CLOSE_OBJECT) {
        depth -= 1;
        if (depth === 0) break;
      }
    }
    this.at = at + 1;
  }

  isList(): boolean {
    return this.text.charCodeAt(this.at) === OPEN_LIST;
  }

  /** What stands at the position. */
  kind(): "text" | "members" | "scalar" {
    const code = this.next();
    return code === QUOTE ? "text" : code === OPEN_LIST || code === OPEN_OBJECT ? "members" : "scalar";
  }
}

/** Deeper levels are not indented further: spaces would be most of the text. */
const MAX_INDENT = 128;

/**
 * Valid JSON text with line breaks and two spaces for each level, as JSON.stringify indents; nothing else changes.
 * @param maxChars of the result: the rest is cut off
 */
export function indentText(text: string, maxChars = Infinity): string {
  const pieces: string[] = [];
  let length = 0;
  const cursor = new JsonCursor(text);
  let depth = 0;
  let isEmpty = false;
  const line = (): string => `\n${"  ".repeat(Math.min(depth, MAX_INDENT))}`;
  for (let code = cursor.next(); !Number.isNaN(code); code = cursor.next()) {
    const start = cursor.at;
    if (code === QUOTE) cursor.string();
    else if (cursor.kind() === "scalar" && !SIGNS.has(code)) cursor.scalar();
    else cursor.at += 1;
    const token = text.slice(start, cursor.at);
    if (code === OPEN_LIST || code === OPEN_OBJECT) {
      depth += 1;
      const close = cursor.next();
      isEmpty = close === CLOSE_LIST || close === CLOSE_OBJECT;
      pieces.push(token, isEmpty ? "" : line());
    } else if (code === CLOSE_LIST || code === CLOSE_OBJECT) {
      depth -= 1;
      pieces.push(isEmpty ? "" : line(), token);
      isEmpty = false;
    } else pieces.push(token, code === COMMA ? line() : code === COLON ? " " : "");
    length += token.length + (pieces.at(-1) as string).length;
    if (length > maxChars) return pieces.join("").slice(0, maxChars).toWellFormed();
  }
  return pieces.join("");
}

/** What reading JSON text makes of its numbers, and of its objects: they may have keys that JavaScript reorders. */
type Builder = {
  number(text: string): unknown;
  /** @param text of the object */
  object(entries: Entries, text: string): unknown;
  /** The list itself unless given. */
  list?(items: unknown[]): unknown;
};
export type Entries = readonly (readonly [string, unknown])[];

/** The value of valid JSON text, made by a builder. */
export function buildJson(text: string, { number, object, list = (items) => items }: Builder): unknown {
  const cursor = new JsonCursor(text);
  const read = (): unknown => {
    const kind = cursor.kind();
    if (kind === "text") return cursor.string();
    if (kind === "scalar") {
      const scalar = cursor.scalar();
      return WORDS.has(scalar) ? WORDS.get(scalar) : number(scalar);
    }
    const isList = cursor.isList();
    const start = cursor.at;
    const entries: [string, unknown][] = [];
    cursor.members((key) => void entries.push([String(key), read()]));
    return isList ? list(entries.map(([, value]) => value)) : object(entries, text.slice(start, cursor.at));
  };
  return read();
}

const WORDS: ReadonlyMap<string, unknown> = new Map<string, unknown>([
  ["true", true],
  ["false", false],
  ["null", null],
]);

/** The keys of the object in a text, each with the text of its value. */
export function memberTexts(text: string): [string, string][] {
  const cursor = new JsonCursor(text);
  const members: [string, string][] = [];
  cursor.next();
  cursor.members((key) => void members.push([String(key), cursor.value()]));
  return members;
}

/** The texts of the items of the list in a text, one by one. */
export function* itemTexts(text: string): Generator<string, void, undefined> {
  const cursor = new JsonCursor(text);
  cursor.next();
  for (cursor.at += 1; cursor.next() !== CLOSE_LIST; ) {
    if (text.charCodeAt(cursor.at) === COMMA) {
      cursor.at += 1;
      cursor.next();
    }
    yield cursor.value();
  }
}

/** JSON text without blanks between its parts, and with strings in their shortest form; numbers stay as they are. */
export function compactJson(text: string): string {
  const pieces: string[] = [];
  const cursor = new JsonCursor(text);
  for (let start = 0; start < text.length; start = cursor.at) {
    const quote = text.indexOf('"', start);
    const end = quote === -1 ? text.length : quote;
    pieces.push(text.slice(start, end).replace(/[ \t\r\n]+/g, ""));
    cursor.at = end;
    if (quote !== -1) pieces.push(JSON.stringify(cursor.string()));
  }
  return pieces.join("");
}

/** `path` leads to the value, and is reused: what keeps it copies it. */
type Visitor = {
  /** A key that its object had before; the last step of the path. */
  repeatedKey?(path: JsonPath): void;
  number?(text: string, path: JsonPath): void;
};

/** Visits the numbers and the repeated keys of valid JSON text in their order. */
export function walkJson(text: string, visitor: Visitor): void {
  const cursor = new JsonCursor(text);
  const path: (string | number)[] = [];
  const walk = (): void => {
    const kind = cursor.kind();
    if (kind === "text") cursor.string();
    else if (kind === "scalar") {
      const scalar = cursor.scalar();
      if (!WORDS.has(scalar)) visitor.number?.(scalar, path);
    } else {
      const seen = visitor.repeatedKey ? new Set<string | number>() : null;
      cursor.members((key) => {
        path.push(key);
        if (seen?.has(key)) visitor.repeatedKey?.(path);
        seen?.add(key);
        walk();
        path.pop();
      });
    }
  };
  walk();
}

/** The way to the first key that its object has already; null if there is none. Keys are compared unescaped. */
export function findRepeatedKey(text: string): JsonPath | null {
  let found: JsonPath | null = null;
  walkJson(text, {
    repeatedKey(path) {
      found ??= [...path];
    },
  });
  return found;
}
