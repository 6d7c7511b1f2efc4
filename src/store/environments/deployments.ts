/**
 * Deployments (semantics 6.10). Read-only: snapshot-writer.ts writes them, with the snapshot in which an artifact
 * starts.
 *
 * Lists show the rows of ordinal 0, one for each start. Counts for a flow include all ordinals: an artifact that a
 * second flow reports as well is also a deployment of that flow.
 */
import { DAY_S } from "../../domain/time.ts";
import { selectorColumn } from "../flows/artifact-selector.ts";
import type { DbReader } from "../db/types.ts";

/** A deployment as responses show it, with current names. Columns of a deleted row are null. */
export type DeploymentRow = {
  id: number;
  environment_name: string | null;
  snapshot_index: number;
  /** Epoch seconds. */
  deployed_at: number;
  fingerprint: string;
  /** The name it started under. */
  artifact_name: string;
  /** The verdict at its start; null for unknown. */
  compliant: 0 | 1 | null;
  flow_name: string | null;
  /** null also for an artifact reported without a trail. */
  trail_name: string | null;
  repo_name: string | null;
  repo_url: string | null;
  artifact_public_id: string | null;
  selector_json: string;
  git_commit: string | null;
  commit_url: string | null;
  /** Epoch seconds of the build report. */
  built_at: number | null;
  /** Epoch seconds of the commit; null where the report did not say it. */
  committed_at: number | null;
  /** Whether the fingerprint had not started in the environment before. */
  is_first: 0 | 1;
  /** What ran before in its place; null when nothing did. */
  previous_fingerprint: string | null;
  previous_name: string | null;
  previous_snapshot_index: number | null;
  previous_deployed_at: number | null;
  previous_compliant: 0 | 1 | null;
  previous_commit: string | null;
  previous_commit_url: string | null;
  previous_repo_url: string | null;
  previous_trail_name: string | null;
};

/** A deployment as a chart shows it. */
type DeploymentPoint = {
  environment_id: number;
  /** Epoch seconds. */
  deployed_at: number;
  /** Seconds since the build was reported; null where the record is deleted. */
  lead_time: number | null;
};
/** A first start of a fingerprint in an environment. `lead_time`: since the commit; null where its time is unknown. */
type FirstStart = { environment_id: number; lead_time: number | null };

/** 0: the report had no commit time. What is damaged has none, either. */
export const COMMITTED_AT = `CASE WHEN json_valid(a.git_commit_info_json)
  THEN nullif(a.git_commit_info_json ->> 'timestamp', 0) END`;
/** Later starts of a fingerprint, such as a job of every night, say nothing about the time to deployment. */
export const isFirstStart = (deployment: string): string =>
  `NOT EXISTS (SELECT 1 FROM deployments earlier
     WHERE earlier.environment_id = ${deployment}.environment_id AND earlier.fingerprint = ${deployment}.fingerprint
       AND earlier.id < ${deployment}.id)`;

/** The deployments that a list includes; null: any. Both bounds, in epoch seconds, are inclusive. */
export type DeploymentFilter = {
  organizationId: number;
  environmentIds: readonly number[] | null;
  repoIds: readonly number[] | null;
  /** The flow of the artifact; takes precedence over repositories and environments. */
  flowId?: number | null;
  from: number;
  to: number;
};

// Outer joins only: a row stays a deployment, and is counted as one, after a row it refers to was deleted.
const SHOWN = `SELECT dep.id, env.name AS environment_name, dep.snapshot_index, dep.deployed_at, dep.fingerprint,
    dep.artifact_name, dep.compliant, f.name AS flow_name, t.name AS trail_name, r.name AS repo_name,
    coalesce(r.url, a.repo_url) AS repo_url, a.public_id AS artifact_public_id, a.git_commit, a.commit_url,
    a.created_at AS built_at, ${COMMITTED_AT} AS committed_at, ${isFirstStart("dep")} AS is_first,
    prev.fingerprint AS previous_fingerprint, prev.artifact_name AS previous_name,
    prev.snapshot_index AS previous_snapshot_index, prev.deployed_at AS previous_deployed_at,
    prev.compliant AS previous_compliant, prev_a.git_commit AS previous_commit,
    prev_a.commit_url AS previous_commit_url, coalesce(prev_r.url, prev_a.repo_url) AS previous_repo_url,
    prev_t.name AS previous_trail_name, ${selectorColumn("a")}
  FROM deployments dep
    LEFT JOIN environments env ON env.id = dep.environment_id
    LEFT JOIN flows f ON f.id = dep.flow_id
    LEFT JOIN artifacts a ON a.id = dep.artifact_id
    LEFT JOIN trails t ON t.id = a.trail_id
    LEFT JOIN repos r ON r.id = dep.repo_id
    LEFT JOIN deployments prev ON prev.id = dep.replaced_id
    LEFT JOIN artifacts prev_a ON prev_a.id = prev.artifact_id
    LEFT JOIN trails prev_t ON prev_t.id = prev_a.trail_id
    LEFT JOIN repos prev_r ON prev_r.id = prev.repo_id`;

