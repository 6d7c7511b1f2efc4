/** Decisions, allowlist entries, files and trails as a binder shows them. */
import { withLargeJson } from "../large-json.ts";
import type { Allowance } from "../large-json.ts";
import type {
  BinderAllowanceRow,
  BinderTrailRow,
  DecisionRow,
  FileRow,
} from "../../store/environments/history/binder-records.ts";
import type { BinderContext } from "./scope.ts";
import type { AllowanceValue, DecisionValue, EvidenceValue, TrailValue } from "./shapes.ts";

export function presentDecision(context: BinderContext, stored: DecisionRow, allowance: Allowance): DecisionValue {
  const { store, urls, organization } = context;
  const row = withLargeJson(context, stored, { table: "attestations", allowance });
  const artifact = store.controlDecisions.findArtifact(row);
  const { flow_name: flow, trail_name: trail, public_id: id } = row;
  return {
    id,
    timestamp: row.created_at,
    control: row.control ?? "",
    control_version: row.control_version,
    is_compliant: row.is_compliant === 1,
    is_override: row.overridden_type !== null,
    attestation_name: row.name,
    flow_name: flow,
    trail_name: trail,
    artifact_name: artifact?.filename ?? null,
    artifact_fingerprint: row.artifact_fingerprint ?? artifact?.fingerprint ?? null,
    git_commit: row.git_commit,
    decided_by: row.reported_by,
    reason: row.description || null,
    evidence_sha256: row.evidence_digest,
    html_url: urls.attestationPage(organization.name, { flow, trail, id }),
  };
}

export const presentAllowance = ({ urls, organization }: BinderContext, row: BinderAllowanceRow): AllowanceValue => ({
  id: row.id,
  reason: row.description,
  by: row.user_name,
  expires_at: row.expires_at,
  begun_at: row.timestamp,
  replaced_at: row.replaced_at,
  environment_name: row.environment_name,
  artifact_name: row.artifact_name,
  artifact_fingerprint: row.fingerprint,
  html_url: `${urls.environmentPage(organization.name, row.environment_name)}?tab=settings`,
});

export function presentFile({ urls, organization }: BinderContext, row: FileRow): EvidenceValue {
  const { flow_name: flow, trail_name: trail, attestation_id: id } = row;
  return {
    name: row.filename,
    sha256: row.digest,
    bytes: row.size,
    reported_at: row.reported_at,
    deleted_at: row.deleted_at,
    flow_name: flow,
    trail_name: trail,
    attestation_name: row.attestation_name,
    attestation_id: id,
    html_url: urls.attestationPage(organization.name, { flow, trail, id }),
  };
}

export const presentTrail = ({ urls, organization }: BinderContext, row: BinderTrailRow, flow: string): TrailValue => ({
  name: row.name,
  begun_at: row.created_at,
  last_modified_at: row.last_modified_at,
  state: row.state,
  artifacts: row.artifacts,
  attestations: row.attestations,
  html_url: urls.trailPage(organization.name, flow, row.name),
});
