/** The parameters of a Rego evaluation: their limits (newer-clients 6.6). */

export const MAX_PARAMS_BYTES = 262_144;
/** Deep nesting would exhaust the stack of the engine. */
export const MAX_PARAMS_DEPTH = 100;

/**
 * Why parameters are refused; null for those within the limits.
 * @param text valid JSON without blanks between its parts, strings in their shortest form
 */
export function findParamsProblem(text: string): string | null {
  if (Buffer.byteLength(text) > MAX_PARAMS_BYTES)
    return `The parameters are over the limit of ${MAX_PARAMS_BYTES} bytes`;
  if (depthOf(text) > MAX_PARAMS_DEPTH) return `The parameters nest deeper than ${MAX_PARAMS_DEPTH} levels`;
  return null;
}

/** Levels of objects and lists of a JSON text. */
function depthOf(text: string): number {
  let [depth, deepest] = [0, 0];
  // Texts are skipped as a whole: brackets in them do not count.
  for (const [token] of text.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{}]/g)) {
    if (token === "{" || token === "[") deepest = Math.max(deepest, ++depth);
    else if (token === "}" || token === "]") depth -= 1;
  }
  return deepest;
}
