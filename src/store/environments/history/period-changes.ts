/**
 * What an organization changed in a period, read by time: snapshots with what they changed, policies, allowlist
 * entries. What the shown changes say besides is read on its own. Times in epoch seconds, both bounds inclusive.
 * Read-only.
 */
import type { EnvironmentType } from "../environments.ts";
import { NAME_EVENTS, TELLS_OF_CHANGE } from "./audited-changes.ts";
import { idsByTime } from "./ids-by-time.ts";
import { ROW_FACTOR, ROW_MARKS } from "../../../domain/snapshot/period-changes.ts";
import { AUDIT_COLUMNS } from "../../db/audit-log.ts";
import type { AuditRow } from "../../db/audit-log.ts";
import { columnOrStub } from "../../db/large-json.ts";
import type { DbReader } from "../../db/types.ts";

/** An active environment. */
export type ChangedEnvironmentRow = {
  id: number;
  public_id: string;
  name: string;
  type: EnvironmentType;
  /** Epoch seconds. */
  created_at: number;
  /** Also the index of the latest snapshot. */
  snapshot_count: number;
  last_reported_at: number | null;
};

/** A snapshot. `previous_versions_json`: the policy versions of the one before, null for the first one. */
export type MomentRow = {
  environment_id: number;
  idx: number;
  timestamp: number;
  cause: string;
  compliant: 0 | 1 | null;
  user_name: string;
  policy_versions_json: string;
  previous_versions_json: string | null;
};

/** A row that a snapshot added. `before`: the verdict of the artifact in the snapshot before; null also without one. */
type ChangedArtifactRow = {
  id: number;
  name: string;
  fingerprint: string;
  annotation: string;
  was: number;
  now: number;
  compliant: 0 | 1 | null;
  before: 0 | 1 | null;
};

/** What a start took the place of. `id`: of the start; `compliant`: of what ran before, null for none. */
type ReplacementRow = { id: number; fingerprint: string; name: string; compliant: 0 | 1 | null };

export type PolicyChangeRow = {
  id: number;
  policy_id: string;
  policy: string;
  type: string;
  timestamp: number;
  user_name: string;
  /** Of a new version. */
  version: number | null;
  comment: string | null;
};

export type AllowedRow = {
  id: string;
  environment_id: number;
  fingerprint: string;
  artifact_name: string;
  description: string;
  user_name: string;
  timestamp: number;
  expires_at: number | null;
};

/** The record of an artifact in a flow. */
type ChangedBuildRow = {
  id: number;
  public_id: string;
  trail_id: number | null;
  repo_url: string | null;
  build_url: string;
  created_by: string;
};

/** The payload of a pull request attestation; a long one is a stub (db/large-json.ts). */
type PullRequestRow = { trail_id: number; payload_json: string };

type Period = { from: number; to: number };

/** Attestations of one trail that are searched for pull requests. */
const MAX_ATTESTATIONS = 3;

/** The marks of a verdict, in SQL. */
const VERDICT_MARKS = `CASE sa.compliant
  WHEN 1 THEN ${ROW_MARKS.compliant} WHEN 0 THEN ${ROW_MARKS.nonCompliant} ELSE 0 END`;
const SCALED = `(sa.was <> sa.now) * ${ROW_MARKS.scaled}`;
const EVENTS = `snapshot_artifacts sa WHERE sa.environment_id = ? AND sa.first_index = ?
       AND sa.annotation <> 'unchanged'`;

