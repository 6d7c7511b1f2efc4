/** What turned between two snapshots, and why. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { freshCommit, freshFingerprint, startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { running, runningIn } from "./given.ts";

const test = suite("api/environments/snapshot-diff");
let server: TestServer;
let world: ReturnType<typeof runningIn>;
test.before(async () => {
  server = await startServer();
  world = runningIn(server);
});
test.after(() => server.stop());

type At = { org: string; key: string };
const POLICY = "artifacts:\n  provenance:\n    required: true\n";

async function compare(at: At, from: string, to: string, more = ""): Promise<any> {
  const sides = `snappish1=${encodeURIComponent(from)}&snappish2=${encodeURIComponent(to)}`;
  const path = `/snapshot-diff/${at.org}?${sides}${more}`;
  const { status, body } = await server.call("GET", path, { key: at.key });
  assert.is(status, 200, JSON.stringify(body));
  return body;
}
/** The changes of a page, as `kind before > after`. */
const told = ({ data }: { data: any[] }): string[] =>
  data.map(({ kind, before, after, policy }) =>
    policy
      ? `${kind} ${policy.name} ${policy.change} ${policy.before} > ${policy.after}`
      : `${kind} ${before?.name ?? "-"} > ${after?.name ?? "-"}`,
  );

test("a policy that was attached explains the verdict that turned, though nothing else changed", async () => {
  const at = server.given.org();
  const environment = world.environment(at);
  world.report(at, environment, [running("web:1", freshFingerprint())]);
  await server.given.policy(at, { name: "baseline", yaml: POLICY });
  world.attach(at, environment, "baseline");
  const body = await compare(at, `${environment}~1`, environment);
  assert.equal(told(body), ["verdict web:1 > web:1", "policy baseline attached null > 1"]);
  assert.equal([body.from.compliant, body.to.compliant], [null, false]);
  const [verdict, policy] = body.data;
  assert.equal(verdict.after.causes, [{ subject: "No provenance", text: "No provenance: not reported to any flow" }]);
  assert.equal(verdict.after.policies, [{ name: "baseline", version: 1 }]);
  assert.is(policy.at.index, 2);
  const { turned } = body;
  assert.equal([turned.index, turned.cause], [2, "policies"]);
  assert.equal(turned.policies, [{ name: "baseline", change: "attached", before: null, after: 1 }]);
  assert.equal([body.failing_total, body.failing[0].name, body.counts.unchanged], [1, "web:1", 0]);
  const back = await compare(at, environment, `${environment}~1`);
  assert.equal(told(back)[1], "policy baseline detached 1 > null");
  assert.is(back.turned, null, "time goes one way");
});

