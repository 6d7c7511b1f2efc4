/**
 * Source repositories, captured from the repo_info of reports; there is no other way to create one (semantics 8.1).
 *
 * Invariants: external id and provider identify a repository; what a report leaves out keeps its value; search_name,
 * vcs_instance and namespace are derived from the other columns.
 */
import { deriveNamespace, foldCase, vcsInstanceOf } from "../../domain/network/repository-url.ts";
import { isListOf, isText, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import { notFound } from "../../errors.ts";
import type { AppError } from "../../errors.ts";
import { namesOf, number, orNull, selectList, string } from "../db/columns.ts";
import type { RowOf } from "../db/columns.ts";
import { tagTable } from "../db/tags.ts";
import type { TagChange } from "../db/tags.ts";
import type { Db, SchemaSources } from "../db/types.ts";

/** The columns that reports change, and those derived from them. */
const CHANGEABLE = {
  name: string,
  url: string,
  description: string,
  namespace_path_json: orNull(string),
  additional_info_json: orNull(string),
  /** The name in the form that searches compare. */
  search_name: string,
  /** Host of the URL. */
  vcs_instance: string,
  /** Levels joined by slashes; "" without one. */
  namespace: string,
};
type Changeable = RowOf<typeof CHANGEABLE>;
const CHANGEABLE_NAMES = namesOf(CHANGEABLE);

const COLUMNS = {
  id: number,
  public_id: string,
  external_id: string,
  /** "" when no report named one. */
  provider: string,
  ...CHANGEABLE,
  created_at: number,
  last_modified_at: number,
  /** Epoch seconds of the latest report that named the repository. */
  latest_activity_at: number,
};
export type RepoRow = RowOf<typeof COLUMNS>;
export const REPO_COLUMNS = selectList(COLUMNS, "r");

/** What a report says about its repository; captured only if it has id, name and url. */
export type RepoFacts = {
  externalId: string;
  /** '' when the report named none. */
  provider: string;
  name: string;
  url: string;
  description: string;
  namespacePath: readonly string[] | null;
  /** As JSON text. */
  additionalInfoJson: string | null;
};

export function repoStore(db: Db, { now, newId }: SchemaSources) {
  const byIdentity = db.prepare<[number, string, string], RepoRow>(
    `SELECT ${REPO_COLUMNS} FROM repos AS r WHERE organization_id = ? AND external_id = ? AND provider = ?`,
  );
  const byPublicId = db.prepare<[string, number], RepoRow>(
    `SELECT ${REPO_COLUMNS} FROM repos AS r WHERE public_id = ? AND organization_id = ?`,
  );
  const byName = db.prepare<[number, string], RepoRow>(
    `SELECT ${REPO_COLUMNS} FROM repos AS r WHERE organization_id = ? AND name = ? ORDER BY id DESC`,
  );
  const byExternalId = db.prepare<[number, string], RepoRow>(
    `SELECT ${REPO_COLUMNS} FROM repos AS r WHERE organization_id = ? AND external_id = ? ORDER BY id DESC`,
  );
  const insert = db.prepare(
    `INSERT INTO repos (public_id, organization_id, external_id, provider, ${CHANGEABLE_NAMES.join(", ")}, created_at,
                        last_modified_at, latest_activity_at)
     VALUES (?, ?, ?, ?, ${CHANGEABLE_NAMES.map(() => "?").join(", ")}, ?, ?, ?)`,
  );
  const update = db.prepare(
    `UPDATE repos SET ${CHANGEABLE_NAMES.map((name) => `${name} = ?`).join(", ")}, last_modified_at = ?,
       latest_activity_at = ?
     WHERE id = ?`,
  );
  const touch = db.prepare("UPDATE repos SET latest_activity_at = ? WHERE id = ?");
  const setModified = db.prepare("UPDATE repos SET last_modified_at = ? WHERE id = ?");
  const tags = tagTable(db, "repo_tags", "repo_id");

  /** All repositories with that name, newest first. Names need not be unique, not even at one provider. */
  const listByName = (organizationId: number, name: string): RepoRow[] => byName.all(organizationId, name);
  /** The repository with that public id; null when the organization has none. */
  const findByPublicId = (organizationId: number, publicId: string): RepoRow | null =>
    byPublicId.get(publicId, organizationId) ?? null;
  /** The 404 of a repository, with the name or id in the request (messages 14). */
  const notFoundError = (requested: string, organization: string): AppError =>
    notFound(`Repo '${requested}' not found in organization '${organization}'`);

  return {
    listByName,
    findByPublicId,
    notFoundError,
    /** The repository with that public id. @throws AppError 404. */
    require(organization: { id: number; name: string }, publicId: string): RepoRow {
      const row = findByPublicId(organization.id, publicId);
      if (!row) throw notFoundError(publicId, organization.name);
      return row;
    },
    /** As `listByName`, at least one. @throws AppError 404. */
    requireByName(organization: { id: number; name: string }, name: string): RepoRow[] {
      const rows = listByName(organization.id, name);
      if (rows.length === 0) throw notFoundError(name, organization.name);
      return rows;
    },
    /** Creates or updates the repository that a report names. @returns its id. */
    capture(organizationId: number, facts: RepoFacts): number {
      const known = byIdentity.get(organizationId, facts.externalId, facts.provider);
      const at = now();
      const fields = fieldsOf(facts, known);
      const values = CHANGEABLE_NAMES.map((name) => fields[name]);
      if (!known)
        return Number(
          insert.run(newId(), organizationId, facts.externalId, facts.provider, ...values, at, at, at).lastInsertRowid,
        );
      if (CHANGEABLE_NAMES.some((name) => fields[name] !== known[name])) update.run(...values, at, at, known.id);
      else touch.run(at, known.id);
      return known.id;
    },
    /** All repositories with that id at their forge, newest first: at most one for each provider. */
    listByExternalId: (organizationId: number, externalId: string): RepoRow[] =>
      byExternalId.all(organizationId, externalId),
    /** Sets and removes tags. */
    patchTags(repoId: number, change: TagChange): void {
      tags.patch(repoId, change);
      setModified.run(now(), repoId);
    },
  };
}

/** The columns to store after a report. */
function fieldsOf(facts: RepoFacts, known: RepoRow | undefined): Changeable {
  const { name, url } = facts;
  // A renamed repository may have moved, so the namespace of an earlier report no longer applies.
  const knownPath = known?.name === name ? known.namespace_path_json : null;
  const path = facts.namespacePath === null ? knownPath : JSON.stringify(facts.namespacePath);
  return {
    name,
    url,
    description: facts.description || (known?.description ?? ""),
    namespace_path_json: path,
    additional_info_json: facts.additionalInfoJson ?? known?.additional_info_json ?? null,
    search_name: foldCase(name),
    vcs_instance: vcsInstanceOf(url),
    // A damaged path counts as none, so that no report is refused because of it.
    namespace: deriveNamespace(name, facts.namespacePath ?? readStoredJsonOrNull(knownPath, isListOf(isText))),
  };
}
