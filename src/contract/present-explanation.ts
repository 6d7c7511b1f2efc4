/**
 * An explanation of a snapshot as one JSON object, for `assay explain --json` and the API alike. Times are epoch
 * seconds. Nothing is abbreviated: every artifact has all the details that the text form shows only when asked for its
 * fingerprint.
 *
 * - `organization`, `expression`, `fingerprint` (null: the whole snapshot): the request
 * - `selection` {`total`, `page`, `per_page`, `page_count`}: which artifacts are in it; null for all, as from the
 *   command line
 * - `same`: whether everything was readable and every re-evaluation gave the stored verdict; `problems`: the
 *   differences, one line each
 * - `snapshot`: see SnapshotJson
 *
 * SnapshotJson:
 * - `environment` {`id`, `name`, `type`}, `index`, `timestamp`, `cause`, `caused_by` {`user_id`, `user_name`,
 *   `environment`, `index`; the last two are null except for logical environments}
 * - `compliant` (null: unknown), `compliant_count`, `non_compliant_count`, `unknown_count`
 * - `policies` in force at that time: {`policy_id`, `policy`, `version`, `version_id`, `comment`, `created_by`,
 *   `created_at`, `policy_yaml`: the text (null where the API has no room for it)}
 * - `artifacts`, by name (in the API, those that run and fail first): {`name`, `fingerprint` ("" if unresolved),
 *   `exited`, `compliant`, `annotation` and `first_index` (the last change, and the snapshot that made it),
 *   `started_index`, `instances_before`, `instances`, `evaluation_id`, `allowlist` {`id`, `artifact_name`,
 *   `description`, `user_id`, `user_name`, `timestamp`, and `expires_at` if it ends} or null, `flows`, `policies`,
 *   `reasons`, `causes`, `same`, `problems`, and `same_name` if no flow knows it but one got another fingerprint under
 *   its name: {`flow`, `trail`, `fingerprint`, `artifact_id`, `words`}}
 * - `artifacts[].flows`: {`flow_id`, `flow` (its present name), `evaluated_as` (its name at the evaluation), `tags`,
 *   `trail_id`, `trail`, `artifact_id`, `reference_name`, `filename`, `git_commit`, `commit_url`, `committed_at`,
 *   `state`, `reasons`, `deployment_id`, `attestations`: every attestation that was considered}
 * - an attestation: {`id`, `name`, `type` (for an override, the overridden type), `level`, `is_compliant`, `control`,
 *   and `record`, the attestation as reported, null if it no longer exists: {`type`, `overridden_type`,
 *   `control_version`, `description`, `reasons`, `reported_by`, `created_at`, `evidence_digest` (SHA-256),
 *   `evidence_filename`}}
 * - `artifacts[].policies`: {`policy`, `version`, `version_id`, `status`, `rules` (null where the API has no room for
 *   them): {`rule` {`type`, `definition`}, `in_words`, `lines` {`from`, `to`} in `policy_yaml` (null if the text does
 *   not have it), `satisfied` (null: not applicable), `resolutions`: {`type`, `context`, `in_words`,
 *   `attestation_ids`: the attestations that determined the result}, `conditions`, `satisfied_by`: what would satisfy
 *   it}}
 * - `rules[].conditions`, the exceptions or the condition of a rule: {`type`, `text`, `lines`, `results`: {`flow`,
 *   `result` (null: not evaluated, or failed), `error`, `values`: of the names in it}}
 * - `artifacts[].causes`: {`kind`, `subject` and `text` (what decided, in short), `words`, `flow`, `trail`, `name`,
 *   `type`, `control`, `attestation_id`, `level`}, each once however many rules fail because of it; `satisfied_by` has
 *   the same with `fingerprint` in place of `level`, and without `subject` and `text`
 * - `members` of a logical environment: SnapshotJson of each
 */
