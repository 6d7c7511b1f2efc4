/**
 * Refusals of operations in the words of a form. The API answers what validators say (http/validate.ts); a person at a
 * field needs what to write there, and has the text that was typed before them.
 */
import { plural } from "../components/state.ts";
import * as names from "../../domain/names.ts";
import { CUSTOM_TYPE_PATTERN } from "../../domain/policy/schema.ts";
import type { SourceProblem } from "../../errors.ts";
import { regexWords } from "./regex-words.ts";

const NAME = "Begin with a letter or a digit, and use only letters, digits and";

/** What a text that does not match has to look like. */
const PATTERNS: ReadonlyMap<string, string> = new Map([
  [names.FLOW_NAME, `${NAME} - _ . ~.`],
  [names.TRAIL_NAME, `${NAME} - _ . ~.`],
  [names.POLICY_NAME, `${NAME} - _ . ~.`],
  [names.TAG_KEY, `${NAME} - _ . ~.`],
  [names.ENVIRONMENT_NAME, `${NAME} - _ and the dot.`],
  [names.ACTION_NAME, `${NAME} - _ . ~ and the slash.`],
  [names.CONTROL_IDENTIFIER, "Use only letters, digits and - _ . ~."],
  [names.SERVICE_ACCOUNT_NAME, "Use only letters, digits and the hyphen."],
  [names.ATTESTATION_NAME, "Use only letters, digits and - _ and the comma."],
  [names.REFERENCE_NAME, "Use only letters, digits and - _."],
  [names.USER_DISPLAY_NAME, "Write one line."],
  [names.VIEW_NAME, "Write one line, without spaces at its ends."],
  [names.USER_EMAIL, "Write an e-mail address, such as ada@example.com."],
  [CUSTOM_TYPE_PATTERN, "Write custom: and the name of a type, which has only letters, digits and - _ . ~."],
  [names.FINGERPRINT, "A fingerprint has 64 digits and letters from a to f. Copy the whole of it."],
  [names.COMMIT_SHA, "A commit has 40 digits and letters from a to f. Copy the whole of it."],
]);

