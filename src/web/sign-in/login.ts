/** `/login` and `/logout`, and the login through the OpenID provider. */
import type Koa from "koa";
import type { StartedSession } from "../../auth/login-context.ts";
import { LoginRefusedError } from "../../auth/oidc-provider.ts";
import type { OidcChecks } from "../../auth/oidc-provider.ts";
import { parseNextPath } from "../../domain/login/next-path.ts";
import { AppError } from "../../errors.ts";
import { STATUS_BY_ERROR } from "../../http/response.ts";
import { problemBox } from "../components/forms.ts";
import { field, hidden, html, rootOf, valueAttribute } from "../html.ts";
import {
  FOREIGN_FORM_MESSAGE,
  redirectTo,
  sendPage,
  isOwnForm,
  readFields,
  requestIdOf,
  sendMessage,
  startBrowserSession,
  visitorOf,
} from "./page-context.ts";
import { MAX_KEPT_BYTES, parseKeptForm } from "./kept-form.ts";
import type { PageContext, PageHandler } from "./page-context.ts";

/** The page that the browser wants after the login; null when there is none. */
const nextOf = (ctx: Koa.Context): string | null =>
  parseNextPath(typeof ctx.query["next"] === "string" ? ctx.query["next"] : null);

type LoginPage = {
  status: number;
  next: string | null;
  /** Shown above the form. */
  problem?: string;
  /** The login name that was entered before. */
  name?: string;
  /** What was submitted on another page when the session had ended; it is shown there after the login. */
  form?: string | null;
  /** Whether it was too large to be kept. */
  isTooLarge?: boolean;
};

const KEPT = html`<p class="done" role="status">Your session has ended. What you submitted is kept: it is shown again
after you sign in here.</p>`;

const TOO_LARGE =
  "Your session has ended, and what you submitted is too large to be kept. Go back in your browser, copy it, and " +
  "sign in in another tab.";

export function sendLoginPage(
  page: PageContext,
  ctx: Koa.Context,
  { status, next, problem, name = "", form = null, isTooLarge = false }: LoginPage,
): Promise<void> {
  const root = rootOf(ctx);
  const token = page.cookies.formToken(ctx);
  if (form !== null && page.logins.hasProvider) page.waitingForms.keep(form, { token, next });
  const query = next === null ? "" : `?next=${encodeURIComponent(next)}`;
  const setup = page.logins.isSetupOpen()
    ? html`<p class="done" role="status">This server has no users yet.
<a href="${root}setup">Create the first administrator</a></p>`
    : null;
  const oidc = page.logins.hasProvider
    ? html`<p class="other"><a class="button" href="${root}login/oidc${query}">Sign in with OpenID Connect</a></p>`
    : null;
  // The cursor starts where something has to be entered.
  const [nameFocus, passwordFocus] = name === "" ? [" autofocus", ""] : ["", " autofocus"];
  return sendPage(page, ctx, {
    status,
    title: "Sign in",
    main: html`${setup}${problemBox(isTooLarge ? TOO_LARGE : (problem ?? null))}${form !== null && KEPT}${oidc}
<form method="post" action="${root}login">
  ${hidden("csrf", token)}${hidden("next", next ?? "")}${form !== null && hidden("form", form)}
  ${field({
    label: "Login name",
    name: "name",
    attributes:
      `required autocomplete="username" autocapitalize="none" spellcheck="false" maxlength="256"${nameFocus} ` +
      valueAttribute(name),
  })}
  ${field({
    label: "Password",
    name: "password",
    attributes: `type="password" required autocomplete="current-password"${passwordFocus}`,
  })}
  <button type="submit">Sign in</button>
</form>`,
  });
}

export const showLogin: PageHandler = async (page, ctx) => {
  const next = nextOf(ctx);
  if (page.holderOf(ctx)) return redirectTo(ctx, next ?? (await page.homeOf(ctx, page.cookies.get(ctx, "session"))));
  return sendLoginPage(page, ctx, { status: 200, next });
};

/** Bytes of the login form with a form of another page in it. */
const MAX_LOGIN_BYTES = MAX_KEPT_BYTES + 32_768;

export const login: PageHandler = async (page, ctx) => {
  const fields = await readFields(page, ctx, MAX_LOGIN_BYTES);
  const [next, name] = [parseNextPath(fields("next")), fields("name").trim()];
  const form = fields("form") || null;
  const refuse = (status: number, problem: string): Promise<void> =>
    sendLoginPage(page, ctx, { status, next, problem, name, form });
  if (!page.cookies.isOwnOrigin(ctx) || !page.cookies.isFormToken(ctx, fields("csrf")))
    return refuse(403, FOREIGN_FORM_MESSAGE);
  try {
    const started = await page.logins.signIn(name, fields("password"), visitorOf(ctx));
    if (started) return await finishLogin(page, ctx, { started, next, form });
    // The same text for an unknown name, so that it does not reveal which names exist.
    return refuse(403, "The login name or the password is wrong.");
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    ctx.set(error.headers);
    return refuse(STATUS_BY_ERROR[error.code], `${error.message}.`);
  }
};

