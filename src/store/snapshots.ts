/**
 * Snapshots and what ran in them, read. They are written by recording.ts only.
 *
 * What ran is kept as intervals (schema.sql, snapshot_artifacts): snapshot N of an environment holds the rows whose interval
 * covers N. In its first snapshot a row has its own annotation, in the later ones it is unchanged.
 */
import type { Annotation } from "../domain/snapshot/diff.ts";
import type { Db } from "./database.ts";

/** The end of an interval that holds until now. */
export const OPEN = Number.MAX_SAFE_INTEGER;

export type SnapshotCause = "report" | "policies" | "policy_version" | "allowlist" | "member";

export type SnapshotRow = {
  environment_id: number;
  /** From 1. */
  idx: number;
  /** Epoch seconds. */
  timestamp: number;
  cause: SnapshotCause;
  compliant: 0 | 1 | null;
  compliant_count: number;
  non_compliant_count: number;
  unknown_count: number;
  user_id: string;
  user_name: string;
  policy_versions_json: string;
  /** Of a logical environment: the member whose snapshot caused this one, and the index of that. */
  member_id: number | null;
  member_index: number | null;
};

/** Values of old data beside those that this program makes. */
export type StoredAnnotation = Annotation | "started" | "changed" | "scaled";

export type SnapshotArtifactRow = {
  id: number;
  environment_id: number;
  first_index: number;
  /** OPEN while it holds. */
  last_index: number;
  /** "" where the reporter could not resolve the image. */
  fingerprint: string;
  name: string;
  /** How it came to be so in `first_index`, with the instances before and after. */
  annotation: StoredAnnotation;
  was: number;
  now: number;
  compliant: 0 | 1 | null;
  evaluation_id: number;
  /** The snapshot with which this artifact started. */
  started_index: number;
  /** See domain/snapshot/normalize.ts, Instances. */
  instances_json: string;
};

/** With its evaluation, as a snapshot shows it; see domain/compliance/environment.ts for the JSON. */
export type EvaluatedArtifactRow = SnapshotArtifactRow & { allowlist_id: number | null; facts_json: string; verdicts_json: string; reasons_json: string };

const SNAPSHOT_COLUMNS =
  "environment_id, idx, timestamp, cause, compliant, compliant_count, non_compliant_count, unknown_count, user_id, user_name, policy_versions_json, member_id, member_index";
const ARTIFACT_COLUMNS = [
  "id", "environment_id", "first_index", "last_index", "fingerprint", "name", "annotation", "was", "now", "compliant", "evaluation_id", "started_index", "instances_json",
]
  .map((name) => `a.${name}`)
  .join(", ");

export function snapshotStore(db: Db) {
  const byIndex = db.prepare<[number, number], SnapshotRow>(`SELECT ${SNAPSHOT_COLUMNS} FROM snapshots WHERE environment_id = ? AND idx = ?`);
  const artifactsOf = db.prepare<{ environment: number; index: number }, SnapshotArtifactRow>(
    `SELECT ${ARTIFACT_COLUMNS} FROM snapshot_artifacts a
     WHERE a.environment_id = @environment AND a.last_index >= @index AND a.first_index <= @index ORDER BY a.name, a.id`,
  );
  const evaluatedOf = db.prepare<{ environment: number; index: number }, EvaluatedArtifactRow>(
    `SELECT ${ARTIFACT_COLUMNS}, e.allowlist_id, e.facts_json, e.verdicts_json, e.reasons_json
     FROM snapshot_artifacts a JOIN evaluations e ON e.id = a.evaluation_id
     WHERE a.environment_id = @environment AND a.last_index >= @index AND a.first_index <= @index ORDER BY a.name, a.id`,
  );

  const sizeOf = db.prepare<[number], { size: number }>(
    `SELECT s.compliant_count + s.non_compliant_count + s.unknown_count AS size
     FROM environments e JOIN snapshots s ON s.environment_id = e.id AND s.idx = e.snapshot_count WHERE e.id = ?`,
  );

  return {
    /** How many artifacts run in the latest snapshot. */
    size: (environmentId: number): number => sizeOf.get(environmentId)?.size ?? 0,
    /** One snapshot, null when there is none of that index. */
    find: (environmentId: number, index: number): SnapshotRow | null => byIndex.get(environmentId, index) ?? null,
    /** What a snapshot of a physical environment shows, what exited in it included, by name. */
    artifacts: (environmentId: number, index: number): SnapshotArtifactRow[] => artifactsOf.all({ environment: environmentId, index }),
    /** As artifacts, with the evaluations. */
    evaluated: (environmentId: number, index: number): EvaluatedArtifactRow[] => evaluatedOf.all({ environment: environmentId, index }),
  };
}
