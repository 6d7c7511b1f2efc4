import type { RenderedMessage } from "../../domain/notification/render.ts";
import type { Db } from "../db/types.ts";

export type DeliveryState = "waiting" | "delivered" | "dead";

export type DeliveryRow = {
  id: number;
  public_id: string;
  organization_id: number;
  organization_name: string;
  queue: string;
  /** The action of its target; null without one, and when it was deleted since. */
  action_name: string | null;
  subject: string;
  type: RenderedMessage["type"];
  target_json: string;
  message_json: string;
  state: DeliveryState;
  attempts: number;
  created_at: number;
  due_at: number;
  finished_at: number | null;
  last_error: string | null;
};

export type AttemptRow = {
  started_at: number;
  seconds: number;
  address: string | null;
  status: number | null;
  error: string | null;
};

export type DeliveryFilter = {
  organizationId: number | null;
  state: DeliveryState | null;
  /** With `organizationId` only: the name of an action that exists. */
  action: string | null;
  /** Only messages that were added before the one with this key. */
  before: number | null;
};

const ROWS = `SELECT d.id, d.public_id, d.organization_id, o.name AS organization_name, d.queue, a.name AS action_name, d.subject, d.type, d.target_json,
    d.message_json, d.state, d.attempts, d.created_at, d.due_at, d.finished_at, d.last_error
  FROM deliveries d JOIN organizations o ON o.id = d.organization_id
  LEFT JOIN notification_targets t ON t.id = d.target_id LEFT JOIN actions a ON a.id = t.action_id`;

const TARGETS_OF_ACTION =
  "SELECT w.id FROM actions n JOIN notification_targets w ON w.action_id = n.id WHERE n.organization_id = ? AND n.name = ?";

export function deliveryLogStore(db: Db) {
  const byId = db.prepare<[string], DeliveryRow>(`${ROWS} WHERE d.public_id = ?`);
  const attempts = db.prepare<[number], AttemptRow>(
    "SELECT started_at, seconds, address, status, error FROM delivery_attempts WHERE delivery_id = ? ORDER BY id",
  );
  const action = db.prepare<[number, string], { id: number }>(
    "SELECT id FROM actions WHERE organization_id = ? AND name = ?",
  );
  return {
    hasAction: (organizationId: number, name: string): boolean => action.get(organizationId, name) !== undefined,
    find: (publicId: string): DeliveryRow | null => byId.get(publicId) ?? null,
    /** All attempts of a message, oldest first, those before it was retried too. */
    listAttempts: (id: number): AttemptRow[] => attempts.all(id),
    /** At most `limit` messages that fit every given filter, newest first. */
    list({ organizationId, state, action, before }: DeliveryFilter, limit: number): DeliveryRow[] {
      const parts: string[] = [];
      const values: (string | number)[] = [];
      const add = (sql: string, ...more: (string | number)[]): void => {
        parts.push(sql);
        for (const value of more) values.push(value);
      };
      // Few are waiting or dead, so they lead; of what was delivered most organizations have their share.
      const stateLeads = state === "waiting" || state === "dead" || organizationId === null;
      if (state !== null) add(`${stateLeads ? "" : "+"}d.state = ?`, state);
      if (organizationId !== null) add(`${stateLeads ? "+" : ""}d.organization_id = ?`, organizationId);
      if (organizationId !== null && action !== null)
        add(`+d.target_id IN (${TARGETS_OF_ACTION})`, organizationId, action);
      if (before !== null) add("d.id < ?", before);
      const where = parts.length > 0 ? `WHERE ${parts.join(" AND ")}` : "";
      return db
        .prepare<[(string | number)[]], DeliveryRow>(`${ROWS} ${where} ORDER BY d.id DESC LIMIT ?`)
        .all([...values, limit]);
    },
  };
}
