/**
 * Validation of params, query, body and responses. ajv finds the problems; this file turns them into the field texts of
 * messages 2, one line per field. Schemas are compiled on first use, because compiling all of them would
 * slow down the start of the process; a test compiles every one.
 *
 * Invariant: a refusal costs no more than reading the value once, and its answer is at most a page. A list of a million
 * wrong items would become a million error objects, so all problems are collected only for values that a person could
 * have written; of anything larger only the first problem is reported.
 */
import { Ajv2020 } from "ajv/dist/2020.js";
import type { ErrorObject, Options, ValidateFunction } from "ajv/dist/2020.js";
import type { TSchema } from "typebox";
import { isLinkable, isGitRemote } from "../domain/network/urls.ts";
import { tooLarge } from "../errors.ts";
import type { FieldErrors } from "../errors.ts";
import { isWithinBytes } from "../json/bytes.ts";
import { MAX_NUMBER_CHARS } from "../json/numbers.ts";
import { MAX_JSON_DEPTH, MAX_PATH_KEYS } from "../json/scan.ts";

/** Text formats, with the words for what is expected. */
export const FORMATS: Readonly<Record<string, { validate(text: string): boolean; words: string }>> = {
  "web-url": { validate: isLinkable, words: "an http or https URL" },
  "remote-url": {
    validate: isGitRemote,
    words: "the URL of a repository or commit: http, https, ssh, or as user@host:path",
  },
};

// The only other format is `binary`, in the shapes of answers; every text has it.
const formats = { ...FORMATS, binary: true } as const;
const options = { verbose: true, strict: false, useDefaults: true, ownProperties: true, formats } as const;
const MAX_BYTES = "x-max-bytes";
/** For bodies only: values stored under an older bound are still shown. */
const withMaxBytes = (engine: Ajv2020): Ajv2020 =>
  engine.addKeyword({
    keyword: MAX_BYTES,
    schemaType: "number",
    errors: false,
    validate: (maxBytes: number, value: unknown) => isWithinBytes(value, maxBytes),
  });

/** Each mode has two engines: one stops at the first problem, one collects all of them. */
type Engines = { first: Ajv2020; all: Ajv2020 };
const createEngines = (more: Options): Engines => ({
  first: new Ajv2020({ ...options, ...more }),
  all: new Ajv2020({ ...options, ...more, allErrors: true }),
});

/**
 * - `plain`: JSON bodies.
 * - `coercing`: params and query, which arrive as text: "15" becomes 15 if the shape says integer. An empty text never
 *   becomes a number.
 * - `response`: fills in no defaults, because a default would hide a field that the handler forgot.
 */
type ValidationMode = "plain" | "coercing" | "response";
const ENGINES: Record<ValidationMode, Engines> = {
  plain: { first: withMaxBytes(new Ajv2020(options)), all: withMaxBytes(new Ajv2020({ ...options, allErrors: true })) },
  coercing: createEngines({ coerceTypes: true }),
  response: createEngines({ useDefaults: false }),
};
const compiled = new WeakMap<Ajv2020, WeakMap<TSchema, ValidateFunction>>();

/** The compiled check of a schema, which stops at the first problem unless `depth` is `all`. */
export function compileSchema(schema: TSchema, mode: ValidationMode, depth: keyof Engines = "first"): ValidateFunction {
  const engine = ENGINES[mode][depth];
  let checks = compiled.get(engine);
  if (checks === undefined) compiled.set(engine, (checks = new WeakMap()));
  let check = checks.get(schema);
  if (check === undefined) checks.set(schema, (check = engine.compile(schema)));
  return check;
}

/** Larger values (keys and items, at all levels) get only their first problem reported. */
const MAX_THOROUGH_PARTS = 2_000;
/** Fields of one refusal: an answer that can be read without scrolling. */
const MAX_FIELDS = 100;

/**
 * Validates `value` in place: fills in defaults, and converts text to numbers and booleans in mode `coercing`.
 * @param options.root name of the value itself in the result: `body`, `data_json`, ...
 * @returns null if it is valid, else one text per field: at most 100 fields, and a single one for a value of thousands
 *   of parts
 * @throws AppError 413 if a part of it is longer than its `x-max-bytes`.
 */
