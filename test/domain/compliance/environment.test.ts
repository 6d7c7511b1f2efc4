import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  computeEnvironmentVerdict,
  evaluateInEnvironment,
  computeLogicalVerdict,
  provenanceOf,
  buildSubject,
  expandStoredVerdict,
} from "../../../src/domain/compliance/environment.ts";
import type { AppliedPolicy, Facts, FlowRecord } from "../../../src/domain/compliance/environment.ts";
import { parsePolicy } from "../../../src/domain/policy/document.ts";
import { evaluatePolicy } from "../../../src/domain/policy/evaluate.ts";
import type { AttestationCandidate } from "../../../src/domain/policy/evaluate.ts";
import { explainVerdict } from "../../../src/domain/policy/reasons.ts";

const test = suite("domain/compliance/environment");

const ARTIFACT = { fingerprint: "f".repeat(64), name: "web:v1" };

let made = 0;
function policy(policyName: string, artifacts: string): AppliedPolicy {
  const { policy: document, problems } = parsePolicy(`_schema: /v1\nartifacts: ${artifacts}`);
  if (document === null) throw new Error(JSON.stringify(problems));
  return { policyName, versionId: (made += 1), version: 3, document };
}

const attested = (fields: Partial<AttestationCandidate> = {}): AttestationCandidate => ({
  name: "unit",
  type: "junit",
  isCompliant: true,
  control: null,
  attestationId: `id-${(made += 1)}`,
  level: "artifact",
  sequence: made,
  ...fields,
});

const reported = (flow: string, fields: Partial<FlowRecord> = {}): FlowRecord => ({
  flow_id: 1,
  flow,
  tags: {},
  trail_id: 2,
  trail: `${flow}-trail`,
  artifact_id: 3,
  reference_name: "web",
  filename: "web.tar",
  git_commit: "c".repeat(40),
  commit_url: "",
  committed_at: null,
  state: "COMPLIANT",
  reasons: [],
  candidates: [],
  deployment_id: null,
  ...fields,
});

const NOTHING: Facts = { flows: [] };
const PROVENANCE = policy("provenance", "{provenance: {required: true}}");
const TRAIL = policy("trail", "{trail-compliance: {required: true}}");
const JUNIT = policy("junit", "{attestations: [{type: junit, name: unit}]}");
const CONTROL = policy("control", "{attestations: [{type: decision, for_control: SDLC-1}]}");
const TAGGED = policy("tagged", "{attestations: [{type: junit, if: flow.tags.risk == 'high'}]}");
const WAIVED = policy("waived", "{provenance: {required: true, exceptions: [{if: artifact.name == 'web:v1'}]}}");
const NONE = policy("none", "{}");
const FAILING = policy(
  "failing",
  "{provenance: {required: true, exceptions: [{if: flow == 'x'}]}, attestations: [{type: decision, " +
    "for_control: SDLC-1, if: flow != 'x'}]}",
);
const ALL = [PROVENANCE, TRAIL, JUNIT, CONTROL, TAGGED, WAIVED, NONE];

const good: Facts = {
  flows: [
    reported("build", {
      candidates: [attested(), attested({ name: "go", type: "system:decision", control: "SDLC-1" })],
    }),
  ],
};

const situations: [string, Facts][] = [
  ["no provenance", NOTHING],
  ["everything there", good],
  ["a record without a trail", { flows: [reported("old", { trail_id: null, trail: null })] }],
  ["nothing attested", { flows: [reported("build")] }],
  [
    "a failed attestation",
    { flows: [reported("build", { state: "NON-COMPLIANT", candidates: [attested({ isCompliant: false })] })] },
  ],
  [
    "several flows, one of them bad",
    {
      flows: [
        ...good.flows,
        reported("deploy", {
          state: "INCOMPLETE",
          tags: { risk: "high", x: "2" },
          candidates: [attested({ isCompliant: false, level: "trail" })],
        }),
      ],
    },
  ],
  ["flows with and without trails", { flows: [reported("old", { trail_id: null, trail: null }), ...good.flows] }],
  [
    "names that every object has",
    {
      flows: [
        reported("constructor", { tags: JSON.parse('{"__proto__": "high", "risk": "high"}'), trail: "__proto__" }),
      ],
    },
  ],
];

