/** Several boxes to check that belong together. */
import { html } from "../html.ts";
import type { Html, Value } from "../html.ts";
import type { Visit } from "../page/page.ts";
import { checkbox, hiddenField } from "./forms.ts";
import { icon } from "./icon.ts";

/** @param name of the field in the operation, which takes the list of what is checked */
export function checkboxGroup(
  visit: Pick<Visit, "refused">,
  {
    form,
    name,
    legend,
    hint,
    choices,
    checked,
  }: {
    form: string;
    name: string;
    legend: string;
    hint?: Value;
    choices: readonly { value: string; text: string; hint?: Value }[];
    checked: readonly string[];
  },
): Html {
  const error = visit.refused?.form === form ? (visit.refused.errors[name] ?? null) : null;
  const id = `${form}-${name}`;
  const described = [hint && `${id}-hint`, error !== null && `${id}-error`].filter(Boolean).join(" ");
  const boxes = choices.map(({ value, text, hint: note }) =>
    checkbox(visit, {
      form,
      name,
      label: text,
      value,
      hint: note,
      isChecked: checked.includes(value),
      isInvalid: error !== null,
    }),
  );
  // A browser sends nothing for a box that is not checked: with the hidden field, the error has its place.
  return html`<fieldset class="check-group"${described !== "" && html` aria-describedby="${described}"`}><legend>${
    legend
  }</legend>${hiddenField(name, "")}<div class="checks">${boxes}</div>${
    error !== null && html`<p class="field-error" id="${id}-error">${icon("alert-fill", "12")}${error}</p>`
  }${hint && html`<p class="hint" id="${id}-hint">${hint}</p>`}</fieldset>`;
}
