/**
 * Validation of params, query and body. ajv finds all problems at once; this file turns them into the field texts of
 * messages.md section 2, one line per field. Schemas compile on first use, because compiling all of them costs the
 * start of the process more than all its requests; a test compiles every one.
 *
 * Invariant: a refusal costs no more than reading the value once, and its answer is a page. A list of a million wrong
 * items would otherwise be a million error objects, so all problems are collected only for values a person could have
 * written; of anything larger the first problem is told.
 */
import { Ajv2020 } from "ajv/dist/2020.js";
import type { ErrorObject, Options, ValidateFunction } from "ajv/dist/2020.js";
import type { TSchema } from "typebox";
import { isLinkable, isRemote } from "../domain/network/urls.ts";
import { tooLarge } from "../errors.ts";
import type { FieldErrors } from "../errors.ts";
import { isWithinBytes } from "../json/bytes.ts";
import { MAX_JSON_DEPTH, MAX_PATH_KEYS } from "../json/scan.ts";

/** Formats of texts, with the words for what is expected. */
export const FORMATS: Readonly<Record<string, { validate(text: string): boolean; words: string }>> = {
  "web-url": { validate: isLinkable, words: "an http or https URL" },
  "remote-url": {
    validate: isRemote,
    words: "the URL of a repository or commit: http, https, ssh, or as user@host:path",
  },
};

// Of other formats the shapes of answers have `binary` alone, which no text fails.
const formats = { ...FORMATS, binary: true } as const;
const options = { verbose: true, strict: false, useDefaults: true, ownProperties: true, formats } as const;
const MAX_BYTES = "x-max-bytes";
/** Of bodies alone: what was stored under an older bound is still shown. */
const bounded = (engine: Ajv2020): Ajv2020 =>
  engine.addKeyword({
    keyword: MAX_BYTES,
    schemaType: "number",
    errors: false,
    validate: (maxBytes: number, value: unknown) => isWithinBytes(value, maxBytes),
  });

/** Each flavour has two engines: one that stops at the first problem, one that lists all of them. */
type Engines = { first: Ajv2020; all: Ajv2020 };
const createEngines = (more: Options): Engines => ({
  first: new Ajv2020({ ...options, ...more }),
  all: new Ajv2020({ ...options, ...more, allErrors: true }),
});

type ValidationMode = "plain" | "coercing" | "response";
const ENGINES: Record<ValidationMode, Engines> = {
  plain: { first: bounded(new Ajv2020(options)), all: bounded(new Ajv2020({ ...options, allErrors: true })) },
  /**
   * Params and query arrive as text: "15" becomes 15 where the shape says integer. An empty text never becomes a
   * number.
   */
  coercing: createEngines({ coerceTypes: true }),
  /** Responses: nothing is filled in, because a default would hide a field that the handler forgot. */
  response: createEngines({ useDefaults: false }),
};
const compiled = new WeakMap<Ajv2020, WeakMap<TSchema, ValidateFunction>>();

/** The compiled check of a schema, of the engine that stops at the first problem unless `all` are asked for. */
export function compileSchema(schema: TSchema, mode: ValidationMode, depth: keyof Engines = "first"): ValidateFunction {
  const engine = ENGINES[mode][depth];
  let checks = compiled.get(engine);
  if (checks === undefined) compiled.set(engine, (checks = new WeakMap()));
  let check = checks.get(schema);
  if (check === undefined) checks.set(schema, (check = engine.compile(schema)));
  return check;
}

/** Of values with more parts than this (keys and items, at all levels) only the first problem is told. */
const THOROUGH_PARTS = 2_000;
/** The most fields of one refusal, so that its answer is read and not scrolled through. */
const MAX_FIELDS = 100;

/**
 * Checks `value`, filling in defaults (and turning text into numbers and booleans with `coercing`).
 * @returns null when it fits, else one text per field (at most 100 fields; one for a value of thousands of parts);
 * `root`
 *   names the value itself (`body`, `data_json`, ...).
 * @throws AppError 413 when a part of it is longer than its `x-max-bytes`.
 */
