/**
 * Users' regular expressions run on RE2, which matches in linear time, so that a policy cannot hang the server. Linear
 * still means text length times program size, and a counted repetition turns a short pattern into a large program, so
 * the program size is bounded as well.
 */
import { RE2JS } from "re2js";

/** Longest pattern, in UTF-16 code units: room for an alternation of dozens of image names. */
const MAX_PATTERN_CHARS = 1_000;

/**
 * Largest compiled program, in RE2 instructions. Running 2,500 of them over 500 characters took about 30 ms in the
 * worst case measured; patterns like `[0-9a-f]{64}` need less than a hundred.
 */
const MAX_PROGRAM_INSTRUCTIONS = 2_500;

/** Effort of compiling one pattern, in units of about 2 microseconds (see estimateEffort): 20 milliseconds. */
const MAX_EFFORT = 10_000;

/** A compiled pattern. `find` searches anywhere in the text; `size` is the program size in RE2 instructions. */
export type Regex = { find(text: string): boolean; size: number };

/** A refused pattern: one sentence without a full stop. */
type RegexProblem = { problem: string };

/**
 * Compiles an RE2 pattern for unanchored search (semantics 5.2). Never throws: returns a problem for a pattern that RE2
 * refuses (look-around, back references, bad syntax) or that is too large.
 * @param options.isStored the pattern was accepted before and is only loaded, so its effort is not bounded
 */
export function compileRegex(pattern: string, { isStored = false }: { isStored?: boolean } = {}): Regex | RegexProblem {
  if (pattern.length > MAX_PATTERN_CHARS) {
    return { problem: `the regular expression is longer than ${MAX_PATTERN_CHARS} characters` };
  }
  if (!isStored && estimateEffort(pattern) > MAX_EFFORT) return { problem: TOO_LARGE };
  let compiled: RE2JS;
  try {
    compiled = RE2JS.compile(pattern);
  } catch (error) {
    return { problem: `the regular expression is not valid RE2: ${describeError(error)}` };
  }
  const size = compiled.programSize();
  if (size > MAX_PROGRAM_INSTRUCTIONS) return { problem: TOO_LARGE };
  // A policy matches the same pattern against the same artifact once per flow.
  let last: { text: string; found: boolean } | null = null;
  const find = (text: string): boolean => {
    if (last?.text !== text) last = { text, found: compiled.matcher(text).find() };
    return last.found;
  };
  return { find, size };
}

const TOO_LARGE = "the regular expression is too large once its repetitions and character classes are expanded";

/**
 * Estimates the effort of compiling a pattern, in units of about 2 microseconds: its program size, and the additional
 * cost of its character classes. RE2 folds the case of each character of a range, so a range beyond ASCII in a
 * case-insensitive pattern takes 2 ms, and a Unicode class (`\pL`) a tenth of that.
 */
export function estimateEffort(pattern: string): number {
  // Such a pattern is not compiled at all, and the estimate is quadratic in unclosed brackets.
  if (pattern.length > MAX_PATTERN_CHARS) return 0;
  const ignoresCase = /\(\?[a-zA-Z]*i/.test(pattern);
  let effort = estimateProgramSize(pattern);
  for (const [unit] of pattern.matchAll(CLASS)) {
    effort += (unit.match(/\\[pP]/g)?.length ?? 0) * (ignoresCase ? 60 : 12);
    if (ignoresCase && unit.includes("-") && /[^\x00-\x7f]|\\x/.test(unit)) effort += 1_000;
  }
  return effort;
}

/** A Unicode class, or a bracketed class with its content. */
const CLASS = /\\[pP]|\\[^]|\[\^?\]?(?:\[:[^\]]*:\]|\\[^]|[^\]\\])*\]/g;

/**
 * Estimates the program size in one pass: a character or class counts one, and a repetition multiplies what it repeats.
 * The result for a malformed pattern is arbitrary; RE2 then reports what is wrong with it.
 */
function estimateProgramSize(pattern: string): number {
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

function describeError(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.replace(/^error parsing regexp: /, "");
}
