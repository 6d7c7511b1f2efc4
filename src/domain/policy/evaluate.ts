/**
 * Evaluates one artifact under one policy version (semantics 5.3, 5.4): facts in, verdict out. The caller knows which
 * records exist and which is the latest per name. A rule is evaluated for each pair of artifact and flow independently.
 */
import { ANY_TYPE, storedLabelOf } from "../attestation/kinds.ts";
import type { AttestationRule, BooleanRule, Expression, PolicyDocument } from "./ast.ts";
import { attestationDefinitionOf, booleanDefinitionOf } from "./document.ts";
import type { AttestationDefinition, BooleanDefinition } from "./document.ts";
import { evaluateExpression } from "./interpret.ts";
import type { Scope } from "./interpret.ts";

/**
 * The latest record of a name on its level. `type` is the stored label (`generic`, `custom:x`, `system:decision`); only
 * decisions have a `control`; the record with the larger `sequence` is the more recent one.
 */
export type AttestationCandidate = {
  name: string;
  type: string;
  isCompliant: boolean;
  control: string | null;
  attestationId: string;
  level: "artifact" | "trail";
  sequence: number;
};

/**
 * The most recent record of the fingerprint in one flow. `artifactState` is its state in its trail, including
 * trail-level entries (semantics 4.2), or its state in the flow if it has no trail. `trail` is null for a record
 * reported without one. `candidates` are the attestations of this artifact in the trail and of the trail itself, never
 * those of another artifact.
 */
export type FlowFacts = {
  flowName: string;
  flowTags: Readonly<Record<string, string>>;
  artifactName: string;
  artifactState: "COMPLIANT" | "NON-COMPLIANT" | "INCOMPLETE";
  trail: { name: string; candidates: readonly AttestationCandidate[] } | null;
};

/**
 * Versions of the evaluation rules. A stored verdict names its version and is replayed under it; new verdicts use the
 * latest.
 *
 * 1. A trail-compliance rule resolves to `legacy_flow` for every record without a trail.
 * 2. It is satisfied if such a record is COMPLIANT in its flow.
 */
export type RulesVersion = 1 | 2;
export const LATEST_RULES: RulesVersion = 2;

/**
 * The artifact to evaluate. `flows` are all flows that it was reported to, including archived ones; empty means no
 * provenance. `artifactName` is the name in the snapshot; an assert leaves it empty to use the name in each flow.
 */
export type Subject = { fingerprint: string; artifactName: string; flows: readonly FlowFacts[] };

export type ResolutionType =
  | "missing_attestation"
  | "non_compliant_attestation"
  | "non_compliant_in_trail"
  | "no_provenance"
  | "missing_provenance"
  | "legacy_flow"
  | "rule_satisfied"
  | "rule_not_applicable";

/** As in responses: only rules for a control have `for_control`, only failed expressions an `evaluation_error`. */
type ResolutionContext = {
  flow_name: string | null;
  trail_name: string | null;
  artifact_status: string | null;
  for_control?: string;
  evaluation_error?: string;
};

/** The outcome of a rule for one pair. `attestationIds` are the decisive records, which responses do not show. */
export type Resolution = { type: ResolutionType; context: ResolutionContext; attestationIds: readonly string[] };

export type RuleDefinition =
  | { type: "provenance" | "trail-compliance"; definition: BooleanDefinition }
  | { type: "attestation"; definition: AttestationDefinition };

export type RuleVerdict = {
  rule: RuleDefinition;
  satisfied: boolean | null;
  ignored: boolean;
  resolutions: readonly Resolution[];
};

export type PolicyVerdict = { status: "COMPLIANT" | "NON-COMPLIANT"; rules: RuleVerdict[] };

/** An entry of `rule_evaluations` in responses to asserts and in snapshots (wire-contract 8). */
type RuleEvaluation = {
  rule: RuleDefinition;
  satisfied: boolean | null;
  ignored: boolean;
  resolutions: { type: ResolutionType; context: ResolutionContext }[];
};

type Rule =
  | { type: "provenance" | "trail-compliance"; rule: BooleanRule }
  | { type: "attestation"; rule: AttestationRule };

