/** `/account`: the person who is signed in, with organizations, API keys, sessions, password and theme. */
import type Koa from "koa";
import type { AnswerOf } from "../../http/in-process.ts";
import { createOwnApiKey, listOwnApiKeys, revokeOwnApiKey, rotateOwnApiKey } from "../../api/accounts/own-api-keys.ts";
import { getPrincipal } from "../../api/accounts/principal.ts";
import { listOwnOrganizations, putDefaultOrg } from "../../api/accounts/users.ts";
import type { SessionHolder, SessionRow } from "../../auth/login-context.ts";
import type { Logins } from "../../auth/logins.ts";
import { findPasswordProblem } from "../../domain/login/password.ts";
import { AppError } from "../../errors.ts";
import { STATUS_BY_ERROR } from "../../http/response.ts";
import {
  afterQuestion,
  keyBody,
  keyQuestion,
  keyTable,
  newKeyForm,
  rotationBody,
  shownKey,
} from "../components/api-keys.ts";
import type { ShownKeyRow } from "../components/api-keys.ts";
import { formOf, hiddenField, problemBox, textField, withoutRefusal } from "../components/forms.ts";
import { icon } from "../components/icon.ts";
import { emailAddress } from "../components/identifier.ts";
import { card, facts, nameCell, padded, pageHead, table } from "../components/layout.ts";
import { pageOf, pager } from "../components/lists.ts";
import { count, tag } from "../components/state.ts";
import { time } from "../components/time.ts";
import { html } from "../html.ts";
import type { Html } from "../html.ts";
import { form, page } from "../page/page.ts";
import type { Content, Page, Visit } from "../page/page.ts";
import { PREFERENCE_NAMES, PREFERENCES } from "../page/preferences.ts";
import type { PreferenceName } from "../page/preferences.ts";
import {
  FOREIGN_FORM_MESSAGE,
  PASSWORD_HINT,
  isOwnForm,
  readFields,
  redirectTo,
  requestIdOf,
  startBrowserSession,
  visitorOf,
} from "./page-context.ts";
import type { FormFields, PageContext, PageHandler } from "./page-context.ts";

type Organization = AnswerOf<typeof listOwnOrganizations>["data"][number];
type Account = ReturnType<Logins["accountOf"]>;

const LOGIN_METHODS = { password: "password", oidc: "OpenID Connect", setup: "one-time token" } as const;

const PATH = "/account";
/** Where a browser without a session is sent. */
const LOGIN_PATH = "/login?next=%2Faccount";

const ORGANIZATIONS_PER_PAGE = 25;
/** More than a person can have (api/accounts/own-api-keys.ts). */
const KEYS_PER_PAGE = 100;

/** The API does not have sessions and passwords, so the page asks the logins about them. */
export const createAccountPage = (logins: Pick<Logins, "accountOf">): Page => {
  const show = (visit: Visit, created: string | null): Promise<Content> =>
    showAccount(visit, { account: logins.accountOf(visit.user.name), created });
  return page({
    path: PATH,
    show: (visit) => show(visit, null),
    forms: {
      create_key: form(createOwnApiKey, async (visit, fields) => {
        const { key } = await visit.call(createOwnApiKey, { body: keyBody(fields, visit.now) });
        return { once: await show(visit, key) };
      }),
      rotate_key: form(rotateOwnApiKey, async (visit, fields) => {
        const { key } = await visit.call(rotateOwnApiKey, {
          params: { key_id: fields.text("key") },
          body: rotationBody(fields, visit.now),
        });
        return { once: await show(afterQuestion(visit), key) };
      }),
      revoke_key: form(revokeOwnApiKey, async ({ call, to }, fields) => {
        await call(revokeOwnApiKey, { params: { key_id: fields.text("key") } });
        return { go: to.account(), done: "revoked" };
      }),
      default_org: form(putDefaultOrg, async ({ call, to }, fields) => {
        await call(putDefaultOrg, { params: { org: fields.text("organization") } });
        return { go: to.account(), done: "default_org" };
      }),
    },
  });
};

