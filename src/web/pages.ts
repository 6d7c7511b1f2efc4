/** The login pages at the root of the server. They work without scripts. */
import type Koa from "koa";
import { AppError, methodNotAllowed, routeNotFound } from "../errors.ts";
import { recordForLog } from "../http/request-log.ts";
import { STATUS_BY_ERROR } from "../http/response.ts";
import type { SessionHolder } from "../store/accounts/sessions.ts";
import { changePassword, endOtherSessions, endSession, showAccount } from "./account.ts";
import { createCookies } from "./cookies.ts";
import { loadFile, sendFile } from "./documentation.ts";
import type { Served } from "./documentation.ts";
import { html, rootOf, redirectTo } from "./html.ts";
import type { PageHandler, PageContext } from "./page-context.ts";
import { requestIdOf, sendMessage } from "./page-context.ts";
import { beginOidc, finishOidc, HOME_PATH, login, logout, showLogin } from "./login.ts";
import { setUp, showSetup } from "./setup.ts";
import type { Principal } from "../http/server-context.ts";

/** The user who is signed in, for the script of the API reference, which cannot read the cookie. */
const session: PageHandler = ({ holderOf }, ctx) => {
  const holder = holderOf(ctx);
  ctx.status = 200;
  ctx.type = "application/json; charset=utf-8";
  ctx.body = JSON.stringify({ user: holder?.name ?? null, csrf_token: holder?.csrf_token ?? null });
};

/** Redirects browsers only: for other clients nothing exists at the root. */
const root: PageHandler = (kit, ctx) => {
  if (!ctx.get("Accept").includes("text/html")) throw routeNotFound();
  redirectTo(ctx, kit.holderOf(ctx) ? HOME_PATH : "/login");
};

const PAGES: ReadonlyMap<string, Readonly<Partial<Record<"GET" | "POST", PageHandler>>>> = new Map([
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

type WebPageDependencies = Pick<PageContext, "store" | "logins" | "limits" | "baseUrl" | "warn"> & {
  /** The session of a cookie; null when there is none. */
  authenticateSession(cookie: string): { holder: SessionHolder; principal: Principal } | null;
  /** Epoch seconds. */
  now(): number;
};

export function createWebPages(dependencies: WebPageDependencies) {
  const cookies = createCookies(dependencies.baseUrl);
  const files = createPageFiles();
  const sessionOf = (ctx: Koa.Context) => {
    const cookie = cookies.get(ctx, "session");
    const found = cookie === null ? null : dependencies.authenticateSession(cookie);
    return found && { ...found, csrfToken: found.holder.csrf_token };
  };
  const page: PageContext = {
    ...dependencies,
    cookies,
    files: files.paths,
    holderOf: (ctx) => sessionOf(ctx)?.holder ?? null,
  };

  /** Rotates session cookies once in a while, on any request. */
  const renew: Koa.Middleware = async (ctx, next) => {
    const usesCookie = ctx.req.headers.authorization === undefined && !ctx.path.startsWith(FILES_ROOT);
    const cookie = usesCookie ? cookies.get(ctx, "session") : null;
    let renewed: string | null = null;
    try {
      if (cookie !== null)
        renewed = await dependencies.logins.renewCookie(cookie, {
          now: dependencies.now(),
          requestId: requestIdOf(ctx),
        });
    } catch (error) {
      // In read-only mode the pages still work.
      if (!(error instanceof AppError)) throw error;
    }
    if (renewed !== null) cookies.set(ctx, "session", renewed);
    await next();
    // A response with a session cookie is for one browser, whatever its own headers say.
    if (renewed !== null) ctx.set("Cache-Control", "no-store");
  };

  const serve: Koa.Middleware = async (ctx, next) => {
    const handlers = PAGES.get(ctx.path);
    if (!handlers && !ctx.path.startsWith(FILES_ROOT)) return next();
    recordForLog(ctx, { route: handlers ? "login_pages" : "login_files" });
    const file = files.find(ctx.path);
    if (!handlers && !file) throw routeNotFound();
    const method = ctx.method === "HEAD" ? "GET" : ctx.method;
    const allowed = Object.keys(handlers ?? { GET: file });
    if (!allowed.includes(method))
      throw methodNotAllowed(allowed.includes("GET") ? [...allowed, "HEAD"].sort() : allowed);
    if (file) return sendFile(ctx, file);
    try {
      await handlers?.[method as "GET" | "POST"]?.(page, ctx);
    } catch (error) {
      if (!(error instanceof AppError) || ctx.path === "/") throw error;
      ctx.set(error.headers);
      sendMessage(page, ctx, {
        status: STATUS_BY_ERROR[error.code],
        title: "Something went wrong",
        text: `${error.message}.`,
        link: html`<a href="${rootOf(ctx)}login">Back to sign-in</a>`,
      });
    }
  };

  return { renew, serve, sessionOf };
}

/** The files of the pages, read on the first request for a page or a file. */
function createPageFiles() {
  const files = new Map<string, Served>();
  const paths = new Map<string, string>();
  return {
    /** File name -> its path below the root of the server. Filled by `find`. */
    paths,
    find(path: string): Served | undefined {
      for (const name of files.size === 0 ? FILES : []) {
        const { address, file } = loadFile(name, name === "icon.svg" ? "ui/reference/icon.svg" : `ui/${name}`);
        files.set(address, file);
        paths.set(name, `${FILES_ROOT.slice(1)}${address}`);
      }
      return files.get(path.slice(FILES_ROOT.length));
    },
  };
}
