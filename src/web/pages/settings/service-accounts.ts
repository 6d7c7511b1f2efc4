/** `/{org}/settings/service-accounts`: the accounts of machines, and the form that creates one. */
import type { AnswerOf } from "../../../http/in-process.ts";
import { listApiKeys, listExpiringApiKeys } from "../../../api/accounts/api-keys.ts";
import { getOrganization } from "../../../api/accounts/organizations.ts";
import { createServiceAccount, listServiceAccounts } from "../../../api/accounts/service-accounts.ts";
import type { Role } from "../../../domain/access.ts";
import { formOf, selectField, textField } from "../../components/forms.ts";
import { icon } from "../../components/icon.ts";
import { card, linkButton, moreLink, nameCell, padded } from "../../components/layout.ts";
import { renderList } from "../../components/list-page.ts";
import type { Words } from "../../components/list-page.ts";
import { sliceOf } from "../../components/lists.ts";
import { count, tag } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { form, page } from "../../page/page.ts";
import type { Content, Visit } from "../../page/page.ts";
import { grantableChoices } from "./roles.ts";
import { settingsContent } from "./settings-page.ts";

type Account = AnswerOf<typeof listServiceAccounts>[number];

/** Keys that expire soon, on this page. */
const MAX_EXPIRING = 5;

export const serviceAccountsPage = page({
  path: "/{org}/settings/service-accounts",
  show: (visit) =>
    visit.may(createServiceAccount) && (visit.query.get("ask") === "create" || visit.refused?.form === "create")
      ? Promise.resolve(showCreation(visit))
      : showList(visit),
  forms: {
    create: form(createServiceAccount, async ({ call, to }, fields) => {
      const name = fields.text("name").trim();
      const privilege = fields.text("privilege") as Role;
      await call(createServiceAccount, { body: { name, description: fields.optional("description"), privilege } });
      return { go: to.serviceAccount(name), done: "created" };
    }),
  },
});

function showCreation(visit: Visit): Content {
  const choices = grantableChoices(visit.role);
  const fields = html`${textField(visit, {
    form: "create",
    name: "name",
    label: "Name",
    of: createServiceAccount,
    placeholder: "ci-backend-api",
    hint: "Letters, digits and hyphens. It cannot be changed later.",
  })}${textField(visit, {
    form: "create",
    name: "description",
    label: "Description",
    of: createServiceAccount,
    hint: "What uses it",
  })}${selectField(visit, {
    form: "create",
    name: "privilege",
    label: "Role",
    value: choices.some(({ value }) => value === "member") ? "member" : "snapshotter",
    choices,
    hint: "At most your own role",
  })}`;
  const cancel = visit.to.settings("service-accounts");
  return settingsContent(visit, "service-accounts", {
    title: "New service account",
    crumb: "New",
    main: card({
      id: "h-new",
      title: "Service account",
      note: "its keys are created in the next step",
      body: padded(formOf(visit, { name: "create", submit: "Create account", fields, cancel })),
    }),
  });
}

async function showList(visit: Visit): Promise<Content> {
  const { kind } = await visit.call(getOrganization);
  const isShared = kind === "shared";
  const create =
    visit.may(createServiceAccount) &&
    isShared &&
    linkButton(visit.here({ ask: "create" }), html`${icon("plus")}New account`, { kind: "small" });
  const { body, isNew } = await renderList(visit, {
    what: ["service account", "service accounts"],
    async read({ call, query }) {
      const search = (query.get("search") ?? "").trim().toLowerCase();
      const all = await call(listServiceAccounts);
      return sliceOf(
        query,
        all.filter(({ name, description }) => `${name}\n${description ?? ""}`.toLowerCase().includes(search)),
      );
    },
    filters: [{ kind: "search", name: "search", label: "Search by name or description" }],
    head: () => ({
      id: "h-accounts",
      title: "Service accounts",
      more: create && html`<span class="right">${create}</span>`,
    }),
    columns: [
      { text: "Name" },
      { text: "Role", className: "w-st" },
      { text: "Keys", isRight: true },
      { text: "Last used", isRight: true },
    ],
    row: accountRow,
    empty: noAccounts(visit, isShared),
    none: "The search looks for a part of the name or the description.",
  });
  const expiring = !isNew && visit.may(listExpiringApiKeys) && (await expiringKeys(visit));
  return settingsContent(visit, "service-accounts", { main: html`${expiring}<div>${body}</div>` });
}

const noAccounts = ({ may, here, to }: Visit, isShared: boolean): Words =>
  isShared
    ? {
        icon: "hubot",
        title: "No service accounts yet",
        text: "A service account belongs to a machine: a pipeline, or what reports an environment.",
        actions:
          may(createServiceAccount) &&
          linkButton(here({ ask: "create" }), "New account", { icon: "plus", kind: "primary" }),
      }
    : {
        icon: "hubot",
        title: "A personal organization has no service accounts",
        text: "Create an API key of your own on your account page, or a service account in a shared organization.",
        actions: linkButton(to.account(), "Your account", { icon: "person" }),
      };

async function expiringKeys({ call, to, now }: Visit): Promise<Html | null> {
  const keys = await call(listExpiringApiKeys);
  if (keys.length === 0) return null;
  const rows = keys.slice(0, MAX_EXPIRING).map(
    (key) =>
      html`<li>${icon("key")}<div class="grow"><a class="name" href="${to.serviceAccount(key.service_account)}">${
        key.service_account
      }</a> <bdi class="muted">${key.description}</bdi></div>
<span class="st wait">${time(key.expires_at, now)}</span></li>`,
  );
  return card({
    id: "h-expiring",
    title: html`Keys expiring soon ${count(keys.length)}`,
    note: "rotate them before they end",
    body: html`<ul class="rows">${rows}</ul>`,
    foot: keys.length > MAX_EXPIRING && `${keys.length - MAX_EXPIRING} more are not shown.`,
  });
}

async function accountRow({ call, to, now }: Visit, account: Account): Promise<Html> {
  const keys = await call(listApiKeys, { params: { name: account.name } });
  const used = keys.reduce((latest, key) => Math.max(latest, key.last_used_at), 0);
  const name = nameCell({
    href: to.serviceAccount(account.name),
    name: account.name,
    sub: account.description && html`<bdi>${account.description}</bdi>`,
    mark: icon("hubot"),
  });
  const last = used === 0 ? html`<span class="muted">never</span>` : time(used, now);
  return html`<tr>${name}<td>${tag(account.privilege)}</td><td class="r num" data-l="Keys">${keys.length}</td>
<td class="r" data-l="Used">${last}</td></tr>`;
}

/** The link to the history of a role. */
export const historyLink = ({ to }: Visit, name: string): Html =>
  moreLink(to.settings("audit-log", { tab: "memberships", search: name }), "History");
