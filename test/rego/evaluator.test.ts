/** The queue of evaluations, with an engine that ends when the test says so. */
import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { readOnly } from "../../src/errors.ts";
import { createLogger } from "../../src/log.ts";
import { packBundle } from "../../src/rego/bundle-archive.ts";
import { createEvaluator } from "../../src/rego/evaluator.ts";
import type { RegoOutcome, RegoQuestion, RegoVerdict, CallBounds } from "../../src/rego/types.ts";
import { openMemory } from "../../src/store/db/database.ts";
import { openStore } from "../../src/store/index.ts";

const test = suite("rego/evaluator");
const INPUT = Buffer.from('{"trails":[]}');
const sha256 = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");

type Call = {
  seed: string;
  question: RegoQuestion;
  bounds: CallBounds;
  end(outcome: RegoOutcome<RegoVerdict>): void;
  reject(error: Error): void;
};
const ALLOWED: RegoOutcome<RegoVerdict> = {
  ok: true,
  value: { allow: true, violations: [], outputs: "{}" },
  durationMs: 5,
};

/** All that waits for a promise that has settled. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function world({ threads = 2 } = {}) {
  const time = { now: 1_700_000_000, ms: 0 };
  let ids = 0;
  const db = openMemory();
  const sources = { now: () => time.now, newId: () => `id-${(ids += 1)}` };
  const store = openStore(db, sources);
  const bundle = await packBundle({ "p.rego": "package p\n" });
  const packed = gzipSync(INPUT);
  for (const content of [bundle, packed])
    store.regoDocuments.insert({ digest: sha256(content), size: content.length, content });
  const organizations = ["one", "two", "three"].map((name) =>
    store.organizations.create({ name, kind: "shared", isPublic: false, controlsEnabled: true }),
  );
  const calls: Call[] = [];
  const timers = new Map<() => void, number>();
  const state = { writeError: null as Error | null, lines: [] as string[] };
  const open = () =>
    createEvaluator({
      store,
      threads,
      timeMs: 20_000,
      writer: {
        run: async (work) => {
          if (state.writeError) throw state.writeError;
          return db.transaction(work)();
        },
      },
      documents: { read: async (digest) => (digest === sha256(packed) ? packed : bundle) },
      engine: {
        evaluate: (_files, question, bounds = {}) =>
          new Promise((resolve, reject) => calls.push({ seed: question.seed, question, bounds, end: resolve, reject })),
      },
      now: () => time.now,
      clock: () => time.ms,
      timer(seconds, onExpiry) {
        timers.set(onExpiry, time.ms + seconds * 1_000);
        return () => void timers.delete(onExpiry);
      },
      logger: createLogger({ level: "info", destination: { write: (line) => void state.lines.push(line) } }),
      recordDecision() {
        throw new Error("no decision was asked for");
      },
    });
  const evaluator = open();
  /** Waits until the engine has had so many calls. */
  async function called(count: number): Promise<void> {
    while (calls.length < count) await turn();
  }
  /** Lets time pass: timers that are due ring. */
  async function pass(seconds: number): Promise<void> {
    time.ms += seconds * 1_000;
    time.now += seconds;
    for (const [onExpiry, at] of [...timers]) if (at <= time.ms && timers.delete(onExpiry)) onExpiry();
    await turn();
  }
  /** Records a request of a caller, and queues it. @returns its public id */
  function request(caller: string, { organization = 0, queue = evaluator as typeof evaluator | null } = {}): string {
    const row = store.regoEvaluations.create(
      {
        organization_id: organizations[organization] as number,
        requested_at: time.now,
        caller,
        requested_by: caller,
        actor_json: "{}",
        request_digest: "0",
        rego_policy_version_id: null,
        bundle_digest: sha256(bundle),
        bundle_sha256: "0".repeat(64),
        input_digest: sha256(packed),
        input_sha256: sha256(INPUT),
        input_bytes: INPUT.length,
        params_json: '{"a":1.0}',
        trails_json: "[]",
        attestation_ids_json: "[]",
        decision: null,
        trailIds: [],
      },
      null,
    );
    const { id, organization_id: organizationId } = row;
    queue?.submit({ id, organizationId, caller, hasDecision: 0 });
    return row.public_id;
  }
  const read = (publicId: string) => {
    const id = db.prepare("SELECT id FROM rego_evaluations WHERE public_id = ?").pluck().get(publicId) as number;
    return store.regoEvaluations.get(id);
  };
  return { store, evaluator, open, called, calls, organizations, pass, request, read, state, time, timers };
}

test("runs two at a time, one of a caller, with what was stored", async () => {
  const { evaluator, called, calls, request, read } = await world();
  const ids = [request("a"), request("a"), request("b"), request("c")];
  await called(2);
  // Both read what was stored at the same time, so either may reach the engine first.
  assert.equal(calls.map(({ seed }) => seed).sort(), [ids[0], ids[2]].sort());
  const callOf = (id: string | undefined): Call => calls.find(({ seed }) => seed === id) as Call;
  const { question, bounds } = callOf(ids[0]);
  assert.equal(question, {
    input: { packed: gzipSync(INPUT), bytes: INPUT.length },
    params: '{"a":1.0}',
    timeNs: 1_700_000_000_000_000_000n,
    seed: ids[0],
  });
  assert.equal(bounds, { lane: "a", timeMs: 20_000, overallMs: 24_000 });
  callOf(ids[0]).end(ALLOWED);
  await called(3);
  assert.equal([read(ids[0] as string).status, read(ids[0] as string).allow], ["completed", 1]);
  assert.is(calls[2]?.seed, ids[3], "the other caller before the second one of the first");
  for (const id of [ids[2], ids[3]]) callOf(id).end(ALLOWED);
  await called(4);
  callOf(ids[1]).end(ALLOWED);
  await evaluator.whenIdle();
  assert.equal(
    ids.map((id) => read(id).status),
    ["completed", "completed", "completed", "completed"],
  );
});

