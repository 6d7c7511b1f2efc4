/** The tab with the text of a policy: an editor for those who may change it, the text for the others. */
import { putPolicy } from "../../../api/policies/policies.ts";
import { previewPolicy } from "../../../api/policies/policy-preview.ts";
import { AppError, invalid } from "../../../errors.ts";
import { sourceCode } from "../../components/code.ts";
import { policyCompletions } from "../../components/completions.ts";
import { editorForm, typedForm } from "../../components/editor.ts";
import { hiddenField, textField } from "../../components/forms.ts";
import { card, empty, padded } from "../../components/layout.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Fields } from "../../page/fields.ts";
import type { Visit } from "../../page/page.ts";
import { latestOf } from "./policy-data.ts";
import { SCHEMA_URL } from "../../../domain/policy/schema.ts";
import type { Policy } from "./policy-data.ts";
import { impact, noImpact } from "./policy-impact.ts";
import type { PreviewAnswer } from "./policy-impact.ts";

/** Name of the form, and what the editor is called. */
export const EDIT_FORM = "edit";
export const LANGUAGE = "YAML, policy schema v1";

/** For those who may only read. */
export function textTab({ now }: Visit, policy: Policy): Html {
  const latest = latestOf(policy);
  if (!latest)
    return html`<section class="card">${empty({
      icon: "law",
      title: "No text yet",
      text: "A policy without a file takes part in no evaluation.",
    })}</section>`;
  return card({
    id: "h-text",
    title: "policy.yml",
    note: html`version ${latest.version}, ${time(latest.timestamp, now)} by ${latest.created_by}`,
    body: sourceCode({ text: latest.policy_yaml, label: `Text of ${policy.name}` }),
  });
}

/** @param preview of the draft in the form; null while it was not checked */
export async function editTab(visit: Visit, policy: Policy, preview: PreviewAnswer | null): Promise<Html> {
  const latest = latestOf(policy);
  const refused = visit.refused?.form === EDIT_FORM ? visit.refused : null;
  const base = latest && { text: latest.policy_yaml, name: `v${latest.version}` };
  const users = policy.consuming_envs.length;
  const draft = {
    text: refused?.fields.text("policy_file") ?? "",
    base: base?.text ?? "",
    baseName: base?.name ?? "nothing",
  };
  return editorForm(visit, {
    form: EDIT_FORM,
    field: "policy_file",
    title: "policy.yml",
    label: `Text of ${policy.name}`,
    value: latest?.policy_yaml ?? EXAMPLE_POLICY,
    problems: refused?.problems ?? [],
    base,
    completions: await policyCompletions(visit),
    language: LANGUAGE,
    below: noteFields(visit, policy),
    buttons: {
      submit: `Save as version ${(latest?.version ?? 0) + 1}`,
      cancel: refused && { href: visit.to.policy(policy.name), text: "Discard" },
    },
    result: preview ? impact(visit, preview, base && draft) : noImpact(users),
  });
}

function noteFields(visit: Visit, policy: Policy): Html {
  const fields = html`${hiddenField("base", String(latestOf(policy)?.version ?? 0))}${textField(visit, {
    form: EDIT_FORM,
    name: "comment",
    label: "Comment",
    of: putPolicy,
    hint: "What changed, and why. The versions of the policy show it.",
  })}${textField(visit, {
    form: EDIT_FORM,
    name: "description",
    label: "Description of the policy",
    of: putPolicy,
    hint: "What the policy is for",
    value: policy.description,
  })}`;
  return card({
    id: "h-note",
    title: "Note for the history",
    body: padded(html`<div class="form">${fields}</div>`),
  });
}

/** A policy to begin with. */
export const EXAMPLE_POLICY = `_schema: ${SCHEMA_URL}
artifacts:
  provenance:
    required: true
  attestations:
    - type: junit
      name: unit-tests
`;

/**
 * Checks the draft in a form, and returns the page's visit with it. Its refusals name the fields of the form.
 * @throws AppError as previewPolicy does
 */
export async function checkDraft(
  visit: Visit,
  fields: Fields,
  { form, body }: { form: string; body: { policy_name?: string; environments?: string[] } },
): Promise<{ typed: Visit; preview: PreviewAnswer }> {
  try {
    const preview = await visit.call(previewPolicy, { body: { ...body, policy_yaml: fields.text("policy_file") } });
    const { problems, warnings } = preview;
    return { typed: typedForm(visit, form, { fields, problems, warnings }), preview };
  } catch (error) {
    if (!(error instanceof AppError) || error.fields === null) throw error;
    const { policy_yaml, ...rest } = error.fields;
    throw policy_yaml === undefined ? error : invalid({ ...rest, policy_file: policy_yaml });
  }
}

/**
 * Stores the draft as the next version. A version that was stored since the page was opened is not replaced unseen: the
 * form is shown again, with the changes compared to that one.
 * @throws AppError conflict; as putPolicy does
 */
export async function storeDraft(
  { call }: Visit,
  policy: Policy,
  fields: Fields,
): Promise<"version_saved" | "saved" | "unchanged"> {
  const latest = latestOf(policy);
  const text = fields.text("policy_file");
  if (latest && String(latest.version) !== fields.text("base"))
    throw new AppError(
      "conflict",
      `${latest.created_by} stored version ${latest.version} meanwhile, and your draft is not stored. Compare them ` +
        "with the preview; saving again replaces that version",
    );
  const after = await call(putPolicy, {
    body: { name: policy.name, description: fields.text("description"), comment: fields.text("comment") },
    // Forms end lines with a line feed alone: a text that differs in its line ends only is the same draft.
    ...(latest && latest.policy_yaml.replace(/\r\n?/g, "\n") === text
      ? {}
      : { file: { filename: "policy.yml", text } }),
  });
  if (after.versions.length > policy.versions.length) return "version_saved";
  return after.description === policy.description ? "unchanged" : "saved";
}
