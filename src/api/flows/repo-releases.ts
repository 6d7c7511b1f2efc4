/** The releases of a repository: where its artifacts run, and when they were deployed (semantics 8.1). */
import { Type } from "typebox";
import { COMMIT_SHA, FINGERPRINT, PUBLIC_ID, matches } from "../../domain/names.ts";
import { shownCommit } from "../../domain/commit.ts";
import { NO_BODY } from "../../http/operation.ts";
import { JsonList } from "../../json/text.ts";
import { Closed, Matching, Nullable, Repeated, named } from "../../http/schema.ts";
import { readSelector } from "../../store/flows/artifact-selector.ts";
import type { DeploymentFilter } from "../../store/environments/deployments.ts";
import type { RunningInRepoKey, RunningInRepoRow } from "../../store/environments/artifact-locations.ts";
import { DeploymentListPage, deploymentPage, deploymentEnvironmentIds } from "../environments/deployments.ts";
import { operation, largeRead } from "../context.ts";
import type { LargeReadContext } from "../context.ts";
import { definePaging } from "../paging.ts";
import { NO_REPO, SELECTED_REPO, selectRepo } from "./repos.ts";
import { FIRST_STARTS } from "../../contract/present-deployment.ts";
import { Href, PageLinks, linksTo } from "../../contract/shapes.ts";
import { EpochWindow, DEFAULT_WINDOW_DAYS, parseEpochWindow } from "../time-window.ts";
import { OrgPath } from "../paths.ts";

const RepoLiveStatusResponse = named(
  "RepoLiveStatusResponse",
  Closed({
    live_artifacts: Type.Array(
      named(
        "LiveArtifactEntryResponse",
        Closed({
          environment_id: Type.String(),
          artifact_id: Type.String(),
          artifact_name: Type.String({ description: "The name under which it runs" }),
          snapshot_index: Type.Integer({ description: "The latest snapshot of the environment" }),
          compliance: Nullable(
            Type.String({ description: "COMPLIANT or NON-COMPLIANT; null if no policy is attached" }),
          ),
          started_at: Type.Number({ description: "Epoch seconds of the snapshot in which it started" }),
          _links: Closed({ snapshot: PageLinks }),
        }),
      ),
      { description: "Sorted by environment and name" },
    ),
    _embedded: named(
      "RepoLiveStatusEmbedded",
      Closed({
        artifacts: Type.Array(
          named(
            "EmbeddedArtifactResponse",
            Closed({
              id: Type.String(),
              fingerprint: Matching(FINGERPRINT),
              flow_name: Type.String(),
              commit_sha: Nullable(Matching(COMMIT_SHA)),
              commit_url: Nullable(Type.String()),
              _links: PageLinks,
            }),
          ),
        ),
        environments: Type.Array(
          named(
            "EmbeddedEnvironmentResponse",
            Closed({ id: Type.String(), name: Type.String(), type: Type.String(), _links: PageLinks }),
          ),
        ),
      }),
    ),
    _links: Closed({ self: Href, repo: Href }),
  }),
);

/** Artifacts that are read at a time. */
const BATCH_SIZE = 200;

function* readRunning({ store }: LargeReadContext, keys: readonly RunningInRepoKey[]): Generator<RunningInRepoRow> {
  for (let start = 0; start < keys.length; start += BATCH_SIZE)
    yield* store.artifactLocations.readRunningInRepo(keys.slice(start, start + BATCH_SIZE));
}

/** The first key of each of these. */
const firstOfEach = (keys: readonly RunningInRepoKey[], of: "record" | "environment"): RunningInRepoKey[] => {
  const seen = new Set<number>();
  return keys.filter(({ [of]: id }) => !seen.has(id) && seen.add(id));
};

