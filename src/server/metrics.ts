/**
 * Metrics for Prometheus. Counters and histograms are fed where things happen; values that can be read (sizes, queue
 * lengths) are read on collection, which costs about a millisecond. Label values come from fixed sets of the server, or
 * from a table with a bound (unknown inputs), so clients cannot create series without end.
 */
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from "prom-client";
import type { MemoryLoad, MemoryUse } from "../http/memory/memory-budget.ts";
import type { Phase } from "../http/watchdog/request-progress.ts";
import { freeBytes } from "../store/db/disk-space.ts";
import type { metricsStore } from "../store/notifications/metrics-queries.ts";
import { walBytes } from "../store/db/wal.ts";
import type { PoolLoad } from "../workers/pool.ts";
import { requestMetrics, unknownReadings } from "./request-metrics.ts";
import type { FinishedRequest } from "./request-metrics.ts";

export type Metrics = {
  requestStarted(): void;
  /** The request was answered, or its client disconnected. */
  requestFinished(entry: FinishedRequest): void;
  /** A request that made no progress was ended, while it was in that phase. */
  requestHung(phase: Phase): void;
  /** So many streams of live updates are open (web/live.ts). */
  liveStreams(count: number): void;
  /** Bytes arrived that are not an HTTP request, and were refused. */
  malformedRequest(status: number): void;
  /** The writer finished a batch of so many writes. */
  batchEnded(batch: { writes: number; milliseconds: number; committed: boolean }): void;
  /** Damaged evidence was replaced by an upload of the same file. */
  evidenceRepaired(): void;
  /** All metrics in Prometheus's text format. */
  collect(): Promise<string>;
  readonly contentType: string;
};

export type MetricSources = {
  figures: ReturnType<typeof metricsStore>;
  /** The data directory; null over a database in memory. */
  directory: string | null;
  /** Epoch seconds. */
  now(): number;
  build: { version: string; commit: string | null };
  /** All kinds of jobs, so that an empty queue is reported as 0. */
  jobKinds(): readonly string[];
  /** By pool name. */
  pools(): Readonly<Record<string, PoolLoad>>;
  /** Of the memory budget. */
  memory: { readonly total: number; load(): Readonly<Record<MemoryUse, MemoryLoad>> };
  /** Whether the server is in read-only mode. */
  readOnly?(): boolean;
  /** How long another process has held the write lock, in milliseconds; 0 if none does. */
  lockHeldMs?(): number;
  /** When the latest backup succeeded, in epoch seconds; null: none has. */
  lastBackupAt?(): number | null;
  /** When the server's certificate expires, in epoch seconds; null: it has none. */
  certificateEndsAt?(): number | null;
  /** 1 while evidence storage elsewhere answers, else 0; null: not known, or there is none. */
  evidenceUp?(): number | null;
};

/** Seconds. A commit is one fsync. */
const COMMIT_BUCKETS_S = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5];
/** Writes. A batch has at most 64. */
const BATCH_BUCKETS = [1, 2, 4, 8, 16, 32, 64];
/** Milliseconds between two samples of the event loop's delay. */
const EVENT_LOOP_SAMPLE_MS = 20;

/**
 * Default gauges with the name of a counter, which promtool rejects. Each is the sum of another metric that stays, such
 * as nodejs_active_handles.
 */
const MISNAMED_DEFAULTS = [
  "nodejs_active_handles_total",
  "nodejs_active_requests_total",
  "nodejs_active_resources_total",
];

export function createMetrics(sources: MetricSources): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: EVENT_LOOP_SAMPLE_MS });
  for (const name of MISNAMED_DEFAULTS) registry.removeSingleMetric(name);
  const { setInFlight, ...requests } = requestMetrics(registry);
  const { batchEnded, evidenceRepaired } = writeMetrics(registry);
  const definitions = [
    databaseReadings,
    queueReadings,
    workerReadings,
    memoryReadings,
    unknownReadings,
    optionalReadings,
  ];
  const readings = definitions.map((define) => define(registry, sources));
  const readDisk = diskReadings(registry, sources);
  addGauge(registry, {
    name: "assay_build_info",
    help: "The running program; always 1",
    labelNames: ["version", "commit", "node"],
  }).set({ version: sources.build.version, commit: sources.build.commit ?? "unknown", node: process.versions.node }, 1);
  return {
    contentType: registry.contentType,
    ...requests,
    batchEnded,
    evidenceRepaired,
    async collect() {
      setInFlight();
      for (const read of readings) readSafely(read);
      await readDisk();
      return registry.metrics();
    },
  };
}

