/** The pages of artifacts, attestations and attestation types: lists with filters, and the forms of types. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { messageOf, signIn, signInWithRole, visibleText } from "./browser.ts";
import type { Browser, Page } from "./browser.ts";

const test = suite("web/artifacts");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };

const signedIn = (name: string): Promise<Browser> => signIn(server, name);

/** An organization, and a browser in which its administrator is signed in. */
async function given(): Promise<{ at: At; browser: Browser }> {
  const at = server.given.org();
  return { at, browser: await signedIn(`${at.org}-admin`) };
}

const reader = ({ org }: At): Promise<Browser> => signInWithRole(server, org, "reader");

const COMMIT = "0f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112";

/** A flow with a trail, an artifact, and the attestations `unit-tests` (junit), `scan` (snyk, fails) and `review`. */
async function evidence(at: At) {
  const flow = await server.given.flow(at, { name: "backend" });
  const trail = await server.given.trail(at, { flow, name: "release-1" });
  const fingerprint = await server.given.artifact(at, { flow, trail, name: "server" });
  const on = { flow, trail };
  const suites = [{ name: "unit", failures: 0, errors: 0, skipped: 6, total: 1_220, duration: 3 }];
  await server.given.attestation(at, { ...on, kind: "junit", name: "unit-tests", junit_results: suites, fingerprint });
  const tool = { name: "Snyk", version: "1" };
  const results = [{ low_count: 0, medium_count: 2, high_count: 1 }];
  await server.given.attestation(at, {
    ...on,
    kind: "snyk",
    name: "scan",
    snyk_results: { schema_version: 1, tool, results },
  });
  const text = "<script>alert(1)</script>";
  await server.given.attestation(at, { ...on, name: "review", description: text, commit: COMMIT });
  return { flow, trail, fingerprint };
}

/** The names in the first column of the table. */
const namesOf = ({ text }: Page): string[] =>
  [...text.matchAll(/<a class="t-name"[^>]*>([\s\S]*?)<\/a>/g)].map(([, name = ""]) => visibleText({ text: name }));

const fieldError = ({ text }: Page, id: string): string | null => {
  const message = new RegExp(`<p class="field-error" id="${id}-error">([\\s\\S]*?)</p>`).exec(text)?.[1];
  return message === undefined ? null : visibleText({ text: message });
};

const versionsOf = async (at: At, name: string): Promise<any[]> =>
  (await server.call("GET", `/custom-attestation-types/${at.org}/${name}`, { key: at.key })).body.versions ?? [];

test("artifacts are listed with state, flow, trail and commit, by flow or repository", async () => {
  const { at, browser } = await given();
  const fresh = visibleText(await browser.get(`/${at.org}/artifacts`));
  assert.match(fresh, /No artifacts yet .* kosli attest artifact/);
  const { fingerprint } = await evidence(at);
  const page = await browser.get(`/${at.org}/artifacts`);
  assert.is(page.status, 200);
  assert.equal(namesOf(page).length, 1);
  assert.match(page.text, new RegExp(`href="[^"]*/flows/backend/artifacts/${fingerprint}`));
  assert.match(visibleText(page), /Non-compliant backend release-1/);
  assert.is(namesOf(await browser.get(`/${at.org}/artifacts?flow=backend`)).length, 1);
  const missing = visibleText(await browser.get(`/${at.org}/artifacts?flow=no-such-flow`));
  assert.match(missing, /No artifact matches .* that is archived or does not exist, nothing is listed/);
  assert.match(visibleText(await browser.get(`/${at.org}/artifacts?page=999999`)), /This page is beyond the end/);
});

test("artifacts are searched by name and filtered by state, with true counts", async () => {
  const { at, browser } = await given();
  await evidence(at);
  const page = await browser.get(`/${at.org}/artifacts`);
  assert.match(visibleText(page), /All 1 Non-compliant 1 Incomplete 0 Compliant 0/);
  const list = async (path: string): Promise<string[]> => namesOf(await browser.get(`/${at.org}/${path}`));
  for (const path of ["artifacts?", "flows/backend?tab=artifacts&"]) {
    assert.is((await list(path)).length, 1, path);
    assert.is((await list(`${path}state=NON-COMPLIANT`)).length, 1, path);
    assert.equal(await list(`${path}state=COMPLIANT`), [], path);
    assert.is((await list(`${path}search=SERV`)).length, 1, path);
    assert.equal(await list(`${path}search=nothing`), [], path);
  }
});

