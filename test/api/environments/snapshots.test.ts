import { suite } from "uvu";
import * as assert from "uvu/assert";
import { EPOCH, fresh, freshCommit, freshFingerprint, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";
import { REPORTER, running, runningIn } from "./given.ts";

const test = suite("api/environments/snapshots");
let server: TestServer;
let world: ReturnType<typeof runningIn>;
test.before(async () => {
  server = await startServer();
  world = runningIn(server);
});
test.after(() => server.stop());

type At = { org: string; key: string };
const FAILED = "Input payload validation failed";
const HOST = "http://assay.test";

const read = (at: At, environment: string, expression: string | number = -1): Promise<Answer> =>
  server.call("GET", `/snapshots/${at.org}/${environment}/${encodeURIComponent(expression)}`, { key: at.key });
const list = (at: At, environment: string, query = ""): Promise<Answer> =>
  server.call("GET", `/snapshots/${at.org}/${environment}${query}`, { key: at.key });
const policyId = (name: string): string =>
  server.db.prepare<[string], string>("SELECT public_id FROM policies WHERE name = ?").pluck().get(name) as string;
const recordId = (fingerprint: string): string =>
  server.db
    .prepare<[string], string>("SELECT public_id FROM artifacts WHERE fingerprint = ?")
    .pluck()
    .get(fingerprint) as string;

/** An artifact that was reported to a trail of a flow, with a commit on GitHub. */
async function built(at: At, flow: string, fields: { name?: string; at?: number } = {}) {
  const trail = await server.given.trail(at, { flow });
  const commit = freshCommit();
  const commitUrl = `https://github.com/acme/api/commit/${commit}`;
  const fingerprint = await server.given.artifact(at, {
    flow,
    trail,
    name: fields.name ?? "server",
    commit,
    commit_url: commitUrl,
    ...(fields.at === undefined ? {} : { git_commit_info: { sha1: commit, timestamp: fields.at, message: "Fix" } }),
  });
  return { trail, commit, commitUrl, fingerprint };
}

const NOTHING_KNOWN = {
  pods: null,
  ecs_context: null,
  deployments: [],
  policy_decisions: [],
  flow_name: null,
  git_commit: null,
  commit_url: null,
  html_url: null,
  flow_html_url: null,
  deployment_diff: null,
  commit_lead_time: null,
  flows: [],
};

test("shows a snapshot with provenance, verdicts, policies and counts of all artifacts", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const policy = await server.given.policy(at, {
    yaml:
      "artifacts:\n  provenance:\n    required: true\n    exceptions:\n" +
      '      - if: ${{ matches(artifact.name, "^sidecar") }}\n  attestations:\n    - type: junit\n' +
      "      name: tests\n",
  });
  const { trail, commit, commitUrl, fingerprint } = await built(at, flow, { at: 1_689_999_000 });
  const stranger = freshFingerprint();
  const environment = world.environment(at, { type: "K8S" });
  world.attach(at, environment, policy);
  const owners = [{ apiVersion: "apps/v1", kind: "ReplicaSet", name: "api", uid: "1", controller: true }];
  world.report(at, environment, [
    {
      name: "api:1",
      fingerprint,
      instances: {
        created: [1_690_000_000, 1_690_000_005],
        pods: {
          "api-1": { namespace: "prod", creationTimestamp: 1_690_000_000, owners },
          "api-2": { namespace: "prod", creationTimestamp: 1_690_000_005, owners: null },
        },
      },
    },
    running("unknown:1", stranger),
  ]);

  const answer = await read(at, environment);
  assert.is(answer.status, 200, answer.text);
  const definitions = [
    {
      type: "provenance",
      definition: { required: true, exceptions: [{ if: { text: 'matches(artifact.name, "^sidecar")' } }] },
    },
    { type: "trail-compliance", definition: { required: false, exceptions: [] } },
    {
      type: "attestation",
      definition: { if: null, name: "tests", type: "junit", must_be_compliant: true, for_control: null },
    },
  ];
  const decision = (resolutions: [boolean | null, string][], flow_name: string | null, trail_name: string | null) => [
    {
      policy_name: policy,
      policy_version: 1,
      status: "NON-COMPLIANT",
      rule_evaluations: resolutions.map(([satisfied, type], place) => ({
        rule: definitions[place],
        satisfied,
        ignored: satisfied === null,
        resolutions: [
          {
            type,
            context: {
              flow_name,
              trail_name,
              artifact_status: answer.body.artifacts[0].flows.length && place === 1 && flow_name ? "COMPLIANT" : null,
            },
          },
        ],
      })),
    },
  ];
  const shared = {
    flow_name: flow,
    git_commit: commit,
    commit_url: commitUrl,
    html_url: `${HOST}/${at.org}/flows/${flow}/artifacts/${fingerprint}?artifact_id=${recordId(fingerprint)}`,
    flow_html_url: `${HOST}/${at.org}/flows/${flow}`,
    deployment_diff: null,
    commit_lead_time: 1000,
  };
  const [known, unknown] = answer.body.artifacts;
  assert.equal(known, {
    name: "api:1",
    fingerprint,
    compliant: false,
    reasons_for_incompliance: known.reasons_for_incompliance,
    creationTimestamp: [1_690_000_000, 1_690_000_005],
    annotation: { type: "started-non-compliant", was: 0, now: 2 },
    pods: {
      "api-1": { namespace: "prod", creationTimestamp: 1_690_000_000, owners },
      "api-2": { namespace: "prod", creationTimestamp: 1_690_000_005, owners: null },
    },
    ecs_context: null,
    deployments: [],
    policy_decisions: decision(
      [
        [true, "rule_satisfied"],
        [null, "rule_not_applicable"],
        [false, "missing_attestation"],
      ],
      flow,
      trail,
    ),
    ...shared,
    flows: [
      {
        ...shared,
        trail_name: trail,
        template_reference_name: "server",
        git_commit_info: {
          sha1: commit,
          message: "Fix",
          author: "",
          branch: "",
          timestamp: 1_689_999_000,
        },
        artifact_compliance_in_flow: true,
        flow_reasons_for_non_compliance: [],
      },
    ],
  });
  assert.is(known.reasons_for_incompliance.length, 1);
  assert.match(known.reasons_for_incompliance[0], /tests/);
  assert.equal(unknown, {
    ...NOTHING_KNOWN,
    name: "unknown:1",
    fingerprint: stranger,
    compliant: false,
    reasons_for_incompliance: unknown.reasons_for_incompliance,
    creationTimestamp: [1_690_000_000],
    annotation: { type: "started-non-compliant", was: 0, now: 1 },
    policy_decisions: unknown.policy_decisions,
  });
  assert.is(unknown.policy_decisions[0].rule_evaluations[0].satisfied, false);
  const { artifacts, ...rest } = answer.body;
  assert.is(artifacts.length, 2);
  assert.equal(rest, {
    index: 1,
    is_latest: true,
    timestamp: world.times(at, environment)[0],
    next_snapshot_timestamp: null,
    type: "K8S",
    compliant: false,
    artifact_compliance_count: { true: 0, false: 2, null: 0 },
    html_url: `${HOST}/${at.org}/environments/${environment}/1`,
    user_id: REPORTER.publicId,
    user_name: REPORTER.displayName,
    applied_policies: [
      {
        id: policyId(policy),
        name: policy,
        version: 1,
        policy_dump: {
          schema_version: "1",
          artifacts: {
            provenance: {
              required: true,
              exceptions: [{ if_condition: { text: 'matches(artifact.name, "^sidecar")' } }],
            },
            trail_compliance: { required: false, exceptions: [] },
            attestations: [
              { if_condition: null, name: "tests", type: "junit", must_be_compliant: true, for_control: null },
            ],
          },
        },
        failing_artifacts: [
          { name: "api:1", fingerprint },
          { name: "unknown:1", fingerprint: stranger },
        ],
      },
    ],
  });
});

