/**
 * Serves the pages of the web interface: finds the page, asks for a sign-in where there is no session, calls the page,
 * and turns refusals into pages. A form is accepted only from a page of this server, with the token of its session.
 */
import type Koa from "koa";
import { listViews } from "../../api/accounts/views.ts";
import { listOwnOrganizations } from "../../api/accounts/users.ts";
import { getAttention } from "../../api/environments/overview.ts";
import { AppError, forbidden, methodNotAllowed } from "../../errors.ts";
import type { AnyOperation } from "../../http/operation.ts";
import type { Caller } from "../../http/in-process.ts";
import { recordForLog } from "../../http/request-log.ts";
import { STATUS_BY_ERROR } from "../../http/response.ts";
import { createRouteTable } from "../../http/routing/route-table.ts";
import type { Principal } from "../../http/server-context.ts";
import type { Cookies } from "../cookies.ts";
import type { LiveSubject } from "../live.ts";
import { problemBox } from "../components/forms.ts";
import { html, rootOf } from "../html.ts";
import type { Html } from "../html.ts";
import { redirect, sendHtml, sendRaw } from "./answer.ts";
import { isMaskedToken, maskToken } from "./csrf.ts";
import { errorContent } from "./error-pages.ts";
import { inWords } from "./field-words.ts";
import { readPageFields } from "./fields.ts";
import type { Fields } from "./fields.ts";
import type { PageFiles } from "./files.ts";
import { framed } from "./frame.ts";
import type { Surroundings } from "./frame.ts";
import { linksFor, queryText } from "./links.ts";
import { askedMoment } from "./moment.ts";
import { showThen } from "./past-content.ts";
import { createShownOnce, SHOWN } from "./shown-once.ts";
import type { ShownOnce } from "./shown-once.ts";
import { preferencesFrom } from "./preferences.ts";
import type { Preferences } from "./preferences.ts";
import type { Content, FormOutcome, Page, RawAnswer, RefusedForm, Section, Visit } from "./page.ts";

export type Session = { principal: Principal; csrfToken: string };

export type PageServerDependencies = {
  pages: readonly Page[];
  /** The operation that the entry of a section reads; without permission for it, the entry is not shown. */
  sections: Readonly<Partial<Record<Section, Pick<AnyOperation<never>, "permission" | "feature">>>>;
  files: PageFiles;
  cookies: Cookies;
  limits: Parameters<typeof readPageFields>[1];
  /** The session of the request; null without one. */
  sessionOf(ctx: Koa.Context): Session | null;
  /** The version of a subject that a page shows; null if there is none (live.ts). */
  liveVersion(subject: LiveSubject): string | null;
  /** A number that differs after every commit of any connection. */
  databaseState(): number;
  /** Why the server is in read-only mode, as the end of a sentence; null when it is not. */
  readOnlyReason(): string | null;
  /** Counts a request of a person for the rate limits. @throws AppError 429 */
  countRequest(principal: Principal): void;
  /** Calls operations as the person of a session. */
  createCaller(ctx: Koa.Context, principal: Principal): Caller;
  /** The public address of the server, without a trailing slash. */
  baseUrl: string;
  /** Epoch seconds. */
  now(): number;
  /** Asks for a sign-in. `form`: what a person submitted when the session had ended, to be shown after the sign-in. */
  askToSignIn(ctx: Koa.Context, form: Fields | null): Promise<void>;
};

