/** What the login pages share: their context, reading forms, and answering. */
import type Koa from "koa";
import type { SessionHolder, StartedSession, Visitor } from "../../auth/login-context.ts";
import type { Logins } from "../../auth/logins.ts";
import { MIN_PASSWORD_CHARS } from "../../domain/login/password.ts";
import { badRequest } from "../../errors.ts";
import { readSmallBody } from "../../http/body/body.ts";
import type { BodyLimits } from "../../http/body/body.ts";
import { clientAddress } from "../../http/client-address.ts";
import type { Cookies } from "../cookies.ts";
import { problemBox } from "../components/forms.ts";
import { html, rootOf } from "../html.ts";
import type { Html } from "../html.ts";
import { redirect, sendHtml } from "../page/answer.ts";
import { isMaskedToken } from "../page/csrf.ts";
import type { PageFiles } from "../page/files.ts";
import { plain } from "../page/frame.ts";
import type { Preferences } from "../page/preferences.ts";
import { linksFor } from "../page/links.ts";
import type { WaitingForms } from "./kept-form.ts";

export type PageContext = {
  logins: Logins;
  cookies: Cookies;
  files: PageFiles;
  limits: BodyLimits;
  /** The public address, without a trailing slash. */
  baseUrl: string;
  /** The session of this browser and its user; null without one. */
  holderOf(ctx: Koa.Context): SessionHolder | null;
  /** The path that a person is led to without another destination: the overview of their organization. */
  homeOf(ctx: Koa.Context, cookie: string | null): Promise<string>;
  /** Forms that wait for a sign-in at the OpenID provider. */
  waitingForms: WaitingForms;
  warn(facts: Readonly<Record<string, unknown>>, text: string): void;
  /** Shows the form of a page again, in place of a redirect to the page. `cookie`: of the session that just began. */
  resumeForm(
    ctx: Koa.Context,
    form: { path: string; cookie: string; entries: readonly (readonly [string, string])[] },
  ): Promise<void>;
  /** Shows a page of the person who is signed in with one of its forms refused; nothing that was typed appears. */
  refuseForm(
    ctx: Koa.Context,
    refusal: { path: string; form: string; status: number; message: string; errors: Readonly<Record<string, string>> },
  ): Promise<void>;
  /** What the browser chose. */
  preferencesOf(ctx: Koa.Context): Preferences;
};

export type PageHandler = (page: PageContext, ctx: Koa.Context) => void | Promise<void>;

/** Reads a form field; empty when it is missing. */
export type FormFields = (name: string) => string;

/** Two passwords of the maximum length, with each byte escaped as three characters. */
const MAX_FORM_BYTES = 16_384;

/** Reads the fields of a form; of a repeated field the first value counts. @throws AppError 400, 408, 413 */
export async function readFields(
  { limits }: PageContext,
  ctx: Koa.Context,
  maxBytes: number = MAX_FORM_BYTES,
): Promise<FormFields> {
  if (!ctx.is("application/x-www-form-urlencoded")) throw badRequest("This address only accepts the form of its page");
  const bytes = await readSmallBody(ctx, { ...limits, json: maxBytes });
  const fields = new URLSearchParams(bytes?.toString("utf8") ?? "");
  return (name) => fields.get(name) ?? "";
}

/** The message about a form that does not come from a page of this browser, or from one of long ago. */
export const FOREIGN_FORM_MESSAGE = "This form has expired, or was not sent from this page. Please try again.";

/** The hint of a field for a new password. */
export const PASSWORD_HINT = `At least ${MIN_PASSWORD_CHARS} characters. A few unrelated words make a good password.`;

/** The attributes of a field for a new password. */
export const NEW_PASSWORD_ATTRIBUTES = [
  `type="password" required minlength="${MIN_PASSWORD_CHARS}"`,
  `autocomplete="new-password"`,
].join(" ");

/** Whether a form was sent by the user who is signed in, and not by another site. */
export const isOwnForm = (
  { cookies }: PageContext,
  ctx: Koa.Context,
  { holder, fields }: { holder: SessionHolder; fields: FormFields },
): boolean => cookies.isOwnOrigin(ctx) && isMaskedToken(fields("csrf"), holder.csrf_token);

export const requestIdOf = (ctx: Koa.Context): string => ctx.state["requestId"] as string;

export const visitorOf = (ctx: Koa.Context): Visitor => ({
  address: clientAddress(ctx.req),
  userAgent: ctx.get("User-Agent"),
  requestId: requestIdOf(ctx),
});

/** Gives the browser a new session in place of an earlier one, and redirects it. */
export async function startBrowserSession(
  page: PageContext,
  ctx: Koa.Context,
  { started, path }: { started: StartedSession; path: string },
): Promise<void> {
  const earlier = page.holderOf(ctx);
  if (earlier)
    await page.logins.endSession(earlier, {
      id: earlier.public_id,
      operation: "login",
      requestId: requestIdOf(ctx),
    });
  page.cookies.set(ctx, "session", started.cookie);
  page.cookies.set(ctx, "form", null);
  redirectTo(ctx, path);
}

/** Answers with a page that only has a message, and a link to continue. */
export const sendMessage = (
  page: PageContext,
  ctx: Koa.Context,
  { status, title, text, link }: { status: number; title: string; text: string; link: Html },
): Promise<void> => sendPage(page, ctx, { status, title, main: html`${problemBox(text)}<p>${link}</p>` });

const NO_ORGANIZATIONS = { names: [], hasMore: false };

/** Answers with a page that needs no session. `links` appear on the right of its header. */
export const sendPage = (
  { files, preferencesOf }: PageContext,
  ctx: Koa.Context,
  { status, ...content }: { status: number; title: string; main: Html; links?: readonly Html[] },
): Promise<void> => {
  const surroundings = {
    preferences: preferencesOf(ctx),
    fileOf: files.pathOf,
    liveOf: () => ({ query: "", version: null }),
    shows: () => false,
    organizations: NO_ORGANIZATIONS,
    views: [],
    readOnlyReason: null,
    attention: null,
  };
  return sendHtml(ctx, plain(linksFor(rootOf(ctx), ""), content, surroundings), { status, prefetch: null });
};

/** Redirects the browser to a path below the root of the server, which begins with a slash. */
export const redirectTo = (ctx: Koa.Context, path: string): void => redirect(ctx, `${rootOf(ctx)}${path.slice(1)}`);
