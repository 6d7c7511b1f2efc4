/**
 * Watches the machine's clock while a server runs. The expected time is the last known good time plus what a monotonic
 * clock counted since; a clock more than a day off is not trusted:
 *
 * - ahead: nothing is deleted and no key is closed by its time (`trustedNow`), and recording a change is logged as an
 *   error. New snapshots carry the clock's time, and later ones are again correct once the clock is (domain/clock.ts).
 * - behind: records get times before those of existing ones. Keys and sessions end by the expected time, so none that
 *   had expired is valid again.
 *
 * A wrong clock cannot be distinguished from a server that was stopped for two days. So a clock that then runs for a
 * day without a jump is accepted; if it jumps back after all, that is noticed too (`disprovesJump`).
 */
import { classifyClock, MAX_CLOCK_ERROR_S } from "../domain/clock.ts";
import type { ClockState } from "../domain/clock.ts";
import type { Logger } from "../log.ts";
import { GOOD_TIME_INTERVAL_S } from "../store/db/clock.ts";
import type { GroupCommitWriter } from "../store/db/group-commit.ts";
import type { Store } from "../store/index.ts";

export type ClockReport = {
  state: ClockState;
  /** What is wrong, as a sentence without its full stop; null when nothing is. */
  problem: string | null;
};

export type ClockWatch = {
  /** Compares the clock with the expected time and records what is new. Rejects when the database cannot be written. */
  check(): Promise<void>;
  /** The state at this moment, without a query. */
  report(): ClockReport;
  /** Epoch seconds: the clock's time, or the expected time while the clock is ahead of it. */
  trustedNow(): number;
  /** Epoch seconds by which keys and sessions have ended: the clock's time, or the expected time while it is wrong. */
  endedBy(): number;
};

type Parts = {
  store: Pick<Store, "clock">;
  writer: Pick<GroupCommitWriter, "run">;
  logger: Logger;
  /** Epoch seconds. */
  now(): number;
  /** Seconds of a clock that is never set. */
  monotonic(): number;
};

/** How far times of records may lie ahead without a warning: clocks of containers are coarse. */
const TOLERANCE_S = 5;
/** Seconds between two log lines about the same problem. */
const REPEAT_LOG_S = 3_600;

/** A reading of the wall clock (epoch seconds), and of the monotonic clock at the same moment. */
type Reading = { wall: number; at: number };