export function createPageServer(server: PageServerDependencies) {
  const shownOnce = createShownOnce(server.now);
  const table = createRouteTable(
    server.pages.map((page) => ({ pattern: page.path, value: page })),
    { strict: false },
  );

  /** The page of a path with its parameters; null if there is none. */
  function find(path: string): { page: Page; params: Record<string, string> } | null {
    for (const { values, params } of table(path)) {
      const decoded = Object.entries(params()).map(([name, text]) => [name, decode(text)] as const);
      if (decoded.some(([, value]) => value === null)) continue;
      return { page: values[0] as Page, params: Object.fromEntries(decoded) as Record<string, string> };
    }
    return null;
  }

  /** Shows the page at a path with one of its forms that was refused at another address. */
  async function refuseAt(ctx: Koa.Context, path: string, { session, ...refusal }: RefusedAt): Promise<void> {
    const [pathname = "", search = ""] = path.split("?");
    const found = find(pathname);
    if (!found) return redirect(ctx, `${rootOf(ctx)}${path.slice(1)}`);
    const visit = createVisit(server, ctx, { session, params: found.params, at: { path: pathname, search } });
    await showRefused(server, ctx, { page: found.page, visit, problems: [], ...refusal });
  }

  return {
    find,
    /** Answers a request for a page. @throws AppError 405 for a method that pages do not have. */
    async serve(ctx: Koa.Context, { page, params }: NonNullable<ReturnType<typeof find>>): Promise<void> {
      recordForLog(ctx, { route: `page ${page.path}`, organization: params["org"] ?? null });
      const isSubmitted = ctx.method === "POST";
      if (!isSubmitted && ctx.method !== "GET" && ctx.method !== "HEAD")
        throw methodNotAllowed(page.forms ? ["GET", "HEAD", "POST"] : ["GET", "HEAD"]);
      const fields = isSubmitted ? await readPageFields(ctx, server.limits) : null;
      const session = server.sessionOf(ctx);
      const isFromHere = server.cookies.isOwnOrigin(ctx);
      // Browsers send no session with a form of another site: what that site filled in is not shown as the person's.
      if (!session) return server.askToSignIn(ctx, isFromHere ? fields : null);
      recordForLog(ctx, { principal: session.principal });
      server.countRequest(session.principal);
      const visit = createVisit(server, ctx, { session, params });
      if (fields === null && askedMoment(visit) !== null)
        return sendContent(server, ctx, await showThen(page, visit, contentOf));
      const isOwn = fields !== null && isFromHere && isMaskedToken(fields.text("csrf"), session.csrfToken);
      if (fields === null) {
        const kept = takeShown(shownOnce, visit, session);
        await sendContent(server, ctx, { visit, content: kept ?? (await contentOf(page, visit)) });
      } else if (isOwn && askedMoment(visit) !== null) {
        visit.query.delete("at");
        await showRefused(server, ctx, { page, visit, fields, status: 409, ...IN_THE_PAST });
      } else if (isOwn)
        await submit(server, ctx, {
          page,
          visit,
          fields,
          keep: (content) => shownOnce.keep(content, session.csrfToken),
        });
      else await showRefused(server, ctx, { page, visit, fields, status: 403, ...EXPIRED });
    },
    /** Shows a form that was submitted without a session, with what was typed, after the sign-in. */
    async resume(ctx: Koa.Context, path: string, { session, fields }: { session: Session; fields: Fields }) {
      const message = "Your session had ended. Nothing was stored yet: check the form, and submit it again.";
      await refuseAt(ctx, path, { session, fields, status: 200, message, errors: {} });
    },
    refuseAt,
    /** Sends a refusal in the frame, within the organization of the path if the person may read it. */
    async sendError(ctx: Koa.Context, session: Session, error: AppError): Promise<void> {
      const org = decode(ctx.path.split("/")[1] ?? "") ?? "";
      const isMember = server.createCaller(ctx, session.principal).permits({ permission: "org:read" }, org);
      const visit = createVisit(server, ctx, { session, params: isMember ? { org } : {} });
      ctx.set(error.headers);
      await sendContent(server, ctx, { visit, content: errorContent(visit, error) });
    },
    /** What the browser chose. */
    preferencesOf: (ctx: Koa.Context): Preferences => preferencesOf(server.cookies, ctx),
  };
}

const EXPIRED: Pick<RefusedForm, "message" | "errors" | "problems"> = {
  message: "This form has expired, or was not sent from this page. Nothing was changed. Please submit it again.",
  errors: {},
  problems: [],
};

const IN_THE_PAST: Pick<RefusedForm, "message" | "errors" | "problems"> = {
  message:
    "This form was sent from a page of the past, where nothing can be changed. Nothing was. This is the present.",
  errors: {},
  problems: [],
};

/** What the address shows once; null without it, and once it was shown, which the page then says. */
function takeShown(shownOnce: ShownOnce, { query }: Visit, { csrfToken }: Session): Content | null {
  const token = query.get(SHOWN);
  if (token === null) return null;
  query.delete(SHOWN);
  const content = shownOnce.take(token, csrfToken);
  if (content === null) query.set("done", "seen");
  return content;
}

