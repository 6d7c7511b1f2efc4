import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parsePolicy } from "../../../src/domain/policy/document.ts";
import type { PolicyDocument } from "../../../src/domain/policy/document.ts";
import { evaluatePolicy, presentRuleVerdicts } from "../../../src/domain/policy/evaluate.ts";
import type {
  AttestationCandidate,
  FlowFacts,
  PolicyVerdict,
  RuleVerdict,
  Subject,
} from "../../../src/domain/policy/evaluate.ts";
import { describeOutcome, explainVerdict, describeRule } from "../../../src/domain/policy/reasons.ts";

function policy(artifacts: string): PolicyDocument {
  const parsed = parsePolicy(`_schema: /v1\nartifacts: ${artifacts}`);
  if (parsed.policy === null) throw new Error(JSON.stringify(parsed.problems));
  return parsed.policy;
}

let made = 0;
function record(fields: Partial<AttestationCandidate> = {}): AttestationCandidate {
  made += 1;
  return {
    name: "unit",
    type: "junit",
    isCompliant: true,
    control: null,
    attestationId: `id-${made}`,
    level: "artifact",
    sequence: made,
    ...fields,
  };
}

type State = FlowFacts["artifactState"];
type InTrail = { artifactState?: State; candidates?: AttestationCandidate[] };

function flow(name: string, inTrail: InTrail = {}, flowTags: Record<string, string> = {}): FlowFacts {
  const { artifactState = "COMPLIANT", candidates = [] } = inTrail;
  return {
    flowName: name,
    flowTags,
    artifactName: `${name}-artifact`,
    artifactState,
    trail: { name: `${name}-trail`, candidates },
  };
}

/** A record that was reported to the flow without a trail. */
const legacy = (name: string, artifactState: State = "COMPLIANT"): FlowFacts => ({
  ...flow(name, { artifactState }),
  trail: null,
});

function evaluate(artifacts: string, flows: FlowFacts[], artifactName = "app:v1"): PolicyVerdict {
  return evaluatePolicy(policy(artifacts), { fingerprint: "f".repeat(64), artifactName, flows });
}

/** `type` of every resolution of one rule. */
function types(verdict: PolicyVerdict, rule: number): string[] {
  return (verdict.rules[rule] as RuleVerdict).resolutions.map(({ type }) => type);
}

const PROVENANCE = 0;
const TRAIL = 1;
const FIRST = 2;

const table = suite("domain/policy/evaluate: rules");

/** `is` lists status, then for the rule under test: satisfied and the type of each resolution. */
type Row = [
  what: string,
  artifacts: string,
  flows: FlowFacts[],
  rule: number,
  is: [status: string, satisfied: boolean | null, ...types: string[]],
];

const OK = "COMPLIANT";
const BAD = "NON-COMPLIANT";

