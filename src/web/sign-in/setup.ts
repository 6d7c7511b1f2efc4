/** `/setup`: creating the first administrator, with the one-time token of the data directory. */
import type Koa from "koa";
import type { FirstAdmin } from "../../auth/logins.ts";
import { findPasswordProblem } from "../../domain/login/password.ts";
import { matches, ORGANIZATION_NAME, USER_NAME } from "../../domain/names.ts";
import { AppError } from "../../errors.ts";
import { STATUS_BY_ERROR } from "../../http/response.ts";
import { problemBox } from "../components/forms.ts";
import { field, hidden, html, rootOf, valueAttribute } from "../html.ts";
import {
  FOREIGN_FORM_MESSAGE,
  redirectTo,
  sendPage,
  NEW_PASSWORD_ATTRIBUTES,
  PASSWORD_HINT,
  readFields,
  sendMessage,
  startBrowserSession,
  visitorOf,
} from "./page-context.ts";
import type { PageContext, PageHandler } from "./page-context.ts";

const NAME_HINT = "Letters, digits and - _ . ~, beginning with a letter or a digit.";
const MAX_NAME_CHARS = 100;

type SetupPage = {
  status: number;
  problem?: string;
  /** What was entered before. */
  names?: Pick<FirstAdmin, "organization" | "name">;
};

function sendSetupPage(
  page: PageContext,
  ctx: Koa.Context,
  { status, problem, names = { organization: "", name: "" } }: SetupPage,
): Promise<void> {
  const nameAttributes = (autocomplete: string, value: string): string =>
    `required autocomplete="${autocomplete}" autocapitalize="none" spellcheck="false" ` +
    `maxlength="${MAX_NAME_CHARS}" ${valueAttribute(value)}`;
  return sendPage(page, ctx, {
    status,
    title: "Set up",
    main: html`${problemBox(problem ?? null)}
<p>This server has no users yet. To create the first administrator you need the one-time token: the first start of the
server printed it, and it is in the file <code class="nowrap">setup-token</code> in the data directory.</p>
<form method="post" action="${rootOf(ctx)}setup">
  ${hidden("csrf", page.cookies.formToken(ctx))}
  ${field({
    label: "One-time token",
    name: "token",
    attributes: `type="password" required autocomplete="off" autofocus`,
  })}
  ${field({
    label: "Organization",
    name: "organization",
    attributes: nameAttributes("organization", names.organization),
    hint: NAME_HINT,
  })}
  ${field({ label: "Login name", name: "name", attributes: nameAttributes("username", names.name), hint: NAME_HINT })}
  ${field({ label: "Password", name: "password", attributes: NEW_PASSWORD_ATTRIBUTES, hint: PASSWORD_HINT })}
  ${field({ label: "Password again", name: "again", attributes: NEW_PASSWORD_ATTRIBUTES })}
  <button type="submit">Create the first administrator</button>
</form>`,
  });
}

export const showSetup: PageHandler = (page, ctx) =>
  page.logins.isSetupOpen() ? sendSetupPage(page, ctx, { status: 200 }) : redirectTo(ctx, "/login");

export const setUp: PageHandler = async (page, ctx) => {
  const fields = await readFields(page, ctx);
  const admin: FirstAdmin = {
    token: fields("token"),
    organization: fields("organization").trim(),
    name: fields("name").trim(),
    password: fields("password"),
  };
  if (!page.logins.isSetupOpen()) return sendTaken(page, ctx);
  if (!page.cookies.isOwnOrigin(ctx) || !page.cookies.isFormToken(ctx, fields("csrf")))
    return sendSetupPage(page, ctx, { status: 403, problem: FOREIGN_FORM_MESSAGE, names: admin });
  const refuse = (status: number, problem: string): Promise<void> =>
    sendSetupPage(page, ctx, { status, problem: `No administrator was created: ${problem}.`, names: admin });
  const problem = problemWith(admin, fields("again"));
  if (problem !== null) return refuse(400, problem);
  try {
    const started = await page.logins.claimFirstAdmin(admin, visitorOf(ctx));
    if (started === "taken") return sendTaken(page, ctx);
    if (started === "wrong token")
      return refuse(403, "the token is wrong; the valid one is in the file setup-token in the data directory");
    await startBrowserSession(page, ctx, { started, path: await page.homeOf(ctx, started.cookie) });
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    ctx.set(error.headers);
    await refuse(STATUS_BY_ERROR[error.code], error.message);
  }
};

/** What is wrong with the entered names and password, as the end of a sentence; null when nothing is. */
function problemWith({ organization, name, password }: FirstAdmin, again: string): string | null {
  if (!matches(ORGANIZATION_NAME, organization) || organization.length > MAX_NAME_CHARS)
    return "the name of the organization may have letters, digits and - _ . ~, and begins with a letter or a digit";
  if (!matches(USER_NAME, name) || name.length > MAX_NAME_CHARS)
    return "the login name may have letters, digits and - _ . ~, and begins with a letter or a digit";
  if (organization === name)
    return "your personal organization gets your login name, so the shared one needs another name";
  return password === again ? findPasswordProblem(password, name) : "the two passwords differ";
}

/** The first administrator was created meanwhile, on another page or from the command line. */
const sendTaken = (page: PageContext, ctx: Koa.Context): Promise<void> =>
  sendMessage(page, ctx, {
    status: 409,
    title: "Already set up",
    text: "This server already has a user, or an organization with that name.",
    link: html`<a href="${rootOf(ctx)}login">Sign in</a>`,
  });
