/**
 * What an attestation found, in a few words: `1 high, 2 medium`. Records store the reasons of their verdict as
 * sentences of the kind of attestation, in the files beside this one; findings.test.ts holds that they are understood.
 */
import { truncate } from "../text/excerpt.ts";
import { formatCount } from "./verdicts.ts";

/** A cause is read on a phone; its record has the whole text. */
const MAX_CHARS = 80;
/** Issues and rules that are named. */
const MAX_NAMES = 3;

/** A sentence of one kind of attestation, and what all sentences of that kind say together. */
type Phrase = { pattern: RegExp; words: (matches: readonly RegExpExecArray[]) => string };

const sumOf = (matches: readonly RegExpExecArray[], group: number): number =>
  matches.reduce((sum, match) => sum + Number(match[group]), 0);
const firstOf = ([match]: readonly RegExpExecArray[], group = 1): string => match?.[group] ?? "";
const listed = (parts: readonly string[]): string => parts.filter((part) => part !== "").join(", ");

const PHRASES: readonly Phrase[] = [
  {
    pattern: /^Result \d+ has (\d+) high, (\d+) medium and (\d+) low findings$/,
    words: (matches) =>
      listed(
        ["high", "medium", "low"].map((severity, index) => {
          const count = sumOf(matches, index + 1);
          return count === 0 ? "" : `${count} ${severity}`;
        }),
      ),
  },
  {
    pattern: /^Suite '.*' has (\d+) failures? and (\d+) errors?$/s,
    words(matches) {
      const [failures, errors] = [sumOf(matches, 1), sumOf(matches, 2)];
      return listed([failures === 0 ? "" : `${failures} failed`, errors === 0 ? "" : formatCount(errors, "error")]);
    },
  },
  { pattern: /^No test suites were reported$/, words: () => "no test suites" },
  {
    pattern: /^Jira issue '(.*)' does not exist$/s,
    words: (matches) =>
      `${matches
        .slice(0, MAX_NAMES)
        .map(([, id]) => id)
        .join(", ")}${matches.length > MAX_NAMES ? ` and ${matches.length - MAX_NAMES} more` : ""} not found`,
  },
  { pattern: /^No Jira issue is referenced$/, words: () => "no Jira issue" },
  { pattern: /^The quality gate has status '(.*)'$/s, words: (matches) => `quality gate ${firstOf(matches)}` },
  { pattern: /^The scan has no quality gate$/, words: () => "no quality gate" },
  {
    pattern: /^(?:The SonarQube task|SonarQube task '.*') has status '(.*)': there is no analysis$/s,
    words: (matches) => `no analysis, task ${firstOf(matches)}`,
  },
  { pattern: /^No pull request was found$/, words: () => "no pull request" },
  {
    pattern: /^Rule \d+ \((.*)\) (gives .*|fails: .*|breaks off .*|needs more memory .*)$/s,
    words: (matches) =>
      `${truncate(firstOf(matches), MAX_CHARS / 2)} ${firstOf(matches, 2)}${
        matches.length > 1 ? `, and ${formatCount(matches.length - 1, "more rule")}` : ""
      }`,
  },
];

/**
 * The reasons of an attestation's verdict in a few words, on one line.
 * @returns null where they say no more than that it is not compliant
 */
export function summarizeFindings(reasons: readonly string[]): string | null {
  const [first] = reasons;
  if (first === undefined || first === "Reported as not compliant") return null;
  for (const { pattern, words } of PHRASES) {
    const matches = reasons.map((reason) => pattern.exec(reason)).filter((match) => match !== null);
    if (matches.length > 0) return oneLine(words(matches));
  }
  return oneLine(reasons.length === 1 ? first : `${first}, and ${reasons.length - 1} more`);
}

/** The control on which a decision was negative; null for anything else. */
export const readDeclinedControl = (reasons: readonly string[]): string | null =>
  /^The decision on control '(.*)' is negative$/s.exec(reasons[0] ?? "")?.[1] ?? null;

/** The reason of an override, without the words around it; null for anything else. */
export function readOverrideReason(reasons: readonly string[]): string | null {
  const reason = /^Overridden as not compliant: (.*)$/s.exec(reasons[0] ?? "")?.[1];
  return reason === undefined ? null : oneLine(reason);
}

const oneLine = (text: string): string => truncate(text.replace(/[\p{Cc}\s]+/gu, " ").trim(), MAX_CHARS);
