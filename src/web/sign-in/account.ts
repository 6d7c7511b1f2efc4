/** `/account`: the signed-in user, their roles, sessions and password. */
import type Koa from "koa";
import { findPasswordProblem } from "../../domain/login/password.ts";
import { AppError } from "../../errors.ts";
import { STATUS_BY_ERROR } from "../../http/response.ts";
import { maskToken } from "../page/csrf.ts";
import type { SessionHolder, SessionRow } from "../../auth/login-context.ts";
import { field, hidden, html, problemBox, rootOf, successBox } from "../html.ts";
import type { Html } from "../html.ts";
import {
  FOREIGN_FORM_MESSAGE,
  redirectTo,
  sendPage,
  NEW_PASSWORD_ATTRIBUTES,
  PASSWORD_HINT,
  isOwnForm,
  readFields,
  requestIdOf,
  startBrowserSession,
  visitorOf,
} from "./page-context.ts";
import type { FormFields, PageContext, PageHandler } from "./page-context.ts";

/** The message after a form succeeded, by the value of `done` in the URL. */
const DONE_MESSAGES: Readonly<Record<string, string>> = {
  password: "Your password was changed. All your other sessions were ended.",
  session: "The session was ended.",
  sessions: "All your other sessions were ended.",
};

const LOGIN_METHODS = { password: "password", oidc: "OpenID Connect", setup: "one-time token" } as const;

/** Where a browser without a session is sent. */
const LOGIN_PATH = "/login?next=%2Faccount";

const time = (seconds: number): Html => {
  const text = new Date(seconds * 1000).toISOString();
  return html`<time datetime="${text}">${text.slice(0, 16).replace("T", " ")} UTC</time>`;
};

type AccountPage = {
  holder: SessionHolder;
  status: number;
  /** Shown at the top of the page. */
  message?: Html | null;
  /** Shown above the password form. */
  passwordMessage?: Html | null;
};

function sendAccountPage(
  page: PageContext,
  ctx: Koa.Context,
  { holder, status, message = null, passwordMessage = null }: AccountPage,
): Promise<void> {
  const root = rootOf(ctx);
  const csrf = hidden("csrf", maskToken(holder.csrf_token));
  const { user, hasPassword, memberships, sessions } = page.logins.accountOf(holder);
  const email = user.email === null ? null : html`<dt>E-mail</dt><dd>${user.email}</dd>`;
  return sendPage(page, ctx, {
    status,
    title: "Account",
    main: html`${message}
<section aria-labelledby="who"><h2 id="who">${user.display_name || user.name}</h2>
<dl><dt>Login name</dt><dd>${user.name}</dd>${email}</dl>
<form method="post" action="${root}logout">${csrf}<button type="submit">Sign out</button></form></section>
${organizationSection(memberships, root)}
${sessionSection(sessions, { current: holder.public_id, csrf, root })}
<section aria-labelledby="password-title"><h2 id="password-title">Password</h2>${passwordMessage}
${
  hasPassword
    ? passwordForm({ userName: user.name, csrf, root })
    : html`<p>You have no password on this server: you sign in with OpenID Connect.</p>`
}</section>`,
  });
}

function organizationSection(
  memberships: readonly { organization: string; kind: string; role: string }[],
  root: string,
): Html {
  const rows = memberships.map(
    ({ organization, kind, role }) =>
      html`<tr><td>${organization}${kind === "personal" ? " (personal)" : ""}</td><td>${role}</td></tr>`,
  );
  return html`<section aria-labelledby="organizations"><h2 id="organizations">Organizations</h2>
<div class="wide"><table><thead><tr><th scope="col">Name</th><th scope="col">Role</th></tr></thead><tbody>
${rows}
</tbody></table></div>
<p>Try out what your roles permit in the <a href="${root}api/v2/doc/">API reference</a>. You need no key there
while you are signed in.</p></section>`;
}