const ROWS: Row[] = [
  // 5.3: required false is ignored; exceptions waive
  ["nothing required", "{}", [], PROVENANCE, [OK, null, "rule_not_applicable"]],
  [
    "nothing required of the trail",
    "{}",
    [flow("a", { artifactState: BAD })],
    TRAIL,
    [OK, null, "rule_not_applicable"],
  ],
  [
    "exceptions of a rule that is not required are not looked at",
    "{provenance: {exceptions: [{if: flow}]}}",
    [flow("a")],
    PROVENANCE,
    [OK, null, "rule_not_applicable"],
  ],
  ["provenance there", "{provenance: {required: true}}", [flow("a")], PROVENANCE, [OK, true, "rule_satisfied"]],
  [
    "provenance by a record without trail",
    "{provenance: {required: true}}",
    [legacy("a")],
    PROVENANCE,
    [OK, true, "rule_satisfied"],
  ],
  ["provenance missing", "{provenance: {required: true}}", [], PROVENANCE, [BAD, false, "missing_provenance"]],
  [
    "exception true",
    "{provenance: {required: true, exceptions: [{if: artifact.name == 'app:v1'}]}}",
    [],
    PROVENANCE,
    [OK, null, "rule_not_applicable"],
  ],
  [
    "exception false",
    "{provenance: {required: true, exceptions: [{if: artifact.name == 'other'}]}}",
    [],
    PROVENANCE,
    [BAD, false, "missing_provenance"],
  ],
  [
    "one of several exceptions",
    "{provenance: {required: true, exceptions: [{if: 'false'}, {if: 'true'}]}}",
    [],
    PROVENANCE,
    [OK, null, "rule_not_applicable"],
  ],
  [
    "exception with null if never matches (semantics 13.60)",
    "{provenance: {required: true, exceptions: [{if: null}, {}]}}",
    [],
    PROVENANCE,
    [BAD, false, "missing_provenance"],
  ],
  [
    "exception for one flow only",
    "{trail-compliance: {required: true, exceptions: [{if: flow.name == 'a'}]}}",
    [flow("a", { artifactState: BAD }), flow("b", { artifactState: BAD })],
    TRAIL,
    [BAD, false, "rule_not_applicable", "non_compliant_in_trail"],
  ],
  [
    "exception of the first flow does not leak to the second",
    "{trail-compliance: {required: true, exceptions: [{if: flow.tags.x == '1'}]}}",
    [flow("a", { artifactState: BAD }, { x: "1" }), flow("b", { artifactState: BAD })],
    TRAIL,
    [BAD, false, "rule_not_applicable", "non_compliant_in_trail"],
  ],
  [
    "exceptions are per rule",
    "{provenance: {required: true, exceptions: [{if: 'true'}]}, trail-compliance: {required: true}}",
    [],
    TRAIL,
    [BAD, false, "no_provenance"],
  ],

  // Semantics 13.61: without provenance expressions run once with flow null
  [
    "condition on the flow without provenance",
    "{attestations: [{type: junit, if: exists(flow)}]}",
    [],
    FIRST,
    [OK, null, "rule_not_applicable"],
  ],
  [
    "condition on a missing flow without provenance",
    "{attestations: [{type: junit, if: not exists(flow)}]}",
    [],
    FIRST,
    [BAD, false, "no_provenance"],
  ],
  [
    "flow.name != x is true without provenance",
    "{attestations: [{type: junit, if: flow.name != 'x'}]}",
    [],
    FIRST,
    [BAD, false, "no_provenance"],
  ],

  // Semantics 13.4: no provenance although it is not required
  ["attestation rule without provenance", "{attestations: [{type: junit}]}", [], FIRST, [BAD, false, "no_provenance"]],
  [
    "trail-compliance without provenance",
    "{trail-compliance: {required: true}}",
    [],
    TRAIL,
    [BAD, false, "no_provenance"],
  ],
  [
    "trail-compliance without provenance, waived",
    "{trail-compliance: {required: true, exceptions: [{if: not exists(flow)}]}}",
    [],
    TRAIL,
    [OK, null, "rule_not_applicable"],
  ],

  // Records without a trail
  [
    "legacy record that is compliant, trail-compliance",
    "{trail-compliance: {required: true}}",
    [legacy("a")],
    TRAIL,
    [OK, true, "rule_satisfied"],
  ],
  [
    "legacy record that failed, trail-compliance",
    "{trail-compliance: {required: true}}",
    [legacy("a", BAD)],
    TRAIL,
    [BAD, false, "legacy_flow"],
  ],
  [
    "legacy record that is incomplete, trail-compliance",
    "{trail-compliance: {required: true}}",
    [legacy("a", "INCOMPLETE")],
    TRAIL,
    [BAD, false, "legacy_flow"],
  ],
  [
    "legacy records, one of them incomplete",
    "{trail-compliance: {required: true}}",
    [legacy("a"), legacy("b", "INCOMPLETE")],
    TRAIL,
    [BAD, false, "rule_satisfied", "legacy_flow"],
  ],
  [
    "legacy record that is compliant, waived",
    "{trail-compliance: {required: true, exceptions: [{if: 'true'}]}}",
    [legacy("a")],
    TRAIL,
    [OK, null, "rule_not_applicable"],
  ],
  ["legacy record, attestation", "{attestations: [{type: junit}]}", [legacy("a")], FIRST, [BAD, false, "legacy_flow"]],
  [
    "legacy record, rule not applicable",
    "{attestations: [{type: junit, if: 'false'}]}",
    [legacy("a")],
    FIRST,
    [OK, null, "rule_not_applicable"],
  ],

  // trail-compliance: only COMPLIANT satisfies (semantics 13.64: the caller's state includes trail-level entries)
  [
    "trail-compliance of a compliant one",
    "{trail-compliance: {required: true}}",
    [flow("a")],
    TRAIL,
    [OK, true, "rule_satisfied"],
  ],
  [
    "trail-compliance of a failing one",
    "{trail-compliance: {required: true}}",
    [flow("a", { artifactState: BAD })],
    TRAIL,
    [BAD, false, "non_compliant_in_trail"],
  ],
  [
    "trail-compliance of an incomplete one",
    "{trail-compliance: {required: true}}",
    [flow("a", { artifactState: "INCOMPLETE" })],
    TRAIL,
    [BAD, false, "non_compliant_in_trail"],
  ],

  // Semantics 13.3: all applicable flows must satisfy
  [
    "one of two flows fails",
    "{trail-compliance: {required: true}}",
    [flow("a"), flow("b", { artifactState: BAD })],
    TRAIL,
    [BAD, false, "rule_satisfied", "non_compliant_in_trail"],
  ],
  [
    "attestation in one of two flows",
    "{attestations: [{type: junit}]}",
    [flow("a", { candidates: [record()] }), flow("b")],
    FIRST,
    [BAD, false, "rule_satisfied", "missing_attestation"],
  ],
  [
    "attestation in the only applicable flow",
    "{attestations: [{type: junit, if: flow.tags.team == 'x'}]}",
    [flow("a", { candidates: [record()] }, { team: "x" }), flow("b")],
    FIRST,
    [OK, true, "rule_satisfied", "rule_not_applicable"],
  ],
  [
    "no flow applicable",
    "{attestations: [{type: junit, if: flow.tags.team == 'x'}]}",
    [flow("a"), flow("b")],
    FIRST,
    [OK, null, "rule_not_applicable", "rule_not_applicable"],
  ],
  [
    "a legacy flow beside a good one",
    "{attestations: [{type: junit}]}",
    [flow("a", { candidates: [record()] }), legacy("b")],
    FIRST,
    [BAD, false, "rule_satisfied", "legacy_flow"],
  ],

  // Attestations: name and type
  ["missing", "{attestations: [{type: junit, name: unit}]}", [flow("a")], FIRST, [BAD, false, "missing_attestation"]],
  [
    "present",
    "{attestations: [{type: junit, name: unit}]}",
    [flow("a", { candidates: [record()] })],
    FIRST,
    [OK, true, "rule_satisfied"],
  ],
  [
    "another name",
    "{attestations: [{type: junit, name: unit}]}",
    [flow("a", { candidates: [record({ name: "units" })] })],
    FIRST,
    [BAD, false, "missing_attestation"],
  ],
  [
    "another type",
    "{attestations: [{type: snyk, name: unit}]}",
    [flow("a", { candidates: [record()] })],
    FIRST,
    [BAD, false, "missing_attestation"],
  ],
  [
    "any type",
    "{attestations: [{type: '*', name: unit}]}",
    [flow("a", { candidates: [record({ type: "custom:x" })] })],
    FIRST,
    [OK, true, "rule_satisfied"],
  ],
  [
    "any name",
    "{attestations: [{type: junit}]}",
    [flow("a", { candidates: [record({ name: "whatever" })] })],
    FIRST,
    [OK, true, "rule_satisfied"],
  ],
  [
    "custom type",
    "{attestations: [{type: 'custom:x'}]}",
    [flow("a", { candidates: [record({ type: "custom:x" })] })],
    FIRST,
    [OK, true, "rule_satisfied"],
  ],
  [
    "another custom type",
    "{attestations: [{type: 'custom:x'}]}",
    [flow("a", { candidates: [record({ type: "custom:xy" })] })],
    FIRST,
    [BAD, false, "missing_attestation"],
  ],
  [
    "trail level counts",
    "{attestations: [{type: pull_request}]}",
    [flow("a", { candidates: [record({ type: "pull_request", level: "trail" })] })],
    FIRST,
    [OK, true, "rule_satisfied"],
  ],
  [
    "failing",
    "{attestations: [{type: junit, name: unit}]}",
    [flow("a", { candidates: [record({ isCompliant: false })] })],
    FIRST,
    [BAD, false, "non_compliant_attestation"],
  ],
  [
    "failing, but need not comply (semantics 13.6)",
    "{attestations: [{type: junit, name: unit, must_be_compliant: false}]}",
    [flow("a", { candidates: [record({ isCompliant: false })] })],
    FIRST,
    [OK, true, "rule_satisfied"],
  ],
  [
    "need not comply, but exist",
    "{attestations: [{type: junit, must_be_compliant: false}]}",
    [flow("a")],
    FIRST,
    [BAD, false, "missing_attestation"],
  ],
  [
    "wildcard: one compliant suffices (semantics 13.5)",
    "{attestations: [{type: junit}]}",
    [flow("a", { candidates: [record({ name: "x", isCompliant: false }), record({ name: "y" })] })],
    FIRST,
    [OK, true, "rule_satisfied"],
  ],
  [
    "wildcard: none compliant",
    "{attestations: [{type: junit}]}",
    [flow("a", { candidates: [record({ name: "x", isCompliant: false }), record({ name: "y", isCompliant: false })] })],
    FIRST,
    [BAD, false, "non_compliant_attestation"],
  ],
  [
    "wildcard: a compliant one of another type does not help",
    "{attestations: [{type: junit}]}",
    [flow("a", { candidates: [record({ isCompliant: false }), record({ name: "y", type: "snyk" })] })],
    FIRST,
    [BAD, false, "non_compliant_attestation"],
  ],
  [
    "wildcard: same name on both levels, both count",
    "{attestations: [{type: junit}]}",
    [flow("a", { candidates: [record({ isCompliant: false }), record({ level: "trail" })] })],
    FIRST,
    [OK, true, "rule_satisfied"],
  ],

  // Semantics 13.63: under an exact name, the artifact's record hides the trail's
  [
    "exact name: artifact fails, trail passes",
    "{attestations: [{type: junit, name: unit}]}",
    [flow("a", { candidates: [record({ level: "trail" }), record({ isCompliant: false })] })],
    FIRST,
    [BAD, false, "non_compliant_attestation"],
  ],
  [
    "exact name: artifact passes, newer on the trail fails",
    "{attestations: [{type: junit, name: unit}]}",
    [flow("a", { candidates: [record(), record({ level: "trail", isCompliant: false })] })],
    FIRST,
    [OK, true, "rule_satisfied"],
  ],
  [
    "exact name: the artifact's record hides the trail's, also of another type",
    "{attestations: [{type: junit, name: unit}]}",
    [flow("a", { candidates: [record({ type: "generic" }), record({ level: "trail" })] })],
    FIRST,
    [BAD, false, "missing_attestation"],
  ],
  [
    "exact name: on the trail only",
    "{attestations: [{type: junit, name: unit}]}",
    [flow("a", { candidates: [record({ name: "other" }), record({ level: "trail" })] })],
    FIRST,
    [OK, true, "rule_satisfied"],
  ],

  [
    "sbom has the type label system:sbom",
    "{attestations: [{type: sbom}]}",
    [flow("a", { candidates: [record({ type: "system:sbom" })] })],
    FIRST,
    [OK, true, "rule_satisfied"],
  ],
  [
    "sbom is no custom type of that name",
    "{attestations: [{type: sbom}]}",
    [flow("a", { candidates: [record({ type: "custom:sbom" })] })],
    FIRST,
    [BAD, false, "missing_attestation"],
  ],

  // Decisions
  [
    "decision has the type label system:decision",
    "{attestations: [{type: decision}]}",
    [flow("a", { candidates: [record({ type: "system:decision", control: "C" })] })],
    FIRST,
    [OK, true, "rule_satisfied"],
  ],
  [
    "for_control: none",
    "{attestations: [{type: decision, for_control: C}]}",
    [flow("a", { candidates: [record({ type: "system:decision", control: "D" })] })],
    FIRST,
    [BAD, false, "missing_attestation"],
  ],
  [
    "for_control: there",
    "{attestations: [{type: decision, for_control: C}]}",
    [flow("a", { candidates: [record({ type: "system:decision", control: "C" })] })],
    FIRST,
    [OK, true, "rule_satisfied"],
  ],
  [
    "for_control: only decisions",
    "{attestations: [{type: decision, for_control: C}]}",
    [flow("a", { candidates: [record({ control: "C" })] })],
    FIRST,
    [BAD, false, "missing_attestation"],
  ],
  [
    "for_control: the most recent fails",
    "{attestations: [{type: decision, for_control: C}]}",
    [
      flow("a", {
        candidates: [
          record({ name: "x", type: "system:decision", control: "C", sequence: 7, isCompliant: false }),
          record({ name: "y", type: "system:decision", control: "C", sequence: 6, level: "trail" }),
        ],
      }),
    ],
    FIRST,
    [BAD, false, "non_compliant_attestation"],
  ],
  [
    "for_control: the most recent passes",
    "{attestations: [{type: decision, for_control: C}]}",
    [
      flow("a", {
        candidates: [
          record({ name: "x", type: "system:decision", control: "C", sequence: 6, isCompliant: false }),
          record({ name: "y", type: "system:decision", control: "C", sequence: 7, level: "trail" }),
        ],
      }),
    ],
    FIRST,
    [OK, true, "rule_satisfied"],
  ],
  [
    "for_control: a newer one for another control is no matter",
    "{attestations: [{type: decision, for_control: C}]}",
    [
      flow("a", {
        candidates: [
          record({ name: "x", type: "system:decision", control: "C", sequence: 6 }),
          record({ name: "y", type: "system:decision", control: "D", sequence: 7, isCompliant: false }),
        ],
      }),
    ],
    FIRST,
    [OK, true, "rule_satisfied"],
  ],
  [
    "decision without for_control: any compliant one",
    "{attestations: [{type: decision}]}",
    [
      flow("a", {
        candidates: [
          record({ name: "x", type: "system:decision", control: "C", sequence: 6 }),
          record({ name: "y", type: "system:decision", control: "C", sequence: 7, isCompliant: false }),
        ],
      }),
    ],
    FIRST,
    [OK, true, "rule_satisfied"],
  ],

  // Semantics 13.10: an expression that fails
  [
    "provenance: failing exception",
    "{provenance: {required: true, exceptions: [{if: flow}]}}",
    [flow("a")],
    PROVENANCE,
    [BAD, false, "missing_provenance"],
  ],
  [
    "trail-compliance: failing exception",
    "{trail-compliance: {required: true, exceptions: [{if: artifact == 'x'}]}}",
    [flow("a")],
    TRAIL,
    [BAD, false, "non_compliant_in_trail"],
  ],
  [
    "attestation: failing condition",
    "{attestations: [{type: junit, if: flow.name}]}",
    [flow("a", { candidates: [record()] })],
    FIRST,
    [BAD, false, "missing_attestation"],
  ],
  [
    "failing condition without provenance",
    "{attestations: [{type: junit, if: flow == 'x'}]}",
    [],
    FIRST,
    [BAD, false, "missing_attestation"],
  ],
  [
    "failing condition of a legacy record",
    "{attestations: [{type: junit, if: \"'x' in 'y'\"}]}",
    [legacy("a")],
    FIRST,
    [BAD, false, "missing_attestation"],
  ],
  [
    "failing for one flow only",
    "{attestations: [{type: junit, if: flow.tags.x == 'skip' or flow.name}]}",
    [flow("a", { candidates: [record()] }, { x: "skip" }), flow("b")],
    FIRST,
    [BAD, false, "rule_satisfied", "missing_attestation"],
  ],
  [
    "an exception that is true before the failing one",
    "{provenance: {required: true, exceptions: [{if: 'true'}, {if: flow}]}}",
    [],
    PROVENANCE,
    [OK, null, "rule_not_applicable"],
  ],
  [
    "an exception that is true after the failing one",
    "{provenance: {required: true, exceptions: [{if: flow}, {if: 'true'}]}}",
    [],
    PROVENANCE,
    [BAD, false, "missing_provenance"],
  ],
];

