import { suite } from "uvu";
import * as assert from "uvu/assert";
import { compileRegex } from "../../../src/domain/text/regex.ts";
import type { Regex } from "../../../src/domain/text/regex.ts";

const regex = suite("domain/policy/regex");

function compiled(pattern: string): Regex {
  const result = compileRegex(pattern);
  if ("problem" in result) throw new Error(result.problem);
  return result;
}

const FOUND: [pattern: string, text: string, found: boolean][] = [
  ["b", "abc", true],
  ["^b", "abc", false],
  ["c$", "abc", true],
  ["", "", true],
  ["(?i)ABC", "xabcx", true],
  ["^\\p{Greek}+$", "\u03b1\u03b2", true],
  ["^.$", "\u{1f600}", true],
  ["^sha256:[0-9a-f]{64}$", `sha256:${"0".repeat(64)}`, true],
  [
    "^registry\\.example\\.com/(shop|pay)/[a-z0-9-]{1,40}(:v[0-9]{1,3}){0,2}@sha256:[a-f0-9]{64}$",
    `registry.example.com/pay/api:v1@sha256:${"a".repeat(64)}`,
    true,
  ],
  ["a\\Q(*\\Eb", "a(*b", true],
  ["(a+)+$", `${"a".repeat(50_000)}b`, false],
  ["(x+x+)+y", "x".repeat(50_000), false],
];
for (const [pattern, text, found] of FOUND) {
  regex(`${pattern} in ${text.slice(0, 20)}`, () => assert.is(compiled(pattern).find(text), found));
}

const REFUSED: [pattern: string, problem: RegExp][] = [
  ["(", /not valid RE2: missing closing \)/],
  ["[a", /not valid RE2: missing closing \]/],
  ["*", /not valid RE2: missing argument to repetition/],
  ["a**", /not valid RE2/],
  ["(?=a)", /not valid RE2/],
  ["(?<!a)b", /not valid RE2/],
  ["(a)\\1", /not valid RE2: invalid escape sequence/],
  ["a{1001}", /not valid RE2: invalid repeat count/],
  ["(a{100}){100}", /not valid RE2: invalid repeat count|too large/],
  ["a".repeat(1_001), /longer than 1000 characters/],
  ["(?:abcdefghij){1000}", /too large once its repetitions and character classes are expanded/],
  ["(?:(?:a?b?){30}){30}x{1000}", /too large once its repetitions and character classes are expanded/],
  ["a{1000}b{1000}c{1000}", /too large once its repetitions and character classes are expanded/],
  ["([\\]{2]a?){1000}[:alpha:]{1000}\\p{L}{1000}", /too large once its repetitions and character classes are expanded/],
  [`${"(".repeat(300)}${"a".repeat(300)}${"){9}".repeat(100)}`, /not valid RE2|too large/],
];
for (const [pattern, problem] of REFUSED) {
  regex(`refused: ${pattern.slice(0, 40)}`, () => {
    const result = compileRegex(pattern);
    assert.match("problem" in result ? result.problem : "accepted", problem);
  });
}

regex("accepts a pattern of full length and one with large repetitions", () => {
  assert.ok(compiled("a".repeat(1_000)).find("a".repeat(1_000)));
  assert.ok(compiled("^[a-z]{1000}$").find("z".repeat(1_000)));
  assert.ok(compiled("a{1000}").size > 1_000);
});

regex("finds the same twice", () => {
  const { find } = compiled("a");
  assert.equal([find("ba"), find("ba"), find("b"), find("ab")], [true, true, false, true]);
});

regex.run();