/** Takes a reading. One that fails keeps its last values: that the database cannot be read must not hide the rest. */
function readSafely(read: () => void): void {
  try {
    read();
  } catch {
    // Requests that need the database tell in the log.
  }
}

const addGauge = (registry: Registry, gauge: { name: string; help: string; labelNames?: string[] }) =>
  new Gauge({ ...gauge, registers: [registry] });

function writeMetrics(registry: Registry): Pick<Metrics, "batchEnded" | "evidenceRepaired"> {
  const registers = [registry];
  const batchSize = new Histogram({
    name: "assay_commit_batch_size",
    help: "Writes that shared a commit",
    buckets: BATCH_BUCKETS,
    registers,
  });
  const duration = new Histogram({
    name: "assay_commit_duration_seconds",
    help: "Time from the start of a batch of writes to the end of its commit",
    buckets: COMMIT_BUCKETS_S,
    registers,
  });
  const failures = new Counter({
    name: "assay_commit_failures_total",
    help: "Batches of writes that could not be committed; their clients got an error",
    registers,
  });
  const repairs = new Counter({
    name: "assay_evidence_repairs_total",
    help: "Damaged evidence that was replaced by an upload of the same file",
    registers,
  });
  return {
    evidenceRepaired: () => repairs.inc(),
    batchEnded({ writes, milliseconds, committed }) {
      if (!committed) return failures.inc();
      batchSize.observe(writes);
      duration.observe(milliseconds / 1000);
    },
  };
}

/** Defines gauges. The returned function reads their values, on each collection. */
function databaseReadings(registry: Registry, { figures }: MetricSources): () => void {
  const bytes = addGauge(registry, { name: "assay_database_bytes", help: "Size of the database file" });
  const free = addGauge(registry, {
    name: "assay_database_free_bytes",
    help: "Bytes of unused pages in the database file",
  });
  const evidenceFiles = addGauge(registry, {
    name: "assay_evidence_files",
    help: "Distinct evidence files that attestations reference",
  });
  const evidenceBytes = addGauge(registry, { name: "assay_evidence_bytes", help: "Bytes of these evidence files" });
  const smallFiles = addGauge(registry, {
    name: "assay_evidence_in_database_files",
    help: "Those of the evidence files whose content is in the database",
  });
  const smallBytes = addGauge(registry, {
    name: "assay_evidence_in_database_bytes",
    help: "Bytes of the evidence in the database",
  });
  return () => {
    const space = figures.readSpace();
    bytes.set(space.bytes);
    free.set(space.free);
    const evidence = figures.summarizeEvidence();
    evidenceFiles.set(evidence.files);
    evidenceBytes.set(evidence.bytes);
    smallFiles.set(evidence.inDatabase);
    smallBytes.set(evidence.bytesInDatabase);
  };
}

function queueReadings(registry: Registry, { figures, jobKinds, now }: MetricSources): () => void {
  const jobs = addGauge(registry, { name: "assay_jobs", help: "Jobs waiting or running", labelNames: ["kind"] });
  const overdue = addGauge(registry, {
    name: "assay_jobs_overdue_seconds",
    help: "How long the most overdue job has been due; 0: none is due",
  });
  const failing = addGauge(registry, {
    name: "assay_jobs_failing",
    help: "Jobs whose last attempt failed and that will be retried",
  });
  const deliveries = addGauge(registry, {
    name: "assay_deliveries",
    help: "Outgoing messages waiting, or dead",
    labelNames: ["state"],
  });
  const oldest = addGauge(registry, {
    name: "assay_deliveries_oldest_seconds",
    help: "How long the oldest outgoing message has been waiting; 0: none is waiting",
  });
  return () => {
    const at = now();
    const pending = figures.listJobs();
    jobs.reset();
    for (const kind of jobKinds()) jobs.set({ kind }, 0);
    for (const { kind, count } of pending) jobs.set({ kind }, count);
    overdue.set(pending.reduce((longest, { due_at }) => Math.max(longest, at - due_at), 0));
    failing.set(figures.countFailingJobs());
    const messages = figures.summarizeDeliveries();
    deliveries.set({ state: "waiting" }, messages.waiting);
    deliveries.set({ state: "dead" }, messages.dead);
    oldest.set(messages.oldest === null ? 0 : Math.max(0, at - messages.oldest));
  };
}

