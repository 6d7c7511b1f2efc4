/** Why a regular expression is refused, in the words of a form. RE2 has an error code for each kind of mistake. */

/** What is wrong, by the code of RE2. @param part the part that RE2 quotes; may be empty */
const WORDS: ReadonlyMap<string, (part: string) => string> = new Map([
  ["missing closing )", () => "a ( has no matching )"],
  ["missing closing ]", () => "a [ has no matching ]"],
  ["unexpected )", () => "a ) has no matching ("],
  ["missing argument to repetition operator", (part: string) => `nothing stands before ${part} that it could repeat`],
  ["invalid nested repetition operator", (part: string) => `${part} repeats a repetition`],
  [
    "invalid repeat count",
    (part: string) => `${part} is not a count of repetitions: at most 1,000, and the smaller number first`,
  ],
  ["trailing backslash at end of expression", () => "it ends in a backslash, which needs a character after it"],
  ["invalid escape sequence", (part: string) => `${part} has no meaning here`],
  ["invalid character class range", (part: string) => `there is no class or range ${part}`],
  ["invalid named capture", (part: string) => sayAssertion(part) ?? `the name of the group ${part} is not complete`],
  ["duplicate capture group name", (part: string) => `two groups have the name ${part}`],
  ["invalid or unsupported Perl syntax", (part: string) => sayAssertion(part) ?? `${part} is not supported`],
  ["expression nests too deeply", () => "its groups are nested too deeply"],
  ["expression too large", () => "it is too large"],
  ["invalid capture in lookbehind", () => "looking ahead or behind is not supported"],
]);

/** What is said of a look-ahead or look-behind; null for another part. */
const sayAssertion = (part: string): string | null =>
  /^\(\?<?[=!]/.test(part) ? "looking ahead or behind is not supported" : null;

/** RE2 quotes as much of the text as it has not read. */
const MAX_PART_CHARS = 40;

/** @param problem as domain/text/regex.ts has it, such as "the regular expression is not valid RE2: missing ..." */
export function regexWords(problem: string): string {
  const text = problem.replace(/^the regular expression is /, "");
  const [, code = "", part = ""] = /^not valid RE2: ([\s\S]*?)(?:: `([\s\S]*)`)?$/.exec(text) ?? [];
  const shown = part.length > MAX_PART_CHARS ? `${part.slice(0, MAX_PART_CHARS)}…` : part;
  const words = WORDS.get(code)?.(shown);
  if (words !== undefined) return `Not a valid regular expression: ${words}.`;
  return code === "" ? `The regular expression is ${text}.` : "This is not a valid regular expression (RE2).";
}
