import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createBodyBudget } from "../../../src/http/body/body-budget.ts";
import type { BodyLease } from "../../../src/http/body/body-budget.ts";

const test = suite("http/body/body-budget");
const never = new AbortController().signal;
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Requests room; `lease` is set once it is granted. */
function acquire(budget: ReturnType<typeof createBodyBudget>, owner: string, bytes: number, signal = never) {
  const outcome: { lease: BodyLease | null; error: unknown } = { lease: null, error: null };
  void budget.acquire({ bytes, owner, signal }).then(
    (lease) => (outcome.lease = lease),
    (error: unknown) => (outcome.error = error),
  );
  return outcome;
}

test("grants room while there is some, and to those that wait in order of arrival", async () => {
  const budget = createBodyBudget({ bytes: 100 });
  const [a, b, c, d] = [
    acquire(budget, "a", 60),
    acquire(budget, "b", 40),
    acquire(budget, "c", 60),
    acquire(budget, "d", 10),
  ];
  await settle();
  assert.equal({ a: !!a.lease, b: !!b.lease, c: !!c.lease, d: !!d.lease }, { a: true, b: true, c: false, d: false });
  assert.equal(budget.load(), { bytes: 100, waiting: 2 });
  b.lease?.release();
  await settle();
  // The small body does not overtake the large one that is next.
  assert.equal({ c: !!c.lease, d: !!d.lease }, { c: false, d: false });
  a.lease?.release();
  a.lease?.release();
  await settle();
  assert.equal(
    { c: !!c.lease, d: !!d.lease, load: budget.load() },
    { c: true, d: true, load: { bytes: 70, waiting: 0 } },
  );
});

test("grants one owner at most half, so that others need not wait", async () => {
  const budget = createBodyBudget({ bytes: 100 });
  const many = Array.from({ length: 4 }, () => acquire(budget, "greedy", 25));
  const other = acquire(budget, "other", 30);
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

test("admits a body larger than the budget when nothing else is held", async () => {
  const budget = createBodyBudget({ bytes: 100 });
  const large = acquire(budget, "a", 500);
  await settle();
  assert.ok(large.lease);
  const next = acquire(budget, "b", 1);
  await settle();
  assert.is(next.lease, null);
  assert.ok(budget.isContended());
  large.lease?.release();
  await settle();
  assert.ok(next.lease);
  assert.not(budget.isContended());
});

test("refuses with Retry-After when too many wait, or after too long a wait", async () => {
  const budget = createBodyBudget({ bytes: 10, maxWaitS: 0, maxWaiting: 1 });
  const first = acquire(budget, "a", 10);
  const waiting = acquire(budget, "b", 10);
  await assertRefused(budget.acquire({ bytes: 10, owner: "c", signal: never }));
  while (waiting.error === null) await settle();
  assert.match(String(waiting.error), /receiving too many large requests\. Please try again in 5 seconds/);
  assert.equal((waiting.error as { headers: object }).headers, { "Retry-After": "5" });
  assert.ok(first.lease);
  assert.equal(budget.load(), { bytes: 10, waiting: 0 });
});

test("drops a request that is aborted and admits those behind it", async () => {
  const budget = createBodyBudget({ bytes: 100 });
  const gone = new AbortController();
  acquire(budget, "a", 60);
  const large = acquire(budget, "b", 80, gone.signal);
  const small = acquire(budget, "c", 20);
  await settle();
  assert.is(small.lease, null);
  gone.abort(new Error("gone"));
  await settle();
  assert.equal({ large: String(large.error), small: small.lease !== null }, { large: "Error: gone", small: true });
});

async function assertRefused(work: Promise<unknown>): Promise<void> {
  const error = await work.then(
    () => null,
    (reason: unknown) => reason,
  );
  assert.equal((error as { code: string }).code, "too_many");
}

test.run();
