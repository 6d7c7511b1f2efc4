/**
 * Sends what waits in the outbox (store/outbox.ts): a job is a queue in which something waits, and each turn of it
 * sends the first message. What comes of the attempt and what becomes of the job are one write, so a message is sent at
 * least once, and again only when the process ended between the two; its receiver knows it by its id.
 *
 * A message that cannot be sent holds up those behind it in its queue, because they may only be understood after it,
 * and nobody else. It does so for a day at most: then it is dead, and the operator decides (assay deliveries).
 */
import { redact } from "../log.ts";
import type { Logger } from "../log.ts";
import type { Outcome } from "./outcome.ts";
import type { Sender } from "./sender.ts";
import type { DeliverPayload, DeliveryOutcome, WaitingDelivery } from "../store/notifications/outbox.ts";
import type { Store } from "../store/index.ts";
import type { Settlement } from "../jobs/job-runner.ts";

/**
 * Seconds from each failed attempt to the next: a restart of the receiver is over in seconds, an outage in hours, and
 * nobody is asked hundreds of times. Ten attempts in 23 hours and 20 minutes.
 */
const PAUSES = [10, 60, 300, 900, 3600, 7200, 14_400, 28_800, 28_800];
export const MOST_ATTEMPTS = PAUSES.length + 1;
/**
 * Attempts of a message that the receiver refused: what was wrong for a minute, as while it is being replaced, may be
 * right soon.
 */
const MOST_REFUSALS = 3;
/**
 * Seconds that a message waits at most, so that a receiver that is gone does not collect messages of many days, each
 * with its ten attempts.
 */
const LONGEST_WAIT = 86_400;
/** Seconds for which a receiver may ask to be left alone. */
const LONGEST_RETRY_AFTER = 3600;

/**
 * Queues of webhooks that are sent out of at a time. Each has a connection and some tens of kilobytes while it is sent
 * out of.
 */
export const PARALLEL_QUEUES = 32;
/** Queues of mail: servers limit the connections of a client, some to few. */
export const PARALLEL_MAIL = 4;

type Parts = { store: Pick<Store, "outbox">; sender: Sender; now(): number; logger: Logger };

/** What is done for a job of the kinds `deliver` and `deliver_mail`. */
export function createDeliverer({ store: { outbox }, sender, now, logger }: Parts) {
  /**
   * When the queue wants its job again: not before all others that wait now had their turn. To be called in a write.
   */
  const nextTurn = (queue: string): number | null => {
    const due = outbox.nextDue(queue);
    return due === null ? null : Math.max(due, now());
  };

  return async function deliver({ queue }: DeliverPayload): Promise<Settlement> {
    const message = outbox.findFirst(queue);
    if (!message || message.due_at > now()) return () => nextTurn(queue);
    if (message.has_target === 1 && message.target_id === null) {
      logger.warn({ ...fieldsOf(message), outcome: "dead", error: TARGET_GONE }, "delivery");
      return () => {
        outbox.markDead(message.id, TARGET_GONE);
        return nextTurn(queue);
      };
    }

    const startedAt = now();
    const outcome = await sender.send(message);
    // As if it had not been tried: the process that starts next begins with it.
    if (outcome.result === "stopped") return () => nextTurn(queue);
    const seconds = Math.max(0, now() - startedAt);
    const fate = fateOf(message, outcome, startedAt + seconds);
    const error = errorOf(outcome);
    const { address, status } = outcome;
    const fields = {
      ...fieldsOf(message),
      attempt: message.attempts + 1,
      address,
      status,
      duration_ms: Math.round(seconds * 1000),
      outcome: fate.state === "waiting" ? "failed" : fate.state,
      ...(fate.state === "waiting" ? { next_attempt_at: fate.dueAt } : {}),
      ...(error === null ? {} : { error }),
    };
    if (error === null) logger.info(fields, "delivery");
    else logger.warn(fields, "delivery");
    return () => {
      outbox.recordAttempt(
        message,
        { startedAt, seconds, address, status, error },
        { outcome: fate, publicError: outcome.told },
      );
      return nextTurn(queue);
    };
  };
}

const TARGET_GONE = "The action or target that this message was for was deleted";

/** What becomes of a message after an attempt that ended at a time. */
function fateOf(
  { attempts, waiting_since }: WaitingDelivery,
  { result, retryAfter, left }: Outcome,
  ended: number,
): DeliveryOutcome {
  if (result === "accepted") return { state: "delivered" };
  const made = attempts + 1;
  const pause = PAUSES[attempts];
  const over =
    result === "hopeless" ||
    pause === undefined ||
    (result === "refused" && made >= MOST_REFUSALS) ||
    ended - waiting_since >= LONGEST_WAIT;
  if (over) return { state: "dead" };
  return { state: "waiting", dueAt: ended + Math.max(pause, Math.min(retryAfter ?? 0, LONGEST_RETRY_AFTER)), left };
}

/**
 * All that is known of a failure, for the operator; null when all went well. Part of it was made by somebody else, so
 * it is as careful as a log line.
 */
function errorOf({ told, detail }: Outcome): string | null {
  const text = told === null || detail === null ? (told ?? detail) : `${told}: ${detail}`;
  return text === null ? null : String(redact(text));
}

/** Who and where, without what is secret: the path of a webhook is its password. */
const fieldsOf = (message: WaitingDelivery) => ({
  delivery: message.public_id,
  org: message.organization_name,
  queue: message.queue,
  subject: message.subject,
  type: message.type,
  to: shownTarget(message.target_json),
});

/** Where a message goes, for people: the origin of a webhook, or the addresses of an e-mail. */
export function shownTarget(targetJson: string): string {
  const { webhook, emails } = JSON.parse(targetJson) as { webhook?: string; emails?: string[] };
  if (emails) return emails.join(", ");
  return webhook !== undefined && URL.canParse(webhook) ? `${new URL(webhook).origin}/...` : "(no valid URL)";
}
