/**
 * Does the jobs that committed writes ask for (store/jobs.ts): each kind by its handler, one after another in the order
 * in which they are due, kinds beside each other, so that a slow kind holds up nobody else.
 *
 * Invariants: a job is removed after its handler resolved and never before, so a job is done at least once and, when
 * the process ends in between, again: handlers must not mind. Two of one job never run at a time in one process. What
 * fails is tried again for ever, more and more rarely: a handler that gives up resolves. Handlers bound their own time.
 */
import type { Timer } from "../domain/time.ts";
import { AppError, unavailable } from "../errors.ts";
import { redact } from "../log.ts";
import type { Logger } from "../log.ts";
import type { Store } from "../store/index.ts";
import type { JobRow } from "../store/db/jobs.ts";
import type { GroupCommitWriter } from "../store/db/group-commit.ts";

/**
 * Does one job. `attempt` is 1 for the first. What it rejects with is logged and kept with the job, which is then tried
 * again. A handler that has something to write at its end, or wants the same job again, resolves with a `Settlement`.
 */
export type JobHandler = (payload: unknown, attempt: number) => Promise<void | Settlement>;

/**
 * Runs in the write that ends the job, so that what it writes and the end of the job are one. @returns epoch seconds at
 * which the job is due again, null when it is done. The handler tells the log itself what it did.
 */
export type Settlement = () => number | null;

export type RunnerOptions = {
  store: Pick<Store, "jobs">;
  writer: Pick<GroupCommitWriter, "run">;
  /** Epoch seconds. */
  now(): number;
  logger: Logger;
  /** By kind. Jobs of other kinds are left alone: a newer program may know them. */
  handlers: Readonly<Record<string, JobHandler>>;
  timer: Timer;
  /** By kind: how many of its jobs may run at a time, 1 unless said otherwise. More than one gives up their order. */
  parallel?: Readonly<Record<string, number>>;
  /**
   * Seconds that a job with a settlement waits at most for others that end too, 0 unless said otherwise: their writes
   * share one commit, during which the thread stands still, and so do the leases that they take next. Only for kinds of
   * which several run at a time: nothing else ends together.
   */
  gather?: number;
};

export type Runner = {
  /** Looks for jobs that are due. To be called at the start and after commits that added some; never throws. */
  wake(): void;
  /**
   * Resolves when that job is done, at once when it is gone already, and after `patience` seconds in any case: a job
   * that fails is tried for ever. To be called after the commit that added it. @throws AppError unavailable when the
   * runner is closed before.
   */
  settled(id: number, patience?: number): Promise<void>;
  /** Wakes, and resolves when no job runs and none is due. */
  drained(): Promise<void>;
  /** Takes no more jobs, and resolves when those that run have ended. */
  close(): Promise<void>;
};

/**
 * Seconds. The process that starts next ends all leases, so this matters only where two share a database by mistake.
 */
const LEASE = 60;
/** Seconds between two renewals: two of them may fail before the lease is over. */
const RENEWAL = 20;
/**
 * Seconds between two looks at most: the clock may have been set, and the command line adds jobs without telling
 * anybody.
 */
const LOOK = 60;
/** Seconds of rest after the queue itself could not be read or written, such as when the disk is full. */
const REST = 5;
/** Seconds between two attempts at most: soon after an outage of somebody else ended, and next to no load during it. */
const LONGEST_BACKOFF = 300;
/** Characters of an error that are kept with its job; the log has all of it. */
const ERROR_CHARACTERS = 500;

/** Seconds between a failed attempt and the next: 1, 2, 4 ... 256, 300, 300 ... */
export const backoff = (attempt: number): number => Math.min(2 ** (attempt - 1), LONGEST_BACKOFF);

type Worker = { kind: string; handler: JobHandler; busy: boolean };
type Waiter = { resolve: () => void; reject: (error: unknown) => void };

