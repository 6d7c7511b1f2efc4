/**
 * The form in which a large policy is stored beside its text, so that neither an evaluation nor a server start parses
 * its YAML again: the rules with the texts of their conditions. Parsing these takes less than 50 ms, because their
 * length, terms and patterns are bounded (parser.ts).
 */
import type { AttestationRule, BooleanRule, ControlReference, Expression, PolicyDocument } from "./ast.ts";
import { parseExpression, createUnlimitedBudget } from "./parser.ts";
import { hasMembers, readStoredJson } from "../stored-json.ts";

type StoredBooleanRule = { required: boolean; exceptions: (string | null)[] };
type StoredAttestationRule = Omit<AttestationRule, "condition"> & { condition: string | null };
type StoredPolicy = {
  provenance: StoredBooleanRule;
  trailCompliance: StoredBooleanRule;
  attestations: StoredAttestationRule[];
  controls: readonly ControlReference[];
};

const isStoredPolicy = hasMembers<StoredPolicy>("provenance", "trailCompliance", "attestations", "controls");

/** A policy as JSON text. */
export function serializePolicy({ provenance, trailCompliance, attestations, controls }: PolicyDocument): string {
  const boolean = ({ required, exceptions }: BooleanRule): StoredBooleanRule => ({
    required,
    exceptions: exceptions.map(({ condition }) => condition?.text ?? null),
  });
  return JSON.stringify({
    provenance: boolean(provenance),
    trailCompliance: boolean(trailCompliance),
    attestations: attestations.map((rule) => ({ ...rule, condition: rule.condition?.text ?? null })),
    controls,
  } satisfies StoredPolicy);
}

/**
 * Parses the result of `serializePolicy`.
 * @throws StoredJsonError when the text is damaged, Error when a condition cannot be parsed
 */
export function restorePolicy(json: string): PolicyDocument {
  const stored = readStoredJson(json, isStoredPolicy);
  const boolean = ({ required, exceptions }: StoredBooleanRule): BooleanRule => ({
    required,
    exceptions: exceptions.map((text) => ({ condition: expressionOf(text) })),
  });
  return {
    provenance: boolean(stored.provenance),
    trailCompliance: boolean(stored.trailCompliance),
    attestations: stored.attestations.map((rule) => ({ ...rule, condition: expressionOf(rule.condition) })),
    controls: stored.controls,
  };
}

function expressionOf(text: string | null): Expression | null {
  if (text === null) return null;
  const parsed = parseExpression(text, createUnlimitedBudget());
  if ("problems" in parsed)
    throw new Error(`a stored condition cannot be parsed: ${parsed.problems[0]?.problem ?? ""}`);
  return parsed.expression;
}
