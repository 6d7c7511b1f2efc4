// From a build to what runs, through the executable and real HTTP: flow, trail, artifact, attestation, policy,
// environment, report, snapshot. All tests share one organization of one server, each with names of its own.

import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Json } from "./client.ts";
import { expectStatus } from "./client.ts";
import {
  API,
  COMMITTED_AT,
  TRAIL_POLICY,
  MEMBER,
  PAGES,
  PROVENANCE_POLICY,
  SCAN_TEMPLATE,
  STARTED_AT,
  commitOf,
  fingerprintOf,
  summarizeEvents,
  reportItems,
  normalize,
  startRuntimeServer,
  summarizeArtifacts,
} from "./runtime-server.ts";
import type { RuntimeServer } from "./runtime-server.ts";

const test = suite("binary/runtime");
let server: RuntimeServer;
test.before(async () => void (server = await startRuntimeServer()));
test.after(() => server.close());

const pod = (name: string, labels: Record<string, string>): Json => ({
  podName: name,
  namespace: "shop",
  owners: null,
  creationTimestamp: STARTED_AT,
  digests: Object.fromEntries(Object.entries(labels).map(([image, label]) => [image, fingerprintOf(label)])),
});
test("a late attestation makes what runs compliant at the next report", async () => {
  await server.createFlow("late", SCAN_TEMPLATE);
  await server.reportArtifact({ flow: "late", trail: "late-1", name: "registry.example.com/late:1", label: "late-1" });
  await server.putPolicy("late-policy", TRAIL_POLICY);
  await server.createEnvironment("late-prod", "K8S", { policies: ["late-policy"] });
  assert.is(await server.readState("late-prod"), null);
  const pods = [
    pod("late-a", { "registry.example.com/late:1": "late-1" }),
    pod("late-b", { "registry.example.com/late:1": "late-1" }),
  ];
  await server.report("late-prod", "K8S", pods, 201);

  const reason =
    "Policy 'late-policy' requires compliance in the trail, " +
    "but the artifact is INCOMPLETE in trail 'late-1' of flow 'late'.";
  const podDetails = () => ({ namespace: "shop", creationTimestamp: STARTED_AT, owners: null });
  const html_url = `${PAGES}/flows/late/artifacts/${fingerprintOf("late-1")}?artifact_id=<id>`;
  const commit_url = `https://github.com/acme/shop/commit/${commitOf("late-1")}`;
  const origin = {
    git_commit: commitOf("late-1"),
    commit_url,
    html_url,
    flow_html_url: `${PAGES}/flows/late`,
    deployment_diff: null,
    commit_lead_time: STARTED_AT - COMMITTED_AT,
  };
  const rule = (required: boolean) => ({ required, exceptions: [] });
  const context = { flow_name: "late", trail_name: "late-1", artifact_status: null };
  const decision = (compliant: boolean): Json => ({
    policy_name: "late-policy",
    policy_version: 1,
    status: compliant ? "COMPLIANT" : "NON-COMPLIANT",
    rule_evaluations: [
      {
        rule: { type: "provenance", definition: rule(false) },
        satisfied: null,
        ignored: true,
        resolutions: [{ type: "rule_not_applicable", context }],
      },
      {
        rule: { type: "trail-compliance", definition: rule(true) },
        satisfied: compliant,
        ignored: false,
        resolutions: [
          {
            type: compliant ? "rule_satisfied" : "non_compliant_in_trail",
            context: { ...context, artifact_status: compliant ? "COMPLIANT" : "INCOMPLETE" },
          },
        ],
      },
    ],
  });
  const artifact = {
    name: "registry.example.com/late:1",
    fingerprint: fingerprintOf("late-1"),
    compliant: false,
    annotation: { type: "started-non-compliant", was: 0, now: 2 },
    deployments: [],
    reasons_for_incompliance: [reason],
    creationTimestamp: [STARTED_AT, STARTED_AT],
    pods: { "late-a": podDetails(), "late-b": podDetails() },
    ecs_context: null,
    policy_decisions: [decision(false)],
    flow_name: "late",
    ...origin,
    flows: [
      {
        flow_name: "late",
        trail_name: "late-1",
        template_reference_name: "app",
        ...origin,
        git_commit_info: {
          sha1: commitOf("late-1"),
          message: "late-1",
          author: "Ada <ada@example.com>",
          timestamp: COMMITTED_AT,
          branch: "main",
          url: commit_url,
        },
        artifact_compliance_in_flow: false,
        flow_reasons_for_non_compliance: [
          { reason: "Attestation 'scan' of artifact 'app' is missing; the template expects type 'generic'" },
        ],
      },
    ],
  };
  const first = {
    index: 1,
    is_latest: true,
    timestamp: "<time>",
    next_snapshot_timestamp: null,
    type: "K8S",
    compliant: false,
    artifact_compliance_count: { true: 0, false: 1, null: 0 },
    html_url: `${PAGES}/environments/late-prod/1`,
    user_id: "<id>",
    user_name: MEMBER,
    artifacts: [artifact],
    applied_policies: [
      {
        id: "<id>",
        name: "late-policy",
        version: 1,
        failing_artifacts: [{ name: "registry.example.com/late:1", fingerprint: fingerprintOf("late-1") }],
        policy_dump: {
          schema_version: "1",
          artifacts: { provenance: rule(false), trail_compliance: rule(true), attestations: [] },
        },
      },
    ],
  };
  assert.equal(normalize(await server.readSnapshot("late-prod")), first);
  assert.is(await server.readState("late-prod"), false);

  // The attestation alone changes nothing recorded.
  await server.attest({ flow: "late", trail: "late-1", label: "late-1", name: "scan" });
  assert.equal(
    {
      snapshot: normalize(await server.readSnapshot("late-prod")),
      count: await server.countSnapshots("late-prod"),
      state: await server.readState("late-prod"),
    },
    { snapshot: first, count: 1, state: false },
  );
  await server.report("late-prod", "K8S", pods, 201);
  const flows = [{ ...artifact.flows[0], artifact_compliance_in_flow: true, flow_reasons_for_non_compliance: [] }];
  const compliant = {
    compliant: true,
    annotation: { type: "became-compliant", was: 2, now: 2 },
    reasons_for_incompliance: [],
    policy_decisions: [decision(true)],
    flows,
  };
  assert.equal(normalize(await server.readSnapshot("late-prod")), {
    ...first,
    index: 2,
    compliant: true,
    artifact_compliance_count: { true: 1, false: 0, null: 0 },
    html_url: `${PAGES}/environments/late-prod/2`,
    artifacts: [{ ...artifact, ...compliant }],
    applied_policies: [{ ...first.applied_policies[0], failing_artifacts: [] }],
  });
  assert.equal(normalize(await server.readSnapshot("late-prod", "1")), {
    ...first,
    is_latest: false,
    next_snapshot_timestamp: "<time>",
  });
  assert.is(await server.readState("late-prod"), true);
  await server.report("late-prod", "K8S", pods, 200);

  const event = {
    type: "became-compliant",
    environment_name: "late-prod",
    snapshot_index: 2,
    artifact_name: "registry.example.com/late:1",
    sha256: fingerprintOf("late-1"),
    description: "2 instances changed",
    reported_at: "<time>",
    pipeline: "late",
    deployments: [],
    flows: [{ flow_name: "late", deployments: null }],
    artifact_compliance: true,
    snapshot_compliance: true,
    code_diff: null,
    _links: {
      artifact: { self: `${API}/artifacts/acme/late/fingerprint/${fingerprintOf("late-1")}`, html: html_url },
      snapshot: { self: `${API}/snapshots/acme/late-prod/2`, html: `${PAGES}/environments/late-prod/2` },
    },
  };
  const started = {
    ...event,
    type: "started-non-compliant",
    snapshot_index: 1,
    description: "2 instances started running (from 0 to 2)",
    artifact_compliance: false,
    snapshot_compliance: false,
    _links: {
      ...event._links,
      snapshot: { self: `${API}/snapshots/acme/late-prod/1`, html: `${PAGES}/environments/late-prod/1` },
    },
  };
  assert.equal(
    normalize(await server.read("/environments/acme/late-prod/events?interval=&page=1&per_page=15&reverse=false")),
    [event, started],
  );
});