for (const [what, artifacts, flows, rule, is] of ROWS) {
  table(what, () => {
    const verdict = evaluate(artifacts, flows);
    const found = verdict.rules[rule] as RuleVerdict;
    assert.equal([verdict.status, found.satisfied, ...types(verdict, rule)], is);
    assert.is(found.ignored, found.satisfied === null);
  });
}

table("artifact.name is that of the snapshot, or of each flow if that is empty", () => {
  const rule = "{attestations: [{type: junit, if: artifact.name == 'b-artifact'}]}";
  assert.equal(types(evaluate(rule, [flow("a"), flow("b")]), FIRST), ["rule_not_applicable", "rule_not_applicable"]);
  assert.equal(types(evaluate(rule, [flow("a"), flow("b")], ""), FIRST), [
    "rule_not_applicable",
    "missing_attestation",
  ]);
  assert.equal(types(evaluate("{attestations: [{type: junit, if: artifact.name == 'app:v1'}]}", [flow("a")]), FIRST), [
    "missing_attestation",
  ]);
});

table("artifact.fingerprint is the subject's", () => {
  assert.equal(
    types(
      evaluate(`{provenance: {required: true, exceptions: [{if: artifact.fingerprint == '${"f".repeat(64)}'}]}}`, []),
      PROVENANCE,
    ),
    ["rule_not_applicable"],
  );
});

