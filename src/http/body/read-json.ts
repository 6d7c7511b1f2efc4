/**
 * Reading the JSON of a request: bounded before it is parsed, then parsed and validated against the declared shape. The
 * same code runs on the main thread for small bodies and in a worker thread for large ones.
 */
import type { TSchema } from "typebox";
import { type AppError, invalid, tooLarge, tooManyValues } from "../../errors.ts";
import { isBeyondBounds, isHeld } from "../../json/numbers.ts";
import { MAX_JSON_DEPTH, scanWhole } from "../../json/scan.ts";
import type { ScanBounds, ScanProblem } from "../../json/scan.ts";
import { isWithinBytes } from "../../json/bytes.ts";
import { isPlainJson, parseExact, toMembers } from "../../json/text.ts";
import { buildJson, compactJson, findRepeatedKey, walkJson } from "../../json/walk.ts";
import type { JsonPath } from "../../json/walk.ts";
import { TOO_LONG_NUMBER, UNHELD_NUMBER, formatPath, inspectParsed, validate } from "../validate.ts";
import { IGNORES_UNKNOWN } from "../schema.ts";
import { dropUnknownKeys, findSlips } from "./unknown-keys.ts";

/** How large and how complex the JSON of an operation may be. */
export type JsonBounds = ScanBounds & {
  /**
   * Bytes; "form": the server's limit for the JSON part of a form; "json": its limit for plain bodies. A number is
   * bounded by the server's limit too.
   */
  bytes: number | "form" | "json";
  /** Top-level properties that a handler gets as JsonText if they are objects or lists in a large body. */
  asText: readonly string[];
  keeps: Kept;
};

/**
 * What is kept as it was sent, with all digits of its numbers and the order of its keys. Everywhere else, a number that
 * 64 bits do not hold is refused.
 */
export type Kept = {
  /** Top-level properties that nothing computes with: handlers get them as `parseExact` reads them. */
  exact: readonly string[];
  /** Top-level properties whose numbers count. Handlers get them rounded, and as they were sent in `asSent`. */
  counted: readonly string[];
  /** Whether undeclared properties are kept; if so, they are in `asSent`. */
  others?: true;
};
const NOTHING: Kept = { exact: [], counted: [] };

/** For what people and their tools configure: two hundred times what any of it needs. */
export const CONFIGURATION_BOUNDS: JsonBounds = {
  bytes: 1 << 20,
  values: 50_000,
  containers: 50_000,
  scalars: 50_000,
  keys: 50_000,
  names: 50_000,
  asText: [],
  keeps: NOTHING,
};
/**
 * For what pipelines report: artifacts, trails, results of tools. All but `asText` is parsed on the main thread, where
 * several bodies may be at a time: with every bound reached, one takes 25 MB there. Keys take hardly any memory beside
 * the values.
 */
export const RECORD_BOUNDS: JsonBounds = {
  bytes: "form",
  values: 500_000,
  containers: 200_000,
  scalars: 200_000,
  keys: 100_000,
  names: 100_000,
  asText: ["user_data", "attestation_data"],
  keeps: {
    exact: ["user_data", "attestation_data", "annotations", "external_urls", "repo_info"],
    counted: ["jira_results", "junit_results", "pull_requests", "snyk_results", "sonar_results"],
  },
};
/**
 * For results of tools that are many small objects: 8 MB of Snyk have 190,000 texts and numbers, 8 MB of Jira issues
 * with some fields each 250,000, and 700,000 values with their keys.
 */
export const RESULT_BOUNDS: JsonBounds = { ...RECORD_BOUNDS, values: 900_000, scalars: 350_000 };
/**
 * For records whose data stays text, or has a closed shape that the thread checks first: 4 MB of a bill of materials
 * have 115,000 objects and lists and 430,000 values with their keys, 8 MB of JUnit suites 110,000 and 1,400,000.
 */
export const DATA_BOUNDS: JsonBounds = {
  ...RECORD_BOUNDS,
  values: 1_500_000,
  containers: 300_000,
  scalars: 700_000,
};
/**
 * For reports of what runs in an environment. A pod takes up to thirty values, four or five of them objects and lists,
 * and one report has up to a hundred thousand pods: parsed, they take 60 MB. The most complex JSON within these bounds
 * takes 150 MB.
 */
export const REPORT_BOUNDS: JsonBounds = {
  bytes: "json",
  values: 3_000_000,
  containers: 600_000,
  scalars: 1_600_000,
  keys: 10_000,
  names: 150_000,
  asText: [],
  keeps: NOTHING,
};

/**
 * The most bytes that the bounds allow.
 * @param limit the server's limit for this kind of JSON
 * @param limits the server's limits, for bounds that refer to them
 */
export function maxBodyBytes({ bytes }: JsonBounds, limit: number, limits: { form: number }): number {
  return Math.min(limit, bytes === "json" ? limit : bytes === "form" ? limits.form : bytes);
}

