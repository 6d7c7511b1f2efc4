/**
 * Watches the clock of the machine while a server runs. The time that is expected is the last known good time plus what
 * a clock that cannot be set (monotonic) counted since; a clock more than a day away from it is not believed:
 *
 * - ahead: nothing is deleted and no key is closed by its time (`trusted`), and a change that is recorded meanwhile is
 *   an error
 *   line; the next snapshots have the times of the clock, and later ones do too once it is right again
 *   (domain/clock.ts);
 * - behind: records get times before those that are there, and keys end too late.
 *
 * Nobody can tell a wrong clock from a server that was stopped for two days. So a clock that then runs for a day
 * without a jump is taken for right; if it comes back all the same, that is noticed too (`disprovesJump`).
 */
import { judgeClock, MAX_CLOCK_ERROR_S } from "../domain/clock.ts";
import type { ClockState } from "../domain/clock.ts";
import type { Logger } from "../log.ts";
import { GOOD_TIME_INTERVAL_S } from "../store/db/clock.ts";
import type { Store } from "../store/index.ts";
import type { GroupCommitWriter } from "../store/db/group-commit.ts";

export type ClockReport = {
  state: ClockState;
  /** What is wrong, as a sentence without its full stop; null: nothing. */
  problem: string | null;
};

export type ClockWatch = {
  /** Looks at the clock and notes what is new. Rejects when the database cannot be written. */
  look(): Promise<void>;
  /** The state at this moment, without a look at the database. */
  report(): ClockReport;
  /** Epoch seconds: the time of the clock, or the time that is expected while the clock is ahead of it. */
  trusted(): number;
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

/** Seconds that times may lie ahead: clocks of containers are coarse. */
const TOLERANCE_S = 5;
/** Seconds between two lines about the same thing. */
const REPEAT_S = 3_600;

/** Starts from what the database knows, and logs an error where the clock is behind its newest record. */
export function createClockWatch({ store: { clock }, writer, logger, now, monotonic }: Parts): ClockWatch {
  /** A moment at which the clock was believed. */
  let good = { wall: now(), at: monotonic() };
  let previous = good;
  /** Since when the clock runs without a jump. */
  let steadySince = good.at;
  /** When the good time was stored, and when the present trouble was logged, on the monotonic clock. */
  let stored = -Infinity;
  let logged = -Infinity;
  let hasRecords = false;
  let state: ClockState = "right";

  const expected = (): number => good.wall + (monotonic() - good.at);

  function start(): void {
    const newest = clock.findNewestRecordTime();
    const reference = clock.findReferenceTime();
    if (reference !== null && judgeClock(good.wall, reference) !== "right") good = { wall: reference, at: good.at };
    if (newest === null || newest <= previous.wall + TOLERANCE_S) return;
    const facts = {
      now: iso(previous.wall),
      newest_record: iso(newest),
      behind_by_s: Math.round(newest - previous.wall),
    };
    logger.error(facts, "the clock is behind the newest record: one of them is wrong, see assay help troubleshooting");
  }

  async function believe(wall: number, at: number, text: string): Promise<void> {
    const was = state;
    [good, state, hasRecords] = [{ wall, at }, "right", false];
    if (was !== "right") logger.warn({ now: iso(wall), was }, text);
    await writer.run(() => clock.confirm(wall));
    stored = at;
    logged = -Infinity;
  }

  async function doubt(wall: number, at: number): Promise<void> {
    const reckoned = expected();
    if (state === "ahead" && at - stored >= GOOD_TIME_INTERVAL_S) {
      await writer.run(() => clock.setGoodTime(reckoned));
      stored = at;
    }
    const records = state === "ahead" && clock.read()?.isOpen === true;
    // Once when it begins, once when the first change was recorded, and then every hour.
    if (at - logged < REPEAT_S && records === hasRecords) return;
    [logged, hasRecords] = [at, records];
    const facts = { now: iso(wall), last_known_good: iso(reckoned), off_by_s: Math.round(wall - reckoned) };
    const text = `${problemOf(state, wall, reckoned)}; see assay help troubleshooting`;
    if (records) logger.error(facts, `changes are recorded under a clock that is not believed: ${text}`);
    else if (state === "behind") logger.error(facts, text);
    else logger.warn(facts, text);
  }

  start();
  return {
    async look() {
      const [wall, at] = [now(), monotonic()];
      const ran = previous;
      previous = { wall, at };
      if (Math.abs(wall - ran.wall - (at - ran.at)) > MAX_CLOCK_ERROR_S) steadySince = at;
      const reckoned = expected();
      const judged = judgeClock(wall, reckoned);
      if (judged === "right") {
        if (state !== "right" || clock.read()?.isOpen) return believe(wall, at, "the clock is right again");
        good = { wall, at };
        if (at - stored < GOOD_TIME_INTERVAL_S) return;
        await writer.run(() => clock.confirm(wall));
        stored = at;
        return;
      }
      if (judged === "behind" && clock.isDisproved(wall)) return believe(wall, at, "the clock is right again");
      if (at - steadySince >= MAX_CLOCK_ERROR_S) {
        return believe(wall, at, "the clock has run for a day without a jump and is taken for right");
      }
      if (judged !== state) logged = -Infinity;
      state = judged;
      await doubt(wall, at);
    },
    report() {
      const [wall, reckoned] = [now(), expected()];
      const judged = judgeClock(wall, reckoned);
      return { state: judged, problem: judged === "right" ? null : problemOf(judged, wall, reckoned) };
    },
    trusted: () => (judgeClock(now(), expected()) === "ahead" ? expected() : now()),
  };
}

/** A time as people read it; a damaged record may hold one that no calendar has. */
const iso = (seconds: number): string =>
  Math.abs(seconds) <= MAX_DATE_S ? new Date(seconds * 1000).toISOString() : `${seconds} s`;
/** What the dates of the language can tell. */
const MAX_DATE_S = 8_640_000_000_000;

function problemOf(state: ClockState, wall: number, expected: number): string {
  const days = Math.floor(Math.abs(wall - expected) / MAX_CLOCK_ERROR_S);
  const distance = `${days} ${days === 1 ? "day" : "days"}`;
  return state === "ahead"
    ? `the clock shows ${iso(wall)}, ${distance} past the last known good time (${iso(expected)})`
    : `the clock shows ${iso(wall)}, ${distance} before the last known good time (${iso(expected)})`;
}
