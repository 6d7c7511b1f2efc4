/**
 * What the overview of an organization shows. Every read is bounded or goes through an index that ends in a time, so
 * that its cost follows the environments and the last weeks, not the size of the history. Read-only.
 */
import { DAY_S } from "../../domain/time.ts";
import { MAX_INLINE_JSON_BYTES } from "../db/large-json.ts";
import type { DbReader } from "../db/types.ts";
import { COMMITTED_AT, isFirstStart } from "./deployments.ts";
import { OPEN } from "./snapshots.ts";
import type { EnvironmentType } from "./environments.ts";

/** Deployments whose lead time counts towards a median. */
export const MAX_MEASURED_DEPLOYMENTS = 500;
/** Environments that are searched for failing artifacts, the latest changed first. */
const MAX_FAILING_ENVIRONMENTS = 50;

/** Numbers of all active environments. Artifacts are those of physical environments, which each runs in. */
type EnvironmentTotals = {
  environments: number;
  compliant: number;
  non_compliant: number;
  unknown: number;
  running: number;
  running_non_compliant: number;
  running_unknown: number;
};

/** An environment with its latest snapshot. Times in epoch seconds. */
export type OverviewEnvironmentRow = {
  name: string;
  type: EnvironmentType;
  /** Of a logical environment it follows from its members. */
  state: 0 | 1 | null;
  snapshot_count: number;
  last_changed_at: number | null;
  last_reported_at: number | null;
  policy_count: number;
  compliant_count: number;
  non_compliant_count: number;
  unknown_count: number;
  /** Of the compliant ones. */
  allowlisted_count: number;
};

/** A running artifact that is not compliant. */
export type FailingArtifactRow = {
  id: number;
  environment_id: number;
  environment_name: string;
  /** The latest snapshot of the environment. */
  snapshot_index: number;
  fingerprint: string;
  name: string;
  evaluation_id: number;
  facts_json: string;
  verdicts_json: string;
  reasons_json: string;
  first_index: number;
  /** Epoch seconds of the snapshot in which it became or started non-compliant. */
  since: number;
};

/** A trail that is incomplete or not compliant. */
export type OpenTrailRow = {
  id: number;
  name: string;
  flow_name: string;
  state: "INCOMPLETE" | "NON-COMPLIANT";
  /** Epoch seconds of its latest event. */
  last_modified_at: number;
  reasons_json: string;
  /** At least `sha1` and `url` of the commit. */
  git_commit_info_json: string | null;
};

/** The deployments of a UTC day, a number since the epoch. */
type DeploymentDayRow = { day: number; compliant: number; non_compliant: number; unknown: number };

type FlowRow = { name: string; latest_activity_at: number | null; latest_state: string | null; trail_count: number };

/** Seconds from the report of the build, and from the commit: null where its time is unknown. */
export type LeadTimeRow = { from_build: number; from_commit: number | null };
type Window = { from: number; to: number };

/** A longer commit, which only older versions accepted, is not looked into: its trail is shown without. */
const MAX_COMMIT_BYTES = 1 << 20;

// As computeLogicalVerdict: one member that fails decides, then one that is unknown.
const STATE = `iif(env.type = 'logical',
    (SELECT CASE WHEN min(member.state) = 0 THEN 0
                 WHEN count(*) = 0 OR count(member.state) < count(*) THEN NULL ELSE 1 END
     FROM environment_members em JOIN environments member ON member.id = em.member_id WHERE em.logical_id = env.id),
    env.state)`;
const ACTIVE = `FROM environments env
    LEFT JOIN snapshots s ON s.environment_id = env.id AND s.idx = env.snapshot_count
  WHERE env.organization_id = ? AND env.archived_at IS NULL`;

const NEEDS_ATTENTION = `FROM trails t CROSS JOIN flows f ON f.id = t.flow_id AND f.archived_at IS NULL
  WHERE t.organization_id = ? AND t.state <> 'COMPLIANT' AND t.last_modified_at >= ?`;

const DEPLOYED = `dep.organization_id = @organization AND dep.ordinal = 0
  AND dep.deployed_at >= @from AND dep.deployed_at < @to`;