async function showAccount(
  visit: Visit,
  { account, created }: { account: Account; created: string | null },
): Promise<Content> {
  const { call, query } = visit;
  const keys = await call(listOwnApiKeys);
  const content = (main: Html): Content => ({ title: "Account", section: null, crumbs: [], main });
  const question = created === null ? keyQuestion(visit, keys, { mayRotate: true }) : null;
  if (question !== null) return content(html`${head(visit, account)}<div class="stack">${question}</div>`);
  const organizations = await call(listOwnOrganizations, {
    query: { page: pageOf(query), per_page: ORGANIZATIONS_PER_PAGE },
  });
  const { credential } = await call(getPrincipal);
  const org = homeOf(organizations.data);
  const shown =
    created === null
      ? null
      : shownKey(visit, { key: created, org: org?.name ?? visit.user.name, note: "It has your rights everywhere." });
  return content(html`${head(visit, account)}${shown && html`<div class="account-key">${shown}</div>`}
<div class="cols"><div class="stack">${organizationCard(visit, organizations)}${keyCard(visit, keys)}${sessionCard(
    visit,
    account.sessions,
    credential.id,
  )}</div><div class="stack">${[
    profileCard(account),
    appearanceCard(visit),
    passwordCard(visit, account),
  ]}</div></div>`);
}

/** The organization that a person most likely works in: the default one, or one with others in it. */
const homeOf = (organizations: readonly Organization[]): Organization | null =>
  organizations.find(({ is_default }) => is_default) ??
  organizations.find(({ kind }) => kind === "shared") ??
  organizations[0] ??
  null;

const postTo = (visit: Visit, path: string, content: Html): Html =>
  html`<form method="post" action="${visit.to.path(path)}">${hiddenField("csrf", visit.csrf)}${content}</form>`;

const head = (visit: Visit, { user }: Account): Html =>
  pageHead({
    title: html`<bdi>${user.display_name || user.name}</bdi>`,
    actions: [postTo(visit, "logout", html`<button class="btn" type="submit">${icon("sign-out")}Sign out</button>`)],
  });

const profileCard = ({ user }: Account): Html =>
  card({
    id: "h-profile",
    title: "Profile",
    body: padded(
      facts([
        ["Login name", html`<bdi>${user.name}</bdi>`],
        ["Name", user.display_name && html`<bdi>${user.display_name}</bdi>`],
        ["E-mail", user.email && emailAddress(user.email)],
      ]),
    ),
  });

function organizationCard(visit: Visit, { data, pagination }: AnswerOf<typeof listOwnOrganizations>): Html {
  const rows = data.map((organization) => organizationRow(visit, organization));
  const refused = visit.refused?.form === "default_org" ? visit.refused.message : null;
  const pages = pager(visit, pagination);
  return card({
    id: "h-organizations",
    title: html`Organizations ${count(pagination.total)}`,
    body: html`${refused && padded(problemBox(refused))}${table({
      caption: "Organizations",
      columns: [{ text: "Name" }, { text: "Role" }, { text: "Default", isHidden: true }],
      rows,
    })}${pages && padded(pages)}`,
    foot: html`<p>Try out what your roles permit in the <a href="${visit.to.guide()}">API reference</a>. You need no
key there while you are signed in.</p>`,
  });
}

function organizationRow(visit: Visit, { name, kind, role, is_default }: Organization): Html {
  const lead = nameCell({
    href: visit.to.organization(name),
    name: html`<bdi>${name}</bdi>`,
    after: kind === "personal" && html`<span class="muted">(personal)</span>`,
  });
  const choose = formOf(withoutRefusal(visit), {
    name: "default_org",
    submit: html`Make default<span class="vh">: ${name}</span>`,
    isInline: true,
    fields: hiddenField("organization", name),
  });
  return html`<tr>${lead}<td>${tag(role)}</td><td class="r"><span class="row-actions">${
    is_default ? tag("default", "check") : choose
  }</span></td></tr>`;
}

