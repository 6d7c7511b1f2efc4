// A pool of worker threads for tasks that would block the event loop or may never end (a user's jq rule). A thread runs
// one task at a time, so stopping a task means stopping its thread and nothing else.
//
// Invariants: every promise of `run` settles, at the latest at its deadline. At most `size` threads exist, including a
// dying one. A thread that died or was stopped is replaced only when there is work, so a broken entry file costs one
// start per task and never a restart loop. The tasks of one lane cannot starve those of another. The memory of a task
// is taken until its thread has returned it.
import type { Worker } from "node:worker_threads";
import { clearIdleTimer, createThread, isIdle, returnMemory } from "./pool-thread.ts";
import type { PoolOptions, Task, TaskOptions, Thread } from "./pool-thread.ts";
import { beginAllowance } from "./own-time.ts";
import type { BeginAllowance, ThreadName } from "./own-time.ts";
import { createMemoryGate } from "./task-memory.ts";
import type { MemoryGate } from "./task-memory.ts";
import type { TaskOrder, TaskReply, TaskReport } from "./task-protocol.ts";

export type PoolLoad = { waiting: number; running: number };

export type Pool<Input, Output> = {
  /**
   * Runs a task in a thread. Rejects with QueueFullError, DeadlineError, WorkerDiedError, TaskError (the task threw),
   * PoolClosedError, the signal's reason, or DataCloneError if the input cannot be sent.
   */
  run(input: Input, options: TaskOptions): Promise<Output>;
  /** Number of tasks that wait for a thread, and that run in one. */
  load(): PoolLoad;
  /** Refuses further tasks, waits for the accepted ones (their deadlines bound that), then stops the threads. */
  close(): Promise<void>;
};

type StoppablePool<Input, Output> = Pool<Input, Output> & {
  /** Refuses further tasks and stops the threads at once: accepted tasks reject with PoolClosedError. */
  terminate(): Promise<void>;
};

/** The queue of the pool or of the lane is full; the client may retry later. */
export class QueueFullError extends Error {
  override readonly name = "QueueFullError";
  readonly limit: number;

  constructor(pool: string, limit: number) {
    super(`${pool}: ${limit} tasks are waiting already`);
    this.limit = limit;
  }
}

/**
 * The deadline passed. `started` distinguishes a task that takes too long from one that was never run; a task with an
 * allowance has started once its thread reported it.
 */
export class DeadlineError extends Error {
  override readonly name = "DeadlineError";
  readonly deadlineMs: number;
  readonly started: boolean;

  constructor(pool: string, { deadlineMs, started }: { deadlineMs: number; started: boolean }) {
    super(`${pool}: ${started ? "not finished" : "not begun"} after ${deadlineMs} ms`);
    this.deadlineMs = deadlineMs;
    this.started = started;
  }
}

/** The task's thread ended: out of memory, process.exit, an exception outside the task, or a failed start. */
export class WorkerDiedError extends Error {
  override readonly name = "WorkerDiedError";
  /** Whether the thread had begun the task; otherwise the task did not cause its end. */
  readonly began: boolean;

  constructor(message: string, { began, ...options }: { began: boolean } & ErrorOptions) {
    super(message, options);
    this.began = began;
  }
}

/** The pool was closed before the task was submitted. */
export class PoolClosedError extends Error {
  override readonly name = "PoolClosedError";
}

/** The task threw. `task` and `code` are name and code of the error in the thread; its other data is lost. */
export class TaskError extends Error {
  override readonly name = "TaskError";
  readonly task: string;
  readonly code: string | null;

  constructor(message: string, { task, code }: { task: string; code: string | null }) {
    super(message);
    this.task = task;
    this.code = code;
  }
}

export function createPool<Input, Output>(options: PoolOptions<Input>): StoppablePool<Input, Output> {
  const pool = new ThreadPool<Input, Output>(options);
  return {
    run: (input, taskOptions) => pool.run(input, taskOptions),
    load: () => pool.load(),
    close: () => pool.close(),
    terminate: () => pool.terminate(),
  };
}

class ThreadPool<Input, Output> {
  readonly #name: string;
  readonly #size: number;
  readonly #queueLimit: number;
  readonly #laneLimit: number;
  readonly #idleTimeoutMs: number | null;
  readonly #keepsReady: boolean;
  readonly #start: () => Worker;
  readonly #memory: MemoryGate<Input>;
  readonly #beginAllowance: BeginAllowance;
  readonly #queue: Task<Input, Output>[] = [];
  readonly #threads = new Set<Thread<Input, Output>>();
  /** The turn in which each lane last began a task, an increasing number. Contains only lanes with tasks. */
  readonly #turns = new Map<string, number>();
  #turn = 0;
  #closing: Promise<void> | null = null;
  #onDrained: () => void = () => {};

  constructor(options: PoolOptions<Input>) {
    this.#name = options.name;
    this.#size = options.size;
    this.#queueLimit = options.queueLimit;
    this.#laneLimit = options.laneLimit ?? options.queueLimit;
    this.#idleTimeoutMs = options.idleTimeoutMs ?? null;
    this.#keepsReady = options.keepsReady ?? false;
    this.#start = options.start;
    this.#beginAllowance = options.beginAllowance ?? beginAllowance;
    this.#memory = createMemoryGate(options.memory ?? null, () => this.#dispatch());
  }

