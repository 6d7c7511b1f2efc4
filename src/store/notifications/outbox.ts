/**
 * Messages to somebody outside (outbox): inserted in the write that ends the job which the change that they tell of
 * asked for (triggers.ts), so that there is a message when there was the change, and once. Within a queue they are sent
 * one after another, in the order in which they were added.
 *
 * Invariant: a queue has a job (store/jobs.ts) exactly as long as something waits in it, and only one. So two never
 * send out of one queue, and jobs/deliveries.ts, which does that job, ends it in the write that empties the queue.
 *
 * Everything that changes something is to be called inside a write.
 */
import type { RenderedMessage } from "../../domain/notification/render.ts";
import type { jobStore } from "../db/jobs.ts";
import type { Db, SchemaSources } from "../db/types.ts";

export type NewDelivery = {
  organizationId: number;
  /** Whose messages wait for each other: `target N`, or another word where there is no target. */
  queue: string;
  /** The row of notification_targets that this is for; null for recipients that nobody configured. */
  targetId: number | null;
  /** For people: the name of the action and the event. */
  subject: string;
  message: RenderedMessage;
};

/** The message of a queue that is to be sent next. */
export type WaitingDelivery = {
  id: number;
  public_id: string;
  organization_name: string;
  queue: string;
  target_id: number | null;
  /** 1 with target_id null: the target was deleted since. */
  has_target: 0 | 1;
  subject: string;
  type: RenderedMessage["type"];
  target_json: string;
  message_json: string;
  /** Attempts so far, since `waiting_since`. */
  attempts: number;
  waiting_since: number;
  due_at: number;
  /** The key that signs what goes to a WEBHOOK; null where the target has none. */
  secret: string | null;
};

/** One attempt, for the log of deliveries. Times in epoch seconds and seconds; `error` null: it was accepted. */
export type Attempt = {
  startedAt: number;
  seconds: number;
  address: string | null;
  status: number | null;
  error: string | null;
};

/**
 * What becomes of a message after an attempt. `left`: the recipients of an e-mail who have not accepted it yet, all
 * others have.
 */
export type DeliveryOutcome =
  | { state: "delivered" }
  | { state: "dead" }
  | { state: "waiting"; dueAt: number; left: readonly string[] | null };

/**
 * The kinds of the jobs that empty queues, with `{ queue }` as payload: mail has one of its own, because all of it goes
 * to one server, which may be down or want few connections.
 */
export const DELIVER = "deliver";
export const DELIVER_MAIL = "deliver_mail";
export type DeliverPayload = { queue: string };

/** Characters of an error that are kept; the log has all of it. */
const MAX_ERROR_CHARS = 500;

