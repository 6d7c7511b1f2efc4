/** When daily messages are due: once a day on the clocks of a zone, whatever they do. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  DEFAULT_DAILY_TIME,
  findDailyEnd,
  formatDailyTime,
  isTimeZone,
  nextDailyTime,
} from "../../../src/domain/notification/daily-time.ts";
import type { DailyTime } from "../../../src/domain/notification/daily-time.ts";

const test = suite("domain/notification/daily-time");
const at = (iso: string): number => Date.parse(iso) / 1000;
const iso = (seconds: number): string => new Date(seconds * 1000).toISOString().slice(0, 16);

test("a period ends at the hour, and is over a minute later", () => {
  for (const [now, end, next] of [
    ["2026-11-20T06:00:59Z", "2026-11-19T06:00", "2026-11-20T06:01"],
    ["2026-11-20T06:01:00Z", "2026-11-20T06:00", "2026-11-21T06:01"],
    ["2026-11-20T23:59:59Z", "2026-11-20T06:00", "2026-11-21T06:01"],
  ] as const) {
    assert.is(iso(findDailyEnd(at(now), DEFAULT_DAILY_TIME)), end, now);
    assert.is(iso(nextDailyTime(at(now), DEFAULT_DAILY_TIME)), next, now);
  }
});

/** The ends of the periods from one time to another, as the job finds them. */
function endsOf(daily: DailyTime, from: string, to: string): string[] {
  const ends: string[] = [];
  for (let now = nextDailyTime(at(from), daily); now < at(to); now = nextDailyTime(now, daily)) {
    ends.push(iso(findDailyEnd(now, daily)));
    assert.is(findDailyEnd(now, daily), now - 60, "due a minute after the end");
  }
  return ends;
}

test("there is one a day over both changes of the clocks, at the hour that they show", () => {
  // Berlin: 02:00 becomes 03:00 on 28 March 2027, and 03:00 becomes 02:00 on 31 October 2027.
  const spring = ["2027-03-26T12:00:00Z", "2027-03-30T12:00:00Z"] as const;
  const autumn = ["2027-10-29T12:00:00Z", "2027-11-02T12:00:00Z"] as const;
  const berlin = (hour: number): DailyTime => ({ hour, timeZone: "Europe/Berlin" });
  assert.equal(
    endsOf(berlin(7), ...spring),
    ["27T06", "28T05", "29T05", "30T05"].map((one) => `2027-03-${one}:00`),
  );
  assert.equal(endsOf(berlin(7), ...autumn), [
    "2027-10-30T05:00",
    "2027-10-31T06:00",
    "2027-11-01T06:00",
    "2027-11-02T06:00",
  ]);
  // The hour that is left out, and the one that comes twice.
  assert.equal(
    endsOf(berlin(2), ...spring),
    ["27T01", "28T01", "29T00", "30T00"].map((one) => `2027-03-${one}:00`),
  );
  assert.equal(endsOf(berlin(2), ...autumn), [
    "2027-10-30T00:00",
    "2027-10-31T00:00",
    "2027-11-01T01:00",
    "2027-11-02T01:00",
  ]);
});

test("zones far from UTC, with half hours, and changes at midnight, have one a day", () => {
  for (const timeZone of ["Pacific/Kiritimati", "America/Havana", "Africa/Cairo"])
    for (const hour of [0, 23]) {
      const ends = endsOf({ hour, timeZone }, "2027-01-31T12:00:00Z", "2027-06-30T12:00:00Z");
      assert.is(ends.length, 150, `${timeZone} ${hour}`);
      assert.is(new Set(ends).size, 150, `${timeZone} ${hour}`);
    }
  assert.is(iso(findDailyEnd(at("2026-11-20T12:00:00Z"), { hour: 7, timeZone: "Asia/Kolkata" })), "2026-11-20T01:30");
});

test("a zone is one of the IANA database", () => {
  for (const name of ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5"])
    assert.ok(isTimeZone(name));
  for (const name of ["", "Berlin", "Europe/Atlantis", "+25:00", "x".repeat(70)]) assert.not.ok(isTimeZone(name), name);
  assert.is(formatDailyTime({ hour: 7, timeZone: "Europe/Berlin" }), "07:00 Europe/Berlin");
});

test.run();
