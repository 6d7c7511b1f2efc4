/**
 * Regular expressions written by users run on RE2, whose matching time is linear in the text: a policy
 * must not be able to hang the server. Linear still means "text length times program size", and a counted
 * repetition blows a short pattern up into a large program, so the size is bounded here as well.
 */
import { RE2JS } from "re2js";

/** Longest pattern accepted, in UTF-16 code units. Room for an alternation of dozens of image names. */
export const MAX_PATTERN_CHARS = 1_000;

/**
 * Largest compiled program, in RE2 instructions. Running 2,500 of them over 500 characters was measured at
 * about 30 ms in the worst case; `[0-9a-f]{64}` and its like need less than a hundred.
 */
export const MAX_PROGRAM_INSTRUCTIONS = 2_500;

/** Most effort that compiling one pattern may take, in units of about 2 microseconds; see `estimateEffort`. */
export const MAX_EFFORT = 10_000;

/** A compiled pattern. `find` searches anywhere in the text; `size` is the program size in instructions. */
export type Regex = { find(text: string): boolean; size: number };

/** A refused pattern: one sentence without a full stop. */
export type RegexProblem = { problem: string };

/**
 * Compiles an RE2 pattern for unanchored search (semantics 5.2). Never throws: a pattern that RE2 refuses
 * (look-around, back references, bad syntax) or that is too large comes back as a problem.
 * @param stored whether the pattern was accepted before and is only loaded: then its effort is not bounded
 */
export function compileRegex(pattern: string, stored = false): Regex | RegexProblem {
  if (pattern.length > MAX_PATTERN_CHARS) {
    return { problem: `the regular expression is longer than ${MAX_PATTERN_CHARS} characters` };
  }
  if (!stored && estimateEffort(pattern) > MAX_EFFORT) return { problem: TOO_LARGE };
  let compiled: RE2JS;
  try {
    compiled = RE2JS.compile(pattern);
  } catch (error) {
    return { problem: `the regular expression is not valid RE2: ${detail(error)}` };
  }
  const size = compiled.programSize();
  if (size > MAX_PROGRAM_INSTRUCTIONS) return { problem: TOO_LARGE };
  // One policy asks the same pattern about the same artifact once for each of its flows.
  let last: { text: string; found: boolean } | null = null;
  const find = (text: string): boolean => {
    if (last?.text !== text) last = { text, found: compiled.matcher(text).find() };
    return last.found;
  };
  return { find, size };
}

const TOO_LARGE = "the regular expression is too large once its repetitions and character classes are expanded";

/**
 * Guesses what compiling a pattern takes, in units of about 2 microseconds: its program size, and what its classes of
 * characters cost on top. RE2 folds the case of each character of a range, so a range beyond ASCII in a pattern that
 * ignores case takes 2 ms, and a Unicode class (`\pL`) a tenth of that.
 */
export function estimateEffort(pattern: string): number {
  // Too long to be compiled at all, and the guess is quadratic in brackets that are not closed.
  if (pattern.length > MAX_PATTERN_CHARS) return 0;
  const ignoresCase = /\(\?[a-zA-Z]*i/.test(pattern);
  let effort = estimate(pattern);
  for (const [unit] of pattern.matchAll(CLASS)) {
    effort += (unit.match(/\\[pP]/g)?.length ?? 0) * (ignoresCase ? 60 : 12);
    if (ignoresCase && unit.includes("-") && /[^\x00-\x7f]|\\x/.test(unit)) effort += 1_000;
  }
  return effort;
}

/** A Unicode class, or a class in brackets with all that stands in it. */
const CLASS = /\\[pP]|\\[^]|\[\^?\]?(?:\[:[^\]]*:\]|\\[^]|[^\]\\])*\]/g;

/**
 * Guesses the program size in one pass: characters and classes count one, a repetition multiplies what it
 * repeats. A malformed pattern gets some number, and RE2 says afterwards what is wrong with it.
 */
function estimate(pattern: string): number {
  const outer: number[] = [];
  let sum = 0;
  let atom = 0;
  for (let i = 0; i < pattern.length; ) {
    REPETITION.lastIndex = i;
    const repetition = REPETITION.exec(pattern);
    if (repetition !== null) {
      const times = Math.max(1, Number(repetition[1]), Number(repetition[2] ?? 0));
      sum += atom * (times - 1);
      atom *= times;
      i = REPETITION.lastIndex;
      continue;
    }
    if (pattern[i] === "(") {
      outer.push(sum);
      sum = 1;
      i += 1;
    } else if (pattern[i] === ")") {
      atom = sum;
      sum += outer.pop() ?? 0;
      i += 1;
    } else if (pattern.startsWith("\\Q", i)) {
      const end = pattern.indexOf("\\E", i);
      atom = 1;
      sum += (end < 0 ? pattern.length : end) - i;
      i = end < 0 ? pattern.length : end + 2;
    } else {
      ATOM.lastIndex = i;
      ATOM.exec(pattern);
      atom = 1;
      sum += 1;
      i = Math.max(i + 1, ATOM.lastIndex);
    }
  }
  return sum;
}

const REPETITION = /\{(\d+)(?:,(\d+)?)?\}/y;

/** One escape with its braces, one class, or one character. */
const ATOM = /\\(?:[pPx]\{[^}]*\}|[^])|\[\^?\]?(?:\[:[^\]]*:\]|\\[^]|[^\]\\])*\]|[^]/y;

function detail(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.replace(/^error parsing regexp: /, "");
}
