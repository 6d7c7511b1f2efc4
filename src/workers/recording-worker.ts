/**
 * The thread that records large reports and evaluates large environments again. It has a connection of its own. A task comes
 * in two orders: `plan` reads and evaluates, which may take seconds and locks nobody out; `apply` writes, while the main
 * thread lends the right to write. A plan is kept between the two and thrown away if its environment changed meanwhile.
 *
 * What runs already is marked by whoever changes a fact about it, and that moves the environment's revision. What only starts
 * with the plan is not: if anything at all was committed between the two orders, it is marked here, so that the next report
 * looks at it once more.
 */
import { workerData } from "node:worker_threads";
import type { Cause } from "../domain/snapshot/diff.ts";
import type { ReportedArtifact } from "../domain/snapshot/normalize.ts";
import type { AuditEntry } from "../store/audit.ts";
import { openBeside } from "../store/database.ts";
import { openStore } from "../store/index.ts";
import type { Actor, Plan } from "../store/recording.ts";
import { serveTasks } from "./task.ts";

/** What the thread is started with: the data directory. */
export type RecordingWorkerData = { directory: string };

export type RecordingOrder =
  /** `artifacts` null: what ran still runs. `sequence` names the task. */
  | { type: "plan"; sequence: number; environmentId: number; cause: Cause; artifacts: readonly ReportedArtifact[] | null }
  /** `now`: epoch seconds; `entry` goes into the audit log when a snapshot is made. */
  | { type: "apply"; sequence: number; now: number; actor: Actor; entry: AuditEntry | null };

/** `planned`: whether there is anything to apply, which there is not in an archived environment. `index`: the snapshot that was made. */
export type RecordingResult = { planned: boolean; index: number | null };

const clock = { now: 0 };
const db = openBeside((workerData as RecordingWorkerData).directory);
const store = openStore(db, {
  now: () => clock.now,
  newId: () => {
    throw new Error("recording makes nothing that has a public id");
  },
});

type Task = { sequence: number; environmentId: number; cause: Cause; artifacts: readonly ReportedArtifact[] | null; plan: Plan; dataVersion: number };
let kept: Task | null = null;

/** A number that changes with every commit of another connection. */
const dataVersion = (): number => db.pragma("data_version", { simple: true }) as number;

serveTasks<RecordingOrder, RecordingResult>((order) => (order.type === "plan" ? plan(order) : apply(order)));

function plan({ sequence, environmentId, cause, artifacts }: Extract<RecordingOrder, { type: "plan" }>): RecordingResult {
  kept = null;
  return inTransaction("BEGIN", () => {
    const made = planOf(environmentId, cause, artifacts);
    if (made) kept = { sequence, environmentId, cause, artifacts, plan: made, dataVersion: dataVersion() };
    return { planned: made !== null, index: null };
  });
}

function planOf(environmentId: number, cause: Cause, artifacts: readonly ReportedArtifact[] | null): Plan | null {
  const environment = store.environments.get(environmentId);
  return environment.archived_at === null ? store.recording.plan(store.recording.survey(environment, cause, artifacts)) : null;
}

function apply({ sequence, now, actor, entry }: Extract<RecordingOrder, { type: "apply" }>): RecordingResult {
  const task = kept;
  kept = null;
  if (task?.sequence !== sequence) throw new Error("the plan of this task is gone");
  clock.now = now;
  return inTransaction("BEGIN IMMEDIATE", () => {
    const holds = store.recording.isCurrent(task.plan.survey);
    const current = holds ? task.plan : planOf(task.environmentId, task.cause, task.artifacts);
    if (!current) return { planned: false, index: null };
    const index = store.recording.apply(current, actor);
    if (index !== null && holds && dataVersion() !== task.dataVersion) store.staleness.startedUnseen(task.environmentId, index);
    if (index !== null && entry) store.audit.append({ ...entry, detail: { ...entry.detail, snapshot: index } });
    return { planned: true, index };
  });
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
