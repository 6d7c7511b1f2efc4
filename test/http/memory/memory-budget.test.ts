import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createMemoryBudget, sizeMemoryBudget } from "../../../src/http/memory/memory-budget.ts";
import type { MemoryLease } from "../../../src/http/memory/memory-budget.ts";

const test = suite("http/memory/memory-budget");
const never = new AbortController().signal;
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A budget with room for bodies of so many bytes. */
const createBodyBudget = ({ bytes, ...options }: { bytes: number; maxWaitS?: number; maxWaiting?: number }) =>
  createMemoryBudget({ total: 10 * bytes, bodies: bytes, answers: bytes, ...options }).bodies;

/** Requests room; `lease` is set once it is granted. */
function acquire(budget: ReturnType<typeof createBodyBudget>, owner: string, bytes: number, signal = never) {
  const outcome: { lease: MemoryLease | null; error: unknown } = { lease: null, error: null };
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

const MB = 1 << 20;
const REFUSAL = /^The server is sending too many large answers\. Please try again in 5 seconds$/;

test("has room for answers until they are released, refuses others, and counts the refusals", () => {
  const { answers, load } = createMemoryBudget({ total: 1000, bodies: 100, answers: 100 });
  const first = answers.take({ bytes: 50, owner: "a" });
  const second = answers.take({ bytes: 50, owner: "b" });
  assert.throws(() => answers.take({ bytes: 1, owner: "c" }), REFUSAL);
  assert.equal(load().answers, { bytes: 100, waiting: 0, refused: 1 });
  first.release();
  first.release();
  answers.take({ bytes: 40, owner: "c" }).release();
  second.release();
  assert.equal(load().answers, { bytes: 0, waiting: 0, refused: 1 });
});

test("gives the answers of one owner at most half, but always one", () => {
  const { answers } = createMemoryBudget({ total: 1000, bodies: 100, answers: 100 });
  answers.take({ bytes: 30, owner: "a" });
  assert.throws(() => answers.take({ bytes: 30, owner: "a" }), REFUSAL);
  answers.take({ bytes: 60, owner: "b" });
});

test("admits an answer larger than everything when it is alone", () => {
  const { answers, load } = createMemoryBudget({ total: 1000, bodies: 100, answers: 100 });
  const large = answers.take({ bytes: 5000, owner: "a" });
  assert.throws(() => answers.take({ bytes: 1, owner: "b" }), REFUSAL);
  large.release();
  answers.take({ bytes: 1, owner: "b" });
  assert.equal(load().answers.bytes, 1);
});

test("never refuses the answer to a change, and counts it", () => {
  const { answers, load } = createMemoryBudget({ total: 1000, bodies: 100, answers: 100 });
  answers.take({ bytes: 90, owner: "a" });
  answers.hold({ bytes: 90, owner: "a" });
  assert.equal(load().answers, { bytes: 180, waiting: 0, refused: 0 });
});

test("answers that nobody reads leave room for bodies and threads, and the other way round", async () => {
  const budget = createMemoryBudget({ total: 300, bodies: 100, answers: 100 });
  for (const owner of ["a", "b"]) budget.answers.take({ bytes: 50, owner });
  const bodies = ["a", "b"].map((owner) => acquire(budget.bodies, owner, 50));
  await settle();
  assert.ok(bodies.every(({ lease }) => lease));
  assert.ok(budget.threads.take(100, () => undefined));
  assert.equal(budget.load().threads, { bytes: 100, waiting: 0, refused: 0 });
});

test("threads wait for room in order, and one of them always runs", () => {
  const { threads, answers, load } = createMemoryBudget({ total: 300, bodies: 100, answers: 100 });
  answers.hold({ bytes: 250, owner: "a" });
  const running = threads.take(200, () => assert.unreachable());
  assert.ok(running);
  const began: string[] = [];
  const leases: (MemoryLease | null)[] = [];
  const begin = (name: string, bytes: number): void => {
    const lease = threads.take(bytes, () => begin(name, bytes));
    if (lease) began.push(name);
    leases.push(lease);
  };
  begin("large", 260);
  begin("small", 10);
  assert.equal({ began, waiting: load().threads.waiting }, { began: [], waiting: 2 });
  running.release();
  assert.equal({ began, waiting: load().threads.waiting }, { began: ["large"], waiting: 1 });
  for (const lease of leases) lease?.release();
  assert.equal({ began, waiting: load().threads.waiting }, { began: ["large", "small"], waiting: 0 });
});

test("a pool that no longer wants its room leaves it to the next one", () => {
  const { threads } = createMemoryBudget({ total: 300, bodies: 100, answers: 100 });
  const running = threads.take(300, () => undefined);
  let isNext = false;
  threads.take(300, () => undefined);
  threads.take(300, () => void (isNext = true));
  running?.release();
  assert.ok(isNext);
});

test("takes three quarters of the memory but for the program, and a sixth of that for bodies and for answers", () => {
  const limits = { json: 32 * MB, form: 10 * MB };
  assert.equal(sizeMemoryBudget(512 * MB, limits), { total: 288 * MB, bodies: 32 * MB, answers: 32 * MB });
  assert.equal(sizeMemoryBudget(1024 * MB, limits), { total: 768 * MB, bodies: 128 * MB, answers: 128 * MB });
  assert.equal(sizeMemoryBudget(16 * MB, limits), { total: 128 * MB, bodies: 32 * MB, answers: 32 * MB });
  assert.is(sizeMemoryBudget(1 << 30, { json: 500 * MB, form: 0 }).bodies, 500 * MB);
  assert.is(sizeMemoryBudget(2 ** 40, limits).total, 2048 * MB);
});

/** A budget of a hundred bytes; `expire` ends the time of the kept heaps. */
function withHeaps() {
  const expiries: (() => void)[] = [];
  const budget = createMemoryBudget({
    total: 100,
    bodies: 60,
    answers: 60,
    timer(seconds, onExpiry) {
      assert.is(seconds, 10);
      expiries.push(onExpiry);
      return () => undefined;
    },
  });
  const expire = (): void => {
    for (const onExpiry of expiries.splice(0)) onExpiry();
  };
  return { budget, expire };
}

test("the room of an ended thread's heap is for tasks of threads alone, until V8 has returned it", async () => {
  const { budget, expire } = withHeaps();
  const body = await budget.bodies.acquire({ bytes: 5, owner: "a", signal: never });
  const answer = budget.answers.take({ bytes: 5, owner: "a" });
  budget.threads.keepHeap(80);
  assert.equal(budget.load().threads, { bytes: 0, waiting: 0, refused: 0 });
  let late: MemoryLease | null = null;
  const waiting = budget.bodies
    .acquire({ bytes: 20, owner: "b", signal: never })
    .then((lease) => (late = lease) as MemoryLease);
  assert.throws(() => budget.answers.take({ bytes: 20, owner: "b" }), /too many large answers/);
  await settle();
  assert.is(late, null);
  // It takes the pages of the ended one.
  const task = budget.threads.take(70, () => undefined);
  assert.ok(task);
  assert.throws(() => budget.answers.take({ bytes: 11, owner: "b" }), /too many large answers/);
  budget.answers.take({ bytes: 10, owner: "b" }).release();
  task.release();
  // Ten of the eighty were not used by it.
  expire();
  const lease = await waiting;
  assert.equal(budget.load().bodies, { bytes: 25, waiting: 0, refused: 0 });
  for (const one of [lease, body, answer]) one.release();
});

test("the room of several ended heaps is used once, and returned at its time", async () => {
  const { budget, expire } = withHeaps();
  const body = await budget.bodies.acquire({ bytes: 10, owner: "a", signal: never });
  for (const bytes of [40, 30]) budget.threads.keepHeap(bytes);
  const [first, second] = [50, 20].map((bytes) => budget.threads.take(bytes, () => undefined));
  assert.ok(first && second);
  assert.is(
    budget.threads.take(30, () => undefined),
    null,
  );
  expire();
  first.release();
  second.release();
  const next = await budget.bodies.acquire({ bytes: 50, owner: "b", signal: never });
  for (const one of [body, next]) one.release();
});

test.run();
