import { suite } from "uvu";
import * as assert from "uvu/assert";
import { evaluateInEnvironment } from "../../../src/domain/compliance/environment.ts";
import type {
  AppliedPolicy,
  Facts,
  FlowRecord,
  Evaluation,
  StoredVerdict,
} from "../../../src/domain/compliance/environment.ts";
import {
  checkLogicalSnapshot,
  checkSnapshot,
  countVerdicts,
  replay,
  formatVerdict,
} from "../../../src/domain/compliance/replay.ts";
import type { SnapshotVerdict } from "../../../src/domain/compliance/replay.ts";
import { parsePolicy } from "../../../src/domain/policy/document.ts";
import type { PolicyDocument } from "../../../src/domain/policy/document.ts";
import type { AttestationCandidate } from "../../../src/domain/policy/evaluate.ts";

const test = suite("domain/compliance/replay");

const ARTIFACT = { name: "web:v1", fingerprint: "f".repeat(64) };

function policy(policyName: string, versionId: number, artifacts: string): AppliedPolicy {
  const { policy: document, problems } = parsePolicy(`_schema: /v1\nartifacts: ${artifacts}`);
  if (document === null) throw new Error(JSON.stringify(problems));
  return { policyName, versionId, version: versionId - 6, document };
}
const TESTS = policy("tests", 7, "{provenance: {required: true}, attestations: [{type: junit, name: unit}]}");
const FAILS = policy("fails", 8, "{attestations: [{type: junit, if: flow != 'x'}]}");
const TRAIL = policy("trail", 9, "{trail-compliance: {required: true}}");
const POLICIES = [TESTS, FAILS, TRAIL];

const documentOf = (versionId: number): PolicyDocument => {
  const found = POLICIES.find((each) => each.versionId === versionId);
  if (!found) throw new Error(`policy version ${versionId} is gone`);
  return found.document;
};
const unit = (isCompliant: boolean): AttestationCandidate => ({
  name: "unit",
  type: "junit",
  isCompliant,
  control: null,
  attestationId: "id-1",
  level: "artifact",
  sequence: 1,
});
const flow = (candidates: AttestationCandidate[]): FlowRecord => ({
  flow_id: 1,
  flow: "build",
  tags: {},
  trail_id: 2,
  trail: "t1",
  artifact_id: 3,
  reference_name: "web",
  filename: "web.tar",
  git_commit: "c".repeat(40),
  commit_url: "",
  committed_at: null,
  state: "COMPLIANT",
  reasons: [],
  candidates,
  deployment_id: null,
});
const GOOD: Facts = { flows: [flow([unit(true)])] };
const BAD: Facts = { flows: [flow([unit(false)])] };

/** As read from the database. */
const throughText = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;
const evaluateForStorage = (policies: readonly AppliedPolicy[], facts: Facts, allowlisted = false): Evaluation =>
  throughText(evaluateInEnvironment({ policies, artifact: ARTIFACT, facts, isAllowlisted: allowlisted }));

test("replays stored evaluations with and without policies, provenance and allowlist", () => {
  for (const policies of [[], [TESTS], POLICIES])
    for (const facts of [GOOD, BAD, { flows: [] }])
      for (const allowlisted of [true, false]) {
        const stored = evaluateForStorage(policies, facts, allowlisted);
        assert.equal(replay({ artifact: ARTIFACT, facts: throughText(facts), allowlisted, stored }, documentOf), {
          evaluation: stored,
          same: true,
          differences: [],
        });
      }
});

test("ignores the order of JSON keys", () => {
  const stored = evaluateForStorage([TESTS], BAD);
  const turned = {
    ...stored,
    verdicts: stored.verdicts.map(({ rules, ...rest }) => ({
      rules: rules.map(({ satisfied, resolutions }) => ({ resolutions, satisfied })),
      ...rest,
    })),
  };
  assert.ok(replay({ artifact: ARTIFACT, facts: BAD, allowlisted: false, stored: turned }, documentOf).same);
});

const REASON =
  "Policy 'tests' requires a compliant junit attestation named 'unit', but the one in trail 't1' of flow " +
  "'build' is not compliant.";

