/** What became of a repository's artifacts: where they run, and when they started there (semantics 8.1). */
import { Type } from "typebox";
import type { Static } from "typebox";
import { COMMIT_SHA, FINGERPRINT, PUBLIC_ID, matches } from "../../domain/names.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Matching, Message, Nullable, Repeated, named } from "../../http/schema.ts";
import { selectorOf } from "../../store/flows/artifact-selector.ts";
import type { DeploymentFilter } from "../../store/environments/deployments.ts";
import type { LiveRow } from "../../store/environments/artifact-locations.ts";
import { DeploymentListPage, deploymentPage, deploymentEnvironmentIds } from "../environments/deployments.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { pages } from "../paging.ts";
import { RepoChoice, chooseRepo } from "./repos.ts";
import { Href, Place, place } from "../../contract/shapes.ts";
import { EpochWindow, WINDOW_DAYS, epochWindow } from "../time-window.ts";
import { RepoNamePath, OrgPath } from "../paths.ts";

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
          compliance: Nullable(Type.String({ description: "COMPLIANT or NON-COMPLIANT; null: no policy is attached" })),
          started_at: Type.Number({ description: "Epoch seconds of the snapshot with which it started" }),
          _links: Closed({ snapshot: Place }),
        }),
      ),
      { description: "By environment and name" },
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
              commit_sha: Nullable(Matching(COMMIT_SHA)),
              commit_url: Nullable(Type.String()),
              _links: Place,
            }),
          ),
        ),
        environments: Type.Array(
          named(
            "EmbeddedEnvironmentResponse",
            Closed({ id: Type.String(), name: Type.String(), type: Type.String(), _links: Place }),
          ),
        ),
      }),
    ),
    _links: Closed({ self: Href, repo: Href }),
  }),
);

function presentLive(
  { urls, organization: { name: org } }: OperationContext,
  repoId: string,
  rows: readonly LiveRow[],
): Static<typeof RepoLiveStatusResponse> {
  const artifacts = new Map(rows.map((row) => [row.artifact_id, row]));
  const environments = new Map(rows.map((row) => [row.environment_id, row]));
  return {
    live_artifacts: rows.map((row) => ({
      environment_id: row.environment_id,
      artifact_id: row.artifact_id,
      artifact_name: row.name,
      snapshot_index: row.snapshot_index,
      compliance: row.compliant === null ? null : row.compliant === 1 ? "COMPLIANT" : "NON-COMPLIANT",
      started_at: row.started_at,
      _links: {
        snapshot: place(
          urls.snapshotApi(org, row.environment_name, row.snapshot_index),
          urls.snapshotPage(org, row.environment_name, row.snapshot_index),
        ),
      },
    })),
    _embedded: {
      artifacts: [...artifacts.values()].map((row) => ({
        id: row.artifact_id,
        fingerprint: row.fingerprint,
        commit_sha: row.git_commit,
        commit_url: row.commit_url || null,
        _links: place(
          urls.artifactApi(org, row.flow_name, row.fingerprint, selectorOf(row)),
          urls.artifactPage(org, row.flow_name, row.fingerprint, row.artifact_id),
        ),
      })),
      environments: [...environments.values()].map((row) => ({
        id: row.environment_id,
        name: row.environment_name,
        type: row.environment_type,
        _links: place(urls.environmentApi(org, row.environment_name), urls.environmentPage(org, row.environment_name)),
      })),
    },
    _links: { self: { href: urls.repoLiveArtifactsApi(org, repoId) }, repo: { href: urls.repoApi(org, repoId) } },
  };
}

export const getRepoLiveArtifacts = operation({
  id: "get_repo_live_artifacts",
  method: "GET",
  path: "/repos/{org}/live-artifacts/{repo_name*}",
  tag: "Repos",
  summary: "Read what runs of a repository",
  description:
    "Every artifact in the latest snapshot of an environment of which a report named the repository. By name, and by `provider`; or by `id`. Of several repositories the one that was created last is meant.",
  permission: "repo:read",
  audit: null,
  params: RepoNamePath,
  query: Closed(RepoChoice),
  body: NO_BODY,
  responses: {
    200: { description: "What runs", schema: RepoLiveStatusResponse },
    404: { description: "No such repository", schema: Message },
  },
  example: { params: { org: "acme", repo_name: "acme/payments" } },
  handle(context, { params, query }) {
    const { store, organization } = context;
    const repo = chooseRepo(context, params.repo_name, query, { orRefuse: false });
    return { status: 200, body: presentLive(context, repo.public_id, store.presence.ofRepo(organization.id, repo.id)) };
  },
});

