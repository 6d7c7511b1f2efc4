// The state of one artifact that was reported. In every verdict NON-COMPLIANT wins over INCOMPLETE (semantics 4.2):
// what fails is known to fail, whatever may still arrive.
import { ANY_TYPE } from "../attestation/kinds.ts";
import type { TemplateAttestation } from "../flow-template/template.ts";
import type { AttestationStatus, Causes } from "./attestation.ts";
import { buildAttestationStatuses, collectCauses } from "./attestation.ts";

/**
 * A verdict on something that exists. MISSING is for expected artifacts without a report only, see compliance/trail.ts.
 */
export type State = "COMPLIANT" | "NON-COMPLIANT" | "INCOMPLETE";

/** A verdict with its causes: plain English, failures before what is missing, empty exactly when COMPLIANT. */
export type Verdict = { state: State; reasons: string[] };

/** The one rule by which causes become a verdict, for artifacts and trails alike (semantics 4.2, 4.3). */
export function combineCauses(levels: readonly Causes[]): Verdict {
  const failing = levels.flatMap((level) => level.failing);
  const missing = levels.flatMap((level) => level.missing);
  if (failing.length > 0) return { state: "NON-COMPLIANT", reasons: [...failing, ...missing] };
  if (missing.length > 0) return { state: "INCOMPLETE", reasons: missing };
  return { state: "COMPLIANT", reasons: [] };
}

/**
 * The state of an artifact, which counts its own and the trail's entries, expected and unexpected (semantics 4.2). With
 * an empty `trailEntries` this is the narrower status that the trail's `artifacts_statuses` show.
 * @param artifact how the reasons name it, such as `artifact 'backend'`
 */
export function evaluateArtifact(
  artifactEntries: readonly AttestationStatus[],
  trailEntries: readonly AttestationStatus[],
  artifact = "the artifact",
): Verdict {
  return combineCauses([collectCauses(artifactEntries, artifact), collectCauses(trailEntries, "the trail")]);
}

/**
 * The state of an artifact reported without a trail (semantics 2.4, legacy report): no attestation can ever be bound to
 * it, so whatever its template expects stays missing. Its reporter's own word counts only when it is negative.
 * @param template names of the expected attestations; the entry `artifact` is the artifact itself. null: none were
 * given
 * @param isCompliant what the report said; null when it said nothing
 */
export function evaluateLegacyArtifact({
  template,
  isCompliant,
}: {
  template: readonly string[] | null;
  isCompliant: boolean | null;
}): Verdict {
  const failing = isCompliant === false ? ["The artifact was reported as not compliant"] : [];
  const missing = legacyExpectations(template ?? []).map((name) => `Attestation '${name}' of the artifact is missing`);
  return combineCauses([{ failing, missing }]);
}

/**
 * The status entries of an artifact reported without a trail, in the order of the template: every expected
 * attestation is MISSING, because none can be bound to it.
 */
export function buildLegacyAttestationStatuses(expected: readonly TemplateAttestation[]): AttestationStatus[] {
  const types = new Map(expected.toReversed().map(({ name, type }) => [name, type]));
  const names = legacyExpectations(expected.map(({ name }) => name));
  return buildAttestationStatuses(
    names.map((name) => ({ name, type: types.get(name) ?? ANY_TYPE })),
    [],
  );
}

/** The names that a template expects of such an artifact, each once; the entry `artifact` is the artifact itself. */
const legacyExpectations = (template: readonly string[]): string[] =>
  [...new Set(template)].filter((name) => name !== "artifact");
