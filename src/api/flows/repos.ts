/** Source repositories: created by the reports that name them, read and tagged here (semantics 8.1). */
import { Type } from "typebox";
import type { Static } from "typebox";
import {
  isListOf,
  isObject,
  isRecordOf,
  isText,
  readNullableStoredJson,
  readStoredJson,
} from "../../domain/stored-json.ts";
import { badRequest } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Message, Nullable, OneOf, Repeated, named } from "../../http/schema.ts";
import type { RepoFacets, RepoView } from "../../store/flows/repo-lists.ts";
import type { RepoRow } from "../../store/flows/repos.ts";
import { readNullableReported } from "../../contract/reported-json.ts";
import { operation, largeRead } from "../context.ts";
import type { LargeReadContext } from "../context.ts";
import { PageCounts, pageCounts, definePaging } from "../paging.ts";
import { Href, RepoProvider } from "../../contract/shapes.ts";
import { TagChoice } from "../tags.ts";
import { UNREADABLE, presentEach } from "../../contract/placeholders.ts";
import { Tags } from "../../contract/tags.ts";
import { parseTagFilters } from "../filters.ts";
import { RepoNamePath, OrgPath, NoQuery } from "../paths.ts";

const RepoResponse = named(
  "RepoResponse",
  Closed({
    id: Type.String({ description: "Id in Assay, which tag operations need" }),
    name: Type.String(),
    url: Type.String(),
    provider: Nullable(RepoProvider),
    repo_id: Type.String({ description: "Id at the code host" }),
    description: Nullable(Type.String()),
    vcs_instance: Nullable(Type.String({ description: "Host name of the code host, from the URL" })),
    namespace_path: Type.Array(Type.String(), {
      description: "Levels above the repository: as reported, else derived from its name",
    }),
    additional_info: Nullable(Type.Record(Type.String(), Type.Unknown())),
    tags: Tags,
    created_at: Type.Number({ description: "Epoch seconds of the first report that named it" }),
    last_modified_at: Type.Number({ description: "Epoch seconds of the last change" }),
    latest_activity: Nullable(Type.Number({ description: "Epoch seconds of the latest report that named it" })),
    _links: Closed({ self: Href, html: Href, deployments: Href, live_artifacts: Href }),
  }),
);
const RepoListResponse = named("RepoListResponse", Closed({ ...PageCounts, repos: Type.Array(RepoResponse) }));

const RepoFilterOptionsResponse = named(
  "RepoFilterOptionsResponse",
  Closed({
    providers: Type.Array(Type.String()),
    vcs_instances: Type.Array(Type.String()),
    namespace_values: Type.Array(Type.String(), {
      description: "Full namespaces, one level below the requested one; top-level ones without a filter",
    }),
  }),
);

/** @throws StoredJsonError for a damaged record */
function presentRepo(
  { urls, organization: { name: org } }: LargeReadContext,
  row: RepoView,
): Static<typeof RepoResponse> {
  return {
    id: row.public_id,
    name: row.name,
    url: row.url,
    provider: (row.provider || null) as Static<typeof RepoProvider> | null,
    repo_id: row.external_id,
    description: row.description || null,
    vcs_instance: row.vcs_instance || null,
    namespace_path:
      readNullableStoredJson(row.namespace_path_json, isListOf(isText)) ??
      row.namespace.split("/").filter((level) => level !== ""),
    additional_info: readNullableReported(row.additional_info_json, isObject),
    tags: readStoredJson(row.tags_json, isRecordOf(isText)),
    created_at: row.created_at,
    last_modified_at: row.last_modified_at,
    latest_activity: row.latest_activity_at || null,
    _links: {
      self: { href: urls.repoApi(org, row.public_id) },
      html: { href: urls.repoPage(org, row.public_id) },
      deployments: { href: urls.repoDeploymentsApi(org, row.public_id) },
      live_artifacts: { href: urls.repoLiveArtifactsApi(org, row.public_id) },
    },
  };
}

/** Presents repositories in full; a damaged one becomes a placeholder and never fails the list (semantics 9). */
const presentRepos = (context: LargeReadContext, rows: readonly RepoView[]): Static<typeof RepoResponse>[] =>
  presentEach(
    rows,
    (row) => presentRepo(context, row),
    (row) =>
      presentRepo(context, { ...row, namespace_path_json: null, additional_info_json: null, description: UNREADABLE }),
  );

/** Displayed for an unreported provider. It is not a RepoProvider: such a repository is selected by its id. */
const UNKNOWN_PROVIDER = "unknown";

type RepoSelectorQuery = { provider?: string; id?: string };

/**
 * Finds the repository of a path and query: by id, else by name and provider. Several matches mean the one that was
 * created last, unless `isUnique` refuses an ambiguous name. An empty id counts as absent.
 * @throws AppError 404 if there is none, 400 naming the providers of an ambiguous name
 */
export function selectRepo(
  { store, organization }: LargeReadContext,
  name: string,
  { provider, id, isUnique }: RepoSelectorQuery & { isUnique: boolean },
): RepoRow {
  if (id) return store.repos.require(organization, id);
  const matches = store.repos
    .listByName(organization.id, name)
    .filter((row) => provider === undefined || row.provider === provider);
  const [newest] = matches;
  if (!newest) throw store.repos.notFoundError(name, organization.name);
  if (isUnique && matches.length > 1 && provider === undefined) {
    const providers = [...new Set(matches.map((row) => row.provider || UNKNOWN_PROVIDER))].sort();
    throw badRequest(
      `Multiple repos named '${name}' exist (${providers.join(", ")}). ` +
        "Specify the 'provider' query parameter to choose one",
    );
  }
  return newest;
}

