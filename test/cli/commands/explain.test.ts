import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { lockDirectory } from "../../../src/store/db/data-directory-lock.ts";
import { A, B, NEEDS_TESTS, asDirectory, world } from "./explain-given.ts";
import { cli, inDirectory, joinPatterns, look } from "../in-process.ts";

const test = suite("cli/commands/explain");
const C = "c".repeat(64);
const AB = `${"a".repeat(8)}${"b".repeat(56)}`;

/** prod#1: no policy. prod#2: a policy. prod#3: tests failed for B, C is on the allowlist, one artifact stopped. */
function story() {
  const w = world();
  const [a, b] = [w.build(A, "t-a"), w.build(B, "t-b")];
  w.attest(a, "tests", 1, "e".repeat(64));
  w.report(w.prod, ["app", A], ["db\u001b[2J\nassay: all is well", B], ["ext", C], ["old", AB]);
  w.attach(
    w.prod,
    w.policy(
      "release",
      NEEDS_TESTS.replace(
        "required: true",
        `required: true\n    exceptions: [ { if: "\${{ artifact.name == 'legacy' }}" } ]`,
      ),
    ),
  );
  w.again(w.prod, "policies");
  w.allow(w.prod, C, "hotfix, see INC-7");
  w.attest(b, "tests", 0);
  w.attest(b, "lint", 1);
  w.report(w.prod, ["app", A], ["db\u001b[2J\nassay: all is well", B], ["ext", C]);
  return { ...w, a, b };
}

const withStory = (body: (data: string) => Promise<void>): Promise<void> => asDirectory(story().db, body);
const explain = (data: string, ...words: string[]) => cli(["explain", ...words, "--data", data]);

const PROD_3 = `prod#3 is NON-COMPLIANT: 1 of 3 artifacts is not compliant.
Snapshot 3 of 'prod' (K8S) in organization 'acme', created 2023-11-14T22:13:31.000Z from a report by Ada:
  2 compliant, 1 non-compliant, 0 unknown.
Policies in force:
  policy 'release' version 1, by ada at 2023-11-14T22:13:27.000Z: "first"

NON-COMPLIANT  'db\\u001b[2J\\u000aassay: all is well'  ${B}
  running since snapshot 1; updated-provenance in snapshot 3, 1 instance
  reported to flow 'backend', trail 't-b' as 'app', commit ${"b".repeat(40)}: NON-COMPLIANT there
    Attestation 'tests' of artifact 'app' is not compliant, and is not in the template
    attestation id-12 'tests', generic of the artifact: not compliant, by ada at 2023-11-14T22:13:30.000Z
    attestation id-13 'lint', generic of the artifact: compliant, by ada at 2023-11-14T22:13:30.000Z
  policy 'release' version 1: NON-COMPLIANT
    ok     requires provenance, except if artifact.name == 'legacy'
           the artifact was reported to flow 'backend'
    FAILED requires a compliant generic attestation named 'tests'
           the one in trail 't-b' of flow 'backend' is not compliant (by attestation id-12)
  why:
    The generic attestation 'tests' in trail 't-b' of flow 'backend' is not compliant
  what would make it compliant:
    Fix what the generic attestation 'tests' found, and report it again for the artifact in trail 't-b' of flow \
'backend'
    Or override the generic attestation 'tests' in trail 't-b' of flow 'backend', with a reason
    Or add the artifact to the allowlist of the environment, with a reason
  re-evaluated: the same verdict

COMPLIANT  'app'  ${A}: satisfies policy 'release' version 1
COMPLIANT  'ext'  ${C}: does not satisfy policy 'release' version 1, but is on the allowlist, \
by Eve at 2023-11-14T22:13:30.000Z: "hotfix, see INC-7"
EXITED  'old'  ${AB}: stopped with this snapshot; was NON-COMPLIANT

Re-evaluated from the stored facts and policy versions: all 4 verdicts are the same.
`;

test("explains a snapshot: verdict first, non-compliant artifacts in full, the rest in one line each", () =>
  withStory(async (data) => {
    assert.equal(await explain(data, "prod#3", "--org", "acme"), { code: 0, out: PROD_3, err: "" });
  }));

