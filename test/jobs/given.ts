/** Fixtures of the job tests: a manual clock, handlers that tests end, and runners over real databases. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Timer } from "../../src/domain/time.ts";
import { createJobRunner } from "../../src/jobs/job-runner.ts";
import type { JobHandler, JobRunner } from "../../src/jobs/job-runner.ts";
import { createLogger } from "../../src/log.ts";
import { openDatabase, openMemory } from "../../src/store/db/database.ts";
import { openStore } from "../../src/store/index.ts";
import type { Store } from "../../src/store/index.ts";
import { GroupCommitWriter } from "../../src/store/db/group-commit.ts";
import type { Db } from "../../src/store/db/types.ts";

/** The initial time, in epoch seconds. */
export const T = 1_700_000_000;

type Alarm = { at: number; ring: () => void };

/** A clock that only tests advance; its timers ring in order meanwhile. */
export function clock() {
  const alarms = new Set<Alarm>();
  const time = {
    at: T,
    timer: ((seconds, ring) => {
      const alarm = { at: time.at + seconds, ring };
      alarms.add(alarm);
      return () => void alarms.delete(alarm);
    }) as Timer,
    /** Seconds until each timer rings, soonest first. */
    alarms: () => [...alarms].map(({ at }) => at - time.at).sort((a, b) => a - b),
    /** Advances the clock; each timer that rings completes its writes before the next one rings. */
    async pass(seconds: number): Promise<void> {
      const end = time.at + seconds;
      for (;;) {
        const [next] = [...alarms].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at);
        if (!next) break;
        alarms.delete(next);
        time.at = Math.max(time.at, next.at);
        next.ring();
        await turns();
      }
      time.at = end;
    },
  };
  return time;
}

/** Waits for some turns of the event loop: each write takes two or three, and a test waits for one or two writes. */
export async function turns(): Promise<void> {
  for (let n = 0; n < 12; n += 1) await new Promise((resolve) => setImmediate(resolve));
}

type Options = {
  db?: Db;
  time?: ReturnType<typeof clock>;
  parallel?: Record<string, number>;
  gather?: number;
  onCommit?: (writes: number) => void;
};

/** A runner over a store. `add` commits a job and wakes the runner, as the write path does. */
export function given(
  handlers: Record<string, JobHandler>,
  { db = openMemory(), time = clock(), parallel = {}, gather = 0, onCommit = () => undefined }: Options = {},
) {
  const store = openStore(db, { now: () => time.at, newId: () => "" });
  const lines: Record<string, unknown>[] = [];
  const logger = createLogger({
    level: "info",
    destination: { write: (line: string) => void lines.push(JSON.parse(line)) },
  });
  const writer: GroupCommitWriter = new GroupCommitWriter(db, {
    onBatch: (writes) => {
      onCommit(writes);
      if (store.jobs.takeAddedFlag()) runner.wake();
    },
  });
  const runner: JobRunner = createJobRunner({
    store,
    writer,
    logger,
    handlers,
    parallel,
    coalesceWindowS: gather,
    now: () => time.at,
    timer: time.timer,
  });
  const add = (kind: string, payload: unknown, dueAt?: number): Promise<number> =>
    writer.run(() => store.jobs.add(kind, payload, dueAt));
  return { db, store, writer, runner, time, lines, add };
}

/** A handler whose jobs end when the test says so. `begun` lists the payloads so far. */
export function gate() {
  const begun: unknown[] = [];
  const ends: (() => void)[] = [];
  return {
    begun,
    handler: ((payload) => {
      begun.push(payload);
      return new Promise((resolve) => ends.push(resolve));
    }) as JobHandler,
    /** Ends the oldest running job. */
    async end(): Promise<void> {
      ends.shift()?.();
      await turns();
    },
  };
}

/** The number of jobs in the queue. */
export const count = ({ db }: { db: Db }): unknown => db.prepare("SELECT count(*) FROM jobs").pluck().get();
/** The stored state of a job: attempts, end of the lease, due time, error; null when it was removed. */
export const stored = (store: Store, id: number) => {
  const job = store.jobs.find(id);
  return job && [job.attempts, job.leased_until, job.due_at, job.last_error];
};

/** Uses a database in a file. To the database, every call of `open` is another process. */
export async function inFile(body: (open: () => Db) => Promise<void>): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "assay-jobs-"));
  const dbs: Db[] = [];
  try {
    await body(() => {
      const db = openDatabase(directory, T);
      dbs.push(db);
      return db;
    });
  } finally {
    for (const db of dbs) db.close();
    rmSync(directory, { recursive: true, force: true });
  }
}
