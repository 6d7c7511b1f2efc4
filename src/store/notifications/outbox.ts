/**
 * The outbox: messages to recipients outside. A message is inserted in the write that ends the job which its change
 * added (triggers.ts), so that there is exactly one for each committed change. Within a queue, messages are sent one
 * after another, in the order in which they were added.
 *
 * Invariant: a queue has exactly one job (store/db/jobs.ts) while a message waits in it, and none otherwise. So two
 * workers never send from one queue, and notifications/deliver.ts, which runs the job, ends it in the write that
 * empties the queue.
 *
 * Call everything that changes something inside a write. Times are epoch seconds.
 */
import type { RenderedMessage } from "../../domain/notification/render.ts";
import type { jobStore } from "../db/jobs.ts";
import type { Db, SchemaSources } from "../db/types.ts";

type NewDelivery = {
  organizationId: number;
  /** `target N`, or another name where there is no target. */
  queue: string;
  /** The row of notification_targets that it is for; null for recipients that were not configured. */
  targetId: number | null;
  /** For people: the name of the action, and the event. */
  subject: string;
  message: RenderedMessage;
};

/** The next message of a queue. */
export type WaitingDelivery = {
  id: number;
  public_id: string;
  organization_name: string;
  queue: string;
  target_id: number | null;
  /** 1 with target_id null: the target was deleted afterwards. */
  has_target: 0 | 1;
  subject: string;
  type: RenderedMessage["type"];
  target_json: string;
  message_json: string;
  /** Attempts since `waiting_since`. */
  attempts: number;
  waiting_since: number;
  due_at: number;
  /** The key that signs messages to a WEBHOOK; null where the target has none. */
  secret: string | null;
};

/** An attempt, for the delivery log. `error` null: the recipient accepted the message. */
type Attempt = {
  startedAt: number;
  seconds: number;
  address: string | null;
  status: number | null;
  error: string | null;
};

/** The state of a message after an attempt. `left`: the recipients of an e-mail who have not accepted it yet. */
export type DeliveryOutcome =
  | { state: "delivered" }
  | { state: "dead" }
  | { state: "waiting"; dueAt: number; left: readonly string[] | null };

/**
 * The kinds of the jobs that send queues, with `{ queue }` as payload. Mail has a kind of its own, because all of it
 * goes to one server, which may be down or accept few connections.
 */
export const DELIVER = "deliver";
export const DELIVER_MAIL = "deliver_mail";
export type DeliverPayload = { queue: string };

/** Longer errors are truncated; the server log has all of it. */
const MAX_ERROR_CHARS = 500;

