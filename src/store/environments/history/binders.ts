/**
 * Where an audit binder looks: environments, starts and runs with their evaluations, verdicts, and rules in force.
 * Times in epoch seconds, both bounds inclusive. Read-only; read one binder in one transaction.
 */
import type { EnvironmentType } from "../environments.ts";
import type { SnapshotCause } from "../snapshots.ts";
import { requireRow } from "./binder-scope.ts";
import type { BinderPeriod } from "./binder-scope.ts";
import type { DbReader } from "../../db/types.ts";

/** An environment, archived or not. */
type PlaceRow = { id: number; name: string; type: EnvironmentType; archived_at: number | null };

/** A start of an artifact. `versions_json`: the ids of the policy versions that were evaluated. */
export type StartRow = {
  id: number;
  environment_id: number;
  compliant: 0 | 1 | null;
  allowlist_id: number | null;
  versions_json: string;
  verdicts_json: string;
};

/** An interval in which an artifact ran with one verdict; `started_index`: the snapshot in which it started. */
type RunKeyRow = {
  id: number;
  environment_id: number;
  fingerprint: string;
  name: string;
  started_index: number;
  first_index: number;
  last_index: number;
  compliant: 0 | 1 | null;
  allowlist_id: number | null;
};

/** The evaluation of an interval, and when it began and ended; `ended` null: it did not. */
export type BinderRunRow = {
  id: number;
  environment_id: number;
  environment_name: string;
  evaluation_id: number;
  first_index: number;
  name: string;
  fingerprint: string;
  compliant: 0 | 1 | null;
  started: number;
  facts_json: string;
  verdicts_json: string;
  allowlist_id: string | null;
  allowlist_reason: string | null;
  allowlist_by: string | null;
  allowlist_expires_at: number | null;
};

type VerdictRow = {
  idx: number;
  timestamp: number;
  compliant: 0 | 1 | null;
  cause: SnapshotCause;
  non_compliant_count: number;
};

export type RuleVersionRow = {
  id: number;
  policy_id: number;
  name: string;
  version: number;
  comment: string;
  created_by: string;
  timestamp: number;
  /** When the next version replaced it; null: none has. */
  replaced_at: number | null;
};

export type ControlRuleRow = {
  version: number;
  status: string;
  name: string;
  created_by: string;
  timestamp: number;
  replaced_at: number | null;
};

const START_COLUMNS = `sa.id, sa.environment_id, sa.compliant, ev.allowlist_id,
   s.policy_versions_json AS versions_json, ev.verdicts_json`;

