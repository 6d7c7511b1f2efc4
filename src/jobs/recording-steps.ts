/**
 * The steps of recording a report or a re-evaluation, wherever they run: on the main thread, inside a write, or in the
 * recording thread (recording-tasks.ts).
 */
import type { PhysicalType } from "../store/environments/environments.ts";
import type { Plan } from "../store/environments/snapshot-plan.ts";
import { storableReport } from "../store/environments/snapshot-survey.ts";
import type { StorableReport } from "../store/environments/snapshot-survey.ts";
import type { Store } from "../store/index.ts";
import type { FoundText, Recording, RecordingResult } from "./recording-orders.ts";

type ReadText = FoundText & { report: StorableReport };

/** Parses and normalizes the text of a report. @throws AppError as for any JSON body */
export async function readReportText(type: PhysicalType, bytes: Buffer): Promise<ReadText> {
  // Loaded on first use: the shapes and their validators take ten megabytes, which the thread does without.
  const { readReport } = await import("../contract/report-shapes.ts");
  const { artifacts, ignored } = readReport(type, bytes);
  const report = storableReport(artifacts);
  return { report, count: artifacts.length, digest: report.digest, ignored };
}

/**
 * Artifacts that are evaluated and written on the main thread. One under three policies takes about 0.2 ms, and the
 * event loop may be blocked for 20 ms.
 */
export const MAX_ARTIFACTS_HERE = 64;

/** Artifacts that are compared in the time that one is evaluated and written. */
const COMPARED_PER_ARTIFACT = 32;

/**
 * Surveys, plans and applies in one go, inside a write.
 * @param maxArtifacts the work that this may be, in artifacts to evaluate and write
 * @returns null when it is more, or the report was read in the thread; nothing was written then
 */
export function recordHere(
  store: Store,
  { environmentId, cause, report, actor, entry }: Recording,
  maxArtifacts: number,
): RecordingResult | null {
  if (report === "read") return null;
  const compared = Math.max(report?.artifacts.length ?? 0, store.snapshots.countRunning(environmentId));
  if (compared > maxArtifacts * COMPARED_PER_ARTIFACT) return null;
  const survey = store.snapshotRecorder.readCurrent(store.environments.get(environmentId), cause, report);
  if (survey.workload > maxArtifacts) return null;
  return { planned: true, index: writePlan(store, store.snapshotRecorder.plan(survey), { actor, entry }) };
}

/**
 * Writes a plan and its audit entry, inside a write.
 * @returns the index of the snapshot; null when none was made
 */
export function writePlan(store: Store, plan: Plan, { actor, entry }: Pick<Recording, "actor" | "entry">) {
  const index = store.snapshotRecorder.apply(plan, actor);
  if (index !== null && entry) store.auditLog.append({ ...entry, detail: { ...entry.detail, snapshot: index } });
  return index;
}
