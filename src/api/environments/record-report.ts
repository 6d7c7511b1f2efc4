/** How reports, and changes to policies and allowlists, become snapshots (semantics 6.4). */
import { badRequest, conflict } from "../../errors.ts";
import { createBodyShape, readJson } from "../../http/body/read-json.ts";
import { LARGE_JSON_BYTES, REPORT_BOUNDS } from "../../http/operation.ts";
import type { Reply } from "../../http/operation.ts";
import type { Cause } from "../../domain/snapshot/diff.ts";
import type { ReportedArtifact } from "../../domain/snapshot/normalize.ts";
import type { EnvironmentRow, PhysicalType } from "../../store/environments/environments.ts";
import { digestOf, storableReport } from "../../store/environments/snapshot-survey.ts";
import type { Survey } from "../../store/environments/snapshot-survey.ts";
import type { OperationContext } from "../context.ts";
import { REPORTS, readReport } from "../../contract/report-shapes.ts";
import type { ReadReport } from "../../contract/report-shapes.ts";
import type { Actor } from "../../store/actor.ts";
import { findReport, keepReport, keyOfReport } from "./known-reports.ts";

/** A report to an environment: its name, and the type in the path of the operation. */
type ReportTarget = { name: string; type: PhysicalType };

/** A report that was read but not yet recorded on this thread. */
type PreparedReport = {
  /** What was reported. The body of a known report is parsed only if something changed just before the write. */
  read(): readonly ReportedArtifact[];
  digest: string;
  /** The current state to compare with; null when the digest alone shows that nothing changed. */
  survey: Survey | null;
  /** Set when the recording thread has recorded the report; `index` of the snapshot, null when none was made. */
  done: { index: number | null } | null;
};

/** How long a response waits for the re-evaluation of a large environment, which continues after that. */
const REEVALUATION_WAIT_S = 60;

/** Bytes of a body that is scanned only if it is parsed: it takes a few milliseconds in one go. */
export const SCANNED_ON_ARRIVAL_ABOVE = 1 << 20;

/** With more artifacts, reported or running, even reading the current state is left to the recording thread. */
const MAX_INLINE_SURVEY = 2_000;

/** The environment for a report. @throws AppError 404, or 400 naming both types (semantics 6.1) */
function requireReportable({ store, organization }: OperationContext, { name, type }: ReportTarget): EnvironmentRow {
  const environment = store.environments.requireWritable(organization, name);
  if (environment.type === "logical")
    throw badRequest(
      `Environment '${name}' is of type 'logical' and takes no reports, so not of type '${type}' either: ` +
        "report to its members",
    );
  if (environment.type !== type)
    throw badRequest(`Environment '${name}' is of type '${environment.type}' and takes no reports of type '${type}'`);
  return environment;
}

const actorOf = ({ principal }: OperationContext): Actor => ({
  publicId: principal.publicId,
  displayName: principal.displayName,
});

/** Outside any transaction: finds what a report changes, and hands large changes to the recording thread. */
export async function prepareReport(
  context: OperationContext,
  target: ReportTarget,
  artifacts: readonly ReportedArtifact[],
): Promise<PreparedReport> {
  const { store, recorder } = context;
  const environment = requireReportable(context, target);
  const digest = digestOf(artifacts);
  const prepared = { read: () => artifacts, digest, survey: null, done: null };
  if (store.snapshotRecorder.isUnchanged(environment, digest)) return prepared;
  const size = Math.max(artifacts.length, store.snapshots.countRunning(environment.id));
  const survey =
    size > MAX_INLINE_SURVEY && recorder.accepts(size)
      ? null
      : store.snapshotRecorder.readCurrent(environment, "report", storableReport(artifacts));
  if (survey && !recorder.accepts(survey.workload)) return { ...prepared, survey };
  const { planned, index } = await recorder.report({
    environmentId: environment.id,
    artifacts,
    actor: actorOf(context),
    entry: context.auditEntry(),
  });
  // The environment was archived meanwhile. Its name now belongs to no environment, which is refused as usual, or to
  // another one, which gets the report.
  if (!planned) return prepareReport(context, target, artifacts);
  return { ...prepared, done: { index } };
}

/**
 * Like prepareReport, for a report whose body was not parsed. A body that is known by its bytes is parsed only if the
 * report changes something. The recording thread parses large ones and records them.
 * @throws AppError as for any body; not_found or conflict when the environment was archived meanwhile
 */
export async function prepareUnreadReport(
  context: OperationContext,
  target: ReportTarget,
  bytes: Buffer,
): Promise<PreparedReport> {
  const key = await keyOfReport(target.type, bytes);
  if (bytes.length > LARGE_JSON_BYTES && context.recorder.canRecordRaw)
    return recordLargeReport(context, target, { bytes, key });
  const { schema } = REPORTS[target.type];
  const known = findReport(key);
  if (known) {
    context.ignoreKeys(schema, known.ignored);
    const read = (): readonly ReportedArtifact[] => readNoted(context, target.type, bytes).artifacts;
    if (context.store.snapshotRecorder.isUnchanged(requireReportable(context, target), known.digest))
      return { read, digest: known.digest, survey: null, done: null };
  }
  const { artifacts, ignored } = readNoted(context, target.type, bytes);
  if (!known) context.ignoreKeys(schema, ignored);
  keepReport(key, { digest: known?.digest ?? digestOf(artifacts), ignored });
  return prepareReport(context, target, artifacts);
}

