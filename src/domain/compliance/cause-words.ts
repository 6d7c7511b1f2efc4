/**
 * A cause in the words of pages, messages and lists. The sentence begins with what decided, because the first 40
 * characters are all that a phone shows: `snyk-container fails: 1 high`, `sonar-gate is missing`, `No provenance: not
 * reported to any flow`.
 */
import { readDeclinedControl, readOverrideReason, summarizeFindings } from "../attestation/findings.ts";
import type { VerdictCause } from "./causes.ts";

/** `text` is a sentence without a full stop that begins with `subject`, which pages print in bold. */
export type ShortCause = { subject: string; text: string };

/**
 * Says a cause in a few words.
 * @param reasons of the record that the cause is about; null where there is none, or where they cannot be read
 */
export function shortenCause(cause: VerdictCause, reasons: readonly string[] | null): ShortCause {
  const { kind, name, flow } = cause;
  switch (kind) {
    case "no_provenance":
      // Without a flow; what else a rule may demand of provenance, its own words say.
      return flow === null ? say("No provenance", ": not reported to any flow") : { subject: "", text: cause.words };
    case "no_trail":
      return say("No trail", `: reported to flow ${flow ?? ""} without one`);
    case "missing_artifact":
      return say(`Artifact ${name ?? ""}`, " is missing");
    case "reported_non_compliant":
      return { subject: "", text: cause.words };
    case "failed_condition":
      return say("A condition", ` failed: ${cause.words.replace(/^Its condition failed [^:]*: /, "")}`);
    case "missing_attestation":
      return say(subjectOf(cause), isMistyped(cause) ? ` is not of type ${cause.type ?? ""}` : " is missing");
    case "non_compliant_attestation": {
      const override = readOverrideReason(reasons ?? []);
      if (override !== null) return say(subjectOf(cause), ` was overridden: ${override}`);
      const declined = readDeclinedControl(reasons ?? []);
      if (declined !== null) return say(subjectOf(cause), ` was declined${name === null ? "" : ` for ${declined}`}`);
      const findings = summarizeFindings(reasons ?? []);
      return say(subjectOf(cause), findings === null ? " fails" : ` fails: ${findings}`);
    }
  }
}

const say = (subject: string, rest: string): ShortCause => ({ subject, text: `${subject}${rest}` });

/** What an attestation is called: by its name, its control, or its type. */
function subjectOf({ name, control, type }: VerdictCause): string {
  if (name !== null) return name;
  if (control !== null) return `Decision for ${control}`;
  if (type === null || type === "*") return "An attestation";
  return `${/^[aeiou]/i.test(type) ? "An" : "A"} ${type} attestation`;
}

/** Reported, but as another type than the template expects. */
const isMistyped = ({ words }: VerdictCause): boolean =>
  / was reported as '[^']*'; the template expects type /.test(words);

/**
 * Short causes without repetitions: a name that is missing in two trails is said once. Names with the same matter share
 * a sentence: `unit-tests and sonar-gate are missing`.
 */
export function groupCauses(causes: readonly ShortCause[]): { subjects: string[]; rest: string }[] {
  const groups = new Map<string, Set<string>>();
  for (const { subject, text } of causes) {
    const rest = text.slice(subject.length);
    const group = groups.get(rest) ?? new Set();
    groups.set(rest, group.add(subject));
  }
  return [...groups].map(([rest, subjects]) => ({
    subjects: [...subjects],
    rest:
      subjects.size === 1
        ? rest
        : rest
            .replace(/^ is /, " are ")
            .replace(/^ fails/, " fail")
            .replace(/^ was /, " were "),
  }));
}

/** Subjects of a group that are named. */
const MAX_SUBJECTS = 3;

/** The subjects of a group that are named, and the number of the others. */
export const namedSubjects = (subjects: readonly string[]): { shown: readonly string[]; more: number } =>
  subjects.length <= MAX_SUBJECTS
    ? { shown: subjects, more: 0 }
    : { shown: subjects.slice(0, MAX_SUBJECTS - 1), more: subjects.length - MAX_SUBJECTS + 1 };

/** Parts as a list of English: `a`, `a and b`, `a, b and c`. */
export const separatorBefore = (index: number, total: number): string =>
  index === 0 ? "" : index === total - 1 ? " and " : ", ";

/**
 * Causes on one line: `snyk-container fails: 1 high; unit-tests and sonar-gate are missing`.
 * @param further causes that are not among them
 */
export function joinCauses(causes: readonly ShortCause[], further = 0): string {
  const parts = groupCauses(causes).map(({ subjects, rest }) => {
    const { shown, more } = namedSubjects(subjects);
    const all = more === 0 ? shown : [...shown, `${more} more`];
    return `${all.map((one, index) => `${separatorBefore(index, all.length)}${one}`).join("")}${rest}`;
  });
  return [...parts, ...(further > 0 ? [`${further} more`] : [])].join("; ");
}
