/**
 * The delivery log: messages of the outbox with their attempts, as the API and the command line show them. Read-only.
 */
import type { RenderedMessage } from "../../domain/notification/render.ts";
import type { DbReader } from "../db/types.ts";

export type DeliveryState = "waiting" | "delivered" | "dead";

export type DeliveryRow = {
  id: number;
  public_id: string;
  organization_id: number;
  organization_name: string;
  queue: string;
  /** The action of its target; null without one, and after it was deleted. */
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

/** A message to a target of an action, as the organization may see it. */
export type ActionDeliveryRow = Pick<
  DeliveryRow,
  | "id"
  | "public_id"
  | "subject"
  | "type"
  | "target_json"
  | "state"
  | "attempts"
  | "created_at"
  | "due_at"
  | "finished_at"
> & {
  /** Of the latest attempt, in epoch seconds; null before the first. */
  attempted_at: number | null;
  /** The HTTP or SMTP status that answered the latest attempt; null without a response. */
  status: number | null;
  /**
   * The error of the latest attempt in words for the organization. Known only of the latest failure of each target; the
   * complete error, which names addresses, is for the operator.
   */
  public_error: string | null;
};

export type AttemptRow = {
  started_at: number;
  seconds: number;
  address: string | null;
  status: number | null;
  error: string | null;
};

type DeliveryFilter = {
  organizationId: number | null;
  state: DeliveryState | null;
  /** Together with `organizationId` only: the name of an existing action. */
  action: string | null;
  /** Only messages added before the one with this id. */
  before: number | null;
};

const ROWS = `SELECT d.id, d.public_id, d.organization_id, o.name AS organization_name, d.queue,
    act.name AS action_name, d.subject, d.type, d.target_json, d.message_json, d.state, d.attempts,
    d.created_at, d.due_at, d.finished_at,
    d.last_error
  FROM deliveries d JOIN organizations o ON o.id = d.organization_id
  LEFT JOIN notification_targets tgt ON tgt.id = d.target_id LEFT JOIN actions act ON act.id = tgt.action_id`;

const TARGETS_OF_ACTION = `SELECT tgt.id FROM actions act JOIN notification_targets tgt ON tgt.action_id = act.id
    WHERE act.organization_id = ? AND act.name = ?`;

export function deliveryLogStore(db: DbReader) {
  const byPublicId = db.prepare<[string], DeliveryRow>(`${ROWS} WHERE d.public_id = ?`);
  const attempts = db.prepare<[number], AttemptRow>(
    "SELECT started_at, seconds, address, status, error FROM delivery_attempts WHERE delivery_id = ? ORDER BY id",
  );
  // The end of an attempt identifies it among those of its target, because a queue has one attempt at a time.
  const actionRows = (condition: string, order: string) => `SELECT d.id, d.public_id, d.subject, d.type, d.target_json,
      d.state, d.attempts, d.created_at, d.due_at, d.finished_at, last.started_at AS attempted_at, last.status,
      iif(last.error IS NOT NULL AND tgt.last_failure_at = last.started_at + last.seconds, tgt.last_error, NULL)
        AS public_error
    FROM notification_targets tgt CROSS JOIN deliveries d ON d.target_id = tgt.id
      LEFT JOIN delivery_attempts last ON last.id = (
        SELECT tried.id FROM delivery_attempts tried WHERE tried.delivery_id = d.id ORDER BY tried.id DESC LIMIT 1)
    WHERE ${condition} ${order}`;
  const NEWEST = "ORDER BY d.id DESC LIMIT @limit";
  type Page = { target: number; before: number; state: DeliveryState | null; limit: number };
  const byTarget = db.prepare<Page, ActionDeliveryRow>(
    actionRows("tgt.id = @target AND d.id < @before AND (@state IS NULL OR d.state = @state)", NEWEST),
  );
  const oneOfAction = db.prepare<{ action: number; id: string }, ActionDeliveryRow>(
    actionRows("tgt.action_id = @action AND d.public_id = @id", ""),
  );
  const action = db.prepare<[number, string], { id: number }>(
    "SELECT id FROM actions WHERE organization_id = ? AND name = ?",
  );
  return {
    hasAction: (organizationId: number, name: string): boolean => action.get(organizationId, name) !== undefined,
    find: (publicId: string): DeliveryRow | null => byPublicId.get(publicId) ?? null,
    /**
     * At most `limit` messages to these targets, newest first. @param before id of the last one of the previous page;
     * null for the first page
     */
    listByTargets(
      targets: readonly { id: number }[],
      { state, before, limit }: { state: DeliveryState | null; before: number | null; limit: number },
    ): ActionDeliveryRow[] {
      const page = { before: before ?? Number.MAX_SAFE_INTEGER, state, limit };
      return targets
        .flatMap(({ id }) => byTarget.all({ ...page, target: id }))
        .sort((a, b) => b.id - a.id)
        .slice(0, limit);
    },
    /** A message to a target of that action; null when there is none with that public id. */
    findOfAction: (action: { id: number }, publicId: string): ActionDeliveryRow | null =>
      oneOfAction.get({ action: action.id, id: publicId }) ?? null,
    /** All attempts of a message, oldest first, including those before a retry by the operator. */
    listAttempts: (id: number): AttemptRow[] => attempts.all(id),
    /** At most `limit` messages that match every given filter, newest first. */
    list({ organizationId, state, action, before }: DeliveryFilter, limit: number): DeliveryRow[] {
      const parts: string[] = [];
      const values: (string | number)[] = [];
      const add = (sql: string, ...more: (string | number)[]): void => {
        parts.push(sql);
        for (const value of more) values.push(value);
      };
      // Few messages wait or are dead, so their index leads; delivered ones are spread over all organizations.
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