test("as of a moment, the snapshot in force then is the latest, and later ones are not there", async () => {
  const at = server.given.org();
  const environment = world.environment(at);
  const other = world.environment(at);
  world.report(at, environment, [running("web:1", freshFingerprint())]);
  world.report(at, other, [running("web:1", freshFingerprint())]);
  server.clock.at += 7_200;
  world.report(at, environment, [running("web:2", freshFingerprint())]);
  const moment = (server.clock.at += 3_600);
  world.report(at, environment, [running("web:3", freshFingerprint())]);
  server.clock.at += 86_400;
  const then = `&at=${moment}`;
  const indexes = async (from: string, to: string) => {
    const body = await compare(at, from, to, then);
    return [body.from.index, body.to.index];
  };
  assert.equal(await indexes(`${environment}~1`, environment), [1, 2]);
  assert.equal(await indexes(`${environment}#-2`, `${environment}@{now}`), [1, 2]);
  assert.equal(await indexes(`${environment}@{2.hours.ago}`, environment), [1, 2], "an age counts from the moment");
  const named = await compare(at, environment, environment, `&at=${encodeURIComponent(`${environment}#2`)}`);
  assert.is(named.to.index, 2, "a moment may be a snapshot");
  assert.ok((await compare(at, other, environment)).data.some(({ would }: any) => would !== null));
  assert.ok((await compare(at, other, environment, then)).data.every(({ would }: any) => would === null));
  const path = (to: string, more: string) =>
    `/snapshot-diff/${at.org}?snappish1=${environment}&snappish2=${encodeURIComponent(to)}${more}`;
  const late = await server.call("GET", path(`${environment}#3`, then), { key: at.key });
  assert.equal([late.status, late.body.message.includes("len(snapshots) == 2")], [404, true]);
  for (const wrong of ["&at=yesterday", `&at=${server.clock.at + 60}`]) {
    const { status, body } = await server.call("GET", path(environment, wrong), { key: at.key });
    assert.is(status, 400);
    assert.ok("at" in body.errors, JSON.stringify(body));
  }
  const malformed = await server.call("GET", path(`${environment}@{never}`, then), { key: at.key });
  assert.is(malformed.status, 400);
});

/** What a snapshot changed, as its page of changes says it. */
async function turnAt(at: At, environment: string, index: number): Promise<any> {
  const path = `/snapshots/${at.org}/${environment}/${index}`;
  const { status, body } = await server.call("GET", `${path}?show=changed`, { key: at.key });
  assert.is(status, 200, JSON.stringify(body));
  return (body as { turn: unknown }).turn;
}

test("a snapshot says what turned it: a policy, a start, an exit, or an artifact that ran on", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const known = await server.given.artifact(at, { flow, trail: "t1", name: "web" });
  const environment = world.environment(at);
  await server.given.policy(at, { name: "baseline", yaml: POLICY });
  const stray = freshFingerprint();
  world.report(at, environment, [running("web", known), running("stray", stray)]);
  world.attach(at, environment, "baseline");
  world.report(at, environment, [running("web", known)]);
  world.report(at, environment, [running("web", known), running("stray:2", stray)]);
  world.allow(at, environment, stray);
  const found = [];
  for (const index of [2, 3, 4, 5]) {
    const turn = await turnAt(at, environment, index);
    const { before, after, cause, policies, started, exited, reevaluated, upgrades } = turn;
    found.push({ cause, turned: `${before} > ${after}`, policies: policies.length, started, exited, reevaluated });
    assert.equal([turn.index, upgrades, turn.environment_name], [index, [], null]);
  }
  const nothing = { policies: 0, started: [], exited: [], reevaluated: [] };
  assert.equal(found, [
    { ...nothing, cause: "policies", turned: "null > false", policies: 1, reevaluated: ["stray"] },
    { ...nothing, cause: "report", turned: "false > true", exited: ["stray"] },
    { ...nothing, cause: "report", turned: "true > false", started: ["stray:2"] },
    { ...nothing, cause: "allowlist", turned: "false > true", reevaluated: ["stray:2"] },
  ]);
  assert.is(await turnAt(at, environment, 1), null);
  const whole = await server.call("GET", `/snapshots/${at.org}/${environment}/2?show=all`, { key: at.key });
  assert.is("turn" in (whole.body as object), false, "only the page of what changed has it");
});

test("a snapshot of a logical environment says which member turned it, and how", async () => {
  const at = server.given.org();
  const [one, two] = [world.environment(at), world.environment(at)];
  const group = world.environment(at, { type: "logical", members: [one, two] });
  await server.given.policy(at, { name: "baseline", yaml: POLICY });
  world.report(at, one, [running("web:1", freshFingerprint())]);
  world.attach(at, one, "baseline");
  const { snapshot_count: latest } = server.store.environments.get(world.idOf(at, group));
  const turn = await turnAt(at, group, latest);
  assert.equal([turn.cause, turn.environment_name, turn.after], ["member", one, false]);
  assert.equal(turn.policies, [{ name: "baseline", change: "attached", before: null, after: 1 }]);
  const first = await turnAt(at, group, latest - 1);
  assert.equal(first?.policies ?? [], [], "a member that only came has no changes of its own");
});

