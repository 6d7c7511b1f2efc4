/** Whose turn it is among those that wait. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createTurns } from "../../src/workers/turns.ts";

const test = suite("workers/turns");
type Entry = { organizationId: number; caller: string; isUrgent: boolean; name: string };
const entry = (organizationId: number, caller: string, name: string, more: Partial<Entry> = {}): Entry => ({
  organizationId,
  caller,
  name,
  isUrgent: false,
  ...more,
});
const never = (): boolean => false;

/** The names in the order in which they are taken. */
function order(entries: readonly Entry[], isBusy: (caller: string) => boolean = never): string[] {
  const turns = createTurns<Entry>();
  for (const each of entries) turns.add(each);
  const names: string[] = [];
  for (let next = turns.take(isBusy); next !== null; next = turns.take(isBusy)) names.push(next.name);
  return names;
}

test("organizations take turns, and the callers of each do", () => {
  assert.equal(
    order([
      entry(1, "a", "1a1"),
      entry(1, "a", "1a2"),
      entry(1, "a", "1a3"),
      entry(1, "b", "1b1"),
      entry(2, "c", "2c1"),
      entry(2, "c", "2c2"),
    ]),
    ["1a1", "2c1", "1b1", "2c2", "1a2", "1a3"],
  );
});

test("of one caller, what is urgent goes first, then the oldest", () => {
  const isUrgent = true;
  assert.equal(order([entry(1, "a", "1"), entry(1, "a", "2", { isUrgent }), entry(1, "a", "3", { isUrgent })]), [
    "2",
    "3",
    "1",
  ]);
});

test("a caller who fills the queue delays no other, however urgent", () => {
  const many = Array.from({ length: 16 }, (_, n) => entry(1, "a", `a${n}`, { isUrgent: true }));
  assert.equal(order([...many, entry(1, "b", "b")]).indexOf("b"), 1);
});

test("a busy caller is passed over, and has its turn later", () => {
  const entries = [entry(1, "a", "a1"), entry(1, "b", "b1"), entry(2, "c", "c1")];
  assert.equal(
    order(entries, (caller) => caller === "a"),
    ["b1", "c1"],
  );
  const turns = createTurns<Entry>();
  for (const each of entries) turns.add(each);
  assert.is(turns.take((caller) => caller !== "c")?.name, "c1");
  assert.is(turns.take(never)?.name, "a1");
});

test("an entry can be removed once, while it waits", () => {
  const turns = createTurns<Entry>();
  const [first, second] = [entry(1, "a", "1"), entry(1, "a", "2")];
  turns.add(first);
  turns.add(second);
  assert.ok(turns.remove(first));
  assert.not(turns.remove(first));
  assert.is(turns.take(never), second);
  assert.not(turns.remove(second));
  assert.ok(turns.isEmpty());
});

test.run();
