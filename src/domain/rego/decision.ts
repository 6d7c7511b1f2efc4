/** The data of a decision that an evaluation made (newer-clients 7.1). */

/** What the decision of an evaluation is made from. Times in epoch seconds; `params`, `outputs`: JSON values. */
type EvaluationFacts = {
  id: string;
  requestedAt: number;
  recordedAt: number;
  /** `identifier` and `version` of a published policy; null for a bundle of the request. */
  published: { identifier: string; version: number } | null;
  bundleSha256: string;
  params: unknown;
  trails: unknown;
  attestationIds: unknown;
  violations: readonly string[];
  outputs: unknown;
  inputSha256: string | null;
  engine: string;
};

/** The policy of an evaluation as answers and decisions show it. */
export const describePolicy = ({ published, bundleSha256 }: Pick<EvaluationFacts, "published" | "bundleSha256">) => ({
  source: published ? ("published" as const) : ("inline" as const),
  ...published,
  sha256: bundleSha256,
});

/** The `attestation_data` of the decision. */
export const describeDecision = (allow: boolean, facts: EvaluationFacts): Record<string, unknown> => ({
  is_compliant: allow,
  evaluation: {
    id: facts.id,
    requested_at: facts.requestedAt,
    recorded_at: facts.recordedAt,
    policy: describePolicy(facts),
    params: facts.params,
    trails: facts.trails,
    attestation_ids: facts.attestationIds,
    violations: facts.violations,
    outputs: facts.outputs,
    input_sha256: facts.inputSha256,
    engine: facts.engine,
  },
});
