/**
 * The write queue of the process (group commit): writes that arrive in one turn of the event loop share one
 * transaction, and those that arrive while the disk is busy (commit-sync.ts) share the next one.
 *
 * Invariants: a write that fails leaves the others alone; a promise settles only when the commit that holds its write
 * is durable, and all commits before, which its refusal may be about; nothing but this class begins a transaction on
 * its connection.
 *
 * While another process holds the write lock, writes wait here and the thread goes on (write-lock.ts).
 *
 * Repeatable writes at the front of the queue run without savepoints, for which SQLite would copy each page before its
 * first change. If one of them fails, all are rolled back and run again, each in a savepoint of its own.
 */
import { AppError, readOnly, unavailable, UnconfirmedError } from "../../errors.ts";
import type { CommitNumbering } from "./commit-number.ts";
import { DURABLE } from "./commit-sync.ts";
import type { CommitSync } from "./commit-sync.ts";
import type { Db, WriteGuard } from "./types.ts";
import { createWriteLock, isLockedOut } from "./write-lock.ts";
import type { LockReport, WriteLockOptions } from "./write-lock.ts";

/**
 * A batch begins once a turn of the event loop brought no further write, or after this many milliseconds: writes that
 * arrive while others do share their commit, and a single one waits for nothing.
 */
const MAX_GATHER_MS = 5;
/** A batch ends after this many writes ... */
const MAX_BATCH_JOBS = 64;
/** ... or this many milliseconds, so that reads waiting for the event loop are not starved. */
const MAX_BATCH_MS = 5;

/** After a repeatable write was refused, so many batches run each write in its own savepoint. */
const CAREFUL_BATCHES = 16;

const OPEN: WriteGuard = {
  ensureWritable: () => undefined,
  reportFailure: () => undefined,
  checkFiles: () => null,
};

type WriterOptions = {
  /** Called after every batch with its size and duration, and whether it was committed. */
  onBatch?: (size: number, milliseconds: number, committed: boolean) => void;
  /** Monotonic time in milliseconds. */
  clock?: () => number;
  guard?: WriteGuard;
  /** Numbers the commits of a database file. */
  numbering?: Pick<CommitNumbering, "advance" | "record"> | null;
  /** Makes commits durable; needed unless COMMIT itself does. */
  sync?: CommitSync;
  /** What to do about a write lock that another process holds. */
  lock?: WriteLockOptions;
};

/** `bypassGuard`: run even while the guard refuses writes, to probe whether writing works again. */
type WriteOptions = { bypassGuard?: boolean };

/** `isRepeatable`: after a rollback the work may run again. A write without it runs once. */
type RunOptions = WriteOptions & { isRepeatable?: boolean };

type Job = {
  work: () => unknown;
  isRepeatable: boolean;
  resolve: (value: unknown) => void;
  reject: (error: unknown) => void;
  /** When it was queued, by the clock of the writer. */
  queuedAt: number;
};

/** A batch after its COMMIT, which has no number if nothing was changed. `settle`: how to answer each write. */
type Committed = { batch: readonly Job[]; settle: readonly (() => void)[]; number: number | null; started: number };

/** Exclusive work of another connection, which never rejects. */
type Loan = Pick<Job, "reject" | "queuedAt"> & { work: () => Promise<void> };

export class GroupCommitWriter {
  readonly #db: Db;
  readonly #queue: Job[] = [];
  readonly #onBatch: (size: number, milliseconds: number, committed: boolean) => void;
  readonly #clock: () => number;
  readonly #guard: WriteGuard;
  readonly #numbering: Pick<CommitNumbering, "advance" | "record"> | null;
  readonly #sync: CommitSync;
  readonly #sql: Record<"begin" | "commit" | "rollback" | "savepoint" | "release" | "undo", { run(): unknown }>;
  readonly #loans: Loan[] = [];
  readonly #lock: ReturnType<typeof createWriteLock>;
  #scheduled = false;
  /** The next attempt at a lock that another process holds. */
  #retry: NodeJS.Timeout | null = null;
  #lent = false;
  #idle: (() => void)[] = [];
  /** How many batches still run each write in its own savepoint. */
  #careful = 0;

