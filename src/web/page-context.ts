/** What the login pages share: their context, reading forms, and answering. */
import type Koa from "koa";
import type { StartedSession, Visitor } from "../auth/login-context.ts";
import type { Logins } from "../auth/logins.ts";
import { MIN_PASSWORD_CHARS } from "../domain/login/password.ts";
import { badRequest } from "../errors.ts";
import { equalsInConstantTime } from "../http/authenticate.ts";
import { readSmallBody } from "../http/body/body.ts";
import type { BodyLimits } from "../http/body/body.ts";
import { clientAddress } from "../http/client-address.ts";
import type { SessionHolder } from "../store/accounts/sessions.ts";
import type { Store } from "../store/index.ts";
import type { Cookies } from "./cookies.ts";
import { html, redirectTo, sendPage } from "./html.ts";
import type { Html, PageFiles } from "./html.ts";

export type PageContext = {
  store: Store;
  logins: Logins;
  cookies: Cookies;
  files: PageFiles;
  limits: BodyLimits;
  /** The public address, without a trailing slash. */
  baseUrl: string;
  /** The session of this browser and its user; null without one. */
  holderOf(ctx: Koa.Context): SessionHolder | null;
  warn(facts: Readonly<Record<string, unknown>>, text: string): void;
};

export type PageHandler = (page: PageContext, ctx: Koa.Context) => void | Promise<void>;

/** Reads a form field; empty when it is missing. */
export type FormFields = (name: string) => string;

/** Two passwords of the maximum length, with each byte escaped as three characters. */
const MAX_FORM_BYTES = 16_384;

/** Reads the fields of a form; of a repeated field the first value counts. @throws AppError 400, 408, 413 */
export async function readFields({ limits }: PageContext, ctx: Koa.Context): Promise<FormFields> {
  if (!ctx.is("application/x-www-form-urlencoded")) throw badRequest("This address only accepts the form of its page");
  const bytes = await readSmallBody(ctx, { ...limits, json: MAX_FORM_BYTES });
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
): boolean => cookies.isOwnOrigin(ctx) && equalsInConstantTime(fields("csrf"), holder.csrf_token);

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
export function sendMessage(
  { files }: PageContext,
  ctx: Koa.Context,
  { status, title, text, link }: { status: number; title: string; text: string; link: Html },
): void {
  sendPage(ctx, files, { status, title, main: html`<p class="problem" role="alert">${text}</p><p>${link}</p>` });
}