export function createRunner({
  store: { jobs },
  writer,
  now,
  logger,
  handlers,
  timer,
  parallel = {},
  gather = 0,
}: RunnerOptions): Runner {
  const workers: Worker[] = Object.entries(handlers).flatMap(([kind, handler]) =>
    Array.from({ length: parallel[kind] ?? 1 }, () => ({ kind, handler, busy: false })),
  );
  const running = new Set<JobRow>();
  const waiting = new Map<number, Waiter[]>();
  const strangers = new Set<string>();
  const idle: (() => void)[] = [];
  const gathered: (() => void)[] = [];
  let cancel = (): void => undefined;
  let restUntil = 0;
  let closed = false;

  const isDue = (kind: string, at: number): boolean => (jobs.findNextDue(kind, at) ?? Infinity) <= at;
  /** Holds the leases of which less is left than two more renewals need. */
  function renewRunning(): void {
    const at = now();
    for (const job of running) {
      if (job.leased_until - at > LEASE - RENEWAL) continue;
      job.leased_until = at + LEASE;
      jobs.renew(job, job.leased_until);
    }
  }

  function wake(): void {
    if (closed) return;
    try {
      reportStrangers();
      for (const id of waiting.keys()) tell(id);
    } catch (error) {
      trouble(error);
    }
    for (const kind of Object.keys(handlers)) start(kind);
  }

  /** Has one more worker of a kind look for jobs, if one is idle. */
  function start(kind: string): void {
    const worker = workers.find((candidate) => candidate.kind === kind && !candidate.busy);
    if (worker) void drain(worker);
  }

  /** Does jobs of one kind until none is due. Never rejects. */
  async function drain(worker: Worker): Promise<void> {
    worker.busy = true;
    try {
      // No promise between the last look and the end of `busy`: what is added meanwhile is either seen or wakes.
      while (!closed && isDue(worker.kind, now())) {
        const job = await writer.run(() => take(worker.kind));
        if (!job) continue;
        // One after the other, each for a job that may be there: not all of them for a single one.
        start(worker.kind);
        await attempt(worker.handler, job);
      }
    } catch (error) {
      trouble(error);
    }
    worker.busy = false;
    sleep();
    if (workers.every(({ busy }) => !busy)) for (const done of idle.splice(0)) done();
  }

  function take(kind: string): JobRow | null {
    if (closed) return null;
    // A lease that ran out while its job still runs here, because the machine was asleep, is none that another worker
    // may take.
    renewRunning();
    return jobs.lease(kind, { at: now(), seconds: LEASE, limit: 1 })[0] ?? null;
  }

  async function attempt(handler: JobHandler, job: JobRow): Promise<void> {
    const started = now();
    const stop = keepRenewing();
    let failure: { error: unknown } | null = null;
    let settle: void | Settlement = undefined;
    running.add(job);
    try {
      settle = await handler(JSON.parse(job.payload_json), job.attempts);
    } catch (error) {
      failure = { error };
    }
    running.delete(job);
    stop();
    const ended = now();
    const fields = {
      job_id: job.id,
      kind: job.kind,
      attempts: job.attempts,
      duration_ms: Math.round((ended - started) * 10_000) / 10,
    };
    if (!failure) {
      if (settle && (parallel[job.kind] ?? 1) > 1) await others();
      const again = await writer.run(() => end(job, settle));
      if (settle)
        logger.debug({ ...fields, outcome: again === null ? "done" : "again", next_attempt_at: again }, "job");
      else logger.info({ ...fields, outcome: "done" }, "job");
      tell(job.id);
      return;
    }
    const dueAt = ended + backoff(job.attempts);
    const { error } = failure;
    await writer.run(() => jobs.fail(job, textOf(error), dueAt));
    logger.warn({ ...fields, outcome: "failed", next_attempt_at: dueAt, err: error }, "job");
  }

  /** Resolves for all that wait in the same turn. */
  function others(): Promise<void> {
    if (gather === 0 || closed) return Promise.resolve();
    return new Promise((resolve) => {
      if (gathered.push(resolve) === 1) timer(gather, goOn);
    });
  }

  function goOn(): void {
    for (const resolve of gathered.splice(0)) resolve();
  }

  function end(job: JobRow, settle: void | Settlement): number | null {
    const again = settle ? settle() : null;
    if (again === null) jobs.complete(job.id);
    else jobs.reschedule(job, again);
    return again;
  }

  function keepRenewing(): () => void {
    const again = (): (() => void) =>
      timer(RENEWAL, () => {
        writer.run(renewRunning).catch(trouble);
        stop = again();
      });
    let stop = again();
    return () => stop();
  }

  /** Sets the timer for the next time at which a worker without work could have some. */
  function sleep(): void {
    cancel();
    if (closed) return;
    const at = now();
    let next = at + LOOK;
    try {
      const kinds = new Set(workers.filter(({ busy }) => !busy).map(({ kind }) => kind));
      for (const kind of kinds) next = Math.min(next, jobs.findNextDue(kind, at) ?? Infinity);
    } catch (error) {
      trouble(error);
    }
    cancel = timer(Math.min(Math.max(next, restUntil, at) - at, LOOK), wake);
  }

  function trouble(error: unknown): void {
    restUntil = now() + REST;
    // Who refuses all writes for want of room says so by itself, once.
    if (error instanceof AppError && error.code === "no_space") return;
    logger.error({ err: error }, "the queue of jobs could not be read or written");
  }

  function reportStrangers(): void {
    for (const kind of jobs.listKinds()) {
      if (Object.hasOwn(handlers, kind) || strangers.has(kind)) continue;
      strangers.add(kind);
      logger.warn({ kind }, "jobs of this kind are left alone: this program does not know it");
    }
  }

  /** Tells who waits for a job if it is gone. */
  function tell(id: number): void {
    const waiters = waiting.get(id);
    if (!waiters || jobs.find(id)) return;
    waiting.delete(id);
    for (const { resolve } of waiters) resolve();
  }

  return {
    wake,
    settled(id, patience) {
      return new Promise((resolve, reject) => {
        if (!jobs.find(id)) return resolve();
        if (closed) return reject(stopping());
        const cancelWaiting = patience === undefined ? () => undefined : timer(patience, resolve);
        const waiter: Waiter = {
          resolve: () => (cancelWaiting(), resolve()),
          reject: (error) => (cancelWaiting(), reject(error)),
        };
        waiting.set(id, [...(waiting.get(id) ?? []), waiter]);
      });
    },
    drained() {
      wake();
      return ended();
    },
    async close() {
      closed = true;
      cancel();
      goOn();
      await ended();
      for (const { reject } of [...waiting.values()].flat()) reject(stopping());
      waiting.clear();
    },
  };

  function ended(): Promise<void> {
    if (workers.every(({ busy }) => !busy)) return Promise.resolve();
    return new Promise((resolve) => idle.push(resolve));
  }
}

const stopping = () => unavailable("The server is stopping. Please try again", 5);

/** What is kept of an error: it may have been made by a server of somebody else, so it is as careful as a log line. */
const textOf = (error: unknown): string =>
  String(redact(error instanceof Error ? error.message : String(error))).slice(0, ERROR_CHARACTERS);