table("one failing rule among satisfied and ignored ones makes the policy fail", () => {
  const verdict = evaluate("{provenance: {required: true}, attestations: [{type: junit, if: 'false'}, {type: snyk}]}", [
    flow("a"),
  ]);
  assert.equal(
    { status: verdict.status, rules: verdict.rules.map(({ satisfied }) => satisfied) },
    { status: BAD, rules: [true, null, null, false] },
  );
});

table.run();

const deciding = suite("domain/policy/evaluate: decisive records");

const IDS: [what: string, rule: string, candidates: AttestationCandidate[], ids: string[]][] = [
  [
    "the compliant ones",
    "{type: junit}",
    [
      record({ name: "x", attestationId: "x" }),
      record({ name: "y", attestationId: "y", isCompliant: false }),
      record({ name: "z", attestationId: "z" }),
    ],
    ["x", "z"],
  ],
  ["the failing ones", "{type: junit}", [record({ name: "y", attestationId: "y", isCompliant: false })], ["y"]],
  [
    "all, if they need not comply",
    "{type: junit, must_be_compliant: false}",
    [record({ name: "x", attestationId: "x" }), record({ name: "y", attestationId: "y", isCompliant: false })],
    ["x", "y"],
  ],
  [
    "the latest decision",
    "{type: decision, for_control: C}",
    [
      record({ type: "system:decision", control: "C", attestationId: "old", sequence: 1 }),
      record({ type: "system:decision", control: "C", attestationId: "new", sequence: 2, name: "n" }),
    ],
    ["new"],
  ],
  ["none", "{type: snyk}", [record()], []],
];
for (const [what, rule, candidates, ids] of IDS) {
  deciding(what, () => {
    assert.equal(
      evaluate(`{attestations: [${rule}]}`, [flow("a", { candidates })]).rules[FIRST]?.resolutions[0]?.attestationIds,
      ids,
    );
  });
}

