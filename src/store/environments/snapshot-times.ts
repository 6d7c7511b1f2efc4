/**
 * Finds snapshots by time. Timestamps rise with the index, except at setbacks, where a clock that had run ahead was
 * right again; a row of snapshot_setbacks marks each of them.
 */
import type { DbReader } from "../db/types.ts";

/** Records that a snapshot has an earlier timestamp than the one before it. */
export const INSERT_SETBACK = "INSERT INTO snapshot_setbacks (environment_id, idx, timestamp) VALUES (?, ?, ?)";

export function snapshotTimes(db: DbReader) {
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

  /** Returns a function that finds the highest index with a timestamp `< time` or `<= time`; 0 when there is none. */
  function finder(operator: "<" | "<=") {
    const byTime = db.prepare<[number, number], { idx: number }>(
      `SELECT idx FROM snapshots WHERE environment_id = ? AND timestamp ${operator} ?
       ORDER BY timestamp DESC, idx DESC LIMIT 1`,
    );
    const setback = db.prepare<[number, number], { idx: number }>(
      `SELECT idx FROM snapshot_setbacks WHERE environment_id = ? AND timestamp ${operator} ?
       ORDER BY idx DESC LIMIT 1`,
    );
    const isEarlier = (one: number, other: number): boolean => (operator === "<" ? one < other : one <= other);
    return (environmentId: number, time: number): number => {
      if (!hasSetback.get(environmentId)) return byTime.get(environmentId, time)?.idx ?? 0;
      // Between two setbacks timestamps never fall, and each such stretch begins with its earliest one. So the index is
      // in the last stretch that begins early enough, or in the first of all.
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
