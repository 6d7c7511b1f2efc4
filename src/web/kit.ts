/** What the pages of logins share: who is there, forms, and one way to answer. */
import type Koa from "koa";
import { badRequest } from "../errors.ts";
import { readSmallBody } from "../http/body/body.ts";
import type { BodyLimits } from "../http/body/body.ts";
import { equalsInConstantTime } from "../http/authenticate.ts";
import { clientAddress } from "../http/client-address.ts";
import type { Logins, Started, Visitor } from "../auth/logins.ts";
import type { Store } from "../store/index.ts";
import type { SessionHolder } from "../store/accounts/sessions.ts";
import type { Cookies } from "./cookies.ts";
import { html, sendOn, sendPage } from "./html.ts";
import type { Html, PageFiles } from "./html.ts";

export type Kit = {
  store: Store;
  logins: Logins;
  cookies: Cookies;
  files: PageFiles;
  limits: BodyLimits;
  /** The public address, without a trailing slash. */
  baseUrl: string;
  /** Who signed in with this browser; null when nobody did. */
  holderOf(ctx: Koa.Context): SessionHolder | null;
  warn(facts: Readonly<Record<string, unknown>>, text: string): void;
};

export type Handler = (kit: Kit, ctx: Koa.Context) => void | Promise<void>;

/** Bytes of a form: two passwords of the greatest length, each byte written in three. */
const FORM_BYTES = 16_384;

/** The fields of a form; of a field that comes twice the first counts. @throws AppError 400, 408, 413. */
export async function readFields({ limits }: Kit, ctx: Koa.Context): Promise<(name: string) => string> {
  if (!ctx.is("application/x-www-form-urlencoded")) throw badRequest("This address takes the form of its page");
  const bytes = await readSmallBody(ctx, { ...limits, json: FORM_BYTES });
  const fields = new URLSearchParams(bytes?.toString("utf8") ?? "");
  return (name) => fields.get(name) ?? "";
}

/** What a form is answered that did not come from a page of this browser, or from one of long ago. */
export const STRANGE_FORM = "This form was open for too long, or does not come from here. Please try again.";

/** Whether a form of somebody who signed in was sent by them. */
export const isOwnForm = (
  { cookies }: Kit,
  ctx: Koa.Context,
  holder: SessionHolder,
  field: (name: string) => string,
): boolean => cookies.isOwnOrigin(ctx) && equalsInConstantTime(field("csrf"), holder.csrf_token);

export const visitorOf = (ctx: Koa.Context): Visitor => ({
  address: clientAddress(ctx.req),
  userAgent: ctx.get("User-Agent"),
  requestId: ctx.state["requestId"] as string,
});

/** Lets the browser have its session, which takes the place of one that it had before, and sends it on. */
export async function letIn(kit: Kit, ctx: Koa.Context, { cookie }: Started, path: string): Promise<void> {
  const before = kit.holderOf(ctx);
  if (before) await kit.logins.end(before, before.public_id, "login", visitorOf(ctx).requestId);
  kit.cookies.set(ctx, "session", cookie);
  kit.cookies.set(ctx, "form", null);
  sendOn(ctx, path);
}

/** A page that only says something, with the way on. */
export function sendMessage(kit: Kit, ctx: Koa.Context, status: number, title: string, text: string, way: Html): void {
  sendPage(ctx, kit.files, status, { title, main: html`<p class="problem" role="alert">${text}</p><p>${way}</p>` });
}
