/**
 * The records of an audit binder: decisions, files, allowlist entries and trails. Lists are read by their keys first,
 * because a binder may exceed the memory. Read-only; read one binder in one transaction.
 */
import { placed } from "../../attestations/attestation-rows.ts";
import type { PlacedAttestationRow } from "../../attestations/attestation-rows.ts";
import type { DbReader } from "../../db/types.ts";
import { ATTESTED, forEachKind, parametersOf, requireRow } from "./binder-scope.ts";
import type { BinderKey, BinderKind, BinderParameters } from "./binder-scope.ts";
import { idsByTime } from "./ids-by-time.ts";

export type BinderAllowanceRow = {
  id: string;
  environment_id: number;
  environment_name: string;
  fingerprint: string;
  artifact_name: string;
  description: string;
  user_name: string;
  timestamp: number;
  expires_at: number | null;
  /** When a later entry for the artifact took its place. */
  replaced_at: number | null;
};

/** A file of an attestation: the attached one, or the policy or the input of the evaluation behind a decision. */
export type FileRow = {
  attestation_id: string;
  attestation_name: string;
  flow_name: string;
  trail_name: string;
  filename: string | null;
  digest: string | null;
  size: number | null;
  reported_at: number;
  /** Set for a file that was deleted under a retention rule. */
  deleted_at: number | null;
};

export type DecisionRow = Pick<
  PlacedAttestationRow,
  | "id"
  | "public_id"
  | "trail_id"
  | "scope"
  | "name"
  | "is_compliant"
  | "artifact_fingerprint"
  | "git_commit"
  | "description"
  | "overridden_type"
  | "control"
  | "control_version"
  | "evidence_digest"
  | "reported_by"
  | "created_at"
  | "flow_name"
  | "trail_name"
>;

export type BinderTrailRow = {
  id: number;
  name: string;
  created_at: number;
  last_modified_at: number;
  state: "COMPLIANT" | "NON-COMPLIANT" | "INCOMPLETE";
  reasons_json: string;
  artifacts: number;
  attestations: number;
};

/** The attached one, and two of an evaluation. One number names a record and one of them: there may be a million. */
const FILES_PER_RECORD = 3;

