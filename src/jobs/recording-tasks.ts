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
import { AppError } from "../errors.ts";
import { openCommitNumbering } from "../store/db/commit-number.ts";
import type { Db, TemporaryFiles } from "../store/db/types.ts";
import { reportOf } from "../store/environments/snapshot-survey.ts";
import type { StorableReport, Survey } from "../store/environments/snapshot-survey.ts";
import type { Plan } from "../store/environments/snapshot-plan.ts";
import { openStore } from "../store/index.ts";
import type { ReadResult, RecordingOrder, RecordingResult } from "./recording-orders.ts";
import { writePlan, readReportText } from "./recording-steps.ts";

type Task = {
  sequence: number;
  /** null where there is nothing to apply. */
  plan: Plan | null;
  dataVersion: number;
};

/** The result of an earlier order was lost with the thread that had it. */
const lostError = (what: string): Error => Object.assign(new Error(`${what} was lost`), { code: "THREAD_REPLACED" });

export type RecordingTasks = ReturnType<typeof createRecordingTasks>;

/**
 * The orders about a report, over the connection of the thread. An order whose predecessor's result is lost throws.
 * @param temporaryFiles where the evaluations of a plan wait until they are written
 */
export function createRecordingTasks(db: Db, temporaryFiles: TemporaryFiles) {
  const clock = { now: 0 };
  const store = openStore(db, {
    now: () => clock.now,
    newId: () => {
      throw new Error("recording creates no record with a public id");
    },
    temporaryFiles,
  });
  const numbering = openCommitNumbering(db);
  let plannedTask: Task | null = null;
  let lastRead: { sequence: number; report: StorableReport } | null = null;

  function forgetPlan(): void {
    plannedTask?.plan?.evaluations.close();
    plannedTask = null;
  }

  function forget(): void {
    forgetPlan();
    lastRead = null;
  }

  /** A number that changes with every commit of another connection. */
  const dataVersion = (): number => db.pragma("data_version", { simple: true }) as number;

  async function read({ sequence, report, bytes }: Extract<RecordingOrder, { type: "read" }>): Promise<ReadResult> {
    forget();
    try {
      const text = await readReportText(report, Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
      lastRead = { sequence, report: text.report };
      return { count: text.count, digest: text.digest, ignored: text.ignored };
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      return { refusal: { code: error.code, message: error.message, fields: error.fields } };
    }
  }

  function plan(order: Extract<RecordingOrder, { type: "plan" }>): RecordingResult {
    forgetPlan();
    clock.now = order.now;
    try {
      return inTransaction("BEGIN", () => {
        const survey = surveyOf(order);
        // The survey has what is left to do with it.
        lastRead = null;
        if (!survey) return { planned: false, index: null };
        const { sequence } = order;
        plannedTask = { sequence, plan: store.snapshotRecorder.plan(survey), dataVersion: dataVersion() };
        return { planned: true, index: null };
      });
    } finally {
      lastRead = null;
    }
  }

  /** null for an archived environment. */
  function surveyOf({
    sequence,
    environmentId,
    cause,
    report,
  }: Extract<RecordingOrder, { type: "plan" }>): Survey | null {
    if (report === "read" && lastRead?.sequence !== sequence) throw lostError("the report that this task read");
    const environment = store.environments.get(environmentId);
    if (environment.archived_at !== null) return null;
    const reported = report === "read" ? (lastRead?.report ?? null) : report;
    return store.snapshotRecorder.readCurrent(environment, cause, reported);
  }

  function write({
    sequence,
    now,
    newestJob,
    actor,
    entry,
  }: Extract<RecordingOrder, { type: "apply" }>): RecordingResult {
    const task = plannedTask;
    if (task?.sequence !== sequence) throw lostError("the plan of this task");
    clock.now = now;
    store.jobs.reserveIds(newestJob);
    try {
      return inTransaction("BEGIN IMMEDIATE", () => applyTask(task, { actor, entry }));
    } finally {
      forgetPlan();
    }
  }

  function applyTask(
    task: Task,
    { actor, entry }: Pick<Extract<RecordingOrder, { type: "apply" }>, "actor" | "entry">,
  ): RecordingResult {
    const holds = task.plan !== null && store.snapshotRecorder.isCurrent(task.plan.survey);
    if (!holds) planAgain(task);
    if (!task.plan) return { planned: false, index: null };
    const { id } = task.plan.survey.environment;
    const index = writePlan(store, task.plan, { actor, entry });
    if (index !== null && holds && dataVersion() !== task.dataVersion) store.staleArtifacts.markStartedSince(id, index);
    return { planned: true, index };
  }

  /** The environment changed after it was surveyed. */
  function planAgain(task: Task): void {
    if (!task.plan) return;
    const { environment, cause } = task.plan.survey;
    const report = reportOf(task.plan.survey);
    task.plan.evaluations.close();
    // Two plans do not fit into memory.
    task.plan = null;
    const current = store.environments.get(environment.id);
    if (current.archived_at !== null) return;
    task.plan = store.snapshotRecorder.plan(store.snapshotRecorder.readCurrent(current, cause, report));
  }

  /** Runs `work` in a transaction, which is durable when this returns. */
  function inTransaction(begin: string, work: () => RecordingResult): RecordingResult {
    db.exec(begin);
    try {
      const result = work();
      const number = numbering.advance();
      db.exec("COMMIT");
      if (number !== null) numbering.record(number);
      return result;
    } catch (error) {
      if (db.inTransaction) db.exec("ROLLBACK");
      throw error;
    }
  }

  return { read, plan, write, forget };
}