test("returns what was reported over HTTP", async () => {
  const at = server.given.org();
  const policy = await server.given.policy(at, { yaml: "artifacts:\n  provenance:\n    required: true\n" });
  const environment = await server.given.environment(at, { policies: [policy] });
  const { fingerprint } = await built(at, await server.given.flow(at));
  const owner = {
    apiVersion: "apps/v1",
    kind: "ReplicaSet",
    name: "api",
    uid: "1",
    controller: true,
    blockOwnerDeletion: null,
  };
  const pods = {
    "api-1": { namespace: "prod", creationTimestamp: 1_690_000_000, owners: [owner] },
    "api-2": { namespace: "prod", creationTimestamp: 1_690_000_007, owners: null },
  };
  const artifacts = Object.entries(pods).map(([podName, pod]) => ({
    podName,
    ...pod,
    digests: { "api:1": fingerprint },
  }));
  const report = await server.call("PUT", `/environments/${at.org}/${environment}/report/K8S`, {
    key: at.key,
    body: { artifacts },
  });
  assert.is(report.status, 201, report.text);
  const { body } = await read(at, environment);
  assert.equal(
    { compliant: body.compliant, artifact_compliance_count: body.artifact_compliance_count, user_name: body.user_name },
    { compliant: true, artifact_compliance_count: { true: 1, false: 0, null: 0 }, user_name: `${at.org}-admin` },
  );
  const [artifact] = body.artifacts;
  assert.equal(
    {
      name: artifact.name,
      fingerprint: artifact.fingerprint,
      compliant: artifact.compliant,
      annotation: artifact.annotation,
    },
    { name: "api:1", fingerprint, compliant: true, annotation: { type: "started-compliant", was: 0, now: 2 } },
  );
  assert.equal(
    { creationTimestamp: artifact.creationTimestamp, pods: artifact.pods },
    { creationTimestamp: [1_690_000_000, 1_690_000_007], pods },
  );
});

