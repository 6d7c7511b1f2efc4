import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createBodyBudget } from "../../../src/http/body/body-budget.ts";
import type { BodyLease } from "../../../src/http/body/body-budget.ts";

const test = suite("http/body/body-budget");
const never = new AbortController().signal;
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Asks for room; `lease` is there once it was given. */
function ask(budget: ReturnType<typeof createBodyBudget>, caller: string, bytes: number, signal = never) {
  const asked: { lease: BodyLease | null; error: unknown } = { lease: null, error: null };
  void budget.acquire({ bytes, owner: caller, signal }).then(
    (lease) => (asked.lease = lease),
    (error: unknown) => (asked.error = error),
  );
  return asked;
}

test("gives room until it is taken, and to who waits when it is given back, in their order", async () => {
  const budget = createBodyBudget({ bytes: 100 });
  const [a, b, c, d] = [ask(budget, "a", 60), ask(budget, "b", 40), ask(budget, "c", 60), ask(budget, "d", 10)];
  await settle();
  assert.equal({ a: !!a.lease, b: !!b.lease, c: !!c.lease, d: !!d.lease }, { a: true, b: true, c: false, d: false });
  assert.equal(budget.load(), { bytes: 100, waiting: 2 });
  b.lease?.release();
  await settle();
  // The small one does not overtake the large one whose turn it is.
  assert.equal({ c: !!c.lease, d: !!d.lease }, { c: false, d: false });
  a.lease?.release();
  a.lease?.release();
  await settle();
  assert.equal(
    { c: !!c.lease, d: !!d.lease, load: budget.load() },
    { c: true, d: true, load: { bytes: 70, waiting: 0 } },
  );
});

test("gives one caller at most half, so that others need not wait for them", async () => {
  const budget = createBodyBudget({ bytes: 100 });
  const many = Array.from({ length: 4 }, () => ask(budget, "greedy", 25));
  const other = ask(budget, "other", 30);
  await settle();
  assert.equal(
    [...many, other].map(({ lease }) => lease !== null),
    [true, true, false, false, true],
  );
  many[0]?.lease?.release();
  await settle();
  assert.equal(
    many.map(({ lease }) => lease !== null),
    [true, true, true, false],
  );
});

test("lets a body in that is larger than the budget when nothing else is held", async () => {
  const budget = createBodyBudget({ bytes: 100 });
  const large = ask(budget, "a", 500);
  await settle();
  assert.ok(large.lease);
  const next = ask(budget, "b", 1);
  await settle();
  assert.is(next.lease, null);
  assert.ok(budget.isContended());
  large.lease?.release();
  await settle();
  assert.ok(next.lease);
  assert.not(budget.isContended());
});

test("asks the client to come again when too many wait, or the turn does not come", async () => {
  const budget = createBodyBudget({ bytes: 10, maxWaitS: 0, maxWaiting: 1 });
  const first = ask(budget, "a", 10);
  const waiting = ask(budget, "b", 10);
  await rejectsAsTooMany(budget.acquire({ bytes: 10, owner: "c", signal: never }));
  while (waiting.error === null) await settle();
  assert.match(String(waiting.error), /receiving too many large requests\. Please try again in 5 seconds/);
  assert.equal((waiting.error as { headers: object }).headers, { "Retry-After": "5" });
  assert.ok(first.lease);
  assert.equal(budget.load(), { bytes: 10, waiting: 0 });
});

test("forgets who leaves, and those behind them get their turn", async () => {
  const budget = createBodyBudget({ bytes: 100 });
  const gone = new AbortController();
  ask(budget, "a", 60);
  const large = ask(budget, "b", 80, gone.signal);
  const small = ask(budget, "c", 20);
  await settle();
  assert.is(small.lease, null);
  gone.abort(new Error("gone"));
  await settle();
  assert.equal({ large: String(large.error), small: small.lease !== null }, { large: "Error: gone", small: true });
});

async function rejectsAsTooMany(work: Promise<unknown>): Promise<void> {
  const error = await work.then(
    () => null,
    (reason: unknown) => reason,
  );
  assert.equal((error as { code: string }).code, "too_many");
}

test.run();
