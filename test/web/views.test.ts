/** Saved views in pages: the form on each list, the navigation, and views that lost what they are about. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { LIST_PAGES } from "../../src/api/list-pages.ts";
import type { ListName } from "../../src/api/list-pages.ts";
import { compileSchema } from "../../src/http/validate.ts";
import { linksFor } from "../../src/web/page/links.ts";
import { listHref } from "../../src/web/components/views.ts";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { messageOf, signIn, signInWithRole, visibleText } from "./browser.ts";
import type { Browser, Page } from "./browser.ts";
import { decode } from "./crawl.ts";

const test = suite("web/views");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
async function given(): Promise<{ at: At; browser: Browser }> {
  const at = server.given.org();
  return { at, browser: await signIn(server, `${at.org}-admin`) };
}

const FAILING = { "list.page": "artifacts", "list.parameters.state": "NON-COMPLIANT" };
const saveList = (browser: Browser, { org }: At, fields: Record<string, string>): Promise<Page> =>
  browser.submitForm(`/${org}/views`, { form: "save", ...fields }, "/account");
const save = (browser: Browser, at: At, fields: Record<string, string>): Promise<Page> =>
  saveList(browser, at, { ...FAILING, ...fields });
const viewsOf = async (browser: Browser, { org }: At): Promise<any[]> =>
  JSON.parse((await browser.get(`/api/v2/views/${org}`)).text) as any[];

/** The links of the views in the navigation. */
const navigation = ({ text }: Page) =>
  [...(/<div class="nav nav-views"[\s\S]*?<\/div>/.exec(text)?.[0] ?? "").matchAll(/<a([^>]*)>([\s\S]*?)<\/a>/g)].map(
    ([, attributes = "", content = ""]) => ({
      href: decode(/href="\.\.?\/(?:[^"/]*\/)?([^"/]*)"/.exec(attributes)?.[1] ?? ""),
      isCurrent: attributes.includes('aria-current="true"'),
      text: visibleText({ text: content }),
    }),
  );

