/** `/{org}/settings/service-accounts/{account}`: one account of a machine, and its keys. */
import type { AnswerOf } from "../../../http/in-process.ts";
import { createApiKey, listApiKeys, revokeApiKey, rotateApiKey } from "../../../api/accounts/api-keys.ts";
import { listAuditLog } from "../../../api/accounts/membership-audit-log.ts";
import {
  deleteServiceAccount,
  getServiceAccount,
  updateServiceAccount,
} from "../../../api/accounts/service-accounts.ts";
import { canGrant } from "../../../domain/access.ts";
import type { Role } from "../../../domain/access.ts";
import {
  afterQuestion,
  keyBody,
  keyQuestion,
  keyTable,
  newKeyForm,
  rotationBody,
  shownKey,
} from "../../components/api-keys.ts";
import type { ShownKeyRow } from "../../components/api-keys.ts";
import { formOf, selectField, textField } from "../../components/forms.ts";
import { icon } from "../../components/icon.ts";
import { card, facts, padded } from "../../components/layout.ts";
import { count, tag } from "../../components/state.ts";
import { time } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import { form, page } from "../../page/page.ts";
import type { Content, Visit } from "../../page/page.ts";
import { grantableChoices } from "./roles.ts";
import { historyLink } from "./service-accounts.ts";
import { settingsContent } from "./settings-page.ts";

type Account = AnswerOf<typeof getServiceAccount>;

const pathOf = ({ params }: Visit): { name: string } => ({ name: params["account"] ?? "" });

export const serviceAccountPage = page({
  path: "/{org}/settings/service-accounts/{account}",
  show: (visit) => showAccount(visit, null),
  forms: {
    create_key: form(createApiKey, async (visit, fields) => {
      const { key } = await visit.call(createApiKey, { params: pathOf(visit), body: keyBody(fields, visit.now) });
      return { once: await showAccount(visit, key) };
    }),
    rotate_key: form(rotateApiKey, async (visit, fields) => {
      const { key } = await visit.call(rotateApiKey, {
        params: { ...pathOf(visit), key_id: fields.text("key") },
        body: rotationBody(fields, visit.now),
      });
      return { once: await showAccount(afterQuestion(visit), key) };
    }),
    revoke_key: form(revokeApiKey, async (visit, fields) => {
      await visit.call(revokeApiKey, { params: { ...pathOf(visit), key_id: fields.text("key") } });
      return { go: visit.to.serviceAccount(pathOf(visit).name), done: "revoked" };
    }),
    describe: form(updateServiceAccount, async (visit, fields) => {
      const privilege = fields.optional("privilege") as Role | null;
      await visit.call(updateServiceAccount, {
        params: pathOf(visit),
        body: { description: fields.optional("description"), privilege },
      });
      return { go: visit.to.serviceAccount(pathOf(visit).name), done: "saved" };
    }),
    delete: form(deleteServiceAccount, async (visit) => {
      await visit.call(deleteServiceAccount, { params: pathOf(visit) });
      return { go: visit.to.settings("service-accounts"), done: "deleted" };
    }),
  },
});

/** What the person may do with the account: admins all, others with the ones that they created. */
function rightsOver({ role, userId, may }: Visit, account: Account): { manages: boolean; issues: boolean } {
  const manages = may(updateServiceAccount) && (role === "admin" || account.creating_user_id === userId);
  return { manages, issues: manages && role !== null && canGrant(role, account.privilege) };
}

/** @param created the key that was just created; null without one */
async function showAccount(visit: Visit, created: string | null): Promise<Content> {
  const { call, query, refused, org } = visit;
  const account = await call(getServiceAccount, { params: pathOf(visit) });
  const keys = await call(listApiKeys, { params: pathOf(visit) });
  const rights = rightsOver(visit, account);
  const state = [tag(account.privilege), account.for_webhook && tag("of a webhook", "webhook")];
  const frame = (main: Html): Content =>
    settingsContent(visit, "service-accounts", { title: account.name, state, main });
  const asks = created === null && rights.manages;
  if (asks && (query.get("ask") === "delete" || refused?.form === "delete"))
    return frame(askDelete(visit, account, keys));
  const question = asks ? keyQuestion(visit, keys, { mayRotate: rights.issues }) : null;
  if (question !== null) return frame(question);
  const shown = created === null ? null : shownKey(visit, { key: created, org, note: "Give it to one client only." });
  return frame(
    html`${shown}${keysCard(visit, account, keys)}${
      rights.manages ? describe(visit, account) : about(visit, account)
    }${rights.manages && deletion(visit)}`,
  );
}

function keysCard(visit: Visit, account: Account, keys: readonly ShownKeyRow[]): Html {
  const { manages, issues } = rightsOver(visit, account);
  const list = keyTable(visit, keys, { mayRevoke: manages, mayRotate: issues });
  const hint = `A key has the role of the account: ${account.privilege}. Rotate keys every 90 days.`;
  return html`${card({
    id: "h-keys",
    title: html`Keys of ${account.name} ${count(keys.length)}`,
    body: list,
    foot: !manages && "Only administrators and the person who created the account may change its keys.",
  })}${issues && card({ id: "h-new-key", title: "New key", body: padded(newKeyForm(visit, hint)) })}`;
}

const about = ({ now }: Visit, account: Account): Html =>
  card({
    id: "h-about",
    title: "About this account",
    body: padded(
      facts([
        ["Description", account.description && html`<bdi>${account.description}</bdi>`],
        ["Role", account.privilege],
        ["Created", time(account.created_at, now)],
      ]),
    ),
  });

function describe(visit: Visit, account: Account): Html {
  const isAdmin = visit.role === "admin";
  const fields = html`${textField(visit, {
    form: "describe",
    name: "description",
    label: "Description",
    value: account.description,
    of: updateServiceAccount,
    hint: "What uses it",
  })}${
    isAdmin &&
    selectField(visit, {
      form: "describe",
      name: "privilege",
      label: "Role",
      value: account.privilege,
      choices: grantableChoices(visit.role),
      hint: "Applies to all keys of the account with their next request",
    })
  }`;
  return card({
    id: "h-describe",
    title: "About this account",
    note: html`created ${time(account.created_at, visit.now)}`,
    more: visit.may(listAuditLog) && historyLink(visit, account.name),
    body: padded(formOf(visit, { name: "describe", submit: "Save", isSecondary: true, fields })),
  });
}

const deletion = ({ here }: Visit): Html =>
  card({
    id: "h-delete",
    title: "Delete",
    body: padded(html`<p class="gap-b">Its keys are refused from the next request on. What it reported stays.</p>
<a class="btn btn-danger" href="${here({ ask: "delete" })}">${icon("trash")}Delete this account</a>`),
  });

function askDelete(visit: Visit, account: Account, keys: readonly ShownKeyRow[]): Html {
  const used = keys.reduce((latest, key) => Math.max(latest, key.last_used_at), 0);
  const number = keys.length === 1 ? "1 valid key" : `${keys.length} valid keys`;
  const text = html`<p><b>${account.name}</b> and its ${number} are deleted for good. ${
    used === 0 ? "None of them was used." : html`A key was last used ${time(used, visit.now)}.`
  } What the account reported stays.</p>`;
  const cancel = visit.here({ ask: null });
  const ask = formOf(visit, { name: "delete", submit: "Delete this account", isDanger: true, cancel, fields: text });
  return card({ id: "h-delete", title: "Delete this service account?", body: padded(ask) });
}