export function outboxStore(db: Db, { now, newId }: SchemaSources, jobs: ReturnType<typeof jobStore>) {
  const insert = db.prepare(
    `INSERT INTO deliveries (public_id, organization_id, queue, target_id, has_target, subject, type, target_json, message_json, state, created_at, waiting_since, due_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'waiting', ?, ?, ?)`,
  );
  const jobOf = db.prepare<[string], { job_id: number }>("SELECT job_id FROM delivery_queues WHERE queue = ?");
  const setJob = db.prepare(
    "INSERT INTO delivery_queues (queue, job_id) VALUES (?, ?) ON CONFLICT (queue) DO UPDATE SET job_id = excluded.job_id",
  );
  const endQueue = db.prepare("DELETE FROM delivery_queues WHERE queue = ?");
  const first = db.prepare<[string], WaitingDelivery>(
    `SELECT d.id, d.public_id, o.name AS organization_name, d.queue, d.target_id, d.has_target, d.subject, d.type, d.target_json, d.message_json,
       d.attempts, d.waiting_since, d.due_at, t.secret
     FROM deliveries d JOIN organizations o ON o.id = d.organization_id LEFT JOIN notification_targets t ON t.id = d.target_id
     WHERE d.queue = ? AND d.state = 'waiting' ORDER BY d.id LIMIT 1`,
  );
  const firstDue = db.prepare<[string], { due_at: number }>(
    "SELECT due_at FROM deliveries WHERE queue = ? AND state = 'waiting' ORDER BY id LIMIT 1",
  );
  const logAttempt = db.prepare(
    "INSERT INTO delivery_attempts (delivery_id, started_at, seconds, address, status, error) VALUES (?, ?, ?, ?, ?, ?)",
  );
  const isWaiting = db.prepare<[number], { id: number }>(
    "SELECT id FROM deliveries WHERE id = ? AND state = 'waiting'",
  );
  const finish = db.prepare(
    "UPDATE deliveries SET state = ?, attempts = attempts + ?, finished_at = ?, last_error = ? WHERE id = ?",
  );
  const wait = db.prepare(
    "UPDATE deliveries SET attempts = attempts + 1, due_at = ?, last_error = ?, target_json = coalesce(?, target_json) WHERE id = ?",
  );
  const succeeded = db.prepare("UPDATE notification_targets SET last_success_at = ? WHERE id = ?");
  const failed = db.prepare("UPDATE notification_targets SET last_failure_at = ?, last_error = ? WHERE id = ?");
  const deleteOld = db.prepare(
    "DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries INDEXED BY deliveries_delivered WHERE state = 'delivered' AND finished_at < ? ORDER BY finished_at LIMIT ?)",
  );
  const restart = db.prepare(
    `UPDATE deliveries SET state = 'waiting', attempts = 0, waiting_since = ?, due_at = ?, finished_at = NULL
     WHERE id = ? AND state IN ('dead', 'waiting') RETURNING queue, type`,
  );
  const deleteDead = db.prepare("DELETE FROM deliveries WHERE id = ? AND state = 'dead'");

  /** Sees to it that a queue in which something waits has its job, due at `at` or before. */
  function employ({ queue, type }: Pick<WaitingDelivery, "queue" | "type">, at: number): void {
    const job = jobOf.get(queue);
    if (job && jobs.find(job.job_id)) jobs.expedite(job.job_id, at);
    else setJob.run(queue, jobs.add(type === "EMAIL" ? DELIVER_MAIL : DELIVER, { queue } satisfies DeliverPayload, at));
  }

  const pull = db.prepare<[number, number]>("UPDATE deliveries SET due_at = ? WHERE state = 'waiting' AND due_at >= ?");

  return {
    /**
     * Makes all waiting messages that are due at `from` or later due at `at`; the jobs of their queues are not touched.
     */
    pullForward: (from: number, at: number): void => void pull.run(at, from),
    /** Adds a message that waits to be sent. To be called inside a write. */
    add({ organizationId, queue, targetId, subject, message }: NewDelivery): void {
      const at = now();
      const [target, content] =
        message.type === "EMAIL"
          ? [{ emails: message.emails }, { subject: message.subject, text: message.text, html: message.html }]
          : [{ webhook: message.webhook }, message.body];
      const isFirst = firstDue.get(queue) === undefined;
      insert.run(
        newId(),
        organizationId,
        queue,
        targetId,
        targetId === null ? 0 : 1,
        subject,
        message.type,
        JSON.stringify(target),
        JSON.stringify(content),
        at,
        at,
        at,
      );
      // Behind others it waits for them, and they may have to wait for their own reasons.
      if (isFirst) employ({ queue, type: message.type }, at);
    },
    /** What is to be sent next out of a queue, whether or not it is due; null when nothing waits. */
    findFirst: (queue: string): WaitingDelivery | null => first.get(queue) ?? null,
    /**
     * When a queue wants its job again, epoch seconds. null when nothing waits in it any more: then its job has to be
     * ended in this same write, because the next message brings a job of its own.
     */
    nextDue(queue: string): number | null {
      const due = firstDue.get(queue)?.due_at ?? null;
      if (due === null) endQueue.run(queue);
      return due;
    },
    /**
     * Notes an attempt and what follows from it, with its target too. Does nothing when the message does not wait any
     * more.
     * @param told the error in words for the organization, null after a success.
     */
    recordAttempt(
      delivery: Pick<WaitingDelivery, "id" | "target_id">,
      attempt: Attempt,
      fate: DeliveryOutcome,
      told: string | null,
    ): void {
      if (!isWaiting.get(delivery.id)) return;
      const ended = attempt.startedAt + attempt.seconds;
      const error = attempt.error?.slice(0, MAX_ERROR_CHARS) ?? null;
      logAttempt.run(delivery.id, attempt.startedAt, attempt.seconds, attempt.address, attempt.status, error);
      if (fate.state === "waiting")
        wait.run(fate.dueAt, error, fate.left && JSON.stringify({ emails: fate.left }), delivery.id);
      else finish.run(fate.state, 1, ended, error, delivery.id);
      if (told === null) succeeded.run(ended, delivery.target_id);
      else failed.run(ended, told.slice(0, MAX_ERROR_CHARS), delivery.target_id);
    },
    /** Gives a waiting message up without an attempt. */
    markDead: (id: number, reason: string): void =>
      void (isWaiting.get(id) && finish.run("dead", 0, now(), reason, id)),
    /**
     * Deletes at most `limit` messages that were delivered before a time, and their log. Those that are dead stay.
     * @returns how many.
     */
    deleteDelivered: (before: number, limit: number): number => deleteOld.run(before, limit).changes,
    /**
     * Has a dead message sent after all, or a waiting one at once, with all attempts of a new one; in its old place
     * among those of its queue. @returns whether.
     */
    retry(id: number): boolean {
      const at = now();
      const row = restart.get(at, at, id) as Pick<WaitingDelivery, "queue" | "type"> | undefined;
      if (row) employ(row, at);
      return row !== undefined;
    },
    /** Deletes a dead message and its log. @returns whether. */
    deleteDead: (id: number): boolean => deleteDead.run(id).changes > 0,
  };
}
