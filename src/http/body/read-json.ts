/**
 * Reading JSON of a request: bounded before it is parsed, parsed, and checked against the shape of the operation. The
 * same code runs on the main thread for small bodies and in a thread for large ones.
 */
import type { TSchema } from "typebox";
import { type AppError, invalid, tooManyValues } from "../../errors.ts";
import { JsonScan, MAX_JSON_DEPTH } from "../../json/scan.ts";
import type { ScanBounds, ScanProblem } from "../../json/scan.ts";
import { findUnstorable, formatPath, validate } from "../validate.ts";

/** How much JSON an operation takes. */
export type JsonBounds = ScanBounds & {
  /**
   * Bytes; "form": as many as the JSON part of a form may have; "json": as many as any plain body. The limits of the
   * server hold too.
   */
  bytes: number | "form" | "json";
  /** Properties that a handler may get as JsonText: of large bodies, when they are objects or lists. */
  asText: readonly string[];
};

/** What is set up by people and their tools. Two hundred times what any of it needs. */
export const CONFIGURATION_BOUNDS: JsonBounds = {
  bytes: 1 << 20,
  values: 50_000,
  containers: 50_000,
  scalars: 50_000,
  keys: 50_000,
  names: 50_000,
  asText: [],
};
/** What pipelines report: attestations, artifacts, trails. */
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
 * What runs in an environment. A pod takes up to thirty values, four or five of them objects and lists, and a hundred
 * thousand pods are one report. Read, they take 60 MB; the most that these bounds let through takes 150.
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

/** The most bytes of JSON that these bounds let through, within a limit of the server. */
export function maxBodyBytes({ bytes }: JsonBounds, limit: number, limits: { form: number }): number {
  return Math.min(limit, bytes === "json" ? limit : bytes === "form" ? limits.form : bytes);
}

/** JSON and what it must be. */
export type JsonShape = {
  /** Names the value as a whole in field errors: `body`, or the part of a form. */
  root: string;
  /** Begins the sentence of a 413. */
  what: string;
  bounds: ScanBounds;
  /** null: anything. */
  schema: TSchema | null;
  /** Whether `null` is left to the caller, whatever the schema says. */
  acceptsNull: boolean;
};

/** What a scan needs of it. */
export type ScannedShape = Pick<JsonShape, "root" | "what" | "bounds">;

/** A whole JSON body. */
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

/** The JSON part of a form. */
export const createPartShape = (
  part: string,
  schema: TSchema,
  { bytes: _bytes, asText: _asText, ...bounds }: JsonBounds,
): JsonShape => ({ root: part, what: `Part '${part}'`, bounds, schema, acceptsNull: false });

/** A value of the shape, with the names of the properties that were really there (the shape may fill in others). */
export type ReadJson = { value: unknown; sentFields: readonly string[] };

/** Reads JSON that would take too long, or too much memory, on the main thread. */
export type LargeJsonReader = {
  /**
   * As readJson, in a thread; the buffer may be given away. What `asText` names, the value as a whole or some of its
   * properties, comes back as JsonText where it is an object or a list.
   * @throws AppError as readJson does; 413 for what takes too much time or memory, 503 when the threads have too much
   * to do.
   */
  read(bytes: Buffer, shape: JsonShape, asText: readonly string[] | "whole"): Promise<ReadJson>;
};

/**
 * Bytes of JSON above which it is read in a thread. A megabyte made for it takes a tenth of a second, so that is too
 * much.
 */
export const LARGE_JSON_BYTES = 262_144;

/**
 * Checks the bounds, parses, checks the shape.
 * @param scanned whether the bytes were scanned while they arrived.
 * @throws AppError 400 with one text per field, 413 for too many values.
 */
export function readJson(bytes: Buffer | string, shape: JsonShape, scanned = false): ReadJson {
  if (!scanned) scanJson(typeof bytes === "string" ? Buffer.from(bytes) : bytes, shape);
  const value = parseJson(bytes, shape.root);
  const sent = typeof value === "object" && value !== null ? Object.keys(value) : [];
  const problems =
    (value === null && shape.acceptsNull) || shape.schema === null
      ? null
      : validate(shape.schema, value, { mode: "plain", root: shape.root });
  if (problems) throw invalid(problems);
  return { value, sentFields: sent };
}

/** @throws AppError 413 for too many values, 400 for too deep nesting. */
export function scanJson(bytes: Buffer, shape: ScannedShape): void {
  const problem = new JsonScan(shape.bounds).add(bytes);
  if (problem) throw scanError(problem, bytes, shape);
}

/** What a scan found, as an error of the contract. @param bytes from the beginning of the text. */
export function scanError(problem: ScanProblem, bytes: Buffer, { root, what, bounds }: ScannedShape): AppError {
  if (problem.kind === "values") return tooManyValues(what, bounds.values, "values");
  if (problem.kind === "containers") return tooManyValues(what, bounds.containers, "objects and lists");
  if (problem.kind === "scalars") return tooManyValues(what, bounds.scalars, "texts, numbers and words");
  if (problem.kind === "keys") return tooManyValues(`${what} has an object that`, bounds.keys, "keys");
  if (problem.kind === "names") return tooManyValues(what, bounds.names, "different keys");
  const path = problem.path.map((place) => (typeof place === "number" ? String(place) : keyAt(bytes, place.key)));
  // The place goes on below what is named.
  return invalid({
    [formatPath([...path, ""]) || root]: `Input should not be nested deeper than ${MAX_JSON_DEPTH} levels`,
  });
}

/** The key whose quote is at that byte. */
function keyAt(bytes: Buffer, start: number): string {
  let end = start + 1;
  while (end < bytes.length && bytes[end] !== 0x22) end += bytes[end] === 0x5c ? 2 : 1;
  try {
    return String(JSON.parse(bytes.toString("utf8", start, end + 1)));
  } catch {
    return "?";
  }
}

/** Begins the text about what is not JSON at all. */
export const NOT_JSON = "Input should be valid JSON";

/**
 * JSON in UTF-8 that can be stored. A field named `what` is blamed for what is wrong. The caller has bounded its size.
 * @throws AppError 400.
 */
export function parseJson(bytes: Buffer | string, what: string): unknown {
  let value: unknown;
  try {
    const text = typeof bytes === "string" ? bytes : new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    value = JSON.parse(text);
  } catch (error) {
    const reason = error instanceof SyntaxError ? jsonReason(error) : "the text is not UTF-8";
    throw invalid({ [what]: `${NOT_JSON}: ${reason}` });
  }
  const problem = findUnstorable(value);
  if (problem) throw invalid({ [problem[0] || what]: problem[1] });
  return value;
}

/** The parser's reason without the excerpt of the input that V8 puts into some messages. */
function jsonReason(error: SyntaxError): string {
  const position = /at position \d+(?: \(line \d+ column \d+\))?/.exec(error.message);
  return position ? `unexpected character ${position[0]}` : "the text ends early or is malformed";
}
