/** The part of an environment's history that one transaction checks. */
import type { DbReader } from "../../store/db/types.ts";
import type { ReportDamage } from "./check.ts";

export type Environment = {
  id: number;
  name: string;
  type: string;
  snapshot_count: number;
  last_changed_at: number | null;
  last_reported_at: number | null;
  state: 0 | 1 | null;
  running_digest: string | null;
};
export type Snapshot = {
  idx: number;
  timestamp: number;
  compliant: 0 | 1 | null;
  compliant_count: number;
  non_compliant_count: number;
  unknown_count: number;
  policy_versions_json: string;
  member_id: number | null;
  member_index: number | null;
};

/**
 * The snapshots `from` to `until` of an environment. The one at `from` was checked with the window before it and is
 * read again as the predecessor of the next one. `isLast`: there are no later ones.
 */
export type SnapshotWindow = {
  readonly db: DbReader;
  readonly environment: Environment;
  readonly from: number;
  readonly until: number;
  readonly isLast: boolean;
  readonly report: ReportDamage;
};

/** SQL parameters of the queries for a window: the last one has no upper bound. */
export type WindowBounds = { environment: number; from: number; until: number; isLast: 0 | 1 };

export const boundsOf = ({ environment, from, until, isLast }: SnapshotWindow): WindowBounds => ({
  environment: environment.id,
  from,
  until,
  isLast: isLast ? 1 : 0,
});

/** Rows by key, in their order. */
export function groupBy<Row, Key>(rows: readonly Row[], keyOf: (row: Row) => Key): Map<Key, Row[]> {
  const groups = new Map<Key, Row[]>();
  for (const row of rows) {
    const key = keyOf(row);
    const group = groups.get(key);
    if (group) group.push(row);
    else groups.set(key, [row]);
  }
  return groups;
}