test("shows every flow, the build flow first, and its data at the top level", async () => {
  const at = server.given.org();
  const [build, audit] = [
    await server.given.flow(at),
    await server.given.flow(at, {
      template:
        "version: 1\ntrail:\n  artifacts:\n    - name: server\n      attestations:\n        - name: review\n" +
        "          type: generic\n",
    }),
  ];
  const { fingerprint } = await built(at, build, { at: 1_690_000_100 });
  const trail = await server.given.trail(at, { flow: audit });
  await server.given.artifact(at, { flow: audit, trail, name: "server", fingerprint });
  const environment = world.environment(at);
  world.report(at, environment, [running("api", fingerprint)]);
  const [artifact] = (await read(at, environment)).body.artifacts;
  assert.equal(
    artifact.flows.map((flow: any) => [flow.flow_name, flow.artifact_compliance_in_flow, flow.commit_lead_time]),
    [
      [build, true, -100],
      [audit, false, null],
    ],
  );
  assert.is(artifact.flow_name, build);
  assert.is(artifact.commit_lead_time, -100, "a start before the commit");
  const [why] = artifact.flows[1].flow_reasons_for_non_compliance;
  assert.equal(Object.keys(why), ["reason"]);
  assert.match(why.reason, /review/);
});

test("the next report reflects a record without a trail that changed the state in the flow", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const policy = await server.given.policy(at, { yaml: "artifacts:\n  trail-compliance: {required: true}\n" });
  const fingerprint = await server.given.artifact(at, { flow, trail: null, is_compliant: false });
  const environment = world.environment(at);
  world.attach(at, environment, policy);
  const shown = async (index: number) => {
    const {
      artifacts: [artifact],
    } = (await read(at, environment, index)).body;
    const [, rule] = artifact.policy_decisions[0].rule_evaluations;
    return {
      compliant: artifact.compliant,
      annotation: artifact.annotation.type,
      reasons: artifact.reasons_for_incompliance,
      ...rule.resolutions[0],
    };
  };
  const context = { flow_name: flow, trail_name: null };
  assert.is(world.report(at, environment, [running("api:1", fingerprint)]), 1);
  const failed = {
    compliant: false,
    annotation: "started-non-compliant",
    type: "legacy_flow",
    context: { ...context, artifact_status: "NON-COMPLIANT" },
    reasons: [
      `Policy '${policy}' requires compliance in the trail, but the artifact was reported to flow '${flow}' ` +
        "without a trail and is NON-COMPLIANT there.",
    ],
  };
  assert.equal(await shown(1), failed);
  assert.is(world.report(at, environment, [running("api:1", fingerprint)]), null, "nothing changed");
  await server.given.artifact(at, { flow, trail: null, fingerprint });
  assert.is(world.report(at, environment, [running("api:1", fingerprint)]), 2);
  assert.equal(await shown(2), {
    compliant: true,
    annotation: "became-compliant",
    reasons: [],
    type: "rule_satisfied",
    context: { ...context, artifact_status: "COMPLIANT" },
  });
  await server.given.artifact(at, { flow, trail: null, fingerprint, template: ["unit"] });
  assert.is(world.report(at, environment, [running("api:1", fingerprint)]), 3);
  assert.equal((await shown(3)).type, "legacy_flow");
  assert.equal(await shown(1), failed, "an earlier snapshot stays as it was");
});

test("the next report reflects a report to an earlier trail", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const { trail, fingerprint, commit } = await built(at, flow);
  await server.given.artifact(at, { flow, trail: "later", name: "server", fingerprint });
  const environment = world.environment(at);
  const shown = async () => {
    const {
      artifacts: [artifact],
    } = (await read(at, environment)).body;
    return { annotation: artifact.annotation.type, trail: artifact.flows[0].trail_name, pages: artifact.flows.length };
  };
  world.report(at, environment, [running("api:1", fingerprint)]);
  assert.equal(await shown(), { annotation: "started-unknown", trail: "later", pages: 1 });
  await server.given.artifact(at, { flow, trail, name: "server", fingerprint, commit });
  assert.is(world.report(at, environment, [running("api:1", fingerprint)]), 2);
  assert.equal(await shown(), { annotation: "updated-provenance", trail, pages: 1 });
});

test("annotates an artifact in the snapshot of the change, and as unchanged afterwards", async () => {
  const at = server.given.org();
  const environment = world.environment(at);
  const [one, two] = [freshFingerprint(), freshFingerprint()];
  world.report(at, environment, [running("one", one), running("two", two, 1, 2)]);
  world.report(at, environment, [running("two", two, 1, 2, 3)]);
  world.report(at, environment, [running("two", two, 1, 2, 3), running("three", freshFingerprint())]);
  const shown = async (index: number) => (await read(at, environment, index)).body;
  const annotations = ({ artifacts }: any) =>
    artifacts.map(({ name, annotation: { type, was, now } }: any) => [name, type, was, now]);
  const [first, second, third] = [await shown(1), await shown(2), await shown(3)];
  assert.equal(annotations(first), [
    ["one", "started-unknown", 0, 1],
    ["two", "started-unknown", 0, 2],
  ]);
  assert.equal(annotations(second), [
    ["one", "exited", 1, 0],
    ["two", "unchanged", 2, 3],
  ]);
  assert.equal(annotations(third), [
    ["three", "started-unknown", 0, 1],
    ["two", "unchanged", 3, 3],
  ]);
  assert.equal(second.artifacts[0].creationTimestamp, [1_690_000_000], "what it last had");
  assert.equal(second.artifact_compliance_count, { true: 0, false: 0, null: 1 }, "what exited does not count");
  const times = world.times(at, environment);
  assert.equal(
    [first, second, third].map(({ timestamp, next_snapshot_timestamp, is_latest }) => [
      timestamp,
      next_snapshot_timestamp,
      is_latest,
    ]),
    [
      [times[0], times[1], false],
      [times[1], times[2], false],
      [times[2], null, true],
    ],
  );
});