test("explains a single artifact in full, compliant or not", () =>
  withStory(async (data) => {
    const { code, out, err } = await explain(data, "prod", "aaaaaaaaa");
    assert.equal({ code, err }, { code: 0, err: "" });
    assert.is(
      out,
      `'app' in prod#3 is COMPLIANT: it satisfies every policy.
${PROD_3.split("\n").slice(1, 6).join("\n")}
COMPLIANT  'app'  ${A}
  running since snapshot 1; became-compliant in snapshot 2, 1 instance
  reported to flow 'backend', trail 't-a' as 'app', commit ${"a".repeat(40)}: COMPLIANT there
    attestation id-9 'tests', generic of the artifact: compliant, by ada at 2023-11-14T22:13:25.000Z, \
evidence sha256 ${"e".repeat(64)}
  policy 'release' version 1: COMPLIANT
    ok     requires provenance, except if artifact.name == 'legacy'
           the artifact was reported to flow 'backend'
    ok     requires a compliant generic attestation named 'tests'
           a compliant one is in trail 't-a' of flow 'backend' (by attestation id-9)
  re-evaluated: the same verdict

Re-evaluated from the stored facts and policy versions: all 4 verdicts are the same.
`,
    );
    const first = async (...words: string[]): Promise<string> =>
      (await explain(data, ...words)).out.split("\n")[0] as string;
    assert.is(
      await first("prod", "ccccc"),
      "'ext' in prod#3 is COMPLIANT: it is on the allowlist, which overrides policy 'release' version 1.",
    );
    assert.match(
      (await explain(data, "prod", C)).out,
      `  on the allowlist (id-11) as 'app', by Eve at 2023-11-14T22:13:30.000Z: "hotfix, see INC-7"\n`,
    );
    assert.is(
      await first("prod", AB),
      "'old' in prod#3 stopped, and was NON-COMPLIANT: it does not satisfy policy 'release' version 1.",
    );
    assert.is(await first("prod#1", AB), "'old' in prod#1 is UNKNOWN: no policy was in force.");
  }));

test("gives the command that reports a missing attestation", () => {
  const w = world();
  w.build(B, "t-b");
  w.attach(w.prod, w.policy("release", NEEDS_TESTS));
  w.report(w.prod, ["app", B]);
  return asDirectory(w.db, async (data) => {
    const { code, out } = await explain(data, "prod");
    assert.is(code, 0);
    assert.match(
      out,
      `  why:
    The generic attestation 'tests' is missing in trail 't-b' of flow 'backend'
  what would make it compliant:
    Report a compliant generic attestation 'tests' for the artifact in trail 't-b' of flow 'backend'
      kosli attest generic --name tests \\
        --flow backend \\
        --trail t-b \\
        --fingerprint ${B} \\
        --compliant=true
    Or add the artifact to the allowlist of the environment, with a reason
  re-evaluated: the same verdict
`,
    );
  });
});

test("shows the present name of a flow and the name at the evaluation", () => {
  const w = world();
  const built = w.build(B, "t-b");
  w.attest(built, "tests", 0);
  w.attach(w.prod, w.policy("release", NEEDS_TESTS));
  w.report(w.prod, ["app", B]);
  w.store.flows.archive(w.store.flows.get(w.flow.id));
  const name = w.store.flows.get(w.flow.id).name;
  w.otherFlow("backend");
  return asDirectory(w.db, async (data) => {
    const { code, out } = await explain(data, "prod", B);
    assert.is(code, 0, out);
    assert.match(out, `  reported to flow '${name}' (then called 'backend'), trail 't-b' as 'app'`);
    assert.match(out, `the one in trail 't-b' of flow '${name}' is not compliant`);
    assert.not.match(out, "of flow 'backend'");
    const [artifact] = JSON.parse((await explain(data, "prod", B, "--json")).out).snapshot.artifacts;
    assert.equal(
      { flow: artifact.flows[0].flow, evaluated_as: artifact.flows[0].evaluated_as, same: artifact.same },
      { flow: name, evaluated_as: "backend", same: true },
    );
    assert.equal(
      artifact.policies[0].rules.map(({ resolutions }: any) => resolutions[0].context.flow_name),
      [name, name, name],
    );
    assert.equal(artifact.reasons, [
      "Policy 'release' requires a compliant generic attestation named 'tests', but the one in trail 't-b' of " +
        `flow '${name}' is not compliant.`,
    ]);
  });
});

test("names the control of a decision and of the rule that requires it", () => {
  const w = world();
  w.store.controls.create(
    { id: w.organizationId, name: "acme" },
    { identifier: "SDLC-7", name: "reviewed", description: null, links: {} },
    "ada",
  );
  const built = w.build(A, "t-a");
  w.attach(w.prod, w.policy("release", "artifacts:\n  attestations:\n    - {type: decision, for_control: SDLC-7}\n"));
  w.report(w.prod, ["app", A]);
  const record = w.attestation(w.flow.id, built.trail, "go", {
    type: "system:decision",
    is_compliant: 0,
    control: "SDLC-7",
    control_version: 1,
  });
  w.store.attestations.bindToTrail(built.trail, record.id, "go");
  w.store.trailEvaluation.evaluate(built.trail, w.clock.at);
  w.report(w.prod, ["app", A]);
  return asDirectory(w.db, async (data) => {
    const { code, out } = await explain(data, "prod", A);
    assert.is(code, 0);
    assert.match(
      out,
      `attestation ${record.publicId} 'go', system:decision on control 'SDLC-7' version 1 of the trail: not ` +
        "compliant, by ada at ",
    );
    assert.match(
      out,
      "FAILED requires a compliant decision for control 'SDLC-7'\n" +
        "           the one in trail 't-a' of flow 'backend' is not compliant (by attestation ",
    );
    assert.match(
      (await explain(data, "prod#1", A)).out,
      "           none was reported in trail 't-a' of flow 'backend'",
    );
    const [artifact] = JSON.parse((await explain(data, "prod", A, "--json")).out).snapshot.artifacts;
    assert.equal(
      artifact.flows[0].attestations.map(({ control, record: { control_version } }: any) => [control, control_version]),
      [["SDLC-7", 1]],
    );
    assert.is(artifact.policies[0].rules.at(-1).resolutions[0].context.for_control, "SDLC-7");
  });
});

