/** Builds: the first report of each fingerprint (semantics 8.1). Read-only, because artifact reports create them. */
import { shownCommit } from "../../domain/commit.ts";
import { Type } from "typebox";
import type { Static } from "typebox";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Nullable, named } from "../../http/schema.ts";
import { readSelector } from "../../store/flows/artifact-selector.ts";
import type { BuildFilter, BuildRow } from "../../store/flows/builds.ts";
import { operation, largeRead } from "../context.ts";
import type { LargeReadContext } from "../context.ts";
import { PageCounts, pageCounts, definePaging } from "../paging.ts";
import { PageLinks, linksTo } from "../../contract/shapes.ts";
import { EpochWindow, DEFAULT_WINDOW_DAYS, parseEpochWindow } from "../time-window.ts";
import { UNREADABLE } from "../../contract/placeholders.ts";
import { OrgPath } from "../paths.ts";

const BuildItemResponse = named(
  "BuildItemResponse",
  Closed({
    created_at: Type.Number({ description: "Epoch seconds of the report" }),
    fingerprint: Type.String(),
    artifact_name: Type.String({ description: "As reported" }),
    git_commit: Nullable(Type.String()),
    commit_url: Nullable(Type.String()),
    build_url: Nullable(Type.String()),
    flow_name: Type.String({ description: "The flow that it was first reported to" }),
    trail_name: Type.String({ description: "Empty for an artifact reported without a trail" }),
    repo_info: Nullable(
      named(
        "BuildRepoInfo",
        Closed({ name: Type.String(), repo_id: Type.String({ description: "Id at the code host" }) }),
      ),
    ),
    _links: Closed({ artifact: Type.Optional(PageLinks), repo: Type.Optional(PageLinks) }),
  }),
);
const BuildListResponse = named("BuildListResponse", Closed({ ...PageCounts, builds: Type.Array(BuildItemResponse) }));

const BuildStatisticsResponse = named(
  "BuildStatistics",
  Closed({
    start_ts: Type.Number({ description: "Epoch seconds" }),
    end_ts: Type.Number({ description: "Epoch seconds" }),
    count: Type.Integer(),
    timestamps: Type.Array(Type.Number(), { description: "Epoch seconds of each build, oldest first" }),
  }),
);

/** A build whose record is gone still counts, so it is shown as well, marked. */
function presentBuild(
  { urls, organization: { name: org } }: LargeReadContext,
  row: BuildRow,
): Static<typeof BuildItemResponse> {
  const { fingerprint, flow_name, artifact_public_id, repo_name, repo_external_id, repo_public_id } = row;
  const isKnown = fingerprint !== null && flow_name !== null && artifact_public_id !== null;
  return {
    created_at: row.created_at,
    fingerprint: fingerprint ?? "",
    artifact_name: row.filename ?? UNREADABLE,
    git_commit: isKnown ? shownCommit(row.git_commit) : null,
    commit_url: row.commit_url || null,
    build_url: row.build_url || null,
    flow_name: flow_name ?? UNREADABLE,
    trail_name: row.trail_name ?? "",
    repo_info: repo_name === null || repo_external_id === null ? null : { name: repo_name, repo_id: repo_external_id },
    _links: {
      ...(isKnown
        ? {
            artifact: linksTo(
              urls.artifactApi(org, flow_name, { fingerprint, selector: readSelector(row) }),
              urls.artifactPage(org, flow_name, { fingerprint, id: artifact_public_id }),
            ),
          }
        : {}),
      ...(repo_public_id === null
        ? {}
        : { repo: linksTo(urls.repoApi(org, repo_public_id), urls.repoPage(org, repo_public_id)) }),
    },
  };
}

const RepoFilter = {
  repo_inner_id: Type.Optional(
    Type.String({ description: "Id of a repository in Assay, which never changes; overrides the other two filters" }),
  ),
  repo_id: Type.Optional(Type.String({ description: "Id of a repository at its code host; overrides the name" })),
  repo_name: Type.Optional(Type.String({ description: "Current name of a repository" })),
};
type RepoQuery = { repo_inner_id?: string; repo_id?: string; repo_name?: string };

/** The repositories of a query, by the most specific filter; null without one. Empty texts are no filters. */
function findRepoIds(
  { store: { repos }, organization: { id } }: LargeReadContext,
  { repo_inner_id, repo_id, repo_name }: RepoQuery,
): number[] | null {
  if (repo_inner_id) {
    const repo = repos.findByPublicId(id, repo_inner_id);
    return repo ? [repo.id] : [];
  }
  if (repo_id) return repos.listByExternalId(id, repo_id).map((repo) => repo.id);
  if (repo_name) return repos.listByName(id, repo_name).map((repo) => repo.id);
  return null;
}

const PAGING = definePaging({ perPage: 15, maxPerPage: 50, minPerPage: 0 });

export const listBuilds = largeRead({
  id: "list_builds",
  method: "GET",
  path: "/builds/{org}",
  tag: "Builds",
  summary: "List builds",
  description:
    `The builds in a time window, by default the last ${DEFAULT_WINDOW_DAYS} days, newest first, in pages. The first ` +
    "report of a fingerprint is its build. `per_page=0` returns the counts only. An unknown repository, or one " +
    "without builds, gives an empty list.",
  permission: "artifact:read",
  audit: null,
  params: OrgPath,
  query: Closed({ ...PAGING.query, ...RepoFilter, ...EpochWindow }),
  body: NO_BODY,
  responses: { 200: { description: "One page", schema: BuildListResponse } },
  example: { params: { org: "acme" }, query: { repo_name: "acme/payments", page: "1", per_page: "15" } },
  // The reader thread has no clock.
  prepare: async ({ now }) => now(),
  handle(context, { query }, now) {
    const { store, organization } = context;
    const window = PAGING.window(query);
    const filter: BuildFilter = {
      organizationId: organization.id,
      repoIds: findRepoIds(context, query),
      ...parseEpochWindow(query, now),
    };
    const builds = store.builds.list(filter, window).map((row) => presentBuild(context, row));
    return { status: 200, body: { ...pageCounts(store.builds.count(filter), window.page, window.perPage), builds } };
  },
});

export const buildStatistics = operation({
  id: "build_statistics",
  method: "GET",
  path: "/builds/{org}/statistics",
  tag: "Builds",
  summary: "Read build statistics",
  description: `Times of the builds in a time window, by default the last ${DEFAULT_WINDOW_DAYS} days. Not aggregated.`,
  permission: "artifact:read",
  audit: null,
  params: OrgPath,
  query: Closed({ ...RepoFilter, ...EpochWindow }),
  body: NO_BODY,
  responses: { 200: { description: "The times", schema: BuildStatisticsResponse } },
  example: { params: { org: "acme" }, query: { repo_name: "acme/payments" } },
  handle(context, { query }) {
    const { store, organization } = context;
    const { from, to } = parseEpochWindow(query, context.now());
    const timestamps = store.builds.listTimes({
      organizationId: organization.id,
      repoIds: findRepoIds(context, query),
      from,
      to,
    });
    return { status: 200, body: { start_ts: from, end_ts: to, count: timestamps.length, timestamps } };
  },
});