function workerReadings(registry: Registry, { pools }: MetricSources): () => void {
  const tasks = addGauge(registry, {
    name: "assay_worker_tasks",
    help: "Tasks of the worker threads",
    labelNames: ["pool", "state"],
  });
  return () => {
    for (const [pool, load] of Object.entries(pools())) {
      tasks.set({ pool, state: "waiting" }, load.waiting);
      tasks.set({ pool, state: "running" }, load.running);
    }
  };
}

function memoryReadings(registry: Registry, { memory }: MetricSources): () => void {
  const labelNames = ["use"];
  addGauge(registry, {
    name: "assay_memory_budget_bytes",
    help: "Size of the memory budget: large bodies, large responses and tasks of threads together",
  }).set(memory.total);
  const held = addGauge(registry, {
    name: "assay_memory_budget_held_bytes",
    help: "Bytes of the memory budget in use",
    labelNames,
  });
  const waiting = addGauge(registry, {
    name: "assay_memory_budget_waiting",
    help: "What waits for room in the memory budget: bodies, and pools of threads",
    labelNames,
  });
  const refusals = new Counter({
    name: "assay_memory_budget_refusals_total",
    help: "Requests refused with 429 because the memory budget had no room",
    labelNames,
    registers: [registry],
  });
  return () => {
    refusals.reset();
    for (const [use, load] of Object.entries(memory.load())) {
      held.set({ use }, load.bytes);
      waiting.set({ use }, load.waiting);
      refusals.inc({ use }, load.refused);
    }
  };
}

/** Gauges that exist only where their source does. */
function optionalReadings(
  registry: Registry,
  { readOnly, lockHeldMs, lastBackupAt, certificateEndsAt, evidenceUp }: MetricSources,
): () => void {
  const optional = (name: string, help: string, read: (() => number | null) | undefined) =>
    read ? [{ gauge: addGauge(registry, { name, help }), read }] : [];
  const gauges = [
    ...optional(
      "assay_read_only",
      "Whether the server is in read-only mode: 1 or 0",
      readOnly && (() => Number(readOnly())),
    ),
    ...optional(
      "assay_write_lock_held_seconds",
      "How long another process has held the write lock of the database; 0: none does",
      lockHeldMs && (() => lockHeldMs() / 1_000),
    ),
    ...optional(
      "assay_backup_last_success_timestamp_seconds",
      "When the latest backup succeeded; absent until one has",
      lastBackupAt,
    ),
    ...optional(
      "assay_certificate_end_timestamp_seconds",
      "When the server's certificate expires; absent without a certificate",
      certificateEndsAt,
    ),
    ...optional("assay_evidence_storage_up", "Whether evidence storage elsewhere answers: 1 or 0", evidenceUp),
  ];
  return () => {
    for (const { gauge, read } of gauges) {
      const value = read();
      // A gauge without labels starts at 0, which would be a moment in 1970.
      if (value === null) gauge.remove();
      else gauge.set(value);
    }
  };
}

function diskReadings(registry: Registry, { directory }: MetricSources): () => Promise<void> {
  const walSize = addGauge(registry, { name: "assay_wal_bytes", help: "Size of the write-ahead log" });
  const diskFree = addGauge(registry, {
    name: "assay_disk_free_bytes",
    help: "Free space of the file system with the data directory",
  });
  return async () => {
    if (directory === null) return;
    walSize.set(walBytes(directory));
    diskFree.set(await freeBytes(directory));
  };
}