test("reports every change of stored data", () => {
  const differences = (stored: Evaluation, facts: Facts = BAD, allowlisted = false): string[] => {
    const { same, differences: found } = replay({ artifact: ARTIFACT, facts, allowlisted, stored }, documentOf);
    assert.is(same, found.length === 0);
    return found;
  };
  const stored = evaluateForStorage([TESTS], BAD);
  const changed = (change: (copy: Evaluation & { verdicts: any[] }) => void): Evaluation => {
    const copy = throughText(stored);
    change(copy);
    return copy;
  };
  assert.equal(differences(stored, GOOD), [
    "policy 'tests' version 1 is stored as NON-COMPLIANT, but re-evaluates to COMPLIANT",
    "rule 3 of policy 'tests' version 1 is stored as not satisfied (non_compliant_attestation in flow 1 by " +
      "id-1), but re-evaluates to satisfied (rule_satisfied in flow 1 by id-1)",
    "the artifact is stored as NON-COMPLIANT, but re-evaluates to COMPLIANT",
    `the stored reasons are "${REASON}", but re-evaluation gives none`,
  ]);
  assert.equal(differences(stored, BAD, true), [
    "the artifact is stored as NON-COMPLIANT, but re-evaluates to COMPLIANT",
  ]);
  assert.equal(differences(changed((copy) => void (copy.compliant = null))), [
    "the artifact is stored as UNKNOWN, but re-evaluates to NON-COMPLIANT",
  ]);
  assert.equal(differences(changed((copy) => void (copy.reasons = []))), [
    `the stored reasons are none, but re-evaluation gives "${REASON}"`,
  ]);
  assert.equal(
    differences(changed((copy) => void (copy.verdicts[0].rules[2].resolutions[0].attestations = ["id-2"]))),
    [
      "rule 3 of policy 'tests' version 1 is stored as not satisfied (non_compliant_attestation in flow 1 by " +
        "id-2), but re-evaluates to not satisfied (non_compliant_attestation in flow 1 by id-1)",
    ],
  );
  assert.equal(differences(changed((copy) => void copy.verdicts[0].rules.pop())), [
    "policy 'tests' version 1 is stored with 2 rules, but has 3",
  ]);
  assert.equal(differences(changed((copy) => void (copy.verdicts[0].rules[1].satisfied = true))), [
    "rule 2 of policy 'tests' version 1 is stored as satisfied (rule_not_applicable in flow 1), but " +
      "re-evaluates to not applicable (rule_not_applicable in flow 1)",
  ]);
  assert.equal(differences(changed((copy) => void (copy.verdicts = []))).slice(0, 1), [
    "the artifact is stored as NON-COMPLIANT, but re-evaluates to UNKNOWN",
  ]);
});

test("compares the error of a failed condition", () => {
  const stored = throughText(evaluateForStorage([FAILS], GOOD)) as Evaluation & { verdicts: any[] };
  const error = stored.verdicts[0].rules[2].resolutions[0].error as string;
  assert.ok(error);
  stored.verdicts[0].rules[2].resolutions[0].error = "another";
  assert.equal(replay({ artifact: ARTIFACT, facts: GOOD, allowlisted: false, stored }, documentOf).differences, [
    `rule 3 of policy 'fails' version 2 is stored as not satisfied (missing_attestation in flow 1 failing: ` +
      `another), but re-evaluates to not satisfied (missing_attestation in flow 1 failing: ${error})`,
  ]);
});

const WITHOUT_TRAIL: Facts = { flows: [{ ...flow([]), trail_id: null, trail: null }] };
/**
 * The evaluation under version 1 of the rules of an artifact that is COMPLIANT in its flow, without a trail.
 */
const STORED_UNDER_VERSION_1: Evaluation = {
  compliant: false,
  verdicts: [
    {
      policy: "trail",
      version_id: 9,
      version: 3,
      status: "NON-COMPLIANT",
      rules: [
        { satisfied: null, resolutions: [{ type: "rule_not_applicable", flow: 0 }] },
        { satisfied: false, resolutions: [{ type: "legacy_flow", flow: 0 }] },
      ],
    },
  ],
  reasons: [
    "Policy 'trail' requires compliance in the trail, but the artifact was reported to flow 'build' without a trail.",
  ],
};

test("replays a verdict under the evaluation rules that produced it", () => {
  const again = replay(
    { artifact: ARTIFACT, facts: WITHOUT_TRAIL, allowlisted: false, stored: STORED_UNDER_VERSION_1 },
    documentOf,
  );
  assert.equal(again, { evaluation: STORED_UNDER_VERSION_1, same: true, differences: [] });
  const latest = evaluateForStorage([TRAIL], WITHOUT_TRAIL);
  assert.is(latest.compliant, true);
  assert.is(
    replay({ artifact: ARTIFACT, facts: WITHOUT_TRAIL, allowlisted: false, stored: latest }, documentOf).same,
    true,
  );
});

test("detects a changed version of the evaluation rules", () => {
  const differences = (stored: Evaluation) =>
    replay({ artifact: ARTIFACT, facts: WITHOUT_TRAIL, allowlisted: false, stored }, documentOf).differences;
  const [stored] = STORED_UNDER_VERSION_1.verdicts;
  assert.is(
    differences({ ...STORED_UNDER_VERSION_1, verdicts: [{ ...(stored as StoredVerdict), rules_version: 2 }] })[0],
    "policy 'trail' version 3 is stored as NON-COMPLIANT, but re-evaluates to COMPLIANT",
  );
  const { rules_version: _, ...withoutVersion } = evaluateForStorage([TRAIL], WITHOUT_TRAIL)
    .verdicts[0] as StoredVerdict;
  assert.is(
    differences({ ...evaluateForStorage([TRAIL], WITHOUT_TRAIL), verdicts: [withoutVersion] })[0],
    "policy 'trail' version 3 is stored as COMPLIANT, but re-evaluates to NON-COMPLIANT",
  );
});