function keyCard(visit: Visit, keys: readonly ShownKeyRow[]): Html {
  const rights = { mayRevoke: true, mayRotate: true, perPage: KEYS_PER_PAGE };
  const hint =
    "A key has your rights in all of your organizations. Pipelines should have the keys of service accounts.";
  return html`${card({
    id: "h-keys",
    title: html`Your API keys ${count(keys.length)}`,
    body: keyTable(visit, keys, rights),
  })}${card({ id: "h-new-key", title: "New key", body: padded(newKeyForm(visit, hint)) })}`;
}

function sessionCard(visit: Visit, sessions: readonly SessionRow[], current: string): Html {
  const { refused } = visit;
  const problem = refused?.form === "sessions" ? refused.message : null;
  const others = postTo(
    visit,
    "account/sessions",
    html`<button class="btn btn-s" type="submit">End all other sessions</button>`,
  );
  const columns = [
    { text: "Browser" },
    { text: "Signed in with" },
    { text: "Since" },
    { text: "Last used" },
    { text: "End", isHidden: true },
  ];
  return card({
    id: "h-sessions",
    title: html`Sessions ${count(sessions.length)}`,
    more: sessions.length > 1 && html`<span class="right">${others}</span>`,
    body: html`${problem && padded(problemBox(problem))}${table({
      caption: "Sessions",
      columns,
      rows: sessions.map((session) => sessionRow(visit, session, current)),
    })}`,
  });
}

function sessionRow(visit: Visit, session: SessionRow, current: string): Html {
  const { now } = visit;
  const end = postTo(
    visit,
    "account/session",
    html`${hiddenField("id", session.public_id)}<button class="btn btn-s" type="submit">End<span
class="vh"> the session at ${session.address}</span></button>`,
  );
  const browser = nameCell({
    href: null,
    name: html`<bdi title="${session.user_agent}">${session.user_agent || "unknown"}</bdi>`,
    sub: session.address,
  });
  return html`<tr>${browser}<td>${LOGIN_METHODS[session.method]}</td><td data-l="Since">${time(
    session.created_at,
    now,
  )}</td><td data-l="Last used">${time(session.last_used_at, now)}</td><td class="r"><span class="row-actions">${
    session.public_id === current ? tag("this session", "check") : end
  }</span></td></tr>`;
}

const CHOICES: Readonly<Record<PreferenceName, string>> = {
  theme: "Theme",
  navigation: "Navigation on wide windows",
  density: "Tables",
  keys: "Single-key shortcuts",
};

/** What a person chooses for this browser. */
function appearanceCard({ to, csrf, preferences }: Visit): Html {
  const fields = PREFERENCE_NAMES.map((name) => {
    const options = Object.entries(PREFERENCES[name]).map(
      ([value, text]) =>
        html`<option value="${value}"${value === preferences[name] && html` selected`}>${text}</option>`,
    );
    return html`<div class="form-field"><label for="choose-${name}">${CHOICES[name]}</label><select class="field"
id="choose-${name}" name="${name}">${options}</select></div>`;
  });
  const hidden = [hiddenField("csrf", csrf), hiddenField("next", PATH)];
  const choices = html`<form class="form" method="post" action="${to.path("preferences")}">${hidden}${fields}<div
class="form-do"><button class="btn" type="submit">Save</button></div></form>`;
  return card({ id: "h-appearance", title: "In this browser", body: padded(choices) });
}

function passwordCard(visit: Visit, { user, hasPassword }: Account): Html {
  return card({
    id: "h-password",
    title: "Password",
    body: padded(
      hasPassword
        ? passwordForm(visit, user.name)
        : html`<p>You have no password on this server: you sign in with OpenID Connect.</p>`,
    ),
  });
}

