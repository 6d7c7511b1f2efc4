import { suite } from "uvu";
import * as assert from "uvu/assert";
import { dayOf, computeFrequency } from "../../src/domain/frequency.ts";

const test = suite("domain/frequency");
const DAY = 19_675; // 2023-11-14

test("starts a day at midnight UTC", () => {
  assert.equal([1_699_919_999.9, 1_699_920_000, 1_700_006_399.9, 1_700_006_400].map(dayOf), [
    DAY - 1,
    DAY,
    DAY,
    DAY + 1,
  ]);
});

test("lists every day, oldest first, and counts days without events in the median", () => {
  const daily = (counts: number[]) =>
    counts.map((count, place) => ({ date: `2023-11-${15 - counts.length + place}`, count }));
  const cases: [counts: number[], total: number, median: number][] = [
    [[0, 0, 0, 0], 0, 0],
    [[0, 0, 0, 9], 9, 0],
    [[0, 3, 0, 1], 4, 0.5],
    [[10, 9, 2, 1], 22, 5.5],
    [[7, 0, 2], 9, 2],
    [[4], 4, 4],
  ];
  for (const [counts, total, median_per_day] of cases) {
    const known = new Map(
      counts
        .map((count, place): [number, number] => [DAY - counts.length + 1 + place, count])
        .filter(([, count]) => count > 0),
    );
    assert.equal(computeFrequency(known, DAY, counts.length), { total, median_per_day, daily: daily(counts) });
  }
});

test("ignores days outside the range", () => {
  const counts = new Map([
    [DAY - 2, 5],
    [DAY - 1, 1],
    [DAY + 1, 7],
  ]);
  assert.equal(computeFrequency(counts, DAY, 2), {
    total: 1,
    median_per_day: 0.5,
    daily: [
      { date: "2023-11-13", count: 1 },
      { date: "2023-11-14", count: 0 },
    ],
  });
});

test.run();
