/**
 * Everything that browsers ask for outside of the API: the pages of the web interface, signing in, and the files that
 * they load. All of it works without scripts.
 */
import type Koa from "koa";
import { getDefaultOrg, listOwnOrganizations } from "../api/accounts/users.ts";
import { AppError, methodNotAllowed, routeNotFound } from "../errors.ts";
import type { Caller } from "../http/in-process.ts";
import { recordForLog } from "../http/request-log.ts";
import { STATUS_BY_ERROR } from "../http/response.ts";
import type { Principal } from "../http/server-context.ts";
import { parseNextPath } from "../domain/login/next-path.ts";
import type { SessionHolder } from "../auth/login-context.ts";
import { createCookies } from "./cookies.ts";
import { html, rootOf } from "./html.ts";
import type { LiveSubject } from "./live.ts";
import { createPageFiles, FILES_ROOT } from "./page/files.ts";
import { fieldsOf } from "./page/fields.ts";
import { isChoice, PREFERENCE_NAMES } from "./page/preferences.ts";
import { createPageServer } from "./page/serve.ts";
import type { PageServerDependencies, Session } from "./page/serve.ts";
import { pages } from "./pages/index.ts";
import { sections } from "./sections.ts";
import { sendFile } from "./served-file.ts";
import { changePassword, createAccountPage, endOtherSessions, endSession } from "./sign-in/account.ts";
import { createWaitingForms, formatKeptForm } from "./sign-in/kept-form.ts";
import { beginOidc, finishOidc, login, logout, sendLoginPage, showLogin } from "./sign-in/login.ts";
import type { PageContext, PageHandler } from "./sign-in/page-context.ts";
import { isOwnForm, readFields, redirectTo, requestIdOf, sendMessage } from "./sign-in/page-context.ts";
import { setUp, showSetup } from "./sign-in/setup.ts";

/** The user who is signed in, for the script of the API reference, which cannot read the cookie. */
const session: PageHandler = ({ holderOf }, ctx) => {
  const holder = holderOf(ctx);
  ctx.status = 200;
  ctx.type = "application/json; charset=utf-8";
  ctx.body = JSON.stringify({ user: holder?.name ?? null, csrf_token: holder?.csrf_token ?? null });
};

/** Redirects browsers only: for other clients nothing exists at the root. */
const root: PageHandler = async (page, ctx) => {
  if (!acceptsHtml(ctx)) throw routeNotFound();
  redirectTo(ctx, page.holderOf(ctx) ? await page.homeOf(ctx, page.cookies.get(ctx, "session")) : "/login");
};

const ACCOUNT_PATH = "/account";

/**
 * The overview of the default organization, else of the first by name that has others in it, else of the personal one;
 * the account for a person with none.
 */
async function findHome({ call, permits }: Caller): Promise<string> {
  const { default_org_name: chosen } = await call(getDefaultOrg);
  // A person has one personal organization, so one of the first two is shared if any is.
  const { data } = await call(listOwnOrganizations, { query: { per_page: 2 } });
  const first = data.find(({ kind }) => kind === "shared") ?? data[0];
  const name = chosen !== "" && permits({ permission: "org:read" }, chosen) ? chosen : first?.name;
  return name === undefined ? ACCOUNT_PATH : `/${encodeURIComponent(name)}`;
}

/** Keeps what a person chose in this browser; a form has some of the choices. */
const choose: PageHandler = async (page, ctx) => {
  const fields = await readFields(page, ctx);
  const holder = page.holderOf(ctx);
  if (holder && isOwnForm(page, ctx, { holder, fields }))
    for (const name of PREFERENCE_NAMES.filter((one) => isChoice(one, fields(one))))
      page.cookies.set(ctx, name, fields(name));
  redirectTo(ctx, parseNextPath(fields("next")) ?? ACCOUNT_PATH);
};

