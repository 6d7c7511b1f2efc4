// A few threads for work that would hold up the event loop or may never end (a user's jq rule). A thread does one task
// at a time, so that stopping a task means stopping its thread and nothing else.
//
// Invariants: every promise of `run` settles, at the latest at its deadline; at most `size` threads exist, a dying one
// included; a thread that died or was stopped is replaced when there is work for it, so a broken entry file costs one
// start per task and never a loop of restarts.
import type { Transferable, Worker } from "node:worker_threads";
import type { TaskOrder, TaskReply } from "./task.ts";

export type TaskOptions = {
  /** Milliseconds from the call of `run`, waiting in the queue included; below 2^31, where timers end. */
  deadline: number;
  /** Rejects the call with the signal's reason. A running task is not stopped before its deadline, only ignored. */
  signal?: AbortSignal;
  /** Buffers of the input that move to the thread instead of being copied. */
  transfer?: readonly Transferable[];
};

export type Pool<Input, Output> = {
  /**
   * Runs a task in a thread. Rejects with QueueFullError, DeadlineError, WorkerDiedError, TaskError (the task threw),
   * PoolClosedError, the signal's reason, or DataCloneError for an input that cannot be sent.
   */
  run(input: Input, options: TaskOptions): Promise<Output>;
  /** Takes no more tasks, waits for the accepted ones (their deadlines bound that), stops the threads. */
  close(): Promise<void>;
};

/** As many tasks wait as the pool allows; the client may come again. */
export class QueueFullError extends Error {
  override readonly name = "QueueFullError";
  readonly limit: number;

  constructor(pool: string, limit: number) {
    super(`${pool}: ${limit} tasks are waiting already`);
    this.limit = limit;
  }
}

/** The deadline passed. `started` tells a task that takes too long from one whose turn did not come. */
export class DeadlineError extends Error {
  override readonly name = "DeadlineError";
  /** Milliseconds. */
  readonly deadline: number;
  readonly started: boolean;

  constructor(pool: string, deadline: number, started: boolean) {
    super(`${pool}: ${started ? "not finished" : "not begun"} after ${deadline} ms`);
    this.deadline = deadline;
    this.started = started;
  }
}

/** The thread of the task ended by itself: out of memory, process.exit, an exception outside the task, a failed start. */
export class WorkerDiedError extends Error {
  override readonly name = "WorkerDiedError";
}

/** The pool was closed before the task was given to it. */
export class PoolClosedError extends Error {
  override readonly name = "PoolClosedError";
}

/** The task threw. `task` is the name of the error class in the thread, `code` its code; other data of it does not travel. */
export class TaskError extends Error {
  override readonly name = "TaskError";
  readonly task: string;
  readonly code: string | null;

  constructor(message: string, task: string, code: string | null) {
    super(message);
    this.task = task;
    this.code = code;
  }
}

type Task<Input, Output> = {
  readonly input: Input;
  readonly transfer: readonly Transferable[];
  readonly resolve: (output: Output) => void;
  readonly reject: (error: unknown) => void;
  /** Releases timer and signal. */
  readonly release: () => void;
  settled: boolean;
};

type Thread<Input, Output> = {
  readonly worker: Worker;
  task: Task<Input, Output> | null;
  /** Stopped or failed: gets no more tasks and leaves the pool with its "exit" event. */
  leaving: boolean;
  cause: unknown;
};

/**
 * `name` goes into error texts; at most `size` threads, started by `start` when they are first needed, and `queueLimit`
 * tasks waiting for one. The thread's entry file calls `serveTasks` of task.ts.
 */
