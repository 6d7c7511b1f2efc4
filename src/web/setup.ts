/** `/setup`: the first administrator, for whoever has the one-time token of the data directory. */
import type Koa from "koa";
import { AppError } from "../errors.ts";
import { passwordProblem, SHORTEST_PASSWORD } from "../domain/login/password.ts";
import { matches, ORGANIZATION_NAME, USER_NAME } from "../domain/names.ts";
import { STATUS_BY_ERROR } from "../http/response.ts";
import { field, hidden, html, message, rootOf, sendOn, sendPage } from "./html.ts";
import type { Handler, Kit } from "./kit.ts";
import { STRANGE_FORM, letIn, readFields, sendMessage, visitorOf } from "./kit.ts";

const NAME_HINT = "Letters, digits and - _ . ~, beginning with a letter or a digit.";

type Given = { organization: string; name: string };

function setupPage(
  kit: Kit,
  ctx: Koa.Context,
  status: number,
  said: string | null,
  { organization, name }: Given = { organization: "", name: "" },
): void {
  const value = (text: string): string => `value="${html`${text}`.text}"`;
  sendPage(ctx, kit.files, status, {
    title: "Set up",
    main: html`${message(said)}
<p>This server knows nobody yet. The first start printed a one-time token, which is also in the file <code>setup-token</code> of the data directory.</p>
<form method="post" action="${rootOf(ctx)}setup">
  ${hidden("csrf", kit.cookies.formToken(ctx))}
  ${field("One-time token", "token", `type="password" required autocomplete="off" autofocus`)}
  ${field("Organization", "organization", `required autocomplete="organization" autocapitalize="none" spellcheck="false" maxlength="100" ${value(organization)}`, NAME_HINT)}
  ${field("Login name", "name", `required autocomplete="username" autocapitalize="none" spellcheck="false" maxlength="100" ${value(name)}`, NAME_HINT)}
  ${field("Password", "password", `type="password" required minlength="${SHORTEST_PASSWORD}" autocomplete="new-password"`, `At least ${SHORTEST_PASSWORD} characters. A few words that do not belong together are a good one.`)}
  ${field("Password again", "again", `type="password" required minlength="${SHORTEST_PASSWORD}" autocomplete="new-password"`)}
  <button type="submit">Create the first administrator</button>
</form>`,
  });
}

export const showSetup: Handler = (kit, ctx) =>
  kit.logins.isOpen() ? setupPage(kit, ctx, 200, null) : sendOn(ctx, "/login");

export const setUp: Handler = async (kit, ctx) => {
  const given = await readFields(kit, ctx);
  const fields = {
    token: given("token"),
    organization: given("organization").trim(),
    name: given("name").trim(),
    password: given("password"),
  };
  if (!kit.logins.isOpen()) return taken(kit, ctx);
  if (!kit.cookies.isOwnOrigin(ctx) || !kit.cookies.isFormToken(ctx, given("csrf")))
    return setupPage(kit, ctx, 403, STRANGE_FORM, fields);
  const problem = problemWith(fields, given("again"));
  if (problem !== null) return setupPage(kit, ctx, 400, `Nothing was set up: ${problem}.`, fields);
  try {
    const started = await kit.logins.claim(fields, visitorOf(ctx));
    if (started === "taken") return taken(kit, ctx);
    if (started === "wrong token")
      return setupPage(kit, ctx, 403, "Nothing was set up: this is not the token.", fields);
    await letIn(kit, ctx, started, "/account");
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    ctx.set(error.headers);
    setupPage(kit, ctx, STATUS_BY_ERROR[error.code], `Nothing was set up: ${error.message}.`, fields);
  }
};

function problemWith({ organization, name, password }: Given & { password: string }, again: string): string | null {
  if (!matches(ORGANIZATION_NAME, organization) || organization.length > 100)
    return "the organization needs a name of letters, digits and - _ . ~";
  if (!matches(USER_NAME, name) || name.length > 100) return "the login name consists of letters, digits and - _ . ~";
  if (organization === name)
    return "your personal organization bears your login name, so the shared one needs another name";
  return password === again ? passwordProblem(password, name) : "the two passwords differ";
}

/** Somebody was first, here or on the command line. */
const taken = (kit: Kit, ctx: Koa.Context): void =>
  sendMessage(
    kit,
    ctx,
    409,
    "Set up already",
    "This server has its first administrator already, or an organization of that name.",
    html`<a href="${rootOf(ctx)}login">To the login</a>`,
  );
