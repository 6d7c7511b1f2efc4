import { suite } from "uvu";
import * as assert from "uvu/assert";
import { badRequest } from "../../../src/errors.ts";
import type { JobRow } from "../../../src/store/db/jobs.ts";
import { GroupCommitWriter } from "../../../src/store/db/group-commit.ts";
import { opened, plan } from "../given.ts";

const test = suite("store/db/jobs");

const T = 2_000_000_000;
const ids = (rows: readonly JobRow[]): number[] => rows.map(({ id }) => id);

test("an added job is due at once unless it says otherwise, and not leased", () => {
  const { store, clock } = opened();
  const id = store.jobs.add("mail", { to: "ann", times: [1, null] });
  const at = clock.at;
  const job = {
    id,
    kind: "mail",
    payload_json: '{"to":"ann","times":[1,null]}',
    created_at: at,
    due_at: at,
    leased_until: 0,
    attempts: 0,
    last_error: null,
  };
  assert.equal(store.jobs.find(id), job);
  const later = store.jobs.add("mail", null, T);
  assert.equal(store.jobs.find(later), { ...job, id: later, payload_json: "null", created_at: at + 1, due_at: T });
  assert.is(store.jobs.find(later + 1), null);
});

test("leases due jobs only, oldest due first, equals in the order of adding", () => {
  const { store } = opened();
  const [b, c, a] = [store.jobs.add("k", 1, T - 1), store.jobs.add("k", 2, T - 1), store.jobs.add("k", 3, T - 5)];
  store.jobs.add("other", 4, T - 9);
  const future = store.jobs.add("k", 5, T + 0.5);
  const leased = store.jobs.lease("k", { at: T, seconds: 60, limit: 2 });
  assert.equal(ids(leased), [a, b]);
  assert.equal(leased[0], store.jobs.find(a as number), "as it is stored now");
  assert.equal(
    { leased_until: leased[0]?.leased_until, attempts: leased[0]?.attempts },
    { leased_until: T + 60, attempts: 1 },
  );
  assert.equal(ids(store.jobs.lease("k", { at: T, seconds: 60, limit: 9 })), [c]);
  assert.equal(store.jobs.lease("k", { at: T, seconds: 60, limit: 9 }), []);
  assert.equal(ids(store.jobs.lease("k", { at: T + 0.5, seconds: 60, limit: 9 })), [future]);
});

test("an expired lease is given again, and counts as another attempt", () => {
  const { store } = opened();
  const id = store.jobs.add("k", 1, T);
  store.jobs.lease("k", { at: T, seconds: 60, limit: 1 });
  assert.equal(store.jobs.lease("k", { at: T + 59.9, seconds: 60, limit: 1 }), []);
  const [again] = store.jobs.lease("k", { at: T + 60, seconds: 60, limit: 1 });
  assert.equal(
    { id: again?.id, attempts: again?.attempts, leased_until: again?.leased_until },
    { id, attempts: 2, leased_until: T + 120 },
  );
});

test("only the holder renews a lease", () => {
  const { store } = opened();
  store.jobs.add("k", 1, T);
  const [first] = store.jobs.lease("k", { at: T, seconds: 60, limit: 1 }) as [JobRow];
  assert.is(store.jobs.renew(first, T + 100), true);
  assert.equal(store.jobs.lease("k", { at: T + 99, seconds: 60, limit: 1 }), []);
  const [second] = store.jobs.lease("k", { at: T + 100, seconds: 60, limit: 1 }) as [JobRow];
  assert.is(store.jobs.renew(first, T + 900), false);
  assert.is(store.jobs.find(second.id)?.leased_until, T + 160);
  store.jobs.complete(second.id);
  assert.is(store.jobs.renew(second, T + 900), false);
});

test("a completed job is gone", () => {
  const { store } = opened();
  const [id, kept] = [store.jobs.add("k", 1, T), store.jobs.add("k", 2, T)];
  store.jobs.lease("k", { at: T, seconds: 60, limit: 1 });
  store.jobs.complete(id);
  store.jobs.complete(id);
  assert.is(store.jobs.find(id), null);
  assert.equal(ids(store.jobs.lease("k", { at: T, seconds: 60, limit: 9 })), [kept]);
});

test("a failed job is due again later, with its error; the holder of a lost lease changes nothing", () => {
  const { store } = opened();
  const id = store.jobs.add("k", 1, T);
  const [first] = store.jobs.lease("k", { at: T, seconds: 60, limit: 1 }) as [JobRow];
  store.jobs.fail(first, "no answer", T + 4);
  assert.equal(store.jobs.find(id), { ...first, due_at: T + 4, leased_until: 0, last_error: "no answer" });
  assert.equal(store.jobs.lease("k", { at: T + 3.9, seconds: 60, limit: 1 }), []);
  const [second] = store.jobs.lease("k", { at: T + 4, seconds: 60, limit: 1 }) as [JobRow];
  assert.equal({ attempts: second.attempts, last_error: second.last_error }, { attempts: 2, last_error: "no answer" });
  store.jobs.fail(first, "too late", T + 5);
  assert.equal(store.jobs.find(id), second);
});

