/** The pages of controls: list, decisions, coverage, versions, and the forms that change a control. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { signIn, signInWithRole, visibleText } from "./browser.ts";
import type { Browser, Page } from "./browser.ts";

const test = suite("web/controls");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
const MARKUP = '<script>alert("stored")</script>';

const signedIn = (name: string): Promise<Browser> => signIn(server, name);

async function given(): Promise<{ at: At; browser: Browser }> {
  const at = server.given.org();
  return { at, browser: await signedIn(`${at.org}-admin`) };
}

const reader = ({ org }: At): Promise<Browser> => signInWithRole(server, org, "reader");

const read = async (at: At, path: string) =>
  (await server.call("GET", `/controls/${at.org}${path}`, { key: at.key })).body;
const decide = (at: At, flow: string, fields: object): Promise<string> =>
  server.given.attestation(at, {
    kind: "system",
    flow,
    trail: "release-1",
    name: "approval",
    type_name: "decision",
    control: "C-1",
    ...fields,
  });
const fieldError = ({ text }: Page, id: string): string | null => {
  const message = new RegExp(`<p class="field-error" id="${id}-error">([\\s\\S]*?)</p>`).exec(text)?.[1];
  return message === undefined ? null : visibleText({ text: message });
};

test("creates a control, and shows each refusal at its field with what was typed", async () => {
  const { at, browser } = await given();
  assert.match(visibleText(await browser.get(`/${at.org}/controls`)), /No controls yet .* kosli create control/);
  const path = `/${at.org}/controls?ask=create`;
  const typed = {
    form: "create",
    identifier: "C-1",
    name: "Reviewed",
    description: MARKUP,
    links: "wiki https://wiki.example.com/c1\n\naudit https://grc.example.com",
  };
  const wrong = await browser.submitForm(path, { ...typed, identifier: "no spaces" });
  assert.is(wrong.status, 400);
  assert.match(String(fieldError(wrong, "create-identifier")), /^Use only letters, digits and - _ \. ~\.$/);
  assert.match(wrong.text, /value="no spaces"/);
  assert.not.match(wrong.text, /<script>alert/);
  for (const [links, message] of [
    ["wiki", /^Line 1 is not a name and an address\.$/],
    ["a https://x.example\na https://y.example", /^Line 2 repeats the name 'a'/],
    ["wiki javascript:alert(1)", /^wiki: /],
  ] as const) {
    const page = await browser.submitForm(path, { ...typed, links });
    assert.is(page.status, 400, links);
    assert.match(String(fieldError(page, "create-links")), message);
  }
  assert.equal((await read(at, "")).controls, []);

  const made = await browser.submitForm(path, typed);
  assert.equal([made.status, made.location], [303, `../${at.org}/controls/C-1?done=created`]);
  const control = await read(at, "/C-1");
  assert.equal(
    [control.name, control.links],
    ["Reviewed", { wiki: "https://wiki.example.com/c1", audit: "https://grc.example.com" }],
  );
  const page = await browser.get(`/${at.org}/controls/C-1`);
  assert.match(visibleText(page), /^C-1 Reviewed v1 <script>alert\("stored"\)<\/script> wiki audit created/);
  assert.match(page.text, /<a href="https:\/\/wiki.example.com\/c1" rel="noopener noreferrer">wiki<\/a>/);
  assert.not.match(page.text, /<script>alert/);
  assert.is((await browser.submitForm(path, typed)).status, 409);
});

test("lists active and archived controls, with search, tags and order", async () => {
  const { at, browser } = await given();
  for (const [identifier, name] of [
    ["A-1", "Zebra"],
    ["B-2", "Apple"],
    ["C-3", "Old"],
  ] as const)
    await server.given.control(at, { identifier, name });
  await server.call("POST", `/controls/${at.org}/C-3/archive`, { key: at.key });
  const body = { set_tags: { owner: "release" }, remove_tags: [] };
  await server.call("PATCH", `/tags/${at.org}/control/A-1`, { key: at.key, body });
  const list = async (query: string): Promise<string> =>
    visibleText(await browser.get(`/${at.org}/controls${query}`)).replace(/^.*Filter /, "");
  assert.match(await list(""), /^2 controls .* Apple B-2 .* Zebra A-1/);
  assert.match(await list("?sort=desc"), /Zebra A-1 .* Apple B-2/);
  assert.match(await list("?search=a-1"), /^1 control /);
  assert.match(await list("?tag=owner:release"), /^1 control .* Zebra/);
  assert.match(await list("?tag=owner:other"), /^0 controls Clear filters Save view .*No control matches/);
  assert.match(await list("?tab=archived"), /^1 control .* Old C-3/);
  assert.is((await browser.get(`/${at.org}/controls?page=999999&tab=x&sort=y`)).status, 200);
});

test("shows decisions with filters, and a drawer with one of them", async () => {
  const { at, browser } = await given();
  await server.given.control(at, { identifier: "C-1" });
  const flow = await server.given.flow(at, { name: "api" });
  const path = `/${at.org}/controls/C-1`;
  assert.match(visibleText(await browser.get(path)), /No decisions yet .* kosli attest decision --control C-1/);
  const id = await decide(at, flow, {
    attestation_data: { is_compliant: true },
    user_data: { note: MARKUP },
    origin_url: "https://ci.example.com/7",
  });
  await decide(at, await server.given.flow(at, { name: "web" }), { attestation_data: { is_compliant: false } });
  const count = async (query: string): Promise<string> =>
    / Filter (\d+ decisions?)/.exec(visibleText(await browser.get(`${path}${query}`)))?.[1] ?? "";
  assert.is(await count(""), "2 decisions");
  assert.is(await count("?flow=api"), "1 decision");
  assert.is(await count("?flow=none"), "0 decisions");
  const filled = visibleText(await browser.get(`${path}?flow=none&from=2020-01-01`));
  assert.match(filled, /Name of a flow .*From \(UTC\) To \(UTC\)/, "labels stay where a text hides the placeholder");
  assert.is(await count("?compliance=no"), "1 decision");
  assert.is(await count("?from=2020-01-01&to=2020-01-02"), "0 decisions");
  assert.is(await count("?from=2020-01-01"), "2 decisions");
  assert.is(await count("?from=soon&to=&compliance=maybe&sort=up&page=999999"), "2 decisions");
  const page = await browser.get(`${path}?decision=${id}`);
  const drawer = /<aside class="drawer"[\s\S]*<\/aside>/.exec(page.text)?.[0] ?? "";
  assert.match(
    visibleText({ text: drawer }),
    /2 of 2 on this page approval Approved .* Trail release-1 Flow api Artifact the whole trail .* User data .*alert/,
  );
  assert.match(drawer, /href="https:\/\/ci.example.com\/7" rel="noopener noreferrer"/);
  assert.not.match(page.text, /<script>alert/);
  assert.not.match((await browser.get(`${path}?decision=none`)).text, /class="drawer"/);
});

test("shows coverage with numbers, filters and the policies that require the control", async () => {
  const { at, browser } = await given();
  await server.given.control(at, { identifier: "C-1" });
  const path = `/${at.org}/controls/C-1?tab=coverage`;
  assert.match(visibleText(await browser.get(path)), /No environments yet/);
  const content = [
    "_schema: https://assay.example.com/schemas/policy/environment/v1",
    "artifacts:",
    "  attestations:",
    "    - type: decision",
    "      for_control: C-1",
  ].join("\n");
  const file = { name: "policy_file", filename: "policy.yml", content };
  await server.call("PUT", `/policies/${at.org}`, {
    key: at.key,
    form: { field: "payload", json: { name: "releases" }, file },
  });
  await server.given.environment(at, { name: "production", policies: ["releases"] });
  await server.given.environment(at, { name: "staging" });
  const text = visibleText(await browser.get(path));
  assert.match(text, /Coverage 50 % 1 of 2 environments require a decision on this control, 1 does not \./);
  const page = (await browser.get(path)).text;
  assert.match(page, /<use href="#i-container"\/><\/svg>[^<]*<div><a[^>]*><bdi>production</, "the icon of its type");
  const bar = /<svg class="seg"[\s\S]*?<\/svg>/.exec(page)?.[0] ?? "";
  const links = [...bar.matchAll(/href="[^"]*covered=(\w+)"[^>]* aria-label="([^"]*)"/g)];
  assert.equal(
    links.map(([, covered, words]) => [covered, words]),
    [
      ["yes", "1 covered"],
      ["no", "1 not covered"],
    ],
  );
  assert.match(text, /production Kubernetes Covered releases staging Kubernetes Not covered no policy requires it/);
  assert.match(visibleText(await browser.get(`${path}&covered=no`)), /1 environment .* staging/);
  assert.match(visibleText(await browser.get(`${path}&search=PROD`)), /1 environment .* production/);
  assert.match(visibleText(await browser.get(`${path}&search=none`)), /No environment matches/);
  assert.match(visibleText(await browser.get(`/${at.org}/controls/C-1`)), /required by releases/);
});

test("edits a control as a new version, and archives it after asking", async () => {
  const { at, browser } = await given();
  await server.given.control(at, { identifier: "C-1", name: "Old" });
  const path = `/${at.org}/controls/C-1`;
  const edited = await browser.submitForm(`${path}?ask=edit`, {
    form: "edit",
    name: "New",
    description: "How",
    links: "",
  });
  assert.equal([edited.status, edited.location], [303, `../../${at.org}/controls/C-1?done=saved`]);
  const refused = await browser.submitForm(`${path}?ask=edit`, { form: "edit", name: "", description: "", links: "x" });
  assert.is(refused.status, 400);
  assert.match(visibleText(await browser.get(`${path}?tab=versions`)), /Version 2 current Edited .* Name New Descript/);
  const tagged = await browser.submitForm(`${path}?ask=edit`, { form: "set_tag", key: "owner", value: "release" });
  assert.is(tagged.status, 303);
  assert.equal((await read(at, "/C-1")).tags, { owner: "release" });

  assert.match(visibleText(await browser.get(`${path}?ask=archive`)), /Archive this control\?/);
  assert.is((await read(at, "/C-1")).archived, false);
  assert.is((await browser.submitForm(`${path}?ask=archive`, { form: "archive" })).status, 303);
  assert.match(visibleText(await browser.get(path)), /archived .* This control is archived .* Unarchive/);
  assert.match(String((await browser.submitForm(path, { form: "unarchive" })).location), /done=unarchived/);
  assert.equal([(await read(at, "/C-1")).archived, (await read(at, "/C-1")).version], [false, 4]);
});

test("a reader sees no form, and a forged one changes nothing", async () => {
  const { at } = await given();
  await server.given.control(at, { identifier: "C-1" });
  const browser = await reader(at);
  const path = `/${at.org}/controls/C-1`;
  for (const query of ["", "?ask=edit", "?ask=archive"]) {
    const page = await browser.get(`${path}${query}`);
    assert.is(page.status, 200);
    assert.not.match(page.text, /name="form"|href="[^"]*ask=/);
  }
  for (const form of ["edit", "archive", "unarchive", "set_tag"])
    assert.is((await browser.submitForm(path, { form, name: "x", key: "a", value: "b" })).status, 403, form);
  const create = { form: "create", identifier: "X-1", name: "x" };
  assert.is((await browser.submitForm(`/${at.org}/controls`, create)).status, 403);
  assert.equal([(await read(at, "/C-1")).version, (await read(at, "")).total_count], [1, 1]);
});

test("an organization without the feature has no page of controls", async () => {
  const { at, browser } = await given();
  await server.given.control(at, { identifier: "C-1" });
  server.db.prepare("UPDATE organizations SET controls_enabled = 0 WHERE name = ?").run(at.org);
  for (const path of ["/controls", "/controls/C-1"]) {
    const page = await browser.get(`/${at.org}${path}`);
    assert.ok(page.status === 403 || page.status === 404, String(page.status));
  }
  assert.not.match((await browser.get(`/${at.org}/policies`)).text, /\/controls"/);
});

test.run();
