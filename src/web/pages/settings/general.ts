/** `/{org}/settings/general`: the organization itself. */
import type { AnswerOf } from "../../../http/in-process.ts";
import {
  getOrganization,
  getOrganizationSettings,
  updateOrganizationSettings,
} from "../../../api/accounts/organizations.ts";
import { getDefaultOrg, putDefaultOrg } from "../../../api/accounts/users.ts";
import { checkbox, formOf } from "../../components/forms.ts";
import { copyButton } from "../../components/identifier.ts";
import { card, facts, padded } from "../../components/layout.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { form, page } from "../../page/page.ts";
import type { Visit } from "../../page/page.ts";
import { settingsContent } from "./settings-page.ts";

export const generalPage = page({
  path: "/{org}/settings/general",
  async show(visit) {
    const organization = await visit.call(getOrganization);
    const settings = visit.may(updateOrganizationSettings) ? await visit.call(getOrganizationSettings) : null;
    const main = html`${about(visit, organization)}${settings && settingsCard(visit, settings)}${
      visit.role !== null && (await defaultCard(visit))
    }`;
    return settingsContent(visit, "general", { main });
  },
  forms: {
    settings: form(updateOrganizationSettings, async ({ call, to }, fields) => {
      await call(updateOrganizationSettings, {
        body: {
          is_public: fields.flag("is_public"),
          controls_enabled: fields.flag("controls_enabled"),
          evaluations_enabled: fields.flag("evaluations_enabled"),
          decisions_need_published_policy: fields.flag("decisions_need_published_policy"),
        },
      });
      return { go: to.settings("general"), done: "saved" };
    }),
    choose: form(putDefaultOrg, async ({ call, to }) => {
      await call(putDefaultOrg);
      return { go: to.settings("general"), done: "default_org" };
    }),
  },
});

const about = (visit: Visit, organization: AnswerOf<typeof getOrganization>): Html =>
  card({
    id: "h-about",
    title: "Organization",
    body: padded(
      facts([
        ["Name", html`<span class="row"><b>${visit.org}</b>${copyButton(visit.org, "the name")}</span>`],
        ["Kind", organization.kind === "personal" ? "Personal: its user is the only member" : "Shared"],
        ["Your role", visit.role ?? "none: you read it because it is public"],
        ["Created", time(organization.created_at, visit.now)],
        ["Changed", time(organization.last_modified_at, visit.now)],
        [
          "Address",
          html`<span class="row"><code>${visit.address}</code>${copyButton(visit.address, "the address")}</span>
<span class="sub">Clients take it as KOSLI_HOST, and the name above as KOSLI_ORG.</span>`,
        ],
      ]),
    ),
  });

function settingsCard(visit: Visit, settings: AnswerOf<typeof getOrganizationSettings>): Html {
  const fields = html`${checkbox(visit, {
    form: "settings",
    name: "is_public",
    label: "Public",
    isChecked: settings.is_public,
    hint: "Every user of this server can read it, except for members, keys, targets of messages and settings.",
  })}${checkbox(visit, {
    form: "settings",
    name: "controls_enabled",
    label: "Controls",
    isChecked: settings.controls_enabled,
    hint: "Decisions on controls can be recorded. While it is off, policies that require them stay in force.",
  })}${checkbox(visit, {
    form: "settings",
    name: "evaluations_enabled",
    label: "Rego evaluations",
    isChecked: settings.evaluations_enabled,
    hint: "Clients can ask this server to evaluate Rego policies on trails.",
  })}${checkbox(visit, {
    form: "settings",
    name: "decisions_need_published_policy",
    label: "Decisions need a published Rego policy",
    isChecked: settings.decisions_need_published_policy,
    hint: "An evaluation with files of its own cannot record a decision.",
  })}`;
  return card({
    id: "h-settings",
    title: "Access and features",
    body: padded(formOf(visit, { name: "settings", submit: "Save", fields })),
  });
}

async function defaultCard(visit: Visit): Promise<Html> {
  const { default_org_name } = await visit.call(getDefaultOrg);
  const isDefault = default_org_name === visit.org;
  const text = isDefault
    ? "This is the organization that opens first when you sign in."
    : html`${default_org_name === "" ? "You have not chosen one yet." : html`Now it is <b>${default_org_name}</b>.`} The
default organization opens first when you sign in.`;
  const choose = formOf(visit, {
    name: "choose",
    submit: "Make it my default organization",
    isInline: true,
    fields: null,
  });
  return card({
    id: "h-default",
    title: "Your default organization",
    body: padded(html`<p${!isDefault && html` class="gap-b"`}>${text}</p>${!isDefault && choose}`),
  });
}
