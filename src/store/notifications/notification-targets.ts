/**
 * Notification targets: the recipients of actions and of the server's own notifications, with the times of their last
 * success and failure and, for a WEBHOOK, the secret that signs its messages.
 *
 * Invariants: a target that stays the same recipient keeps its row, so that other changes lose neither times nor
 * secret; secrets leave this file through `listSecrets` only, which only the command line calls.
 */
import { hasMembers, isObject, readStoredJson, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import { targetIdentityOf } from "../../domain/notification/targets.ts";
import type { StoredTarget, TargetType } from "../../domain/notification/targets.ts";
import { number, orNull, selectList, string, stringOf } from "../db/columns.ts";
import type { RowOf } from "../db/columns.ts";
import type { Db } from "../db/types.ts";

const TARGET = {
  id: number,
  /** null for an object of a form that messages are never sent to. */
  type: orNull(stringOf<TargetType>()),
  target_json: string,
  /** Epoch seconds, null before the first. */
  last_success_at: orNull(number),
  last_failure_at: orNull(number),
  last_error: orNull(string),
};
export type TargetRow = RowOf<typeof TARGET>;

/** The owner of targets: an action, or a kind of notification of an organization. */
export type TargetOwner =
  | { organizationId: number; actionId: number }
  | { organizationId: number; notificationType: string };

const COLUMNS = selectList(TARGET);

/** The queue of the outbox in which the messages to a target are sent one after another. */
export const queueOf = (targetId: number): string => `target ${targetId}`;

/** Whether the latest message to a target was not delivered. */
export const isTargetFailing = ({
  last_success_at,
  last_failure_at,
}: Pick<TargetRow, "last_success_at" | "last_failure_at">): boolean =>
  last_failure_at !== null && (last_success_at === null || last_failure_at > last_success_at);

export function notificationTargetStore(db: Db) {
  const byAction = db.prepare<[number], TargetRow>(
    `SELECT ${COLUMNS} FROM notification_targets WHERE action_id = ? ORDER BY position`,
  );
  const byType = db.prepare<[number, string], TargetRow>(
    `SELECT ${COLUMNS} FROM notification_targets WHERE organization_id = ? AND notification_type = ? ORDER BY position`,
  );
  const byId = db.prepare<[number], TargetRow>(`SELECT ${COLUMNS} FROM notification_targets WHERE id = ?`);
  const insert = db.prepare(
    `INSERT INTO notification_targets (organization_id, action_id, notification_type, position, type, target_json,
                                       secret)
     VALUES (?, ?, ?, ?, ?, ?, ?)`,
  );
  const update = db.prepare("UPDATE notification_targets SET position = ?, target_json = ? WHERE id = ?");
  const remove = db.prepare("DELETE FROM notification_targets WHERE id = ?");
  const secretOf = db.prepare<[number], { secret: string | null }>(
    "SELECT secret FROM notification_targets WHERE id = ?",
  );
  const setSecret = db.prepare("UPDATE notification_targets SET secret = ? WHERE id = ?");

  const list = (owner: TargetOwner): TargetRow[] =>
    "actionId" in owner ? byAction.all(owner.actionId) : byType.all(owner.organizationId, owner.notificationType);

  /** Its waiting messages are not sent any more (outbox.ts): removing a recipient takes effect at once. */
  const deleteTarget = ({ id }: TargetRow): void => void remove.run(id);

  function insertTarget(
    owner: TargetOwner,
    target: StoredTarget,
    at: { position: number; secret: string | null },
  ): void {
    const [action, type] = "actionId" in owner ? [owner.actionId, null] : [null, owner.notificationType];
    const json = JSON.stringify(target.target);
    insert.run(owner.organizationId, action, type, at.position, target.type, json, at.secret);
  }

  return {
    /** The targets of an owner, in their order. */
    list,
    /** The target with that id; null when it was deleted. */
    find: (id: number): TargetRow | null => byId.get(id) ?? null,

    /**
     * Replaces the targets, in this order.
     * @param newSecret makes the secret of a new WEBHOOK.
     * @returns whether anything changed.
     */
    replace(owner: TargetOwner, targets: readonly StoredTarget[], newSecret: () => string): boolean {
      const before = list(owner);
      const unmatched = [...before];
      let isChanged = targets.length !== before.length;
      for (const [position, target] of targets.entries()) {
        const json = JSON.stringify(target.target);
        const index = unmatched.findIndex((row) => identityOfRow(row) === targetIdentityOf(target));
        const [row] = index === -1 ? [] : unmatched.splice(index, 1);
        if (row === undefined) {
          insertTarget(owner, target, { position, secret: target.type === "WEBHOOK" ? newSecret() : null });
          isChanged = true;
        } else if (before[position] !== row || row.target_json !== json) {
          update.run(position, json, row.id);
          isChanged = true;
        }
      }
      unmatched.forEach(deleteTarget);
      return isChanged;
    },

    /** Deletes all targets of an owner. @returns how many there were. */
    deleteAll(owner: TargetOwner): number {
      const rows = list(owner);
      rows.forEach(deleteTarget);
      return rows.length;
    },

    /** The secrets of the WEBHOOKs, in their order, for the operator. */
    listSecrets: (owner: TargetOwner): { id: number; webhook: string; secret: string }[] =>
      list(owner)
        .filter(({ type }) => type === "WEBHOOK")
        .map(({ id, target_json }) => ({
          id,
          webhook: readStoredJson(target_json, hasMembers<{ webhook: string }>("webhook")).webhook,
          secret: secretOf.get(id)?.secret ?? "",
        })),
    /** Replaces the secret of a WEBHOOK; it signs every message from now on. */
    setSecret: (id: number, secret: string): void => void setSecret.run(secret, id),
  };
}

/** null for a damaged row, which never is the recipient that was asked for. */
function identityOfRow({ type, target_json }: TargetRow): string | null {
  const target = readStoredJsonOrNull(target_json, isObject);
  return target && targetIdentityOf({ type, target });
}