export function validate(
  schema: TSchema,
  value: unknown,
  { mode, root }: { mode: ValidationMode; root: string },
): FieldErrors | null {
  const odd = mode === "coercing" ? invalidNumbers(schema, value as Record<string, unknown>) : null;
  if (odd) return odd;
  const quick = compileSchema(schema, mode);
  if (quick(value)) return null;
  let errors = quick.errors;
  if (isSmall(value, THOROUGH_PARTS)) {
    const thorough = compileSchema(schema, mode, "all");
    if (!thorough(value)) errors = thorough.errors;
  }
  refuseTooLarge(errors ?? [], root);
  return fieldTexts(errors ?? [], root);
}

/** @throws AppError 413 that names the field and its bound, when a value is longer than its shape allows. */
function refuseTooLarge(errors: readonly ErrorObject[], root: string): void {
  const error = errors.find(({ keyword }) => keyword === MAX_BYTES);
  if (!error) return;
  const path = formatPath(error.instancePath.split("/").slice(1));
  throw tooLarge(path === "" ? `The JSON of '${root}'` : `Field '${path}'`, error.schema as number);
}

/** A number as people write it in an address. How large it may be is for its shape to say. */
const PLAIN_NUMBER = /^[+-]?\d{1,20}(?:\.\d{1,20})?$/;

/** ajv turns all that JavaScript calls a number into one, `1e999` and ` ` included, without checking what came out. */
function invalidNumbers(schema: TSchema, values: Record<string, unknown>): FieldErrors | null {
  const shapes = (schema as { properties?: Record<string, { type?: unknown }> }).properties ?? {};
  const odd = Object.entries(shapes).flatMap(([name, { type }]) => {
    const text = values[name];
    const isOdd = (type === "integer" || type === "number") && typeof text === "string" && !PLAIN_NUMBER.test(text);
    return isOdd ? [[name, `Input should be a valid ${type} [input: ${show(text)}]`] as const] : [];
  });
  return odd.length > 0 ? Object.fromEntries(odd) : null;
}

/** Whether a value has at most `most` parts. Takes time proportional to `most`, not to the value. */
function isSmall(value: unknown, most: number): boolean {
  const open: unknown[] = [value];
  let seen = 0;
  while (open.length > 0) {
    const item = open.pop();
    if (typeof item !== "object" || item === null) continue;
    if (Array.isArray(item) && (seen += item.length) > most) return false;
    for (const key in item) {
      if (!Array.isArray(item) && ++seen > most) return false;
      open.push((item as Record<string, unknown>)[key]);
    }
  }
  return true;
}

/** One text per field from ajv's errors. */
function fieldTexts(errors: readonly ErrorObject[], root: string): FieldErrors {
  // Not an object from the start: names come from the sender, and `__proto__` is one of them.
  const fields = new Map<string, string>();
  for (const error of resolveUnions(errors)) {
    const [path, text] = describe(error);
    const key = path.length > 0 ? formatPath(path) : root;
    if (!fields.has(key)) fields.set(key, text);
    if (fields.size === MAX_FIELDS) break;
  }
  return Object.fromEntries(fields);
}

/** The dotted path of a field; a key or a path of absurd length is cut. */
export const formatPath = (path: readonly string[]): string => {
  const keys = path.slice(0, MAX_PATH_KEYS).map((key) => truncate(key, PATH_KEY_CHARACTERS));
  return path.length > MAX_PATH_KEYS ? `${keys.join(".")}…` : keys.join(".");
};
const PATH_KEY_CHARACTERS = 256;

