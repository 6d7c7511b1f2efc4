/**
 * The worker thread that runs the engine. It creates its instance before it takes its first task, so that the time for
 * a task is the task's own.
 */
import { workerData } from "node:worker_threads";
import { gunzipSync } from "node:zlib";
import { withCompressors } from "../archive/compressors.ts";
import { beginAllowance, lowerPriority, nameOfThread } from "../workers/own-time.ts";
import { serveTasks } from "../workers/task-protocol.ts";
import { createEngineInstance } from "./engine-instance.ts";
import type { EngineCall, EngineReply } from "./engine-instance.ts";
import type { RegoInput } from "./types.ts";
import type { CompiledModule } from "./web-assembly.ts";

/** What the thread is started with. */
export type RegoWorkerData = { module: CompiledModule; maxMemoryBytes: number };

/**
 * A call of the engine. `request`: JSON (engine/protocol.go); `allowanceMs`: of the thread's own time; `endsAtMs`: its
 * end in any case, in milliseconds since the epoch.
 */
export type RegoTask = {
  call: EngineCall;
  request: Uint8Array;
  input: RegoInput | null;
  timeNs: bigint;
  seed: string;
  allowanceMs: number;
  endsAtMs: number;
};

/** `durationMs`: milliseconds that the engine took. */
export type RegoTaskResult = { durationMs: number } & EngineReply;

/**
 * An instance never returns memory, and what an evaluation leaves must not stay while nothing runs: beyond so many
 * bytes the thread ends. A new instance has 30 MB.
 */
const MAX_KEPT_BYTES = 96 << 20;

const { module, maxMemoryBytes } = workerData as RegoWorkerData;
const thread = nameOfThread();
// Requests are answered meanwhile: beside two evaluations of half a second, on two processors, the p99 of asserts is
// 1.1 times that without them instead of 2.0, of attestations 1.1 instead of 1.6 (bench). A new instance takes some
// hundred milliseconds, so this comes first. The allowance is the thread's own time: no verdict depends on priority.
lowerPriority(thread);
const instance = createEngineInstance(module, maxMemoryBytes);
let hasProblem = false;

serveTasks<RegoTask, RegoTaskResult>(
  ({ call, request, input, timeNs, seed, allowanceMs, endsAtMs }) => {
    const startedAt = performance.now();
    const isOver = watchTime(allowanceMs, endsAtMs);
    const result = instance.call(call, request, { input: unpack(input), timeNs, seed, isOver });
    hasProblem = "problem" in result;
    return { ...result, durationMs: performance.now() - startedAt };
  },
  { isSpent: () => hasProblem || instance.memoryBytes() > Math.min(MAX_KEPT_BYTES, maxMemoryBytes / 2) },
);

/** @throws RangeError when it has more bytes than it was said to have */
const unpack = (input: RegoInput | null): Uint8Array | null =>
  input !== null && "packed" in input
    ? withCompressors(() => gunzipSync(input.packed, { maxOutputLength: input.bytes }))
    : input;

/** Asks the system for the thread's own time only when the allowance may be used up. */
function watchTime(allowanceMs: number, endsAtMs: number): () => boolean {
  const measureLeft = beginAllowance(allowanceMs, thread);
  let nextLook = performance.now() + allowanceMs;
  return () => {
    const now = performance.now();
    if (performance.timeOrigin + now >= endsAtMs) return true;
    if (now < nextLook) return false;
    const leftMs = measureLeft();
    nextLook = now + leftMs;
    return leftMs <= 0;
  };
}
