/** The pages of policies: list, editor without scripts, versions, environments, events. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { messageOf, signIn, signInWithRole, visibleText } from "./browser.ts";
import type { Browser, Page } from "./browser.ts";

const test = suite("web/policies");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
const V1 = "_schema: https://assay.example.com/schemas/policy/environment/v1\n";
const V2 = `${V1}artifacts:\n  provenance:\n    required: true\n`;
const WRONG = `${V1}artifacts:\n  attestations:\n    - type: pull-request\n`;
const MARKUP = '<script>alert("stored")</script>';

const signedIn = (name: string): Promise<Browser> => signIn(server, name);

async function given(): Promise<{ at: At; browser: Browser }> {
  const at = server.given.org();
  return { at, browser: await signedIn(`${at.org}-admin`) };
}

const reader = ({ org }: At): Promise<Browser> => signInWithRole(server, org, "reader");

const put = async (at: At, name: string, file: string | null, more: object = {}): Promise<void> => {
  const answer = await server.call("PUT", `/policies/${at.org}`, {
    key: at.key,
    form: {
      field: "payload",
      json: { name, ...more },
      ...(file === null ? {} : { file: { name: "policy_file", filename: "policy.yml", content: file } }),
    },
  });
  assert.ok(answer.status < 300, answer.text);
};

const read = async (at: At, name: string) =>
  (await server.call("GET", `/policies/${at.org}/${name}`, { key: at.key })).body;
const textsOf = async (at: At, name: string): Promise<string[]> =>
  (await read(at, name)).versions.map((one: { policy_yaml: string }) => one.policy_yaml);
const fieldError = ({ text }: Page, id: string): string | null => {
  const message = new RegExp(`<p class="field-error" id="${id}-error">([\\s\\S]*?)</p>`).exec(text)?.[1];
  return message === undefined ? null : visibleText({ text: message });
};

test("lists policies with their version and the environments that use them, and searches by name", async () => {
  const { at, browser } = await given();
  const empty = await browser.get(`/${at.org}/policies`);
  assert.match(visibleText(empty), /No policies yet .* kosli create policy/);
  await put(at, "prod", V1, { description: MARKUP });
  await put(at, "prod", V2, { description: MARKUP });
  await put(at, "draft", null);
  await server.given.environment(at, { name: "production", policies: ["prod"] });
  const page = await browser.get(`/${at.org}/policies`);
  assert.is(page.status, 200);
  assert.match(visibleText(page), /2 policies .* draft No text no environment .* prod .* v2 production/);
  assert.not.match(page.text, /<script>alert/);
  assert.match(visibleText(await browser.get(`/${at.org}/policies?search=PRO`)), /1 policy /);
  assert.match(visibleText(await browser.get(`/${at.org}/policies?search=none`)), /No policy matches .* Clear filters/);
  assert.is((await browser.get(`/${at.org}/policies?page=999999`)).status, 200);
});

test("creates a policy, after a preview that stores nothing", async () => {
  const { at, browser } = await given();
  const path = `/${at.org}/policies?ask=create`;
  await server.given.environment(at, { name: "production" });
  const typed = { form: "create", name: "prod", description: "All", comment: "first", policy_file: V2 };
  const preview = await browser.submitForm(path, { ...typed, do: "preview", environments: "production" });
  assert.is(preview.status, 200);
  assert.match(visibleText(preview), /Computed from this draft. Nothing is stored. .* production 0 running no change/);
  assert.match(preview.text, /name="name"[^>]*value="prod"/);
  const strange = await browser.submitForm(path, { ...typed, do: "preview", environments: "nowhere" });
  assert.equal([strange.status, /There is no environment 'nowhere' in /.test(visibleText(strange))], [404, true]);
  assert.equal((await server.call("GET", `/policies/${at.org}`, { key: at.key })).body, []);

  const made = await browser.submitForm(path, { ...typed, do: "save" });
  assert.equal([made.status, made.location], [303, `../${at.org}/policies/prod?done=created`]);
  const { versions, description } = await read(at, "prod");
  assert.equal([versions.length, versions[0].comment, description], [1, "first", "All"]);
  const again = await browser.submitForm(path, { ...typed, do: "save", policy_file: V1 });
  assert.equal([again.status, fieldError(again, "create-name")], [400, "A policy with this name already exists."]);
  assert.equal(await textsOf(at, "prod"), [V2]);
});

test("shows each mistake of a refused text under its line, keeps the text, and stores nothing", async () => {
  const { at, browser } = await given();
  await put(at, "prod", V1);
  for (const button of ["save", "preview"]) {
    const page = await browser.submitForm(`/${at.org}/policies/prod`, {
      form: "edit",
      do: button,
      base: "1",
      policy_file: WRONG,
      comment: MARKUP,
    });
    assert.is(page.status, button === "save" ? 400 : 200);
    assert.match(
      visibleText(page),
      /policy.yml 1 error .* - type : pull-request Line 4, column 13 type: write one of these: generic,/,
    );
    assert.match(page.text, /<textarea[^>]*aria-invalid="true"[^>]*>\n_schema: [^<]*pull-request\n<\/textarea>/);
    assert.match(page.text, /data-problems="\[{&#34;line&#34;:4,&#34;column&#34;:13,/);
    assert.not.match(page.text, /<script>alert/);
  }
  assert.equal(await textsOf(at, "prod"), [V1]);
});

test("stores a draft as the next version, and says when nothing was changed", async () => {
  const { at, browser } = await given();
  await put(at, "prod", V1, { description: "Old" });
  const path = `/${at.org}/policies/prod`;
  const save = (fields: object): Promise<Page> =>
    browser.submitForm(path, { form: "edit", do: "save", comment: "why", description: "Old", ...fields });
  const saved = await save({ base: "1", policy_file: V2.replaceAll("\n", "\r\n") });
  assert.equal([saved.status, saved.location], [303, `../../${at.org}/policies/prod?done=version_saved`]);
  assert.equal(await textsOf(at, "prod"), [V1, V2]);
  assert.match((await save({ base: "2", policy_file: V2 })).location ?? "", /done=unchanged$/);
  assert.match((await save({ base: "2", policy_file: V2, description: "New" })).location ?? "", /done=saved$/);
  assert.is((await read(at, "prod")).description, "New");
  const shown = await browser.get(`${path}?done=version_saved`);
  assert.match(String(messageOf(shown)), /^Saved as a new version/);
});

test("does not replace a version that was stored since the page was opened", async () => {
  const { at, browser } = await given();
  await put(at, "prod", V1);
  await put(at, "prod", V2);
  const typed = { form: "edit", do: "save", policy_file: `${V1}# mine\n`, comment: "" };
  const page = await browser.submitForm(`/${at.org}/policies/prod`, { ...typed, base: "1" });
  assert.is(page.status, 409);
  assert.match(String(messageOf(page)), /stored version 2 meanwhile, and your draft is not stored/);
  assert.match(page.text, /name="base" value="2"/);
  assert.equal(await textsOf(at, "prod"), [V1, V2]);
});

test("previews a draft: the artifacts whose verdict would change, and the changed lines", async () => {
  const { at, browser } = await given();
  await put(at, "prod", V1);
  await server.given.environment(at, { name: "production", type: "server", policies: ["prod"] });
  const report = await server.call("PUT", `/environments/${at.org}/production/report/server`, {
    key: at.key,
    body: { artifacts: [{ digests: { "acme/api:1": "a".repeat(64) }, creationTimestamp: 1 }] },
  });
  assert.ok(report.status < 300, report.text);
  await server.settled();
  const page = await browser.submitForm(`/${at.org}/policies/prod`, {
    form: "edit",
    do: "preview",
    base: "1",
    policy_file: V2,
  });
  assert.is(page.status, 200);
  const text = visibleText(page);
  assert.match(text, /Draft .* Would fail 1 Would pass 0 Unchanged 0 production 1 running 1 would fail acme\/api:1/);
  assert.match(text, /Compliant Non-compliant No provenance .*line 3.* Changes since v1 3 lines added/);
  assert.equal(await textsOf(at, "prod"), [V1]);
});

test("shows the versions, the text of each with line anchors, and the difference of any two", async () => {
  const { at, browser } = await given();
  for (const [file, comment] of [
    [V1, "first"],
    [V2, MARKUP],
  ] as const)
    await put(at, "prod", file, { comment });
  const path = `/${at.org}/policies/prod`;
  const list = await browser.get(`${path}?tab=versions`);
  assert.match(visibleText(list), /Version 2 in force <script>/);
  assert.not.match(list.text, /<script>alert/);
  const one = await browser.get(`${path}?version=2`);
  assert.match(one.text, /<li id="L4"><span>4<\/span>/);
  const diff = await browser.get(`${path}?tab=versions&against=1&version=2`);
  assert.match(visibleText(diff), /Changes from version 1 to 2 3 lines added .* Added: artifacts :/);
  assert.match(visibleText(await browser.get(`${path}?tab=versions&against=2&version=1`)), /3 lines removed/);
  for (const query of ["?version=9", "?version=x", "?tab=nothing", "?tab=versions&page=999999", "?tab=events&page=9"])
    assert.is((await browser.get(`${path}${query}`)).status, 200, query);
  assert.match(visibleText(await browser.get(`${path}?tab=events`)), /stored version 2 .* stored version 1 .* created/);
  assert.is((await browser.get(`/${at.org}/policies/none`)).status, 404);
});

test("attaches the policy to an environment, and detaches it after asking", async () => {
  const { at, browser } = await given();
  await put(at, "prod", V1);
  await server.given.environment(at, { name: "production" });
  const path = `/${at.org}/policies/prod?tab=environments`;
  assert.match(visibleText(await browser.get(path)), /No environment uses this policy .* Attach to an environment/);
  const attached = await browser.submitForm(path, { form: "attach", env_name: "production" });
  assert.match(String(attached.location), /tab=environments&done=attached$/);
  assert.equal((await read(at, "prod")).consuming_envs, ["production"]);
  assert.match(visibleText(await browser.get(path)), /production Unknown none .* Detach/);
  const chosen = visibleText(await browser.get(`${path}&env_name=production`));
  assert.match(chosen, /If you attach prod v1 to production .* Attach Cancel/);
  const asked = await browser.get(`${path}&ask=detach&environment=production`);
  assert.match(visibleText(asked), /Detach from production\?/);
  const unknown = await browser.submitForm(path, { form: "attach", env_name: "nowhere" });
  assert.equal([unknown.status, /There is no environment 'nowhere' in /.test(visibleText(unknown))], [404, true]);
  const detached = await browser.submitForm(path, { form: "detach", env_name: "production" });
  assert.match(String(detached.location), /done=detached$/);
  assert.equal((await read(at, "prod")).consuming_envs, []);
});

test("a reader sees the text and no form, and a forged one changes nothing", async () => {
  const { at } = await given();
  await put(at, "prod", V1);
  await server.given.environment(at, { name: "production" });
  const browser = await reader(at);
  const path = `/${at.org}/policies/prod`;
  const page = await browser.get(path);
  assert.match(visibleText(page), /Text Versions 1 .* policy.yml version 1/);
  assert.not.match(page.text, /<textarea|name="form"|editor-[0-9a-f]+\.js"><\/script>/);
  assert.not.match((await browser.get(`${path}?tab=environments`)).text, /name="form"/);
  for (const fields of [
    { form: "edit", do: "save", base: "1", policy_file: V2 },
    { form: "edit", do: "preview", base: "1", policy_file: V2 },
    { form: "attach", env_name: "production" },
    { form: "detach", env_name: "production" },
  ])
    assert.is((await browser.submitForm(path, fields)).status, 403, fields.form);
  const create = { form: "create", name: "other", policy_file: V1 };
  assert.is((await browser.submitForm(`/${at.org}/policies`, create)).status, 403);
  assert.equal(await textsOf(at, "prod"), [V1]);
  assert.equal((await read(at, "prod")).consuming_envs, []);
});

test("shows warnings at their lines, in policies and templates, and stores the text all the same", async () => {
  const { at, browser } = await given();
  await put(at, "prod", V2);
  const form = { json: { name: "security-scan" } };
  await server.call("POST", `/custom-attestation-types/${at.org}`, { key: at.key, form });
  const rules = '    - type: custom:securty-scan\n    - name: "<b>"\n      type: snyk\n';
  const typed = `${V1}artifacts:\n  attestations:\n${rules}`;
  const path = `/${at.org}/policies/prod`;
  const fields = { form: "edit", policy_file: typed, base: "1", comment: "", description: "" };
  const preview = await browser.submitForm(path, { ...fields, do: "preview" });
  const text = visibleText(preview);
  const type = `organization '${at.org}' has no attestation type 'securty-scan'; did you mean security-scan?`;
  const name =
    `no template of organization '${at.org}' expects an attestation '<b>' of type snyk, and none was reported; ` +
    "add it to a template, or correct the name";
  assert.ok(text.includes(`Line 4, column 13 ${type}`), text);
  assert.ok(text.includes(`Line 5, column 13 ${name}`), text);
  assert.ok(
    text.includes(
      "Computed from this draft. Nothing is stored. 2 warnings. The text would be stored all the same. " +
        `line 4 : ${type} line 5 : ${name}`,
    ),
    text,
  );
  assert.not.match(text, /error/);
  assert.match(preview.text, /aria-label="The text with its warnings"/);
  assert.match(preview.text, /aria-label="4:13, warning in line 4, column 13">4:13</);
  assert.not.match(preview.text, /aria-invalid|<b>'/);
  const saved = await browser.submitForm(path, { ...fields, do: "save" });
  assert.is(saved.status, 303);
  assert.equal(await textsOf(at, "prod"), [V2, typed]);
});

test("a template has the warnings too, in an edited flow and in a new one", async () => {
  const { at, browser } = await given();
  const template = "version: 1\ntrail:\n  attestations:\n    - name: scan\n      type: custom:nothing-like-it\n";
  const problem = `organization '${at.org}' has no attestation type 'nothing-like-it'; create it, or correct the name`;
  const expected = [
    `Line 5, column 13 ${problem}`,
    "The template has no errors. Nothing is stored. 1 warning. The text would be stored all the same. " +
      `line 5 : ${problem}`,
  ];
  await server.given.flow(at, { name: "api" });
  const checked = await browser.submitForm(`/${at.org}/flows/api?tab=template&ask=edit`, {
    form: "template",
    do: "preview",
    template_file: template,
  });
  const created = await browser.submitForm(`/${at.org}/flows?ask=create`, {
    form: "create",
    do: "preview",
    name: "new",
    template_file: template,
  });
  for (const page of [checked, created])
    for (const part of expected) assert.ok(visibleText(page).includes(part), visibleText(page));
});

test("lists five warnings beside the text, and says how many more there are", async () => {
  const { at, browser } = await given();
  await put(at, "prod", V2);
  const rules = Array.from({ length: 8 }, (_, index) => `    - type: custom:t${index}\n`).join("");
  const text = visibleText(
    await browser.submitForm(`/${at.org}/policies/prod`, {
      form: "edit",
      do: "preview",
      policy_file: `${V1}artifacts:\n  attestations:\n${rules}`,
      base: "1",
      comment: "",
      description: "",
    }),
  );
  assert.match(text, /8 warnings\. The text would be stored all the same\..* line 8 : [^:]* and 3 more/);
  assert.match(text, /Line 11, column 13 organization/);
});

test("the template of a flow has the same editor", async () => {
  const { at, browser } = await given();
  await server.given.flow(at, { name: "api" });
  const path = `/${at.org}/flows/api?tab=template&ask=edit`;
  const wrong = await browser.submitForm(path, { form: "template", do: "preview", template_file: "version: 2\n" });
  assert.is(wrong.status, 200);
  assert.match(visibleText(wrong), /1 error .* version : 2 Line 1, column 10 .* The template has an error/);
  const valid = "version: 1\ntrail:\n  attestations: []\n";
  const right = await browser.submitForm(path, { form: "template", do: "preview", template_file: valid });
  assert.match(
    visibleText(right),
    /has no errors. Nothing is stored. Saving turns no verdict. .* Changes since the present template/,
  );
  const refused = await browser.submitForm(path, { form: "template", do: "save", template_file: "version: 2\n" });
  assert.is(refused.status, 400);
  const template = async (): Promise<string> =>
    (await server.call("GET", `/flows/${at.org}/api`, { key: at.key })).body.template;
  assert.not.equal(await template(), valid);
  const saved = await browser.submitForm(path, { form: "template", do: "save", template_file: valid });
  assert.equal([saved.status, await template()], [303, valid]);
});

test.run();