test("a snapshot without policies is not compliant and its artifacts are unknown", async () => {
  const at = server.given.org();
  const environment = world.environment(at);
  world.report(at, environment, [running("one", freshFingerprint())]);
  const { body } = await read(at, environment);
  assert.equal(
    {
      compliant: body.compliant,
      artifact_compliance_count: body.artifact_compliance_count,
      firstArtifactCompliant: body.artifacts[0].compliant,
    },
    {
      compliant: false,
      artifact_compliance_count: { true: 0, false: 0, null: 1 },
      firstArtifactCompliant: null,
    },
  );
  assert.equal(
    {
      policy_decisions: body.artifacts[0].policy_decisions,
      reasons_for_incompliance: body.artifacts[0].reasons_for_incompliance,
      applied_policies: body.applied_policies,
    },
    { policy_decisions: [], reasons_for_incompliance: [], applied_policies: [] },
  );
});

test("compares with the artifact that ran before under the same name in the flow", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const environment = world.environment(at);
  const before = await built(at, flow);
  const beside = await built(at, flow, { name: "client" });
  world.report(at, environment, [running("api:1", before.fingerprint), running("web", beside.fingerprint)]);
  const after = await built(at, flow);
  world.report(at, environment, [
    running("api:1", before.fingerprint),
    running("api:2", after.fingerprint),
    running("web", beside.fingerprint),
  ]);
  const diffs = async () =>
    Object.fromEntries(
      (await read(at, environment)).body.artifacts.map(({ name, deployment_diff, flows }: any) => {
        assert.equal(flows[0].deployment_diff, deployment_diff);
        return [name, deployment_diff];
      }),
    );
  const diff = {
    diff_url: `https://github.com/acme/api/compare/${before.commit}...${after.commit}`,
    previous_git_commit: before.commit,
    previous_git_commit_url: before.commitUrl,
    previous_fingerprint: before.fingerprint,
    previous_artifact_name: "api:1",
    previous_artifact_compliance_state: "COMPLIANT",
    previous_running: true,
    previous_trail_name: before.trail,
    previous_template_reference_name: "server",
  };
  assert.equal(await diffs(), { "api:1": null, "api:2": diff, web: null });
  world.report(at, environment, [running("api:2", after.fingerprint), running("web", beside.fingerprint)]);
  assert.equal(await diffs(), { "api:1": null, "api:2": { ...diff, previous_running: false }, web: null });
});

test("shows the task of ECS artifacts, and images without fingerprint by name", async () => {
  const at = server.given.org();
  const environment = world.environment(at, { type: "ECS" });
  const ecs = { task_arn: "arn:aws:ecs:task/1", cluster_name: "main", service_name: null };
  world.report(at, environment, [{ name: "api", fingerprint: "", instances: { created: [5], ecs } }]);
  const [artifact] = (await read(at, environment)).body.artifacts;
  assert.equal(artifact, {
    ...NOTHING_KNOWN,
    name: "api",
    fingerprint: "",
    compliant: null,
    reasons_for_incompliance: [],
    creationTimestamp: [5],
    ecs_context: ecs,
    annotation: { type: "started-unknown", was: 0, now: 1 },
  });
});

test("shows no lead time for an unknown start", async () => {
  const at = server.given.org();
  const { fingerprint } = await built(at, await server.given.flow(at), { at: 1_690_000_000 });
  const environment = world.environment(at, { type: "azure-apps" });
  world.report(at, environment, [running("app", fingerprint, 0)]);
  const [artifact] = (await read(at, environment)).body.artifacts;
  assert.equal(
    { creationTimestamp: artifact.creationTimestamp, commit_lead_time: artifact.commit_lead_time },
    { creationTimestamp: [0], commit_lead_time: null },
  );
});

test("an allowed artifact is compliant, and keeps the evaluations of its policies", async () => {
  const at = server.given.org();
  const policy = await server.given.policy(at, { yaml: "artifacts:\n  provenance:\n    required: true\n" });
  const environment = world.environment(at);
  world.attach(at, environment, policy);
  const fingerprint = freshFingerprint();
  world.report(at, environment, [running("api", fingerprint)]);
  world.allow(at, environment, fingerprint);
  const { body } = await read(at, environment);
  assert.equal(
    { index: body.index, compliant: body.compliant, artifact_compliance_count: body.artifact_compliance_count },
    { index: 2, compliant: true, artifact_compliance_count: { true: 1, false: 0, null: 0 } },
  );
  const [artifact] = body.artifacts;
  assert.equal(
    {
      compliant: artifact.compliant,
      reasons_for_incompliance: artifact.reasons_for_incompliance,
      annotation: artifact.annotation,
    },
    { compliant: true, reasons_for_incompliance: [], annotation: { type: "became-compliant", was: 1, now: 1 } },
  );
  assert.is(artifact.policy_decisions[0].status, "NON-COMPLIANT");
  assert.equal(
    body.applied_policies.map(({ name, failing_artifacts }: any) => [name, failing_artifacts]),
    [[policy, []]],
  );
});

