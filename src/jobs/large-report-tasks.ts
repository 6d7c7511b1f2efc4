/**
 * What the recording thread does with large reports and environments. A task arrives in up to three orders: `read`
 * parses the text of a report; `plan` reads the database and evaluates, which may take seconds and blocks no writes;
 * `apply` writes, with exclusive write access granted by the main thread. Each order leaves its result for the next
 * one. A plan is discarded if its environment changed meanwhile.
 *
 * A change of a fact about an artifact that already runs marks it, which bumps the environment's revision. An artifact
 * that only starts with this plan is not marked that way: if anything was committed between the two orders, it is
 * marked here, so that the next report evaluates it again.
 */
import type { Cause } from "../domain/snapshot/diff.ts";
import type { ReportedArtifact } from "../domain/snapshot/normalize.ts";
import { AppError } from "../errors.ts";
import { openCommitNumbering } from "../store/db/commit-number.ts";
import type { Db } from "../store/db/types.ts";
import { digestOf } from "../store/environments/snapshot-survey.ts";
import type { Plan } from "../store/environments/snapshot-plan.ts";
import { openStore } from "../store/index.ts";
import type { ReadResult, RecordingOrder, RecordingResult } from "./large-report-orders.ts";

type Task = {
  sequence: number;
  environmentId: number;
  cause: Cause;
  artifacts: readonly ReportedArtifact[] | null;
  plan: Plan;
  dataVersion: number;
};

/** The result of an earlier order was lost with the thread that had it. */
const lostError = (what: string): Error => Object.assign(new Error(`${what} was lost`), { code: "THREAD_REPLACED" });

export type RecordingTasks = ReturnType<typeof createRecordingTasks>;

/** The three orders, over the connection of the thread. An order whose predecessor's result is lost throws. */
export function createRecordingTasks(db: Db) {
  const clock = { now: 0 };
  const store = openStore(db, {
    now: () => clock.now,
    newId: () => {
      throw new Error("recording creates no record with a public id");
    },
  });
  const numbering = openCommitNumbering(db);
  let plannedTask: Task | null = null;
  let lastRead: { sequence: number; artifacts: ReportedArtifact[] } | null = null;

  /** A number that changes with every commit of another connection. */
  const dataVersion = (): number => db.pragma("data_version", { simple: true }) as number;

  async function read({ sequence, report, bytes }: Extract<RecordingOrder, { type: "read" }>): Promise<ReadResult> {
    plannedTask = null;
    lastRead = null;
    // Loaded on first use: the shapes and their validators take ten megabytes.
    const { readReport } = await import("../contract/report-shapes.ts");
    try {
      const { artifacts, ignored } = readReport(report, Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
      lastRead = { sequence, artifacts };
      return { count: artifacts.length, digest: digestOf(artifacts), ignored };
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

  function write({
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

  /** Runs `work` in a transaction, which is durable when this returns. */
  function inTransaction(begin: string, work: () => RecordingResult): RecordingResult {
    db.exec(begin);
    try {
      const result = work();
      numbering.advance();
      db.exec("COMMIT");
      numbering.record();
      return result;
    } catch (error) {
      if (db.inTransaction) db.exec("ROLLBACK");
      throw error;
    }
  }

  return { read, plan, write };
}