test("an incident can be traced to a commit", async () => {
  await server.createFlow("shop");
  await server.createEnvironment("shop-prod", "K8S");
  const version = (number: string) =>
    server.reportArtifact({
      flow: "shop",
      trail: `shop-${number}`,
      name: `shop:${number}`,
      label: `shop-${number}`,
      repo: "acme/shop-front",
    });
  await version("1");
  await server.reportArtifact({
    flow: "shop",
    trail: "other",
    name: "queue:1",
    label: "queue-1",
    reference: "queue",
    repo: "acme/queue",
  });
  await server.report(
    "shop-prod",
    "K8S",
    [pod("web", { "shop:1": "shop-1" }), pod("queue", { "queue:1": "queue-1" })],
    201,
  );
  await version("2");
  await server.report(
    "shop-prod",
    "K8S",
    [pod("web", { "shop:2": "shop-2" }), pod("queue", { "queue:1": "queue-1" })],
    201,
  );

  const [former, latter] = [await server.readSnapshot("shop-prod", "1"), await server.readSnapshot("shop-prod", "2")];
  const between = Math.ceil((former.timestamp + latter.timestamp) * 500) / 1000;
  const moment = (seconds: number): string => `%40%7B${new Date(seconds * 1000).toISOString().slice(0, -1)}%7D`;
  const commits = async (expression: string): Promise<unknown[]> =>
    (await server.readSnapshot("shop-prod", expression)).artifacts
      .filter(({ annotation }: Json) => annotation.now > 0)
      .map(({ git_commit }: Json) => git_commit);
  assert.equal(await commits(moment(between)), [commitOf("queue-1"), commitOf("shop-1")]);
  assert.equal(await commits(moment(Math.ceil(latter.timestamp) + 3600).replace(".000", "")), [
    commitOf("queue-1"),
    commitOf("shop-2"),
  ]);
  for (const expression of ["@%7Bnow%7D", "-1", "2", "%232", "~0"])
    assert.equal(await commits(expression), [commitOf("queue-1"), commitOf("shop-2")], expression);
  for (const expression of ["-2", "1", "%231", "~1"])
    assert.equal(await commits(expression), [commitOf("queue-1"), commitOf("shop-1")], expression);
  const unresolved = (label: string, index: number) =>
    `Org: 'acme'. Snapshot '${label}' resolves to 'shop-prod#${index}'. len(snapshots) == 2. Indexes are 1-based`;
  await server.expectRefusal(
    "GET",
    "/snapshots/acme/shop-prod/@%7B2.hours.ago%7D",
    404,
    unresolved("shop-prod@{2.hours.ago}", 0),
  );
  await server.expectRefusal("GET", "/snapshots/acme/shop-prod/~2", 404, unresolved("shop-prod~2", 0));
  await server.expectRefusal("GET", "/snapshots/acme/shop-prod/%233", 404, unresolved("shop-prod#3", 3));
  await server.expectInvalid("GET", "/snapshots/acme/shop-prod/@%7Byesterday%7D", {
    snapshot_expression: "Input should be a valid snapshot expression [input: @{yesterday}]",
  });

  const url = "https://github.com/acme/shop-front";
  const diff_url = `${url}/compare/${commitOf("shop-1")}...${commitOf("shop-2")}`;
  const { artifacts } = await server.readSnapshot("shop-prod");
  const replacement = artifacts[2];
  assert.equal(summarizeArtifacts({ artifacts }), [
    ["queue:1", "unchanged", null],
    ["shop:1", "exited", null],
    ["shop:2", "started-unknown", null],
  ]);
  assert.equal(replacement.deployment_diff, {
    diff_url,
    previous_git_commit: commitOf("shop-1"),
    previous_git_commit_url: `${url}/commit/${commitOf("shop-1")}`,
    previous_fingerprint: fingerprintOf("shop-1"),
    previous_artifact_name: "shop:1",
    previous_artifact_compliance_state: "COMPLIANT",
    previous_running: false,
    previous_trail_name: "shop-1",
    previous_template_reference_name: "app",
  });
  const deployment = await server.read(`/deployments/acme/shop-prod/${fingerprintOf("shop-2")}`);
  const links = (self: string, html: string) => ({ self: { href: self }, html: { href: html } });
  assert.equal(normalize(deployment), {
    environment_name: "shop-prod",
    fingerprint: fingerprintOf("shop-2"),
    artifact_name: "shop:2",
    flow_name: "shop",
    trail_name: "shop-2",
    repo_name: "acme/shop-front",
    git_commit: commitOf("shop-2"),
    commit_url: `${url}/commit/${commitOf("shop-2")}`,
    snapshot_index: 2,
    deployed_at: "<time>",
    lead_time_seconds: "<time>",
    compliant: null,
    replaced: {
      fingerprint: fingerprintOf("shop-1"),
      artifact_name: "shop:1",
      trail_name: "shop-1",
      git_commit: commitOf("shop-1"),
      commit_url: `${url}/commit/${commitOf("shop-1")}`,
      snapshot_index: 1,
      deployed_at: "<time>",
      compliant: null,
      diff_url,
    },
    _links: {
      environment: links(`${API}/environments/acme/shop-prod`, `${PAGES}/environments/shop-prod`),
      snapshot: links(`${API}/snapshots/acme/shop-prod/2`, `${PAGES}/environments/shop-prod/2`),
      artifact: links(
        `${API}/artifacts/acme/shop/fingerprint/${fingerprintOf("shop-2")}`,
        normalize(replacement.html_url),
      ),
    },
  });
  assert.is((await server.read("/flows/acme/shop")).last_deployment_at, latter.timestamp);
  const { total, daily } = await server.read("/environments/acme/shop-prod/deployment_frequency?flow_id=shop");
  assert.equal(
    { total, days: daily.length, sum: daily.reduce((sum: number, day: Json) => sum + day["count"], 0) },
    { total: 3, days: 28, sum: 3 },
  );
  const { deployments, ...page } = await server.read(
    "/deployments/acme?env_name=shop-prod&page=1&per_page=15&repo_name=acme%2Fshop-front",
  );
  assert.equal(
    { page, latest: deployments[0], names: deployments.map((one: Json) => one["artifact_name"]) },
    {
      page: { page: 1, per_page: 15, total_pages: 1, total_count: 2 },
      latest: deployment,
      names: ["shop:2", "shop:1"],
    },
  );

  const events = (query: string): Promise<Json[]> =>
    server.read(`/environments/acme/shop-prod/events?interval=&page=1&per_page=15&reverse=false${query}`);
  const start = (index: number, name: string) => [
    `shop-prod#${index}`,
    name,
    "started-unknown",
    "1 instance started running (from 0 to 1)",
    "shop",
  ];
  const exit = ["shop-prod#2", "shop:1", "exited", "1 instance stopped running (from 1 to 0)", "shop"];
  assert.equal(summarizeEvents(await events(`&from=${between}&to=${between + 3600}`)), [exit, start(2, "shop:2")]);
  assert.equal(summarizeEvents(await events(`&start_ts=${between - 3600}&end_ts=${between}`)), [
    start(1, "shop:1"),
    start(1, "queue:1"),
  ]);
  assert.equal(summarizeEvents(await events("&repo_name=acme%2Fqueue&start=1hour")), [start(1, "queue:1")]);
  assert.equal(summarizeEvents(await events("&repo_name=acme%2Fqueue&repo_name=acme%2Fshop-front&start=2&end=NOW")), [
    exit,
    start(2, "shop:2"),
  ]);
  assert.equal(
    (await events("")).find(({ artifact_name, type }) => artifact_name === "shop:2" && type !== "exited")?.[
      "code_diff"
    ],
    diff_url,
  );
  await server.expectRefusal(
    "GET",
    "/environments/acme/shop-prod/events?repo_name=acme%2Fnone",
    404,
    "Repo 'acme/none' not found in organization 'acme'",
  );

  const build = async (label: string): Promise<Json> =>
    server.read(`/artifacts/acme/shop/fingerprint/${fingerprintOf(label).slice(0, 12)}`);
  const [old, current] = [await build("shop-1"), await build("shop-2")];
  assert.equal(
    { running: old["running"], exited: old["exited"] },
    { running: [], exited: [{ environment_name: "shop-prod", snapshot_index: 2 }] },
  );
  assert.equal(
    { running: current["running"], exited: current["exited"] },
    { running: [{ environment_name: "shop-prod", snapshot_index: 2 }], exited: [] },
  );
  assert.equal(
    old["history"].map(({ event }: Json) => event),
    ["app reported", "started running in shop-prod#1", "no longer running in shop-prod#2"],
  );
  const trail = await server.read("/trails/acme/shop/shop-1");
  assert.equal(
    trail.events
      .slice(1)
      .map(({ type, template_reference_name, environment_name, snapshot_index }: Json) => [
        type,
        template_reference_name,
        environment_name,
        snapshot_index,
      ]),
    [
      ["artifact_creation_reported", "app", undefined, undefined],
      ["artifact_started_running", "app", "shop-prod", 1],
      ["artifact_stopped_running", "app", "shop-prod", 2],
    ],
  );

  const log = await server.json(
    "GET",
    "/environments/acme/shop-prod/auditlog?event_types=exited&flow_names=shop&from_timestamp=0",
  );
  const exited = (await server.readSnapshot("shop-prod")).timestamp;
  assert.equal(
    {
      status: log.status,
      "Content-Type": log.headers.get("Content-Type"),
      "Content-Disposition": log.headers.get("Content-Disposition"),
    },
    {
      status: 200,
      "Content-Type": "text/csv; charset=utf-8",
      "Content-Disposition": 'attachment; filename="shop-prod-auditlog.csv"',
    },
  );
  assert.equal(log.bytes.toString().split("\r\n"), [
    "timestamp,time,environment,snapshot_index,event_type,description,artifact_name,artifact_fingerprint,compliance," +
      "flows,git_commit,commit_url,reported_by",
    `${exited},${new Date(exited * 1000).toISOString()},shop-prod,2,exited,1 instance stopped running (from 1 to 0),` +
      `shop:1,${fingerprintOf("shop-1")},UNKNOWN,shop,` +
      `${commitOf("shop-1")},${url}/commit/${commitOf("shop-1")},${MEMBER}`,
    "",
  ]);
});

