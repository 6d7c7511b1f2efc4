/** Columns and rows of attestation records, and the select lists that queries share. */
import { flag, namesOf, number, orNull, string, stringOf } from "../db/columns.ts";
import type { RowOf } from "../db/columns.ts";
import { selectWithStubs } from "../db/large-json.ts";

const FIELDS = {
  organization_id: number,
  flow_id: number,
  trail_id: number,
  scope: stringOf<"trail" | "artifact">(),
  name: string,
  type: string,
  is_compliant: flag,
  artifact_fingerprint: orNull(string),
  target_artifacts_json: orNull(string),
  git_commit: orNull(string),
  git_commit_info_json: orNull(string),
  repo_info_json: orNull(string),
  origin_url: orNull(string),
  description: orNull(string),
  annotations_json: string,
  external_urls_json: orNull(string),
  user_data_json: orNull(string),
  payload_json: string,
  reasons_json: string,
  overridden_type: orNull(string),
  /** Set for an override: the record it overrode when it was reported. What counts now: attestations.ts. */
  original_id: orNull(number),
  control: orNull(string),
  control_version: orNull(number),
  /** Set for a custom type: the number of the version that evaluated it. */
  type_version: orNull(number),
  evidence_digest: orNull(string),
  evidence_size: orNull(number),
  evidence_filename: orNull(string),
  evidence_content_type: orNull(string),
  reported_by: string,
  created_at: number,
};
export type NewAttestation = RowOf<typeof FIELDS>;
export const FIELD_NAMES = namesOf(FIELDS);

export const COLUMNS = { id: number, public_id: string, ...FIELDS };
export type AttestationRow = RowOf<typeof COLUMNS>;
/** A record with the names of its flow and trail, as responses show it. */
export type PlacedAttestationRow = AttestationRow & { flow_name: string; trail_name: string };

/** Columns whose size a client controls. */
const LARGE = [
  "target_artifacts_json",
  "git_commit_info_json",
  "repo_info_json",
  "annotations_json",
  "external_urls_json",
  "user_data_json",
  "payload_json",
] satisfies (keyof AttestationRow)[];

export const placed = (columns: string): string =>
  `SELECT ${columns}, f.name AS flow_name, t.name AS trail_name
   FROM attestations att JOIN flows f ON f.id = att.flow_id JOIN trails t ON t.id = att.trail_id`;

/**
 * The start of every query for responses: long texts are stubs (db/large-json.ts). The alias of the record is `att`.
 */
export const LISTED_ATTESTATIONS = placed(selectWithStubs("att", COLUMNS, LARGE));
