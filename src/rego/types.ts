/** What the engine of Rego evaluations takes and returns. */
import type { RegoFiles } from "../domain/rego/bundle.ts";
import type { PoolLoad } from "../workers/pool.ts";

/** Why the engine has no result (newer-clients 6.5). */
type RegoFailureKind = "no_policy" | "entrypoint" | "compile" | "input_shape" | "result_shape" | "evaluate";
/** `message`: the engine's text, with file and line, a line for each error; at most 4 KB. */
export type RegoFailure = { kind: RegoFailureKind; message: string };

/**
 * What a bundle is, without running it. `package`: without `data.`; `outputs`: the rules that are annotated as entry
 * points, without `allow`; `params`: the names read below `data.params`, null where some are computed; `warnings`:
 * `FILE:LINE: TEXT`.
 */
export type BundleReport = { package: string; outputs: string[]; params: string[] | null; warnings: string[] };

/** `outputs`: a JSON object as text, with numbers as the policy has them, by the names of rules. */
export type RegoVerdict = { allow: boolean; violations: string[]; outputs: string };

/** A rule that tests a policy. `message`: what it printed, or why it could not run. */
export type RegoTest = {
  package: string;
  name: string;
  file: string;
  line: number;
  outcome: "pass" | "fail" | "error" | "skip";
  message: string;
};

/** `durationMs`: of the engine alone, without waiting for it. */
export type RegoOutcome<Value> = { durationMs: number } & (
  | { ok: true; value: Value }
  | { ok: false; error: RegoFailure }
);

/** JSON in UTF-8, or the gzip of a document of so many bytes, which the thread of the engine unpacks. */
export type RegoInput = Uint8Array | { packed: Uint8Array; bytes: number };

/** What an evaluation is about, besides the bundle. */
export type RegoQuestion = {
  /** The input document. A buffer that holds nothing else is moved to the engine, and empty then. */
  input: RegoInput;
  /** A JSON object as text, for `data.params`. */
  params: string;
  /** `time.now_ns()` and `data.kosli.evaluation_time`: nanoseconds since the epoch. */
  timeNs: bigint;
  /** Decides `rand.intn` and `uuid.rfc4122`: equal seeds, equal results. */
  seed: string;
};

/** Bounds of one call. */
export type CallBounds = {
  /** Whose call it is: callers take turns (workers/pool.ts). */
  lane?: string;
  /** Milliseconds that the engine may take; the limit of the engine at most. */
  timeMs?: number;
  /** Milliseconds from now in which the call ends, with all waiting. */
  overallMs?: number;
};

/**
 * Whatever a policy does is an outcome. A call rejects only when the engine cannot take it: QueueFullError or
 * PoolClosedError of workers/pool.ts, or an error of the engine's own files.
 */
export type RegoEngine = {
  /** Loads a bundle without running it (newer-clients 5.3). */
  check(files: RegoFiles, bounds?: CallBounds): Promise<RegoOutcome<BundleReport>>;
  /** Runs a policy on an input (newer-clients 6). */
  evaluate(files: RegoFiles, question: RegoQuestion, bounds?: CallBounds): Promise<RegoOutcome<RegoVerdict>>;
  /** Runs the tests of a bundle. `input` is not used: tests bring their own. */
  test(files: RegoFiles, question: Omit<RegoQuestion, "input">, bounds?: CallBounds): Promise<RegoOutcome<RegoTest[]>>;
  load(): PoolLoad;
  /** Ends the threads, with what runs in them: its calls reject with PoolClosedError. */
  close(): Promise<void>;
};
