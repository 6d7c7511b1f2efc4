/**
 * The thread that records large reports and re-evaluates large environments, on its own connection. A task arrives in
 * up to three orders: `read` parses the text of a report; `plan` reads the database and evaluates, which may take
 * seconds and blocks no writes; `apply` writes, with exclusive write access granted by the main thread. Each order
 * leaves its result for the next one. A plan is discarded if its environment changed meanwhile.
 *
 * A change of a fact about an artifact that already runs marks it, which bumps the environment's revision. An artifact
 * that only starts with this plan is not marked that way: if anything was committed between the two orders, it is
 * marked here, so that the next report evaluates it again.
 */
import { workerData } from "node:worker_threads";
import type { Cause } from "../domain/snapshot/diff.ts";
import type { ReportedArtifact } from "../domain/snapshot/normalize.ts";
import { AppError } from "../errors.ts";
import type { ErrorCode, FieldErrors } from "../errors.ts";
import type { AuditEntry } from "../store/db/audit-log.ts";
import { delegateCheckpoints, openSecondWriter } from "../store/db/database.ts";
import type { PhysicalType } from "../store/environments/environments.ts";
import { openStore } from "../store/index.ts";
import { digestOf } from "../store/environments/snapshot-survey.ts";
import type { Plan } from "../store/environments/snapshot-plan.ts";
import { serveTasks } from "../workers/task-protocol.ts";
import type { Actor } from "../store/actor.ts";

/** What the thread is started with: the data directory, and which program checkpoints the write-ahead log. */
export type RecordingWorkerData = { thread: "large reports"; directory: string; checkpoints: "own" | "external" };

export type RecordingOrder =
  /** The text of a report on an environment of that type. `sequence` identifies the task. */
  | { type: "read"; sequence: number; report: PhysicalType; bytes: Uint8Array }
  /** `artifacts` null: those of the latest snapshot; "read": those that the order before read. */
  | {
      type: "plan";
      sequence: number;
      /** Epoch seconds. */
      now: number;
      environmentId: number;
      cause: Cause;
      artifacts: readonly ReportedArtifact[] | "read" | null;
    }
  /**
   * Copies the write-ahead log into the database file, as far as its readers permit. With a `busyTimeoutMs` above 0 it
   * waits that long for readers and then empties the log, which needs exclusive write access.
   */
  | { type: "checkpoint"; busyTimeoutMs: number }
  /**
   * `now`: epoch seconds; `newestJob`: the highest job id in use; `entry`: appended to the audit log when a snapshot is
   * made.
   */
  | { type: "apply"; sequence: number; now: number; newestJob: number; actor: Actor; entry: AuditEntry | null };

/**
 * `planned`: whether there is anything to apply; not so in an archived environment. `index`: of the new snapshot, null
 * when none was made.
 */
export type RecordingResult = { planned: boolean; index: number | null };
/** Of `read`: the number of artifacts and their digest, or why the text is not a valid report. */
export type ReadResult =
  | { count: number; digest: string }
  | { refusal: { code: ErrorCode; message: string; fields: FieldErrors | null } };

const clock = { now: 0 };
const { directory, checkpoints } = workerData as RecordingWorkerData;
const db = openSecondWriter(directory);
if (checkpoints === "external") delegateCheckpoints(db, checkpoints);
const store = openStore(db, {
  now: () => clock.now,
  newId: () => {
    throw new Error("recording creates no record with a public id");
  },
});

type Task = {
  sequence: number;
  environmentId: number;
  cause: Cause;
  artifacts: readonly ReportedArtifact[] | null;
  plan: Plan;
  dataVersion: number;
};
let plannedTask: Task | null = null;
let lastRead: { sequence: number; artifacts: ReportedArtifact[] } | null = null;

/** The result of an earlier order was lost with the thread that had it. */
const lostError = (what: string): Error => Object.assign(new Error(`${what} was lost`), { code: "THREAD_REPLACED" });

/** A number that changes with every commit of another connection. */
const dataVersion = (): number => db.pragma("data_version", { simple: true }) as number;

