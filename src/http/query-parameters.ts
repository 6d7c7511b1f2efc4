/** Path and query parameters: from text to the values of their declared shapes. */
import { parse } from "node:querystring";
import type { TObject, TSchema } from "typebox";
import { badRequest, invalid } from "../errors.ts";
import { findTextProblem, validate } from "./validate.ts";

/**
 * Validates path or query values and converts them from text, in place.
 * @param where names them in a message about the value as a whole: `path` or `query`
 * @throws AppError 400 with one text per field.
 */
export function checkParameters(
  schema: TSchema,
  values: Record<string, unknown>,
  where: string,
): Record<string, unknown> {
  for (const [name, value] of Object.entries(values)) {
    for (const text of Array.isArray(value) ? value : [value]) {
      const problem = typeof text === "string" ? findTextProblem(text) : null;
      if (problem) throw invalid({ [name]: problem });
    }
  }
  const problems = validate(schema, values, { mode: "coercing", root: where });
  if (problems) throw invalid(problems);
  return values;
}

/**
 * Picks the declared parameters from a query; others are ignored. A repeatable parameter becomes a list, whether its
 * key was repeated or its values were joined by commas (wire-contract 1.1); of any other that is repeated, the last
 * value counts. A list contains each value once: it always means a set, and a URL has room for a hundred thousand
 * repetitions, each of which would cost work.
 * @throws AppError 400 for more than MAX_QUERY_KEYS parameters.
 */
export function parseQueryParameters(schema: TObject, querystring: string): Record<string, unknown> {
  if (querystring === "" || Object.keys(schema.properties).length === 0) return {};
  // The parser silently drops keys beyond its maximum: a list would be filtered by only some of its criteria.
  if (querystring.split("&", MAX_QUERY_KEYS + 1).length > MAX_QUERY_KEYS)
    throw badRequest(`The query has more than ${MAX_QUERY_KEYS} parameters`);
  const raw = parse(querystring, "&", "=", { maxKeys: MAX_QUERY_KEYS });
  const values: Record<string, unknown> = {};
  for (const [name, shape] of Object.entries(schema.properties)) {
    const value = raw[name];
    if (value === undefined) continue;
    const all = Array.isArray(value) ? value : [value];
    const { type, "x-repeated": repeated } = shape as { type?: string; "x-repeated"?: boolean };
    const last = all.at(-1) ?? "";
    // Python writes its booleans as True and False.
    const isNumber = type === "integer" || type === "number";
    const single = type === "boolean" ? last.toLowerCase() : isNumber ? parseExponentForm(last, type) : last;
    values[name] = repeated ? [...new Set(all.flatMap((text) => text.split(",")))] : single;
  }
  return values;
}

/**
 * Groups: sign and integer digits, fraction, sign of the exponent, exponent. An unescaped `+` in a query arrives as a
 * space (wire-contract 1.1).
 */
const EXPONENT_FORM = /^([+-]?\d{1,20})(?:\.(\d{1,20}))?[eE]([+ -]?)(\d{1,3})$/;
/** Exclusive bound: plain numbers have at most 20 digits before the point (validate.ts), and so has this form. */
const EXPONENT_FORM_LIMIT = 1e20;

/**
 * Converts a number in exponent form: typed clients print epoch seconds as `1.795339938e+09`. Any other text is
 * returned unchanged, for validation to accept or refuse; so is a fraction where an integer is expected.
 */
function parseExponentForm(text: string, type: "integer" | "number"): string | number {
  const [, whole, fraction = "", sign = "", digits = ""] = EXPONENT_FORM.exec(text) ?? [];
  if (whole === undefined) return text;
  const exponent = Number(`${sign.trim()}${digits}`);
  const value = Number(`${whole}.${fraction || "0"}e${exponent}`);
  if (Math.abs(value) >= EXPONENT_FORM_LIMIT) return text;
  return type === "integer" && !isIntegral(whole, fraction, exponent) ? text : value;
}

/**
 * Looks at the digits: as a float, a tiny number, or a large one with a small fraction, would appear to be an integer.
 */
function isIntegral(whole: string, fraction: string, exponent: number): boolean {
  const digits = `${whole}${fraction}`.replace(/^[+-]?0*/, "");
  const trailingZeros = digits.length - digits.replace(/0+$/, "").length;
  return digits === "" || exponent - fraction.length + trailingZeros >= 0;
}

/** list_attestations_for_criteria takes one key per commit, and a large pull request has a thousand commits. */
const MAX_QUERY_KEYS = 5_000;
