/**
 * From a control to the verdict on running artifacts: policies with for_control, decisions, reports, asserts and
 * coverage, all through the API.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { fresh, freshCommit, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";
import { holdings } from "../../http/socket.ts";

const test = suite("api/policies/for-control");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
type Json = Record<string, any>;
const rule = (control: string): string =>
  `artifacts:\n  attestations:\n    - {type: decision, for_control: ${control}}\n`;
const text = (yaml: string): string => `_schema: https://assay.example.com/schemas/policy/v1\n${yaml}`;
const putPolicy = (at: At, name: string, yaml: string): Promise<Answer> =>
  server.call("PUT", `/policies/${at.org}`, {
    key: at.key,
    form: {
      field: "payload",
      json: { name, type: "env" },
      file: { name: "policy_file", filename: "p.yml", content: text(yaml) },
    },
  });
const report = async (at: At, environment: string, fingerprint: string): Promise<void> => {
  const body = {
    artifacts: [
      { podName: "app-1", namespace: "default", creationTimestamp: 1_690_000_000, digests: { app: fingerprint } },
    ],
  };
  const { status, text: said } = await server.call("PUT", `/environments/${at.org}/${environment}/report/K8S`, {
    key: at.key,
    body,
  });
  assert.ok(status === 200 || status === 201, said);
};
const decide = (
  at: At,
  there: { flow: string; trail: string },
  is_compliant: boolean,
  fields: Json = {},
): Promise<string> =>
  server.given.attestation(at, {
    kind: "system",
    ...there,
    name: "go",
    type_name: "decision",
    control: "C-1",
    attestation_data: { is_compliant },
    ...fields,
  });
const references = (at: At): unknown[] =>
  server.db
    .prepare(
      `SELECT pol.name, pv.version, c.identifier
       FROM policy_version_controls r
         JOIN policy_versions pv ON pv.id = r.policy_version_id JOIN policies pol ON pol.id = pv.policy_id
         JOIN controls c ON c.id = r.control_id JOIN organizations o ON o.id = pol.organization_id
       WHERE o.name = ? ORDER BY 1, 2, 3`,
    )
    .raw()
    .all(at.org);

/** A control, a policy that requires it, an environment with that policy, and an artifact in its own trail. */
async function setUp() {
  const at = server.given.org();
  await server.given.control(at, { identifier: "C-1" });
  const policy = await server.given.policy(at, { yaml: rule("C-1") });
  const environment = await server.given.environment(at, { policies: [policy] });
  const there = { flow: await server.given.flow(at), trail: fresh("trail") };
  const fingerprint = await server.given.artifact(at, { ...there, name: "app", commit: freshCommit() });
  return { at, policy, environment, there, fingerprint };
}

/** The latest snapshot: its index, its verdict, and the outcome of the rule for the control. */
async function latestSnapshot(at: At, environment: string): Promise<unknown[]> {
  const { body } = await server.call("GET", `/snapshots/${at.org}/${environment}/-1`, { key: at.key });
  const [artifact] = body.artifacts;
  const resolution = artifact.policy_decisions[0].rule_evaluations.at(-1).resolutions[0];
  return [body.index, body.compliant, resolution.type, resolution.context.for_control];
}

test("an artifact is compliant only after a decision; snapshot, assert and coverage agree", async () => {
  const { at, policy, environment, there, fingerprint } = await setUp();
  const stale = () =>
    server.db.prepare("SELECT count(*) FROM stale_artifacts WHERE fingerprint = ?").pluck().get(fingerprint);
  await report(at, environment, fingerprint);
  assert.equal(await latestSnapshot(at, environment), [1, false, "missing_attestation", "C-1"]);
  const verdict = async () => {
    const { body } = await server.call(
      "GET",
      `/asserts/${at.org}/fingerprint/${fingerprint}?environment_name=${environment}`,
      { key: at.key },
    );
    const [{ policy_name, status, rule_evaluations }] = body.policy_evaluations;
    const evaluation = rule_evaluations.at(-1);
    return [body.compliant, policy_name, status, evaluation.rule.definition.for_control, evaluation.resolutions];
  };
  const context = { flow_name: there.flow, trail_name: there.trail, artifact_status: null, for_control: "C-1" };
  assert.equal(await verdict(), [false, policy, "NON-COMPLIANT", "C-1", [{ type: "missing_attestation", context }]]);

  await decide(at, there, true, { control: "C-2" });
  await decide(at, there, false);
  assert.is(stale(), 1, "a decision is a fact that the verdict may depend on");
  await report(at, environment, fingerprint);
  assert.is(stale(), 0);
  assert.equal((await latestSnapshot(at, environment)).slice(1), [false, "non_compliant_attestation", "C-1"]);
  assert.equal(await verdict(), [
    false,
    policy,
    "NON-COMPLIANT",
    "C-1",
    [{ type: "non_compliant_attestation", context }],
  ]);

  const index = (await latestSnapshot(at, environment))[0] as number;
  await decide(at, there, true);
  assert.equal(
    (await latestSnapshot(at, environment)).slice(0, 2),
    [index, false],
    "nothing moves before the next report",
  );
  await report(at, environment, fingerprint);
  assert.equal(await latestSnapshot(at, environment), [index + 1, true, "rule_satisfied", "C-1"]);
  assert.equal(await verdict(), [true, policy, "COMPLIANT", "C-1", [{ type: "rule_satisfied", context }]]);

  const { body: coverage } = await server.call("GET", `/controls/${at.org}/C-1/coverage`, { key: at.key });
  assert.equal(
    { summary: coverage.summary, environments: coverage.environments },
    {
      summary: { total: 1, covered: 1, coverage_percent: 100 },
      environments: [{ name: environment, type: "K8S", covered: true, policies: [policy] }],
    },
  );

  await server.given.attestation(at, {
    kind: "override",
    ...there,
    name: "go",
    reason: "withdrawn",
    new_compliance_status: false,
    original_attestation_type: "decision",
  });
  await report(at, environment, fingerprint);
  assert.equal(await latestSnapshot(at, environment), [index + 2, false, "non_compliant_attestation", "C-1"]);
});

