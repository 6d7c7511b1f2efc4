/** The overview, search, repositories, and the ways between organizations. */
import { spawnSync } from "node:child_process";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parse } from "yaml";
import { parsePolicy } from "../../src/domain/policy/document.ts";
import { freshFingerprint, startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { repeatDeployment } from "../many-deployments.ts";
import { running, runningIn } from "../api/environments/given.ts";
import { signIn, signInWithRole, visibleText } from "./browser.ts";
import type { Browser, Page } from "./browser.ts";

const test = suite("web/home");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/** A day by its distance from today, in UTC. */
const day = (offset: number): string => new Date((server.clock.at + offset * 86_400) * 1000).toISOString().slice(0, 10);

type At = { org: string; key: string };

const signedIn = (name: string): Promise<Browser> => signIn(server, name);

async function given(): Promise<{ at: At; browser: Browser }> {
  const at = server.given.org();
  return { at, browser: await signedIn(`${at.org}-admin`) };
}

const reader = ({ org }: At): Promise<Browser> => signInWithRole(server, org, "reader");

const PRINT = "abc12".padEnd(64, "0");
const COMMIT = "def45".padEnd(40, "0");
const SCRIPT = "<script>alert(1)</script>";
const SHOP = { id: "7", name: "acme/shop", url: "https://git.test/acme/shop", provider: "github" };

/** A flow with a release that runs in an environment whose policy wants more. */
async function world() {
  const { at, browser } = await given();
  const { environment, attach, report } = runningIn(server);
  await server.given.flow(at, { name: "payments" });
  await server.given.trail(at, { flow: "payments", name: "release-1" });
  await server.given.artifact(at, {
    flow: "payments",
    trail: "release-1",
    name: "app",
    filename: `app:1 ${SCRIPT}`,
    fingerprint: PRINT,
    commit: COMMIT,
    build_url: "https://ci.test/9",
    repo_info: SHOP,
  });
  await server.given.policy(at, {
    name: "baseline",
    yaml: "artifacts:\n  attestations:\n    - { type: junit, name: unit-tests }\n",
  });
  environment(at, { name: "production" });
  attach(at, "production", "baseline");
  report(at, "production", [running(`app:1 ${SCRIPT}`, PRINT)]);
  return { at, browser };
}

/** The texts of a page to paste, in their order. */
const snippetsOf = ({ text }: Page): string[] =>
  [...text.matchAll(/<pre tabindex="0">([\s\S]*?)<\/pre>/g)].map(([, content = ""]) =>
    content.replace(/<[^>]*>/g, "").replace(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code))),
  );

/** The titles of the steps that a page shows as done. */
const doneSteps = ({ text }: Page): string[] =>
  [...text.matchAll(/<h2 id="h-step-\d">(\d)[^<]*<\/h2><span class="sub"><span class="tag">/g)].map(
    ([, step]) => `${step}`,
  );

test("an organization without anything is shown five steps, with the address of this server", async () => {
  const { at, browser } = await given();
  const page = await browser.get(`/${at.org}`);
  assert.is(page.status, 200);
  const text = visibleText(page);
  for (const part of [
    "Nothing has been reported yet. Five steps lead to the first verdict on what runs.",
    "1. Create an API key",
    "Service accounts",
    "It comes from its vendor, Kosli",
    "2. Create a flow",
    `export KOSLI_HOST=http://assay.test KOSLI_ORG=${at.org} KOSLI_API_TOKEN=KEY kosli create flow backend-api`,
    "New flow",
    "3. Report from a pipeline",
    "4. Report what runs",
    "kosli snapshot k8s production",
    "New environment",
    "5. Attach a policy",
    "kosli attach-policy prod-baseline --environment production",
    "New policy",
  ])
    assert.ok(text.includes(part), `${part} in ${text}`);
  assert.equal(doneSteps(page), ["1"], "the administrator has a key");
  const shown = visibleText(await (await reader(at)).get(`/${at.org}`));
  assert.not.match(shown, /New flow|New environment|New policy|Service accounts/, "a reader can do none of it");
});

