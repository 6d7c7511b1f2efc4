/**
 * jq itself, compiled to WebAssembly (package jq-wasm) and sandboxed. Runs in worker threads only: an expression may
 * never end, and then its thread is stopped (pool.ts).
 *
 * Invariants: every run has its own instance, so no data passes from one run to another. An expression sees its input
 * and the given time, and nothing else: no environment, no files (hence no modules), no clock, no host. The package's
 * glue code implements jq's system calls; the relevant ones are replaced by name below. If a name is missing in another
 * version of the package, the thread fails to start instead of running without the sandbox.
 */
import createJq from "jq-wasm/dist/build/jq.js";
import type { ExpressionRun } from "../../domain/attestation/custom.ts";

/** Memory of one instance. 10 MB of JSON, the most that a form may have, take about half of it. */
const MAX_MEMORY_BYTES = 160 * 1024 * 1024;
/** An expression can write any amount of diagnostics; only the first bytes are read. */
const MAX_DIAGNOSTICS_BYTES = 4_096;
const NO_SUCH_FILE = -44;

export type JqOrder = {
  expression: string;
  /** Concatenated JSON texts, each an input of its own. Empty to compile the expression without running it. */
  input: Uint8Array;
  /** The current time in the expression, in epoch seconds. */
  now: number;
  /** Most outputs; a further one aborts the run. */
  maxOutputs: number;
  /** Most bytes of output. */
  maxBytes: number;
};

type Call = (...values: number[]) => number;
type Imports = Record<string, Call>;
type Memory = { readonly buffer: ArrayBuffer };
type Instance = { readonly exports: Record<string, unknown> };
type Module = { readonly kind: "compiled module" };
/** The part of the engine's interface that is used here; Node's types do not declare it. */
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

/** Thrown in a system call to abort a run. */
class RunAborted extends Error {}

let module: Promise<Module> | null = null;

/**
 * The compiled module. The package embeds its binary in its code and exposes it only to the engine, so this intercepts
 * the engine once.
 */
function loadModule(): Promise<Module> {
  module ??= new Promise<Uint8Array>((resolve) => {
    const { instantiate } = engine;
    engine.instantiate = (bytes) => {
      engine.instantiate = instantiate;
      resolve(bytes);
      return new Promise(() => undefined);
    };
    void createJq();
  }).then((bytes) => engine.compile(bytes));
  return module;
}

/** The outputs of a run so far. */
type Streams = { stdout: Collector; stderr: Collector };

/** Runs an expression. Nothing that an expression does makes it throw. */
export async function runJq(order: JqOrder): Promise<ExpressionRun> {
  const compiled = await loadModule();
  const streams = { stdout: createCollector(order.maxBytes), stderr: createCollector(MAX_DIAGNOSTICS_BYTES) };
  const glue = (await createJq({
    thisProgram: "jq",
    instantiateWasm({ a: imports }, receive) {
      let memory: Memory | null = null;
      const instance = new engine.Instance(compiled, {
        a: sandboxCalls(imports, { order, streams, memory: () => memory as Memory }),
      });
      memory = Object.values(instance.exports).find((one) => one instanceof engine.Memory) ?? null;
      return receive(instance);
    },
  } satisfies GlueOptions)) as Glue;
  const exitCode = process.exitCode;
  let status: number | null = null;
  try {
    // jq takes the CR of Windows for a character that no expression may have.
    status = glue.callMain(["-c", "-M", "--", order.expression.replaceAll("\r\n", "\n")]);
  } catch {
    // Aborted above, out of stack, or a trap of the engine: in all cases the run has no result.
  } finally {
    // The glue sets the exit code of the process.
    process.exitCode = exitCode;
  }
  const lines = streams.stdout.text().split("\n");
  const last = lines.pop();
  const overflow = lines.length > order.maxOutputs || streams.stdout.isFull() || (status !== null && last !== "");
  return { outputs: lines.slice(0, order.maxOutputs), overflow, status, diagnostics: streams.stderr.text() };
}

/** A run, as its system calls see it. */
type Run = { order: JqOrder; streams: Streams; memory: () => Memory };
/** The system calls by name; each replacement gets the original. */
type Replacements = Record<string, (original: Call) => Call>;

/** The system calls of jq, with those replaced that reach outside the instance. */
function sandboxCalls(imports: Imports, run: Run): Imports {
  const calls = { ...imports };
  const replacements = {
    ...replaceStreams(run),
    ...replaceFiles(run),
    ...replaceTime(run, imports),
    ...replaceProcess(),
  };
  for (const [name, replace] of Object.entries(replacements)) {
    const [key, original] = Object.entries(imports).find(([, { name: own }]) => own === name) ?? [];
    if (key === undefined || original === undefined)
      throw new Error(`jq-wasm has no system call ${name}: this version of it is not supported`);
    calls[key] = replace(original);
  }
  return calls;
}