test("another version of a policy, an allowlist entry, scaling, starts and exits each have their kind", async () => {
  const at = server.given.org();
  const environment = world.environment(at);
  const [redis, kept, gone, come] = [freshFingerprint(), freshFingerprint(), freshFingerprint(), freshFingerprint()];
  await server.given.policy(at, { name: "baseline", yaml: POLICY });
  world.attach(at, environment, "baseline");
  world.report(at, environment, [running("redis:7", redis), running("kept", kept), running("gone", gone)]);
  world.allow(at, environment, redis);
  await server.given.policy(at, { name: "baseline", yaml: `${POLICY}  attestations:\n    - type: snyk\n` });
  world.report(at, environment, [running("redis:7", redis), running("kept", kept, 1, 2), running("come", come)]);
  const body = await compare(at, `${environment}#1`, environment);
  assert.equal(told(body), [
    "verdict redis:7 > redis:7",
    "policy baseline changed 1 > 2",
    "started - > come",
    "exited gone > -",
    "scaled kept > kept",
  ]);
  const [verdict] = body.data;
  assert.equal([verdict.before.compliant, verdict.after.compliant], [false, true]);
  assert.is(typeof verdict.after.allowed.user_name, "string");
  assert.is(body.data[4].at.index, body.to.index, "scaling has a time, too");
  assert.equal(body.unchanged, []);
  const same = await compare(at, environment, environment);
  assert.equal([same.data, same.unchanged], [[], ["come", "kept", "redis:7"]]);
  assert.equal(body.counts, { verdict: 1, policy: 1, upgraded: 0, started: 1, exited: 1, scaled: 1, unchanged: 0 });
  assert.is(body.turned, null, "it failed before and after");
  assert.equal(told(await compare(at, `${environment}#1`, environment, "&kind=exited")), ["exited gone > -"]);
  const searched = await compare(at, `${environment}#1`, environment, "&search=RED");
  assert.equal(told(searched), ["verdict redis:7 > redis:7"]);
  assert.is(searched.counts.exited, 0, "counts are those of the search");
  assert.equal(told(await compare(at, `${environment}#1`, environment, `&search=${come}`)), ["started - > come"]);
});

test("what runs in both snapshots counts as one artifact by its fingerprint, or its name if it has none", async () => {
  const at = server.given.org();
  const environment = world.environment(at);
  const [twice, renamed, kept] = [freshFingerprint(), freshFingerprint(), freshFingerprint()];
  const both = [
    running("b", twice),
    running("a", twice),
    running("first", renamed),
    running("kept", kept),
    running("unresolved", ""),
    running("other", ""),
  ];
  world.report(at, environment, [...both, running("second", renamed), running("gone", "")]);
  world.report(at, environment, both);
  for (const [from, to, kind] of [
    [`${environment}#1`, environment, "exited gone > -"],
    [environment, `${environment}#1`, "started - > gone"],
  ] as const) {
    const body = await compare(at, from, to);
    assert.equal(told(body), [kind, "scaled first > first"]);
    assert.is(body.counts.unchanged, 4);
    assert.equal(body.unchanged, ["a", "kept", "other"]);
    const whole = await compare(at, from, to, "&kind=unchanged");
    assert.equal([whole.counts, whole.unchanged], [body.counts, body.unchanged], "as where all of it is read");
  }
});

/** Two builds of one image in a flow, the second with the commits that it lists. */
async function builds(at: At, flow: string, commits: object[] = []) {
  const [old, young] = [freshCommit(), freshCommit()];
  const common = { flow, name: "web", filename: "web" };
  const info = (sha1: string, message: string) => ({
    sha1,
    message,
    author: "Ada <ada@example.com>",
    branch: "main",
    timestamp: 1_700_000_000,
    url: `https://git.test/c/${sha1}`,
  });
  const first = await server.given.artifact(at, { ...common, trail: "t1", commit: old });
  const second = await server.given.artifact(at, {
    ...common,
    trail: "t2",
    commit: young,
    git_commit_info: info(young, "Cap the queue\n\nIt grew."),
    commits_list: [info(young, "Cap the queue"), ...commits, info(old, "Before")],
    build_url: "https://ci.test/88043",
  });
  return { old, young, first, second, info };
}

test("an upgrade has its versions, the commits between and who built it", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const between = freshCommit();
  const { young, first, second } = await builds(at, flow, [
    { sha1: between, message: "Retry", author: "Bob", branch: "main", timestamp: 1_700_000_000 },
  ]);
  const environment = world.environment(at);
  world.report(at, environment, [running("acme/web:1.0", first)]);
  world.report(at, environment, [running("acme/web:1.1", second)]);
  const body = await compare(at, `${environment}#1`, `${environment}#2`);
  assert.equal(told(body), ["upgraded acme/web:1.0 > acme/web:1.1"]);
  const [{ before, after, commits, build, at: when }] = body.data;
  assert.equal([after.service, before.version, after.version], ["acme/web", "1.0", "1.1"]);
  assert.equal([after.flow, after.trail], [flow, "t2"]);
  assert.is(when.index, 2);
  assert.is(build.url, "https://ci.test/88043");
  assert.equal(
    commits.items.map(({ sha1, message, author }: any) => ({ sha1, message, author })),
    [
      { sha1: young, message: "Cap the queue", author: "Ada <ada@example.com>" },
      { sha1: between, message: "Retry", author: "Bob" },
    ],
    "without the commit of the older build",
  );
  assert.equal([commits.total, commits.is_complete, commits.is_behind, commits.authors], [2, true, false, 2]);
  const reverse = await compare(at, `${environment}#2`, `${environment}#1`);
  assert.equal([reverse.data[0].commits.total, reverse.data[0].commits.is_behind], [2, true]);
});

