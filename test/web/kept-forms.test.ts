/**
 * A session that ends over a filled form: after the sign-in every form of every page comes back as it was left, under
 * the new session, and nothing is submitted by itself.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pages } from "../../src/web/pages/index.ts";
import { createAccountPage } from "../../src/web/sign-in/account.ts";
import { startStoryServer } from "../story/server.ts";
import type { StoryServer } from "../story/server.ts";
import { ADMIN } from "../story/story.ts";
import { PASSWORD, createBrowser, visibleText } from "./browser.ts";
import { addRetention, decode, pagesWithForms, patternOf } from "./crawl.ts";
import type { Browser, Page } from "./browser.ts";

const test = suite("web/kept-forms");

let told: StoryServer;
let admin: Browser;
test.before(async () => {
  told = await startStoryServer();
  admin = createBrowser(told.server.url);
  await admin.login(ADMIN, PASSWORD);
  await addRetention(admin);
  const key = { form: "create_key", description: "a key", expires_at: "30" };
  assert.is((await admin.submitForm("/account", key)).status, 200);
});
test.after(() => told.server.stop());

type Control = { name: string; value: string; kind: string; isChecked: boolean };
type ShownForm = { action: string; controls: Control[] };

const attribute = (tag: string, name: string): string | null => {
  const found = new RegExp(`\\s${name}(?:="([^"]*)")?(?=[\\s>/])`).exec(tag);
  return found === null ? null : decode(found[1] ?? "");
};

/** The controls of a form that would be submitted, as a browser reads them. */
function controlsIn(content: string): Control[] {
  const controls: Control[] = [];
  const pattern = /<input[^>]*>|<textarea([^>]*)>([\s\S]*?)<\/textarea>|<select([^>]*)>([\s\S]*?)<\/select>/g;
  for (const [tag, areaAttributes, area, selectAttributes, options] of content.matchAll(pattern)) {
    if (attribute(tag.slice(0, tag.indexOf(">") + 1), "disabled") !== null) continue;
    if (areaAttributes !== undefined) {
      const name = attribute(`<a${areaAttributes}>`, "name");
      // The line break behind the tag does not belong to the text.
      const value = decode((area ?? "").replace(/^\n/, ""));
      if (name !== null) controls.push({ name, value, kind: "textarea", isChecked: true });
    } else if (selectAttributes !== undefined) {
      const name = attribute(`<a${selectAttributes}>`, "name");
      const all = [...(options ?? "").matchAll(/<option([^>]*)>([^<]*)/g)];
      const chosen = all.find(([, one = ""]) => attribute(`<a${one}>`, "selected") !== null) ?? all[0];
      const value = chosen && (attribute(`<a${chosen[1] ?? ""}>`, "value") ?? decode((chosen[2] ?? "").trim()));
      if (name !== null && value !== undefined) controls.push({ name, value, kind: "select", isChecked: true });
    } else {
      const name = attribute(tag, "name");
      const kind = attribute(tag, "type") ?? "text";
      const value = attribute(tag, "value") ?? (kind === "checkbox" ? "on" : "");
      const isChecked = !/^(?:checkbox|radio)$/.test(kind) || attribute(tag, "checked") !== null;
      if (name !== null) controls.push({ name, value, kind, isChecked });
    }
  }
  return controls;
}

const formsOf = ({ text }: Page): ShownForm[] =>
  [...text.matchAll(/<form([^>]*)>([\s\S]*?)<\/form>/g)]
    .filter(([, tag = ""]) => attribute(`<a${tag}>`, "method") === "post")
    .map(([, tag = "", content = ""]) => ({
      action: attribute(`<a${tag}>`, "action") ?? "",
      controls: controlsIn(content),
    }));

const nameOf = ({ controls }: ShownForm): string => controls.find(({ name }) => name === "form")?.value ?? "";

const TYPED: Readonly<Record<string, string>> = {
  text: `typed "<b>&'é  ${"x".repeat(5)}`,
  search: "typed <search>",
  url: "https://typed.example/?a=1&b='\"",
  email: "typed@example",
  number: "17",
  textarea: '\n\ttyped: "<b>"\r\n\r\n  - &amp; é\r\n',
  "datetime-local": "2031-02-03T04:05",
  date: "2031-02-03",
};

