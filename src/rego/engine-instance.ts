/**
 * An instance of the engine. Only worker threads use it, because a call blocks for as long as it takes.
 *
 * Go's loader (engine/wasm_exec.js) runs in a context of its own, which has what the loader asks for and nothing else:
 * no files, no network, no process. Its clock stands at the time of the evaluation, and its randomness comes from the
 * seed, so that equal calls have equal replies.
 */
import { hash } from "node:crypto";
import { createContext, runInContext } from "node:vm";
import { readTextAsset } from "../assets.ts";
import { webAssembly } from "./web-assembly.ts";
import type { CompiledModule, Memory } from "./web-assembly.ts";

export type EngineCall = "check" | "evaluate" | "test";

/** `timeNs`: what the engine takes for the present, in nanoseconds since the epoch. */
type CallOptions = { seed: string; timeNs: bigint; isOver: () => boolean; input: Uint8Array | null };

type EngineInstance = {
  /**
   * Runs one function of the engine. After a problem the instance is unusable.
   * @param request JSON (engine/protocol.go)
   * @param options.isOver asked often: whether the call is to be cancelled
   */
  call(name: EngineCall, request: Uint8Array, options: CallOptions): EngineReply;
  /** Bytes of memory that the instance has taken; it never returns any. */
  memoryBytes(): number;
};

/** The JSON of the reply; or why there is none, and what the engine said about that, which is one line. */
export type EngineReply = { reply: string } | { problem: EngineProblem; lastWords: string };
/** No memory was left, calls were nested too deeply, or anything else. */
type EngineProblem = "memory" | "stack" | "fault";

/** The loader, of which the engine uses these parts (engine/wasm_exec.js). */
type Loader = {
  importObject: { gojs: Record<string, (stackPointer: number) => void> };
  mem: DataView;
  exited: boolean;
  exit: (code: number) => void;
  run(instance: object): Promise<void>;
};

/** The functions of engine/main.go. */
type Exports = Record<EngineCall, (...values: unknown[]) => unknown>;

/** From this share of the memory on, Go's collector runs more often. */
const SOFT_LIMIT_SHARE = 0.8;
/** Of what the engine writes about its end, of which the first lines tell the reason. */
const MAX_LAST_WORDS_CHARS = 4_096;

export function createEngineInstance(module: CompiledModule, maxMemoryBytes: number): EngineInstance {
  let lastWords = "";
  const hear = (...words: unknown[]): void => {
    if (lastWords.length < MAX_LAST_WORDS_CHARS) lastWords += `${words.join(" ").slice(0, MAX_LAST_WORDS_CHARS)}\n`;
  };
  const random = createRandom();
  const globals: Record<string, unknown> = {
    TextEncoder,
    TextDecoder,
    Uint8Array,
    WebAssembly: webAssembly,
    performance: { now: () => performance.now() },
    crypto: { getRandomValues: random.fill },
    console: { log: hear, warn: hear },
    setTimeout: (callback: () => void, ms: number) => setTimeout(callback, ms),
    clearTimeout: (timer: NodeJS.Timeout) => clearTimeout(timer),
    softMemoryLimit: maxMemoryBytes * SOFT_LIMIT_SHARE,
  };
  createContext(globals, { codeGeneration: { strings: false } });
  runInContext(readTextAsset("rego/wasm_exec.js"), globals, { filename: "wasm_exec.js" });

  const loader = new (globals["Go"] as new () => Loader)();
  const clock = holdClock(loader);
  loader.exit = () => undefined;
  const instance = new webAssembly.Instance(module, loader.importObject);
  const memory: Memory = instance.exports.mem;
  // It returns when the engine waits for its first call, and ends with the engine.
  loader.run(instance).catch(hear);
  const engine = globals["engine"] as Exports | undefined;
  if (engine === undefined) throw new Error(`the Rego engine does not start: ${lastWords}`);

  return {
    call(name, request, { seed, timeNs, isOver, input }) {
      clock.set(timeNs);
      random.reset(seed);
      try {
        const reply = engine[name](request, isOver, input);
        if (typeof reply === "string" && !loader.exited) return { reply };
      } catch (error) {
        hear(error);
      }
      return { problem: nameProblem(lastWords), lastWords: lastWords.trim().split("\n", 1)[0] ?? "" };
    },
    memoryBytes: () => memory.buffer.byteLength,
  };
}

function nameProblem(lastWords: string): EngineProblem {
  if (/out of memory|cannot allocate memory/.test(lastWords)) return "memory";
  return /Maximum call stack|stack exceeds|stack overflow/.test(lastWords) ? "stack" : "fault";
}

/** Replaces the wall clock of the loader by one that stands still. */
function holdClock(loader: Loader): { set(ns: bigint): void } {
  let time = 0n;
  loader.importObject.gojs["runtime.walltime"] = (stackPointer) => {
    const at = (stackPointer >>> 0) + 8;
    loader.mem.setBigInt64(at, time / NS_PER_S, LITTLE_ENDIAN);
    loader.mem.setInt32(at + 8, Number(time % NS_PER_S), LITTLE_ENDIAN);
  };
  return { set: (ns) => void (time = ns) };
}

const NS_PER_S = 1_000_000_000n;
const LITTLE_ENDIAN = true;

/** Bytes that a seed decides: the SHA-256 of it and a counter, one after the other. */
function createRandom() {
  let [seed, counter] = ["", 0];
  return {
    reset(next: string): void {
      [seed, counter] = [next, 0];
    },
    fill(target: Uint8Array): void {
      for (let at = 0; at < target.length; at += 32) {
        const block = Buffer.from(hash("sha256", `${seed}\0${counter}`, "buffer"));
        target.set(block.subarray(0, target.length - at), at);
        counter += 1;
      }
    },
  };
}