  constructor(
    db: Db,
    {
      onBatch = () => undefined,
      clock = () => performance.now(),
      guard = OPEN,
      numbering = null,
      sync = DURABLE,
      lock = {},
    }: WriterOptions = {},
  ) {
    this.#db = db;
    this.#lock = createWriteLock(lock);
    this.#numbering = numbering;
    this.#sync = sync;
    this.#guard = guard;
    this.#onBatch = onBatch;
    this.#clock = clock;
    this.#sql = {
      begin: db.prepare("BEGIN IMMEDIATE"),
      commit: db.prepare("COMMIT"),
      rollback: db.prepare("ROLLBACK"),
      savepoint: db.prepare("SAVEPOINT job"),
      release: db.prepare("RELEASE job"),
      undo: db.prepare("ROLLBACK TO job"),
    };
  }

  /**
   * Runs `work` in the next batch and resolves with its result once the batch is committed and durable.
   *
   * Rejects with what `work` threw (its changes are rolled back), with AppError `unavailable` when the batch could not
   * be committed or another process held the write lock for too long (nothing was stored), or at once with the guard's
   * error.
   */
  run<T>(work: () => T, { bypassGuard = false, isRepeatable = false }: RunOptions = {}): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (!bypassGuard) this.#guard.ensureWritable();
      const queuedAt = this.#clock();
      this.#queue.push({ work, isRepeatable, resolve: resolve as (value: unknown) => void, reject, queuedAt });
      this.#schedule();
    });
  }

  /**
   * Runs `work` while no batch does, so that another connection can write without waiting for the lock. Writes queue up
   * meanwhile; reads go on. Resolves or rejects as `work` does, rejects with AppError `unavailable` when another
   * process held the write lock for too long, or at once with the guard's error.
   */
  withExclusiveWrite<T>(work: () => Promise<T>, { bypassGuard = false }: WriteOptions = {}): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (!bypassGuard) this.#guard.ensureWritable();
      const confirmed = async (): Promise<T> => {
        const value = await work();
        this.#confirmCommit();
        return value;
      };
      this.#loans.push({ work: () => confirmed().then(resolve, reject), reject, queuedAt: this.#clock() });
      this.#schedule();
    });
  }

  /** How long another process has held the write lock, and which one; null if it was free at the latest attempt. */
  lockReport(): LockReport | null {
    return this.#lock.report(this.#clock());
  }

  /** The same without looking for the process, in milliseconds; 0 if it was free. */
  lockHeldMs(): number {
    return this.#lock.heldMs(this.#clock());
  }

  /** Resolves when everything queued so far is committed and durable, and no exclusive write runs. */
  idle(): Promise<void> {
    if (this.#isIdle()) return Promise.resolve();
    return new Promise((resolve) => {
      this.#idle.push(resolve);
      this.#sync.whenDurable(() => this.#releaseIdle());
    });
  }

  /** Resolves once everything that is committed now is durable, and may be shown; null if it is. */
  durable(): Promise<void> | null {
    return this.#sync.isPending() ? new Promise((resolve) => this.#sync.whenDurable(resolve)) : null;
  }

  #isIdle(): boolean {
    return this.#queue.length === 0 && this.#loans.length === 0 && !this.#lent && !this.#sync.isPending();
  }

  #releaseIdle(): void {
    if (this.#isIdle()) for (const done of this.#idle.splice(0)) done();
  }

  #schedule(): void {
    this.#retry?.ref();
    if (this.#scheduled || this.#lent) return;
    this.#scheduled = true;
    // While the disk is busy, writes gather: larger batches cost less for each write, and syncs follow each other.
    this.#sync.whenDurable(() => this.#gather());
  }

  #gather(): void {
    const started = this.#clock();
    // The first immediate runs before the event loop looks for requests again.
    let known = -1;
    const look = (): void => {
      const isGrowing = this.#queue.length > known;
      known = this.#queue.length;
      if (isGrowing && known < MAX_BATCH_JOBS && this.#clock() - started < MAX_GATHER_MS) setImmediate(look);
      else this.#flush();
    };
    setImmediate(look);
  }

  #flush(): void {
    this.#scheduled = false;
    this.#retry = null;
    if (!this.#db.open) return;
    const began = this.#clock();
    const locked = this.#queue.length > 0 ? this.#batch() : this.#probeLock();
    if (locked) {
      this.#waitForLock(began, locked.error);
      return;
    }
    this.#lock.acquired(this.#clock());
    const loan = this.#loans.shift();
    if (loan) {
      this.#lent = true;
      // So that the numbers of commits reach their file in order, and no sync runs when the next batch is committed.
      this.#sync.whenDurable(() => {
        void loan.work().then(() => {
          this.#lent = false;
          this.#next();
        });
      });
    } else this.#next();
  }

  #next(): void {
    if (this.#queue.length > 0 || this.#loans.length > 0) this.#schedule();
    else this.#sync.whenDurable(() => this.#releaseIdle());
  }

  /** Takes the write lock and returns it. @returns SQLite's error if another process holds it, else null */
  #probeLock(): { error: unknown } | null {
    try {
      this.#sql.begin.run();
      this.#sql.rollback.run();
      return null;
    } catch (error) {
      // Whatever else is wrong shows when something is written.
      return isLockedOut(error) ? { error } : null;
    }
  }

  /**
   * Refuses what has waited too long, and schedules the next attempt; also without anything to write, to know when the
   * lock is free.
   */
  #waitForLock(began: number, error: unknown): void {
    const now = this.#clock();
    const pauseMs = this.#lock.failed(began, now);
    let refused = 0;
    for (const waiting of [this.#queue, this.#loans])
      while (waiting[0] && this.#lock.isOverdue(waiting[0].queuedAt, now)) {
        waiting.shift()?.reject(this.#lock.refusal(now, error));
        refused += 1;
      }
    const committed = false;
    if (refused > 0) this.#onBatch(refused, now - began, committed);
    this.#scheduled = true;
    this.#retry = setTimeout(() => this.#flush(), pauseMs);
    if (this.#queue.length > 0 || this.#loans.length > 0) return;
    this.#retry.unref();
    this.#releaseIdle();
  }

  /** Runs a batch. @returns SQLite's error if another process holds the lock: then the queue is as before; else null */
  #batch(): { error: unknown } | null {
    const started = this.#clock();
    const settle: (() => void)[] = [];
    let batch: Job[] = [];
    try {
      this.#sql.begin.run();
      const take = (): Job | null => {
        const isFull = batch.length === MAX_BATCH_JOBS || (batch.length > 0 && this.#clock() - started >= MAX_BATCH_MS);
        const job = (isFull ? null : this.#queue.shift()) ?? null;
        if (job) batch.push(job);
        return job;
      };
      const together = this.#careful > 0 ? [] : this.#runTogether(() => (this.#queue[0]?.isRepeatable ? take() : null));
      for (const done of together) settle.push(done);
      for (let job = take(); job; job = take()) settle.push(this.#runOne(job));
      // Here, so that nothing is left of what is refused; and after the sync, because files may be replaced meanwhile.
      const problem = this.#guard.checkFiles();
      if (problem !== null) throw readOnly(problem);
      const number = this.#numbering?.advance() ?? null;
      this.#sql.commit.run();
      if (this.#careful > 0) this.#careful -= 1;
      const acknowledge = (): void => this.#acknowledge({ batch, settle, number, started });
      // Without a number nothing was changed, and everything before is durable.
      if (number !== null || !this.#numbering) this.#sync.start(acknowledge);
      else acknowledge();
    } catch (error) {
      const isLocked = isLockedOut(error) && !this.#db.inTransaction;
      if (this.#db.inTransaction) this.#db.exec("ROLLBACK");
      if (isLocked) {
        // Only BEGIN fails like this. Jobs were taken if it was the second one, for repeatable writes to run again.
        this.#queue.unshift(...batch);
        return { error };
      }
      // BEGIN itself may have failed, before a job was taken from the queue: reject all of them instead of hanging.
      if (batch.length === 0) batch = this.#queue.splice(0);
      this.#guard.reportFailure(error);
      this.#refuse({ batch, started }, error instanceof AppError ? error : notStored(error));
    }
    return null;
  }

  /** Settles a batch that is durable. */
  #acknowledge({ batch, settle, number, started }: Committed): void {
    try {
      this.#confirmCommit();
    } catch (error) {
      this.#guard.reportFailure(error);
      this.#refuse({ batch, started }, error);
      return;
    }
    if (number !== null) this.#numbering?.record(number);
    for (const done of settle) done();
    const committed = true;
    this.#onBatch(batch.length, this.#clock() - started, committed);
  }

  #refuse({ batch, started }: Pick<Committed, "batch" | "started">, error: unknown): void {
    for (const job of batch) job.reject(error);
    const committed = false;
    this.#onBatch(batch.length, this.#clock() - started, committed);
  }

  /** @throws UnconfirmedError when what was committed may be in files that no later start opens */
  #confirmCommit(): void {
    const problem = this.#guard.checkFiles();
    if (problem !== null) throw new UnconfirmedError(problem);
  }

  /**
   * Runs repeatable jobs, those that `next` returns until it returns null, at the beginning of a transaction. If one
   * fails, begins again and runs each in a savepoint of its own. Returns and throws as `runOne`, for all of them.
   */
  #runTogether(next: () => Job | null): (() => void)[] {
    const jobs: Job[] = [];
    const values: unknown[] = [];
    try {
      for (let job = next(); job; job = next()) {
        jobs.push(job);
        values.push(job.work());
      }
      return jobs.map(
        ({ resolve }, index) =>
          () =>
            resolve(values[index]),
      );
    } catch (error) {
      // After a full disk or an I/O error SQLite may have rolled back the batch itself.
      if (!this.#db.inTransaction) throw error;
      this.#sql.rollback.run();
      this.#sql.begin.run();
      this.#careful = CAREFUL_BATCHES;
      return jobs.map((job) => this.#runOne(job));
    }
  }

  /**
   * Runs one job in its savepoint. Returns a function that settles the job's promise, to be called after COMMIT. Throws
   * only when the whole batch is lost.
   */
  #runOne(job: Job): () => void {
    this.#sql.savepoint.run();
    try {
      const value = job.work();
      this.#sql.release.run();
      return () => job.resolve(value);
    } catch (error) {
      // After a full disk or an I/O error SQLite may have rolled back the whole batch itself.
      if (!this.#db.inTransaction) throw error;
      this.#sql.undo.run();
      this.#sql.release.run();
      if (isStorageFailure(error)) this.#guard.reportFailure(error);
      const refusal = error instanceof AppError || !isStorageFailure(error) ? error : notStored(error);
      return () => job.reject(refusal);
    }
  }
}

const notStored = (error: unknown): AppError =>
  unavailable("The write could not be stored. Nothing was changed. Please try again", 5, error);

/** Whether a write was refused for a reason that the log has: read-only mode, or a lock of another process. */
export const isLoggedRefusal = (error: unknown): boolean =>
  error instanceof AppError && (error.code === "no_space" || isLockedOut(error.internal));

/** Disk full, I/O error, read-only file system, busy: an infrastructure failure, not an error of the request. */
export const isStorageFailure = (error: unknown): boolean =>
  /^SQLITE_(FULL|IOERR|READONLY|BUSY|CANTOPEN|NOMEM)/.test(String((error as { code?: unknown }).code));
