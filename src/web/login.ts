/** `/login` and `/logout`, and the way through the OpenID provider. */
import type Koa from "koa";
import { AppError } from "../errors.ts";
import { nextPath } from "../domain/login/next-path.ts";
import { STATUS_BY_ERROR } from "../http/response.ts";
import { LoginRefusedError } from "../auth/oidc-provider.ts";
import type { Checks } from "../auth/oidc-provider.ts";
import { field, hidden, html, message, rootOf, sendOn, sendPage } from "./html.ts";
import type { Handler, Kit } from "./kit.ts";
import { STRANGE_FORM, isOwnForm, letIn, readFields, sendMessage, visitorOf } from "./kit.ts";

/** Where people go who wanted to go nowhere else. */
export const HOME = "/account";

const nextOf = (ctx: Koa.Context): string | null =>
  nextPath(typeof ctx.query["next"] === "string" ? ctx.query["next"] : null);

/** The page of logins. `said` stands above the form. */
function loginPage(
  kit: Kit,
  ctx: Koa.Context,
  status: number,
  next: string | null,
  said: string | null,
  name = "",
): void {
  const root = rootOf(ctx);
  const query = next === null ? "" : `?next=${encodeURIComponent(next)}`;
  const first = kit.logins.isOpen()
    ? html`<p class="done" role="status">Nobody has an account here yet. <a href="${root}setup">Set up the first administrator</a></p>`
    : null;
  const oidc = kit.logins.hasProvider
    ? html`<p class="other"><a class="button" href="${root}login/oidc${query}">Sign in with OpenID Connect</a></p>`
    : null;
  sendPage(ctx, kit.files, status, {
    title: "Sign in",
    main: html`${first}${message(said)}${oidc}
<form method="post" action="${root}login">
  ${hidden("csrf", kit.cookies.formToken(ctx))}${hidden("next", next ?? "")}
  ${field("Login name", "name", `required autocomplete="username" autocapitalize="none" spellcheck="false" maxlength="256"${name === "" ? " autofocus" : ""} value="${html`${name}`.text}"`)}
  ${field("Password", "password", `type="password" required autocomplete="current-password"${name === "" ? "" : " autofocus"}`)}
  <button type="submit">Sign in</button>
</form>`,
  });
}

export const showLogin: Handler = (kit, ctx) => {
  const next = nextOf(ctx);
  if (kit.holderOf(ctx)) return sendOn(ctx, next ?? HOME);
  loginPage(kit, ctx, 200, next, null);
};

export const login: Handler = async (kit, ctx) => {
  const given = await readFields(kit, ctx);
  const [next, name] = [nextPath(given("next")), given("name").trim()];
  if (!kit.cookies.isOwnOrigin(ctx) || !kit.cookies.isFormToken(ctx, given("csrf")))
    return loginPage(kit, ctx, 403, next, STRANGE_FORM, name);
  try {
    const started = await kit.logins.signIn(name, given("password"), visitorOf(ctx));
    if (started) return await letIn(kit, ctx, started, next ?? HOME);
    // The same for a name that nobody has.
    return loginPage(kit, ctx, 403, next, "The login name or the password is wrong.", name);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    ctx.set(error.headers);
    return loginPage(kit, ctx, STATUS_BY_ERROR[error.code], next, `${error.message}.`, name);
  }
};

export const logout: Handler = async (kit, ctx) => {
  const holder = kit.holderOf(ctx);
  const given = await readFields(kit, ctx);
  if (holder && !isOwnForm(kit, ctx, holder, given))
    return sendMessage(
      kit,
      ctx,
      403,
      "Not signed out",
      STRANGE_FORM,
      html`<a href="${rootOf(ctx)}account">Back to your account</a>`,
    );
  if (holder) await kit.logins.end(holder, holder.public_id, "logout", visitorOf(ctx).requestId);
  kit.cookies.set(ctx, "session", null);
  sendOn(ctx, "/login");
};

/** The address that the provider must know, letter by letter. */
const redirectUri = ({ baseUrl }: Kit): string => `${baseUrl}/login/oidc/callback`;

export const beginOidc: Handler = async (kit, ctx) => {
  const { provider } = kit.logins;
  if (provider === null) return refused(kit, ctx, 404, "This server has no login with OpenID Connect.");
  const next = nextOf(ctx);
  try {
    const { url, checks } = await provider.begin(redirectUri(kit));
    kit.cookies.set(ctx, "oidc", Buffer.from(JSON.stringify({ ...checks, next })).toString("base64url"));
    ctx.status = 303;
    ctx.set("Location", url);
    ctx.body = "";
  } catch (error) {
    unanswered(kit, ctx, error);
  }
};

export const finishOidc: Handler = async (kit, ctx) => {
  const { provider } = kit.logins;
  if (provider === null) return refused(kit, ctx, 404, "This server has no login with OpenID Connect.");
  const begun = readBegun(kit.cookies.get(ctx, "oidc"));
  // It counts once, whatever comes of it.
  kit.cookies.set(ctx, "oidc", null);
  if (begun === null) return refused(kit, ctx, 400, "This login was not begun in this browser, or took too long.");
  try {
    const returned = new URL(redirectUri(kit));
    returned.search = ctx.search;
    const person = await provider.finish(returned, begun);
    const started = await kit.logins.admit(person, visitorOf(ctx));
    if (started) return await letIn(kit, ctx, started, nextPath(begun.next) ?? HOME);
    kit.warn(
      { issuer: person.issuer, subject: person.subject, groups: person.groups, request_id: ctx.state["requestId"] },
      "login refused: no group gives a role, or the user is disabled",
    );
    refused(
      kit,
      ctx,
      403,
      "You signed in with the provider, but none of your groups has a role here. Please ask the administrator of this server.",
    );
  } catch (error) {
    unanswered(kit, ctx, error);
  }
};

function unanswered(kit: Kit, ctx: Koa.Context, error: unknown): void {
  if (error instanceof LoginRefusedError) {
    kit.warn(
      { reason: error.message, request_id: ctx.state["requestId"] },
      "login refused: the answer of the provider does not hold",
    );
    return refused(kit, ctx, 403, "The login was refused, by the provider or because its answer does not hold.");
  }
  if (!(error instanceof AppError)) throw error;
  if (error.internal) kit.warn({ reason: error.internal, request_id: ctx.state["requestId"] }, error.message);
  ctx.set(error.headers);
  refused(
    kit,
    ctx,
    STATUS_BY_ERROR[error.code],
    `${error.message}. You can try again, or sign in with a password if you have one.`,
  );
}

const refused = (kit: Kit, ctx: Koa.Context, status: number, text: string): void =>
  sendMessage(kit, ctx, status, "Not signed in", text, html`<a href="${rootOf(ctx)}login">Back to the login</a>`);

/** What the cookie of a login says; null where it says nothing of the kind. */
function readBegun(cookie: string | null): (Checks & { next: string | null }) | null {
  try {
    const { state, nonce, verifier, next } = JSON.parse(
      Buffer.from(cookie ?? "", "base64url").toString("utf8"),
    ) as Record<string, unknown>;
    if (typeof state !== "string" || typeof nonce !== "string" || typeof verifier !== "string") return null;
    return { state, nonce, verifier, next: typeof next === "string" ? next : null };
  } catch {
    return null;
  }
}
