/** Columns and row types of attestation records, and the select lists that queries share. */
import { selectWithStubs } from "../db/large-json.ts";

export type NewAttestation = Omit<AttestationRow, "id" | "public_id">;

/** A record with the names of its flow and trail, as responses show it. */
export type PlacedAttestationRow = AttestationRow & { flow_name: string; trail_name: string };

export type AttestationRow = {
  id: number;
  public_id: string;
  organization_id: number;
  flow_id: number;
  trail_id: number;
  scope: "trail" | "artifact";
  name: string;
  type: string;
  is_compliant: 0 | 1;
  artifact_fingerprint: string | null;
  target_artifacts_json: string | null;
  git_commit: string | null;
  git_commit_info_json: string | null;
  repo_info_json: string | null;
  origin_url: string | null;
  description: string | null;
  annotations_json: string;
  external_urls_json: string | null;
  user_data_json: string | null;
  payload_json: string;
  reasons_json: string;
  overridden_type: string | null;
  /** Set for an override: the record it overrode when it was reported. What counts now is computed, see CURRENT. */
  original_id: number | null;
  control: string | null;
  control_version: number | null;
  /** Set for a custom type: the number of the version that evaluated it. */
  type_version: number | null;
  evidence_digest: string | null;
  evidence_size: number | null;
  evidence_filename: string | null;
  evidence_content_type: string | null;
  reported_by: string;
  created_at: number;
};

export const FIELDS = [
  "organization_id",
  "flow_id",
  "trail_id",
  "scope",
  "name",
  "type",
  "is_compliant",
  "artifact_fingerprint",
  "target_artifacts_json",
  "git_commit",
  "git_commit_info_json",
  "repo_info_json",
  "origin_url",
  "description",
  "annotations_json",
  "external_urls_json",
  "user_data_json",
  "payload_json",
  "reasons_json",
  "overridden_type",
  "original_id",
  "control",
  "control_version",
  "type_version",
  "evidence_digest",
  "evidence_size",
  "evidence_filename",
  "evidence_content_type",
  "reported_by",
  "created_at",
] as const satisfies readonly (keyof NewAttestation)[];

export const COLUMNS = ["id", "public_id", ...FIELDS];

/** Columns whose size a client controls. */
const LARGE = [
  "target_artifacts_json",
  "git_commit_info_json",
  "repo_info_json",
  "annotations_json",
  "external_urls_json",
  "user_data_json",
  "payload_json",
] as const;

export const placed = (columns: string): string =>
  `SELECT ${columns}, f.name AS flow_name, t.name AS trail_name
   FROM attestations att JOIN flows f ON f.id = att.flow_id JOIN trails t ON t.id = att.trail_id`;

/**
 * The start of every query for responses: long texts are stubs (db/large-json.ts). The alias of the record is `att`.
 */
export const LISTED_ATTESTATIONS = placed(selectWithStubs("att", COLUMNS, LARGE));