const PAGES: ReadonlyMap<string, Readonly<Partial<Record<"GET" | "POST", PageHandler>>>> = new Map([
  ["/", { GET: root }],
  ["/login", { GET: showLogin, POST: login }],
  ["/login/oidc", { GET: beginOidc }],
  ["/login/oidc/callback", { GET: finishOidc }],
  ["/logout", { POST: logout }],
  ["/setup", { GET: showSetup, POST: setUp }],
  ["/account/password", { POST: changePassword }],
  ["/account/session", { POST: endSession }],
  ["/account/sessions", { POST: endOtherSessions }],
  ["/session", { GET: session }],
  ["/preferences", { POST: choose }],
]);

/**
 * Whether a page may be the answer: also for clients that read and take anything, such as curl and link checkers,
 * unless they bring a key. Those that ask for something else get the errors of the API for a path that is a page.
 */
function acceptsHtml(ctx: Koa.Context): boolean {
  if (ctx.get("HX-Request") === "true") return true;
  const namesHtml = ctx.get("Accept").toLowerCase().includes("text/html");
  const isReading = ctx.method === "GET" || ctx.method === "HEAD";
  const mayBeBrowser = isReading && ctx.get("Authorization") === "";
  return ctx.accepts("html") !== false && (namesHtml || mayBeBrowser);
}

type WebPageDependencies = Pick<PageContext, "logins" | "limits" | "baseUrl" | "warn"> & {
  /** The session of a cookie; null when there is none. */
  authenticateSession(cookie: string): { holder: SessionHolder; principal: Principal } | null;
  /** The version of a subject that a page shows; null if there is none (live.ts). */
  liveVersion(subject: LiveSubject): string | null;
  /** A number that differs after every commit of any connection. */
  databaseState(): number;
  /** Why the server is in read-only mode, as the end of a sentence; null when it is not. */
  readOnlyReason(): string | null;
  /** Counts a request of a person for the rate limits. @throws AppError 429 */
  countRequest(principal: Principal): void;
  /** Calls operations as a person, for the request that asks for a page. */
  createCaller(ctx: Koa.Context, principal: Principal): Caller;
  /** Epoch seconds. */
  now(): number;
};

export function createWebPages(dependencies: WebPageDependencies) {
  const cookies = createCookies(dependencies.baseUrl);
  const files = createPageFiles();
  const findSession = (cookie: string | null) => (cookie === null ? null : dependencies.authenticateSession(cookie));
  const sessionOf = (ctx: Koa.Context) => sessionFrom(findSession(cookies.get(ctx, "session")));
  const pageServer = createPageServer({
    ...dependencies,
    pages: [...pages, createAccountPage(dependencies.logins)],
    sections,
    files,
    cookies,
    sessionOf,
    askToSignIn: (ctx, form) => askToSignIn(page, ctx, form),
  });
  const page: PageContext = {
    ...dependencies,
    cookies,
    files,
    waitingForms: createWaitingForms(dependencies.now),
    holderOf: (ctx) => sessionOf(ctx)?.holder ?? null,
    preferencesOf: pageServer.preferencesOf,
    async homeOf(ctx, cookie) {
      const found = findSession(cookie);
      return found ? findHome(dependencies.createCaller(ctx, found.principal)) : ACCOUNT_PATH;
    },
    async resumeForm(ctx, { path, cookie, entries }) {
      const found = sessionFrom(findSession(cookie));
      if (found) await pageServer.resume(ctx, path, { session: found, fields: fieldsOf(entries) });
    },
    async refuseForm(ctx, { path, form, ...refusal }) {
      const found = sessionOf(ctx);
      if (found)
        await pageServer.refuseAt(ctx, path, { session: found, fields: fieldsOf([["form", form]]), ...refusal });
    },
  };

  const serve: Koa.Middleware = async (ctx, next) => {
    const handlers = PAGES.get(ctx.path);
    if (handlers) return serveSignIn(page, ctx, handlers);
    if (ctx.path.startsWith(FILES_ROOT)) return serveFile(files, ctx);
    if (isApiPath(ctx.path) || !acceptsHtml(ctx)) return next();
    const found = pageServer.find(ctx.path);
    const session = found ? null : sessionOf(ctx);
    if (!found && !session) return next();
    try {
      if (!found) throw routeNotFound();
      await pageServer.serve(ctx, found);
    } catch (error) {
      const person = session ?? sessionOf(ctx);
      if (!(error instanceof AppError) || error.code === "internal" || !person) throw error;
      await pageServer.sendError(ctx, person, error);
    }
  };

  return { renew: createRenewal(dependencies, cookies), serve, sessionOf };
}

