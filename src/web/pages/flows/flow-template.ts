/** The tab with the template of a flow: its text, and the editor that replaces it. */
import { createFlowWithTemplate } from "../../../api/flows/flows.ts";
import { previewTemplate } from "../../../api/flows/template-preview.ts";
import { AppError, invalid } from "../../../errors.ts";
import type { SourceProblem } from "../../../errors.ts";
import { sourceCode } from "../../components/code.ts";
import { templateCompletions } from "../../components/completions.ts";
import { draftDiff } from "../../components/diff.ts";
import type { Draft } from "../../components/diff.ts";
import { editorForm, editorResult, isChecked, previewButton, typedForm, warningList } from "../../components/editor.ts";
import { icon } from "../../components/icon.ts";
import { askPreview } from "../../components/impact.ts";
import { card, linkButton, padded } from "../../components/layout.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Fields } from "../../page/fields.ts";
import type { Visit } from "../../page/page.ts";
import type { Flow } from "./flow-trails.ts";
import { nextTrailsCard } from "./next-trails.ts";

export const TEMPLATE_LANGUAGE = "YAML, template version 1";

/** What a new template turns (semantics 2.3): nothing, so a preview is about the trails that begin next. */
const KEPT =
  "Trails that exist keep the template that they began with. " +
  "One that is begun again takes this one, unless it has its own.";

/** Whether the tab shows the editor. */
export const editsTemplate = ({ query, may, refused }: Visit): boolean =>
  may(createFlowWithTemplate) && (query.get("ask") === "edit" || refused?.form === "template");

export async function templateTab(visit: Visit, flow: Flow): Promise<Html> {
  const { here, may } = visit;
  if (editsTemplate(visit)) return editor(visit, flow);
  const edit =
    may(createFlowWithTemplate) &&
    html`<span class="right">${linkButton(here({ ask: "edit" }), "Edit", { icon: "pencil", kind: "small" })}</span>`;
  return card({
    id: "h-template",
    title: "template.yml",
    note: "what every trail has to prove",
    more: edit,
    body: sourceCode({ text: flow.template, label: `Template of ${flow.name}` }),
    foot: KEPT,
  });
}

async function editor(visit: Visit, flow: Flow): Promise<Html> {
  const refused = visit.refused?.form === "template" ? visit.refused : null;
  const problems = refused?.problems ?? [];
  const checked = isChecked(refused);
  const draft = {
    text: refused?.fields.text("template_file") ?? "",
    base: flow.template,
    baseName: "the present template",
  };
  const next =
    checked && problems.length === 0
      ? nextTrailsCard(
          visit,
          await askPreview(visit, { edit_template: { flow_name: flow.name, template_file: draft.text } }),
        )
      : null;
  return editorForm(visit, {
    form: "template",
    field: "template_file",
    title: "template.yml",
    label: `Template of ${flow.name}`,
    value: flow.template,
    problems,
    base: { text: flow.template, name: "the present template" },
    completions: await templateCompletions(visit),
    language: TEMPLATE_LANGUAGE,
    result: checked
      ? templateResult({ problems, warnings: refused?.warnings ?? [] }, draft, next)
      : noTemplateResult(`Saving turns no verdict. ${KEPT}`),
    buttons: { submit: "Save template", cancel: { href: visit.here({ ask: null }), text: "Cancel" } },
  });
}

const checkCard = (body: Html): Html =>
  card({
    id: "h-check",
    title: "Check",
    more: html`<span class="right">${previewButton("Check", "small")}</span>`,
    body: padded(body),
  });

/** Before a draft was checked. @param consequence what saving it turns */
export const noTemplateResult = (consequence = ""): Html =>
  editorResult(
    checkCard(html`<p class="muted">New trails of the flow begin with the template. ${consequence} A check stores
nothing.</p>`),
  );

/** After a draft was checked. @param draft null for the template of a new flow; @param next what it would turn */
export function templateResult(
  { problems, warnings }: { problems: readonly SourceProblem[]; warnings: readonly SourceProblem[] },
  draft: Draft | null,
  next: Html | null = null,
): Html {
  const count = problems.length === 1 ? "an error" : `${problems.length} errors`;
  const body =
    problems.length === 0
      ? html`<div class="why why-none">${icon("info")}<div data-draft-note>The template has no errors. Nothing is
stored.</div></div>${warningList(warnings)}${
          draft && html`<p class="gap-t muted">Saving turns no verdict. ${KEPT}</p>`
        }`
      : html`<div class="why why-wait">${icon("alert")}<div data-draft-note>The template has ${count}. Nothing is
stored.</div></div>`;
  return editorResult(html`${checkCard(body)}${next}${draft && draftDiff(draft)}`, { problems, warnings });
}

/**
 * Checks the template in a form, and returns the visit with its problems. Its refusals name the field of the form.
 * @throws AppError as previewTemplate does
 */
export async function checkTemplate(visit: Visit, fields: Fields, form: string): Promise<Visit> {
  try {
    const { problems, warnings } = await visit.call(previewTemplate, {
      body: { template_yaml: fields.text("template_file") },
    });
    return typedForm(visit, form, { fields, problems, warnings });
  } catch (error) {
    if (!(error instanceof AppError) || error.fields?.["template_yaml"] === undefined) throw error;
    throw invalid({ template_file: error.fields["template_yaml"] });
  }
}
