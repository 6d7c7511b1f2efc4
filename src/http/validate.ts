/**
 * Validation of params, query and body. ajv finds all problems at once; this file turns them into the field texts of
 * messages.md section 2, one line per field. Schemas compile on first use, because compiling all of them costs the start
 * of the process more than all its requests; a test compiles every one.
 */
import { Ajv2020 } from "ajv/dist/2020.js";
import type { ErrorObject, ValidateFunction } from "ajv/dist/2020.js";
import type { TSchema } from "typebox";
import type { FieldErrors } from "../errors.ts";

const options = { allErrors: true, verbose: true, strict: false, useDefaults: true, ownProperties: true } as const;
const plain = new Ajv2020({ ...options });
/** Params and query arrive as text: "15" becomes 15 where the shape says integer. An empty text never becomes a number. */
const coercing = new Ajv2020({ ...options, coerceTypes: true });
/** Responses: nothing is filled in, because a default would hide a field that the handler forgot. */
const strictly = new Ajv2020({ ...options, useDefaults: false });

type Flavour = "plain" | "coercing" | "response";
const engines: Record<Flavour, Ajv2020> = { plain, coercing, response: strictly };
const compiled: Record<Flavour, WeakMap<TSchema, ValidateFunction>> = {
  plain: new WeakMap(),
  coercing: new WeakMap(),
  response: new WeakMap(),
};

/** The compiled check of a schema. */
export function compile(schema: TSchema, flavour: Flavour): ValidateFunction {
  let check = compiled[flavour].get(schema);
  if (check === undefined) {
    check = engines[flavour].compile(schema);
    compiled[flavour].set(schema, check);
  }
  return check;
}

/**
 * Checks `value`, filling in defaults (and turning text into numbers and booleans with `coercing`).
 * @returns null when it fits, else one text per field; `root` names the value itself (`body`, `data_json`, ...).
 */
export function validate(schema: TSchema, value: unknown, flavour: Flavour, root: string): FieldErrors | null {
  const check = compile(schema, flavour);
  if (check(value)) return null;
  return fieldTexts(check.errors ?? [], root);
}

/** One text per field from ajv's errors. */
function fieldTexts(errors: readonly ErrorObject[], root: string): FieldErrors {
  const fields: Record<string, string> = {};
  for (const error of resolveUnions(errors)) {
    const [path, text] = describe(error);
    const key = path.join(".") || root;
    if (fields[key] === undefined) fields[key] = text;
  }
  return fields;
}

/**
 * A union reports the errors of all its branches. What helps a person is the branch that was meant: the one whose type
 * fits, and of several the one with the fewest errors. Inner unions are decided before outer ones.
 */
function resolveUnions(errors: readonly ErrorObject[]): ErrorObject[] {
  let left = [...errors];
  const unions = errors.filter((error) => error.keyword === "anyOf").sort((a, b) => b.schemaPath.length - a.schemaPath.length);
  for (const union of unions) {
    const prefix = `${union.schemaPath}/`;
    const mine = (error: ErrorObject) =>
      error !== union && error.schemaPath.startsWith(prefix) && error.instancePath.startsWith(union.instancePath);
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
      return [[...path, name], `Extra inputs are not permitted [input: ${show((error.data as Record<string, unknown>)[name])}]`];
    }
    case "pattern":
      return [path, `String should match pattern '${String(error.params["pattern"])}' ${input}`];
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

/** The value as it was sent, on one line. */
function show(value: unknown): string {
  const text = typeof value === "string" ? value : value === undefined ? "" : preview(value);
  // Control characters would break the line; everything else is echoed as sent.
  const line = text.replace(/[\u0000-\u001f\u007f\u2028\u2029]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return line.length > SHOWN_CHARACTERS ? `${line.slice(0, SHOWN_CHARACTERS)}…` : line;
}

/** Large values are not serialised only to be cut. */
function preview(value: unknown): string {
  if (Array.isArray(value) && value.length > 50) return `list of ${value.length} items`;
  if (typeof value === "object" && value !== null && Object.keys(value).length > 50) return "object";
  return JSON.stringify(value) ?? "";
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

function branchTypes(schema: unknown): string[] {
  const branches = Array.isArray(schema) ? (schema as { type?: string | string[] }[]) : [];
  return [...new Set(branches.flatMap((branch) => branch.type ?? []))];
}

/** How deep JSON may nest: far beyond any real report, far below what a recursive serialiser survives. */
export const MAX_JSON_DEPTH = 128;

/**
 * What no schema says but storage demands: text that is Unicode without NUL, numbers that JSON can write again, nesting that
 * a serialiser survives. Walks with its own stack, so that hostile nesting cannot exhaust ours.
 * @returns the first problem as [dotted path, text], or null.
 */
export function findUnstorable(value: unknown): [path: string, text: string] | null {
  type Step = { value: unknown; key: string; parent: Step | null; depth: number };
  const pathOf = (step: Step): string => {
    const keys: string[] = [];
    for (let at: Step | null = step; at?.parent; at = at.parent) keys.unshift(at.key);
    return keys.length > 12 ? `${keys.slice(0, 12).join(".")}…` : keys.join(".");
  };
  const stack: Step[] = [{ value, key: "", parent: null, depth: 0 }];
  for (let step = stack.pop(); step; step = stack.pop()) {
    const item = step.value;
    if (typeof item === "string") {
      const problem = textProblem(item);
      if (problem) return [pathOf(step), problem];
    } else if (typeof item === "number") {
      if (!Number.isFinite(item)) return [pathOf(step), "Input should be a finite number"];
    } else if (typeof item === "object" && item !== null) {
      if (step.depth >= MAX_JSON_DEPTH) return [pathOf(step), `Input should not be nested deeper than ${MAX_JSON_DEPTH} levels`];
      const isArray = Array.isArray(item);
      for (const key of Object.keys(item)) {
        const problem = isArray ? null : textProblem(key);
        if (problem) return [pathOf(step), `A key of the object is not acceptable: ${problem}`];
        const child = (item as Record<string, unknown>)[key];
        if (typeof child === "string" || typeof child === "number" || (typeof child === "object" && child !== null))
          stack.push({ value: child, key, parent: step, depth: step.depth + 1 });
      }
    }
  }
  return null;
}

/** Why a text cannot be stored, or null. */
export function textProblem(text: string): string | null {
  if (text.includes("\u0000")) return "String should not contain a NUL character";
  if (!text.isWellFormed()) return "String should be valid Unicode without lone surrogates";
  return null;
}
