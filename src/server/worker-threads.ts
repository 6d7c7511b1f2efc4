/** The worker threads: how each is started, and how much memory it may use. */
import { setFlagsFromString } from "node:v8";
import { Worker } from "node:worker_threads";
import type { WorkerOptions } from "node:worker_threads";
import { startEndable } from "../archive/compressors.ts";
import { resolveWorkerEntry } from "../assets.ts";
import { createPackageMaker } from "../audit-packages/package-maker.ts";
import type { PackageMaker } from "../audit-packages/package-maker.ts";
import type { PackageWorkerData } from "../audit-packages/package-worker.ts";
import type { RemoteEvidence } from "../audit-packages/remote-evidence-reader.ts";
import type { AnswerWorkerData } from "./answer-worker.ts";
import { processMemory } from "./process-memory.ts";
import { newPublicId } from "../clock.ts";
import { createAnswerReader } from "../http/answers/answer-reader.ts";
import type { AnswerReader, SpoolPool } from "../http/answers/answer-reader.ts";
import { createFreeBlocks } from "../http/answers/large-answers.ts";
import type { LargeJsonReader } from "../http/body/read-json.ts";
import type { RecordingPool } from "../jobs/recorder.ts";
import type { ConcurrencyLimit } from "../workers/concurrency-limit.ts";
import { createHashingThread } from "../evidence/hash-threads.ts";
import type { HashingThread } from "../evidence/hash-threads.ts";
import { createLargeJsonReader } from "../http/body/large-json-reader.ts";
import type { JsonPool } from "../http/body/large-json-reader.ts";
import type { SandboxResult, JqTask, SchemaTask } from "../workers/sandbox/sandbox-worker.ts";
import { createAttestationTypes } from "../workers/sandbox/attestation-types.ts";
import type { AttestationTypes } from "../workers/sandbox/attestation-types.ts";
import type { DocumentResult, DocumentTask } from "../workers/document-worker.ts";
import { REGO_LIMITS, REGO_THREAD_LIMITS, createRegoEngine } from "../rego/engine.ts";
import type { RegoWorkerData } from "../rego/rego-worker.ts";
import type { RegoEngine } from "../rego/types.ts";
import { createDocumentReader } from "../workers/documents.ts";
import type { DocumentReader } from "../workers/documents.ts";
import type { TemporaryFiles } from "../store/db/types.ts";
import { createPool } from "../workers/pool.ts";
import { acquireFrom } from "../workers/task-memory.ts";
import type { AcquireMemory, PoolMemory, ThreadMemory } from "../workers/task-memory.ts";
import type { PoolLoad } from "../workers/pool.ts";
import type { RecordingWorkerData } from "../jobs/recording-thread.ts";
import type { PreviewWorkerData } from "../jobs/policy-preview-thread.ts";
import type { PreviewPool } from "../jobs/policy-previews.ts";
import type { InputWorkerData } from "../jobs/evaluation-input-thread.ts";
import { createEvaluationInputs } from "../jobs/evaluation-inputs.ts";
import type { InputPool } from "../jobs/evaluation-inputs.ts";
import { createRegoDocuments } from "../rego/documents.ts";
import { createEvaluator } from "../rego/evaluator.ts";
import type { Timer } from "../domain/time.ts";
import type { Logger } from "../log.ts";
import type { GroupCommitWriter } from "../store/db/group-commit.ts";
import type { Store } from "../store/index.ts";

const MB = 1 << 20;

/** Each task of a pool takes the whole heap that its thread may have. */
const takeEach = (memory: ThreadMemory | null, heapMb: number): PoolMemory<unknown> | null =>
  memory && { ...memory, bytesOf: () => heapMb * MB };

/** Starts the thread that reads evidence. */
export const startEvidenceWorker = (options: WorkerOptions): Worker => startWorker("evidence/reader-worker", options);

/** Hashes evidence in a thread. */
export const openHashing = (): HashingThread =>
  createHashingThread(() =>
    startWorker("evidence/hash-worker", { env: {}, resourceLimits: { maxYoungGenerationSizeMb: 2 } }),
  );

/** Starts the thread that builds audit packages; the database must be open already. */
export const startPackageWorker = (options: WorkerOptions): Worker =>
  startWorker("audit-packages/package-worker", {
    ...options,
    // Its objects are short-lived, so a small young generation keeps its memory small.
    resourceLimits: { maxYoungGenerationSizeMb: 4, maxOldGenerationSizeMb: PACKAGE_HEAP_MB },
  });

/** The room for assembling one package. */
export const packageMemory = (memory: ThreadMemory): AcquireMemory => acquireFrom(memory, PACKAGE_HEAP_MB * MB);

