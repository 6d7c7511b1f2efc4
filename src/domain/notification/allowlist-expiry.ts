/** When the warning before the end of an allowlist entry is due (trigger ON_ALLOWLIST_EXPIRY). */
import { DAY_S } from "../time.ts";

/** Days before its end. An entry for no more than that gets no warning: its author has just chosen the end. */
const ALLOWLIST_WARNING_DAYS = 3;

/**
 * When the warning about an entry is due, in epoch seconds; null when it gets none. A warning that was missed is sent
 * later, as long as the entry has not ended.
 */
export function findWarningTime({ timestamp, expires_at }: { timestamp: number; expires_at: number }): number | null {
  const at = expires_at - ALLOWLIST_WARNING_DAYS * DAY_S;
  return timestamp < at ? at : null;
}
