/**
 * Snapshots of logical environments: whenever a member gets a snapshot, each group it is in gets one of its own
 * numbering, which shows the latest snapshot of every member (semantics 6.3). Only what changed is written: a member
 * that stands still keeps its interval.
 */
import { logicalState } from "../../domain/compliance/environment.ts";
import type { clockStore } from "../db/clock.ts";
import { fromSqlBoolean, toSqlBoolean } from "../db/database.ts";
import { ADD_SETBACK } from "./snapshot-times.ts";
import { OPEN } from "./snapshots.ts";
import type { triggerStore } from "../notifications/triggers.ts";
import type { Db } from "../db/types.ts";
import type { Actor } from "../actor.ts";

type GroupRow = { id: number; snapshot_count: number; last_changed_at: number | null };
type MemberRow = {
  member_id: number;
  position: number;
  state: 0 | 1 | null;
  /** 0 before its first snapshot; the counts are null then. */
  snapshot_count: number;
  compliant_count: number | null;
  non_compliant_count: number | null;
  unknown_count: number | null;
};
type ShownRow = { member_id: number; member_index: number; position: number };

export function logicalSnapshotStore(
  db: Db,
  triggers: ReturnType<typeof triggerStore>,
  clock: ReturnType<typeof clockStore>,
) {
  const groupsOf = db.prepare<[number], GroupRow>(
    `SELECT e.id, e.snapshot_count, e.last_changed_at FROM environment_members m JOIN environments e ON e.id = m.logical_id
     WHERE m.member_id = ? AND e.archived_at IS NULL ORDER BY e.id`,
  );
  const membersOf = db.prepare<[number], MemberRow>(
    `SELECT m.member_id, m.position, e.state, e.snapshot_count, s.compliant_count, s.non_compliant_count, s.unknown_count
     FROM environment_members m JOIN environments e ON e.id = m.member_id
     LEFT JOIN snapshots s ON s.environment_id = e.id AND s.idx = e.snapshot_count
     WHERE m.logical_id = ? ORDER BY m.position, m.member_id`,
  );
  const shown = db.prepare<[number], ShownRow>(
    `SELECT member_id, member_index, position FROM snapshot_members WHERE environment_id = ? AND last_index = ${OPEN}`,
  );
  const show = db.prepare(
    "INSERT INTO snapshot_members (environment_id, member_id, member_index, position, first_index) VALUES (?, ?, ?, ?, ?)",
  );
  const close = db.prepare(
    `UPDATE snapshot_members SET last_index = ? WHERE environment_id = ? AND last_index = ${OPEN} AND member_id = ?`,
  );
  const addSnapshot = db.prepare(
    `INSERT INTO snapshots (environment_id, idx, timestamp, cause, compliant, compliant_count, non_compliant_count, unknown_count, user_id, user_name,
                            policy_versions_json, member_id, member_index)
     VALUES (?, ?, ?, 'member', ?, ?, ?, ?, ?, ?, '[]', ?, ?)`,
  );
  const addSetback = db.prepare(ADD_SETBACK);
  const advance = db.prepare("UPDATE environments SET snapshot_count = ?, last_changed_at = ?, state = ? WHERE id = ?");

  function snapshotOf(group: GroupRow, causeId: number, actor: Actor, at: number): void {
    const index = group.snapshot_count + 1;
    const members = membersOf.all(group.id);
    const wanted = new Map(
      members.filter(({ snapshot_count }) => snapshot_count > 0).map((member) => [member.member_id, member]),
    );
    for (const { member_id, member_index, position } of shown.all(group.id)) {
      const member = wanted.get(member_id);
      if (member?.snapshot_count === member_index && member.position === position) wanted.delete(member_id);
      else close.run(index - 1, group.id, member_id);
    }
    for (const { member_id, snapshot_count, position } of wanted.values())
      show.run(group.id, member_id, snapshot_count, position, index);

    const state = logicalState(members.map((member) => fromSqlBoolean(member.state)));
    const compliant = toSqlBoolean(state);
    const sum = (column: "compliant_count" | "non_compliant_count" | "unknown_count"): number =>
      members.reduce((total, member) => total + (member[column] ?? 0), 0);
    const causeIndex = members.find(({ member_id }) => member_id === causeId)?.snapshot_count ?? 0;
    const time = clock.timeOfSnapshot(at, group.last_changed_at);
    addSnapshot.run(
      group.id,
      index,
      time,
      compliant,
      sum("compliant_count"),
      sum("non_compliant_count"),
      sum("unknown_count"),
      actor.publicId,
      actor.displayName,
      causeId,
      causeIndex,
    );
    if (time < (group.last_changed_at ?? 0)) addSetback.run(group.id, index, time);
    advance.run(index, time, compliant, group.id);
    triggers.raiseSnapshotMade(group.id, index, time);
  }

  return {
    /** A member has a new snapshot: every group it is in gets one. @param at epoch seconds of that snapshot. */
    recordMemberSnapshot(environmentId: number, actor: Actor, at: number): void {
      for (const group of groupsOf.all(environmentId)) snapshotOf(group, environmentId, actor, at);
    },
  };
}
