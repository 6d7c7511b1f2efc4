// How policies evaluate what runs: exceptions, tags in expressions, several policies, new versions.

import { suite } from "uvu";
import * as assert from "uvu/assert";
import { expectStatus } from "./client.ts";
import { until } from "../patience.ts";
import type { Json } from "./client.ts";
import {
  MEMBER,
  PROVENANCE_POLICY,
  SCAN_TEMPLATE,
  fingerprintOf,
  reportItems,
  startRuntimeServer,
  policyYaml,
  summarizeArtifacts,
} from "./runtime-server.ts";
import type { RuntimeServer } from "./runtime-server.ts";

const test = suite("binary/runtime-policies");
let server: RuntimeServer;
test.before(async () => void (server = await startRuntimeServer()));
test.after(() => server.close());

test("exceptions and tags apply only to their own artifact and flow", async () => {
  for (const flow of ["ex-a", "ex-b", "ex-c"])
    await server.createFlow(flow, flow === "ex-b" ? undefined : SCAN_TEMPLATE);
  for (const flow of ["ex-a", "ex-b"])
    await server.reportArtifact({ flow, trail: "ex-1", name: "ex-app:1", label: "ex-app" });
  await server.reportArtifact({ flow: "ex-c", trail: "ex-1", name: "ex-other:1", label: "ex-other" });
  await server.putPolicy(
    "ex-policy",
    policyYaml(`  provenance:
    required: true
    exceptions:
      - if: \${{ matches(artifact.name, "^vendor/") }}
  trail-compliance:
    required: true
    exceptions:
      - if: \${{ flow.tags.risk in ["low", "none"] or matches(artifact.name, "^vendor/") }}
  attestations:
    - type: generic
      name: review
      if: \${{ exists(flow.tags.data.owner) and flow.tags.data.owner != "nobody" and artifact.name == "ex-app:1" }}
`),
  );
  await server.createEnvironment("ex-prod", "docker", { policies: ["ex-policy"] });
  const running = reportItems({
    "ex-app:1": "ex-app",
    "ex-other:1": "ex-other",
    "stranger/tool:1": "ex-stranger",
    "vendor/tool:1": "ex-vendor",
  });
  const report = (status: 200 | 201) => server.report("ex-prod", "docker", running, status);
  const readRules = async (name: string): Promise<unknown[]> => {
    const { policy_decisions } = (await server.readSnapshot("ex-prod")).artifacts.find(
      (one: Json) => one["name"] === name,
    );
    return policy_decisions[0].rule_evaluations.map(({ rule, satisfied, ignored, resolutions }: Json) => [
      rule.type,
      satisfied,
      ignored,
      ...resolutions.map(({ type, context }: Json) => `${context.flow_name}: ${type}`),
    ]);
  };
  const provenance = ["provenance", true, false, "ex-a: rule_satisfied", "ex-b: rule_satisfied"];
  const notApplicable = (...flows: (string | null)[]) => [
    null,
    true,
    ...flows.map((flow) => `${flow}: rule_not_applicable`),
  ];

  await report(201);
  assert.equal(await server.readAnnotations("ex-prod"), [
    ["ex-app:1", "started-non-compliant", false],
    ["ex-other:1", "started-non-compliant", false],
    ["stranger/tool:1", "started-non-compliant", false],
    ["vendor/tool:1", "started-compliant", true],
  ]);
  assert.equal(await readRules("ex-app:1"), [
    provenance,
    ["trail-compliance", false, false, "ex-a: non_compliant_in_trail", "ex-b: rule_satisfied"],
    ["attestation", ...notApplicable("ex-a", "ex-b")],
  ]);
  assert.equal(await readRules("vendor/tool:1"), [
    ["provenance", ...notApplicable(null)],
    ["trail-compliance", ...notApplicable(null)],
    ["attestation", ...notApplicable(null)],
  ]);
  assert.equal(await readRules("stranger/tool:1"), [
    ["provenance", false, false, "null: missing_provenance"],
    ["trail-compliance", false, false, "null: no_provenance"],
    ["attestation", ...notApplicable(null)],
  ]);

  const tag = (flow: string, set_tags: Json | null, remove_tags: string[] | null = null) =>
    server.expectOk("PATCH", `/tags/acme/flow/${flow}`, { set_tags, remove_tags });
  await tag("ex-a", { risk: "low" });
  assert.is(await server.countSnapshots("ex-prod"), 1);
  await report(201);
  assert.equal(await server.readAnnotations("ex-prod"), [
    ["ex-app:1", "became-compliant", true],
    ["ex-other:1", "unchanged", false],
    ["stranger/tool:1", "unchanged", false],
    ["vendor/tool:1", "unchanged", true],
  ]);
  assert.equal((await readRules("ex-app:1"))[1], [
    "trail-compliance",
    true,
    false,
    "ex-a: rule_not_applicable",
    "ex-b: rule_satisfied",
  ]);
  assert.equal((await readRules("ex-other:1"))[1], ["trail-compliance", false, false, "ex-c: non_compliant_in_trail"]);

  // A tag key with a dot, on the artifact's other flow. The same tag requires nothing of an artifact of another name.
  await tag("ex-b", { "data.owner": "payments" }, []);
  await tag("ex-c", { "data.owner": "payments" }, []);
  await report(201);
  assert.equal(await readRules("ex-app:1"), [
    provenance,
    ["trail-compliance", true, false, "ex-a: rule_not_applicable", "ex-b: rule_satisfied"],
    ["attestation", false, false, "ex-a: rule_not_applicable", "ex-b: missing_attestation"],
  ]);
  assert.equal((await readRules("ex-other:1"))[2], ["attestation", ...notApplicable("ex-c")]);
  // An attestation in the flow that does not require it does not count.
  await server.attest({ flow: "ex-a", trail: "ex-1", name: "review" });
  await report(201);
  assert.equal((await server.readAnnotations("ex-prod"))[0], ["ex-app:1", "updated-provenance", false]);
  await server.attest({ flow: "ex-b", trail: "ex-1", name: "review" });
  await report(201);
  assert.equal((await server.readAnnotations("ex-prod"))[0], ["ex-app:1", "became-compliant", true]);
  await tag("ex-a", {}, ["risk", "never-there"]);
  await report(201);
  assert.equal((await server.readAnnotations("ex-prod"))[0], ["ex-app:1", "became-non-compliant", false]);
  await report(200);
  assert.is(await server.countSnapshots("ex-prod"), 6);
});

