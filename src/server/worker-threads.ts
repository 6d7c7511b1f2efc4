/** The threads beside the main one: how each is started, and with how much memory. */
import { Worker } from "node:worker_threads";
import type { WorkerOptions } from "node:worker_threads";
import { resolveWorkerEntry } from "../assets.ts";
import type { LargeJsonReader } from "../http/body/read-json.ts";
import type { RecordingPool } from "../jobs/large-reports.ts";
import type { Places } from "../workers/concurrency-limit.ts";
import { createHashing } from "../evidence/hash-threads.ts";
import type { HashingThread } from "../evidence/hash-threads.ts";
import { createLargeJsonReader } from "../http/body/large-json-reader.ts";
import type { JsonPool } from "../http/body/large-json-reader.ts";
import type { CustomTypeResult, JqTask, SchemaTask } from "../workers/sandbox/sandbox-worker.ts";
import { createCustomTypes } from "../workers/sandbox/attestation-types.ts";
import type { CustomTypes } from "../workers/sandbox/attestation-types.ts";
import type { DocumentResult, DocumentTask } from "../workers/document-worker.ts";
import { createDocumentReader } from "../workers/documents.ts";
import type { DocumentReader } from "../workers/documents.ts";
import { createPool } from "../workers/pool.ts";
import type { PoolLoad } from "../workers/pool.ts";
import type { RecordingWorkerData } from "../jobs/large-reports-worker.ts";

/** Starts the thread that reads evidence. */
export const startEvidenceWorker = (options: WorkerOptions): Worker => startWorker("evidence/reader-worker", options);

/** Hashes evidence in a thread. */
export const openHashing = (): HashingThread =>
  createHashing(() =>
    startWorker("evidence/hash-worker", { env: {}, resourceLimits: { maxYoungGenerationSizeMb: 2 } }),
  );

/** Starts the thread that makes audit packages; the database must be open already. */
export const startPackageWorker = (options: WorkerOptions): Worker =>
  // What it makes lives for a moment: a small nursery keeps it small.
  startWorker("audit-packages/package-worker", { ...options, resourceLimits: { maxYoungGenerationSizeMb: 4 } });

/** Starts the thread that makes one backup; the database must be open already. */
export const startBackupWorker = (options: WorkerOptions): Worker =>
  startWorker("backup/backup-worker", { ...options, resourceLimits: { maxYoungGenerationSizeMb: 4 } });

/**
 * The thread that records large reports on a connection of its own; its database must be open already. What a report
 * may hold takes up to 150 MB of heap, its text up to 64: the bound is above that, because V8 ends the whole process
 * when a single allocation passes it. It makes the collector work before garbage has doubled it.
 */
export const createRecordingPool = (directory: string, checkpoints: "own" | "external" = "own"): RecordingPool =>
  createPool({
    name: "recording",
    size: 1,
    queueLimit: 2,
    keepIdle: RECORDING_IDLE_MS,
    start: () =>
      startWorker("jobs/large-reports-worker", {
        workerData: { directory, checkpoints } satisfies RecordingWorkerData,
        // Most of its life it copies the log: a small nursery costs large reports little, and saves ten megabytes and
        // more.
        resourceLimits: { maxYoungGenerationSizeMb: 4, maxOldGenerationSizeMb: RECORDING_HEAP_MB },
      }),
  });

const RECORDING_HEAP_MB = 256;
/**
 * An idle thread never gives back what a large report left in its heap; ending it does, and starting anew takes a tenth
 * of a second.
 */
const RECORDING_IDLE_MS = 30_000;

/**
 * The thread that reads large JSON. One: the largest body that is sound takes a tenth of a second, and two of them
 * beside each other would take both cores of a small machine. Its memory holds what the bounds of operations allow,
 * twice.
 */
export function openLargeJson(turns: Places): LargeJsonReader & { load(): PoolLoad; close(): Promise<void> } {
  const pool: JsonPool = createPool({
    name: "large JSON",
    size: 1,
    queueLimit: 256,
    keepIdle: 10_000,
    start: () =>
      startWorker("http/body/json-worker", {
        env: {},
        resourceLimits: { maxOldGenerationSizeMb: 160, maxYoungGenerationSizeMb: 4 },
      }),
  });
  return { ...createLargeJsonReader(pool, turns), load: pool.load, close: pool.close };
}

/**
 * What users wrote for their attestation types, compiled and run in threads that are started when they are first
 * needed. Two of a kind: one that somebody's endless rule holds for seconds leaves one for everybody else, and more
 * would take the server's cores.
 */
export function openCustomTypes(): CustomTypes & {
  load(): { schemas: PoolLoad; expressions: PoolLoad };
  close(): Promise<void>;
} {
  const pool = <Task>(name: string, stackSizeMb: number) =>
    createPool<Task, CustomTypeResult>({
      name,
      size: 2,
      queueLimit: 256,
      laneLimit: 64,
      // One rule may leave a hundred megabytes behind; starting anew takes a tenth of a second.
      keepIdle: 30_000,
      start: () =>
        startWorker("workers/sandbox/sandbox-worker", {
          env: {},
          resourceLimits: { maxOldGenerationSizeMb: 192, stackSizeMb },
        }),
    });
  const [schemas, expressions] = [
    pool<SchemaTask>("schemas of attestation types", SCHEMA_STACK_MB),
    pool<JqTask>("rules of attestation types", JQ_STACK_MB),
  ];
  return {
    ...createCustomTypes({ schemas, expressions }),
    load: () => ({ schemas: schemas.load(), expressions: expressions.load() }),
    async close() {
      await Promise.all([schemas.close(), expressions.close()]);
    },
  };
}

/**
 * The thread that reads large templates and policies, started when it is first needed. One file at a time, so that the
 * memory of one bounds that of all.
 */
export function openDocuments(): DocumentReader & { load(): { documents: PoolLoad }; close(): Promise<void> } {
  const pool = createPool<DocumentTask, DocumentResult>({
    name: "documents",
    size: 1,
    queueLimit: 64,
    laneLimit: 16,
    keepIdle: 30_000,
    // Half as much again as the most costly file that was found takes: V8 may end the whole process, and not only the
    // thread, when a heap is full, so the bounds of the readers come first.
    start: () =>
      startWorker("workers/document-worker", {
        env: {},
        resourceLimits: { maxOldGenerationSizeMb: 96, maxYoungGenerationSizeMb: 8 },
      }),
  });
  return { ...createDocumentReader(pool), load: () => ({ documents: pool.load() }), close: () => pool.close() };
}

/** Schemas become code that nests as deeply as they have properties, and definitions that refer to definitions. */
const SCHEMA_STACK_MB = 16;
/**
 * Deep recursion ends on this stack, with an error, before it fills the one of a megabyte that jq has inside its own
 * memory.
 */
const JQ_STACK_MB = 1;

/** From its file in a checkout, and from the bundle in an executable. */
function startWorker(name: string, options: WorkerOptions): Worker {
  const entry = resolveWorkerEntry(name);
  return new Worker(entry.source, { ...options, eval: entry.eval });
}
