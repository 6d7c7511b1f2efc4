/**
 * Reading the JSON of a request: bounded before it is parsed, then parsed and validated against the declared shape. The
 * same code runs on the main thread for small bodies and in a worker thread for large ones.
 */
import type { TSchema } from "typebox";
import { type AppError, invalid, tooManyValues } from "../../errors.ts";
import { findRepeatedKey } from "../../json/walk.ts";
import { MAX_JSON_DEPTH, scanWhole } from "../../json/scan.ts";
import type { ScanBounds, ScanProblem } from "../../json/scan.ts";
import { formatPath, inspectParsed, validate } from "../validate.ts";

/** How large and how complex the JSON of an operation may be. */
export type JsonBounds = ScanBounds & {
  /**
   * Bytes; "form": the server's limit for the JSON part of a form; "json": its limit for plain bodies. A number is
   * bounded by the server's limit too.
   */
  bytes: number | "form" | "json";
  /** Top-level properties that a handler gets as JsonText if they are objects or lists in a large body. */
  asText: readonly string[];
};

/** For what people and their tools configure: two hundred times what any of it needs. */
export const CONFIGURATION_BOUNDS: JsonBounds = {
  bytes: 1 << 20,
  values: 50_000,
  containers: 50_000,
  scalars: 50_000,
  keys: 50_000,
  names: 50_000,
  asText: [],
};
/** For what pipelines report: attestations, artifacts, trails. */
export const RECORD_BOUNDS: JsonBounds = {
  bytes: "form",
  values: 200_000,
  containers: 200_000,
  scalars: 200_000,
  keys: 100_000,
  names: 100_000,
  asText: ["user_data", "attestation_data"],
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
};

/** The part of a shape that a scan needs. */
export type ScannedShape = Pick<JsonShape, "root" | "what" | "bounds">;

/** The shape of a whole JSON body. */
export const createBodyShape = (
  schema: TSchema,
  { bytes: _bytes, asText: _asText, ...bounds }: JsonBounds,
): JsonShape => ({
  root: "body",
  what: "The request body",
  bounds,
  schema,
  acceptsNull: true,
});

/** The shape of the JSON part of a form. */
export const createPartShape = (
  part: string,
  schema: TSchema,
  { bytes: _bytes, asText: _asText, ...bounds }: JsonBounds,
): JsonShape => ({ root: part, what: `Part '${part}'`, bounds, schema, acceptsNull: false });

/** A valid value, with the names of the top-level properties that were sent (defaults fill in others). */
export type ReadJson = { value: unknown; sentFields: readonly string[] };

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
  const value = parseJson(bytes, { root: shape.root, keys });
  const sent = typeof value === "object" && value !== null ? Object.keys(value) : [];
  const problems =
    (value === null && shape.acceptsNull) || shape.schema === null
      ? null
      : validate(shape.schema, value, { mode: "plain", root: shape.root });
  if (problems) throw invalid(problems);
  return { value, sentFields: sent };
}

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
function parseJson(bytes: Buffer | string, { root, keys }: { root: string; keys: number }): unknown {
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
  return value;
}

/** The parser's reason, without the excerpt of the input that V8 includes in some messages. */
function describeSyntaxError(error: SyntaxError): string {
  const position = /at position \d+(?: \(line \d+ column \d+\))?/.exec(error.message);
  return position ? `unexpected character ${position[0]}` : "the text ends early or is malformed";
}
