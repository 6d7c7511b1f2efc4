import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  formatSnapshotLabel,
  parseBound,
  parseInterval,
  parsePosition,
  parseSnapshotExpression,
  resolvePosition,
  resolveRange,
  type Position,
  TIME_EXPRESSION_PATTERN,
  parseTimeExpression,
} from "../../../src/domain/snapshot/expression.ts";

const test = suite("domain/snapshot/expression");

/** 2023-11-14T22:13:20Z. */
const NOW = 1_700_000_000;
const LIMIT = Number.MAX_SAFE_INTEGER;
const DAY = 86_400;

const index = (value: number): Position => ({ kind: "index", index: value });
const behind = (value: number): Position => ({ kind: "behind", behind: value });
const time = (at: number): Position => ({ kind: "time", at });
const huge = "9".repeat(400);

const positions: [string, Position][] = [
  ["1", index(1)],
  ["007", index(7)],
  ["0", index(0)],
  ["-0", index(0)],
  ["-1", index(-1)],
  ["-12", index(-12)],
  ["#3", index(3)],
  ["#0", index(0)],
  ["#-1", index(-1)],
  ["~0", behind(0)],
  ["~2", behind(2)],
  ["@{now}", time(NOW)],
  ["@{2023-11-14T22:13:20}", time(NOW)],
  ["@{2023-11-14T22:13:20Z}", time(NOW)],
  ["@{2023-11-14T22:13:20.25}", time(NOW + 0.25)],
  ["@{2023-11-14T22:13:20.250Z}", time(NOW + 0.25)],
  ["@{2024-02-29T00:00:00}", time(1_709_164_800)],
  ["@{2199-01-01T00:00:00}", time(7_226_582_400)],
  ["@{1969-12-31T23:59:59}", time(-1)],
  ["@{0050-01-01T00:00:00}", time(-60_589_296_000)],
  ["@{2.hours.ago}", time(NOW - 7200)],
  ["@{1.hour.ago}", time(NOW - 3600)],
  ["@{0.days.ago}", time(NOW)],
  ["@{3.days.ago}", time(NOW - 3 * DAY)],
  ["@{1.day.ago}", time(NOW - DAY)],
  ["@{2.weeks.ago}", time(NOW - 14 * DAY)],
  ["@{1.week.ago}", time(NOW - 7 * DAY)],
  ["@{2.months.ago}", time(NOW - 60 * DAY)],
  ["@{1.month.ago}", time(NOW - 30 * DAY)],
  ["9007199254740993", index(LIMIT)],
  ["-9007199254740993", index(-LIMIT)],
  [huge, index(LIMIT)],
  [`#${huge}`, index(LIMIT)],
  [`-${huge}`, index(-LIMIT)],
  [`~${huge}`, behind(LIMIT)],
  [`@{${huge}.months.ago}`, time(NOW - LIMIT * 30 * DAY)],
];
for (const [text, expected] of positions) {
  test(`${short(text)} is a position`, () => {
    const position = parsePosition(text, NOW);
    assert.equal(position, expected);
    assert.ok(Object.values(position ?? {}).every((value) => typeof value === "string" || Number.isFinite(value)));
  });
}

test("reads -0 as 0", () => assert.ok(Object.is((parsePosition("-0", NOW) as { index: number }).index, 0)));