deciding.run();

const wire = suite("domain/policy/evaluate: presented rules");

wire("presents every kind of rule for two flows", () => {
  const verdict = evaluate(
    `{provenance: {required: true, exceptions: [{if: "\${{ flow.name == 'zzz' }}"}, {if: null}]},
      trail-compliance: {required: true, exceptions: [{if: flow.name == 'b'}]},
      attestations: [{type: decision, name: go, for_control: C-1, if: exists(flow)},
        {type: junit, must_be_compliant: false}]}`,
    [flow("a", { artifactState: BAD }), flow("b", { candidates: [record()] }), legacy("c", "INCOMPLETE")],
  );
  const at = (name: string): object => ({
    flow_name: name,
    trail_name: name === "c" ? null : `${name}-trail`,
    artifact_status: null,
  });
  assert.is(verdict.status, BAD);
  assert.equal(presentRuleVerdicts(verdict.rules), [
    {
      rule: {
        type: "provenance",
        definition: { required: true, exceptions: [{ if: { text: "flow.name == 'zzz'" } }, { if: null }] },
      },
      satisfied: true,
      ignored: false,
      resolutions: [
        { type: "rule_satisfied", context: at("a") },
        { type: "rule_satisfied", context: at("b") },
        { type: "rule_satisfied", context: at("c") },
      ],
    },
    {
      rule: {
        type: "trail-compliance",
        definition: { required: true, exceptions: [{ if: { text: "flow.name == 'b'" } }] },
      },
      satisfied: false,
      ignored: false,
      resolutions: [
        { type: "non_compliant_in_trail", context: { ...at("a"), artifact_status: BAD } },
        { type: "rule_not_applicable", context: { ...at("b"), artifact_status: OK } },
        { type: "legacy_flow", context: { ...at("c"), artifact_status: "INCOMPLETE" } },
      ],
    },
    {
      rule: {
        type: "attestation",
        definition: {
          if: { text: "exists(flow)" },
          name: "go",
          type: "decision",
          must_be_compliant: true,
          for_control: "C-1",
        },
      },
      satisfied: false,
      ignored: false,
      resolutions: [
        { type: "missing_attestation", context: { ...at("a"), for_control: "C-1" } },
        { type: "missing_attestation", context: { ...at("b"), for_control: "C-1" } },
        { type: "legacy_flow", context: { ...at("c"), for_control: "C-1" } },
      ],
    },
    {
      rule: {
        type: "attestation",
        definition: { if: null, name: "*", type: "junit", must_be_compliant: false, for_control: null },
      },
      satisfied: false,
      ignored: false,
      resolutions: [
        { type: "missing_attestation", context: at("a") },
        { type: "rule_satisfied", context: at("b") },
        { type: "legacy_flow", context: at("c") },
      ],
    },
  ]);
});

