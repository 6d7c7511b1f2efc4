/**
 * Snapshots of logical environments. When a member gets a snapshot, each logical environment that includes it gets one
 * with a numbering of its own, which shows the latest snapshot of every member (semantics 6.3).
 *
 * Invariant: only changes are written; a member that shows the same snapshot as before keeps its interval.
 */
import { computeLogicalVerdict } from "../../domain/compliance/environment.ts";
import type { clockStore } from "../db/clock.ts";
import { fromSqlBoolean, toSqlBoolean } from "../db/database.ts";
import type { EnvironmentChanges } from "./changes.ts";
import { INSERT_SETBACK } from "./snapshot-times.ts";
import { OPEN } from "./snapshots.ts";
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

type LogicalParts = Pick<EnvironmentChanges, "onSnapshotMade"> & { clock: ReturnType<typeof clockStore> };

export function logicalSnapshotStore(db: Db, { onSnapshotMade, clock }: LogicalParts) {
  const groupsOf = db.prepare<[number], GroupRow>(
    `SELECT env.id, env.snapshot_count, env.last_changed_at
     FROM environment_members em JOIN environments env ON env.id = em.logical_id
     WHERE em.member_id = ? AND env.archived_at IS NULL ORDER BY env.id`,
  );
  const membersOf = db.prepare<[number], MemberRow>(
    `SELECT em.member_id, em.position, env.state, env.snapshot_count, s.compliant_count, s.non_compliant_count,
            s.unknown_count
     FROM environment_members em JOIN environments env ON env.id = em.member_id
     LEFT JOIN snapshots s ON s.environment_id = env.id AND s.idx = env.snapshot_count
     WHERE em.logical_id = ? ORDER BY em.position, em.member_id`,
  );
  const shownMembers = db.prepare<[number], ShownRow>(
    `SELECT member_id, member_index, position FROM snapshot_members WHERE environment_id = ? AND last_index = ${OPEN}`,
  );
  const openInterval = db.prepare(
    `INSERT INTO snapshot_members (environment_id, member_id, member_index, position, first_index)
     VALUES (?, ?, ?, ?, ?)`,
  );
  const closeInterval = db.prepare(
    `UPDATE snapshot_members SET last_index = ? WHERE environment_id = ? AND last_index = ${OPEN} AND member_id = ?`,
  );
  const insertSnapshot = db.prepare(
    `INSERT INTO snapshots (environment_id, idx, timestamp, cause, compliant, compliant_count, non_compliant_count,
                            unknown_count, user_id, user_name, policy_versions_json, member_id, member_index)
     VALUES (?, ?, ?, 'member', ?, ?, ?, ?, ?, ?, '[]', ?, ?)`,
  );
  const insertSetback = db.prepare(INSERT_SETBACK);
  const advance = db.prepare("UPDATE environments SET snapshot_count = ?, last_changed_at = ?, state = ? WHERE id = ?");

  /** Replaces the intervals of the members that show another snapshot or have another position than before. */
  function writeMembers(groupId: number, members: readonly MemberRow[], index: number): void {
    const changed = new Map(
      members.filter(({ snapshot_count }) => snapshot_count > 0).map((member) => [member.member_id, member]),
    );
    for (const { member_id, member_index, position } of shownMembers.all(groupId)) {
      const member = changed.get(member_id);
      if (member?.snapshot_count === member_index && member.position === position) changed.delete(member_id);
      else closeInterval.run(index - 1, groupId, member_id);
    }
    for (const { member_id, snapshot_count, position } of changed.values())
      openInterval.run(groupId, member_id, snapshot_count, position, index);
  }

  function writeSnapshot(group: GroupRow, { causeId, actor, at }: { causeId: number; actor: Actor; at: number }): void {
    const index = group.snapshot_count + 1;
    const members = membersOf.all(group.id);
    writeMembers(group.id, members, index);
    const state = computeLogicalVerdict(members.map((member) => fromSqlBoolean(member.state)));
    const compliant = toSqlBoolean(state);
    const sum = (column: "compliant_count" | "non_compliant_count" | "unknown_count"): number =>
      members.reduce((total, member) => total + (member[column] ?? 0), 0);
    const causeIndex = members.find(({ member_id }) => member_id === causeId)?.snapshot_count ?? 0;
    const time = clock.timeOfSnapshot(at, group.last_changed_at);
    insertSnapshot.run(
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
    if (time < (group.last_changed_at ?? 0)) insertSetback.run(group.id, index, time);
    advance.run(index, time, compliant, group.id);
    onSnapshotMade(group.id, index, time);
  }

  return {
    /** Adds a snapshot to every active logical environment that includes the member. @param at epoch seconds. */
    recordMemberSnapshot(environmentId: number, actor: Actor, at: number): void {
      for (const group of groupsOf.all(environmentId)) writeSnapshot(group, { causeId: environmentId, actor, at });
    },
  };
}