const malformed = [
  "",
  " ",
  " 1",
  "1 ",
  "1\n",
  "+1",
  "1.0",
  "1e3",
  "0x1",
  "--1",
  "-",
  "one",
  "latest",
  "NOW",
  "now",
  "\u0661",
  "#",
  "##1",
  "#+1",
  "#1#2",
  "#~1",
  "#@{now}",
  "~",
  "~-1",
  "~~1",
  "~#1",
  "~1~2",
  "~1#2",
  "1~2",
  "1#2",
  "~1@{now}",
  "#1@{now}",
  "@{now}~1",
  "@{now}#1",
  "@",
  "@1",
  "@{}",
  "@{",
  "@}",
  "@now",
  "{now}",
  "@{now",
  "@now}",
  "@{NOW}",
  "@{ now }",
  "@{now}}",
  "@{{now}}",
  "@{now}@{now}",
  "@{1}",
  "@{~1}",
  "@{2023-02-30T00:00:00}",
  "@{2023-02-29T00:00:00}",
  "@{2023-04-31T00:00:00}",
  "@{2023-13-01T00:00:00}",
  "@{2023-00-01T00:00:00}",
  "@{2023-01-00T00:00:00}",
  "@{2023-01-32T00:00:00}",
  "@{2023-01-01T24:00:00}",
  "@{2023-01-01T25:00:00}",
  "@{2023-01-01T00:60:00}",
  "@{2023-01-01T23:59:60}",
  "@{2023-01-01}",
  "@{2023-01-01T00:00}",
  "@{2023-01-01 00:00:00}",
  "@{2023-01-01T00:00:00.}",
  "@{2023-01-01T00:00:00+01:00}",
  "@{2023-01-01T00:00:00z}",
  "@{2023-1-1T00:00:00}",
  "@{12023-01-01T00:00:00}",
  "@{-2023-01-01T00:00:00}",
  "@{hours.ago}",
  "@{.hours.ago}",
  "@{1hours.ago}",
  "@{1.hours}",
  "@{-1.hours.ago}",
  "@{1.5.hours.ago}",
  "@{1.years.ago}",
  "@{1.minutes.ago}",
  "@{1.Hours.ago}",
  "@{1.hourss.ago}",
  "@{1e3.hours.ago}",
  "@{1.constructor.ago}",
];
for (const text of malformed)
  test(`${JSON.stringify(text)} is no position`, () => assert.is(parsePosition(text, NOW), null));

const sides: [string, string, Position][] = [
  ["prod", "prod", index(-1)],
  ["prod#3", "prod", index(3)],
  ["prod#-2", "prod", index(-2)],
  ["prod#0", "prod", index(0)],
  ["prod~0", "prod", behind(0)],
  ["prod~12", "prod", behind(12)],
  ["prod@{now}", "prod", time(NOW)],
  ["prod@{2023-11-14T22:13:20}", "prod", time(NOW)],
  ["prod@{2.days.ago}", "prod", time(NOW - 2 * DAY)],
  ["my-prod.eu_1", "my-prod.eu_1", index(-1)],
  ["12", "12", index(-1)],
  // Old names: the position begins at the last sign.
  ["old~name", "old~name", index(-1)],
  ["old~name#4", "old~name", index(4)],
  ["old~name~4", "old~name", behind(4)],
  ["old~name@{now}", "old~name", time(NOW)],
  ["old~2#-1", "old~2", index(-1)],
  ["old~2~1", "old~2", behind(1)],
  ["old~", "old~", index(-1)],
  ["old~-1", "old~-1", index(-1)],
  [`prod~${huge}`, "prod", behind(LIMIT)],
];
for (const [text, environment, position] of sides)
  test(`${short(text)} is a side of a diff`, () =>
    assert.equal(parseSnapshotExpression(text, NOW), { environment, position }));

const noSides = [
  "",
  "#1",
  "~1",
  "@{now}",
  "-prod",
  ".prod",
  "_prod",
  "prod ",
  "pr od",
  "prod/1",
  "prod\n",
  "pröd",
  "prod#",
  "prod#x",
  "prod#1#2",
  "prod#1~2",
  "prod#~1",
  "prod##1",
  "prod#1@{now}",
  "prod@now",
  "prod@",
  "prod@{}",
  "prod@{yesterday}",
  "prod@{now}#1",
  "prod@{now}~1",
  "prod@{now}@{now}",
  "prod{now}",
  "prod}",
  "prod@{2023-02-30T00:00:00}",
  "prod# 1",
  "prod#+1",
];
for (const text of noSides)
  test(`${JSON.stringify(text)} is no side of a diff`, () => assert.is(parseSnapshotExpression(text, NOW), null));

test("parses long texts in linear time", () => {
  for (const sign of ["~", "#", "@{", "}", ".", "1", "-"]) {
    const text = sign.repeat(200_000);
    for (const whole of [text, `prod${text}`, `@{${text}}`, `1..${text}`]) {
      parsePosition(whole, NOW);
      parseSnapshotExpression(whole, NOW);
      parseInterval(whole, NOW);
      parseBound(whole, NOW);
    }
  }
});

/** Snapshots were taken at 100, 200, 300, ... */
const indexAt =
  (count: number) =>
  (at: number): number =>
    Math.max(0, Math.min(count, Math.floor(at / 100)));

