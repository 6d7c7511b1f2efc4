// The thread's side of a pool (pool.ts): runs one task after another and replies to each.
import { parentPort } from "node:worker_threads";
import type { Transferable } from "node:worker_threads";
import { collectGarbage } from "./memory-reclaim.ts";
import { nameOfThread } from "./own-time.ts";
import type { ThreadName } from "./own-time.ts";

/** The message that submits a task. */
export type TaskOrder = { input: unknown };

/** The reply to a task: its output, or name, message and `code` of the error that it threw. */
export type TaskReply =
  | { ok: true; output: unknown }
  | { ok: false; name: string; message: string; code: string | null };

/** The messages about a task: that this thread begins it, then the reply. */
export type TaskReport = { began: true; thread: ThreadName } | TaskReply;

/**
 * Serves the tasks of a pool; call it in the entry file of a worker thread.
 * @param handle runs a task, maybe asynchronously. Its errors become a TaskError at the caller, and so does an output
 *   that cannot be sent. Buffers pushed on `transfer` are moved instead of copied.
 * @param options.leavesGarbage whether a task leaves so much garbage that it would add up with that of the next one, or
 *   of other threads; it is collected after the reply. Never unless given.
 * @throws Error outside a worker thread
 */
export function serveTasks<Input, Output>(
  handle: (input: Input, transfer: Transferable[]) => Output | Promise<Output>,
  { leavesGarbage = () => false }: { leavesGarbage?: (input: Input) => boolean } = {},
): void {
  const port = parentPort;
  if (port === null) throw new Error("serveTasks works only in a worker thread");
  const thread = nameOfThread();
  port.on("message", async ({ input }: TaskOrder) => {
    port.postMessage({ began: true, thread } satisfies TaskReport);
    // Asked first, because a task may transfer its input.
    const collects = leavesGarbage(input as Input);
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
    // In the next turn, when nothing refers to the task any more.
    if (collects) setImmediate(collectGarbage);
  });
}