const sessionFrom = (
  found: { holder: SessionHolder; principal: Principal } | null,
): (Session & { holder: SessionHolder }) | null => found && { ...found, csrfToken: found.holder.csrf_token };

const isApiPath = (path: string): boolean => path === "/api" || path.startsWith("/api/");

/** Sends a person without a session to the login, and from there back to the page. */
const askToSignIn: (page: PageContext, ...call: Parameters<PageServerDependencies["askToSignIn"]>) => Promise<void> =
  async (page, ctx, fields) => {
    const next = parseNextPath(`${ctx.path}${ctx.search}`);
    if (fields !== null) {
      const form = formatKeptForm(fields);
      return sendLoginPage(page, ctx, { status: 401, next, form, isTooLarge: form === null });
    }
    const target = `/login${next === null ? "" : `?next=${encodeURIComponent(next)}`}`;
    if (ctx.get("HX-Request") !== "true") return redirectTo(ctx, target);
    // A part of a page cannot be replaced by the login. A script follows a redirect without seeing the header on it.
    ctx.set("HX-Redirect", `${rootOf(ctx)}${target.slice(1)}`);
    ctx.status = 204;
  };

function serveFile(files: PageServerDependencies["files"], ctx: Koa.Context): Promise<void> {
  recordForLog(ctx, { route: "page_files" });
  const file = files.find(ctx.path);
  if (!file) throw routeNotFound();
  if (ctx.method !== "GET" && ctx.method !== "HEAD") throw methodNotAllowed(["GET", "HEAD"]);
  return sendFile(ctx, file);
}

async function serveSignIn(
  page: PageContext,
  ctx: Koa.Context,
  handlers: Readonly<Partial<Record<"GET" | "POST", PageHandler>>>,
): Promise<void> {
  recordForLog(ctx, { route: "login_pages" });
  const method = ctx.method === "HEAD" ? "GET" : ctx.method;
  const allowed = Object.keys(handlers);
  if (!allowed.includes(method))
    throw methodNotAllowed(allowed.includes("GET") ? [...allowed, "HEAD"].sort() : allowed);
  try {
    await handlers[method as "GET" | "POST"]?.(page, ctx);
  } catch (error) {
    if (!(error instanceof AppError) || ctx.path === "/") throw error;
    ctx.set(error.headers);
    await sendMessage(page, ctx, {
      status: STATUS_BY_ERROR[error.code],
      title: "Something went wrong",
      text: `${error.message}.`,
      link: html`<a href="${rootOf(ctx)}login">Back to sign-in</a>`,
    });
  }
}

/** Rotates session cookies once in a while, on any request. */
function createRenewal(
  { logins, now }: Pick<WebPageDependencies, "logins" | "now">,
  cookies: PageContext["cookies"],
): Koa.Middleware {
  return async function renew(ctx, next) {
    const usesCookie = ctx.req.headers.authorization === undefined && !ctx.path.startsWith(FILES_ROOT);
    const cookie = usesCookie ? cookies.get(ctx, "session") : null;
    let renewed: string | null = null;
    try {
      if (cookie !== null) renewed = await logins.renewCookie(cookie, { now: now(), requestId: requestIdOf(ctx) });
    } catch (error) {
      // In read-only mode the pages still work.
      if (!(error instanceof AppError)) throw error;
    }
    if (renewed !== null) cookies.set(ctx, "session", renewed);
    await next();
    // A response with a session cookie is for one browser, whatever its own headers say.
    if (renewed !== null) ctx.set("Cache-Control", "no-store");
  };
}
