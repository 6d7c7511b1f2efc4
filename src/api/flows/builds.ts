/**
 * Builds: what was built when, told by the first report of each fingerprint (semantics 8.1). Read-only; reports of
 * artifacts make them.
 */
import { Type } from "typebox";
import type { Static } from "typebox";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Nullable, named } from "../../http/schema.ts";
import { selectorOf } from "../../store/flows/artifact-selector.ts";
import type { BuildFilter, BuildRow } from "../../store/flows/builds.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { Counts, counts, pages } from "../paging.ts";
import { Place, place } from "../../contract/shapes.ts";
import { EpochWindow, WINDOW_DAYS, epochWindow } from "../time-window.ts";
import { UNREADABLE } from "../../contract/placeholders.ts";
import { OrgPath } from "../paths.ts";

const BuildItemResponse = named(
  "BuildItemResponse",
  Closed({
    created_at: Type.Number({ description: "Epoch seconds of the report" }),
    fingerprint: Type.String(),
    flow_name: Type.String({ description: "The flow to which it was reported first" }),
    trail_name: Type.String({ description: "Empty for an artifact that was reported without a trail" }),
    repo_info: Nullable(
      named("BuildRepoInfo", Closed({ name: Type.String(), repo_id: Type.String({ description: "Id at the forge" }) })),
    ),
    _links: Closed({ artifact: Type.Optional(Place), repo: Type.Optional(Place) }),
  }),
);
const BuildListResponse = named("BuildListResponse", Closed({ ...Counts, builds: Type.Array(BuildItemResponse) }));

const BuildStatisticsResponse = named(
  "BuildStatistics",
  Closed({
    start_ts: Type.Number({ description: "Epoch seconds" }),
    end_ts: Type.Number({ description: "Epoch seconds" }),
    count: Type.Integer(),
    timestamps: Type.Array(Type.Number(), { description: "Epoch seconds of each build, the oldest first" }),
  }),
);

/** A build of which the record is gone is still counted, so it is shown too, marked. */
function presentBuild(
  { urls, organization: { name: org } }: OperationContext,
  row: BuildRow,
): Static<typeof BuildItemResponse> {
  const { fingerprint, flow_name, artifact_public_id, repo_name, repo_external_id, repo_public_id } = row;
  const isKnown = fingerprint !== null && flow_name !== null && artifact_public_id !== null;
  return {
    created_at: row.created_at,
    fingerprint: fingerprint ?? "",
    flow_name: flow_name ?? UNREADABLE,
    trail_name: row.trail_name ?? "",
    repo_info: repo_name === null || repo_external_id === null ? null : { name: repo_name, repo_id: repo_external_id },
    _links: {
      ...(isKnown
        ? {
            artifact: place(
              urls.artifactApi(org, flow_name, fingerprint, selectorOf(row)),
              urls.artifactPage(org, flow_name, fingerprint, artifact_public_id),
            ),
          }
        : {}),
      ...(repo_public_id === null
        ? {}
        : { repo: place(urls.repoApi(org, repo_public_id), urls.repoPage(org, repo_public_id)) }),
    },
  };
}

const RepoFilter = {
  repo_inner_id: Type.Optional(
    Type.String({ description: "Id of a repository here: the one that never changes, and counts most" }),
  ),
  repo_id: Type.Optional(Type.String({ description: "Id of a repository at its forge; counts more than the name" })),
  repo_name: Type.Optional(Type.String({ description: "Name of a repository as it is now" })),
};
type Asked = { repo_inner_id?: string; repo_id?: string; repo_name?: string };

/**
 * The repositories that a query names, by what identifies them best; null when it names none. Empty texts are no
 * filter.
 */
function repoIdsOf(
  { store: { repos }, organization: { id } }: OperationContext,
  { repo_inner_id, repo_id, repo_name }: Asked,
): number[] | null {
  if (repo_inner_id) {
    const repo = repos.withPublicId(id, repo_inner_id);
    return repo ? [repo.id] : [];
  }
  if (repo_id) return repos.withExternalId(id, repo_id).map((repo) => repo.id);
  if (repo_name) return repos.named(id, repo_name).map((repo) => repo.id);
  return null;
}

const PAGES = pages({ perPage: 15, most: 50, least: 0 });

export const listBuilds = operation({
  id: "list_builds",
  method: "GET",
  path: "/builds/{org}",
  tag: "Builds",
  summary: "List builds",
  description: `What was built in a window of time, newest first, in pages; the last ${WINDOW_DAYS} days unless told otherwise. The first report of a fingerprint is its build. \`per_page=0\` counts only. A repository that nothing was built from gives an empty list, and so does an unknown one.`,
  permission: "artifact:read",
  audit: null,
  params: OrgPath,
  query: Closed({ ...PAGES.query, ...RepoFilter, ...EpochWindow }),
  body: NO_BODY,
  responses: { 200: { description: "One page", schema: BuildListResponse } },
  example: { params: { org: "acme" }, query: { repo_name: "acme/payments", page: "1", per_page: "15" } },
  handle(context, { query }) {
    const { store, organization } = context;
    const window = PAGES.window(query);
    const filter: BuildFilter = {
      organizationId: organization.id,
      repoIds: repoIdsOf(context, query),
      ...epochWindow(query, context.now()),
    };
    const builds = store.builds.list(filter, window).map((row) => presentBuild(context, row));
    return { status: 200, body: { ...counts(store.builds.count(filter), window.page, window.perPage), builds } };
  },
});

export const buildStatistics = operation({
  id: "build_statistics",
  method: "GET",
  path: "/builds/{org}/statistics",
  tag: "Builds",
  summary: "Read builds for charts",
  description: `The time of each build in a window of time, the last ${WINDOW_DAYS} days unless told otherwise. Nothing is aggregated.`,
  permission: "artifact:read",
  audit: null,
  params: OrgPath,
  query: Closed({ ...RepoFilter, ...EpochWindow }),
  body: NO_BODY,
  responses: { 200: { description: "The times", schema: BuildStatisticsResponse } },
  example: { params: { org: "acme" }, query: { repo_name: "acme/payments" } },
  handle(context, { query }) {
    const { store, organization } = context;
    const { from, to } = epochWindow(query, context.now());
    const timestamps = store.builds.times({
      organizationId: organization.id,
      repoIds: repoIdsOf(context, query),
      from,
      to,
    });
    return { status: 200, body: { start_ts: from, end_ts: to, count: timestamps.length, timestamps } };
  },
});