test("says when each difference was made, whatever changed about the artifact later", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const environment = world.environment(at);
  const { first, second } = await builds(at, flow);
  const known = await server.given.artifact(at, { flow, trail: "t3", name: "job" });
  const unknown = freshFingerprint();
  await server.given.policy(at, { name: "baseline", yaml: POLICY });
  world.attach(at, environment, "baseline");
  world.report(at, environment, [running("web:1", first), running("job:1", known)]);
  const upgraded = [running("web:2", second), running("job:2", unknown)];
  world.report(at, environment, upgraded);
  await server.given.artifact(at, { flow: await server.given.flow(at), trail: "t", name: "web", fingerprint: second });
  world.report(at, environment, [running("web:2", second, 1, 2), running("job:2", unknown, 1, 2)]);
  const whenOf = async (from: string, to: string): Promise<string[]> => {
    const { data } = await compare(at, `${environment}${from}`, `${environment}${to}`);
    return data.map(({ kind, after, at: when }: any) => `${kind} ${after.name} #${when.index}`);
  };
  const turnedAtOnce = ["verdict job:2 #2", "upgraded job:2 #2", "upgraded web:2 #2"];
  assert.equal(await whenOf("#1", "#2"), turnedAtOnce);
  assert.equal(await whenOf("#1", "#3"), turnedAtOnce);
  assert.equal(await whenOf("#2", "#3"), ["scaled job:2 #3", "scaled web:2 #3"]);
});

test("says that there are more commits where more than 50 builds or long lists lie between", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const environment = world.environment(at);
  const build = (name: string, commits: number) =>
    server.given.artifact(at, {
      flow,
      trail: "t",
      name,
      filename: name,
      commit: freshCommit(),
      commits_list: Array.from({ length: commits }, () => ({
        sha1: freshCommit(),
        message: "x".repeat(1_000),
        author: "Ada",
        branch: "main",
        timestamp: 1_700_000_000,
      })),
    });
  const [first, big] = [await build("many", 0), await build("big", 0)];
  world.report(at, environment, [running("many:1", first), running("big:1", big)]);
  for (let count = 0; count < 50; count++) await build("many", 0);
  for (let count = 0; count < 24; count++) await build("big", 50);
  const [last, bigger] = [await build("many", 0), await build("big", 0)];
  world.report(at, environment, [running("many:2", last), running("big:2", bigger)]);
  world.report(at, environment, [running(":3", ""), running("many:2", last), running("big:2", bigger)]);
  const { data } = await compare(at, `${environment}#1`, environment);
  const found = data.map(({ kind, after, commits, at: when }: any) => ({
    [`${kind} ${after.name}`]: [commits?.is_complete ?? null, when?.index ?? null],
  }));
  assert.equal(Object.assign({}, ...found), {
    "upgraded big:2": [false, 2],
    "upgraded many:2": [false, 2],
    "started :3": [null, null],
  });
  const many = data.find(({ after }: any) => after.name === "many:2");
  assert.equal([many.commits.total, many.commits.items.length], [50, 10]);
});

test("says with which upgrade the verdict turned", async () => {
  const at = server.given.org();
  const environment = world.environment(at);
  const flow = await server.given.flow(at);
  const known = await server.given.artifact(at, { flow, trail: "t1", name: "web" });
  await server.given.policy(at, { name: "baseline", yaml: POLICY });
  world.attach(at, environment, "baseline");
  world.report(at, environment, [running("web:1", known)]);
  world.report(at, environment, [running("web:2", freshFingerprint())]);
  world.report(at, environment, [running("web:2", freshFingerprint())]);
  const {
    turned,
    snapshots_between: between,
    failing_total: failing,
  } = await compare(at, `${environment}#1`, environment);
  assert.equal([turned.index, turned.upgrades, turned.started], [2, [{ service: "web", before: "1", after: "2" }], []]);
  assert.equal([between, failing], [1, 1]);
});

