/**
 * The engine of Rego evaluations: OPA itself, compiled to WebAssembly (engine/README.md), in worker threads that start
 * with the first call.
 *
 * Invariants: nothing that a policy does ends the server or reaches anything but its input; a call ends within its time
 * and its memory; equal calls have equal outcomes; a thread whose call hit a limit runs no other one.
 */
import type { Worker } from "node:worker_threads";
import type { RegoFiles } from "../domain/rego/bundle.ts";
import { memberTexts } from "../json/walk.ts";
import { createPool, DeadlineError, WorkerDiedError } from "../workers/pool.ts";
import type { ThreadMemory } from "../workers/task-memory.ts";
import type { EngineCall, EngineReply } from "./engine-instance.ts";
import { compileEngine } from "./engine-module.ts";
import type { RegoTask, RegoTaskResult, RegoWorkerData } from "./rego-worker.ts";
import type { BundleReport, CallBounds, RegoEngine, RegoFailure, RegoInput, RegoOutcome } from "./types.ts";
import type { RegoQuestion, RegoTest, RegoVerdict } from "./types.ts";
import type { CompiledModule } from "./web-assembly.ts";
import { transferableOf } from "../workers/transfer.ts";

/**
 * Of a thread. Policies nest, and Go's calls are calls of WebAssembly, which use its stack. The heap is that of
 * JavaScript alone: texts on their way to the engine and back.
 */
export const REGO_THREAD_LIMITS = { stackSizeMb: 32, maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 4 };
/** What a thread takes besides the memory of its instance: heap, stack, and most of all code of the compiled module. */
const THREAD_BYTES = 128 << 20;
/** How long a call may take with all waiting, unless its caller says so. */
const DEFAULT_OVERALL_MS = 60_000;
/**
 * The engine ends a call itself when its time is over, and says so, but not within one built-in function. So much later
 * its thread is ended.
 */
const GRACE_MS = 500;

/** What one evaluation may take unless an operator says otherwise (newer-clients 6.6): milliseconds, and bytes. */
export const REGO_LIMITS = { timeMs: 20_000, memoryBytes: 256 << 20 };

export type EngineOptions = {
  /** Milliseconds that one call may take in the engine. */
  timeMs: number;
  /** Bytes of memory that an instance of the engine may take. */
  memoryBytes: number;
  /** Most calls at a time; a lane (workers/pool.ts) has all but one of them at most. */
  threads: number;
  /** Whether all threads are kept started while the engine is used. */
  keepsReady: boolean;
  /** Milliseconds that an idle thread stays: all of them take two hundred megabytes, and half a second to start. */
  idleMs: number;
  /** Starts a thread of rego-worker.ts within REGO_THREAD_LIMITS. */
  start(data: RegoWorkerData): Worker;
  /** Where calls take their memory; unbounded if null. */
  memory: ThreadMemory | null;
};

/** The JSON of engine/protocol.go. */
type Reply = { report?: BundleReport; verdict?: { allow: boolean; violations: string[] }; tests: RegoTest[] | null } & {
  error?: { kind: RegoFailure["kind"] | "time"; message: string };
};
type Answer = { durationMs: number } & ({ ok: true; text: string; reply: Reply } | { ok: false; error: RegoFailure });

/** Reads nothing and starts no thread before the first call. */
export function createRegoEngine(options: EngineOptions): RegoEngine {
  const { timeMs, memoryBytes, threads, keepsReady, idleMs, memory } = options;
  let compiling: Promise<CompiledModule> | null = null;
  let module: CompiledModule | null = null;
  let living = 0;

  const pool = createPool<RegoTask, RegoTaskResult>({
    name: "Rego evaluations",
    size: threads,
    queueLimit: 256,
    laneLimit: 64,
    idleTimeoutMs: idleMs,
    keepsReady,
    memory: memory && {
      ...memory,
      bytesOf: ({ request, input }) => memoryBytes + THREAD_BYTES + request.length + bytesOfInput(input),
    },
    start() {
      if (module === null) throw new Error("the Rego engine is not compiled");
      const worker = options.start({ module, maxMemoryBytes: memoryBytes });
      living += 1;
      worker.once("exit", () => {
        living -= 1;
        const { waiting, running } = pool.load();
        if (living + waiting + running === 0) compiling = module = null;
      });
      return worker;
    },
  });

  async function call(name: EngineCall, order: Order, bounds: CallBounds): Promise<Answer> {
    const allowanceMs = Math.min(bounds.timeMs ?? timeMs, timeMs);
    const overallMs = bounds.overallMs ?? DEFAULT_OVERALL_MS;
    const endsAtMs = performance.timeOrigin + performance.now() + overallMs;
    const texts = { name, allowanceMs, overallMs, endsAtMs, memoryBytes };
    const fail = (message: string): Answer => ({ ok: false, error: { kind: "evaluate", message }, durationMs: 0 });
    compiling ??= compileEngine(memoryBytes);
    try {
      module = await compiling;
    } catch (error) {
      compiling = null;
      throw error;
    }
    const { input, timeNs, seed } = order;
    const task: RegoTask = { call: name, request: requestOf(order), input, timeNs, seed, allowanceMs, endsAtMs };
    try {
      const result = await pool.run(task, {
        ...(bounds.lane === undefined ? {} : { lane: bounds.lane }),
        allowanceMs: allowanceMs + GRACE_MS,
        deadlineMs: overallMs,
        signal: AbortSignal.timeout(overallMs + GRACE_MS),
        transfer: input === null ? [] : transferableOf("packed" in input ? input.packed : input),
      });
      const { durationMs } = result;
      if ("problem" in result) return { ...fail(describeProblem(result, texts)), durationMs };
      const reply = JSON.parse(result.reply) as Reply;
      if (reply.error === undefined) return { ok: true, text: result.reply, reply, durationMs };
      const { kind, message } = reply.error;
      if (kind === "time") return { ...fail(describeTime(texts, message)), durationMs };
      return { ok: false, error: { kind, message }, durationMs };
    } catch (error) {
      return fail(describeEnd(error, texts));
    }
  }

  return {
    check: async (files, bounds = {}) => outcomeOf(await call("check", { ...NO_QUESTION, files }, bounds), reportOf),
    evaluate: async (files, question, bounds = {}) =>
      outcomeOf(await call("evaluate", { ...question, files }, bounds), verdictOf),
    test: async (files, question, bounds = {}) =>
      outcomeOf(await call("test", { ...question, files, input: null }, bounds), testsOf),
    load: () => pool.load(),
    close: () => pool.terminate(),
  };
}

