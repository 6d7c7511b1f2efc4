/** The page of what changed in a period. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { freshFingerprint, startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { running, runningIn } from "../api/environments/given.ts";
import { signIn, signInWithRole, visibleText } from "./browser.ts";
import type { Browser, Page } from "./browser.ts";

const test = suite("web/changes");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };

const POLICY = "artifacts:\n  provenance:\n    required: true\n";
const SCRIPT = "<script>alert(1)</script>";

async function given(): Promise<{ at: At; browser: Browser }> {
  const at = server.given.org();
  return { at, browser: await signIn(server, `${at.org}-admin`) };
}

/** An environment whose artifact fails since a policy was attached, and one in which nothing happened. */
async function world() {
  const { at, browser } = await given();
  const { environment, report } = runningIn(server);
  const [prod, quiet] = [environment(at, { name: "production" }), environment(at, { name: "quiet" })];
  const policy = await server.given.policy(at, { name: "baseline", yaml: POLICY });
  report(at, prod, [running(`shell:1 ${SCRIPT}`, freshFingerprint())]);
  const attached = await server.call("POST", `/environments/${at.org}/${prod}/policies`, {
    key: at.key,
    body: { policy_names: [policy] },
  });
  assert.is(attached.status, 200, attached.text);
  return { at, browser, prod, quiet };
}

/** The messages at the fields of a form, by the name of the field. */
const problemsOf = ({ text }: Page): Record<string, string> =>
  Object.fromEntries(
    [...text.matchAll(/<p class="field-error" id="(\w+)-error">([\s\S]*?)<\/p>/g)].map(([, name, message = ""]) => [
      name,
      visibleText({ text: message }),
    ]),
  );
const headingsOf = ({ text }: Page): string[] =>
  [...text.matchAll(/<h2 id="h-(?:env-\d+|organization|all)">([\s\S]*?)<\/h2>/g)].map(([, title = ""]) =>
    visibleText({ text: title }),
  );

test("an organization in which nothing happened says so, and the navigation leads there", async () => {
  const { at, browser } = await given();
  const page = await browser.get(`/${at.org}/changes?from=2023-01-01&to=2023-01-02`);
  assert.is(page.status, 200);
  const text = visibleText(page);
  for (const part of ["What changed", "Nothing changed.", "2023-01-01 00:00 to 2023-01-02 23:59 UTC"])
    assert.ok(text.includes(part), `${part} in ${text}`);
  assert.match(page.text, /<a href="[^"]*\/changes" aria-current="page" data-go="c">/);
});

test("shows each environment with its verdict before and after, causes first, and the organization last", async () => {
  const { at, browser } = await world();
  const page = await browser.get(`/${at.org}/changes`);
  assert.is(page.status, 200);
  assert.equal(headingsOf(page), ["production", "Organization"]);
  const text = visibleText(page);
  for (const part of [
    "1 environment turned non-compliant.",
    "Docker Unknown Non-compliant Diff #1 to #2",
    `shell:1 ${SCRIPT} turned non-compliant No provenance : not reported to any flow Why?`,
    "Policy baseline v1 attached by",
    "Policy baseline created by",
  ])
    assert.ok(text.includes(part), `${part} in ${text}`);
  assert.not.match(text, /Nothing changed/, "the other environment was created in this period");
  assert.not.ok(page.text.includes(SCRIPT));
  assert.match(page.text, /href="[^"]*\/env-diff\?left=production%231&#38;right=production%232"/);
  const turned = /<li class="turn">[\s\S]*?<\/li>/.exec(page.text)?.[0] ?? "";
  assert.match(turned, /<time datetime="2023-[^"]*" title="2023-11-\d\d \d\d:\d\d:\d\d UTC">/, "absolute on paper");
});

test("filters by kind, by environment and by time, and figures are links to what they count", async () => {
  const { at, browser } = await world();
  const rules = await browser.get(`/${at.org}/changes?kind=rules`);
  assert.not.match(visibleText(rules), /turned non-compliant No provenance/);
  assert.match(visibleText(rules), /baseline v1 attached/);
  assert.match(rules.text, /<a href="[^"]*kind=verdicts">Verdicts changed<\/a><\/dt><dd><span\nclass="fig">2</);
  const quiet = await browser.get(`/${at.org}/changes?environment=quiet`);
  assert.match(visibleText(quiet), /No change matches/);
  const byTime = await browser.get(`/${at.org}/changes?view=time`);
  assert.equal(headingsOf(byTime), ["By time"]);
  assert.match(visibleText(byTime), /(?<!in )production turned non-compliant/);
  assert.not.match(visibleText(byTime), /The environment/);
});

