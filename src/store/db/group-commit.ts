import { AppError, unavailable } from "../../errors.ts";
import type { Db } from "./types.ts";

/** A batch ends after this many writes ... */
const MAX_BATCH_JOBS = 64;
/** ... or this many milliseconds, so that reads that wait for the thread are not starved. */
const MAX_BATCH_MS = 5;

/** Decides whether anything is written at all, and is told of what the storage failed. */
export type WriteGuard = {
  /** @throws what is told to whoever wants to write now. */
  ensureWritable(): void;
  reportFailure(error: unknown): void;
};

const OPEN: WriteGuard = { ensureWritable: () => undefined, reportFailure: () => undefined };

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

  /**
   * `onBatch` is told the size and duration of every batch, and whether it was committed; `clock` gives milliseconds
   * that never go back.
   */
  constructor(
    db: Db,
    onBatch: (size: number, milliseconds: number, committed: boolean) => void = () => undefined,
    clock: () => number = () => performance.now(),
    guard = OPEN,
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
   * Runs `work` inside the next batch and resolves with its result after the batch was committed.
   * Rejects with what `work` threw (its changes are undone), or with AppError `unavailable` when the batch itself could
   * not be committed: then nothing of it was stored. While the guard admits no writes it rejects at once, unless the
   * work is a `trial`.
   */
  run<T>(work: () => T, trial = false): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (!trial) this.#guard.ensureWritable();
      this.#queue.push({ work, resolve: resolve as (value: unknown) => void, reject });
      this.#schedule();
    });
  }

  /**
   * Lends the right to write to another connection: while `work` runs, no batch does, and whoever has the other
   * connection finds the database unlocked. What is queued meanwhile waits; reads go on. Resolves or rejects as `work`
   * does.
   */
  withExclusiveWrite<T>(work: () => Promise<T>, trial = false): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (!trial) this.#guard.ensureWritable();
      this.#loans.push(() => work().then(resolve, reject));
      this.#schedule();
    });
  }

  /** Resolves when everything queued so far is committed, and nothing is lent. */
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
      // BEGIN itself may have failed, with nothing taken from the queue: those who wait are told, not left hanging.
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
   * Runs one job in its savepoint; returns what tells its caller, to be called after COMMIT. Throws only when the batch
   * is lost.
   */
  #runOne(job: Job): () => void {
    this.#sql.savepoint.run();
    try {
      const value = job.work();
      this.#sql.release.run();
      return () => job.resolve(value);
    } catch (error) {
      // After a full disk or an I/O error SQLite may have rolled the whole batch back by itself.
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

/** Disk full, I/O error, read-only file system, busy: trouble of the machine, not of the request. */
export const isStorageFailure = (error: unknown): boolean =>
  /^SQLITE_(FULL|IOERR|READONLY|BUSY|CANTOPEN|NOMEM)/.test(String((error as { code?: unknown }).code));