/** Starts from what the database recorded, and logs an error when the clock is behind the newest record. */
export function createClockWatch({ store: { clock }, writer, logger, now, monotonic }: Parts): ClockWatch {
  let previous: Reading = { wall: now(), at: monotonic() };
  /** The last reading that was trusted. */
  let lastGood = initialReading({ clock, logger, reading: previous });
  /** Since when the clock has run without a jump, on the monotonic clock. */
  let steadySince = previous.at;
  /** When the good time was stored, and when the current problem was logged, on the monotonic clock. */
  let storedAt = -Infinity;
  let loggedAt = -Infinity;
  let hasRecords = false;
  let state: ClockState = "right";

  const expectedNow = (): number => lastGood.wall + (monotonic() - lastGood.at);

  /** Trusts the clock again, and logs `text` if it was not trusted before. */
  async function acceptClock({ wall, at }: Reading, text: string): Promise<void> {
    const was = state;
    [lastGood, state, hasRecords] = [{ wall, at }, "right", false];
    if (was !== "right") logger.warn({ now: iso(wall), was }, text);
    await writer.run(() => clock.confirm(wall));
    storedAt = at;
    loggedAt = -Infinity;
  }

  /** The clock is as expected: stores the good time every now and then. */
  async function confirmClock({ wall, at }: Reading): Promise<void> {
    lastGood = { wall, at };
    if (at - storedAt < GOOD_TIME_INTERVAL_S) return;
    await writer.run(() => clock.confirm(wall));
    storedAt = at;
  }

  async function distrustClock({ wall, at }: Reading): Promise<void> {
    const expected = expectedNow();
    if (state === "ahead" && at - storedAt >= GOOD_TIME_INTERVAL_S) {
      await writer.run(() => clock.setGoodTime(expected));
      storedAt = at;
    }
    const records = state === "ahead" && clock.read()?.isOpen === true;
    // Logged when the problem begins, when the first change is recorded under it, and every hour from then on.
    if (at - loggedAt < REPEAT_LOG_S && records === hasRecords) return;
    [loggedAt, hasRecords] = [at, records];
    const facts = { now: iso(wall), last_known_good: iso(expected), off_by_s: Math.round(wall - expected) };
    const text = `${problemOf(state, wall, expected)}; see assay help clock`;
    if (records) logger.error(facts, `changes are being recorded under an untrusted clock: ${text}`);
    else if (state === "behind") logger.error(facts, text);
    else logger.warn(facts, text);
  }

  return {
    async check() {
      const reading = { wall: now(), at: monotonic() };
      const { wall, at } = reading;
      const jumpS = Math.abs(wall - previous.wall - (at - previous.at));
      previous = reading;
      if (jumpS > MAX_CLOCK_ERROR_S) steadySince = at;
      const found = classifyClock(wall, expectedNow());
      if (found === "right") {
        if (state === "right" && !clock.read()?.isOpen) return confirmClock(reading);
        return acceptClock(reading, "the clock is correct again and is trusted");
      }
      if (found === "behind" && clock.isDisproved(wall))
        return acceptClock(reading, "the clock is correct again and is trusted");
      if (at - steadySince >= MAX_CLOCK_ERROR_S)
        return acceptClock(reading, "the clock has run for a day without a jump and is now trusted");
      if (found !== state) loggedAt = -Infinity;
      state = found;
      await distrustClock(reading);
    },
    report() {
      const [wall, expected] = [now(), expectedNow()];
      const found = classifyClock(wall, expected);
      return { state: found, problem: found === "right" ? null : problemOf(found, wall, expected) };
    },
    trustedNow: () => (classifyClock(now(), expectedNow()) === "ahead" ? expectedNow() : now()),
    endedBy: () => (classifyClock(now(), expectedNow()) === "right" ? now() : expectedNow()),
  };
}

/**
 * The reading to start from: the stored reference takes the place of a clock that is off by more than a day. Logs an
 * error when the clock is behind the newest record.
 */
function initialReading({
  clock,
  logger,
  reading,
}: {
  clock: Store["clock"];
  logger: Logger;
  reading: Reading;
}): Reading {
  const newest = clock.findNewestRecordTime();
  const reference = clock.findReferenceTime();
  if (newest !== null && newest > reading.wall + TOLERANCE_S)
    logger.error(
      {
        now: iso(reading.wall),
        newest_record: iso(newest),
        behind_by_s: Math.round(newest - reading.wall),
      },
      "the clock is behind the newest record: one of them is wrong, see assay help clock",
    );
  return reference !== null && classifyClock(reading.wall, reference) !== "right"
    ? { wall: reference, at: reading.at }
    : reading;
}

/** The range of JavaScript's dates. */
const MAX_DATE_S = 8_640_000_000_000;

/** A time for people; a damaged record may hold one that no calendar has. */
const iso = (seconds: number): string =>
  Math.abs(seconds) <= MAX_DATE_S ? new Date(seconds * 1000).toISOString() : `${seconds} s`;

function problemOf(state: ClockState, wall: number, expected: number): string {
  const days = Math.floor(Math.abs(wall - expected) / MAX_CLOCK_ERROR_S);
  const distance = `${days} ${days === 1 ? "day" : "days"}`;
  return state === "ahead"
    ? `the clock shows ${iso(wall)}, ${distance} past the last known good time (${iso(expected)})`
    : `the clock shows ${iso(wall)}, ${distance} before the last known good time (${iso(expected)})`;
}