test("each pipeline reports the address of the commit, not that of the build, and its file is valid", async () => {
  const { at, browser } = await given();
  const pipelineOf = async (key: string): Promise<string> =>
    snippetsOf(await browser.get(`/${at.org}?pipeline=${key}`)).find((text) => text.includes("kosli begin trail")) ??
    "";
  for (const [key, build, commit] of [
    ["shell", "https://ci.example.com/builds/1", "$REPOSITORY/commit/$KOSLI_TRAIL"],
    ["jenkins", "$BUILD_URL", "$REPOSITORY/commit/$KOSLI_TRAIL"],
    [
      "azure",
      "$(System.CollectionUri)$(System.TeamProject)/_build/results?buildId=$(Build.BuildId)",
      "$(System.CollectionUri)$(System.TeamProject)/_git/$(Build.Repository.Name)/commit/$(Build.SourceVersion)",
    ],
  ] as const) {
    const text = await pipelineOf(key);
    assert.ok(text.includes(`--build-url "${build}"`), text);
    assert.ok(text.includes(`--commit-url "${commit}"`), text);
    assert.match(text, `http://assay.test`);
  }
  // The client knows the commit and the build of these.
  for (const key of ["github", "gitlab"]) assert.not.match(await pipelineOf(key), /commit-url|build-url/);
  assert.is(await pipelineOf("x"), await pipelineOf("shell"));

  const github = parse(await pipelineOf("github"));
  assert.equal(github.env.KOSLI_TRAIL, "${{ github.sha }}");
  assert.match(
    github.jobs.build.steps.at(-1).run.trim(),
    /^kosli begin trail .*\nkosli attest artifact .*\nkosli attest junit .*$/,
  );
  assert.is(parse(await pipelineOf("gitlab")).evidence.script.length, 3);
  const azure = parse(await pipelineOf("azure"));
  assert.equal(azure.steps[1].env, { KOSLI_API_TOKEN: "$(KOSLI_API_TOKEN)" });
  assert.is(spawnSync("/bin/sh", ["-n"], { input: azure.steps[1].bash }).status, 0);
  assert.is(spawnSync("/bin/sh", ["-n"], { input: await pipelineOf("shell") }).status, 0);
});

test("the policy of the last step can be stored", async () => {
  const { at, browser } = await given();
  const yaml = snippetsOf(await browser.get(`/${at.org}`)).find((text) => text.startsWith("_schema:")) ?? "";
  assert.is(parsePolicy(yaml).problems, null);
});

test("a step is shown as done when it is; with a report the overview takes over, and lists what is left", async () => {
  const { at, browser } = await given();
  await server.given.flow(at, { name: "payments" });
  assert.equal(doneSteps(await browser.get(`/${at.org}`)), ["1", "2"]);
  await server.given.environment(at, { name: "production", type: "server" });
  assert.equal(doneSteps(await browser.get(`/${at.org}`)), ["1", "2"], "nothing was reported to it");
  await server.given.trail(at, { flow: "payments", name: "release-1" });
  const text = visibleText(await browser.get(`/${at.org}`));
  assert.match(
    text,
    /First steps 3 of 5 done See how Create an API key done Create a flow done Report from a pipeline done /,
  );
  const steps = await browser.get(`/${at.org}?view=steps&pipeline=gitlab`);
  assert.equal(doneSteps(steps), ["1", "2", "3"]);
  assert.match(steps.text, /href="\.\/[^"]*\?view=steps&#38;pipeline=azure"/);
  assert.match(visibleText(steps), /KOSLI_TRAIL: \$CI_COMMIT_SHA/, "another pipeline may follow");
  assert.not.match(
    visibleText(await (await reader(at)).get(`/${at.org}`)),
    /First steps/,
    "a reader can do none of it",
  );

  const { attach, report } = runningIn(server);
  report(at, "production", [running("app:1", PRINT)]);
  assert.match(visibleText(await browser.get(`/${at.org}`)), /First steps 4 of 5 done/);
  await server.given.policy(at, { name: "baseline", yaml: "artifacts:\n  provenance:\n    required: true\n" });
  attach(at, "production", "baseline");
  assert.not.match(visibleText(await browser.get(`/${at.org}`)), /First steps/);
});

