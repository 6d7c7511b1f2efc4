/** States of records: always an icon, a word and a colour together, so that none of them carries the meaning alone. */
import { html } from "../html.ts";
import type { Html } from "../html.ts";
import { icon } from "./icon.ts";
import type { IconName } from "./icon.ts";

/** The kinds of states that the interface knows. */
export type ShownState =
  | "compliant"
  | "non_compliant"
  | "incomplete"
  | "missing"
  | "unknown"
  | "allowlisted"
  | "not_applicable";

type Look = { icon: IconName; colour: string; word: string };

const LOOKS: Readonly<Record<ShownState, Look>> = {
  compliant: { icon: "check-circle-fill", colour: "ok", word: "Compliant" },
  non_compliant: { icon: "x-circle-fill", colour: "bad", word: "Non-compliant" },
  incomplete: { icon: "hourglass", colour: "wait", word: "Incomplete" },
  missing: { icon: "circle", colour: "none", word: "Missing" },
  unknown: { icon: "question", colour: "none", word: "Unknown" },
  allowlisted: { icon: "shield-check", colour: "allow", word: "Allowlisted" },
  not_applicable: { icon: "skip", colour: "none", word: "Does not apply" },
};

/** The state that a word of the API means: COMPLIANT, NON-COMPLIANT, INCOMPLETE; anything else is unknown. */
export function stateOf(word: string | null | undefined): ShownState {
  const known: Readonly<Record<string, ShownState>> = {
    COMPLIANT: "compliant",
    "NON-COMPLIANT": "non_compliant",
    NON_COMPLIANT: "non_compliant",
    INCOMPLETE: "incomplete",
    MISSING: "missing",
    ALLOWLISTED: "allowlisted",
  };
  return known[(word ?? "").toUpperCase().replaceAll(" ", "-")] ?? "unknown";
}

/** The state of a verdict; null: nothing is known, which is never compliant. */
export const stateOfVerdict = (isCompliant: boolean | null | undefined): ShownState =>
  isCompliant === true ? "compliant" : isCompliant === false ? "non_compliant" : "unknown";

/** The word of a state. */
export const stateWord = (state: ShownState): string => LOOKS[state].word;

/** A tinted badge. One in a row; `isLarge` beside the title of a page. `word` replaces the word, not the icon. */
export function badge(state: ShownState, { word, isLarge = false }: { word?: string; isLarge?: boolean } = {}): Html {
  const look = LOOKS[state];
  return html`<span class="badge ${isLarge && "badge-l "}${look.colour}">${icon(look.icon)}${word ?? look.word}</span>`;
}

/** The same without a tint, for dense places. */
export function plainState(state: ShownState, word?: string): Html {
  const look = LOOKS[state];
  return html`<span class="st ${look.colour}">${icon(look.icon)}${word ?? look.word}</span>`;
}

/**
 * The icon of a state in front of a row; the word must follow in the row.
 * @param word what screen readers say instead of the usual word
 */
export function stateIcon(state: ShownState, word: string = stateWord(state)): Html {
  const look = LOOKS[state];
  return html`<span class="st-i ${look.colour}" role="img" aria-label="${word}">${icon(look.icon)}</span>`;
}

/** The word of a state below a name: coloured only where something is wrong or missing. */
export function stateSubtitle(state: ShownState, word: string = stateWord(state)): Html {
  const isNoteworthy = state === "non_compliant" || state === "missing" || state === "incomplete";
  return isNoteworthy ? html`<span class="strong ${LOOKS[state].colour}">${word}</span>` : html`<span>${word}</span>`;
}

/** Something that is not a verdict: a role, a version, "latest", "overridden". */
export const tag = (text: string, icons: IconName | null = null): Html =>
  html`<span class="tag">${icons && icon(icons, "12")}${text}</span>`;

/** A number beside a heading. @param most a larger number is said to be more than it @param title what is counted */
export const count = (
  value: number,
  { isBad = false, most = Number.POSITIVE_INFINITY, title }: { isBad?: boolean; most?: number; title?: string } = {},
): Html =>
  html`<span class="count${isBad && " bad"}"${title !== undefined && html` title="${title}"`}>${
    value > most ? `${formatNumber(most)}+` : formatNumber(value)
  }</span>`;

/** A number with separators of thousands: 12,345. */
export const formatNumber = (value: number): string => value.toLocaleString("en-US");
/** `1 commit`, `2 commits`. */
export const plural = (number: number, word: string): string =>
  `${formatNumber(number)} ${word}${number === 1 ? "" : "s"}`;

/** A verdict before and after. @param word in place of that of the latter */
export const flip = (before: string, after: string, word?: string): Html =>
  html`<div class="flip">${plainState(stateOf(before))}${icon("arrow-right")}${plainState(stateOf(after), word)}</div>`;

/** The same, or one verdict where it stays. */
export const turned = ({ before, after }: { before: string; after: string }): Html =>
  before === after ? html`<div class="flip">${plainState(stateOf(after))}</div>` : flip(before, after);
