/** How long a read of a pending evaluation is held (newer-clients 4.3), by a clock that the test moves. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../../given.ts";
import type { Answer } from "../../given.ts";
import { until } from "../../patience.ts";
import { ENDLESS, regoClient } from "./rego-given.ts";
import type { Json } from "./rego-given.ts";

const test = suite("api/policies/rego-held-reads");

/** A clock in milliseconds, and the timers that wait for it. */
function createTimers() {
  let at = 0;
  let started = 0;
  const waiting = new Map<() => void, number>();
  return {
    timer(seconds: number, onExpiry: () => void): () => void {
      waiting.set(onExpiry, at + seconds * 1_000);
      started += 1;
      return () => void waiting.delete(onExpiry);
    },
    /** Moves the clock, and rings what is due. @returns how many rang */
    passTo(ms: number): number {
      at = ms;
      const due = [...waiting].filter(([, dueAt]) => dueAt <= ms);
      for (const [onExpiry] of due) if (waiting.delete(onExpiry)) onExpiry();
      return due.length;
    },
    count: (): number => waiting.size,
    /** How many were ever started. */
    countStarted: (): number => started,
  };
}

/** An evaluation that runs, and one that is queued behind it: each caller has one at a time. */
async function givenPending() {
  const timers = createTimers();
  const server = await startServer({ regoTimer: timers.timer });
  const rego = regoClient(server);
  const at = await rego.world();
  async function request(number: number): Promise<string> {
    const policy = { files: { "p.rego": ENDLESS } };
    const { body } = await rego.evaluate(at, { context: { trails: at.trails }, policy, params: { number } });
    return body.id;
  }
  const ids = [await request(1), await request(2)];
  const path = (id: string): string => `/${id}`;
  return {
    timers,
    /** Sends a read of each. Resolves once both are held, each by a timer. */
    async hold(): Promise<{ answers: Json[]; all: Promise<unknown> }> {
      const before = timers.count();
      const answers: Json[] = [];
      const keep = ({ body }: Answer): void => void answers.push(body);
      const reads = ids.map((id) => rego.evaluations(at, path(id)).then(keep));
      await until("both reads are held", () => timers.count() === before + ids.length);
      return { answers, all: Promise.allSettled(reads) };
    },
    read: async (index: number): Promise<Json> => (await rego.evaluations(at, path(ids[index] as string))).body,
    /** A whole request and its answer. */
    passRequest: (): Promise<Answer> => rego.policies(at),
    stop: server.stop,
  };
}

test("a read of a running and of a queued evaluation is held for 5,000 ms, and not for less", async () => {
  const { timers, hold, passRequest, stop } = await givenPending();
  try {
    const { answers, all } = await hold();
    assert.is(timers.passTo(4_999), 0);
    await passRequest();
    assert.equal(answers, []);
    assert.is(timers.passTo(5_000), 2);
    await all;
    assert.equal(
      answers.map(({ status }) => status),
      ["pending", "pending"],
    );
  } finally {
    await stop();
  }
});

test("a held read is answered when its evaluation ends, however much of the time is left", async () => {
  const { timers, hold, stop } = await givenPending();
  try {
    // The one in the queue ends when it can no longer begin: 24 seconds after its request.
    assert.is(timers.passTo(23_000), 0);
    const { answers, all } = await hold();
    assert.is(timers.passTo(24_000), 1);
    await until("one read is answered", () => answers.length === 1);
    assert.equal(answers[0]?.["status"], "failed");
    assert.match(answers[0]?.["error"].message, /waited too long/);
    assert.is(timers.count(), 1, "only the read of the running evaluation is held");
    assert.is(timers.passTo(28_000), 1);
    await all;
    assert.is(answers[1]?.["status"], "pending");
  } finally {
    await stop();
  }
});

test("a read of an evaluation that has ended is not held", async () => {
  const { timers, read, stop } = await givenPending();
  try {
    timers.passTo(24_000);
    await until("the queued one ends", async () => (await read(1))["status"] === "failed");
    const started = timers.countStarted();
    await read(1);
    assert.is(timers.countStarted(), started);
  } finally {
    await stop();
  }
});

test.run();