wire("has a null context without provenance", () => {
  const nothing = { flow_name: null, trail_name: null, artifact_status: null };
  const verdict = evaluate("{attestations: [{type: decision, for_control: C-1}]}", []);
  assert.equal(presentRuleVerdicts(verdict.rules), [
    {
      rule: { type: "provenance", definition: { required: false, exceptions: [] } },
      satisfied: null,
      ignored: true,
      resolutions: [{ type: "rule_not_applicable", context: nothing }],
    },
    {
      rule: { type: "trail-compliance", definition: { required: false, exceptions: [] } },
      satisfied: null,
      ignored: true,
      resolutions: [{ type: "rule_not_applicable", context: nothing }],
    },
    {
      rule: {
        type: "attestation",
        definition: { if: null, name: "*", type: "decision", must_be_compliant: true, for_control: "C-1" },
      },
      satisfied: false,
      ignored: false,
      resolutions: [{ type: "no_provenance", context: { ...nothing, for_control: "C-1" } }],
    },
  ]);
});

wire("has an artifact_status for a trail-compliance rule that is not required", () => {
  assert.is(
    evaluate("{}", [flow("a", { artifactState: "INCOMPLETE" })]).rules[TRAIL]?.resolutions[0]?.context.artifact_status,
    "INCOMPLETE",
  );
});

