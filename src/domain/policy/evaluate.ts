/**
 * One artifact under one policy version (semantics 5.3, 5.4). Facts in, verdict and reasons out: which
 * records exist and which is the latest per name is the caller's knowledge, everything after that is here.
 * A rule looks at each (artifact, flow) pair alone; nothing computed for one pair is kept for the next.
 */
import type { AttestationRule, BooleanRule, Expression, PolicyDocument } from "./ast.ts";
import { attestationDefinitionOf, booleanDefinitionOf } from "./document.ts";
import type { AttestationDefinition, BooleanDefinition } from "./document.ts";
import { evaluateExpression } from "./interpret.ts";
import type { Scope } from "./interpret.ts";

/**
 * The latest record of a name on its level. `type` is the stored label (`generic`, `custom:x`,
 * `system:decision`), `control` is set on decisions, and of two records the one with the larger
 * `sequence` is the more recent.
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
 * The most recent record of the fingerprint in one flow. `artifactState` is its state in its trail, trail-level
 * entries included (semantics 4.2), or in the flow where it has no trail; `trail` is null for a record made without
 * one; `candidates` are the records of this artifact in the trail and of the trail itself, never those of a sibling
 * artifact.
 */
export type FlowFacts = {
  flowName: string;
  flowTags: Readonly<Record<string, string>>;
  artifactName: string;
  artifactState: "COMPLIANT" | "NON-COMPLIANT" | "INCOMPLETE";
  trail: { name: string; candidates: readonly AttestationCandidate[] } | null;
};

/**
 * Versions of the rules below. A stored verdict names the version that produced it and is replayed under that version;
 * new verdicts use the latest.
 *
 * 1. A trail-compliance rule resolves to `legacy_flow` for every record without a trail.
 * 2. It is satisfied where such a record is COMPLIANT in its flow.
 */
export type RulesVersion = 1 | 2;
export const LATEST_RULES: RulesVersion = 2;

/**
 * The artifact judged: `flows` are all it was reported to, archived ones included; none means no provenance.
 * `artifactName` is the name in the snapshot; where it is empty each flow's own name stands in, which an
 * assert wants.
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

/** As on the wire: `for_control` only with rules that have it, `evaluation_error` only where an expression failed. */
export type ResolutionContext = {
  flow_name: string | null;
  trail_name: string | null;
  artifact_status: string | null;
  for_control?: string;
  evaluation_error?: string;
};

/** What became of a rule for one pair. `attestationIds` are the records that decided; they stay inside. */
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

/** A rule on the wire: `rule_evaluations` of assert answers and snapshots (wire-contract 8). */
export type RuleEvaluation = {
  rule: RuleDefinition;
  satisfied: boolean | null;
  ignored: boolean;
  resolutions: { type: ResolutionType; context: ResolutionContext }[];
};

type Rule =
  | { type: "provenance" | "trail-compliance"; rule: BooleanRule }
  | { type: "attestation"; rule: AttestationRule };

type Outcome = { type: ResolutionType; attestationIds: readonly string[] };

/** What a rule resolves to when one of its expressions fails (decision 10). */
const OWN_FAILURE = {
  provenance: "missing_provenance",
  "trail-compliance": "non_compliant_in_trail",
  attestation: "missing_attestation",
} as const;

/**
 * Judges an artifact (semantics 5.4): provenance, trail-compliance and the attestation rules in the order of
 * the file, each for every flow, all applicable flows counting. Never throws.
 * @param version the rules to evaluate under; an older version only to replay a stored verdict
 */
export function evaluatePolicy(policy: PolicyDocument, subject: Subject, version = LATEST_RULES): PolicyVerdict {
  const pairs = subject.flows.length === 0 ? [null] : subject.flows;
  const definitions = ruleDefinitionsOf(policy);
  const rules = rulesOf(policy).map((rule, place) =>
    evaluate(rule, definitions[place] as RuleDefinition, pairs, subject, version),
  );
  return { status: rules.some(({ satisfied }) => satisfied === false) ? "NON-COMPLIANT" : "COMPLIANT", rules };
}

/** The rules of a policy in the order of their evaluation; boolean ones stand there also when they require nothing. */
const rulesOf = (policy: PolicyDocument): Rule[] => [
  { type: "provenance", rule: policy.provenance },
  { type: "trail-compliance", rule: policy.trailCompliance },
  ...policy.attestations.map((rule) => ({ type: "attestation" as const, rule })),
];

const definitionsOf = new WeakMap<PolicyDocument, readonly RuleDefinition[]>();

