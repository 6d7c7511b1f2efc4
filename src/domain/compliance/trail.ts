// The verdict on a trail and on everything in it, from facts alone: no clock, no stored verdicts. Evaluating the same
// facts twice gives the same result, so the caller may store it and evaluate again whenever a fact changes.
import type { Template } from "../flow-template/template.ts";
import { combineCauses } from "./artifact.ts";
import type { State, Verdict } from "./artifact.ts";
import { buildAttestationStatuses, collectCauses } from "./attestation.ts";
import type { AttestationFact, AttestationStatus, Causes } from "./attestation.ts";

/** One artifact record of the trail and the attestations bound to it. */
export type ArtifactFacts = {
  artifactId: string;
  fingerprint: string;
  /** The template's artifact it was reported as; null when the report named none. */
  referenceName: string | null;
  attestations: readonly AttestationFact[];
};

/** Everything a trail's verdict depends on. */
export type TrailFacts = {
  /** The template in force for the trail, and its public id. */
  template: Template;
  flowTemplateId: string;
  /** Epoch seconds of the event that caused the evaluation (semantics 4.3). */
  evaluatedAt: number;
  trailAttestations: readonly AttestationFact[];
  /** Every record, oldest report first. */
  artifacts: readonly ArtifactFacts[];
};

/** One value of `artifacts_statuses`: artifact-level entries and their verdict only (semantics 4.2). */
export type ArtifactStatus = {
  artifact_fingerprint: string | null;
  artifact_id: string | null;
  status: State | "MISSING";
  is_compliant: boolean | null;
  unexpected: boolean;
  attestations_statuses: AttestationStatus[];
  evaluated_at: number;
  flow_template_id: string;
};

/** The `compliance_status` of a trail, in the shape of the API (semantics 4.3). */
export type TrailStatus = {
  status: State;
  is_compliant: boolean;
  attestations_statuses: AttestationStatus[];
  artifacts_statuses: Record<string, ArtifactStatus>;
  evaluated_at: number;
  flow_template_id: string;
};

export type TrailEvaluation = {
  compliance_status: TrailStatus;
  /** Causes of the trail's status, see Verdict. */
  reasons: string[];
  /** For every record, in the order given, also for records that a later one of the same reference name supersedes. */
  artifacts: { artifactId: string; state: State; reasons: string[]; attestationsStatuses: AttestationStatus[] }[];
};

type Evaluated = { facts: ArtifactFacts; statuses: AttestationStatus[]; causes: Causes };

/**
 * Evaluates a trail (semantics 4).
 *
 * `artifacts_statuses` has one entry per reference name: those of the template first, in its order, then unexpected
 * ones in the order of their first report. Under a name with several records stands the latest, and only it counts for
 * the trail: a rebuild repairs a trail that its predecessor had made NON-COMPLIANT. An artifact reported without
 * reference name is unexpected and stands under its fingerprint (under `sha256:<fingerprint>` if that text is a
 * reference name here, which it can be).
 */
export function evaluateTrail({
  template,
  flowTemplateId,
  evaluatedAt,
  trailAttestations,
  artifacts,
}: TrailFacts): TrailEvaluation {
  const expected = new Map(template.trail.artifacts.map((artifact) => [artifact.name, artifact.attestations]));
  const trailStatuses = buildAttestationStatuses(template.trail.attestations, trailAttestations);
  const trailCauses = collectCauses(trailStatuses, "the trail");
  const keyOf = keys([...expected.keys()], artifacts);

  const evaluated = artifacts.map((facts): Evaluated => {
    const slots = facts.referenceName === null ? undefined : expected.get(facts.referenceName);
    const statuses = buildAttestationStatuses(slots ?? [], facts.attestations);
    return { facts, statuses, causes: collectCauses(statuses, `artifact '${keyOf(facts)}'`) };
  });
  const shared = { evaluated_at: evaluatedAt, flow_template_id: flowTemplateId };
  // Later records overwrite earlier ones, and a Map keeps the place of the first.
  const shown = new Map<string, Evaluated | null>([...expected.keys()].map((name) => [name, null]));
  for (const artifact of evaluated) shown.set(keyOf(artifact.facts), artifact);

  const causes = [trailCauses];
  const entries = [...shown].map(([key, artifact]): [string, ArtifactStatus] => {
    causes.push(artifact?.causes ?? { failing: [], missing: [`Artifact '${key}' is missing`] });
    if (artifact === null)
      return [key, { ...missingArtifact(buildAttestationStatuses(expected.get(key) ?? [], [])), ...shared }];
    const verdict = combineCauses([artifact.causes]);
    return [key, { ...reportedArtifact(artifact, verdict, !expected.has(key)), ...shared }];
  });
  const verdict = combineCauses(causes);
  return {
    compliance_status: {
      status: verdict.state,
      is_compliant: verdict.state === "COMPLIANT",
      attestations_statuses: trailStatuses,
      // fromEntries defines the keys, so that `__proto__`, a legal reference name, is one like any other.
      artifacts_statuses: Object.fromEntries(entries),
      ...shared,
    },
    reasons: verdict.reasons,
    artifacts: evaluated.map(({ facts, statuses, causes: own }) => {
      const { state, reasons } = combineCauses([own, trailCauses]);
      return { artifactId: facts.artifactId, state, reasons, attestationsStatuses: statuses };
    }),
  };
}

/** Where each artifact stands in the map; see evaluateTrail for artifacts without reference name. */
function keys(expected: readonly string[], artifacts: readonly ArtifactFacts[]): (artifact: ArtifactFacts) => string {
  const taken = new Set<string | null>([...expected, ...artifacts.map(({ referenceName }) => referenceName)]);
  return ({ referenceName, fingerprint }) => {
    if (referenceName !== null) return referenceName;
    return taken.has(fingerprint) ? `sha256:${fingerprint}` : fingerprint;
  };
}

function missingArtifact(statuses: AttestationStatus[]): Omit<ArtifactStatus, "evaluated_at" | "flow_template_id"> {
  return {
    artifact_fingerprint: null,
    artifact_id: null,
    status: "MISSING",
    is_compliant: null,
    unexpected: false,
    attestations_statuses: statuses,
  };
}

function reportedArtifact(
  { facts, statuses }: Evaluated,
  { state }: Verdict,
  unexpected: boolean,
): Omit<ArtifactStatus, "evaluated_at" | "flow_template_id"> {
  return {
    artifact_fingerprint: facts.fingerprint,
    artifact_id: facts.artifactId,
    status: state,
    is_compliant: state === "COMPLIANT",
    unexpected,
    attestations_statuses: statuses,
  };
}