/** Makes audit packages in a thread that starts on first use; the database must be open already. */
export const openPackages = (
  data: Omit<PackageWorkerData, "damaged" | "remote">,
  { remote, memory }: { remote: RemoteEvidence | null; memory: ThreadMemory },
): PackageMaker =>
  createPackageMaker({ data, remote, start: startPackageWorker, acquireMemory: packageMemory(memory) });

/** Starts the thread that makes one backup; the database must be open already. */
export const startBackupWorker = (options: WorkerOptions): Worker =>
  startWorker("backup/backup-worker", {
    ...options,
    resourceLimits: { maxYoungGenerationSizeMb: 4, maxOldGenerationSizeMb: BACKUP_HEAP_MB },
  });

/** The room for one backup. */
export const backupMemory = (memory: ThreadMemory): AcquireMemory => acquireFrom(memory, BACKUP_HEAP_MB * MB);

/**
 * The thread that records large reports on its own connection; the database must be open already. A report takes up to
 * 150 MB of heap. The heap limit lies above that, because V8 aborts the whole process when a single allocation exceeds
 * it; it still makes the collector run before garbage has doubled the heap.
 */
export const createRecordingPool = (
  directory: string,
  {
    checkpoints = "own",
    temporaryFiles = { directory, reserveBytes: 0 },
    memory = null,
  }: { checkpoints?: "own" | "external"; temporaryFiles?: TemporaryFiles; memory?: ThreadMemory | null } = {},
): RecordingPool =>
  createPool({
    name: "recording",
    // The recorder takes it for all orders of a report together.
    memory: takeEach(memory, 0),
    size: 1,
    queueLimit: 2,
    idleTimeoutMs: RECORDING_IDLE_MS,
    start: () =>
      startWorker("jobs/evaluation-worker", {
        workerData: { thread: "recording", directory, checkpoints, temporaryFiles } satisfies RecordingWorkerData,
        // It spends most of its time on checkpoints: a small young generation costs large reports little, and saves
        // more than ten megabytes.
        resourceLimits: { maxYoungGenerationSizeMb: 4, maxOldGenerationSizeMb: RECORDING_HEAP_MB },
      }),
  });

/** The room for recording one large report, from its text to its commit. */
export const recordingMemory = (memory: ThreadMemory): AcquireMemory => acquireFrom(memory, RECORDING_HEAP_MB * MB);

const RECORDING_HEAP_MB = 192;
const JSON_HEAP_MB = 160;
const SANDBOX_HEAP_MB = 192;
const DOCUMENT_HEAP_MB = 96;
const PREVIEW_HEAP_MB = 192;
const INPUT_HEAP_MB = 224;
const ANSWER_HEAP_MB = 192;
/** A trail with a hundred thousand attestations of different names takes 200 MB. */
const PACKAGE_HEAP_MB = 256;
/** Four times what a backup takes: it streams, and lists only the evidence that is missing. */
const BACKUP_HEAP_MB = 96;
/**
 * An idle thread never returns the memory that a large report left in its heap. Ending it does, and starting it again
 * takes a tenth of a second.
 */
const RECORDING_IDLE_MS = 30_000;

/**
 * The thread that reads large JSON. A single one: the largest valid body takes a tenth of a second, and two threads
 * would occupy both cores of a small machine. Its heap is twice what the limits of the operations allow.
 */
export function openLargeJson(
  turns: ConcurrencyLimit,
  memory: ThreadMemory | null = null,
): LargeJsonReader & { load(): PoolLoad; close(): Promise<void> } {
  const pool: JsonPool = createPool({
    name: "large JSON",
    memory: takeEach(memory, JSON_HEAP_MB),
    size: 1,
    queueLimit: 256,
    idleTimeoutMs: 10_000,
    start: () =>
      startWorker("http/body/json-worker", {
        env: {},
        resourceLimits: { maxOldGenerationSizeMb: JSON_HEAP_MB, maxYoungGenerationSizeMb: 4 },
      }),
  });
  return { ...createLargeJsonReader(pool, turns), load: pool.load, close: pool.close };
}

/**
 * Compiles and runs the schemas and rules of custom attestation types in threads that start on first use. Two of each
 * kind: while an endless rule occupies one for seconds, the other serves everyone else; more would take the server's
 * cores.
 */