test("resolves expressions by number, from the end and by time", async () => {
  const at = server.given.org();
  const environment = world.environment(at);
  for (let count = 1; count <= 3; count += 1) world.report(at, environment, [running("one", freshFingerprint())]);
  const [, second = 0] = world.times(at, environment);
  const utc = new Date(second * 1000).toISOString().slice(0, 19);
  for (const [expression, index] of [
    ["1", 1],
    ["3", 3],
    ["-1", 3],
    ["-3", 1],
    ["#2", 2],
    ["~0", 3],
    ["~2", 1],
    [`@{${utc}}`, 2],
    ["@{now}", 3],
    ["@{2999-01-01T00:00:00}", 3],
  ] as const) {
    const answer = await read(at, environment, expression);
    assert.equal({ status: answer.status, index: answer.body.index }, { status: 200, index }, expression);
  }
});

test("answers 404 with the resolved index for one that does not exist", async () => {
  const at = server.given.org();
  const [empty, environment] = [world.environment(at), world.environment(at)];
  for (let count = 1; count <= 2; count += 1) world.report(at, environment, [running("one", freshFingerprint())]);
  for (const [name, expression, label, index, count] of [
    [empty, "-1", "#-1", 0, 0],
    [empty, "1", "#1", 1, 0],
    [empty, "~0", "~0", 0, 0],
    [empty, "@{now}", "@{now}", 0, 0],
    [environment, "0", "#0", 0, 2],
    [environment, "3", "#3", 3, 2],
    [environment, "#3", "#3", 3, 2],
    [environment, "-3", "#-3", 0, 2],
    [environment, "-5", "#-5", -2, 2],
    [environment, "~2", "~2", 0, 2],
    [environment, "~9007199254740993", "~9007199254740993", 2 - Number.MAX_SAFE_INTEGER, 2],
    [environment, "@{2001-01-01T00:00:00}", "@{2001-01-01T00:00:00}", 0, 2],
    [environment, "@{100000.months.ago}", "@{100000.months.ago}", 0, 2],
  ] as const) {
    const answer = await read(at, name, expression);
    const message =
      `Org: '${at.org}'. Snapshot '${name}${label}' resolves to '${name}#${index}'. len(snapshots) == ${count}. ` +
      "Indexes are 1-based";
    assert.equal({ status: answer.status, body: answer.body }, { status: 404, body: { message } }, expression);
  }
});

test("refuses malformed expressions by field", async () => {
  const at = server.given.org();
  const environment = world.environment(at);
  for (const expression of [
    "x",
    "1.5",
    "#",
    "~",
    "~-1",
    "#~1",
    "@now",
    "@{}",
    "@{2026-02-30T00:00:00}",
    "@{2.years.ago}",
    "NOW",
    "1..2",
  ]) {
    const answer = await read(at, environment, expression);
    const errors = { snapshot_expression: `Input should be a valid snapshot expression [input: ${expression}]` };
    assert.equal(
      { status: answer.status, body: answer.body },
      { status: 400, body: { message: FAILED, errors } },
      expression,
    );
  }
});

test("distinguishes unknown and archived environments, and accepts former names", async () => {
  const at = server.given.org();
  const environment = world.environment(at);
  world.report(at, environment, [running("one", freshFingerprint())]);
  for (const answer of [await read(at, "nope"), await list(at, "nope")])
    assert.equal(
      { status: answer.status, body: answer.body },
      { status: 404, body: { message: `Environment named 'nope' does not exist for organization '${at.org}'` } },
    );

  const id = world.idOf(at, environment);
  const old = fresh("old");
  server.db
    .prepare(
      "INSERT INTO environment_aliases (organization_id, name, environment_id) SELECT organization_id, ?, id " +
        "FROM environments WHERE id = ?",
    )
    .run(old, id);
  assert.is((await read(at, old)).body.html_url, `${HOST}/${at.org}/environments/${environment}/1`);
  assert.is(
    (await read(at, old, 7)).body.message,
    `Org: '${at.org}'. Snapshot '${old}#7' resolves to '${old}#7'. len(snapshots) == 1. Indexes are 1-based`,
  );

  const suffixed = `${environment}-archived-at-1`;
  server.db
    .prepare("UPDATE environments SET archived_at = 1, archived_name = name, name = ? WHERE id = ?")
    .run(suffixed, id);
  for (const answer of [await read(at, environment), await list(at, environment)])
    assert.equal(
      { status: answer.status, body: answer.body },
      {
        status: 404,
        body: { message: `Environment named '${environment}' has been archived for organization '${at.org}'` },
      },
    );
  assert.is((await read(at, suffixed)).status, 200);
  assert.is((await list(at, suffixed)).body.length, 1);
});

