/** The tasks and threads of a pool (pool.ts). */
import type { Transferable, Worker } from "node:worker_threads";

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
  task: Task<Input, Output> | null;
  /** The memory of the task before, while its garbage is collected. */
  collecting: { release(): void } | null;
  /** Stopped or failed: gets no more tasks and leaves the pool with its "exit" event. */
  leaving: boolean;
  cause: unknown;
  /** Stops an idle thread; null while it works, or if idle threads stay. */
  idleTimer: NodeJS.Timeout | null;
};

export const createThread = <Input, Output>(worker: Worker): Thread<Input, Output> => ({
  worker,
  task: null,
  collecting: null,
  leaving: false,
  cause: null,
  idleTimer: null,
});

/** Whether it can take a task. */
export const isIdle = <Input, Output>({ task, collecting, leaving }: Thread<Input, Output>): boolean =>
  task === null && collecting === null && !leaving;

export function clearIdleTimer(thread: { idleTimer: NodeJS.Timeout | null }): void {
  if (thread.idleTimer !== null) clearTimeout(thread.idleTimer);
  thread.idleTimer = null;
}
