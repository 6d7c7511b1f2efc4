/** All pages of the web interface on the story: every link leads somewhere, and no role gets more than from the API. */
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { allows, isOrgPermission, ROLES } from "../../src/domain/access.ts";
import type { Role } from "../../src/domain/access.ts";
import { pages } from "../../src/web/pages/index.ts";
import { PAGES } from "../screenshots/pages.ts";
import { htmlUrls } from "../story/html-urls.ts";
import { startStoryServer } from "../story/server.ts";
import type { StoryServer } from "../story/server.ts";
import { ADMIN, EDGE, FRESH } from "../story/story.ts";
import { createBrowser, PASSWORD, setPassword, signInWithRole, visibleText } from "./browser.ts";
import type { Browser, Page } from "./browser.ts";
import { addRetention, decode, pagesWithForms, patternOf } from "./crawl.ts";

const test = suite("web/every-page");

const ACME = "acme";
let told: StoryServer;
let admin: Browser;
test.before(async () => {
  told = await startStoryServer();
  admin = createBrowser(told.server.url);
  await admin.login(ADMIN, PASSWORD);
});
test.after(() => told.server.stop());

/** Bytes of a page as browsers get it. */
const MAX_PAGE_BYTES = 60_000;

/** The addresses within a page that lead to this server, without fragments. */
function linksOf({ text }: Page, path: string): string[] {
  const base = new URL(path, told.server.url);
  return [...text.matchAll(/<a [^>]*href="([^"]*)"/g)]
    .map(([, href = ""]) => href.replace(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code))))
    .map((href) => new URL(href, base))
    .filter(({ origin }) => origin === base.origin)
    .map(({ pathname, search }) => `${pathname}${search}`);
}

const read = async (path: string): Promise<unknown> =>
  (await told.server.call("GET", path, { key: told.story.keys.get(ADMIN) ?? null })).body;

