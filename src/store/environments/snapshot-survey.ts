/**
 * The first step of recording a snapshot: reads the stored state of an environment and finds what has to be evaluated
 * or written. Writes nothing.
 */
import { hash } from "node:crypto";
import type { AppliedPolicy } from "../../domain/compliance/environment.ts";
import { estimateEvaluationMs } from "../../domain/policy/cost.ts";
import { identityOf } from "../../domain/snapshot/diff.ts";
import type { Cause } from "../../domain/snapshot/diff.ts";
import type { ReportedArtifact } from "../../domain/snapshot/normalize.ts";
import type { DbReader, SchemaSources } from "../db/types.ts";
import type { policyStore } from "../policies/policies.ts";
import type { allowlistEndStore } from "./allowlist-ends.ts";
import type { complianceFactStore } from "./compliance-facts.ts";
import type { EnvironmentRow, environmentStore } from "./environments.ts";
import { OPEN } from "./snapshots.ts";

/** An artifact that runs in the latest snapshot. */
export type OpenRow = {
  id: number;
  fingerprint: string;
  name: string;
  now: number;
  compliant: 0 | 1 | null;
  evaluation_id: number;
  started_index: number;
  instances_json: string;
};

/** An artifact that was reported: the number of its instances, and they as they are stored. */
type Reported = { name: string; fingerprint: string; instances: number; instancesJson: string };

/** A report as it is stored and compared, which takes half the memory of the objects. */
export type StorableReport = { artifacts: readonly Reported[]; digest: string };

/** An artifact that runs now. `row`: the same artifact in the latest snapshot; null when it starts. */
export type Present = Reported & {
  row: OpenRow | null;
  /** Whether it is new or its evaluation is stale. */
  evaluate: boolean;
};

/** The state of an environment before a snapshot. */
export type Survey = {
  environment: EnvironmentRow;
  cause: Cause;
  /** Whether `after` is a report; otherwise it is what ran before. */
  isReport: boolean;
  policies: readonly AppliedPolicy[];
  versionsJson: string;
  /** null before the first snapshot. */
  before: readonly OpenRow[] | null;
  after: readonly Present[];
  digest: string;
  /** Epoch seconds at which an allowlist entry with an end has to be in force; null where none is. */
  allowedAt: number | null;
  /**
   * The cost of the remaining steps, in artifacts to evaluate or write: each further ARTIFACT_MS counts as one more.
   */
  workload: number;
};

export type SurveyParts = {
  environments: Pick<ReturnType<typeof environmentStore>, "get">;
  policies: Pick<ReturnType<typeof policyStore>, "listInForce" | "listApplied">;
  facts: Pick<ReturnType<typeof complianceFactStore>, "countFlows">;
  allowlistEnds: Pick<ReturnType<typeof allowlistEndStore>, "hasAny" | "hasReached" | "listReached">;
};

/** Milliseconds to evaluate and write one artifact under a few ordinary policies. */
const ARTIFACT_MS = 0.2;

/** Above this the work goes to the worker thread anyway (jobs/recorder.ts), and counting flows is not free. */
const MAX_COUNTED_WORKLOAD = 100;