export function openCustomTypes(memory: ThreadMemory | null = null): AttestationTypes & {
  load(): { schemas: PoolLoad; expressions: PoolLoad };
  close(): Promise<void>;
} {
  const pool = <Task>(name: string, stackSizeMb: number) =>
    createPool<Task, SandboxResult>({
      name,
      memory: takeEach(memory, SANDBOX_HEAP_MB),
      size: 2,
      queueLimit: 256,
      laneLimit: 64,
      // A rule may leave a hundred megabytes in the heap, and starting again takes a tenth of a second.
      idleTimeoutMs: 30_000,
      start: () =>
        startWorker("workers/sandbox/sandbox-worker", {
          env: {},
          resourceLimits: { maxOldGenerationSizeMb: SANDBOX_HEAP_MB, stackSizeMb },
        }),
    });
  const [schemas, expressions] = [
    pool<SchemaTask>("schemas of attestation types", SCHEMA_STACK_MB),
    pool<JqTask>("rules of attestation types", JQ_STACK_MB),
  ];
  return {
    ...createAttestationTypes({ schemas, expressions }),
    load: () => ({ schemas: schemas.load(), expressions: expressions.load() }),
    async close() {
      await Promise.all([schemas.close(), expressions.close()]);
    },
  };
}

/**
 * The engine of Rego evaluations, whose threads start with the first one: two at a time, so that one that is slow does
 * not keep all others waiting. A small machine has room for one, with half the memory, which does not stay for long.
 * @param options.available bytes of memory that the process may use
 * @param options.limits those of the configuration
 */
export function openRego({
  memory = null,
  available = processMemory(),
  limits = REGO_LIMITS,
}: {
  memory?: ThreadMemory | null;
  available?: number;
  limits?: typeof REGO_LIMITS;
} = {}): RegoEngine {
  const threads = countEngines(available);
  const isSmall = threads === 1;
  // Compiling functions once more that are called often takes a hundred megabytes for a second, also after the call has
  // ended. Without it, long evaluations and rules of custom types (jq) take up to 1.7 times as long.
  if (isSmall) for (const flag of ["--no-wasm-dynamic-tiering", "--no-wasm-tier-up"]) setFlagsFromString(flag);
  return createRegoEngine({
    ...limits,
    ...(isSmall && { memoryBytes: Math.min(limits.memoryBytes, SMALL_REGO_BYTES) }),
    start: startRegoWorker,
    threads,
    keepsReady: !isSmall,
    idleMs: isSmall ? 2_000 : 300_000,
    memory,
  });
}

/** Starts a thread of the engine, which has no environment, files or network. */
export const startRegoWorker = (workerData: RegoWorkerData): Worker =>
  startWorker("rego/rego-worker", { env: {}, workerData, resourceLimits: REGO_THREAD_LIMITS });

/** Evaluations at a time. @param available bytes of memory that the process may use */
const countEngines = (available: number): number => (available < SMALL_MACHINE_BYTES ? 1 : 2);

const SMALL_MACHINE_BYTES = 1_000_000_000;
const SMALL_REGO_BYTES = 128 * MB;

/** The thread that reads large templates and policies, started on first use. One file at a time bounds its memory. */
export function openDocuments(
  memory: ThreadMemory | null = null,
): DocumentReader & { load(): { documents: PoolLoad }; close(): Promise<void> } {
  const pool = createPool<DocumentTask, DocumentResult>({
    name: "documents",
    memory: takeEach(memory, DOCUMENT_HEAP_MB),
    size: 1,
    queueLimit: 64,
    laneLimit: 16,
    idleTimeoutMs: 30_000,
    // One and a half times what the most expensive known file takes. V8 may abort the whole process, and not only the
    // thread, when a heap is full, so the limits of the readers have to apply first.
    start: () =>
      startWorker("workers/document-worker", {
        env: {},
        resourceLimits: { maxOldGenerationSizeMb: DOCUMENT_HEAP_MB, maxYoungGenerationSizeMb: 8 },
      }),
  });
  return { ...createDocumentReader(pool), load: () => ({ documents: pool.load() }), close: () => pool.close() };
}

/**
 * The thread of the previews of policies and templates, started on first use; the database must be open already. A
 * single one leaves the other cores to requests.
 */
export const createPreviewPool = (directory: string, memory: ThreadMemory | null = null): PreviewPool =>
  createPool({
    name: "policy previews",
    memory: takeEach(memory, PREVIEW_HEAP_MB),
    size: 1,
    queueLimit: 64,
    laneLimit: 8,
    idleTimeoutMs: 30_000,
    start: () =>
      startWorker("jobs/evaluation-worker", {
        workerData: { thread: "policy previews", directory } satisfies PreviewWorkerData,
        // Twice what the largest policy and the facts of one artifact take.
        resourceLimits: { maxOldGenerationSizeMb: PREVIEW_HEAP_MB, maxYoungGenerationSizeMb: 8 },
      }),
  });