test("what cannot begin in time fails, and what began late gets the rest of the time", async () => {
  const { called, calls, request, read, pass } = await world();
  const first = request("a");
  const second = request("a");
  const third = request("a");
  await called(1);
  await pass(20);
  (calls[0] as Call).end(ALLOWED);
  await called(2);
  assert.equal((calls[1] as Call).bounds, { lane: "a", timeMs: 4_000, overallMs: 4_000 });
  await pass(4);
  await turn();
  const row = read(third);
  assert.equal(
    [row.status, row.error_kind, row.error_message, row.engine, row.duration_ms, row.recorded_at - row.requested_at],
    ["failed", "evaluate", "The evaluation waited too long: it could not begin within 24 seconds", null, null, 24],
  );
  assert.equal([read(first).status, read(second).status], ["completed", "pending"]);
});

test("a caller has 16 that wait, an organization 64, and all together 256", async () => {
  const { evaluator, request, organizations } = await world();
  const [one, two, three] = organizations as [number, number, number];
  for (let n = 0; n < 17; n += 1) {
    assert.ok(evaluator.hasRoom(one, "a"), String(n));
    request("a");
    await turn();
  }
  assert.not(evaluator.hasRoom(one, "a"), "one runs, and 16 wait");
  assert.not(evaluator.hasRoom(two, "a"), "in no organization");
  assert.ok(evaluator.hasRoom(one, "b"));
  request("b");
  await turn();
  for (let n = 0; n < 48; n += 1) {
    assert.ok(evaluator.hasRoom(one, `c${n}`), String(n));
    request(`c${n}`);
  }
  assert.not(evaluator.hasRoom(one, "d"));
  assert.ok(evaluator.hasRoom(two, "d"));
  for (let n = 0; n < 64; n += 1) request(`e${n}`, { organization: 1 });
  assert.not(evaluator.hasRoom(two, "d"));
  assert.ok(evaluator.hasRoom(three, "d"));
});

test("an end that cannot be written is written later, and is not evaluated again", async () => {
  const { evaluator, called, calls, request, read, pass, state } = await world();
  const id = request("a");
  await called(1);
  state.writeError = readOnly("the disk is full");
  (calls[0] as Call).end(ALLOWED);
  await turn();
  await turn();
  assert.is(read(id).status, "pending");
  assert.equal(state.lines, [], "the reason was logged by what refuses");
  await pass(5);
  assert.is(read(id).status, "pending");
  state.writeError = null;
  await pass(5);
  await evaluator.whenIdle();
  assert.is(read(id).status, "completed");
  assert.is(calls.length, 1);
});

test("an engine that cannot run fails the evaluation, and the log has the reason", async () => {
  const { evaluator, called, calls, request, read, state } = await world();
  const id = request("a");
  await called(1);
  (calls[0] as Call).reject(new Error("the module is damaged"));
  await evaluator.whenIdle();
  assert.equal(
    [read(id).error_kind, read(id).error_message],
    ["evaluate", "The engine of the server failed; its log has the reason"],
  );
  assert.match(state.lines.join(""), /the module is damaged/);
});

test("a process that starts continues what another one left, with the whole time", async () => {
  const { evaluator, open, called, calls, request, read, pass } = await world();
  const [running, waiting] = [request("a"), request("a")];
  await called(1);
  await pass(10);
  evaluator.close();
  (calls[0] as Call).reject(new Error("closed"));
  await evaluator.whenIdle();
  assert.equal([read(running).status, read(waiting).status], ["pending", "pending"]);
  await pass(3_600);
  const next = open();
  next.start();
  await called(2);
  assert.equal([calls[1]?.seed, calls[1]?.bounds.overallMs], [running, 24_000]);
  assert.equal(calls[1]?.question.timeNs, calls[0]?.question.timeNs, "the time of the request");
  (calls[1] as Call).end(ALLOWED);
  await called(3);
  (calls[2] as Call).end({ ok: false, error: { kind: "result_shape", message: "none" }, durationMs: 1 });
  await next.whenIdle();
  assert.equal([read(running).status, read(waiting).status], ["completed", "failed"]);
});

test("reads wait for the end, ten of a caller, and a while at most", async () => {
  const { evaluator, store, called, calls, request, read, pass } = await world();
  const { id } = read(request("a"));
  await called(1);
  const ended: string[] = [];
  const wait = (caller: string, name: string): void =>
    void evaluator.waitFor(id, { caller, seconds: 5 }).then(() => ended.push(name));
  for (let n = 0; n < 10; n += 1) wait("a", `a${n}`);
  wait("a", "eleventh");
  wait("b", "b");
  await turn();
  assert.equal(ended, ["eleventh"]);
  await pass(5);
  assert.is(ended.length, 12, "after five seconds all are answered");
  wait("a", "again");
  await turn();
  assert.is(ended.length, 12);
  (calls[0] as Call).end(ALLOWED);
  await turn();
  await turn();
  assert.is(ended.at(-1), "again");
  assert.is(store.regoEvaluations.get(id).status, "completed");
  wait("a", "late");
  await turn();
  assert.is(ended.at(-1), "late", "at once when it has ended");
});

test.run();
