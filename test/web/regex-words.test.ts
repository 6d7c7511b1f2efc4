/** What a form says of a wrong regular expression. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { compileRegex } from "../../src/domain/text/regex.ts";
import { inWords, textProblemInWords } from "../../src/web/page/field-words.ts";
import { regexWords } from "../../src/web/page/regex-words.ts";

const test = suite("web/regex-words");

/** What a form says of a text. */
function wordsOf(pattern: string): string {
  const compiled = compileRegex(pattern);
  assert.ok("problem" in compiled, pattern);
  return inWords(`Input should be a valid RE2 expression: ${compiled.problem} [input: ${pattern}]`);
}

const UNKNOWN = "This is not a valid regular expression (RE2).";

test("every mistake that RE2 refuses is said in plain words", () => {
  const cases: Record<string, string> = {
    "a(b": "a ( has no matching )",
    "a)": "a ) has no matching (",
    "[a-z": "a [ has no matching ]",
    "*a": "nothing stands before * that it could repeat",
    "a**": "** repeats a repetition",
    "a{1001}": "{1001} is not a count of repetitions: at most 1,000, and the smaller number first",
    "a{5,2}": "{5,2} is not a count of repetitions: at most 1,000, and the smaller number first",
    "a\\": "it ends in a backslash, which needs a character after it",
    "\\1": "\\1 has no meaning here",
    "[z-a]": "there is no class or range z-a",
    "[[:foo:]]": "there is no class or range [:foo:]",
    "\\p{Foo}": "there is no class or range \\p{Foo}",
    "(?<n": "the name of the group (?<n is not complete",
    "(?P<n>a)(?P<n>b)": "two groups have the name n",
    "(?=a)": "looking ahead or behind is not supported",
    "(?!a)": "looking ahead or behind is not supported",
    "(?<=a)": "looking ahead or behind is not supported",
    "(?<!a)": "looking ahead or behind is not supported",
    "(?>a)": "(?> is not supported",
  };
  for (const [pattern, words] of Object.entries(cases))
    assert.is(wordsOf(pattern), `Not a valid regular expression: ${words}.`, pattern);
});

test("a problem in a policy says it in the same words", () => {
  const message = "the regular expression is not valid RE2: missing closing ): `a(b`";
  assert.is(
    textProblemInWords({ path: "artifacts.provenance.exceptions.0.if", message, line: 6, column: 40 }),
    "if: not a valid regular expression: a ( has no matching )",
  );
});

test("a text that is too long or too large says so, and a long part is cut", () => {
  assert.is(wordsOf("a".repeat(1_001)), "The regular expression is longer than 1000 characters.");
  assert.match(wordsOf("((a{30}){30}){30}"), /^The regular expression is too large once its repetitions/);
  assert.match(wordsOf(`(?<${"n".repeat(100)}`), /group \(\?<n{37}… is not complete\.$/);
});

test("every error code of the library has words; what is none has a plain sentence", () => {
  const library = readFileSync(createRequire(import.meta.url).resolve("re2js"), "utf8");
  const codes = [...library.matchAll(/\bERR_[A-Z_]+\s*=\s*"([^"]+)"/g)].flatMap(([, code]) => code ?? []);
  assert.ok(codes.length >= 15, codes.join());
  const silent = codes.filter(
    (code) => regexWords(`the regular expression is not valid RE2: ${code}: \`x\``) === UNKNOWN,
  );
  assert.equal([...new Set(silent)], ["regexp/syntax: internal error"]);
  assert.is(regexWords("the regular expression is not valid RE2: something new: `x`"), UNKNOWN);
});

test.run();