/** null for what is not percent-encoded UTF-8. */
function decode(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

type Request = { session: Session; params: Record<string, string>; at?: { path: string; search: string } };

function createVisit(server: PageServerDependencies, ctx: Koa.Context, { session, params, at }: Request): Visit {
  const { principal } = session;
  const caller = server.createCaller(ctx, principal);
  const org = params["org"] ?? "";
  const to = linksFor(rootOf(ctx), org);
  const path = at?.path ?? ctx.path;
  const query = new URLSearchParams(at?.search ?? ctx.querystring);
  let role: Visit["role"] | undefined;
  const withOrg = ({ path: pattern }: { path: string }, input: { params?: object } = {}) =>
    (pattern.includes("{org}") ? { ...input, params: { org, ...input.params } } : input) as never;
  return {
    org,
    params,
    query,
    path,
    user: { name: principal.name, displayName: principal.displayName },
    address: server.baseUrl,
    get role() {
      return (role ??= org === "" ? null : (caller.membershipIn(org)?.role ?? null));
    },
    now: server.now(),
    moment: null,
    databaseState: server.databaseState(),
    to,
    toNow: to,
    call: (operation, input) => caller.call(operation, withOrg(operation, input)),
    open: (operation, input) => caller.open(operation, withOrg(operation, input)),
    may: (operation) => caller.permits(operation, org),
    here(changes) {
      const kept: Record<string, string | number | null> = Object.fromEntries(query);
      delete kept["done"];
      if (!("page" in changes)) delete kept["page"];
      return `${to.path(path.slice(1))}${queryText({ ...kept, ...changes })}`;
    },
    refused: null,
    csrf: maskToken(session.csrfToken),
    userId: principal.publicId,
    preferences: preferencesOf(server.cookies, ctx),
  };
}

/** What the page shows; what it refuses, in words. */
async function contentOf(page: Page, visit: Visit): Promise<Content | RawAnswer> {
  try {
    // Some pages read nothing until they are asked to, so that no operation would refuse a stranger.
    if (visit.org !== "" && !visit.may({ permission: "org:read" })) throw forbidden();
    const content = await page.show(visit);
    // The menu with the time leads from a page without a past to the overview.
    const hasPlace = "raw" in content || visit.org === "" || page.past !== undefined;
    return hasPlace ? content : { timePath: `/${encodeURIComponent(visit.org)}`, ...content };
  } catch (error) {
    if (!(error instanceof AppError) || error.code === "internal") throw error;
    return errorContent(visit, error);
  }
}

async function submit(
  server: PageServerDependencies,
  ctx: Koa.Context,
  { page, visit, fields, keep }: { page: Page; visit: Visit; fields: Fields; keep(content: Content): string },
): Promise<void> {
  const name = fields.text("form");
  const form = Object.hasOwn(page.forms ?? {}, name) ? page.forms?.[name] : undefined;
  const refuse = (error: AppError): Promise<void> =>
    showRefused(server, ctx, {
      page,
      visit,
      fields,
      status: STATUS_BY_ERROR[error.code],
      message: error.fields ? (unplaced(error, fields) ?? null) : inWords(error.message),
      errors: Object.fromEntries(Object.entries(error.fields ?? {}).map(([name, text]) => [name, inWords(text)])),
      problems: error.problems,
    });
  let outcome: FormOutcome;
  try {
    if (!form) throw new AppError("invalid", "This page has no such form");
    if (!visit.may(form.operation)) throw new AppError("forbidden", "Your role does not permit this");
    outcome = await form.submit(visit, fields);
  } catch (error) {
    if (!(error instanceof AppError) || error.code === "internal") throw error;
    ctx.set(error.headers);
    return refuse(error);
  }
  if ("once" in outcome) {
    const address = visit.to.path(visit.path.slice(1));
    return redirect(ctx, `${address}${queryText({ [SHOWN]: keep(outcome.once) })}`);
  }
  if ("show" in outcome) return sendContent(server, ctx, { visit, content: outcome.show });
  const separator = outcome.go.includes("?") ? "&" : "?";
  redirect(ctx, outcome.done === undefined ? outcome.go : `${outcome.go}${separator}done=${outcome.done}`);
}

/** The messages of fields that the form does not have, as one text: they must not get lost. */
function unplaced({ fields: errors }: AppError, fields: Fields): string | undefined {
  const names = new Set(fields.entries().map(([name]) => name));
  const lost = Object.entries(errors ?? {}).filter(([name]) => !names.has(name));
  return lost.length === 0
    ? undefined
    : lost.map(([name, text]) => `${name.replaceAll("_", " ")}: ${inWords(text)}`).join(" ");
}

type RefusedAt = Pick<RefusedForm, "fields" | "message" | "errors"> & { session: Session; status: number };
type Refusal = Omit<RefusedForm, "form"> & { page: Page; visit: Visit; status: number };

/** Shows the page again, with what was typed and what is wrong with it. */
async function showRefused(
  server: PageServerDependencies,
  ctx: Koa.Context,
  { page, visit, status, ...refusal }: Refusal,
): Promise<void> {
  const again: Visit = Object.create(visit, {
    refused: { value: { ...refusal, form: refusal.fields.text("form") } satisfies RefusedForm },
  });
  const content = await contentOf(page, again);
  // A page that cannot be shown itself says why; its refusal is not overwritten.
  const shown =
    "raw" in content
      ? content
      : { ...content, main: withMessage(content, refusal.message), status: content.status ?? status };
  await sendContent(server, ctx, { visit: again, content: shown });
}

/** The page with the message about its form on top, unless the form itself shows it. */
function withMessage({ main, drawer }: Content, message: string | null): Html {
  if (message === null) return main;
  const { text } = html`${message}`;
  return main.text.includes(text) || drawer?.text.includes(text) ? main : html`${problemBox(message)}${main}`;
}

async function sendContent(
  server: PageServerDependencies,
  ctx: Koa.Context,
  { visit, content }: { visit: Visit; content: Content | RawAnswer },
): Promise<void> {
  if ("raw" in content) return sendRaw(ctx, content.raw);
  if (content.redirect !== undefined) return redirect(ctx, content.redirect);
  const { files, sections } = server;
  // Of an organization that one may not see, not even the navigation is shown.
  const isHidden = content.status === 403 && !visit.may({ permission: "org:read" });
  const seen: Visit = isHidden ? Object.create(visit, { org: { value: "" } }) : visit;
  const surroundings: Surroundings = {
    preferences: preferencesOf(server.cookies, ctx),
    organizations: await organizationsOf(visit),
    views: await viewsOf(seen),
    attention: await attentionOf(seen),
    readOnlyReason: server.readOnlyReason(),
    fileOf: (name) => files.pathOf(name),
    liveOf(org, subject) {
      // What was committed while the page was read may be missing in it: an outdated version has it read again.
      const isCurrent = visit.databaseState === server.databaseState();
      const version = isCurrent ? server.liveVersion({ org, ...subject }) : OUTDATED;
      return { query: queryText({ org, ...subject }), version };
    },
    shows: (section) => {
      const operation = sections[section];
      return operation === undefined || visit.may(operation);
    },
  };
  const text = framed(seen, content, surroundings);
  await sendHtml(ctx, text, { status: content.status ?? 200, prefetch: visit.to.path(files.pathOf("prefetch.json")) });
}

/** A version that no subject has. */
const OUTDATED = "outdated";

/** Organizations in the menu; the account page has all. */
const MAX_ORGANIZATIONS = 20;

/** The organizations between which the person may switch. */
async function organizationsOf({ call }: Visit): Promise<Surroundings["organizations"]> {
  const found = await orNull(call(listOwnOrganizations, { query: { per_page: MAX_ORGANIZATIONS } }));
  if (found === null) return { names: [], hasMore: false };
  const { data, pagination } = found;
  return { names: data.map(({ name }) => name), hasMore: pagination.total > data.length };
}

/** The views in the navigation. */
const viewsOf = async ({ call, may, org }: Visit): Promise<Surroundings["views"]> =>
  org !== "" && may(listViews) ? ((await orNull(call(listViews))) ?? []) : [];

const attentionOf = async ({ call, may, org, moment }: Visit): Promise<Surroundings["attention"]> =>
  org !== "" && moment === null && may(getAttention) ? orNull(call(getAttention)) : null;

/** An answer that the frame shows; null where it is refused, so that the page still works. */
async function orNull<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof AppError) return null;
    throw error;
  }
}

const preferencesOf = (cookies: Cookies, ctx: Koa.Context): Preferences =>
  preferencesFrom((name) => cookies.get(ctx, name));
