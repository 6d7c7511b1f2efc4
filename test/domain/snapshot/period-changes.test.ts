/** What the rows of snapshots mean: upgrades, verdicts that turned, starts, exits. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ROW_FACTOR, ROW_MARKS, keyOfRow, listSnapshotChanges } from "../../../src/domain/snapshot/period-changes.ts";
import type { ChangedSnapshot, Replaced } from "../../../src/domain/snapshot/period-changes.ts";

const test = suite("domain/snapshot/period-changes");

/** A row and its fingerprint. */
type Row = { row: number; fingerprint: string };

let nextId = 0;
const row = (fingerprint: string, ...marks: (keyof typeof ROW_MARKS)[]): Row => {
  nextId += 1;
  return { fingerprint, row: nextId * ROW_FACTOR + marks.reduce((sum, mark) => sum + ROW_MARKS[mark], 0) };
};
const start = (fingerprint: string, compliant: boolean | null = null): Row =>
  row(fingerprint, "started", ...(compliant === null ? [] : ([compliant ? "compliant" : "nonCompliant"] as const)));
const exit = (fingerprint: string): Row => row(fingerprint, "exited");

/** Fingerprints by the keys of their rows, of all snapshots of a test. */
const fingerprints = new Map<number, string>();

/** @param replaced fingerprints by those that took their place, with the verdicts that they had */
function snapshot(
  index: number,
  rows: readonly Row[],
  {
    replaced = {},
    compliant = null,
  }: { replaced?: Record<string, Omit<Replaced, "name">>; compliant?: boolean | null } = {},
): ChangedSnapshot {
  for (const one of rows) fingerprints.set(keyOfRow(one.row), one.fingerprint);
  const of = rows.flatMap((one): [number, Replaced][] => {
    const old = replaced[one.fingerprint];
    return old ? [[keyOfRow(one.row), { ...old, name: `name of ${old.fingerprint}` }]] : [];
  });
  return {
    environmentId: 1,
    index,
    at: index,
    compliant,
    rows: rows.map((one) => one.row),
    replaced: new Map(of),
    readFingerprints: () => fingerprints,
  };
}

/** The changes by snapshot, those of the environment first. */
function listed(snapshots: readonly ChangedSnapshot[], lastVerdicts: [number, boolean | null][] = []): string[] {
  const { verdicts, artifacts } = listSnapshotChanges(snapshots, new Map(lastVerdicts));
  const all = [
    ...verdicts.map(({ index, kind }) => ({ index, text: `#${index} ${kind} all` })),
    ...artifacts.flatMap(({ index, kind, rows, replaced }) =>
      rows.map((one) => {
        const old = replaced.get(keyOfRow(one));
        const what = `${fingerprints.get(keyOfRow(one))}${old ? ` for ${old.fingerprint}` : ""}`;
        return { index, text: `#${index} ${kind} ${what}` };
      }),
    ),
  ];
  return all.sort((a, b) => a.index - b.index).map(({ text }) => text);
}

test("the exit of what was replaced belongs to the upgrade, in the same snapshot and in a later one", () => {
  const replaced = { b: { fingerprint: "a", compliant: null } };
  assert.equal(listed([snapshot(2, [exit("a"), start("b")], { replaced })]), ["#2 upgraded b for a"]);
  assert.equal(listed([snapshot(2, [start("b")], { replaced }), snapshot(3, [exit("a")])]), ["#2 upgraded b for a"]);
});

test("an upgrade takes one exit along: what starts again and exits is listed", () => {
  const replaced = { b: { fingerprint: "a", compliant: null } };
  const upgrade = snapshot(2, [exit("a"), start("b")], { replaced });
  assert.equal(listed([upgrade, snapshot(3, [start("a")]), snapshot(4, [exit("a")])]), [
    "#2 upgraded b for a",
    "#3 started a",
    "#4 exited a",
  ]);
  const late = snapshot(2, [start("b")], { replaced });
  assert.equal(listed([late, snapshot(3, [start("a")]), snapshot(4, [exit("a")])]), [
    "#2 upgraded b for a",
    "#3 started a",
    "#4 exited a",
  ]);
});

test("an exit before the period's upgrade, or in another environment, is none of it", () => {
  const replaced = { b: { fingerprint: "a", compliant: null } };
  const other = { ...snapshot(3, [exit("a")]), environmentId: 2 };
  assert.equal(listed([snapshot(1, [exit("a")]), snapshot(2, [start("b")], { replaced }), other]), [
    "#1 exited a",
    "#2 upgraded b for a",
    "#3 exited a",
  ]);
});

test("an upgrade turns a verdict only between two that are known", () => {
  const verdicts = (before: boolean | null, after: boolean | null): string[] =>
    listed([snapshot(2, [start("b", after)], { replaced: { b: { fingerprint: "a", compliant: before } } })]);
  assert.equal(verdicts(true, false), ["#2 verdict b for a", "#2 upgraded b for a"]);
  assert.equal(verdicts(false, true), ["#2 verdict b for a", "#2 upgraded b for a"]);
  for (const [before, after] of [
    [true, true],
    [null, false],
    [true, null],
  ] as const)
    assert.equal(verdicts(before, after), ["#2 upgraded b for a"]);
});

test("the verdict on an environment turns against the last known one", () => {
  const of = (index: number, compliant: boolean | null) => snapshot(index, [], { compliant });
  assert.equal(listed([of(2, false)], [[1, true]]), ["#2 verdict all"]);
  assert.equal(listed([of(2, null), of(3, true)], [[1, true]]), [], "unknown in between does not count");
  assert.equal(listed([of(2, null), of(3, true)], [[1, false]]), ["#3 verdict all"]);
  assert.equal(listed([of(1, true)]), [], "a first verdict of compliant is no news");
  assert.equal(listed([of(1, false)]), ["#1 verdict all"]);
});

test("a row is all that its marks say", () => {
  assert.equal(listed([snapshot(2, [row("a", "scaled")])]), ["#2 scaled a"]);
  assert.equal(listed([snapshot(2, [row("a", "turned")])]), ["#2 verdict a"]);
  assert.equal(listed([snapshot(2, [row("a", "turned", "scaled", "compliant")])]), ["#2 verdict a", "#2 scaled a"]);
  assert.equal(listed([snapshot(2, [row("a", "provenance")])]), ["#2 provenance a"]);
  assert.equal(listed([snapshot(2, [row("a", "nonCompliant")])]), []);
});

test("fingerprints are read only where something is replaced", () => {
  let reads = 0;
  const readFingerprints = (): ReadonlyMap<number, string> => {
    reads += 1;
    return fingerprints;
  };
  const of = (one: ChangedSnapshot): ChangedSnapshot => ({ ...one, readFingerprints });
  listed([of(snapshot(2, [start("a"), start("c")])), of(snapshot(3, [exit("c")]))]);
  assert.is(reads, 0);
  const replaced = { b: { fingerprint: "a", compliant: null } };
  listed([of(snapshot(4, [start("b")], { replaced })), of(snapshot(5, [exit("a")])), of(snapshot(6, [exit("b")]))]);
  assert.is(reads, 2);
});

test.run();