test("a thousand upgrades are sets first, then pages of a list with true totals, failing first", async () => {
  const at = server.given.org();
  const environment = world.environment(at);
  const prints = (count: number) => Array.from({ length: count }, freshFingerprint);
  const services = (version: string, all: string[]) =>
    all.map((print, index) => running(`tenant-${String(index).padStart(4, "0")}:${version}`, print));
  const [old, young] = [prints(1_000), prints(1_000)];
  world.report(at, environment, [...services("1", old), running("odd:5", freshFingerprint())]);
  world.report(at, environment, [...services("2", young), running("odd:6", freshFingerprint())]);
  const body = await compare(at, `${environment}#1`, environment, "&per_page=10");
  assert.equal(
    body.sets.map(({ total, before, after, compliant, non_compliant }: any) => ({
      total,
      before,
      after,
      compliant,
      non_compliant,
    })),
    [
      { total: 1_000, before: "1", after: "2", compliant: 0, non_compliant: 0 },
      { total: 1, before: "5", after: "6", compliant: 0, non_compliant: 0 },
    ],
  );
  assert.equal([body.counts.upgraded, body.pagination.total, body.pagination.page_count], [1_001, 1_001, 101]);
  assert.is(body.data.length, 10);
  const odd = await compare(at, `${environment}#1`, environment, `&set=${body.sets[1].id}`);
  assert.equal([told(odd), odd.pagination.total], [["upgraded odd:5 > odd:6"], 1]);
  assert.equal((await compare(at, `${environment}#1`, environment, "&set=none")).pagination.total, 0);
  const last = await compare(at, `${environment}#1`, environment, "&per_page=10&page=101");
  assert.equal(told(last), ["upgraded tenant-0999:1 > tenant-0999:2"]);
});

test("two environments are compared without times, and members of a logical one each with itself", async () => {
  const at = server.given.org();
  const [one, two] = [world.environment(at), world.environment(at)];
  const group = world.environment(at, { type: "logical", members: [one, two] });
  const print = freshFingerprint();
  world.report(at, one, [running("web:1", print)]);
  world.report(at, two, [running("web:2", freshFingerprint()), running("db", freshFingerprint())]);
  const between = await compare(at, one, two);
  assert.equal(told(between), ["upgraded web:1 > web:2", "started - > db"]);
  assert.equal([between.data[0].at, between.snapshots_between, between.turned], [null, null, null]);
  world.report(at, one, []);
  const members = await compare(at, `${group}~1`, group);
  assert.equal(told(members), ["exited web:1 > -"]);
  assert.is(members.data[0].before.environment_name, one);
  assert.is(members.counts.unchanged, 2);
});

test("between two environments: what the newer version would get in the other one, and why", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const { first, second } = await builds(at, flow);
  const [staging, prod] = [world.environment(at), world.environment(at)];
  const yaml = "artifacts:\n  attestations:\n    - {name: release-approval, type: generic}\n";
  await server.given.policy(at, { name: "prod-baseline", yaml });
  world.attach(at, prod, "prod-baseline");
  const stray = freshFingerprint();
  world.report(at, staging, [running("web:2", second), running("stray:1", stray)]);
  world.report(at, prod, [running("web:1", first)]);
  const wouldOf = (body: any): unknown => body.data.map(({ kind, would }: any) => ({ kind, would }));
  const missing = { subject: "release-approval", text: "release-approval is missing" };
  const fails = { environment: prod, artifact: "before", compliant: false, allowed: false, further_causes: 0 };
  const there = await compare(at, staging, prod);
  assert.equal(wouldOf(there), [
    { kind: "verdict", would: null },
    { kind: "policy", would: null },
    { kind: "upgraded", would: { ...fails, causes: [missing] } },
    {
      kind: "exited",
      would: { ...fails, causes: [{ subject: "No provenance", text: "No provenance: not reported to any flow" }] },
    },
  ]);
  const back = await compare(at, prod, staging, "&kind=upgraded");
  // What comes over is the newer version, whichever side it is on.
  assert.equal(wouldOf(back), [{ kind: "upgraded", would: { ...fails, artifact: "after", causes: [missing] } }]);
  world.attach(at, staging, "prod-baseline");
  await server.given.attestation(at, { flow, trail: "t2", fingerprint: second, name: "release-approval" });
  assert.equal(wouldOf(await compare(at, staging, prod, "&kind=upgraded")), [
    { kind: "upgraded", would: { ...fails, compliant: true, causes: [] } },
  ]);
});