type Order = Omit<RegoQuestion, "input"> & { input: RegoInput | null; files: RegoFiles };
const NO_QUESTION: Omit<Order, "files"> = { params: "{}", timeNs: 0n, seed: "", input: null };

/** The JSON of engine/protocol.go. The copy has no prototype's `toJSON`. */
const requestOf = ({ files, params, timeNs, seed }: Order): Uint8Array =>
  Buffer.from(
    `{"files":{${Object.entries(files)
      .map(([path, source]) => `${JSON.stringify(path)}:${JSON.stringify(source)}`)
      .join()}},"params":${params},"time":"${timeNs}","seed":${JSON.stringify(seed)}}`,
  );

const bytesOfInput = (input: RegoInput | null): number =>
  input === null ? 0 : "packed" in input ? input.packed.length + input.bytes : input.length;

function outcomeOf<Value>(answer: Answer, pick: (reply: Reply, text: string) => Value): RegoOutcome<Value> {
  const { durationMs } = answer;
  return answer.ok
    ? { ok: true, value: pick(answer.reply, answer.text), durationMs }
    : { ok: false, error: answer.error, durationMs };
}

const reportOf = ({ report }: Reply): BundleReport => report as BundleReport;
const testsOf = ({ tests }: Reply): RegoTest[] => tests ?? [];

/** The outputs stay as the engine wrote them, so that numbers of any size stay what they are. */
function verdictOf({ verdict }: Reply, text: string): RegoVerdict {
  const { allow, violations } = verdict as { allow: boolean; violations: string[] };
  const members = new Map(memberTexts(new Map(memberTexts(text)).get("verdict") as string));
  return { allow, violations, outputs: members.get("outputs") as string };
}

type EngineFailure = Extract<EngineReply, { problem: string }>;
type Texts = { name: EngineCall; allowanceMs: number; overallMs: number; endsAtMs: number; memoryBytes: number };

const SUBJECTS: Readonly<Record<EngineCall, string>> = {
  check: "Loading the policy",
  evaluate: "The evaluation",
  test: "The tests",
};

function describeProblem({ problem, lastWords }: EngineFailure, { name, memoryBytes }: Texts): string {
  if (problem === "memory") return `${SUBJECTS[name]} needed more than ${memoryBytes / 2 ** 20} MiB of memory`;
  if (problem === "stack") return `${SUBJECTS[name]} nested or called functions too deeply`;
  return `${SUBJECTS[name]} ended the engine: ${lastWords}`;
}

/** A call ends after its own time, or when its caller waits no longer, whichever comes first. */
function describeTime({ name, allowanceMs, overallMs, endsAtMs }: Texts, place = ""): string {
  const isOver = performance.timeOrigin + performance.now() >= endsAtMs;
  const limit = isOver
    ? `did not end in the ${seconds(overallMs)} left for it`
    : `took longer than ${seconds(allowanceMs)}`;
  return `${SUBJECTS[name]} ${limit}${place === "" ? "" : `; stopped in ${place}`}`;
}

/** Why a call was ended from outside. @throws what is not the call's own doing */
function describeEnd(error: unknown, texts: Texts): string {
  if (error instanceof DeadlineError && !error.started)
    return `${SUBJECTS[texts.name]} waited longer than ${seconds(texts.overallMs)} for its turn`;
  if (error instanceof DeadlineError || (error instanceof Error && error.name === "TimeoutError"))
    return describeTime(texts);
  if (error instanceof WorkerDiedError)
    return error.began ? `${SUBJECTS[texts.name]} ended the engine` : "The engine could not be started";
  throw error;
}

const seconds = (milliseconds: number): string => `${Math.round(milliseconds / 100) / 10} s`;