const RepoIdPath = Closed({
  org: OrgPath.properties.org,
  repo: Matching(PUBLIC_ID, { description: "Id of the repository here" }),
});
/**
 * Anything else before the last word of these paths belongs to the name of a repository, such as `acme/deployments`.
 */
const isRepoId = ({ repo }: Readonly<Record<string, string>>): boolean => matches(PUBLIC_ID, repo ?? "");

const ReleaseFilter = {
  env: Repeated(Type.String(), {
    default: [],
    description: "Names of environments; a logical one stands for its members",
  }),
  ...EpochWindow,
};
type Asked = { env?: string[]; start_ts?: number; end_ts?: number; "start-ts"?: number; "end-ts"?: number };

/** The deployments that a query asks for. An environment that does not exist has none; empty texts are no filter. */
function filterOf(context: OperationContext, repoId: number, query: Asked): DeploymentFilter {
  const { store, organization } = context;
  const names = (query.env ?? []).filter((name) => name !== "");
  const places = names.flatMap((name) => {
    const environment = store.environments.find(organization.id, name);
    return environment ? deploymentEnvironmentIds(context, environment) : [];
  });
  return {
    organizationId: organization.id,
    environmentIds: names.length === 0 ? null : [...new Set(places)],
    repoIds: [repoId],
    ...epochWindow(query, context.now()),
  };
}

const PAGES = pages({ perPage: 15, most: 50, least: 0 });

export const listRepoDeployments = operation({
  id: "list_repo_deployments",
  method: "GET",
  path: "/repos/{org}/{repo}/deployments",
  matchesParams: isRepoId,
  tag: "Repos",
  summary: "List the deployments of a repository",
  description: `What of it started in a window of time, newest first, in pages; the last ${WINDOW_DAYS} days unless told otherwise. \`per_page=0\` counts only.`,
  permission: "repo:read",
  audit: null,
  params: RepoIdPath,
  query: Closed({ ...PAGES.query, ...ReleaseFilter }),
  body: NO_BODY,
  responses: {
    200: { description: "One page", schema: DeploymentListPage },
    404: { description: "No such repository", schema: Message },
  },
  example: {
    params: { org: "acme", repo: "5d1f6a0e-3c1b-4f6e-9a52-7c0e4b1d" },
    query: { env: "production", page: "1", per_page: "15" },
  },
  handle(context, { params, query }) {
    const repo = context.store.repos.require(context.organization, params.repo);
    return { status: 200, body: deploymentPage(context, filterOf(context, repo.id, query), PAGES.window(query)) };
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
          deployed_at: Type.Array(Type.Number(), { description: "Epoch seconds of each deployment, the oldest first" }),
          lead_time_seconds: Type.Array(Nullable(Type.Number()), {
            description: "Of the same deployments: from the report of the build to the start",
          }),
        }),
      ),
      {
        description: "Physical environments, by name: those in which something started, and those that were asked for",
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
  summary: "Read the deployments of a repository for charts",
  description: `Times and lead times of each deployment in a window of time, for each physical environment; the last ${WINDOW_DAYS} days unless told otherwise. Nothing is aggregated.`,
  permission: "repo:read",
  audit: null,
  params: RepoIdPath,
  query: Closed(ReleaseFilter),
  body: NO_BODY,
  responses: {
    200: { description: "The series", schema: RepoDeploymentStatisticsResponse },
    404: { description: "No such repository", schema: Message },
  },
  example: { params: { org: "acme", repo: "5d1f6a0e-3c1b-4f6e-9a52-7c0e4b1d" }, query: { env: "production" } },
  handle(context, { params, query }) {
    const { store } = context;
    const repo = store.repos.require(context.organization, params.repo);
    const filter = filterOf(context, repo.id, query);
    const series = new Map(
      (filter.environmentIds ?? []).map((id): [number, Series] => [id, { deployed_at: [], lead_time_seconds: [] }]),
    );
    for (const { environment_id, deployed_at, lead_time } of store.deployments.points(filter)) {
      const one = series.get(environment_id) ?? { deployed_at: [], lead_time_seconds: [] };
      series.set(environment_id, one);
      one.deployed_at.push(deployed_at);
      one.lead_time_seconds.push(lead_time);
    }
    const environments = [...series].map(([id, one]) => ({
      environment_name: store.environments.get(id).name,
      ...one,
    }));
    environments.sort((a, b) => (a.environment_name < b.environment_name ? -1 : 1));
    return { status: 200, body: { start_ts: filter.from, end_ts: filter.to, environments } };
  },
});

type Series = { deployed_at: number[]; lead_time_seconds: (number | null)[] };
