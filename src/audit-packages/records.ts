/** Records as a package stores them: as the API shows them, with an `audit` part for an auditor without the server. */
import { shownCommit } from "../domain/commit.ts";
import { presentAttestations } from "../contract/present-attestation.ts";
import { presentArtifacts } from "../contract/present-artifact.ts";
import { unlimitedAllowance } from "../contract/large-json.ts";
import { readNullableReported } from "../contract/reported-json.ts";
import { presentCommits } from "../contract/shapes.ts";
import { hasMembers, isListOf, isText, readStoredJsonOrNull } from "../domain/stored-json.ts";
import { fromSqlBoolean } from "../store/db/database.ts";
import type { Facts, FlowRecord, StoredVerdict } from "../domain/compliance/environment.ts";
import { rewordReasons, expandStoredVerdict, withFlowNames } from "../domain/compliance/environment.ts";
import { describeOutcome, describeRule } from "../domain/policy/reasons.ts";
import type { PlacedArtifactRow } from "../store/flows/artifacts.ts";
import type {
  AttestationExtras,
  PackagedControlRow,
  PackagedControlVersionRow,
  RunRow,
  UsedPolicyRow,
  UsedTypeRow,
} from "../store/environments/audit-packages.ts";
import { OPEN } from "../store/environments/snapshots.ts";
import type { EvidenceState } from "./evidence.ts";
import { evidenceFileName, policyFileName, typeFileName } from "./file-names.ts";
import type { PlacedAttestationRow } from "../store/attestations/attestation-rows.ts";
import type { PresenterContext } from "../contract/presenter-context.ts";

const isAnyJson = (_value: unknown): _value is unknown => true;
const isFacts = hasMembers<Facts>("flows");
const isVerdictList = isListOf(hasMembers<StoredVerdict>("policy", "version_id", "version", "status", "rules"));

/** A JSON column that is passed on as it was sent; null where it is damaged. */
const readAnyJson = (json: string | null): unknown => orNull(() => readNullableReported(json, isAnyJson));
/** A column with a list of texts; null where it is damaged. */
export const readTexts = (json: string | null): string[] | null => readStoredJsonOrNull(json, isListOf(isText));

/** The result of `work`; null when it throws, because a damaged value may have any shape. */
function orNull<T>(work: () => T): T | null {
  try {
    return work();
  } catch {
    return null;
  }
}

/** An attestation. `evidence`: whether the package includes the attached file; null when there is none. */
export function toAttestationRecord(
  context: PresenterContext,
  row: PlacedAttestationRow,
  evidence: EvidenceState | null,
) {
  const extras = context.store.auditPackages.getExtras(row.id);
  const [shown] = presentAttestations(context, [row], { allowance: unlimitedAllowance(context) });
  return {
    ...shown,
    audit: {
      reasons: readTexts(row.reasons_json),
      scope: row.scope,
      belongs_to: row.scope === "trail" ? [] : context.store.auditPackages.listBoundFingerprints(row.trail_id, row.id),
      git_commit: row.git_commit,
      repo_info: readAnyJson(row.repo_info_json),
      overridden_type: row.overridden_type,
      original_attestation_id: extras.original_id,
      control: row.control,
      control_version: row.control_version,
      custom_type_version: extras.type_version,
      evidence:
        row.evidence_digest === null
          ? deletedEvidence(row, extras)
          : {
              member: evidence === "included" ? evidenceFileName(row.evidence_digest, row.evidence_filename) : null,
              state: evidence,
              uploaded_as: row.evidence_filename,
              content_type: row.evidence_content_type,
              size: row.evidence_size,
              sha256: row.evidence_digest,
            },
    },
  };
}

/** A file that was deleted under a retention rule; null where there never was a file. */
const deletedEvidence = (row: PlacedAttestationRow, { deleted_digest, deleted_size, deleted_at }: AttestationExtras) =>
  deleted_digest === null
    ? null
    : {
        member: null,
        state: "deleted",
        deleted_at,
        uploaded_as: row.evidence_filename,
        content_type: row.evidence_content_type,
        size: deleted_size,
        sha256: deleted_digest,
      };

export function toArtifactRecord(context: PresenterContext, row: PlacedArtifactRow) {
  const [shown] = presentArtifacts(context, [row], unlimitedAllowance(context));
  return {
    ...shown,
    audit: {
      reasons: readTexts(row.reasons_json),
      attestations_statuses: readAnyJson(row.attestations_json),
      description: row.description,
      commits_list: orNull(() => presentCommits(row.commits_list_json)),
      reported_as_compliant: fromSqlBoolean(row.legacy_is_compliant),
      created_by: row.created_by,
    },
  };
}

/** A verdict in words; null is unknown. */
export const verdictText = (compliant: boolean | null): string =>
  compliant === null ? "UNKNOWN" : compliant ? "COMPLIANT" : "NON-COMPLIANT";