/** What a person leaves in a form: every text typed over, every box and choice changed. */
function fillIn({ controls }: ShownForm): [string, string][] {
  const radios = new Map<string, Control>();
  for (const control of controls) if (control.kind === "radio" && !control.isChecked) radios.set(control.name, control);
  return controls.flatMap((control): [string, string][] => {
    const { name, kind, value, isChecked } = control;
    if (kind === "radio") {
      const chosen = radios.get(name) ?? (isChecked ? control : null);
      return chosen === control ? [[name, value]] : [];
    }
    if (kind === "checkbox") return isChecked ? [] : [[name, value]];
    if (kind === "hidden" || kind === "select") return [[name, value]];
    return [[name, TYPED[kind] ?? `typed ${kind}`]];
  });
}

/** What a browser would submit of a form as it is shown, with line ends as one character. */
const shownIn = ({ controls }: ShownForm): [string, string][] =>
  controls.filter(({ isChecked }) => isChecked).map(({ name, value }) => [name, value]);

/** Without the token, and without what the panel above the button is about, which the server says anew. */
const sorted = (entries: readonly [string, string][]): string[] =>
  entries
    .filter(([name]) => name !== "csrf" && name !== "seen")
    .map(([name, value]) => `${name}=${value.replace(/\r\n?/g, "\n")}`)
    .sort();

/** Whether a form shows what was left, and otherwise at most further rows that are empty. */
function isAsLeft(shown: readonly string[], left: readonly string[]): boolean {
  const rest = [...shown];
  for (const entry of left) {
    const at = rest.indexOf(entry);
    if (at < 0) return false;
    rest.splice(at, 1);
  }
  return rest.every((entry) => /^summary\.\d+\.\w+=$/.test(entry));
}

