/**
 * Source repositories: they come into being with the reports that name them, and are only read and tagged here
 * (semantics 8.1).
 */
import { Type } from "typebox";
import type { Static } from "typebox";
import { badRequest } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Message, Nullable, OneOf, Repeated, named } from "../../http/schema.ts";
import type { RepoFacets, RepoView } from "../../store/flows/repo-lists.ts";
import type { RepoRow } from "../../store/flows/repos.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { Counts, counts, pages } from "../paging.ts";
import { Href, RepoProvider, fromJson } from "../../contract/shapes.ts";
import { TagChoice } from "../tags.ts";
import { UNREADABLE, presentEach } from "../../contract/placeholders.ts";
import { Tags } from "../../contract/tags.ts";
import { tagFilters } from "../filters.ts";
import { RepoNamePath, OrgPath, NoQuery } from "../paths.ts";

const RepoResponse = named(
  "RepoResponse",
  Closed({
    id: Type.String({ description: "Its id here, which tagging takes" }),
    name: Type.String(),
    url: Type.String(),
    provider: Nullable(RepoProvider),
    repo_id: Type.String({ description: "Its id at the forge" }),
    description: Nullable(Type.String()),
    vcs_instance: Nullable(Type.String({ description: "Host of the code host, from the URL" })),
    namespace_path: Type.Array(Type.String(), {
      description: "The levels above the repository: as reported, else from its name",
    }),
    additional_info: Nullable(Type.Record(Type.String(), Type.Unknown())),
    tags: Tags,
    created_at: Type.Number({ description: "Epoch seconds of the first report that named it" }),
    last_modified_at: Type.Number({ description: "Epoch seconds of the last change" }),
    latest_activity: Nullable(Type.Number({ description: "Epoch seconds of the latest report that named it" })),
    _links: Closed({ self: Href, html: Href, deployments: Href, live_artifacts: Href }),
  }),
);
const RepoListResponse = named("RepoListResponse", Closed({ ...Counts, repos: Type.Array(RepoResponse) }));

const RepoFilterOptionsResponse = named(
  "RepoFilterOptionsResponse",
  Closed({
    providers: Type.Array(Type.String()),
    vcs_instances: Type.Array(Type.String()),
    namespace_values: Type.Array(Type.String(), {
      description: "In full, one level below the namespace asked for; the highest ones without one",
    }),
  }),
);

