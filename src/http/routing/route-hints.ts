/** What a client that asked for an unknown path or a wrong method probably meant. */
import { excerpt } from "../../domain/text/excerpt.ts";
import { findNearestNames } from "../../domain/text/near-names.ts";
import type { AnyOperation, Method } from "../operation.ts";

/** Attestations have the most kinds; a longer list does not help. */
const MAX_WORDS = 12;
/** Fewer words are kinds of nothing. */
const MIN_WORDS = 3;

/**
 * Names the words that operations with this method have where the path has another one, for instance the kinds of
 * attestations: "'smoke' is not one of custom, generic, ...". The nearest ones come first.
 * @param path below the API root
 * @returns null if no operations differ from the path in one word only
 */
export function describeAlternatives(
  operations: readonly Pick<AnyOperation<never>, "path" | "method">[],
  method: string,
  path: string,
): string | null {
  const parts = path.split("/");
  const words = new Set<string>();
  let place = -1;
  for (const operation of operations) {
    if (operation.method !== (method as Method)) continue;
    const at = findOnlyDifference(operation.path.split("/"), parts);
    // The first segment names the resource: without it, every list of the API would be an alternative.
    if (at <= 1 || at < place) continue;
    if (at > place) words.clear();
    place = at;
    words.add(operation.path.split("/")[at] as string);
  }
  const word = parts[place] ?? "";
  const lower = word.toLowerCase();
  const near = [...words].filter((known) => known.toLowerCase() === lower).concat(findNearestNames(word, [...words]));
  // Where other paths have the name of a flow or an environment, the word was not mistyped.
  if (words.size < MIN_WORDS && near.length === 0) return null;
  const all = [...new Set([...near, ...[...words].sort()])];
  const listed = all.slice(0, MAX_WORDS).join(", ");
  return `'${excerpt(word)}' is not one of ${listed}${all.length > MAX_WORDS ? ", ..." : ""}`;
}

/** The only place in which a path has another word than a literal of the pattern; -1 if there is none, or more. */
function findOnlyDifference(pattern: readonly string[], parts: readonly string[]): number {
  if (pattern.length !== parts.length || pattern.at(-1)?.endsWith("*}")) return -1;
  let found = -1;
  for (const [index, segment] of pattern.entries()) {
    if (segment.startsWith("{") || segment === parts[index]) continue;
    if (found !== -1) return -1;
    found = index;
  }
  return found;
}