/** The fields and choices of the filters of a page. */
function filtersOf({ text }: Page): { name: string; value: string | null }[] {
  const form = /<form class="filters[\s\S]*?<\/form>/.exec(text)?.[0] ?? "";
  const inputs = [...form.matchAll(/<input[^>]* name="([^"]+)"/g)].map(([, name = ""]) => ({ name, value: null }));
  const selects = [...form.matchAll(/<select[^>]* name="([^"]+)"[\s\S]*?<\/select>/g)].flatMap(([all, name = ""]) =>
    [...all.matchAll(/<option value="([^"]+)"/g)].map(([, value = ""]) => ({ name, value: decode(value) })),
  );
  const states = [...form.matchAll(/<a class="btn" href="[^"]*[?&](state|show)=([^"&]+)/g)].map(
    ([, name = "", value = ""]) => ({ name, value: decodeURIComponent(value) }),
  );
  return [...inputs, ...selects, ...states];
}

/** A value that a parameter takes. */
function valueFor(name: string, shape: { enum?: string[]; pattern?: string }): string {
  const known: Record<string, string> = { flow: "backend", environment: "production", control: "SOC-1" };
  if (known[name] !== undefined) return known[name];
  if (shape.enum) return shape.enum[0] as string;
  const candidates = ["2026-01-31", "junit", "a".repeat(40), "flow", "x"];
  return candidates.find((text) => new RegExp(shape.pattern ?? "x").test(text)) as string;
}

test("every filter of every list can be saved, and a saved list is the list that was shown", async () => {
  const { at, browser } = await given();
  const flow = await server.given.flow(at, { name: "backend" });
  await server.given.trail(at, { flow, name: "release-1" });
  await server.given.artifact(at, { flow, trail: "release-1", name: "server" });
  await server.given.environment(at, { name: "production", type: "server" });
  await server.given.control(at, { identifier: "SOC-1" });
  const report = { artifacts: [{ digests: { server: "a".repeat(64) }, creationTimestamp: 1_700_000_000 }] };
  const reported = await server.call("PUT", `/environments/${at.org}/production/report/server`, {
    key: at.key,
    body: { type: "server", ...report },
  });
  assert.is(reported.status, 201, reported.text);
  const to = linksFor("/", at.org);
  for (const [page, schema] of Object.entries(LIST_PAGES) as [ListName, any][]) {
    const parameters = Object.fromEntries(
      Object.entries<any>(schema.properties).map(([name, shape]) => [name, valueFor(name, shape)]),
    );
    const address = listHref(to, { page, parameters });
    const shown = await browser.get(address);
    assert.is(shown.status, 200, `${page} ${address}`);
    const offered = filtersOf(shown);
    assert.ok(offered.length > 0, `${page} has no filters`);
    for (const { name, value } of offered.filter(({ name }) => name !== "tab")) {
      const shape = schema.properties[name];
      assert.ok(shape, `${page}: the filter ${name} is not in api/list-pages.ts`);
      if (value !== null) assert.ok(compileSchema(shape, "plain")(value), `${page}: ${name}=${value}`);
    }
    const form = /<details class="save-view"[\s\S]*?<\/details>/.exec(shown.text)?.[0] ?? "";
    const fields = Object.fromEntries(
      [...form.matchAll(/<input type="hidden" name="(list\.[^"]+)" value="([^"]*)"/g)].map(([, name, value]) => [
        name as string,
        decode(value as string),
      ]),
    );
    const expected = Object.entries(parameters).map(([name, value]) => [`list.parameters.${name}`, value] as const);
    assert.equal(fields, { "list.page": page, ...Object.fromEntries(expected) }, page);
    const answer = await saveList(browser, at, { ...fields, name: page });
    assert.is(answer.status, 303, `${page}: ${visibleText(answer)}`);
    assert.is(
      new URL(answer.location as string, `${server.url}/${at.org}/views`).pathname,
      address.replace(/\?.*/, ""),
    );
    const again = await browser.get(address);
    assert.equal(
      navigation(again)
        .filter(({ isCurrent }) => isCurrent)
        .map(({ text }) => text),
      [page],
    );
  }
  assert.is((await viewsOf(browser, at)).length, Object.keys(LIST_PAGES).length);
});

test("a list without filters, and a page that is no list, have nothing to save", async () => {
  const { at, browser } = await given();
  const flow = await server.given.flow(at, { name: "backend" });
  await server.given.trail(at, { flow, name: "release-1" });
  for (const path of ["flows", "flows/backend", "flows/backend/trails/release-1", "views", ""])
    assert.not.match((await browser.get(`/${at.org}/${path}`)).text, "save-view");
  // What no filter takes filters nothing, so there is nothing to keep.
  assert.not.match((await browser.get(`/${at.org}/environments?state=nothing`)).text, "save-view");
  assert.match((await browser.get(`/${at.org}/flows?search=back`)).text, "save-view");
  assert.not.match((await browser.get(`/${at.org}/flows?search=${"x".repeat(257)}`)).text, "save-view");
});

test("saves a view, says so, and marks it in the navigation of its list only", async () => {
  const { at, browser } = await given();
  const answer = await save(browser, at, { name: "  Failing artifacts " });
  assert.is(answer.status, 303);
  assert.match(answer.location as string, /artifacts\?state=NON-COMPLIANT&done=view_saved$/);
  const shown = await browser.get(`/${at.org}/artifacts?state=NON-COMPLIANT&done=view_saved`);
  assert.is(messageOf(shown), "Saved as a view. It is in the navigation.");
  assert.equal(navigation(shown), [
    { href: "artifacts?state=NON-COMPLIANT", isCurrent: true, text: "Failing artifacts" },
  ]);
  // Another page of the same list is the same view; another filter is not.
  for (const [query, isCurrent] of [
    ["?page=2&state=NON-COMPLIANT", true],
    ["?state=COMPLIANT", false],
    ["?state=NON-COMPLIANT&search=x", false],
    ["", false],
  ] as const)
    assert.equal(
      navigation(await browser.get(`/${at.org}/artifacts${query}`)).map((one) => one.isCurrent),
      [isCurrent],
      query,
    );
  const more = await browser.get(`/${at.org}/more`);
  assert.match(visibleText(more), /Views Change Failing artifacts/);
  assert.match(visibleText(await browser.get(`/${at.org}/search?q=failing&suggest=1`)), /Views Failing artifacts/);
});

test("only an admin chooses to save for everybody, and nobody else can", async () => {
  const { at, browser } = await given();
  const reader = await signInWithRole(server, at.org, "reader");
  const list = `/${at.org}/artifacts?state=COMPLIANT`;
  assert.match((await browser.get(list)).text, `Everybody in ${at.org}`);
  const seen = await reader.get(list);
  assert.match(seen.text, "save-view");
  assert.not.match(seen.text, "Everybody in");
  const refused = await save(reader, at, { name: "Ours", for_everyone: "yes" });
  assert.is(refused.status, 403);
  assert.is(messageOf(refused), "Only an admin makes, changes or deletes views for everyone.");
  assert.equal(await viewsOf(reader, at), []);
  assert.is((await save(browser, at, { name: "Ours", for_everyone: "yes" })).status, 303);
  const [view] = await viewsOf(reader, at);
  const page = await reader.get(`/${at.org}/views`);
  assert.match(visibleText(page), /Everybody in .* Ours Artifacts, state: Non-compliant/);
  assert.not.match(page.text, /ask=(?:rename|delete)/);
  for (const form of ["rename", "delete"]) {
    const answer = await reader.submitForm(`/${at.org}/views`, { form, view: view.view_id, name: "Mine" }, "/account");
    assert.is(answer.status, 403);
  }
  assert.equal(await viewsOf(reader, at), [view]);
});

test("a refused view is shown with what was typed, and its message at the name", async () => {
  const { at, browser } = await given();
  await save(browser, at, { name: "Failing" });
  const taken = await save(browser, at, { name: "Failing", for_everyone: "" });
  assert.is(taken.status, 400);
  assert.match(taken.text, /<input[^>]* name="name"[^>]* aria-invalid="true"[^>]* value="Failing"/);
  assert.match(visibleText(taken), "A view with this name already exists");
  assert.match(taken.text, '<input type="hidden" name="list.parameters.state" value="NON-COMPLIANT">');
  for (const [fields, message] of [
    [
      { "list.parameters.flow": "gone" },
      "There is no flow named gone (any more), so the list has nothing to show: choose another flow.",
    ],
    [
      { "list.parameters.state": "x" },
      "This list cannot be saved with these filters: open it again, and save it from there.",
    ],
    [{ "list.page": "users" }, "This list cannot be saved with these filters: open it again, and save it from there."],
  ] as const) {
    const answer = await save(browser, at, { name: "Other", ...fields });
    assert.is(answer.status, 400);
    assert.is(messageOf(answer), message);
  }
  assert.is((await viewsOf(browser, at)).length, 1);
});

test("renames and deletes a view", async () => {
  const { at, browser } = await given();
  await save(browser, at, { name: "Failing" });
  await save(browser, at, { name: "Other" });
  const { view_id: view } = (await viewsOf(browser, at)).find(({ name }) => name === "Failing");
  const page = `/${at.org}/views`;
  const asked = await browser.get(`${page}?ask=rename&view=${view}`);
  assert.match(asked.text, /<input autofocus class="field"[^>]* name="name"[^>]* value="Failing"/);
  const taken = await browser.submitForm(page, { form: "rename", view, name: "Other" });
  assert.is(taken.status, 400);
  assert.match(visibleText(taken), "A view with this name already exists");
  assert.is(
    (await browser.submitForm(page, { form: "rename", view, name: "Broken" })).location,
    `../${at.org}/views?done=saved`,
  );
  assert.equal(
    (await viewsOf(browser, at)).map(({ name }) => name),
    ["Broken", "Other"],
  );
  assert.match(visibleText(await browser.get(`${page}?ask=delete&view=${view}`)), "Artifacts, state: Non-compliant");
  assert.is((await browser.submitForm(page, { form: "delete", view })).location, `../${at.org}/views?done=deleted`);
  assert.equal(
    (await viewsOf(browser, at)).map(({ name }) => name),
    ["Other"],
  );
  assert.is((await browser.submitForm(page, { form: "rename", view, name: "Back" })).status, 404);
  assert.is((await browser.submitForm(page, { form: "delete", view })).status, 404);
});

test("a view whose flow or environment is gone is shown, and says so instead of failing", async () => {
  const { at, browser } = await given();
  await server.given.flow(at, { name: "payments" });
  await server.given.environment(at, { name: "staging", type: "server" });
  const of = (page: string, parameter: string, value: string) => ({
    name: page,
    "list.page": page,
    [`list.parameters.${parameter}`]: value,
  });
  await saveList(browser, at, of("trails", "flow", "payments"));
  await saveList(browser, at, of("running", "environment", "staging"));
  assert.equal(
    (await viewsOf(browser, at)).map(({ list }) => list),
    [
      { page: "running", parameters: { environment: "staging" } },
      { page: "trails", parameters: { flow: "payments" } },
    ],
  );
  for (const path of [`flows/${at.org}/payments/archive`, `environments/${at.org}/staging/archive`])
    assert.is((await server.call("PUT", `/${path}`, { key: at.key })).status, 200);
  const [running, trails] = await viewsOf(browser, at);
  const page = await browser.get(`/${at.org}`);
  assert.is(page.status, 200);
  assert.equal(navigation(page), [
    {
      href: `views?view=${running.view_id}`,
      isCurrent: false,
      text: "running . The environment staging does not exist any more.",
    },
    {
      href: `views?view=${trails.view_id}`,
      isCurrent: false,
      text: "trails . The flow payments does not exist any more.",
    },
  ]);
  const shown = await browser.get(`/${at.org}/views?view=${trails.view_id}`);
  assert.match(visibleText(shown), /^Views .*trails has nothing to show The flow payments does not exist any more\./);
  const answer = await browser.submitForm(`/${at.org}/views`, { form: "rename", view: trails.view_id, name: "Old" });
  assert.is(answer.status, 303, visibleText(answer));
  assert.is((await browser.submitForm(`/${at.org}/views`, { form: "delete", view: trails.view_id })).status, 303);
});

test("a damaged view is shown as one that cannot be read", async () => {
  const { at, browser } = await given();
  await save(browser, at, { name: "Failing" });
  server.db.prepare("UPDATE views SET parameters_json = '{' WHERE name = 'Failing' AND page = 'artifacts'").run();
  const page = await browser.get(`/${at.org}/views`);
  assert.match(visibleText(page), "What was saved cannot be read.");
  assert.equal(
    navigation(page).map(({ text }) => text),
    ["Failing . What was saved cannot be read."],
  );
});

test("the navigation names twenty views, and leads to all of them", async () => {
  const { at, browser } = await given();
  for (let n = 10; n < 32; n++)
    assert.is(
      (
        await server.call("POST", `/views/${at.org}`, {
          key: at.key,
          body: { name: `View ${n}`, list: { page: "flows", parameters: { search: `${n}` } } },
        })
      ).status,
      201,
    );
  const links = navigation(await browser.get(`/${at.org}/flows`));
  assert.is(links.length, 21);
  assert.equal(links.at(-1), { href: "views", isCurrent: false, text: "All 22 views" });
});

test("a stranger in a public organization sees its lists, and no views", async () => {
  const at = server.given.org({ public: true });
  await server.given.flow(at, { name: "backend" });
  const stranger = await signInWithRole(server, at.org, null);
  const page = await stranger.get(`/${at.org}/flows?search=back`);
  assert.is(page.status, 200);
  assert.not.match(page.text, /save-view|nav-views/);
  assert.is((await stranger.get(`/${at.org}/views`)).status, 403);
});

test.run();