function passwordForm(visit: Visit, userName: string): Html {
  const { refused } = visit;
  const problem = refused?.form === "password" ? refused.message : null;
  const secret = (name: string, label: string, { hint, autocomplete }: { hint?: string; autocomplete: string }): Html =>
    textField(visit, {
      form: "password",
      name,
      label,
      type: "password",
      isRequired: true,
      autocomplete,
      ...(hint === undefined ? {} : { hint }),
    });
  return html`<form class="form" method="post" action="${visit.to.path("account/password")}">${hiddenField(
    "csrf",
    visit.csrf,
  )}${problemBox(problem)}<input type="text" name="username"
autocomplete="username" value="${userName}" readonly hidden>${secret("present", "Current password", {
    autocomplete: "current-password",
  })}${secret("wanted", "New password", { autocomplete: "new-password", hint: PASSWORD_HINT })}${secret(
    "again",
    "New password again",
    { autocomplete: "new-password" },
  )}<div class="form-do"><button class="btn" type="submit">Change password</button></div></form>`;
}

type FormRequest = { holder: SessionHolder; fields: FormFields };
type AccountForm = "password" | "sessions";

/** Shows the account page with a form refused. */
const refuseForm = (
  page: PageContext,
  ctx: Koa.Context,
  refusal: { form: AccountForm; status: number; message: string; errors?: Readonly<Record<string, string>> },
): Promise<void> => page.refuseForm(ctx, { path: PATH, errors: {}, ...refusal });

/** A form of the account page. A browser without a session is sent to the login. `handle` answers. */
const accountForm =
  (
    form: AccountForm,
    handle: (page: PageContext, ctx: Koa.Context, request: FormRequest) => Promise<void>,
  ): PageHandler =>
  async (page, ctx) => {
    const fields = await readFields(page, ctx);
    const holder = page.holderOf(ctx);
    if (!holder) return redirectTo(ctx, LOGIN_PATH);
    if (!isOwnForm(page, ctx, { holder, fields }))
      return refuseForm(page, ctx, { form, status: 403, message: FOREIGN_FORM_MESSAGE });
    await handle(page, ctx, { holder, fields });
  };

export const endSession = accountForm("sessions", async (page, ctx, { holder, fields }) => {
  await page.logins.endSession(holder, {
    id: fields("id"),
    operation: "end_session",
    requestId: requestIdOf(ctx),
  });
  redirectTo(ctx, "/account?done=session");
});

export const endOtherSessions = accountForm("sessions", async (page, ctx, { holder }) => {
  await page.logins.endOtherSessions(holder, requestIdOf(ctx));
  redirectTo(ctx, "/account?done=sessions");
});

export const changePassword = accountForm("password", async (page, ctx, { holder, fields }) => {
  const refuse = (status: number, problem: string, field?: string): Promise<void> =>
    refuseForm(page, ctx, {
      form: "password",
      status,
      message: `Your password was not changed: ${problem}.`,
      errors: field === undefined ? {} : { [field]: `${problem[0]?.toUpperCase()}${problem.slice(1)}` },
    });
  const [current, wanted] = [fields("present"), fields("wanted")];
  if (wanted !== fields("again")) return refuse(400, "the two new passwords differ", "again");
  const problem = findPasswordProblem(wanted, holder.name);
  if (problem !== null) return refuse(400, problem, "wanted");
  try {
    const started = await page.logins.changePassword(holder, { current, wanted }, visitorOf(ctx));
    if (started) return await startBrowserSession(page, ctx, { started, path: "/account?done=password" });
    await refuse(403, "the current password is wrong", "present");
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    if (error.code === "unauthenticated") return redirectTo(ctx, LOGIN_PATH);
    ctx.set(error.headers);
    await refuse(STATUS_BY_ERROR[error.code], error.message);
  }
});
