/** The options, tasks and threads of a pool (pool.ts). */
import type { Transferable, Worker } from "node:worker_threads";
import type { BeginAllowance } from "./own-time.ts";
import type { PoolMemory } from "./task-memory.ts";

export type PoolOptions<Input> = {
  /** Used in error texts. */
  name: string;
  /** Most threads; they start on demand. */
  size: number;
  /** Most tasks waiting for a thread. */
  queueLimit: number;
  /** Most waiting tasks of one lane; `queueLimit` by default. */
  laneLimit?: number;
  /** Milliseconds after which an idle thread is stopped, which frees all memory of its tasks; null keeps it. */
  idleTimeoutMs?: number | null;
  /**
   * Whether all threads are kept started while the pool is used, so that no task but the first waits for a start; with
   * an idle timeout, until that passes. Only on demand unless given.
   */
  keepsReady?: boolean;
  /** Starts a thread, whose entry file calls `serveTasks` (task-protocol.ts). */
  start: () => Worker;
  /** Where tasks take memory, until their thread has done with them; a task without it waits. Unbounded if absent. */
  memory?: PoolMemory<Input> | null;
  /** Counts what the system says of the thread unless given. */
  beginAllowance?: BeginAllowance;
};

export type TaskOptions = {
  /** Milliseconds from the call of `run`, including time in the queue; below 2^31, the limit of timers. */
  deadlineMs: number;
  /**
   * Milliseconds that the task may take once its thread has begun it, without those for which the thread waits for a
   * processor; `deadlineMs` then bounds only the time until that. For tasks whose timeout is part of a verdict or a
   * refusal, which must not depend on the load of the machine or on the start of a thread.
   */
  allowanceMs?: number;
  /** The owner of the task. A lane gets all threads but one at most, and lanes with waiting tasks take turns. */
  lane?: string;
  /** Rejects the call with the signal's reason. A running task continues until its deadline; its result is ignored. */
  signal?: AbortSignal;
  /** Buffers of the input to move to the thread instead of copying them. */
  transfer?: readonly Transferable[];
};

export type Task<Input, Output> = {
  readonly input: Input;
  readonly transfer: readonly Transferable[];
  readonly resolve: (output: Output) => void;
  readonly reject: (error: unknown) => void;
  /** Releases timer and signal. */
  readonly release: () => void;
  readonly lane: string | null;
  readonly allowanceMs: number | null;
  timer: NodeJS.Timeout;
  /** Set once a thread has it. */
  memory: { release(): void } | null;
  began: boolean;
  settled: boolean;
};

export type Thread<Input, Output> = {
  readonly worker: Worker;
  /** Bytes that its heap may have; 0 for one without a limit. */
  readonly heapBytes: number;
  task: Task<Input, Output> | null;
  /** The memory of the task before, until its garbage is collected or there is another task. */
  collecting: { release(): void } | null;
  /** Stopped or failed: gets no more tasks and leaves the pool with its "exit" event. */
  leaving: boolean;
  cause: unknown;
  /** Stops an idle thread; null while it works, or if idle threads stay. */
  idleTimer: NodeJS.Timeout | null;
};

export function createThread<Input, Output>(worker: Worker): Thread<Input, Output> {
  const { maxOldGenerationSizeMb = 0, maxYoungGenerationSizeMb = 0 } = worker.resourceLimits ?? {};
  return {
    worker,
    heapBytes: (maxOldGenerationSizeMb + maxYoungGenerationSizeMb) * (1 << 20),
    task: null,
    collecting: null,
    leaving: false,
    cause: null,
    idleTimer: null,
  };
}

/** Whether it can take a task. The next one may come before the garbage of the one before is collected. */
export const isIdle = <Input, Output>({ task, leaving }: Thread<Input, Output>): boolean => task === null && !leaving;

export function clearIdleTimer(thread: { idleTimer: NodeJS.Timeout | null }): void {
  if (thread.idleTimer !== null) clearTimeout(thread.idleTimer);
  thread.idleTimer = null;
}

/** Returns the memory of the task before. */
export function returnMemory(thread: { collecting: { release(): void } | null }): void {
  const memory = thread.collecting;
  thread.collecting = null;
  memory?.release();
}