test("an environment with two policies fails when one of them fails", async () => {
  const scan = (rules: string) => policyYaml(`  attestations:${rules}\n`);
  const SCAN = scan("\n    - type: generic\n      name: scan\n");
  await server.createFlow("two");
  await server.reportArtifact({ flow: "two", trail: "two-1", name: "two:1", label: "two-1" });
  await server.putPolicy("two-provenance", PROVENANCE_POLICY);
  await server.putPolicy("two-scan", SCAN);
  await server.createEnvironment("two-prod", "docker", { policies: ["two-provenance", "two-scan"] });
  const report = (status: 200 | 201) => server.report("two-prod", "docker", reportItems({ "two:1": "two-1" }), status);
  await report(201);

  const failing = [{ name: "two:1", fingerprint: fingerprintOf("two-1") }];
  const policies = ({ applied_policies }: Json): unknown[] =>
    applied_policies.map(({ name, version, failing_artifacts }: Json) => [name, version, failing_artifacts]);
  const first = await server.readSnapshot("two-prod");
  assert.equal(policies(first), [
    ["two-provenance", 1, []],
    ["two-scan", 1, failing],
  ]);
  const [artifact] = first.artifacts;
  assert.equal(
    artifact.policy_decisions.map(({ policy_name, status }: Json) => [policy_name, status]),
    [
      ["two-provenance", "COMPLIANT"],
      ["two-scan", "NON-COMPLIANT"],
    ],
  );
  assert.equal(artifact.reasons_for_incompliance, [
    "Policy 'two-scan' requires a compliant generic attestation named 'scan', " +
      "but none was reported in trail 'two-1' of flow 'two'.",
  ]);

  // The verdict that the admission webhook reads, in each scope.
  const readAssertion = (query: string): Promise<Json> =>
    expectStatus(
      server.as("member", "webhook").json("GET", `/asserts/acme/fingerprint/${fingerprintOf("two-1")}${query}`),
      200,
    );
  const verdict = ({ scope, compliant, environment, policy_evaluations, allow_listing }: Json): Json => ({
    scope,
    compliant,
    environment,
    policy_evaluations,
    allow_listing,
  });
  const decisions = artifact.policy_decisions;
  assert.equal(verdict(await readAssertion("?environment_name=two-prod")), {
    scope: "environment",
    compliant: false,
    environment: "two-prod",
    policy_evaluations: decisions,
    allow_listing: null,
  });
  const named = await readAssertion("?policy_name=two-scan&policy_name=two-provenance");
  assert.equal(
    { scope: named["scope"], compliant: named["compliant"], policy_evaluations: named["policy_evaluations"] },
    { scope: "policy", compliant: false, policy_evaluations: decisions.toReversed() },
  );
  assert.equal((await readAssertion("?policy_name=two-provenance"))["compliant"], true);
  const inFlow = await readAssertion("");
  assert.equal(
    {
      scope: inFlow["scope"],
      compliant: inFlow["compliant"],
      attestations_statuses: inFlow["compliance_status"].attestations_statuses,
    },
    { scope: "flow", compliant: true, attestations_statuses: [] },
  );
  await server.expectRefusal(
    "GET",
    `/asserts/acme/fingerprint/${fingerprintOf("two-none")}?environment_name=two-prod`,
    404,
    `Artifact with fingerprint '${fingerprintOf("two-none")}' does not exist in organization 'acme'`,
  );

  const path = "/environments/acme/two-prod/policies";
  for (let once = 0; once < 2; once += 1) await server.expectOk("DELETE", path, { policy_names: ["two-scan"] });
  assert.equal(
    {
      annotated: await server.readAnnotations("two-prod"),
      count: await server.countSnapshots("two-prod"),
      state: await server.readState("two-prod"),
    },
    { annotated: [["two:1", "became-compliant", true]], count: 2, state: true },
  );
  assert.equal((await server.read("/policies/acme/two-scan")).consuming_envs, []);
  for (let once = 0; once < 2; once += 1) await server.expectOk("POST", path, { policy_names: ["two-scan"] });
  assert.equal(
    {
      annotated: await server.readAnnotations("two-prod"),
      count: await server.countSnapshots("two-prod"),
      state: await server.readState("two-prod"),
    },
    { annotated: [["two:1", "became-non-compliant", false]], count: 3, state: false },
  );
  for (const method of ["POST", "DELETE"] as const)
    await server.expectRefusal(method, path, 404, "Policy 'two-none' does not exist in organization 'acme'", {
      policy_names: ["two-provenance", "two-none"],
    });
  assert.equal((await server.read("/environments/acme/two-prod")).policies, ["two-provenance", "two-scan"]);
  // Attaching one more satisfied policy changes no verdict, and still records a snapshot.
  await server.putPolicy("two-more", PROVENANCE_POLICY);
  await server.expectOk("POST", path, { policy_names: ["two-more"] });
  await server.expectOk("DELETE", `${path}?policy_names=two-more`);
  assert.equal(
    { annotated: await server.readAnnotations("two-prod"), count: await server.countSnapshots("two-prod") },
    { annotated: [["two:1", "unchanged", false]], count: 5 },
  );

  // The job queue re-evaluates after a new version. Sending the same text again does not create a version.
  await server.putPolicy("two-scan", SCAN, 200);
  assert.equal(
    (await server.read("/policies/acme/two-scan")).versions.map(({ version }: Json) => version),
    [1],
  );
  await server.putPolicy("two-scan", scan(" []"), 200);
  await until("it was re-evaluated", async () => (await server.readState("two-prod")) === true);
  const flipped = await server.readSnapshot("two-prod");
  assert.equal(
    {
      artifacts: summarizeArtifacts(flipped),
      policies: policies(flipped),
      index: flipped.index,
      user_name: flipped.user_name,
    },
    {
      artifacts: [["two:1", "became-compliant", true]],
      policies: [
        ["two-provenance", 1, []],
        ["two-scan", 2, []],
      ],
      index: 6,
      user_name: MEMBER,
    },
  );
  assert.equal(policies(await server.readSnapshot("two-prod", "1")), policies(first));
  await server.putPolicy("two-scan", scan(" []"), 200);
  await report(200);

  await server.expectOk("DELETE", path, { policy_names: ["two-provenance", "two-scan"] });
  const unknown = await server.readSnapshot("two-prod");
  assert.equal(
    {
      compliant: unknown.compliant,
      artifact_compliance_count: unknown.artifact_compliance_count,
      applied_policies: unknown.applied_policies,
      artifacts: summarizeArtifacts(unknown),
    },
    {
      compliant: false,
      artifact_compliance_count: { true: 0, false: 0, null: 1 },
      applied_policies: [],
      artifacts: [["two:1", "unchanged", null]],
    },
  );
  assert.equal(
    {
      state: await server.readState("two-prod"),
      compliant: (await readAssertion("?environment_name=two-prod"))["compliant"],
      count: await server.countSnapshots("two-prod"),
    },
    { state: null, compliant: true, count: 7 },
  );
});

