/** Records as a package tells them: what answers show, and beside it what an auditor without the server needs. */
import { presentAttestations } from "../contract/present-attestation.ts";
import { presentArtifacts } from "../contract/present-artifact.ts";
import { wholeAllowance } from "../contract/large-json.ts";
import { presentCommits } from "../contract/shapes.ts";
import { fromSqlBoolean } from "../store/db/database.ts";
import type { Facts, StoredVerdict } from "../domain/compliance/environment.ts";
import { reasonsOn, expandStoredVerdict, withFlowNames } from "../domain/compliance/environment.ts";
import { outcomeInWords, ruleInWords } from "../domain/policy/reasons.ts";
import type { PlacedArtifactRow } from "../store/flows/artifacts.ts";
import type {
  AttestationExtras,
  PackagedControlRow,
  PackagedControlVersionRow,
  RunRow,
  UsedPolicyRow,
  UsedTypeRow,
} from "../store/flows/audit-packages.ts";
import { OPEN } from "../store/environments/snapshots.ts";
import type { EvidenceState } from "./evidence.ts";
import { evidenceFileName, policyMember, typeMember } from "./file-names.ts";
import type { PlacedAttestationRow } from "../store/attestations/attestation-rows.ts";
import type { PresenterContext } from "../contract/presenter-context.ts";

/** The value of a JSON column, null where it cannot be read. */
export function readable<T>(json: string | null): T | null {
  try {
    return json === null ? null : (JSON.parse(json) as T);
  } catch {
    return null;
  }
}

/** A list of texts in a JSON column, null where it is none. */
export function readableTexts(json: string): string[] | null {
  const value = readable<unknown>(json);
  return Array.isArray(value) && value.every((text) => typeof text === "string") ? value : null;
}

/** null in place of an exception: what is damaged may have any shape. */
function attempt<T>(tell: () => T): T | null {
  try {
    return tell();
  } catch {
    return null;
  }
}

