/**
 * What the database remembers of the clock: the last known good time, and the latest jump ahead under which something
 * was recorded. One row. Every change is held against it (`observe`, with each audit entry), in the transaction of the
 * change, so the server, its threads and the command line agree, and a restart forgets nothing. The server decides what
 * becomes of a jump (clock-watch.ts).
 *
 * All times are epoch seconds. Everything that changes something is to be called inside a write.
 */
import { disprovesJump, judgeClock, timeOfSnapshot } from "../../domain/clock.ts";
import type { ClockRecord } from "../../domain/clock.ts";
import type { outboxStore } from "../notifications/outbox.ts";
import type { jobStore } from "./jobs.ts";
import type { Db } from "./types.ts";

/**
 * How far the stored good time may lag behind, in seconds: one small write an hour, and far less than the error that
 * matters.
 */
export const GOOD_TIME_INTERVAL_S = 3_600;

type Row = { good_at: number; jump_from: number | null; jump_to: number | null; is_open: 0 | 1 };

type Parts = {
  jobs: Pick<ReturnType<typeof jobStore>, "pullForward">;
  deliveries: Pick<ReturnType<typeof outboxStore>, "pullForward">;
};

export function clockStore(db: Db, { jobs, deliveries }: Parts) {
  const row = db.prepare<[], Row>("SELECT good_at, jump_from, jump_to, is_open FROM clock WHERE id = 1");
  const newest = db.prepare<[], { timestamp: number }>("SELECT timestamp FROM audit_log ORDER BY id DESC LIMIT 1");
  const insert = db.prepare("INSERT INTO clock (id, good_at) VALUES (1, ?)");
  const setGood = db.prepare("UPDATE clock SET good_at = ?, is_open = 0 WHERE id = 1");
  const moveGood = db.prepare("UPDATE clock SET good_at = ? WHERE id = 1");
  const openJump = db.prepare(
    "UPDATE clock SET good_at = @from, jump_from = @from, jump_to = @to, is_open = 1 WHERE id = 1",
  );

  /** Changes up to this time need no look at the row, and the row needs no newer good time. */
  let unquestioned = -Infinity;

  function read(): ClockRecord | null {
    const found = row.get();
    if (!found) return null;
    return { goodAt: found.good_at, jumpFrom: found.jump_from, jumpTo: found.jump_to, isOpen: found.is_open === 1 };
  }

  const newestRecord = (): number | null => newest.get()?.timestamp ?? null;

  /** A change that an unresolved jump does not make doubtful says that its time was good, too. */
  function referenceOf(record: ClockRecord | null): number | null {
    const latest = newestRecord();
    if (record === null) return latest;
    return record.isOpen || latest === null ? record.goodAt : Math.max(record.goodAt, latest);
  }

  /** The clock is right: the time is good, and what a wrong clock put off until a far day is due now. */
  function confirm(at: number): void {
    const record = read();
    if (record === null) return void insert.run(at);
    setGood.run(at);
    const { jumpTo, isOpen } = record;
    if (jumpTo === null || at >= jumpTo || !(isOpen || disprovesJump(at, record))) return;
    deliveries.pullForward(jumpTo, at);
    jobs.pullForward(jumpTo, at);
  }

  return {
    read,
    /**
     * The time of the newest record: of the entry that was appended last to the audit log; null: nothing was recorded
     * yet.
     */
    findNewestRecordTime: newestRecord,
    /** The latest time that can be trusted, when the database was just opened; null: nothing is known. */
    findReferenceTime: (): number | null => referenceOf(read()),

    /**
     * Holds a change at this time against the last known good time and the newest record. More than a day past both,
     * the change is noted as the beginning of a jump, which stays open until the clock is right again or proves to be
     * right.
     */
    observe(at: number): void {
      if (at <= unquestioned) return;
      const record = read();
      const reference = referenceOf(record) ?? at;
      if (record === null) insert.run(reference);
      const state = judgeClock(at, reference);
      if (state === "ahead") {
        // From here on every change is looked at, because any of them may show that the clock is right again.
        unquestioned = -Infinity;
        if (!record?.isOpen) openJump.run({ from: reference, to: at });
        return;
      }
      if (state === "behind" && !(record && disprovesJump(at, record))) return;
      confirm(at);
      unquestioned = at + GOOD_TIME_INTERVAL_S;
    },

    /** Whether this time shows that a jump which was taken for right was none. */
    isDisproved(at: number): boolean {
      const record = read();
      return record !== null && disprovesJump(at, record);
    },

    confirm,
    /** The clock jumped ahead; `at` is the good time that can be reckoned without it. The jump stays as it is. */
    setGoodTime(at: number): void {
      if (read() === null) insert.run(at);
      else moveGood.run(at);
    },

    /** The time of a snapshot made at `now`, after one at `latest` (null: the first). */
    timeOfSnapshot: (now: number, latest: number | null): number =>
      timeOfSnapshot(now, latest, () => read() ?? recordFrom(newestRecord())),
  };
}

/** Before the first row: the newest record is all that is known. */
const recordFrom = (goodAt: number | null): ClockRecord | null =>
  goodAt === null ? null : { goodAt, jumpFrom: null, jumpTo: null, isOpen: false };