/** What JSON must look like, and what to call it in errors. */
export type JsonShape = {
  /** Name of the value as a whole in field errors: `body`, or the part of a form. */
  root: string;
  /** Subject of the sentence of a 413. */
  what: string;
  bounds: ScanBounds;
  /** null: any JSON. */
  schema: TSchema | null;
  /** Whether `null` is accepted, whatever the schema says; the caller decides about it. */
  acceptsNull: boolean;
  /** "whole": everything, and `asSent` is the value as parseExact reads it. */
  keeps: Kept | "whole";
};

/** The part of a shape that a scan needs. */
export type ScannedShape = Pick<JsonShape, "root" | "what" | "bounds">;

/** The shape of a whole JSON body. */
export const createBodyShape = (
  schema: TSchema,
  { bytes: _bytes, asText: _asText, keeps, ...bounds }: JsonBounds,
): JsonShape => ({
  root: "body",
  what: "The request body",
  bounds,
  schema,
  acceptsNull: true,
  keeps,
});

/** The shape of the JSON part of a form. */
export const createPartShape = (
  part: string,
  schema: TSchema,
  { bytes: _bytes, asText: _asText, keeps, ...bounds }: JsonBounds,
): JsonShape => ({ root: part, what: `Part '${part}'`, bounds, schema, acceptsNull: false, keeps });

/**
/**
 * A valid value, with the names of the top-level properties that were sent (defaults fill in others), and those of the
 * keys that were ignored because the shape is open and does not know them. `asSent`: the value without any rounding;
 * the same object unless that makes a difference. Only what is kept may be taken from it.
 */
export type ReadJson = {
  value: unknown;
  asSent: unknown;
  sentFields: readonly string[];
  ignored: readonly string[];
};

/** Reads JSON that would take too much time or memory on the main thread. */
export type LargeJsonReader = {
  /**
   * As readJson, in a worker thread; the buffer may be transferred and is not usable afterwards.
   * @param asText the top-level properties ("whole": the value) that are returned as JsonText if they are objects or
   *   lists
   * @throws AppError as readJson does; 413 for JSON that takes too much time or memory, 503 if the threads are
   *   overloaded.
   */
  read(bytes: Buffer, shape: JsonShape, asText: readonly string[] | "whole"): Promise<ReadJson>;
};

/**
 * JSON above this size is read in a worker thread: a megabyte crafted to be slow would block the main thread for a
 * tenth of a second.
 */
export const LARGE_JSON_BYTES = 262_144;

/**
 * Checks the bounds, parses, and validates.
 * @throws AppError 400 with one text per field, 413 for too many values.
 */
export function readJson(bytes: Buffer | string, shape: JsonShape): ReadJson {
  const { keys } = scanJson(typeof bytes === "string" ? Buffer.from(bytes) : bytes, shape);
  const { text, value } = parseJson(bytes, { root: shape.root, keys });
  const sentFields = typeof value === "object" && value !== null ? Object.keys(value) : [];
  if (!isPlainJson(text)) return { ...readExactly(text, shape), sentFields };
  const ignored = requireValid(value, shape);
  return { value, asSent: value, sentFields, ignored };
}

/** Validates a value without the keys that its shape ignores. @returns their names. @throws AppError 400, 413 */
function requireValid(value: unknown, { schema, acceptsNull, root }: JsonShape): string[] {
  if (schema === null || (value === null && acceptsNull)) return [];
  const ignored = dropUnknownKeys(schema, value, root);
  const problems = validate(schema, value, { mode: "plain", root });
  // A key that was ignored may be why another one is missing.
  if (problems) throw invalid({ ...problems, ...findSlips(schema, ignored) });
  return ignored;
}

/** Reads valid JSON text that a value of JavaScript does not hold as it is. @throws AppError as readJson does */
function readExactly(text: string, shape: JsonShape): Omit<ReadJson, "sentFields"> {
  requireHeld(text, shape);
  // No shape of a number accepts a symbol, so nothing that counts was rounded.
  const value = buildJson(text, {
    number: (written) => (isHeld(written) ? Number(written) : Symbol(written)),
    object: Object.fromEntries,
  });
  const ignored = requireValid(value, shape);
  const exact = parseExact(compactJson(text));
  if (shape.keeps === "whole" || !isObject(value)) return { value, asSent: exact, ignored };
  const asSent = toMembers(exact);
  // Validation measured rounded numbers, which are shorter.
  for (const [name, part] of Object.entries(propertiesOf(shape))) {
    const maxBytes = maxBytesOf(part);
    if (!isWithinBytes(asSent[name], maxBytes)) throw tooLarge(`Field '${name}'`, maxBytes);
  }
  for (const name of shape.keeps.exact) if (Object.hasOwn(asSent, name)) value[name] = asSent[name];
  return { value, asSent, ignored };
}

type Property = { "x-max-bytes"?: number; anyOf?: readonly Property[] };
const propertiesOf = ({ schema }: Pick<JsonShape, "schema">): Record<string, Property> =>
  (schema as { properties?: Record<string, Property> } | null)?.properties ?? {};
