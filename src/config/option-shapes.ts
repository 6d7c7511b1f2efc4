/** What options accept: shapes that several rows of the table have (options.ts). Bounds are written as in a value. */
import { parseDuration, parseSize } from "../domain/text/units.ts";
import { parseCount, parseLine, parsePath } from "./parse-values.ts";

/**
 * `parse` converts the text of any source and returns null if it is invalid; `accepts` describes valid texts. `unit` is
 * the unit of a parsed number, if it has one.
 */
export type Shape<V> = {
  readonly placeholder: string;
  readonly parse: (text: string) => V | null;
  readonly accepts: string;
  readonly unit?: "bytes" | "seconds";
};

export const directory: Shape<string> = {
  placeholder: "DIRECTORY",
  parse: parsePath,
  accepts: "the path of a directory",
};

export const file = (what: string): Shape<string> => ({
  placeholder: "FILE",
  parse: parsePath,
  accepts: `the path of ${what}`,
});

export const line = (placeholder: string): Shape<string> => ({
  placeholder,
  parse: parseLine,
  accepts: "a single line of text",
});

export const wholeNumber = (min: number, max: number): Shape<number> => ({
  placeholder: "NUMBER",
  parse: (text) => parseCount(text, min, max),
  accepts: `a number from ${min} to ${max}`,
});

/** One of some words. */
export const word = <const W extends string>(placeholder: string, words: readonly W[]): Shape<W> => ({
  placeholder,
  parse: (text) => words.find((one) => one === text) ?? null,
  accepts: `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`,
});

/** A size from `min` to `max`, such as `examples`. */
export const size = (min: string, max: string, examples?: string): Shape<number> => ({
  placeholder: "SIZE",
  ...within(parseSize, [min, max]),
  accepts: describeRange("a size", [min, max], examples),
  unit: "bytes",
});

/** A duration from `min` to `max`, such as `examples`. */
export const duration = (min: string, max: string, examples?: string): Shape<number> => ({
  placeholder: "DURATION",
  ...within(parseDuration, [min, max]),
  accepts: describeRange("a duration", [min, max], examples),
  unit: "seconds",
});

type Bounds = readonly [min: string, max: string];

/** Throws if a bound is invalid: a mistake in the table. */
function within(parse: typeof parseSize, bounds: Bounds): { parse: (text: string) => number | null } {
  const [min, max] = bounds.map((bound) => parse(bound, 0, Number.MAX_SAFE_INTEGER));
  if (min == null || max == null) throw new Error(`the bounds ${bounds.join(" and ")} of an option are invalid`);
  return { parse: (text) => parse(text, min, max) };
}

function describeRange(what: string, [min, max]: Bounds, examples: string | undefined): string {
  return `${what}${examples === undefined ? "" : ` such as ${examples},`} from ${min} to ${max}`;
}
