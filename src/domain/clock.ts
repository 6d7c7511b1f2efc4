/**
 * Detects a wrong system clock and chooses the time of a snapshot. One wrong reading must not distort the history of an
 * environment: snapshots are ordered by number, and each takes the current clock time, not the largest time that any
 * clock ever showed.
 *
 * All times are epoch seconds.
 */
import { DAY_S } from "./time.ts";

/** A clock that is further than this from the expected time is treated as wrong. */
export const MAX_CLOCK_ERROR_S = DAY_S;

/** What the database records about the clock (store/db/clock.ts). */
export type ClockRecord = {
  /** The last known good time. */
  goodAt: number;
  /** The last known good time before the latest forward jump during which something was recorded; null without one. */
  jumpFrom: number | null;
  /** The clock time of the first change that was recorded after that jump. */
  jumpTo: number | null;
  /** Whether that jump is unresolved: the clock has neither come back nor been confirmed. */
  isOpen: boolean;
};

export type ClockState = "right" | "ahead" | "behind";

/** @param expected the last known good time plus the time that has certainly passed since */
export function classifyClock(now: number, expected: number): ClockState {
  if (now > expected + MAX_CLOCK_ERROR_S) return "ahead";
  return now < expected - MAX_CLOCK_ERROR_S ? "behind" : "right";
}

/**
 * Whether a jump that was accepted as correct turns out to be wrong: the clock now shows a time between the last good
 * time before the jump and the time that it jumped to.
 */
export const disprovesJump = (now: number, { goodAt, jumpFrom, jumpTo }: ClockRecord): boolean =>
  jumpFrom !== null &&
  jumpTo !== null &&
  goodAt >= jumpTo &&
  now >= jumpFrom - MAX_CLOCK_ERROR_S &&
  now < jumpTo - MAX_CLOCK_ERROR_S;

/**
 * The time of a snapshot that is taken now.
 * @param latest the time of the previous snapshot, null without one
 * @param readRecord reads the clock record; called only when the clock is more than a day behind `latest`
 * @returns `now`, but at least `latest`, unless `latest` comes from a wrong clock. A clock that was set back behind a
 *   good time still cannot make history run backwards.
 */
export function chooseSnapshotTime(now: number, latest: number | null, readRecord: () => ClockRecord | null): number {
  if (latest === null || now >= latest) return now;
  if (latest - now <= MAX_CLOCK_ERROR_S) return latest;
  const record = readRecord();
  if (record === null) return latest;
  if (latest > record.goodAt + MAX_CLOCK_ERROR_S) return now;
  return disprovesJump(now, record) && latest >= (record.jumpTo as number) ? now : latest;
}