/** What snapshots changed. */
function prepareMoments(db: DbReader) {
  const events = db
    .prepare<[number, number, number], number>(
      `SELECT sa.id * ${ROW_FACTOR} + ${VERDICT_MARKS} + CASE
         WHEN sa.annotation = 'exited' THEN ${ROW_MARKS.exited}
         WHEN sa.annotation LIKE 'started%' THEN ${ROW_MARKS.started}
         WHEN sa.annotation LIKE 'became-%' THEN ${ROW_MARKS.turned} + ${SCALED}
         WHEN sa.annotation = 'updated-provenance' THEN ${ROW_MARKS.provenance} + ${SCALED}
         ELSE ${SCALED} END
       FROM ${EVENTS} ORDER BY sa.id LIMIT ?`,
    )
    .pluck();
  const eventCount = db
    .prepare<[number, number, number], number>(`SELECT count(*) FROM (SELECT 1 FROM ${EVENTS} LIMIT ?) AS found`)
    .pluck();
  // Rows that do not count as events of their environment: instances that changed along with something else, and
  // verdicts that became unknown. They continue a row that ended in the snapshot before. Looking at each row that ended
  // takes longer than the events do, so it is done only where there may be such rows.
  const mayHaveOthers = db.prepare<[number, number], object>(
    `SELECT 1 FROM snapshot_artifacts INDEXED BY snapshot_artifacts_others
     WHERE environment_id = ? AND first_index = ? AND annotation = 'unchanged' AND (was <> now OR compliant IS NULL)
     LIMIT 1`,
  );
  const others = db
    .prepare<[{ environment: number; index: number; limit: number }], number>(
      `SELECT sa.id * ${ROW_FACTOR} + ${VERDICT_MARKS} + ${SCALED}
         + (sa.compliant IS NOT prev.compliant) * ${ROW_MARKS.turned}
       FROM snapshot_artifacts prev CROSS JOIN snapshot_artifacts sa ON sa.organization_id = prev.organization_id
         AND sa.fingerprint = prev.fingerprint AND sa.environment_id = prev.environment_id
         AND sa.first_index = @index AND sa.name = prev.name
       WHERE prev.environment_id = @environment AND prev.last_index = @index - 1 AND sa.annotation = 'unchanged'
         AND (sa.was <> sa.now OR sa.compliant IS NOT prev.compliant)
       ORDER BY sa.id LIMIT @limit`,
    )
    .pluck();
  const turnover = db.prepare<[number, number, number], { id: number; fingerprint: string }>(
    `SELECT sa.id, sa.fingerprint FROM ${EVENTS} AND (sa.annotation = 'exited' OR sa.annotation LIKE 'started%')
     ORDER BY sa.id LIMIT ?`,
  );
  // What ran before an artifact became something else ended in the snapshot before.
  const changed = db.prepare<[string], ChangedArtifactRow>(
    `SELECT sa.id, sa.name, sa.fingerprint, sa.annotation, sa.was, sa.now, sa.compliant,
            CASE WHEN sa.annotation LIKE 'started%' THEN NULL ELSE (
              SELECT prev.compliant FROM snapshot_artifacts prev
              WHERE prev.organization_id = sa.organization_id AND prev.fingerprint = sa.fingerprint
                AND prev.environment_id = sa.environment_id AND prev.first_index < sa.first_index
                AND prev.name = sa.name
              ORDER BY prev.first_index DESC LIMIT 1) END AS before
     FROM json_each(?) wanted CROSS JOIN snapshot_artifacts sa ON sa.id = wanted.value`,
  );
  const replacements = db.prepare<[number, number, number], ReplacementRow>(
    `SELECT sa.id, prev.fingerprint, prev.artifact_name AS name, (
       SELECT ran.compliant FROM snapshot_artifacts ran
       WHERE ran.organization_id = dep.organization_id AND ran.fingerprint = prev.fingerprint
         AND ran.environment_id = dep.environment_id AND ran.first_index < dep.snapshot_index AND ran.now > 0
       ORDER BY ran.first_index DESC LIMIT 1) AS compliant
     FROM deployments dep CROSS JOIN deployments prev ON prev.id = dep.replaced_id
       CROSS JOIN snapshot_artifacts sa ON sa.organization_id = dep.organization_id
         AND sa.fingerprint = dep.fingerprint AND sa.environment_id = dep.environment_id
         AND sa.first_index = dep.snapshot_index AND sa.name = dep.artifact_name AND sa.annotation LIKE 'started%'
     WHERE dep.environment_id = ? AND dep.ordinal = 0 AND dep.deployed_at = ? AND dep.snapshot_index = ?
       AND prev.fingerprint <> dep.fingerprint
     ORDER BY dep.id`,
  );
  return { events, eventCount, mayHaveOthers, others, turnover, changed, replacements };
}

