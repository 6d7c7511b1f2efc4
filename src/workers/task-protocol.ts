// The thread's side of a pool (pool.ts): one task after the other, an answer for each.
import { parentPort } from "node:worker_threads";
import type { Transferable } from "node:worker_threads";

/** What the pool sends for a task. */
export type TaskOrder = { input: unknown };

/** What it gets back: the output, or class name, message and `code` of what the task threw. */
export type TaskReply =
  | { ok: true; output: unknown }
  | { ok: false; name: string; message: string; code: string | null };

/** What a thread says of its task: that it begins with it, then the reply. */
export type TaskReport = { began: true } | TaskReply;

/**
 * Answers the tasks of a pool with `handle`, called in the entry file of a worker thread. `handle` may be asynchronous;
 * what it throws becomes a TaskError at the caller. Buffers pushed on `transfer` move out instead of being copied.
 * An output that cannot be sent is answered as a failure of the task. Throws Error outside a worker thread.
 */
export function serveTasks<Input, Output>(
  handle: (input: Input, transfer: Transferable[]) => Output | Promise<Output>,
): void {
  const port = parentPort;
  if (port === null) throw new Error("tasks are served in a worker thread only");
  port.on("message", async ({ input }: TaskOrder) => {
    port.postMessage({ began: true } satisfies TaskReport);
    try {
      const transfer: Transferable[] = [];
      const output = await handle(input as Input, transfer);
      port.postMessage({ ok: true, output } satisfies TaskReply, transfer);
    } catch (error) {
      const { name, message, code } = (error instanceof Error ? error : new Error(String(error))) as Error & {
        code?: unknown;
      };
      port.postMessage({ ok: false, name, message, code: typeof code === "string" ? code : null } satisfies TaskReply);
    }
  });
}
