// The state of one reported artifact. In every verdict NON-COMPLIANT takes precedence over INCOMPLETE (semantics 4.2),
// because a failure stands whatever may still be reported.
//
// The reasons of this folder are stored with their verdicts, and `assay verify` compares them with those of a new
// evaluation: another wording shows as a difference in every data directory that exists.
import { ANY_TYPE } from "../attestation/kinds.ts";
import type { TemplateAttestation } from "../flow-template/template.ts";
import type { AttestationStatus, Causes } from "./attestation.ts";
import { buildAttestationStatuses, collectCauses } from "./attestation.ts";

/** States of what exists, failing first as in lists; only an expected artifact without a report is MISSING. */
export const STATES = ["NON-COMPLIANT", "INCOMPLETE", "COMPLIANT"] as const;
export type State = (typeof STATES)[number];

/** A verdict with its reasons in plain English: failures first, then missing entries; empty exactly when COMPLIANT. */
type Verdict = { state: State; reasons: string[] };

/** Combines causes into a verdict: the one rule for artifacts and trails alike (semantics 4.2, 4.3). */
export function combineCauses(levels: readonly Causes[]): Verdict {
  const failing = levels.flatMap((level) => level.failing);
  const missing = levels.flatMap((level) => level.missing);
  if (failing.length > 0) return { state: "NON-COMPLIANT", reasons: [...failing, ...missing] };
  if (missing.length > 0) return { state: "INCOMPLETE", reasons: missing };
  return { state: "COMPLIANT", reasons: [] };
}

/**
 * The state of an artifact from its own entries and those of the trail, expected and unexpected (semantics 4.2). With
 * empty `trailEntries` this is the narrower status in the trail's `artifacts_statuses`.
 * @param artifact how the reasons refer to it, such as `artifact 'backend'`
 */
export function evaluateArtifact(
  artifactEntries: readonly AttestationStatus[],
  trailEntries: readonly AttestationStatus[],
  artifact = "the artifact",
): Verdict {
  return combineCauses([collectCauses(artifactEntries, artifact), collectCauses(trailEntries, "the trail")]);
}

/**
 * The state of an artifact reported without a trail (semantics 2.4, legacy report). No attestation can ever be bound to
 * it, so everything that its template expects stays missing. The report's own verdict counts only when it is negative.
 * @param template names of the expected attestations, null when none were given; the entry `artifact` is the artifact
 *   itself
 * @param isCompliant the verdict in the report, null when it has none
 */
export function evaluateLegacyArtifact({
  template,
  isCompliant,
}: {
  template: readonly string[] | null;
  isCompliant: boolean | null;
}): Verdict {
  const failing = isCompliant === false ? ["The artifact was reported as not compliant"] : [];
  const missing = expectedNames(template ?? []).map((name) => `Attestation '${name}' of the artifact is missing`);
  return combineCauses([{ failing, missing }]);
}

/**
 * The status entries of an artifact reported without a trail, in template order. Every expected attestation is MISSING,
 * because none can be bound to the artifact.
 */
export function buildLegacyAttestationStatuses(expected: readonly TemplateAttestation[]): AttestationStatus[] {
  const types = new Map(expected.toReversed().map(({ name, type }) => [name, type]));
  const names = expectedNames(expected.map(({ name }) => name));
  return buildAttestationStatuses(
    names.map((name) => ({ name, type: types.get(name) ?? ANY_TYPE })),
    [],
  );
}

/** The names in a legacy template, each once, without the entry `artifact`, which is the artifact itself. */
const expectedNames = (template: readonly string[]): string[] =>
  [...new Set(template)].filter((name) => name !== "artifact");