for (const [what, facts] of situations) {
  const subject = buildSubject(ARTIFACT, facts);

  test(`${what}: expands stored verdicts to those of the policies`, () => {
    const { verdicts } = evaluateInEnvironment({
      policies: [...ALL, FAILING],
      artifact: ARTIFACT,
      facts,
      isAllowlisted: false,
    });
    assert.equal(
      verdicts.map((verdict, place) =>
        expandStoredVerdict(verdict, ([...ALL, FAILING][place] as AppliedPolicy).document, facts),
      ),
      [...ALL, FAILING].map(({ document }) => evaluatePolicy(document, subject)),
    );
  });

  test(`${what}: requires all policies, and stores the verdict and reasons of each`, () => {
    const {
      compliant,
      verdicts,
      reasons: why,
    } = evaluateInEnvironment({ policies: ALL, artifact: ARTIFACT, facts, isAllowlisted: false });
    const given = ALL.map(({ policyName, document }) => ({ policyName, verdict: evaluatePolicy(document, subject) }));
    assert.is(
      compliant,
      given.every(({ verdict }) => verdict.status === "COMPLIANT"),
    );
    assert.equal(
      why,
      given.flatMap(({ verdict, policyName }) => explainVerdict(verdict, policyName)),
    );
    assert.equal(
      verdicts.map(({ policy: name, version_id, version, status }) => [name, version_id, version, status]),
      given.map(({ policyName, verdict }, place) => [
        policyName,
        (ALL[place] as AppliedPolicy).versionId,
        3,
        verdict.status,
      ]),
    );
  });

  test(`${what}: evaluates to the same from stored facts`, () => {
    const evaluation = evaluateInEnvironment({
      policies: [...ALL, FAILING],
      artifact: ARTIFACT,
      facts,
      isAllowlisted: false,
    });
    const again = evaluateInEnvironment({
      policies: [...ALL, FAILING],
      artifact: ARTIFACT,
      facts: throughText(facts),
      isAllowlisted: false,
    });
    assert.equal(again, evaluation);
    assert.is(JSON.stringify(again), JSON.stringify(evaluation));
    assert.equal(throughText(evaluation), evaluation);
    assert.is(provenanceOf(throughText(facts)), provenanceOf(facts));
    throughText(evaluation).verdicts.forEach((verdict, place) => {
      const { document } = [...ALL, FAILING][place] as AppliedPolicy;
      assert.equal(expandStoredVerdict(verdict, document, throughText(facts)), evaluatePolicy(document, subject));
    });
  });

  test(`${what}: without policies the verdict is unknown`, () => {
    for (const allowlisted of [false, true])
      assert.equal(evaluateInEnvironment({ policies: [], artifact: ARTIFACT, facts, isAllowlisted: allowlisted }), {
        compliant: null,
        verdicts: [],
        reasons: [],
      });
  });

  test(`${what}: is compliant by the allowlist, without hiding anything`, () => {
    const evaluation = evaluateInEnvironment({ policies: ALL, artifact: ARTIFACT, facts, isAllowlisted: false });
    assert.equal(evaluateInEnvironment({ policies: ALL, artifact: ARTIFACT, facts, isAllowlisted: true }), {
      ...evaluation,
      compliant: true,
    });
  });
}

test("explains each failure in one sentence, by policy", () => {
  assert.equal(
    evaluateInEnvironment({
      policies: [PROVENANCE, JUNIT, NONE],
      artifact: ARTIFACT,
      facts: NOTHING,
      isAllowlisted: false,
    }).reasons,
    [
      "Policy 'provenance' requires provenance, but the artifact was not reported to any flow.",
      "Policy 'junit' requires a compliant junit attestation named 'unit', but the artifact was not reported " +
        "to any flow.",
    ],
  );
  assert.is(
    evaluateInEnvironment({
      policies: [PROVENANCE, TRAIL, JUNIT, CONTROL],
      artifact: ARTIFACT,
      facts: good,
      isAllowlisted: false,
    }).compliant,
    true,
  );
  assert.equal(
    evaluateInEnvironment({
      policies: [PROVENANCE, TRAIL, JUNIT, CONTROL],
      artifact: ARTIFACT,
      facts: good,
      isAllowlisted: false,
    }).reasons,
    [],
  );
});

test("stores verdicts without what the facts contain", () => {
  const facts: Facts = {
    flows: [
      reported("old", { trail_id: null, trail: null }),
      reported("build", { candidates: [attested({ attestationId: "the-id" })] }),
    ],
  };
  assert.equal(evaluateInEnvironment({ policies: [JUNIT], artifact: ARTIFACT, facts, isAllowlisted: false }).verdicts, [
    {
      policy: "junit",
      version_id: JUNIT.versionId,
      version: 3,
      status: "NON-COMPLIANT",
      rules: [
        {
          satisfied: null,
          resolutions: [
            { type: "rule_not_applicable", flow: 0 },
            { type: "rule_not_applicable", flow: 1 },
          ],
        },
        {
          satisfied: null,
          resolutions: [
            { type: "rule_not_applicable", flow: 0 },
            { type: "rule_not_applicable", flow: 1 },
          ],
        },
        {
          satisfied: false,
          resolutions: [
            { type: "legacy_flow", flow: 0 },
            { type: "rule_satisfied", flow: 1, attestations: ["the-id"] },
          ],
        },
      ],
      rules_version: 2,
    },
  ]);
  assert.equal(
    evaluateInEnvironment({ policies: [PROVENANCE], artifact: ARTIFACT, facts: NOTHING, isAllowlisted: false })
      .verdicts[0]?.rules[0],
    {
      satisfied: false,
      resolutions: [{ type: "missing_provenance", flow: null }],
    },
  );
});

