/** What changed in a period: every kind of change, its permission, its bounds, and every refusal. */
import { spawnSync } from "node:child_process";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { CHANGE_KINDS } from "../../../src/domain/snapshot/period-changes.ts";
import { fresh, freshCommit, freshFingerprint, startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { REPORTER, running, runningIn } from "./given.ts";

const test = suite("api/environments/period-changes");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
type Json = Record<string, any>;

const DAY = 86_400;
const HOUR = 3_600;
const POLICY = "artifacts:\n  provenance:\n    required: true\n";

async function read(at: At, query: Record<string, string> = {}): Promise<Json> {
  const { status, body } = await server.call("GET", `/changes/${at.org}?${new URLSearchParams(query)}`, {
    key: at.key,
  });
  assert.is(status, 200, JSON.stringify(body));
  return body;
}
const refuse = (at: At, query: Record<string, string>) =>
  server.call("GET", `/changes/${at.org}?${new URLSearchParams(query)}`, { key: at.key });
const textsOf = ({ data }: Json): string[] => data.map(({ text }: Json) => text);
const only = ({ data }: Json): Json => {
  assert.is(data.length, 1, JSON.stringify(data));
  return data[0];
};
const put = async (method: string, path: string, at: At, body: unknown): Promise<void> => {
  const answer = await server.call(method, path, { key: at.key, body });
  assert.ok(answer.status < 300, answer.text);
};

test("is empty where nothing happened, and names the period and what one may read", async () => {
  const at = server.given.org();
  const body = await read(at, { from: "2023-01-01", to: "2023-01-02" });
  const january = Date.parse("2023-01-01T00:00:00Z") / 1000;
  assert.equal(body, {
    from: january,
    to: january + 2 * DAY - 1e-6,
    since: january,
    counts: Object.fromEntries(CHANGE_KINDS.map((kind) => [kind, 0])),
    turned: { non_compliant: 0, compliant: 0 },
    environments: [],
    environments_total: 0,
    unchanged: [],
    unchanged_total: 0,
    data: [],
    pagination: { total: 0, page: 1, per_page: 50, page_count: 0 },
  });
});

test("an upgrade says what it replaced, with commits, build and pull requests, and takes the exit along", async () => {
  const at = server.given.org();
  const { report } = runningIn(server);
  const [flow, prod] = [await server.given.flow(at), await server.given.environment(at)];
  const [c1, c2] = [freshCommit(), freshCommit()];
  const repo_info = { id: "17", name: "acme/shop", url: "https://github.com/acme/shop", provider: "github" };
  const commitUrl = (sha: string): string => `https://github.com/acme/shop/commit/${sha}`;
  const build = (trail: string, commit: string): Promise<string> =>
    server.given.artifact(at, { flow, trail, name: "shop", commit, commit_url: commitUrl(commit), repo_info });
  const [old, young] = [await build("one", c1), await build("two", c2)];
  const pull = { state: "MERGED", author: "ada", commits: [], merge_commit: c2 };
  await server.given.attestation(at, {
    flow,
    trail: "two",
    kind: "pull_request",
    git_provider: "github",
    pull_requests: [
      { ...pull, url: "https://github.com/acme/shop/pull/17", title: "Pay faster" },
      { ...pull, url: "https://github.com/acme/shop/pull/19" },
    ],
  });
  report(at, prod, [running("acme/shop:1.0", old)]);
  const before = server.clock.at;
  report(at, prod, [running("acme/shop:1.1", young)]);
  const body = await read(at, { from: String(before + 0.5), environment: prod });
  const { id, timestamp, ...upgrade } = only(body);
  assert.ok(timestamp > before);
  assert.match(id, /^[0-9a-f-]+\/2\/upgraded\/\d+$/);
  const environmentPage = `http://assay.test/${at.org}/environments/${prod}/2`;
  const { html_url, ...artifact } = upgrade.artifact;
  assert.match(html_url, new RegExp(`/${at.org}/flows/${flow}/artifacts/${young}\\?artifact_id=`));
  assert.equal(
    { ...upgrade, artifact },
    {
      kind: "upgraded",
      text: `acme/shop went from 1.0 to 1.1 in ${prod}`,
      environment_name: prod,
      snapshot_index: 2,
      by: REPORTER.displayName,
      compliant: { before: null, after: null },
      causes: [],
      further_causes: 0,
      artifact: { name: "acme/shop:1.1", fingerprint: young, version: "1.1", instances_before: 0, instances_after: 1 },
      replaced: { name: "acme/shop:1.0", fingerprint: old, version: "1.0" },
      build: {
        flow_name: flow,
        trail_name: "two",
        reported_by: upgrade.build.reported_by,
        build_url: "https://ci.test/1",
        git_commit: c2,
        commit_url: commitUrl(c2),
        compare_url: `https://github.com/acme/shop/compare/${c1}...${c2}`,
        pull_requests: [
          { url: "https://github.com/acme/shop/pull/17", title: "Pay faster", author: "ada" },
          { url: "https://github.com/acme/shop/pull/19", title: null, author: "ada" },
        ],
      },
      commits: {
        total: 1,
        is_complete: true,
        is_behind: false,
        items: [{ sha1: c2, message: null, author: null, url: commitUrl(c2) }],
        authors: 0,
        compare_url: `https://github.com/acme/shop/compare/${c1}...${c2}`,
      },
      policy: null,
      allowlist: null,
      member: null,
      key: null,
      record: null,
      last_reported_at: null,
      html_url: environmentPage,
    },
  );
});

test("an upgrade over several builds has the commits of all of them, in every environment, newest first", async () => {
  const at = server.given.org();
  const { report } = runningIn(server);
  const [flow, prod, eu] = [
    await server.given.flow(at),
    await server.given.environment(at),
    await server.given.environment(at),
  ];
  const shas = [freshCommit(), freshCommit(), freshCommit()];
  const prints: string[] = [];
  for (const [index, commit] of shas.entries())
    prints.push(await server.given.artifact(at, { flow, trail: `build-${index}`, name: "shop", commit }));
  const [old = "", , young = ""] = prints;
  for (const env of [prod, eu]) report(at, env, [running("shop:1", old)]);
  const before = server.clock.at;
  for (const env of [prod, eu]) report(at, env, [running("shop:3", young)]);
  const body = await read(at, { from: String(before + 0.5) });
  const [first, second] = body.data.map(({ commits }: Json) => ({
    ...commits,
    items: commits.items.map(({ sha1 }: Json) => sha1),
  }));
  assert.equal(first, {
    total: 2,
    is_complete: true,
    is_behind: false,
    items: [shas[2], shas[1]],
    authors: 0,
    compare_url: null,
  });
  assert.equal(second, first);
  report(at, prod, [running("shop:1", old)]);
  const [back] = (await read(at, { environment: prod })).data;
  assert.equal([back.commits.is_behind, back.commits.total], [true, 2]);
});

test("an exit that no upgrade explains is listed, also of what an upgrade had replaced before", async () => {
  const at = server.given.org();
  const { report } = runningIn(server);
  const [flow, prod] = [await server.given.flow(at), await server.given.environment(at)];
  const [one, two] = [
    await server.given.artifact(at, { flow, trail: "one", name: "shop" }),
    await server.given.artifact(at, { flow, trail: "two", name: "shop" }),
  ];
  report(at, prod, [running("shop:1", one)]);
  report(at, prod, [running("shop:1", one), running("shop:2", two)]);
  report(at, prod, [running("shop:2", two)]);
  report(at, prod, [running("shop:1", one)]);
  report(at, prod, []);
  assert.equal(textsOf(await read(at, { environment: prod })), [
    `shop:1 exited in ${prod}`,
    `shop went from 2 to 1 in ${prod}`,
    `shop went from 1 to 2 in ${prod}`,
    `shop:1 started in ${prod}`,
  ]);
});

test("a verdict that turned says why, and what had been wrong when it turned back", async () => {
  const at = server.given.org();
  const { report } = runningIn(server);
  const prod = await server.given.environment(at);
  const policy = await server.given.policy(at, { yaml: POLICY });
  const print = freshFingerprint();
  report(at, prod, [running("shell", print)]);
  const begin = server.clock.at;
  await put("POST", `/environments/${at.org}/${prod}/policies`, at, { policy_names: [policy] });
  const red = await read(at, { from: String(begin + 0.5), environment: prod });
  assert.equal(textsOf(red), [
    `${prod} turned non-compliant`,
    `shell turned non-compliant in ${prod}`,
    `Policy ${policy} v1 was attached to ${prod}`,
  ]);
  const [whole, artifact, attached] = red["data"];
  const cause = { subject: "No provenance", text: "No provenance: not reported to any flow" };
  assert.equal([whole.causes, artifact.causes], [[cause], [cause]]);
  assert.equal([whole.artifact, whole.compliant], [null, { before: null, after: false }]);
  assert.equal(artifact.compliant, { before: null, after: false });
  assert.equal(attached.policy, { name: policy, change: "attached", before: null, after: 1, comment: null });
  assert.equal(red["turned"], { non_compliant: 1, compliant: 0 });
  assert.equal(red["environments"], [
    {
      name: prod,
      type: "K8S",
      total: 3,
      first_snapshot: 2,
      last_snapshot: 2,
      compliant_before: null,
      compliant_after: false,
    },
  ]);

  const turned = server.clock.at;
  await put("PUT", `/allowlists/${at.org}/${prod}`, at, {
    artifact_fingerprint: print,
    artifact_name: "shell",
    description: "Vendor image, SEC-1",
    expires_at: Math.floor(turned) + 30 * DAY,
  });
  const green = await read(at, { from: String(turned + 0.5), environment: prod });
  assert.equal(
    green["data"].map(({ kind, text }: Json) => [kind, text.replace(/ until .*/, "")]),
    [
      ["verdict", `${prod} turned compliant`],
      ["verdict", `shell turned compliant in ${prod}`],
      ["allowlist", `shell was allowed in ${prod}`],
    ],
  );
  assert.equal(green["data"][1].causes, [cause], "what had been wrong");
  assert.equal(green["data"][2].allowlist, {
    reason: "Vendor image, SEC-1",
    expires_at: Math.floor(turned) + 30 * DAY,
  });
  assert.equal(green["turned"], { non_compliant: 0, compliant: 1 });

  const last = server.clock.at;
  await put("DELETE", `/environments/${at.org}/${prod}/policies`, at, { policy_names: [policy] });
  assert.equal(textsOf(await read(at, { from: String(last + 0.5), environment: prod })), [
    `shell has no verdict any more in ${prod}`,
    `Policy ${policy} v1 was detached from ${prod}`,
  ]);
});

test("an upgrade to something that fails is also a verdict that turned", async () => {
  const at = server.given.org();
  const { report } = runningIn(server);
  const [flow, prod] = [await server.given.flow(at), await server.given.environment(at)];
  const policy = await server.given.policy(at, {
    yaml: "artifacts:\n  attestations:\n    - name: tests\n      type: generic\n",
  });
  const [good, bad] = [
    await server.given.artifact(at, { flow, trail: "one", name: "shop" }),
    await server.given.artifact(at, { flow, trail: "two", name: "shop" }),
  ];
  await server.given.attestation(at, { flow, trail: "one", name: "tests", fingerprint: good });
  await put("POST", `/environments/${at.org}/${prod}/policies`, at, { policy_names: [policy] });
  report(at, prod, [running("shop:1", good)]);
  const begin = server.clock.at;
  report(at, prod, [running("shop:2", bad)]);
  const body = await read(at, { from: String(begin + 0.5), environment: prod });
  assert.equal(
    body["data"].map(({ kind, text, compliant }: Json) => [kind, text, compliant]),
    [
      ["verdict", `${prod} turned non-compliant`, { before: true, after: false }],
      ["verdict", `shop:2 turned non-compliant in ${prod}`, { before: true, after: false }],
      ["upgraded", `shop went from 1 to 2 in ${prod}`, { before: true, after: false }],
    ],
  );
  for (const { causes } of body["data"]) assert.is(causes[0].text, "tests is missing");
});

test("scaling that came with another change is listed, and an artifact that got provenance", async () => {
  const at = server.given.org();
  const { report } = runningIn(server);
  const [flow, prod] = [await server.given.flow(at), await server.given.environment(at)];
  const [print, other] = [freshFingerprint(), freshFingerprint()];
  report(at, prod, [running("web", print, 1)]);
  report(at, prod, [running("web", print, 1, 2, 3), running("tool", other)]);
  await server.given.artifact(at, { flow, trail: "one", name: "tool", fingerprint: other });
  report(at, prod, [running("web", print, 1, 2, 3), running("tool", other)]);
  const body = await read(at, { environment: prod, kinds: "scaled,provenance" });
  assert.equal(textsOf(body), [`tool got other provenance in ${prod}`, `web was scaled from 1 to 3 in ${prod}`]);
  const [, scaled] = body["data"];
  assert.equal([scaled.artifact.instances_before, scaled.artifact.instances_after], [1, 3]);
  assert.is(body["counts"].started, 2, "counts are of all kinds");
  assert.is(body["pagination"].total, 2);
});

test("the verdict on an environment has the causes of what fails, however much else started", async () => {
  const at = server.given.org();
  const { report, attach } = runningIn(server);
  const [flow, prod] = [await server.given.flow(at), await server.given.environment(at)];
  attach(at, prod, await server.given.policy(at, { yaml: POLICY }));
  const build = (name: string): Promise<string> => server.given.artifact(at, { flow, trail: "one", name });
  const known = [await build("a"), await build("b"), await build("c"), await build("d")] as const;
  const late = freshFingerprint();
  report(at, prod, [running("a", known[0])]);
  const others = [running("b", known[1]), running("c", known[2]), running("d", known[3])];
  report(at, prod, [running("a", known[0]), ...others, running("late", late)]);
  const turned = await read(at, { environment: prod, kinds: "verdict" });
  assert.equal(textsOf(turned), [`${prod} turned non-compliant`]);
  assert.is(only(turned)["causes"].length, 1);
  assert.equal(await read(at, { environment: prod, kinds: "started", per_page: "2", page: "2" }).then(textsOf), [
    `d started in ${prod}, compliant`,
    `late started in ${prod}, non-compliant`,
  ]);
});

test("policies of the organization: created, changed, described", async () => {
  const at = server.given.org();
  const policy = await server.given.policy(at, { yaml: POLICY });
  await server.given.policy(at, { name: policy, yaml: `${POLICY}\n` });
  const described = await server.call("PUT", `/policies/${at.org}`, {
    key: at.key,
    form: { field: "payload", json: { name: policy, description: "What may run", type: "env" } },
  });
  assert.is(described.status, 200, described.text);
  const body = await read(at, { kinds: "policy" });
  assert.equal(textsOf(body), [
    `The description of policy ${policy} was changed`,
    `Policy ${policy} v2 was saved`,
    `Policy ${policy} was created`,
  ]);
  assert.equal(
    body["data"].map((one: Json) => one["policy"]),
    [
      { name: policy, change: "described", before: null, after: null, comment: null },
      { name: policy, change: "version", before: 1, after: 2, comment: null },
      { name: policy, change: "created", before: null, after: 1, comment: null },
    ],
  );
  assert.is(body["data"][0].html_url, `http://assay.test/${at.org}/policies/${policy}`);
});

test("a new version of a policy that turned a verdict is in force in its environments", async () => {
  const at = server.given.org();
  const { report } = runningIn(server);
  const prod = await server.given.environment(at);
  const policy = await server.given.policy(at, { yaml: "artifacts: {}\n" });
  report(at, prod, [running("shell", freshFingerprint())]);
  await put("POST", `/environments/${at.org}/${prod}/policies`, at, { policy_names: [policy] });
  await server.given.policy(at, { name: policy, yaml: POLICY });
  await server.settled();
  const { data } = await read(at, { environment: prod, kinds: "policy" });
  assert.equal(data[0]?.policy, { name: policy, change: "in_force", before: 1, after: 2, comment: null });
});

test("members and keys are for those who may read the audit log", async () => {
  const at = server.given.org();
  const reader = { org: at.org, key: server.given.user(at.org, "reader") };
  await put("POST", `/service-accounts/${at.org}`, at, { name: "ci", privilege: "member" });
  const created = await server.call("POST", `/service-accounts/${at.org}/ci/api-keys`, {
    key: at.key,
    body: { description: "CI" },
  });
  assert.is(created.status, 201, created.text);
  await put("POST", `/service-accounts/${at.org}/ci/api-keys/${created.body.id}/rotate`, at, {});
  const body = await read(at, { kinds: "member,key" });
  assert.equal(textsOf(body).slice(0, 3), [
    "A key of ci was rotated",
    "A key of ci was created",
    "ci was added as member",
  ]);
  const [rotated, , member] = body["data"];
  assert.equal(rotated.key, { id: created.body.id, account: "ci", change: "rotated" });
  assert.equal(member.member, { name: "ci", user_name: `${at.org}/ci`, role: "member", previous_role: null });
  assert.is(member.html_url, `http://assay.test/${at.org}/settings/service-accounts/ci`);

  const theirs = await read(reader);
  assert.equal(
    theirs["data"].filter(({ kind }: Json) => kind === "member" || kind === "key"),
    [],
  );
  assert.equal([theirs["counts"].member, theirs["counts"].key, theirs["counts"].record], [null, null, null]);
  for (const kinds of ["key", "member", "record", "member,policy"]) {
    const { status, body: refusal } = await refuse(reader, { kinds });
    assert.is(status, 403);
    assert.equal(Object.keys(refusal), ["message"]);
  }
});

test("one person has one name, whatever changed", async () => {
  const at = server.given.org();
  const admin = server.store.users.find(`${at.org}-admin`) as { id: number };
  server.store.users.updateProfile(admin.id, { displayName: "Rita Mann", email: null });
  await server.given.policy(at, { name: "rules", yaml: POLICY });
  await put("POST", `/service-accounts/${at.org}`, at, { name: "ci", privilege: "member" });
  await put("POST", `/service-accounts/${at.org}/ci/api-keys`, at, { description: "CI" });
  await server.given.flow(at, { name: "payments" });
  const { data } = await read(at, { kinds: "policy,member,key,record" });
  assert.equal([...new Set(data.map(({ kind, by }: Json) => `${kind} ${by}`))].slice(0, 4), [
    "record Rita Mann",
    "key Rita Mann",
    "member Rita Mann",
    "policy Rita Mann",
  ]);
});

/** Appends entries to the audit log as if operations had. @returns their times, newest first */
function audit({ org }: At, entries: readonly { event: string; detail?: Json }[]): number[] {
  const { id } = server.store.organizations.find(org) as { id: number };
  for (const { event, detail = null } of entries) {
    server.clock.at += 1;
    server.store.auditLog.append({
      organizationId: id,
      operation: "op",
      event,
      target: "/api/v2/controls/acme/C-1",
      requestId: "r",
      detail,
      actor: { kind: "user", publicId: "p", name: "ann", keyPublicId: "k" },
    });
  }
  return server.store.auditLog.listLatest(id, entries.length).map(({ timestamp }) => timestamp);
}

test("what was reported is no change, and however much of it there is, changes before it are listed", async () => {
  const at = server.given.org();
  const ofType = (type: string) => ({ attestation_name: "scan", attestation_type: type, is_compliant: true });
  audit(at, [
    { event: "control.created", detail: { control: "C-1" } },
    ...["service_account.updated", "environment.reported", "policy.put", "api_key.used"].map((event) => ({ event })),
    { event: "attestation.reported", detail: ofType("override") },
    ...Array.from({ length: 1_001 }, () => ({ event: "attestation.reported", detail: ofType("generic") })),
    { event: "api_key.revoked", detail: { owner: "ci" } },
  ]);
  const told = [
    "A key of ci was revoked",
    "Attestation scan was overridden as compliant",
    "Control C-1 was created",
    `${at.org}-admin was added as admin`,
  ];
  assert.equal(textsOf(await read(at)), told);
  const { text } = await feed(at);
  assert.equal(text.match(/(?<=<title type="text">)[^<]+/g), told);
});

test("of more entries than are read the newest are listed, and since says from when on they are complete", async () => {
  const at = server.given.org();
  const times = audit(
    at,
    Array.from({ length: 5_001 }, () => ({ event: "control.edited" })),
  );
  const { since, from, counts } = await read(at);
  assert.equal({ since, records: counts.record }, { since: times[4_999], records: 5_000 });
  assert.ok(from < since);
});

test("lists an environment that is no longer reported, at the time at which its report became too old", async () => {
  const at = server.given.org();
  const own = await startServer();
  try {
    const there = own.given.org();
    const { environment, report, attach } = runningIn(own);
    const prod = environment(there);
    attach(there, prod, await own.given.policy(there, { yaml: POLICY }));
    report(there, prod, [running("web", freshFingerprint())]);
    own.db.prepare("UPDATE environments SET last_reported_at = ?").run(own.clock.at);
    const reported = own.clock.at;
    const listed = async (query: string): Promise<Json[]> =>
      (await own.call("GET", `/changes/${there.org}?kinds=stale&${query}`, { key: there.key })).body.data;
    own.clock.at += DAY - 2 * HOUR;
    assert.equal(await listed("from=2days&to=2030-01-01"), [], "not yet");
    own.clock.at += 3 * HOUR;
    const [stale, ...more] = await listed("from=2days");
    assert.equal(more, []);
    assert.equal(
      [stale?.["text"], stale?.["timestamp"], stale?.["last_reported_at"]],
      [`No report from ${prod} for 24 h`, reported + DAY, reported],
    );
    assert.equal(await listed("from=10mins"), [], "it was stale before");
    const { body } = await own.call("GET", `/changes/${there.org}?from=10hours`, { key: there.key });
    const [{ total: _, type: __, ...place }] = body.environments;
    assert.equal(
      place,
      { name: prod, first_snapshot: null, last_snapshot: null, compliant_before: false, compliant_after: false },
      "without a snapshot in the period, it has the verdict of before",
    );
    assert.equal(body.turned, { non_compliant: 0, compliant: 0 });
  } finally {
    await own.stop();
  }
  assert.equal((await read(at, { kinds: "stale" }))["data"], []);
});

test("a logical environment has the changes of its members, and its own verdict", async () => {
  const at = server.given.org();
  const { environment, report, attach } = runningIn(server);
  const policy = await server.given.policy(at, { yaml: POLICY });
  const [prod, stage] = [environment(at), environment(at)];
  const all = environment(at, { type: "logical", members: [prod] });
  attach(at, prod, policy);
  report(at, prod, [running("shell", freshFingerprint())]);
  report(at, stage, [running("shell", freshFingerprint())]);
  const body = await read(at, { environment: all });
  assert.equal(
    textsOf(body).sort(),
    [`${all} turned non-compliant`, `${prod} turned non-compliant`, `shell started in ${prod}, non-compliant`].sort(),
  );
  assert.equal(body["environments"].map(({ name }: Json) => name).sort(), [all, prod].sort());
  const whole = await read(at);
  assert.not.ok(textsOf(whole).includes(`${all} turned non-compliant`), "its members say it");
});

test("pages have stable contents, newest first, and environments without a change are named", async () => {
  const at = server.given.org();
  const { report, environment } = runningIn(server);
  const [prod, quiet] = [environment(at), environment(at)];
  const prints = Array.from({ length: 7 }, () => freshFingerprint());
  const from = String(server.clock.at + 0.5);
  server.clock.at += 1;
  for (let count = 1; count <= prints.length; count += 1)
    report(
      at,
      prod,
      prints.slice(0, count).map((print, index) => running(`app-${index}`, print)),
    );
  const to = String(server.clock.at);
  const all = await read(at, { from, to, kinds: "started" });
  assert.equal(
    textsOf(all),
    [6, 5, 4, 3, 2, 1, 0].map((index) => `app-${index} started in ${prod}`),
  );
  assert.equal([all["unchanged"], all["unchanged_total"]], [[quiet], 1]);
  const pages = await Promise.all(
    ["1", "2", "3", "4"].map((page) => read(at, { from, to, kinds: "started", page, per_page: "3" })),
  );
  assert.equal(
    pages.flatMap(({ data }) => data),
    all["data"],
  );
  assert.equal(pages[3]?.["pagination"], { total: 7, page: 4, per_page: 3, page_count: 3 });
});

test("an environment that was created in the period has not stayed the same", async () => {
  const at = server.given.org();
  const name = runningIn(server).environment(at);
  const created = server.clock.at;
  const during = await read(at, { from: String(created - 1), to: String(created + 1) });
  assert.equal([during["unchanged"], during["unchanged_total"]], [[], 0]);
  const later = await read(at, { from: String(created + 1), to: String(created + 2) });
  assert.equal([later["unchanged"], later["unchanged_total"]], [[name], 1]);
});

test("never shows what happened in another organization", async () => {
  const [at, other] = [server.given.org(), server.given.org()];
  const { report, environment } = runningIn(server);
  const prod = environment(other, { name: fresh("theirs") });
  await server.given.policy(other, { yaml: POLICY });
  report(other, prod, [running("shell", freshFingerprint())]);
  const { data, unchanged } = await read(at, { kinds: CHANGE_KINDS.filter((kind) => kind !== "member").join(",") });
  assert.equal([data, unchanged], [[], []]);
  assert.is((await refuse(at, { environment: prod })).status, 404);
  assert.is((await refuse({ ...at, org: other.org }, {})).status, 403);
});

test("refuses times that are none, a period that ends before it starts, and unknown names", async () => {
  const at = server.given.org();
  const expected = (text: string): string =>
    `Input should be a date, a time, or a duration before now such as '12hours' [input: ${text}]`;
  for (const text of ["yesterday", "2026-02-30", "12parsecs", "@{0}", "#3", "~1", "NOW", "1e400"]) {
    const { status, body } = await refuse(at, { from: text, to: text });
    assert.is(status, 400, text);
    assert.equal(body.errors, { from: expected(text), to: expected(text) }, text);
  }
  const late = await refuse(at, { from: "2026-02-02", to: "2026-02-01" });
  assert.is(late.status, 400);
  assert.equal(late.body.errors, { from: "Input should not be after the end of the period [input: 2026-02-02]" });
  const missing = await refuse(at, { environment: "nowhere" });
  assert.is(missing.status, 404);
  assert.match(missing.body.message, /'nowhere' does not exist/);
  const kind = await refuse(at, { kinds: "verdict,weather" });
  assert.is(kind.status, 400);
  assert.equal(Object.keys(kind.body.errors).length, 1);
  assert.match(JSON.stringify(kind.body.errors), /kinds.*weather/);
  for (const query of [{ page: "0" }, { per_page: "201" }, { page: "x" }] as Record<string, string>[])
    assert.is((await refuse(at, query)).status, 400);
});

test("takes all expressions for times", async () => {
  const at = server.given.org();
  const windowOf = async (from: string, to: string): Promise<[number, number]> => {
    const body = await read(at, { from, to });
    return [body["from"], body["to"]];
  };
  assert.equal(await windowOf("2023-10-01", "2023-10-01"), [1_696_118_400, 1_696_118_400 + DAY - 1e-6]);
  assert.equal(await windowOf("@{2023-10-01T12:00:00}", "2023-10-01T14:00+01:00"), [1_696_161_600, 1_696_165_200]);
  assert.equal(await windowOf("1696118400", "1696118401"), [1_696_118_400, 1_696_118_401]);
  for (const [from, to, length] of [
    ["2days", "now", 2 * DAY],
    ["@{3.hours.ago}", "1hour", 2 * HOUR],
  ] as const) {
    const [first, last] = await windowOf(from, to);
    assert.is(Math.round(last - first), length);
  }
});

/** What a feed holds, as another program reads it; null where there is no Python to read it. */
function parseFeed(text: string): { [field: string]: any; entries: Json[] } | null {
  const { status, stdout, stderr } = spawnSync("python3", ["-c", READ_FEED], { input: text, encoding: "utf8" });
  if (status === null) return null;
  assert.is(status, 0, `${stderr}\n${text}`);
  return JSON.parse(stdout) as { entries: Json[] };
}
const READ_FEED = `
import json, sys
from xml.etree import ElementTree
root = ElementTree.fromstring(sys.stdin.buffer.read())
def read(element):
    fields = {}
    for child in element:
        tag = child.tag.replace("{http://www.w3.org/2005/Atom}", "")
        if tag == "entry": continue
        if tag == "link": fields["link " + child.get("rel")] = child.get("href")
        elif tag == "author": fields["author"] = child[0].text
        elif tag == "category": fields["category"] = child.get("term")
        else: fields[tag] = child.text
    return fields
assert root.tag == "{http://www.w3.org/2005/Atom}feed", root.tag
entries = [read(entry) for entry in root.findall("{http://www.w3.org/2005/Atom}entry")]
print(json.dumps({**read(root), "entries": entries}))
`;
const feed = (at: At, query: Record<string, string> = {}, headers: Record<string, string> = {}) =>
  server.call("GET", `/changes/${at.org}/atom?${new URLSearchParams(query)}`, { key: at.key, headers });
const isoOf = (seconds: number): string => new Date(seconds * 1000).toISOString();

test("is a feed, too, whose entries have the ids of the list, and text that XML permits", async () => {
  const at = server.given.org();
  const { report } = runningIn(server);
  const [prod, policy] = [await server.given.environment(at), await server.given.policy(at, { yaml: POLICY })];
  const name = `<b>&"shell'\u0007]]>\u{1F600}`;
  report(at, prod, [running(name, freshFingerprint())]);
  await put("POST", `/environments/${at.org}/${prod}/policies`, at, { policy_names: [policy] });
  const answer = await feed(at, { environment: prod });
  assert.is(answer.status, 200);
  assert.equal(
    ["Content-Type", "Cache-Control"].map((header) => answer.headers.get(header)),
    ["application/atom+xml; charset=utf-8", "private, no-store"],
  );
  const parsed = parseFeed(answer.text);
  if (parsed === null) return console.log("skipped: reading the feed needs python3, which is not installed");
  const { data } = await read(at, { environment: prod, from: "7days" });
  const organization = server.store.organizations.find(at.org) as { public_id: string };
  const id = `urn:assay:changes:${organization.public_id}`;
  const { entries, ...head } = parsed;
  assert.equal(head, {
    id: `${id}:${encodeURIComponent(`environment=${prod}`)}`,
    title: `What changed in ${at.org}`,
    updated: isoOf(data[0].timestamp),
    author: "Assay",
    "link self": `http://assay.test/api/v2/changes/${at.org}/atom?environment=${prod}`,
    "link alternate": `http://assay.test/${at.org}/changes`,
  });
  assert.equal(
    entries.map(({ content: _content, author: _author, ...entry }) => entry),
    data.map(({ id: own, text, timestamp, kind, html_url }: Json) => ({
      id: `${id}:${encodeURIComponent(own)}`,
      title: text.replaceAll("\u0007", "\uFFFD"),
      updated: isoOf(timestamp),
      published: isoOf(timestamp),
      category: kind,
      "link alternate": html_url,
    })),
  );
  const turned = entries.find(({ title }) => title.endsWith(`turned non-compliant in ${prod}`));
  assert.is(turned?.["content"], "No provenance: not reported to any flow");
  assert.ok(turned?.["title"].startsWith(`<b>&"shell'\uFFFD]]>\u{1F600}`), turned?.["title"]);
});

test("the feed opens for HTTP basic authentication with a reader's key, and for no key in its address", async () => {
  const at = server.given.org();
  const reader = server.given.serviceAccount(at.org, "reader");
  const basic = `Basic ${Buffer.from(`${reader}:x`).toString("base64")}`;
  const answer = await server.call("GET", `/changes/${at.org}/atom`, { headers: { Authorization: basic } });
  assert.is(answer.status, 200, answer.text);
  assert.not.ok(answer.text.includes(reader));
  assert.not.match(answer.text, /category term="(member|key)"/);
  for (const address of [`key=${reader}`, `api_key=${reader}`, `token=${reader}`, `access_token=${reader}`])
    assert.is((await server.call("GET", `/changes/${at.org}/atom?${address}`)).status, 401, address);
  const own = parseFeed((await feed(at)).text);
  assert.ok(own === null || own.entries.some(({ category }) => category === "member"), "an admin sees members");
});

test("the feed of an organization without changes is one without entries, and wrong filters are refused", async () => {
  const at = server.given.org();
  await server.given.policy(at, { yaml: POLICY });
  const empty = parseFeed((await feed(at, { kinds: "stale" })).text);
  assert.equal(empty?.entries ?? [], []);
  assert.is((await feed(at, { environment: "nowhere" })).status, 404);
  assert.is((await feed(at, { kinds: "weather" })).status, 400);
  const reader = { org: at.org, key: server.given.user(at.org, "reader") };
  assert.is((await feed(reader, { kinds: "key" })).status, 403);
  const stranger = server.given.org();
  assert.is((await feed({ org: at.org, key: stranger.key })).status, 403);
});

test("damaged records fail neither the list nor each other", async () => {
  const at = server.given.org();
  const { report, environment, attach } = runningIn(server);
  const policy = await server.given.policy(at, { yaml: POLICY });
  const prod = environment(at);
  attach(at, prod, policy);
  report(at, prod, [running("shell", freshFingerprint()), running("web", freshFingerprint())]);
  server.db
    .prepare(
      "UPDATE evaluations SET facts_json = 'x' WHERE id = (SELECT evaluation_id FROM snapshot_artifacts " +
        "WHERE name = 'shell' AND environment_id = (SELECT id FROM environments WHERE name = ?))",
    )
    .run(prod);
  const { data } = await read(at, { kinds: "started" });
  assert.equal(data.map(({ text, causes }: Json) => [text, causes[0].text.slice(0, 22)]).sort(), [
    [`shell started in ${prod}, non-compliant`, "This record is damaged"],
    [`web started in ${prod}, non-compliant`, "No provenance: not rep"],
  ]);
});

test.run();
