/**
 * The thread that records large reports and evaluates large environments again. It has a connection of its own. A task
 * comes in up to three orders: `read` takes the text of a report, `plan` reads the database and evaluates, which may
 * take seconds and locks nobody out, `apply` writes, while the main thread lends the right to write. What one order
 * made is kept for the next; a plan is thrown away if its environment changed meanwhile.
 *
 * What runs already is marked by whoever changes a fact about it, and that moves the environment's revision. What only
 * starts with the plan is not: if anything at all was committed between the two orders, it is marked here, so that the
 * next report looks at it once more.
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
import { collectGarbage } from "../workers/memory-reclaim.ts";
import { serveTasks } from "../workers/task-protocol.ts";
import type { Actor } from "../store/actor.ts";

/** What the thread is started with: the data directory, and whether this server empties the write-ahead log. */
export type RecordingWorkerData = { directory: string; checkpoints: "own" | "external" };

export type RecordingOrder =
  /** The text of a report of that type. `sequence` names the task. */
  | { type: "read"; sequence: number; report: PhysicalType; bytes: Uint8Array }
  /** `artifacts` null: what ran still runs; "read": what the order before read. */
  | {
      type: "plan";
      sequence: number;
      environmentId: number;
      cause: Cause;
      artifacts: readonly ReportedArtifact[] | "read" | null;
    }
  /**
   * Copies what is in the write-ahead log into the database file, as far as nobody reads it; with `patience`, in
   * milliseconds, it waits so long for readers and then empties the log. The right to write must be lent for that.
   */
  | { type: "checkpoint"; patience: number }
  /**
   * `now`: epoch seconds; `newestJob`: ids of jobs up to that one are taken; `entry` goes into the audit log when a
   * snapshot is made.
   */
  | { type: "apply"; sequence: number; now: number; newestJob: number; actor: Actor; entry: AuditEntry | null };

/**
 * `planned`: whether there is anything to apply, which there is not in an archived environment. `index`: the snapshot
 * that was made.
 */
export type RecordingResult = { planned: boolean; index: number | null };
/** Of `read`: how many artifacts and their digest, or why the text is no report. */
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
    throw new Error("recording makes nothing that has a public id");
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
let kept: Task | null = null;
let read: { sequence: number; artifacts: ReportedArtifact[] } | null = null;

/** What an earlier order made was lost with the thread that made it. */
const gone = (what: string): Error => Object.assign(new Error(`${what} is gone`), { code: "THREAD_REPLACED" });

/** A number that changes with every commit of another connection. */
const dataVersion = (): number => db.pragma("data_version", { simple: true }) as number;

serveTasks<RecordingOrder, RecordingResult | ReadResult | null>((order) => {
  switch (order.type) {
    case "read":
      return readText(order);
    case "plan":
      return plan(order);
    case "apply":
      return apply(order);
    case "checkpoint":
      return checkpoint(order.patience);
  }
});

async function readText({ sequence, report, bytes }: Extract<RecordingOrder, { type: "read" }>): Promise<ReadResult> {
  kept = null;
  read = null;
  // Only where there are such reports: the shapes and what checks them take ten megabytes.
  const { readReport } = await import("../contract/report-shapes.ts");
  try {
    const artifacts = readReport(report, Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
    read = { sequence, artifacts };
    return { count: artifacts.length, digest: digestOf(artifacts) };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return { refusal: { code: error.code, message: error.message, fields: error.fields } };
  } finally {
    // What the text left behind would otherwise still be there while the report is recorded.
    setImmediate(collectGarbage);
  }
}

function plan({
  sequence,
  environmentId,
  cause,
  artifacts: given,
}: Extract<RecordingOrder, { type: "plan" }>): RecordingResult {
  kept = null;
  if (given === "read" && read?.sequence !== sequence) throw gone("what was read for this task");
  const artifacts = given === "read" ? (read?.artifacts ?? null) : given;
  read = null;
  return inTransaction("BEGIN", () => {
    const made = planOf(environmentId, cause, artifacts);
    if (made) kept = { sequence, environmentId, cause, artifacts, plan: made, dataVersion: dataVersion() };
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
  const task = kept;
  kept = null;
  if (task?.sequence !== sequence) throw gone("the plan of this task");
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

function checkpoint(patience: number): null {
  if (patience === 0) {
    db.pragma("wal_checkpoint(PASSIVE)");
    return null;
  }
  const usual = db.pragma("busy_timeout", { simple: true }) as number;
  db.pragma(`busy_timeout = ${patience}`);
  try {
    db.pragma("wal_checkpoint(TRUNCATE)");
  } finally {
    db.pragma(`busy_timeout = ${usual}`);
  }
  return null;
}

/** Everything or nothing; what it promised is on the disk when it returns. */
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