test("accepts every form of snapshot expression", () =>
  withStory(async (data) => {
    const cases: [string, string][] = [
      ["prod", "prod#3 is NON-COMPLIANT: 1 of 3 artifacts is not compliant."],
      ["prod#-1", "prod#3 is NON-COMPLIANT: 1 of 3 artifacts is not compliant."],
      ["prod@{now}", "prod#3 is NON-COMPLIANT: 1 of 3 artifacts is not compliant."],
      ["prod@{1.day.ago}", "prod#3 is NON-COMPLIANT: 1 of 3 artifacts is not compliant."],
      ["prod~1", "prod#2 is NON-COMPLIANT: 3 of 4 artifacts are not compliant."],
      ["prod@{2023-11-14T22:13:29}", "prod#2 is NON-COMPLIANT: 3 of 4 artifacts are not compliant."],
      ["prod#1", "prod#1 is UNKNOWN: no policy was in force."],
    ];
    for (const [expression, line] of cases) {
      const { code, out, err } = await explain(data, expression);
      assert.equal({ code, "out[0]": out.split("\n")[0], err }, { code: 0, "out[0]": line, err: "" }, expression);
    }
    assert.match(
      (await explain(data, "prod#2")).out,
      "created 2023-11-14T22:13:29.000Z because Ada attached or detached policies:\n",
    );
    assert.match((await explain(data, "prod#1")).out, `UNKNOWN  'ext'  ${C}: no policy was in force\n`);
  }));

const STORY_POLICY =
  "_schema: https://assay.example.com/schemas/policy/v1\nartifacts:\n  provenance:\n    required: true\n" +
  "    exceptions: [ { if: \"${{ artifact.name == 'legacy' }}\" } ]\n  attestations:\n    - name: tests\n" +
  "      type: generic\n";
const FAILED_TESTS = {
  flow: "backend",
  trail: "t-b",
  name: "tests",
  type: "generic",
  control: null,
  attestation_id: "id-12",
};

