/** The pages that explain verdicts of artifacts, snapshots and trails. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { freshFingerprint, startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { running, runningIn } from "../api/environments/given.ts";
import { createBrowser, signIn, signInWithRole, visibleText } from "./browser.ts";
import type { Browser, Page } from "./browser.ts";

const test = suite("web/why");

let server: TestServer;
let world: ReturnType<typeof runningIn>;
test.before(async () => {
  server = await startServer();
  world = runningIn(server);
});
test.after(() => server.stop());

const TEMPLATE = `version: 1
trail:
  attestations:
    - { name: review, type: pull_request }
  artifacts:
    - name: backend
      attestations:
        - { name: scan, type: generic }
`;
const POLICY = `artifacts:
  provenance: { required: true }
  trail-compliance:
    required: true
    exceptions:
      - if: \${{ exists(flow) and flow.tags.tier == "batch" }}
  attestations:
    - { type: generic, name: scan }
`;

const signedIn = (name: string): Promise<Browser> => signIn(server, name);

const member = (org: string, role: "reader" | null): Promise<Browser> => signInWithRole(server, org, role);

const SHELL = "5".repeat(64);

type At = ReturnType<TestServer["given"]["org"]>;

/** An environment that demands a compliant scan and trail, and an artifact whose scan fails and review is missing. */
async function failing({ name = "backend:1" } = {}) {
  const at = server.given.org();
  const flow = await server.given.flow(at, { template: TEMPLATE });
  const trail = await server.given.trail(at, { flow });
  const fingerprint = await server.given.artifact(at, { flow, trail, name: "backend" });
  const target = { flow, trail, name: "scan", kind: "generic", fingerprint, is_compliant: false };
  const scan = await server.given.attestation(at, { ...target, description: "<script>alert(1)</script>" });
  const policy = await server.given.policy(at, { yaml: POLICY });
  const environment = world.environment(at, { type: "K8S" });
  world.attach(at, environment, policy);
  world.report(at, environment, [running(name, fingerprint)]);
  const browser = await signedIn(`${at.org}-admin`);
  const path = `/${at.org}/why?environment=${environment}&snapshot=-1&fingerprint=${fingerprint}`;
  return { at, flow, trail, fingerprint, scan, policy, environment, browser, path };
}

/** An environment with a policy that demands provenance. */
async function demanding(): Promise<{ at: At; environment: string; browser: Browser }> {
  const at = server.given.org();
  const policy = await server.given.policy(at, { yaml: "artifacts:\n  provenance: { required: true }\n" });
  const environment = world.environment(at, { type: "K8S" });
  world.attach(at, environment, policy);
  return { at, environment, browser: await signedIn(`${at.org}-admin`) };
}

const whyOf = (at: At, environment: string, fingerprint: string, more = ""): string =>
  `/${at.org}/why?environment=${environment}&fingerprint=${fingerprint}${more}`;

function assertShows(page: Page, words: readonly string[]): void {
  const text = visibleText(page);
  assert.is(page.status, 200, text);
  for (const one of words) assert.ok(text.includes(one), `'${one}' in: ${text}`);
}

/** The numbers of the lines that are marked as a cause. */
const markedLines = ({ text }: Page): number[] =>
  [...text.matchAll(/<li id="L(\d+)" class="hit">/g)].map(([, line]) => Number(line));

test("an artifact shows who refuses it, the causes apart from rules, and what would mend it", async () => {
  const { browser, path, trail, flow, environment, policy, fingerprint } = await failing();
  const page = await browser.get(path);
  assertShows(page, [
    "Why is backend:1 Non-compliant",
    `in ${environment} #1`,
    `Policy ${policy} refuses it: 2 of its 3 rules fail, with two causes`,
    "scan fails",
    `review is missing in trail ${trail}`,
    "2 of 3 rules fail",
    `Non-compliant in ${trail}`,
    'exists(flow) and flow.tags.tier == "batch" flow exists, flow.tags.tier is not set, so false',
    "review was never reported The template expects type pull_request",
    "Reported by",
    "A re-evaluation from the stored facts and policy versions gives the same verdict.",
    "What would make it compliant",
    "Fix what the generic attestation scan found, and report it again",
    "Or override it with a reason",
    "Report a compliant pull_request attestation review",
    `kosli attest pullrequest github --name review \\ --flow ${flow} \\ --trail ${trail}`,
    `Or allowlist it in ${environment} , with a reason and an end`,
  ]);
  assert.match(page.text, new RegExp(`environments/${environment}/1\\?allow=${fingerprint}"`));
  assert.not.match(page.text, /<script>alert/);
});

