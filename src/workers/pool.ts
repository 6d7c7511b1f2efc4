// A few threads for work that would hold up the event loop or may never end (a user's jq rule). A thread does one task
// at a time, so that stopping a task means stopping its thread and nothing else.
//
// Invariants: every promise of `run` settles, at the latest at its deadline; at most `size` threads exist, a dying one
// included; a thread that died or was stopped is replaced when there is work for it, so a broken entry file costs one
// start per task and never a loop of restarts; the tasks of one lane never keep those of another from their turn.
import type { Transferable, Worker } from "node:worker_threads";
import type { TaskReport, TaskOrder, TaskReply } from "./task-protocol.ts";

export type TaskOptions = {
  /** Milliseconds from the call of `run`, waiting in the queue included; below 2^31, where timers end. */
  deadlineMs: number;
  /**
   * Milliseconds that the task may take from the moment its thread begins with it; `deadline` then bounds only the time
   * until that moment. For tasks whose end is a verdict, which must not depend on how busy the machine is or how long a
   * thread starts.
   */
  allowanceMs?: number;
  /** Whose task it is. One lane gets all threads but one at most, and lanes with waiting tasks take turns. */
  lane?: string;
  /** Rejects the call with the signal's reason. A running task is not stopped before its deadline, only ignored. */
  signal?: AbortSignal;
  /** Buffers of the input that move to the thread instead of being copied. */
  transfer?: readonly Transferable[];
};

export type PoolLoad = { waiting: number; running: number };

export type Pool<Input, Output> = {
  /**
   * Runs a task in a thread. Rejects with QueueFullError, DeadlineError, WorkerDiedError, TaskError (the task threw),
   * PoolClosedError, the signal's reason, or DataCloneError for an input that cannot be sent.
   */
  run(input: Input, options: TaskOptions): Promise<Output>;
  /** How many tasks wait for a thread, and how many have one. */
  load(): PoolLoad;
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

/**
 * The deadline passed. `started` tells a task that takes too long from one whose turn did not come; one with an
 * allowance counts as started only when its thread said that it begins.
 */
export class DeadlineError extends Error {
  override readonly name = "DeadlineError";
  /** Milliseconds. */
  readonly deadlineMs: number;
  readonly started: boolean;

  constructor(pool: string, deadline: number, started: boolean) {
    super(`${pool}: ${started ? "not finished" : "not begun"} after ${deadline} ms`);
    this.deadlineMs = deadline;
    this.started = started;
  }
}

/**
 * The thread of the task ended by itself: out of memory, process.exit, an exception outside the task, a failed start.
 */
export class WorkerDiedError extends Error {
  override readonly name = "WorkerDiedError";
  /** Whether the thread had begun with the task: if not, its end is none of the task's doing. */
  readonly began: boolean;

  constructor(message: string, began: boolean, options: ErrorOptions) {
    super(message, options);
    this.began = began;
  }
}

/** The pool was closed before the task was given to it. */
export class PoolClosedError extends Error {
  override readonly name = "PoolClosedError";
}

/**
 * The task threw. `task` is the name of the error class in the thread, `code` its code; other data of it does not
 * travel.
 */
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
  readonly lane: string | null;
  readonly allowanceMs: number | null;
  timer: NodeJS.Timeout;
  began: boolean;
  settled: boolean;
};

type Thread<Input, Output> = {
  readonly worker: Worker;
  task: Task<Input, Output> | null;
  /** Stopped or failed: gets no more tasks and leaves the pool with its "exit" event. */
  leaving: boolean;
  cause: unknown;
  /** Ends an idle thread; null while it works, and where threads stay. */
  rest: NodeJS.Timeout | null;
};

/**
 * `name` goes into error texts; at most `size` threads, started by `start` when they are first needed, and `queueLimit`
 * tasks waiting for one, `laneLimit` of them of one lane. A thread that had nothing to do for `keepIdle` milliseconds
 * is ended, and with it all memory that its tasks left; null keeps it. The thread's entry file calls `serveTasks` of
 * task.ts.
 */
