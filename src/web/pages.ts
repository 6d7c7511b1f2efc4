/**
 * The pages of logins at the root of the server. They work without script. Everybody may see the login; what somebody
 * sees beyond it follows from their session.
 */
import type Koa from "koa";
import { AppError, methodNotAllowed, routeNotFound } from "../errors.ts";
import { recordForLog } from "../http/request-log.ts";
import { STATUS_BY_ERROR } from "../http/response.ts";
import type { SessionHolder } from "../store/accounts/sessions.ts";
import { changePassword, endOtherSessions, endSession, showAccount } from "./account.ts";
import { cookiesOf } from "./cookies.ts";
import { loadFile, sendFile } from "./documentation.ts";
import type { Served } from "./documentation.ts";
import { html, rootOf, sendOn } from "./html.ts";
import type { Handler, Kit } from "./kit.ts";
import { sendMessage, visitorOf } from "./kit.ts";
import { beginOidc, finishOidc, HOME, login, logout, showLogin } from "./login.ts";
import { setUp, showSetup } from "./setup.ts";
import type { Principal } from "../http/server-context.ts";

/** Who signed in, for the script of the reference page: it has no cookie that it could read. */
const session: Handler = ({ holderOf }, ctx) => {
  const holder = holderOf(ctx);
  ctx.status = 200;
  ctx.type = "application/json; charset=utf-8";
  ctx.body = JSON.stringify({ user: holder?.name ?? null, csrf_token: holder?.csrf_token ?? null });
};

/** Only for browsers: programs that ask for the root are told that nothing is there, as ever. */
const root: Handler = (kit, ctx) => {
  if (!ctx.get("Accept").includes("text/html")) throw routeNotFound();
  sendOn(ctx, kit.holderOf(ctx) ? HOME : "/login");
};

const PAGES: ReadonlyMap<string, Readonly<Partial<Record<"GET" | "POST", Handler>>>> = new Map([
  ["/", { GET: root }],
  ["/login", { GET: showLogin, POST: login }],
  ["/login/oidc", { GET: beginOidc }],
  ["/login/oidc/callback", { GET: finishOidc }],
  ["/logout", { POST: logout }],
  ["/setup", { GET: showSetup, POST: setUp }],
  ["/account", { GET: showAccount }],
  ["/account/password", { POST: changePassword }],
  ["/account/session", { POST: endSession }],
  ["/account/sessions", { POST: endOtherSessions }],
  ["/session", { GET: session }],
]);

const FILES = ["house.css", "pages.css", "icon.svg"] as const;
const FILES_ROOT = "/ui/";

/** @param bySession who has this cookie @param now epoch seconds */
export function webPages(
  parts: Pick<Kit, "store" | "logins" | "limits" | "baseUrl" | "warn"> & {
    bySession(cookie: string): { holder: SessionHolder; principal: Principal } | null;
    now(): number;
  },
) {
  const cookies = cookiesOf(parts.baseUrl);
  const files = new Map<string, Served>();
  const addresses = new Map<string, string>();
  /** Nothing is read before the first page. */
  function load(): void {
    for (const name of files.size === 0 ? FILES : []) {
      const { address, file } = loadFile(name, name === "icon.svg" ? "ui/reference/icon.svg" : `ui/${name}`);
      files.set(address, file);
      addresses.set(name, `${FILES_ROOT.slice(1)}${address}`);
    }
  }
  const sessionOf = (ctx: Koa.Context) => {
    const cookie = cookies.get(ctx, "session");
    const found = cookie === null ? null : parts.bySession(cookie);
    return found && { ...found, csrfToken: found.holder.csrf_token };
  };
  const kit: Kit = { ...parts, cookies, files: addresses, holderOf: (ctx) => sessionOf(ctx)?.holder ?? null };

  /** Gives cookies another value once in a while, whatever they are sent with. */
  const renew: Koa.Middleware = async (ctx, next) => {
    const isByCookie = ctx.req.headers.authorization === undefined && !ctx.path.startsWith(FILES_ROOT);
    const cookie = isByCookie ? cookies.get(ctx, "session") : null;
    let renewed: string | null = null;
    try {
      if (cookie !== null) renewed = await parts.logins.renew(cookie, parts.now(), visitorOf(ctx).requestId);
    } catch (error) {
      // A server that takes no writes still shows what it has.
      if (!(error instanceof AppError)) throw error;
    }
    if (renewed !== null) cookies.set(ctx, "session", renewed);
    await next();
    // An answer with a cookie in it is for one browser, whatever it says.
    if (renewed !== null) ctx.set("Cache-Control", "no-store");
  };

  const serve: Koa.Middleware = async (ctx, next) => {
    const page = PAGES.get(ctx.path);
    if (!page && !ctx.path.startsWith(FILES_ROOT)) return next();
    recordForLog(ctx, { route: page ? "login_pages" : "login_files" });
    load();
    const file = files.get(ctx.path.slice(FILES_ROOT.length));
    if (!page && !file) throw routeNotFound();
    const method = ctx.method === "HEAD" ? "GET" : ctx.method;
    const known = Object.keys(page ?? { GET: file });
    if (!known.includes(method)) throw methodNotAllowed(known.includes("GET") ? [...known, "HEAD"].sort() : known);
    if (file) return sendFile(ctx, file);
    try {
      await page?.[method as "GET" | "POST"]?.(kit, ctx);
    } catch (error) {
      if (!(error instanceof AppError) || ctx.path === "/") throw error;
      ctx.set(error.headers);
      sendMessage(
        kit,
        ctx,
        STATUS_BY_ERROR[error.code],
        "That did not work",
        `${error.message}.`,
        html`<a href="${rootOf(ctx)}login">To the login</a>`,
      );
    }
  };

  return { renew, serve, sessionOf };
}
