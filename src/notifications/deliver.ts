/**
 * Delivers the messages of the outbox (store/notifications/outbox.ts). A queue with waiting messages has one job, and
 * each run of that job sends the queue's first message. The result of the attempt and the next state of the job are one
 * write, so a message is sent at least once, and twice only if the process ended between the two; its receiver
 * recognizes it by its id.
 *
 * A message that cannot be sent holds up the messages behind it in its queue, which may make sense only after it, and
 * no other queue. It does so for a day at most: then it is dead, and the operator decides (assay deliveries).
 */
import { describeTarget } from "../domain/notification/targets.ts";
import type { Settlement } from "../jobs/job-runner.ts";
import { redact } from "../log.ts";
import type { Logger } from "../log.ts";
import type { DeliverPayload, DeliveryOutcome, WaitingDelivery } from "../store/notifications/outbox.ts";
import type { Store } from "../store/index.ts";
import type { Outcome } from "./outcome.ts";
import type { Sender } from "./sender.ts";

/**
 * Seconds from each failed attempt to the next. A restart of the receiver takes seconds and an outage hours, and no
 * receiver should get hundreds of attempts: these are ten attempts in 23 hours and 20 minutes.
 */
const RETRY_PAUSES_S = [10, 60, 300, 900, 3600, 7200, 14_400, 28_800, 28_800];
/** Attempts of a message that the receiver refuses: a refusal may be due to a deployment that lasts a minute. */
const MAX_REFUSALS = 3;
/** Bounds the messages of many days that a receiver which is gone would collect, each with its ten attempts. */
const MAX_WAIT_S = 86_400;
/** The longest pause that a receiver can ask for. */
const MAX_RETRY_AFTER_S = 3600;

/** Queues of webhooks sent at a time. Each takes a connection and some tens of kilobytes meanwhile. */
export const MAX_PARALLEL_WEBHOOKS = 32;
/** Queues of e-mail sent at a time: servers limit the connections of a client, some to very few. */
export const MAX_PARALLEL_MAILS = 4;

type Parts = { store: Pick<Store, "outbox">; sender: Sender; now(): number; logger: Logger };

/** Creates the handler of jobs of the kinds `deliver` and `deliver_mail`. */
export function createDeliverer({ store: { outbox }, sender, now, logger }: Parts) {
  /**
   * When the queue's job is due again: not before all other queues that are due now had their turn. Call it in a write.
   */
  const nextTurn = (queue: string): number | null => {
    const due = outbox.nextDue(queue);
    return due === null ? null : Math.max(due, now());
  };

  return async function deliver({ queue }: DeliverPayload): Promise<Settlement> {
    const message = outbox.findFirst(queue);
    if (!message || message.due_at > now()) return () => nextTurn(queue);
    if (message.has_target === 1 && message.target_id === null) {
      logger.warn({ ...logFields(message), outcome: "dead", error: TARGET_DELETED }, "delivery");
      return () => {
        outbox.markDead(message.id, TARGET_DELETED);
        return nextTurn(queue);
      };
    }

    const startedAt = now();
    const outcome = await sender.send(message);
    // As if it had not been attempted: the next process starts with this message.
    if (outcome.result === "stopped") return () => nextTurn(queue);
    const seconds = Math.max(0, now() - startedAt);
    const fate = fateOf(message, outcome, startedAt + seconds);
    const error = errorOf(outcome);
    const { address, status } = outcome;
    const fields = {
      ...logFields(message),
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
        { outcome: fate, publicError: outcome.publicError },
      );
      return nextTurn(queue);
    };
  };
}

const TARGET_DELETED = "The action or target that this message was for was deleted";

/** The state of a message after an attempt that ended at `endedAt`. */
function fateOf(
  { attempts, waiting_since }: WaitingDelivery,
  { result, retryAfter, pendingRecipients }: Outcome,
  endedAt: number,
): DeliveryOutcome {
  if (result === "accepted") return { state: "delivered" };
  const pauseS = RETRY_PAUSES_S[attempts];
  const isDead =
    result === "hopeless" ||
    pauseS === undefined ||
    (result === "refused" && attempts + 1 >= MAX_REFUSALS) ||
    endedAt - waiting_since >= MAX_WAIT_S;
  if (isDead) return { state: "dead" };
  const dueAt = endedAt + Math.max(pauseS, Math.min(retryAfter ?? 0, MAX_RETRY_AFTER_S));
  return { state: "waiting", dueAt, left: pendingRecipients };
}

/**
 * Everything known about a failure, for the operator; null after a success. The receiver wrote part of it, so it is
 * redacted like a log line.
 */
function errorOf({ publicError, detail }: Outcome): string | null {
  const text = publicError === null || detail === null ? (publicError ?? detail) : `${publicError}: ${detail}`;
  return text === null ? null : String(redact(text));
}

/** Identifies a message without its secrets: the path of a webhook works as a password. */
const logFields = (message: WaitingDelivery) => ({
  delivery: message.public_id,
  org: message.organization_name,
  queue: message.queue,
  subject: message.subject,
  type: message.type,
  to: describeTarget(message.target_json),
});
