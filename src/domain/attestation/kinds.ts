// The kinds of attestations and the words for them. One kind can have up to three spellings, which must not be mixed:
// the path segment a report is posted to, the word that templates, policies and filters use, and the label that is
// stored and returned as `attestation_type`. They differ for decisions (`system`, `decision`, `system:decision`) and
// for custom types (`custom`, `custom:<name>`, `custom:<name>`).
import { CUSTOM_TYPE_NAME, matches } from "../names.ts";

export type Kind = {
  /** Last path segment of the report operation (wire-contract 6.1). */
  readonly segment: string;
  /** Word in templates, policies and filters; null for overrides, which no template can ask for. */
  readonly word: string | null;
  /** Stored `attestation_type`; null for custom, whose label carries the type's name. */
  readonly label: string | null;
};

/** Every kind, in the order in which the texts of refusals list the words. */
export const KINDS: readonly Kind[] = [
  { segment: "generic", word: "generic", label: "generic" },
  { segment: "junit", word: "junit", label: "junit" },
  { segment: "snyk", word: "snyk", label: "snyk" },
  { segment: "pull_request", word: "pull_request", label: "pull_request" },
  { segment: "jira", word: "jira", label: "jira" },
  { segment: "sonar", word: "sonar", label: "sonar" },
  { segment: "system", word: "decision", label: "system:decision" },
  { segment: "custom", word: "custom", label: null },
  { segment: "override", word: null, label: "override" },
];

/** The words for built-in types that stand alone in templates, policies and filters. */
export const BUILT_IN_WORDS: readonly string[] = KINDS.flatMap((kind) =>
  kind.word === null || kind.word === "custom" ? [] : [kind.word],
);

/** Accepts any type, in templates and policies (semantics 2.1, 5.1). */
export const ANY_TYPE = "*";

/** Stored label of decisions (semantics 3.3). */
export const DECISION_LABEL = "system:decision";

/** Pattern of `custom:<name>`; part of TYPE_WORD and of the served schemas. */
export const CUSTOM_TYPE_WORD = CUSTOM_TYPE_NAME.replace("^", "^custom:");

/** Pattern of every word for a type that a template or policy may name, `*` included (semantics 2.1). */
export const TYPE_WORD = String.raw`^(?:${BUILT_IN_WORDS.join("|")}|\*|${CUSTOM_TYPE_WORD.slice(1, -1)})$`;

/** Pattern of the words of filters: those for types, and overrides under their own. */
export const FILTER_WORD = String.raw`^(?:${BUILT_IN_WORDS.join("|")}|override|${CUSTOM_TYPE_WORD.slice(1, -1)})$`;

/** The same for people: `'generic', ... or '*'`, as a refusal lists it (messages 2). */
export const TYPE_WORDS_TEXT = `${[...BUILT_IN_WORDS, "custom:<type-name>"].map((word) => `'${word}'`).join(", ")} or '${ANY_TYPE}'`;

/** Whether a template or policy may name this type: a built-in word, `custom:` with a well-formed name, or `*`. */
export function isTypeWord(text: string): boolean {
  return matches(TYPE_WORD, text);
}

/** Whether a list may be filtered by this type: as isTypeWord, without `*` (wire-contract 6.2). */
export function isFilterWord(text: string): boolean {
  return text !== ANY_TYPE && isTypeWord(text);
}

/**
 * Pattern of what an override may name as the original's type: a built-in word, `custom`, `custom:` or `system:`
 * followed by anything (semantics 3.6).
 */
export const ORIGINAL_TYPE = `^(${BUILT_IN_WORDS.join("|")}|custom|custom:.*|system:.*)$`;

/**
 * The stored label of a type word: `decision` becomes `system:decision`, every other word is its own label. An
 * override's word for its original goes through here too, so that status entries show one spelling.
 */
export function storedLabelOf(word: string): string {
  return word === "decision" ? DECISION_LABEL : word;
}

/** The inverse of storedLabel: the word under which templates, policies and filters know a stored label. */
export function typeWordOf(label: string): string {
  return label === DECISION_LABEL ? "decision" : label;
}

/** The stored label of an attestation of the custom type `name`. */
export function customLabelOf(name: string): string {
  return `custom:${name}`;
}