export function periodChangeStore(db: DbReader) {
  const environments = db.prepare<[number], ChangedEnvironmentRow>(
    `SELECT id, public_id, name, type, created_at, snapshot_count, last_reported_at FROM environments
     WHERE organization_id = ? AND archived_at IS NULL ORDER BY name`,
  );
  // Only keys are sorted.
  const listing = (condition: string) =>
    db.prepare<[Period & { environments: string; limit: number }], MomentRow>(
      `SELECT s.environment_id, s.idx, s.timestamp, s.cause, s.compliant, s.user_name, s.policy_versions_json,
              prev.policy_versions_json AS previous_versions_json
       FROM (SELECT other.environment_id, other.idx, other.timestamp
             FROM json_each(@environments) wanted CROSS JOIN snapshots other
               ON other.environment_id = wanted.value AND other.timestamp >= @from AND other.timestamp <= @to
             ${condition}
             ORDER BY other.timestamp DESC, other.environment_id, other.idx DESC LIMIT @limit) AS found
         CROSS JOIN snapshots s ON s.environment_id = found.environment_id AND s.idx = found.idx
         LEFT JOIN snapshots prev ON prev.environment_id = s.environment_id AND prev.idx = s.idx - 1
       ORDER BY found.timestamp DESC, found.environment_id, found.idx DESC`,
    );
  const moments = listing("");
  const ruleMoments = listing("WHERE other.cause IN ('policies', 'policy_version')");
  const { events, eventCount, mayHaveOthers, others, turnover, changed, replacements } = prepareMoments(db);
  const verdictAt = db
    .prepare<[number, number], 0 | 1 | null>(
      `SELECT compliant FROM snapshots WHERE environment_id = ? AND timestamp <= ?
       ORDER BY timestamp DESC, idx DESC LIMIT 1`,
    )
    .pluck();
  const lastVerdict = db
    .prepare<[number, number], 0 | 1>(
      `SELECT compliant FROM snapshots WHERE environment_id = ? AND idx < ? AND compliant IS NOT NULL
       ORDER BY idx DESC LIMIT 1`,
    )
    .pluck();
  const earlierRow = db
    .prepare<[number], number>(
      `SELECT prev.id FROM snapshot_artifacts sa CROSS JOIN snapshot_artifacts prev
         ON prev.organization_id = sa.organization_id AND prev.fingerprint = sa.fingerprint
         AND prev.environment_id = sa.environment_id AND prev.first_index < sa.first_index AND prev.name = sa.name
       WHERE sa.id = ? ORDER BY prev.first_index DESC LIMIT 1`,
    )
    .pluck();
  const policyChanges = db.prepare<[Period & { organization: number; limit: number }], PolicyChangeRow>(
    `SELECT pe.id, pol.public_id AS policy_id, pol.name AS policy, pe.type, pe.timestamp, pe.user_name, pv.version,
            pv.comment
     FROM policies pol CROSS JOIN policy_events pe ON pe.policy_id = pol.id
       LEFT JOIN policy_versions pv ON pe.type = 'new_version' AND pv.policy_id = pol.id
         AND pv.version = CASE WHEN json_valid(pe.data_json) THEN pe.data_json ->> 'version' END
     WHERE pol.organization_id = @organization AND pe.timestamp >= @from AND pe.timestamp <= @to
     ORDER BY pe.timestamp DESC, pe.id DESC LIMIT @limit`,
  );
  const allowed = db.prepare<
    [Period & { organization: number; first: number; last: number; limit: number }],
    AllowedRow
  >(
    `SELECT al.public_id AS id, al.environment_id, al.fingerprint, al.artifact_name, al.description, al.user_name,
            al.timestamp, al.expires_at
     FROM allowlist_entries al
     WHERE al.organization_id = @organization AND al.id >= @first AND al.id <= @last
       AND al.timestamp >= @from AND al.timestamp <= @to
     ORDER BY al.id DESC LIMIT @limit`,
  );
  const allowlistIds = idsByTime(db, "allowlist_entries");
  const auditEntries = `audit_log INDEXED BY audit_log_changes
     WHERE organization_id = @organization AND timestamp >= @from AND timestamp <= @to AND (${TELLS_OF_CHANGE})`;
  const audited = db.prepare<[Period & { organization: number; limit: number }], AuditRow>(
    `SELECT id, ${AUDIT_COLUMNS} FROM ${auditEntries} ORDER BY timestamp DESC, id DESC LIMIT @limit`,
  );
  const renamed = db.prepare<[Period & { organization: number }], AuditRow>(
    `SELECT id, ${AUDIT_COLUMNS} FROM ${auditEntries}
       AND event IN (${NAME_EVENTS.map((event) => `'${event}'`).join(", ")}) ORDER BY timestamp DESC, id DESC`,
  );
  const auditedCount = db
    .prepare<[Period & { organization: number; limit: number }], number>(
      `SELECT count(*) FROM (SELECT 1 FROM ${auditEntries} LIMIT @limit) AS found`,
    )
    .pluck();
  const builds = db.prepare<[string], ChangedBuildRow>(
    `SELECT a.id, a.public_id, a.trail_id, a.repo_url, a.build_url, a.created_by
     FROM json_each(?) wanted CROSS JOIN artifacts a ON a.id = wanted.value`,
  );
  const pullRequests = db.prepare<[string], PullRequestRow>(
    `SELECT wanted.value AS trail_id, ${columnOrStub("att.payload_json")} AS payload_json
     FROM json_each(?) wanted CROSS JOIN attestations att ON att.id IN (
       SELECT cur.attestation_id FROM current_attestations cur
         CROSS JOIN attestations other ON other.id = cur.attestation_id AND other.type = 'pull_request'
       WHERE cur.trail_id = wanted.value ORDER BY cur.attestation_id DESC LIMIT ${MAX_ATTESTATIONS})
     ORDER BY wanted.key, att.id DESC`,
  );

  return {
    /** The active environments of an organization, by name. */
    listEnvironments: (organizationId: number): ChangedEnvironmentRow[] => environments.all(organizationId),
    /** The verdict of an environment as of a time; null also before its first snapshot. */
    findVerdictAt: (environmentId: number, at: number): 0 | 1 | null => verdictAt.get(environmentId, at) ?? null,
    /** At most `limit` snapshots of these environments, the newest first. */
    listMoments: (environmentIds: readonly number[], period: Period & { limit: number }): MomentRow[] =>
      moments.all({ environments: JSON.stringify(environmentIds), ...period }),
    /** The same of snapshots that policies caused. */
    listRuleMoments: (environmentIds: readonly number[], period: Period & { limit: number }): MomentRow[] =>
      ruleMoments.all({ environments: JSON.stringify(environmentIds), ...period }),
    /** How many artifacts a snapshot changed, counted up to `limit`. */
    countEvents: ({ environment_id, idx }: Pick<MomentRow, "environment_id" | "idx">, limit: number): number =>
      eventCount.get(environment_id, idx, limit) ?? 0,
    /** At most `limit` rows of artifacts that a snapshot changed, as domain/snapshot/period-changes.ts has them. */
    listRows({ environment_id, idx }: Pick<MomentRow, "environment_id" | "idx">, limit: number): number[] {
      const rows = events.all(environment_id, idx, limit);
      if (!mayHaveOthers.get(environment_id, idx)) return rows;
      return rows.concat(others.all({ environment: environment_id, index: idx, limit: limit - rows.length }));
    },
    /** Fingerprints of what started and exited in a snapshot, by the keys of at most `limit` rows. */
    listTurnover: (
      { environment_id, idx }: Pick<MomentRow, "environment_id" | "idx">,
      limit: number,
    ): Map<number, string> =>
      new Map(turnover.all(environment_id, idx, limit).map(({ id, fingerprint }) => [id, fingerprint])),
    /** Rows of artifacts that snapshots changed, by their keys. */
    findChanged: (ids: readonly number[]): Map<number, ChangedArtifactRow> =>
      new Map(changed.all(JSON.stringify(ids)).map((row) => [row.id, row])),
    /** The starts of a snapshot that took the place of another artifact of their flow and name. */
    listReplacements: ({ environment_id, idx, timestamp }: MomentRow): ReplacementRow[] =>
      replacements.all(environment_id, timestamp, idx),
    /** The last known verdict of an environment before a snapshot; null without one. */
    findLastVerdict: (environmentId: number, index: number): 0 | 1 | null =>
      lastVerdict.get(environmentId, index) ?? null,
    /** The row of the same artifact before a row that a snapshot added; null for none. */
    findEarlierRow: (id: number): number | null => earlierRow.get(id) ?? null,
    /** At most `limit` entries in the history of policies, the newest first. */
    listPolicyChanges: (organizationId: number, period: Period & { limit: number }): PolicyChangeRow[] =>
      policyChanges.all({ organization: organizationId, ...period }),
    /** At most `limit` allowlist entries of an organization, the newest first. */
    listAllowed: (organizationId: number, period: Period & { limit: number }): AllowedRow[] =>
      allowed.all({ organization: organizationId, ...allowlistIds.findRange(organizationId, period), ...period }),
    /** At most `limit` entries of the audit log that tell of a change, the newest first. */
    listAudited: (organizationId: number, period: Period & { limit: number }): AuditRow[] =>
      audited.all({ organization: organizationId, ...period }),
    /** Those that changed the name of a flow or an environment, newest first; archiving is one, too. */
    iterateRenames: (organizationId: number, period: Period): IterableIterator<AuditRow> =>
      renamed.iterate({ organization: organizationId, ...period }),
    /** How many these are, counted up to `limit`. */
    countAudited: (organizationId: number, period: Period & { limit: number }): number =>
      auditedCount.get({ organization: organizationId, ...period }) ?? 0,
    /** Records of artifacts by their keys. */
    findBuilds: (ids: Iterable<number>): Map<number, ChangedBuildRow> =>
      new Map(builds.all(JSON.stringify([...ids])).map((row) => [row.id, row])),
    /** The pull request attestations in force in these trails; at most MAX_ATTESTATIONS of each. */
    listPullRequests: (trailIds: Iterable<number>): PullRequestRow[] => pullRequests.all(JSON.stringify([...trailIds])),
  };
}
