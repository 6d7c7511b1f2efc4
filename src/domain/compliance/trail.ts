// The verdict on a trail and everything in it, from facts alone: no clock, no stored verdicts. The same facts always
// give the same result, so the caller may store it and evaluate again whenever a fact changes.
import type { Template } from "../flow-template/template.ts";
import { combineCauses } from "./artifact.ts";
import type { State } from "./artifact.ts";
import { buildAttestationStatuses, collectCauses } from "./attestation.ts";
import type { AttestationFact, AttestationStatus, Causes } from "./attestation.ts";

/** One artifact record of the trail and the attestations bound to it. */
export type ArtifactFacts = {
  artifactId: string;
  fingerprint: string;
  /** The template artifact that it was reported as; null when the report named none. */
  referenceName: string | null;
  attestations: readonly AttestationFact[];
};

/** Everything that a trail's verdict depends on. */
export type TrailFacts = {
  /** The trail's current template, and its public id. */
  template: Template;
  flowTemplateId: string;
  /** Epoch seconds of the event that caused the evaluation (semantics 4.3). */
  evaluatedAt: number;
  trailAttestations: readonly AttestationFact[];
  /** Every record, oldest report first. */
  artifacts: readonly ArtifactFacts[];
};

/** One value of `artifacts_statuses`: the entries at artifact level and their verdict (semantics 4.2). */
type ArtifactStatus = {
  artifact_fingerprint: string | null;
  artifact_id: string | null;
  status: State | "MISSING";
  is_compliant: boolean | null;
  unexpected: boolean;
  attestations_statuses: AttestationStatus[];
  evaluated_at: number;
  flow_template_id: string;
};

/** The `compliance_status` of a trail, in the API's shape (semantics 4.3). */
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
  /** Reasons of the trail's status, see Verdict. */
  reasons: string[];
  /** One per record, in the given order, including records superseded by a later one of the same reference name. */
  artifacts: { artifactId: string; state: State; reasons: string[]; attestationsStatuses: AttestationStatus[] }[];
};

type EvaluatedArtifact = { facts: ArtifactFacts; statuses: AttestationStatus[]; causes: Causes };

/**
 * Evaluates a trail (semantics 4).
 *
 * `artifacts_statuses` has one entry per reference name: those of the template first, in its order, then unexpected
 * ones in the order of their first report. A name with several records shows the latest, and only that one affects the
 * trail, so a rebuild repairs a trail that its predecessor had made NON-COMPLIANT. An artifact reported without a
 * reference name is unexpected, and its key is its fingerprint, or `sha256:<fingerprint>` if that text is also a
 * reference name in this trail.
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
  const keyOf = createKeyOf([...expected.keys()], artifacts);

  const evaluated = artifacts.map((facts): EvaluatedArtifact => {
    const slots = facts.referenceName === null ? undefined : expected.get(facts.referenceName);
    const statuses = buildAttestationStatuses(slots ?? [], facts.attestations);
    return { facts, statuses, causes: collectCauses(statuses, `artifact '${keyOf(facts)}'`) };
  });
  const shared = { evaluated_at: evaluatedAt, flow_template_id: flowTemplateId };
  // Later records overwrite earlier ones, and a Map keeps the position of the first.
  const byKey = new Map<string, EvaluatedArtifact | null>([...expected.keys()].map((name) => [name, null]));
  for (const artifact of evaluated) byKey.set(keyOf(artifact.facts), artifact);

  const causes = [trailCauses];
  const entries = [...byKey].map(([key, artifact]): [string, ArtifactStatus] => {
    causes.push(artifact?.causes ?? { failing: [], missing: [`Artifact '${key}' is missing`] });
    if (artifact === null)
      return [key, { ...missingStatus(buildAttestationStatuses(expected.get(key) ?? [], [])), ...shared }];
    const { state } = combineCauses([artifact.causes]);
    return [key, { ...reportedStatus(artifact, { state, unexpected: !expected.has(key) }), ...shared }];
  });
  const verdict = combineCauses(causes);
  return {
    compliance_status: {
      status: verdict.state,
      is_compliant: verdict.state === "COMPLIANT",
      attestations_statuses: trailStatuses,
      // fromEntries defines the keys, so that the legal reference name `__proto__` is a key like any other.
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

/** The key of each artifact in `artifacts_statuses`, see evaluateTrail. */
function createKeyOf(
  expected: readonly string[],
  artifacts: readonly ArtifactFacts[],
): (artifact: ArtifactFacts) => string {
  const referenceNames = new Set<string | null>([...expected, ...artifacts.map(({ referenceName }) => referenceName)]);
  return ({ referenceName, fingerprint }) => {
    if (referenceName !== null) return referenceName;
    return referenceNames.has(fingerprint) ? `sha256:${fingerprint}` : fingerprint;
  };
}

/** The keys in `artifacts_statuses` of which an artifact has one, see evaluateTrail. */
export const possibleKeys = (referenceName: string | null, fingerprint: string): readonly string[] =>
  referenceName === null ? [fingerprint, `sha256:${fingerprint}`] : [referenceName];

type OwnStatus = Omit<ArtifactStatus, "evaluated_at" | "flow_template_id">;

function missingStatus(statuses: AttestationStatus[]): OwnStatus {
  return {
    artifact_fingerprint: null,
    artifact_id: null,
    status: "MISSING",
    is_compliant: null,
    unexpected: false,
    attestations_statuses: statuses,
  };
}

function reportedStatus(
  { facts, statuses }: EvaluatedArtifact,
  { state, unexpected }: { state: State; unexpected: boolean },
): OwnStatus {
  return {
    artifact_fingerprint: facts.fingerprint,
    artifact_id: facts.artifactId,
    status: state,
    is_compliant: state === "COMPLIANT",
    unexpected,
    attestations_statuses: statuses,
  };
}