test("--json contains every detail", () =>
  withStory(async (data) => {
    const { code, out, err } = await explain(data, "prod#3", "bbbbb", "--json");
    assert.equal({ code, err }, { code: 0, err: "" });
    assert.equal(JSON.parse(out), {
      organization: "acme",
      expression: "prod#3",
      fingerprint: B,
      selection: null,
      same: true,
      problems: [],
      snapshot: {
        environment: { id: "id-2", name: "prod", type: "K8S" },
        index: 3,
        timestamp: 1_700_000_011,
        cause: "report",
        caused_by: { user_id: "ada-id", user_name: "Ada", environment: null, index: null },
        compliant: false,
        compliant_count: 2,
        non_compliant_count: 1,
        unknown_count: 0,
        policies: [
          {
            policy_id: "id-10",
            policy: "release",
            version: 1,
            version_id: 1,
            comment: "first",
            created_by: "ada",
            created_at: 1_700_000_007,
            policy_yaml: STORY_POLICY,
          },
        ],
        artifacts: [
          {
            name: "db\u001b[2J\nassay: all is well",
            fingerprint: B,
            exited: false,
            compliant: false,
            annotation: "updated-provenance",
            first_index: 3,
            started_index: 1,
            instances_before: 1,
            instances: 1,
            evaluation_id: 9,
            allowlist: null,
            flows: [
              {
                flow_id: 1,
                flow: "backend",
                evaluated_as: "backend",
                tags: {},
                trail_id: 2,
                trail: "t-b",
                artifact_id: 2,
                reference_name: "app",
                filename: "app",
                git_commit: "b".repeat(40),
                commit_url: "",
                committed_at: null,
                state: "NON-COMPLIANT",
                reasons: ["Attestation 'tests' of artifact 'app' is not compliant, and is not in the template"],
                deployment_id: 2,
                attestations: [
                  ["id-12", "tests", false],
                  ["id-13", "lint", true],
                ].map(([id, name, is_compliant]) => ({
                  id,
                  name,
                  type: "generic",
                  level: "artifact",
                  is_compliant,
                  control: null,
                  record: {
                    type: "generic",
                    overridden_type: null,
                    control_version: null,
                    description: null,
                    reasons: [],
                    reported_by: "ada",
                    created_at: 1_700_000_010,
                    evidence_digest: null,
                    evidence_filename: null,
                  },
                })),
              },
            ],
            policies: [
              {
                policy: "release",
                version: 1,
                version_id: 1,
                status: "NON-COMPLIANT",
                rules: [
                  {
                    rule: {
                      type: "provenance",
                      definition: { required: true, exceptions: [{ if: { text: "artifact.name == 'legacy'" } }] },
                    },
                    in_words: "requires provenance, except if artifact.name == 'legacy'",
                    lines: { from: 3, to: 5 },
                    satisfied: true,
                    resolutions: [
                      {
                        type: "rule_satisfied",
                        context: { flow_name: "backend", trail_name: "t-b", artifact_status: null },
                        in_words: "the artifact was reported to flow 'backend'",
                        attestation_ids: [],
                      },
                    ],
                    conditions: [
                      {
                        type: "exception",
                        text: "artifact.name == 'legacy'",
                        lines: { from: 5, to: 5 },
                        results: [
                          {
                            flow: "backend",
                            result: false,
                            error: null,
                            values: { "artifact.name": "db\u001b[2J\nassay: all is well" },
                          },
                        ],
                      },
                    ],
                    satisfied_by: [],
                  },
                  {
                    rule: { type: "trail-compliance", definition: { required: false, exceptions: [] } },
                    in_words: "does not require compliance in the trail",
                    lines: null,
                    satisfied: null,
                    resolutions: [
                      {
                        type: "rule_not_applicable",
                        context: { flow_name: "backend", trail_name: "t-b", artifact_status: "NON-COMPLIANT" },
                        in_words: "it does not apply in flow 'backend'",
                        attestation_ids: [],
                      },
                    ],
                    conditions: [],
                    satisfied_by: [],
                  },
                  {
                    rule: {
                      type: "attestation",
                      definition: {
                        if: null,
                        name: "tests",
                        type: "generic",
                        must_be_compliant: true,
                        for_control: null,
                      },
                    },
                    in_words: "requires a compliant generic attestation named 'tests'",
                    lines: { from: 7, to: 8 },
                    satisfied: false,
                    resolutions: [
                      {
                        type: "non_compliant_attestation",
                        context: { flow_name: "backend", trail_name: "t-b", artifact_status: null },
                        in_words: "the one in trail 't-b' of flow 'backend' is not compliant",
                        attestation_ids: ["id-12"],
                      },
                    ],
                    conditions: [],
                    satisfied_by: [
                      {
                        ...FAILED_TESTS,
                        kind: "fix_attestation",
                        words:
                          "Fix what the generic attestation 'tests' found, and report it again for the artifact in " +
                          "trail 't-b' of flow 'backend'",
                        fingerprint: B,
                      },
                      {
                        ...FAILED_TESTS,
                        kind: "override_attestation",
                        words:
                          "Or override the generic attestation 'tests' in trail 't-b' of flow 'backend', with a reason",
                        fingerprint: B,
                      },
                      {
                        kind: "allowlist",
                        words: "Or add the artifact to the allowlist of the environment, with a reason",
                        flow: null,
                        trail: null,
                        name: null,
                        type: null,
                        control: null,
                        attestation_id: null,
                        fingerprint: B,
                      },
                    ],
                  },
                ],
              },
            ],
            reasons: [
              "Policy 'release' requires a compliant generic attestation named 'tests', but the one in trail " +
                "'t-b' of flow 'backend' is not compliant.",
            ],
            causes: [
              {
                ...FAILED_TESTS,
                kind: "non_compliant_attestation",
                subject: "tests",
                text: "tests fails",
                words: "The generic attestation 'tests' in trail 't-b' of flow 'backend' is not compliant",
                level: "artifact",
              },
            ],
            same: true,
            problems: [],
          },
        ],
        members: [],
      },
    });
    const whole = JSON.parse((await explain(data, "prod#3", "--json")).out);
    assert.equal(whole.fingerprint, null);
    assert.equal(
      whole.snapshot.artifacts.map(
        ({ name, exited, compliant }: { name: string; exited: boolean; compliant: boolean }) => [
          name.slice(0, 3),
          exited,
          compliant,
        ],
      ),
      [
        ["app", false, true],
        ["db\u001b", false, false],
        ["ext", false, true],
        ["old", true, false],
      ],
    );
    assert.equal(whole.snapshot.artifacts[2].allowlist, {
      id: "id-11",
      artifact_name: "app",
      description: "hotfix, see INC-7",
      user_id: "eve-id",
      user_name: "Eve",
      timestamp: 1_700_000_010,
    });
  }));

