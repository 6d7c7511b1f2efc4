// The thread's side of a pool (pool.ts): runs one task after another and replies to each.
import { parentPort } from "node:worker_threads";
import type { Transferable } from "node:worker_threads";
import { createGarbageCollector } from "./memory-reclaim.ts";
import { nameOfThread } from "./own-time.ts";
import type { ThreadName } from "./own-time.ts";

/** The message that submits a task. */
export type TaskOrder = { input: unknown };

/**
 * The reply to a task: its output, or name, message and `code` of the error that it threw. Then the thread `waits` for
 * another one; or it `collects` the garbage of the task unless another one comes first, and reports when it has
 * returned that memory; or it can run no other one and `ends`.
 */
export type TaskReply = { then: "waits" | "collects" | "ends" } & (
  | { ok: true; output: unknown }
  | { ok: false; name: string; message: string; code: string | null }
);

/** The messages about a task: that this thread begins it, the reply, and that its garbage was collected. */
export type TaskReport = { began: true; thread: ThreadName } | TaskReply | { collected: true };

/**
 * Milliseconds without another task before garbage is collected, which takes some 50 ms: people open one page after the
 * other, and V8 collects by itself in a thread that has tasks.
 */
const COLLECT_AFTER_MS = 100;

/**
 * Serves the tasks of a pool; call it in the entry file of a worker thread.
 * @param handle runs a task, maybe asynchronously. Its errors become a TaskError at the caller, and so does an output
 *   that cannot be sent. Buffers pushed on `transfer` are moved instead of copied.
 *
 * Much garbage would add up with that of other threads, because V8 collects only while a thread allocates: it is
 * collected once no other task follows, and the memory of the task counts as taken until then.
 * @param options.isSpent asked after each task: whether the thread is to be ended instead of getting another one
 * @throws Error outside a worker thread
 */
export function serveTasks<Input, Output>(
  handle: (input: Input, transfer: Transferable[]) => Output | Promise<Output>,
  { isSpent = () => false }: { isSpent?: () => boolean } = {},
): void {
  const port = parentPort;
  if (port === null) throw new Error("serveTasks works only in a worker thread");
  const thread = nameOfThread();
  const garbage = createGarbageCollector();
  const findNext = (): TaskReply["then"] => (isSpent() ? "ends" : garbage.isDue() ? "collects" : "waits");
  const collect = (): void => {
    garbage.collect();
    port.postMessage({ collected: true } satisfies TaskReport);
  };
  let collecting: NodeJS.Timeout | undefined;
  port.on("message", async ({ input }: TaskOrder) => {
    clearTimeout(collecting);
    port.postMessage({ began: true, thread } satisfies TaskReport);
    let reply: TaskReply;
    const transfer: Transferable[] = [];
    try {
      const output = await handle(input as Input, transfer);
      reply = { ok: true, output, then: findNext() };
      port.postMessage(reply, transfer);
    } catch (error) {
      const { name, message, code } = (error instanceof Error ? error : new Error(String(error))) as Error & {
        code?: unknown;
      };
      reply = { ok: false, name, message, code: typeof code === "string" ? code : null, then: findNext() };
      port.postMessage(reply);
    }
    if (reply.then === "collects") collecting = setTimeout(collect, COLLECT_AFTER_MS);
  });
}
