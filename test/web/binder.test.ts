/** The page of an audit binder: a document about a control, an environment or a flow in a period. */
import { createHash } from "node:crypto";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { running, runningIn } from "../api/environments/given.ts";
import { signIn, signInWithRole, visibleText } from "./browser.ts";
import type { Page } from "./browser.ts";

const test = suite("web/binder");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

const SCRIPT = "<script>alert(1)</script>";
const POLICY = "artifacts:\n  attestations:\n    - type: decision\n      for_control: C-1\n";

/** A control that a policy of `production` requires; one artifact started with an approval, `without` without one. */
async function world({ without = 1 } = {}) {
  const at = server.given.org();
  await server.given.control(at, { identifier: "C-1", name: `Approved ${SCRIPT}` });
  const flow = await server.given.flow(at);
  const { environment, report } = runningIn(server);
  const prod = environment(at, { name: "production" });
  const policy = await server.given.policy(at, { yaml: POLICY });
  report(at, prod, []);
  await server.call("POST", `/environments/${at.org}/${prod}/policies`, {
    key: at.key,
    body: { policy_names: [policy] },
  });
  const good = await server.given.artifact(at, { flow, trail: "one", name: "shop" });
  await server.given.attestation(at, {
    kind: "system",
    flow,
    trail: "one",
    name: "go",
    type_name: "decision",
    control: "C-1",
    attestation_data: { is_compliant: true },
    description: `Ship it ${SCRIPT}`,
    file: { name: "attachment_file", filename: "minutes.txt", content: "Approved." },
  });
  const others: string[] = [];
  for (let n = 0; n < without; n += 1)
    others.push(await server.given.artifact(at, { flow, trail: `other-${n}`, name: "tool" }));
  report(at, prod, [running("shop:1", good), ...others.map((print, n) => running(`tool-${n}:1`, print))]);
  return { at, flow, prod, policy, browser: await signIn(server, `${at.org}-admin`) };
}

const problemsOf = ({ text }: Page): Record<string, string> =>
  Object.fromEntries(
    [...text.matchAll(/<p class="field-error" id="(\w+)-error">([\s\S]*?)<\/p>/g)].map(([, name, message = ""]) => [
      name,
      visibleText({ text: message }),
    ]),
  );