test("blue and green environments swap within one logical environment", async () => {
  await server.createFlow("bg");
  for (const version of ["1", "2"])
    await server.reportArtifact({ flow: "bg", trail: `bg-${version}`, name: `bg:${version}`, label: `bg-${version}` });
  await server.putPolicy("bg-provenance", PROVENANCE_POLICY);
  for (const name of ["bg-blue", "bg-green", "bg-canary"]) await server.createEnvironment(name, "server");
  await server.createEnvironment("bg-all", "logical", { included_environments: ["bg-blue", "bg-green"] });
  assert.equal(await server.read("/snapshots/acme/bg-all?interval=&page=1&per_page=15&reverse=false"), []);

  await server.reportServer("bg-blue", { "/srv/app": "bg-1" }, 201);
  assert.equal(
    { count: await server.countSnapshots("bg-all"), state: await server.readState("bg-all") },
    { count: 1, state: null },
  );
  await server.expectOk("POST", "/environments/acme/bg-blue/policies", { policy_names: ["bg-provenance"] });
  assert.equal(
    {
      blueSnapshots: await server.countSnapshots("bg-blue"),
      allSnapshots: await server.countSnapshots("bg-all"),
      blueState: await server.readState("bg-blue"),
      allState: await server.readState("bg-all"),
    },
    { blueSnapshots: 2, allSnapshots: 2, blueState: true, allState: null },
  );
  await server.expectOk("POST", "/environments/acme/bg-green/policies", { policy_names: ["bg-provenance"] });
  // A policy gives no verdict on an environment without reports.
  assert.equal(
    {
      greenSnapshots: await server.countSnapshots("bg-green"),
      allSnapshots: await server.countSnapshots("bg-all"),
      allState: await server.readState("bg-all"),
    },
    { greenSnapshots: 0, allSnapshots: 2, allState: null },
  );
  await server.reportServer("bg-green", { "/srv/app": "bg-2" }, 201);
  assert.equal(
    { count: await server.countSnapshots("bg-all"), state: await server.readState("bg-all") },
    { count: 3, state: true },
  );

  // The swap, with an unknown artifact running in between.
  await server.reportServer("bg-blue", { "/srv/app": "bg-rogue" }, 201);
  const merged = await server.readSnapshot("bg-all");
  assert.equal(
    {
      index: merged.index,
      type: merged.type,
      compliant: merged.compliant,
      artifact_compliance_count: merged.artifact_compliance_count,
    },
    { index: 4, type: "logical", compliant: false, artifact_compliance_count: { true: 1, false: 1, null: 0 } },
  );
  const detailsOf = ({ artifacts }: Json) =>
    artifacts.map((one: Json) => [
      one["environment_name"],
      one["name"],
      one["fingerprint"],
      one["annotation"],
      one["compliant"],
    ]);
  const unchanged = { type: "unchanged", was: 1, now: 1 };
  const sortByFingerprint = (rows: any[][]) => rows.toSorted(([, , a], [, , b]) => (a < b ? -1 : 1));
  assert.equal(
    sortByFingerprint(detailsOf(merged)),
    sortByFingerprint([
      ["bg-blue", "/srv/app", fingerprintOf("bg-rogue"), { type: "started-non-compliant", was: 0, now: 1 }, false],
      ["bg-blue", "/srv/app", fingerprintOf("bg-1"), { type: "exited", was: 1, now: 0 }, true],
      ["bg-green", "/srv/app", fingerprintOf("bg-2"), unchanged, true],
    ]),
  );
  assert.equal(
    merged.applied_policies.map(({ name, failing_artifacts }: Json) => [name, failing_artifacts]),
    [["bg-provenance", [{ name: "/srv/app", fingerprint: fingerprintOf("bg-rogue") }]]],
  );
  assert.is(await server.readState("bg-all"), false);
  await server.reportServer("bg-blue", { "/srv/app": "bg-2" }, 201);
  await server.reportServer("bg-green", { "/srv/app": "bg-1" }, 201);
  assert.equal(
    { count: await server.countSnapshots("bg-all"), state: await server.readState("bg-all") },
    { count: 6, state: true },
  );
  assert.equal(
    detailsOf(await server.readSnapshot("bg-all", "6")).filter((row: any[]) => row[3].now > 0),
    [
      ["bg-blue", "/srv/app", fingerprintOf("bg-2"), unchanged, true],
      ["bg-green", "/srv/app", fingerprintOf("bg-1"), { type: "started-compliant", was: 0, now: 1 }, true],
    ],
  );
  // The difference between the colours, and between two snapshots of the logical environment.
  const fingerprints = ({ artifacts }: Json): string[] => artifacts.map((one: Json) => one["fingerprint"]);
  const colours = await server.read("/env-diff/acme?snappish1=bg-blue&snappish2=bg-green");
  assert.equal(
    {
      firstSnapshot: colours.snappish1.snapshot_id,
      onlyInFirst: fingerprints(colours.snappish1),
      secondSnapshot: colours.snappish2.snapshot_id,
      onlyInSecond: fingerprints(colours.snappish2),
    },
    {
      firstSnapshot: "bg-blue#4",
      onlyInFirst: [fingerprintOf("bg-2")],
      secondSnapshot: "bg-green#2",
      onlyInSecond: [fingerprintOf("bg-1")],
    },
  );
  const groups = await server.read("/env-diff/acme?snappish1=bg-all%234&snappish2=bg-all");
  assert.equal(
    {
      onlyInFirst: fingerprints(groups.snappish1),
      onlyInSecond: fingerprints(groups.snappish2),
      unchanged: fingerprints(groups["not-changed"]),
    },
    {
      onlyInFirst: [fingerprintOf("bg-rogue")],
      onlyInSecond: [fingerprintOf("bg-1")],
      unchanged: [fingerprintOf("bg-2")],
    },
  );
  const build = await server.read(`/artifacts/acme/bg/fingerprint/${fingerprintOf("bg-1")}`);
  assert.equal(
    { running: build.running, exited: build.exited },
    {
      running: [{ environment_name: "bg-green", snapshot_index: 2 }],
      exited: [{ environment_name: "bg-blue", snapshot_index: 3 }],
    },
  );
  assert.equal(
    summarizeEvents(await server.read("/environments/acme/bg-all/events?interval=~0&page=1&per_page=15&reverse=true")),
    [
      ["bg-green#2", "/srv/app", "started-compliant", "1 instance started running (from 0 to 1)", "bg"],
      ["bg-green#2", "/srv/app", "exited", "1 instance stopped running (from 1 to 0)", "bg"],
    ],
  );

  // The old name still works, and the logical environment shows the new one.
  await server.expectInvalid(
    "PUT",
    "/environments/acme/bg-green/rename",
    { new_name: "String should match pattern '^[a-zA-Z0-9][a-zA-Z0-9\\.\\-_]*$' [input: bg~live]" },
    { new_name: "bg~live" },
  );
  await server.expectInvalid(
    "PUT",
    "/environments/acme/bg-green/rename",
    { new_name: "An environment with this name already exists [input: bg-blue]" },
    { new_name: "bg-blue" },
  );
  await server.expectOk("PUT", "/environments/acme/bg-green/rename", { new_name: "bg-live" });
  await server.reportServer("bg-green", { "/srv/app": "bg-1" }, 200);
  await server.reportServer("bg-live", { "/srv/app": "bg-1" }, 200);
  assert.equal(await server.read("/environments/acme/bg-green"), await server.read("/environments/acme/bg-live"));
  assert.equal((await server.read("/environments/acme/bg-all")).included_environments, ["bg-blue", "bg-live"]);
  assert.equal(
    detailsOf(await server.readSnapshot("bg-all", "4"))
      .map(([name]: any[]) => name)
      .toSorted(),
    ["bg-blue", "bg-blue", "bg-live"],
  );

  await server.expectOk("PUT", "/environments/acme/bg-all/join", { physical_env_name: "bg-canary" });
  await server.expectOk("PUT", "/environments/acme/bg-all/join", { physical_env_name: "bg-canary" });
  assert.equal(
    { count: await server.countSnapshots("bg-all"), state: await server.readState("bg-all") },
    { count: 6, state: null },
  );
  await server.reportServer("bg-canary", { "/srv/canary": "bg-2" }, 201);
  assert.equal(
    detailsOf(await server.readSnapshot("bg-all")).map(([environment, name]: any[]) => [environment, name]),
    [
      ["bg-blue", "/srv/app"],
      ["bg-live", "/srv/app"],
      ["bg-canary", "/srv/canary"],
    ],
  );

  await server.archive("/environments/acme/bg-blue");
  const all = await server.read("/environments/acme/bg-all");
  const members = [await server.read("/environments/acme/bg-live"), await server.read("/environments/acme/bg-canary")];
  assert.equal(normalize(all), {
    org: "acme",
    name: "bg-all",
    type: "logical",
    description: "",
    last_modified_at: "<time>",
    last_reported_at: null,
    last_changed_at: "<time>",
    state: null,
    include_scaling: false,
    require_provenance: false,
    tags: {},
    policies: [],
    included_environments: ["bg-live", "bg-canary"],
  });
  for (const field of ["last_changed_at", "last_modified_at"])
    assert.is(all[field], Math.max(...members.map((member) => member[field])), field);
  const archived = "Environment named 'bg-blue' has been archived for organization 'acme'";
  await server.expectRefusal("GET", "/environments/acme/bg-blue", 404, archived);
  await server.expectRefusal("PUT", "/environments/acme/bg-blue/report/server", 404, archived, { artifacts: [] });
  assert.equal(detailsOf(await server.readSnapshot("bg-all", "4"))[0][0].replace(/\d+$/, "N"), "bg-blue-archived-at-N");
  await server.reportServer("bg-canary", {}, 201);
  assert.equal(
    detailsOf(await server.readSnapshot("bg-all")).map(([environment, , , { type }]: any[]) => [environment, type]),
    [
      ["bg-live", "unchanged"],
      ["bg-canary", "exited"],
    ],
  );
  assert.is(await server.countSnapshots("bg-all"), 8);
  assert.equal((await server.read("/policies/acme/bg-provenance")).consuming_envs, ["bg-live"]);
  // Under the suffixed name everything recorded can still be read, and nothing can be changed.
  const [{ environment_name: suffixed }] = (await server.readSnapshot("bg-all", "4")).artifacts;
  assert.equal(
    {
      name: (await server.read(`/environments/acme/${suffixed}`)).name,
      count: await server.countSnapshots(suffixed),
      artifact_compliance_count: (await server.readSnapshot(suffixed, "~1")).artifact_compliance_count,
    },
    { name: suffixed, count: 4, artifact_compliance_count: { true: 0, false: 1, null: 0 } },
  );
  for (const [method, path, body] of [
    ["PUT", "/report/server", { artifacts: [] }],
    ["PATCH", "", { description: "" }],
    ["POST", "/policies", { policy_names: ["bg-provenance"] }],
    ["PUT", "/rename", { new_name: "bg-back" }],
    ["PUT", "/archive", null],
  ] as const)
    await server.expectRefusal(
      method,
      `/environments/acme/${suffixed}${path}`,
      404,
      `Environment named '${suffixed}' has been archived for organization 'acme'`,
      body,
    );
  const deployed = (await server.read("/deployments/acme?env_name=bg-all&page=1&per_page=15")).deployments;
  assert.equal(
    deployed.map(({ environment_name, artifact_name, snapshot_index }: Json) => [
      environment_name,
      artifact_name,
      snapshot_index,
    ]),
    [
      ["bg-canary", "/srv/canary", 1],
      ["bg-live", "/srv/app", 2],
      ["bg-live", "/srv/app", 1],
    ],
  );
});