/** The bound on the bytes of a property. */
const maxBytesOf = ({ "x-max-bytes": own, anyOf = [] }: Property): number =>
  anyOf.map(maxBytesOf).reduce((least, bytes) => Math.min(least, bytes), own ?? Infinity);

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** @throws AppError 400 for a number outside what is kept that 64 bits do not hold, and for one that is too long */
function requireHeld(text: string, shape: JsonShape): void {
  const { root, keeps } = shape;
  const declared = propertiesOf(shape);
  const ignoresOthers = (shape.schema as { [IGNORES_UNKNOWN]?: boolean } | null)?.[IGNORES_UNKNOWN] === true;
  const isKept = (name: string | number | undefined): boolean =>
    keeps === "whole" ||
    (typeof name === "string" &&
      (keeps.exact.includes(name) ||
        keeps.counted.includes(name) ||
        ((keeps.others === true || ignoresOthers) && !Object.hasOwn(declared, name))));
  const refuse = (path: JsonPath, problem: string, written: string): never => {
    const input = written.length > MAX_SHOWN_DIGITS ? `${written.slice(0, MAX_SHOWN_DIGITS)}…` : written;
    throw invalid({ [formatPath(path.map(String)) || root]: `${problem} [input: ${input}]` });
  };
  walkJson(text, {
    number(written, path) {
      if (isBeyondBounds(written)) refuse(path, TOO_LONG_NUMBER, written);
      if (!isKept(path[0]) && !isHeld(written)) refuse(path, UNHELD_NUMBER, written);
    },
  });
}
const MAX_SHOWN_DIGITS = 100;

/**
 * @returns the number of keys, for `parseJson`
 * @throws AppError 400 for too deep nesting, 413 for too many values.
 */
function scanJson(bytes: Buffer, shape: ScannedShape): { keys: number } {
  const scan = scanWhole(bytes, shape.bounds);
  if (scan.problem) throw scanError(scan.problem, bytes, shape);
  return scan;
}

/**
 * Turns the problem of a scan into an error of the contract.
 * @param bytes the text from its start, at least up to the problem
 */
export function scanError(problem: ScanProblem, bytes: Buffer, { root, what, bounds }: ScannedShape): AppError {
  if (problem.kind === "values") return tooManyValues(what, bounds.values, "values");
  if (problem.kind === "containers") return tooManyValues(what, bounds.containers, "objects and lists");
  if (problem.kind === "scalars") return tooManyValues(what, bounds.scalars, "texts, numbers and words");
  if (problem.kind === "keys") return tooManyValues(`${what} has an object that`, bounds.keys, "keys");
  if (problem.kind === "names") return tooManyValues(what, bounds.names, "different keys");
  const path = problem.path.map((step) => (typeof step === "number" ? String(step) : keyAt(bytes, step.key)));
  // The empty key adds a dot: the problem lies below the named field.
  return invalid({
    [formatPath([...path, ""]) || root]: `Input should not be nested deeper than ${MAX_JSON_DEPTH} levels`,
  });
}

/** The key whose opening quote is at that byte. */
function keyAt(bytes: Buffer, start: number): string {
  let end = start + 1;
  while (end < bytes.length && bytes[end] !== 0x22) end += bytes[end] === 0x5c ? 2 : 1;
  try {
    return String(JSON.parse(bytes.toString("utf8", start, end + 1)));
  } catch {
    return "?";
  }
}

const UTF_8 = new TextDecoder("utf-8", { fatal: true });

/** Start of the text about input that is not JSON at all. */
export const NOT_JSON = "Input should be valid JSON";

/** Text about a key that its object has already; readers of YAML say the same. */
const REPEATED_KEY = "Key is given more than once";

/**
 * Parses JSON in UTF-8 and checks that it can be stored; the caller has bounded its size.
 * @param options.root field that errors about the value as a whole name
 * @param options.keys how many keys `scanJson` counted
 * @throws AppError 400, also for a key that is given twice: nothing says which of its values counts
 */
function parseJson(
  bytes: Buffer | string,
  { root, keys }: { root: string; keys: number },
): { text: string; value: unknown } {
  let text: string;
  let value: unknown;
  try {
    text = typeof bytes === "string" ? bytes : UTF_8.decode(bytes);
    value = JSON.parse(text);
  } catch (error) {
    const reason = error instanceof SyntaxError ? describeSyntaxError(error) : "the text is not UTF-8";
    throw invalid({ [root]: `${NOT_JSON}: ${reason}` });
  }
  const parsed = inspectParsed(value);
  if (parsed.problem) throw invalid({ [parsed.problem[0] || root]: parsed.problem[1] });
  // JSON.parse keeps the last of two equal keys, so the value has fewer keys than the text.
  if (parsed.keys !== keys)
    throw invalid({ [formatPath((findRepeatedKey(text) ?? []).map(String)) || root]: REPEATED_KEY });
  return { text, value };
}

/** The parser's reason, without the excerpt of the input that V8 includes in some messages. */
function describeSyntaxError(error: SyntaxError): string {
  const position = /at position \d+(?: \(line \d+ column \d+\))?/.exec(error.message);
  return position ? `unexpected character ${position[0]}` : "the text ends early or is malformed";
}