export function binderRecordStore(db: DbReader) {
  const allowlistIds = idsByTime(db, "allowlist_entries");
  const replacedEntry = `(SELECT newer.timestamp FROM allowlist_entries newer
     WHERE newer.environment_id = al.environment_id AND newer.fingerprint = al.fingerprint AND newer.id > al.id
     ORDER BY newer.id LIMIT 1)`;
  const allowances = (ofFlow: string) =>
    db
      .prepare<[BinderParameters & { last: number }], number>(
        `SELECT al.id FROM allowlist_entries al
         WHERE al.organization_id = @organization AND al.id <= @last AND al.timestamp <= @to
           AND al.environment_id IN (SELECT value FROM json_each(@environments))
           AND coalesce(al.expires_at, @from) >= @from AND coalesce(${replacedEntry}, @from) >= @from ${ofFlow}
         ORDER BY al.id DESC`,
      )
      .pluck();
  const allowanceIds = allowances("");
  const allowanceIdsOfFlow = allowances(
    "AND EXISTS (SELECT 1 FROM artifacts a WHERE a.flow_id = @id AND a.fingerprint = al.fingerprint)",
  );
  const allowance = db.prepare<[number], BinderAllowanceRow>(
    `SELECT al.public_id AS id, al.environment_id, env.name AS environment_name, al.fingerprint, al.artifact_name,
            al.description, al.user_name, al.timestamp, al.expires_at, ${replacedEntry} AS replaced_at
     FROM allowlist_entries al CROSS JOIN environments env ON env.id = al.environment_id WHERE al.id = ?`,
  );
  const decisionIds = forEachKind((kind) =>
    db
      .prepare<[BinderParameters], number>(
        `SELECT att.id FROM attestations att WHERE ${ATTESTED[kind]} AND att.control IS NOT NULL ORDER BY att.id DESC`,
      )
      .pluck(),
  );
  const decisionCounts = forEachKind((kind) =>
    db.prepare<[BinderParameters], { total: number; compliant: number }>(
      `SELECT count(*) AS total, coalesce(sum(att.is_compliant), 0) AS compliant
       FROM attestations att WHERE ${ATTESTED[kind]} AND att.control IS NOT NULL`,
    ),
  );
  const decision = db.prepare<[number], DecisionRow>(
    `${placed(
      `att.id, att.public_id, att.trail_id, att.scope, att.name, att.is_compliant, att.artifact_fingerprint,
       att.git_commit, att.description, att.overridden_type, att.control, att.control_version, att.evidence_digest,
       att.reported_by, att.created_at`,
    )} WHERE att.id = ?`,
  );
  const evaluated = (kind: BinderKind, part: 1 | 2, digest: string): string =>
    `SELECT att.id, ${part} AS part, rd.size
     FROM attestations att CROSS JOIN rego_evaluations re ON re.decision_attestation_id = att.id
       CROSS JOIN rego_documents rd ON rd.digest = re.${digest} WHERE ${ATTESTED[kind]}`;
  // A file that retention deleted keeps its name.
  const files = (kind: BinderKind): string =>
    `SELECT att.id, 0 AS part, att.evidence_size AS size FROM attestations att
     WHERE ${ATTESTED[kind]} AND (att.evidence_digest IS NOT NULL OR att.evidence_filename IS NOT NULL)
     UNION ALL ${evaluated(kind, 1, "bundle_digest")} UNION ALL ${evaluated(kind, 2, "input_digest")}`;
  const fileKeys = forEachKind((kind) =>
    db
      .prepare<[BinderParameters], number>(
        `SELECT id * ${FILES_PER_RECORD} + part AS file FROM (${files(kind)}) AS found ORDER BY file`,
      )
      .pluck(),
  );
  const fileCounts = forEachKind((kind) =>
    db.prepare<[BinderParameters], { total: number; bytes: number }>(
      `SELECT count(*) AS total, coalesce(sum(size), 0) AS bytes FROM (${files(kind)}) AS found`,
    ),
  );
  const placedFile = (columns: string, source: string) =>
    db.prepare<[number], FileRow>(
      `SELECT att.public_id AS attestation_id, att.name AS attestation_name, f.name AS flow_name,
              t.name AS trail_name, ${columns}
       FROM attestations att CROSS JOIN flows f ON f.id = att.flow_id CROSS JOIN trails t ON t.id = att.trail_id
         ${source} WHERE att.id = ?`,
    );
  const evaluationFile = (name: string, digest: string) =>
    placedFile(
      `'${name}' AS filename, rd.digest, rd.size, re.requested_at AS reported_at, NULL AS deleted_at`,
      `CROSS JOIN rego_evaluations re ON re.decision_attestation_id = att.id
       CROSS JOIN rego_documents rd ON rd.digest = re.${digest}`,
    );
  const filesByPart = [
    placedFile(
      `att.evidence_filename AS filename, coalesce(att.evidence_digest, tomb.digest) AS digest,
       coalesce(att.evidence_size, tomb.size) AS size, att.created_at AS reported_at, tomb.deleted_at`,
      "LEFT JOIN tombstones tomb ON tomb.kind = 'evidence' AND tomb.public_id = att.public_id",
    ),
    evaluationFile("policy.tar.gz", "bundle_digest"),
    evaluationFile("input.json.gz", "input_digest"),
  ] as const;
  const trailIds = (condition: string) =>
    db
      .prepare<[BinderParameters], number>(
        `SELECT t.id FROM trails t
         WHERE t.flow_id = @id AND t.created_at >= @from AND t.created_at <= @to ${condition} ORDER BY t.id DESC`,
      )
      .pluck();
  const [allTrails, unfinishedTrails] = [trailIds(""), trailIds("AND t.state <> 'COMPLIANT'")];
  const trail = db.prepare<[number], BinderTrailRow>(
    `SELECT t.id, t.name, t.created_at, t.last_modified_at, t.state, t.reasons_json,
       (SELECT count(*) FROM artifacts a WHERE a.trail_id = t.id) AS artifacts,
       (SELECT count(*) FROM attestations att WHERE att.trail_id = t.id) AS attestations
     FROM trails t WHERE t.id = ?`,
  );

  return {
    /** Ids of allowlist entries that counted at some time of the period, newest first. */
    listAllowanceIds(key: BinderKey): number[] {
      const { last } = allowlistIds.findRange(key.organizationId, key);
      const statement = key.subject.kind === "flow" ? allowanceIdsOfFlow : allowanceIds;
      return statement.all({ ...parametersOf(key), last });
    },
    getAllowance: (id: number): BinderAllowanceRow => requireRow(allowance.get(id), `allowlist entry ${id}`),
    /** Ids of the decisions, newest first. */
    listDecisionIds: (key: BinderKey): number[] => decisionIds[key.subject.kind].all(parametersOf(key)),
    /** A decision by its id; a long description is whole. */
    getDecision: (id: number): DecisionRow => requireRow(decision.get(id), `attestation ${id}`),
    countDecisions: (key: BinderKey): { total: number; compliant: number } =>
      requireRow(decisionCounts[key.subject.kind].get(parametersOf(key)), "a count"),
    /** Every attached file, and what the evaluations of decisions were made from, oldest report first. */
    listFileKeys: (key: BinderKey): number[] => fileKeys[key.subject.kind].all(parametersOf(key)),
    countFiles: (key: BinderKey): { total: number; bytes: number } =>
      requireRow(fileCounts[key.subject.kind].get(parametersOf(key)), "a count"),
    /** A file of `listFileKeys`. */
    getFile: (file: number): FileRow =>
      requireRow(
        filesByPart[file % FILES_PER_RECORD]?.get(Math.floor(file / FILES_PER_RECORD)),
        `the file of attestation ${Math.floor(file / FILES_PER_RECORD)}`,
      ),
    /** The trails of the flow that began in the period, newest first. */
    listTrailIds: (key: BinderKey): number[] => allTrails.all(parametersOf(key)),
    /** Those of them that are not compliant. */
    listUnfinishedTrailIds: (key: BinderKey): number[] => unfinishedTrails.all(parametersOf(key)),
    getTrail: (id: number): BinderTrailRow => requireRow(trail.get(id), `trail ${id}`),
  };
}