type Outcome = { type: ResolutionType; attestationIds: readonly string[] };

/** The resolution of a rule when one of its expressions fails (semantics 13.10). */
const FAILED_EXPRESSION = {
  provenance: "missing_provenance",
  "trail-compliance": "non_compliant_in_trail",
  attestation: "missing_attestation",
} as const;

/** A subject with its (artifact, flow) pairs; the only pair of an artifact without provenance is null. */
type Evaluated = { subject: Subject; pairs: readonly (FlowFacts | null)[]; version: RulesVersion };

/**
 * Evaluates an artifact (semantics 5.4): provenance, trail-compliance and the attestation rules in the order of the
 * file, each for every flow; a rule is satisfied if it is in all flows to which it applies. Never throws.
 * @param version version of the evaluation rules; an older one only to replay a stored verdict
 */
export function evaluatePolicy(policy: PolicyDocument, subject: Subject, version = LATEST_RULES): PolicyVerdict {
  const evaluated = { subject, pairs: subject.flows.length === 0 ? [null] : subject.flows, version };
  const definitions = ruleDefinitionsOf(policy);
  const rules = rulesOf(policy).map((rule, index) =>
    evaluateRule(rule, definitions[index] as RuleDefinition, evaluated),
  );
  return { status: rules.some(({ satisfied }) => satisfied === false) ? "NON-COMPLIANT" : "COMPLIANT", rules };
}

/** The rules of a policy in evaluation order, including boolean rules that require nothing. */
const rulesOf = (policy: PolicyDocument): Rule[] => [
  { type: "provenance", rule: policy.provenance },
  { type: "trail-compliance", rule: policy.trailCompliance },
  ...policy.attestations.map((rule) => ({ type: "attestation" as const, rule })),
];

const definitionsOf = new WeakMap<PolicyDocument, readonly RuleDefinition[]>();

/** The rules of a policy in evaluation order, as evaluations show them. Created once per document. */
export function ruleDefinitionsOf(policy: PolicyDocument): readonly RuleDefinition[] {
  let definitions = definitionsOf.get(policy);
  if (!definitions) {
    definitions = rulesOf(policy).map((rule) =>
      rule.type === "attestation"
        ? { type: rule.type, definition: attestationDefinitionOf(rule.rule) }
        : { type: rule.type, definition: booleanDefinitionOf(rule.rule) },
    );
    definitionsOf.set(policy, definitions);
  }
  return definitions;
}

/** Rule verdicts in the form of `rule_evaluations`. */
export function presentRuleVerdicts(rules: readonly RuleVerdict[]): RuleEvaluation[] {
  return rules.map(({ rule, satisfied, ignored, resolutions }) => ({
    rule,
    satisfied,
    ignored,
    resolutions: resolutions.map(({ type, context }) => ({ type, context })),
  }));
}

function evaluateRule(rule: Rule, definition: RuleDefinition, evaluated: Evaluated): RuleVerdict {
  const resolutions = evaluated.pairs.map((pair) => resolveRule(rule, pair, evaluated));
  const applicable = resolutions.filter(({ type }) => type !== "rule_not_applicable");
  const ignored = applicable.length === 0;
  return {
    rule: definition,
    satisfied: ignored ? null : applicable.every(({ type }) => type === "rule_satisfied"),
    ignored,
    resolutions,
  };
}

/**
 * The `artifact_status` of a resolution: only trail-compliance rules have one (semantics 5.4). Version 1 of the rules
 * ignored the state of a record without a trail.
 */
export const artifactStatusOf = (
  rule: RuleDefinition["type"],
  { state, hasTrail }: { state: FlowFacts["artifactState"]; hasTrail: boolean },
  version: RulesVersion,
): string | null => (rule === "trail-compliance" && (hasTrail || version >= 2) ? state : null);