const resolved: [Position, count: number, index: number][] = [
  [index(1), 5, 1],
  [index(5), 5, 5],
  [index(6), 5, 6],
  [index(0), 5, 0],
  [index(-1), 5, 5],
  [index(-5), 5, 1],
  [index(-6), 5, 0],
  [index(-7), 5, -1],
  [index(-1), 0, 0],
  [index(1), 0, 1],
  [behind(0), 5, 5],
  [behind(4), 5, 1],
  [behind(5), 5, 0],
  [behind(0), 0, 0],
  [behind(2), 0, -2],
  [time(99), 5, 0],
  [time(100), 5, 1],
  [time(250), 5, 2],
  [time(1e9), 5, 5],
  [time(1e9), 0, 0],
  [index(-LIMIT), 5, 6 - LIMIT],
  [behind(LIMIT), 5, 5 - LIMIT],
];
for (const [position, count, expected] of resolved) {
  test(`${JSON.stringify(position)} of ${count} snapshots is ${expected}`, () =>
    assert.is(resolvePosition(position, count, indexAt(count)), expected));
}

const labels: [string, string][] = [
  ["-1", "prod#-1"],
  ["-12", "prod#-12"],
  ["7", "prod#7"],
  ["#7", "prod#7"],
  ["#-1", "prod#-1"],
  ["~2", "prod~2"],
  ["@{2023-10-02T12:00:00}", "prod@{2023-10-02T12:00:00}"],
  ["@{now}", "prod@{now}"],
];
for (const [expression, label] of labels)
  test(`the label of ${expression} is ${label}`, () => assert.is(formatSnapshotLabel("prod", expression), label));

const intervals: [string, from: Position, to: Position][] = [
  ["1..2", index(1), index(2)],
  ["2..1", index(2), index(1)],
  ["1..NOW", index(1), index(-1)],
  ["~3..NOW", behind(3), index(-1)],
  ["~3..~1", behind(3), behind(1)],
  ["-3..-1", index(-3), index(-1)],
  ["#1..#2", index(1), index(2)],
  ["NOW", index(-1), index(-1)],
  ["NOW..NOW", index(-1), index(-1)],
  ["..", index(-1), index(-1)],
  ["..2", index(-1), index(2)],
  ["2..", index(2), index(-1)],
  ["2", index(2), index(-1)],
  ["~2", behind(2), index(-1)],
  ["@{2.days.ago}..@{1.day.ago}", time(NOW - 2 * DAY), time(NOW - DAY)],
  ["@{2.days.ago}", time(NOW - 2 * DAY), index(-1)],
];
for (const [text, from, to] of intervals)
  test(`${text} is an interval`, () => assert.equal(parseInterval(text, NOW), { from, to }));

for (const text of [
  "",
  " ",
  ".",
  "...",
  "1...2",
  "1..2..3",
  "....",
  "1.2",
  "1-2",
  "x..2",
  "1..x",
  "x",
  "1 .. 2",
  "now..1",
  "~..1",
  "prod#1..2",
  "@{2023-02-30T00:00:00}..NOW",
]) {
  test(`${JSON.stringify(text)} is no interval`, () => assert.is(parseInterval(text, NOW), null));
}

const bounds: [string, Position][] = [
  ["1", index(1)],
  ["-1", index(-1)],
  ["0", index(0)],
  ["NOW", index(-1)],
  ["1000000000", index(1_000_000_000)],
  ["1000000001", time(1_000_000_001)],
  ["1700000000", time(1_700_000_000)],
  ["-1700000000", index(-1_700_000_000)],
  ["1hour", time(NOW - 3600)],
  ["1h", time(NOW - 3600)],
  ["1hr", time(NOW - 3600)],
  ["3hrs", time(NOW - 10_800)],
  ["2hours", time(NOW - 7200)],
  ["2days", time(NOW - 2 * DAY)],
  ["1day", time(NOW - DAY)],
  ["1d", time(NOW - DAY)],
  ["30mins", time(NOW - 1800)],
  ["30min", time(NOW - 1800)],
  ["30m", time(NOW - 1800)],
  ["30minutes", time(NOW - 1800)],
  ["1minute", time(NOW - 60)],
  ["10s", time(NOW - 10)],
  ["10sec", time(NOW - 10)],
  ["10secs", time(NOW - 10)],
  ["1second", time(NOW - 1)],
  ["10seconds", time(NOW - 10)],
  ["1w", time(NOW - 7 * DAY)],
  ["1week", time(NOW - 7 * DAY)],
  ["2weeks", time(NOW - 14 * DAY)],
  ["1mo", time(NOW - 30 * DAY)],
  ["1month", time(NOW - 30 * DAY)],
  ["2months", time(NOW - 60 * DAY)],
  ["0days", time(NOW)],
  [huge, time(LIMIT)],
  [`-${huge}`, index(-LIMIT)],
  [`${huge}days`, time(NOW - LIMIT * DAY)],
];
for (const [text, expected] of bounds)
  test(`${short(text)} is a bound of events`, () => assert.equal(parseBound(text, NOW), expected));