test("the next due time is that of the first job that can be leased", () => {
  const { store } = opened();
  const next = (at: number) => store.jobs.findNextDue("k", at);
  store.jobs.add("other", 1, T - 9);
  assert.is(next(T), null);
  store.jobs.add("k", 1, T + 90);
  assert.is(next(T), T + 90);
  store.jobs.add("k", 2, T + 20);
  assert.is(next(T), T + 20);
  const due = store.jobs.add("k", 3, T - 3);
  assert.is(next(T), T - 3);
  store.jobs.lease("k", { at: T, seconds: 60, limit: 1 });
  assert.is(next(T), T + 20, "before the end of the lease");
  store.jobs.lease("k", { at: T + 20, seconds: 60, limit: 1 });
  assert.is(next(T + 20), T + 60, "the lease that ends first");
  store.jobs.complete(due);
  assert.is(next(T + 20), T + 80);
  assert.is(next(T + 80), T + 20, "its lease is over");
});

test("ends all leases at once", () => {
  const { store } = opened();
  const all = [1, 2, 3].map((n) => store.jobs.add("k", n, T + n));
  store.jobs.lease("k", { at: T + 2, seconds: 60, limit: 9 });
  assert.is(store.jobs.releaseAllLeases(), 2);
  assert.is(store.jobs.releaseAllLeases(), 0);
  const leased = store.jobs.lease("k", { at: T + 3, seconds: 60, limit: 9 });
  assert.equal(ids(leased), all);
  assert.equal(
    leased.map(({ attempts }) => attempts),
    [2, 2, 1],
    "an attempt that was interrupted counts",
  );
});

test("never reuses an id, and lists the kinds of waiting jobs", () => {
  const { store } = opened();
  assert.equal(store.jobs.listKinds(), []);
  const first = store.jobs.add("mail", 1);
  store.jobs.complete(first);
  const second = store.jobs.add("mail", 2);
  assert.ok(second > first);
  for (const kind of ["mail", "audit", "mail", "zebra"]) store.jobs.add(kind, 1);
  assert.equal(store.jobs.listKinds(), ["audit", "mail", "zebra"]);
});

test("pulls jobs of every kind that are due from a given time forward", () => {
  const {
    db,
    store: { jobs },
  } = opened();
  const due = [
    jobs.add("mail", 1, T + 99),
    jobs.add("mail", 2, T + 100),
    jobs.add("audit", 3, T + 500),
    jobs.add("audit", 4, T),
  ];
  jobs.takeAddedFlag();
  jobs.pullForward(T + 100, T + 5);
  assert.equal(
    due.map((id) => jobs.find(id)?.due_at),
    [T + 99, T + 5, T + 5, T],
  );
  assert.is(jobs.takeAddedFlag(), true, "the runner is woken");
  const before = db.prepare("SELECT total_changes() AS n").pluck().get();
  jobs.pullForward(T + 100, T + 5);
  assert.equal(
    { get: db.prepare("SELECT total_changes() AS n").pluck().get(), wereAdded: jobs.takeAddedFlag() },
    { get: before, wereAdded: false },
  );
});

test("a rolled-back write adds no job", async () => {
  const { db, store } = opened();
  const writer = new GroupCommitWriter(db);
  assert.is(store.jobs.takeAddedFlag(), false);
  const outcomes = await Promise.allSettled([
    writer.run(() => {
      store.jobs.add("k", "refused");
      throw badRequest("no");
    }),
    writer.run(() => store.jobs.add("k", "kept")),
  ]);
  assert.equal(
    outcomes.map(({ status }) => status),
    ["rejected", "fulfilled"],
  );
  assert.is(store.jobs.takeAddedFlag(), true);
  assert.is(store.jobs.takeAddedFlag(), false);
  assert.equal(
    store.jobs.lease("k", { at: T, seconds: 60, limit: 9 }).map(({ payload_json }) => payload_json),
    ['"kept"'],
  );
});

test("an index serves every statement, without sorting", () => {
  const { db, sql } = opened();
  const statements = sql.filter((text) => /\b(FROM|INTO|UPDATE) jobs\b/.test(text) && !text.startsWith("INSERT"));
  assert.is(statements.length, 16);
  const steps = statements.flatMap((text) => plan(db, text).map((step) => `${step} <- ${text}`));
  assert.equal(
    steps.filter((step) => /SCAN|TEMP B-TREE/.test(step)).map((step) => step.replace(/^.*<- /, "")),
    [
      // Runs once at each start.
      "UPDATE jobs SET leased_until = 0 WHERE leased_until > 0",
      // The metrics count all rows.
      "SELECT kind, count(*) AS count, min(due_at) AS due_at FROM jobs GROUP BY kind",
      "SELECT count(last_error) FROM jobs",
    ],
  );
  assert.is(steps.filter((step) => /^SEARCH jobs USING (COVERING )?INDEX jobs_by_due/.test(step)).length, 5);
});

test.run();