/**
 * A union reports the errors of all its branches. What helps a person is the branch that was meant: the one whose type
 * fits, and of several the one with the fewest errors. Inner unions are decided before outer ones.
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

function describe(error: ErrorObject): [path: string[], text: string] {
  const path = error.instancePath
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
  const input = `[input: ${show(error.data)}]`;
  const limit = (error.params as { limit?: number }).limit ?? 0;
  switch (error.keyword) {
    case "required":
      return [[...path, String(error.params["missingProperty"])], "Field required"];
    case "additionalProperties":
    case "unevaluatedProperties": {
      const name = String(error.params["additionalProperty"] ?? error.params["unevaluatedProperty"]);
      return [
        [...path, name],
        `Extra inputs are not permitted [input: ${show((error.data as Record<string, unknown>)[name])}]`,
      ];
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

/** The most of a value that is echoed: an error text is one line that a person reads. */
const SHOWN_CHARACTERS = 500;
/** The most parts of a list or an object that is echoed. */
const SHOWN_PARTS = 50;

/** The value as it was sent, on one line. */
function show(value: unknown): string {
  const text = typeof value === "string" ? value : value === undefined ? "" : preview(value);
  // Control characters would break the line; everything else is echoed as sent.
  return truncate(text, SHOWN_CHARACTERS).replace(
    /[\u0000-\u001f\u007f\u2028\u2029]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Large values are not serialised only to be cut. */
function preview(value: unknown): string {
  if (isSmall(value, SHOWN_PARTS))
    return (
      JSON.stringify(value, (_key, item: unknown) =>
        typeof item === "string" ? truncate(item, SHOWN_CHARACTERS) : item,
      ) ?? ""
    );
  return Array.isArray(value) ? `list of ${count(value.length, "item")}` : "object";
}

/** The text, or its beginning with an ellipsis; never half a character. */
function truncate(text: string, most: number): string {
  if (text.length <= most) return text;
  const last = text.charCodeAt(most - 1);
  return `${text.slice(0, last >= 0xd800 && last <= 0xdbff ? most - 1 : most)}…`;
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

/** The types of all branches, those of unions in a union included. */
function branchTypes(schema: unknown): string[] {
  const branches = Array.isArray(schema) ? (schema as { type?: string | string[]; anyOf?: unknown }[]) : [];
  return [...new Set(branches.flatMap(({ type, anyOf }) => (anyOf === undefined ? (type ?? []) : branchTypes(anyOf))))];
}

/**
 * What no schema says but storage demands: text that is Unicode without NUL, numbers that JSON can write again, nesting
 * that a serialiser survives. Recursion ends at MAX_JSON_DEPTH; memory is proportional to the depth, not to the value.
 * @returns the first problem as [dotted path, text], or null.
 */
export function findUnstorable(value: unknown): [path: string, text: string] | null {
  const path: string[] = [];
  const problemOf = (item: unknown): string | null => {
    if (typeof item === "string") return findTextProblem(item);
    if (typeof item === "number") return Number.isFinite(item) ? null : "Input should be a finite number";
    if (typeof item !== "object" || item === null) return null;
    if (path.length >= MAX_JSON_DEPTH) return `Input should not be nested deeper than ${MAX_JSON_DEPTH} levels`;
    return Array.isArray(item) ? problemIn(item) : problemInObject(item as Record<string, unknown>);
  };
  const problemAt = (key: string | number, item: unknown): string | null => {
    const isLeaf = typeof item !== "object" || item === null;
    if (!isLeaf) path.push(String(key));
    const problem = problemOf(item);
    // The path of a problem stays; millions of sound leaves never enter it.
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
    for (const key of Object.keys(object)) {
      const bad = findTextProblem(key);
      const problem = bad ? `A key of the object is not acceptable: ${bad}` : problemAt(key, object[key]);
      if (problem) return problem;
    }
    return null;
  };
  const problem = problemOf(value);
  return problem === null ? null : [formatPath(path), problem];
}

/** Why a text cannot be stored, or null. */
export function findTextProblem(text: string): string | null {
  if (text.includes("\u0000")) return "String should not contain a NUL character";
  if (!text.isWellFormed()) return "String should be valid Unicode without lone surrogates";
  return null;
}
