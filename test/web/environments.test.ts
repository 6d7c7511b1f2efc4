/** Pages of environments and snapshots: what they show, what their forms change, and what they refuse. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { fresh, freshFingerprint, startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { running, runningIn } from "../api/environments/given.ts";
import { createBrowser, messageOf, PASSWORD, setPassword, visibleText } from "./browser.ts";
import type { Browser } from "./browser.ts";

const test = suite("web/environments");
let server: TestServer;
let world: ReturnType<typeof runningIn>;
let at: { org: string; key: string };
let admin: Browser;
let reader: Browser;

test.before(async () => {
  server = await startServer();
  world = runningIn(server);
  at = server.given.org();
  const name = fresh("reader");
  await setPassword(server, `${at.org}-admin`);
  await setPassword(server, name);
  const organization = server.store.organizations.find(at.org) as { id: number };
  const user = server.store.users.find(name) as { id: number; name: string };
  server.store.organizations.setRole(organization.id, user, { role: "reader", changedBy: "test" });
  admin = createBrowser(server.url);
  reader = createBrowser(server.url);
  await admin.login(`${at.org}-admin`, PASSWORD);
  await reader.login(name, PASSWORD);
});
test.after(() => server.stop());

const path = (rest = ""): string => `/${at.org}/environments${rest}`;
const show = async (address: string, browser = admin): Promise<string> => {
  const page = await browser.get(address);
  assert.is(page.status, 200, `${address}: ${visibleText(page)}`);
  return visibleText(page);
};

/** An environment under a policy that nothing satisfies, with two artifacts. */
async function failing(): Promise<{ name: string; policy: string; fingerprint: string }> {
  const policy = await server.given.policy(at, { yaml: "artifacts:\n  provenance: {required: true}\n" });
  const name = world.environment(at, { type: "K8S" });
  world.attach(at, name, policy);
  const fingerprint = freshFingerprint();
  world.report(at, name, []);
  world.report(at, name, [running("api:1.0", fingerprint), running("cache:7", freshFingerprint())]);
  return { name, policy, fingerprint };
}

test("the list shows state and what runs, and filters and sorts by its address", async () => {
  const { name } = await failing();
  const other = world.environment(at, { type: "S3" });
  const all = await show(path());
  assert.match(all, new RegExp(`${name} Kubernetes.* Non-compliant 2 running, 2 failing`));
  assert.match(all, `${other} Amazon S3 Unknown no snapshot yet`);
  const found = await show(path(`?name=${name}&type=K8S&sort=last_changed_at&direction=desc`));
  assert.match(found, "1 environment ");
  assert.not.match(found, other);
  assert.match(await show(path("?name=absent")), "No environment matches");
  assert.match(await show(path("?type=nothing&sort=x&page=99999")), "environments");
});

test("a reported time without a date is shown as the number, with a word", async () => {
  const name = world.environment(at, { type: "K8S" });
  world.report(at, name, []);
  const microseconds = running("api:1.0", freshFingerprint(), 1.7e15);
  world.report(at, name, [microseconds]);
  const text = await show(path(`/${name}/2`));
  assert.match(text, "1700000000000000 (not a date)");
  assert.not.match(text, /NaN|undefined/);
});

test("since when: what runs since its first start, what exited since the snapshot that it left", async () => {
  const name = world.environment(at);
  const api = running("api:1.0", freshFingerprint(), 1_690_000_000);
  world.report(at, name, [api]);
  world.report(at, name, []);
  const sinceIn = async (index: number): Promise<number> => {
    const { text } = await admin.get(path(`/${name}/${index}`));
    return Date.parse(/data-l="Since"><time datetime="([^"]+)"/.exec(text)?.[1] ?? "") / 1000;
  };
  assert.is(await sinceIn(1), 1_690_000_000);
  const ended = await server.call("GET", `/snapshots/${at.org}/${name}/2`, { key: at.key });
  assert.is(await sinceIn(2), Math.floor((ended.body as { timestamp: number }).timestamp));
});

test("an organization without environments is told how to begin", async () => {
  const empty = server.given.org();
  await setPassword(server, `${empty.org}-admin`);
  const browser = createBrowser(server.url);
  await browser.login(`${empty.org}-admin`, PASSWORD);
  const text = await show(`/${empty.org}/environments`, browser);
  assert.match(text, "No environments yet");
  assert.match(text, "kosli snapshot k8s production");
});

