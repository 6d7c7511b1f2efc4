/** The handler of each kind of job. A new kind is one line here. */
import type { JobHandler, Settlement } from "../jobs/job-runner.ts";
import { MAX_PARALLEL_MAILS, MAX_PARALLEL_WEBHOOKS } from "../notifications/deliver.ts";
import type { LapsePayload } from "../store/accounts/api-keys.ts";
import type { AllowlistEndPayload } from "../store/environments/allowlist-ends.ts";
import type { ReevaluatePayload } from "../store/environments/reevaluation-queue.ts";
import type { DailyChangesPayload } from "../store/notifications/daily-changes.ts";
import { DELIVER, DELIVER_MAIL } from "../store/notifications/outbox.ts";
import type { DeliverPayload } from "../store/notifications/outbox.ts";
import type { NotifyPayload } from "../store/notifications/triggers.ts";

type JobFunctions = {
  /**
   * Re-evaluates the latest snapshot of an environment and adds a new one when a verdict changes (semantics 5.5, 6.4).
   */
  reevaluate(payload: ReevaluatePayload): Promise<void>;
  /** Closes the record of a rotated key whose grace period is over (semantics 1.6). */
  expireKey(payload: LapsePayload): Promise<void | Settlement>;
  /** Warns before the end of an allowlist entry, and records the end. */
  endAllowlistEntry(payload: AllowlistEndPayload): Promise<Settlement>;
  /** Composes the messages about an event (semantics 8.4). */
  notify(payload: NotifyPayload): Promise<Settlement>;
  /** Composes the messages of an action about what changed in a day. */
  sendDailyChanges(payload: DailyChangesPayload): Promise<Settlement>;
  /** Sends the first message of a queue. null: messages are not sent and stay in the outbox. */
  deliver: ((payload: DeliverPayload) => Promise<Settlement>) | null;
};

/** The handlers by kind. Only our own stores write payloads, so their shapes are not checked again. */
export const jobHandlers = ({
  reevaluate,
  expireKey,
  endAllowlistEntry,
  notify,
  sendDailyChanges,
  deliver,
}: JobFunctions): Record<string, JobHandler> => ({
  reevaluate: (payload) => reevaluate(payload as ReevaluatePayload),
  lapse_key: (payload) => expireKey(payload as LapsePayload),
  allowlist_end: (payload) => endAllowlistEntry(payload as AllowlistEndPayload),
  notify: (payload) => notify(payload as NotifyPayload),
  daily_changes: (payload) => sendDailyChanges(payload as DailyChangesPayload),
  ...(deliver
    ? {
        [DELIVER]: (payload) => deliver(payload as DeliverPayload),
        [DELIVER_MAIL]: (payload) => deliver(payload as DeliverPayload),
      }
    : {}),
});

/** How many jobs of a kind run at a time, for the kinds with more than one. */
export const PARALLEL_BY_KIND: Readonly<Record<string, number>> = {
  [DELIVER]: MAX_PARALLEL_WEBHOOKS,
  [DELIVER_MAIL]: MAX_PARALLEL_MAILS,
};
