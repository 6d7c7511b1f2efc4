import { suite } from "uvu";
import * as assert from "uvu/assert";
import { formatArchivedName, formatEpoch, isCalendarTime, mergeByTime, parseIsoTime } from "../../src/domain/time.ts";

const test = suite("domain/time");

const texts: [number, string][] = [
  [1700000000.25, "1700000000.25"],
  [1700000000, "1700000000"],
  [0, "0"],
  [-0, "0"],
  [-1.5, "-1.5"],
  [1e-6, "0.000001"],
  [1e-7, "0.0000001"],
  [1.5e-7, "0.00000015"],
  [-1e-300, "0"],
  [1e21, "1000000000000000000000"],
  [-1e21, "-1000000000000000000000"],
  [4102444800, "4102444800"],
];
for (const [seconds, text] of texts)
  test(`${seconds} is written as ${text}`, () => assert.is(formatEpoch(seconds), text));

test("throws for a time that is not a finite number", () => {
  for (const seconds of [NaN, Infinity, -Infinity]) assert.throws(() => formatEpoch(seconds), RangeError);
});

test("a time has a date from the year 1 to the year 9999", () => {
  for (const seconds of [-62_135_596_800, -1, 0, 1_700_000_000, 253_402_300_799]) assert.ok(isCalendarTime(seconds));
  for (const seconds of [-62_135_596_801, 253_402_300_799.5, 1.7e15, NaN, Infinity])
    assert.not.ok(isCalendarTime(seconds), String(seconds));
});

test("ends an archived name in whole seconds", () => {
  assert.is(formatArchivedName("prod", 1700000000.99), "prod-archived-at-1700000000");
});

const moments: [text: string, seconds: number | null][] = [
  ["2023-11-14", 1699920000],
  ["2023-11-14T22:13:20Z", 1700000000],
  ["2023-11-14T22:13:20", 1700000000],
  ["2023-11-14 22:13:20", 1700000000],
  ["2023-11-14t22:13:20z", 1700000000],
  ["2023-11-14T22:13", 1699999980],
  ["2023-11-14T22:13:20.25Z", 1700000000.25],
  ["2023-11-14T22:13:20,25", 1700000000.25],
  ["2023-11-15T00:13:20+02:00", 1700000000],
  ["2023-11-15T00:13:20 02:00", 1700000000],
  ["2023-11-15T00:13:20+0200", 1700000000],
  ["2023-11-15T00:13:20+02", 1700000000],
  ["2023-11-14T16:43:20-05:30", 1700000000],
  ["2024-02-29", 1709164800],
  ["1969-12-31T23:59:59Z", -1],
  ...[
    "",
    " ",
    "now",
    "2023",
    "2023-11",
    "2023-13-01",
    "2023-02-29",
    "2023-02-30",
    "2023-11-00",
    "2023-1-1",
    "20231114",
    "1700000000",
    "2023-11-14T",
    "2023-11-14T22",
    "2023-11-14T24:00",
    "2023-11-14T22:60",
    "2023-11-14T22:13:60",
    "2023-11-14T22:13:20.",
    "2023-11-14T22:13:20+24:00",
    "2023-11-14T22:13:20+02:60",
    "2023-11-14Z",
    "2023-11-14T22:13:20 Z",
    "2023-11-14T22:13:20Z\n",
    "x2023-11-14",
  ].map((text): [string, null] => [text, null]),
];
for (const [text, seconds] of moments)
  test(`reads "${text}" as ${seconds}`, () => assert.is(parseIsoTime(text), seconds));

test("extends a date alone to its end with endOfDay, but not a time", () => {
  const end = parseIsoTime("2023-11-14", { endOfDay: true }) as number;
  assert.ok(end > 1700006399.999 && end < 1700006400, String(end));
  assert.is(parseIsoTime("2023-11-14T00:00", { endOfDay: true }), 1699920000);
});

test("merges two histories by time, each in its own order", () => {
  const entries = (...times: (readonly [string, number])[]) => times.map(([name, timestamp]) => ({ name, timestamp }));
  const merged = (one: ReturnType<typeof entries>, other: ReturnType<typeof entries>) =>
    mergeByTime(one, other)
      .map(({ name }) => name)
      .join("");
  assert.is(merged([], []), "");
  assert.is(merged(entries(["a", 1]), []), "a");
  assert.is(merged([], entries(["x", 1])), "x");
  assert.is(merged(entries(["a", 1], ["b", 3], ["c", 5]), entries(["x", 2], ["y", 4], ["z", 6])), "axbycz");
  assert.is(merged(entries(["a", 3]), entries(["x", 1], ["y", 2], ["z", 3])), "xyaz");
  // Equal times, and times that go back.
  assert.is(merged(entries(["a", 1], ["b", 1]), entries(["x", 1])), "abx");
  assert.is(merged(entries(["a", 5], ["b", 1]), entries(["x", 2], ["y", 9])), "xaby");
});

test.run();
