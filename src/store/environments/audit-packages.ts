/**
 * The rows that belong into an audit package of a trail or an artifact. Read-only; lists are read row by row, because a
 * package may exceed the memory. Read one package in one transaction.
 */
import { PLACED_ARTIFACTS } from "../flows/artifacts.ts";
import type { PlacedArtifactRow } from "../flows/artifacts.ts";
import { PLACED_ATTESTATIONS } from "../attestations/attestations.ts";
import type { EnvironmentType } from "./environments.ts";
import { ATTESTED, forEachKind, parametersOf } from "./history/binder-scope.ts";
import type { BinderKey, BinderKind, BinderParameters } from "./history/binder-scope.ts";
import type { EvaluatedArtifactRow, SnapshotCause } from "./snapshots.ts";
import type { DbReader } from "../db/types.ts";
import type { PlacedAttestationRow } from "../attestations/attestation-rows.ts";

/** The subject of a package of records: a trail, or a fingerprint in a flow. */
export type RecordSubject =
  | { kind: "trail"; trailId: number }
  | { kind: "artifact"; flowId: number; fingerprint: string };
/** The subject of a package with a binder. `seesPeople`: whether it has changes of members and keys. */
export type BinderPackageSubject = { kind: "binder"; key: BinderKey; now: number; seesPeople: boolean };
export type PackageSubject = RecordSubject | BinderPackageSubject;

/** An attached file, once for each name it was uploaded under. `reported_at`: its first report, epoch seconds. */
type EvidenceRow = { digest: string; filename: string | null; size: number; reported_at: number };

/**
 * Columns of a record that responses do not show. `original_id`: public id of the record that an override was made for.
 * `deleted_*`: set for a file that was deleted under a retention rule (retention.ts).
 */
export type AttestationExtras = {
  type_version: number | null;
  original_id: string | null;
  deleted_digest: string | null;
  deleted_size: number | null;
  deleted_at: number | null;
};

/** An interval in which an artifact ran with one verdict. Times are epoch seconds of its first and last snapshot. */
export type RunRow = EvaluatedArtifactRow & {
  environment_name: string;
  environment_type: EnvironmentType;
  archived_at: number | null;
  started: number;
  cause: SnapshotCause;
  user_name: string;
  /** Time of the snapshot after the last one, which shows a change; null while the interval is open. */
  ended: number | null;
  /** Public id of the allowlist entry that allowed it despite its policies. */
  allowlist_public_id: string | null;
};

