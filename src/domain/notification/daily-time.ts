/** When the daily messages about what changed are due, and which period each of them is about. */
import { DAY_S } from "../time.ts";

/** The time of the day, in seconds after midnight UTC, at which a period ends. */
const DAILY_AT_S = 6 * 3600;
/** A report that arrived before the end of the period is recorded by then. */
const SETTLING_S = 60;

/** The latest end of a period that is over at `at`. All times in epoch seconds. */
export const findDailyEnd = (at: number): number =>
  Math.floor((at - SETTLING_S - DAILY_AT_S) / DAY_S) * DAY_S + DAILY_AT_S;

/** When the first message after `at` is due. */
export const nextDailyTime = (at: number): number => findDailyEnd(at) + DAY_S + SETTLING_S;