test("an environment of every type is created, and a taken name is refused at its field", async () => {
  for (const type of ["K8S", "ECS", "S3", "lambda", "server", "docker", "azure-apps", "cloud-run"]) {
    const name = fresh("env");
    const page = await admin.submitForm(
      path(),
      { form: "create", name, type, description: "ours" },
      path("?ask=create"),
    );
    assert.is(page.status, 303, visibleText(page));
    assert.match(await show(path(`/${name}`)), "Nothing was reported yet");
  }
  const member = world.environment(at);
  const logical = fresh("logical");
  const fields = { form: "create", name: logical, type: "logical", description: "", included_environments: member };
  assert.is((await admin.submitForm(path(), fields, path("?ask=create"))).status, 303);
  const read = await server.call("GET", `/environments/${at.org}/${logical}`, { key: at.key });
  assert.equal(read.body.included_environments, [member]);
  const taken = await admin.submitForm(path(), { ...fields, name: member }, path("?ask=create"));
  assert.is(taken.status, 400);
  assert.match(visibleText(taken), "An environment with this name already exists");
  assert.match(taken.text, `value="${member}"`);
  const wrong = await admin.submitForm(path(), { ...fields, name: "no name" }, path("?ask=create"));
  assert.is(wrong.status, 400);
  assert.match(wrong.text, /id="create-name-error"/);
});

test("the environment shows its latest snapshot: counts, reasons, changes, policies and history", async () => {
  const { name, policy, fingerprint } = await failing();
  const page = await admin.get(path(`/${name}`));
  const text = visibleText(page);
  assert.match(text, `${name} #2 Non-compliant latest`);
  assert.match(text, "All 2 Failing 2 Compliant 0 Changed 2");
  assert.match(text, "No provenance : not reported to any flow");
  assert.not.match(text, "requires provenance", "symptoms stand on the page that explains the verdict");
  assert.match(text, `${policy} v1 2 artifacts are non-compliant`);
  assert.match(text, "Changed since #1");
  assert.match(text, "History #1 to #2");
  assert.match(page.text, new RegExp(`class="c-link" href="[^"]*/${name}/2" aria-label="#2, from `));
  assert.match(page.text, `/why?environment=${name}&#38;snapshot=2&#38;fingerprint=${fingerprint}`);
  assert.match(page.text, "data-live=");
  const failingOnly = await show(path(`/${name}?show=failing`));
  assert.match(failingOnly, "api :1.0");
  assert.match(await show(path(`/${name}?show=no-such-state&page=7`)), "Nothing runs");
  const found = await show(path(`/${name}?search=API`));
  assert.match(found, "Filter All 1 Failing Compliant Changed 1 artifact Clear filters");
  assert.match(found, "api :1.0");
  assert.match(await show(path(`/${name}?search=nothing&show=failing`)), "No artifact matches");
});

test("snapshots have addresses by index and by every expression, and lead to their neighbours", async () => {
  const { name } = await failing();
  for (const expression of ["2", "snapshots/2", "~0", "-1", "%232", "@%7Bnow%7D", "@%7B1.hours.ago%7D"]) {
    const page = await admin.get(path(`/${name}/${expression}`));
    assert.ok(page.status === 200 || expression.includes("hours"), `${expression}: ${page.status}`);
  }
  const first = await admin.get(path(`/${name}/1`));
  assert.match(visibleText(first), `${name} #1 Compliant Show the latest`);
  assert.match(first.text, `/environments/${name}/2"`);
  for (const expression of ["3", "~9", "nonsense", "0"])
    assert.ok([400, 404].includes((await admin.get(path(`/${name}/${expression}`))).status), expression);
  assert.is((await admin.get(path("/absent"))).status, 404);
  assert.is((await admin.get(path("/absent/1"))).status, 404);
});

