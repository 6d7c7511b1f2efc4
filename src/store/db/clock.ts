/**
 * What the database remembers about the system clock: the last known good time, and the latest forward jump during
 * which something was recorded. One row.
 *
 * Invariant: every change is checked (`observe`, called with each audit entry) in its own transaction. So the server,
 * its threads and the command line agree, and the state survives a restart. The server decides how to react to a jump.
 *
 * All times are epoch seconds. Call every method that changes something inside a write.
 */
import { disprovesJump, classifyClock, chooseSnapshotTime } from "../../domain/clock.ts";
import type { ClockRecord } from "../../domain/clock.ts";
import type { Db } from "./types.ts";

/**
 * How far the stored good time may lag behind. One small write an hour, and far less than the clock errors that matter.
 */
export const GOOD_TIME_INTERVAL_S = 3_600;

type Row = { good_at: number; jump_from: number | null; jump_to: number | null; is_open: 0 | 1 };

/** What waits until a time. `pullForward` makes what is due at `from` or later due at `at`. */
type Queue = { pullForward(from: number, at: number): void };

/** @param queues what a wrong clock may have scheduled; none where nothing is changed */
export function clockStore(db: Db, queues: readonly Queue[]) {
  const selectRow = db.prepare<[], Row>("SELECT good_at, jump_from, jump_to, is_open FROM clock WHERE id = 1");
  const newest = db.prepare<[], { timestamp: number }>("SELECT timestamp FROM audit_log ORDER BY id DESC LIMIT 1");
  const insert = db.prepare("INSERT INTO clock (id, good_at) VALUES (1, ?)");
  const closeJump = db.prepare("UPDATE clock SET good_at = ?, is_open = 0 WHERE id = 1");
  const updateGoodTime = db.prepare("UPDATE clock SET good_at = ? WHERE id = 1");
  const openJump = db.prepare(
    "UPDATE clock SET good_at = @from, jump_from = @from, jump_to = @to, is_open = 1 WHERE id = 1",
  );

  /** Changes up to this time neither need a check nor move the stored good time. */
  let trustedUntil = -Infinity;

  function read(): ClockRecord | null {
    const row = selectRow.get();
    if (!row) return null;
    return { goodAt: row.good_at, jumpFrom: row.jump_from, jumpTo: row.jump_to, isOpen: row.is_open === 1 };
  }

  const findNewestRecordTime = (): number | null => newest.get()?.timestamp ?? null;

  /** Without an open jump, the time of the newest record is as trustworthy as the stored good time. */
  function referenceOf(record: ClockRecord | null): number | null {
    const latest = findNewestRecordTime();
    if (record === null) return latest;
    return record.isOpen || latest === null ? record.goodAt : Math.max(record.goodAt, latest);
  }

  /**
   * Records that the clock is right at `at`. What a wrong clock scheduled far ahead in the queues becomes due now.
   */
  function confirm(at: number): void {
    const record = read();
    if (record === null) return void insert.run(at);
    closeJump.run(at);
    const { jumpTo, isOpen } = record;
    if (jumpTo === null || at >= jumpTo || !(isOpen || disprovesJump(at, record))) return;
    for (const queue of queues) queue.pullForward(jumpTo, at);
  }

  return {
    read,
    /** The time of the newest entry of the audit log; null before the first. */
    findNewestRecordTime,
    /** The latest time that can be trusted when the database was just opened; null for an empty database. */
    findReferenceTime: (): number | null => referenceOf(read()),

    /**
     * Checks the time of a change against the last known good time and the newest record. If it is more than a day
     * later than both, a jump opens; it stays open until the clock is right again or turns out to have been right.
     */
    observe(at: number): void {
      if (at <= trustedUntil) return;
      const record = read();
      const reference = referenceOf(record) ?? at;
      if (record === null) insert.run(reference);
      const state = classifyClock(at, reference);
      if (state === "ahead") {
        // While a jump is open, every change is checked: any of them may show that the clock is right again.
        trustedUntil = -Infinity;
        if (!record?.isOpen) openJump.run({ from: reference, to: at });
        return;
      }
      if (state === "behind" && !(record && disprovesJump(at, record))) return;
      confirm(at);
      trustedUntil = at + GOOD_TIME_INTERVAL_S;
    },

    /** Whether this time proves that a jump which was accepted as right was wrong. */
    isDisproved(at: number): boolean {
      const record = read();
      return record !== null && disprovesJump(at, record);
    },

    confirm,
    /** Stores a good time that was computed independently of a jumped clock. The jump stays open. */
    setGoodTime(at: number): void {
      if (read() === null) insert.run(at);
      else updateGoodTime.run(at);
    },

    /** The timestamp of a snapshot made at `now` after one at `latest` (null for the first). */
    timeOfSnapshot: (now: number, latest: number | null): number =>
      chooseSnapshotTime(now, latest, () => read() ?? recordOf(findNewestRecordTime())),
  };
}

/** The clock record as it would be before its row exists: only the newest record is known. */
const recordOf = (goodAt: number | null): ClockRecord | null =>
  goodAt === null ? null : { goodAt, jumpFrom: null, jumpTo: null, isOpen: false };
