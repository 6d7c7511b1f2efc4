/** Compares two alternatives of one type by what restricts their values: words, patterns, formats and bounds. */
import { truncate } from "../../domain/text/excerpt.ts";
import { BOUNDS, isUpperBound } from "./shape.ts";
import type { BoundName, SchemaShape } from "./shape.ts";

export type ShapePair = { ours: SchemaShape; theirs: SchemaShape };

const MAX_SHOWN_VALUES = 20;
const MAX_SHOWN_CHARS = 100;
/** Of a pattern whose sets are compared; a longer one only as it is. */
const MAX_PATTERN_CHARS = 5_000;

/** Values, or types, as words. */
export const wordsOf = (values: readonly string[]): string => {
  const list = values
    .slice(0, MAX_SHOWN_VALUES)
    .map((value) => truncate(value, MAX_SHOWN_CHARS))
    .join(", ");
  return values.length > MAX_SHOWN_VALUES ? `${list} and ${values.length - MAX_SHOWN_VALUES} more` : list;
};

/** What ours demands of a value in a request, and theirs does not. */
export function compareRestrictions({ ours, theirs }: ShapePair, { limits }: { limits: boolean }): string[] {
  const excluded = ours.excluded.filter((value) => !theirs.excluded.includes(value));
  return [
    ...(ours.values !== null ? [`accepts only ${wordsOf(ours.values)}`] : []),
    ...(excluded.length > 0 ? [`does not accept ${wordsOf(excluded)}`] : []),
    ...ours.patterns
      .filter((pattern) => !theirs.patterns.some((other) => includesPattern(pattern, other)))
      .map((pattern) => `has the pattern ${pattern}${describeThere(theirs.patterns.join(" and "))}`),
    ...(ours.format !== null && ours.format !== theirs.format && !isSizeFormat(ours.format)
      ? [`has the format ${ours.format}${describeThere(theirs.format)}`]
      : []),
    ...findStricterBounds(ours.bounds, theirs.bounds, (name, there) => there !== undefined || limits || isLeast(name)),
    ...[...ours.rules]
      .filter(([rule, text]) => theirs.rules.get(rule) !== text)
      .map(([rule]) => `has the rule ${rule}${describeThere(theirs.rules.has(rule) ? "another" : null)}`),
  ];
}

const describeThere = (there: string | null): string => ` (there: ${there === null || there === "" ? "none" : there})`;

/** What theirs promises of a value in a response, and ours does not. A list of values says more than a pattern. */
export function comparePromises({ ours, theirs }: ShapePair): string[] {
  if (ours.values !== null) return [];
  if (theirs.values !== null) return [`may have other values than ${wordsOf(theirs.values)}`];
  return [
    ...theirs.patterns
      .filter((pattern) => !ours.patterns.some((mine) => includesPattern(pattern, mine)))
      .map((pattern) => `does not promise the pattern ${pattern}`),
    ...(theirs.format !== null && ours.format !== theirs.format && !isSizeFormat(theirs.format)
      ? [`does not promise the format ${theirs.format}`]
      : []),
    ...findStricterBounds(theirs.bounds, ours.bounds, () => true).map((bound) => `does not promise: ${bound}`),
  ];
}

/** Formats that say how a number or file is stored, not which values there are. */
const isSizeFormat = (format: string): boolean => /^(?:int\d+|float|double|binary|byte)$/.test(format);
/** A bound that excludes what is empty, which no size of a request explains. */
const isLeast = (name: BoundName): boolean => ["minLength", "minItems", "minProperties"].includes(name);

type Bounds = SchemaShape["bounds"];

/** The bounds that are stricter than others. `counts` says which of them are differences. */
function findStricterBounds(
  bounds: Bounds,
  others: Bounds,
  counts: (name: BoundName, there: number | undefined) => boolean,
): string[] {
  return (Object.entries(bounds) as [BoundName, number][]).flatMap(([name, bound]) => {
    const there = others[name];
    const isStricter = isUpperBound(name)
      ? bound < (there ?? Infinity)
      : bound > (there ?? (isLeast(name) ? 0 : -Infinity));
    if (!isStricter || !counts(name, there)) return [];
    return [`${BOUNDS[name](bound)}${describeThere(there === undefined ? null : BOUNDS[name](there))}`];
  });
}

/**
 * Whether a pattern accepts what another one accepts, as far as the texts show: they are the same but for the order and
 * the escapes in sets of characters, or the first one accepts an empty text too.
 */
function includesPattern(wider: string, pattern: string): boolean {
  const [one, other] = [normalizePattern(wider), normalizePattern(pattern)];
  return one === other || one.replace(/^\^\((?:\?:)?(.*)\)\?\$$/s, "^$1$") === other;
}

const normalizePattern = (pattern: string): string =>
  pattern.length > MAX_PATTERN_CHARS
    ? pattern
    : pattern.replace(/\[((?:\\.|[^\]\\])+)\]/g, (_all, set: string) => {
        const parts = set.match(/(?:\\.|[^\\])-(?:\\.|[^\\])|\\.|[^\\]/gs) ?? [];
        return `[${parts
          .map((part) => part.replace(/\\([^a-zA-Z0-9])/g, "$1"))
          .sort()
          .join("")}]`;
      });