export function validate(
  schema: TSchema,
  value: unknown,
  { mode, root }: { mode: ValidationMode; root: string },
): FieldErrors | null {
  const invalidNumber = mode === "coercing" ? invalidNumbers(schema, value as Record<string, unknown>) : null;
  if (invalidNumber) return invalidNumber;
  const quick = compileSchema(schema, mode);
  if (quick(value)) return null;
  let errors = quick.errors;
  if (isSmall(value, MAX_THOROUGH_PARTS)) {
    const thorough = compileSchema(schema, mode, "all");
    if (!thorough(value)) errors = thorough.errors;
  }
  refuseTooLarge(errors ?? [], root);
  return fieldTexts(errors ?? [], root);
}

/** @throws AppError 413 that names the field and its bound, if a value is longer than its shape allows. */
function refuseTooLarge(errors: readonly ErrorObject[], root: string): void {
  const error = errors.find(({ keyword }) => keyword === MAX_BYTES);
  if (!error) return;
  const path = formatPath(error.instancePath.split("/").slice(1));
  throw tooLarge(path === "" ? `The JSON of '${root}'` : `Field '${path}'`, error.schema as number);
}

/** A number as people write it in a URL; its range is left to its shape. */
const PLAIN_NUMBER = /^[+-]?\d{1,20}(?:\.\d{1,20})?$/;

/**
 * ajv accepts everything that JavaScript converts to a number, `1e999` and ` ` included, without checking the result.
 */
function invalidNumbers(schema: TSchema, values: Record<string, unknown>): FieldErrors | null {
  const shapes = (schema as { properties?: Record<string, { type?: unknown }> }).properties ?? {};
  const problems = Object.entries(shapes).flatMap(([name, { type }]) => {
    const text = values[name];
    const isInvalid = (type === "integer" || type === "number") && typeof text === "string" && !PLAIN_NUMBER.test(text);
    return isInvalid ? [[name, `Input should be a valid ${type} [input: ${show(text)}]`] as const] : [];
  });
  return problems.length > 0 ? Object.fromEntries(problems) : null;
}

/** Whether a value has at most `maxParts` parts. Takes time proportional to that bound, not to the value. */
function isSmall(value: unknown, maxParts: number): boolean {
  const open: unknown[] = [value];
  let parts = 0;
  while (open.length > 0) {
    const item = open.pop();
    if (typeof item !== "object" || item === null) continue;
    if (Array.isArray(item) && (parts += item.length) > maxParts) return false;
    for (const key in item) {
      if (!Array.isArray(item) && ++parts > maxParts) return false;
      open.push((item as Record<string, unknown>)[key]);
    }
  }
  return true;
}

/** Converts ajv's errors to one text per field. */
function fieldTexts(errors: readonly ErrorObject[], root: string): FieldErrors {
  // A Map first: names come from the client, and `__proto__` may be one of them.
  const fields = new Map<string, string>();
  const listed = new Set<unknown>();
  for (const error of resolveUnions(errors)) {
    const [path, text] = describe(error, listed);
    const key = path.length > 0 ? formatPath(path) : root;
    if (!fields.has(key)) fields.set(key, text);
    if (fields.size === MAX_FIELDS) break;
  }
  return Object.fromEntries(fields);
}

/** The dotted path of a field; long keys and long paths are truncated. */
export const formatPath = (path: readonly string[]): string => {
  const keys = path.slice(0, MAX_PATH_KEYS).map((key) => truncate(key.toWellFormed(), MAX_PATH_KEY_CHARS));
  return path.length > MAX_PATH_KEYS ? `${keys.join(".")}…` : keys.join(".");
};
const MAX_PATH_KEY_CHARS = 256;

/**
 * A union reports the errors of all its branches. Only the branch that was probably meant helps a person: the one whose
 * type matches and, among several, the one with the fewest errors. Inner unions are resolved before outer ones.
 */
