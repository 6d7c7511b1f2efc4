/** What is done for each kind of job. A new kind is one line here. */
import type { LapsePayload } from "../store/api-keys.ts";
import type { ReevaluatePayload } from "../store/reevaluation.ts";
import type { JobHandler } from "./runner.ts";

export type JobWork = {
  /** Evaluates the latest snapshot of an environment again and makes a new one where a verdict flips (semantics 5.5, 6.4). */
  reevaluate(payload: ReevaluatePayload): Promise<void>;
  /** Closes the record of a rotated key whose grace period is over (semantics 1.6). */
  lapseKey(payload: LapsePayload): Promise<void>;
};

/** The handlers by kind. Payloads are what our own stores wrote, so they are taken at their word. */
export const jobHandlers = (work: JobWork): Record<string, JobHandler> => ({
  reevaluate: (payload) => work.reevaluate(payload as ReevaluatePayload),
  lapse_key: (payload) => work.lapseKey(payload as LapsePayload),
});
