// What policies make of what runs: exceptions, tags in expressions, several policies, new versions.

import { suite } from "uvu";
import * as assert from "uvu/assert";
import { told } from "./client.ts";
import type { Json } from "./client.ts";
import { MEMBER, PROVENANCE, SCANNED, fingerprint, items, openPlace, schema, shown } from "./runtime-place.ts";
import type { Place } from "./runtime-place.ts";

const scenario = suite("binary/runtime-policies");
let at: Place;
scenario.before(async () => void (at = await openPlace()));
scenario.after(() => at.close());

scenario("exceptions and tags decide, each for its own artifact and flow", async () => {
  for (const flow of ["ex-a", "ex-b", "ex-c"]) await at.flow(flow, flow === "ex-b" ? undefined : SCANNED);
  for (const flow of ["ex-a", "ex-b"]) await at.build({ flow, trail: "ex-1", name: "ex-app:1", label: "ex-app" });
  await at.build({ flow: "ex-c", trail: "ex-1", name: "ex-other:1", label: "ex-other" });
  await at.policy(
    "ex-policy",
    schema(`  provenance:
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
  await at.environment("ex-prod", "docker", { policies: ["ex-policy"] });
  const running = items({
    "ex-app:1": "ex-app",
    "ex-other:1": "ex-other",
    "stranger/tool:1": "ex-stranger",
    "vendor/tool:1": "ex-vendor",
  });
  const report = (status: 200 | 201) => at.report("ex-prod", "docker", running, status);
  const decided = async (name: string): Promise<unknown[]> => {
    const { policy_decisions } = (await at.snapshot("ex-prod")).artifacts.find((one: Json) => one["name"] === name);
    return policy_decisions[0].rule_evaluations.map(({ rule, satisfied, ignored, resolutions }: Json) => [
      rule.type,
      satisfied,
      ignored,
      ...resolutions.map(({ type, context }: Json) => `${context.flow_name}: ${type}`),
    ]);
  };
  const provenance = ["provenance", true, false, "ex-a: rule_satisfied", "ex-b: rule_satisfied"];
  const waived = (...flows: (string | null)[]) => [null, true, ...flows.map((flow) => `${flow}: rule_not_applicable`)];

  await report(201);
  assert.equal(await at.annotated("ex-prod"), [
    ["ex-app:1", "started-non-compliant", false],
    ["ex-other:1", "started-non-compliant", false],
    ["stranger/tool:1", "started-non-compliant", false],
    ["vendor/tool:1", "started-compliant", true],
  ]);
  assert.equal(await decided("ex-app:1"), [
    provenance,
    ["trail-compliance", false, false, "ex-a: non_compliant_in_trail", "ex-b: rule_satisfied"],
    ["attestation", ...waived("ex-a", "ex-b")],
  ]);
  assert.equal(await decided("vendor/tool:1"), [
    ["provenance", ...waived(null)],
    ["trail-compliance", ...waived(null)],
    ["attestation", ...waived(null)],
  ]);
  assert.equal(await decided("stranger/tool:1"), [
    ["provenance", false, false, "null: missing_provenance"],
    ["trail-compliance", false, false, "null: no_provenance"],
    ["attestation", ...waived(null)],
  ]);

  const tag = (flow: string, set_tags: Json | null, remove_tags: string[] | null = null) =>
    at.ok("PATCH", `/tags/acme/flow/${flow}`, { set_tags, remove_tags });
  await tag("ex-a", { risk: "low" });
  assert.is(await at.count("ex-prod"), 1);
  await report(201);
  assert.equal(await at.annotated("ex-prod"), [
    ["ex-app:1", "became-compliant", true],
    ["ex-other:1", "unchanged", false],
    ["stranger/tool:1", "unchanged", false],
    ["vendor/tool:1", "unchanged", true],
  ]);
  assert.equal((await decided("ex-app:1"))[1], [
    "trail-compliance",
    true,
    false,
    "ex-a: rule_not_applicable",
    "ex-b: rule_satisfied",
  ]);
  assert.equal((await decided("ex-other:1"))[1], ["trail-compliance", false, false, "ex-c: non_compliant_in_trail"]);

  // A key with a dot, on the other of its flows; the same tag asks nothing of an artifact of another name.
  await tag("ex-b", { "data.owner": "payments" }, []);
  await tag("ex-c", { "data.owner": "payments" }, []);
  await report(201);
  assert.equal(await decided("ex-app:1"), [
    provenance,
    ["trail-compliance", true, false, "ex-a: rule_not_applicable", "ex-b: rule_satisfied"],
    ["attestation", false, false, "ex-a: rule_not_applicable", "ex-b: missing_attestation"],
  ]);
  assert.equal((await decided("ex-other:1"))[2], ["attestation", ...waived("ex-c")]);
  // In the trail of the flow that it was not asked for in, it does not count.
  await at.attest({ flow: "ex-a", trail: "ex-1", name: "review" });
  await report(201);
  assert.equal((await at.annotated("ex-prod"))[0], ["ex-app:1", "updated-provenance", false]);
  await at.attest({ flow: "ex-b", trail: "ex-1", name: "review" });
  await report(201);
  assert.equal((await at.annotated("ex-prod"))[0], ["ex-app:1", "became-compliant", true]);
  await tag("ex-a", {}, ["risk", "never-there"]);
  await report(201);
  assert.equal((await at.annotated("ex-prod"))[0], ["ex-app:1", "became-non-compliant", false]);
  await report(200);
  assert.is(await at.count("ex-prod"), 6);
});

scenario("of two policies one fails", async () => {
  const scan = (rules: string) => schema(`  attestations:${rules}\n`);
  const SCAN = scan("\n    - type: generic\n      name: scan\n");
  await at.flow("two");
  await at.build({ flow: "two", trail: "two-1", name: "two:1", label: "two-1" });
  await at.policy("two-provenance", PROVENANCE);
  await at.policy("two-scan", SCAN);
  await at.environment("two-prod", "docker", { policies: ["two-provenance", "two-scan"] });
  const report = (status: 200 | 201) => at.report("two-prod", "docker", items({ "two:1": "two-1" }), status);
  await report(201);

  const failing = [{ name: "two:1", fingerprint: fingerprint("two-1") }];
  const policies = ({ applied_policies }: Json): unknown[] =>
    applied_policies.map(({ name, version, failing_artifacts }: Json) => [name, version, failing_artifacts]);
  const first = await at.snapshot("two-prod");
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
    "Policy 'two-scan' requires a compliant generic attestation named 'scan', but none was reported in trail 'two-1' of flow 'two'.",
  ]);

  // The verdict for the admission webhook, in each scope.
  const ask = (query: string): Promise<Json> =>
    told(at.as("member", "webhook").json("GET", `/asserts/acme/fingerprint/${fingerprint("two-1")}${query}`), 200);
  const verdict = ({ scope, compliant, environment, policy_evaluations, allow_listing }: Json): Json => ({
    scope,
    compliant,
    environment,
    policy_evaluations,
    allow_listing,
  });
  const decisions = artifact.policy_decisions;
  assert.equal(verdict(await ask("?environment_name=two-prod")), {
    scope: "environment",
    compliant: false,
    environment: "two-prod",
    policy_evaluations: decisions,
    allow_listing: null,
  });
  const named = await ask("?policy_name=two-scan&policy_name=two-provenance");
  assert.equal(
    { scope: named["scope"], compliant: named["compliant"], policy_evaluations: named["policy_evaluations"] },
    { scope: "policy", compliant: false, policy_evaluations: decisions.toReversed() },
  );
  assert.equal((await ask("?policy_name=two-provenance"))["compliant"], true);
  const inFlow = await ask("");
  assert.equal(
    {
      scope: inFlow["scope"],
      compliant: inFlow["compliant"],
      attestations_statuses: inFlow["compliance_status"].attestations_statuses,
    },
    { scope: "flow", compliant: true, attestations_statuses: [] },
  );
  await at.refused(
    "GET",
    `/asserts/acme/fingerprint/${fingerprint("two-none")}?environment_name=two-prod`,
    404,
    `Artifact with fingerprint '${fingerprint("two-none")}' does not exist in organization 'acme'`,
  );

  const path = "/environments/acme/two-prod/policies";
  for (let once = 0; once < 2; once += 1) await at.ok("DELETE", path, { policy_names: ["two-scan"] });
  assert.equal(
    { annotated: await at.annotated("two-prod"), count: await at.count("two-prod"), state: await at.state("two-prod") },
    { annotated: [["two:1", "became-compliant", true]], count: 2, state: true },
  );
  assert.equal((await at.read("/policies/acme/two-scan")).consuming_envs, []);
  for (let once = 0; once < 2; once += 1) await at.ok("POST", path, { policy_names: ["two-scan"] });
  assert.equal(
    { annotated: await at.annotated("two-prod"), count: await at.count("two-prod"), state: await at.state("two-prod") },
    { annotated: [["two:1", "became-non-compliant", false]], count: 3, state: false },
  );
  for (const method of ["POST", "DELETE"] as const)
    await at.refused(method, path, 404, "Policy 'two-none' does not exist in organization 'acme'", {
      policy_names: ["two-provenance", "two-none"],
    });
  assert.equal((await at.read("/environments/acme/two-prod")).policies, ["two-provenance", "two-scan"]);
  // Two more satisfied rules flip nothing; the snapshot is made all the same.
  await at.policy("two-more", PROVENANCE);
  await at.ok("POST", path, { policy_names: ["two-more"] });
  await at.ok("DELETE", `${path}?policy_names=two-more`);
  assert.equal(
    { annotated: await at.annotated("two-prod"), count: await at.count("two-prod") },
    { annotated: [["two:1", "unchanged", false]], count: 5 },
  );

  // A version is evaluated by the job queue; the same text is no version.
  await at.policy("two-scan", SCAN, 200);
  assert.equal(
    (await at.read("/policies/acme/two-scan")).versions.map(({ version }: Json) => version),
    [1],
  );
  await at.policy("two-scan", scan(" []"), 200);
  await at.until(async () => (await at.state("two-prod")) === true);
  const flipped = await at.snapshot("two-prod");
  assert.equal(
    { shown: shown(flipped), policies: policies(flipped), index: flipped.index, user_name: flipped.user_name },
    {
      shown: [["two:1", "became-compliant", true]],
      policies: [
        ["two-provenance", 1, []],
        ["two-scan", 2, []],
      ],
      index: 6,
      user_name: MEMBER,
    },
  );
  assert.equal(policies(await at.snapshot("two-prod", "1")), policies(first));
  await at.policy("two-scan", scan(" []"), 200);
  await report(200);

  await at.ok("DELETE", path, { policy_names: ["two-provenance", "two-scan"] });
  const unknown = await at.snapshot("two-prod");
  assert.equal(
    {
      compliant: unknown.compliant,
      artifact_compliance_count: unknown.artifact_compliance_count,
      applied_policies: unknown.applied_policies,
      shown: shown(unknown),
    },
    {
      compliant: false,
      artifact_compliance_count: { true: 0, false: 0, null: 1 },
      applied_policies: [],
      shown: [["two:1", "unchanged", null]],
    },
  );
  assert.equal(
    {
      state: await at.state("two-prod"),
      compliant: (await ask("?environment_name=two-prod"))["compliant"],
      count: await at.count("two-prod"),
    },
    { state: null, compliant: true, count: 7 },
  );
});

scenario("the next report sees every change of the facts, and nothing else", async () => {
  for (const flow of ["fact-a", "fact-b", "fact-sibling"]) await at.flow(flow, flow === "fact-a" ? SCANNED : undefined);
  const build = { flow: "fact-a", trail: "t1", name: "fact:1", label: "fact" };
  await at.build(build);
  await at.policy(
    "fact-policy",
    schema(
      "  provenance: {required: true}\n  trail-compliance:\n    required: true\n    exceptions:\n      - if: ${{ flow.name == 'fact-waived' }}\n",
    ),
  );
  await at.environment("fact-prod", "docker", { policies: ["fact-policy"] });
  const trail = "/attestations/acme/fact-a/trail/t1";
  const override = (attestation_name: string, new_compliance_status: boolean, of: Json) =>
    told(
      at.json("POST", `${trail}/override`, {
        attestation_name,
        new_compliance_status,
        reason: "because",
        original_attestation_type: "generic",
        user_data: {},
        ...of,
      }),
      201,
    );
  const artifact_fingerprint = fingerprint("fact");
  const begin = (name: string, fields: Json, template?: string) =>
    told(
      at
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
  const demanding = SCANNED.replace("name: scan", "name: proof");
  const running = items({ "fact:1": "fact" });

  const steps: [what: string, change: () => Promise<unknown>, annotation: string | null, compliant: boolean][] = [
    ["the start", async () => undefined, "started-non-compliant", false],
    ["an attestation", () => at.attest({ ...build, name: "scan" }), "became-compliant", true],
    ["nothing", async () => undefined, null, true],
    ["an override", () => override("scan", false, { artifact_fingerprint }), "became-non-compliant", false],
    ["the same attestation again", () => at.attest({ ...build, name: "scan" }), "became-compliant", true],
    [
      "an unexpected one that fails, on the trail",
      () => at.attest({ flow: "fact-a", trail: "t1", name: "licences", is_compliant: false }),
      "became-non-compliant",
      false,
    ],
    ["its override", () => override("licences", true, {}), "became-compliant", true],
    ["one that nobody asked for", () => at.attest({ ...build, name: "docs" }), "updated-provenance", true],
    [
      "a sibling in the trail, and its attestation",
      async () => {
        await at.build({ ...build, label: "fact-sibling", reference: "sibling" });
        await at.attest({ ...build, label: "fact-sibling", name: "docs" });
      },
      null,
      true,
    ],
    ["words about the trail", () => begin("t1", { description: "Words", user_data: { by: "ci" } }), null, true],
    [
      "another template of the flow",
      () =>
        told(
          at
            .as("member")
            .form(
              "PUT",
              "/flows/acme/template_file",
              "data_json",
              { name: "fact-a", description: "" },
              { part: "template_file", name: "t.yml", content: demanding },
            ),
          200,
        ),
      null,
      true,
    ],
    ["another template of the trail", () => begin("t1", {}, demanding), "became-non-compliant", false],
    ["what that asks for", () => at.attest({ ...build, name: "proof" }), "became-compliant", true],
    ["a later record, in another trail", () => at.build({ ...build, trail: "t2" }), "became-non-compliant", false],
    ["its attestation", () => at.attest({ ...build, trail: "t2", name: "proof" }), "became-compliant", true],
    ["a second flow", () => at.build({ ...build, flow: "fact-b" }), "updated-provenance", true],
    [
      "its failing attestation",
      () => at.attest({ ...build, flow: "fact-b", name: "scan", is_compliant: false }),
      "became-non-compliant",
      false,
    ],
    ["the archiving of that flow", () => at.archived("/flows/acme/fact-b"), null, false],
    [
      "tags that no policy asks about",
      () => at.ok("PATCH", "/tags/acme/environment/fact-prod", { set_tags: { team: "a" }, remove_tags: [] }),
      null,
      false,
    ],
  ];
  let made = 0;
  for (const [what, change, annotation, compliant] of steps) {
    await change();
    assert.is(await at.count("fact-prod"), made, what);
    assert.equal(
      await at
        .json("PUT", "/environments/acme/fact-prod/report/docker", { artifacts: running })
        .then(({ status, body }) => [status, body]),
      [annotation === null ? 200 : 201, "OK"],
      what,
    );
    if (annotation !== null) made += 1;
    assert.equal(
      { count: await at.count("fact-prod"), state: await at.state("fact-prod") },
      { count: made, state: compliant },
      what,
    );
    if (annotation !== null) assert.equal(await at.annotated("fact-prod"), [["fact:1", annotation, compliant]], what);
  }

  // Policies and answers know a flow by the name that it has now.
  await at.flow("fact-c", SCANNED);
  await at.build({ flow: "fact-c", trail: "t", name: "named:1", label: "fact-named" });
  await at.environment("fact-named", "docker", { policies: ["fact-policy"] });
  const named = (status: 200 | 201) => at.report("fact-named", "docker", items({ "named:1": "fact-named" }), status);
  await named(201);
  await at.ok("PUT", "/flows/acme/fact-c/rename", { new_name: "fact-waived" });
  await named(201);
  assert.equal(await at.annotated("fact-named"), [["named:1", "became-compliant", true]]);
  assert.is((await at.snapshot("fact-named", "1")).artifacts[0].flow_name, "fact-waived");
  assert.is((await at.snapshot("fact-named", "2")).artifacts[0].flow_name, "fact-waived");
});

scenario.run();