test("names the environments that were there before the period and did not change in it", async () => {
  const { at, browser, prod } = await world();
  const from = server.clock.at + 1;
  server.clock.at += 2;
  runningIn(server).report(at, prod, [running("job:1", freshFingerprint())]);
  const text = visibleText(await browser.get(`/${at.org}/changes?from=${from}`));
  assert.ok(text.includes("Nothing changed in quiet ."), text);
});

test("what the head says is of all kinds, as the figures are", async () => {
  const { at, browser, quiet } = await world();
  const text = visibleText(await browser.get(`/${at.org}/changes?kind=stale`));
  for (const part of ["1 environment turned non-compliant.", "Verdicts changed 2", "No change matches"])
    assert.ok(text.includes(part), `${part} in ${text}`);
  runningIn(server).report(at, quiet, [running("job:1", freshFingerprint())]);
  const other = visibleText(await browser.get(`/${at.org}/changes?environment=quiet&kind=stale`));
  for (const part of ["No verdict changed.", "Other artifact changes 1", "No change matches"])
    assert.ok(other.includes(part), `${part} in ${other}`);
});

test("a wrong filter says so at its field, and keeps what was typed", async () => {
  const { at, browser } = await world();
  const time = "Write it as 2026-01-31, 2026-01-31T18:00 or 12hours.";
  for (const [query, problems] of [
    ["from=yesterday&to=2026-02-30", { from: time, to: time }],
    ["from=2026-02-02&to=2026-02-01", { from: "The period starts after its end." }],
    ["environment=nowhere", { environment: "There is no environment 'nowhere', or it is archived." }],
    ["kind=weather", { kind: "There is no kind 'weather'." }],
  ] as const) {
    const page = await browser.get(`/${at.org}/changes?${query}`);
    assert.is(page.status, 200, query);
    assert.equal(problemsOf(page), problems, query);
    assert.match(page.text, /aria-invalid="true"/);
    for (const value of new URLSearchParams(query).values()) assert.ok(page.text.includes(`value="${value}"`), value);
    assert.not.match(visibleText(page), /Input should/);
  }
});

test("people and keys are for administrators", async () => {
  const { at, browser } = await world();
  assert.match(visibleText(await browser.get(`/${at.org}/changes`)), /People and records/);
  assert.match(visibleText(await browser.get(`/${at.org}/changes?kind=people`)), /joined as admin/);
  const reader = await signInWithRole(server, at.org, "reader");
  const page = await reader.get(`/${at.org}/changes`);
  assert.is(page.status, 200);
  assert.not.match(visibleText(page), /People and records|joined as/);
  assert.not.match(page.text, /settings\/service-accounts/, "who may not create a key is not sent there");
  assert.is((await reader.get(`/${at.org}/changes?kind=people`)).status, 403);
});

test("many upgrades of one snapshot share a row that opens", async () => {
  const { at, browser } = await given();
  const { report } = runningIn(server);
  const flow = await server.given.flow(at);
  const prod = await server.given.environment(at);
  const names = Array.from({ length: 9 }, (_, index) => `service-${index}`);
  for (const version of ["1", "2"])
    report(
      at,
      prod,
      await Promise.all(
        names.map(async (name) =>
          running(`${name}:${version}`, await server.given.artifact(at, { flow, trail: version, name })),
        ),
      ),
    );
  const page = await browser.get(`/${at.org}/changes?kind=upgrades`);
  assert.match(visibleText(page), /6 more upgrades/);
  assert.is([...page.text.matchAll(/class="step-v"/g)].length, 9);
});

test("an artifact that starts and exits again and again has one row", async () => {
  const { at, browser } = await given();
  const { report, environment } = runningIn(server);
  const [prod, print] = [environment(at), freshFingerprint()];
  for (let run = 0; run < 3; run += 1) {
    report(at, prod, [running("nightly:1", print)]);
    report(at, prod, []);
  }
  const page = await browser.get(`/${at.org}/changes?kind=running`);
  assert.match(visibleText(page), /nightly :1 started 3 times, exited 3 times/);
  assert.is([...page.text.matchAll(/<li class="folded">/g)].length, 1);
  assert.match(page.text, /<span\nclass="fig">6</, "each still counts");
});

test("says how to subscribe, with the filters of the page and without a key", async () => {
  const { at, browser } = await world();
  const page = await browser.get(`/${at.org}/changes?environment=production&kind=verdicts`);
  const card = page.text.slice(page.text.indexOf("h-feed"));
  const path = `api/<wbr>v2/<wbr>changes/<wbr>${at.org}/<wbr>atom?<wbr>environment=production&#38;<wbr>kinds=verdict`;
  const shown = `http://assay.test/<wbr>${path}`;
  assert.ok(card.includes(`>${shown}</pre>`), "lines break between the parts of the address");
  assert.ok(card.includes(`data-copy="${shown.replaceAll("<wbr>", "")}"`), "what is copied has no breaks");
  assert.match(visibleText(page), /HTTP basic authentication: a key as the user name/);
});

test.run();
