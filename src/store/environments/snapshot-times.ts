import type { Db } from "../db/types.ts";

/** Notes that the time of a snapshot lies before that of the snapshot before it. */
export const ADD_SETBACK = "INSERT INTO snapshot_setbacks (environment_id, idx, timestamp) VALUES (?, ?, ?)";

export function snapshotTimes(db: Db) {
  const hasSetback = db.prepare<[number], { one: number }>(
    "SELECT 1 AS one FROM snapshot_setbacks WHERE environment_id = ? LIMIT 1",
  );
  const setbackAfter = db.prepare<[number, number], { idx: number | null }>(
    "SELECT min(idx) AS idx FROM snapshot_setbacks WHERE environment_id = ? AND idx > ?",
  );
  const latest = db.prepare<[number], { idx: number | null }>(
    "SELECT max(idx) AS idx FROM snapshots WHERE environment_id = ?",
  );
  const timeOf = db.prepare<[number, number], { timestamp: number }>(
    "SELECT timestamp FROM snapshots WHERE environment_id = ? AND idx = ?",
  );

  /** Finds the highest number among the snapshots whose time is `< time`, or `<= time`; 0: there is none. */
  function finder(operator: "<" | "<=") {
    const byTime = db.prepare<[number, number], { idx: number }>(
      `SELECT idx FROM snapshots WHERE environment_id = ? AND timestamp ${operator} ? ORDER BY timestamp DESC, idx DESC LIMIT 1`,
    );
    const setback = db.prepare<[number, number], { idx: number }>(
      `SELECT idx FROM snapshot_setbacks WHERE environment_id = ? AND timestamp ${operator} ? ORDER BY idx DESC LIMIT 1`,
    );
    const isEarlier = (one: number, other: number): boolean => (operator === "<" ? one < other : one <= other);
    return (environmentId: number, time: number): number => {
      if (!hasSetback.get(environmentId)) return byTime.get(environmentId, time)?.idx ?? 0;
      // From one setback to the next, times never go back, and each stretch begins with its earliest time: so it is the
      // last stretch that begins early enough, or the first one of all.
      let low = setback.get(environmentId, time)?.idx ?? 1;
      let high = (setbackAfter.get(environmentId, low)?.idx ?? (latest.get(environmentId)?.idx ?? 0) + 1) - 1;
      while (low <= high) {
        const middle = (low + high) >> 1;
        if (isEarlier(timeOf.get(environmentId, middle)?.timestamp ?? Infinity, time)) low = middle + 1;
        else high = middle - 1;
      }
      return high;
    };
  }

  return { findLastUntil: finder("<="), findLastBefore: finder("<") };
}
