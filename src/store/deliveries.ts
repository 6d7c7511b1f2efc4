/**
 * Messages to somebody outside (outbox): inserted in the write of the change that they tell of, so that a message exists
 * exactly when the change does. Within a queue they are sent one after another, in the order in which they were added.
 */
import type { Db, Sources } from "./database.ts";

/** What is sent, in the form that its kind of target wants. `body` becomes the JSON text of a POST. */
export type Message =
  | { type: "WEBHOOK"; webhook: string; body: Readonly<Record<string, unknown>> }
  | { type: "SLACK"; webhook: string; body: Readonly<Record<string, unknown>> }
  | { type: "EMAIL"; emails: readonly string[]; subject: string; text: string; html: string };

export type NewDelivery = {
  organizationId: number;
  /** Whose messages wait for each other: `target N`, or another word where there is no target. */
  queue: string;
  /** The row of notification_targets that this is for; null for recipients that nobody configured. */
  targetId: number | null;
  /** For people: the name of the action and the event. */
  subject: string;
  message: Message;
};

export function deliveryStore(db: Db, { now, newId }: Sources) {
  const insert = db.prepare(
    `INSERT INTO deliveries (public_id, organization_id, queue, target_id, subject, type, target_json, message_json, state, created_at, due_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'waiting', ?, ?)`,
  );
  return {
    /** Adds a message that waits to be sent. To be called inside a write. */
    add({ organizationId, queue, targetId, subject, message }: NewDelivery): void {
      const at = now();
      const [target, content] =
        message.type === "EMAIL"
          ? [{ emails: message.emails }, { subject: message.subject, text: message.text, html: message.html }]
          : [{ webhook: message.webhook }, message.body];
      insert.run(newId(), organizationId, queue, targetId, subject, message.type, JSON.stringify(target), JSON.stringify(content), at, at);
    },
  };
}
