/**
 * jq, the real one, compiled to WebAssembly (package jq-wasm) and confined. Runs in worker threads only: an expression
 * may never end, and then its thread is stopped (pool.ts).
 *
 * Invariants: every run has an instance of its own, so nothing of one input reaches another; what an expression sees is
 * its input and the time it is given, and nothing else: no environment, no files (hence no modules), no clock, no host.
 * The package's glue serves the system calls of jq; those that matter are replaced by name below, and a name that is
 * missing in another version of the package ends the thread's start instead of opening a door.
 */
import createJq from "jq-wasm/dist/build/jq.js";
import type { ExpressionRun } from "../../domain/attestation/custom.ts";

/** Memory of one instance, in bytes. 10 MB of JSON, the most that a form may bring, take about half of it. */
const MEMORY_LIMIT = 160 * 1024 * 1024;
/** Most bytes of diagnostics that are kept; an expression can write any amount of them. */
const DIAGNOSTICS = 4_096;
const NO_SUCH_FILE = -44;

export type JqOrder = {
  expression: string;
  /**
   * JSON texts, one after the other; each is an input of its own. Nothing at all: the expression is compiled and not
   * run.
   */
  input: Uint8Array;
  /** What jq takes for the present, epoch seconds. */
  now: number;
  /** The most outputs wanted; one more ends the run. */
  maxOutputs: number;
  /** The most bytes of output. */
  maxBytes: number;
};

type Call = (...values: number[]) => number;
type Imports = Record<string, Call>;
type Memory = { readonly buffer: ArrayBuffer };
type Instance = { readonly exports: Record<string, unknown> };
type Module = { readonly kind: "compiled module" };
/** The part of the engine's interface that is used here; the types of Node know none of it. */
type Engine = {
  Memory: new () => Memory;
  Instance: new (module: Module, imports: { a: Imports }) => Instance;
  compile(bytes: Uint8Array): Promise<Module>;
  instantiate(bytes: Uint8Array, imports: object): Promise<unknown>;
};
type Glue = { callMain(args: string[]): number };
type GlueOptions = {
  thisProgram: string;
  instantiateWasm: (imports: { a: Imports }, receive: (instance: Instance) => object) => object;
};

const engine = (globalThis as unknown as { WebAssembly: Engine }).WebAssembly;

/** Ends a run from inside a system call. */
class Ended extends Error {}

let binary: Promise<Module> | null = null;

/** The package keeps its binary in its code; it shows it only where it hands it to the engine. */
function compiled(): Promise<Module> {
  binary ??= new Promise<Uint8Array>((resolve) => {
    const { instantiate } = engine;
    engine.instantiate = (bytes) => {
      engine.instantiate = instantiate;
      resolve(bytes);
      return new Promise(() => undefined);
    };
    void createJq();
  }).then((bytes) => engine.compile(bytes));
  return binary;
}

/** Runs an expression. Never throws for what an expression does. */
export async function runJq(order: JqOrder): Promise<ExpressionRun> {
  const module = await compiled();
  const written = { out: collector(order.maxBytes), err: collector(DIAGNOSTICS) };
  const glue = (await createJq({
    thisProgram: "jq",
    instantiateWasm({ a: imports }, receive) {
      let memory: Memory | null = null;
      const instance = new engine.Instance(module, { a: confined(imports, order, written, () => memory as Memory) });
      memory = Object.values(instance.exports).find((one) => one instanceof engine.Memory) ?? null;
      return receive(instance);
    },
  } satisfies GlueOptions)) as Glue;
  const exitCode = process.exitCode;
  let status: number | null = null;
  try {
    status = glue.callMain(["-c", "-M", "--", order.expression]);
  } catch {
    // Ended above, out of stack, or a trap of the engine: the run has no result, whatever it was.
  } finally {
    // The glue takes the process for its own.
    process.exitCode = exitCode;
  }
  const lines = written.out.text().split("\n");
  const last = lines.pop();
  const overflow = lines.length > order.maxOutputs || written.out.full() || (status !== null && last !== "");
  return { outputs: lines.slice(0, order.maxOutputs), overflow, status, diagnostics: written.err.text() };
}