test("refuses to expand a stored verdict of another policy version", () => {
  const [verdict] = evaluateInEnvironment({
    policies: [JUNIT],
    artifact: ARTIFACT,
    facts: good,
    isAllowlisted: false,
  }).verdicts;
  assert.throws(
    () => expandStoredVerdict(verdict as NonNullable<typeof verdict>, NONE.document, good),
    /version 3 of policy 'junit' has no rule 3/,
  );
});

test("stores a failed expression with its error", () => {
  const { verdicts, reasons: why } = evaluateInEnvironment({
    policies: [FAILING],
    artifact: ARTIFACT,
    facts: good,
    isAllowlisted: false,
  });
  const error = "flow itself cannot be compared (at character 6 of: flow == 'x')";
  assert.equal(verdicts[0]?.rules[0], {
    satisfied: false,
    resolutions: [{ type: "missing_provenance", flow: 0, error }],
  });
  assert.is(why[0], `Policy 'failing' requires provenance, but its condition failed for flow 'build': ${error}.`);
});

test("gives expressions the name under which the artifact runs, or that in the flow", () => {
  const own = policy(
    "own",
    "{provenance: {required: true, exceptions: [{if: artifact.name == 'web.tar'}]}, attestations: [{type: " +
      "junit, if: artifact.name == 'web.tar'}]}",
  );
  const facts: Facts = { flows: [reported("build")] };
  assert.is(
    evaluateInEnvironment({ policies: [own], artifact: ARTIFACT, facts, isAllowlisted: false }).compliant,
    true,
  );
  assert.is(
    evaluateInEnvironment({ policies: [own], artifact: { ...ARTIFACT, name: "web.tar" }, facts, isAllowlisted: false })
      .compliant,
    false,
  );
  assert.is(
    evaluateInEnvironment({ policies: [own], artifact: { ...ARTIFACT, name: "" }, facts, isAllowlisted: false })
      .compliant,
    false,
  );
});

const base = reported("build", { candidates: [attested({ attestationId: "1" }), attested({ attestationId: "2" })] });
const same: [string, Partial<FlowRecord>][] = [
  ["another name of the flow", { flow: "renamed" }],
  ["tags", { tags: { risk: "high" } }],
  ["the state in the flow", { state: "INCOMPLETE", reasons: ["why"] }],
  ["a deployment", { deployment_id: 9 }],
  ["the file's name", { filename: "other" }],
];
for (const [what, fields] of same)
  test(`the provenance does not change with ${what}`, () =>
    assert.is(provenanceOf({ flows: [{ ...base, ...fields }] }), provenanceOf({ flows: [base] })));

const other: [string, Facts][] = [
  ["no flow", NOTHING],
  ["another flow", { flows: [{ ...base, flow_id: 9 }] }],
  ["one more flow", { flows: [base, reported("deploy", { flow_id: 9 })] }],
  ["another trail", { flows: [{ ...base, trail_id: 9 }] }],
  ["no trail", { flows: [{ ...base, trail_id: null, trail: null }] }],
  ["another record", { flows: [{ ...base, artifact_id: 9 }] }],
  ["one more attestation", { flows: [{ ...base, candidates: [...base.candidates, attested()] }] }],
  [
    "an attestation in place of another",
    { flows: [{ ...base, candidates: [attested(), ...base.candidates.slice(1)] }] },
  ],
  ["no attestation", { flows: [{ ...base, candidates: [] }] }],
];
for (const [what, facts] of other)
  test(`the provenance changes with ${what}`, () =>
    assert.is.not(provenanceOf(facts), provenanceOf({ flows: [base] })));

const environments: [running: (boolean | null)[], policies: number, state: boolean | null][] = [
  [[], 0, null],
  [[null, null], 0, null],
  [[], 1, true],
  [[true], 1, true],
  [[true, true], 2, true],
  [[true, false], 1, false],
  [[false], 1, false],
  [[true, null], 1, false],
  [[null], 1, false],
];
for (const [running, policies, state] of environments) {
  test(`with ${policies} policies ${JSON.stringify(running)} is ${state}`, () =>
    assert.is(computeEnvironmentVerdict(running, policies), state));
}

const groups: [members: (boolean | null)[], state: boolean | null][] = [
  [[], null],
  [[true], true],
  [[true, true], true],
  [[null], null],
  [[true, null], null],
  [[null, true], null],
  [[false], false],
  [[true, false], false],
  [[null, false], false],
  [[false, null, true], false],
];
for (const [members, state] of groups)
  test(`a logical environment of ${JSON.stringify(members)} is ${state}`, () =>
    assert.is(computeLogicalVerdict(members), state));

function throughText<T>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}

test.run();
