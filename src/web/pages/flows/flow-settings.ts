/** The tab with what can be changed about a flow. */
import { archiveFlow, createFlowWithTemplate, renameFlow } from "../../../api/flows/flows.ts";
import { patchTags } from "../../../api/tags.ts";
import { formOf, hiddenField, selectField, textField } from "../../components/forms.ts";
import { askPreview, impactPanel, seenField, submitText, turnsNothing } from "../../components/impact.ts";
import { card, linkButton, padded } from "../../components/layout.ts";
import { tagChangeOf, tagEditor } from "../../components/tags.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { RefusedForm, Visit } from "../../page/page.ts";
import type { Flow } from "./flow-trails.ts";
import { VISIBILITIES } from "./flows.ts";

export async function settingsTab(visit: Visit, flow: Flow): Promise<Html> {
  const { may, query, here, refused } = visit;
  if (may(archiveFlow) && (query.get("ask") === "archive" || refused?.form === "archive"))
    return await askArchive(visit, flow);
  const isTag = refused?.form === "set_tag" || refused?.form === "remove_tag";
  if (isTag && may(patchTags) && refused.message === null && Object.keys(refused.errors).length === 0)
    return await askTags(visit, flow, refused);
  const isName = refused?.form === "rename" && refused.message === null && Object.keys(refused.errors).length === 0;
  if (isName && may(renameFlow)) return await askName(visit, flow, refused.fields.text("new_name").trim());
  return html`${may(createFlowWithTemplate) && describe(visit, flow)}
${may(patchTags) && card({ id: "h-tags", title: "Tags", body: tagEditor(visit, flow.tags, { isPreviewed: true }) })}
${may(renameFlow) && rename(visit, flow)}
${
  may(archiveFlow) &&
  card({
    id: "h-archive",
    title: "Archive",
    body: padded(html`<p class="gap-b">An archived flow leaves the lists. Its evidence stays readable under another
name, and its present name can be used again.</p>${linkButton(here({ ask: "archive" }), "Archive this flow", {
      icon: "archive",
      kind: "danger",
    })}`),
  })
}`;
}

function describe(visit: Visit, flow: Flow): Html {
  const fields = html`${textField(visit, {
    form: "describe",
    name: "description",
    label: "Description",
    value: flow.description,
  })}${selectField(visit, {
    form: "describe",
    name: "visibility",
    label: "Visibility",
    value: flow.visibility,
    choices: VISIBILITIES,
  })}`;
  return card({
    id: "h-describe",
    title: "Description and visibility",
    body: padded(formOf(visit, { name: "describe", submit: "Save", fields })),
  });
}

function rename(visit: Visit, flow: Flow): Html {
  const name = textField(visit, {
    form: "rename",
    name: "new_name",
    label: "New name",
    value: flow.name,
    of: renameFlow,
    hint: "Pipelines that report to the old name keep working until another flow takes it.",
  });
  const form = formOf(visit, {
    name: "rename",
    submit: "Rename",
    isSecondary: true,
    fields: html`${name}${seenField("")}`,
  });
  return card({ id: "h-rename", title: "Name", body: padded(form) });
}

/** Names and tags of flows count from the next report of an environment on. */
const LATER = "Environments count it with their next report.";

/** The question before tags that policies read are changed. */
async function askTags(visit: Visit, flow: Flow, { form, fields }: RefusedForm): Promise<Html> {
  const change = tagChangeOf(form, fields);
  const preview = await askPreview(visit, { tag_flow: { flow_name: flow.name, ...change } });
  const [key, value] = [fields.text("key").trim(), fields.text("value").trim()];
  const what = form === "set_tag" ? html`has the tag <b>${key}</b> ${value}` : html`has no tag <b>${key}</b>`;
  const hidden = html`${hiddenField("key", fields.text("key"))}${hiddenField("value", fields.text("value"))}`;
  const body = formOf(visit, {
    name: form,
    submit: submitText(form === "set_tag" ? "Set tag" : "Remove tag", preview),
    cancel: visit.to.flow(flow.name, { tab: "settings" }),
    fields: html`${hidden}${seenField(JSON.stringify(change))}`,
    within: (buttons) =>
      impactPanel(visit, {
        id: "h-impact",
        title: html`If <bdi>${flow.name}</bdi> ${what}`,
        preview,
        buttons,
        note: LATER,
      }),
  });
  return card({ id: "h-tags", title: "Policies read this tag", body: padded(body) });
}

/** The question before another name, which policies read as `flow.name`. */
async function askName(visit: Visit, flow: Flow, name: string): Promise<Html> {
  const preview = await askPreview(visit, { rename_flow: { flow_name: flow.name, new_name: name } });
  const body = formOf(visit, {
    name: "rename",
    submit: submitText("Rename", preview),
    cancel: visit.to.flow(flow.name, { tab: "settings" }),
    fields: html`${hiddenField("new_name", name)}${seenField(name)}`,
    within: (buttons) =>
      impactPanel(visit, {
        id: "h-impact",
        title: html`If <bdi>${flow.name}</bdi> is named <bdi>${name}</bdi>`,
        preview,
        buttons,
        note: LATER,
      }),
  });
  return card({ id: "h-rename", title: "Policies read the name", body: padded(body) });
}

async function askArchive(visit: Visit, flow: Flow): Promise<Html> {
  const preview = await askPreview(visit, { archive_flow: { flow_name: flow.name } });
  const text = html`<p><b><bdi>${flow.name}</bdi></b> leaves the lists and gets another name, and nothing can be
reported to it any more. Its trails, artifacts and evidence stay readable. Actions of this flow alone are deleted.</p>`;
  const form = formOf(visit, {
    name: "archive",
    submit: submitText("Archive this flow", preview),
    isDanger: true,
    cancel: visit.here({ ask: null }),
    fields: text,
    within: (buttons) =>
      impactPanel(visit, {
        id: "h-impact",
        title: html`If you archive <bdi>${flow.name}</bdi>`,
        preview,
        buttons,
        note: !turnsNothing(preview) && LATER,
      }),
  });
  return card({ id: "h-archive", title: "Archive this flow?", body: padded(form) });
}
