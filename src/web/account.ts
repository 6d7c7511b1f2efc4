/** `/account`: who somebody is here, and what they signed in to. */
import type Koa from "koa";
import { AppError } from "../errors.ts";
import { passwordProblem, SHORTEST_PASSWORD } from "../domain/login/password.ts";
import { STATUS_BY_ERROR } from "../http/response.ts";
import type { SessionHolder, SessionRow } from "../store/accounts/sessions.ts";
import { field, hidden, html, message, rootOf, sendOn, sendPage } from "./html.ts";
import type { Html } from "./html.ts";
import type { Handler, Kit } from "./kit.ts";
import { STRANGE_FORM, isOwnForm, letIn, readFields, visitorOf } from "./kit.ts";

/** What a form did, by the word that stands in the address afterwards. */
const DONE: Readonly<Record<string, string>> = {
  password: "The password was changed. All other sessions were ended.",
  session: "The session was ended.",
  sessions: "All other sessions were ended.",
};

const METHODS = { password: "password", oidc: "OpenID Connect", setup: "one-time token" } as const;

const time = (seconds: number): Html => {
  const text = new Date(seconds * 1000).toISOString();
  return html`<time datetime="${text}">${text.slice(0, 16).replace("T", " ")} UTC</time>`;
};

function accountPage(
  kit: Kit,
  ctx: Koa.Context,
  holder: SessionHolder,
  status: number,
  said: Html | null,
  ofPassword: Html | null = null,
): void {
  const { store } = kit;
  const root = rootOf(ctx);
  const token = hidden("csrf", holder.csrf_token);
  const user = store.users.get(holder.user_id);
  const sessions = store.sessions.list(user.id);
  const hasPassword = store.passwords.find(user.id) !== null;
  const session = (row: SessionRow): Html => html`
    <tr><td>${row.address}</td><td class="agent">${row.user_agent || "unknown"}</td><td>${METHODS[row.method]}</td><td>${time(row.created_at)}</td><td>${time(row.last_used_at)}</td>
    <td>${row.public_id === holder.public_id ? html`<strong>this one</strong>` : html`<form method="post" action="${root}account/session">${token}${hidden("id", row.public_id)}<button type="submit" class="small">End</button></form>`}</td></tr>`;
  const password = html`
<section aria-labelledby="password-title"><h2 id="password-title">Password</h2>${ofPassword}
<form method="post" action="${root}account/password">
  ${token}<input type="text" name="username" autocomplete="username" value="${user.name}" readonly hidden>
  ${field("Present password", "present", `type="password" required autocomplete="current-password"`)}
  ${field("New password", "wanted", `type="password" required minlength="${SHORTEST_PASSWORD}" autocomplete="new-password"`, `At least ${SHORTEST_PASSWORD} characters. A few words that do not belong together are a good one.`)}
  ${field("New password again", "again", `type="password" required minlength="${SHORTEST_PASSWORD}" autocomplete="new-password"`)}
  <button type="submit">Change password</button>
</form></section>`;
  sendPage(ctx, kit.files, status, {
    title: "Account",
    main: html`${said}
<section aria-labelledby="who"><h2 id="who">${user.display_name || user.name}</h2>
<dl><dt>Login name</dt><dd>${user.name}</dd>${user.email === null ? null : html`<dt>E-mail</dt><dd>${user.email}</dd>`}</dl>
<form method="post" action="${root}logout">${token}<button type="submit">Sign out</button></form></section>
<section aria-labelledby="organizations"><h2 id="organizations">Organizations</h2>
<div class="wide"><table><thead><tr><th scope="col">Name</th><th scope="col">Role</th></tr></thead><tbody>
${store.users.listMemberships(user.id).map(({ organization, kind, role }) => html`<tr><td>${organization}${kind === "personal" ? " (personal)" : ""}</td><td>${role}</td></tr>`)}
</tbody></table></div>
<p>What you may do there you can try in the <a href="${root}api/v2/doc/">API reference</a>, without a key as long as you are signed in.</p></section>
<section aria-labelledby="sessions"><h2 id="sessions">Sessions</h2>
<div class="wide"><table><thead><tr><th scope="col">Address</th><th scope="col">Browser</th><th scope="col">Signed in with</th><th scope="col">Since</th><th scope="col">Last used</th><th scope="col">End</th></tr></thead><tbody>${sessions.map(session)}</tbody></table></div>
${sessions.length > 1 ? html`<form method="post" action="${root}account/sessions">${token}<button type="submit">End all others</button></form>` : null}</section>
${hasPassword ? password : html`<section aria-labelledby="password-title"><h2 id="password-title">Password</h2><p>You have none here: you sign in with OpenID Connect.</p></section>`}`,
  });
}

export const showAccount: Handler = (kit, ctx) => {
  const holder = kit.holderOf(ctx);
  if (!holder) return sendOn(ctx, "/login?next=%2Faccount");
  const done = DONE[String(ctx.query["done"])];
  accountPage(kit, ctx, holder, 200, message(done ?? null, true));
};

/** A form of the account page; somebody whose session ended is sent to the login. `work` answers. */
const formOf =
  (
    work: (kit: Kit, ctx: Koa.Context, holder: SessionHolder, given: (name: string) => string) => Promise<void>,
  ): Handler =>
  async (kit, ctx) => {
    const given = await readFields(kit, ctx);
    const holder = kit.holderOf(ctx);
    if (!holder) return sendOn(ctx, "/login?next=%2Faccount");
    if (!isOwnForm(kit, ctx, holder, given)) return accountPage(kit, ctx, holder, 403, message(STRANGE_FORM));
    await work(kit, ctx, holder, given);
  };

export const endSession = formOf(async (kit, ctx, holder, given) => {
  await kit.logins.end(holder, given("id"), "end_session", visitorOf(ctx).requestId);
  sendOn(ctx, "/account?done=session");
});

export const endOtherSessions = formOf(async (kit, ctx, holder) => {
  await kit.logins.endOthers(holder, visitorOf(ctx).requestId);
  sendOn(ctx, "/account?done=sessions");
});

export const changePassword = formOf(async (kit, ctx, holder, given) => {
  const wanted = given("wanted");
  const problem = wanted === given("again") ? passwordProblem(wanted, holder.name) : "the two new passwords differ";
  if (problem !== null) return accountPage(kit, ctx, holder, 400, null, message(`Nothing was changed: ${problem}.`));
  try {
    const started = await kit.logins.changePassword(holder, given("present"), wanted, visitorOf(ctx));
    if (started) return await letIn(kit, ctx, started, "/account?done=password");
    accountPage(kit, ctx, holder, 403, null, message("Nothing was changed: the present password is wrong."));
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    if (error.code === "unauthenticated") return sendOn(ctx, "/login?next=%2Faccount");
    ctx.set(error.headers);
    accountPage(kit, ctx, holder, STATUS_BY_ERROR[error.code], null, message(`Nothing was changed: ${error.message}.`));
  }
});
