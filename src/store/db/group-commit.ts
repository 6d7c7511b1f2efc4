/**
 * The write queue of the process (group commit): writes that arrive in one turn of the event loop share one transaction
 * and one fsync.
 *
 * Invariants: each write runs in a savepoint of its own, so one that fails leaves the others alone; a promise resolves
 * only after the commit that holds its write; nothing but this class begins a transaction on its connection.
 */
import { AppError, unavailable } from "../../errors.ts";
import type { Db } from "./types.ts";

/** A batch ends after this many writes ... */
const MAX_BATCH_JOBS = 64;
/** ... or this many milliseconds, so that reads waiting for the event loop are not starved. */
const MAX_BATCH_MS = 5;

/** Decides whether writes are accepted, and is notified of storage failures. */
export type WriteGuard = {
  /** @throws the error for the client when writes are refused. */
  ensureWritable(): void;
  reportFailure(error: unknown): void;
};

const OPEN: WriteGuard = { ensureWritable: () => undefined, reportFailure: () => undefined };

type WriterOptions = {
  /** Called after every batch with its size and duration, and whether it was committed. */
  onBatch?: (size: number, milliseconds: number, committed: boolean) => void;
  /** Monotonic time in milliseconds. */
  clock?: () => number;
  guard?: WriteGuard;
};

/** `bypassGuard`: run even while the guard refuses writes, to probe whether writing works again. */
type WriteOptions = { bypassGuard?: boolean };

type Job = {
  work: () => unknown;
  resolve: (value: unknown) => void;
  reject: (error: unknown) => void;
};

export class GroupCommitWriter {
  readonly #db: Db;
  readonly #queue: Job[] = [];
  readonly #onBatch: (size: number, milliseconds: number, committed: boolean) => void;
  readonly #clock: () => number;
  readonly #guard: WriteGuard;
  readonly #sql: Record<"begin" | "commit" | "savepoint" | "release" | "undo", { run(): unknown }>;
  readonly #loans: (() => Promise<void>)[] = [];
  #scheduled = false;
  #lent = false;
  #idle: (() => void)[] = [];

  constructor(
    db: Db,
    { onBatch = () => undefined, clock = () => performance.now(), guard = OPEN }: WriterOptions = {},
  ) {
    this.#db = db;
    this.#guard = guard;
    this.#onBatch = onBatch;
    this.#clock = clock;
    this.#sql = {
      begin: db.prepare("BEGIN IMMEDIATE"),
      commit: db.prepare("COMMIT"),
      savepoint: db.prepare("SAVEPOINT job"),
      release: db.prepare("RELEASE job"),
      undo: db.prepare("ROLLBACK TO job"),
    };
  }

  /**
   * Runs `work` in the next batch and resolves with its result once the batch is committed.
   *
   * Rejects with what `work` threw (its changes are rolled back), with AppError `unavailable` when the batch could not
   * be committed (nothing of it was stored), or at once with the guard's error.
   */
  run<T>(work: () => T, { bypassGuard = false }: WriteOptions = {}): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (!bypassGuard) this.#guard.ensureWritable();
      this.#queue.push({ work, resolve: resolve as (value: unknown) => void, reject });
      this.#schedule();
    });
  }

  /**
   * Runs `work` while no batch does, so that another connection can write without waiting for the lock. Writes queue up
   * meanwhile; reads go on. Resolves or rejects as `work` does, or rejects at once with the guard's error.
   */
  withExclusiveWrite<T>(work: () => Promise<T>, { bypassGuard = false }: WriteOptions = {}): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (!bypassGuard) this.#guard.ensureWritable();
      this.#loans.push(() => work().then(resolve, reject));
      this.#schedule();
    });
  }

  /** Resolves when everything queued so far is committed and no exclusive write runs. */
  idle(): Promise<void> {
    if (this.#queue.length === 0 && this.#loans.length === 0 && !this.#lent) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  #schedule(): void {
    if (this.#scheduled || this.#lent) return;
    this.#scheduled = true;
    setImmediate(() => this.#flush());
  }

  #flush(): void {
    this.#scheduled = false;
    if (this.#queue.length > 0) this.#batch();
    const loan = this.#loans.shift();
    if (loan) {
      this.#lent = true;
      void loan().then(() => {
        this.#lent = false;
        this.#next();
      });
    } else this.#next();
  }

  #next(): void {
    if (this.#queue.length > 0 || this.#loans.length > 0) this.#schedule();
    else for (const done of this.#idle.splice(0)) done();
  }

  #batch(): void {
    const started = this.#clock();
    const settle: (() => void)[] = [];
    let batch: Job[] = [];
    let committed = false;
    try {
      this.#sql.begin.run();
      while (
        this.#queue.length > 0 &&
        batch.length < MAX_BATCH_JOBS &&
        (batch.length === 0 || this.#clock() - started < MAX_BATCH_MS)
      ) {
        const job = this.#queue.shift() as Job;
        batch.push(job);
        settle.push(this.#runOne(job));
      }
      this.#sql.commit.run();
      committed = true;
    } catch (error) {
      if (this.#db.inTransaction) this.#db.exec("ROLLBACK");
      // BEGIN itself may have failed, before a job was taken from the queue: reject all of them instead of hanging.
      if (batch.length === 0) batch = this.#queue.splice(0);
      this.#guard.reportFailure(error);
      const failure = unavailable("The write could not be stored. Nothing was changed. Please try again", 5, error);
      for (const job of batch) job.reject(failure);
      settle.length = 0;
    }
    for (const done of settle) done();
    this.#onBatch(batch.length, this.#clock() - started, committed);
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
      const refusal =
        error instanceof AppError || !isStorageFailure(error)
          ? error
          : unavailable("The write could not be stored. Nothing was changed. Please try again", 5, error);
      return () => job.reject(refusal);
    }
  }
}

/** Disk full, I/O error, read-only file system, busy: an infrastructure failure, not an error of the request. */
export const isStorageFailure = (error: unknown): boolean =>
  /^SQLITE_(FULL|IOERR|READONLY|BUSY|CANTOPEN|NOMEM)/.test(String((error as { code?: unknown }).code));