import { shownCommit } from "../domain/commit.ts";
import type { Static } from "typebox";
import type { FlowRecord } from "../domain/compliance/environment.ts";
import { shortenCause } from "../domain/compliance/cause-words.ts";
import { listCauses } from "../domain/compliance/causes.ts";
import { listRemedies } from "../domain/compliance/remedies.ts";
import type { ConditionOutcome } from "../domain/policy/conditions.ts";
import type { RuleVerdict } from "../domain/policy/evaluate.ts";
import type { PolicyLines, RuleLines } from "../domain/policy/lines.ts";
import { describeOutcome, describeRule } from "../domain/policy/reasons.ts";
import type { ExplainedAttestation } from "../store/attestations/explained-attestations.ts";
import { problemsOf } from "../store/environments/explanation-types.ts";
import type { ExplainedArtifact, Explanation } from "../store/environments/explanation-types.ts";
import type { ExplainedVersion } from "../store/policies/explained-versions.ts";
import { findingsOf } from "./causes.ts";
import { presentSameName } from "./same-name.ts";
import type { ExplainedArtifactShape, ExplainedPolicy, SnapshotExplanation } from "./explanation-shapes.ts";

type SnapshotExplanationValue = Static<typeof SnapshotExplanation>;
type Rule = (Static<typeof ExplainedArtifactShape>["policies"][number]["rules"] & object)[number];
type Condition = Rule["conditions"][number];

/** What the presenter needs besides the explanation. */
type Sources = {
  /** The text of a policy version; null where there is no room for it. */
  getText(versionId: number): string | null;
  /** Where the rules of a policy version stand in its text; null where that is unknown. */
  getLines(versionId: number): PolicyLines | null;
  /** Characters after which further artifacts are written without their rules, which are most of the text. */
  maxChars: number;
};

/**
 * Writes the object described at the top of this file as JSON text, in pieces: an artifact with thousands of conditions
 * takes a while, and a server does other work between the pieces.
 */
export function* writeExplanation(
  explanation: Explanation,
  request: Pick<SnapshotExplanationValue, "organization" | "expression" | "fingerprint" | "selection">,
  sources: Sources,
): Generator<string, void> {
  const problems = problemsOf(explanation);
  yield openObject({ ...request, same: problems.length === 0, problems });
  yield '"snapshot":';
  yield* writeSnapshot(explanation, request.fingerprint, { sources, room: { chars: sources.maxChars } });
  yield "}";
}

/** The JSON text of an object, ready for another member. */
const openObject = (value: object): string => `${JSON.stringify(value).slice(0, -1)},`;

function* writeSnapshot(
  { environment, snapshot, policies, artifacts, members, causedBy }: Explanation,
  fingerprint: string | null,
  { sources, room }: { sources: Sources; room: { chars: number } },
): Generator<string, void> {
  yield openObject({
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
    policies: policies.map((version) => presentVersion(version, sources)),
  });
  const selected = artifacts.filter(({ row }) => fingerprint === null || row.fingerprint === fingerprint);
  yield '"artifacts":[';
  for (const [index, artifact] of selected.entries()) {
    const hasRoom = room.chars > 0;
    const text = JSON.stringify(presentArtifact(artifact, sources, { withRules: hasRoom }));
    room.chars -= text.length;
    yield index === 0 ? text : `,${text}`;
  }
  yield '],"members":[';
  for (const [index, member] of members.entries()) {
    if (index > 0) yield ",";
    yield* writeSnapshot(member, fingerprint, { sources, room });
  }
  yield "]}";
}

const presentVersion = (
  { policyId, policy, version, versionId, comment, createdBy, createdAt }: ExplainedVersion,
  { getText }: Sources,
): Static<typeof ExplainedPolicy> => ({
  policy_id: policyId,
  policy,
  version,
  version_id: versionId,
  comment,
  created_by: createdBy,
  created_at: createdAt,
  policy_yaml: getText(versionId),
});