export function createPool<Input, Output>({ name, size, queueLimit, start }: {
  name: string;
  size: number;
  queueLimit: number;
  start: () => Worker;
}): Pool<Input, Output> {
  const queue: Task<Input, Output>[] = [];
  const threads = new Set<Thread<Input, Output>>();
  let closing: Promise<void> | null = null;
  let drained: () => void = () => {};

  function settle(task: Task<Input, Output>, outcome: () => void): void {
    if (task.settled) return;
    task.settled = true;
    task.release();
    outcome();
  }

  /** Gives waiting tasks to idle threads, then to new ones while there is room. */
  function dispatch(): void {
    while (queue.length > 0) {
      const thread = idleThread();
      if (thread === null) break;
      const task = queue.shift();
      if (task !== undefined) assign(thread, task);
    }
    if (queue.length === 0 && [...threads].every((thread) => thread.task === null)) drained();
  }

  function idleThread(): Thread<Input, Output> | null {
    for (const thread of threads) if (thread.task === null && !thread.leaving) return thread;
    return threads.size < size ? startThread() : null;
  }

  function startThread(): Thread<Input, Output> | null {
    let worker: Worker;
    try {
      worker = start();
    } catch (cause) {
      const task = queue.shift();
      if (task !== undefined) {
        settle(task, () => task.reject(new WorkerDiedError(`${name}: a thread could not be started`, { cause })));
      }
      return queue.length > 0 ? startThread() : null;
    }
    const thread: Thread<Input, Output> = { worker, task: null, leaving: false, cause: null };
    threads.add(thread);
    worker.on("message", (reply: TaskReply) => finish(thread, reply));
    worker.on("messageerror", (error) => stop(thread, error));
    worker.on("error", (error) => {
      thread.leaving = true;
      thread.cause = error;
    });
    worker.on("exit", (code) => {
      threads.delete(thread);
      const { task, cause } = thread;
      thread.task = null;
      if (task !== null) {
        settle(task, () => task.reject(new WorkerDiedError(`${name}: the thread ended with code ${code}`, { cause })));
      }
      dispatch();
    });
    return thread;
  }

  function assign(thread: Thread<Input, Output>, task: Task<Input, Output>): void {
    try {
      thread.worker.postMessage({ input: task.input } satisfies TaskOrder, task.transfer);
      thread.task = task;
    } catch (error) {
      settle(task, () => task.reject(error));
    }
  }

  function finish(thread: Thread<Input, Output>, reply: TaskReply): void {
    const { task } = thread;
    thread.task = null;
    if (task !== null) {
      settle(task, () => {
        if (reply.ok) task.resolve(reply.output as Output);
        else task.reject(new TaskError(reply.message, reply.name, reply.code));
      });
    }
    dispatch();
  }

  /** The thread keeps its place and its task until it is really gone: "exit" does the rest. */
  function stop(thread: Thread<Input, Output>, cause: unknown): void {
    thread.leaving = true;
    thread.cause = cause;
    void thread.worker.terminate();
  }

  function expire(task: Task<Input, Output>, deadline: number): void {
    const thread = [...threads].find((one) => one.task === task);
    leaveQueue(task);
    settle(task, () => task.reject(new DeadlineError(name, deadline, thread !== undefined)));
    if (thread !== undefined) stop(thread, null);
    else dispatch();
  }

  function leaveQueue(task: Task<Input, Output>): void {
    const place = queue.indexOf(task);
    if (place >= 0) queue.splice(place, 1);
  }

  async function stopAll(): Promise<void> {
    await new Promise<void>((resolve) => {
      drained = resolve;
      dispatch();
    });
    await Promise.all([...threads].map(({ worker }) => worker.terminate()));
  }

  return {
    async run(input, { deadline, signal, transfer = [] }) {
      if (closing !== null) throw new PoolClosedError(`${name}: closed`);
      signal?.throwIfAborted();
      if (queue.length >= queueLimit && idleCount() === 0) throw new QueueFullError(name, queueLimit);
      return new Promise<Output>((resolve, reject) => {
        // The timer outlives an abort while the task runs: it is what frees the thread then.
        const timer = setTimeout(() => expire(task, deadline), deadline);
        const onAbort = () => {
          leaveQueue(task);
          if ([...threads].some((thread) => thread.task === task)) reject(signal?.reason);
          else settle(task, () => reject(signal?.reason));
          dispatch();
        };
        const release = () => {
          clearTimeout(timer);
          signal?.removeEventListener("abort", onAbort);
        };
        const task: Task<Input, Output> = { input, transfer, resolve, reject, release, settled: false };
        signal?.addEventListener("abort", onAbort, { once: true });
        queue.push(task);
        dispatch();
      });
    },

    close() {
      closing ??= stopAll();
      return closing;
    },
  };

  /** Threads that could take a task at once, those that may still be started included. */
  function idleCount(): number {
    let busy = 0;
    for (const { task, leaving } of threads) if (task !== null || leaving) busy += 1;
    return size - busy;
  }
}