test("permits members, readers and outsiders of public organizations to read, no one else", async () => {
  const at = server.given.org();
  const open = server.given.org({ public: true });
  const environment = world.environment(at);
  world.report(at, environment, []);
  world.report(open, world.environment(open, { name: environment }), []);
  const outsider = server.given.user(at.org, null);
  const paths = (org: string): string[] => [
    `/snapshots/${org}/${environment}/-1`,
    `/snapshots/${org}/${environment}`,
    `/env-diff/${org}?snappish1=${environment}&snappish2=${environment}`,
  ];
  for (const path of paths(at.org)) {
    assert.is((await server.call("GET", path, { key: server.given.user(at.org, "reader") })).status, 200);
    assert.is((await server.call("GET", path, { key: server.given.user(at.org, "snapshotter") })).status, 200);
    assert.is((await server.call("GET", path, { key: outsider })).status, 403);
    assert.is((await server.call("GET", path)).status, 401);
  }
  for (const path of paths(open.org)) assert.is((await server.call("GET", path, { key: outsider })).status, 200);
});

test("merges the members of a logical environment, and shows the changes of the member that caused it", async () => {
  const at = server.given.org();
  const [strict, other] = [
    await server.given.policy(at, { yaml: "artifacts:\n  provenance:\n    required: true\n" }),
    await server.given.policy(at, { yaml: "" }),
  ];
  const [east, west, late] = [world.environment(at), world.environment(at), world.environment(at)];
  world.attach(at, east, strict, other);
  world.attach(at, west, strict);
  const group = world.environment(at, { type: "logical", members: [west, east, late] });
  const [a, b, c] = [freshFingerprint(), freshFingerprint(), freshFingerprint()];
  world.report(at, east, [running("a", a), running("b", b, 1, 2)]);
  world.report(at, west, [running("c", c)]);
  world.report(at, east, [running("b", b, 1, 2)]);
  world.report(at, west, [running("c", c), running("b", b)]);

  const shown = async (index: number) => (await read(at, group, index)).body;
  const rows = ({ artifacts }: any) =>
    artifacts.map(({ name, environment_name, annotation: { type, was, now } }: any) => [
      environment_name,
      name,
      type,
      was,
      now,
    ]);
  const [first, second, third, fourth] = [await shown(1), await shown(2), await shown(3), await shown(4)];
  assert.equal(rows(first), [
    [east, "a", "started-non-compliant", 0, 1],
    [east, "b", "started-non-compliant", 0, 2],
  ]);
  assert.equal(rows(second), [
    [west, "c", "started-non-compliant", 0, 1],
    [east, "a", "unchanged", 1, 1],
    [east, "b", "unchanged", 2, 2],
  ]);
  assert.equal(rows(third), [
    [west, "c", "unchanged", 1, 1],
    [east, "a", "exited", 1, 0],
    [east, "b", "unchanged", 2, 2],
  ]);
  assert.equal(
    rows(fourth),
    [
      [west, "b", "started-non-compliant", 0, 1],
      [west, "c", "unchanged", 1, 1],
      [east, "b", "unchanged", 2, 2],
    ],
    "what exited in a member is left out afterwards",
  );

  const times = world.times(at, group);
  assert.equal(
    {
      index: third.index,
      is_latest: third.is_latest,
      timestamp: third.timestamp,
      next_snapshot_timestamp: third.next_snapshot_timestamp,
      type: third.type,
      compliant: third.compliant,
      artifact_compliance_count: third.artifact_compliance_count,
      user_name: third.user_name,
    },
    {
      index: 3,
      is_latest: false,
      timestamp: times[2],
      next_snapshot_timestamp: times[3],
      type: "logical",
      compliant: false,
      artifact_compliance_count: { true: 0, false: 2, null: 0 },
      user_name: REPORTER.displayName,
    },
  );
  assert.is(third.html_url, `${HOST}/${at.org}/environments/${group}/3`);
  assert.equal(
    third.applied_policies.map(({ id, name, version, failing_artifacts }: any) => [
      id,
      name,
      version,
      failing_artifacts,
    ]),
    [
      [
        policyId(strict),
        strict,
        1,
        [
          { name: "c", fingerprint: c },
          { name: "b", fingerprint: b },
        ],
      ],
      [policyId(other), other, 1, []],
    ],
  );
  assert.equal(
    (await list(at, group)).body.map(({ index, from }: any) => [index, from]),
    [
      [4, times[3]],
      [3, times[2]],
      [2, times[1]],
      [1, times[0]],
    ],
  );
  assert.is(
    (await read(at, world.environment(at, { type: "logical" }))).body.message.includes("len(snapshots) == 0"),
    true,
  );
  assert.not.ok("environment_name" in (await read(at, east)).body.artifacts[0], "of logical environments only");
});