/** WebAssembly memory is little-endian. */
const LITTLE_ENDIAN = true;
const viewOf = ({ memory }: Run): DataView => new DataView(memory().buffer);
const writeUint32 = (run: Run, at: number, value: number): void => viewOf(run).setUint32(at, value, LITTLE_ENDIAN);
const writeInt32 = (run: Run, at: number, value: number): void => viewOf(run).setInt32(at, value, LITTLE_ENDIAN);

/** Calls `visit` for each buffer of an I/O vector, and returns the sum of its results. */
function sumVectors(
  run: Run,
  { at, count }: { at: number; count: number },
  visit: (address: number, length: number) => number,
): number {
  const view = viewOf(run);
  let sum = 0;
  for (let index = 0; index < count; index += 1) {
    const address = view.getUint32(at + 8 * index, LITTLE_ENDIAN);
    const length = view.getUint32(at + 8 * index + 4, LITTLE_ENDIAN);
    sum += visit(address, length);
  }
  return sum;
}

/** stdin, stdout and stderr. The package's own copy everything for every byte. */
function replaceStreams(run: Run): Replacements {
  const { order, streams, memory } = run;
  let read = 0;
  return {
    _fd_read: () => (_fd, at, count, result) => {
      const bytes = new Uint8Array(memory().buffer);
      const sum = sumVectors(run, { at: at as number, count: count as number }, (address, length) => {
        const piece = order.input.subarray(read, read + length);
        bytes.set(piece, address);
        read += piece.length;
        return piece.length;
      });
      writeUint32(run, result as number, sum);
      return 0;
    },
    _fd_write: () => (fd, at, count, result) => {
      const target = fd === 1 ? streams.stdout : streams.stderr;
      const sum = sumVectors(run, { at: at as number, count: count as number }, (address, length) => {
        target.add(new Uint8Array(memory().buffer, address, length));
        return length;
      });
      writeUint32(run, result as number, sum);
      if (streams.stdout.isFull() || streams.stdout.lines() > order.maxOutputs) throw new RunAborted();
      return 0;
    },
  };
}

/** No file exists, and the environment is empty. */
function replaceFiles(run: Run): Replacements {
  const fail = () => () => NO_SUCH_FILE;
  return {
    ___syscall_openat: fail,
    ___syscall_stat64: fail,
    ___syscall_lstat64: fail,
    ___syscall_newfstatat: fail,
    ___syscall_readlinkat: fail,
    _environ_sizes_get: () => (count, size) => {
      writeUint32(run, count as number, 0);
      writeUint32(run, size as number, 0);
      return 0;
    },
    _environ_get: () => () => 0,
  };
}

/** The clock shows the given time. Local time is UTC, so that verdicts do not depend on the server's location. */
function replaceTime(run: Run, imports: Imports): Replacements {
  const [, gmtime] = Object.entries(imports).find(([, { name }]) => name === "__gmtime_js") as [string, Call];
  return {
    _emscripten_date_now: () => () => run.order.now * 1000,
    __localtime_js: () => (low, high, at) => {
      gmtime(low as number, high as number, at as number);
      for (const offset of [LOCAL_TIME.isSummer, LOCAL_TIME.offset]) writeInt32(run, (at as number) + offset, 0);
      return 0;
    },
    __tzset_js: () => (offset, summer, standardName, summerName) => {
      writeInt32(run, offset as number, 0);
      writeInt32(run, summer as number, 0);
      for (const at of [standardName, summerName]) new Uint8Array(run.memory().buffer).set(UTC, at as number);
      return 0;
    },
  };
}

/** Bounds the memory, and ends a failing run without the glue's output on the console of the server. */
function replaceProcess(): Replacements {
  const abort = () => () => {
    throw new RunAborted();
  };
  return {
    _emscripten_resize_heap: (original) => (size) =>
      size === undefined || size >>> 0 > MAX_MEMORY_BYTES ? 0 : original(size),
    __abort_js: abort,
    ___assert_fail: abort,
  };
}

/** Offsets in the C library's `struct tm`. */
const LOCAL_TIME = { isSummer: 32, offset: 36 };
const UTC = new TextEncoder().encode("UTC\0");

type Collector = ReturnType<typeof createCollector>;

/** Collects at most `maxBytes` bytes. */
function createCollector(maxBytes: number) {
  const pieces: Uint8Array[] = [];
  let size = 0;
  let lines = 0;
  let dropped = false;
  return {
    add(bytes: Uint8Array): void {
      const piece = bytes.slice(0, maxBytes - size);
      dropped ||= piece.length < bytes.length;
      size += piece.length;
      for (const byte of piece) if (byte === NEWLINE) lines += 1;
      pieces.push(piece);
    },
    isFull: (): boolean => dropped,
    lines: (): number => lines,
    text: (): string => new TextDecoder().decode(Buffer.concat(pieces)),
  };
}

const NEWLINE = 10;
