/** Parameters of path and query: from text to what their shapes say. */
import { parse as parseQuery } from "node:querystring";
import type { TObject, TSchema } from "typebox";
import { badRequest, invalid } from "../errors.ts";
import { textProblem, validate } from "./validate.ts";

/** Path or query values, as text at first, checked and turned into what the shape says. */
export function checked(schema: TSchema, values: Record<string, unknown>, where: string): Record<string, unknown> {
  for (const [name, value] of Object.entries(values)) {
    for (const text of Array.isArray(value) ? value : [value]) {
      const problem = typeof text === "string" ? textProblem(text) : null;
      if (problem) throw invalid({ [name]: problem });
    }
  }
  const problems = validate(schema, values, "coercing", where);
  if (problems) throw invalid(problems);
  return values;
}

/**
 * The declared query parameters. Repeatable ones come as a list, whether the key was repeated or the values were joined by
 * commas (wire-contract 1.1); of a single one that is repeated, the last value counts. Others are ignored. A list holds each
 * value once: it always names a set, and an address has room for a hundred thousand repetitions, each of them work.
 */
export function queryOf(schema: TObject, querystring: string): Record<string, unknown> {
  if (querystring === "" || Object.keys(schema.properties).length === 0) return {};
  // The parser ignores what comes after its last key: a list would be filtered by some of what was asked for.
  if (querystring.split("&", MAX_QUERY_KEYS + 1).length > MAX_QUERY_KEYS) throw badRequest(`The query has more than ${MAX_QUERY_KEYS} parameters`);
  const raw = parseQuery(querystring, "&", "=", { maxKeys: MAX_QUERY_KEYS });
  const values: Record<string, unknown> = {};
  for (const [name, shape] of Object.entries(schema.properties)) {
    const given = raw[name];
    if (given === undefined) continue;
    const all = Array.isArray(given) ? given : [given];
    const { type, "x-repeated": repeated } = shape as { type?: string; "x-repeated"?: boolean };
    // Python writes its booleans as True and False.
    const single = type === "boolean" ? all.at(-1)?.toLowerCase() : all.at(-1);
    values[name] = repeated ? [...new Set(all.flatMap((text) => text.split(",")))] : single;
  }
  return values;
}

/** list_attestations_for_criteria takes one key per commit; a thousand commits are a large pull request. */
const MAX_QUERY_KEYS = 5_000;