/** How the rules of a policy are shown in evaluations, in their order. Made once for each document. */
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

/** Rule verdicts in the form of `rule_evaluations`, without what clients have no use for. */
export function presentRuleVerdicts(rules: readonly RuleVerdict[]): RuleEvaluation[] {
  return rules.map(({ rule, satisfied, ignored, resolutions }) => ({
    rule,
    satisfied,
    ignored,
    resolutions: resolutions.map(({ type, context }) => ({ type, context })),
  }));
}

function evaluate(
  rule: Rule,
  definition: RuleDefinition,
  pairs: readonly (FlowFacts | null)[],
  subject: Subject,
  version: RulesVersion,
): RuleVerdict {
  const resolutions = pairs.map((pair) => resolve(rule, pair, subject, version));
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
 * did not look at the state of a record without a trail.
 */
export const statusInContext = (
  rule: RuleDefinition["type"],
  state: FlowFacts["artifactState"],
  hasTrail: boolean,
  version: RulesVersion,
): string | null => (rule === "trail-compliance" && (hasTrail || version >= 2) ? state : null);

function resolve(rule: Rule, pair: FlowFacts | null, subject: Subject, version: RulesVersion): Resolution {
  const control = rule.type === "attestation" ? rule.rule.forControl : null;
  const context: ResolutionContext = {
    flow_name: pair?.flowName ?? null,
    trail_name: pair?.trail?.name ?? null,
    artifact_status: pair && statusInContext(rule.type, pair.artifactState, pair.trail !== null, version),
    ...(control === null ? {} : { for_control: control }),
  };
  const scope: Scope = {
    flow: pair === null ? null : { name: pair.flowName, tags: pair.flowTags },
    artifact: { name: subject.artifactName || (pair?.artifactName ?? ""), fingerprint: subject.fingerprint },
  };
  const applies = rule.type === "attestation" ? attestationApplies(rule.rule, scope) : booleanApplies(rule.rule, scope);
  if ("error" in applies) {
    return {
      type: OWN_FAILURE[rule.type],
      context: { ...context, evaluation_error: applies.error },
      attestationIds: [],
    };
  }
  return { context, ...(applies.value ? outcome(rule, pair, version) : verdict("rule_not_applicable")) };
}

/**
 * Exceptions are tried in the order of the file until one is true, as `or` would; one that fails before that
 * leaves the rule unsatisfied, because nobody can tell whether it was meant to waive.
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

function outcome(rule: Rule, pair: FlowFacts | null, version: RulesVersion): Outcome {
  if (rule.type === "provenance") return verdict(pair === null ? "missing_provenance" : "rule_satisfied");
  if (pair === null) return verdict("no_provenance");
  if (rule.type === "attestation")
    return pair.trail === null ? verdict("legacy_flow") : attestationOutcome(rule.rule, pair.trail.candidates);
  if (pair.trail === null && version === 1) return verdict("legacy_flow");
  if (pair.artifactState === "COMPLIANT") return verdict("rule_satisfied");
  return verdict(pair.trail === null ? "legacy_flow" : "non_compliant_in_trail");
}

function attestationOutcome(rule: AttestationRule, records: readonly AttestationCandidate[]): Outcome {
  const found = candidates(rule, records);
  if (found.length === 0) return verdict("missing_attestation");
  if (!rule.mustBeCompliant) return verdict("rule_satisfied", found);
  const compliant = found.filter(({ isCompliant }) => isCompliant);
  return compliant.length === 0 ? verdict("non_compliant_attestation", found) : verdict("rule_satisfied", compliant);
}

/**
 * The name is settled first: under an exact name the artifact's record hides the trail's, whatever its type
 * (decision 63). For a control only the most recent of what is left counts.
 */
function candidates(rule: AttestationRule, records: readonly AttestationCandidate[]): AttestationCandidate[] {
  let found = records.filter(({ name }) => rule.name === "*" || name === rule.name);
  if (rule.name !== "*" && found.some(({ level }) => level === "artifact"))
    found = found.filter(({ level }) => level === "artifact");
  const type = rule.type === "decision" ? "system:decision" : rule.type;
  if (type !== "*") found = found.filter((record) => record.type === type);
  if (rule.forControl === null) return found;
  found = found.filter(({ control }) => control === rule.forControl);
  return found.length < 2
    ? found
    : [found.reduce((latest, record) => (record.sequence > latest.sequence ? record : latest))];
}

function verdict(type: ResolutionType, records: readonly AttestationCandidate[] = []): Outcome {
  return { type, attestationIds: records.map(({ attestationId }) => attestationId) };
}
