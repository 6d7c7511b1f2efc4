/**
 * Metrics for Prometheus. Counters and histograms are fed where things happen; what can be looked up (sizes, queues) is
 * looked up when somebody collects, and costs a millisecond then. Labels have few values, all of them ours: a caller
 * cannot make new series.
 */
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from "prom-client";
import type { RequestEntry } from "../log.ts";
import { freeBytes } from "../store/db/disk-space.ts";
import type { metricsStore } from "../store/db/metrics-queries.ts";
import { walBytes } from "../store/db/wal.ts";
import type { PoolLoad } from "../workers/pool.ts";

export type Metrics = {
  /** A request came ... */
  requestCame(): void;
  /** ... and was answered, or its client is gone. */
  requestDone(entry: Pick<RequestEntry, "route" | "status" | "duration_ms" | "bytes_in" | "bytes_out">): void;
  /** Bytes came that are no request, and were refused. */
  refused(status: number): void;
  /** The writer ended a batch. */
  batchEnded(writes: number, milliseconds: number, committed: boolean): void;
  /** Everything in Prometheus's text format. */
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
  /** Kinds of jobs there are, so that those of which none waits are told as 0. */
  jobKinds(): readonly string[];
  /** By name of the pool. */
  pools(): Readonly<Record<string, PoolLoad>>;
  /** Whether the server takes no writes at present. */
  readOnly?(): boolean;
  /** When the latest backup succeeded, epoch seconds; null: none did. */
  lastBackupAt?(): number | null;
  /** When the certificate of the server ends, epoch seconds; null: it has none. */
  certificateEndsAt?(): number | null;
};

/** Seconds. Reads take a few thousandths, uploads of gigabytes minutes. */
const REQUEST_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60, 300];
/** Seconds. A commit is one fsync. */
const COMMIT_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5];
/** Writes; a batch has 64 at most. */
const BATCH_BUCKETS = [1, 2, 4, 8, 16, 32, 64];
/** Milliseconds between two looks at the delay of the event loop. */
const LOOP_PRECISION = 20;

/** The operation of what belongs to none: unknown paths, refusals before the path counts, bytes that are no HTTP. */
const NONE = "none";

/**
 * Gauges that are named as counters, which promtool refuses. Each is the sum of one that stays, such as
 * nodejs_active_handles.
 */
const MISNAMED = ["nodejs_active_handles_total", "nodejs_active_requests_total", "nodejs_active_resources_total"];

