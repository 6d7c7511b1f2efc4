/**
 * Renders an explanation as one JSON object for programs. Times are epoch seconds. Nothing is abbreviated: every
 * artifact has all the details that the text form shows only when asked for its fingerprint.
 *
 * - `organization`, `expression`, `fingerprint` (null: the whole snapshot): the request
 * - `same`: whether everything was readable and every re-evaluation gave the stored verdict; `problems`: the
 *   differences, one line each
 * - `snapshot`: see SnapshotJson
 *
 * SnapshotJson:
 * - `environment` {`id`, `name`, `type`}, `index`, `timestamp`, `cause`, `caused_by` {`user_id`, `user_name`,
 *   `environment`, `index`; the last two are null except for logical environments}
 * - `compliant` (null: unknown), `compliant_count`, `non_compliant_count`, `unknown_count`
 * - `policies` in force at that time: {`policy_id`, `policy`, `version`, `version_id`, `comment`, `created_by`,
 *   `created_at`}
 * - `artifacts`: {`name`, `fingerprint` ("" if unresolved), `exited`, `compliant`, `annotation` and `first_index` (the
 *   last change, and the snapshot that made it), `started_index`, `instances_before`, `instances`, `evaluation_id`,
 *   `allowlist` {`id`, `artifact_name`, `description`, `user_id`, `user_name`, `timestamp`, and `expires_at` if it
 *   ends} or null, `flows`, `policies`, `reasons`, `same`, `problems`}
 * - `artifacts[].flows`: {`flow_id`, `flow` (its present name), `evaluated_as` (its name at the evaluation), `tags`,
 *   `trail_id`, `trail`, `artifact_id`, `reference_name`, `filename`, `git_commit`, `commit_url`, `committed_at`,
 *   `state`, `reasons`, `deployment_id`, `attestations`: every attestation that was considered}
 * - an attestation: {`id`, `name`, `type` (for an override, the overridden type), `level`, `is_compliant`, `control`,
 *   and `record`, the attestation as reported, null if it no longer exists: {`type`, `overridden_type`,
 *   `control_version`, `description`, `reasons`, `reported_by`, `created_at`, `evidence_digest` (SHA-256),
 *   `evidence_filename`}}
 * - `artifacts[].policies`: {`policy`, `version`, `version_id`, `status`, `rules`: {`rule` {`type`, `definition`},
 *   `in_words`, `satisfied` (null: not applicable), `resolutions`: {`type`, `context`, `in_words`, `attestation_ids`:
 *   the attestations that determined the result}}}
 * - `members` of a logical environment: SnapshotJson of each
 */
import { describeOutcome, describeRule } from "../domain/policy/reasons.ts";
import type { FlowRecord } from "../domain/compliance/environment.ts";
import { problemsOf } from "../store/environments/explanation-types.ts";
import type {
  ExplainedArtifact,
  ExplainedAttestation,
  ExplainedVersion,
  Explanation,
} from "../store/environments/explanation-types.ts";
import type { Question } from "./explain-question.ts";

/** Renders the object described at the top of this file. */
export function presentExplanation(
  explanation: Explanation,
  { organization, expression, fingerprint }: Question,
): object {
  const problems = problemsOf(explanation);
  return {
    organization,
    expression,
    fingerprint,
    same: problems.length === 0,
    problems,
    snapshot: presentSnapshot(explanation, fingerprint),
  };
}

function presentSnapshot(
  { environment, snapshot, policies, artifacts, members, causedBy }: Explanation,
  fingerprint: string | null,
): object {
  return {
    environment: { id: environment.public_id, name: environment.name, type: environment.type },
    index: snapshot.idx,
    timestamp: snapshot.timestamp,
    cause: snapshot.cause,
    caused_by: {
      user_id: snapshot.user_id,
      user_name: snapshot.user_name,
      environment: causedBy?.environment ?? null,
      index: causedBy?.index ?? null,
    },
    compliant: snapshot.compliant === null ? null : snapshot.compliant === 1,
    compliant_count: snapshot.compliant_count,
    non_compliant_count: snapshot.non_compliant_count,
    unknown_count: snapshot.unknown_count,
    policies: policies.map(presentVersion),
    artifacts: artifacts
      .filter(({ row }) => fingerprint === null || row.fingerprint === fingerprint)
      .map(presentArtifact),
    members: members.map((member) => presentSnapshot(member, fingerprint)),
  };
}

const presentVersion = ({
  policyId,
  policy,
  version,
  versionId,
  comment,
  createdBy,
  createdAt,
}: ExplainedVersion): object => ({
  policy_id: policyId,
  policy,
  version,
  version_id: versionId,
  comment,
  created_by: createdBy,
  created_at: createdAt,
});

function presentArtifact({
  row,
  exited,
  compliant,
  allowlist,
  facts,
  verdicts,
  attestations,
  reasons,
  problems,
}: ExplainedArtifact): object {
  return {
    name: row.name,
    fingerprint: row.fingerprint,
    exited,
    compliant,
    annotation: row.annotation,
    first_index: row.first_index,
    started_index: row.started_index,
    instances_before: row.was,
    instances: row.now,
    evaluation_id: row.evaluation_id,
    allowlist: allowlist && {
      id: allowlist.publicId,
      artifact_name: allowlist.artifactName,
      description: allowlist.description,
      user_id: allowlist.userId,
      user_name: allowlist.userName,
      timestamp: allowlist.timestamp,
      ...(allowlist.expiresAt === null ? {} : { expires_at: allowlist.expiresAt }),
    },
    flows: facts.flows.map((flow) => presentFlow(flow, attestations)),
    policies: verdicts.map(({ version, verdict }) => ({
      policy: version.policy,
      version: version.version,
      version_id: version.versionId,
      status: verdict.status,
      rules: verdict.rules.map(({ rule, satisfied, resolutions }) => ({
        rule,
        in_words: describeRule(rule),
        satisfied,
        resolutions: resolutions.map((resolution) => ({
          type: resolution.type,
          context: resolution.context,
          in_words: describeOutcome(rule, resolution),
          attestation_ids: resolution.attestationIds,
        })),
      })),
    })),
    reasons,
    same: problems.length === 0,
    problems,
  };
}

const presentFlow = (
  { candidates, ...flow }: FlowRecord,
  attestations: ReadonlyMap<string, ExplainedAttestation>,
): object => ({
  ...flow,
  evaluated_as: flow.evaluated_as ?? flow.flow,
  attestations: candidates.map(({ attestationId, name, type, level, isCompliant, control }) => ({
    id: attestationId,
    name,
    type,
    level,
    is_compliant: isCompliant,
    control,
    record: presentRecord(attestations.get(attestationId)),
  })),
});

const presentRecord = (record: ExplainedAttestation | undefined): object | null =>
  record
    ? {
        type: record.type,
        overridden_type: record.overriddenType,
        control_version: record.controlVersion,
        description: record.description,
        reasons: record.reasons,
        reported_by: record.reportedBy,
        created_at: record.createdAt,
        evidence_digest: record.evidenceDigest,
        evidence_filename: record.evidenceFilename,
      }
    : null;