test("attestations show their result, and lead to their drawer", async () => {
  const { at, browser } = await given();
  assert.match(
    visibleText(await browser.get(`/${at.org}/attestations`)),
    /No attestations yet .* kosli attest generic/,
  );
  const { fingerprint } = await evidence(at);
  const page = await browser.get(`/${at.org}/attestations`);
  assert.equal(namesOf(page), ["review", "scan", "unit-tests"]);
  const text = visibleText(page);
  assert.match(text, /scan snyk Non-compliant 1 high, 2 medium backend release-1 of the trail/);
  assert.match(text, `unit-tests junit Compliant 1,214 passed, 6 skipped backend release-1 ${fingerprint.slice(0, 7)}`);
  assert.match(text, /<script>alert\(1\)<\/script>/);
  assert.not.match(page.text, /<script>alert/);
  assert.match(page.text, /href="[^"]*\/flows\/backend\/trails\/release-1\?attestation_id=[^"]+"/);
});

test("attestations are filtered by all that the API filters by", async () => {
  const { at, browser } = await given();
  await evidence(at);
  const list = async (query: string): Promise<string[]> => {
    const page = await browser.get(`/${at.org}/attestations?${query}`);
    assert.is(page.status, 200, query);
    return namesOf(page);
  };
  const { data } = (await server.call("GET", `/attestations/${at.org}`, { key: at.key })).body;
  const day = new Date(data[0].created_at * 1000).toISOString().slice(0, 10);
  const all = ["review", "scan", "unit-tests"];
  for (const [query, expected] of [
    ["name=UNIT", ["unit-tests"]],
    ["name=unit&match=exact", []],
    ["name=scan&match=exact", ["scan"]],
    ["name=%5E(scan|review)%24&match=regex", ["review", "scan"]],
    ["name=.", []],
    ["type=snyk", ["scan"]],
    ["type=no-such-type", all],
    ["is_compliant=false", ["scan"]],
    ["is_compliant=maybe", all],
    [`commit=${COMMIT}`, ["review"]],
    [`commit=${COMMIT}&type=snyk`, []],
    ["flow=backend", all],
    ["flow=other", []],
    ["since=7d", all],
    ["since=constructor", all],
    [`from=${day}&to=${day}`, all],
    ["to=2001-01-01", []],
    ["to=yesterday", all],
    ["after=bm90IGEgdG9rZW4", all],
  ] as const)
    assert.equal(await list(query), expected, query);
  const wrong = await browser.get(`/${at.org}/attestations?name=(&match=regex`);
  assert.is(wrong.status, 200);
  assert.match(
    messageOf(await browser.get(`/${at.org}/attestations?commit=0f5c9a1`)) as string,
    /^The filter takes the whole id of a commit/,
  );
  assert.is(messageOf(wrong), "Not a valid regular expression: a ( has no matching ).");
});

test("when nothing matches, the list says which filter to drop", async () => {
  const { at, browser } = await given();
  await evidence(at);
  const page = await browser.get(`/${at.org}/attestations?name=scan&is_compliant=true&type=snyk`);
  assert.match(
    visibleText(page),
    /Nothing matches these filters 1 attestation matches with the other verdict\. Any state/,
  );
  const offered = /<a class="btn" href="([^"]*)">Any state<\/a>/.exec(page.text)?.[1] as string;
  const address = offered.replace(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code)));
  const url = new URL(address, `${server.url}/${at.org}/attestations`);
  assert.equal(namesOf(await browser.get(`${url.pathname}${url.search}`)), ["scan"]);
  const none = visibleText(await browser.get(`/${at.org}/attestations?name=nothing-like-this`));
  assert.match(none, /No attestation has such a name\. Clear filters/);
});