function resolveUnions(errors: readonly ErrorObject[]): ErrorObject[] {
  let left = [...errors];
  const unions = errors
    .filter((error) => error.keyword === "anyOf")
    .sort((a, b) => b.schemaPath.length - a.schemaPath.length);
  for (const union of unions) {
    const prefix = `${union.schemaPath}/`;
    const within = `${union.instancePath}/`;
    const mine = (error: ErrorObject) =>
      error !== union &&
      error.schemaPath.startsWith(prefix) &&
      (error.instancePath === union.instancePath || error.instancePath.startsWith(within));
    const branches = new Map<string, ErrorObject[]>();
    for (const error of left.filter(mine)) {
      const branch = error.schemaPath.slice(prefix.length).split("/", 1)[0] ?? "";
      branches.set(branch, [...(branches.get(branch) ?? []), error]);
    }
    const wrongType = (error: ErrorObject) => error.keyword === "type" && error.instancePath === union.instancePath;
    const meant = [...branches.values()]
      .filter((branch) => !branch.some(wrongType))
      .sort((a, b) => a.length - b.length)[0];
    left = left.filter((error) => !mine(error));
    if (meant) left = left.flatMap((error) => (error === union ? meant : [error]));
  }
  return left;
}

const NUMBER_BOUNDS = `${MAX_NUMBER_CHARS} characters, its exponent of at most nine digits`;
/** About a number that 64 bits do not hold; read-json.ts puts a symbol in its place, which no shape accepts. */
export const UNHELD_NUMBER = "Input should be a number that double precision holds without rounding";
export const TOO_LONG_NUMBER = `Input should be a number of at most ${NUMBER_BOUNDS}`;

/** The beginning of what is said of a key that is not known (messages 2). */
export const UNKNOWN_KEY = "Extra inputs are not permitted";

/** @param listed the shapes whose keys a text before this one lists; gets that of `error` */
function describe(error: ErrorObject, listed: Set<unknown>): [path: string[], text: string] {
  const path = error.instancePath
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
  const input = `[input: ${show(error.data)}]`;
  if (typeof error.data === "symbol") return [path, `${UNHELD_NUMBER} ${input}`];
  const limit = (error.params as { limit?: number }).limit ?? 0;
  switch (error.keyword) {
    case "required":
      return [[...path, String(error.params["missingProperty"])], "Field required"];
    case "additionalProperties":
    case "unevaluatedProperties": {
      const name = String(error.params["additionalProperty"] ?? error.params["unevaluatedProperty"]);
      const input = show((error.data as Record<string, unknown>)[name]);
      return [[...path, name], `${UNKNOWN_KEY} [input: ${input}]${possibleKeys(error, listed)}`];
    }
    case "pattern":
      return [path, `String should match pattern '${String(error.params["pattern"])}' ${input}`];
    case "format":
      return [path, `Input should be ${FORMATS[String(error.params["format"])]?.words ?? "of another form"} ${input}`];
    case "enum":
      return [path, `Input should be ${list(error.params["allowedValues"] as unknown[])} ${input}`];
    case "const":
      return [path, `Input should be ${list([error.params["allowedValue"]])} ${input}`];
    case "minLength":
      return [path, `String should have at least ${count(limit, "character")} ${input}`];
    case "maxLength":
      return [path, `String should have at most ${count(limit, "character")} ${input}`];
    case "minItems":
      return [path, `List should have at least ${count(limit, "item")} ${input}`];
    case "maxItems":
      return [path, `List should have at most ${count(limit, "item")}`];
    case "maxProperties":
      return [path, `Object should have at most ${count(limit, "key")}`];
    case "minimum":
      return [path, `Input should be greater than or equal to ${limit} ${input}`];
    case "maximum":
      return [path, `Input should be less than or equal to ${limit} ${input}`];
    case "type":
      return [path, `Input should be a valid ${typeWords(error.params["type"])} ${input}`];
    case "anyOf":
      return [path, `Input should be a valid ${typeWords(branchTypes(error.schema))} ${input}`];
    case "propertyNames":
      return [[...path, String(error.params["propertyName"])], `Key should match the grammar of its kind`];
    default:
      return [path, `Input ${error.message ?? "is not valid"} ${input}`];
  }
}

/**
 * The keys that an object may have, at the end of a text about another one: once in a refusal for each shape, because
 * there may be a hundred such keys; "" if the shape names none.
 */
function possibleKeys({ parentSchema }: ErrorObject, listed: Set<unknown>): string {
  const keys = Object.keys((parentSchema as { properties?: Record<string, unknown> } | undefined)?.properties ?? {});
  if (keys.length === 0 || listed.has(parentSchema)) return "";
  listed.add(parentSchema);
  return `; possible keys: ${keys.slice(0, MAX_SHOWN_PARTS).join(", ")}${keys.length > MAX_SHOWN_PARTS ? ", ..." : ""}`;
}

