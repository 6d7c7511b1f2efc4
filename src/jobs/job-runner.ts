/**
 * Runs the jobs that committed writes ask for (store/db/jobs.ts). Jobs of one kind run one after another in the order
 * in which they are due; kinds run in parallel, so a slow kind does not delay the others.
 *
 * Invariants: a job is removed after its handler resolved and never before, so it runs at least once, and again when
 * the process ends in between: handlers must be idempotent. One job never runs twice at a time in one process. A failed
 * job is retried forever with growing backoff; a handler that gives up resolves. Handlers bound their own time.
 */
import type { Timer } from "../domain/time.ts";
import { type AppError, unavailable } from "../errors.ts";
import { redact } from "../log.ts";
import type { Logger } from "../log.ts";
import { isLoggedRefusal } from "../store/db/group-commit.ts";
import type { GroupCommitWriter } from "../store/db/group-commit.ts";
import type { JobRow } from "../store/db/jobs.ts";
import type { Store } from "../store/index.ts";

/**
 * Runs one job; `attempt` is 1 at first. An error is logged and stored with the job, which is then retried. A handler
 * that has something to write at its end, or wants the job to run again, resolves with a `Settlement`.
 */
export type JobHandler = (payload: unknown, attempt: number) => Promise<void | Settlement>;

/**
 * Runs in the write that ends the job, so that what it writes and the end of the job are atomic. The handler logs its
 * own result.
 * @returns epoch seconds at which the job is due again; null when it is done
 */
export type Settlement = () => number | null;

type JobRunnerOptions = {
  store: Pick<Store, "jobs">;
  writer: Pick<GroupCommitWriter, "run">;
  /** Epoch seconds. */
  now(): number;
  logger: Logger;
  /** By kind. Jobs of other kinds are left alone: a newer program may know them. */
  handlers: Readonly<Record<string, JobHandler>>;
  timer: Timer;
  /** How many jobs of a kind may run at a time; 1 unless given. More than one gives up their order. */
  parallel?: Readonly<Record<string, number>>;
  /**
   * How long a job with a settlement waits for others to end, 0 unless given. Their writes and the leases that follow
   * share one commit, during which the thread is blocked. Applies only to kinds that run several jobs at a time: of all
   * others no two end together.
   */
  coalesceWindowS?: number;
};

export type JobRunner = {
  /** Looks for due jobs. Call it at the start and after commits that added jobs. Never throws. */
  wake(): void;
  /**
   * Resolves when a job is done, at once when it no longer exists, and after `timeoutS` in any case: a job that fails
   * is retried forever. Call it after the commit that added the job.
   * @throws AppError unavailable when the runner is closed first
   */
  waitFor(id: number, timeoutS?: number): Promise<void>;
  /** Wakes the runner, and resolves when no job runs and none is due. */
  whenIdle(): Promise<void>;
  /** Takes no more jobs, and resolves when running ones have ended. */
  close(): Promise<void>;
};

/** The next process ends all leases, so this matters only where two share a database by mistake. */
const LEASE_S = 60;
/** Two renewals may fail before the lease expires. */
const LEASE_RENEWAL_S = 20;
/** The longest pause between two polls: the clock may have been set, and the command line adds jobs unannounced. */
const POLL_INTERVAL_S = 60;
/** Pause after the queue itself could not be read or written, as on a full disk. */
const ERROR_BACKOFF_S = 5;
/** The longest pause between two attempts: soon after another system's outage ends, and hardly any load during it. */
const MAX_BACKOFF_S = 300;
/** Characters of an error that are stored with its job; the log has all of it. */
const MAX_ERROR_CHARS = 500;

/** Seconds from a failed attempt to the next: 1, 2, 4 ... 256, 300, 300 ... */
export const backoffSeconds = (attempt: number): number => Math.min(2 ** (attempt - 1), MAX_BACKOFF_S);

type Worker = { kind: string; handler: JobHandler; isBusy: boolean };