type EvaluationParts = {
  store: Store;
  writer: Pick<GroupCommitWriter, "run">;
  evidence: Parameters<typeof createRegoDocuments>[1];
  /** Seconds that one evaluation may take, and bytes of memory. */
  limits: { regoTime: number; regoMemory: number };
  recordDecision: Parameters<typeof createEvaluator>[0]["recordDecision"];
  /** Bytes of memory that the process may use. */
  available?: number;
  memory?: ThreadMemory | null;
  /** Epoch seconds. */
  now(): number;
  timer: Timer;
  logger: Logger;
};

/**
 * Opens Rego evaluations: the engine, what it reads, and the queue. Threads start on first use.
 * @param directory null over a database in memory, which a thread cannot open
 */
export function openEvaluations(directory: string | null, parts: EvaluationParts) {
  const { store, evidence, limits, memory = null, available = processMemory(), now, logger } = parts;
  const timeMs = limits.regoTime * 1_000;
  const engine = openRego({ memory, available, limits: { timeMs, memoryBytes: limits.regoMemory } });
  const documents = createRegoDocuments(store, evidence);
  const clock = (): number => performance.now();
  const evaluator = createEvaluator({ ...parts, engine, documents, timeMs, threads: countEngines(available), clock });
  const pool = directory === null ? null : createInputPool(directory, memory);
  return {
    check: engine.check,
    documents,
    evaluator,
    packInput: createEvaluationInputs({ store, pool, now, logger }).pack,
    load: () => ({ rego: engine.load(), ...(pool ? { evaluation_inputs: pool.load() } : {}) }),
    async close(): Promise<void> {
      evaluator.close();
      await engine.close();
      await evaluator.whenIdle();
      await pool?.close();
    },
  };
}

/** The database must be open already. One input at a time bounds the memory. */
const createInputPool = (directory: string, memory: ThreadMemory | null): InputPool =>
  createPool({
    name: "evaluation inputs",
    memory: takeEach(memory, INPUT_HEAP_MB),
    size: 1,
    queueLimit: 128,
    laneLimit: 16,
    idleTimeoutMs: 30_000,
    start: () =>
      startWorker("jobs/evaluation-worker", {
        workerData: { thread: "evaluation inputs", directory } satisfies InputWorkerData,
        // Pieces, text and bytes of the largest document, at the same time.
        resourceLimits: { maxOldGenerationSizeMb: INPUT_HEAP_MB, maxYoungGenerationSizeMb: 8 },
      }),
  });

/**
 * Makes large answers in a thread that starts on first use; the database must be open already. A single one leaves the
 * other cores to requests.
 * @param limits.reserveBytes free space that stays on the disk
 * @param staging where its files are made
 */
export function openAnswerReader({
  directory,
  staging,
  reserveBytes,
  memory = null,
}: {
  directory: string;
  staging: string;
  reserveBytes: number;
  memory?: ThreadMemory | null;
}): AnswerReader {
  const freeBlocks = createFreeBlocks(MAX_ANSWER_FILES_BYTES);
  const pool: SpoolPool = createPool({
    name: "large answers",
    memory: takeEach(memory, ANSWER_HEAP_MB),
    size: 1,
    queueLimit: 128,
    laneLimit: 64,
    idleTimeoutMs: 30_000,
    start: () =>
      startWorker("server/answer-worker", {
        workerData: { directory, freeBlocks, reserveBytes } satisfies AnswerWorkerData,
        // An answer is made piece by piece, so nearly all objects are short-lived. Those of a comparison live as long
        // as it: with 8 MB they were copied again and again, and two environments took 35 ms of processor time, not 26.
        resourceLimits: { maxYoungGenerationSizeMb: 24, maxOldGenerationSizeMb: ANSWER_HEAP_MB },
      }),
  });
  return createAnswerReader({ pool, directory: staging, newId: newPublicId, freeBlocks });
}

/** Files of answers that are made or sent, together: sixteen snapshots of 95,000 artifacts. */
const MAX_ANSWER_FILES_BYTES = 4 * 1024 ** 3;

/** A schema compiles to code that nests as deeply as its properties, and as its definitions reference each other. */
const SCHEMA_STACK_MB = 16;
/** Deep recursion fails on this stack, with an error, before it fills the one-megabyte stack inside jq's own memory. */
const JQ_STACK_MB = 1;

/** Starts a thread from its file in a checkout, or from the bundle in an executable. */
function startWorker(name: string, options: WorkerOptions): Worker {
  const entry = resolveWorkerEntry(name);
  return startEndable(() => new Worker(entry.source, { ...options, eval: entry.eval }));
}
