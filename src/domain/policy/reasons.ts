/**
 * Explains verdicts to people. Reasons are stored with evaluations, and a replay compares them: another wording shows
 * as a difference in every data directory that exists.
 */
import type { AttestationDefinition } from "./document.ts";
import type { PolicyVerdict, Resolution, RuleDefinition } from "./evaluate.ts";

/**
 * One sentence per failed resolution of a verdict, in the order of rules and flows; none for a compliant verdict. Names
 * are quoted as they are stored.
 */
export function explainVerdict(verdict: PolicyVerdict, policyName: string): string[] {
  return verdict.rules.flatMap(({ rule, resolutions }) =>
    resolutions
      .filter(({ type }) => type !== "rule_satisfied" && type !== "rule_not_applicable")
      .map((resolution) => `Policy '${policyName}' ${demand(rule)}, but ${failure(rule, resolution)}.`),
  );
}

/** What a rule requires and when, for example `requires provenance, except if flow.name == "legacy"`. */
export function describeRule(rule: RuleDefinition): string {
  if (rule.type === "attestation")
    return `${demand(rule)}${rule.definition.if === null ? "" : `, if ${rule.definition.if.text}`}`;
  if (!rule.definition.required) return demand(rule).replace("requires", "does not require");
  const exceptions = rule.definition.exceptions.flatMap((exception) =>
    exception.if === null ? [] : [exception.if.text],
  );
  return `${demand(rule)}${exceptions.length === 0 ? "" : `, except if ${exceptions.join(" or if ")}`}`;
}

/** The outcome of a rule in one flow, satisfied or not. */
export function describeOutcome(rule: RuleDefinition, resolution: Resolution): string {
  const { type, context } = resolution;
  const flow = `flow '${context.flow_name ?? ""}'`;
  const trail = `trail '${context.trail_name ?? ""}' of ${flow}`;
  if (type === "rule_not_applicable")
    return context.flow_name === null
      ? "it does not apply to an artifact without provenance"
      : `it does not apply in ${flow}`;
  if (type !== "rule_satisfied") return failure(rule, resolution);
  if (rule.type === "attestation")
    return rule.definition.must_be_compliant ? `a compliant one is in ${trail}` : `one was reported in ${trail}`;
  if (rule.type === "provenance") return `the artifact was reported to ${flow}`;
  return context.trail_name === null
    ? `the artifact is COMPLIANT in ${flow}, where it was reported without a trail`
    : `the artifact is COMPLIANT in ${trail}`;
}

function demand(rule: RuleDefinition): string {
  if (rule.type === "attestation") return `requires ${attestation(rule.definition)}`;
  return rule.type === "provenance" ? "requires provenance" : "requires compliance in the trail";
}

function attestation({ name, type, must_be_compliant, for_control }: AttestationDefinition): string {
  const words = [
    must_be_compliant ? "a compliant" : "any",
    type === "*" ? "attestation" : type === "decision" ? "decision" : `${type} attestation`,
  ];
  if (name !== "*") words.push(`named '${name}'`);
  if (for_control !== null) words.push(`for control '${for_control}'`);
  return words.join(" ");
}

function failure(rule: RuleDefinition, { type, context }: Resolution): string {
  const flow = `flow '${context.flow_name ?? ""}'`;
  const trail = `trail '${context.trail_name ?? ""}' of ${flow}`;
  if (context.evaluation_error !== undefined) {
    const where = context.flow_name === null ? "for an artifact without provenance" : `for ${flow}`;
    return `its condition failed ${where}: ${context.evaluation_error}`;
  }
  switch (type) {
    case "missing_provenance":
    case "no_provenance":
      return "the artifact was not reported to any flow";
    case "legacy_flow":
      // The status is why a trail-compliance rule is not satisfied. Version 1 of the evaluation rules ignored it.
      return context.artifact_status === null
        ? `the artifact was reported to ${flow} without a trail`
        : `the artifact was reported to ${flow} without a trail and is ${context.artifact_status} there`;
    case "non_compliant_in_trail":
      return `the artifact is ${context.artifact_status ?? "not compliant"} in ${trail}`;
    case "missing_attestation":
      return `none was reported in ${trail}`;
    default:
      return rule.type === "attestation" && rule.definition.name === "*" && rule.definition.for_control === null
        ? `none in ${trail} is compliant`
        : `the one in ${trail} is not compliant`;
  }
}