export function createPool<Input, Output>({
  name,
  size,
  queueLimit,
  laneLimit = queueLimit,
  idleTimeoutMs: keepIdle = null,
  start,
}: {
  name: string;
  size: number;
  queueLimit: number;
  laneLimit?: number;
  idleTimeoutMs?: number | null;
  start: () => Worker;
}): Pool<Input, Output> {
  const queue: Task<Input, Output>[] = [];
  const threads = new Set<Thread<Input, Output>>();
  /** Lane -> when a task of it was last begun, as a number that grows. Only lanes with tasks are here. */
  const turns = new Map<string, number>();
  let turn = 0;
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
    while (next() !== null) {
      const thread = idleThread();
      // Starting a thread may have failed the task that was next.
      const task = thread === null ? null : next();
      if (thread === null || task === null) break;
      leaveQueue(task);
      assign(thread, task);
    }
    for (const lane of turns.keys()) if (runningOf(lane) === 0 && waitingOf(lane) === 0) turns.delete(lane);
    if (queue.length === 0 && [...threads].every((thread) => thread.task === null)) drained();
  }

  /**
   * The task whose lane waits longest for its turn, of the lanes that may have a thread more; of one lane, the oldest.
   */
  function next(): Task<Input, Output> | null {
    let first: Task<Input, Output> | null = null;
    for (const task of queue)
      if (hasRoom(task.lane) && (first === null || turnOf(task.lane) < turnOf(first.lane))) first = task;
    return first;
  }

  const turnOf = (lane: string | null): number => (lane === null ? 0 : (turns.get(lane) ?? 0));
  const runningOf = (lane: string): number => [...threads].filter(({ task }) => task?.lane === lane).length;
  const waitingOf = (lane: string): number => queue.filter((task) => task.lane === lane).length;
  const hasRoom = (lane: string | null): boolean => lane === null || runningOf(lane) < Math.max(1, size - 1);

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
        settle(task, () =>
          task.reject(new WorkerDiedError(`${name}: a thread could not be started`, false, { cause })),
        );
      }
      return queue.length > 0 ? startThread() : null;
    }
    const thread: Thread<Input, Output> = { worker, task: null, leaving: false, cause: null, rest: null };
    threads.add(thread);
    worker.on("message", (news: TaskReport) => ("began" in news ? begin(thread) : finish(thread, news)));
    worker.on("messageerror", (error) => stop(thread, error));
    worker.on("error", (error) => {
      thread.leaving = true;
      thread.cause = error;
    });
    worker.on("exit", (code) => {
      threads.delete(thread);
      wake(thread);
      const { task, cause } = thread;
      thread.task = null;
      if (task !== null) {
        settle(task, () =>
          task.reject(new WorkerDiedError(`${name}: the thread ended with code ${code}`, task.began, { cause })),
        );
      }
      dispatch();
    });
    return thread;
  }

  function assign(thread: Thread<Input, Output>, task: Task<Input, Output>): void {
    try {
      thread.worker.postMessage({ input: task.input } satisfies TaskOrder, task.transfer);
      thread.task = task;
      wake(thread);
      if (task.lane !== null) turns.set(task.lane, (turn += 1));
    } catch (error) {
      settle(task, () => task.reject(error));
    }
  }

  function begin({ task }: Thread<Input, Output>): void {
    if (task === null || task.settled) return;
    task.began = true;
    const { allowanceMs: allowance } = task;
    if (allowance === null) return;
    clearTimeout(task.timer);
    task.timer = setTimeout(() => expire(task, allowance), allowance);
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
    if (keepIdle !== null && thread.task === null) thread.rest = setTimeout(() => stop(thread, null), keepIdle).unref();
  }

  function wake(thread: Thread<Input, Output>): void {
    if (thread.rest !== null) clearTimeout(thread.rest);
    thread.rest = null;
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
    const started = task.allowanceMs === null ? thread !== undefined : task.began;
    settle(task, () => task.reject(new DeadlineError(name, deadline, started)));
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
    async run(input, { deadlineMs: deadline, allowanceMs: allowance = null, lane = null, signal, transfer = [] }) {
      if (closing !== null) throw new PoolClosedError(`${name}: closed`);
      signal?.throwIfAborted();
      if (idleCount() === 0 || !hasRoom(lane)) {
        if (queue.length >= queueLimit) throw new QueueFullError(name, queueLimit);
        if (lane !== null && waitingOf(lane) >= laneLimit) throw new QueueFullError(name, laneLimit);
      }
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
          allowanceMs: allowance,
          timer,
          began: false,
          settled: false,
        };
        signal?.addEventListener("abort", onAbort, { once: true });
        queue.push(task);
        dispatch();
      });
    },

    load: () => ({ waiting: queue.length, running: [...threads].filter(({ task }) => task !== null).length }),

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
