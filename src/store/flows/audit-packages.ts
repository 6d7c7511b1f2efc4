import { PLACED_ARTIFACTS } from "./artifacts.ts";
import type { PlacedArtifactRow } from "./artifacts.ts";
import { PLACED_ATTESTATIONS } from "../attestations/attestations.ts";
import type { EnvironmentType } from "../environments/environments.ts";
import type { EvaluatedArtifactRow, SnapshotCause } from "../environments/snapshots.ts";
import type { Db } from "../db/types.ts";
import type { PlacedAttestationRow } from "../attestations/attestation-rows.ts";

/** Whose records: a trail, or a fingerprint in a flow. */
export type PackageSubject =
  | { kind: "trail"; trailId: number }
  | { kind: "artifact"; flowId: number; fingerprint: string };

/** An attached file, once for each name that it was uploaded under. `reported_at`: its first report, epoch seconds. */
export type EvidenceRow = { digest: string; filename: string | null; size: number; reported_at: number };

/**
 * What a record has beside what answers show. `original_id`: public id of the record that an override was made over.
 */
/** `deleted_*`: of a file that was deleted under a rule of retention (retention.ts). */
export type AttestationExtras = {
  type_version: number | null;
  original_id: string | null;
  deleted_digest: string | null;
  deleted_size: number | null;
  deleted_at: number | null;
};

/**
 * An interval in which an artifact ran somewhere with one verdict. Times are epoch seconds of the first and the last
 * snapshot of it.
 */
export type RunRow = EvaluatedArtifactRow & {
  environment_name: string;
  environment_type: EnvironmentType;
  archived_at: number | null;
  started: number;
  cause: SnapshotCause;
  user_name: string;
  /** Of the snapshot after the last one, in which it was so no more; null while it is. */
  ended: number | null;
  /** Public id of the allowlist entry that made up for what policies miss. */
  allowlist_public_id: string | null;
};

export type PackagedAllowlistRow = {
  public_id: string;
  environment_name: string;
  fingerprint: string;
  artifact_name: string;
  description: string;
  user_name: string;
  timestamp: number;
};

export type UsedPolicyRow = {
  id: number;
  name: string;
  version: number;
  comment: string;
  timestamp: number;
  created_by: string;
  policy_yaml: string;
};

export type UsedTypeRow = {
  name: string;
  description: string | null;
  archived_at: number | null;
  version: number;
  timestamp: number;
  created_by: string;
  comment: string | null;
  schema_json: string | null;
  content_type: string;
  rules_json: string;
  summary_json: string | null;
};

export type PackagedControlRow = { id: number; identifier: string; archived: 0 | 1 };
export type PackagedControlVersionRow = {
  version: number;
  status: string;
  name: string;
  description: string | null;
  links_json: string;
  timestamp: number;
  created_by: string;
};

/**
 * Records of the trail itself come along with those of an artifact, because the artifact's verdict counts them
 * (semantics 4.2).
 */
const OF_ARTIFACT = `SELECT b.attestation_id FROM artifacts r JOIN attestation_bindings b ON b.artifact_id = r.id WHERE r.flow_id = @flow AND r.fingerprint = @fingerprint
  UNION SELECT y.id FROM artifacts r JOIN attestations y ON y.trail_id = r.trail_id
    WHERE r.flow_id = @flow AND r.fingerprint = @fingerprint AND y.scope = 'trail'`;

type Key = { trail: number } | { flow: number; fingerprint: string };