/** Of an attestation record; the part under `audit` is not in answers of the server. */
export function toAttestationRecord(
  showing: PresenterContext,
  row: PlacedAttestationRow,
  evidence: EvidenceState | null,
) {
  const extras = showing.store.auditPackages.extras(row.id);
  const [shown] = presentAttestations(showing, [row], { allowance: wholeAllowance() });
  return {
    ...shown,
    audit: {
      reasons: readableTexts(row.reasons_json),
      scope: row.scope,
      belongs_to: row.scope === "trail" ? [] : showing.store.auditPackages.belongsTo(row.trail_id, row.id),
      git_commit: row.git_commit,
      repo_info: readable(row.repo_info_json),
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

/** Of a file that was deleted under a rule of retention; null where there never was one. */
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

export function toArtifactRecord(showing: PresenterContext, row: PlacedArtifactRow) {
  const [shown] = presentArtifacts(showing, [row], wholeAllowance());
  return {
    ...shown,
    audit: {
      reasons: readableTexts(row.reasons_json),
      attestations_statuses: readable(row.attestations_json),
      description: row.description,
      commits_list: attempt(() => presentCommits(row.commits_list_json)),
      reported_as_compliant: fromSqlBoolean(row.legacy_is_compliant),
      created_by: row.created_by,
    },
  };
}

/** true, false and null in words. */
export const verdictText = (compliant: boolean | null): string =>
  compliant === null ? "UNKNOWN" : compliant ? "COMPLIANT" : "NON-COMPLIANT";

export type RunRecord = ReturnType<typeof toRunRecord>;

/**
 * An interval in which an artifact ran somewhere with one verdict, with what was judged and how. Flows have their
 * present names, as everywhere in a package; the name that expressions of policies saw stands beside it.
 * @param used is given the keys of the policy versions. @param flowName the present name of a flow by its key
 */
export function toRunRecord(
  { store }: PresenterContext,
  row: RunRow,
  { used, flowName }: { used: (versionId: number) => void; flowName: (flowId: number) => string | undefined },
) {
  const stored = readable<Facts>(row.facts_json);
  const facts = stored && (attempt(() => withFlowNames(stored, flowName)) ?? stored);
  const verdicts = readable<StoredVerdict[]>(row.verdicts_json);
  const renamed =
    facts && verdicts && facts !== stored ? attempt(() => reasonsOn(facts, verdicts, store.policies.parsed)) : null;
  const isNow = row.last_index === OPEN;
  return {
    environment: { name: row.environment_name, type: row.environment_type, archived: row.archived_at !== null },
    artifact: { name: row.name, fingerprint: row.fingerprint },
    first_snapshot: { index: row.first_index, timestamp: row.started, cause: row.cause, caused_by: row.user_name },
    last_snapshot: isNow ? null : { index: row.last_index, ended_at: row.ended },
    is_running: isNow && row.now > 0,
    event: { type: row.annotation, instances_before: row.was, instances: row.now },
    verdict: verdictText(fromSqlBoolean(row.compliant)),
    is_compliant: fromSqlBoolean(row.compliant),
    reasons: renamed ?? readableTexts(row.reasons_json),
    allowlist_entry: row.allowlist_public_id,
    policies:
      verdicts &&
      attempt(() =>
        verdicts.map((verdict) => {
          used(verdict.version_id);
          return {
            policy: verdict.policy,
            version: verdict.version,
            text: policyMember(verdict.policy, verdict.version),
            status: verdict.status,
            rules: rulesOf(store, verdict, facts),
          };
        }),
      ),
    judged_on:
      facts &&
      attempt(() =>
        facts.flows.map(
          ({
            flow,
            evaluated_as,
            tags,
            trail,
            reference_name,
            filename,
            git_commit,
            commit_url,
            state,
            reasons,
            candidates,
          }) => ({
            flow,
            flow_when_evaluated: evaluated_as ?? flow,
            flow_tags: tags,
            trail,
            template_reference_name: reference_name,
            filename,
            git_commit,
            commit_url,
            state_in_trail: state,
            reasons,
            attestations: candidates.map(({ attestationId, name, type, isCompliant, control, level }) => ({
              attestation_id: attestationId,
              attestation_name: name,
              attestation_type: type,
              is_compliant: isCompliant,
              control,
              level,
            })),
          }),
        ),
      ),
    instances: readable(row.instances_json),
  };
}

/** Each rule in words, and what became of it in each flow; null where the texts cannot be read any more. */
const rulesOf = (store: PresenterContext["store"], verdict: StoredVerdict, facts: Facts | null) =>
  attempt(() =>
    expandStoredVerdict(verdict, store.policies.parsed(verdict.version_id), facts ?? { flows: [] }).rules.map(
      ({ rule, satisfied, resolutions }) => ({
        rule: ruleInWords(rule),
        satisfied,
        outcomes: resolutions.map((resolution) => outcomeInWords(rule, resolution)),
      }),
    ),
  );

export const toPolicyRecord = ({ name, version, comment, timestamp, created_by }: UsedPolicyRow) => ({
  policy: name,
  version,
  comment,
  timestamp,
  created_by,
  text: policyMember(name, version),
});

export const toTypeRecord = (row: UsedTypeRow) => ({
  name: row.name,
  description: row.description,
  archived: row.archived_at !== null,
  version: row.version,
  timestamp: row.timestamp,
  created_by: row.created_by,
  comment: row.comment,
  schema: row.schema_json === null ? null : typeMember(row.name, row.version),
  evaluator: { content_type: row.content_type, rules: readable(row.rules_json) },
  summary: readable(row.summary_json),
});

export const toControlRecord = ({
  identifier,
  archived,
  versions,
}: PackagedControlRow & { versions: readonly PackagedControlVersionRow[] }) => ({
  identifier,
  archived: archived === 1,
  versions: versions.map(({ links_json, ...version }) => ({ ...version, links: readable(links_json) })),
});