export function createJobRunner(options: JobRunnerOptions): JobRunner {
  const { store, writer, now, logger, handlers, timer, parallel = {}, coalesceWindowS = 0 } = options;
  const { jobs } = store;
  const workers: Worker[] = Object.entries(handlers).flatMap(([kind, handler]) =>
    Array.from({ length: parallel[kind] ?? 1 }, () => ({ kind, handler, isBusy: false })),
  );
  const waiters = createWaiters(jobs, timer);
  const coalescer = createCoalescer(timer, coalesceWindowS);
  const leases = createLeases({ jobs, writer, now, timer, onError: logQueueError });
  const reportedKinds = new Set<string>();
  const idleListeners: (() => void)[] = [];
  let cancelTimer = (): void => undefined;
  let pausedUntil = 0;
  let isClosed = false;

  const isDue = (kind: string, at: number): boolean => (jobs.findNextDue(kind, at) ?? Infinity) <= at;
  const isIdle = (): boolean => workers.every(({ isBusy }) => !isBusy);

  function wake(): void {
    if (isClosed) return;
    try {
      reportUnknownKinds();
      waiters.notifyDone();
    } catch (error) {
      logQueueError(error);
    }
    for (const kind of Object.keys(handlers)) startWorker(kind);
  }

  /** Starts one more worker of a kind, if one is idle. */
  function startWorker(kind: string): void {
    const worker = workers.find((candidate) => candidate.kind === kind && !candidate.isBusy);
    if (worker) void drain(worker);
  }

  /** Runs jobs of one kind until none is due. Never rejects. */
  async function drain(worker: Worker): Promise<void> {
    worker.isBusy = true;
    try {
      // There is no await between the last check and the reset of `isBusy`: a job added meanwhile is either seen here
      // or wakes the runner.
      while (!isClosed && isDue(worker.kind, now())) {
        const job = await writer.run(() => lease(worker.kind));
        if (!job) continue;
        // Starts one more worker for the next job that may be due, rather than all of them for a single job.
        startWorker(worker.kind);
        await attempt(worker.handler, job);
      }
    } catch (error) {
      logQueueError(error);
    }
    worker.isBusy = false;
    scheduleWake();
    if (isIdle()) for (const resolve of idleListeners.splice(0)) resolve();
  }

  function lease(kind: string): JobRow | null {
    if (isClosed) return null;
    // The lease of a job that still runs here may have expired while the machine was asleep. No other worker may take
    // that job, so it is renewed first.
    leases.renew();
    return jobs.lease(kind, { at: now(), seconds: LEASE_S, limit: 1 })[0] ?? null;
  }

  async function attempt(handler: JobHandler, job: JobRow): Promise<void> {
    const startedAt = now();
    const result = await leases.hold(job, () => handler(JSON.parse(job.payload_json), job.attempts));
    const endedAt = now();
    const durationMs = Math.round((endedAt - startedAt) * 10_000) / 10;
    const fields = { job_id: job.id, kind: job.kind, attempts: job.attempts, duration_ms: durationMs };
    if ("error" in result) {
      const dueAt = endedAt + backoffSeconds(job.attempts);
      await writer.run(() => jobs.fail(job, errorText(result.error), dueAt));
      logger.warn({ ...fields, outcome: "failed", next_attempt_at: dueAt, err: result.error }, "job");
      return;
    }
    const { settlement } = result;
    if (settlement && (parallel[job.kind] ?? 1) > 1 && !isClosed) await coalescer.wait();
    const dueAt = await writer.run(() => settle(job, settlement));
    if (settlement)
      logger.debug({ ...fields, outcome: dueAt === null ? "done" : "again", next_attempt_at: dueAt }, "job");
    else logger.info({ ...fields, outcome: "done" }, "job");
    waiters.notifyDone(job.id);
  }

  function settle(job: JobRow, settlement: void | Settlement): number | null {
    const dueAt = settlement ? settlement() : null;
    if (dueAt === null) jobs.complete(job.id);
    else jobs.reschedule(job, dueAt);
    return dueAt;
  }

  /** Sets the timer for the next time at which an idle worker could have something to do. */
  function scheduleWake(): void {
    cancelTimer();
    if (isClosed) return;
    const at = now();
    let next = at + POLL_INTERVAL_S;
    try {
      const idleKinds = new Set(workers.filter(({ isBusy }) => !isBusy).map(({ kind }) => kind));
      for (const kind of idleKinds) next = Math.min(next, jobs.findNextDue(kind, at) ?? Infinity);
    } catch (error) {
      logQueueError(error);
    }
    cancelTimer = timer(Math.min(Math.max(next, pausedUntil, at) - at, POLL_INTERVAL_S), wake);
  }

  function logQueueError(error: unknown): void {
    pausedUntil = now() + ERROR_BACKOFF_S;
    if (isLoggedRefusal(error)) return;
    logger.error(
      { err: error },
      `the job queue could not be read or written; the next try is in ${ERROR_BACKOFF_S} seconds`,
    );
  }

  function reportUnknownKinds(): void {
    for (const kind of jobs.listKinds()) {
      if (Object.hasOwn(handlers, kind) || reportedKinds.has(kind)) continue;
      reportedKinds.add(kind);
      logger.warn({ kind }, "jobs of this kind are left in the queue: this version of Assay does not know it");
    }
  }

  function whenIdle(): Promise<void> {
    return isIdle() ? Promise.resolve() : new Promise((resolve) => idleListeners.push(resolve));
  }

  return {
    wake,
    async waitFor(id, timeoutS) {
      if (isClosed && jobs.find(id)) throw stoppingError();
      return waiters.wait(id, timeoutS);
    },
    whenIdle() {
      wake();
      return whenIdle();
    },
    async close() {
      isClosed = true;
      cancelTimer();
      coalescer.release();
      await whenIdle();
      waiters.rejectAll();
    },
  };
}

