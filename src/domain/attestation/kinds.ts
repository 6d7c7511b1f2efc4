// The kinds of attestations and their names. A kind has up to three spellings, which must not be mixed: the path
// segment to which reports are posted, the word in templates, policies and filters, and the label that is stored and
// returned as `attestation_type`. They differ for decisions (`system`, `decision`, `system:decision`), SBOMs (`system`,
// `sbom`, `system:sbom`) and custom types (`custom`, `custom:<name>`, `custom:<name>`). Wherever a word is asked for,
// the label is accepted too, because clients send back what they read.
import { CUSTOM_TYPE_NAME, matches } from "../names.ts";

type Kind = {
  /** Last path segment of the report operation (wire-contract 6.1). */
  readonly segment: string;
  /** Word in templates, policies and filters; null for overrides, which no template can require. */
  readonly word: string | null;
  /** Stored `attestation_type`; null for custom, whose label contains the name of the type. */
  readonly label: string | null;
};

/** Every kind, in the order in which refusals list the words. */
export const KINDS: readonly Kind[] = [
  { segment: "generic", word: "generic", label: "generic" },
  { segment: "junit", word: "junit", label: "junit" },
  { segment: "snyk", word: "snyk", label: "snyk" },
  { segment: "pull_request", word: "pull_request", label: "pull_request" },
  { segment: "jira", word: "jira", label: "jira" },
  { segment: "sonar", word: "sonar", label: "sonar" },
  { segment: "system", word: "decision", label: "system:decision" },
  { segment: "system", word: "sbom", label: "system:sbom" },
  { segment: "custom", word: "custom", label: null },
  { segment: "override", word: null, label: "override" },
];

/** The words of the built-in types in templates, policies and filters. */
const BUILT_IN_WORDS: readonly string[] = KINDS.flatMap((kind) =>
  kind.word === null || kind.word === "custom" ? [] : [kind.word],
);

/** The labels that differ from the words of their kinds: those of the kinds that the server defines. */
const LABELS: readonly { word: string; label: string }[] = KINDS.flatMap(({ word, label }) =>
  word === null || label === null || label === word ? [] : [{ word, label }],
);
/** As LABELS, without the words. */
export const SYSTEM_LABELS: readonly string[] = LABELS.map(({ label }) => label);

/** What templates, policies and filters accept besides custom types. */
const ACCEPTED_WORDS = [...BUILT_IN_WORDS, ...SYSTEM_LABELS];

/** The word that accepts any type, in templates and policies (semantics 2.1, 5.1). */
export const ANY_TYPE = "*";

/** Stored labels of decisions and SBOMs (semantics 3.3). */
export const DECISION_LABEL = "system:decision";
export const SBOM_LABEL = "system:sbom";

/** Pattern of `custom:<name>`; part of TYPE_WORD and of the served schemas. */
const CUSTOM_TYPE_WORD = CUSTOM_TYPE_NAME.replace("^", "^custom:");

/** Pattern of every type word that a template or policy may use, including `*` (semantics 2.1). */
export const TYPE_WORD = String.raw`^(?:${ACCEPTED_WORDS.join("|")}|\*|${CUSTOM_TYPE_WORD.slice(1, -1)})$`;

/** Pattern of the type words in filters: those of types without `*`, and `override`. */
export const FILTER_WORD = `^(?:${ACCEPTED_WORDS.join("|")}|override|${CUSTOM_TYPE_WORD.slice(1, -1)})$`;

const QUOTED_WORDS = [...BUILT_IN_WORDS, "custom:<type-name>"].map((word) => `'${word}'`);
/** TYPE_WORD for people: `'generic', ... or '*'`, as a refusal lists the words (messages 2). */
export const TYPE_WORDS_TEXT = `${QUOTED_WORDS.join(", ")} or '${ANY_TYPE}'`;

/** Whether a template or policy may use this word: a built-in word, `custom:` with a well-formed name, or `*`. */
export function isTypeWord(text: string): boolean {
  return matches(TYPE_WORD, text);
}

/** Whether a list may be filtered by this word: as isTypeWord, without `*` (wire-contract 6.2). */
export function isFilterWord(text: string): boolean {
  return text !== ANY_TYPE && isTypeWord(text);
}

/**
 * Pattern of the type that an override may give its original: a built-in word, `custom`, or `custom:` or `system:`
 * followed by anything (semantics 3.6).
 */
export const ORIGINAL_TYPE = `^(${BUILT_IN_WORDS.join("|")}|custom|custom:.*|system:.*)$`;

/**
 * The stored label of a type word: `decision` becomes `system:decision`, every other word is its own label. The type
 * that an override gives its original passes through here too, so that status entries show one spelling.
 */
export function storedLabelOf(word: string): string {
  return LABELS.find((kind) => kind.word === word)?.label ?? word;
}

/** The inverse of storedLabelOf: the word of a stored label in templates, policies and filters. */
export function typeWordOf(label: string): string {
  return LABELS.find((kind) => kind.label === label)?.word ?? label;
}

/** The family of a stored label: overrides may name it in place of the label (semantics 3.6). */
const familyOf = (label: string): string | null => /^(?:custom|system)(?=:|$)/.exec(label)?.[0] ?? null;
const isFamily = (label: string): boolean => /^(?:custom|custom:\*|system:\*)$/.test(label);

/**
 * Whether an override may call the type of its original `named` (newer-clients 2.3): the type itself, or its family.
 * Both are stored labels; the original may itself be known by its family alone, and `*` is any type.
 */
export function isOriginalType(named: string, original: string): boolean {
  if (original === ANY_TYPE || named === original) return true;
  return (isFamily(named) || isFamily(original)) && familyOf(named) !== null && familyOf(named) === familyOf(original);
}

/** The stored label of an attestation of the custom type `name`. */
export function customLabelOf(name: string): string {
  return `custom:${name}`;
}
