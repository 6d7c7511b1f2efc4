/** What is done for each kind of job. A new kind is one line here. */
import type { LapsePayload } from "../store/accounts/api-keys.ts";
import { DELIVER, DELIVER_MAIL } from "../store/notifications/outbox.ts";
import type { DeliverPayload } from "../store/notifications/outbox.ts";
import type { ReevaluatePayload } from "../store/environments/reevaluation-queue.ts";
import type { NotifyPayload } from "../store/notifications/triggers.ts";
import { PARALLEL_MAIL, PARALLEL_QUEUES } from "../notifications/deliver.ts";
import type { JobHandler, Settlement } from "../jobs/job-runner.ts";

export type JobWork = {
  /**
   * Evaluates the latest snapshot of an environment again and makes a new one where a verdict flips (semantics 5.5,
   * 6.4).
   */
  reevaluate(payload: ReevaluatePayload): Promise<void>;
  /** Closes the record of a rotated key whose grace period is over (semantics 1.6). */
  lapseKey(payload: LapsePayload): Promise<void | Settlement>;
  /** Makes the messages about something that happened (semantics 8.4). */
  notify(payload: NotifyPayload): Promise<Settlement>;
  /** Sends the first message out of a queue. null where nothing is sent: then messages wait. */
  deliver: ((payload: DeliverPayload) => Promise<Settlement>) | null;
};

/** The handlers by kind. Payloads are what our own stores wrote, so they are taken at their word. */
export const jobHandlers = ({ reevaluate, lapseKey, notify, deliver }: JobWork): Record<string, JobHandler> => ({
  reevaluate: (payload) => reevaluate(payload as ReevaluatePayload),
  lapse_key: (payload) => lapseKey(payload as LapsePayload),
  notify: (payload) => notify(payload as NotifyPayload),
  ...(deliver
    ? {
        [DELIVER]: (payload) => deliver(payload as DeliverPayload),
        [DELIVER_MAIL]: (payload) => deliver(payload as DeliverPayload),
      }
    : {}),
});

/** How many jobs of a kind run at a time, where it is more than one. */
export const PARALLEL: Readonly<Record<string, number>> = { [DELIVER]: PARALLEL_QUEUES, [DELIVER_MAIL]: PARALLEL_MAIL };
