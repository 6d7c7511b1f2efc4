// The worker thread of pool.test.ts: each kind of task takes another course.
import type { Transferable } from "node:worker_threads";
import { serveTasks } from "../../src/workers/task-protocol.ts";

export type Input = {
  kind:
    | "echo"
    | "transfer"
    | "throw"
    | "throw-text"
    | "reject"
    | "unsendable"
    | "hold"
    | "spend"
    | "litter"
    | "is-littered"
    | "loop"
    | "exit"
    | "crash"
    | "exhaust";
  value?: unknown;
  /** For "hold": [0] is set once the task runs, which it does until [1] is set. */
  flags?: Int32Array;
};

/** Whether the thread has run a task of the kind "spend". */
let isSpent = false;
let litter: WeakRef<object> | null = null;

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function runTask({ kind, value, flags }: Input, transfer: Transferable[]): Promise<unknown> {
  if (kind === "litter") {
    // 24 MB
    litter = new WeakRef(new Array(3_000_000).fill(0));
    return null;
  }
  if (kind === "is-littered") {
    await nextTurn();
    return litter?.deref() !== undefined;
  }
  if (kind === "spend") isSpent = true;
  if (kind === "echo" || kind === "spend") return value;
  if (kind === "transfer") {
    const bytes = value as Uint8Array<ArrayBuffer>;
    bytes.fill(7);
    transfer.push(bytes.buffer);
    return bytes;
  }
  if (kind === "throw") throw new RangeError("too far");
  if (kind === "throw-text") throw "just text";
  if (kind === "reject") return Promise.reject(new TypeError("not that type"));
  if (kind === "unsendable") return () => {};
  if (kind === "exit") process.exit(3);
  if (kind === "crash") {
    setImmediate(() => {
      throw new Error("outside of the task");
    });
    return new Promise(() => {});
  }
  if (kind === "exhaust") {
    const held: number[][] = [];
    for (;;) held.push(new Array(100_000).fill(0).map((_, index) => index + held.length));
  }
  if (flags !== undefined) {
    Atomics.store(flags, 0, 1);
    Atomics.wait(flags, 1, 0);
    return value;
  }
  for (;;);
}

serveTasks(runTask, { isSpent: () => isSpent });