type PackagedAllowlistRow = {
  public_id: string;
  environment_name: string;
  fingerprint: string;
  artifact_name: string;
  description: string;
  user_name: string;
  timestamp: number;
  /** Absent from an entry that does not end. */
  expires_at?: number;
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
 * The attestations of an artifact. Those of its trails are included, because the artifact's verdict depends on them
 * (semantics 4.2).
 */
const OF_ARTIFACT = `SELECT b.attestation_id FROM artifacts a JOIN attestation_bindings b ON b.artifact_id = a.id
    WHERE a.flow_id = @flow AND a.fingerprint = @fingerprint
  UNION SELECT on_trail.id FROM artifacts a JOIN attestations on_trail ON on_trail.trail_id = a.trail_id
    WHERE a.flow_id = @flow AND a.fingerprint = @fingerprint AND on_trail.scope = 'trail'`;

type Key = { trail: number } | { flow: number; fingerprint: string } | BinderParameters;

export function auditPackageStore(db: DbReader) {
  // Sorts ids alone and then reads each record by its id: a sort of whole records would hold all of them.
  const ids = (sql: string) => db.prepare<[Key], number>(sql).pluck();
  const attestationIds = {
    trail: ids("SELECT id FROM attestations WHERE trail_id = @trail ORDER BY id"),
    artifact: ids(`SELECT att.id FROM attestations att WHERE att.id IN (${OF_ARTIFACT}) ORDER BY att.id`),
    ...forEachKind((kind) => ids(`SELECT att.id FROM attestations att WHERE ${ATTESTED[kind]} ORDER BY att.id`)),
  };
  const artifactIds = {
    trail: ids("SELECT id FROM artifacts WHERE trail_id = @trail ORDER BY id"),
    artifact: ids("SELECT id FROM artifacts WHERE flow_id = @flow AND fingerprint = @fingerprint ORDER BY id"),
  };
  const evaluated = (condition: string, digest: string, filename: string): string =>
    `SELECT rd.digest, '${filename}' AS filename, rd.size, re.requested_at AS reported_at
     FROM attestations att JOIN rego_evaluations re ON re.decision_attestation_id = att.id
       JOIN rego_documents rd ON rd.digest = re.${digest}
     WHERE ${condition}`;
  const evidenceWhere = (condition: string) =>
    db.prepare<[Key], EvidenceRow>(
      `SELECT att.evidence_digest AS digest, att.evidence_filename AS filename, att.evidence_size AS size,
              min(att.created_at) AS reported_at
       FROM attestations att WHERE ${condition} AND att.evidence_digest IS NOT NULL
       GROUP BY att.evidence_digest, att.evidence_filename
       UNION ALL ${evaluated(condition, "bundle_digest", "policy.tar.gz")}
       UNION ALL ${evaluated(condition, "input_digest", "input.json.gz")}
       ORDER BY digest, filename, reported_at`,
    );
  const evidence = {
    trail: evidenceWhere("att.trail_id = @trail"),
    artifact: evidenceWhere(`att.id IN (${OF_ARTIFACT})`),
    ...forEachKind((kind) => evidenceWhere(ATTESTED[kind])),
  };
  const fingerprints = db
    .prepare<[number], string>("SELECT DISTINCT fingerprint FROM artifacts WHERE trail_id = ? ORDER BY fingerprint")
    .pluck();
  const attestation = db.prepare<[number], PlacedAttestationRow>(`${PLACED_ATTESTATIONS} WHERE att.id = ?`);
  const artifact = db.prepare<[number], PlacedArtifactRow>(`${PLACED_ARTIFACTS} WHERE a.id = ?`);
  const extras = db.prepare<[number], AttestationExtras>(
    `SELECT att.type_version, original.public_id AS original_id, tomb.digest AS deleted_digest,
            tomb.size AS deleted_size, tomb.deleted_at
     FROM attestations att LEFT JOIN attestations original ON original.id = att.original_id
       LEFT JOIN tombstones tomb ON tomb.kind = 'evidence' AND tomb.public_id = att.public_id
     WHERE att.id = ?`,
  );
  // Starts from the artifacts of the trail, which are few: no index leads from an attestation to its artifacts.
  const boundFingerprints = db
    .prepare<[number, number], string>(
      `SELECT DISTINCT a.fingerprint
       FROM artifacts a CROSS JOIN attestation_bindings b ON b.artifact_id = a.id AND b.attestation_id = ?
       WHERE a.trail_id = ? ORDER BY a.fingerprint`,
    )
    .pluck();
  const template = db.prepare<[string], string>("SELECT content FROM templates WHERE public_id = ?").pluck();
  const runs = db.prepare<[number, string], RunRow>(
    `SELECT sa.id, sa.environment_id, sa.first_index, sa.last_index, sa.fingerprint, sa.name, sa.annotation, sa.was,
            sa.now, sa.compliant, sa.evaluation_id, sa.started_index, sa.instances_json, ev.allowlist_id, ev.facts_json,
            ev.verdicts_json, ev.reasons_json, env.name AS environment_name, env.type AS environment_type,
            env.archived_at, s.timestamp AS started, s.cause, s.user_name, following.timestamp AS ended,
            al.public_id AS allowlist_public_id
     FROM snapshot_artifacts sa CROSS JOIN evaluations ev ON ev.id = sa.evaluation_id
       CROSS JOIN environments env ON env.id = sa.environment_id
       CROSS JOIN snapshots s ON s.environment_id = sa.environment_id AND s.idx = sa.first_index
       LEFT JOIN snapshots following ON following.environment_id = sa.environment_id
         AND following.idx = sa.last_index + 1
       LEFT JOIN allowlist_entries al ON al.id = ev.allowlist_id
     WHERE sa.organization_id = ? AND sa.fingerprint = ? ORDER BY sa.environment_id, sa.first_index, sa.id`,
  );
  const allowlistEntries = db.prepare<[string, number], PackagedAllowlistRow & { expires_at: number | null }>(
    `SELECT al.public_id, env.name AS environment_name, al.fingerprint, al.artifact_name, al.description, al.user_name,
            al.timestamp, al.expires_at
     FROM environments env CROSS JOIN allowlist_entries al ON al.environment_id = env.id AND al.fingerprint = ?
     WHERE env.organization_id = ?`,
  );
  const policyVersion = db.prepare<[number], UsedPolicyRow>(
    `SELECT pv.id, pol.name, pv.version, pv.comment, pv.timestamp, pv.created_by, pv.policy_yaml
     FROM policy_versions pv JOIN policies pol ON pol.id = pv.policy_id WHERE pv.id = ?`,
  );
  const typeVersion = db.prepare<[number, string, number], UsedTypeRow>(
    `SELECT ct.name, ct.description, ct.archived_at, ctv.version, ctv.timestamp, ctv.created_by, ctv.comment,
            ctv.schema_json, ctv.content_type, ctv.rules_json, ctv.summary_json
     FROM custom_types ct JOIN custom_type_versions ctv ON ctv.type_id = ct.id
     WHERE ct.organization_id = ? AND ct.name = ? AND ctv.version = ?`,
  );
  const control = db.prepare<[number, string], PackagedControlRow>(
    "SELECT id, identifier, archived FROM controls WHERE organization_id = ? AND identifier = ?",
  );
  const controlVersions = db.prepare<[number], PackagedControlVersionRow>(
    `SELECT version, status, name, description, links_json, timestamp, created_by
     FROM control_versions WHERE control_id = ? ORDER BY version`,
  );

  /** Parameters, and the statements of which they are. */
  function keyOf(subject: PackageSubject): { key: Key; kind: RecordSubject["kind"] | BinderKind } {
    switch (subject.kind) {
      case "trail":
        return { key: { trail: subject.trailId }, kind: subject.kind };
      case "artifact":
        return { key: { flow: subject.flowId, fingerprint: subject.fingerprint }, kind: subject.kind };
      case "binder":
        return { key: parametersOf(subject.key), kind: subject.key.subject.kind };
    }
  }

  /** The rows with these ids, which exist as long as the transaction that read the ids is open. */
  function* iterate<Row>(rowIds: readonly number[], statement: { get(id: number): Row | undefined }): Generator<Row> {
    for (const id of rowIds) {
      const row = statement.get(id);
      if (!row) throw new Error(`record ${id} is gone`);
      yield row;
    }
  }

  return {
    /** Every record, oldest first. */
    listAttestations(subject: PackageSubject): Generator<PlacedAttestationRow> {
      const { key, kind } = keyOf(subject);
      return iterate(attestationIds[kind].all(key), attestation);
    },
    getExtras(id: number): AttestationExtras {
      const row = extras.get(id);
      if (!row) throw new Error(`attestation ${id} is gone`);
      return row;
    },
    /** Fingerprints of the trail's artifacts that a record is bound to. */
    listBoundFingerprints: (trailId: number, id: number): string[] => boundFingerprints.all(id, trailId),
    /** Every artifact record, oldest first. */
    listArtifacts: (subject: RecordSubject): Generator<PlacedArtifactRow> =>
      iterate(artifactIds[subject.kind].all(keyOf(subject).key), artifact),
    /** Every distinct fingerprint. */
    listFingerprints: (subject: RecordSubject): string[] =>
      subject.kind === "trail" ? fingerprints.all(subject.trailId) : [subject.fingerprint],
    /** Every attached file, and what the evaluations of decisions were made from, ordered by digest and name. */
    listEvidence(subject: PackageSubject): IterableIterator<EvidenceRow> {
      const { key, kind } = keyOf(subject);
      return evidence[kind].iterate(key);
    },
    /** The text of a template; null when none has that public id. */
    findTemplate: (publicId: string): string | null => template.get(publicId) ?? null,
    /** Where a fingerprint ran and runs, by environment, oldest interval first. */
    listRuns: (organizationId: number, fingerprint: string): IterableIterator<RunRow> =>
      runs.iterate(organizationId, fingerprint),
    /** Every allowlist entry for a fingerprint, oldest first. */
    listAllowlistEntries: (organizationId: number, fingerprint: string): PackagedAllowlistRow[] =>
      allowlistEntries
        .all(fingerprint, organizationId)
        .sort((a, b) => a.timestamp - b.timestamp || (a.public_id < b.public_id ? -1 : 1))
        .map(({ expires_at, ...entry }) => (expires_at === null ? entry : { ...entry, expires_at })),
    findPolicyVersion: (id: number): UsedPolicyRow | null => policyVersion.get(id) ?? null,
    findTypeVersion: (organizationId: number, name: string, version: number): UsedTypeRow | null =>
      typeVersion.get(organizationId, name, version) ?? null,
    /** A control with all its versions, oldest first; null when no control has that identifier. */
    findControl(
      organizationId: number,
      identifier: string,
    ): (PackagedControlRow & { versions: PackagedControlVersionRow[] }) | null {
      const row = control.get(organizationId, identifier);
      return row ? { ...row, versions: controlVersions.all(row.id) } : null;
    },
  };
}