function resolveRule(rule: Rule, pair: FlowFacts | null, { subject, version }: Evaluated): Resolution {
  const control = rule.type === "attestation" ? rule.rule.forControl : null;
  const record = pair && { state: pair.artifactState, hasTrail: pair.trail !== null };
  const context: ResolutionContext = {
    flow_name: pair?.flowName ?? null,
    trail_name: pair?.trail?.name ?? null,
    artifact_status: record && artifactStatusOf(rule.type, record, version),
    ...(control === null ? {} : { for_control: control }),
  };
  const scope: Scope = {
    flow: pair === null ? null : { name: pair.flowName, tags: pair.flowTags },
    artifact: { name: subject.artifactName || (pair?.artifactName ?? ""), fingerprint: subject.fingerprint },
  };
  const applies = rule.type === "attestation" ? attestationApplies(rule.rule, scope) : booleanApplies(rule.rule, scope);
  if ("error" in applies) {
    return {
      type: FAILED_EXPRESSION[rule.type],
      context: { ...context, evaluation_error: applies.error },
      attestationIds: [],
    };
  }
  return { context, ...(applies.value ? findOutcome(rule, pair, version) : outcomeOf("rule_not_applicable")) };
}

/**
 * Tries the exceptions in the order of the file until one is true, like `or`. One that fails before that leaves the
 * rule unsatisfied, because it is unknown whether it would have applied.
 */
function booleanApplies(rule: BooleanRule, scope: Scope): ReturnType<typeof evaluateExpression> {
  if (!rule.required) return { value: false };
  for (const { condition } of rule.exceptions) {
    if (condition === null) continue;
    const result = evaluateExpression(condition, scope);
    if ("error" in result) return result;
    if (result.value) return { value: false };
  }
  return { value: true };
}

function attestationApplies(
  { condition }: { condition: Expression | null },
  scope: Scope,
): ReturnType<typeof evaluateExpression> {
  return condition === null ? { value: true } : evaluateExpression(condition, scope);
}

function findOutcome(rule: Rule, pair: FlowFacts | null, version: RulesVersion): Outcome {
  if (rule.type === "provenance") return outcomeOf(pair === null ? "missing_provenance" : "rule_satisfied");
  if (pair === null) return outcomeOf("no_provenance");
  if (rule.type === "attestation")
    return pair.trail === null ? outcomeOf("legacy_flow") : findAttestationOutcome(rule.rule, pair.trail.candidates);
  if (pair.trail === null && version === 1) return outcomeOf("legacy_flow");
  if (pair.artifactState === "COMPLIANT") return outcomeOf("rule_satisfied");
  return outcomeOf(pair.trail === null ? "legacy_flow" : "non_compliant_in_trail");
}

function findAttestationOutcome(rule: AttestationRule, candidates: readonly AttestationCandidate[]): Outcome {
  const records = selectCandidates(rule, candidates);
  if (records.length === 0) return outcomeOf("missing_attestation");
  if (!rule.mustBeCompliant) return outcomeOf("rule_satisfied", records);
  const compliant = records.filter(({ isCompliant }) => isCompliant);
  return compliant.length === 0
    ? outcomeOf("non_compliant_attestation", records)
    : outcomeOf("rule_satisfied", compliant);
}

/**
 * The records that a rule accepts, compliant or not. The name is matched before the type: under an exact name, the
 * artifact's record hides the trail's record, whatever its type (semantics 13.63). For a control, only the most recent
 * of the remaining records counts.
 */
function selectCandidates(rule: AttestationRule, candidates: readonly AttestationCandidate[]): AttestationCandidate[] {
  let records = candidates.filter(({ name }) => rule.name === "*" || name === rule.name);
  if (rule.name !== "*" && records.some(({ level }) => level === "artifact"))
    records = records.filter(({ level }) => level === "artifact");
  const type = storedLabelOf(rule.type);
  if (type !== ANY_TYPE) records = records.filter((record) => record.type === type);
  if (rule.forControl === null) return records;
  records = records.filter(({ control }) => control === rule.forControl);
  return records.length < 2
    ? records
    : [records.reduce((latest, record) => (record.sequence > latest.sequence ? record : latest))];
}

function outcomeOf(type: ResolutionType, records: readonly AttestationCandidate[] = []): Outcome {
  return { type, attestationIds: records.map(({ attestationId }) => attestationId) };
}