test("the field and the slider above the history show the snapshot of a time", async () => {
  const name = world.environment(at);
  world.report(at, name, [running("a", freshFingerprint())]);
  const [time = 0] = world.times(at, name);
  server.clock.at += 7_200;
  world.report(at, name, []);
  const at1 = new Date((time + 60) * 1000).toISOString().slice(0, 16).replace("T", " ");
  assert.match(await show(path(`/${name}?at=${encodeURIComponent(at1)}`)), `${name} #1`);
  // The slider sends seconds.
  assert.match(await show(path(`/${name}?at=${Math.floor(time) + 60}`)), `${name} #1`);
  assert.match(await show(path(`/${name}?at=${Math.floor(server.clock.at)}`)), `${name} #2`);
  // As in Diff, with the name of the environment or without it.
  const iso = at1.replace(" ", "T");
  for (const [expression, index] of [
    ["#1", 1],
    ["1", 1],
    ["~1", 1],
    ["-1", 2],
    [name, 2],
    [`${name}~1`, 1],
    [`${name}#2`, 2],
    [`@{${iso}:00}`, 1],
    [`${name}@{${iso}:00}`, 1],
    ["@{now}", 2],
    ["0.hours.ago", 2],
    ["0hours", 2],
    [`${iso}Z`, 1],
  ] as const)
    assert.match(await show(path(`/${name}?at=${encodeURIComponent(expression)}`)), `${name} #${index} `, expression);
  for (const wrong of ["~9", "yesterday", "other~1", "#x", "@{2001-02-30T00:00:00}", "2001-02-30", "2999-01-01"]) {
    const page = await admin.get(path(`/${name}?at=${encodeURIComponent(wrong)}`));
    assert.is(page.status, 400, wrong);
    assert.match(page.text, /name="at" value="[^"]+"[^>]* aria-invalid="true"/, wrong);
  }
  assert.match(await show(path(`/${name}?at=2001-01-01`)), `${name} did not exist then`);
});

