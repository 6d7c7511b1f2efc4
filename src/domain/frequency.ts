// Event frequency in whole UTC days. A day is its number since 1970-01-01; times are epoch seconds.
import { medianOf } from "./median.ts";
import { DAY_S } from "./time.ts";

type Frequency = { total: number; median_per_day: number; daily: { date: string; count: number }[] };

/** The UTC day of a time in epoch seconds. */
export const dayOf = (seconds: number): number => Math.floor(seconds / DAY_S);

/** `19675` -> `2023-11-14`. */
const dateOf = (day: number): string => new Date(day * DAY_S * 1000).toISOString().slice(0, 10);

/**
 * Total, median and daily counts of the `days` days that end with `lastDay`. Days without an event count as 0, in the
 * median too: it describes a typical day, and on most days nothing happens.
 * @param counts events by day; other days count as 0
 * @param days at least 1
 */
export function computeFrequency(counts: ReadonlyMap<number, number>, lastDay: number, days: number): Frequency {
  const daily = Array.from({ length: days }, (_none, index) => {
    const day = lastDay - days + 1 + index;
    return { date: dateOf(day), count: counts.get(day) ?? 0 };
  });
  const numbers = daily.map(({ count }) => count);
  return { total: numbers.reduce((sum, count) => sum + count, 0), median_per_day: medianOf(numbers) ?? 0, daily };
}
