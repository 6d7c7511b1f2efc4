/**
 * The order of overlapping path patterns. At the first segment, from the left, in which two patterns differ in kind, a
 * literal wins over a parameter, and a parameter over a rest-of-path parameter. Operations are registered in that
 * order, so the router's first match is the right one.
 */

const segments = (path: string): string[] => path.split("/").slice(1);

/** 0 for a literal, 1 for a parameter, 2 for a rest-of-path parameter: lower is more specific. */
function rankOf(segment: string | undefined): number {
  if (segment === undefined) return 0;
  if (segment.startsWith("{")) return segment.endsWith("*}") ? 2 : 1;
  return 0;
}

/** Sort order of two OpenAPI paths: negative if `a` must be tried first. Ties are broken by text, for stable lists. */
export function compareRoutes(a: string, b: string): number {
  const left = segments(a);
  const right = segments(b);
  for (let i = 0; i < Math.max(left.length, right.length); i++) {
    const difference = rankOf(left[i]) - rankOf(right[i]);
    if (difference !== 0) return difference;
  }
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * The literals of `special` in the places where `general` has a parameter, by parameter name. Both patterns must match
 * a common path. `/actions/{org}/environments` under `/actions/{org}/{action_number}` gives
 * `{ action_number: "environments" }`.
 */
export function literalsUnder(special: string, general: string): Record<string, string> {
  const words = segments(special);
  return Object.fromEntries(
    segments(general).flatMap((segment, index) => {
      const word = words[index];
      return rankOf(segment) === 1 && word !== undefined && rankOf(word) === 0 ? [[segment.slice(1, -1), word]] : [];
    }),
  );
}