test("reports a server that drifts from what was built, and allowlists artifacts", async () => {
  await server.createFlow("drift");
  await server.reportArtifact({ flow: "drift", trail: "drift-1", name: "app.jar", label: "drift-app" });
  await server.reportArtifact({
    flow: "drift",
    trail: "drift-1",
    name: "lib.jar",
    label: "drift-lib",
    reference: "lib",
  });
  await server.putPolicy("drift-provenance", PROVENANCE_POLICY);
  for (const name of ["drift-prod", "drift-other"])
    await server.createEnvironment(name, "server", { policies: ["drift-provenance"] });
  const built = { "/opt/app.jar": "drift-app", "/opt/lib.jar": "drift-lib" };
  await server.reportServer("drift-prod", built, 201);
  const before = await server.read("/environments/acme/drift-prod");
  const first = await server.readSnapshot("drift-prod");
  await server.reportServer("drift-prod", built, 200, STARTED_AT + 60);
  assert.equal(await server.readSnapshot("drift-prod"), first);
  const after = await server.read("/environments/acme/drift-prod");
  assert.ok(after.last_reported_at > before.last_reported_at);
  assert.equal({ ...after, last_reported_at: null }, { ...before, last_reported_at: null });

  // The same names with different content, and a new name.
  const drifted = { "/opt/app.jar": "drift-tampered", "/opt/lib.jar": "drift-lib", "/opt/miner": "drift-miner" };
  await server.reportServer("drift-prod", drifted, 201);
  const reason = "Policy 'drift-provenance' requires provenance, but the artifact was not reported to any flow.";
  const { artifacts, artifact_compliance_count, applied_policies } = await server.readSnapshot("drift-prod");
  const row = (label: string, name: string, type: string, compliant: boolean) => [
    name,
    fingerprintOf(label),
    type,
    compliant,
    compliant ? [] : [reason],
  ];
  assert.equal(
    artifacts
      .map((one: Json) => [
        one["name"],
        one["fingerprint"],
        one["annotation"].type,
        one["compliant"],
        one["reasons_for_incompliance"],
      ])
      .toSorted(),
    [
      row("drift-app", "/opt/app.jar", "exited", true),
      row("drift-tampered", "/opt/app.jar", "started-non-compliant", false),
      row("drift-lib", "/opt/lib.jar", "unchanged", true),
      row("drift-miner", "/opt/miner", "started-non-compliant", false),
    ].toSorted(),
  );
  const unknown = artifacts.find(({ name }: Json) => name === "/opt/miner");
  assert.equal(
    {
      flows: unknown.flows,
      flow_name: unknown.flow_name,
      git_commit: unknown.git_commit,
      html_url: unknown.html_url,
      commit_lead_time: unknown.commit_lead_time,
    },
    { flows: [], flow_name: null, git_commit: null, html_url: null, commit_lead_time: null },
  );
  assert.equal(artifact_compliance_count, { true: 1, false: 2, null: 0 });
  assert.equal(
    applied_policies[0].failing_artifacts.map(({ name }: Json) => name),
    ["/opt/app.jar", "/opt/miner"],
  );

  const allow = (label: string, name: string, description: string) => {
    const body = { artifact_fingerprint: fingerprintOf(label), artifact_name: name, description };
    return expectStatus(server.json("PUT", "/allowlists/acme/drift-prod", body), 201).then((answer) =>
      assert.equal(answer, body),
    );
  };
  await allow("drift-miner", "miner", "Measures the load, agreed with operations");
  assert.equal(await server.readAnnotations("drift-prod"), [
    ["/opt/app.jar", "unchanged", false],
    ["/opt/lib.jar", "unchanged", true],
    ["/opt/miner", "became-compliant", true],
  ]);
  assert.equal(
    { count: await server.countSnapshots("drift-prod"), state: await server.readState("drift-prod") },
    { count: 3, state: false },
  );
  await allow("drift-tampered", "app.jar", "Patched by hand");
  assert.equal(
    { count: await server.countSnapshots("drift-prod"), state: await server.readState("drift-prod") },
    { count: 4, state: true },
  );
  await allow("drift-miner", "miner", "Once more");
  assert.equal(
    {
      count: await server.countSnapshots("drift-prod"),
      failing_artifacts: (await server.readSnapshot("drift-prod")).applied_policies[0].failing_artifacts,
    },
    { count: 4, failing_artifacts: [] },
  );
  const allowed = (await server.read("/allowlists/acme")).filter(
    (entry: Json) => entry["environment_name"] === "drift-prod",
  );
  const entry = (label: string, artifact_name: string, description: string) => ({
    artifact_name,
    fingerprint: fingerprintOf(label),
    environment_name: "drift-prod",
    timestamp: "<time>",
    user_name: MEMBER,
    description,
  });
  assert.equal(normalize(allowed), [
    entry("drift-miner", "miner", "Once more"),
    entry("drift-tampered", "app.jar", "Patched by hand"),
    entry("drift-miner", "miner", "Measures the load, agreed with operations"),
  ]);
  // Allowed in that environment only.
  await server.reportServer("drift-other", { "/opt/miner": "drift-miner" }, 201);
  assert.equal(await server.readAnnotations("drift-other"), [["/opt/miner", "started-non-compliant", false]]);

  // A change of the instance count alone makes no snapshot; the next snapshot shows it.
  const twice = [...reportItems(drifted), ...reportItems({ "/opt/lib.jar": "drift-lib" }, STARTED_AT + 7)];
  await server.report("drift-prod", "server", twice, 200);
  await server.report("drift-prod", "server", [...twice, ...reportItems({ "/opt/new": "drift-lib" })], 201);
  const info = (label: string, name: string, flow: string, s1: number, s2: number, latest = STARTED_AT) => ({
    fingerprint: fingerprintOf(label),
    name,
    most_recent_timestamp: latest,
    flow,
    commit_url: flow === "" ? null : `https://github.com/acme/shop/commit/${commitOf(label)}`,
    instance_count: s2,
    s1_instance_count: s1,
    s2_instance_count: s2,
    pods: [],
  });
  assert.equal(await server.read("/env-diff/acme?snappish1=drift-prod~1&snappish2=drift-prod"), {
    snappish1: { snapshot_id: "drift-prod#4", artifacts: [] },
    snappish2: { snapshot_id: "drift-prod#5", artifacts: [] },
    changed: { snapshot_id: null, artifacts: [info("drift-lib", "/opt/lib.jar", "drift", 1, 3, STARTED_AT + 7)] },
    "not-changed": {
      snapshot_id: null,
      artifacts: [info("drift-tampered", "/opt/app.jar", "", 1, 1), info("drift-miner", "/opt/miner", "", 1, 1)],
    },
  });
  const { snappish1, snappish2 } = await server.read(
    "/env-diff/acme?snappish1=drift-prod%231&snappish2=drift-prod%40%7Bnow%7D",
  );
  assert.equal(
    { snappish1, artifacts: snappish2.artifacts.map(({ name }: Json) => name) },
    {
      snappish1: {
        snapshot_id: "drift-prod#1",
        artifacts: [{ ...info("drift-app", "/opt/app.jar", "drift", 1, 0), instance_count: 1 }],
      },
      artifacts: ["/opt/app.jar", "/opt/miner"],
    },
  );
});