export function overviewStore(db: DbReader) {
  const totals = db.prepare<[number], EnvironmentTotals>(
    `SELECT count(*) AS environments, count(*) FILTER (WHERE state = 1) AS compliant,
       count(*) FILTER (WHERE state = 0) AS non_compliant, count(*) FILTER (WHERE state IS NULL) AS unknown,
       coalesce(sum(failing + passing + undecided), 0) AS running, coalesce(sum(failing), 0) AS running_non_compliant,
       coalesce(sum(undecided), 0) AS running_unknown
     FROM (SELECT ${STATE} AS state, iif(env.type = 'logical', 0, s.non_compliant_count) AS failing,
             iif(env.type = 'logical', 0, s.compliant_count) AS passing,
             iif(env.type = 'logical', 0, s.unknown_count) AS undecided ${ACTIVE}) AS shown`,
  );
  const environments = db.prepare<[number, number], Omit<OverviewEnvironmentRow, "allowlisted_count"> & { id: number }>(
    `SELECT id, name, type, state, snapshot_count, last_changed_at, last_reported_at, policy_count, compliant_count,
       non_compliant_count, unknown_count
     FROM (
       SELECT env.id, env.name, env.type, ${STATE} AS state, env.snapshot_count,
         iif(env.type = 'logical',
           (SELECT max(member.last_changed_at) FROM environment_members em
              JOIN environments member ON member.id = em.member_id WHERE em.logical_id = env.id),
           env.last_changed_at) AS last_changed_at,
         env.last_reported_at,
         (SELECT count(*) FROM environment_policies ep WHERE ep.environment_id = env.id) AS policy_count,
         coalesce(s.compliant_count, 0) AS compliant_count,
         coalesce(s.non_compliant_count, 0) AS non_compliant_count, coalesce(s.unknown_count, 0) AS unknown_count
       ${ACTIVE}) AS shown
     ORDER BY CASE WHEN shown.state = 0 THEN 0 WHEN shown.state = 1 THEN 1 ELSE 2 END, shown.last_changed_at DESC,
       shown.name
     LIMIT ?`,
  );
  const allowlisted = db
    .prepare<[number], number>(
      `SELECT count(DISTINCT sa.id) FROM allowlist_entries al
         CROSS JOIN snapshot_artifacts sa ON sa.organization_id = al.organization_id AND sa.fingerprint = al.fingerprint
           AND sa.environment_id = al.environment_id AND sa.last_index = ${OPEN}
         CROSS JOIN evaluations ev ON ev.id = sa.evaluation_id AND ev.allowlist_id IS NOT NULL
       WHERE al.environment_id = ?`,
    )
    .pluck();
  const failingEnvironments = db
    .prepare<[number], number>(
      `SELECT env.id FROM environments env
       WHERE env.organization_id = ? AND env.archived_at IS NULL AND env.state = 0 AND env.type <> 'logical'
       ORDER BY env.last_changed_at DESC LIMIT ${MAX_FAILING_ENVIRONMENTS}`,
    )
    .pluck();
  const failing = db.prepare<[number, number], FailingArtifactRow>(
    `SELECT sa.id, sa.environment_id, env.name AS environment_name, env.snapshot_count AS snapshot_index,
       sa.fingerprint, sa.name, sa.evaluation_id, sa.first_index, s.timestamp AS since, ev.facts_json, ev.verdicts_json,
       ev.reasons_json
     FROM snapshot_artifacts sa CROSS JOIN environments env ON env.id = sa.environment_id
       CROSS JOIN snapshots s ON s.environment_id = sa.environment_id AND s.idx = sa.first_index
       CROSS JOIN evaluations ev ON ev.id = sa.evaluation_id
     WHERE sa.environment_id = ? AND sa.last_index = ${OPEN} AND sa.compliant = 0
     ORDER BY sa.first_index DESC, sa.id DESC LIMIT ?`,
  );
  // Rows after the one in which it began to fail differ in their instances or their facts only.
  const beginning = db
    .prepare<[FailingArtifactRow & { organization: number }], number>(
      `SELECT s.timestamp FROM snapshot_artifacts sa
         CROSS JOIN snapshots s ON s.environment_id = sa.environment_id AND s.idx = sa.first_index
       WHERE sa.organization_id = @organization AND sa.fingerprint = @fingerprint
         AND sa.environment_id = @environment_id AND sa.first_index <= @first_index AND sa.name = @name
         AND sa.annotation IN ('became-non-compliant', 'started-non-compliant')
       ORDER BY sa.first_index DESC LIMIT 1`,
    )
    .pluck();
  const trails = db.prepare<[number, number, number], OpenTrailRow>(
    `SELECT t.id, t.name, f.name AS flow_name, t.state, t.last_modified_at, t.reasons_json,
            CASE WHEN octet_length(t.git_commit_info_json) <= ${MAX_INLINE_JSON_BYTES} THEN t.git_commit_info_json
                 WHEN octet_length(t.git_commit_info_json) <= ${MAX_COMMIT_BYTES} AND json_valid(t.git_commit_info_json)
                 THEN json_object('sha1', t.git_commit_info_json ->> 'sha1', 'url', t.git_commit_info_json ->> 'url')
            END AS git_commit_info_json
     ${NEEDS_ATTENTION} ORDER BY t.last_modified_at DESC, t.id DESC LIMIT ?`,
  );
  const trailCount = db
    .prepare<[number, number, number], number>(`SELECT count(*) FROM (SELECT 1 ${NEEDS_ATTENTION} LIMIT ?) AS found`)
    .pluck();
  const failingCount = db
    .prepare<[number, number], number>(
      `SELECT count(*) FROM (SELECT 1 FROM environments env
         WHERE env.organization_id = ? AND env.archived_at IS NULL AND ${STATE} = 0 LIMIT ?) AS found`,
    )
    .pluck();
  const days = db.prepare<[Window & { organization: number }], DeploymentDayRow>(
    `SELECT CAST(dep.deployed_at / ${DAY_S} AS INTEGER) AS day, count(*) FILTER (WHERE dep.compliant = 1) AS compliant,
       count(*) FILTER (WHERE dep.compliant = 0) AS non_compliant,
       count(*) FILTER (WHERE dep.compliant IS NULL) AS unknown
     FROM deployments dep WHERE ${DEPLOYED} GROUP BY day`,
  );
  const deploymentCount = db
    .prepare<[Window & { organization: number }], number>(`SELECT count(*) FROM deployments dep WHERE ${DEPLOYED}`)
    .pluck();
  const leadTimes = db.prepare<[Window & { organization: number }], LeadTimeRow>(
    `SELECT newest.deployed_at - a.created_at AS from_build, newest.deployed_at - ${COMMITTED_AT} AS from_commit
       FROM (SELECT dep.id, dep.environment_id, dep.fingerprint, dep.artifact_id, dep.deployed_at
             FROM deployments dep WHERE ${DEPLOYED}
             ORDER BY dep.deployed_at DESC LIMIT ${MAX_MEASURED_DEPLOYMENTS}) AS newest
         CROSS JOIN artifacts a ON a.id = newest.artifact_id
       WHERE ${isFirstStart("newest")}`,
  );
  const flows = db.prepare<[number, number], FlowRow>(
    `SELECT f.name, f.latest_activity_at, f.latest_state, f.trail_count FROM flows f
     WHERE f.organization_id = ? AND f.archived_at IS NULL ORDER BY f.latest_activity_at DESC, f.id DESC LIMIT ?`,
  );
  const flowCount = db
    .prepare<[number], number>("SELECT count(*) FROM flows f WHERE f.organization_id = ? AND f.archived_at IS NULL")
    .pluck();

  const withBeginnings = (organizationId: number, rows: readonly FailingArtifactRow[]): FailingArtifactRow[] =>
    rows
      .map((row) => ({ ...row, since: beginning.get({ ...row, organization: organizationId }) ?? row.since }))
      .sort((a, b) => b.since - a.since || b.id - a.id);

  return {
    readTotals: (organizationId: number): EnvironmentTotals => totals.get(organizationId) as EnvironmentTotals,
    /** At most `limit` active environments: those that fail first, then by their latest change. */
    listEnvironments: (organizationId: number, limit: number): OverviewEnvironmentRow[] =>
      environments
        .all(organizationId, limit)
        .map(({ id, ...row }) => ({ ...row, allowlisted_count: allowlisted.get(id) ?? 0 })),
    /** At most `limit` artifacts that run and are not compliant, the latest to fail first. */
    listFailing(organizationId: number, limit: number): FailingArtifactRow[] {
      const rows = failingEnvironments.all(organizationId).flatMap((id) => failing.all(id, limit));
      return withBeginnings(organizationId, rows).slice(0, limit);
    },
    /** Rows with the times at which they began to fail, the latest first. */
    withBeginnings,
    /** At most `limit` artifacts that run in an environment and are not compliant, the latest to change first. */
    listFailingIn: (environmentId: number, limit: number): FailingArtifactRow[] => failing.all(environmentId, limit),
    /** At most `limit` trails that are not compliant and had an event since a time, the latest event first. */
    listOpenTrails: (organizationId: number, { since, limit }: { since: number; limit: number }): OpenTrailRow[] =>
      trails.all(organizationId, since, limit),
    /** Their number, at most `limit`. */
    countOpenTrails: (organizationId: number, { since, limit }: { since: number; limit: number }): number =>
      trailCount.get(organizationId, since, limit) ?? 0,
    /** How many active environments are not compliant, at most `limit`. */
    countFailingEnvironments: (organizationId: number, limit: number): number =>
      failingCount.get(organizationId, limit) ?? 0,
    /** The days of a window that had deployments. The end is exclusive. */
    listDeploymentDays: (organizationId: number, window: Window): DeploymentDayRow[] =>
      days.all({ ...window, organization: organizationId }),
    countDeployments: (organizationId: number, window: Window): number =>
      deploymentCount.get({ ...window, organization: organizationId }) ?? 0,
    /** Of the first starts in an environment among the latest MAX_MEASURED_DEPLOYMENTS of a window. */
    listLeadTimes: (organizationId: number, window: Window): LeadTimeRow[] =>
      leadTimes.all({ ...window, organization: organizationId }),
    /** At most `limit` active flows, the latest activity first. */
    listFlows: (organizationId: number, limit: number): FlowRow[] => flows.all(organizationId, limit),
    countFlows: (organizationId: number): number => flowCount.get(organizationId) ?? 0,
  };
}
