/**
 * Keywords of JSON Schema that compare numbers, without rounding. ajv computes with JavaScript's numbers: it takes
 * 9007199254740993 for 9007199254740992, and 19.99 for no multiple of 0.01.
 *
 * A number that JavaScript does not compute with exactly is replaced by another one of its kind, an integer by an
 * integer, and its text is kept beside the object or list that holds it. The keywords here look for the text first.
 */
import { _ } from "ajv";
import type { Ajv, CodeKeywordDefinition, FuncKeywordDefinition, KeywordCxt } from "ajv";
import { compareNumbers, isExact, isInteger, isMultiple, normalizeNumber } from "../../json/numbers.ts";
import { isPlainJson } from "../../json/text.ts";
import { buildJson } from "../../json/walk.ts";

/** What a keyword gets: the value, and where it stands. */
type Check = NonNullable<ReturnType<NonNullable<FuncKeywordDefinition["compile"]>>>;

/** Texts by the object or list that holds the number, and its key or index there. */
const texts = new WeakMap<object, Map<string, string>>();

class Written {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** Not an integer, whatever else it stands for. */
const FRACTION = 0.5;
const standInFor = (text: string): number =>
  isInteger(text) ? Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, Number(text))) : FRACTION;

function keepTexts<Container extends object>(container: Container): Container {
  for (const [key, value] of Object.entries(container))
    if (value instanceof Written) {
      const members = texts.get(container) ?? new Map<string, string>();
      texts.set(container, members.set(key, value.text));
      (container as Record<string, unknown>)[key] = standInFor(value.text);
    }
  return container;
}

/** A value in a container of its own, as the keywords need it. */
export type Held = { value: unknown };

/** Parses valid JSON text for a check by `addExactKeywords`. */
export function parseForCheck(text: string): Held {
  if (isPlainJson(text)) return { value: JSON.parse(text) };
  const value = buildJson(text, {
    number: (written) => (isExact(written) ? Number(written) : new Written(written)),
    object: (entries) => keepTexts(Object.fromEntries(entries)),
    list: keepTexts,
  });
  return keepTexts({ value });
}

/** The copy of an object of parseForCheck without a key. */
export function withoutKey(object: Record<string, unknown>, key: string): Record<string, unknown> {
  const { [key]: _left, ...rest } = object;
  const members = texts.get(object);
  if (members) texts.set(rest, members);
  return rest;
}

/** The text of a number in its container, null for a value that is no such number. */
export const writtenNumber = (container: object | undefined, key: string | number): string | null =>
  (container && texts.get(container)?.get(String(key))) ?? null;

const COMPARISONS = {
  maximum: (order: number) => order <= 0,
  minimum: (order: number) => order >= 0,
  exclusiveMaximum: (order: number) => order < 0,
  exclusiveMinimum: (order: number) => order > 0,
};
export const SIGNS: Readonly<Record<string, string>> = {
  maximum: "<=",
  minimum: ">=",
  exclusiveMaximum: "<",
  exclusiveMinimum: ">",
};

/** How ajv's own keyword of that name describes its error. */
const errorOf = (engine: Ajv, keyword: string): CodeKeywordDefinition["error"] => {
  const definition = engine.getKeyword(keyword);
  return typeof definition === "object" ? (definition as CodeKeywordDefinition).error : undefined;
};

/** Replaces the keywords that compare numbers by those that do it without rounding. */
export function addExactKeywords(engine: Ajv): void {
  for (const [keyword, isWithin] of Object.entries(COMPARISONS))
    replace(engine, keyword, {
      type: "number",
      schemaType: "number",
      compile: (limit: number, schema) => {
        const limitText = writtenNumber(schema as object, keyword);
        return atPlace((data: number, text) =>
          text === null && limitText === null
            ? isWithin(data - limit)
            : isWithin(compareNumbers(text ?? String(data), limitText ?? String(limit))),
        );
      },
    });
  replace(engine, "multipleOf", {
    type: "number",
    schemaType: "number",
    compile: (divisor: number, schema) => {
      const divisorText = writtenNumber(schema as object, "multipleOf") ?? String(divisor);
      return atPlace((data: number, text) => isMultiple(text ?? String(data), divisorText));
    },
  });
  replace(engine, "const", {
    compile(allowed: unknown, schema) {
      const expected = fingerprintOf(allowed, schema as object, "const");
      return (data, at) => fingerprintOf(data, at?.parentData, at?.parentDataProperty) === expected;
    },
  });
  replace(engine, "enum", {
    schemaType: "array",
    compile(allowed: unknown[]) {
      const expected = new Set(allowed.map((value, index) => fingerprintOf(value, allowed, index)));
      return (data, at) => expected.has(fingerprintOf(data, at?.parentData, at?.parentDataProperty));
    },
  });
  replace(engine, "uniqueItems", {
    type: "array",
    schemaType: "boolean",
    compile: (mustBeUnique: boolean) => (items: unknown[]) => !mustBeUnique || findRepeatedItem(items) === null,
  });
}

/** The indices of the first item that an earlier one equals, and of that one. */
export function findRepeatedItem(items: readonly unknown[]): { index: number; earlier: number } | null {
  const seen = new Map<string, number>();
  for (const [index, item] of items.entries()) {
    const fingerprint = fingerprintOf(item, items, index);
    const earlier = seen.get(fingerprint);
    if (earlier !== undefined) return { index, earlier };
    seen.set(fingerprint, index);
  }
  return null;
}

/** A check of a number, by its value and its text if that says more. */
const atPlace =
  (check: (data: number, text: string | null) => boolean): Check =>
  (data: number, at) =>
    check(data, at ? writtenNumber(at.parentData as object, at.parentDataProperty) : null);

function replace(engine: Ajv, keyword: string, definition: Omit<FuncKeywordDefinition, "keyword" | "errors">): void {
  const error = keyword === "uniqueItems" ? REPEATED_ITEMS : errorOf(engine, keyword);
  engine.removeKeyword(keyword);
  engine.addKeyword({ ...definition, keyword, errors: false, ...(error ? { error } : {}) } as FuncKeywordDefinition);
}

const REPEATED_ITEMS = {
  message: "must NOT have duplicate items",
  params: (_cxt: KeywordCxt) => _`{}`,
};

/**
 * A text that two values share exactly if JSON Schema calls them equal. Exact numbers have their shortest text; what is
 * kept as text equals none of them.
 */
function fingerprintOf(value: unknown, container: object | undefined, key: string | number = ""): string {
  if (typeof value === "number") {
    const text = writtenNumber(container, key);
    return text === null ? String(value === 0 ? 0 : value) : `~${normalizeNumber(text)}`;
  }
  if (Array.isArray(value)) return `[${value.map((item, index) => fingerprintOf(item, value, index)).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.keys(value)
    .sort()
    .map((name) => `${JSON.stringify(name)}:${fingerprintOf((value as Record<string, unknown>)[name], value, name)}`);
  return `{${members.join(",")}}`;
}