test("a key of a service account counts as the first step, also one that the member has made", async () => {
  const { at } = await given();
  const member = await signInWithRole(server, at.org, "member");
  server.db.exec("UPDATE api_keys SET revoked_at = 1 WHERE user_id = (SELECT max(id) FROM users)");
  assert.equal(doneSteps(await member.get(`/${at.org}`)), []);
  server.given.serviceAccount(at.org, "member");
  assert.equal(doneSteps(await member.get(`/${at.org}`)), [], "that of another member");
  const csrf = await member.readApiCsrfToken();
  const post = (path: string, body: object) =>
    member.send("POST", `/api/v2/service-accounts/${path}`, {
      headers: { "X-CSRF-Token": csrf, Origin: server.url, "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
  assert.is((await post(at.org, { name: "ci", privilege: "member" })).status, 201);
  assert.equal(doneSteps(await member.get(`/${at.org}`)), [], "an account without a key");
  assert.is((await post(`${at.org}/ci/api-keys`, { description: "ci", expires_at: 0 })).status, 201);
  assert.equal(doneSteps(await member.get(`/${at.org}`)), ["1"]);
});

test("the overview says what fails and why, and escapes what was reported", async () => {
  const { at, browser } = await world();
  const page = await browser.get(`/${at.org}`);
  assert.is(page.status, 200);
  const text = visibleText(page);
  for (const part of [
    "One artifact is running that a policy refuses.",
    "Environments compliant 0 of 1 1 non-compliant",
    "Failing now 1",
    `app:1 ${SCRIPT}`,
    "baseline v1",
    "unit-tests",
    "1 running , 1 failing",
    "No trail that changed in the last 7 days is incomplete or non-compliant.",
    "1 trail · changed last: compliant",
  ])
    assert.ok(text.includes(part), `${part} in ${text}`);
  assert.not.match(page.text, /<script>alert/);
  assert.match(
    page.text,
    new RegExp(`href="\\./${at.org}/why\\?environment=production&#38;snapshot=1&#38;fingerprint=${PRINT}"`),
  );
  // Figures and what stands beside bars lead to what they count.
  for (const [href, words] of [
    ["environments?state=COMPLIANT", "0 <small>"],
    ["environments?state=NON-COMPLIANT", "1 non-compliant"],
    ["environments/production", '<span>1<span class="t-word"> running</span></span></a>,'],
    ["environments/production?show=failing", "1 failing"],
    [`deployments?from=${day(-13)}`, "1</a>"],
    [`deployments?from=${day(-13)}`, "All 1"],
  ] as const)
    assert.match(page.text, `href="./${at.org}/${href}">${words}`);
  // So do the bars, and for the keyboard the list behind those of a day.
  const today = `deployments?from=${day(0)}&#38;to=${day(0)}`;
  for (const [href, words] of [
    ["environments/production?show=failing", "1 non-compliant"],
    [today, `${Number(day(0).slice(8))} ${MONTHS[Number(day(0).slice(5, 7)) - 1]}: 1 deployment`],
  ] as const)
    assert.match(page.text, `<a class="c-link" href="./${at.org}/${href}" tabindex="-1" aria-label="${words}">`);
  assert.match(page.text, `<a class="grow name" href="./${at.org}/${today}">`);
  assert.match(page.text, /aria-label="Deployments a day from \d+ \w+ to \d+ \w+: 1 in all, 1 of them non-compliant"/);
});

test("the overview says which deployments its lead times are of, where these are not all", async () => {
  const { at, browser } = await world();
  const read = async (query = ""): Promise<string> => visibleText(await browser.get(`/${at.org}${query}`));
  assert.not.match(await read(), "of the latest");
  repeatDeployment(server, at.org, 500);
  server.clock.at += 1;
  assert.match(await read(), /Deployments, 14 days 501 .*first deployment, median \S+ of the latest 500/);
  assert.match(await read(`?at=${server.clock.at}`), /days 501 .*first deployment, median \S+ of the latest 500/);
});

test("lead times of a flow and an environment say that they are of the latest 50 deployments", async () => {
  const { at, browser } = await world();
  const later = { flow: "payments", trail: "release-1", name: "app", fingerprint: freshFingerprint() };
  const tabs = ["flows/payments", "environments/production"];
  const read = async (page: string): Promise<string> =>
    visibleText(await browser.get(`/${at.org}/${page}?tab=deployments`));
  for (const page of tabs)
    assert.match(await read(page), /of 0 first starts; the commit's time is unknown for 1 /, page);
  repeatDeployment(server, at.org, 49);
  await server.given.artifact(at, later);
  server.clock.at += 60;
  runningIn(server).report(at, "production", [running("app:2", later.fingerprint)]);
  const words = /of 0 first starts among the latest 50 deployments; the commit's time is unknown for 1 .* of 51 /;
  for (const page of tabs) assert.match(await read(page), words, page);
});

test("the overview leads to what changed since six in the evening before, once there is an environment", async () => {
  const fresh = await given();
  assert.not.match((await fresh.browser.get(`/${fresh.at.org}`)).text, "Last night");
  const { at, browser } = await world();
  const link = /<a class="btn" href="([^"]*)">(?:(?!<\/a>).)*Last night<\/a>/s.exec(
    (await browser.get(`/${at.org}`)).text,
  );
  assert.ok(link);
  assert.match(link[1] as string, `/changes?from=${encodeURIComponent(`${day(-1)}T18:00Z`)}`);
  const page = await browser.get(`/${at.org}/changes?from=${day(-1)}T18:00Z`);
  assert.match(visibleText(page), `${day(-1)} 18:00 to ${day(0)}`);
});

test("the overview says that there are more trails than it counts", async () => {
  const { at, browser } = await given();
  await server.given.flow(at, { name: "busy" });
  await server.given.trail(at, { flow: "busy", name: "first" });
  const read = async (): Promise<string> => visibleText(await browser.get(`/${at.org}`));
  const copy = server.db.prepare(
    `WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < @times)
     INSERT INTO trails (public_id, organization_id, flow_id, name, template_id, template_inherited, created_by,
                         created_at, last_modified_at, state, compliance_json, reasons_json)
     SELECT lower(hex(randomblob(16))), t.organization_id, flow_id, @times || '-' || n, template_id, 1, created_by,
            t.created_at, @now, 'INCOMPLETE', compliance_json, '[]'
     FROM trails t JOIN organizations o ON o.id = t.organization_id, numbers WHERE o.name = @org AND t.name = 'first'`,
  );
  const repeat = (times: number): unknown => copy.run({ times, now: server.clock.at, org: at.org });
  repeat(999);
  assert.match(await read(), "Needs attention 999 trails of the last 7 days");
  repeat(1);
  assert.match(await read(), "Needs attention 1,000 or more trails of the last 7 days");
});

test("the list of deployments is filtered by period, environment and repository", async () => {
  const { at, browser } = await world();
  const list = async (query: string): Promise<string> =>
    visibleText(await browser.get(`/${at.org}/deployments?${query}`));
  for (const [query, words] of [
    ["", /1 deployment .*app:1.* Non-compliant production #1 .*def4500/],
    [`from=${day(0)}&to=${day(0)}`, /1 deployment /],
    [`from=${day(-9)}&to=${day(-1)}`, /0 deployments .*No deployment matches/],
    ["environment=production&repo=acme/shop", /1 deployment /],
    ["environment=nowhere", /0 deployments /],
    ["from=tomorrow&to=2026-99-99&page=x", /1 deployment /],
    ["page=9", /beyond the end/],
  ] as const)
    assert.match(await list(query), words, query);
  assert.match(
    await list(`at=${day(0)}`),
    /0 deployments|No deployments in the last 28 days/,
    "nothing after a moment",
  );
  const empty = await given();
  assert.match(
    visibleText(await empty.browser.get(`/${empty.at.org}/deployments`)),
    "No deployments in the last 28 days",
  );
});

test("keys that expire soon are shown to administrators only", async () => {
  const { at, browser } = await world();
  await server.call("POST", `/service-accounts/${at.org}`, {
    key: at.key,
    body: { name: "reporter", privilege: "member" },
  });
  const created = await server.call("POST", `/service-accounts/${at.org}/reporter/api-keys`, {
    key: at.key,
    body: { description: "Cluster reporter", expires_at: Math.floor(server.clock.at) + 3 * 86_400 },
  });
  assert.is(created.status, 201, created.text);
  assert.match(
    visibleText(await browser.get(`/${at.org}`)),
    /Keys expiring soon Keys reporter Cluster reporter in 2 days/,
  );
  assert.not.match(visibleText(await (await reader(at)).get(`/${at.org}`)), /Keys expiring soon|reporter/);
});

test("the search groups what it finds, and each result is a link", async () => {
  const { at, browser } = await world();
  const page = await browser.get(`/${at.org}/search?q=pay`);
  assert.match(page.text, /data-results/);
  assert.match(page.text, new RegExp(`href="\\.\\./${at.org}/flows/payments"`));
  assert.match(visibleText(page), /Flows payments/);
  assert.match(visibleText(await browser.get(`/${at.org}/search?q=release`)), /Trails release-1 payments Compliant/);
  assert.match(visibleText(await browser.get(`/${at.org}/search?q=acme/sh`)), /Repositories acme\/shop https:/);
  const escaped = await browser.get(`/${at.org}/search?q=${encodeURIComponent(SCRIPT)}`);
  assert.not.match(escaped.text, /<script>alert/);
  assert.match(
    visibleText(await browser.get(`/${at.org}/search?q=zzz`)),
    /No results for “ zzz ” .*Try Attestations named zzz All artifacts with zzz .*audit log by zzz/,
  );
  assert.match(visibleText(await browser.get(`/${at.org}/search`)), /Commands Allow an artifact… .*Go to Overview/);
  assert.is((await browser.get(`/${at.org}/search?q=${"x".repeat(3000)}`)).status, 200);
});

test("the search has no figure for trails and artifacts, of which it compares only the latest", async () => {
  const { at, browser } = await world();
  const path = `/${at.org}/search`;
  for (let number = 0; number < 9; number += 1) {
    await server.given.trail(at, { flow: "payments", name: `nightly-${number}` });
    await server.given.artifact(at, {
      flow: "payments",
      trail: "release-1",
      filename: `worker:${number}`,
      fingerprint: String(number).repeat(64),
    });
  }
  const { report, environment } = runningIn(server);
  environment(at, { name: "cluster" });
  report(at, "cluster", [running("debug-shell", "f".repeat(64))]);
  assert.match(visibleText(await browser.get(`${path}?q=nightly`)), /Trails Show more trails nightly-8/);
  assert.match(visibleText(await browser.get(`${path}?q=worker`)), /Artifacts Show more artifacts worker:0/);
  const unreported = visibleText(await browser.get(`${path}?q=debug-`));
  assert.match(unreported, /Artifacts debug-shell/);
  assert.not.match(unreported, /All artifacts/, "the list of artifacts has those that were reported");
});

test("the search marks what matches, has all results of a kind, and what a role permits", async () => {
  const { at, browser } = await world();
  const path = `/${at.org}/search`;
  assert.match((await browser.get(`${path}?q=AYM`)).text, /<bdi>p<mark>aym<\/mark>ents<\/bdi>/);
  for (let number = 0; number < 9; number += 1) await server.given.flow(at, { name: `nightly-${number}` });
  assert.match(visibleText(await browser.get(`${path}?q=nightly-`)), /Flows Show 9 flows/);
  const trails = await browser.get(`${path}?q=EASE`);
  assert.match(visibleText(trails), /Trails release-1 payments Compliant All trails of payments with EASE/);
  assert.ok(trails.text.includes(`/${at.org}/flows/payments?search=EASE"`));
  const artifacts = await browser.get(`${path}?q=PP:1`);
  assert.match(visibleText(artifacts), /Artifacts app:1 .* payments All artifacts with PP:1/);
  assert.ok(artifacts.text.includes(`/${at.org}/artifacts?search=PP%3A1"`));
  const kind = visibleText(await browser.get(`${path}?q=pay&kind=flow`));
  assert.match(kind, /Flows payments/);
  assert.not.match(kind, /Commands|Go to/);
  assert.match(visibleText(await browser.get(`${path}?q=pay&kind=toString`)), /Flows payments/);
  const commands = visibleText(await browser.get(`${path}?q=${encodeURIComponent("> flow")}`));
  assert.match(commands, /Commands New flow… Go to Flows/);
  assert.not.match(commands, /payments/);
  const offers = async (text: string): Promise<boolean> =>
    (await browser.get(`${path}?suggest=1&q=${encodeURIComponent(text)}`)).text.includes("data-recent");
  assert.equal([await offers(""), await offers(">")], [true, false], "what was opened last is no command");
  const chosen = await browser.get(`${path}?choose=allow`);
  assert.match(visibleText(chosen), /Allow an artifact: in which environment\? .*Environments production/);
  assert.match(chosen.text, /href="[^"]*\/environments\/production\?tab=settings&#38;ask=allow"/);
  const read = await reader(at);
  assert.not.match(visibleText(await read.get(path)), /New |Invite|Allow|Attach|hold|Audit log/);
  assert.not.match(visibleText(await read.get(`${path}?choose=allow`)), /in which environment/);
});

test("a command asks for an environment with an allowlist and policies of its own, so for no logical one", async () => {
  const { at, browser } = await world();
  runningIn(server).environment(at, { name: "everywhere", type: "logical", members: ["production"] });
  for (const choice of ["allow", "attach"]) {
    const { text } = await browser.get(`/${at.org}/search?choose=${choice}`);
    assert.match(text, /placeholder="Part of the name of the environment"/);
    assert.match(text, /href="[^"]*\/environments\/production\?/);
    assert.not.match(text, /everywhere/);
  }
});

test("a whole fingerprint or commit leads to its page; suggestions list it", async () => {
  const { at, browser } = await world();
  const found = await browser.get(`/${at.org}/search?q=sha256:${PRINT}`);
  assert.is(found.status, 303);
  assert.match(found.location ?? "", new RegExp(`^\\.\\./${at.org}/flows/payments/artifacts/${PRINT}\\?artifact_id=`));
  const commit = await browser.get(`/${at.org}/search?q=${COMMIT}`);
  assert.equal([commit.status, commit.location], [303, `../${at.org}/flows/payments/trails/release-1`]);
  assert.is((await browser.get(`/${at.org}/search?q=${COMMIT}&suggest=1`)).status, 200);
  const shown = await browser.get(`/${at.org}/search?q=${COMMIT.slice(0, 7)}`);
  assert.equal([shown.status, shown.location], [303, commit.location], "a commit as pages show it");
  assert.is((await browser.get(`/${at.org}/search?q=${COMMIT.slice(0, 6)}`)).status, 200, "a prefix is listed");
});

test("the page of what does not exist searches for the last part of its address", async () => {
  const { at, browser } = await given();
  const page = await browser.get(`/${at.org}/flows/no%20such%22flow`);
  assert.is(page.status, 404);
  assert.match(page.text, /<input type="search" name="q"\s[^>]*value="no such&#34;flow"/);
});

test("repositories are listed and filtered", async () => {
  const { at, browser } = await world();
  assert.match(
    visibleText(await browser.get(`/${at.org}/repos`)),
    /1 repository .*acme\/shop https:\/\/git.test\/acme\/shop GitHub/,
  );
  assert.match(visibleText(await browser.get(`/${at.org}/repos?search=none`)), /No repository matches .*Clear filters/);
  assert.match(visibleText(await browser.get(`/${at.org}/repos?provider=bogus&page=x`)), /acme\/shop/);
  assert.match(visibleText(await browser.get(`/${at.org}/repos?page=999999`)), /beyond the end/);
  const empty = await given();
  assert.match(visibleText(await empty.browser.get(`/${empty.at.org}/repos`)), /No repositories yet/);
});

test("a repository shows its builds, deployments, and what runs", async () => {
  const { at, browser } = await world();
  const { body } = await server.call("GET", `/repos/${at.org}`, { key: at.key });
  const path = `/${at.org}/repos/${body.repos[0].id}`;
  const build = await browser.get(path);
  assert.match(visibleText(build), /acme\/shop GitHub .*Builds 1 in 30 days .*app:1 .*def4500 abc1200 Build/);
  assert.match(build.text, /href="https:\/\/ci\.test\/9"/);
  assert.match(build.text, /aria-label="Builds a day from [^"]+: 1 in all"/);
  const today = `from=${day(0)}&to=${day(0)}`;
  assert.match(build.text, `?${today.replace("&", "&#38;")}" tabindex="-1" aria-label="`);
  for (const tab of ["build", "release"]) {
    assert.match(visibleText(await browser.get(`${path}?tab=${tab}&${today}`)), / 1 from .* Show all 30 days .*app:1/);
    assert.match(visibleText(await browser.get(`${path}?tab=${tab}&from=${day(-3)}&to=${day(-2)}`)), / 0 from /);
    for (const wrong of [`from=${day(0)}&to=${day(-1)}`, "from=x&to=y", "from=2020-01-01&to=2020-01-02"])
      assert.match(visibleText(await browser.get(`${path}?tab=${tab}&${wrong}`)), / 1 in 30 days /);
  }
  assert.match((await browser.get(`${path}?days=90`)).text, /aria-label="Builds a week from [^"]+: 1 in all"/);
  assert.is((await browser.get(`${path}?days=-1&tab=x&page=y`)).status, 200);
  assert.match(visibleText(await browser.get(`${path}?page=999999`)), /beyond the end/);
  assert.match(visibleText(await browser.get(`${path}?tab=release`)), /1 in 30 days .*Non-compliant production #1/);
  assert.match(
    visibleText(await browser.get(`${path}?tab=run`)),
    /1 artifact of 1 commit .*Commit def4500 app:1 .*production #1/,
  );
  assert.is((await browser.get(`/${at.org}/repos/none`)).status, 404);
});

test("tags of a repository are set and removed by those who may", async () => {
  const { at, browser } = await world();
  const { body } = await server.call("GET", `/repos/${at.org}`, { key: at.key });
  const { id } = body.repos[0];
  const path = `/${at.org}/repos/${id}?tab=tags`;
  const tags = async (): Promise<unknown> =>
    (await server.call("GET", `/repos/${at.org}/x?id=${id}`, { key: at.key })).body.tags;
  const set = await browser.submitForm(path, { form: "set_tag", key: "team", value: "checkout" });
  assert.equal([set.status, await tags()], [303, { team: "checkout" }]);
  const refused = await browser.submitForm(path, { form: "set_tag", key: "not a key!", value: "kept" });
  assert.is(refused.status, 400);
  assert.match(refused.text, /value="kept"/);
  assert.equal(await tags(), { team: "checkout" });
  const other = await reader(at);
  assert.not.match((await other.get(path)).text, /name="form" value="set_tag"/);
  const csrf = await other.readCsrfToken(path);
  const forged = await other.post(path, { csrf, form: "remove_tag", key: "team" });
  assert.is(forged.status, 403);
  assert.equal(await tags(), { team: "checkout" });
  assert.is((await browser.submitForm(path, { form: "remove_tag", key: "team" })).status, 303);
  assert.equal(await tags(), {});
});

test("the menu and the page for phones lead to all organizations of the person", async () => {
  const { at, browser } = await given();
  const second = server.given.org();
  const userId = server.store.users.find(`${at.org}-admin`)?.id as number;
  const organizationId = (server.store.organizations.find(second.org) as { id: number }).id;
  server.db.prepare("INSERT INTO memberships VALUES (?, ?, 'reader', 1)").run(organizationId, userId);
  const page = await browser.get(`/${at.org}/flows`);
  assert.match(page.text, new RegExp(`<a href="\\.\\./${at.org}" aria-current="true">`));
  assert.match(page.text, new RegExp(`<a href="\\.\\./${second.org}">`));
  const more = visibleText(await browser.get(`/${at.org}/more`));
  assert.match(more, new RegExp(`Repositories Actions Settings Organizations ${at.org} admin ${second.org} reader`));
  assert.not.match(visibleText(await browser.get(`/${second.org}/more`)), /Settings/, "a reader has no settings");
  const [first] = [at.org, second.org].sort();
  assert.equal(await browser.get("/").then(({ location }) => location), `./${first}`, "the first, if none was chosen");
  const csrf = await browser.readApiCsrfToken();
  await browser.send("PUT", `/api/v2/user/${second.org}`, { headers: { "X-CSRF-Token": csrf, Origin: server.url } });
  assert.equal(await browser.get("/").then(({ location }) => location), `./${second.org}`);
  server.db.prepare("DELETE FROM memberships WHERE organization_id = ?").run(organizationId);
  assert.equal(await browser.get("/").then(({ location }) => location), `./${at.org}`, "the only one that is left");
});

test("pages of another organization say nothing about it", async () => {
  const { browser } = await given();
  const { at } = await world();
  for (const path of ["", "/search?q=pay", "/repos", "/more"]) {
    const page = await browser.get(`/${at.org}${path}`);
    assert.is(page.status, 403, path);
    assert.not.match(visibleText(page), /payments|production/);
  }
});

/** What stands in the navigation beside the name of a section, as [its class, what it counts, the number]. */
function markOf({ text }: Page, section: string): string[] | null {
  const nav = /<nav class="side"[\s\S]*?<\/nav>/.exec(text)?.[0] ?? "";
  const entry = new RegExp(`</svg>${section} ([^\\n]*?)</a>`).exec(nav)?.[1];
  assert.ok(entry !== undefined, `no ${section} in the navigation`);
  if (!entry) return null;
  const mark = /^<span class="([^"]*)" title="([^"]*)">([^<]*)<\/span>$/.exec(entry);
  assert.ok(mark, entry);
  return mark.slice(1);
}

test("the navigation counts environments that fail and trails that are not compliant, and no totals", async () => {
  const { at, browser } = await world();
  const read = (path = "/policies"): Promise<Page> => browser.get(`/${at.org}${path}`);
  for (const path of ["", "/policies", "/settings/members", "/flows/payments", "/no-such-page"]) {
    const page = await read(path);
    assert.equal(markOf(page, "Environments"), ["count bad", "Not compliant", "1"], path);
    assert.is(markOf(page, "Flows"), null, path);
    assert.is(markOf(page, "Artifacts"), null, path);
  }
  const asReader = await (await reader(at)).get(`/${at.org}/policies`);
  assert.equal(markOf(asReader, "Environments"), ["count bad", "Not compliant", "1"]);

  const template = "version: 1\ntrail:\n  attestations:\n    - { name: review, type: generic }\n";
  await server.given.flow(at, { name: "reviews", template });
  for (let n = 1; n <= 99; n += 1) await server.given.trail(at, { flow: "reviews", name: `t-${n}` });
  const what = "Trails of the last 7 days that are not compliant";
  assert.equal(markOf(await read(), "Flows"), ["count", what, "99"]);
  await server.given.trail(at, { flow: "reviews", name: "t-100" });
  assert.equal(markOf(await read(), "Flows"), ["count", what, "99+"]);

  const past = await read(`/policies?at=${new Date(server.clock.at * 1000).toISOString().slice(0, 19)}Z`);
  assert.equal([markOf(past, "Environments"), markOf(past, "Flows")], [null, null], "the past has no work left");
  const fresh = server.given.org();
  const nothing = await (await signedIn(`${fresh.org}-admin`)).get(`/${fresh.org}`);
  assert.equal([markOf(nothing, "Environments"), markOf(nothing, "Flows")], [null, null]);
});

test.run();