test("every tab reads well with and without anything in it", async () => {
  const { name, policy } = await failing();
  assert.match(await show(path(`/${name}?tab=events`)), /api\s?:1\.0 started in\s+#\s?2/);
  assert.match(await show(path(`/${name}?tab=events&search=cache&kind=started&days=7`)), "cache :7 started");
  assert.match(await show(path(`/${name}?tab=events&search=absent`)), "No event matches");
  assert.match(await show(path(`/${name}?tab=log`)), "#2 report of Reporter");
  assert.match(await show(path(`/${name}?tab=log`)), "Download CSV");
  assert.match(await show(path(`/${name}?tab=policies`)), policy);
  const diff = await show(path(`/${name}?tab=diff`));
  for (const words of ["changes", "Started 2", "No provenance : not reported to any flow"]) assert.match(diff, words);
  assert.match(await show(path(`/${name}?tab=deployments`)), "No deployments in the last 30 days");
  assert.match(await show(path(`/${name}?tab=settings`)), "Nothing is allowlisted");
  assert.match(await show(path(`/${name}?tab=unknown`)), "Artifacts");
  const bare = world.environment(at);
  for (const tab of ["running", "events", "log", "policies", "deployments", "settings"])
    await show(path(`/${bare}?tab=${tab}`));
  assert.match(await show(path(`/${bare}?tab=diff`)), `${bare} has no snapshot yet.`);
});

test("two snapshots of any environments are compared, and mistakes are shown at the form", async () => {
  const { name } = await failing();
  const other = await failing();
  const text = await show(`/${at.org}/env-diff?left=${name}&right=${encodeURIComponent(`${other.name}#2`)}`);
  assert.match(text, new RegExp(`${name} #2 .*ago ${other.name} #2|${name} #2 just now ${other.name} #2`));
  assert.match(text, `Only ${other.name}`);
  assert.match(await show(`/${at.org}/env-diff`), "Choose two snapshots");
  const wrong = await admin.get(`/${at.org}/env-diff?left=${name}~9&right=${name}@{never}`);
  assert.match(visibleText(wrong), "Write an environment, alone or followed by #12, ~1,");
  assert.match(wrong.text, `<option value="${name}" selected>`);
  assert.match(wrong.text, 'value="~9"');
  for (const [left, right, field, words] of [
    [`${name}~9`, name, "left", `There is no snapshot '${name}~9': ${name} has 2 snapshots.`],
    [name, `${other.name}#9`, "right", `There is no snapshot '${other.name}#9': ${other.name} has 2 snapshots.`],
    [name, "nowhere", "right", `There is no environment 'nowhere' in ${at.org}.`],
  ] as const) {
    const page = await admin.get(`/${at.org}/env-diff?${new URLSearchParams({ left, right })}`);
    const [, message = ""] = new RegExp(`id="${field}-error">([\\s\\S]*?)</p>`).exec(page.text) ?? [];
    assert.is(visibleText({ text: message }), words);
    assert.is(page.text.match(/aria-invalid="true"/g)?.length, 1, words);
    const [, faulty] = /name="(\w+)"[^<>]*aria-invalid/.exec(page.text) ?? [];
    assert.is(faulty, right === "nowhere" ? "right" : `${field}_at`, "the field that is wrong");
  }
  const gone = await admin.get(path(`/${name}/9`));
  assert.is(gone.status, 404);
  assert.match(visibleText(gone), `There is no snapshot '${name}#9': ${name} has 2 snapshots. Search`);
  const odd = await admin.get(path(`/${name}/nonsense`));
  assert.is(odd.status, 400);
  assert.match(
    visibleText(odd),
    /A part of it has another form than this page expects: snapshot expression: Write an env/,
  );
});

test("each side of a comparison has a field for its environment and one for the moment", async () => {
  const { name } = await failing();
  const sides = (left: string, right: string): string =>
    `/${at.org}/env-diff?${new URLSearchParams({ left: name, left_at: left, right: name, right_at: right })}`;
  const first = new RegExp(`${name} #1 .*${name} #2`);
  for (const moment of ["#1", "1", "~1", "-2"]) assert.match(await show(sides(moment, "latest")), first, moment);
  for (const moment of ["~1", "-2", "#-2"])
    assert.match((await admin.get(sides(moment, "#-1"))).text, 'aria-current="true">Previous snapshot<', moment);
  assert.not.match((await admin.get(sides("#-1", "#-2"))).text, 'aria-current="true">Previous snapshot<');
  const at1 = world.times(at, name)[0] ?? 0;
  const iso = new Date(Math.ceil(at1) * 1000).toISOString();
  assert.match(await show(sides(iso.slice(0, 19).replace("T", " "), "")), `${name} #1`);
  const page = await admin.get(
    `/${at.org}/env-diff?left=${encodeURIComponent(`${name}@{${iso.slice(0, 19)}}`)}&right=${name}`,
  );
  assert.match(page.text, `value="${iso.slice(0, 16).replace("T", " ")}`);
  assert.match(page.text, 'value="latest"');
  assert.match(page.text, 'aria-label="Other direction"');
  const wrong = await admin.get(sides("tomorrow-ish", "latest"));
  assert.match(visibleText(wrong), "Write latest, a number such as #12");
  assert.match(wrong.text, 'value="tomorrow-ish"');
  assert.match(wrong.text, 'aria-describedby="left-error"');
});

test("two environments: their names are the title, and what would fail in the other one says so", async () => {
  const { name } = await failing();
  const staging = world.environment(at);
  const stray = freshFingerprint();
  world.report(at, staging, [running("stray:1", stray)]);
  const policy = await server.given.policy(at, { yaml: "artifacts:\n  provenance: {required: true}\n" });
  world.attach(at, name, policy);
  const text = await show(`/${at.org}/env-diff?left=${staging}&right=${name}`);
  assert.match(text, `${staging} and ${name}`);
  assert.match(text, `Would fail in ${name} No provenance : not reported to any flow`);
  assert.not.match(text, "When", "no snapshot makes a difference of two environments");
});

test("a snapshot that a policy turned says so, where no artifact changed", async () => {
  const name = world.environment(at);
  world.report(at, name, [running("api:1.0", freshFingerprint())]);
  const policy = await server.given.policy(at, { yaml: "artifacts:\n  provenance: {required: true}\n" });
  world.attach(at, name, policy);
  assert.match(await show(path(`/${name}/2`)), `Turned non-compliant with policy ${policy} v1 attached by Reporter`);
  const diff = await show(path(`/${name}?tab=diff`));
  assert.match(diff, `with policy ${policy} v1 attached by Reporter`);
  assert.match(diff, "2 changes");
  assert.match(diff, /Unknown\s+Non-compliant\s+No provenance : not reported to any flow/);
  const second = await server.given.policy(at, { yaml: "artifacts: {}\n" });
  world.attach(at, name, second);
  assert.match(await show(path(`/${name}/3`)), new RegExp(`${second} v1 attached by Reporter ?, the verdict stays`));
});

test("a new version of a policy that a report brings into force is nothing that its reporter did", async () => {
  const name = world.environment(at);
  const policy = await server.given.policy(at, { yaml: "artifacts: {}\n" });
  world.attach(at, name, policy);
  world.report(at, name, [running("api:1.0", freshFingerprint())]);
  await server.given.policy(at, { name: policy, yaml: "artifacts:\n  provenance: {required: false}\n" });
  world.report(at, name, [running("api:2.0", freshFingerprint())]);
  const text = await show(path(`/${name}`));
  assert.match(text, new RegExp(`${policy} v1 to v2 with a report of Reporter ?, the verdict stays`));
});

test("what did not change is folded, and a search narrows all kinds", async () => {
  const name = world.environment(at);
  const [web, db] = [freshFingerprint(), freshFingerprint()];
  world.report(at, name, [running("web:1", web), running("db", db)]);
  world.report(at, name, [running("web:2", freshFingerprint()), running("db", db)]);
  const diff = await show(path(`/${name}?tab=diff`));
  assert.match(diff, "1 with the same verdict and instances : db");
  assert.match(diff, "Upgraded 1");
  assert.match(await show(path(`/${name}?tab=diff&kind=unchanged`)), /Same verdict and instances 1\s+db/);
  const narrowed = await show(path(`/${name}?tab=diff&search=nothing-like-this`));
  assert.match(narrowed, "Nothing matches");
  assert.match(narrowed, "All 0 Verdicts 0 Policies 0 Upgraded 0");
});

test("policies are attached and detached, after a question", async () => {
  const { name, policy } = await failing();
  const tab = path(`/${name}?tab=policies`);
  const second = await server.given.policy(at, { yaml: "artifacts: {}\n" });
  assert.is((await admin.submitForm(tab, { form: "attach", policy_names: second })).status, 303);
  assert.match(await show(tab), second);
  const absent = await admin.submitForm(tab, { form: "attach", policy_names: "absent" });
  assert.is(absent.status, 404);
  assert.match(messageOf(absent) ?? "", "absent");
  assert.match(absent.text, 'value="absent"');
  assert.match(
    await show(`${tab}&detach=${policy}`),
    /Detach this policy\? .* Would fail 0 Would pass 2 .* Detach, 2 will pass Cancel/,
  );
  const detached = await admin.submitForm(tab, { form: "detach", policy_names: policy });
  assert.match(detached.location ?? "", "done=detached");
  const { body } = await server.call("GET", `/environments/${at.org}/${name}`, { key: at.key });
  assert.equal(body.policies, [second]);
});

test("the preview of a change in a member says what becomes of its logical environments", async () => {
  const { name, policy } = await failing();
  const turns = world.environment(at, { type: "logical", members: [name] });
  const panel = await show(path(`/${name}?tab=policies&detach=${policy}`));
  assert.match(panel, `Logical environment Verdict Why ${turns} Non-compliant Unknown ${name} would be unknown`);
  const other = await failing();
  const stays = world.environment(at, { type: "logical", members: [name, other.name] });
  const two = await show(path(`/${name}?tab=policies&detach=${policy}`));
  assert.match(two, `The logical environment ${stays} keeps its verdict.`);
});

test("attaching says what it would turn before the button, and the button the consequence", async () => {
  const { name } = await failing();
  const tab = path(`/${name}?tab=policies`);
  const strict = await server.given.policy(at, { yaml: "artifacts:\n  provenance:\n    required: true\n" });
  const other = path(`/${await server.given.environment(at, { name: fresh("bare") })}?tab=policies`);
  assert.match(await show(tab), "Show what would change");
  assert.not.match(await show(tab), "If you attach");
  const shown = await admin.get(`${tab}&policy_names=${strict}`);
  assert.match(
    visibleText(shown),
    new RegExp(`If you attach ${strict} to ${name} evaluated against snapshot #\\d+, nothing saved yet Environment`),
  );
  assert.match(shown.text, /<button class="btn btn-primary" type="submit">Attach/);
  assert.is(await show(tab), await show(tab), "nothing is attached");
  assert.match(
    await show(`${other}&policy_names=${strict}`),
    /Nothing was reported to .* yet, so no verdict changes\./,
  );
  const unknown = visibleText(await admin.get(`${tab}&policy_names=absent`));
  assert.match(unknown, /What would change is not known\. Policy 'absent' does not exist .* Attach without a preview/);
  const both = visibleText(
    await admin.get(`${tab}&policy_names=${strict},${await server.given.policy(at, { yaml: null })}`),
  );
  assert.match(both, new RegExp(`If you attach ${strict} and `));
});

test("an artifact is allowed with a reason and an end, and the snapshot says so", async () => {
  const { name, fingerprint } = await failing();
  const page = path(`/${name}?allow=${fingerprint}&name=api:1.0`);
  assert.match((await admin.get(page)).text, 'value="api:1.0"');
  const entry = { form: "allow", artifact_fingerprint: fingerprint, artifact_name: "api:1.0", description: "" };
  const bare = await admin.submitForm(page, entry);
  assert.is(bare.status, 400);
  assert.match(visibleText(bare), "A reason is required");
  const wrong = await admin.submitForm(page, { ...entry, description: "SEC-1", expires_at: "soon" });
  assert.is(wrong.status, 400);
  assert.match(wrong.text, /id="allow-expires_at-error"/);
  assert.match(wrong.text, 'value="soon"');
  const past = await admin.submitForm(page, { ...entry, description: "SEC-1", expires_at: "2001-01-01" });
  assert.match(visibleText(past), "Expiry must be in the future");
  assert.equal((await server.call("GET", `/allowlists/${at.org}?env_name=${name}`, { key: at.key })).body, []);
  const done = await admin.submitForm(page, {
    ...entry,
    description: "SEC-1 <script>",
    expires_at: "2099-12-31 18:00",
  });
  assert.is(done.status, 303, visibleText(done));
  const settings = await admin.get(path(`/${name}?tab=settings`));
  assert.match(visibleText(settings), "SEC-1 <script>");
  assert.not.match(settings.text, "SEC-1 <script>");
  assert.match(await show(path(`/${name}?tab=settings&allow=${fingerprint}`)), "Change an allowlist entry");
  assert.match(await show(path(`/${name}`)), /Allowlisted .*Accepted by .* until 31 Dec 2099/);
});

test("allowing shows what it turns, and an artifact that the panel was not about is shown first", async () => {
  const { name, policy, fingerprint } = await failing();
  const page = path(`/${name}?tab=settings&allow=`);
  assert.match(await show(page), "Show what would change Cancel");
  const asked = await admin.get(`${page}${fingerprint}`);
  assert.match(asked.text, 'value="api:1.0"', "the name that it runs under");
  const entry = { form: "allow", artifact_fingerprint: fingerprint, artifact_name: "api:1.0", description: "SEC-1" };
  const unseen = await admin.submitForm(page, { ...entry, seen: "" });
  assert.is(unseen.status, 200);
  assert.match(
    visibleText(unseen),
    new RegExp(`SEC-1 .* If ${name} allows this artifact .* Would fail 0 Would pass 1`),
  );
  assert.match(
    visibleText(unseen),
    new RegExp(`accepted by the allowlist No provenance : not .*\\s· ${policy} v1 .*Allow, 1 will pass Cancel`),
    "with the policy, whose lines are not on the page",
  );
  const entries = async () =>
    (await server.call("GET", `/allowlists/${at.org}?env_name=${name}&in_force=true`, { key: at.key })).body;
  assert.equal(await entries(), []);
  assert.is((await admin.submitForm(page, { ...entry, seen: freshFingerprint() })).status, 200);
  assert.equal(await entries(), []);
  assert.is((await admin.submitForm(page, { ...entry, seen: fingerprint })).status, 303);
  assert.is((await entries()).length, 1);
});

test("an allowlist entry ends after a look at what fails then", async () => {
  const { name, fingerprint } = await failing();
  const page = path(`/${name}?tab=settings&disallow=${fingerprint}`);
  assert.match(await show(page), "This artifact is not on the allowlist.");
  const gone = await admin.submitForm(page, { form: "disallow", artifact_fingerprint: fingerprint, description: "x" });
  assert.is(gone.status, 404);
  world.allow(at, name, fingerprint);
  assert.match(await show(path(`/${name}?tab=settings`)), /because .* Change End…/);
  assert.match(await show(page), /End the allowlist entry of x \? .* Would fail 1 .* End, 1 will fail Cancel/);
  const entry = { form: "disallow", artifact_fingerprint: fingerprint, description: "" };
  assert.match(visibleText(await admin.submitForm(page, entry)), "A reason is required");
  const done = await admin.submitForm(page, { ...entry, description: "SEC-2 is done" });
  assert.match(done.location ?? "", "done=disallowed", visibleText(done));
  server.clock.at += 10;
  world.report(at, name, [running("api:1.0", fingerprint)]);
  assert.match(await show(path(`/${name}`)), "Non-compliant");
});

test("settings change the description, the tags and the name, and archive after a question", async () => {
  const name = world.environment(at);
  const tab = path(`/${name}?tab=settings`);
  assert.is((await admin.submitForm(tab, { form: "describe", description: "the <b>cluster</b>" })).status, 303);
  assert.is((await admin.submitForm(tab, { form: "set_tag", key: "team", value: "payments" })).status, 303);
  assert.match(await show(path(`?tag=team:payments`)), "the <b>cluster</b>");
  const taken = world.environment(at);
  const refused = await admin.submitForm(tab, { form: "rename", new_name: taken });
  assert.is(refused.status, 400);
  assert.match(visibleText(refused), "An environment with this name already exists");
  const renamed = fresh("renamed");
  const moved = await admin.submitForm(tab, { form: "rename", new_name: renamed });
  assert.match(moved.location ?? "", `/environments/${renamed}?`);
  const page = path(`/${renamed}?tab=settings`);
  assert.match(await show(`${page}&ask=archive`), "Archive this environment?");
  const archived = await admin.submitForm(page, { form: "archive" });
  assert.match(archived.location ?? "", "done=archived");
  assert.is((await admin.get(path(`/${renamed}`))).status, 404);
});

test("a logical environment groups what runs by member, and its members are changed", async () => {
  const one = world.environment(at);
  const two = world.environment(at);
  const logical = world.environment(at, { type: "logical", members: [one, two] });
  world.report(at, one, [running("api", freshFingerprint())]);
  world.report(at, two, [running("web", freshFingerprint())]);
  const text = await show(path(`/${logical}`));
  assert.match(text, new RegExp(`${one} .*api.* ${two} .*web`));
  assert.not.match(text, "Policies 0");
  const tab = path(`/${logical}?tab=settings`);
  assert.is((await admin.submitForm(tab, { form: "members", included_environments: `${two}\n` })).status, 303);
  const { body } = await server.call("GET", `/environments/${at.org}/${logical}`, { key: at.key });
  assert.equal(body.included_environments, [two]);
  const absent = await admin.submitForm(tab, { form: "members", included_environments: "absent" });
  assert.is(absent.status, 400);
  assert.match(absent.text, /id="members-included_environments-error"/);
});

/** A logical environment of one that fails and one without a snapshot. */
async function logical() {
  const { name } = await failing();
  const silent = world.environment(at);
  const all = world.environment(at, { type: "logical", members: [name, silent] });
  const members = async () =>
    (await server.call("GET", `/environments/${at.org}/${all}`, { key: at.key })).body.included_environments;
  return { all, name, silent, members };
}

test("members are saved after a look at what they turn, and what the panel was not about is shown first", async () => {
  const { all, name, silent, members } = await logical();
  const tab = path(`/${all}?tab=settings`);
  const change = { form: "members", included_environments: silent };
  const asked = await admin.submitForm(tab, { ...change, seen: "" });
  assert.is(asked.status, 200);
  assert.match(
    visibleText(asked),
    new RegExp(
      `If ${all} has these members by the verdicts that members have now, nothing saved yet ` +
        `Logical environment ${all} Non-compliant Unknown Members then 1 ` +
        "Members that decide Member Verdict Why " +
        `${name} Non-compliant no longer a member ${silent} Unknown nothing was reported to it yet ` +
        "Save members, 1 logical environment will be unknown Cancel",
    ),
  );
  assert.match(asked.text, new RegExp(`class="t-name" href="[^"]*/environments/${silent}"`));
  assert.equal(await members(), [name, silent]);
  const other = await admin.submitForm(tab, { form: "members", included_environments: "", seen: `["${silent}"]` });
  assert.match(visibleText(other), "Without members nothing is known, which is never compliant.");
  assert.equal(await members(), [name, silent]);
  assert.is((await admin.submitForm(tab, { ...change, seen: `["${silent}"]` })).status, 303);
  assert.equal(await members(), [silent]);
});

test("members that turn nothing are saved at once, and wrong ones are refused at their field", async () => {
  const { all, name, silent, members } = await logical();
  const tab = path(`/${all}?tab=settings`);
  const change = { form: "members", seen: "" };
  assert.is((await admin.submitForm(tab, { ...change, included_environments: `${silent}\n${name}` })).status, 303);
  assert.equal(await members(), [silent, name]);
  const wrong = await admin.submitForm(tab, { ...change, included_environments: `absent\n${silent}` });
  assert.is(wrong.status, 400);
  assert.match(wrong.text, /id="members-included_environments-error"/);
  assert.not.match(visibleText(wrong), "has these members");
});

test("archiving a member says first what becomes of the logical environments that include it", async () => {
  const { all, name, silent } = await logical();
  const ask = (environment: string) => show(path(`/${environment}?tab=settings&ask=archive`));
  assert.match(
    await ask(name),
    new RegExp(
      `If you archive ${name} by the .* Logical environment ${all} Non-compliant Unknown Members then 1 .* ` +
        `${name} Non-compliant no longer a member ${silent} Unknown nothing was .* ` +
        "Archive, 1 logical environment will be unknown Cancel",
    ),
  );
  assert.match(
    await ask(silent),
    new RegExp(`Logical environment ${all} Non-compliant Members then 1 .* No provenance : not reported`),
  );
  const passing = world.environment(at);
  await server.given.policy(at, { name: "nothing", yaml: "artifacts:\n  provenance: {required: false}\n" });
  world.attach(at, passing, "nothing");
  world.report(at, passing, [running("api", freshFingerprint())]);
  const sound = world.environment(at, { type: "logical", members: [passing] });
  const mixed = world.environment(at, { type: "logical", members: [passing, name] });
  const two = await ask(name);
  assert.match(two, /Logical environments 2 Would fail 0 Would pass 1 Would be unknown 1 Members that decide/);
  assert.match(
    two,
    new RegExp(`${mixed} Non-compliant Compliant Its only member is compliant. ${name} .* no longer a member`),
  );
  assert.match(two, "Archive, 1 logical environment will be unknown");
  assert.match(
    await ask(passing),
    new RegExp(`${sound} Compliant Unknown Without members .* 1 logical environment keeps its`),
  );
  assert.not.match(await ask(all), "If you archive");
});

test("a reader sees everything and changes nothing", async () => {
  const { name, policy, fingerprint } = await failing();
  const page = await reader.get(path(`/${name}`));
  assert.is(page.status, 200);
  assert.not.match(visibleText(page), "Allow it");
  assert.not.match(visibleText(page), "Settings");
  assert.not.match(await show(path(), reader), "New environment");
  assert.not.match(await show(path(`/${name}?tab=policies`), reader), "Detach");
  for (const tab of ["events", "log", "diff", "deployments"]) await show(path(`/${name}?tab=${tab}`), reader);
  const csrf = await reader.readCsrfToken(path(`/${name}`));
  for (const fields of [
    { form: "describe", description: "mine" },
    { form: "rename", new_name: "mine" },
    { form: "archive" },
    { form: "members", included_environments: "", seen: "" },
    { form: "detach", policy_names: policy },
    { form: "allow", artifact_fingerprint: fingerprint, artifact_name: "x", description: "y" },
    { form: "set_tag", key: "a", value: "b" },
  ] as Record<string, string>[])
    assert.is((await reader.post(path(`/${name}`), { csrf, ...fields })).status, 403, fields["form"]);
  const { body } = await server.call("GET", `/environments/${at.org}/${name}`, { key: at.key });
  assert.equal([body.name, body.description, body.policies, body.tags], [name, "", [policy], {}]);
  assert.is((await reader.get(`/${server.given.org().org}/environments`)).status, 403);
});

test("stored markup is shown as text", async () => {
  const name = world.environment(at);
  world.report(at, name, [running('<script>alert("x")</script>', freshFingerprint())]);
  for (const address of [
    path(`/${name}`),
    path(`/${name}?tab=events`),
    path(`/${name}?tab=diff&left=${name}&right=${name}`),
  ]) {
    const page = await admin.get(address);
    assert.match(visibleText(page), '<script>alert("x")');
    assert.not.match(page.text, "<script>alert");
  }
});

test("a snapshot of 1,000 artifacts comes in pages, those that fail first", async () => {
  const name = world.environment(at, { type: "K8S" });
  const all = Array.from({ length: 1_000 }, (_, number) => running(`app-${number}`, freshFingerprint()));
  world.report(at, name, all);
  const page = await admin.get(path(`/${name}`));
  assert.match(visibleText(page), "1 to 25 of 1,000");
  assert.match(await show(path(`/${name}?page=40`)), "976 to 1,000 of 1,000");
  assert.ok(page.text.length < 300_000, String(page.text.length));
});

test.run();