test("explains overrides, conditions of rules, and several flows or names", async () => {
  const w = world();
  const a = w.build(A, "t-a");
  w.attest(a, "tests", 0);
  const { id } = w.attestation(w.flow.id, a.trail, "tests", {
    scope: "artifact",
    type: "override",
    overridden_type: "generic",
  });
  w.store.attestations.bindToArtifact({ trailId: a.trail, artifactId: a.id }, { id, name: "tests" });
  w.store.trailEvaluation.evaluate(a.trail, w.clock.at);
  w.store.flows.patchTags(w.flow.id, { set: { risk: "high" }, remove: [] });
  const other = w.otherFlow("other");
  w.artifact(other.id, null, A);
  w.attach(
    w.prod,
    w.policy(
      "gate",
      `artifacts:\n  attestations:\n    - { name: tests, type: generic, if: "\${{ flow.tags.risk == 'high' }}" ` +
        `}\n    - { type: junit, if: "\${{ flow != 'x' }}" }\n`,
    ),
  );
  w.report(w.prod, ["app", A], ["again", A]);
  await asDirectory(w.db, async (data) => {
    const { code, out } = await explain(data, "prod", A);
    assert.is(code, 0);
    assert.equal(out.split("\n").slice(0, 2), [
      "'again' in prod#1 is NON-COMPLIANT: it does not satisfy policy 'gate' version 1.",
      "'app' in prod#1 is NON-COMPLIANT: it does not satisfy policy 'gate' version 1.",
    ]);
    const lines = out.slice(out.indexOf("NON-COMPLIANT  'app'")).split("\n");
    const compared = "flow itself cannot be compared (at character 6 of: flow != 'x')";
    assert.equal(lines.slice(2, -3), [
      `  reported to flow 'backend', trail 't-a' as 'app', commit ${"a".repeat(40)}: COMPLIANT there; flow tags: ` +
        "risk=high",
      "    attestation id-8 'tests', generic of the artifact, an override: compliant, by ada at " +
        "2023-11-14T22:13:24.000Z",
      `  reported to flow 'other', without a trail, commit ${"c".repeat(40)}: INCOMPLETE there`,
      "  policy 'gate' version 1: NON-COMPLIANT",
      "    ok     requires a compliant generic attestation named 'tests', if flow.tags.risk == 'high'",
      "           a compliant one is in trail 't-a' of flow 'backend' (by attestation id-8)",
      "           it does not apply in flow 'other'",
      "    FAILED requires a compliant junit attestation, if flow != 'x'",
      "           its condition failed for flow 'backend': flow itself cannot be compared (at character 6 of: " +
        "flow != 'x')",
      "           its condition failed for flow 'other': flow itself cannot be compared (at character 6 of: flow " +
        "!= 'x')",
      "  why:",
      `    Its condition failed for flow 'backend': ${compared}`,
      `    Its condition failed for flow 'other': ${compared}`,
      "  what would make it compliant:",
      `    Correct the condition of the policy: Its condition failed for flow 'backend': ${compared}`,
      `    Correct the condition of the policy: Its condition failed for flow 'other': ${compared}`,
      "    Or add the artifact to the allowlist of the environment, with a reason",
      "  re-evaluated: the same verdict",
    ]);
  });
});

