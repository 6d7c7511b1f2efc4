/** The tab with what can be changed about a flow. */
import { archiveFlow, createFlowWithTemplate, renameFlow } from "../../../api/flows/flows.ts";
import { patchTags } from "../../../api/tags.ts";
import { formOf, selectField, textField } from "../../components/forms.ts";
import { card, linkButton, padded } from "../../components/layout.ts";
import { tagEditor } from "../../components/tags.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import type { Flow } from "./flow-trails.ts";
import { VISIBILITIES } from "./flows.ts";

export function settingsTab(visit: Visit, flow: Flow): Html {
  const { may, query, here, refused } = visit;
  if (may(archiveFlow) && (query.get("ask") === "archive" || refused?.form === "archive"))
    return askArchive(visit, flow);
  return html`${may(createFlowWithTemplate) && describe(visit, flow)}
${may(patchTags) && card({ id: "h-tags", title: "Tags", body: tagEditor(visit, flow.tags) })}
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
    title: "Description",
    body: padded(formOf(visit, { name: "describe", submit: "Save", fields })),
  });
}

function rename(visit: Visit, flow: Flow): Html {
  const fields = textField(visit, {
    form: "rename",
    name: "new_name",
    label: "New name",
    value: flow.name,
    of: renameFlow,
    hint: "Pipelines that report to the old name keep working until another flow takes it.",
  });
  const form = formOf(visit, { name: "rename", submit: "Rename", fields });
  return card({ id: "h-rename", title: "Name", body: padded(form) });
}

function askArchive(visit: Visit, flow: Flow): Html {
  const text = html`<p><b><bdi>${flow.name}</bdi></b> leaves the lists, and nothing can be reported to it any more. Its
trails, artifacts and evidence stay readable. Actions of this flow alone are deleted.</p>`;
  const form = formOf(visit, {
    name: "archive",
    submit: "Archive this flow",
    isDanger: true,
    cancel: visit.here({ ask: null }),
    fields: text,
  });
  return card({ id: "h-archive", title: "Archive this flow?", body: padded(form) });
}
