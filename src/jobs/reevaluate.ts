import type { ReevaluatePayload } from "../store/reevaluation.ts";

/** Evaluates an environment again, as its payload says. Does nothing until snapshots are recorded. */
export async function reevaluate(payload: ReevaluatePayload): Promise<void> {
  void payload;
}
