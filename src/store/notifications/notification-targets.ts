/**
 * Where messages go: the targets of actions and of what the server itself raises, each with the times of what was sent
 * to it and, for a WEBHOOK, the secret that signs it. A target that stays the same recipient keeps its row, so that a
 * change of something else loses neither. Secrets leave this file through `secrets` only, which the command line alone
 * calls.
 */
import { identityOfTarget } from "../../domain/notification/targets.ts";
import type { KeptTarget, TargetType } from "../../domain/notification/targets.ts";
import type { Db } from "../db/types.ts";

export type TargetRow = {
  id: number;
  /** null: an object of a form that nothing is ever sent to. */
  type: TargetType | null;
  target_json: string;
  /** Epoch seconds, null before the first. */
  last_success_at: number | null;
  last_failure_at: number | null;
  last_error: string | null;
};

/** Whose targets: those of an action, or of a kind of notification of an organization. */
export type TargetOwner =
  | { organizationId: number; actionId: number }
  | { organizationId: number; notificationType: string };

const COLUMNS = "id, type, target_json, last_success_at, last_failure_at, last_error";

/** The queue in which the messages to a target wait for each other. */
export const queueOf = (targetId: number): string => `target ${targetId}`;

/** Whether the latest message that was sent there did not arrive. */
export const isTargetFailing = ({
  last_success_at,
  last_failure_at,
}: Pick<TargetRow, "last_success_at" | "last_failure_at">): boolean =>
  last_failure_at !== null && (last_success_at === null || last_failure_at > last_success_at);

export function notificationTargetStore(db: Db) {
  const ofAction = db.prepare<[number], TargetRow>(
    `SELECT ${COLUMNS} FROM notification_targets WHERE action_id = ? ORDER BY position`,
  );
  const ofType = db.prepare<[number, string], TargetRow>(
    `SELECT ${COLUMNS} FROM notification_targets WHERE organization_id = ? AND notification_type = ? ORDER BY position`,
  );
  const byId = db.prepare<[number], TargetRow>(`SELECT ${COLUMNS} FROM notification_targets WHERE id = ?`);
  const insert = db.prepare(
    `INSERT INTO notification_targets (organization_id, action_id, notification_type, position, type, target_json, secret) VALUES (?, ?, ?, ?, ?, ?, ?)`,
  );
  const update = db.prepare("UPDATE notification_targets SET position = ?, target_json = ? WHERE id = ?");
  const remove = db.prepare("DELETE FROM notification_targets WHERE id = ?");
  const secretOf = db.prepare<[number], { secret: string | null }>(
    "SELECT secret FROM notification_targets WHERE id = ?",
  );
  const setSecret = db.prepare("UPDATE notification_targets SET secret = ? WHERE id = ?");

  const list = (owner: TargetOwner): TargetRow[] =>
    "actionId" in owner ? ofAction.all(owner.actionId) : ofType.all(owner.organizationId, owner.notificationType);

  /** What still waits for it is not sent any more (deliveries.ts): whoever takes a recipient away means now. */
  const drop = ({ id }: TargetRow): void => void remove.run(id);

  return {
    /** In their order. */
    list,
    /** The target with that key, null when it is gone. */
    find: (id: number): TargetRow | null => byId.get(id) ?? null,

    /**
     * Replaces the targets, in this order. @param newSecret makes the secret of a WEBHOOK that is new. @returns whether
     * anything differs from before.
     */
    replace(owner: TargetOwner, targets: readonly KeptTarget[], newSecret: () => string): boolean {
      const before = list(owner);
      const left = [...before];
      let changed = targets.length !== before.length;
      targets.forEach((kept, place) => {
        const json = JSON.stringify(kept.target);
        const found = left.findIndex((row) => identityOfRow(row) === identityOfTarget(kept));
        const [row] = found === -1 ? [] : left.splice(found, 1);
        if (row === undefined) {
          const [action, type] = "actionId" in owner ? [owner.actionId, null] : [null, owner.notificationType];
          insert.run(
            owner.organizationId,
            action,
            type,
            place,
            kept.type,
            json,
            kept.type === "WEBHOOK" ? newSecret() : null,
          );
          changed = true;
        } else if (before[place] !== row || row.target_json !== json) {
          update.run(place, json, row.id);
          changed = true;
        }
      });
      left.forEach(drop);
      return changed;
    },

    /** Removes all of them. @returns how many there were. */
    deleteAll(owner: TargetOwner): number {
      const rows = list(owner);
      rows.forEach(drop);
      return rows.length;
    },

    /** The secrets of the WEBHOOKs, in their order. For the operator. */
    listSecrets: (owner: TargetOwner): { id: number; webhook: string; secret: string }[] =>
      list(owner).flatMap(({ id, type, target_json }) =>
        type === "WEBHOOK"
          ? [
              {
                id,
                webhook: (JSON.parse(target_json) as { webhook: string }).webhook,
                secret: secretOf.get(id)?.secret ?? "",
              },
            ]
          : [],
      ),
    /** Gives a WEBHOOK another secret: what is sent from then on is signed with it. */
    setSecret: (id: number, secret: string): void => void setSecret.run(secret, id),
  };
}

/** A damaged row is no recipient that anybody asks for. */
function identityOfRow({ type, target_json }: TargetRow): string | null {
  try {
    return identityOfTarget({ type, target: JSON.parse(target_json) as KeptTarget["target"] });
  } catch {
    return null;
  }
}
