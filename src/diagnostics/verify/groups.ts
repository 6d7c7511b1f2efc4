/** Checks of logical environments, whose snapshots are made of snapshots of their members. */
import { computeLogicalVerdict } from "../../domain/compliance/environment.ts";
import { fromSqlBoolean } from "../../store/db/database.ts";
import { OPEN } from "../../store/environments/snapshots.ts";
import { boundsOf, groupBy } from "./window.ts";
import type { Snapshot, SnapshotWindow, WindowBounds } from "./window.ts";

type Member = {
  member_id: number;
  member_index: number;
  position: number;
  first_index: number;
  last_index: number;
  state: 0 | 1 | null;
  compliant_count: number;
  non_compliant_count: number;
  unknown_count: number;
  existing: number | null;
};

/** A snapshot of a group shows one snapshot of each member; every snapshot of a member since it joined causes one. */
export function checkGroup(window: SnapshotWindow, snapshots: readonly Snapshot[]): void {
  const { db, environment, from, report } = window;
  const rows = db
    .prepare<WindowBounds, Member>(
      `SELECT m.member_id, m.member_index, m.position, m.first_index, m.last_index, s.idx AS existing,
              s.compliant AS state, s.compliant_count, s.non_compliant_count, s.unknown_count
       FROM snapshot_members m LEFT JOIN snapshots s ON s.environment_id = m.member_id AND s.idx = m.member_index
       WHERE m.environment_id = @environment AND m.last_index >= @from AND (m.first_index <= @until OR @isLast)
       ORDER BY m.first_index`,
    )
    .all(boundsOf(window));
  for (const row of rows) {
    if (row.existing === null)
      report(`shows snapshot ${row.member_index} of member ${row.member_id}, which does not exist`);
    if (Math.max(row.first_index, row.last_index === OPEN ? 0 : row.last_index) > environment.snapshot_count)
      report(`member ${row.member_id} is beyond snapshot ${environment.snapshot_count}`);
  }
  /** Member -> its latest snapshot so far. */
  const latest = new Map<number, number>();
  const starting = groupBy(rows, ({ first_index }) => first_index);
  let present = rows.filter((row) => row.first_index < from);
  for (const snapshot of snapshots) {
    const { idx } = snapshot;
    present = [...present.filter(({ last_index }) => last_index >= idx), ...(starting.get(idx) ?? [])];
    checkMembers(window, snapshot, present);
    const [member, index] = [snapshot.member_id as number, snapshot.member_index as number];
    // Gaps are allowed: a member may have left the group for a while.
    const before = latest.get(member);
    if (before !== undefined && index <= before)
      report(`snapshot ${idx} is of snapshot ${index} of member ${member}, after ${before}`);
    latest.set(member, index);
  }
}

/** Checks the members in one snapshot, its cause, counts and state. */
function checkMembers({ report }: SnapshotWindow, snapshot: Snapshot, present: readonly Member[]): void {
  const { idx, member_id, member_index } = snapshot;
  for (const column of ["member_id", "position"] as const)
    if (new Set(present.map((row) => row[column])).size !== present.length)
      report(`snapshot ${idx} shows two members with the same ${column}`);
  const cause = present.find((row) => row.member_id === member_id);
  if (cause?.member_index !== member_index)
    report(
      `snapshot ${idx} was caused by snapshot ${member_index} of member ${member_id}, but shows ${cause?.member_index}`,
    );
  const sum = (column: "compliant_count" | "non_compliant_count" | "unknown_count"): number =>
    present.reduce((total, row) => total + row[column], 0);
  const actual = [sum("compliant_count"), sum("non_compliant_count"), sum("unknown_count")];
  const stored = [snapshot.compliant_count, snapshot.non_compliant_count, snapshot.unknown_count];
  if (String(actual) !== String(stored))
    report(`snapshot ${idx} counts ${stored} (compliant, non-compliant, unknown), but its members count ${actual}`);
  // Members without a snapshot count as unknown and have no row.
  const state = computeLogicalVerdict(present.map((row) => fromSqlBoolean(row.state)));
  if (fromSqlBoolean(snapshot.compliant) !== state && !(snapshot.compliant === null && state === true))
    report(`snapshot ${idx} says ${snapshot.compliant}, but its members lead to ${state}`);
}