const addressIn = (attribute: string): string => attribute.replaceAll(/&(?:amp|#38|#x26);/g, "&");
const headingsOf = ({ text }: Page): string[] =>
  [...text.matchAll(/<h2 id="h-\w+">([\s\S]*?)<\/h2>/g)].map(([, title = ""]) => visibleText({ text: title }));

test("a control's binder is a numbered document: a paragraph, figures, and what is missing first", async () => {
  const { at, browser, policy } = await world();
  const page = await browser.get(`/${at.org}/audit-binder?control=C-1`);
  assert.is(page.status, 200);
  assert.equal(
    headingsOf(page).map((one) => one.replace(/ \d+( B)?(, .*)?$/, "")),
    [
      "1 Without a decision",
      "2 Decisions",
      "3 Where decisions were required",
      "4 Allowlist entries",
      "5 Policies and control in force",
      "6 Who changed what",
      "7 Evidence index",
    ],
  );
  const text = visibleText(page);
  for (const part of [
    `Approved ${SCRIPT}`,
    "1 of 2 releases (50 %) had the decision for C-1 that the policies required when they started",
    "Coverage 50 % 1 of 2",
    "tool-0 :1",
    "Decision for C-1 is missing",
    `Ship it ${SCRIPT}`,
    `${policy} v1`,
    "minutes.txt",
    "No artifact was allowed despite the policies.",
    "Reviewed by, date",
  ])
    assert.ok(text.includes(part), `${part} in ${text}`);
  assert.not.match(page.text, /<script>alert/);
  assert.not.match(text, /\d (min|h|days) ago/, "absolute times only");
  assert.match(page.text, /<time datetime="[^"]+"><span class="nowrap">\d{4}-\d\d-\d\d<\/span> \d\d:\d\d:\d\d<\/time>/);
  const contents = /<nav class="toc"[\s\S]*?<\/nav>/.exec(page.text)?.[0] ?? "";
  for (const [, id = ""] of contents.matchAll(/href="#([\w-]+)"/g)) assert.ok(page.text.includes(`id="${id}"`), id);
});

test("buttons lead to the package and to the JSON, whose SHA-256 stands in the head of the printed page", async () => {
  const { at, browser } = await world();
  const to = `${server.clock.at}.0`;
  const page = await browser.get(`/${at.org}/audit-binder?control=C-1&from=2023-01-01&to=${to}`);
  const [, download = ""] = /href="([^"]*\/audit-binder\/[^"]*\/package[^"]*)" download/.exec(page.text) ?? [];
  assert.match(addressIn(download), `?control=C-1&from=2023-01-01&to=${to}`);
  const [, address = ""] = /href="[^"]*(\/audit-binder\/[^"]*limit=100)"/.exec(page.text) ?? [];
  const json = await server.call("GET", addressIn(address), { key: at.key });
  const sha256 = createHash("sha256").update(json.text).digest("hex");
  assert.ok(page.text.includes(`<code>sha256 ${sha256} of the JSON</code>`), "the answer of that address, to the byte");
});

test("the binders of an environment and a flow have verdicts and trails", async () => {
  const { at, browser, flow, prod } = await world();
  const environment = await browser.get(`/${at.org}/audit-binder?environment=${prod}`);
  assert.match(headingsOf(environment).join("; "), /^1 Not compliant, unknown or allowed 1; 2 Decis.* 3 Verdicts \d+/);
  assert.match(visibleText(environment), /of the time, non-compliant for/);
  const ofFlow = await browser.get(`/${at.org}/audit-binder?flow=${flow}`);
  assert.match(headingsOf(ofFlow).join("; "), /^1 Trails that are not compliant 0; 2 Decis.* 3 Trails 2/);
  assert.match(visibleText(ofFlow), /Every trail that began in the period is compliant\./);
});

test("a long list folds out, and what the page has no room for is said", async () => {
  const { at, browser } = await world({ without: 102 });
  const page = await browser.get(`/${at.org}/audit-binder?control=C-1`);
  const text = visibleText(page);
  assert.match(text, /92 more entries ; 2 others are in the JSON and the download/);
  assert.match(text, /first 100 entries of each list; the JSON and the download have all of them\. Show 1,000 of/);
  const long = visibleText(await browser.get(`/${at.org}/audit-binder?control=C-1&lists=long`));
  assert.match(long, /94 more entries/);
  assert.not.match(long, /the JSON and the download have all of them/);
});

test("without a subject it asks for one, the form leads to the binder, and a mistake stands at its field", async () => {
  const { at, browser } = await world();
  const empty = await browser.get(`/${at.org}/audit-binder`);
  assert.match(visibleText(empty), /Choose what the binder is about/);
  const sent = await browser.get(`/${at.org}/audit-binder?kind=control&name=C-1&from=2023-01-01&to=`);
  assert.is(sent.status, 303);
  assert.match(String(sent.location), /\/audit-binder\?control=C-1&from=2023-01-01$/);
  const wrong = async (query: string) => problemsOf(await browser.get(`/${at.org}/audit-binder?${query}`));
  assert.equal(await wrong("control=C-9"), { name: "There is no control 'C-9'." });
  assert.equal(await wrong("environment=nowhere"), { name: "There is no environment 'nowhere'." });
  assert.equal(await wrong("control=C-1&from=2026-02-30"), {
    from: "Write it as 2026-01-31, 2026-01-31T18:00 or 90days.",
  });
  assert.equal(await wrong("control=C-1&from=2023-02-01&to=2023-01-01"), { from: "The period starts after its end." });
  assert.equal(await wrong("control=C-1&from=2100-01-01&to=2100-01-02"), { from: "The period starts in the future." });
  const kept = await browser.get(`/${at.org}/audit-binder?control=C-9&from=nonsense`);
  assert.match(kept.text, /value="C-9"/);
});

test("an auditor comes from control, environment, flow and palette, and reads no members and keys", async () => {
  const { at, browser, flow, prod } = await world();
  const robot = { name: "robot", privilege: "member" };
  await server.call("POST", `/service-accounts/${at.org}`, { key: at.key, body: robot });
  const auditor = await signInWithRole(server, at.org, "reader");
  const [own, all] = [
    visibleText(await auditor.get(`/${at.org}/audit-binder?control=C-1`)),
    visibleText(await browser.get(`/${at.org}/audit-binder?control=C-1`)),
  ];
  assert.match(all, /robot was added as member/);
  assert.not.match(own, /robot/);
  assert.match(own, /without members, keys and records, which administrators read/);
  for (const [path, query] of [
    ["controls/C-1", "control=C-1"],
    [`environments/${prod}`, `environment=${prod}`],
    [`flows/${flow}`, `flow=${flow}`],
    ["search", ""],
  ] as const) {
    const page = await auditor.get(`/${at.org}/${path}`);
    assert.match(page.text, new RegExp(`href="[^"]*/audit-binder${query === "" ? '"' : `\\?${query}"`}`), path);
  }
});

test.run();