/** The leases of the running jobs, which are renewed as long as their handlers run. */
function createLeases({
  jobs,
  writer,
  now,
  timer,
  onError,
}: Pick<JobRunnerOptions, "writer" | "now" | "timer"> & { jobs: Store["jobs"]; onError(error: unknown): void }) {
  const running = new Set<JobRow>();

  /** Renews leases that would expire before two more renewals. Call it in a write. */
  function renew(): void {
    const at = now();
    for (const job of running) {
      if (job.leased_until - at > LEASE_S - LEASE_RENEWAL_S) continue;
      job.leased_until = at + LEASE_S;
      jobs.renew(job, job.leased_until);
    }
  }

  function keepRenewing(): () => void {
    const startTimer = (): (() => void) =>
      timer(LEASE_RENEWAL_S, () => {
        writer.run(renew).catch(onError);
        stop = startTimer();
      });
    let stop = startTimer();
    return () => stop();
  }

  return {
    renew,
    /** Renews the lease of a job while `work` runs. Never rejects. */
    async hold(
      job: JobRow,
      work: () => Promise<void | Settlement>,
    ): Promise<{ settlement: void | Settlement } | { error: unknown }> {
      const stop = keepRenewing();
      running.add(job);
      try {
        return { settlement: await work() };
      } catch (error) {
        return { error };
      } finally {
        running.delete(job);
        stop();
      }
    },
  };
}

/** Promises that wait for jobs to end. */
function createWaiters(jobs: Store["jobs"], timer: Timer) {
  type Waiter = { resolve: () => void; reject: (error: unknown) => void };
  const waiting = new Map<number, Waiter[]>();

  /** Resolves the promises that wait for a job, or for any, if it no longer exists. */
  function notifyDone(id?: number): void {
    for (const one of id === undefined ? [...waiting.keys()] : [id]) {
      const found = waiting.get(one);
      if (!found || jobs.find(one)) continue;
      waiting.delete(one);
      for (const { resolve } of found) resolve();
    }
  }

  return {
    notifyDone,
    wait(id: number, timeoutS: number | undefined): Promise<void> {
      return new Promise((resolve, reject) => {
        if (!jobs.find(id)) return resolve();
        const cancel = timeoutS === undefined ? () => undefined : timer(timeoutS, resolve);
        const waiter: Waiter = {
          resolve() {
            cancel();
            resolve();
          },
          reject(error) {
            cancel();
            reject(error);
          },
        };
        waiting.set(id, [...(waiting.get(id) ?? []), waiter]);
      });
    },
    rejectAll(): void {
      for (const { reject } of [...waiting.values()].flat()) reject(stoppingError());
      waiting.clear();
    },
  };
}

/** Lets jobs that end shortly after each other continue in the same turn, so that their writes share a commit. */
function createCoalescer(timer: Timer, windowS: number) {
  const waiting: (() => void)[] = [];
  function release(): void {
    for (const resolve of waiting.splice(0)) resolve();
  }
  return {
    release,
    /** The first one to wait opens the window, and all of them continue at its end. */
    wait(): Promise<void> {
      if (windowS === 0) return Promise.resolve();
      return new Promise((resolve) => {
        if (waiting.push(resolve) === 1) timer(windowS, release);
      });
    },
  };
}

const stoppingError = (): AppError => unavailable("The server is stopping. Please try again", 5);

/** What is stored of an error. Another system's server may have written it, so it is redacted like a log line. */
const errorText = (error: unknown): string =>
  String(redact(error instanceof Error ? error.message : String(error))).slice(0, MAX_ERROR_CHARS);