/** The common parts of operations on one repository, which path and query select as `selectRepo` does. */
export const SELECTED_REPO = {
  tag: "Repos",
  permission: "repo:read",
  audit: null,
  params: RepoNamePath,
  query: Closed({
    provider: Type.Optional(RepoProvider),
    id: Type.Optional(Type.String({ description: "Id in Assay; the name in the path is ignored then" })),
  }),
  body: NO_BODY,
} as const;

export const NO_REPO = { description: "No such repository", schema: Message };

const Facets = {
  provider: Type.Optional(RepoProvider),
  vcs_instance: Type.Optional(Type.String({ description: "Host name of the code host, case-insensitive" })),
  namespace: Type.Optional(
    Type.String({ description: "Namespace, with levels joined by slashes; includes the namespaces below it" }),
  ),
  tag: Repeated(Type.String(), { description: "`key` or `key:value`; all must match" }),
};
const parseFacets = (query: {
  provider?: string;
  vcs_instance?: string;
  namespace?: string;
  tag?: string[];
}): RepoFacets => ({
  provider: query.provider ?? null,
  // Empty texts are no filters.
  vcsInstance: query.vcs_instance || null,
  namespace: query.namespace || null,
  tags: parseTagFilters(query.tag),
});

const PAGING = definePaging({ perPage: 15, maxPerPage: 50 });

export const listRepos = largeRead({
  id: "list_repos",
  method: "GET",
  path: "/repos/{org}",
  tag: "Repos",
  summary: "List repositories",
  description:
    "The repositories that reports have named, by name, in pages. All filters must match; `repo_id` overrides " +
    "`name`, and `name` and `search` exclude each other.",
  permission: "repo:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    ...PAGING.query,
    name: Type.Optional(Type.String({ description: "The whole name; not together with `search`" })),
    search: Type.Optional(Type.String({ description: "Part of the name, case-insensitive; not together with `name`" })),
    repo_id: Type.Optional(Type.String({ description: "Id at the code host" })),
    ...Facets,
    sort_direction: Type.Optional(OneOf(["asc", "desc"], { default: "asc" })),
  }),
  body: NO_BODY,
  responses: { 200: { description: "One page", schema: RepoListResponse } },
  example: { params: { org: "acme" }, query: { search: "pay", tag: "team:payments", page: "1", per_page: "15" } },
  handle(context, { query }) {
    const { store, organization } = context;
    if (query.name && query.search) throw badRequest("Only one of 'name' and 'search' can be given");
    const window = PAGING.window(query);
    const filter = {
      ...parseFacets(query),
      only: query.repo_id ? { externalId: query.repo_id } : query.name ? { name: query.name } : null,
      search: query.search || null,
    };
    const rows = store.repoLists.list(organization.id, filter, { direction: query.sort_direction ?? "asc", ...window });
    const total = store.repoLists.count(organization.id, filter);
    return {
      status: 200,
      body: { ...pageCounts(total, window.page, window.perPage), repos: presentRepos(context, rows) },
    };
  },
});

export const listRepoFilterOptions = largeRead({
  id: "list_repo_filter_options",
  method: "GET",
  path: "/repos/{org}/filter-options",
  tag: "Repos",
  summary: "List the filter options of repositories",
  description:
    "Each list contains the values of the repositories that match all other filters. Only namespaces below " +
    "`namespace` are listed.",
  permission: "repo:read",
  audit: null,
  params: OrgPath,
  query: Closed(Facets),
  body: NO_BODY,
  responses: { 200: { description: "The values", schema: RepoFilterOptionsResponse } },
  example: { params: { org: "acme" }, query: { provider: "gitlab", namespace: "acme/platform" } },
  handle({ store, organization }, { query }) {
    const { providers, vcsInstances, namespaces } = store.repoLists.listFilterOptions(
      organization.id,
      parseFacets(query),
    );
    return { status: 200, body: { providers, vcs_instances: vcsInstances, namespace_values: namespaces } };
  },
});

export const listRepoTagChoices = largeRead({
  id: "list_repo_tag_choices",
  method: "GET",
  path: "/repos/{org}/tags",
  tag: "Repos",
  summary: "List the tags in use on repositories",
  description: "Every key-value pair once, by key and value.",
  permission: "repo:read",
  audit: null,
  params: OrgPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "The tags", schema: Type.Array(TagChoice) } },
  example: { params: { org: "acme" } },
  handle: ({ store, organization }) => ({ status: 200, body: store.repoLists.listTagChoices(organization.id) }),
});

export const getRepo = operation({
  ...SELECTED_REPO,
  method: "GET",
  id: "get_repo",
  path: "/repos/{org}/{repo_name*}",
  summary: "Read a repository",
  description:
    "Selected by name, and by `provider` if several have the name; or by `id`. If several repositories match, the " +
    "one that was created last.",
  responses: { 200: { description: "The repository", schema: RepoResponse }, 404: NO_REPO },
  example: { params: { org: "acme", repo_name: "acme/payments" }, query: { provider: "github" } },
  handle(context, { params, query }) {
    const { id } = selectRepo(context, params.repo_name, { ...query, isUnique: true });
    return { status: 200, body: presentRepos(context, [context.store.repoLists.get(id)])[0] };
  },
});
