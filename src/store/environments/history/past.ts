/**
 * What the environments of an organization were at a moment: their snapshots in force then, with the verdicts that were
 * stored. Nothing is re-evaluated. Read-only.
 */
import type { DbReader } from "../../db/types.ts";
import type { EnvironmentType } from "../environments.ts";
import type { FailingArtifactRow } from "../overview.ts";
import { IN_SNAPSHOT } from "../snapshots.ts";
import { snapshotTimes } from "../snapshot-times.ts";

/** An environment that existed at a moment. The columns of the snapshot are null before the first one. */
export type PastEnvironmentRow = {
  id: number;
  /** Its present name. */
  name: string;
  type: EnvironmentType;
  /** Epoch seconds; null for one that is active now. */
  archived_at: number | null;
  snapshot_count: number;
  idx: number | null;
  /** Epoch seconds. */
  timestamp: number | null;
  compliant: 0 | 1 | null;
  compliant_count: number | null;
  non_compliant_count: number | null;
  unknown_count: number | null;
};

/** A policy with its latest version at a moment; the columns of the version are null before the first one. */
export type PastPolicyRow = {
  /** Present, as the description. */
  name: string;
  description: string;
  version: number | null;
  /** Epoch seconds. */
  timestamp: number | null;
  created_by: string | null;
};

type ExistingRow = PastEnvironmentRow & { has_setbacks: 0 | 1 };
type Shown = Omit<PastEnvironmentRow, "id" | "name" | "type" | "archived_at" | "snapshot_count">;
const NONE: Shown = {
  idx: null,
  timestamp: null,
  compliant: null,
  compliant_count: null,
  non_compliant_count: null,
  unknown_count: null,
};
const SHOWN = "s.idx, s.timestamp, s.compliant, s.compliant_count, s.non_compliant_count, s.unknown_count";

export function pastStore(db: DbReader) {
  const times = snapshotTimes(db);
  const EXISTING = `SELECT env.id, env.name, env.type, env.archived_at, env.snapshot_count, ${SHOWN},
       EXISTS (SELECT 1 FROM snapshot_setbacks WHERE environment_id = env.id) AS has_setbacks
     FROM environments env
       LEFT JOIN snapshots s ON s.environment_id = env.id AND s.idx =
         (SELECT earlier.idx FROM snapshots earlier WHERE earlier.environment_id = env.id AND earlier.timestamp <= @at
          ORDER BY earlier.timestamp DESC, earlier.idx DESC LIMIT 1)
     WHERE env.created_at <= @at AND (env.archived_at IS NULL OR env.archived_at > @at)`;
  const existing = db.prepare<[{ organization: number; at: number }], ExistingRow>(
    `${EXISTING} AND env.organization_id = @organization`,
  );
  const one = db.prepare<[{ id: number; at: number }], ExistingRow>(`${EXISTING} AND env.id = @id`);
  const shown = db.prepare<[number, number], Shown>(
    `SELECT ${SHOWN} FROM snapshots s WHERE s.environment_id = ? AND s.idx = ?`,
  );
  const counted = db
    .prepare<[number], number>("SELECT count(*) FROM environments env WHERE env.organization_id = ?")
    .pluck();
  const failing = db.prepare<[{ environment: number; index: number; limit: number }], FailingArtifactRow>(
    `SELECT sa.id, sa.environment_id, env.name AS environment_name, @index AS snapshot_index, sa.fingerprint, sa.name,
       sa.evaluation_id, sa.first_index, s.timestamp AS since, ev.facts_json, ev.verdicts_json, ev.reasons_json
     FROM snapshot_artifacts sa CROSS JOIN environments env ON env.id = sa.environment_id
       CROSS JOIN snapshots s ON s.environment_id = sa.environment_id AND s.idx = sa.first_index
       CROSS JOIN evaluations ev ON ev.id = sa.evaluation_id
     WHERE ${IN_SNAPSHOT} AND sa.now > 0 AND sa.compliant = 0
     ORDER BY sa.first_index DESC, sa.id DESC LIMIT @limit`,
  );
  const versions = db.prepare<[string], { environment_id: number; policy_versions_json: string }>(
    `SELECT s.environment_id, s.policy_versions_json
     FROM json_each(?) wanted CROSS JOIN snapshots s ON s.environment_id = wanted.value ->> 0
       AND s.idx = wanted.value ->> 1`,
  );

  /** Where the clock was set back, the latest time is not the latest snapshot. */
  function withSnapshot({ has_setbacks: hasSetbacks, ...row }: ExistingRow, at: number): PastEnvironmentRow {
    return hasSetbacks === 0 ? row : { ...row, ...(shown.get(row.id, times.findLastUntil(row.id, at)) ?? NONE) };
  }

  const policies = db.prepare<[{ organization: number; at: number }], PastPolicyRow>(
    `SELECT pol.name, pol.description, pv.version, pv.timestamp, pv.created_by
     FROM policies pol
       LEFT JOIN policy_versions pv ON pv.policy_id = pol.id AND pv.version =
         (SELECT max(earlier.version) FROM policy_versions earlier
          WHERE earlier.policy_id = pol.id AND earlier.timestamp <= @at)
     WHERE pol.organization_id = @organization AND pol.created_at <= @at ORDER BY pol.name`,
  );

  return {
    /** The policies that existed at a moment, with the latest version of then, by name. */
    listPolicies: (organizationId: number, at: number): PastPolicyRow[] =>
      policies.all({ organization: organizationId, at }),
    /** How many environments an organization ever had: bounds what `listExisting` reads. */
    countEver: (organizationId: number): number => counted.get(organizationId) ?? 0,
    /** The environments that existed at a moment with their snapshots in force: those that fail first, then by name. */
    listExisting(organizationId: number, at: number): PastEnvironmentRow[] {
      const rows = existing.all({ organization: organizationId, at }).map((row) => withSnapshot(row, at));
      return rows.sort((first, other) => rankOf(first) - rankOf(other) || (first.name < other.name ? -1 : 1));
    },
    /** One of them; null if it did not exist then. */
    find(environmentId: number, at: number): PastEnvironmentRow | null {
      const row = one.get({ id: environmentId, at });
      return row ? withSnapshot(row, at) : null;
    },
    /** At most `limit` artifacts that failed in a snapshot of a physical environment, the latest to change first. */
    listFailingIn: (environment: number, index: number, limit: number): FailingArtifactRow[] =>
      failing.all({ environment, index, limit }),
    /** The policy versions of snapshots, as stored, in no order. */
    listVersions: (
      places: readonly { id: number; idx: number }[],
    ): { environment_id: number; policy_versions_json: string }[] =>
      versions.all(JSON.stringify(places.map(({ id, idx }) => [id, idx]))),
  };
}

/** What fails comes first, what is unknown last. */
const rankOf = ({ compliant }: Pick<PastEnvironmentRow, "compliant">): number =>
  compliant === 0 ? 0 : compliant === 1 ? 1 : 2;