export function binderStore(db: DbReader) {
  const places = db.prepare<[number], PlaceRow>(
    "SELECT id, name, type, archived_at FROM environments WHERE organization_id = ? ORDER BY name",
  );
  const starts = db.prepare<[BinderPeriod & { environment: number }], StartRow>(
    `SELECT ${START_COLUMNS}
     FROM snapshots s CROSS JOIN snapshot_artifacts sa ON sa.environment_id = s.environment_id
         AND sa.first_index = s.idx AND sa.annotation <> 'unchanged' AND sa.annotation LIKE 'started%'
       CROSS JOIN evaluations ev ON ev.id = sa.evaluation_id
     WHERE s.environment_id = @environment AND s.timestamp >= @from AND s.timestamp <= @to
     ORDER BY s.timestamp, s.idx`,
  );
  const startsOfFlow = db.prepare<[BinderPeriod & { environment: number; flow: number }], StartRow>(
    `SELECT ${START_COLUMNS}
     FROM deployments dep CROSS JOIN snapshots s ON s.environment_id = dep.environment_id
         AND s.idx = dep.snapshot_index
       CROSS JOIN snapshot_artifacts sa ON sa.organization_id = dep.organization_id
         AND sa.fingerprint = dep.fingerprint AND sa.environment_id = dep.environment_id
         AND sa.first_index = dep.snapshot_index AND sa.name = dep.artifact_name
       CROSS JOIN evaluations ev ON ev.id = sa.evaluation_id
     WHERE dep.environment_id = @environment AND dep.flow_id = @flow
       AND dep.deployed_at >= @from AND dep.deployed_at <= @to
     ORDER BY dep.deployed_at, dep.id`,
  );
  const runs = db.prepare<[{ environment: number; first: number; last: number }], RunKeyRow>(
    `SELECT sa.id, sa.environment_id, sa.fingerprint, sa.name, sa.started_index, sa.first_index, sa.last_index,
            sa.compliant, ev.allowlist_id
     FROM snapshot_artifacts sa CROSS JOIN evaluations ev ON ev.id = sa.evaluation_id
     WHERE sa.environment_id = @environment AND sa.last_index >= @first AND sa.first_index <= @last AND sa.now > 0
       AND (sa.compliant IS NOT 1 OR ev.allowlist_id IS NOT NULL)
     ORDER BY sa.first_index, sa.id`,
  );
  const run = db.prepare<[number], BinderRunRow>(
    `SELECT sa.id, sa.environment_id, env.name AS environment_name, sa.evaluation_id, sa.first_index, sa.name,
            sa.fingerprint, sa.compliant, s.timestamp AS started, ev.facts_json, ev.verdicts_json,
            al.public_id AS allowlist_id, al.description AS allowlist_reason, al.user_name AS allowlist_by,
            al.expires_at AS allowlist_expires_at
     FROM snapshot_artifacts sa CROSS JOIN evaluations ev ON ev.id = sa.evaluation_id
       CROSS JOIN environments env ON env.id = sa.environment_id
       CROSS JOIN snapshots s ON s.environment_id = sa.environment_id AND s.idx = sa.first_index
       LEFT JOIN allowlist_entries al ON al.id = ev.allowlist_id
     WHERE sa.id = ?`,
  );
  const lastIndexOf = db.prepare<[number], number>("SELECT last_index FROM snapshot_artifacts WHERE id = ?").pluck();
  const snapshotTime = db
    .prepare<[number, number], number>("SELECT timestamp FROM snapshots WHERE environment_id = ? AND idx = ?")
    .pluck();
  const verdicts = db.prepare<[number, number, number], VerdictRow>(
    `SELECT idx, timestamp, compliant, cause, non_compliant_count
     FROM snapshots WHERE environment_id = ? AND idx BETWEEN ? AND ? ORDER BY idx`,
  );
  const versionsInSnapshots = db
    .prepare<[number, number, number], string>(
      "SELECT DISTINCT policy_versions_json FROM snapshots WHERE environment_id = ? AND idx BETWEEN ? AND ?",
    )
    .pluck();
  const versionsOfControl = db
    .prepare<[number], number>("SELECT policy_version_id FROM policy_version_controls WHERE control_id = ?")
    .pluck();
  const policiesOf = db
    .prepare<[string], number>(
      `SELECT DISTINCT pv.policy_id FROM json_each(?) wanted CROSS JOIN policy_versions pv ON pv.id = wanted.value`,
    )
    .pluck();
  // A version is in force from when it was saved until the next one is, wherever its policy is attached.
  const replacedAt = `(SELECT next.timestamp FROM policy_versions next
     WHERE next.policy_id = pv.policy_id AND next.version = pv.version + 1)`;
  const ruleVersions = db.prepare<[BinderPeriod & { policies: string }], RuleVersionRow>(
    `SELECT pv.id, pv.policy_id, pol.name, pv.version, pv.comment, pv.created_by, pv.timestamp,
            ${replacedAt} AS replaced_at
     FROM json_each(@policies) wanted CROSS JOIN policies pol ON pol.id = wanted.value
       CROSS JOIN policy_versions pv ON pv.policy_id = pol.id
     WHERE pv.timestamp <= @to AND coalesce(${replacedAt}, @from) >= @from
     ORDER BY pol.name, pv.version DESC`,
  );
  const nextControl = `(SELECT next.timestamp FROM control_versions next
     WHERE next.control_id = cv.control_id AND next.version = cv.version + 1)`;
  const controlRules = db.prepare<[BinderPeriod & { control: number }], ControlRuleRow>(
    `SELECT cv.version, cv.status, cv.name, cv.created_by, cv.timestamp, ${nextControl} AS replaced_at
     FROM control_versions cv
     WHERE cv.control_id = @control AND cv.timestamp <= @to AND coalesce(${nextControl}, @from) >= @from
     ORDER BY cv.version DESC`,
  );

  return {
    /** All environments of an organization, archived ones included, by name. */
    listPlaces: (organizationId: number): PlaceRow[] => places.all(organizationId),
    /** Starts in an environment, oldest first; those of one flow, or (null) of all artifacts. */
    listStarts: (environment: number, flow: number | null, { from, to }: BinderPeriod): IterableIterator<StartRow> =>
      flow === null ? starts.iterate({ environment, from, to }) : startsOfFlow.iterate({ environment, flow, from, to }),
    /**
     * Intervals of an environment in which an artifact was not compliant, unknown, or compliant because it was allowed;
     * those of any snapshot from `first` to `last`.
     */
    listRuns: (environment: number, range: { first: number; last: number }): IterableIterator<RunKeyRow> =>
      runs.iterate({ environment, ...range }),
    /** An interval by the id of its row. */
    getRun: (id: number): BinderRunRow => requireRow(run.get(id), `row ${id} of a snapshot`),
    /** The last snapshot of the interval with that id. */
    getLastIndex: (id: number): number => requireRow(lastIndexOf.get(id), `row ${id} of a snapshot`),
    /** Null for a snapshot that is not there. */
    findSnapshotTime: (environmentId: number, index: number): number | null =>
      snapshotTime.get(environmentId, index) ?? null,
    /** The verdicts of snapshots, oldest first. */
    listVerdicts: (environmentId: number, first: number, last: number): IterableIterator<VerdictRow> =>
      verdicts.iterate(environmentId, first, last),
    /** The policy versions that snapshots of an environment evaluated: JSON lists of ids, each once. */
    listEvaluatedVersions: (environmentId: number, first: number, last: number): string[] =>
      versionsInSnapshots.all(environmentId, first, last),
    /** Ids of the policy versions with a rule for a control. */
    listVersionsOf: (controlId: number): number[] => versionsOfControl.all(controlId),
    /** The policies of some versions, by their ids. */
    listPoliciesOf: (versionIds: Iterable<number>): number[] => policiesOf.all(JSON.stringify([...versionIds])),
    /** The versions of policies that were the latest at some time of a period, by name, newest first. */
    listRuleVersions: (policyIds: readonly number[], { from, to }: BinderPeriod): RuleVersionRow[] =>
      ruleVersions.all({ policies: JSON.stringify(policyIds), from, to }),
    /** The versions of a control that were the latest at some time of a period. */
    listControlRules: (control: number, { from, to }: BinderPeriod): ControlRuleRow[] =>
      controlRules.all({ control, from, to }),
  };
}