wire("has an evaluation_error only for a failed expression", () => {
  const verdict = evaluate("{attestations: [{type: decision, for_control: C, if: flow == 'x'}, {type: junit}]}", [
    flow("a"),
  ]);
  assert.equal(
    verdict.rules.slice(FIRST).map(({ resolutions }) => resolutions[0]?.context),
    [
      {
        flow_name: "a",
        trail_name: "a-trail",
        artifact_status: null,
        for_control: "C",
        evaluation_error: "flow itself cannot be compared (at character 6 of: flow == 'x')",
      },
      { flow_name: "a", trail_name: "a-trail", artifact_status: null },
    ],
  );
});

wire("evaluates the same facts to the same verdict without modifying them", () => {
  const subject: Subject = {
    fingerprint: "f",
    artifactName: "n",
    flows: [flow("a", { candidates: [record(), record({ level: "trail" })] }), flow("b")],
  };
  const before = structuredClone(subject);
  const document = policy(
    "{provenance: {required: true, exceptions: [{if: \"matches(flow.name, 'a')\"}]}, attestations: [{type: " +
      "junit, name: unit}]}",
  );
  assert.equal(evaluatePolicy(document, subject), evaluatePolicy(document, subject));
  assert.equal(subject, before);
});

wire("ignores the state of a record without a trail under version 1", () => {
  const document = policy("{trail-compliance: {required: true}, attestations: [{type: junit}]}");
  const subject: Subject = {
    fingerprint: "f",
    artifactName: "n",
    flows: [legacy("a"), flow("b", { candidates: [record()] })],
  };
  const [old, latest] = [evaluatePolicy(document, subject, 1), evaluatePolicy(document, subject)];
  assert.equal(old.rules[TRAIL]?.resolutions, [
    { type: "legacy_flow", context: { flow_name: "a", trail_name: null, artifact_status: null }, attestationIds: [] },
    {
      type: "rule_satisfied",
      context: { flow_name: "b", trail_name: "b-trail", artifact_status: OK },
      attestationIds: [],
    },
  ]);
  assert.equal(explainVerdict(old, "prod").slice(0, 1), [
    "Policy 'prod' requires compliance in the trail, but the artifact was reported to flow 'a' without a trail.",
  ]);
  assert.equal(latest.rules[TRAIL]?.resolutions[0], {
    type: "rule_satisfied",
    context: { flow_name: "a", trail_name: null, artifact_status: OK },
    attestationIds: [],
  });
  assert.equal(latest.rules[FIRST], old.rules[FIRST], "attestation rules are the same in both versions");
});

wire.run();

const words = suite("domain/policy/evaluate: reasons");

const FACTS = [flow("a", { artifactState: "INCOMPLETE", candidates: [record({ isCompliant: false })] })];
const SENTENCES: [artifacts: string, flows: FlowFacts[], sentences: string[]][] = [
  ["{}", [], []],
  [
    "{provenance: {required: true}}",
    [],
    ["Policy 'prod' requires provenance, but the artifact was not reported to any flow."],
  ],
  [
    "{trail-compliance: {required: true}}",
    FACTS,
    ["Policy 'prod' requires compliance in the trail, but the artifact is INCOMPLETE in trail 'a-trail' of flow 'a'."],
  ],
  [
    "{trail-compliance: {required: true}}",
    [legacy("a", BAD)],
    [
      "Policy 'prod' requires compliance in the trail, but the artifact was reported to flow 'a' without a " +
        "trail and is NON-COMPLIANT there.",
    ],
  ],
  [
    "{attestations: [{type: junit}]}",
    [legacy("a")],
    [
      "Policy 'prod' requires a compliant junit attestation, but the artifact was reported to flow 'a' without " +
        "a trail.",
    ],
  ],
  [
    "{attestations: [{type: junit}]}",
    [],
    ["Policy 'prod' requires a compliant junit attestation, but the artifact was not reported to any flow."],
  ],
  [
    "{attestations: [{type: junit}]}",
    FACTS,
    ["Policy 'prod' requires a compliant junit attestation, but none in trail 'a-trail' of flow 'a' is compliant."],
  ],
  [
    "{attestations: [{type: '*', name: unit}]}",
    FACTS,
    [
      "Policy 'prod' requires a compliant attestation named 'unit', but the one in trail 'a-trail' of flow 'a' " +
        "is not compliant.",
    ],
  ],
  [
    "{attestations: [{type: snyk, must_be_compliant: false}]}",
    FACTS,
    ["Policy 'prod' requires any snyk attestation, but none was reported in trail 'a-trail' of flow 'a'."],
  ],
  [
    "{attestations: [{type: decision, name: go, for_control: C-1}]}",
    FACTS,
    [
      "Policy 'prod' requires a compliant decision named 'go' for control 'C-1', but none was reported in " +
        "trail 'a-trail' of flow 'a'.",
    ],
  ],
  [
    "{attestations: [{type: decision, for_control: C-1}]}",
    [flow("a", { candidates: [record({ type: "system:decision", control: "C-1", isCompliant: false })] })],
    [
      "Policy 'prod' requires a compliant decision for control 'C-1', but the one in trail 'a-trail' of flow " +
        "'a' is not compliant.",
    ],
  ],
  [
    "{attestations: [{type: junit, if: flow.name}]}",
    FACTS,
    [
      "Policy 'prod' requires a compliant junit attestation, but its condition failed for flow 'a': the " +
        "expression is the text 'a', not true or false (at character 1 of: flow.name).",
    ],
  ],
  [
    "{provenance: {required: true, exceptions: [{if: flow}]}}",
    [],
    [
      "Policy 'prod' requires provenance, but its condition failed for an artifact without provenance: the " +
        "expression is flow itself, not true or false (at character 1 of: flow).",
    ],
  ],
  [
    "{attestations: [{type: snyk}]}",
    [flow("a"), flow("b", { candidates: [record({ type: "snyk" })] }), flow("c")],
    [
      "Policy 'prod' requires a compliant snyk attestation, but none was reported in trail 'a-trail' of flow 'a'.",
      "Policy 'prod' requires a compliant snyk attestation, but none was reported in trail 'c-trail' of flow 'c'.",
    ],
  ],
];
for (const [artifacts, flows, sentences] of SENTENCES) {
  words(`${artifacts} with ${flows.length} flows`, () =>
    assert.equal(explainVerdict(evaluate(artifacts, flows), "prod"), sentences),
  );
}

