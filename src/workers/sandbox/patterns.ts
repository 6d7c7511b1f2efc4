/**
 * Regular expressions of users' JSON Schemas. Draft-07 asks for ECMA-262 and not for its flag `u`, and schemas from
 * elsewhere were tested without it: `\-` and a lone `{` are errors with the flag. Whatever compiles with it has its
 * meaning with it, such as `\p{L}`; anything else is compiled without, if that cannot change what was meant.
 */
import { excerpt } from "../../domain/text/excerpt.ts";

type Foreign = { syntax: RegExp; instead: string };
/** Syntax of Python that ECMA-262 takes for ordinary characters, if its flag `u` is off. */
const MISREAD: readonly Foreign[] = [
  { syntax: /\\A/, instead: "^" },
  { syntax: /\\[Zz]/, instead: "$" },
  { syntax: /(?<!\\)\{,\d+\}/, instead: "{0,N}" },
];
/** Syntax of Python that ECMA-262 refuses. */
const REFUSED: readonly Foreign[] = [
  { syntax: /\(\?P<\w*>?/, instead: "(?<name>...)" },
  { syntax: /\(\?P=\w*\)?/, instead: "\\k<name>" },
  { syntax: /\(\?[aiLmsux]+\)/, instead: "[Aa] for letters of both cases" },
  { syntax: /\(\?#[^)]*\)?/, instead: "$comment beside the pattern" },
  { syntax: /\(\?\(\w*\)?/, instead: "an alternative for each case" },
  { syntax: /\(\?>/, instead: "(?:...)" },
  { syntax: /[*+?}]\+/, instead: "the repetition without its last +" },
];
/** What has another meaning without the flag. */
const NEEDS_FLAG = /\\[pP]\{|\\u\{/;
/** Two characters of which the second is literal. */
const ESCAPED_BACKSLASH = /\\\\/g;

const MAX_SHOWN_CHARS = 100;

/** Why a pattern does not compile, in words that name it. */
class PatternError extends Error {}

function tryToCompile(pattern: string): RegExp | null {
  try {
    return new RegExp(pattern);
  } catch {
    return null;
  }
}

/** @throws PatternError */
function compilePattern(pattern: string): RegExp {
  try {
    return new RegExp(pattern, "u");
  } catch (withFlag) {
    const quoted = `the pattern '${excerpt(pattern, MAX_SHOWN_CHARS)}'`;
    const plain = pattern.replace(ESCAPED_BACKSLASH, "__");
    const refuse = (foreign: readonly Foreign[]): void => {
      for (const { syntax, instead } of foreign) {
        const found = syntax.exec(plain)?.[0];
        if (found !== undefined)
          throw new PatternError(
            `${quoted} has ${found}, which JSON Schema does not know (Python's re does): use ${instead}`,
          );
      }
    };
    refuse(MISREAD);
    const withoutFlag = NEEDS_FLAG.test(plain) ? null : tryToCompile(pattern);
    if (withoutFlag) return withoutFlag;
    refuse(REFUSED);
    const reason = (withFlag as Error).message.replace(/^Invalid regular expression: .*: /s, "");
    throw new PatternError(`${quoted} does not compile: ${reason}`);
  }
}

/** For ajv's option `code.regExp`; `code` names the function in code that is written out, which we never do. */
export const patternEngine = Object.assign((pattern: string) => compilePattern(pattern), { code: "compilePattern" });