const IN_WINDOW = "dep.deployed_at >= @from AND dep.deployed_at <= @to";
const NEWEST_FIRST = "ORDER BY dep.deployed_at DESC, dep.id DESC LIMIT @limit OFFSET @offset";
const IN_ENVIRONMENTS = "+dep.environment_id IN (SELECT value FROM json_each(@environments))";
/**
 * Each has an index that ends in the time. Where there are two conditions, the plus disables the index of the second.
 */
const CHOICES = {
  organization: "dep.organization_id = @organization",
  environment: "dep.environment_id = @environment",
  environments: "dep.environment_id IN (SELECT value FROM json_each(@environments))",
  // The index of a flow begins with the environment.
  flow: `dep.environment_id IN (SELECT id FROM environments WHERE organization_id = @organization)
     AND dep.flow_id = @flow`,
  repo: "dep.repo_id = @repo",
  repoInEnvironments: `dep.repo_id = @repo AND ${IN_ENVIRONMENTS}`,
  repos: "dep.repo_id IN (SELECT value FROM json_each(@repos))",
  reposInEnvironments: `dep.repo_id IN (SELECT value FROM json_each(@repos)) AND ${IN_ENVIRONMENTS}`,
};

/** First starts that a median is made of: the newest of a filter. */
const MAX_FIRST_STARTS = 1_000;

type Bounds = { from: number; to: number };
type Parameters = Bounds & {
  organization: number;
  environment: number | null;
  environments: string;
  flow: number | null;
  repo: number | null;
  repos: string;
};

