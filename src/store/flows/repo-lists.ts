/**
 * Repositories as they are listed, and the values that filter them. A list walks through the repositories of its
 * organization in the order of their names, in an index that holds all that is filtered by (repos_listed), and reads
 * the rows of its page only.
 */
import { searchForm, withoutEmptyLevels } from "../../domain/network/repository-url.ts";
import { REPO_COLUMNS } from "./repos.ts";
import type { RepoRow } from "./repos.ts";
import { hasAllTags, prepareTagChoices, tagFilterJson } from "../db/tags.ts";
import type { TagChoice, TagFilter } from "../db/tags.ts";
import type { Db } from "../db/types.ts";

/** A repository with its tags, an object of texts. */
export type RepoView = RepoRow & { tags_json: string };

/** What narrows lists and values alike. null: not filtered by. */
export type RepoFacets = {
  provider: string | null;
  /** In any case. */
  vcsInstance: string | null;
  /** The namespace itself and all below it. */
  namespace: string | null;
  /** All must match. */
  tags: readonly TagFilter[];
};
export type RepoFilter = RepoFacets & {
  /** Which repositories at all: those of a name, or with an id at their forge. */
  only: { name: string } | { externalId: string } | null;
  /** A part of the name in any case. */
  search: string | null;
};
export type RepoFilterOptions = { providers: string[]; vcsInstances: string[]; namespaces: string[] };

const OF_PROVIDER = "(@provider IS NULL OR repo.provider = @provider)";
const OF_INSTANCE = "(@instance IS NULL OR repo.vcs_instance = @instance)";
// What is below begins with the namespace and a slash; 0 is the character behind the slash.
const IN_NAMESPACE =
  "(@namespace IS NULL OR repo.namespace = @namespace OR (repo.namespace > @namespace || '/' AND repo.namespace < @namespace || '0'))";
const TAGGED = `(@tags IS NULL OR ${hasAllTags("repo_tags", "repo_id", "repo.id", "@tags")})`;
// instr, not LIKE: the characters `_` and `%` mean themselves.
const FOUND = "(@search IS NULL OR instr(repo.search_name, @search) > 0)";

const OF_ORGANIZATION = "repo.organization_id = @organization";
const CHOICES = {
  all: OF_ORGANIZATION,
  name: `${OF_ORGANIZATION} AND repo.name = @only`,
  externalId: `${OF_ORGANIZATION} AND repo.external_id = @only`,
} as const;
const VIEW = `SELECT ${REPO_COLUMNS}, (SELECT json_group_object(key, value) FROM repo_tags WHERE repo_id = repo.id) AS tags_json FROM repos AS repo`;

type FacetParameters = {
  organization: number;
  provider: string | null;
  instance: string | null;
  namespace: string | null;
  tags: string | null;
};
type Parameters = FacetParameters & { only: string | null; search: string | null };

export function repoListStore(db: Db) {
  const byId = db.prepare<[number], RepoView>(`${VIEW} WHERE repo.id = ?`);
  const prepared = (choice: string) => {
    const where = `WHERE ${choice} AND ${OF_PROVIDER} AND ${OF_INSTANCE} AND ${IN_NAMESPACE} AND ${FOUND} AND ${TAGGED}`;
    const list = (direction: string) =>
      db.prepare<[Parameters & { limit: number; offset: number }], RepoView>(
        `${VIEW} ${where} ORDER BY repo.name ${direction}, repo.id ${direction} LIMIT @limit OFFSET @offset`,
      );
    return {
      asc: list("ASC"),
      desc: list("DESC"),
      count: db.prepare<[Parameters], number>(`SELECT count(*) FROM repos AS repo ${where}`).pluck(),
    };
  };
  const statements = {
    all: prepared(CHOICES.all),
    name: prepared(CHOICES.name),
    externalId: prepared(CHOICES.externalId),
  };

  const facet = (value: string, ...conditions: string[]) =>
    db
      .prepare<[FacetParameters], string>(
        `SELECT DISTINCT ${value} AS value FROM repos AS repo WHERE ${[OF_ORGANIZATION, ...conditions, TAGGED].join(" AND ")} ORDER BY value`,
      )
      .pluck();
  const providers = facet("repo.provider", "repo.provider <> ''", OF_INSTANCE, IN_NAMESPACE);
  const instances = facet("repo.vcs_instance", "repo.vcs_instance <> ''", OF_PROVIDER, IN_NAMESPACE);
  // The namespace up to the end of its first level behind @above, which is empty or ends in a slash.
  const behind = "substr(repo.namespace, length(@above) + 1)";
  const namespaces = db
    .prepare<[FacetParameters & { above: string }], string>(
      `SELECT DISTINCT @above || substr(${behind}, 1, instr(${behind} || '/', '/') - 1) AS value FROM repos AS repo
       WHERE ${[OF_ORGANIZATION, OF_PROVIDER, OF_INSTANCE, IN_NAMESPACE, TAGGED].join(" AND ")} AND length(repo.namespace) > length(@above) ORDER BY value`,
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
    namespace: namespace === null ? null : withoutEmptyLevels(namespace) || null,
    tags: tags.length === 0 ? null : tagFilterJson(tags),
  });
  function choose(organizationId: number, filter: RepoFilter) {
    const { only, search } = filter;
    const chosen = only === null ? statements.all : "name" in only ? statements.name : statements.externalId;
    const value = only === null ? null : "name" in only ? only.name : only.externalId;
    const parameters: Parameters = {
      ...facetParameters(organizationId, filter),
      only: value,
      search: search === null ? null : searchForm(search),
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
    /** One page, by name. */
    list(
      organizationId: number,
      filter: RepoFilter,
      direction: "asc" | "desc",
      { limit, offset }: { limit: number; offset: number },
    ): RepoView[] {
      const { parameters, ...chosen } = choose(organizationId, filter);
      return chosen[direction].all({ ...parameters, limit, offset });
    },
    /** How many repositories all pages have together. */
    count(organizationId: number, filter: RepoFilter): number {
      const { count, parameters } = choose(organizationId, filter);
      return count.get(parameters) ?? 0;
    },
    /**
     * The values that there are for each facet among the repositories that fit the others. Of namespaces: those one
     * level below the given one, in full; of none: the highest.
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
    /** Every tag in use on a repository of the organization, by key and value. */
    listTagChoices: (organizationId: number): TagChoice[] => choices.all(organizationId),
  };
}