test("marks a damaged record and shows the rest", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const { fingerprint } = await built(at, flow);
  const environment = world.environment(at);
  const [gone, other] = [freshFingerprint(), freshFingerprint()];
  world.report(at, environment, [running("api", fingerprint), running("gone", gone)]);
  world.report(at, environment, [running("api", fingerprint), running("other", other)]);
  const intact = (await read(at, environment)).body;
  const placeholder = (name: string, print: string, annotation: object, created: number[]) => ({
    ...NOTHING_KNOWN,
    name,
    fingerprint: print,
    compliant: null,
    annotation,
    creationTimestamp: created,
    reasons_for_incompliance: ["This record is damaged and cannot be shown. Tell the operator of the server its name"],
  });
  const id = world.idOf(at, environment);
  const damage = (table: string, column: string, text: string) =>
    server.db.prepare(`UPDATE ${table} SET ${column} = ? WHERE environment_id = ?`).run(text, id);
  for (const [table, column, texts] of [
    ["evaluations", "facts_json", ["{", "{}", '{"flows":[{}]}', '{"flows":[null]}']],
    ["evaluations", "verdicts_json", ["", "{}", "[null]"]],
    ["snapshot_artifacts", "instances_json", ["[", "null", "{}"]],
  ] as const) {
    const before = server.db
      .prepare<[number], { id: number; value: string }>(
        `SELECT id, ${column} AS value FROM ${table} WHERE environment_id = ?`,
      )
      .all(id);
    for (const text of texts) {
      damage(table, column, text);
      const answer = await read(at, environment);
      assert.is(answer.status, 200, `${column} ${text}`);
      assert.equal(answer.body, {
        ...intact,
        artifacts: [
          placeholder("api", fingerprint, { type: "unchanged", was: 1, now: 1 }, [0]),
          placeholder("gone", gone, { type: "exited", was: 1, now: 0 }, []),
          placeholder("other", other, { type: "started-unknown", was: 0, now: 1 }, [0]),
        ],
      });
    }
    for (const { id: row, value } of before)
      server.db.prepare(`UPDATE ${table} SET ${column} = ? WHERE id = ?`).run(value, row);
  }
  assert.equal((await read(at, environment)).body, intact);
  server.db.prepare("UPDATE artifacts SET git_commit_info_json = '{' WHERE fingerprint = ?").run(fingerprint);
  assert.equal(
    (await read(at, environment)).body.artifacts.map(({ flows }: any) => flows.length),
    [0, 0, 0],
  );
});

test("reads a snapshot consistently, and notices changes and damage after a cached read", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const policies = [
    await server.given.policy(at, {
      yaml: "artifacts:\n  provenance:\n    required: true\n  attestations:\n    - type: junit\n      name: tests\n",
    }),
    await server.given.policy(at, {
      yaml:
        'artifacts:\n  attestations:\n    - if: ${{ matches(artifact.name, "é😀") }}\n      type: generic\n' +
        "      name: scan\n",
    }),
  ];
  const { fingerprint } = await built(at, flow);
  const environment = world.environment(at);
  world.attach(at, environment, ...policies);
  world.report(at, environment, [running("api", fingerprint), running("web", freshFingerprint())]);
  const id = world.idOf(at, environment);
  const evaluation = server.db
    .prepare<[string], { id: number; verdicts_json: string }>(
      "SELECT e.id, e.verdicts_json FROM snapshot_artifacts a JOIN evaluations e ON e.id = a.evaluation_id " +
        "WHERE a.fingerprint = ?",
    )
    .get(fingerprint);
  assert.ok(evaluation);
  const first = await read(at, environment);
  assert.is(first.status, 200, first.text);
  assert.is((await read(at, environment)).text, first.text);
  assert.is(
    first.body.artifacts[0].policy_decisions[1].rule_evaluations[2].rule.definition.if.text,
    'matches(artifact.name, "é😀")',
  );

  const damage = (text: string) =>
    server.db.prepare("UPDATE evaluations SET verdicts_json = ? WHERE id = ?").run(text, evaluation.id);
  const [version] = JSON.parse(evaluation.verdicts_json) as { version_id: number }[];
  for (const text of [
    "{",
    `[{"version_id":${version?.version_id}}]`,
    `[{"version_id":${version?.version_id},"rules":[{},{},{},{}]}]`,
  ]) {
    damage(text);
    const { status, body } = await read(at, environment);
    assert.is(status, 200, text);
    const { annotation, compliant } = first.body.artifacts[0];
    const placeholder = {
      ...NOTHING_KNOWN,
      name: "api",
      fingerprint,
      compliant,
      annotation,
      creationTimestamp: [0],
      reasons_for_incompliance: [
        "This record is damaged and cannot be shown. Tell the operator of the server its name",
      ],
    };
    assert.equal(body.artifacts, [placeholder, first.body.artifacts[1]], text);
  }
  damage(evaluation.verdicts_json);
  assert.is((await read(at, environment)).text, first.text);

  server.db
    .prepare("UPDATE snapshot_artifacts SET instances_json = '{\"created\":[7]}' WHERE environment_id = ?")
    .run(id);
  assert.equal(
    (await read(at, environment)).body.artifacts.map(({ creationTimestamp }: any) => creationTimestamp),
    [[7], [7]],
  );
});

test("a snapshot without artifacts has an empty list", async () => {
  const at = server.given.org();
  const environment = world.environment(at);
  world.report(at, environment, []);
  const { status, body } = await read(at, environment);
  assert.equal(
    { status, artifacts: body.artifacts, applied_policies: body.applied_policies },
    { status: 200, artifacts: [], applied_policies: [] },
  );
});

