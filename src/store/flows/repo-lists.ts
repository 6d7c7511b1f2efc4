/**
 * Lists of repositories, and the values that can be filtered by. A list walks the repositories of its organization by
 * name in an index that contains every filtered column (repos_listed), and reads only the rows of its page. Read-only.
 */
import { foldCase, removeEmptyLevels } from "../../domain/network/repository-url.ts";
import { REPO_COLUMNS } from "./repos.ts";
import type { RepoRow } from "./repos.ts";
import { hasAllTags, prepareTagChoices, tagFilterJson } from "../db/tags.ts";
import type { TagChoice, TagFilter } from "../db/tags.ts";
import type { DbReader } from "../db/types.ts";

/** A repository with its tags, a JSON object of strings. */
export type RepoView = RepoRow & { tags_json: string };

/** Filters of lists and of the values themselves. null: not filtered. */
export type RepoFacets = {
  provider: string | null;
  /** Ignoring case. */
  vcsInstance: string | null;
  /** The namespace itself and everything below it. */
  namespace: string | null;
  /** All of these. */
  tags: readonly TagFilter[];
};
export type RepoFilter = RepoFacets & {
  /** Only repositories with this name, or with this id at their forge. */
  only: { name: string } | { externalId: string } | null;
  /** Part of the name, ignoring case. */
  search: string | null;
};
type RepoFilterOptions = { providers: string[]; vcsInstances: string[]; namespaces: string[] };

const OF_PROVIDER = "(@provider IS NULL OR r.provider = @provider)";
const OF_INSTANCE = "(@instance IS NULL OR r.vcs_instance = @instance)";
// Everything below a namespace begins with it and a slash; "0" is the character after the slash.
const IN_NAMESPACE = `(@namespace IS NULL OR r.namespace = @namespace
     OR (r.namespace > @namespace || '/' AND r.namespace < @namespace || '0'))`;
const TAGGED = `(@tags IS NULL OR ${hasAllTags("repo_tags", "repo_id", "r.id", "@tags")})`;
// instr, not LIKE, so that `_` and `%` match themselves.
const FOUND = "(@search IS NULL OR instr(r.search_name, @search) > 0)";

const OF_ORGANIZATION = "r.organization_id = @organization";
const CHOICES = {
  all: OF_ORGANIZATION,
  name: `${OF_ORGANIZATION} AND r.name = @only`,
  externalId: `${OF_ORGANIZATION} AND r.external_id = @only`,
} as const;
const VIEW = `SELECT ${REPO_COLUMNS},
     (SELECT json_group_object(key, value) FROM repo_tags WHERE repo_id = r.id) AS tags_json
   FROM repos AS r`;

type FacetParameters = {
  organization: number;
  provider: string | null;
  instance: string | null;
  namespace: string | null;
  tags: string | null;
};
type Parameters = FacetParameters & { only: string | null; search: string | null };

export function repoListStore(db: DbReader) {
  const byId = db.prepare<[number], RepoView>(`${VIEW} WHERE r.id = ?`);
  const prepareChoice = (choice: string) => {
    const where = `WHERE ${[choice, OF_PROVIDER, OF_INSTANCE, IN_NAMESPACE, FOUND, TAGGED].join(" AND ")}`;
    const list = (direction: string) =>
      db.prepare<[Parameters & { limit: number; offset: number }], RepoView>(
        `${VIEW} ${where} ORDER BY r.name ${direction}, r.id ${direction} LIMIT @limit OFFSET @offset`,
      );
    return {
      asc: list("ASC"),
      desc: list("DESC"),
      count: db.prepare<[Parameters], number>(`SELECT count(*) FROM repos AS r ${where}`).pluck(),
    };
  };
  const statements = {
    all: prepareChoice(CHOICES.all),
    name: prepareChoice(CHOICES.name),
    externalId: prepareChoice(CHOICES.externalId),
  };

  const facet = (value: string, ...conditions: string[]) =>
    db
      .prepare<[FacetParameters], string>(
        `SELECT DISTINCT ${value} AS value FROM repos AS r
         WHERE ${[OF_ORGANIZATION, ...conditions, TAGGED].join(" AND ")} ORDER BY value`,
      )
      .pluck();
  const providers = facet("r.provider", "r.provider <> ''", OF_INSTANCE, IN_NAMESPACE);
  const instances = facet("r.vcs_instance", "r.vcs_instance <> ''", OF_PROVIDER, IN_NAMESPACE);
  // The namespace up to the end of its first level after @above, which is empty or ends in a slash.
  const rest = "substr(r.namespace, length(@above) + 1)";
  const namespaces = db
    .prepare<[FacetParameters & { above: string }], string>(
      `SELECT DISTINCT @above || substr(${rest}, 1, instr(${rest} || '/', '/') - 1) AS value FROM repos AS r
       WHERE ${[OF_ORGANIZATION, OF_PROVIDER, OF_INSTANCE, IN_NAMESPACE, TAGGED].join(" AND ")}
         AND length(r.namespace) > length(@above)
       ORDER BY value`,
    )
    .pluck();
  const choices = prepareTagChoices(db, "repo_tags", "repo_id", "repos");

  const facetParameters = (
    organization: number,
    { provider, vcsInstance, namespace, tags }: RepoFacets,
  ): FacetParameters => ({
    organization,
    provider,
    instance: vcsInstance?.toLowerCase() ?? null,
    namespace: namespace === null ? null : removeEmptyLevels(namespace) || null,
    tags: tags.length === 0 ? null : tagFilterJson(tags),
  });

  /** The statements for a filter, and their parameters. */
  function choose(organizationId: number, filter: RepoFilter) {
    const { only, search } = filter;
    const chosen = only === null ? statements.all : "name" in only ? statements.name : statements.externalId;
    const value = only === null ? null : "name" in only ? only.name : only.externalId;
    const parameters: Parameters = {
      ...facetParameters(organizationId, filter),
      only: value,
      search: search === null ? null : foldCase(search),
    };
    return { ...chosen, parameters };
  }

  return {
    /** One repository; it must exist. */
    get(id: number): RepoView {
      const row = byId.get(id);
      if (!row) throw new Error(`repository ${id} is gone`);
      return row;
    },
    /** One page, ordered by name. */
    list(
      organizationId: number,
      filter: RepoFilter,
      { direction, limit, offset }: { direction: "asc" | "desc"; limit: number; offset: number },
    ): RepoView[] {
      const { parameters, ...chosen } = choose(organizationId, filter);
      return chosen[direction].all({ ...parameters, limit, offset });
    },
    /** How many repositories `list` has on all pages. */
    count(organizationId: number, filter: RepoFilter): number {
      const { count, parameters } = choose(organizationId, filter);
      return count.get(parameters) ?? 0;
    },
    /**
     * The values of each facet among the repositories that match the other facets. Namespaces are those one level below
     * the given one, in full; without one, those of the top level.
     */
    listFilterOptions(organizationId: number, facets: RepoFacets): RepoFilterOptions {
      const parameters = facetParameters(organizationId, facets);
      return {
        providers: providers.all(parameters),
        vcsInstances: instances.all(parameters),
        namespaces: namespaces.all({
          ...parameters,
          above: parameters.namespace === null ? "" : `${parameters.namespace}/`,
        }),
      };
    },
    /** Every tag in use on a repository of the organization, ordered by key and value. */
    listTagChoices: (organizationId: number): TagChoice[] => choices.all(organizationId),
  };
}
