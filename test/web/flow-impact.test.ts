/** What changes of a flow would turn is shown before they are made. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { running, runningIn } from "../api/environments/given.ts";
import { signIn, visibleText } from "./browser.ts";

const test = suite("web/flow-impact");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

/** A flow whose only artifact fails in `production`, unless the flow has the tag `tier: batch` or another name. */
async function given() {
  const at = server.given.org();
  const world = runningIn(server);
  const flow = await server.given.flow(at, { name: "backend" });
  const trail = await server.given.trail(at, { flow });
  const built = await server.given.artifact(at, { flow, trail, name: "built" });
  await server.given.attestation(at, { flow, trail, name: "scan", fingerprint: built, is_compliant: false });
  const condition = 'flow.tags.tier == "batch" or flow.name != "backend"';
  await server.given.policy(at, {
    name: "baseline",
    yaml: `artifacts:\n  trail-compliance:\n    required: true\n    exceptions:\n      - if: \${{ ${condition} }}\n`,
  });
  world.environment(at, { name: "production" });
  world.attach(at, "production", "baseline");
  world.report(at, "production", [running("built", built)]);
  const browser = await signIn(server, `${at.org}-admin`);
  const tags = async () =>
    (await server.call("GET", `/flows/${at.org}/backend`, { key: at.key })).body.tags as Record<string, string>;
  /** The checks of the trail with their states. */
  const checks = async () =>
    (await server.call("GET", `/trails/${at.org}/backend/${trail}`, { key: at.key })).body.compliance_status;
  return { browser, tags, checks, path: `/${at.org}/flows/backend?tab=settings` };
}

test("a tag that a policy reads is set after a look at what it turns", async () => {
  const { browser, tags, path } = await given();
  const change = { form: "set_tag", key: "tier", value: "batch", seen: "" };
  const asked = await browser.submitForm(path, change);
  assert.is(asked.status, 200);
  assert.match(
    visibleText(asked),
    /Policies read this tag If backend has the tag tier batch .* Would pass 1 .* Set tag, 1 will pass Cancel/,
  );
  assert.equal(await tags(), {});
  const seen = JSON.stringify({ set_tags: { tier: "batch" } });
  assert.is((await browser.submitForm(path, { ...change, value: "other", seen })).status, 303, "it turns nothing");
  assert.is((await browser.submitForm(path, { ...change, seen })).status, 303);
  assert.equal(await tags(), { tier: "batch" });
});

test("a tag that no policy reads is set at once, and a wrong one is refused at its field", async () => {
  const { browser, tags, path } = await given();
  const set = await browser.submitForm(path, { form: "set_tag", key: "team", value: "payments", seen: "" });
  assert.is(set.status, 303);
  assert.equal(await tags(), { team: "payments" });
  const wrong = await browser.submitForm(path, { form: "set_tag", key: "not a key!", value: "x", seen: "" });
  assert.is(wrong.status, 400);
  assert.not.match(visibleText(wrong), "Policies read this tag");
});

test("archiving says that the flow gets another name, and what that turns", async () => {
  const { browser, path } = await given();
  assert.match(
    visibleText(await browser.get(`${path}&ask=archive`)),
    /backend leaves the lists and gets another name, .* If you archive backend .* Archive this flow, 1 will pass/,
  );
});

test("another name that a policy reads is given after a look at what it turns", async () => {
  const { browser, path } = await given();
  const change = { form: "rename", new_name: "frontend", seen: "" };
  const asked = await browser.submitForm(path, change);
  assert.is(asked.status, 200);
  assert.match(
    visibleText(asked),
    /Policies read the name If backend is named frontend .* Would pass 1 .* Rename, 1 will pass Cancel/,
  );
  const other = await browser.submitForm(path, { ...change, new_name: "web", seen: "frontend" });
  assert.is(other.status, 200, "the panel was about another name");
  const wrong = await browser.submitForm(path, { ...change, new_name: "not a name!" });
  assert.is(wrong.status, 400);
  assert.not.match(visibleText(wrong), "Policies read the name");
  assert.is((await browser.submitForm(path, { ...change, new_name: "backend" })).status, 303, "it turns nothing");
  assert.is((await browser.submitForm(path, { ...change, seen: "frontend" })).status, 303);
  assert.is((await browser.get(path.replace("backend", "frontend"))).status, 200);
});

test("saving a template turns no verdict, as its editor says before and after a check", async () => {
  const { browser, path, checks } = await given();
  const words =
    /Saving turns no verdict\. Trails that exist keep the template that they began with\. One that is begun again/;
  const editor = path.replace("tab=settings", "tab=template&ask=edit");
  assert.match(visibleText(await browser.get(editor)), words);
  const change = {
    form: "template",
    template_file: "version: 1\ntrail:\n  attestations:\n    - {name: new, type: generic}\n",
  };
  const checked = await browser.submitForm(editor, { ...change, do: "preview" });
  assert.match(visibleText(checked), words);
  assert.match(
    visibleText(checked),
    /What the next trails would be If the newest trail began now, with .* reported to it: it would keep its verdict\./,
  );
  const before = await checks();
  assert.is(before.status, "NON-COMPLIANT");
  assert.is((await browser.submitForm(editor, change)).status, 303);
  await server.settled();
  assert.equal(await checks(), before);
  assert.match(
    visibleText(await browser.get(path.replace("settings", "template"))),
    /name : new.* Trails that exist keep/,
  );
});

test("the check of a template says what the next trails would be, with links and causes", async () => {
  const at = server.given.org();
  const template = (...names: string[]) =>
    `version: 1\ntrail:\n  attestations:\n${names.map((name) => `    - {name: ${name}, type: generic}\n`).join("")}`;
  const flow = await server.given.flow(at, { template: template("tests") });
  const browser = await signIn(server, `${at.org}-admin`);
  const path = `/${at.org}/flows/${flow}?tab=template&ask=edit`;
  const check = (...names: string[]) =>
    browser.submitForm(path, { form: "template", do: "preview", template_file: template(...names) });
  assert.match(
    visibleText(await check("scan")),
    /The flow has no trails yet, so there is nothing to try the template on/,
  );
  await server.given.trail(at, { flow, template: "version: 1" });
  assert.match(
    visibleText(await check("scan")),
    /The trails of the flow have templates of their own, which they keep\./,
  );
  for (const [name, reported] of [
    ["other", "scan"],
    ...Array.from({ length: 8 }, (_, index) => [`release-${index}`, "tests"]),
  ] as [string, string][])
    await server.given.attestation(at, { flow, trail: await server.given.trail(at, { flow, name }), name: reported });
  const checked = await check("scan");
  assert.match(
    visibleText(checked),
    new RegExp(
      "If the 9 newest trails began now, with this template and what was reported to them: 8 would not be " +
        "compliant , 1 would be compliant \\. release-7 Compliant Incomplete scan is missing .* and 3 more " +
        "Left out: 1 trail that has its own template\\.",
    ),
  );
  assert.match(checked.text, `/${at.org}/flows/${flow}/trails/release-7"`);
  assert.match(visibleText(await check("tests", "scan")), /: 8 would not be compliant \. /);
  const wrong = await browser.submitForm(path, { form: "template", do: "preview", template_file: "version: 9" });
  assert.not.match(visibleText(wrong), "What the next trails would be");
});

test.run();