export function deploymentStore(db: DbReader) {
  const prepareChoice = (choice: string) => ({
    list: db.prepare<[Parameters & { limit: number; offset: number }], DeploymentRow>(
      `${SHOWN} WHERE ${choice} AND dep.ordinal = 0 AND ${IN_WINDOW} ${NEWEST_FIRST}`,
    ),
    count: db.prepare<[Parameters], { total: number }>(
      `SELECT count(*) AS total FROM deployments dep WHERE ${choice} AND dep.ordinal = 0 AND ${IN_WINDOW}`,
    ),
    points: db.prepare<[Parameters], DeploymentPoint>(
      `SELECT dep.environment_id, dep.deployed_at, dep.deployed_at - a.created_at AS lead_time
       FROM deployments dep LEFT JOIN artifacts a ON a.id = dep.artifact_id
       WHERE ${choice} AND dep.ordinal = 0 AND ${IN_WINDOW} ORDER BY dep.deployed_at, dep.id`,
    ),
    firstStarts: db.prepare<[Parameters], FirstStart>(
      `SELECT dep.environment_id, dep.deployed_at - ${COMMITTED_AT} AS lead_time
       FROM deployments dep LEFT JOIN artifacts a ON a.id = dep.artifact_id
       WHERE ${choice} AND dep.ordinal = 0 AND ${IN_WINDOW} AND ${isFirstStart("dep")}
       ORDER BY dep.deployed_at DESC, dep.id DESC LIMIT ${MAX_FIRST_STARTS}`,
    ),
  });
  const statements = {
    organization: prepareChoice(CHOICES.organization),
    environment: prepareChoice(CHOICES.environment),
    environments: prepareChoice(CHOICES.environments),
    flow: prepareChoice(CHOICES.flow),
    repo: prepareChoice(CHOICES.repo),
    repoInEnvironments: prepareChoice(CHOICES.repoInEnvironments),
    repos: prepareChoice(CHOICES.repos),
    reposInEnvironments: prepareChoice(CHOICES.reposInEnvironments),
  };
  const latest = db.prepare<{ environments: string; fingerprint: string }, DeploymentRow>(
    // Only ids are sorted, not the texts of the artifacts.
    `${SHOWN} WHERE dep.id = (
       SELECT dep.id FROM deployments dep
       WHERE ${CHOICES.environments} AND dep.fingerprint = @fingerprint AND dep.ordinal = 0
       ORDER BY dep.id DESC LIMIT 1)`,
  );
  const byFingerprint = db.prepare<[number, string], DeploymentRow>(
    `${SHOWN} WHERE dep.environment_id IN (SELECT id FROM environments WHERE organization_id = ?)
       AND dep.fingerprint = ? AND dep.ordinal = 0
     ORDER BY dep.id`,
  );
  const perDay = (condition: string) =>
    db.prepare<[Bounds & { environments: string; flow: number | null }], { day: number; count: number }>(
      `SELECT CAST(floor(dep.deployed_at / ${DAY_S}) AS INTEGER) AS day, count(*) AS count FROM deployments dep
       WHERE ${CHOICES.environments} AND ${condition} AND ${IN_WINDOW} GROUP BY day`,
    );
  const perDayOfAll = perDay("dep.ordinal = 0");
  const perDayOfFlow = perDay("dep.flow_id = @flow");
  // One index lookup for each environment, of which there are few, saves another index to maintain.
  const latestByFlow = db.prepare<[number, number], { at: number | null }>(
    `SELECT max((SELECT max(dep.deployed_at) FROM deployments dep
                 WHERE dep.environment_id = env.id AND dep.flow_id = ?)) AS at
     FROM environments env WHERE env.organization_id = ?`,
  );

  /** The statements for a filter, and their parameters. */
  function choose({ organizationId, environmentIds, repoIds, flowId = null, from, to }: DeploymentFilter) {
    const repos = repoIds && (repoIds.length === 1 ? "repo" : "repos");
    const environments = environmentIds && (environmentIds.length === 1 ? "environment" : "environments");
    const choice = flowId
      ? "flow"
      : repos
        ? environments
          ? (`${repos}InEnvironments` as const)
          : repos
        : (environments ?? "organization");
    const parameters: Parameters = {
      organization: organizationId,
      environment: environmentIds?.[0] ?? null,
      environments: JSON.stringify(environmentIds ?? []),
      flow: flowId,
      repo: repoIds?.[0] ?? null,
      repos: JSON.stringify(repoIds ?? []),
      from,
      to,
    };
    return { ...statements[choice], parameters };
  }

  return {
    /** One page, newest first. */
    list(filter: DeploymentFilter, { limit, offset }: { limit: number; offset: number }): DeploymentRow[] {
      if (limit === 0) return [];
      const { list, parameters } = choose(filter);
      return list.all({ ...parameters, limit, offset });
    },
    /** How many deployments `list` has on all pages. */
    count(filter: DeploymentFilter): number {
      const { count, parameters } = choose(filter);
      return count.get(parameters)?.total ?? 0;
    },
    /** All matching deployments as chart points, oldest first. */
    listPoints(filter: DeploymentFilter): DeploymentPoint[] {
      const { points, parameters } = choose(filter);
      return points.all(parameters);
    },
    /** The newest first starts, newest first; at most MAX_FIRST_STARTS. */
    listFirstStarts(filter: DeploymentFilter): FirstStart[] {
      const { firstStarts, parameters } = choose(filter);
      return firstStarts.all(parameters);
    },
    /** The deployment of a fingerprint in these environments recorded last (semantics 13.97); null without one. */
    findLatest: (environmentIds: readonly number[], fingerprint: string): DeploymentRow | null =>
      latest.get({ environments: JSON.stringify(environmentIds), fingerprint }) ?? null,
    /** Every deployment of a fingerprint in an organization, oldest first. */
    listByFingerprint: (organizationId: number, fingerprint: string): IterableIterator<DeploymentRow> =>
      byFingerprint.iterate(organizationId, fingerprint),
    /**
     * The number of deployments on each UTC day that had any, of one flow or (null) of all. The keys are days since the
     * epoch; both bounds, in epoch seconds, are inclusive.
     */
    countPerDay(environmentIds: readonly number[], flowId: number | null, bounds: Bounds): Map<number, number> {
      const statement = flowId === null ? perDayOfAll : perDayOfFlow;
      const rows = statement.all({
        environments: JSON.stringify(environmentIds),
        flow: flowId,
        from: bounds.from,
        to: bounds.to,
      });
      return new Map(rows.map(({ day, count }) => [day, count]));
    },
    /** Epoch seconds of the latest deployment of a flow; null when it was never deployed. */
    findLatestTimeByFlow: (organizationId: number, flowId: number): number | null =>
      latestByFlow.get(flowId, organizationId)?.at ?? null,
  };
}
