/** The form of an attestation type: its definition, data to try it on, and what the definition says about the data. */
import { JQ_VERSION } from "../../../domain/attestation/custom.ts";
import { postCustomAttestationType } from "../../../api/attestations/custom-attestation-types.ts";
import { inlineText } from "../../components/loose-json.ts";
import { formOf, textArea, textField } from "../../components/forms.ts";
import { card, facts, padded, reasonsBox } from "../../components/layout.ts";
import { plainState } from "../../components/state.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import { RULES_FIELD, joinRules, summaryRows } from "./attestation-type-fields.ts";
import type { TryAnswer } from "./attestation-type-fields.ts";

export type Tried = { answer: TryAnswer; hasData: boolean };

export type Initial = {
  description: string;
  schema: string;
  rules: readonly string[];
  summary: readonly { name: string; expression: string }[];
};

/** A definition to begin with. */
export const EXAMPLE: Initial = {
  description: "",
  schema: JSON.stringify(
    {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      required: ["percent"],
      properties: { percent: { type: "number", minimum: 0, maximum: 100 } },
    },
    null,
    2,
  ),
  rules: [".percent >= 80"],
  summary: [{ name: "Coverage", expression: '"\\(.percent) %"' }],
};

type FormOptions = {
  form: "create" | "version";
  submit: string;
  cancel: string;
  initial: Initial;
  tried: Tried | null;
};

/** The form. A new type has a name as well. */
export function definitionForm(visit: Visit, { form, submit, cancel, initial, tried }: FormOptions): Html {
  const name =
    form === "create" &&
    textField(visit, {
      form,
      name: "name",
      label: "Name",
      of: postCustomAttestationType,
      hint: "Pipelines report it as custom:NAME. It cannot be changed.",
      isRequired: true,
      placeholder: "coverage",
      autocomplete: "off",
    });
  const description = { form, name: "description", label: "Description", of: postCustomAttestationType };
  const definition = html`${name}${textField(visit, {
    ...description,
    value: initial.description,
    hint: "What the data is about",
  })}${textArea(visit, {
    form,
    name: "type_schema",
    label: "JSON Schema",
    value: initial.schema,
    rows: 10,
    isMono: true,
    hint: "Data that does not match it is refused. Draft-07 or 2020-12; empty: any JSON is accepted.",
  })}${textArea(visit, {
    form,
    name: RULES_FIELD,
    label: "Rules",
    value: joinRules(initial.rules),
    rows: 4,
    isMono: true,
    hint: html`One expression of jq ${JQ_VERSION} a line; an indented line continues the one above. Data is compliant if
      each rule gives exactly one output, the value true. Without rules, all data that matches the schema is
      compliant.`,
  })}${summaryFields(visit, form, initial)}`;
  const fields = html`${definition}${tryFields(visit, form, tried)}`;
  return card({
    id: "h-form",
    title: "Definition",
    body: padded(formOf(visit, { name: form, submit, fields, cancel })),
  });
}

/** Label and expression of each row, and room for two more. */
function summaryFields(visit: Visit, form: string, { summary }: Initial): Html {
  const refused = visit.refused?.form === form ? visit.refused : null;
  const last = refused ? (summaryRows(refused.fields).at(-1)?.at ?? -1) + 1 : summary.length;
  const rows = Array.from({ length: Math.min(last + 2, 100) }, (_, at) => {
    const number = at + 1;
    const label = textField(visit, {
      form,
      name: `summary.${at}.name`,
      label: `Label ${number}`,
      value: summary[at]?.name ?? "",
      autocomplete: "off",
    });
    const expression = textField(visit, {
      form,
      name: `summary.${at}.expression`,
      label: `Expression ${number}`,
      value: summary[at]?.expression ?? "",
      isMono: true,
      autocomplete: "off",
    });
    return html`<div class="summary-row">${label}${expression}</div>`;
  });
  return html`<fieldset class="form-part"><legend>Summary</legend>
<p class="hint">Rows that people see first: a label, and a jq expression for its value.</p>${rows}</fieldset>`;
}

function tryFields(visit: Visit, form: string, tried: Tried | null): Html {
  const button = html`<button class="btn" type="submit" name="try" value="yes" formnovalidate>Try</button>`;
  return html`<fieldset class="form-part form-try"><legend>Try it before it is stored</legend>
${textArea(visit, {
  form,
  name: "attestation_data",
  label: "Data",
  rows: 6,
  isMono: true,
  hint: "JSON as a pipeline would report it. Nothing of it is stored.",
})}<div class="form-do">${button}</div>${tried && tryResult(tried)}</fieldset>`;
}

/** What the definition says about the data. It takes the focus, so that it is seen and read aloud. */
function tryResult({ answer, hasData }: Tried): Html {
  const { is_compliant: isCompliant, mismatch, rules, summary } = answer;
  const parts: Html[] = [];
  if (mismatch !== null)
    parts.push(
      reasonsBox({ title: "The data does not match the schema: a report would be refused", reasons: [mismatch] }),
    );
  else if (!hasData) parts.push(reasonsBox({ state: "ok", title: "Schema, rules and summary compile", reasons: [] }));
  else
    parts.push(
      reasonsBox({
        state: isCompliant === true ? "ok" : "bad",
        title: isCompliant === true ? "A report of this data is compliant" : "A report of this data is non-compliant",
        reasons: [],
      }),
    );
  if (rules.length > 0)
    parts.push(
      html`<h3>Rules</h3><ul class="rows rows-tried">${rules.map(
        ({ rule, is_compliant: holds, reason }) =>
          html`<li>${plainState(holds ? "compliant" : "non_compliant", holds ? "True" : "Not true")}<div class="grow">
<code>${rule}</code>${reason !== null && html`<div class="sub">The rule ${reason}.</div>`}</div></li>`,
      )}</ul>`,
    );
  const groups = summary?.groups ?? [];
  if (groups.length > 0)
    parts.push(
      html`<h3>Summary</h3>${groups
        .slice(0, MAX_GROUPS)
        .map((group) =>
          facts(
            group.map(({ name, value, error }) => [
              name,
              error === null ? inlineText(value) : html`<span class="muted">${error}</span>`,
            ]),
          ),
        )}`,
    );
  return html`<div class="try-result" tabindex="-1" autofocus role="status">${parts}</div>`;
}

/** Elements of an array whose summaries are shown. */
const MAX_GROUPS = 10;