const RULES: [artifacts: string, flows: FlowFacts[], lines: string[]][] = [
  [
    "{}",
    [flow("a")],
    [
      "does not require provenance: it does not apply in flow 'a'",
      "does not require compliance in the trail: it does not apply in flow 'a'",
    ],
  ],
  [
    "{provenance: {required: true, exceptions: [{if: flow.name == 'x'}, {if: null}, {if: flow.name == " +
      "'y'}]}, trail-compliance: {required: true, exceptions: [{if: null}]}}",
    [flow("a")],
    [
      "requires provenance, except if flow.name == 'x' or if flow.name == 'y': the artifact was reported to flow 'a'",
      "requires compliance in the trail: the artifact is COMPLIANT in trail 'a-trail' of flow 'a'",
    ],
  ],
  [
    "{trail-compliance: {required: true}}",
    [legacy("a")],
    [
      "does not require provenance: it does not apply in flow 'a'",
      "requires compliance in the trail: the artifact is COMPLIANT in flow 'a', where it was reported without a trail",
    ],
  ],
  [
    "{trail-compliance: {required: true}}",
    [],
    [
      "does not require provenance: it does not apply to an artifact without provenance",
      "requires compliance in the trail: the artifact was not reported to any flow",
    ],
  ],
];
const ATTESTED: [rule: string, flows: FlowFacts[], line: string][] = [
  [
    "{type: junit, name: unit, if: flow.name == 'a'}",
    [flow("a", { candidates: [record()] })],
    "requires a compliant junit attestation named 'unit', if flow.name == 'a': a compliant one is in trail " +
      "'a-trail' of flow 'a'",
  ],
  [
    "{type: junit, if: flow.name == 'b'}",
    [flow("a")],
    "requires a compliant junit attestation, if flow.name == 'b': it does not apply in flow 'a'",
  ],
  [
    "{type: junit, must_be_compliant: false}",
    [flow("a", { candidates: [record({ isCompliant: false })] })],
    "requires any junit attestation: one was reported in trail 'a-trail' of flow 'a'",
  ],
  ["{type: junit}", FACTS, "requires a compliant junit attestation: none in trail 'a-trail' of flow 'a' is compliant"],
];
const inWords = (artifacts: string, flows: FlowFacts[]): string[] =>
  evaluate(artifacts, flows).rules.flatMap(({ rule, resolutions }) =>
    resolutions.map((resolution) => `${describeRule(rule)}: ${describeOutcome(rule, resolution)}`),
  );
for (const [artifacts, flows, lines] of RULES)
  words(`rules and outcomes: ${artifacts}`, () => assert.equal(inWords(artifacts, flows), lines));
for (const [rule, flows, line] of ATTESTED)
  words(`rules and outcomes: ${rule}`, () => assert.is(inWords(`{attestations: [${rule}]}`, flows)[2], line));

words.run();
