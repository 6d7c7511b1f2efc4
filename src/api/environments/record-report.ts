/** How reports, and changes to policies and allowlists, become snapshots (semantics 6.4). */
import { REPORTS } from "../../contract/report-shapes.ts";
import type { Cause } from "../../domain/snapshot/diff.ts";
import { badRequest, conflict } from "../../errors.ts";
import type { Actor } from "../../store/actor.ts";
import type { EnvironmentRow, PhysicalType } from "../../store/environments/environments.ts";
import type { OperationContext } from "../context.ts";

/** A report to an environment: its name, the type in the path of the operation, and the text. */
type SentReport = { name: string; type: PhysicalType; bytes: Buffer };

/** How long a response waits for the re-evaluation of a large environment, which continues after that. */
const REEVALUATION_WAIT_S = 60;

/** The environment for a report. @throws AppError 404, or 400 naming both types (semantics 6.1) */
function requireReportable(
  { store, organization }: OperationContext,
  { name, type }: Omit<SentReport, "bytes">,
): EnvironmentRow {
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

/**
 * Reads and records a report with its audit entry.
 * @param confirm returns the context with the rights that the reporter has now. @throws AppError when it has lost them
 * @returns the index of the snapshot; null when nothing changed. `last_reported_at` is updated in both cases.
 * @throws AppError as for any body; not_found or conflict when the environment was archived meanwhile
 */
export async function recordReport(
  context: OperationContext,
  confirm: () => OperationContext,
  report: SentReport,
): Promise<{ index: number | null }> {
  const { planned, index } = await context.recorder.report({
    type: report.type,
    bytes: report.bytes,
    actor: actorOf(context),
    environment: () => requireReportable(confirm(), report),
    accept: (ignored) => context.ignoreKeys(REPORTS[report.type].schema, ignored),
    entry(artifacts) {
      context.note({ artifacts });
      return context.auditEntry();
    },
  });
  if (planned) return { index };
  requireReportable(context, report);
  // The name now belongs to another environment, and the body was given away.
  throw conflict();
}

/** Re-evaluates the latest snapshot after the attached policies changed, and makes a new one (semantics 5.5). */
export const reevaluateForPolicies = (context: OperationContext, environmentId: number): void =>
  reevaluate(context, environmentId, "policies");

/** Re-evaluates the latest snapshot after an artifact was allowed, and makes one if a verdict flips (semantics 5.6). */
export const reevaluateForAllowlist = (context: OperationContext, environmentId: number): void =>
  reevaluate(context, environmentId, "allowlist");

/**
 * Re-evaluates the latest snapshot inside the write that made it necessary: a job would make the response wait for two
 * more commits. When it is a lot of work, the write enqueues that job all the same, and the response waits for it;
 * after a crash, the next start runs it.
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
  if (recorder.recordWithin({ environmentId, cause, report: null, actor, entry: null })) return;
  const job = store.reevaluationQueue.enqueue(environment, cause, actor);
  afterCommitTasks.push(() => jobs.waitFor(job, REEVALUATION_WAIT_S));
}