test("says nothing about what would be in a past snapshot, a logical environment, or one of itself", async () => {
  const at = server.given.org();
  const [staging, prod] = [world.environment(at), world.environment(at)];
  const group = world.environment(at, { type: "logical", members: [prod] });
  await server.given.policy(at, { name: "baseline", yaml: POLICY });
  world.attach(at, prod, "baseline");
  world.report(at, staging, [running("web:1", freshFingerprint())]);
  world.report(at, prod, [running("api:1", freshFingerprint())]);
  world.report(at, prod, [running("api:1", freshFingerprint())]);
  const only = async (from: string, to: string): Promise<unknown> =>
    (await compare(at, from, to, "&kind=exited")).data.map(({ would }: any) => would?.compliant ?? null);
  assert.equal(await only(staging, prod), [false]);
  assert.equal(await only(staging, `${prod}~1`), [null]);
  assert.equal(await only(staging, group), [null]);
  const own = await compare(at, `${prod}~1`, prod);
  assert.equal(
    own.data.map(({ kind, would }: any) => ({ kind, would })),
    [{ kind: "upgraded", would: null }],
  );
});

test("names the latest compliant snapshot of an environment that is not compliant", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const known = await server.given.artifact(at, { flow, trail: "t1", name: "web" });
  const environment = world.environment(at);
  await server.given.policy(at, { name: "baseline", yaml: POLICY });
  world.attach(at, environment, "baseline");
  world.report(at, environment, [running("web", known)]);
  world.report(at, environment, [running("web", known), running("stray:1", freshFingerprint())]);
  world.report(at, environment, [running("web", known), running("stray:2", freshFingerprint())]);
  const body = await compare(at, `${environment}~1`, environment);
  assert.is(body.turned, null);
  assert.is(body.last_compliant.index, body.to.index - 2);
  assert.is((await compare(at, `${environment}~1`, `${environment}#${body.to.index - 2}`)).last_compliant, null);
});

test("refuses what is no expression at its parameter, and names a snapshot that does not exist", async () => {
  const at = server.given.org();
  const environment = world.environment(at);
  world.report(at, environment, []);
  const ask = (query: string) => server.call("GET", `/snapshot-diff/${at.org}?${query}`, { key: at.key });
  const wrong = await ask(`snappish1=${environment}&snappish2=${environment}@{never}`);
  assert.is(wrong.status, 400);
  assert.equal(Object.keys(wrong.body.errors), ["snappish2"]);
  const none = await ask(`snappish1=${environment}&snappish2=${environment}%239`);
  assert.is(none.status, 404);
  assert.match(none.body.message, `Snapshot '${environment}#9' resolves to '${environment}#9'`);
  assert.is((await ask(`snappish1=${environment}&snappish2=${environment}&kind=other`)).status, 400);
  const other = server.given.org();
  const foreign = await server.call(
    "GET",
    `/snapshot-diff/${at.org}?snappish1=${environment}&snappish2=${environment}`,
    {
      key: other.key,
    },
  );
  assert.is(foreign.status, 403);
});

test("a damaged evaluation has no flow and says that it cannot be shown, and the rest stays", async () => {
  const at = server.given.org();
  const environment = world.environment(at);
  world.report(at, environment, [running("web:1", freshFingerprint())]);
  world.report(at, environment, [running("web:2", freshFingerprint())]);
  server.db.prepare("UPDATE evaluations SET facts_json = 'x', verdicts_json = 'x'").run();
  server.db.prepare("UPDATE snapshots SET policy_versions_json = 'x'").run();
  const { data } = await compare(at, `${environment}#1`, environment);
  const [policy, upgraded] = data;
  assert.equal([data.length, upgraded.kind, upgraded.after.flow, upgraded.commits], [2, "upgraded", null, null]);
  assert.match(upgraded.after.causes[0].text, /^This record is damaged/);
  assert.match(policy.policy.name, /^This record is damaged/);
  assert.equal([policy.policy.change, policy.policy.before, policy.policy.after], ["changed", null, null]);
});

test.run();