/** Continues where the person wanted to go; with the form that was submitted when the earlier session had ended. */
async function finishLogin(
  page: PageContext,
  ctx: Koa.Context,
  { started, next, form }: { started: StartedSession; next: string | null; form: string | null },
): Promise<void> {
  const path = next ?? (await page.homeOf(ctx, started.cookie));
  page.waitingForms.take({ token: page.cookies.get(ctx, "form"), next });
  await startBrowserSession(page, ctx, { started, path });
  const entries = form === null ? null : parseKeptForm(form);
  if (entries !== null) await page.resumeForm(ctx, { path, cookie: started.cookie, entries });
}

export const logout: PageHandler = async (page, ctx) => {
  const holder = page.holderOf(ctx);
  const fields = await readFields(page, ctx);
  if (holder && !isOwnForm(page, ctx, { holder, fields }))
    return sendMessage(page, ctx, {
      status: 403,
      title: "Not signed out",
      text: FOREIGN_FORM_MESSAGE,
      link: html`<a href="${rootOf(ctx)}account">Back to your account</a>`,
    });
  if (holder)
    await page.logins.endSession(holder, {
      id: holder.public_id,
      operation: "logout",
      requestId: requestIdOf(ctx),
    });
  page.cookies.set(ctx, "session", null);
  redirectTo(ctx, "/login");
};

/** The redirect URI, which must be registered with the provider in exactly this form. */
const redirectUri = ({ baseUrl }: PageContext): string => `${baseUrl}/login/oidc/callback`;

const NO_PROVIDER = "This server does not offer to sign in with OpenID Connect. Please sign in with your password.";

export const beginOidc: PageHandler = async (page, ctx) => {
  const { provider } = page.logins;
  if (provider === null) return sendRefusal(page, ctx, { status: 404, text: NO_PROVIDER });
  const next = nextOf(ctx);
  try {
    const { url, checks } = await provider.begin(redirectUri(page));
    page.cookies.set(ctx, "oidc", Buffer.from(JSON.stringify({ ...checks, next })).toString("base64url"));
    ctx.status = 303;
    ctx.set("Location", url);
    ctx.body = "";
  } catch (error) {
    await sendOidcFailure(page, ctx, error);
  }
};

export const finishOidc: PageHandler = async (page, ctx) => {
  const { provider } = page.logins;
  if (provider === null) return sendRefusal(page, ctx, { status: 404, text: NO_PROVIDER });
  const pending = readPendingLogin(page.cookies.get(ctx, "oidc"));
  // It is valid once, whatever the result is.
  page.cookies.set(ctx, "oidc", null);
  if (pending === null)
    return sendRefusal(page, ctx, {
      status: 400,
      text: "This sign-in was started in another browser, or took too long. Please sign in again.",
    });
  try {
    const returned = new URL(redirectUri(page));
    returned.search = ctx.search;
    const person = await provider.finish(returned, pending);
    const started = await page.logins.signInWithProvider(person, visitorOf(ctx));
    if (started) {
      const next = parseNextPath(pending.next);
      const form = page.waitingForms.take({ token: page.cookies.get(ctx, "form"), next });
      return await finishLogin(page, ctx, { started, next, form });
    }
    page.warn(
      { issuer: person.issuer, subject: person.subject, groups: person.groups, request_id: requestIdOf(ctx) },
      "login refused: none of the groups gives a role, or the user is disabled",
    );
    await sendRefusal(page, ctx, {
      status: 403,
      text:
        "The login provider accepted you, but none of your groups has a role here, or your account is disabled. " +
        "Please ask the administrator of this server.",
    });
  } catch (error) {
    await sendOidcFailure(page, ctx, error);
  }
};

/** Answers when the provider, or a check of its response, refused a login, and when the provider did not answer. */
function sendOidcFailure(page: PageContext, ctx: Koa.Context, error: unknown): Promise<void> {
  const request_id = requestIdOf(ctx);
  if (error instanceof LoginRefusedError) {
    page.warn({ reason: error.message, request_id }, "login refused by the provider, or its response is not valid");
    return sendRefusal(page, ctx, {
      status: 403,
      text:
        "The login provider refused the sign-in, or its response was not valid. Please try again; if it fails again, " +
        "ask the administrator of this server, who finds the reason in the log.",
    });
  }
  if (!(error instanceof AppError)) throw error;
  if (error.internal) page.warn({ reason: error.internal, request_id }, error.message);
  ctx.set(error.headers);
  return sendRefusal(page, ctx, {
    status: STATUS_BY_ERROR[error.code],
    text: `${error.message}. You can try again, or sign in with a password if you have one.`,
  });
}

const sendRefusal = (page: PageContext, ctx: Koa.Context, refusal: { status: number; text: string }): Promise<void> =>
  sendMessage(page, ctx, {
    ...refusal,
    title: "Not signed in",
    link: html`<a href="${rootOf(ctx)}login">Back to sign-in</a>`,
  });

/** The login in progress that a cookie holds; null when it holds none. */
function readPendingLogin(cookie: string | null): (OidcChecks & { next: string | null }) | null {
  try {
    const text = Buffer.from(cookie ?? "", "base64url").toString("utf8");
    const { state, nonce, verifier, next } = JSON.parse(text) as Record<string, unknown>;
    if (typeof state !== "string" || typeof nonce !== "string" || typeof verifier !== "string") return null;
    return { state, nonce, verifier, next: typeof next === "string" ? next : null };
  } catch {
    return null;
  }
}