for (const text of [
  "",
  " ",
  "now",
  "1.5",
  "1.5h",
  "-1h",
  "h",
  "1x",
  "1 hour",
  "1Hour",
  "1hours ago",
  "1hour1",
  "1constructor",
  "1__proto__",
  "1e30days",
  "~1",
  "#1",
  "@{now}",
  "1..2",
]) {
  test(`${JSON.stringify(text)} is no bound of events`, () => assert.is(parseBound(text, NOW), null));
}

const ranges: [from: Position, to: Position, count: number, range: [number, number] | null][] = [
  [index(1), index(-1), 5, [1, 5]],
  [index(2), index(3), 5, [2, 3]],
  [index(3), index(2), 5, [2, 3]],
  [index(3), index(3), 5, [3, 3]],
  [index(-1), index(2), 5, [2, 5]],
  [index(-1), index(-1), 5, [5, 5]],
  [behind(2), index(-1), 5, [3, 5]],
  [behind(99), index(-1), 5, [1, 5]],
  [index(0), index(99), 5, [1, 5]],
  [index(6), index(99), 5, null],
  [index(6), index(-1), 5, null],
  [index(6), behind(2), 5, null],
  [index(6), time(450), 5, null],
  [index(6), index(4), 5, [4, 5]],
  [index(-1), index(6), 5, [5, 5]],
  [index(-99), index(-9), 5, null],
  [index(0), index(0), 5, null],
  [index(1), index(-1), 0, null],
  [index(-1), index(-1), 0, null],
  [behind(0), behind(0), 0, null],
  [time(250), index(-1), 5, [2, 5]],
  [time(250), time(350), 5, [2, 3]],
  [time(350), time(250), 5, [2, 3]],
  [time(1), time(1e9), 5, [1, 5]],
  [time(1), time(99), 5, null],
  [index(1), time(99), 5, null],
  [index(-LIMIT), index(LIMIT), 5, [1, 5]],
];
for (const [from, to, count, expected] of ranges) {
  test(`${JSON.stringify(from)}..${JSON.stringify(to)} of ${count} snapshots`, () => {
    assert.equal(
      resolveRange({ from, to }, count, indexAt(count)),
      expected && { first: expected[0], last: expected[1] },
    );
  });
}

function short(text: string): string {
  return text.length > 60 ? `${text.slice(0, 20)}…` : text;
}

test("a time is a date, a moment, a duration before now, or seconds; never an index", () => {
  const now = 1_700_000_000;
  for (const [text, expected] of [
    ["2023-10-01", 1_696_118_400],
    ["2023-10-01T12:00+02:00", 1_696_154_400],
    ["@{2023-10-01T00:00:00}", 1_696_118_400],
    ["@{2.days.ago}", now - 2 * 86_400],
    ["@{now}", now],
    ["now", now],
    ["12hours", now - 43_200],
    ["1696118400", 1_696_118_400],
    ["1696118400.25", 1_696_118_400.25],
  ] as const) {
    assert.is(parseTimeExpression(text, now), expected, text);
    assert.ok(new RegExp(TIME_EXPRESSION_PATTERN).test(text), text);
  }
  assert.is(parseTimeExpression("2023-10-01", now, { endOfDay: true }), 1_696_118_400 + 86_400 - 1e-6);
  for (const text of ["", "3", "-1", "#3", "~2", "NOW", "2023-02-30", "12parsecs", "@{3}", "999999999999999days"])
    assert.is(parseTimeExpression(text, now), null, text);
});

test.run();