test("the lines of rules that fail are marked, without their exceptions, and the rules link to them", async () => {
  const { browser, path } = await failing();
  const page = await browser.get(path);
  assert.equal(markedLines(page), [4, 5, 9]);
  for (const line of [3, 4, 7, 9]) assert.match(page.text, new RegExp(`href="#L${line}">line ${line}<`));
});

test("of several policies the text of one that fails is shown, and any other on demand", async () => {
  const { at, environment, browser, path, policy } = await failing();
  const other = await server.given.policy(at, {
    name: "other",
    yaml: "artifacts:\n  provenance: { required: true }\n",
  });
  world.attach(at, environment, other);
  const page = await browser.get(path);
  assertShows(page, ["1 of 2 policies refuses it: 2 of its 3 rules fail, with two causes", "1 of 1 rule holds"]);
  assert.match(page.text, new RegExp(`aria-label="Policy ${policy}"`));
  assert.match(page.text, /policy=other#L3">line 3</);
  const chosen = await browser.get(`${path}&policy=other`);
  assert.match(chosen.text, /aria-label="Policy other"/);
  assert.equal(markedLines(chosen), []);
  const unknown = await browser.get(`${path}&policy=none`);
  assert.match(unknown.text, new RegExp(`aria-label="Policy ${policy}"`));
});

test("what fails is open and the rest shut, or all of it is open", async () => {
  const { browser, path } = await failing();
  const count = ({ text }: Page, pattern: RegExp): number => [...text.matchAll(pattern)].length;
  const failed = await browser.get(path);
  const open = await browser.get(`${path}&open=all`);
  assert.is(count(failed, /<details>/g), 1);
  assert.is(count(open, /<details>/g), 0);
  assert.is(count(open, /<details/g), count(failed, /<details/g));
});

test("where nothing fails, the whole tree is open, and can be folded", async () => {
  const { at, browser, policy } = await failing();
  const flow = await server.given.flow(at, { template: "version: 1\n" });
  const trail = await server.given.trail(at, { flow });
  const fingerprint = await server.given.artifact(at, { flow, trail, name: "good" });
  await server.given.attestation(at, { flow, trail, name: "scan", kind: "generic", fingerprint, is_compliant: true });
  const environment = world.environment(at, { type: "K8S" });
  world.attach(at, environment, policy);
  world.report(at, environment, [running("good:1", fingerprint)]);
  const trailPath = `/${at.org}/why?flow=${flow}&trail=${trail}`;
  for (const path of [whyOf(at, environment, fingerprint, "&snapshot=-1"), trailPath]) {
    const page = await browser.get(path);
    assert.match(visibleText(page), / Compliant .* Folded All open /);
    assert.match(page.text, /<details open/);
    assert.not.match(page.text, "<details>");
    const folded = await browser.get(`${path}&open=failed`);
    assert.match(folded.text, "<details>");
    assert.not.match(folded.text, "<details open");
  }
});

test("the page of the artifact counts the rules of a policy as its explanation does", async () => {
  const { at, browser, flow, fingerprint } = await failing();
  const lax = await server.given.policy(at, {
    name: "lax",
    yaml:
      "artifacts:\n  provenance: { required: true }\n  trail-compliance: { required: false }\n" +
      "  attestations:\n    - { type: junit, name: unit, if: '${{ flow.name == \"other\" }}' }\n",
  });
  const environment = world.environment(at, { type: "K8S" });
  world.attach(at, environment, lax);
  world.report(at, environment, [running("backend:1", fingerprint)]);
  const why = await browser.get(whyOf(at, environment, fingerprint, "&snapshot=-1"));
  assertShows(why, ["lax v1", "1 of 2 rules holds"]);
  const artifact = await browser.get(`/${at.org}/flows/${flow}/artifacts/${fingerprint}`);
  assertShows(artifact, ["lax v1: 1 of 2 rules holds"]);
});

test("a re-evaluation is offered to readers, says what it gives, and changes nothing", async () => {
  const { at, path, flow, trail } = await failing();
  const reader = await member(at.org, "reader");
  const before = server.db.prepare("SELECT count(*) FROM evaluations").pluck().get();
  const events = server.db.prepare("SELECT count(*) FROM audit_log").pluck().get();
  assert.match((await reader.get(path)).text, /name="form" value="replay_artifact"/);
  const replayed = await reader.submitForm(path, { form: "replay_artifact" });
  assertShows(replayed, [
    "Re-evaluated just now from the stored facts and policy versions: the same verdict",
    "Why is backend:1",
  ]);
  const trailPath = `/${at.org}/why?flow=${flow}&trail=${trail}`;
  assertShows(await reader.submitForm(trailPath, { form: "replay_trail" }), [
    "Re-evaluated just now from the stored records and the template: the same verdict",
  ]);
  const forged = await reader.post(path, { form: "replay_artifact", csrf: "forged" });
  assert.is(forged.status, 403);
  assert.not.match(forged.text, /Re-evaluated just now/);
  assert.is(server.db.prepare("SELECT count(*) FROM evaluations").pluck().get(), before);
  assert.is(server.db.prepare("SELECT count(*) FROM audit_log").pluck().get(), events);
});

test("readers see no link to a form that their role may not submit", async () => {
  const { at, path, fingerprint } = await failing();
  const page = await (await member(at.org, "reader")).get(path);
  assertShows(page, ["Or allowlist it in"]);
  assert.not.match(page.text, new RegExp(`allow=${fingerprint}`));
  assert.not.match(page.text, /ask=override/);
});

test("an artifact without provenance has one cause, however many rules fail", async () => {
  const { at, environment, browser } = await failing();
  const fingerprint = freshFingerprint();
  world.report(at, environment, [running("it's a shell", fingerprint)]);
  assertShows(await browser.get(whyOf(at, environment, fingerprint)), [
    "3 of its 3 rules fail, with one cause",
    "No provenance : not reported to any flow",
    `kosli attest artifact 'it'\\''s a shell' \\ --fingerprint ${fingerprint}` +
      ` \\ --name NAME \\ --flow FLOW \\ --trail TRAIL`,
  ]);
});

test("an allowlisted artifact says by whom, why and until when, and what it would be without the entry", async () => {
  const { at, environment, browser } = await demanding();
  const fingerprint = freshFingerprint();
  world.report(at, environment, [running("redis:7", fingerprint)]);
  world.allow(at, environment, fingerprint);
  const page = await browser.get(whyOf(at, environment, fingerprint));
  assertShows(page, [
    "Why is redis:7 Allowlisted",
    `Allowlisted in ${environment} by U`,
    "Reason: because",
    "It has no end",
    "refuses it: its only rule fails, with one cause",
    "What would make it compliant without the allowlist",
  ]);
  assert.not.match(page.text, /allow=/);
  const list = await browser.get(`/${at.org}/why?environment=${environment}`);
  assertShows(list, ["redis :7", "Allowlisted", "Accepted by U : because"]);
});

test("an artifact that stopped shows its last verdict, and offers no allowlisting", async () => {
  const { at, environment, browser } = await demanding();
  const fingerprint = freshFingerprint();
  world.report(at, environment, [running("old:1", fingerprint)]);
  world.report(at, environment, []);
  const page = await browser.get(whyOf(at, environment, fingerprint));
  assertShows(page, [
    "Non-compliant exited",
    "It exited with this snapshot. This is the last verdict that it had.",
    "What would have made it compliant",
  ]);
  assert.not.match(page.text, /allow=/);
});

test("without a policy the verdict is unknown, and never compliant", async () => {
  const at = server.given.org();
  const environment = world.environment(at, { type: "K8S" });
  const fingerprint = freshFingerprint();
  world.report(at, environment, [running("app:1", fingerprint)]);
  const browser = await signedIn(`${at.org}-admin`);
  const page = await browser.get(whyOf(at, environment, fingerprint));
  assertShows(page, ["Why is app:1 Unknown", `Unknown: no policy is attached to ${environment}`, "Attach a policy"]);
  assert.not.match(visibleText(page), /(?:is|:) compliant|Compliant/);
  assertShows(await browser.get(`/${at.org}/why?environment=${environment}`), ["Unknown: no policy is attached"]);
  const reader = await member(at.org, "reader");
  assert.not.match(visibleText(await reader.get(whyOf(at, environment, fingerprint))), /Attach a policy/);
});

test("an artifact leads to its page, trail and flow, with and without a policy", async () => {
  const { at, flow, trail, fingerprint, browser, path } = await failing();
  const bare = world.environment(at, { type: "K8S" });
  world.report(at, bare, [running("backend:1", fingerprint), running("shell", SHELL)]);
  const bareFlow = await server.given.flow(at, { name: "z-flow" });
  const links = [`/flows/${flow}/artifacts/${fingerprint}"`, `/flows/${flow}/trails/${trail}"`, `/flows/${flow}"`];
  for (const address of [path, whyOf(at, bare, fingerprint)]) {
    const page = await browser.get(address);
    assertShows(page, [`Artifact of trail ${trail} , flow ${flow}`]);
    for (const link of links) assert.ok(page.text.includes(link), link);
  }
  await server.given.artifact(at, { flow: bareFlow, trail: null, fingerprint });
  world.report(at, bare, [running("backend:1", fingerprint), running("shell", SHELL)]);
  assertShows(await browser.get(whyOf(at, bare, fingerprint)), ["and 1 other flow"]);
  assertShows(await browser.get(whyOf(at, bare, SHELL)), ["not reported to any flow"]);
});

test("a logical environment leads to the snapshots of its members", async () => {
  const { at, environment, fingerprint, browser } = await failing();
  const second = await demandingIn(at);
  const logical = world.environment(at, { type: "logical", members: [environment, second] });
  world.report(at, second, [running("backend:1", fingerprint)]);
  const page = await browser.get(whyOf(at, logical, fingerprint));
  assertShows(page, [`in ${environment} #1`, "Non-compliant"]);
  assert.match(page.text, new RegExp(`environments/${environment}/1\\?allow=`));
  assertShows(await browser.get(whyOf(at, logical, fingerprint, "&in=1")), [`in ${second} #1`, "Compliant"]);
  assertShows(await browser.get(whyOf(at, logical, fingerprint, "&in=99")), [`in ${environment} #1`]);
  assertShows(await browser.get(`/${at.org}/why?environment=${logical}`), [
    "1 of 2 running artifacts is not compliant",
    `${environment} #1`,
    `${second} #1`,
  ]);
});

/** Another environment of the organization that demands provenance. */
async function demandingIn(at: At): Promise<string> {
  const policy = await server.given.policy(at, { yaml: "artifacts:\n  provenance: { required: true }\n" });
  const environment = world.environment(at, { type: "K8S" });
  world.attach(at, environment, policy);
  return environment;
}

test("a snapshot lists its artifacts with their reasons, those that fail first, in pages", async () => {
  const { at, environment, browser } = await demanding();
  const artifacts = Array.from({ length: 23 }, (_, index) => running(`app-${index}`, freshFingerprint()));
  world.report(at, environment, [...artifacts, running("unresolved", "")]);
  const page = await browser.get(`/${at.org}/why?environment=${environment}&snapshot=1`);
  assertShows(page, [
    `Why is ${environment} #1 Non-compliant`,
    "24 of 24 running artifacts are not compliant",
    "No provenance : not reported to any flow",
    "1 to 20 of 24",
  ]);
  assertShows(await browser.get(`/${at.org}/why?environment=${environment}&page=2`), ["unresolved", "no fingerprint"]);
  assertShows(await browser.get(`/${at.org}/why?environment=${environment}&page=999999`), ["Nothing to explain"]);
});

test("records that are damaged are problems in words, and the rest stays readable", async () => {
  const { browser, path } = await failing();
  const change = server.db.prepare(
    "UPDATE evaluations SET verdicts_json = ? WHERE id = (SELECT max(id) FROM evaluations)",
  );
  change.run("[]");
  assertShows(await browser.get(path), ["Why is backend:1 Non-compliant", "What is stored cannot be confirmed"]);
  change.run("no JSON <script>");
  const page = await browser.submitForm(path, { form: "replay_artifact" });
  assertShows(page, [
    "What is stored cannot be confirmed",
    "Re-evaluated just now",
    "not the stored verdict: see above",
  ]);
  assert.not.match(page.text, /<script>/);
});

test("a trail shows each expectation with the record that decided, and its lines in the template", async () => {
  const { at, flow, trail, scan, browser } = await failing();
  const page = await browser.get(`/${at.org}/why?flow=${flow}&trail=${trail}`);
  assertShows(page, [
    `Why is ${trail} Non-compliant`,
    "Not compliant: two causes",
    "scan fails",
    `review is missing in trail ${trail}`,
    "pull_request attestation review It was never reported",
    "generic attestation scan",
    "Or override it with a reason",
  ]);
  assert.equal(markedLines(page), [4, 8]);
  assert.match(page.text, new RegExp(`attestation_id=${scan}">record<`));
  assert.match(page.text, new RegExp(`href="[./]*api/v2/explanations/${at.org}/trails/${flow}/${trail}"`));
  assert.not.match(page.text, /<script>alert/);
});

test("a trail shows an override and the record that it overrides", async () => {
  const { at, flow, trail, fingerprint, browser } = await failing();
  const answer = await server.call("POST", `/attestations/${at.org}/${flow}/trail/${trail}/override`, {
    key: at.key,
    body: {
      attestation_name: "scan",
      artifact_fingerprint: fingerprint,
      reason: "accepted",
      new_compliance_status: true,
      original_attestation_type: "generic",
    },
  });
  assert.is(answer.status, 201, answer.text);
  assertShows(await browser.get(`/${at.org}/why?flow=${flow}&trail=${trail}`), [
    "Incomplete",
    "Not everything that the template expects is there: one cause",
    "overridden",
    "Overridden by",
  ]);
});

test("an address that names nothing, or what does not exist, says what to do", async () => {
  const { at, environment, browser, fingerprint } = await failing();
  assertShows(await browser.get(`/${at.org}/why`), ["Which verdict?", "Environments", "Flows"]);
  assertShows(await browser.get(`/${at.org}/why?flow=x`), ["Which verdict?"]);
  const statuses = [
    [`/${at.org}/why?environment=none`, 404],
    [`/${at.org}/why?environment=${environment}&snapshot=99`, 404],
    [`/${at.org}/why?environment=${environment}&snapshot=%40`, 400],
    [whyOf(at, environment, "x"), 400],
    [whyOf(at, environment, freshFingerprint()), 404],
    [`/${at.org}/why?flow=none&trail=none`, 404],
    [`/none/why?environment=${environment}`, 403],
  ] as const;
  for (const [address, status] of statuses) assert.is((await browser.get(address)).status, status, address);
  const stranger = await member(server.given.org().org, "reader");
  assert.is((await stranger.get(whyOf(at, environment, fingerprint))).status, 403);
  assert.is((await createBrowser(server.url).get(whyOf(at, environment, fingerprint))).status, 303);
});

test("an artifact that no flow knows shows the record of its name, and what two digests usually mean", async () => {
  const { at, environment, browser } = await demanding();
  const flow = await server.given.flow(at);
  const trail = await server.given.trail(at, { flow });
  const index = await server.given.artifact(at, { flow, trail, filename: "shop/web:1.4" });
  const [platform, unknown] = [freshFingerprint(), freshFingerprint()];
  world.report(at, environment, [running("shop/web:1.4", platform), running("other", unknown)]);
  const page = await browser.get(whyOf(at, environment, platform));
  const words = [
    `An artifact of this name was reported to trail ${trail} of flow ${flow} with another fingerprint`,
    "which has two digests: that of its index and that of the manifest of one platform",
  ];
  assertShows(page, ["Its name is known, not its fingerprint", ...words]);
  const link = /href="([^"]*)">another fingerprint</.exec(page.text)?.[1] ?? "";
  assertShows(await browser.get(link), ["shop/web:1.4", index.slice(0, 7)]);
  assertShows(await browser.get(`/${at.org}/why?environment=${environment}`), words);
  const snapshot = await browser.get(`/${at.org}/environments/${environment}/1`);
  assertShows(snapshot, [`its name has another fingerprint in ${flow}`, words[1] as string]);
  assert.match(snapshot.text, `${link.replace(/^[./]*/, "/")}">another fingerprint<`);
  assert.not.match(visibleText(await browser.get(whyOf(at, environment, unknown))), "with another fingerprint");
});

test.run();