test("attestations page by tokens, from the newest to the oldest", async () => {
  const { at, browser } = await given();
  const { flow, trail } = await evidence(at);
  for (let number = 0; number < 25; number += 1)
    await server.given.attestation(at, { flow, trail, name: `load-${number}` });
  const first = await browser.get(`/${at.org}/attestations`);
  assert.is(namesOf(first).length, 25);
  const after = /href="[^"]*after=([^"]+)"/.exec(first.text)?.[1] as string;
  const second = await browser.get(`/${at.org}/attestations?after=${after}`);
  assert.equal(namesOf(second), ["review", "scan", "unit-tests"]);
  assert.match(second.text, /<a class="btn btn-s" href="[^"]*\/attestations">/);
});

const DEFINITION = {
  form: "create",
  name: "coverage",
  description: "Lines that tests run",
  type_schema: '{"type":"object","required":["percent"]}',
  "evaluator.rules": ".percent >= 80\n.percent\n  <= 100\n\n",
  "summary.1.name": "Coverage",
  "summary.1.expression": '"\\(.percent) %"',
};

test("a type is created, shown with its versions, and listed", async () => {
  const { at, browser } = await given();
  const types = `/${at.org}/attestation-types`;
  assert.match(visibleText(await browser.get(types)), /No custom types yet .* Built-in types generic .* decision/);
  const answer = await browser.submitForm(`${types}?ask=create`, DEFINITION);
  assert.equal(
    [answer.status, answer.location],
    [303, `../${at.org}/attestation-types/coverage?done=created`],
    visibleText(answer),
  );
  const [version] = await versionsOf(at, "coverage");
  assert.equal(
    [version.type_schema, version.evaluator, version.summary],
    [
      { type: "object", required: ["percent"] },
      { content_type: "jq", rules: [".percent >= 80", ".percent\n  <= 100"] },
      [{ name: "Coverage", expression: '"\\(.percent) %"' }],
    ],
  );
  const page = await browser.get(`${types}/coverage`);
  assert.match(
    visibleText(page),
    /coverage v1 latest .* Rules \.percent >= 80 \.percent <= 100 jq 1\.7\.1 runs them\. JSON Schema/,
  );
  assert.equal(namesOf(await browser.get(types)), ["coverage"]);
  const again = await browser.submitForm(`${types}?ask=create`, DEFINITION);
  assert.is(again.status, 400);
  assert.match(fieldError(again, "create-name") as string, /^A type with this name already exists/);
  assert.is((await versionsOf(at, "coverage")).length, 1);
});

test("mistakes of a definition stand at their fields, what was typed is kept, and nothing is stored", async () => {
  const { at, browser } = await given();
  const page = `/${at.org}/attestation-types?ask=create`;
  const refused = await browser.submitForm(page, {
    ...DEFINITION,
    type_schema: '{"type":"no-such-type"}',
    "evaluator.rules": ".ok\n.percent >=",
    "summary.1.expression": "][",
  });
  assert.is(refused.status, 400);
  assert.match(fieldError(refused, "create-type_schema") as string, /type/);
  assert.match(fieldError(refused, "create-evaluator-rules") as string, /^Rule 2 is not a valid jq expression: /);
  assert.match(fieldError(refused, "create-summary-1-expression") as string, /^Expression is not a valid jq/);
  assert.match(refused.text, /\.ok\n\.percent &#62;=<\/textarea>/);
  const nameless = await browser.submitForm(page, { ...DEFINITION, name: "no/such name" });
  assert.is(nameless.status, 400);
  assert.ok(fieldError(nameless, "create-name"));
  assert.equal((await server.call("GET", `/custom-attestation-types/${at.org}`, { key: at.key })).body, []);
});

test("rules are tried on pasted data before they are stored", async () => {
  const { at, browser } = await given();
  const page = `/${at.org}/attestation-types?ask=create`;
  const attempt = (fields: Record<string, string>) =>
    browser.submitForm(page, { ...DEFINITION, try: "yes", ...fields });
  const good = await attempt({ attestation_data: '{"percent": 91.5}' });
  assert.is(good.status, 200);
  assert.match(visibleText(good), /A report of this data is compliant Rules True \.percent >= 80 True .* 91\.5 %/);
  assert.match(good.text, /value="coverage"/, "what was typed is kept");
  const bad = await attempt({ attestation_data: '{"percent": 120}', name: "" });
  assert.match(visibleText(bad), /non-compliant Rules True \.percent >= 80 Not true .* The rule gives false\./);
  assert.match(visibleText(await attempt({ attestation_data: "{}" })), /The data does not match the schema/);
  assert.match(visibleText(await attempt({ attestation_data: "" })), /Schema, rules and summary compile/);
  const broken = await attempt({ attestation_data: "{percent}" });
  assert.is(broken.status, 400);
  assert.match(fieldError(broken, "create-attestation_data") as string, /JSON/);
  assert.equal(await versionsOf(at, "coverage"), []);
});

test("a new version starts from the latest one; archiving asks first", async () => {
  const { at, browser } = await given();
  const page = `/${at.org}/attestation-types/coverage`;
  await browser.submitForm(`/${at.org}/attestation-types?ask=create`, DEFINITION);
  const form = await browser.get(`${page}?ask=version`);
  assert.match(form.text, /\.percent &#62;= 80\n\.percent\n {2}&#60;= 100<\/textarea>/);
  const { name: _name, ...definition } = DEFINITION;
  const saved = await browser.submitForm(`${page}?ask=version`, {
    ...definition,
    form: "version",
    "evaluator.rules": "",
  });
  assert.is(saved.status, 303, visibleText(saved));
  assert.equal(
    (await versionsOf(at, "coverage")).map(({ version, evaluator }) => [version, evaluator.content_type]),
    [
      [2, "default"],
      [1, "jq"],
    ],
  );
  assert.match(visibleText(await browser.get(`${page}?version=1`)), /coverage v1 Lines .*Rules \.percent >= 80/);
  assert.match(visibleText(await browser.get(`${page}?version=99`)), /coverage v2 latest/);
  assert.match(visibleText(await browser.get(`${page}?ask=archive`)), /Archive this attestation type .* Archive type/);
  assert.is((await browser.submitForm(`${page}?ask=archive`, { form: "archive" })).status, 303);
  const archived = await browser.get(page);
  assert.match(visibleText(archived), /This type is archived .* A new version makes it active again/);
  assert.not.match(archived.text, /ask=archive/);
  assert.match(visibleText(await browser.get(`/${at.org}/attestation-types`)), /coverage Archived/);
});

test("readers see types without forms, and their forged forms change nothing", async () => {
  const { at, browser } = await given();
  await browser.submitForm(`/${at.org}/attestation-types?ask=create`, DEFINITION);
  const stranger = await reader(at);
  const page = `/${at.org}/attestation-types/coverage`;
  for (const path of [page, `${page}?ask=version`, `${page}?ask=archive`, `/${at.org}/attestation-types?ask=create`]) {
    const { status, text } = await stranger.get(path);
    assert.is(status, 200, path);
    assert.not.match(text, /name="form" value="(?:create|version|archive)"/, path);
  }
  assert.not.match((await stranger.get(page)).text, /New version|ask=/);
  const csrf = await stranger.readCsrfToken("/account");
  for (const [path, fields] of [
    [page, { ...DEFINITION, form: "version" }],
    [page, { ...DEFINITION, form: "version", try: "yes", attestation_data: "1" }],
    [page, { form: "archive" }],
    [`/${at.org}/attestation-types`, { ...DEFINITION, name: "other" }],
  ] as const) {
    const answer = await stranger.post(path, { csrf, ...fields });
    assert.is(answer.status, 403, JSON.stringify(fields));
  }
  const { body } = await server.call("GET", `/custom-attestation-types/${at.org}`, { key: at.key });
  assert.equal(
    body.map(({ name, archived, versions }: any) => [name, archived, versions.length]),
    [["coverage", false, 1]],
  );
});

test("what is not there answers 404, and what is foreign 403", async () => {
  const { at, browser } = await given();
  const other = server.given.org();
  assert.is((await browser.get(`/${at.org}/attestation-types/no-such-type`)).status, 404);
  const gone = await browser.submitForm(
    `/${at.org}/attestation-types/gone`,
    { ...DEFINITION, form: "version" },
    "/account",
  );
  assert.is(gone.status, 404);
  assert.equal(await versionsOf(at, "gone"), []);
  for (const path of ["artifacts", "attestations", "attestation-types", "attestation-types/coverage"])
    assert.is((await browser.get(`/${other.org}/${path}`)).status, 403, path);
});

test.run();