export function createMetrics(sources: MetricSources): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: LOOP_PRECISION });
  for (const name of MISNAMED) registry.removeSingleMetric(name);
  const gauge = (name: string, help: string, labelNames: string[] = []) =>
    new Gauge({ name, help, labelNames, registers });

  const requests = new Counter({
    name: "assay_http_requests_total",
    help: "Requests that were answered, by operation and status; 499: the client was gone before",
    labelNames: ["operation", "status"],
    registers,
  });
  const durations = new Histogram({
    name: "assay_http_request_duration_seconds",
    help: "From the head of a request to the last byte of its answer",
    labelNames: ["operation"],
    buckets: REQUEST_BUCKETS,
    registers,
  });
  const bytesIn = new Counter({
    name: "assay_http_request_bytes_total",
    help: "Bytes of request bodies, as they were declared",
    registers,
  });
  const bytesOut = new Counter({
    name: "assay_http_response_bytes_total",
    help: "Bytes of answers' bodies",
    registers,
  });
  const inFlight = gauge("assay_http_requests_in_flight", "Requests that are not answered yet");
  const batchSize = new Histogram({
    name: "assay_commit_batch_size",
    help: "Writes that shared a commit",
    buckets: BATCH_BUCKETS,
    registers,
  });
  const commit = new Histogram({
    name: "assay_commit_duration_seconds",
    help: "From the begin of a batch of writes to the end of its commit",
    buckets: COMMIT_BUCKETS,
    registers,
  });
  const lost = new Counter({
    name: "assay_commit_failures_total",
    help: "Batches of writes that could not be stored; their callers were told so",
    registers,
  });

  const databaseBytes = gauge("assay_database_bytes", "Size of the database file");
  const databaseFree = gauge("assay_database_free_bytes", "Bytes of the database file that hold nothing");
  const walSize = gauge("assay_wal_bytes", "Size of the write-ahead log");
  const diskFree = gauge("assay_disk_free_bytes", "Free space of the file system with the data directory");
  const evidenceFiles = gauge("assay_evidence_files", "Contents that attestations name as evidence, each counted once");
  const evidenceBytes = gauge("assay_evidence_bytes", "Bytes of these contents");
  const jobs = gauge("assay_jobs", "Jobs that wait or run", ["kind"]);
  const jobsOverdue = gauge(
    "assay_jobs_overdue_seconds",
    "For how long the job that should be done first is due; 0: none is",
  );
  const jobsFailing = gauge("assay_jobs_failing", "Jobs whose latest attempt failed; they are tried again");
  const deliveries = gauge("assay_deliveries", "Messages to the outside that wait, or were given up", ["state"]);
  const deliveryAge = gauge("assay_deliveries_oldest_seconds", "For how long the oldest message waits; 0: none does");
  const tasks = gauge("assay_worker_tasks", "Tasks of the worker threads", ["pool", "state"]);
  gauge("assay_build_info", "The program; always 1", ["version", "commit", "node"]).set(
    { version: sources.build.version, commit: sources.build.commit ?? "unknown", node: process.versions.node },
    1,
  );
  const optional = (name: string, help: string, read: (() => number | null) | undefined) =>
    read ? [{ gauge: gauge(name, help), read }] : [];
  const { readOnly } = sources;
  const lookedUp = [
    ...optional(
      "assay_read_only",
      "Whether the server takes no writes: 1 or 0",
      readOnly && (() => Number(readOnly())),
    ),
    ...optional(
      "assay_backup_last_success_timestamp_seconds",
      "When the latest backup succeeded; not there before one did",
      sources.lastBackupAt,
    ),
    ...optional(
      "assay_certificate_end_timestamp_seconds",
      "When the certificate of the server ends; not there without one",
      sources.certificateEndsAt,
    ),
  ];

  let open = 0;
  /** What labels cost is finding their series; each operation, and each of its statuses, is found once. */
  const series = new Map<string, { observe(seconds: number): void; statuses: Map<number, { inc(): void }> }>();
  function count(operation: string, status: number): { observe(seconds: number): void } {
    let found = series.get(operation);
    if (!found)
      series.set(operation, (found = { observe: durations.labels({ operation }).observe, statuses: new Map() }));
    let counter = found.statuses.get(status);
    if (!counter) found.statuses.set(status, (counter = requests.labels({ operation, status: String(status) })));
    counter.inc();
    return found;
  }

  async function lookUp(): Promise<void> {
    const { figures, directory } = sources;
    const now = sources.now();
    inFlight.set(open);
    const space = figures.readSpace();
    databaseBytes.set(space.bytes);
    databaseFree.set(space.free);
    const evidence = figures.summarizeEvidence();
    evidenceFiles.set(evidence.files);
    evidenceBytes.set(evidence.bytes);
    const waiting = figures.listJobs();
    jobs.reset();
    for (const kind of sources.jobKinds()) jobs.set({ kind }, 0);
    for (const { kind, count: number } of waiting) jobs.set({ kind }, number);
    jobsOverdue.set(waiting.reduce((longest, { due_at }) => Math.max(longest, now - due_at), 0));
    jobsFailing.set(figures.countFailingJobs());
    const messages = figures.summarizeDeliveries();
    deliveries.set({ state: "waiting" }, messages.waiting);
    deliveries.set({ state: "dead" }, messages.dead);
    deliveryAge.set(messages.oldest === null ? 0 : Math.max(0, now - messages.oldest));
    for (const [pool, load] of Object.entries(sources.pools())) {
      tasks.set({ pool, state: "waiting" }, load.waiting);
      tasks.set({ pool, state: "running" }, load.running);
    }
    for (const { gauge: one, read } of lookedUp) {
      const value = read();
      // A gauge without labels begins as 0, which would be a moment in 1970.
      if (value === null) one.remove();
      else one.set(value);
    }
    if (directory === null) return;
    walSize.set(walBytes(directory));
    diskFree.set(await freeBytes(directory));
  }

  return {
    contentType: registry.contentType,
    requestCame: () => void (open += 1),
    requestDone({ route, status, duration_ms, bytes_in, bytes_out }) {
      open -= 1;
      count(route ?? NONE, status).observe(duration_ms / 1000);
      bytesIn.inc(bytes_in);
      bytesOut.inc(bytes_out);
    },
    refused: (status) => void count(NONE, status),
    batchEnded(writes, milliseconds, committed) {
      if (!committed) return lost.inc();
      batchSize.observe(writes);
      commit.observe(milliseconds / 1000);
    },
    async collect() {
      await lookUp();
      return registry.metrics();
    },
  };
}
