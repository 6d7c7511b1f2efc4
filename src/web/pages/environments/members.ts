/** The members of a logical environment: the form that changes them, after a look at what that would turn. */
import { updateEnv } from "../../../api/environments/environments.ts";
import { typedForm } from "../../components/editor.ts";
import { formOf, textArea } from "../../components/forms.ts";
import { askPreview, impactPanel, isUnseen, seenField, submitText, turnsNothing } from "../../components/impact.ts";
import { card, padded } from "../../components/layout.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Fields } from "../../page/fields.ts";
import { form } from "../../page/page.ts";
import type { Content, Form, Visit } from "../../page/page.ts";
import type { ShownEnvironment } from "./types.ts";

const namesIn = (fields: Fields): string[] => fields.lines("included_environments");

const askMembers = (visit: Visit, environment: string, included_environments: string[]) =>
  askPreview(visit, { set_members: { environment, included_environments } });

/** @param show the page, for members whose panel was about others, or that had none */
export const memberForms = (show: (visit: Visit) => Promise<Content>): Readonly<Record<string, Form>> => ({
  members: form(updateEnv, async (visit, fields) => {
    const name = visit.params["env"] ?? "";
    const names = namesIn(fields);
    if (isUnseen(fields, JSON.stringify(names))) {
      const preview = await askMembers(visit, name, names);
      // Members that are refused say why at their field.
      if ("failed" in preview ? !preview.isRefused : !turnsNothing(preview))
        return { show: await show(typedForm(visit, "members", { fields, problems: [] })) };
    }
    await visit.call(updateEnv, { params: { env_name: name }, body: { included_environments: names } });
    return { go: visit.to.environment(name, { tab: "settings" }), done: "saved" };
  }),
});

/** Whether members were sent that no panel was about, and nothing refused them. */
export const asksForMembers = ({ refused }: Visit): boolean =>
  refused?.form === "members" && refused.message === null && Object.keys(refused.errors).length === 0;

export async function membersCard(visit: Visit, environment: ShownEnvironment): Promise<Html> {
  const { refused, to } = visit;
  const { name, included_environments } = environment;
  const members = included_environments ?? [];
  const names = refused && asksForMembers(visit) ? namesIn(refused.fields) : null;
  const field = textArea(visit, {
    form: "members",
    name: "included_environments",
    label: "Environments",
    value: members.join("\n"),
    rows: Math.min(12, Math.max(4, members.length + 1)),
    isMono: true,
    hint: "Names of physical environments, one a line, in the order in which they are shown.",
  });
  const shared = { name: "members", fields: html`${field}${seenField(names === null ? "" : JSON.stringify(names))}` };
  if (names === null)
    return card({
      id: "h-members",
      title: "Members",
      body: padded(formOf(visit, { ...shared, submit: "Save members", isSecondary: true })),
    });
  const preview = await askMembers(visit, name, names);
  const body = formOf(visit, {
    ...shared,
    submit: submitText("Save members", preview),
    cancel: to.environment(name, { tab: "settings" }),
    within: (buttons) =>
      impactPanel(visit, {
        id: "h-impact",
        title: html`If <bdi>${name}</bdi> has these members`,
        preview,
        buttons,
        note: LATER,
      }),
  });
  return card({ id: "h-members", title: "Members", body: padded(body) });
}

/** A logical environment gets a snapshot with that of a member; its state follows from the members at once. */
const LATER = "Snapshots show the new members from the next report of one of them on.";
