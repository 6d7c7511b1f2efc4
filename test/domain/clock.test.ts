import { suite } from "uvu";
import * as assert from "uvu/assert";
import { disprovesJump, classifyClock, chooseSnapshotTime } from "../../src/domain/clock.ts";
import type { ClockRecord } from "../../src/domain/clock.ts";

const test = suite("domain/clock");

const DAY = 86_400;
const T = 1_700_000_000;
const YEARS = 730 * DAY;

test("accepts a clock within a day of the expected time in both directions", () => {
  const table = [
    [0, "right"],
    [DAY, "right"],
    [DAY + 1, "ahead"],
    [-DAY, "right"],
    [-DAY - 1, "behind"],
  ] as const;
  for (const [difference, expected] of table) assert.is(classifyClock(T + difference, T), expected, String(difference));
});

const never = (): never => {
  throw new Error("the record is read although the clock is not far behind");
};

test("uses the clock time for a snapshot, but not before the last one while the clock lags by a day at most", () => {
  assert.is(chooseSnapshotTime(T, null, never), T);
  assert.is(chooseSnapshotTime(T, T - 1, never), T);
  assert.is(chooseSnapshotTime(T, T + 1, never), T + 1, "a step back of a second");
  assert.is(chooseSnapshotTime(T, T + DAY, never), T + DAY);
});

const untouched: ClockRecord = { goodAt: T, jumpFrom: null, jumpTo: null, isOpen: false };
const open: ClockRecord = { goodAt: T, jumpFrom: T, jumpTo: T + YEARS, isOpen: true };
/** The clock jumped ahead by more than a day, and the jump was accepted. */
const accepted: ClockRecord = { goodAt: T + YEARS + 2 * DAY, jumpFrom: T, jumpTo: T + YEARS, isOpen: false };

test("ignores a last snapshot beyond the last known good time", () => {
  for (const record of [untouched, open])
    assert.is(
      chooseSnapshotTime(T + 60, T + YEARS, () => record),
      T + 60,
    );
  assert.is(
    chooseSnapshotTime(T + 300 * DAY, T + YEARS, () => open),
    T + 300 * DAY,
    "however long nobody noticed",
  );
});

test("makes no snapshot older than the last one when the clock falls behind a good time", () => {
  assert.is(
    chooseSnapshotTime(T - 9 * DAY, T, () => untouched),
    T,
  );
  assert.is(
    chooseSnapshotTime(T - 9 * DAY, T, () => open),
    T,
  );
  assert.is(
    chooseSnapshotTime(T - 9 * DAY, T, () => null),
    T,
    "where nothing is known of the clock",
  );
  assert.is(
    chooseSnapshotTime(T - 9 * DAY, T + YEARS + DAY, () => accepted),
    T + YEARS + DAY,
    "nor where it falls behind the jump",
  );
});

test("disproves an accepted jump when the clock comes back to the time before it", () => {
  assert.is(
    chooseSnapshotTime(T + 3 * DAY, T + YEARS + DAY, () => accepted),
    T + 3 * DAY,
  );
  for (const [now, expected] of [
    [T, true],
    [T + YEARS - 2 * DAY, true],
    [T + YEARS, false],
    [T - 2 * DAY, false],
  ] as const)
    assert.is(disprovesJump(now, accepted), expected, String(now - T));
  for (const record of [untouched, open, { ...accepted, goodAt: T + 400 * DAY }])
    assert.is(disprovesJump(T + 3 * DAY, record), false, "resolved, or never there");
  const later = { ...accepted, goodAt: T + 400 * DAY };
  assert.is(
    chooseSnapshotTime(T + 3 * DAY, T + 400 * DAY, () => later),
    T + 400 * DAY,
    "an old jump excuses no later fall",
  );
});

test.run();
