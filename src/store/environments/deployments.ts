/**
 * Deployments, read (semantics 6.10). recording.ts writes them, with the snapshot in which an artifact starts.
 *
 * Lists show the rows of ordinal 0, one for each start. A flow counts the rows of all ordinals: an artifact that it
 * took over from another flow is its deployment too.
 */
import { DAY } from "../../domain/time.ts";
import { selectorColumn } from "../flows/artifact-selector.ts";
import type { Db } from "../db/types.ts";

/** A deployment as answers show it. Names are those of now. What comes from a row that is gone is null. */
export type DeploymentRow = {
  id: number;
  environment_name: string | null;
  snapshot_index: number;
  /** Epoch seconds. */
  deployed_at: number;
  fingerprint: string;
  /** The name under which it started. */
  artifact_name: string;
  /** The verdict at the start, null for unknown. */
  compliant: 0 | 1 | null;
  flow_name: string | null;
  /** null also for an artifact that was reported without a trail. */
  trail_name: string | null;
  repo_name: string | null;
  repo_url: string | null;
  artifact_public_id: string | null;
  selector_json: string;
  git_commit: string | null;
  commit_url: string | null;
  /** Epoch seconds of the build report. */
  built_at: number | null;
  /** What ran before in its place; null: nothing did. */
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

/** A start for charts, in its environment. */
export type DeploymentPoint = {
  environment_id: number;
  /** Epoch seconds. */
  deployed_at: number;
  /** Seconds from the report of the build; null where the record is gone. */
  lead_time: number | null;
};

/** Which deployments a list has. null: of all. Both bounds, in epoch seconds, are part of the window. */
export type DeploymentFilter = {
  organizationId: number;
  environmentIds: readonly number[] | null;
  repoIds: readonly number[] | null;
  from: number;
  to: number;
};

// All joins are outer ones: a row of which a part is gone is still a deployment, and counted as one.
const SHOWN = `SELECT d.id, e.name AS environment_name, d.snapshot_index, d.deployed_at, d.fingerprint, d.artifact_name, d.compliant,
    f.name AS flow_name, t.name AS trail_name, r.name AS repo_name, coalesce(r.url, a.repo_url) AS repo_url,
    a.public_id AS artifact_public_id, a.git_commit, a.commit_url, a.created_at AS built_at,
    p.fingerprint AS previous_fingerprint, p.artifact_name AS previous_name, p.snapshot_index AS previous_snapshot_index,
    p.deployed_at AS previous_deployed_at, p.compliant AS previous_compliant,
    pa.git_commit AS previous_commit, pa.commit_url AS previous_commit_url, coalesce(pr.url, pa.repo_url) AS previous_repo_url,
    pt.name AS previous_trail_name, ${selectorColumn("a")}
  FROM deployments d
    LEFT JOIN environments e ON e.id = d.environment_id LEFT JOIN flows f ON f.id = d.flow_id
    LEFT JOIN artifacts a ON a.id = d.artifact_id LEFT JOIN trails t ON t.id = a.trail_id LEFT JOIN repos r ON r.id = d.repo_id
    LEFT JOIN deployments p ON p.id = d.replaced_id LEFT JOIN artifacts pa ON pa.id = p.artifact_id LEFT JOIN trails pt ON pt.id = pa.trail_id
    LEFT JOIN repos pr ON pr.id = p.repo_id`;

const IN_WINDOW = "d.deployed_at >= @from AND d.deployed_at <= @to";
const NEWEST_FIRST = "ORDER BY d.deployed_at DESC, d.id DESC LIMIT @limit OFFSET @offset";
const IN_ENVIRONMENTS = "+d.environment_id IN (SELECT value FROM json_each(@environments))";
/**
 * Each has an index that ends in the time. The plus keeps the second condition of those with two from taking another
 * one.
 */
const CHOICES = {
  organization: "d.organization_id = @organization",
  environment: "d.environment_id = @environment",
  environments: "d.environment_id IN (SELECT value FROM json_each(@environments))",
  repo: "d.repo_id = @repo",
  repoThere: `d.repo_id = @repo AND ${IN_ENVIRONMENTS}`,
  repos: "d.repo_id IN (SELECT value FROM json_each(@repos))",
  reposThere: `d.repo_id IN (SELECT value FROM json_each(@repos)) AND ${IN_ENVIRONMENTS}`,
};

type Bounds = { from: number; to: number };
type Parameters = Bounds & {
  organization: number;
  environment: number | null;
  environments: string;
  repo: number | null;
  repos: string;
};

export function deploymentStore(db: Db) {
  const prepared = (choice: string) => ({
    list: db.prepare<[Parameters & { limit: number; offset: number }], DeploymentRow>(
      `${SHOWN} WHERE ${choice} AND d.ordinal = 0 AND ${IN_WINDOW} ${NEWEST_FIRST}`,
    ),
    count: db.prepare<[Parameters], { total: number }>(
      `SELECT count(*) AS total FROM deployments d WHERE ${choice} AND d.ordinal = 0 AND ${IN_WINDOW}`,
    ),
    points: db.prepare<[Parameters], DeploymentPoint>(
      `SELECT d.environment_id, d.deployed_at, d.deployed_at - a.created_at AS lead_time FROM deployments d LEFT JOIN artifacts a ON a.id = d.artifact_id
       WHERE ${choice} AND d.ordinal = 0 AND ${IN_WINDOW} ORDER BY d.deployed_at, d.id`,
    ),
  });
  const statements = {
    organization: prepared(CHOICES.organization),
    environment: prepared(CHOICES.environment),
    environments: prepared(CHOICES.environments),
    repo: prepared(CHOICES.repo),
    repoThere: prepared(CHOICES.repoThere),
    repos: prepared(CHOICES.repos),
    reposThere: prepared(CHOICES.reposThere),
  };
  const latest = db.prepare<{ environments: string; fingerprint: string }, DeploymentRow>(
    `${SHOWN} WHERE ${CHOICES.environments} AND d.fingerprint = @fingerprint AND d.ordinal = 0 ORDER BY d.id DESC LIMIT 1`,
  );
  const ofFingerprint = db.prepare<[number, string], DeploymentRow>(
    `${SHOWN} WHERE d.environment_id IN (SELECT id FROM environments WHERE organization_id = ?) AND d.fingerprint = ? AND d.ordinal = 0 ORDER BY d.id`,
  );
  const perDay = (condition: string) =>
    db.prepare<[Bounds & { environments: string; flow: number | null }], { day: number; count: number }>(
      `SELECT CAST(floor(d.deployed_at / ${DAY}) AS INTEGER) AS day, count(*) AS count FROM deployments d
       WHERE ${CHOICES.environments} AND ${condition} AND ${IN_WINDOW} GROUP BY day`,
    );
  const perDayOfAll = perDay("d.ordinal = 0");
  const perDayOfFlow = perDay("d.flow_id = @flow");
  // One step into the index for each environment, of which there are few, instead of one more index to write.
  const latestOfFlow = db.prepare<[number, number], { at: number | null }>(
    `SELECT max((SELECT max(d.deployed_at) FROM deployments d WHERE d.environment_id = e.id AND d.flow_id = ?)) AS at
     FROM environments e WHERE e.organization_id = ?`,
  );

  /** The statements of a filter and their parameters. */
  function choose({ organizationId, environmentIds, repoIds, from, to }: DeploymentFilter) {
    const ofRepos = repoIds && (repoIds.length === 1 ? "repo" : "repos");
    const there = environmentIds && (environmentIds.length === 1 ? "environment" : "environments");
    const choice = ofRepos ? (there ? (`${ofRepos}There` as const) : ofRepos) : (there ?? "organization");
    const parameters: Parameters = {
      organization: organizationId,
      environment: environmentIds?.[0] ?? null,
      environments: JSON.stringify(environmentIds ?? []),
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
    /** How many deployments all pages have together. */
    count(filter: DeploymentFilter): number {
      const { count, parameters } = choose(filter);
      return count.get(parameters)?.total ?? 0;
    },
    /** All of them for charts, the oldest first. */
    listPoints(filter: DeploymentFilter): DeploymentPoint[] {
      const { points, parameters } = choose(filter);
      return points.all(parameters);
    },
    /**
     * The deployment of a fingerprint in these environments that was recorded last (decision 97); null: there was none.
     */
    findLatest: (environmentIds: readonly number[], fingerprint: string): DeploymentRow | null =>
      latest.get({ environments: JSON.stringify(environmentIds), fingerprint }) ?? null,
    /** Every deployment of a fingerprint in an organization, oldest first. */
    listByFingerprint: (organizationId: number, fingerprint: string): IterableIterator<DeploymentRow> =>
      ofFingerprint.iterate(organizationId, fingerprint),
    /** Deployments of each UTC day that had any, of one flow or of all. Both bounds, in epoch seconds, count. */
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
    /** Epoch seconds of the latest deployment of a flow, null when it never was deployed. */
    findLatestTimeByFlow: (organizationId: number, flowId: number): number | null =>
      latestOfFlow.get(flowId, organizationId)?.at ?? null,
  };
}