export function snapshotSurveyor(
  db: DbReader,
  { now }: Pick<SchemaSources, "now">,
  { environments, policies, facts, allowlistEnds }: SurveyParts,
) {
  const openRows = db.prepare<[number], OpenRow>(
    `SELECT id, fingerprint, name, now, compliant, evaluation_id, started_index, instances_json
     FROM snapshot_artifacts WHERE environment_id = ? AND last_index = ${OPEN}`,
  );
  const stale = db.prepare<[number], { fingerprint: string }>(
    "SELECT fingerprint FROM stale_artifacts WHERE environment_id = ?",
  );
  const versionsOf = db.prepare<[number, number], { policy_versions_json: string }>(
    "SELECT policy_versions_json FROM snapshots WHERE environment_id = ? AND idx = ?",
  );

  /**
   * `written` artifacts, plus what evaluating takes beyond the ordinary because policies are large or flows are many.
   */
  function workloadOf({
    organizationId,
    applied,
    after,
    written,
  }: {
    organizationId: number;
    applied: readonly AppliedPolicy[];
    after: readonly Present[];
    written: number;
  }): number {
    const msPerFlow = applied.reduce((sum, { document }) => sum + estimateEvaluationMs(document), 0);
    let workload = written;
    for (const present of after) {
      if (workload > MAX_COUNTED_WORKLOAD || msPerFlow === 0) break;
      if (!present.evaluate) continue;
      const flows = Math.max(1, facts.countFlows(organizationId, present.fingerprint));
      workload += Math.max(0, Math.floor((flows * msPerFlow) / ARTIFACT_MS) - 1);
    }
    return workload;
  }

  function readCurrent(environment: EnvironmentRow, cause: Cause, report: StorableReport | null): Survey {
    const isFirst = environment.snapshot_count === 0;
    const before = isFirst ? null : openRows.all(environment.id);
    const staleFingerprints = new Set(stale.all(environment.id).map(({ fingerprint }) => fingerprint));
    const allowedAt = allowlistEnds.hasAny(environment.id) ? now() : null;
    if (allowedAt !== null)
      for (const fingerprint of allowlistEnds.listReached(environment.id, allowedAt))
        staleFingerprints.add(fingerprint);
    const applied = policies.listApplied(environment.id);
    const versionsJson = JSON.stringify(applied.map(({ versionId }) => versionId));
    const policiesChanged =
      !isFirst && versionsOf.get(environment.id, environment.snapshot_count)?.policy_versions_json !== versionsJson;
    const isStale = (fingerprint: string): boolean => policiesChanged || staleFingerprints.has(fingerprint);
    const after = report
      ? presentOfReport(report.artifacts, before ?? [], isStale)
      : presentOfRows(before ?? [], isStale);
    const touched = after.filter(
      (present) => present.evaluate || present.instancesJson !== present.row?.instances_json,
    ).length;
    const continued = after.filter(({ row }) => row !== null).length;
    const written = touched + ((before?.length ?? 0) - continued);
    return {
      environment,
      cause,
      isReport: report !== null,
      policies: applied,
      versionsJson,
      before,
      after,
      digest: report?.digest ?? environment.running_digest ?? "",
      allowedAt,
      workload: workloadOf({ organizationId: environment.organization_id, applied, after, written }),
    };
  }

  return {
    /**
     * Whether a report matches the latest snapshot, and nothing that a verdict depends on changed since the two were
     * last compared. Reads no more than an index of allowlist entries that end. `digest` is `digestOf` the report.
     */
    isUnchanged: (environment: EnvironmentRow, digest: string): boolean =>
      environment.snapshot_count > 0 &&
      environment.running_digest === digest &&
      environment.checked_revision === environment.revision &&
      !allowlistEnds.hasReached(environment.id, now),

    /** Whether the latest snapshot was evaluated under the policies in force; false without a snapshot. */
    isUnderPolicies: ({ id, snapshot_count }: EnvironmentRow): boolean =>
      versionsOf.get(id, snapshot_count)?.policy_versions_json ===
      JSON.stringify(policies.listInForce(id).map(({ version_id }) => version_id)),

    /** Reads the stored state. @param report null when what ran still runs. */
    readCurrent,

    /** Whether a survey, and a plan made from it, still holds. */
    isCurrent({ environment, allowedAt }: Survey): boolean {
      const { snapshot_count, revision, archived_at } = environments.get(environment.id);
      return (
        snapshot_count === environment.snapshot_count &&
        revision === environment.revision &&
        archived_at === environment.archived_at &&
        (allowedAt === null || !allowlistEnds.hasReached(environment.id, now, allowedAt))
      );
    },
  };
}

/**
 * A digest that depends on the names and fingerprints of a report, not on its instances. Reports are ordered
 * (domain/snapshot/normalize.ts), so equal ones have equal digests.
 */
export const digestOf = (artifacts: readonly ReportedArtifact[]): string =>
  hash("sha256", JSON.stringify(artifacts.map(identityOf)));

/** The report of a survey, without the state that it was compared with; null where there was none. */
export const reportOf = ({ isReport, after, digest }: Survey): StorableReport | null =>
  isReport
    ? {
        artifacts: after.map(({ name, fingerprint, instances, instancesJson }) => ({
          name,
          fingerprint,
          instances,
          instancesJson,
        })),
        digest,
      }
    : null;

/** @param artifacts in their order (domain/snapshot/normalize.ts) */
export const storableReport = (artifacts: readonly ReportedArtifact[]): StorableReport => ({
  artifacts: artifacts.map(({ name, fingerprint, instances }) => ({
    name,
    fingerprint,
    instances: instances.created.length,
    instancesJson: JSON.stringify(instances),
  })),
  digest: digestOf(artifacts),
});

function presentOfReport(
  artifacts: readonly Reported[],
  before: readonly OpenRow[],
  isStale: (fingerprint: string) => boolean,
): Present[] {
  const rows = new Map(before.map((row) => [identityOf(row), row]));
  return artifacts.map(({ name, fingerprint, instances, instancesJson }) => {
    const row = rows.get(identityOf({ name, fingerprint })) ?? null;
    return {
      name,
      fingerprint,
      instances,
      instancesJson,
      row,
      evaluate: row === null || isStale(fingerprint),
    };
  });
}

const presentOfRows = (before: readonly OpenRow[], isStale: (fingerprint: string) => boolean): Present[] =>
  before.map((row) => ({
    name: row.name,
    fingerprint: row.fingerprint,
    instances: row.now,
    instancesJson: row.instances_json,
    row,
    evaluate: isStale(row.fingerprint),
  }));
