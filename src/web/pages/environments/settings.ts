/** The tab with what can be changed about an environment. */
import { archiveEnv, renameEnvironment, updateEnv } from "../../../api/environments/environments.ts";
import { allowArtifact } from "../../../api/environments/allowlists.ts";
import { patchTags } from "../../../api/tags.ts";
import { formOf, textField } from "../../components/forms.ts";
import { askPreview, impactPanel, submitText } from "../../components/impact.ts";
import { card, linkButton, padded } from "../../components/layout.ts";
import { tagEditor, tagForms } from "../../components/tags.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { form } from "../../page/page.ts";
import type { Form, Visit } from "../../page/page.ts";
import { allowForm, allowlistCard, asksToAllow, asksToDisallow, disallowForm } from "./allowlist.ts";
import { asksForMembers, membersCard } from "./members.ts";
import type { ShownEnvironment } from "./types.ts";

const nameOf = ({ params }: Visit): string => params["env"] ?? "";
const settingsOf = (visit: Visit): string => visit.to.environment(nameOf(visit), { tab: "settings" });

export const settingsForms: Readonly<Record<string, Form>> = {
  describe: form(updateEnv, async (visit, fields) => {
    await visit.call(updateEnv, {
      params: { env_name: nameOf(visit) },
      body: { description: fields.text("description").trim() },
    });
    return { go: settingsOf(visit), done: "saved" };
  }),
  rename: form(renameEnvironment, async (visit, fields) => {
    const name = fields.text("new_name").trim();
    await visit.call(renameEnvironment, { params: { env_name: nameOf(visit) }, body: { new_name: name } });
    return { go: visit.to.environment(name, { tab: "settings" }), done: "renamed" };
  }),
  archive: form(archiveEnv, async (visit) => {
    await visit.call(archiveEnv, { params: { env_name: nameOf(visit) } });
    return { go: visit.to.environments(), done: "archived" };
  }),
  ...tagForms("environment", (visit) => ({ id: nameOf(visit), back: settingsOf(visit) })),
};

export async function environmentSettings(visit: Visit, environment: ShownEnvironment): Promise<Html> {
  const { may, query, refused } = visit;
  if (may(archiveEnv) && (query.get("ask") === "archive" || refused?.form === "archive"))
    return await askArchive(visit, environment);
  const isLogical = environment.type === "logical";
  if (isLogical && may(updateEnv) && asksForMembers(visit)) return await membersCard(visit, environment);
  if (!isLogical && may(allowArtifact) && asksToAllow(visit)) return await allowForm(visit, environment);
  if (!isLogical && may(allowArtifact) && asksToDisallow(visit)) return await disallowForm(visit, environment);
  return html`${may(updateEnv) && describe(visit, environment)}
${may(updateEnv) && isLogical && (await membersCard(visit, environment))}
${!isLogical && may(allowArtifact) && (await allowlistCard(visit, environment))}
${may(patchTags) && card({ id: "h-tags", title: "Tags", body: tagEditor(visit, environment.tags) })}
${may(renameEnvironment) && rename(visit, environment)}${may(archiveEnv) && archive(visit)}`;
}

function describe(visit: Visit, { description }: ShownEnvironment): Html {
  const fields = textField(visit, {
    form: "describe",
    name: "description",
    label: "Description",
    value: description,
    of: updateEnv,
    hint: "For people: what it is for, who looks after it.",
  });
  return card({
    id: "h-describe",
    title: "Description",
    body: padded(formOf(visit, { name: "describe", submit: "Save", fields })),
  });
}

function rename(visit: Visit, { name }: ShownEnvironment): Html {
  const fields = textField(visit, {
    form: "rename",
    name: "new_name",
    label: "New name",
    value: name,
    of: renameEnvironment,
    hint: "Reporters that use the old name keep working until another environment takes it.",
  });
  const body = padded(formOf(visit, { name: "rename", submit: "Rename", isSecondary: true, fields }));
  return card({ id: "h-rename", title: "Name", body });
}

const archive = ({ here }: Visit): Html =>
  card({
    id: "h-archive",
    title: "Archive",
    body: padded(html`<p class="gap-b">An archived environment leaves the lists and the logical environments that
include it. Its
snapshots stay readable under another name, and its present name can be used again.</p>${linkButton(
      here({ ask: "archive" }),
      "Archive this environment",
      { icon: "archive", kind: "danger" },
    )}`),
  });

async function askArchive(visit: Visit, { name }: ShownEnvironment): Promise<Html> {
  const preview = await askPreview(visit, { archive_environment: { environment: name } });
  const isMember = "failed" in preview || preview.logical_environments.length > 0;
  const fields = html`<p><b><bdi>${name}</bdi></b> leaves the lists and the logical environments that include it, and
nothing can
be reported to it any more. Its snapshots stay readable. Actions of this environment alone are deleted.</p>`;
  return card({
    id: "h-archive",
    title: "Archive this environment?",
    body: padded(
      formOf(visit, {
        name: "archive",
        submit: isMember ? submitText("Archive", preview) : "Archive this environment",
        isDanger: true,
        cancel: visit.here({ ask: null }),
        fields,
        ...(isMember && {
          within: (buttons) =>
            impactPanel(visit, { id: "h-impact", title: html`If you archive <bdi>${name}</bdi>`, preview, buttons }),
        }),
      }),
    ),
  });
}