test("the latest decision on a control counts, regardless of names; one on a sibling does not", async () => {
  const { at, environment, there, fingerprint } = await setUp();
  const verdicts = async () => {
    await report(at, environment, fingerprint);
    return (await latestSnapshot(at, environment)).slice(1, 3);
  };
  await decide(at, there, true, { name: "first" });
  assert.equal(await verdicts(), [true, "rule_satisfied"]);
  await decide(at, there, false, { name: "second", fingerprint });
  assert.equal(await verdicts(), [false, "non_compliant_attestation"]);
  await decide(at, there, true, { name: "third" });
  assert.equal(await verdicts(), [true, "rule_satisfied"]);
  const sibling = await server.given.artifact(at, { ...there, name: "sibling", commit: freshCommit() });
  await decide(at, there, false, { name: "fourth", fingerprint: sibling });
  assert.equal(await verdicts(), [true, "rule_satisfied"]);
});

test("re-evaluates at once after a new policy version requires a control", async () => {
  const { at, environment, there, fingerprint } = await setUp();
  const other = await server.given.policy(at, { yaml: "" });
  await server.call("POST", `/environments/${at.org}/${environment}/policies`, {
    key: at.key,
    body: { policy_names: [other] },
  });
  await decide(at, there, true);
  await report(at, environment, fingerprint);
  assert.equal((await latestSnapshot(at, environment)).slice(1, 2), [true]);
  await server.given.control(at, { identifier: "C-9" });
  assert.is((await putPolicy(at, other, rule("C-9"))).status, 200);
  await server.settled();
  const { body } = await server.call("GET", `/snapshots/${at.org}/${environment}/-1`, { key: at.key });
  const evaluation = body.artifacts[0].policy_decisions
    .find(({ policy_name }: Json) => policy_name === other)
    ?.rule_evaluations.at(-1);
  assert.equal(
    {
      compliant: body.compliant,
      resolutions: evaluation.resolutions.map(({ type, context }: Json) => [type, context.for_control]),
    },
    { compliant: false, resolutions: [["missing_attestation", "C-9"]] },
  );
});

test("accepts existing controls in policies, including archived ones, and stores them per version", async () => {
  const at = server.given.org();
  const theirs = server.given.org();
  await server.given.control(theirs, { identifier: "THEIRS" });
  await server.given.control(at, { identifier: "A" });
  await server.given.control(at, { identifier: "B" });
  const both =
    "artifacts:\n  attestations:\n    - {type: decision, for_control: A}\n" +
    "    - {type: decision, for_control: B}\n    - {type: decision, name: x, for_control: A}\n";
  for (const [control, shown] of [
    ["NONE", "NONE"],
    ["THEIRS", "THEIRS"],
    ["a", "a"],
  ] as const) {
    const before = holdings(server);
    const answer = await putPolicy(at, "p", rule(control));
    assert.equal(
      { status: answer.status, body: answer.body },
      {
        status: 400,
        body: {
          message: "Input payload validation failed",
          errors: {
            policy_file:
              `line 4, column 37: artifacts.attestations.0.for_control: Control '${shown}' does not exist in ` +
              `organization '${at.org}'`,
          },
        },
      },
    );
    assert.equal(holdings(server), before);
  }
  assert.is((await putPolicy(at, "p", both)).status, 201);
  await server.call("POST", `/controls/${at.org}/A/archive`, { key: at.key });
  assert.is((await putPolicy(at, "p", both)).status, 200, "the same again is no version");
  assert.is((await putPolicy(at, "p", rule("A"))).status, 200);
  assert.is((await putPolicy(at, "p", "")).status, 200);
  assert.equal(references(at), [
    ["p", 1, "A"],
    ["p", 1, "B"],
    ["p", 2, "A"],
  ]);
});

test("policies and decisions still count while the feature is turned off", async () => {
  const { at, environment, there, fingerprint } = await setUp();
  await server.call("PUT", `/organizations/${at.org}/experimental_features`, {
    key: at.key,
    body: { experimental_features_enabled: false },
  });
  await report(at, environment, fingerprint);
  assert.equal(await latestSnapshot(at, environment), [1, false, "missing_attestation", "C-1"]);
  await decide(at, there, true);
  await report(at, environment, fingerprint);
  assert.equal(await latestSnapshot(at, environment), [2, true, "rule_satisfied", "C-1"]);
  assert.is((await putPolicy(at, fresh("policy"), rule("C-1"))).status, 201);
});

test.run();