/** Lists are made while they are written. */
function presentLive(context: LargeReadContext, repoId: string, keys: readonly RunningInRepoKey[]) {
  const { urls } = context;
  const org = context.organization.name;
  return {
    live_artifacts: JsonList.from(readRunning(context, keys), (row) => ({
      environment_id: row.environment_id,
      artifact_id: row.artifact_id,
      artifact_name: row.name,
      snapshot_index: row.snapshot_index,
      compliance: row.compliant === null ? null : row.compliant === 1 ? "COMPLIANT" : "NON-COMPLIANT",
      started_at: row.started_at,
      _links: {
        snapshot: linksTo(
          urls.snapshotApi(org, row.environment_name, row.snapshot_index),
          urls.snapshotPage(org, row.environment_name, row.snapshot_index),
        ),
      },
    })),
    _embedded: {
      artifacts: JsonList.from(readRunning(context, firstOfEach(keys, "record")), (row) => ({
        id: row.artifact_id,
        fingerprint: row.fingerprint,
        flow_name: row.flow_name,
        commit_sha: shownCommit(row.git_commit),
        commit_url: row.commit_url || null,
        _links: linksTo(
          urls.artifactApi(org, row.flow_name, { fingerprint: row.fingerprint, selector: readSelector(row) }),
          urls.artifactPage(org, row.flow_name, { fingerprint: row.fingerprint, id: row.artifact_id }),
        ),
      })),
      environments: JsonList.from(readRunning(context, firstOfEach(keys, "environment")), (row) => ({
        id: row.environment_id,
        name: row.environment_name,
        type: row.environment_type,
        _links: linksTo(
          urls.environmentApi(org, row.environment_name),
          urls.environmentPage(org, row.environment_name),
        ),
      })),
    },
    _links: { self: { href: urls.repoLiveArtifactsApi(org, repoId) }, repo: { href: urls.repoApi(org, repoId) } },
  };
}

/** Looking whether so many artifacts come from a repository takes four milliseconds. */
const MAX_RUNNING_HERE = 10_000;

export const getRepoLiveArtifacts = largeRead({
  ...SELECTED_REPO,
  method: "GET",
  id: "get_repo_live_artifacts",
  path: "/repos/{org}/live-artifacts/{repo_name*}",
  summary: "List the running artifacts of a repository",
  description:
    "Every artifact in the latest snapshot of an environment whose reports named the repository. The repository is " +
    "selected by name and `provider`, or by `id`; if several match, the one that was created last.",
  responses: { 200: { description: "The running artifacts", schema: RepoLiveStatusResponse }, 404: NO_REPO },
  example: { params: { org: "acme", repo_name: "acme/payments" } },
  isLarge: ({ store, organization }) => store.artifactLocations.isMoreThan(organization.id, MAX_RUNNING_HERE),
  handle(context, { params, query }) {
    const { store, organization } = context;
    const repo = selectRepo(context, params.repo_name, { ...query, isUnique: false });
    return {
      status: 200,
      body: presentLive(context, repo.public_id, store.artifactLocations.listRunningByRepo(organization.id, repo.id)),
    };
  },
});

const RepoIdPath = Closed({
  org: OrgPath.properties.org,
  repo: Matching(PUBLIC_ID, { description: "Id of the repository in Assay" }),
});
/** Anything else before the last segment of these paths is part of a repository's name, such as `acme/deployments`. */
const isRepoId = ({ repo }: Readonly<Record<string, string>>): boolean => matches(PUBLIC_ID, repo ?? "");

const ReleaseFilter = {
  env: Repeated(Type.String(), {
    description: "Names of environments; a logical one includes its members. All environments by default",
  }),
  ...EpochWindow,
};
type ReleaseQuery = { env?: string[]; start_ts?: number; end_ts?: number; "start-ts"?: number; "end-ts"?: number };

/** Parses a filter of deployments. Unknown environments have none; empty texts are no filters. */
function parseReleaseFilter(
  context: LargeReadContext,
  repoId: number,
  { query, now }: { query: ReleaseQuery; now: number },
): DeploymentFilter {
  const { store, organization } = context;
  const names = (query.env ?? []).filter((name) => name !== "");
  const environmentIds = names.flatMap((name) => {
    const environment = store.environments.find(organization.id, name);
    return environment ? deploymentEnvironmentIds(context, environment) : [];
  });
  return {
    organizationId: organization.id,
    environmentIds: names.length === 0 ? null : [...new Set(environmentIds)],
    repoIds: [repoId],
    ...parseEpochWindow(query, now),
  };
}

const PAGING = definePaging({ perPage: 15, maxPerPage: 50, minPerPage: 0 });

