/**
 * The API has overlapping patterns. The rule is: reading from the left, at the first segment where two patterns differ
 * in kind, a literal wins over a parameter and a parameter over a rest-of-path parameter. Registering operations in
 * that order makes the router's first match the right one.
 */

const segments = (path: string): string[] => path.split("/").slice(1);

function kind(segment: string | undefined): number {
  if (segment === undefined) return 0;
  if (segment.startsWith("{")) return segment.endsWith("*}") ? 2 : 1;
  return 0;
}

/**
 * Sort order of two OpenAPI paths: negative when `a` has to be tried first. Ties are broken by text, for stable
 * listings.
 */
export function compareRoutes(a: string, b: string): number {
  const left = segments(a);
  const right = segments(b);
  for (let i = 0; i < Math.max(left.length, right.length); i++) {
    const difference = kind(left[i]) - kind(right[i]);
    if (difference !== 0) return difference;
  }
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * The literals of `special` that stand where `general` has a parameter, by the name of the parameter. Both must match
 * one path. `/actions/{org}/environments` under `/actions/{org}/{action_number}` gives
 * `{ action_number: "environments" }`.
 */
export function literalsUnder(special: string, general: string): Record<string, string> {
  const words = segments(special);
  return Object.fromEntries(
    segments(general).flatMap((segment, place) => {
      const word = words[place];
      return kind(segment) === 1 && word !== undefined && kind(word) === 0 ? [[segment.slice(1, -1), word]] : [];
    }),
  );
}

/** `/repos/{org}/{repo_name*}` -> `/repos/:org/*repo_name`, the router's own spelling. */
export function routerPath(path: string): string {
  return path.replace(/\{(\w+)(\*?)\}/g, (_all, name: string, rest: string) => (rest ? `*${name}` : `:${name}`));
}