export function auditPackageStore(db: Db) {
  // Keys alone are sorted, and each record is then read by its key: a sort of whole records would hold all of them.
  const ids = (sql: string) => db.prepare<[Key], number>(sql).pluck();
  const attestationIds = {
    trail: ids("SELECT id FROM attestations WHERE trail_id = @trail ORDER BY id"),
    artifact: ids(`SELECT a.id FROM attestations a WHERE a.id IN (${OF_ARTIFACT}) ORDER BY a.id`),
  };
  const artifactIds = {
    trail: ids("SELECT id FROM artifacts WHERE trail_id = @trail ORDER BY id"),
    artifact: ids("SELECT id FROM artifacts WHERE flow_id = @flow AND fingerprint = @fingerprint ORDER BY id"),
  };
  const evidenceOf = (condition: string) =>
    db.prepare<[Key], EvidenceRow>(
      `SELECT a.evidence_digest AS digest, a.evidence_filename AS filename, a.evidence_size AS size, min(a.created_at) AS reported_at
       FROM attestations a WHERE ${condition} AND a.evidence_digest IS NOT NULL
       GROUP BY a.evidence_digest, a.evidence_filename ORDER BY a.evidence_digest, a.evidence_filename`,
    );
  const evidence = { trail: evidenceOf("a.trail_id = @trail"), artifact: evidenceOf(`a.id IN (${OF_ARTIFACT})`) };
  const fingerprints = db
    .prepare<[number], string>("SELECT DISTINCT fingerprint FROM artifacts WHERE trail_id = ? ORDER BY fingerprint")
    .pluck();
  const attestation = db.prepare<[number], PlacedAttestationRow>(`${PLACED_ATTESTATIONS} WHERE a.id = ?`);
  const artifact = db.prepare<[number], PlacedArtifactRow>(`${PLACED_ARTIFACTS} WHERE a.id = ?`);
  const extras = db.prepare<[number], AttestationExtras>(
    `SELECT a.type_version, o.public_id AS original_id, x.digest AS deleted_digest, x.size AS deleted_size, x.deleted_at
     FROM attestations a LEFT JOIN attestations o ON o.id = a.original_id LEFT JOIN tombstones x ON x.kind = 'evidence' AND x.public_id = a.public_id WHERE a.id = ?`,
  );
  // From the artifacts of the trail, which are few, because nothing leads from a record to its artifacts.
  const belongsTo = db
    .prepare<[number, number], string>(
      `SELECT DISTINCT r.fingerprint FROM artifacts r CROSS JOIN attestation_bindings b ON b.artifact_id = r.id AND b.attestation_id = ?
       WHERE r.trail_id = ? ORDER BY r.fingerprint`,
    )
    .pluck();
  const template = db.prepare<[string], string>("SELECT content FROM templates WHERE public_id = ?").pluck();
  const runs = db.prepare<[number, string], RunRow>(
    `SELECT x.id, x.environment_id, x.first_index, x.last_index, x.fingerprint, x.name, x.annotation, x.was, x.now, x.compliant, x.evaluation_id, x.started_index, x.instances_json,
       e.allowlist_id, e.facts_json, e.verdicts_json, e.reasons_json, n.name AS environment_name, n.type AS environment_type, n.archived_at,
       s.timestamp AS started, s.cause, s.user_name, l.timestamp AS ended, w.public_id AS allowlist_public_id
     FROM snapshot_artifacts x CROSS JOIN evaluations e ON e.id = x.evaluation_id CROSS JOIN environments n ON n.id = x.environment_id
       CROSS JOIN snapshots s ON s.environment_id = x.environment_id AND s.idx = x.first_index
       LEFT JOIN snapshots l ON l.environment_id = x.environment_id AND l.idx = x.last_index + 1
       LEFT JOIN allowlist_entries w ON w.id = e.allowlist_id
     WHERE x.organization_id = ? AND x.fingerprint = ? ORDER BY x.environment_id, x.first_index, x.id`,
  );
  const allowed = db.prepare<[string, number], PackagedAllowlistRow>(
    `SELECT a.public_id, n.name AS environment_name, a.fingerprint, a.artifact_name, a.description, a.user_name, a.timestamp
     FROM environments n CROSS JOIN allowlist_entries a ON a.environment_id = n.id AND a.fingerprint = ?
     WHERE n.organization_id = ?`,
  );
  const policyVersion = db.prepare<[number], UsedPolicyRow>(
    `SELECT v.id, p.name, v.version, v.comment, v.timestamp, v.created_by, v.policy_yaml FROM policy_versions v JOIN policies p ON p.id = v.policy_id WHERE v.id = ?`,
  );
  const typeVersion = db.prepare<[number, string, number], UsedTypeRow>(
    `SELECT t.name, t.description, t.archived_at, v.version, v.timestamp, v.created_by, v.comment, v.schema_json, v.content_type, v.rules_json, v.summary_json
     FROM custom_types t JOIN custom_type_versions v ON v.type_id = t.id WHERE t.organization_id = ? AND t.name = ? AND v.version = ?`,
  );
  const control = db.prepare<[number, string], PackagedControlRow>(
    "SELECT id, identifier, archived FROM controls WHERE organization_id = ? AND identifier = ?",
  );
  const controlVersions = db.prepare<[number], PackagedControlVersionRow>(
    "SELECT version, status, name, description, links_json, timestamp, created_by FROM control_versions WHERE control_id = ? ORDER BY version",
  );

  const keyOf = (subject: PackageSubject): Key =>
    subject.kind === "trail" ? { trail: subject.trailId } : { flow: subject.flowId, fingerprint: subject.fingerprint };

  /** The rows with these keys, which are there as long as the transaction is the one that gave the keys. */
  function* each<Row>(found: readonly number[], read: { get(id: number): Row | undefined }): Generator<Row> {
    for (const id of found) {
      const row = read.get(id);
      if (!row) throw new Error(`record ${id} is gone`);
      yield row;
    }
  }

  return {
    /** Every record, oldest first. */
    listAttestations: (subject: PackageSubject): Generator<PlacedAttestationRow> =>
      each(attestationIds[subject.kind].all(keyOf(subject)), attestation),
    getExtras(id: number): AttestationExtras {
      const row = extras.get(id);
      if (!row) throw new Error(`attestation ${id} is gone`);
      return row;
    },
    /** Fingerprints of the artifacts that a record of the trail belongs to. */
    listBoundFingerprints: (trailId: number, id: number): string[] => belongsTo.all(id, trailId),
    /** Every artifact record, oldest first. */
    listArtifacts: (subject: PackageSubject): Generator<PlacedArtifactRow> =>
      each(artifactIds[subject.kind].all(keyOf(subject)), artifact),
    /** Every distinct fingerprint. */
    listFingerprints: (subject: PackageSubject): string[] =>
      subject.kind === "trail" ? fingerprints.all(subject.trailId) : [subject.fingerprint],
    /** Every attached file, by digest and name. */
    listEvidence: (subject: PackageSubject): IterableIterator<EvidenceRow> =>
      evidence[subject.kind].iterate(keyOf(subject)),
    /** The text of a template, null when there is none of that public id. */
    findTemplate: (publicId: string): string | null => template.get(publicId) ?? null,
    /** Where a fingerprint ran and runs, by environment, the oldest interval first. */
    listRuns: (organizationId: number, fingerprint: string): IterableIterator<RunRow> =>
      runs.iterate(organizationId, fingerprint),
    /** Every allowlist entry for a fingerprint, oldest first. */
    listAllowlistEntries: (organizationId: number, fingerprint: string): PackagedAllowlistRow[] =>
      allowed
        .all(fingerprint, organizationId)
        .sort((a, b) => a.timestamp - b.timestamp || (a.public_id < b.public_id ? -1 : 1)),
    findPolicyVersion: (id: number): UsedPolicyRow | null => policyVersion.get(id) ?? null,
    findTypeVersion: (organizationId: number, name: string, version: number): UsedTypeRow | null =>
      typeVersion.get(organizationId, name, version) ?? null,
    /** A control with all its versions, oldest first; null for an identifier that no control has. */
    findControl(
      organizationId: number,
      identifier: string,
    ): (PackagedControlRow & { versions: PackagedControlVersionRow[] }) | null {
      const row = control.get(organizationId, identifier);
      return row ? { ...row, versions: controlVersions.all(row.id) } : null;
    },
  };
}
