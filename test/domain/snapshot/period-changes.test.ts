/** What the rows of snapshots mean: upgrades, verdicts that turned, starts, exits. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { listSnapshotChanges } from "../../../src/domain/snapshot/period-changes.ts";
import type { ChangedSnapshot, Replaced } from "../../../src/domain/snapshot/period-changes.ts";

const test = suite("domain/snapshot/period-changes");

type Event = ChangedSnapshot["events"][number];

let nextId = 0;
const event = (fingerprint: string, annotation: string, fields: Partial<Event> = {}): Event => ({
  id: (nextId += 1),
  name: `name of ${fingerprint}`,
  fingerprint,
  annotation,
  was: 1,
  now: annotation === "exited" ? 0 : 1,
  compliant: null,
  before: null,
  ...fields,
});
const start = (fingerprint: string, compliant: boolean | null = null): Event =>
  event(fingerprint, "started-unknown", { was: 0, compliant });

/** @param replaced fingerprints by those that took their place, with the verdicts that they had */
function snapshot(
  index: number,
  events: readonly Event[],
  {
    replaced = {},
    compliant = null,
  }: { replaced?: Record<string, Omit<Replaced, "name">>; compliant?: boolean | null } = {},
): ChangedSnapshot {
  const of = events.flatMap(({ id, fingerprint }): [number, Replaced][] => {
    const old = replaced[fingerprint];
    return old ? [[id, { ...old, name: `name of ${old.fingerprint}` }]] : [];
  });
  return { environmentId: 1, index, at: index, compliant, events, replaced: new Map(of) };
}

const listed = (snapshots: readonly ChangedSnapshot[], lastVerdicts: [number, boolean | null][] = []): string[] =>
  listSnapshotChanges(snapshots, new Map(lastVerdicts)).map(({ index, kind, event: one, replaced }) => {
    const what = one === null ? "all" : one.fingerprint;
    return `#${index} ${kind} ${what}${replaced === null ? "" : ` for ${replaced.fingerprint}`}`;
  });

test("the exit of what was replaced belongs to the upgrade, in the same snapshot and in a later one", () => {
  const replaced = { b: { fingerprint: "a", compliant: null } };
  assert.equal(listed([snapshot(2, [event("a", "exited"), start("b")], { replaced })]), ["#2 upgraded b for a"]);
  assert.equal(listed([snapshot(2, [start("b")], { replaced }), snapshot(3, [event("a", "exited")])]), [
    "#2 upgraded b for a",
  ]);
});

test("an upgrade takes one exit along: what starts again and exits is listed", () => {
  const replaced = { b: { fingerprint: "a", compliant: null } };
  const upgrade = snapshot(2, [event("a", "exited"), start("b")], { replaced });
  assert.equal(listed([upgrade, snapshot(3, [start("a")]), snapshot(4, [event("a", "exited")])]), [
    "#2 upgraded b for a",
    "#3 started a",
    "#4 exited a",
  ]);
  const late = snapshot(2, [start("b")], { replaced });
  assert.equal(listed([late, snapshot(3, [start("a")]), snapshot(4, [event("a", "exited")])]), [
    "#2 upgraded b for a",
    "#3 started a",
    "#4 exited a",
  ]);
});

test("an exit before the period's upgrade, or in another environment, is none of it", () => {
  const replaced = { b: { fingerprint: "a", compliant: null } };
  const other = { ...snapshot(3, [event("a", "exited")]), environmentId: 2 };
  assert.equal(listed([snapshot(1, [event("a", "exited")]), snapshot(2, [start("b")], { replaced }), other]), [
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

test("a row that no annotation marks is scaled, or lost its verdict, or both", () => {
  assert.equal(listed([snapshot(2, [event("a", "unchanged", { was: 1, now: 3 })])]), ["#2 scaled a"]);
  assert.equal(listed([snapshot(2, [event("a", "unchanged", { before: true })])]), ["#2 verdict a"]);
  assert.equal(listed([snapshot(2, [event("a", "became-compliant", { was: 2, compliant: true, before: false })])]), [
    "#2 verdict a",
    "#2 scaled a",
  ]);
  assert.equal(listed([snapshot(2, [event("a", "updated-provenance")])]), ["#2 provenance a"]);
});

test.run();