test("marks an unreadable policy and keeps the verdicts made with it", async () => {
  const at = server.given.org();
  const policy = await server.given.policy(at, { yaml: "artifacts:\n  provenance:\n    required: true\n" });
  const environment = world.environment(at);
  world.attach(at, environment, policy);
  const fingerprint = freshFingerprint();
  world.report(at, environment, [running("api", fingerprint)]);
  // A version from a newer program with a larger grammar.
  const strange = server.db
    .prepare(
      "INSERT INTO policy_versions (policy_id, version, timestamp, created_by, policy_yaml) " +
        "SELECT id, 2, 1, 'ann', 'broken: [' FROM policies WHERE public_id = ? RETURNING id",
    )
    .pluck()
    .get(policyId(policy));
  server.db
    .prepare(
      "UPDATE evaluations SET verdicts_json = json_set(verdicts_json, '$[0].version_id', ?) WHERE environment_id = ?",
    )
    .run(strange, world.idOf(at, environment));
  server.db
    .prepare("UPDATE snapshots SET policy_versions_json = json_array(?) WHERE environment_id = ?")
    .run(strange, world.idOf(at, environment));
  const { status, body } = await read(at, environment);
  assert.is(status, 200);
  assert.equal(body.artifacts[0].policy_decisions, [
    { policy_name: policy, policy_version: 1, status: "NON-COMPLIANT", rule_evaluations: [] },
  ]);
  const [applied] = body.applied_policies;
  assert.equal(applied.failing_artifacts, [{ name: "api", fingerprint }]);
  assert.match(applied.policy_dump.artifacts.attestations[0].name, /^This record is damaged/);
  server.db
    .prepare("UPDATE evaluations SET verdicts_json = '[null]' WHERE environment_id = ?")
    .run(world.idOf(at, environment));
  const damaged = await read(at, environment);
  assert.equal(
    {
      status: damaged.status,
      compliant: damaged.body.artifacts[0].compliant,
      failing_artifacts: damaged.body.applied_policies[0].failing_artifacts,
    },
    { status: 200, compliant: false, failing_artifacts: [] },
  );
});

test("lists newest first; each snapshot ends where the next begins, the latest now", async () => {
  const at = server.given.org();
  const policy = await server.given.policy(at, { yaml: "" });
  const environment = world.environment(at);
  assert.equal((await list(at, environment)).body, []);
  world.report(at, environment, [running("one", freshFingerprint())]);
  world.attach(at, environment, policy);
  world.report(at, environment, [running("two", freshFingerprint())]);
  const [t1 = 0, t2 = 0, t3 = 0] = world.times(at, environment);
  const { status, body } = await list(at, environment);
  const duration = body[0].duration;
  assert.ok(duration > 0 && duration < EPOCH);
  const items = [
    { index: 3, from: t3, to: 0, compliant: true, duration },
    { index: 2, from: t2, to: t3, compliant: true, duration: t3 - t2 },
    { index: 1, from: t1, to: t2, compliant: false, duration: t2 - t1 },
  ];
  assert.equal({ status, body }, { status: 200, body: items });
  const indexes = async (query: string): Promise<number[]> => {
    const answer = await list(at, environment, query);
    assert.is(answer.status, 200, query);
    return answer.body.map(({ index }: { index: number }) => index);
  };
  for (const [query, expected] of [
    ["?page=1&per_page=15&interval=&reverse=false", [3, 2, 1]],
    ["?reverse=true", [1, 2, 3]],
    ["?reverse=True", [1, 2, 3]],
    ["?per_page=2", [3, 2]],
    ["?per_page=2&page=2", [1]],
    ["?per_page=2&page=2&reverse=true", [3]],
    ["?per_page=3&page=2", []],
    ["?page=9007199254740991&per_page=9007199254740991", []],
    ["?per_page=100000", [3, 2, 1]],
    ["?interval=2..3", [3, 2]],
    ["?interval=1..2&per_page=1", [2]],
    ["?interval=1..2&per_page=1&page=2", [1]],
    ["?interval=1..2&per_page=1&reverse=true", [1]],
    ["?interval=~1..NOW", [3, 2]],
    ["?interval=NOW", [3]],
    ["?interval=1..NOW", [3, 2, 1]],
    ["?interval=7..9", []],
    ["?interval=4..NOW", []],
    ["?interval=4", []],
    ["?interval=4..~1", []],
    ["?interval=9..2", [3, 2]],
    ["?interval=99999999999999999999..", []],
    ["?interval=1..900", [3, 2, 1]],
  ] as const)
    assert.equal(await indexes(query), expected, query);
  const [middle] = (await list(at, environment, "?interval=2..2")).body;
  assert.equal(middle, items[1], "the end of the last on a page is known from beyond it");
});

test("refuses malformed intervals and pages by field", async () => {
  const at = server.given.org();
  const environment = world.environment(at);
  for (const interval of ["x", "1..x", "x..2", "1...2", "1..2..3"]) {
    const answer = await list(at, environment, `?interval=${interval}`);
    assert.equal(
      { status: answer.status, body: answer.body },
      {
        status: 400,
        body: { message: FAILED, errors: { interval: `Input should be a valid interval [input: ${interval}]` } },
      },
    );
  }
  for (const query of ["page=0", "per_page=0", "page=x", "reverse=maybe"]) {
    const answer = await list(at, environment, `?${query}`);
    assert.is(answer.status, 400, query);
    assert.equal(Object.keys(answer.body.errors), [query.split("=")[0]]);
  }
});

test.run();
