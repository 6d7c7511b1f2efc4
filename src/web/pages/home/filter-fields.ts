/** Fields of a filter with what is wrong at each of them. */
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import { inWords } from "../../page/field-words.ts";
import { icon } from "../../components/icon.ts";

export type FieldChoice = { value: string; text: string };

const errorOf = (name: string, problem: string | undefined): Html | null =>
  problem === undefined
    ? null
    : html`<p class="field-error" id="${name}-error">${icon("alert-fill", "12")}${inWords(problem)}</p>`;
const invalid = (name: string, problem: string | undefined): Value =>
  problem !== undefined && html` aria-invalid="true" aria-describedby="${name}-error"`;

/** A list of choices; a value that is not among them is added. */
export function choiceField(
  name: string,
  label: string,
  { value, choices, problem }: { value: string; choices: readonly FieldChoice[]; problem: string | undefined },
): Html {
  const known = choices.some((choice) => choice.value === value) ? choices : [...choices, { value, text: value }];
  const options = known.map(
    (choice) =>
      html`<option value="${choice.value}"${choice.value === value && html` selected`}>${choice.text}</option>`,
  );
  return html`<span class="filter-field"><select class="field" name="${name}" aria-label="${label}"${invalid(
    name,
    problem,
  )}>${options}</select>${errorOf(name, problem)}</span>`;
}

/** A date, a time or a duration. */
export const timeField = (
  name: string,
  label: string,
  { value, placeholder, problem }: { value: string; placeholder: string; problem: string | undefined },
): Html => html`<span class="filter-field"><label class="filter-label">${label}<input class="field mono" name="${name}"
value="${value}" placeholder="${placeholder}" maxlength="100" autocomplete="off"${invalid(
  name,
  problem,
)}></label>${errorOf(name, problem)}</span>`;

/** A name that is typed. */
export const nameField = (
  name: string,
  label: string,
  { value, problem }: { value: string; problem: string | undefined },
): Html => html`<span class="filter-field"><input class="field" name="${name}" value="${value}" aria-label="${label}"
placeholder="${label}" maxlength="256" autocomplete="off" spellcheck="false"${invalid(name, problem)}>${errorOf(
  name,
  problem,
)}</span>`;
