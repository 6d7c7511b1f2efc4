/**
 * Whether the clock of the machine can be believed, and which time a snapshot gets. A clock that is wrong once must not
 * bend the history of an environment: snapshots are ordered by their numbers, and each has the time of the clock, not
 * the largest time that any clock ever showed.
 *
 * All times are epoch seconds.
 */
import { DAY_S } from "./time.ts";

/** A clock further than this from the time that is expected is not believed. */
export const MAX_CLOCK_ERROR_S = DAY_S;

/** What the database remembers of the clock (store/clock.ts). */
export type ClockRecord = {
  /** The last known good time. */
  goodAt: number;
  /**
   * The latest jump ahead under which something was recorded: the last known good time before it; null: there was none.
   */
  jumpFrom: number | null;
  /** The time that the clock showed when the first change after that jump was recorded. */
  jumpTo: number | null;
  /** Whether that jump is unresolved: the clock neither came back nor proved to be right. */
  isOpen: boolean;
};

export type ClockState = "right" | "ahead" | "behind";

/** @param expected the last known good time, plus the time that is known to have passed since */
export function classifyClock(now: number, expected: number): ClockState {
  if (now > expected + MAX_CLOCK_ERROR_S) return "ahead";
  return now < expected - MAX_CLOCK_ERROR_S ? "behind" : "right";
}

/**
 * Whether a jump that was taken for right proves to be wrong after all: the clock shows a time between the last good
 * time before the jump and the time that it jumped to.
 */
export const disprovesJump = (now: number, { goodAt, jumpFrom, jumpTo }: ClockRecord): boolean =>
  jumpFrom !== null &&
  jumpTo !== null &&
  goodAt >= jumpTo &&
  now >= jumpFrom - MAX_CLOCK_ERROR_S &&
  now < jumpTo - MAX_CLOCK_ERROR_S;

/**
 * The time of a snapshot that is made now.
 * @param latest the time of the snapshot before it; null: there is none
 * @param readRecord reads what is known of the clock; called only where the clock is more than a day behind `latest`
 * @returns `now`, but not less than `latest`, unless `latest` is a time that a wrong clock showed. A clock that was set
 * back
 *   behind a good time still cannot make history run backwards.
 */
export function chooseSnapshotTime(now: number, latest: number | null, readRecord: () => ClockRecord | null): number {
  if (latest === null || now >= latest) return now;
  if (latest - now <= MAX_CLOCK_ERROR_S) return latest;
  const record = readRecord();
  if (record === null) return latest;
  if (latest > record.goodAt + MAX_CLOCK_ERROR_S) return now;
  return disprovesJump(now, record) && latest >= (record.jumpTo as number) ? now : latest;
}
