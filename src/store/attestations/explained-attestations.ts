/** Attestation records as explanations of verdicts show them. */
import { isListOf, isText, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import type { DbReader } from "../db/types.ts";

/** A record that an evaluation considered, as it was reported. All times are epoch seconds. */
export type ExplainedAttestation = {
  publicId: string;
  name: string;
  /** The stored type; `override` for an override. */
  type: string;
  isCompliant: boolean;
  /** Set for an override: the type of the record it overrides. */
  overriddenType: string | null;
  /** Set for a control decision: the version of the control at the time; null where the control did not exist. */
  controlVersion: number | null;
  description: string | null;
  /** Why it is not compliant; null when the stored reasons cannot be read. */
  reasons: string[] | null;
  reportedBy: string;
  createdAt: number;
  /** SHA-256 of the attached file. */
  evidenceDigest: string | null;
  evidenceFilename: string | null;
};

type RecordRow = {
  public_id: string;
  name: string;
  type: string;
  is_compliant: 0 | 1;
  overridden_type: string | null;
  control_version: number | null;
  description: string | null;
  reasons_json: string;
  reported_by: string;
  created_at: number;
  evidence_digest: string | null;
  evidence_filename: string | null;
};

export function explainedAttestationStore(db: DbReader) {
  const byPublicId = db.prepare<[string, number], RecordRow>(
    `SELECT public_id, name, type, is_compliant, overridden_type, control_version, description, reasons_json,
            reported_by, created_at, evidence_digest, evidence_filename
     FROM attestations WHERE public_id = ? AND organization_id = ?`,
  );
  return {
    /** The record with that public id in an organization; null when there is none. */
    find(publicId: string, organizationId: number): ExplainedAttestation | null {
      const row = byPublicId.get(publicId, organizationId);
      return row
        ? {
            publicId: row.public_id,
            name: row.name,
            type: row.type,
            isCompliant: row.is_compliant === 1,
            overriddenType: row.overridden_type,
            controlVersion: row.control_version,
            description: row.description,
            reasons: readStoredJsonOrNull(row.reasons_json, isListOf(isText)),
            reportedBy: row.reported_by,
            createdAt: row.created_at,
            evidenceDigest: row.evidence_digest,
            evidenceFilename: row.evidence_filename,
          }
        : null;
    },
  };
}
