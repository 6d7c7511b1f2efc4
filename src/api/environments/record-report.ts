/** How reports, and changes of policies and allowlists, become snapshots (semantics 6.4). */
import { badRequest, conflict } from "../../errors.ts";
import type { Reply } from "../../http/operation.ts";
import type { Cause } from "../../domain/snapshot/diff.ts";
import type { ReportedArtifact } from "../../domain/snapshot/normalize.ts";
import type { EnvironmentRow, PhysicalType } from "../../store/environments/environments.ts";
import { digestOf } from "../../store/environments/snapshot-recorder.ts";
import type { Survey } from "../../store/environments/snapshot-recorder.ts";
import type { OperationContext } from "../context.ts";
import { readReport } from "../../contract/report-shapes.ts";
import type { Actor } from "../../store/actor.ts";

/**
 * A report on its way: `survey` is what it takes, null where the look at its digest was enough; `done` when it is
 * recorded already.
 */
export type PreparedReport = {
  artifacts: readonly ReportedArtifact[];
  digest: string;
  survey: Survey | null;
  done: { index: number | null } | null;
};

/** Seconds that an answer waits for the evaluation of a large environment; it goes on after that. */
const PATIENCE = 60;

/** Above this many artifacts, reported or running, even the look at what there is to do is left to the thread. */
const MOST_TO_SURVEY = 2_000;

/**
 * The environment that a report of this type is for. @throws AppError 404, or 400 naming both types (semantics 6.1).
 */
function reportable({ store, organization }: OperationContext, name: string, type: PhysicalType): EnvironmentRow {
  const environment = store.environments.requireWritable(organization, name);
  if (environment.type === "logical")
    throw badRequest(
      `Environment '${name}' is of type 'logical' and takes no reports, so not of type '${type}' either: report to its members`,
    );
  if (environment.type !== type)
    throw badRequest(`Environment '${name}' is of type '${environment.type}' and takes no reports of type '${type}'`);
  return environment;
}

const actorOf = ({ principal }: OperationContext): Actor => ({
  publicId: principal.publicId,
  displayName: principal.displayName,
});

/** Outside of any transaction: finds what a report changes, and where that is much, has it recorded by the thread. */
export async function prepareReport(
  context: OperationContext,
  name: string,
  type: PhysicalType,
  artifacts: readonly ReportedArtifact[],
): Promise<PreparedReport> {
  const { store, recorder } = context;
  const environment = reportable(context, name, type);
  const digest = digestOf(artifacts);
  const prepared = { artifacts, digest, survey: null, done: null };
  if (store.recording.isUnchanged(environment, digest)) return prepared;
  const size = Math.max(artifacts.length, store.snapshots.size(environment.id));
  const survey =
    size > MOST_TO_SURVEY && recorder.accepts(size)
      ? null
      : store.recording.readCurrent(environment, "report", artifacts);
  if (survey && !recorder.accepts(survey.workload)) return { ...prepared, survey };
  const { planned, index } = await recorder.report({
    environmentId: environment.id,
    artifacts,
    actor: actorOf(context),
    entry: context.auditEntry(),
  });
  // Archived on the way: the name leads nowhere now, which is refused as at any other time, or to an environment that
  // took it.
  if (!planned) return prepareReport(context, name, type, artifacts);
  return { ...prepared, done: { index } };
}

/**
 * As prepareReport, for one whose text was not read: the thread reads it, and records it in any case.
 * @throws AppError as for any body, and not_found or conflict when the environment was archived on the way.
 */
export async function prepareLargeReport(
  context: OperationContext,
  name: string,
  type: PhysicalType,
  bytes: Buffer,
): Promise<PreparedReport> {
  const { store, recorder, note } = context;
  const { id } = reportable(context, name, type);
  if (!recorder.reads) {
    const artifacts = readReport(type, bytes);
    note({ artifacts: artifacts.length });
    return prepareReport(context, name, type, artifacts);
  }
  const { planned, index } = await recorder.recordRaw({
    environmentId: id,
    report: type,
    bytes,
    actor: actorOf(context),
    touch(digest) {
      const environment = store.environments.get(id);
      const unchanged = environment.archived_at === null && store.recording.isUnchanged(environment, digest);
      if (unchanged) store.recording.touch(id);
      return unchanged;
    },
    entry(artifacts) {
      note({ artifacts });
      return context.auditEntry();
    },
  });
  if (!planned) {
    reportable(context, name, type);
    // The name leads to another environment now, and the text is gone.
    throw conflict();
  }
  return { artifacts: [], digest: "", survey: null, done: { index } };
}

/**
 * Inside the write. @returns 201 when the report made a snapshot, 200 when nothing changed; `last_reported_at` moves in
 * both cases.
 */
export function recordReport(
  context: OperationContext,
  name: string,
  type: PhysicalType,
  { artifacts, digest, survey, done }: PreparedReport,
): Reply {
  const { store } = context;
  if (done) return { ...answer(done.index), unaudited: true };
  const environment = reportable(context, name, type);
  if (store.recording.isUnchanged(environment, digest)) {
    store.recording.touch(environment.id);
    return { ...answer(null), unaudited: true };
  }
  // The name may lead to another environment by now.
  const holds = survey?.environment.id === environment.id && store.recording.isCurrent(survey);
  const current = holds ? survey : store.recording.readCurrent(environment, "report", artifacts);
  const index = store.recording.apply(store.recording.plan(current), actorOf(context));
  context.note({ snapshot: index });
  return index === null ? { ...answer(null), unaudited: true } : answer(index);
}

const answer = (index: number | null): { status: 200 | 201; body: "OK" } => ({
  status: index === null ? 200 : 201,
  body: "OK",
});

/**
 * The attached policies of an environment changed: its latest snapshot is evaluated at once, and a new one made
 * (semantics 5.5).
 */
export const reevaluateForPolicies = (context: OperationContext, environmentId: number): void =>
  reevaluate(context, environmentId, "policies");

/**
 * An artifact was allowlisted: what runs is looked at again at once, and a snapshot made if a verdict flips (semantics
 * 5.6).
 */
export const reevaluateForAllowlist = (context: OperationContext, environmentId: number): void =>
  reevaluate(context, environmentId, "allowlist");

/**
 * Looks at the latest snapshot again, inside the write that made it necessary. Where that is much work, it becomes a
 * job of the same write, and the answer waits until it is done; should the process die before, the next start does it.
 */
function reevaluate(
  context: OperationContext,
  environmentId: number,
  cause: Exclude<Cause, "report" | "policy_version">,
): void {
  const { store, recorder, jobs, pending } = context;
  const environment = store.environments.get(environmentId);
  if (environment.snapshot_count === 0) return;
  const actor = actorOf(context);
  const survey = recorder.accepts(store.snapshots.size(environmentId))
    ? null
    : store.recording.readCurrent(environment, cause, null);
  if (survey && !recorder.accepts(survey.workload)) {
    store.recording.apply(store.recording.plan(survey), actor);
    return;
  }
  const job = store.reevaluation.ask(environment, cause, actor);
  pending.push(() => jobs.settled(job, PATIENCE));
}