/** The system calls of jq, with those replaced that lead out of the instance. */
function confined(
  imports: Imports,
  order: JqOrder,
  written: { out: Collector; err: Collector },
  memory: () => Memory,
): Imports {
  const calls = { ...imports };
  const replace = (name: string, make: (original: Call) => Call): void => {
    const [key, original] = Object.entries(imports).find(([, { name: own }]) => own === name) ?? [];
    if (key === undefined || original === undefined)
      throw new Error(`jq-wasm has no system call ${name}: this version of it is not known`);
    calls[key] = make(original);
  };
  let read = 0;
  const view = (): DataView => new DataView(memory().buffer);
  /** Calls `each` with the address and length of every buffer of a vector; gives the sum of what that returns. */
  const vectors = (at: number, count: number, each: (address: number, length: number) => number): number => {
    const numbers = view();
    let sum = 0;
    for (let i = 0; i < count; i++)
      sum += each(numbers.getUint32(at + 8 * i, true), numbers.getUint32(at + 8 * i + 4, true));
    return sum;
  };

  // The package's own stdin and stdout copy everything for every byte.
  replace("_fd_read", () => (_fd, at, count, result) => {
    const bytes = new Uint8Array(memory().buffer);
    const sum = vectors(at as number, count as number, (address, length) => {
      const piece = order.input.subarray(read, read + length);
      bytes.set(piece, address);
      read += piece.length;
      return piece.length;
    });
    view().setUint32(result as number, sum, true);
    return 0;
  });
  replace("_fd_write", () => (fd, at, count, result) => {
    const target = fd === 1 ? written.out : written.err;
    const sum = vectors(at as number, count as number, (address, length) => {
      target.add(new Uint8Array(memory().buffer, address, length));
      return length;
    });
    view().setUint32(result as number, sum, true);
    if (written.out.full() || written.out.lines() > order.maxOutputs) throw new Ended();
    return 0;
  });
  for (const name of [
    "___syscall_openat",
    "___syscall_stat64",
    "___syscall_lstat64",
    "___syscall_newfstatat",
    "___syscall_readlinkat",
  ])
    replace(name, () => () => NO_SUCH_FILE);
  replace("_environ_sizes_get", () => (count, size) => {
    view().setUint32(count as number, 0, true);
    view().setUint32(size as number, 0, true);
    return 0;
  });
  replace("_environ_get", () => () => 0);
  replace("_emscripten_date_now", () => () => order.now * 1000);
  // Local time is UTC: a verdict does not depend on where the server stands.
  const [, universal] = Object.entries(imports).find(([, { name }]) => name === "__gmtime_js") as [string, Call];
  replace("__localtime_js", () => (low, high, at) => {
    universal(low as number, high as number, at as number);
    for (const offset of [LOCAL_TIME.isSummer, LOCAL_TIME.offset]) view().setInt32((at as number) + offset, 0, true);
    return 0;
  });
  replace("__tzset_js", () => (offset, summer, standardName, summerName) => {
    view().setInt32(offset as number, 0, true);
    view().setInt32(summer as number, 0, true);
    for (const at of [standardName, summerName]) new Uint8Array(memory().buffer).set(UTC, at as number);
    return 0;
  });
  replace(
    "_emscripten_resize_heap",
    (original) => (size) => (size === undefined || size >>> 0 > MEMORY_LIMIT ? 0 : original(size)),
  );
  // The glue would write to the console of the server.
  for (const name of ["__abort_js", "___assert_fail"])
    replace(name, () => () => {
      throw new Ended();
    });
  return calls;
}

/** Offsets in the C library's `struct tm`. */
const LOCAL_TIME = { isSummer: 32, offset: 36 };
const UTC = new TextEncoder().encode("UTC\0");

type Collector = ReturnType<typeof collector>;

/** Collects bytes, at most `limit` of them. */
function collector(limit: number) {
  const pieces: Uint8Array[] = [];
  let size = 0;
  let lines = 0;
  let dropped = false;
  return {
    add(bytes: Uint8Array): void {
      const piece = bytes.slice(0, limit - size);
      dropped ||= piece.length < bytes.length;
      size += piece.length;
      for (const byte of piece) if (byte === NEWLINE) lines += 1;
      pieces.push(piece);
    },
    full: (): boolean => dropped,
    lines: (): number => lines,
    text: (): string => new TextDecoder().decode(Buffer.concat(pieces)),
  };
}

const NEWLINE = 10;