/** @throws SyntaxError for a damaged record. */
function presentRepo(
  { urls, organization: { name: org } }: OperationContext,
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
      fromJson<string[]>(row.namespace_path_json) ?? row.namespace.split("/").filter((level) => level !== ""),
    additional_info: fromJson<Record<string, unknown>>(row.additional_info_json),
    tags: JSON.parse(row.tags_json) as Record<string, string>,
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

/** Repositories in full; a damaged one becomes a placeholder and never fails the list (semantics 9). */
const presentRepos = (context: OperationContext, rows: readonly RepoView[]): Static<typeof RepoResponse>[] =>
  presentEach(
    rows,
    (row) => presentRepo(context, row),
    (row) =>
      presentRepo(context, { ...row, namespace_path_json: null, additional_info_json: null, description: UNREADABLE }),
  );

/** Shows the providers that nobody told. It is no word of RepoProvider: such a repository is chosen by its id. */
const NOT_TOLD = "unknown";

type Asked = { provider?: string; id?: string };

/**
 * The repository that path and query mean: the id decides, then name and provider; of several, the one that was created
 * last. An empty id is none. `orRefuse`: several by name alone are refused. @throws AppError 404 when there is none,
 * 400 naming the providers.
 */
export function chooseRepo(
  { store, organization }: OperationContext,
  name: string,
  { provider, id }: Asked,
  { orRefuse }: { orRefuse: boolean },
): RepoRow {
  if (id) return store.repos.require(organization, id);
  const all = store.repos
    .named(organization.id, name)
    .filter((row) => provider === undefined || row.provider === provider);
  const [newest] = all;
  if (!newest) throw store.repos.missing(name, organization.name);
  if (orRefuse && all.length > 1 && provider === undefined) {
    const providers = [...new Set(all.map((row) => row.provider || NOT_TOLD))].sort();
    throw badRequest(
      `Multiple repos named '${name}' exist (${providers.join(", ")}). Specify the 'provider' query parameter to choose one`,
    );
  }
  return newest;
}

export const RepoChoice = {
  provider: Type.Optional(RepoProvider),
  id: Type.Optional(Type.String({ description: "Its id here; then the name in the path says nothing" })),
};

const Facets = {
  provider: Type.Optional(RepoProvider),
  vcs_instance: Type.Optional(Type.String({ description: "Host of the code host, in any case" })),
  namespace: Type.Optional(
    Type.String({ description: "Namespace, levels joined by slashes; what lies below belongs to it" }),
  ),
  tag: Repeated(Type.String(), { description: "`key` or `key:value`; repositories must have all of them" }),
};
const facetsOf = (query: {
  provider?: string;
  vcs_instance?: string;
  namespace?: string;
  tag?: string[];
}): RepoFacets => ({
  provider: query.provider ?? null,
  // An empty text is no filter.
  vcsInstance: query.vcs_instance || null,
  namespace: query.namespace || null,
  tags: tagFilters(query.tag),
});

const PAGES = pages({ perPage: 15, most: 50 });

export const listRepos = operation({
  id: "list_repos",
  method: "GET",
  path: "/repos/{org}",
  tag: "Repos",
  summary: "List repositories",
  description:
    "The repositories that reports named, by name, in pages. The filters combine; `repo_id` counts more than `name`, and `name` and `search` exclude each other.",
  permission: "repo:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    ...PAGES.query,
    name: Type.Optional(Type.String({ description: "The whole name; not together with `search`" })),
    search: Type.Optional(Type.String({ description: "A part of the name, in any case; not together with `name`" })),
    repo_id: Type.Optional(Type.String({ description: "Id at the forge" })),
    ...Facets,
    sort_direction: Type.Optional(OneOf(["asc", "desc"], { default: "asc" })),
  }),
  body: NO_BODY,
  responses: { 200: { description: "One page", schema: RepoListResponse } },
  example: { params: { org: "acme" }, query: { search: "pay", tag: "team:payments", page: "1", per_page: "15" } },
  handle(context, { query }) {
    const { store, organization } = context;
    if (query.name && query.search) throw badRequest("Only one of 'name' and 'search' can be given");
    const window = PAGES.window(query);
    const filter = {
      ...facetsOf(query),
      only: query.repo_id ? { externalId: query.repo_id } : query.name ? { name: query.name } : null,
      search: query.search || null,
    };
    const rows = store.repoLists.list(organization.id, filter, query.sort_direction ?? "asc", window);
    const total = store.repoLists.count(organization.id, filter);
    return { status: 200, body: { ...counts(total, window.page, window.perPage), repos: presentRepos(context, rows) } };
  },
});

export const listRepoFilterOptions = operation({
  id: "list_repo_filter_options",
  method: "GET",
  path: "/repos/{org}/filter-options",
  tag: "Repos",
  summary: "List what repositories can be filtered by",
  description:
    "Each list holds the values among the repositories that fit all the other filters. Of `namespace`, only what lies below it is listed.",
  permission: "repo:read",
  audit: null,
  params: OrgPath,
  query: Closed(Facets),
  body: NO_BODY,
  responses: { 200: { description: "The values", schema: RepoFilterOptionsResponse } },
  example: { params: { org: "acme" }, query: { provider: "gitlab", namespace: "acme/platform" } },
  handle({ store, organization }, { query }) {
    const { providers, vcsInstances, namespaces } = store.repoLists.options(organization.id, facetsOf(query));
    return { status: 200, body: { providers, vcs_instances: vcsInstances, namespace_values: namespaces } };
  },
});

export const listRepoTagChoices = operation({
  id: "list_repo_tag_choices",
  method: "GET",
  path: "/repos/{org}/tags",
  tag: "Repos",
  summary: "List the tags in use on repositories",
  description: "Every pair of key and value once, by key and value.",
  permission: "repo:read",
  audit: null,
  params: OrgPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "The tags", schema: Type.Array(TagChoice) } },
  example: { params: { org: "acme" } },
  handle: ({ store, organization }) => ({ status: 200, body: store.repoLists.tagChoices(organization.id) }),
});

export const getRepo = operation({
  id: "get_repo",
  method: "GET",
  path: "/repos/{org}/{repo_name*}",
  tag: "Repos",
  summary: "Read a repository",
  description:
    "By name, and by `provider` where several have it; or by `id`. Of several with that name and provider, the one that was created last.",
  permission: "repo:read",
  audit: null,
  params: RepoNamePath,
  query: Closed(RepoChoice),
  body: NO_BODY,
  responses: {
    200: { description: "The repository", schema: RepoResponse },
    404: { description: "No such repository", schema: Message },
  },
  example: { params: { org: "acme", repo_name: "acme/payments" }, query: { provider: "github" } },
  handle(context, { params, query }) {
    const row = context.store.repoLists.view(chooseRepo(context, params.repo_name, query, { orRefuse: true }).id);
    return { status: 200, body: presentRepos(context, [row])[0] };
  },
});
