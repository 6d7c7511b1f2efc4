/** Source repositories, captured from the repo_info of reports; nobody creates them by hand (semantics 8.1). */
import { namespaceOf, searchForm, vcsInstanceOf } from "../../domain/network/repository-url.ts";
import { notFound } from "../../errors.ts";
import type { AppError } from "../../errors.ts";
import { tagTable } from "../db/tags.ts";
import type { TagChange } from "../db/tags.ts";
import type { Db, SchemaSources } from "../db/types.ts";

export type RepoRow = {
  id: number;
  public_id: string;
  external_id: string;
  /** "" where no report told it. */
  provider: string;
  name: string;
  url: string;
  description: string;
  namespace_path_json: string | null;
  additional_info_json: string | null;
  created_at: number;
  last_modified_at: number;
  /** The name as searches compare it. */
  search_name: string;
  /** Host of the URL. */
  vcs_instance: string;
  /** Levels joined by slashes; "" for none. */
  namespace: string;
  /** Epoch seconds of the latest report that named it. */
  latest_activity_at: number;
};

/** What a report told about its repository; recorded only with id, name and url together. */
export type RepoFacts = {
  externalId: string;
  /** '' where the report named none. */
  provider: string;
  name: string;
  url: string;
  description: string;
  namespacePath: readonly string[] | null;
  additionalInfo: Readonly<Record<string, unknown>> | null;
};

/** What reports may change, and what is derived from it. */
const CHANGEABLE = [
  "name",
  "url",
  "description",
  "namespace_path_json",
  "additional_info_json",
  "search_name",
  "vcs_instance",
  "namespace",
] as const;
type Changeable = Pick<RepoRow, (typeof CHANGEABLE)[number]>;

export const REPO_COLUMNS = [
  "id",
  "public_id",
  "external_id",
  "provider",
  ...CHANGEABLE,
  "created_at",
  "last_modified_at",
  "latest_activity_at",
]
  .map((name) => `repo.${name}`)
  .join(", ");

export function repoStore(db: Db, { now, newId }: SchemaSources) {
  const byIdentity = db.prepare<[number, string, string], RepoRow>(
    `SELECT ${REPO_COLUMNS} FROM repos AS repo WHERE organization_id = ? AND external_id = ? AND provider = ?`,
  );
  const byPublicId = db.prepare<[string, number], RepoRow>(
    `SELECT ${REPO_COLUMNS} FROM repos AS repo WHERE public_id = ? AND organization_id = ?`,
  );
  const byName = db.prepare<[number, string], RepoRow>(
    `SELECT ${REPO_COLUMNS} FROM repos AS repo WHERE organization_id = ? AND name = ? ORDER BY id DESC`,
  );
  const byExternalId = db.prepare<[number, string], RepoRow>(
    `SELECT ${REPO_COLUMNS} FROM repos AS repo WHERE organization_id = ? AND external_id = ? ORDER BY id DESC`,
  );
  const insert = db.prepare(
    `INSERT INTO repos (public_id, organization_id, external_id, provider, ${CHANGEABLE.join(", ")}, created_at, last_modified_at, latest_activity_at)
     VALUES (?, ?, ?, ?, ${CHANGEABLE.map(() => "?").join(", ")}, ?, ?, ?)`,
  );
  const update = db.prepare(
    `UPDATE repos SET ${CHANGEABLE.map((name) => `${name} = ?`).join(", ")}, last_modified_at = ?, latest_activity_at = ? WHERE id = ?`,
  );
  const touch = db.prepare("UPDATE repos SET latest_activity_at = ? WHERE id = ?");
  const setModified = db.prepare("UPDATE repos SET last_modified_at = ? WHERE id = ?");
  const tags = tagTable(db, "repo_tags", "repo_id");

  /** All repositories of that name, newest first: names may repeat, also within a provider. */
  const named = (organizationId: number, name: string): RepoRow[] => byName.all(organizationId, name);
  /** The repository with that public id, null when the organization has none. */
  const withPublicId = (organizationId: number, publicId: string): RepoRow | null =>
    byPublicId.get(publicId, organizationId) ?? null;
  /** The 404 of a repository, by the name or id that was asked for (messages 14). */
  const missing = (asked: string, organization: string): AppError =>
    notFound(`Repo '${asked}' not found in organization '${organization}'`);

  return {
    listByName: named,
    findByPublicId: withPublicId,
    notFoundError: missing,
    /** The repository with that public id. @throws AppError 404. */
    require(organization: { id: number; name: string }, publicId: string): RepoRow {
      const row = withPublicId(organization.id, publicId);
      if (!row) throw missing(publicId, organization.name);
      return row;
    },
    /** As named, at least one. @throws AppError 404. */
    requireByName(organization: { id: number; name: string }, name: string): RepoRow[] {
      const rows = named(organization.id, name);
      if (rows.length === 0) throw missing(name, organization.name);
      return rows;
    },
    /**
     * Creates the repository or brings its changeable facts up to date: what a report leaves out stays as it was told
     * before. Identity: external id and provider. @returns its key.
     */
    capture(organizationId: number, facts: RepoFacts): number {
      const known = byIdentity.get(organizationId, facts.externalId, facts.provider);
      const at = now();
      const fields = fieldsOf(facts, known);
      const values = CHANGEABLE.map((name) => fields[name]);
      if (!known)
        return Number(
          insert.run(newId(), organizationId, facts.externalId, facts.provider, ...values, at, at, at).lastInsertRowid,
        );
      if (CHANGEABLE.some((name) => fields[name] !== known[name])) update.run(...values, at, at, known.id);
      else touch.run(at, known.id);
      return known.id;
    },
    /** All repositories with that id at their forge, newest first: there is one for each provider at most. */
    listByExternalId: (organizationId: number, externalId: string): RepoRow[] =>
      byExternalId.all(organizationId, externalId),
    /** Sets and removes tags of a repository. */
    patchTags(repoId: number, change: TagChange): void {
      tags.patch(repoId, change);
      setModified.run(now(), repoId);
    },
  };
}

/** What is to be stored of a repository after a report. */
function fieldsOf(facts: RepoFacts, known: RepoRow | undefined): Changeable {
  const { name, url } = facts;
  // A repository that has another name now may have moved: then the namespace that an earlier report told says nothing
  // any more.
  const kept = known?.name === name ? known.namespace_path_json : null;
  const path = facts.namespacePath === null ? kept : JSON.stringify(facts.namespacePath);
  return {
    name,
    url,
    description: facts.description || (known?.description ?? ""),
    namespace_path_json: path,
    additional_info_json:
      facts.additionalInfo === null ? (known?.additional_info_json ?? null) : JSON.stringify(facts.additionalInfo),
    search_name: searchForm(name),
    vcs_instance: vcsInstanceOf(url),
    namespace: namespaceOf(name, facts.namespacePath ?? storedPath(kept)),
  };
}

/** A damaged path is none, so that no report is refused for it. */
function storedPath(json: string | null): string[] | null {
  try {
    const path: unknown = json === null ? null : JSON.parse(json);
    return Array.isArray(path) && path.every((level) => typeof level === "string") ? path : null;
  } catch {
    return null;
  }
}