test("throws for evaluation rules that this program does not have", () => {
  for (const rules_version of [0, 3, "2"] as unknown as (1 | 2)[]) {
    const stored = {
      ...STORED_UNDER_VERSION_1,
      verdicts: [{ ...(STORED_UNDER_VERSION_1.verdicts[0] as StoredVerdict), rules_version }],
    };
    assert.throws(
      () => replay({ artifact: ARTIFACT, facts: WITHOUT_TRAIL, allowlisted: false, stored }, documentOf),
      new RegExp(
        `policy 'trail' version 3 names version ${rules_version} of the evaluation rules; this program has ` +
          `versions 1 to 2`,
      ),
    );
  }
});

test("throws for a policy version that is gone", () => {
  assert.throws(
    () =>
      replay(
        {
          artifact: ARTIFACT,
          facts: GOOD,
          allowlisted: false,
          stored: evaluateForStorage([policy("x", 99, "{}")], GOOD),
        },
        documentOf,
      ),
    /policy version 99 is gone/,
  );
});

const stored = (
  verdict: boolean | null,
  compliant: number,
  nonCompliant: number,
  unknown: number,
): SnapshotVerdict => ({ verdict, compliant, nonCompliant, unknown });
const runs = (compliant: boolean | null, versionIds: number[] | null = [7]) => ({
  name: "web",
  fingerprint: "f",
  compliant,
  versionIds,
});
const running = (...evaluated: ReturnType<typeof runs>[]) => ({
  counts: countVerdicts(evaluated.map(({ compliant }) => compliant)),
  evaluated,
});

test("compares a snapshot with the artifacts that ran", () => {
  assert.equal(checkSnapshot(stored(true, 0, 0, 0), [7], running()), []);
  assert.equal(checkSnapshot(stored(null, 0, 0, 0), [], running()), []);
  assert.equal(checkSnapshot(stored(false, 1, 1, 0), [7], running(runs(true), runs(false))), []);
  assert.equal(checkSnapshot(stored(null, 0, 0, 1), [], running(runs(null, []))), []);
  assert.equal(
    checkSnapshot(stored(false, 0, 1, 0), [7], running(runs(false, null))),
    [],
    "unreadable evaluations are reported elsewhere",
  );
  assert.equal(checkSnapshot(stored(true, 2, 0, 0), [7], running(runs(true), runs(false))), [
    "the stored count of compliant artifacts is 2, but 1 run",
    "the stored count of non-compliant artifacts is 0, but 1 run",
    "the snapshot is stored as COMPLIANT, but its artifacts make it NON-COMPLIANT",
  ]);
  assert.equal(checkSnapshot(stored(true, 1, 0, 0), [7, 9], running(runs(true))), [
    "'web' (f) was evaluated under the policy versions [7], but [7, 9] were in force",
  ]);
});

test("compares a logical snapshot with its members, except for those that are not shown", () => {
  assert.equal(checkLogicalSnapshot(stored(null, 0, 0, 0), []), []);
  assert.equal(
    checkLogicalSnapshot(stored(false, 3, 1, 2), [
      stored(true, 3, 0, 0),
      stored(false, 0, 1, 0),
      stored(null, 0, 0, 2),
    ]),
    [],
  );
  assert.equal(checkLogicalSnapshot(stored(null, 1, 0, 0), [stored(true, 1, 0, 0)]), []);
  assert.equal(checkLogicalSnapshot(stored(true, 1, 0, 0), [stored(true, 1, 0, 0)]), []);
  assert.equal(checkLogicalSnapshot(stored(true, 1, 0, 0), [stored(null, 0, 0, 1)]), [
    "the stored count of compliant artifacts is 1, but 0 run",
    "the stored count of unknown artifacts is 0, but 1 run",
    "the snapshot is stored as COMPLIANT, but its artifacts make it UNKNOWN",
  ]);
  assert.equal(checkLogicalSnapshot(stored(null, 0, 1, 0), [stored(false, 0, 1, 0)]), [
    "the snapshot is stored as UNKNOWN, but its artifacts make it NON-COMPLIANT",
  ]);
});

test("formats verdicts", () => {
  assert.equal([true, false, null].map(formatVerdict), ["COMPLIANT", "NON-COMPLIANT", "UNKNOWN"]);
});

test.run();