  async run(input: Input, options: TaskOptions): Promise<Output> {
    const { deadlineMs, signal, transfer = [] } = options;
    const lane = options.lane ?? null;
    const allowanceMs = options.allowanceMs ?? null;
    if (this.#closing !== null) throw new PoolClosedError(`${this.#name}: closed`);
    signal?.throwIfAborted();
    this.#checkQueue(lane, input);
    return new Promise<Output>((resolve, reject) => {
      // The timer outlives an abort while the task runs: it is what then frees the thread.
      const timer = setTimeout(() => this.#expire(task, deadlineMs), deadlineMs);
      const onAbort = (): void => this.#abort(task, signal?.reason);
      const release = (): void => {
        clearTimeout(task.timer);
        signal?.removeEventListener("abort", onAbort);
      };
      const task: Task<Input, Output> = {
        input,
        transfer,
        resolve,
        reject,
        release,
        lane,
        allowanceMs,
        timer,
        memory: null,
        began: false,
        settled: false,
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#queue.push(task);
      this.#dispatch();
    });
  }

  load(): PoolLoad {
    const running = [...this.#threads].filter(({ task }) => task !== null).length;
    return { waiting: this.#queue.length, running };
  }

  close(): Promise<void> {
    this.#closing ??= this.#stopAll();
    return this.#closing;
  }

  terminate(): Promise<void> {
    const closed = new PoolClosedError(`${this.#name}: closed`);
    for (const task of [...this.#queue.splice(0), ...[...this.#threads].map((thread) => thread.task)])
      if (task !== null) this.#settle(task, () => task.reject(closed));
    const stopped = Promise.all([...this.#threads].map(({ worker }) => worker.terminate())).then(() => undefined);
    this.#closing ??= stopped;
    return stopped;
  }

  /** @throws QueueFullError if the task would have to wait and the queue is full */
  #checkQueue(lane: string | null, input: Input): void {
    if (this.#countIdle() > 0 && this.#mayRun(lane) && this.#memory.isOpenFor(input)) return;
    if (this.#queue.length >= this.#queueLimit) throw new QueueFullError(this.#name, this.#queueLimit);
    if (lane !== null && this.#countWaiting(lane) >= this.#laneLimit)
      throw new QueueFullError(this.#name, this.#laneLimit);
  }

  /** Threads that could take a task at once, including those that may still be started. */
  #countIdle(): number {
    return this.#size - [...this.#threads].filter((thread) => !isIdle(thread)).length;
  }

  #countRunning(lane: string): number {
    return [...this.#threads].filter(({ task }) => task?.lane === lane).length;
  }

  #countWaiting(lane: string): number {
    return this.#queue.filter((task) => task.lane === lane).length;
  }

  /** Whether a lane may have another thread. */
  #mayRun(lane: string | null): boolean {
    return lane === null || this.#countRunning(lane) < Math.max(1, this.#size - 1);
  }

  #turnOf(lane: string | null): number {
    return lane === null ? 0 : (this.#turns.get(lane) ?? 0);
  }

  #settle(task: Task<Input, Output>, outcome: () => void): void {
    if (task.settled) return;
    task.settled = true;
    task.release();
    outcome();
  }

  /** Assigns waiting tasks to idle threads, then to new ones up to `size`. */
  #dispatch(): void {
    for (;;) {
      const task = this.#countIdle() > 0 ? this.#findNext() : null;
      const memory = task && this.#memory.take(task.input);
      if (task === null || memory === null) break;
      task.memory = memory;
      const thread = this.#findIdleThread();
      // A failed start of a thread may have rejected the task.
      if (thread !== null && !task.settled) this.#assign(thread, task);
      else memory.release();
      if (thread === null) break;
    }
    for (const lane of this.#turns.keys())
      if (this.#countRunning(lane) === 0 && this.#countWaiting(lane) === 0) this.#turns.delete(lane);
    if (this.#queue.length === 0 && [...this.#threads].every((thread) => thread.task === null)) this.#onDrained();
  }

  /** The oldest task of the lane that has waited longest for its turn, among lanes that may have another thread. */
  #findNext(): Task<Input, Output> | null {
    let next: Task<Input, Output> | null = null;
    for (const task of this.#queue)
      if (this.#mayRun(task.lane) && this.#memory.isOpenFor(task.input))
        next = next === null || this.#turnOf(task.lane) < this.#turnOf(next.lane) ? task : next;
    return next;
  }

  #findIdleThread(): Thread<Input, Output> | null {
    const idle = [...this.#threads].find(isIdle);
    return idle ?? (this.#threads.size < this.#size ? this.#startThread() : null);
  }

  #startThread(): Thread<Input, Output> | null {
    let worker: Worker;
    try {
      worker = this.#start();
    } catch (cause) {
      const task = this.#queue.shift();
      const text = `${this.#name}: a thread could not be started`;
      if (task !== undefined) this.#settle(task, () => task.reject(new WorkerDiedError(text, { began: false, cause })));
      return this.#queue.length > 0 ? this.#startThread() : null;
    }
    const thread = createThread<Input, Output>(worker);
    this.#threads.add(thread);
    worker.on("message", (report: TaskReport) => {
      if ("began" in report) this.#begin(thread, report.thread);
      else if ("collected" in report) this.#rest(thread);
      else this.#finish(thread, report);
    });
    worker.on("messageerror", (error) => this.#stop(thread, error));
    worker.on("error", (error) => {
      thread.leaving = true;
      thread.cause = error;
    });
    worker.on("exit", (code) => this.#remove(thread, code));
    return thread;
  }

  #remove(thread: Thread<Input, Output>, exitCode: number): void {
    this.#threads.delete(thread);
    clearIdleTimer(thread);
    const { task, cause, collecting } = thread;
    thread.task = null;
    if (task ?? collecting) this.#memory.keepHeap(thread.heapBytes);
    (collecting ?? task?.memory)?.release();
    const text = `${this.#name}: the thread ended with code ${exitCode}`;
    if (task !== null) this.#settle(task, () => task.reject(new WorkerDiedError(text, { began: task.began, cause })));
    this.#dispatch();
    // Not for a thread that ended without a task: it was idle, or cannot start.
    if (task !== null) this.#refill();
  }

  /** Starts the threads that the next tasks would have to wait for. */
  #refill(): void {
    while (this.#keepsReady && this.#closing === null && this.#threads.size < this.#size) {
      const thread = this.#startThread();
      if (thread === null) return;
      this.#stopWhenIdle(thread);
    }
  }

  #assign(thread: Thread<Input, Output>, task: Task<Input, Output>): void {
    this.#leaveQueue(task);
    try {
      thread.worker.postMessage({ input: task.input } satisfies TaskOrder, task.transfer);
      thread.task = task;
      // The memory of this task is that of the same heap.
      returnMemory(thread);
      clearIdleTimer(thread);
      if (task.lane !== null) this.#turns.set(task.lane, (this.#turn += 1));
    } catch (error) {
      task.memory?.release();
      this.#settle(task, () => task.reject(error));
    }
  }

  #begin({ task }: Thread<Input, Output>, thread: ThreadName): void {
    if (task === null || task.settled) return;
    task.began = true;
    const { allowanceMs } = task;
    if (allowanceMs === null) return;
    const measureLeft = this.#beginAllowance(allowanceMs, thread);
    const check = (): void => {
      const leftMs = measureLeft();
      if (leftMs <= 0) this.#expire(task, allowanceMs);
      else task.timer = setTimeout(check, leftMs);
    };
    clearTimeout(task.timer);
    task.timer = setTimeout(check, allowanceMs);
  }

  #finish(thread: Thread<Input, Output>, reply: TaskReply): void {
    const { task } = thread;
    if (task !== null) {
      this.#settle(task, () => {
        if (reply.ok) task.resolve(reply.output as Output);
        else task.reject(new TaskError(reply.message, { task: reply.name, code: reply.code }));
      });
    }
    // It has the memory of its task until it is gone.
    if (reply.then === "ends") this.#stop(thread, null);
    else {
      thread.task = null;
      thread.collecting = task?.memory ?? null;
      if (reply.then === "collects") this.#dispatch();
      else this.#rest(thread);
    }
  }

  /** The thread has returned the memory of its task, and waits for another one. */
  #rest(thread: Thread<Input, Output>): void {
    returnMemory(thread);
    this.#dispatch();
    this.#stopWhenIdle(thread);
    this.#refill();
  }

  #stopWhenIdle(thread: Thread<Input, Output>): void {
    if (this.#idleTimeoutMs !== null && isIdle(thread))
      thread.idleTimer = setTimeout(() => this.#stop(thread, null), this.#idleTimeoutMs).unref();
  }

  /** Stops a thread, which keeps its task until its "exit" event. */
  #stop(thread: Thread<Input, Output>, cause: unknown): void {
    thread.leaving = true;
    thread.cause = cause;
    void thread.worker.terminate();
  }

  #expire(task: Task<Input, Output>, deadlineMs: number): void {
    const thread = [...this.#threads].find((candidate) => candidate.task === task);
    this.#leaveQueue(task);
    const started = task.allowanceMs === null ? thread !== undefined : task.began;
    this.#settle(task, () => task.reject(new DeadlineError(this.#name, { deadlineMs, started })));
    if (thread !== undefined) this.#stop(thread, null);
    else this.#dispatch();
  }

  #abort(task: Task<Input, Output>, reason: unknown): void {
    this.#leaveQueue(task);
    if ([...this.#threads].some((thread) => thread.task === task)) task.reject(reason);
    else this.#settle(task, () => task.reject(reason));
    this.#dispatch();
  }

  #leaveQueue(task: Task<Input, Output>): void {
    const index = this.#queue.indexOf(task);
    if (index >= 0) this.#queue.splice(index, 1);
  }

  async #stopAll(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#onDrained = resolve;
      this.#dispatch();
    });
    await Promise.all([...this.#threads].map(({ worker }) => worker.terminate()));
  }
}
