/** Audit binders: what each part says of a period, who may read it, and every refusal. */
import { createHash } from "node:crypto";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { FIGURES } from "../../../src/contract/binder/shapes.ts";
import { summarize } from "../../../src/contract/binder/words.ts";
import { fresh, freshCommit, freshFingerprint, startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { running, runningIn } from "./given.ts";

const test = suite("api/environments/audit-binder");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
type Json = Record<string, any>;

const DAY = 86_400;
const POLICY = "artifacts:\n  attestations:\n    - type: decision\n      for_control: C-1\n";

const get = (at: At, query: Record<string, string>) =>
  server.call("GET", `/audit-binder/${at.org}?${new URLSearchParams(query)}`, { key: at.key });
async function read(at: At, query: Record<string, string>): Promise<Json> {
  const { status, body } = await get(at, query);
  assert.is(status, 200, JSON.stringify(body));
  return body;
}
const put = async (method: string, path: string, at: At, body: unknown): Promise<void> => {
  const answer = await server.call(method, path, { key: at.key, body });
  assert.ok(answer.status < 300, answer.text);
};
const figuresOf = ({ figures }: Json, ...names: string[]): (number | null)[] => names.map((name) => figures[name]);

/** The text of a policy as it is stored. */
const textOf = (policy: string): string =>
  server.db
    .prepare<[string], string>(
      "SELECT policy_yaml FROM policy_versions pv JOIN policies pol ON pol.id = pv.policy_id WHERE pol.name = ?",
    )
    .pluck()
    .get(policy) ?? "";

/** An organization with a control that a policy of `prod` requires, and the trail of an artifact. */
async function setUp() {
  const at = server.given.org();
  await server.given.control(at, { identifier: "C-1", name: "Releases are approved" });
  const [flow, prod] = [await server.given.flow(at), await server.given.environment(at)];
  const policy = await server.given.policy(at, { yaml: POLICY });
  const world = runningIn(server);
  world.report(at, prod, []);
  await put("POST", `/environments/${at.org}/${prod}/policies`, at, { policy_names: [policy] });
  const build = (trail: string) => server.given.artifact(at, { flow, trail, name: "shop", commit: freshCommit() });
  const decide = (trail: string, is_compliant: boolean, fields: Json = {}) =>
    server.given.attestation(at, {
      kind: "system",
      flow,
      trail,
      name: "go",
      type_name: "decision",
      control: "C-1",
      attestation_data: { is_compliant },
      ...fields,
    });
  return { at, flow, prod, policy, build, decide, ...world };
}

test("a control's binder counts releases with, allowed without, and without a decision, failing first", async () => {
  const { at, flow, prod, policy, build, decide, report } = await setUp();
  const [one, two, three] = [await build("one"), await build("two"), await build("three")];
  const file = { name: "attachment_file", filename: "minutes.txt", content: "Approved." };
  const approval = await decide("one", true, { description: "Ship it", file });
  const refusal = await decide("two", false);
  report(at, prod, [running("shop:1", one)]);
  await put("PUT", `/allowlists/${at.org}/${prod}`, at, {
    artifact_fingerprint: three,
    artifact_name: "shop:3",
    description: "Incident 204",
    expires_at: Math.floor(server.clock.at) + 30 * DAY,
  });
  const second = report(at, prod, [running("shop:2", two), running("shop:3", three)]);
  const refusedAt = server.clock.at;
  report(at, prod, []);

  const body = await read(at, { control: "C-1" });
  assert.is(body["organization"], at.org);
  assert.equal(body["subject"], {
    kind: "control",
    name: "C-1",
    title: "Releases are approved",
    description: null,
    version: 1,
    html_url: `http://assay.test/${at.org}/controls/C-1`,
  });
  assert.equal(
    figuresOf(body, "releases", "releases_with_decision", "releases_allowed", "releases_without_decision"),
    [3, 1, 1, 1],
  );
  assert.equal(
    figuresOf(body, "decisions", "approved", "refused", "evidence_files", "evidence_bytes"),
    [2, 1, 1, 1, 9],
  );
  assert.equal(Object.keys(body["figures"]), [...FIGURES]);
  assert.equal(figuresOf(body, "trails", "snapshots", "starts"), [null, null, null]);
  assert.match(
    body["summary"],
    new RegExp(
      "^From .* UTC to .* UTC, 1 of 3 releases \\(33\\.3 %\\) had the decision for C-1 that the policies required " +
        "when they started; 1 was allowed by an allowlist entry without it, and 1 had neither\\. 2 decisions were " +
        "made: 1 approved and 1 refused\\. 1 allowlist entry was in force\\.$",
    ),
  );

  const { missing } = body;
  assert.is(missing.total, 2);
  const [allowed, without] = missing.items;
  assert.equal([allowed.state, allowed.artifact_name, allowed.trail_name], ["allowed", "shop:3", "three"]);
  assert.equal([allowed.allowlist.reason, allowed.allowlist.by], ["Incident 204", allowed.allowlist.by]);
  assert.equal(without, {
    state: "non-compliant",
    since: without.since,
    until: without.until,
    environment_name: prod,
    snapshot_index: second,
    artifact_name: "shop:2",
    artifact_fingerprint: two,
    flow_name: flow,
    trail_name: "two",
    causes: [{ subject: "go", text: "go was declined for C-1" }],
    further_causes: 0,
    allowlist: null,
    html_url: `http://assay.test/${at.org}/environments/${prod}/${second}`,
  });
  assert.ok(without.since <= refusedAt && without.until > refusedAt, "it ended with the exit");

  assert.equal(
    body["decisions"].items.map(({ id, is_compliant, trail_name }: Json) => [id, is_compliant, trail_name]),
    [
      [refusal, false, "two"],
      [approval, true, "one"],
    ],
  );
  const decision = body["decisions"].items[1];
  const sha256 = createHash("sha256").update("Approved.").digest("hex");
  assert.equal([decision.reason, decision.evidence_sha256, decision.control_version], ["Ship it", sha256, 1]);
  assert.equal(
    body["evidence"].items.map(({ name, sha256: digest, bytes, attestation_id, trail_name }: Json) => ({
      name,
      digest,
      bytes,
      attestation_id,
      trail_name,
    })),
    [{ name: "minutes.txt", digest: sha256, bytes: 9, attestation_id: approval, trail_name: "one" }],
  );
  assert.equal(body["required"].items, [
    {
      environment_name: prod,
      environment_type: "K8S",
      control: "C-1",
      policies: [{ name: policy, version: 1 }],
      releases: 3,
      with_decision: 1,
      allowed: 1,
      coverage_percent: 33.3,
      html_url: `http://assay.test/${at.org}/environments/${prod}`,
    },
  ]);
  assert.equal(body["coverage"], { required_in: [prod], not_required_in: [] });
  assert.equal(
    body["allowlist"].items.map(({ reason, artifact_name, replaced_at }: Json) => [reason, artifact_name, replaced_at]),
    [["Incident 204", "shop:3", null]],
  );
  assert.equal(
    body["rules"].items.map(({ kind, name, version, until, sha256: digest }: Json) => [
      kind,
      name,
      version,
      until,
      digest,
    ]),
    [
      ["policy", policy, 1, null, createHash("sha256").update(textOf(policy)).digest("hex")],
      ["control", "C-1", 1, null, null],
    ],
  );
  assert.equal([body["verdicts"], body["trails"]], [null, null]);
});

test("a start without provenance where a decision is required is one without a decision", async () => {
  const { at, prod, report } = await setUp();
  report(at, prod, [running("stray", freshFingerprint())]);
  const body = await read(at, { control: "C-1" });
  assert.equal(figuresOf(body, "releases", "releases_with_decision", "releases_without_decision"), [1, 0, 1]);
  assert.equal(
    body["missing"].items.map(({ artifact_name, flow_name }: Json) => [artifact_name, flow_name]),
    [["stray", null]],
  );
});

test("what cannot be read counts as not decided", async () => {
  const { at, prod, build, decide, report } = await setUp();
  const print = await build("one");
  await decide("one", true);
  report(at, prod, [running("shop:1", print)]);
  assert.equal(figuresOf(await read(at, { control: "C-1" }), "releases_with_decision"), [1]);
  server.db
    .prepare("UPDATE evaluations SET verdicts_json = '{' WHERE environment_id = ?")
    .run(runningIn(server).idOf(at, prod));
  const body = await read(at, { control: "C-1" });
  assert.equal(figuresOf(body, "releases", "releases_with_decision", "releases_without_decision"), [1, 0, 1]);
  assert.is(body["missing"].items[0].state, "unknown");
  assert.match(body["missing"].items[0].causes[0].text, /damaged/);
});

test("a decision after the start does not count, and a rule that does not apply requires none", async () => {
  const { at, prod, build, decide, report } = await setUp();
  const print = await build("one");
  report(at, prod, [running("shop:1", print)]);
  await decide("one", true);
  assert.equal(
    figuresOf(await read(at, { control: "C-1" }), "releases", "releases_with_decision", "decisions"),
    [1, 0, 1],
  );
  const never = await server.given.policy(at, {
    yaml: POLICY.replace("- type", '- if: ${{ artifact.name == "none" }}\n      type'),
  });
  const other = await server.given.environment(at);
  report(at, other, []);
  await put("POST", `/environments/${at.org}/${other}/policies`, at, { policy_names: [never] });
  report(at, other, [running("tool", await build("two"))]);
  const body = await read(at, { control: "C-1" });
  assert.equal(figuresOf(body, "releases"), [1]);
  assert.equal(body["coverage"].required_in, [prod, other].sort());
});

test("an environment's binder has its verdicts without a gap, and when artifacts were not compliant", async () => {
  const at = server.given.org();
  const { report } = runningIn(server);
  const prod = await server.given.environment(at);
  const policy = await server.given.policy(at, { yaml: "artifacts:\n  provenance:\n    required: true\n" });
  const flow = await server.given.flow(at);
  const good = await server.given.artifact(at, { flow, trail: "one", name: "shop" });
  report(at, prod, [running("shop", good)]);
  const begun = server.clock.at;
  await put("POST", `/environments/${at.org}/${prod}/policies`, at, { policy_names: [policy] });
  const stray = freshFingerprint();
  const reports = [[running("stray", stray)], [running("stray", stray, 1, 2)], []];
  for (const others of reports) {
    server.clock.at += 10;
    report(at, prod, [running("shop", good), ...others]);
  }
  server.clock.at += 10;
  const body = await read(at, { environment: prod, from: String(begun + 0.5) });
  const verdicts: Json[] = body["verdicts"].items;
  assert.equal(
    verdicts.map(({ compliant, first_snapshot, non_compliant_artifacts }) => [
      compliant,
      first_snapshot,
      non_compliant_artifacts,
    ]),
    [
      [null, 1, 0],
      [true, 2, 0],
      [false, 3, 1],
      [true, body["verdicts"].items[3].first_snapshot, 0],
    ],
  );
  for (const [at_, verdict] of verdicts.entries())
    assert.is(verdict["until"], verdicts[at_ + 1]?.["since"] ?? null, "no gap");
  assert.is(verdicts[0]?.["since"], body["from"]);
  const seconds = figuresOf(body, "seconds_compliant", "seconds_non_compliant", "seconds_unknown") as number[];
  assert.is(
    seconds.reduce((sum, one) => sum + one, 0),
    Math.round(body["to"] - body["from"]),
  );
  assert.equal(
    body["missing"].items.map(({ state, artifact_name, until }: Json) => [state, artifact_name, until]),
    [["non-compliant", "stray", verdicts[3]?.["since"]]].concat(
      body["missing"].total === 1 ? [] : [["unknown", "shop", verdicts[1]?.["since"]]],
    ),
    "further instances do not begin another gap",
  );
  assert.equal(figuresOf(body, "starts", "starts_compliant", "starts_not_compliant"), [1, 0, 1]);
  assert.match(body["summary"], /% of the time, non-compliant for [\d.]+ %, and unknown for [\d.]+ %\./);
  assert.equal(
    body["rules"].items.map(({ name, version }: Json) => [name, version]),
    [[policy, 1]],
  );
  assert.equal(
    body["changes"].items.map(({ text }: Json) => text),
    [`Policy ${policy} v1 was attached to ${prod}`],
  );
  assert.equal([body["coverage"], body["trails"]], [null, null]);
});

test("a gap goes on while the artifact has the same state, and ends when it is compliant", async () => {
  const at = server.given.org();
  const { report, attach } = runningIn(server);
  const prod = await server.given.environment(at);
  const fingerprint = freshFingerprint();
  const later = async (change: () => unknown): Promise<number> => {
    server.clock.at += 10;
    await change();
    await server.settled();
    return server.clock.at;
  };
  const provenance = "artifacts:\n  provenance:\n    required: true\n";
  const policy = (yaml: string): Promise<string> => server.given.policy(at, { yaml });
  const [first, second, third] = [await policy(provenance), await policy(provenance), await policy(provenance)];
  const tested = await policy("artifacts:\n  attestations:\n    - {name: tests, type: junit}\n");
  const flow = await server.given.flow(at);
  const ran = await later(() => report(at, prod, [running("stray", fingerprint)]));
  const judged = await later(() => attach(at, prod, first));
  // Two more evaluations with the same verdict.
  for (const further of [second, third]) await later(() => attach(at, prod, further));
  const good = await later(async () => {
    await server.given.artifact(at, { flow, trail: "one", name: "stray", fingerprint });
    report(at, prod, [running("stray", fingerprint)]);
  });
  const again = await later(() => attach(at, prod, tested));
  const body = await read(at, { environment: prod, from: String(ran - 5) });
  const near = (time: number): number => [ran, judged, good, again].findIndex((one) => Math.abs(one - time) < 9);
  assert.equal(
    body["missing"].items.map(({ state, since, until }: Json) => [state, near(since), until && near(until)]),
    [
      ["non-compliant", 3, null],
      ["non-compliant", 1, 2],
      ["unknown", 0, 1],
    ],
  );
});

test("time before the first snapshot is without a verdict", async () => {
  const at = server.given.org();
  const prod = await server.given.environment(at);
  const body = await read(at, { environment: prod, from: "2023-01-01", to: "2023-01-02" });
  assert.equal(figuresOf(body, "seconds_compliant", "seconds_non_compliant", "seconds_unknown"), [0, 0, 2 * DAY]);
  assert.equal(
    body["verdicts"].items.map(({ compliant, first_snapshot }: Json) => [compliant, first_snapshot]),
    [[null, null]],
  );
});

test("a logical environment has its own verdicts and the runs of its members", async () => {
  const { at, prod, build, report } = await setUp();
  const group = runningIn(server).environment(at, { type: "logical", members: [prod] });
  report(at, prod, [running("shop:1", await build("one"))]);
  const body = await read(at, { environment: group });
  assert.is(body["subject"].name, group);
  assert.equal(
    body["missing"].items.map(({ environment_name, artifact_name }: Json) => [environment_name, artifact_name]),
    [[prod, "shop:1"]],
  );
  assert.is(body["figures"].starts, 1);
});

test("a flow's binder has the trails that began in the period, those that fail with their causes", async () => {
  const { at, flow, prod, build, decide, report } = await setUp();
  const print = await build("one");
  await decide("one", false);
  await build("two");
  report(at, prod, [running("shop:1", print)]);
  const body = await read(at, { flow });
  assert.equal(
    body["trails"].items.map(({ name, state, artifacts, attestations }: Json) => [
      name,
      state,
      artifacts,
      attestations,
    ]),
    [
      ["two", "COMPLIANT", 1, 0],
      ["one", "NON-COMPLIANT", 1, 1],
    ],
  );
  assert.equal(figuresOf(body, "trails", "trails_compliant", "trails_not_compliant", "starts"), [2, 1, 1, 1]);
  assert.equal(
    body["missing"].items.map(({ state, trail_name, causes }: Json) => [state, trail_name, causes.length]),
    [["non-compliant", "one", 1]],
  );
  assert.is(body["decisions"].total, 1);
  assert.equal(
    body["required"].items.map(({ environment_name, control, releases, with_decision }: Json) => [
      environment_name,
      control,
      releases,
      with_decision,
    ]),
    [[prod, "C-1", 1, 0]],
  );
  assert.match(body["summary"], /2 trails began in flow .*: 1 was compliant and 1 was not when this binder was made\./);
});

test("nothing outside of the period counts, and `limit` shortens lists but no total", async () => {
  const { at, prod, build, decide, report } = await setUp();
  for (const trail of ["one", "two", "three"]) await decide(trail, true);
  report(at, prod, [running("shop:1", await build("four")), running("shop:2", await build("five"))]);
  const past = await read(at, { control: "C-1", from: "2020-01-01", to: "2020-12-31" });
  assert.equal(figuresOf(past, "releases", "decisions", "evidence_files"), [0, 0, 0]);
  for (const part of ["missing", "decisions", "required", "allowlist", "rules", "evidence"])
    assert.equal(past[part], { total: 0, items: [] }, part);
  assert.match(past["summary"], /no artifact started where a policy required a decision for C-1\./);
  const short = await read(at, { control: "C-1", limit: "1" });
  assert.equal([short["decisions"].total, short["decisions"].items.length], [3, 1]);
  assert.equal([short["missing"].total, short["missing"].items.length], [2, 1]);
  const none = await read(at, { control: "C-1", limit: "0" });
  assert.equal([none["missing"].total, none["missing"].items], [2, []]);
});

test("an administrator reads who changed flows, tags, controls and names, archived, or overrode", async () => {
  const { at, flow, prod } = await setUp();
  const [from, to] = [String(server.clock.at - DAY), String(server.clock.at + DAY)];
  const sha = (text: string): string => createHash("sha256").update(text).digest("hex");
  const template = (text: string) =>
    server.call("PUT", `/flows/${at.org}/template_file`, {
      key: at.key,
      form: {
        field: "data_json",
        json: { name: flow, description: "" },
        file: { name: "template_file", filename: "t.yml", content: text },
      },
    });
  const [first, second] = ["version: 1\n# one\n", "version: 1\n# two\n"];
  // The second call changes nothing, as that of each run of a pipeline.
  for (const text of [first, first, second]) assert.ok((await template(text)).status < 300);
  await put("PATCH", `/tags/${at.org}/flow/${flow}`, at, { set_tags: { tier: "gold" }, remove_tags: ["old"] });
  await put("PATCH", `/tags/${at.org}/env/${prod}`, at, { set_tags: { tier: "gold" } });
  await put("POST", `/controls/${at.org}/C-1/archive`, at, undefined);
  await put("POST", `/controls/${at.org}/C-1/unarchive`, at, undefined);
  const spare = await server.given.environment(at);
  await put("PUT", `/environments/${at.org}/${spare}/rename`, at, { new_name: `${spare}-2` });
  await put("PUT", `/environments/${at.org}/${spare}-2/archive`, at, undefined);
  const other = await server.given.flow(at);
  await put("PUT", `/flows/${at.org}/${other}/rename`, at, { new_name: `${other}-2` });
  await put("PUT", `/flows/${at.org}/${other}-2/archive`, at, undefined);
  await server.given.trail(at, { flow, name: "checked" });
  await server.given.attestation(at, { kind: "generic", flow, trail: "checked", name: "scan", is_compliant: false });
  await server.given.attestation(at, {
    kind: "override",
    flow,
    trail: "checked",
    name: "scan",
    original_attestation_type: "generic",
    new_compliance_status: true,
    reason: "a false alarm",
  });
  // The binder of an environment leaves other environments out, and has everything else.
  const { changes } = await read(at, { environment: prod, from, to });
  const records = changes.items.filter(({ kind }: Json) => kind === "record").reverse();
  const told: [string, string | null, string | null][] = records.map(({ text, record }: Json) => [
    text,
    record.before,
    record.after,
  ]);
  const archivedAs = (name: string): string | null => told.find(([text]) => text === name)?.[2] ?? null;
  assert.equal(
    told.filter(([text]) => text.startsWith("Control") && text.endsWith("created")),
    [["Control C-1 was created", null, null]],
  );
  assert.equal(told.slice(told.findIndex(([text]) => text.startsWith("The template"))), [
    [`The template of flow ${flow} was changed`, sha("version: 1"), sha(first)],
    [`The template of flow ${flow} was changed`, sha(first), sha(second)],
    [`Tags of flow ${flow}: tier is gold, old removed`, null, null],
    ["Control C-1 was archived", null, null],
    ["Control C-1 was restored", null, null],
    [`Flow ${other} was created`, null, null],
    [`Flow ${other} was renamed to ${other}-2`, other, `${other}-2`],
    [`Flow ${other}-2 was archived`, `${other}-2`, archivedAs(`Flow ${other}-2 was archived`)],
    ["Attestation scan was overridden as compliant", null, null],
  ]);
  assert.ok(archivedAs(`Flow ${other}-2 was archived`)?.startsWith(`${other}-2`));
  assert.ok(records.every(({ by }: Json) => by !== null));
  assert.is(changes.total, changes.items.length);
  const others = await textsOfRecords(at, { flow, from, to });
  assert.equal(
    others.filter((text) => text.includes(spare) || text.includes(other)),
    [
      `Environment ${spare} was created`,
      `Environment ${spare} was renamed to ${spare}-2`,
      `Environment ${spare}-2 was archived`,
    ],
  );
  await server.given.control(at, { identifier: "C-2", name: "Another one" });
  assert.ok((await textsOfRecords(at, { flow })).includes("Control C-2 was created"));
  assert.not((await textsOfRecords(at, { control: "C-1" })).includes("Control C-2 was created"));
  // An auditor reads none of it.
  const reader = { org: at.org, key: server.given.user(at.org, "reader") };
  const shown = await read(reader, { environment: prod, from, to });
  assert.ok(shown["changes"].items.every(({ kind }: Json) => kind !== "record"));
});

async function textsOfRecords(at: At, query: Record<string, string>): Promise<string[]> {
  const { changes } = await read(at, query);
  return changes.items
    .filter(({ kind }: Json) => kind === "record")
    .map(({ text }: Json) => text)
    .reverse();
}

test("a record counts under every name that its environment had, also where another one took it", async () => {
  const at = server.given.org();
  const from = String(server.clock.at);
  const prod = await server.given.environment(at, { name: "prod" });
  const parts = await server.given.environment(at, { name: "parts", type: "logical" });
  await put("PUT", `/environments/${at.org}/${parts}/join`, at, { physical_env_name: prod });
  const to = String(server.clock.at);
  server.clock.at += DAY;
  await put("PUT", `/environments/${at.org}/prod/rename`, at, { new_name: "retired" });
  await server.given.environment(at, { name: "prod" });
  const joined = "prod became a member of parts";
  assert.equal(await textsOfRecords(at, { environment: "retired", from, to }), [
    "Environment prod was created",
    joined,
  ]);
  assert.equal(await textsOfRecords(at, { environment: parts, from, to }), [
    "Environment prod was created",
    "Environment parts was created",
    joined,
  ]);
  await put("PUT", `/environments/${at.org}/retired/archive`, at, undefined);
  const archived = server.db
    .prepare<[], string>("SELECT name FROM environments WHERE archived_name = 'retired'")
    .pluck()
    .get() as string;
  assert.equal(await textsOfRecords(at, { environment: archived, from, to }), ["Environment prod was created", joined]);
});

test("changes of members and keys are for those who may read the audit log; a reader gets all the rest", async () => {
  const { at, policy } = await setUp();
  const auditor = { org: at.org, key: server.given.user(at.org, "reader") };
  const account = fresh("bot");
  await put("POST", `/service-accounts/${at.org}`, at, { name: account, privilege: "member" });
  const [all, shown] = [await read(at, { control: "C-1" }), await read(auditor, { control: "C-1" })];
  const kindsOf = ({ changes }: Json) => [...new Set(changes.items.map(({ kind }: Json) => kind))].sort();
  assert.ok(kindsOf(all).includes("member"), JSON.stringify(kindsOf(all)));
  assert.equal(kindsOf(shown), ["policy"]);
  assert.is(all["changes"].people_since, all["from"]);
  assert.is(shown["changes"].people_since, null);
  assert.equal(
    shown["changes"].items.map(({ policy: one }: Json) => [one.name, one.change]),
    [
      [policy, "attached"],
      [policy, "created"],
    ],
  );
  assert.equal(
    { ...shown, to: 0, from: 0, changes: null, summary: "" },
    { ...all, to: 0, from: 0, changes: null, summary: "" },
  );
});

test("refuses wrong filters and times, and names the field", async () => {
  const { at, prod, flow } = await setUp();
  const problemsOf = async (query: Record<string, string>): Promise<[number, string[]]> => {
    const { status, body } = await get(at, query);
    return [status, Object.keys(body.errors ?? {})];
  };
  assert.equal(await problemsOf({}), [400, ["control", "environment", "flow"]]);
  assert.equal(await problemsOf({ control: "" }), [400, ["control", "environment", "flow"]]);
  assert.equal(await problemsOf({ control: "C-1", flow }), [400, ["control", "flow"]]);
  assert.equal(await problemsOf({ control: "C-1", from: "yesterdayish" }), [400, ["from"]]);
  assert.equal(await problemsOf({ control: "C-1", from: "2026-02-30" }), [400, ["from"]]);
  assert.equal(await problemsOf({ control: "C-1", to: "soon" }), [400, ["to"]]);
  assert.equal(await problemsOf({ control: "C-1", from: "2023-02-01", to: "2023-01-01" }), [400, ["from"]]);
  assert.equal(await problemsOf({ control: "C-1", from: "2100-01-01", to: "2100-02-01" }), [400, ["from"]]);
  assert.equal(await problemsOf({ control: "C-1", limit: "1001" }), [400, ["limit"]]);
  assert.equal(await problemsOf({ environment: prod, to: "2100-01-01" }), [200, []], "the end may be later than now");
});

test("the paragraph has separators in numbers of four digits and more, as the figures beside it", () => {
  const figures = { trails: 1, trails_compliant: 1, trails_not_compliant: 0, starts: 10_000, starts_compliant: 9_999 };
  assert.is(
    summarize({ kind: "flow", name: "api", from: 0, to: 60, figures, allowances: 1_200 } as never),
    "From 1970-01-01 00:00 UTC to 1970-01-01 00:01 UTC, 1 trail began in flow api: 1 was compliant and 0 were not " +
      "when this binder was made. Artifacts of the flow started 10,000 times: 9,999 compliant, 0 allowed by an " +
      "allowlist entry, and 0 not compliant or unknown. 1,200 allowlist entries were in force.",
  );
});

test("refuses what is not there, strangers, and controls where they are off", async () => {
  const { at, prod } = await setUp();
  const missing = await get(at, { control: "C-9" });
  assert.equal(
    [missing.status, missing.body.message],
    [404, `Control 'C-9' does not exist in organization '${at.org}'`],
  );
  for (const query of [{ environment: "nowhere" }, { flow: "nothing" }] as Record<string, string>[])
    assert.is((await get(at, query)).status, 404);
  const stranger = server.given.org();
  assert.is((await get({ org: at.org, key: stranger.key }, { environment: prod })).status, 403);
  const off = server.given.org({ controls: false });
  assert.is((await get(off, { control: "C-1" })).status, 403);
});

test.run();
