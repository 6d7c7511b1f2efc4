/** The states of artifacts as of a moment: verdicts of what ran then, and what did not run. */
export const PAST_STATES = ["NON-COMPLIANT", "UNKNOWN", "COMPLIANT", "NOT-RUNNING"] as const;
export type PastState = (typeof PAST_STATES)[number];