test("every page of the story is there, small, has one primary button at most, and no markup of its data", async () => {
  const sessions = new Map<string | null, Browser>([
    [ADMIN, admin],
    [null, createBrowser(told.server.url)],
  ]);
  const problems: string[] = [];
  for (const { name, path, as = ADMIN } of PAGES.filter(({ isLarge, isBefore }) => !isLarge && !isBefore)) {
    const browser = sessions.get(as) ?? createBrowser(told.server.url);
    if (!sessions.has(as) && as !== null) {
      await browser.login(as, PASSWORD);
      sessions.set(as, browser);
    }
    const address = typeof path === "string" ? path : await path(read as never);
    const page = await browser.get(address);
    if (page.status !== 200 && !name.startsWith("error-")) problems.push(`${name}: ${page.status} ${address}`);
    if (/<script>|<img|javascript:/i.test(page.text)) problems.push(`${name}: markup of the data is not escaped`);
    // A menu that is shut shows no button.
    const shown = page.text.replace(/<details class="(?:save-view|when-menu)"[\s\S]*?<\/details>/g, "");
    const primary = [...shown.matchAll(/class="btn[^"]* btn-primary"/g)].length;
    if (primary > 1) problems.push(`${name}: ${primary} primary buttons`);
    const bytes = gzipSync(page.text, { level: 4 }).length;
    if (bytes > MAX_PAGE_BYTES) problems.push(`${name}: ${bytes} bytes compressed`);
  }
  assert.equal(problems, []);
});

test("every address of a page that an answer of the API contains leads to that page", async () => {
  const { urls } = await htmlUrls(told, { orgs: [ACME, EDGE], maxRequests: 60 });
  const problems: string[] = [];
  for (const [url, operation] of urls) {
    const { status } = await admin.get(url.replace("http://assay.test", ""));
    if (status !== 200) problems.push(`${status} ${url} of ${operation}`);
  }
  assert.ok(urls.size > 50);
  assert.equal(problems, []);
});

/** Pages that the crawl opens; the story has thousands, most of them of one kind. */
const MAX_CRAWLED = 700;
/** Pages of one kind: addresses that differ in names and numbers only. */
const MAX_OF_A_KIND = 6;

test("every link of every page leads somewhere", async () => {
  const open = [ACME, EDGE, FRESH].map((org) => `/${org}`);
  const seen = new Set(open);
  const kinds = new Map<string, number>();
  const problems: string[] = [];
  let crawled = 0;
  for (let path = open.shift(); path !== undefined && crawled < MAX_CRAWLED; path = open.shift()) {
    // Downloads are tested with the API.
    if (/^\/(?:api|doc)\//.test(path)) continue;
    const page = await admin.get(path);
    crawled++;
    if (page.status >= 400) problems.push(`${page.status} ${path}`);
    for (const link of page.status === 200 ? linksOf(page, path) : []) {
      const kind = link
        .replace(/=[^&]*/g, "=")
        .replace(/[0-9a-f]{8,}|\d+/g, "0")
        .split("/")
        .slice(0, 7)
        .join("/");
      const count = kinds.get(kind) ?? 0;
      if (seen.has(link) || count >= MAX_OF_A_KIND) continue;
      seen.add(link);
      kinds.set(kind, count + 1);
      open.push(link);
    }
  }
  assert.equal(problems, []);
  assert.ok(crawled > 150, `${crawled} pages`);
});

/** What stands for the parameters of a page's path. */
const PARAMETERS: Readonly<Record<string, string>> = {
  org: ACME,
  flow: "backend-api",
  trail: "release-2.41.0",
  env: "staging",
  environment: "staging",
  snapshot: "1",
  policy: "prod-baseline",
  control: "SEC-REL-4",
  name: "cyclonedx",
  number: "1",
};

test("every bar that counts something leads to as many as it says", async () => {
  const problems: string[] = [];
  /** By address and words; of the first page that has it. */
  const counted = new Map<string, { from: string; address: string; amount: string }>();
  for (const { name, path } of PAGES.filter(({ isLarge = false, as = ADMIN }) => !isLarge && as === ADMIN)) {
    const address = typeof path === "string" ? path : await path(read as never);
    const page = await admin.get(address);
    const bars = [...page.text.matchAll(/<(?:a class="c-link"|a class="grow name") href="([^"]*)"([^>]*)>([^<]*)/g)];
    for (const [, href = "", attributes = "", text = ""] of bars) {
      const words = decode(/aria-label="([^"]*)"/.exec(attributes)?.[1] ?? text);
      const amount =
        /(?:^|: )([\d,]+) (?:deployments?|builds?|compliant|non-compliant|of unknown state|covered|not covered)$/;
      const [, said] = amount.exec(words) ?? [];
      const link = new URL(decode(href), new URL(address, told.server.url));
      const to = `${link.pathname}${link.search}`;
      if (said !== undefined && !counted.has(`${to} ${words}`))
        counted.set(`${to} ${words}`, { from: name, address: to, amount: said });
    }
  }
  for (const [words, { from, address, amount }] of counted) {
    const listed = visibleText(await admin.get(address));
    const totals = [
      `\\b${amount} (?:deployments?|environments?|artifacts?)\\b`,
      `(?:Deployments|Builds) ${amount} from`,
      `(?:Failing|Non-compliant|Compliant|Unknown) ${amount}\\b`,
    ];
    if (!new RegExp(totals.join("|")).test(listed)) problems.push(`${from}: ${words}`);
  }
  assert.equal(problems, []);
  const places = new Set([...counted.values()].map(({ from }) => from));
  for (const page of ["overview", "environments", "environment-deployments", "repo", "past-overview"])
    assert.ok(places.has(page), `${page} has no such bar: ${[...places].join(" ")}`);
});

test("every page of an organization refuses people of other organizations, in the same words", async () => {
  const { server } = told;
  const other = server.given.org();
  await setPassword(server, `${other.org}-admin`);
  const stranger = createBrowser(server.url);
  await stranger.login(`${other.org}-admin`, PASSWORD);
  const answers = new Map<string, string[]>();
  for (const { path } of pages.filter((known) => known.path.startsWith("/{org}"))) {
    const address = path.replace(/\{(\w+)\*?\}/g, (_, name: string) => PARAMETERS[name] ?? "x");
    const page = await stranger.get(address);
    const answer = `${page.status} ${visibleText(page).slice(0, 400)}`;
    answers.set(answer, [...(answers.get(answer) ?? []), path]);
  }
  const unknown = await stranger.get(`/${"no-such-organization"}`);
  assert.equal(
    [...answers.keys()],
    [`${unknown.status} ${visibleText(unknown).slice(0, 400)}`],
    [...answers].join("\n"),
  );
  assert.is(unknown.status, 403);
});

test("a form is refused to every role whose permission it lacks, and nothing changes", async () => {
  const { server } = told;
  const rows = (): unknown =>
    server.db
      .prepare<[], { name: string }>("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
      .all()
      .filter(({ name }) => !/^(?:sessions|sqlite_)/.test(name))
      .map(({ name }) => [name, server.db.prepare(`SELECT count(*) FROM "${name}"`).pluck().get()]);
  const browsers = new Map<Role, Browser>();
  for (const role of ROLES.filter((one) => one !== "admin")) {
    server.given.user(ACME, role);
    const { name } = server.db.prepare("SELECT name FROM users ORDER BY id DESC LIMIT 1").get() as { name: string };
    await setPassword(server, name);
    const browser = createBrowser(server.url);
    await browser.login(name, PASSWORD);
    browsers.set(role, browser);
  }
  const repository = server.db
    .prepare<[string], string>(
      "SELECT r.public_id FROM repos r JOIN organizations o ON o.id = r.organization_id WHERE o.name = ? LIMIT 1",
    )
    .pluck()
    .get(ACME);
  const parameters: Readonly<Record<string, string | undefined>> = { ...PARAMETERS, id: repository };
  const before = rows();
  const problems: string[] = [];
  let refused = 0;
  for (const page of pages.filter(({ path, forms }) => forms && path.startsWith("/{org}"))) {
    const path = page.path.replace(/\{(\w+)\*?\}/g, (_, name: string) => parameters[name] ?? "x");
    for (const [role, browser] of browsers) {
      const csrf = await browser.readCsrfToken(`/${ACME}/flows`);
      for (const [form, { operation }] of Object.entries(page.forms ?? {})) {
        if (!isOrgPermission(operation.permission) || allows(operation.permission, { role, isPublic: false })) continue;
        const answer = await browser.post(path, { csrf, form });
        refused++;
        if (answer.status !== 403) problems.push(`${role}: ${form} at ${page.path}: ${answer.status}`);
        const shown = await browser.get(path);
        if (shown.text.includes(`name="form" value="${form}"`))
          problems.push(`${role} is shown ${form} at ${page.path}`);
      }
    }
  }
  assert.equal(problems, []);
  assert.ok(refused > 0);
  assert.equal(rows(), before);
});

/** No question of an address, but the name of a form that was refused. */
const NO_QUESTIONS: readonly string[] = ["put"];

test("no address that asks something shows a form to a role that must not submit it", async () => {
  const browsers: [Role, Browser][] = [];
  for (const role of ROLES.filter((one) => one !== "admin"))
    browsers.push([role, await signInWithRole(told.server, ACME, role)]);
  await addRetention(admin);
  const problems: string[] = [];
  const asked = new Set<string>();
  let shown = 0;
  for await (const { address } of pagesWithForms(told, admin)) {
    const { pathname, searchParams } = new URL(address, told.server.url);
    const page = pages.find(({ path }) => path === patternOf(pathname));
    if (!page?.forms || !pathname.startsWith(`/${ACME}`)) continue;
    const question = searchParams.get("ask");
    if (question !== null) asked.add(question);
    for (const [role, browser] of browsers) {
      const { text } = await browser.get(address);
      for (const [, form = ""] of text.matchAll(/name="form" value="([^"]*)"/g)) {
        const { permission } = page.forms[form]?.operation ?? { permission: "authenticated" };
        shown++;
        if (isOrgPermission(permission) && !allows(permission, { role, isPublic: false }))
          problems.push(`${role} is shown ${form} at ${address}`);
      }
    }
  }
  assert.equal(problems, []);
  assert.ok(shown > 20, `${shown} forms are shown to members and below`);
  assert.equal(
    questionsInCode().filter((question) => !asked.has(question) && !NO_QUESTIONS.includes(question)),
    [],
    "questions that no address above asks",
  );
});

/** Filters by a name, which may be one of an object that does not exist. */
const NAMES: readonly string[] = ["environment", "flow", "repo"];

test("a filter that is wrong says so at its field, on every page, and a date that is none too", async () => {
  const problems: string[] = [];
  const wrongOf = (name: string, isDay: boolean): string => (isDay ? "2026-02-30" : `no ${name}`);
  const tried = new Set<string>();
  for await (const { address, page } of pagesWithForms(told, admin)) {
    const here = new URL(address, told.server.url);
    const [form = ""] = /<form class="filters"[\s\S]*?<\/form>/.exec(page.text) ?? [];
    const fields = [...form.matchAll(/<select[^>]* name="(\w+)"|type="(date)" name="(\w+)"/g)]
      .map(([, choice, day, date = ""]) => ({ name: choice ?? date, isDay: day !== undefined }))
      .filter(({ name }) => !NAMES.includes(name));
    const [states = ""] = /role="group" aria-label="State">[\s\S]*/.exec(form) ?? [];
    for (const [, href = ""] of states.matchAll(/href="([^"]*)"/g))
      for (const name of new URL(decode(href), here).searchParams.keys())
        if (!here.searchParams.has(name)) fields.push({ name, isDay: false });
    for (const { name, isDay } of fields) {
      const kind = `${patternOf(here.pathname)} ${here.searchParams.get("tab") ?? ""} ${name}`;
      if (tried.has(kind)) continue;
      tried.add(kind);
      const wrong = new URL(here);
      wrong.searchParams.set(name, wrongOf(name, isDay));
      const { status, text } = await admin.get(`${wrong.pathname}${wrong.search}`);
      const [, message = ""] =
        new RegExp(`<p class="field-error" id="${name}-error">([\\s\\S]*?)</p>`).exec(text) ?? [];
      if (status !== 200 || !visibleText({ text: message }).includes(isDay ? "2026-0" : `no ${name}`))
        problems.push(`${kind}: ${status} ${visibleText({ text: message })}`);
    }
  }
  assert.equal(problems, []);
  assert.ok(tried.size > 20, [...tried].join("\n"));
});

/** The words of validators, and regular expressions. */
const VALIDATORS = /(?:String|Input|List|Object|Key) should|Field required|not permitted|\[input:|\^\[/;

test("a refused form speaks in the words of people, and says each mistake once", async () => {
  const problems: string[] = [];
  const seen = new Set<string>();
  for await (const { address, page } of pagesWithForms(told, admin)) {
    const { pathname } = new URL(address, told.server.url);
    for (const [form] of page.text.matchAll(/<form[^>]* method="post"[\s\S]*?<\/form>/g)) {
      const inputs = [...form.matchAll(/<(?:input|textarea|select)[^>]*>/g)].map(([tag]) => ({
        name: /\sname="([^"]*)"/.exec(tag)?.[1] ?? "",
        value: /\svalue="([^"]*)"/.exec(tag)?.[1] ?? "",
        isText: /<textarea|class="field/.test(tag),
      }));
      const name = inputs.find((input) => input.name === "form")?.value ?? "";
      const texts = inputs.filter(({ isText }) => isText);
      if (texts.length === 0 || seen.has(`${patternOf(pathname)} ${name}`)) continue;
      seen.add(`${patternOf(pathname)} ${name}`);
      for (const wrong of ["", "/ wrong \u0001", "x".repeat(70_000)]) {
        const fields = Object.fromEntries(inputs.filter(({ isText }) => !isText).map((one) => [one.name, one.value]));
        for (const text of texts) fields[text.name] = wrong;
        const answer = await admin.post(address, fields);
        const messagesOf = (kind: string): string[] =>
          [...answer.text.matchAll(new RegExp(`<p class="${kind}"[^>]*>([\\s\\S]*?)</p>`, "g"))].map(([, text = ""]) =>
            visibleText({ text }),
          );
        const [atFields, atTop] = [messagesOf("field-error"), messagesOf("problem")];
        if (answer.status >= 500) problems.push(`${answer.status} ${name} at ${address}`);
        const report = (message: string, what: string): void =>
          void problems.push(`${name} at ${patternOf(pathname)} ${what}: ${message.slice(0, 200)}`);
        for (const message of [...atFields, ...atTop].filter((one) => VALIDATORS.test(one))) report(message, "says");
        for (const message of atTop.filter((one, at) => atFields.includes(one) || atTop.indexOf(one) !== at))
          report(message, "says twice");
      }
    }
  }
  assert.ok(seen.size > 20, `${seen.size} forms`);
  assert.equal([...new Set(problems)], []);
});

/** What pages compare the parameter `ask` with, and what their links ask. */
function questionsInCode(): string[] {
  const folder = join(import.meta.dirname, "../../src/web");
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith(".ts"));
  const texts = files.map((path) => readFileSync(join(folder, path), "utf8"));
  const pattern = /(?:get\("ask"\)|\bask|\basked) === "([\w-]+)"|\bask: "([\w-]+)"|[?&]ask=([\w-]+)/g;
  return [...new Set(texts.flatMap((text) => [...text.matchAll(pattern)].map(([, a, b, c]) => a ?? b ?? c ?? "")))];
}

test.run();