function sessionSection(
  sessions: readonly SessionRow[],
  { current, csrf, root }: { current: string; csrf: Html; root: string },
): Html {
  const endForm = (id: string): Html =>
    html`<form method="post" action="${root}account/session">${csrf}${hidden(
      "id",
      id,
    )}<button type="submit" class="small">End</button></form>`;
  const row = (session: SessionRow): Html => html`
    <tr><td>${session.address}</td><td class="agent">${session.user_agent || "unknown"}</td>
    <td>${LOGIN_METHODS[session.method]}</td><td>${time(session.created_at)}</td><td>${time(session.last_used_at)}</td>
    <td>${session.public_id === current ? html`<strong>this session</strong>` : endForm(session.public_id)}</td></tr>`;
  const columns = ["Address", "Browser", "Signed in with", "Since", "Last used", "End"];
  const endOthers = html`<form method="post" action="${root}account/sessions">${csrf}<button
    type="submit">End all other sessions</button></form>`;
  return html`<section aria-labelledby="sessions"><h2 id="sessions">Sessions</h2>
<div class="wide"><table><thead><tr>${columns.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
<tbody>${sessions.map(row)}</tbody></table></div>
${sessions.length > 1 ? endOthers : null}</section>`;
}

function passwordForm({ userName, csrf, root }: { userName: string; csrf: Html; root: string }): Html {
  return html`<form method="post" action="${root}account/password">
  ${csrf}<input type="text" name="username" autocomplete="username" value="${userName}" readonly hidden>
  ${field({
    label: "Current password",
    name: "present",
    attributes: `type="password" required autocomplete="current-password"`,
  })}
  ${field({ label: "New password", name: "wanted", attributes: NEW_PASSWORD_ATTRIBUTES, hint: PASSWORD_HINT })}
  ${field({ label: "New password again", name: "again", attributes: NEW_PASSWORD_ATTRIBUTES })}
  <button type="submit">Change password</button>
</form>`;
}

export const showAccount: PageHandler = (page, ctx) => {
  const holder = page.holderOf(ctx);
  if (!holder) return redirectTo(ctx, LOGIN_PATH);
  const done = DONE_MESSAGES[String(ctx.query["done"])];
  return sendAccountPage(page, ctx, { holder, status: 200, message: successBox(done ?? null) });
};

type FormRequest = { holder: SessionHolder; fields: FormFields };

/** A form of the account page. A browser without a session is sent to the login. `handle` answers. */
const accountForm =
  (handle: (page: PageContext, ctx: Koa.Context, request: FormRequest) => Promise<void>): PageHandler =>
  async (page, ctx) => {
    const fields = await readFields(page, ctx);
    const holder = page.holderOf(ctx);
    if (!holder) return redirectTo(ctx, LOGIN_PATH);
    if (!isOwnForm(page, ctx, { holder, fields }))
      return sendAccountPage(page, ctx, { holder, status: 403, message: problemBox(FOREIGN_FORM_MESSAGE) });
    await handle(page, ctx, { holder, fields });
  };

export const endSession = accountForm(async (page, ctx, { holder, fields }) => {
  await page.logins.endSession(holder, {
    id: fields("id"),
    operation: "end_session",
    requestId: requestIdOf(ctx),
  });
  redirectTo(ctx, "/account?done=session");
});

export const endOtherSessions = accountForm(async (page, ctx, { holder }) => {
  await page.logins.endOtherSessions(holder, requestIdOf(ctx));
  redirectTo(ctx, "/account?done=sessions");
});

export const changePassword = accountForm(async (page, ctx, { holder, fields }) => {
  const refuse = (status: number, problem: string): Promise<void> =>
    sendAccountPage(page, ctx, {
      holder,
      status,
      passwordMessage: problemBox(`Your password was not changed: ${problem}.`),
    });
  const [current, wanted] = [fields("present"), fields("wanted")];
  const problem =
    wanted === fields("again") ? findPasswordProblem(wanted, holder.name) : "the two new passwords differ";
  if (problem !== null) return refuse(400, problem);
  try {
    const started = await page.logins.changePassword(holder, { current, wanted }, visitorOf(ctx));
    if (started) return await startBrowserSession(page, ctx, { started, path: "/account?done=password" });
    await refuse(403, "the current password is wrong");
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    if (error.code === "unauthenticated") return redirectTo(ctx, LOGIN_PATH);
    ctx.set(error.headers);
    await refuse(STATUS_BY_ERROR[error.code], error.message);
  }
});