async function carryOut(order: RecordingOrder): Promise<RecordingResult | ReadResult | null> {
  switch (order.type) {
    case "read":
      return readText(order);
    case "plan":
      return plan(order);
    case "apply":
      return apply(order);
    case "checkpoint":
      return checkpoint(order.busyTimeoutMs);
  }
}

// The garbage that a text leaves would still be in memory while the report is recorded.
serveTasks(carryOut, { leavesGarbage: ({ type }) => type === "read" });

async function readText({ sequence, report, bytes }: Extract<RecordingOrder, { type: "read" }>): Promise<ReadResult> {
  plannedTask = null;
  lastRead = null;
  // Loaded on first use: the shapes and their validators take ten megabytes.
  const { readReport } = await import("../contract/report-shapes.ts");
  try {
    const artifacts = readReport(report, Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
    lastRead = { sequence, artifacts };
    return { count: artifacts.length, digest: digestOf(artifacts) };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return { refusal: { code: error.code, message: error.message, fields: error.fields } };
  }
}

function plan({
  sequence,
  now,
  environmentId,
  cause,
  artifacts: source,
}: Extract<RecordingOrder, { type: "plan" }>): RecordingResult {
  plannedTask = null;
  if (source === "read" && lastRead?.sequence !== sequence) throw lostError("the report that this task read");
  const artifacts = source === "read" ? (lastRead?.artifacts ?? null) : source;
  lastRead = null;
  clock.now = now;
  return inTransaction("BEGIN", () => {
    const made = planOf(environmentId, cause, artifacts);
    if (made) plannedTask = { sequence, environmentId, cause, artifacts, plan: made, dataVersion: dataVersion() };
    return { planned: made !== null, index: null };
  });
}

function planOf(environmentId: number, cause: Cause, artifacts: readonly ReportedArtifact[] | null): Plan | null {
  const environment = store.environments.get(environmentId);
  return environment.archived_at === null
    ? store.snapshotRecorder.plan(store.snapshotRecorder.readCurrent(environment, cause, artifacts))
    : null;
}

function apply({
  sequence,
  now,
  newestJob,
  actor,
  entry,
}: Extract<RecordingOrder, { type: "apply" }>): RecordingResult {
  const task = plannedTask;
  plannedTask = null;
  if (task?.sequence !== sequence) throw lostError("the plan of this task");
  clock.now = now;
  store.jobs.reserveIds(newestJob);
  return inTransaction("BEGIN IMMEDIATE", () => {
    const holds = store.snapshotRecorder.isCurrent(task.plan.survey);
    const current = holds ? task.plan : planOf(task.environmentId, task.cause, task.artifacts);
    if (!current) return { planned: false, index: null };
    const index = store.snapshotRecorder.apply(current, actor);
    if (index !== null && holds && dataVersion() !== task.dataVersion)
      store.staleArtifacts.markStartedSince(task.environmentId, index);
    if (index !== null && entry) store.auditLog.append({ ...entry, detail: { ...entry.detail, snapshot: index } });
    return { planned: true, index };
  });
}

function checkpoint(busyTimeoutMs: number): null {
  if (busyTimeoutMs === 0) {
    db.pragma("wal_checkpoint(PASSIVE)");
    return null;
  }
  const defaultTimeoutMs = db.pragma("busy_timeout", { simple: true }) as number;
  db.pragma(`busy_timeout = ${busyTimeoutMs}`);
  try {
    db.pragma("wal_checkpoint(TRUNCATE)");
  } finally {
    db.pragma(`busy_timeout = ${defaultTimeoutMs}`);
  }
  return null;
}

/** Runs `work` in a transaction, which is durable when this returns. */
function inTransaction(begin: string, work: () => RecordingResult): RecordingResult {
  db.exec(begin);
  try {
    const result = work();
    db.exec("COMMIT");
    return result;
  } catch (error) {
    if (db.inTransaction) db.exec("ROLLBACK");
    throw error;
  }
}
