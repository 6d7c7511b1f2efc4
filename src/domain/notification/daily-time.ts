/**
 * When the daily messages about what changed are due, and which period each of them is about: a period ends every day
 * at one hour on the clocks of a time zone, also on days with 23 or 25 hours.
 */
import { DAY_S } from "../time.ts";

/** @property hour 0 to 23 @property timeZone a name of the IANA database */
export type DailyTime = { hour: number; timeZone: string };

export const DEFAULT_DAILY_TIME: DailyTime = { hour: 6, timeZone: "UTC" };

/** A report that arrived before the end of the period is recorded by then. */
const SETTLING_S = 60;
const HOUR_S = 3_600;

/** The latest end of a period that is over at `at`. All times in epoch seconds. */
export function findDailyEnd(at: number, daily: DailyTime): number {
  const settled = at - SETTLING_S;
  const today = localDayOf(settled, daily);
  const end = endOn(today, daily);
  return end <= settled ? end : endOn(today - 1, daily);
}

/** When the first message after `at` is due. */
export function nextDailyTime(at: number, daily: DailyTime): number {
  const settled = at - SETTLING_S;
  const today = localDayOf(settled, daily);
  const end = endOn(today, daily);
  return (end > settled ? end : endOn(today + 1, daily)) + SETTLING_S;
}

/** `06:00 UTC`, `07:00 Europe/Berlin`. */
export const formatDailyTime = ({ hour, timeZone }: DailyTime): string =>
  `${String(hour).padStart(2, "0")}:00 ${timeZone}`;

/** Whether the IANA database of this program has a time zone. */
export function isTimeZone(name: string): boolean {
  try {
    return clockOf(name) !== null;
  } catch {
    return false;
  }
}

/** The date on the clocks of the zone, in days since 1970-01-01. */
const localDayOf = (at: number, { timeZone }: DailyTime): number => Math.floor((at + offsetAt(timeZone, at)) / DAY_S);

/**
 * The time at which the clocks first show the hour on a day. Where they leave it out, the time at which they would have
 * shown it.
 */
function endOn(day: number, { hour, timeZone }: DailyTime): number {
  const shown = day * DAY_S + hour * HOUR_S;
  const [before, after] = [offsetAt(timeZone, shown - DAY_S), offsetAt(timeZone, shown + DAY_S)];
  const times = [before, after].filter((offset) => offsetAt(timeZone, shown - offset) === offset);
  return shown - times.reduce((most, offset) => Math.max(most, offset), times[0] ?? before);
}

/** @throws RangeError for a name that is not one of a time zone */
const clockOf = (timeZone: string): Intl.DateTimeFormat =>
  new Intl.DateTimeFormat("en-US", {
    timeZone,
    hourCycle: "h23",
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
    second: "numeric",
  });

/** How many seconds the clocks of a zone are ahead of UTC at a time. */
function offsetAt(timeZone: string, at: number): number {
  const seconds = Math.floor(at);
  const parts = new Map(
    clockOf(timeZone)
      .formatToParts(seconds * 1000)
      .map(({ type, value }) => [type, Number(value)]),
  );
  const of = (name: Intl.DateTimeFormatPartTypes): number => parts.get(name) ?? 0;
  const shown = Date.UTC(of("year"), of("month") - 1, of("day"), of("hour"), of("minute"), of("second"));
  return shown / 1000 - seconds;
}