test("the next report re-evaluates after every change that matters, and after no other", async () => {
  for (const flow of ["fact-a", "fact-b", "fact-sibling"])
    await server.createFlow(flow, flow === "fact-a" ? SCAN_TEMPLATE : undefined);
  const build = { flow: "fact-a", trail: "t1", name: "fact:1", label: "fact" };
  await server.reportArtifact(build);
  await server.putPolicy(
    "fact-policy",
    policyYaml(
      "  provenance: {required: true}\n" +
        "  trail-compliance:\n    required: true\n    exceptions:\n" +
        "      - if: ${{ flow.name == 'fact-waived' }}\n",
    ),
  );
  await server.createEnvironment("fact-prod", "docker", { policies: ["fact-policy"] });
  const trail = "/attestations/acme/fact-a/trail/t1";
  const override = (attestation_name: string, new_compliance_status: boolean, of: Json) =>
    expectStatus(
      server.json("POST", `${trail}/override`, {
        attestation_name,
        new_compliance_status,
        reason: "because",
        original_attestation_type: "generic",
        user_data: {},
        ...of,
      }),
      201,
    );
  const artifact_fingerprint = fingerprintOf("fact");
  const begin = (name: string, fields: Json, template?: string) =>
    expectStatus(
      server
        .as("member")
        .form(
          "PUT",
          "/trails/acme/fact-a",
          "data_json",
          { name, ...fields },
          template === undefined ? undefined : { part: "template_file", name: "t.yml", content: template },
        ),
      200,
    );
  const PROOF_TEMPLATE = SCAN_TEMPLATE.replace("name: scan", "name: proof");
  const running = reportItems({ "fact:1": "fact" });

  const steps: [what: string, change: () => Promise<unknown>, annotation: string | null, compliant: boolean][] = [
    ["the first report", async () => undefined, "started-non-compliant", false],
    ["an attestation", () => server.attest({ ...build, name: "scan" }), "became-compliant", true],
    ["no change", async () => undefined, null, true],
    ["an override", () => override("scan", false, { artifact_fingerprint }), "became-non-compliant", false],
    ["the same attestation again", () => server.attest({ ...build, name: "scan" }), "became-compliant", true],
    [
      "a failing attestation of the trail that no template expects",
      () => server.attest({ flow: "fact-a", trail: "t1", name: "licences", is_compliant: false }),
      "became-non-compliant",
      false,
    ],
    ["its override", () => override("licences", true, {}), "became-compliant", true],
    [
      "a compliant attestation that nothing requires",
      () => server.attest({ ...build, name: "docs" }),
      "updated-provenance",
      true,
    ],
    [
      "a sibling in the trail, and its attestation",
      async () => {
        await server.reportArtifact({ ...build, label: "fact-sibling", reference: "sibling" });
        await server.attest({ ...build, label: "fact-sibling", name: "docs" });
      },
      null,
      true,
    ],
    ["a description of the trail", () => begin("t1", { description: "Words", user_data: { by: "ci" } }), null, true],
    [
      "a new template of the flow",
      () =>
        expectStatus(
          server
            .as("member")
            .form(
              "PUT",
              "/flows/acme/template_file",
              "data_json",
              { name: "fact-a", description: "" },
              { part: "template_file", name: "t.yml", content: PROOF_TEMPLATE },
            ),
          200,
        ),
      null,
      true,
    ],
    ["a new template of the trail", () => begin("t1", {}, PROOF_TEMPLATE), "became-non-compliant", false],
    ["the attestation that it expects", () => server.attest({ ...build, name: "proof" }), "became-compliant", true],
    [
      "a later report of the artifact, in another trail",
      () => server.reportArtifact({ ...build, trail: "t2" }),
      "became-non-compliant",
      false,
    ],
    ["its attestation", () => server.attest({ ...build, trail: "t2", name: "proof" }), "became-compliant", true],
    ["a second flow", () => server.reportArtifact({ ...build, flow: "fact-b" }), "updated-provenance", true],
    [
      "its failing attestation",
      () => server.attest({ ...build, flow: "fact-b", name: "scan", is_compliant: false }),
      "became-non-compliant",
      false,
    ],
    ["the archiving of that flow", () => server.archive("/flows/acme/fact-b"), null, false],
    [
      "tags that no policy reads",
      () => server.expectOk("PATCH", "/tags/acme/environment/fact-prod", { set_tags: { team: "a" }, remove_tags: [] }),
      null,
      false,
    ],
  ];
  let made = 0;
  for (const [what, change, annotation, compliant] of steps) {
    await change();
    assert.is(await server.countSnapshots("fact-prod"), made, what);
    assert.equal(
      await server
        .json("PUT", "/environments/acme/fact-prod/report/docker", { artifacts: running })
        .then(({ status, body }) => [status, body]),
      [annotation === null ? 200 : 201, "OK"],
      what,
    );
    if (annotation !== null) made += 1;
    assert.equal(
      { count: await server.countSnapshots("fact-prod"), state: await server.readState("fact-prod") },
      { count: made, state: compliant },
      what,
    );
    if (annotation !== null)
      assert.equal(await server.readAnnotations("fact-prod"), [["fact:1", annotation, compliant]], what);
  }

  // Policies and responses use the current name of a flow.
  await server.createFlow("fact-c", SCAN_TEMPLATE);
  await server.reportArtifact({ flow: "fact-c", trail: "t", name: "named:1", label: "fact-named" });
  await server.createEnvironment("fact-named", "docker", { policies: ["fact-policy"] });
  const named = (status: 200 | 201) =>
    server.report("fact-named", "docker", reportItems({ "named:1": "fact-named" }), status);
  await named(201);
  await server.expectOk("PUT", "/flows/acme/fact-c/rename", { new_name: "fact-waived" });
  await named(201);
  assert.equal(await server.readAnnotations("fact-named"), [["named:1", "became-compliant", true]]);
  assert.is((await server.readSnapshot("fact-named", "1")).artifacts[0].flow_name, "fact-waived");
  assert.is((await server.readSnapshot("fact-named", "2")).artifacts[0].flow_name, "fact-waived");
});

test.run();