/** Parses and normalizes a body on this thread, for the report and its audit entry. @throws AppError */
function readNoted({ note }: OperationContext, type: PhysicalType, bytes: Buffer): ReadReport {
  const report = bytes.length > LARGE_JSON_BYTES ? readReport(type, bytes) : readSmallReport(type, bytes);
  note({ artifacts: report.artifacts.length });
  return report;
}

/** As the kit reads a body that it parses itself. @throws AppError */
function readSmallReport(type: PhysicalType, bytes: Buffer): ReadReport {
  const { schema, normalizeBody } = REPORTS[type];
  const { value, ignored } = readJson(bytes, createBodyShape(schema, REPORT_BOUNDS));
  if (value === null) throw badRequest("A JSON body is required: the request has none");
  return { artifacts: normalizeBody(value), ignored };
}

/** Has the recording thread parse and record a report. @throws AppError */
async function recordLargeReport(
  context: OperationContext,
  target: ReportTarget,
  { bytes, key }: { bytes: Buffer; key: string },
): Promise<PreparedReport> {
  const { store, recorder, note } = context;
  const { schema } = REPORTS[target.type];
  const known = findReport(key);
  let ignored: readonly string[] = known?.ignored ?? [];
  if (known) context.ignoreKeys(schema, ignored);
  const { id } = requireReportable(context, target);
  const { planned, index } = await recorder.recordRaw({
    environmentId: id,
    report: target.type,
    bytes,
    digest: known?.digest ?? null,
    actor: actorOf(context),
    accept(keys) {
      if (!known) context.ignoreKeys(schema, keys);
      ignored = keys;
    },
    touch(digest) {
      keepReport(key, { digest, ignored });
      const environment = store.environments.get(id);
      const isUnchanged = environment.archived_at === null && store.snapshotRecorder.isUnchanged(environment, digest);
      if (isUnchanged) store.snapshotRecorder.recordUnchanged(id);
      return isUnchanged;
    },
    entry(artifacts) {
      note({ artifacts });
      return context.auditEntry();
    },
  });
  if (!planned) {
    requireReportable(context, target);
    // The name now belongs to another environment, and the body was moved to the thread.
    throw conflict();
  }
  return { read: () => [], digest: "", survey: null, done: { index } };
}

/**
 * Records a prepared report, inside the write. Returns 201 when it made a snapshot and 200 when nothing changed;
 * `last_reported_at` is updated in both cases.
 */
export function recordReport(
  context: OperationContext,
  target: ReportTarget,
  { read, digest, survey, done }: PreparedReport,
): Reply {
  const { store } = context;
  if (done) return { ...toReply(done.index), unaudited: true };
  const environment = requireReportable(context, target);
  if (store.snapshotRecorder.isUnchanged(environment, digest)) {
    store.snapshotRecorder.recordUnchanged(environment.id);
    return { ...toReply(null), unaudited: true };
  }
  // By now the name may belong to another environment.
  const isSurveyCurrent = survey?.environment.id === environment.id && store.snapshotRecorder.isCurrent(survey);
  const current = isSurveyCurrent
    ? survey
    : store.snapshotRecorder.readCurrent(environment, "report", storableReport(read()));
  const index = store.snapshotRecorder.apply(store.snapshotRecorder.plan(current), actorOf(context));
  context.note({ snapshot: index });
  return index === null ? { ...toReply(null), unaudited: true } : toReply(index);
}

const toReply = (index: number | null): { status: 200 | 201; body: "OK" } => ({
  status: index === null ? 200 : 201,
  body: "OK",
});

/** Re-evaluates the latest snapshot after the attached policies changed, and makes a new one (semantics 5.5). */
export const reevaluateForPolicies = (context: OperationContext, environmentId: number): void =>
  reevaluate(context, environmentId, "policies");

/** Re-evaluates the latest snapshot after an artifact was allowed, and makes one if a verdict flips (semantics 5.6). */
export const reevaluateForAllowlist = (context: OperationContext, environmentId: number): void =>
  reevaluate(context, environmentId, "allowlist");

/**
 * Re-evaluates the latest snapshot inside the write that made it necessary. When that is a lot of work, the write
 * enqueues a job instead, and the response waits for the job; after a crash, the next start runs it.
 */
function reevaluate(
  context: OperationContext,
  environmentId: number,
  cause: Exclude<Cause, "report" | "policy_version">,
): void {
  const { store, recorder, jobs, afterCommitTasks } = context;
  const environment = store.environments.get(environmentId);
  if (environment.snapshot_count === 0) return;
  const actor = actorOf(context);
  const survey = recorder.accepts(store.snapshots.countRunning(environmentId))
    ? null
    : store.snapshotRecorder.readCurrent(environment, cause, null);
  if (survey && !recorder.accepts(survey.workload)) {
    store.snapshotRecorder.apply(store.snapshotRecorder.plan(survey), actor);
    return;
  }
  const job = store.reevaluationQueue.enqueue(environment, cause, actor);
  afterCommitTasks.push(() => jobs.waitFor(job, REEVALUATION_WAIT_S));
}