test("explains a logical environment by its members at that time", async () => {
  const w = story();
  const [group, other] = [w.environment("all", "logical"), w.environment("stage", "server")];
  w.store.environments.setMembers(group, [w.prod, other]);
  w.report(w.prod, ["app", A], ["ext", C]);
  w.report(other, ["app", A]);
  w.report(w.prod);
  await asDirectory(w.db, async (data) => {
    const { code, out, err } = await explain(data, "all#2");
    assert.equal({ code, err }, { code: 0, err: "" });
    assert.is(
      out,
      `all#2 is UNKNOWN: the state of a member was unknown.
Snapshot 2 of 'all' (logical) in organization 'acme', created 2023-11-14T22:13:36.000Z with stage#1, caused by Ada:
  2 compliant, 0 non-compliant, 1 unknown.
Members then: prod#4, stage#1.

prod#4 is COMPLIANT: all 2 artifacts are compliant, 1 of them because of the allowlist.
Policies in force: policy 'release' version 1.

COMPLIANT  'app'  ${A}: satisfies policy 'release' version 1
COMPLIANT  'ext'  ${C}: does not satisfy policy 'release' version 1, but is on the allowlist, \
by Eve at 2023-11-14T22:13:30.000Z: "hotfix, see INC-7"
EXITED  'db\\u001b[2J\\u000aassay: all is well'  ${B}: stopped with this snapshot; was NON-COMPLIANT

stage#1 is UNKNOWN: no policy was in force.

UNKNOWN  'app'  ${A}: no policy was in force

Re-evaluated from the stored facts and policy versions: all 4 verdicts are the same.
`,
    );
    const one = (await explain(data, "all#2", "ccccc")).out;
    assert.match(one, /^'ext' in prod#4 is COMPLIANT: it is on the allowlist/);
    assert.not.match(one, "stage#1 is");
    const { snapshot } = JSON.parse((await explain(data, "all", "--json")).out);
    assert.equal(
      {
        cause: snapshot.cause,
        environment: snapshot.caused_by.environment,
        index: snapshot.caused_by.index,
        artifacts: snapshot.artifacts,
      },
      { cause: "member", environment: "prod", index: 5, artifacts: [] },
    );
    assert.equal(
      snapshot.members.map((member: { environment: { name: string }; index: number; artifacts: object[] }) => [
        member.environment.name,
        member.index,
        member.artifacts.length,
      ]),
      [
        ["prod", 5, 2],
        ["stage", 1, 1],
      ],
    );
    assert.is(
      (await explain(data, "all#1")).out.split("\n")[0],
      "all#1 is UNKNOWN: the state of a member was unknown.",
      "stage had not reported",
    );
    assert.is((await explain(data, "prod#5")).out.split("\n")[0], "prod#5 is COMPLIANT: nothing was running.");
  });
});

test("refuses an invalid request with a remedy", () =>
  withStory(async (data) => {
    const NAMES = "known are: prod";
    const cases: [string[], number, string[]][] = [
      [
        ["prod#9"],
        1,
        [
          "Org: 'acme'. Snapshot 'prod#9' resolves to 'prod#9'. len(snapshots) == 3. Indexes are 1-based",
          "the first snapshot is prod#1, the latest prod#3",
        ],
      ],
      [
        ["prod~3"],
        1,
        [
          "Org: 'acme'. Snapshot 'prod~3' resolves to 'prod#0'. len(snapshots) == 3. Indexes are 1-based",
          "the first snapshot is prod#1, the latest prod#3",
        ],
      ],
      [
        ["prod#0"],
        1,
        [
          "Org: 'acme'. Snapshot 'prod#0' resolves to 'prod#0'. len(snapshots) == 3. Indexes are 1-based",
          "the first snapshot is prod#1, the latest prod#3",
        ],
      ],
      [
        ["prod@{2000-01-01T00:00:00}"],
        1,
        [
          "Org: 'acme'. Snapshot 'prod@{2000-01-01T00:00:00}' resolves to 'prod#0'. len(snapshots) == 3. Indexes " +
            "are 1-based",
          "the first snapshot is prod#1, the latest prod#3",
        ],
      ],
      [["prdo"], 1, ["Environment named 'prdo' does not exist for organization 'acme'", "did you mean prod?"]],
      [["staging"], 1, ["Environment named 'staging' does not exist for organization 'acme'", NAMES]],
      [["prod", "--org", "acne"], 1, ['there is no organization "acne"', "did you mean acme?"]],
      [
        ["prod", "fffff"],
        1,
        [
          "prod#3 has no artifact with a fingerprint that begins with fffff",
          "assay explain prod#3 lists its artifacts",
        ],
      ],
      [["prod", "aaaaa"], 1, ["aaaaa is ambiguous in prod#3; give more of one of these:", A, AB]],
      [
        ["prod#x", "XYZ"],
        2,
        [
          '"prod#x" is not a snapshot expression: give ENV, ENV#N, ENV~N or ENV@{TIME}',
          '"XYZ" is not a fingerprint: give 5 to 64 characters of 0-9 and a-f',
          "see assay help explain",
        ],
      ],
      [
        ["prod", "abcd"],
        2,
        ['"abcd" is not a fingerprint: give 5 to 64 characters of 0-9 and a-f', "see assay help explain"],
      ],
      [[], 2, ["argument ENV is missing", "see assay help explain"]],
    ];
    for (const [words, code, lines] of cases)
      assert.equal(
        await explain(data, ...words),
        { code, out: "", err: lines.map((line) => `assay: ${line}\n`).join("") },
        words.join(" "),
      );
    assert.equal(await explain(data, "prdo", "--json"), {
      code: 1,
      out: "",
      err: `{"error":"Environment named 'prdo' does not exist for organization 'acme'; did you mean prod?"}\n`,
    });
  }));

test("refuses an environment without reports, several organizations, no organization, and no data", async () => {
  const w = world();
  await asDirectory(w.db, async (data) => {
    assert.equal(await explain(data, "prod"), {
      code: 1,
      out: "",
      err:
        "assay: Org: 'acme'. Snapshot 'prod' resolves to 'prod#0'. len(snapshots) == 0. Indexes are 1-based\n" +
        "assay: the environment has no reports yet\n",
    });
  });
  w.report(w.prod);
  const zeta = w.store.organizations.create({ name: "zeta", kind: "shared", isPublic: false, controlsEnabled: true });
  await asDirectory(w.db, async (data) => {
    assert.equal(await explain(data, "staging"), {
      code: 1,
      out: "",
      err: 'assay: no organization has an environment "staging"\nassay: known are: prod\n',
    });
    assert.is((await explain(data, "prod")).code, 0, "only one of them has the environment");
    assert.equal(await explain(data, "prod", "--org", "zeta"), {
      code: 1,
      out: "",
      err: "assay: Environment named 'prod' does not exist for organization 'zeta'\n",
    });
    assert.is((await explain(data, "prod", "--org", "acme")).code, 0);
  });
  w.store.environments.create(zeta, {
    name: "prod",
    type: "K8S",
    description: "",
    includeScaling: false,
    requireProvenance: false,
  });
  await asDirectory(w.db, async (data) => {
    assert.equal(await explain(data, "prod"), {
      code: 2,
      out: "",
      err: "assay: there are several organizations: give --org acme or zeta\n",
    });
  });
  await inDirectory(async (directory) => {
    const { code, err } = await explain(join(directory, "none"), "prod");
    assert.is(code, 1);
    assert.match(err, "there is no data directory");
  });
});

test("changes nothing, and works while a server uses the directory", () =>
  withStory(async (data) => {
    await explain(data, "prod");
    const digest = (): string =>
      createHash("sha256")
        .update(readFileSync(join(data, "assay.db")))
        .digest("hex");
    const before = digest();
    const lock = lockDirectory(data);
    try {
      assert.equal(await explain(data, "prod#3"), { code: 0, out: PROD_3, err: "" });
      for (const words of [["prod", "--json"], ["prod", "ccccc"], ["prod#77"], ["x"]]) await explain(data, ...words);
    } finally {
      lock.release();
    }
    assert.is(digest(), before);
  }));

const SAVED = "do not rely on this snapshot until the cause is known";

test("warns loudly of a verdict that differs or cannot be read", async () => {
  const b = `prod#3, 'db\\u001b[2J\\u000aassay: all is well' (${B})`;
  const evaluation = (column: string, value: string) =>
    `UPDATE evaluations SET ${column} = ${value} WHERE id = (SELECT evaluation_id FROM snapshot_artifacts WHERE ` +
    `fingerprint = '${B}' AND last_index > 9)`;
  const damages: [string, (string | RegExp)[]][] = [
    [
      "UPDATE snapshot_artifacts SET compliant = 1 WHERE last_index > 9",
      [
        `${b}: the artifact is stored as COMPLIANT, but re-evaluates to NON-COMPLIANT`,
        "prod#3: the stored count of compliant artifacts is 2, but 3 run",
        "prod#3: the stored count of non-compliant artifacts is 1, but 0 run",
        "prod#3: the snapshot is stored as NON-COMPLIANT, but its artifacts make it COMPLIANT",
      ],
    ],
    [
      evaluation("facts_json", "replace(facts_json, '\"isCompliant\":false', '\"isCompliant\":true')"),
      [
        `${b}: attestation id-12 is not what the evaluation saw as 'tests'`,
        `${b}: policy 'release' version 1 is stored as NON-COMPLIANT, but re-evaluates to COMPLIANT`,
        /rule 3 of policy 'release' version 1 is stored as not satisfied/,
        `${b}: the artifact is stored as NON-COMPLIANT, but re-evaluates to COMPLIANT`,
        /the stored reasons are/,
      ],
    ],
    [evaluation("facts_json", "'{'"), [/: the stored evaluation cannot be read: /]],
    [evaluation("facts_json", "'{}'"), [/: the stored evaluation cannot be read: /]],
    [evaluation("facts_json", `'{"flows":[{}]}'`), [/: the stored evaluation cannot be read: /]],
    [evaluation("verdicts_json", "'[7]'"), [/: the stored evaluation cannot be read: /]],
    [evaluation("reasons_json", "'7'"), [/: the stored evaluation cannot be read: /]],
    [evaluation("reasons_json", "'[]'"), [/: the stored reasons are none/]],
    [
      "DELETE FROM attestation_bindings; DELETE FROM current_attestations; DELETE FROM attestations WHERE " +
        "public_id = 'id-12'",
      [`${b}: attestation id-12 ('tests') is gone`],
    ],
    ["DELETE FROM allowlist_entries", [`prod#3, 'ext' (${C}): the allowlist entry 1 is gone`]],
    [
      `UPDATE allowlist_entries SET fingerprint = '${A}'`,
      [`prod#3, 'ext' (${C}): the allowlist entry id-11 is for another artifact or environment`],
    ],
    [
      "UPDATE policy_versions SET policy_yaml = 'x'",
      ["app", "db", "ext", "old"].map(
        (name) =>
          new RegExp(
            `'${name}.*: the stored evaluation cannot be read: version 1 of policy 1 is stored but no valid policy`,
          ),
      ),
    ],
    [
      "DELETE FROM policy_versions",
      [
        /prod#3: the policy versions of the snapshot cannot be read: policy version 1 is gone/,
        ...["app", "db", "ext", "old"].map((name) => new RegExp(`'${name}.*policy version 1 is gone`)),
      ],
    ],
    [
      "UPDATE policies SET name = 'renamed'",
      ["app", "db", "ext", "old"].map(
        (name) => new RegExp(`'${name}.*: the verdict of policy 'release' version 1 names version 1 of 'renamed'`),
      ),
    ],
    [
      "UPDATE snapshots SET policy_versions_json = '{'",
      [/prod#3: the policy versions of the snapshot cannot be read: /],
    ],
    [
      "UPDATE snapshots SET non_compliant_count = 5",
      ["prod#3: the stored count of non-compliant artifacts is 5, but 1 run"],
    ],
    [
      `DELETE FROM snapshot_artifacts WHERE fingerprint = '${B}' AND last_index > 9`,
      [
        "prod#3: the stored count of non-compliant artifacts is 1, but 0 run",
        "prod#3: the snapshot is stored as NON-COMPLIANT, but its artifacts make it COMPLIANT",
      ],
    ],
  ];
  for (const [sql, problems] of damages) {
    const { db } = story();
    db.pragma("foreign_keys = OFF");
    db.exec(sql);
    await asDirectory(db, async (data) => {
      const { code, out, err } = await explain(data, "prod#3");
      assert.is(code, 5, `${sql}\n${out}${err}`);
      const lines = err.split("\n").slice(0, -2);
      assert.match(err, SAVED);
      const missing = problems.filter(
        (problem) =>
          !lines.some((line) => (typeof problem === "string" ? line === `assay: ${problem}` : problem.test(line))),
      );
      assert.equal(missing, [], `${sql}\n${err}`);
      assert.match(out, /^prod#3 is .*\nDO NOT RELY ON THIS: \d+ problems? found in the stored data, see below\.\n/);
      assert.match(
        out,
        joinPatterns(
          /\nDAMAGED: re-evaluated from the stored facts and policy versions, not all verdicts are the same; \d+/,
          / problems?\.\n$/,
        ),
      );
      const json = await explain(data, "prod#3", "--json");
      const { same, problems: reported } = JSON.parse(json.out);
      assert.equal(
        { code: json.code, same, count: reported.length },
        { code: 5, same: false, count: lines.length },
        sql,
      );
      assert.type(JSON.parse(json.err).error, "string");
    });
  }
});

test("reports a missing snapshot as damage", async () => {
  const { db } = story();
  db.exec("DELETE FROM snapshots WHERE idx = 2");
  await asDirectory(db, async (data) => {
    assert.equal(await explain(data, "prod#2"), {
      code: 5,
      out: "",
      err: "assay: snapshot prod#2 is missing in the database\n",
    });
    assert.is((await explain(data, "prod#3")).code, 0);
  });
});

test("finds a renamed environment by its earlier name, and an archived one by its own", async () => {
  const { db } = story();
  db.exec(
    "UPDATE environments SET name = 'live'; INSERT INTO environment_aliases SELECT organization_id, 'prod', id " +
      "FROM environments",
  );
  await asDirectory(db, async (data) => {
    assert.match((await explain(data, "prod#3")).out, /^live#3 is NON-COMPLIANT/);
    look(data, (_, inside) =>
      inside.exec("UPDATE environments SET name = 'live-archived-at-17', archived_name = 'live', archived_at = 17"),
    );
    assert.match((await explain(data, "live-archived-at-17#3")).out, /^live-archived-at-17#3 is NON-COMPLIANT/);
    assert.equal(await explain(data, "live"), {
      code: 1,
      out: "",
      err:
        "assay: Environment named 'live' has been archived for organization 'acme'\n" +
        "assay: did you mean live-archived-at-17?\n",
    });
  });
});

test("names a custom attestation type in its rule and its attestation", () => {
  const w = world();
  const a = w.build(A, "t-a");
  const record = w.attestation(w.flow.id, a.trail, "check", {
    scope: "artifact",
    type: "custom:scan",
    type_version: 2,
    is_compliant: 0,
  });
  w.store.attestations.bindToArtifact({ trailId: a.trail, artifactId: a.id }, { id: record.id, name: "check" });
  w.store.trailEvaluation.evaluate(a.trail, w.clock.at);
  w.attach(w.prod, w.policy("scanned", "artifacts:\n  attestations:\n    - type: custom:scan\n      name: check\n"));
  w.report(w.prod, ["app", A]);
  return asDirectory(w.db, async (data) => {
    const { code, out } = await explain(data, "prod#1", "--org", "acme");
    assert.is(code, 0);
    for (const line of [
      `attestation ${record.publicId} 'check', custom:scan of the artifact: not compliant, by ada at`,
      "FAILED requires a compliant custom:scan attestation named 'check'",
      `not compliant (by attestation ${record.publicId})`,
      "re-evaluated: the same verdict",
    ])
      assert.match(out, line);
  });
});

test("says that the name of an artifact without provenance was reported with another fingerprint", () => {
  const w = world();
  const { id } = w.build(A, "t-a");
  w.db.prepare("UPDATE artifacts SET filename = 'shop/web:1.4' WHERE id = ?").run(id);
  w.attach(w.prod, w.policy("release", NEEDS_TESTS));
  w.report(w.prod, ["shop/web:1.4", B], ["ext", C]);
  const said = `An artifact of this name was reported to trail 't-a' of flow 'backend' with another fingerprint: ${A}`;
  const meaning =
    "Either another build of it runs, or it is an image for several platforms, which has two digests: that of its " +
    "index and that of the manifest of one platform. Report the fingerprint that the environment reports.";
  return asDirectory(w.db, async (data) => {
    const { out } = await explain(data, "prod");
    assert.match(out, `  no provenance: it was not reported to any flow\n    ${said}\n    ${meaning}\n`);
    assert.is(out.split("An artifact of this name").length, 2);
    const { snapshot } = JSON.parse((await explain(data, "prod", "--json")).out);
    const [, web] = snapshot.artifacts;
    const publicId = w.db.prepare("SELECT public_id FROM artifacts WHERE id = ?").pluck().get(id);
    assert.equal(web.same_name, {
      flow: "backend",
      trail: "t-a",
      fingerprint: A,
      artifact_id: publicId,
      words: `${said}. ${meaning}`,
    });
    assert.is("same_name" in snapshot.artifacts[0], false);
  });
});

test.run();