export type RunRecord = ReturnType<typeof toRunRecord>;

/**
 * An interval in which an artifact ran in an environment with one verdict, and the evaluation behind the verdict. Flows
 * have their present names, as everywhere in a package, beside the names that the policies saw.
 * @param onPolicyVersion receives the key of each policy version in the evaluation
 * @param flowName the present name of a flow by its key
 */
export function toRunRecord(
  { store }: PresenterContext,
  row: RunRow,
  {
    onPolicyVersion,
    flowName,
  }: { onPolicyVersion: (versionId: number) => void; flowName: (flowId: number) => string | undefined },
) {
  const storedFacts = readStoredJsonOrNull(row.facts_json, isFacts);
  const facts = storedFacts && (orNull(() => withFlowNames(storedFacts, flowName)) ?? storedFacts);
  const verdicts = readStoredJsonOrNull(row.verdicts_json, isVerdictList);
  const renamedReasons =
    facts && verdicts && facts !== storedFacts
      ? orNull(() => rewordReasons(facts, verdicts, store.policies.getDocument))
      : null;
  const isOpen = row.last_index === OPEN;
  return {
    environment: { name: row.environment_name, type: row.environment_type, archived: row.archived_at !== null },
    artifact: { name: row.name, fingerprint: row.fingerprint },
    first_snapshot: { index: row.first_index, timestamp: row.started, cause: row.cause, caused_by: row.user_name },
    last_snapshot: isOpen ? null : { index: row.last_index, ended_at: row.ended },
    is_running: isOpen && row.now > 0,
    event: { type: row.annotation, instances_before: row.was, instances: row.now },
    verdict: verdictText(fromSqlBoolean(row.compliant)),
    is_compliant: fromSqlBoolean(row.compliant),
    reasons: renamedReasons ?? readTexts(row.reasons_json),
    allowlist_entry: row.allowlist_public_id,
    policies:
      verdicts &&
      orNull(() =>
        verdicts.map((verdict) => {
          onPolicyVersion(verdict.version_id);
          return toPolicyVerdict(store, verdict, facts);
        }),
      ),
    judged_on: facts && orNull(() => facts.flows.map(toEvaluatedFlow)),
    instances: readAnyJson(row.instances_json),
  };
}

const toPolicyVerdict = (store: PresenterContext["store"], verdict: StoredVerdict, facts: Facts | null) => ({
  policy: verdict.policy,
  version: verdict.version,
  text: policyFileName(verdict.policy, verdict.version),
  status: verdict.status,
  rules: describeRules(store, verdict, facts),
});

/** Each rule in words with its outcome in each flow; null where the policy or the verdict cannot be read. */
const describeRules = (store: PresenterContext["store"], verdict: StoredVerdict, facts: Facts | null) =>
  orNull(() =>
    expandStoredVerdict(verdict, store.policies.getDocument(verdict.version_id), facts ?? { flows: [] }).rules.map(
      ({ rule, satisfied, resolutions }) => ({
        rule: describeRule(rule),
        satisfied,
        outcomes: resolutions.map((resolution) => describeOutcome(rule, resolution)),
      }),
    ),
  );

const toEvaluatedFlow = (record: FlowRecord) => ({
  flow: record.flow,
  flow_when_evaluated: record.evaluated_as ?? record.flow,
  flow_tags: record.tags,
  trail: record.trail,
  template_reference_name: record.reference_name,
  filename: record.filename,
  git_commit: shownCommit(record.git_commit),
  commit_url: record.commit_url,
  state_in_trail: record.state,
  reasons: record.reasons,
  attestations: record.candidates.map(({ attestationId, name, type, isCompliant, control, level }) => ({
    attestation_id: attestationId,
    attestation_name: name,
    attestation_type: type,
    is_compliant: isCompliant,
    control,
    level,
  })),
});

export const toPolicyRecord = ({ name, version, comment, timestamp, created_by }: UsedPolicyRow) => ({
  policy: name,
  version,
  comment,
  timestamp,
  created_by,
  text: policyFileName(name, version),
});

export const toTypeRecord = (row: UsedTypeRow) => ({
  name: row.name,
  description: row.description,
  archived: row.archived_at !== null,
  version: row.version,
  timestamp: row.timestamp,
  created_by: row.created_by,
  comment: row.comment,
  schema: row.schema_json === null ? null : typeFileName(row.name, row.version),
  evaluator: { content_type: row.content_type, rules: readAnyJson(row.rules_json) },
  summary: readAnyJson(row.summary_json),
});

export const toControlRecord = ({
  identifier,
  archived,
  versions,
}: PackagedControlRow & { versions: readonly PackagedControlVersionRow[] }) => ({
  identifier,
  archived: archived === 1,
  versions: versions.map(({ links_json, ...version }) => ({ ...version, links: readAnyJson(links_json) })),
});