test("gives the same responses after a kill and after a stop", async () => {
  await server.createFlow("kept");
  await server.reportArtifact({ flow: "kept", trail: "kept-1", name: "kept:1", label: "kept-1" });
  await server.putPolicy("kept-policy", PROVENANCE_POLICY);
  await server.createEnvironment("kept-prod", "docker", { policies: ["kept-policy"] });
  await server.createEnvironment("kept-all", "logical", { included_environments: ["kept-prod"] });
  await server.report(
    "kept-prod",
    "docker",
    reportItems({ "kept:1": "kept-1", rogue: "kept-rogue", unresolved: "" }),
    201,
  );
  await expectStatus(
    server.json("PUT", "/allowlists/acme/kept-prod", {
      artifact_fingerprint: fingerprintOf("kept-rogue"),
      artifact_name: "rogue",
      description: "known",
    }),
    201,
  );
  await server.report("kept-prod", "docker", reportItems({ "kept:1": "kept-1" }), 201);

  const environments: Json[] = await server.read("/environments/acme");
  assert.ok(environments.length >= 2);
  const each = environments.flatMap(({ name, last_changed_at }) => [
    `/environments/acme/${name}`,
    `/environments/acme/${name}/events?interval=&page=1&per_page=100&reverse=true`,
    `/snapshots/acme/${name}?interval=&page=1&per_page=100&reverse=false`,
    ...(last_changed_at === null
      ? []
      : [
          `/snapshots/acme/${name}/-1`,
          `/snapshots/acme/${name}/1`,
          `/env-diff/acme?snappish1=${name}%231&snappish2=${name}`,
        ]),
  ]);
  await server.expectSameAfter(
    ["SIGKILL", "SIGTERM"],
    [
      ...each,
      "/environments/acme",
      "/environments/acme?page=1&per_page=5&sort=last_changed_at&sort_direction=desc",
      "/allowlists/acme",
      "/policies/acme",
      "/flows/acme",
      "/deployments/acme?page=1&per_page=50",
      `/artifacts/acme/kept/fingerprint/${fingerprintOf("kept-1")}`,
      "/trails/acme/kept/kept-1",
      `/asserts/acme/fingerprint/${fingerprintOf("kept-1")}?environment_name=kept-prod`,
    ],
  );
  await server.report("kept-prod", "docker", reportItems({ "kept:1": "kept-1" }), 200);
  await server.report("kept-prod", "docker", reportItems({ "kept:1": "kept-1", rogue: "kept-rogue" }), 201);
  assert.equal(
    { count: await server.countSnapshots("kept-prod"), annotated: await server.readAnnotations("kept-prod") },
    {
      count: 4,
      annotated: [
        ["kept:1", "unchanged", true],
        ["rogue", "started-compliant", true],
      ],
    },
  );
});

test.run();
