/** Parameters of path and query: from text to what their shapes say. */
import { parse as parseQuery } from "node:querystring";
import type { TObject, TSchema } from "typebox";
import { badRequest, invalid } from "../errors.ts";
import { findTextProblem, validate } from "./validate.ts";

/** Path or query values, as text at first, checked and turned into what the shape says. */
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
 * The declared query parameters. Repeatable ones come as a list, whether the key was repeated or the values were joined
 * by commas (wire-contract 1.1); of a single one that is repeated, the last value counts. Others are ignored. A list
 * holds each value once: it always names a set, and an address has room for a hundred thousand repetitions, each of
 * them work.
 */
export function parseQueryParameters(schema: TObject, querystring: string): Record<string, unknown> {
  if (querystring === "" || Object.keys(schema.properties).length === 0) return {};
  // The parser ignores what comes after its last key: a list would be filtered by some of what was asked for.
  if (querystring.split("&", MAX_QUERY_KEYS + 1).length > MAX_QUERY_KEYS)
    throw badRequest(`The query has more than ${MAX_QUERY_KEYS} parameters`);
  const raw = parseQuery(querystring, "&", "=", { maxKeys: MAX_QUERY_KEYS });
  const values: Record<string, unknown> = {};
  for (const [name, shape] of Object.entries(schema.properties)) {
    const given = raw[name];
    if (given === undefined) continue;
    const all = Array.isArray(given) ? given : [given];
    const { type, "x-repeated": repeated } = shape as { type?: string; "x-repeated"?: boolean };
    const last = all.at(-1) ?? "";
    // Python writes its booleans as True and False.
    const isNumber = type === "integer" || type === "number";
    const single = type === "boolean" ? last.toLowerCase() : isNumber ? numberFromExponentForm(last, type) : last;
    values[name] = repeated ? [...new Set(all.flatMap((text) => text.split(",")))] : single;
  }
  return values;
}

/**
 * Groups: sign and whole digits, fraction, sign of the exponent, exponent. An unescaped `+` of a query arrives as a
 * space (wire-contract 1.1).
 */
const EXPONENT_FORM = /^([+-]?\d{1,20})(?:\.(\d{1,20}))?[eE]([+ -]?)(\d{1,3})$/;
/** Plain numbers have at most 20 digits before the point (validate.ts); the exponent form reaches no further. */
const EXPONENT_FORM_LIMIT = 1e20;

/**
 * The number that a text in exponent form stands for: typed clients print epoch seconds as `1.795339938e+09`. Any other
 * text comes back unchanged, for the shape to judge; so does a fraction where an integer is expected.
 */
function numberFromExponentForm(text: string, type: "integer" | "number"): string | number {
  const [, whole, fraction = "", sign = "", digits = ""] = EXPONENT_FORM.exec(text) ?? [];
  if (whole === undefined) return text;
  const exponent = Number(`${sign.trim()}${digits}`);
  const value = Number(`${whole}.${fraction || "0"}e${exponent}`);
  if (Math.abs(value) >= EXPONENT_FORM_LIMIT) return text;
  return type === "integer" && !isIntegral(whole, fraction, exponent) ? text : value;
}

/**
 * Decided on the digits: as a float a small fraction beside a large number, or a tiny number, would look like an
 * integer.
 */
function isIntegral(whole: string, fraction: string, exponent: number): boolean {
  const digits = `${whole}${fraction}`.replace(/^[+-]?0*/, "");
  const trailingZeros = digits.length - digits.replace(/0+$/, "").length;
  return digits === "" || exponent - fraction.length + trailingZeros >= 0;
}

/** list_attestations_for_criteria takes one key per commit; a thousand commits are a large pull request. */
const MAX_QUERY_KEYS = 5_000;