function presentArtifact(
  artifact: ExplainedArtifact,
  sources: Sources,
  { withRules }: { withRules: boolean },
): Static<typeof ExplainedArtifactShape> {
  const { row, exited, compliant, allowlist, facts, verdicts, attestations, reasons, problems } = artifact;
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
    ...presentSameName(artifact.sameName),
    policies: verdicts.map(({ version, verdict, conditions }) => {
      const lines = sources.getLines(version.versionId);
      return {
        policy: version.policy,
        version: version.version,
        version_id: version.versionId,
        status: verdict.status,
        rules: withRules
          ? verdict.rules.map((rule, index) =>
              presentRule(artifact, rule, { lines: lines?.[index] ?? null, conditions: conditions[index] ?? [] }),
            )
          : null,
      };
    }),
    reasons: [...reasons],
    causes: listCauses(
      verdicts.map(({ verdict }) => verdict),
      facts.flows,
    ).map((cause) => ({ ...cause, ...shortenCause(cause, findingsOf(cause, attestations)) })),
    same: problems.length === 0,
    problems,
  };
}

function presentRule(
  { row, facts, allowlist }: ExplainedArtifact,
  verdict: RuleVerdict,
  { lines, conditions }: { lines: RuleLines | null; conditions: readonly ConditionOutcome[] },
): Rule {
  const { rule, satisfied, resolutions } = verdict;
  const remedies = listRemedies(verdict, { flows: facts.flows, fingerprint: row.fingerprint });
  // An artifact without a fingerprint cannot be allowed, and one that is allowed need not be again.
  const mayBeAllowed = row.fingerprint !== "" && allowlist === null;
  return {
    rule: rule as Rule["rule"],
    in_words: describeRule(rule),
    lines: lines?.rule ?? null,
    satisfied,
    resolutions: resolutions.map((resolution) => ({
      type: resolution.type,
      context: resolution.context,
      in_words: describeOutcome(rule, resolution),
      attestation_ids: [...resolution.attestationIds],
    })),
    conditions: conditions.map((condition) => presentCondition(condition, { lines, flows: facts.flows })),
    satisfied_by: mayBeAllowed ? remedies : remedies.filter(({ kind }) => kind !== "allowlist"),
  };
}

/** Flows have their present names, as everywhere in the explanation; the values are those of the evaluation. */
const presentCondition = (
  { type, text, index, results }: ConditionOutcome,
  { lines, flows }: { lines: RuleLines | null; flows: readonly FlowRecord[] },
): Condition => ({
  type,
  text,
  lines: lines?.conditions[index] ?? null,
  results: results.map((result, place) => ({ ...result, flow: flows[place]?.flow ?? result.flow })),
});

type Flow = Static<typeof ExplainedArtifactShape>["flows"][number];

const presentFlow = (
  { candidates, ...flow }: FlowRecord,
  attestations: ReadonlyMap<string, ExplainedAttestation>,
): Flow => ({
  ...flow,
  git_commit: shownCommit(flow.git_commit),
  tags: { ...flow.tags },
  reasons: [...flow.reasons],
  evaluated_as: flow.evaluated_as ?? flow.flow,
  attestations: candidates.map(({ attestationId, name, type, level, isCompliant, control }) => ({
    id: attestationId,
    name,
    type,
    level,
    is_compliant: isCompliant,
    control,
    record: presentRecord(attestations.get(attestationId) ?? null),
  })),
});

/** An attestation as it was reported; null for one that is gone. */
export const presentRecord = (record: ExplainedAttestation | null): Flow["attestations"][number]["record"] =>
  record && {
    type: record.type,
    overridden_type: record.overriddenType,
    control_version: record.controlVersion,
    description: record.description,
    reasons: record.reasons ?? [],
    reported_by: record.reportedBy,
    created_at: record.createdAt,
    evidence_digest: record.evidenceDigest,
    evidence_filename: record.evidenceFilename,
  };