/** How much of a value an error text repeats: it is one line for a person. */
const MAX_SHOWN_CHARS = 500;
/** Lists and objects with more parts are summarised. */
const MAX_SHOWN_PARTS = 50;

/** The value as it was sent, on one line. */
function show(value: unknown): string {
  const text =
    typeof value === "string" ? value : typeof value === "symbol" ? (value.description ?? "") : preview(value);
  // Control characters would break the line; everything else is shown as sent.
  return truncate(text, MAX_SHOWN_CHARS).replace(
    /[\u0000-\u001f\u007f\u2028\u2029]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Large values are summarised: serialising them only to truncate the text would be a waste. */
function preview(value: unknown): string {
  if (isSmall(value, MAX_SHOWN_PARTS))
    return (
      JSON.stringify(value, (_key, item: unknown) =>
        typeof item === "string" ? truncate(item, MAX_SHOWN_CHARS) : typeof item === "symbol" ? show(item) : item,
      ) ?? ""
    );
  return Array.isArray(value) ? `list of ${count(value.length, "item")}` : "object";
}

/** The text, or its start with an ellipsis; never splits a surrogate pair. */
function truncate(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  const last = text.charCodeAt(maxChars - 1);
  return `${text.slice(0, last >= 0xd800 && last <= 0xdbff ? maxChars - 1 : maxChars)}…`;
}

const quoted = (value: unknown): string => (typeof value === "string" ? `'${value}'` : String(JSON.stringify(value)));

function list(values: readonly unknown[]): string {
  const words = values.filter((value) => value !== null).map(quoted);
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
}

const count = (n: number, noun: string): string => `${n} ${noun}${n === 1 ? "" : "s"}`;

function typeWords(types: unknown): string {
  const words = (Array.isArray(types) ? types : String(types).split(",")).map(String).filter((word) => word !== "null");
  return words.join(" or ") || "value";
}

/** The types of all branches, nested unions included. */
function branchTypes(schema: unknown): string[] {
  const branches = Array.isArray(schema) ? (schema as { type?: string | string[]; anyOf?: unknown }[]) : [];
  return [...new Set(branches.flatMap(({ type, anyOf }) => (anyOf === undefined ? (type ?? []) : branchTypes(anyOf))))];
}

/**
 * Checks what no schema states but storage demands: Unicode text without NUL, nesting that a serialiser survives.
 * Recursion ends at MAX_JSON_DEPTH; memory is proportional to the depth, not to the value.
 * @returns the first problem as [dotted path, text], or null; without one, the number of keys in all objects
 */
export function inspectParsed(value: unknown): { problem: [path: string, text: string] | null; keys: number } {
  const path: string[] = [];
  let keys = 0;
  const problemOf = (item: unknown): string | null => {
    if (typeof item === "string") return findTextProblem(item);
    if (typeof item !== "object" || item === null) return null;
    if (path.length >= MAX_JSON_DEPTH) return `Input should not be nested deeper than ${MAX_JSON_DEPTH} levels`;
    return Array.isArray(item) ? problemIn(item) : problemInObject(item as Record<string, unknown>);
  };
  const problemAt = (key: string | number, item: unknown): string | null => {
    const isLeaf = typeof item !== "object" || item === null;
    if (!isLeaf) path.push(String(key));
    const problem = problemOf(item);
    // Only the path of a problem is kept; millions of valid leaves never enter it.
    if (isLeaf && problem) path.push(String(key));
    else if (!isLeaf && !problem) path.pop();
    return problem;
  };
  const problemIn = (items: readonly unknown[]): string | null => {
    for (let i = 0; i < items.length; i++) {
      const problem = problemAt(i, items[i]);
      if (problem) return problem;
    }
    return null;
  };
  const problemInObject = (object: Record<string, unknown>): string | null => {
    const names = Object.keys(object);
    keys += names.length;
    for (const key of names) {
      const bad = findTextProblem(key);
      const problem = bad ? `A key of the object is not acceptable: ${bad}` : problemAt(key, object[key]);
      if (problem) return problem;
    }
    return null;
  };
  const problem = problemOf(value);
  return { problem: problem === null ? null : [formatPath(path), problem], keys };
}

/** Why a text cannot be stored; null if it can. */
export function findTextProblem(text: string): string | null {
  if (text.includes("\u0000")) return "String should not contain a NUL character";
  if (!text.isWellFormed()) return "String should be valid Unicode without lone surrogates";
  return null;
}