export const listRepoDeployments = largeRead({
  id: "list_repo_deployments",
  method: "GET",
  path: "/repos/{org}/{repo}/deployments",
  matchesParams: isRepoId,
  tag: "Repos",
  summary: "List the deployments of a repository",
  description:
    "The deployments of the repository's artifacts in a time window, by default the last " +
    `${DEFAULT_WINDOW_DAYS} days, newest first, in pages. \`per_page=0\` returns the counts only.`,
  permission: "repo:read",
  audit: null,
  params: RepoIdPath,
  query: Closed({ ...PAGING.query, ...ReleaseFilter, ...FIRST_STARTS }),
  body: NO_BODY,
  responses: {
    200: { description: "One page", schema: DeploymentListPage },
    404: NO_REPO,
  },
  example: {
    params: { org: "acme", repo: "5d1f6a0e-3c1b-4f6e-9a52-7c0e4b1d" },
    query: { env: "production", page: "1", per_page: "15" },
  },
  // The reader thread has no clock.
  prepare: async ({ now }) => now(),
  handle(context, { params, query }, now) {
    const repo = context.store.repos.require(context.organization, params.repo);
    return {
      status: 200,
      body: deploymentPage(context, parseReleaseFilter(context, repo.id, { query, now }), {
        ...PAGING.window(query),
        first_starts: query.first_starts,
      }),
    };
  },
});

const RepoDeploymentStatisticsResponse = named(
  "RepoDeploymentStatisticsResponse",
  Closed({
    start_ts: Type.Number({ description: "Epoch seconds" }),
    end_ts: Type.Number({ description: "Epoch seconds" }),
    environments: Type.Array(
      named(
        "RepoEnvironmentDeploymentSeries",
        Closed({
          environment_name: Type.String(),
          deployed_at: Type.Array(Type.Number(), { description: "Epoch seconds of each deployment, oldest first" }),
          lead_time_seconds: Type.Array(Nullable(Type.Number()), {
            description: "Lead times of the same deployments, from the report of the build to the start",
          }),
          first_start_lead_times: Type.Optional(
            Type.Array(Nullable(Type.Number()), {
              description:
                "With `first_starts`: seconds from the commit to the first start of a fingerprint, of the newest " +
                "first starts; null where the time of the commit is unknown",
            }),
          ),
        }),
      ),
      {
        description: "Physical environments by name: those with deployments, and those in the filter",
      },
    ),
  }),
);

export const getRepoDeploymentStatistics = operation({
  id: "get_repo_deployment_statistics",
  method: "GET",
  path: "/repos/{org}/{repo}/deployment-statistics",
  matchesParams: isRepoId,
  tag: "Repos",
  summary: "Read deployment statistics of a repository",
  description:
    "Time and lead time of each deployment in a time window, by default the last " +
    `${DEFAULT_WINDOW_DAYS} days, for each physical environment and not aggregated.`,
  permission: "repo:read",
  audit: null,
  params: RepoIdPath,
  query: Closed({ ...ReleaseFilter, ...FIRST_STARTS }),
  body: NO_BODY,
  responses: {
    200: { description: "The series", schema: RepoDeploymentStatisticsResponse },
    404: NO_REPO,
  },
  example: { params: { org: "acme", repo: "5d1f6a0e-3c1b-4f6e-9a52-7c0e4b1d" }, query: { env: "production" } },
  handle(context, { params, query }) {
    const { store } = context;
    const repo = store.repos.require(context.organization, params.repo);
    const filter = parseReleaseFilter(context, repo.id, { query, now: context.now() });
    const starts = query.first_starts
      ? Map.groupBy(store.deployments.listFirstStarts(filter), ({ environment_id: id }) => id)
      : null;
    const environments = [...collectSeries(store, filter)].map(([id, series]) => ({
      environment_name: store.environments.get(id).name,
      ...series,
      ...(starts ? { first_start_lead_times: (starts.get(id) ?? []).map(({ lead_time: lead }) => lead) } : {}),
    }));
    environments.sort((a, b) => (a.environment_name < b.environment_name ? -1 : 1));
    return { status: 200, body: { start_ts: filter.from, end_ts: filter.to, environments } };
  },
});

type Series = { deployed_at: number[]; lead_time_seconds: (number | null)[] };

/** The deployments by key of the environment; environments of the filter are included without any. */
function collectSeries(store: LargeReadContext["store"], filter: DeploymentFilter): Map<number, Series> {
  const empty = (): Series => ({ deployed_at: [], lead_time_seconds: [] });
  const byEnvironment = new Map((filter.environmentIds ?? []).map((id) => [id, empty()]));
  for (const { environment_id, deployed_at, lead_time } of store.deployments.listPoints(filter)) {
    const series = byEnvironment.get(environment_id) ?? empty();
    byEnvironment.set(environment_id, series);
    series.deployed_at.push(deployed_at);
    series.lead_time_seconds.push(lead_time);
  }
  return byEnvironment;
}
