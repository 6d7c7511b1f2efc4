/** The tab with the template of a flow: its text, and the form that replaces it. */
import { createFlowWithTemplate } from "../../../api/flows/flows.ts";
import { sourceCode } from "../../components/code.ts";
import { formOf, textArea } from "../../components/forms.ts";
import { card, linkButton, padded } from "../../components/layout.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import type { Flow } from "./flow-trails.ts";

export function templateTab(visit: Visit, flow: Flow): Html {
  const { query, here, may, refused } = visit;
  const isEdited = may(createFlowWithTemplate) && (query.get("ask") === "edit" || refused?.form === "template");
  if (isEdited) return editor(visit, flow);
  const edit =
    may(createFlowWithTemplate) &&
    html`<span class="right">${linkButton(here({ ask: "edit" }), "Edit", { icon: "pencil", kind: "small" })}</span>`;
  return card({
    id: "h-template",
    title: "template.yml",
    note: "what every trail has to prove",
    more: edit,
    body: sourceCode({ text: flow.template, label: `Template of ${flow.name}` }),
    foot: "Trails that exist keep the template that they began with, unless they inherit this one.",
  });
}

function editor(visit: Visit, flow: Flow): Html {
  const problems = visit.refused?.form === "template" ? visit.refused.problems : [];
  const typed = visit.refused?.fields.text("template_file") ?? "";
  const marked =
    problems.length > 0 &&
    card({
      id: "h-problems",
      title: "What is wrong",
      body: sourceCode({
        text: typed,
        label: "The text with its problems",
        messages: problems.map(({ line, column, message }) => ({
          line,
          text: html`<b>Line ${line}, column ${column}</b> ${message}`,
        })),
      }),
    });
  const fields = textArea(visit, {
    form: "template",
    name: "template_file",
    label: "Template",
    value: flow.template,
    rows: 24,
    isMono: true,
    isRequired: true,
    hint: "YAML. New trails of the flow begin with it; trails that inherit the flow's template are re-evaluated.",
  });
  const cancel = visit.here({ ask: null });
  const form = formOf(visit, { name: "template", submit: "Save template", fields, cancel });
  return html`${marked}${card({ id: "h-edit", title: "template.yml", body: padded(form) })}`;
}