/** A snapshot that does not exist, by its expression (messages). */
const SNAPSHOT = /^Org: '[^']*'\. Snapshot '([\s\S]*)' resolves to '([^'#]*)#-?\d+'\. len\(snapshots\) == (\d+)\. /;

type Rule = readonly [pattern: RegExp, words: (group: string, second: string, third: string) => string];

const MISSING = "Fill this in.";

const RULES: readonly Rule[] = [
  [/^Field required/, () => MISSING],
  [/^String should have at least 1 character /, () => MISSING],
  [/^String should have at least (\d+) characters /, (number) => `Write at least ${number} characters.`],
  [/^String should have at most (\d+) characters? /, (number) => `Write at most ${number} characters.`],
  [/^List should have at least 1 item/, () => "Give at least one."],
  [/^List should have at least (\d+) items/, (number) => `Give at least ${number}.`],
  [/^(?:List|Object) should have at most (\d+) (?:item|key)/, (number) => `Give at most ${number}.`],
  [/^Input should be greater than or equal to (\S+) /, (number) => `Write ${number} or more.`],
  [/^Input should be less than or equal to (\S+) /, (number) => `Write ${number} or less.`],
  [/^Input should be a valid (?:number|integer)\b/, () => "Write a number."],
  [/^Input should be a JSON object/, () => "Write a JSON object: { ... }."],
  [
    /^Input should be a valid snapshot expression/,
    () => "Write an environment, alone or followed by #12, ~1, @{2.days.ago} or @{2026-01-31T12:00:00}.",
  ],
  [
    /^(?:Input should be a valid RE2 expression: )?(the regular expression is [\s\S]*?)(?: \[input: [\s\S]*)?$/,
    regexWords,
  ],
  [
    /^Input should be ((?:'[^']*'(?:, | or )?)+) \[input: /,
    (words) => `Choose one of these: ${words.replaceAll("'", "")}.`,
  ],
  [/^Input should be ((?:an? |valid JSON)[\s\S]*?)(?: \[input: [\s\S]*)?$/, (what) => `Write ${what}.`],
  [/^Key should match the grammar/, () => `${NAME} - _ . ~.`],
  [
    /^(.+?)(?: named)? '([^']*)' (?:does not exist|not found) (?:in|for) org(?:anization)? '([^']*)'$/,
    (kind, name, org) => `There is no ${NOUNS[kind] ?? kind.toLowerCase()} '${name}' in ${org}.`,
  ],
  [
    /^(.+?) named '([^']*)' has been archived for organization '([^']*)'$/,
    (kind, name, org) => `${kind} '${name}' of ${org} is archived.`,
  ],
  [
    /^Trail with name '([\s\S]*)' does not exist for Organization '[^']*' and Flow '([^']*)'$/,
    (name, flow) => `There is no trail '${name}' in flow '${flow}'.`,
  ],
  [
    /^Artifact with (fingerprint|git commit) '([^']*)' does not exist in flow '([^']*)' belonging to /,
    (key, value, flow) => `There is no artifact with the ${key} '${value}' in flow '${flow}'.`,
  ],
  [
    SNAPSHOT,
    (expression, place, count) => {
      const kept = count === "0" ? "no snapshot yet" : plural(Number(count), "snapshot");
      return `There is no snapshot '${expression}': ${place} has ${kept}.`;
    },
  ],
  [
    /^Org: '[^']*'\. Snapshot '([^'#]*)#(\d+)' has no artifact with fingerprint '([^']*)'$/,
    (place, number, print) => `Snapshot #${number} of '${place}' has no artifact with the fingerprint '${print}'.`,
  ],
  [
    /^(API key|Service account|View|Webhook) not found$/,
    (kind) => `There is no such ${NOUNS[kind] ?? kind.toLowerCase()}.`,
  ],
];

/** Whether a message says that a snapshot does not exist. */
export const isMissingSnapshot = (message: string): boolean => SNAPSHOT.test(message);

/** Nouns that keep their capitals, or have another word. */
const NOUNS: Readonly<Record<string, string>> = {
  "API key": "API key",
  "Rego policy": "Rego policy",
  Repo: "repository",
};

/** What a problem in a YAML text says instead: there is nothing to fill in, and a value has a form of its own. */
const TEXT_RULES: readonly Rule[] = [
  [/^Field required: write ([\s\S]*)$/, (values) => `This is missing. Write one of these: ${plainValues(values)}`],
  [/^Field required: ([\s\S]*)$/, (hint) => `This is missing: ${hint}`],
  [/^Field required$/, () => "This is missing"],
  [/^String should have at least 1 character /, () => "Write a value: this is empty"],
  [/^Input should be (\d+) \[input: /, (number) => `Only ${number} is known`],
  [/^Input should be ('[\s\S]*') \[input: /, (values) => `Write one of these: ${plainValues(values)}`],
  [/^Input should be a valid (?:mapping|object) /, () => "Write keys with values here, such as name: unit-tests"],
  [/^Input should be a valid list /, () => "Write a list here: each entry in a line that begins with a hyphen"],
  [/^Input should be a valid string /, () => "Write a text here. A number, true, false or null needs quotes to be one"],
  [/^Input should be a valid boolean/, () => "Write true or false, without quotes"],
  [/^Extra inputs are not permitted [\s\S]*\]; ([\s\S]*)$/, (hint) => `This key has no place here; ${hint}`],
];

/** Values that a list in quotes names. A star without quotes is something else in YAML. */
const plainValues = (list: string): string => list.replaceAll("'*'", '"*"').replaceAll("'", "");

/** What the first rule that matches says; null without one. */
function said(rules: readonly Rule[], text: string): string | null {
  for (const [pattern, words] of rules) {
    const [match, first = "", second = "", third = ""] = pattern.exec(text) ?? [];
    if (match !== undefined) return words(first, second, third);
  }
  return null;
}

/**
 * A problem in a YAML text as a line of an editor says it. What a validator said becomes the key that it is about, and
 * what to write there; other problems are sentences of their own.
 */
export function textProblemInWords({ path, message }: SourceProblem): string {
  const words = (said(TEXT_RULES, message) ?? inWords(message)).replace(/\.$/, "");
  const key = path.split(".").findLast((part) => !/^\d*$/.test(part));
  return key === undefined || message.startsWith(words)
    ? words
    : `${key}: ${words.replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase())}`;
}

/**
 * A message of an operation for a form, a field or a page that is refused. One without a validator's words loses the
 * repeated input.
 */
export function inWords(text: string): string {
  const pattern = /^String should match pattern '([\s\S]*)' \[input: [\s\S]*$/.exec(text)?.[1];
  if (pattern !== undefined)
    return PATTERNS.get(pattern) ?? "This has characters, or a form, that are not accepted here.";
  const found = said(RULES, text);
  if (found !== null) return found;
  // Most messages are sentences with a period; texts of the API have none.
  return text.replace(/ \[input: [\s\S]*\]$/, "").replace(/[\p{L}\p{N}'")\]]$/u, "$&.");
}