const rows = (): unknown =>
  told.server.db
    .prepare<[], { name: string }>("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    .all()
    .filter(({ name }) => !/^(?:sessions|audit_log|sqlite_)/.test(name))
    .map(({ name }) => [name, told.server.db.prepare(`SELECT count(*) FROM "${name}"`).pluck().get()]);

/** The forms that pages of this server answer themselves, without those of the frame. */
const isOfPage = (form: ShownForm): boolean => nameOf(form) !== "";

/** Submits a form without a session, signs in on the page that comes, and returns what follows. */
async function submitAndSignIn(at: URL, entries: readonly [string, string][]): Promise<Page & { path: string }> {
  const browser = createBrowser(told.server.url);
  const asked = await browser.send("POST", `${at.pathname}${at.search}`, {
    headers: { "Content-Type": "application/x-www-form-urlencoded", Origin: told.server.url },
    body: new URLSearchParams([...entries]).toString(),
  });
  assert.is(asked.status, 401, visibleText(asked));
  const login = formsOf(asked).find(({ controls }) => controls.some(({ kind }) => kind === "password"));
  assert.ok(login, "a login form");
  const to = new URL(login.action, at);
  const typed: Readonly<Record<string, string>> = { name: ADMIN, password: PASSWORD };
  const fields = login.controls.map(({ name, value }): [string, string] => [name, typed[name] ?? value]);
  const page = await browser.send("POST", `${to.pathname}${to.search}`, {
    headers: { "Content-Type": "application/x-www-form-urlencoded", Origin: told.server.url },
    body: new URLSearchParams(fields).toString(),
  });
  return { ...page, path: `${to.pathname}${to.search}` };
}

test("every form of every page comes back as it was left", async () => {
  const before = rows();
  const problems: string[] = [];
  const seen = new Set<string>();
  for await (const { address, page: shown } of pagesWithForms(told, admin)) {
    for (const form of formsOf(shown).filter(isOfPage)) {
      const at = new URL(form.action, new URL(address, told.server.url));
      const kind = `${nameOf(form)} at ${patternOf(at.pathname)}`;
      if (seen.has(kind)) continue;
      seen.add(kind);
      const left = fillIn(form);
      const page = await submitAndSignIn(at, left);
      const what = `${kind} (${address})`;
      if (page.path !== "/login") problems.push(`${what}: signs in at ${page.path}`);
      const again = formsOf(page).filter((one) => nameOf(one) === nameOf(form));
      const wanted = sorted(left);
      const found = again.map((one) => sorted(shownIn(one)));
      const back = found.findIndex((one) => isAsLeft(one, wanted));
      if (back < 0) {
        const closest = found[0] ?? [];
        problems.push(
          `${what}: ${page.status}, ${again.length} such forms; lost ${JSON.stringify(
            wanted.filter((entry) => !closest.includes(entry)),
          )}, has ${JSON.stringify(closest.filter((entry) => !wanted.includes(entry)))}`,
        );
        continue;
      }
      if (!page.text.includes("Your session had ended. Nothing was stored yet")) problems.push(`${what}: no word`);
      if (/class="field-error"/.test(page.text)) problems.push(`${what}: shows errors`);
      const target = new URL((again[back] as ShownForm).action, new URL("/login", told.server.url));
      if (target.href !== at.href) problems.push(`${what}: submits to ${target.href}`);
      const csrf = (again[back] as ShownForm).controls.find(({ name }) => name === "csrf")?.value;
      if (!csrf || csrf === left.find(([name]) => name === "csrf")?.[1]) problems.push(`${what}: no token of its own`);
    }
  }
  assert.equal(problems, []);
  const declared = [
    ...pages,
    createAccountPage({
      accountOf: () => {
        throw new Error("it is not shown");
      },
    }),
  ].flatMap(({ path, forms }) => Object.keys(forms ?? {}).map((form) => `${form} at ${path}`));
  assert.equal(
    declared.filter((kind) => !seen.has(kind)),
    [],
    "forms that no page of the story shows",
  );
  assert.equal(rows(), before);
});

test("no form of a page has a secret to type, which would be sent back", async () => {
  const secrets: string[] = [];
  for await (const { address, page } of pagesWithForms(told, admin))
    for (const form of formsOf(page).filter(isOfPage))
      for (const { name, kind } of form.controls)
        if (kind === "password" || /password|secret/i.test(name)) secrets.push(`${name} at ${address}`);
  assert.equal(secrets, []);
});

test("a large form comes back, in any script; one that is too large is not lost without a word", async () => {
  const at = new URL("/acme/policies/prod-baseline", told.server.url);
  const submitted = (text: string): [string, string][] => [
    ["form", "edit"],
    ["policy_file", text],
    ["comment", ""],
  ];
  const large = "証跡のポリシー\n".repeat(12_000);
  const page = await submitAndSignIn(at, submitted(large));
  const form = formsOf(page).find((one) => nameOf(one) === "edit");
  assert.is(form?.controls.find(({ name }) => name === "policy_file")?.value, large);
  const asked = await createBrowser(told.server.url).post(
    at.pathname,
    Object.fromEntries(submitted("証".repeat(130_000))),
  );
  assert.is(asked.status, 401);
  assert.match(visibleText(asked), "Your session has ended, and what you submitted is too large to be kept");
  assert.not.match(asked.text, "証");
});

test("after a wrong password the form is still kept", async () => {
  const at = new URL("/acme/flows/backend-api?tab=settings", told.server.url);
  const browser = createBrowser(told.server.url);
  const fields = { form: "describe", description: "typed", visibility: "public" };
  const asked = await browser.post(`${at.pathname}${at.search}`, fields);
  const controls = (page: Page): Record<string, string> =>
    Object.fromEntries(formsOf(page).flatMap((one) => one.controls.map(({ name, value }) => [name, value])));
  const refused = await browser.post("/login", { ...controls(asked), name: ADMIN, password: "wrong" });
  assert.is(refused.status, 403);
  const page = await browser.post("/login", { ...controls(refused), name: ADMIN, password: PASSWORD });
  assert.is(page.status, 200);
  assert.match(page.text, 'value="typed"');
});

test.run();