export function outboxStore(db: Db, { now, newId }: SchemaSources, jobs: ReturnType<typeof jobStore>) {
  const insert = db.prepare(
    `INSERT INTO deliveries (public_id, organization_id, queue, target_id, has_target, subject, type, target_json,
                             message_json, state, created_at, waiting_since, due_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'waiting', ?, ?, ?)`,
  );
  const waitingAbout = db.prepare<[string, string], { id: number }>(
    "SELECT id FROM deliveries WHERE queue = ? AND state = 'waiting' AND subject = ? LIMIT 1",
  );
  const jobOf = db.prepare<[string], { job_id: number }>("SELECT job_id FROM delivery_queues WHERE queue = ?");
  const setJob = db.prepare(
    `INSERT INTO delivery_queues (queue, job_id) VALUES (?, ?)
     ON CONFLICT (queue) DO UPDATE SET job_id = excluded.job_id`,
  );
  const endQueue = db.prepare("DELETE FROM delivery_queues WHERE queue = ?");
  const first = db.prepare<[string], WaitingDelivery>(
    `SELECT d.id, d.public_id, o.name AS organization_name, d.queue, d.target_id, d.has_target, d.subject, d.type,
            d.target_json, d.message_json, d.attempts, d.waiting_since, d.due_at, tgt.secret
     FROM deliveries d JOIN organizations o ON o.id = d.organization_id
       LEFT JOIN notification_targets tgt ON tgt.id = d.target_id
     WHERE d.queue = ? AND d.state = 'waiting' ORDER BY d.id LIMIT 1`,
  );
  const firstDue = db.prepare<[string], { due_at: number }>(
    "SELECT due_at FROM deliveries WHERE queue = ? AND state = 'waiting' ORDER BY id LIMIT 1",
  );
  const insertAttempt = db.prepare(
    `INSERT INTO delivery_attempts (delivery_id, started_at, seconds, address, status, error)
     VALUES (?, ?, ?, ?, ?, ?)`,
  );
  const isWaiting = db.prepare<[number], { id: number }>(
    "SELECT id FROM deliveries WHERE id = ? AND state = 'waiting'",
  );
  const finish = db.prepare(
    "UPDATE deliveries SET state = ?, attempts = attempts + ?, finished_at = ?, last_error = ? WHERE id = ?",
  );
  const postpone = db.prepare(
    `UPDATE deliveries SET attempts = attempts + 1, due_at = ?, last_error = ?, target_json = coalesce(?, target_json)
     WHERE id = ?`,
  );
  const setSuccess = db.prepare("UPDATE notification_targets SET last_success_at = ? WHERE id = ?");
  const setFailure = db.prepare("UPDATE notification_targets SET last_failure_at = ?, last_error = ? WHERE id = ?");
  const deleteDelivered = db.prepare(
    `DELETE FROM deliveries WHERE id IN (
       SELECT id FROM deliveries INDEXED BY deliveries_delivered
       WHERE state = 'delivered' AND finished_at < ? ORDER BY finished_at LIMIT ?)`,
  );
  const restart = db.prepare(
    `UPDATE deliveries SET state = 'waiting', attempts = 0, waiting_since = ?, due_at = ?, finished_at = NULL
     WHERE id = ? AND state IN ('dead', 'waiting') RETURNING queue, type`,
  );
  const deleteDead = db.prepare("DELETE FROM deliveries WHERE id = ? AND state = 'dead'");
  const pull = db.prepare<[number, number]>("UPDATE deliveries SET due_at = ? WHERE state = 'waiting' AND due_at >= ?");

  /** Ensures that a queue with waiting messages has its job, due at `at` or earlier. */
  function ensureJob({ queue, type }: Pick<WaitingDelivery, "queue" | "type">, at: number): void {
    const job = jobOf.get(queue);
    if (job && jobs.find(job.job_id)) jobs.expedite(job.job_id, at);
    else setJob.run(queue, jobs.add(type === "EMAIL" ? DELIVER_MAIL : DELIVER, { queue } satisfies DeliverPayload, at));
  }

  return {
    /**
     * Makes all waiting messages that are due at `from` or later due at `at`. Does not move the jobs of their queues.
     */
    pullForward: (from: number, at: number): void => void pull.run(at, from),
    /** Whether a message with this subject waits in a queue. */
    isWaiting: (queue: string, subject: string): boolean => waitingAbout.get(queue, subject) !== undefined,
    /** Adds a waiting message. @returns its public id */
    add({ organizationId, queue, targetId, subject, message }: NewDelivery): string {
      const at = now();
      const publicId = newId();
      const [target, content] =
        message.type === "EMAIL"
          ? [{ emails: message.emails }, { subject: message.subject, text: message.text, html: message.html }]
          : [{ webhook: message.webhook }, message.body];
      const isFirst = firstDue.get(queue) === undefined;
      insert.run(
        publicId,
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
      // Behind other messages it waits for them, and they may be waiting for a retry.
      if (isFirst) ensureJob({ queue, type: message.type }, at);
      return publicId;
    },
    /** The next message of a queue, due or not; null when the queue is empty. */
    findFirst: (queue: string): WaitingDelivery | null => first.get(queue) ?? null,
    /**
     * When the job of a queue is due again; null when the queue is empty. Then the caller ends the job in the same
     * write, because the next message adds a job of its own.
     */
    nextDue(queue: string): number | null {
      const due = firstDue.get(queue)?.due_at ?? null;
      if (due === null) endQueue.run(queue);
      return due;
    },
    /**
     * Records an attempt and its outcome, and updates the target. No effect when the message no longer waits.
     * @param publicError the error in words for the organization; null after a success.
     */
    recordAttempt(
      delivery: Pick<WaitingDelivery, "id" | "target_id">,
      attempt: Attempt,
      { outcome, publicError }: { outcome: DeliveryOutcome; publicError: string | null },
    ): void {
      if (!isWaiting.get(delivery.id)) return;
      const ended = attempt.startedAt + attempt.seconds;
      const error = attempt.error?.slice(0, MAX_ERROR_CHARS) ?? null;
      insertAttempt.run(delivery.id, attempt.startedAt, attempt.seconds, attempt.address, attempt.status, error);
      if (outcome.state === "waiting")
        postpone.run(outcome.dueAt, error, outcome.left && JSON.stringify({ emails: outcome.left }), delivery.id);
      else finish.run(outcome.state, 1, ended, error, delivery.id);
      if (publicError === null) setSuccess.run(ended, delivery.target_id);
      else setFailure.run(ended, publicError.slice(0, MAX_ERROR_CHARS), delivery.target_id);
    },
    /** Makes a waiting message dead without an attempt. */
    markDead: (id: number, reason: string): void =>
      void (isWaiting.get(id) && finish.run("dead", 0, now(), reason, id)),
    /**
     * Deletes at most `limit` messages delivered before a time, with their attempts. Dead ones stay. @returns how many.
     */
    deleteDelivered: (before: number, limit: number): number => deleteDelivered.run(before, limit).changes,
    /**
     * Retries a dead or waiting message now, with all the attempts of a new one, in its old position in the queue.
     * @returns false when there is no such message.
     */
    retry(id: number): boolean {
      const at = now();
      const row = restart.get(at, at, id) as Pick<WaitingDelivery, "queue" | "type"> | undefined;
      if (row) ensureJob(row, at);
      return row !== undefined;
    },
    /** Deletes a dead message with its attempts. @returns whether there was one. */
    deleteDead: (id: number): boolean => deleteDead.run(id).changes > 0,
  };
}
