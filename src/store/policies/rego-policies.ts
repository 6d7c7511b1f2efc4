/**
 * Rego policies and their versions (newer-clients 5). Environment policies are in policies.ts.
 *
 * Invariants: versions are immutable, those of a policy are numbered 1, 2, 3, ... without gaps, and the policy carries
 * the number of the latest; an identifier is never reused in an organization, because an archived policy keeps its own;
 * publishing the content of the latest version makes no version.
 */
import { notFound } from "../../errors.ts";
import type { OrganizationRow } from "../accounts/organizations.ts";
import { flag, number, orNull, selectList, string } from "../db/columns.ts";
import type { RowOf } from "../db/columns.ts";
import type { Db, SchemaSources } from "../db/types.ts";

const POLICY = {
  id: number,
  organization_id: number,
  identifier: string,
  name: string,
  description: string,
  /** Number of the latest version. */
  version: number,
  archived: flag,
  /** The display name of the creator at the time. */
  created_by: string,
  /** Epoch seconds. */
  created_at: number,
};
export type RegoPolicyRow = RowOf<typeof POLICY>;

const VERSION = {
  id: number,
  version: number,
  /** Of the packed bundle: its address among the documents. */
  bundle_digest: string,
  /** Of paths and contents (newer-clients 5.1). */
  sha256: string,
  /** `[{path, size, sha256}]`, by path. */
  files_json: string,
  package: string,
  /** Names of rules. */
  outputs_json: string,
  /** Names of parameters; null where some are computed. */
  params_json: orNull(string),
  warnings_json: string,
  comment: string,
  engine: string,
  created_by: string,
  /** Epoch seconds. */
  created_at: number,
};
export type RegoPolicyVersionRow = RowOf<typeof VERSION>;

/** What a version is made of: what the engine found in a bundle. */
type NewRegoPolicyVersion = Omit<RegoPolicyVersionRow, "id" | "version" | "created_by" | "created_at">;

type RegoPolicyFilter = {
  /** Part of the name or the identifier, ignoring case; empty matches all. */
  search: string;
  /** Only archived ones, or only active ones. */
  archived: boolean;
};

type Window = { limit: number; offset: number; direction: "asc" | "desc" };
type OrganizationKey = Pick<OrganizationRow, "id" | "name">;
type ListParameters = { organization: number; archived: 0 | 1; search: string };

const COLUMNS = selectList(POLICY, "rp");
const VERSION_COLUMNS = selectList(VERSION, "rpv");

/** Names are free text, and SQLite's lower() handles ASCII only; identifiers are ASCII. */
const fold = (text: string): string => text.normalize("NFC").toLowerCase();

// instr, not LIKE, so that `_` and `%` match themselves.
const LISTED = `rp.organization_id = @organization AND rp.archived = @archived
   AND (instr(rp.name_folded, @search) > 0 OR instr(lower(rp.identifier), @search) > 0)`;

export function regoPolicyStore(db: Db, { now, newId }: SchemaSources) {
  const byIdentifier = db.prepare<[number, string], RegoPolicyRow>(
    `SELECT ${COLUMNS} FROM rego_policies rp WHERE rp.organization_id = ? AND rp.identifier = ?`,
  );
  const byId = db.prepare<[number], RegoPolicyRow>(`SELECT ${COLUMNS} FROM rego_policies rp WHERE rp.id = ?`);
  const insert = db.prepare(
    `INSERT INTO rego_policies (public_id, organization_id, identifier, name, name_folded, description, version,
                                created_by, created_at, last_modified_at)
     VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?, ?)`,
  );
  const rename = db.prepare(
    "UPDATE rego_policies SET name = ?, name_folded = ?, description = ?, last_modified_at = ? WHERE id = ?",
  );
  const setVersion = db.prepare("UPDATE rego_policies SET version = ?, last_modified_at = ? WHERE id = ?");
  const setArchived = db.prepare("UPDATE rego_policies SET archived = ?, last_modified_at = ? WHERE id = ?");
  const insertVersion = db.prepare(
    `INSERT INTO rego_policy_versions (rego_policy_id, version, bundle_digest, sha256, files_json, package,
                                       outputs_json, params_json, warnings_json, comment, engine, created_by,
                                       created_at)
     VALUES (@policyId, @version, @bundle_digest, @sha256, @files_json, @package, @outputs_json, @params_json,
             @warnings_json, @comment, @engine, @user, @at)`,
  );
  const versionByNumber = db.prepare<[number, number], RegoPolicyVersionRow>(
    `SELECT ${VERSION_COLUMNS} FROM rego_policy_versions rpv WHERE rpv.rego_policy_id = ? AND rpv.version = ?`,
  );
  const versionById = db.prepare<[number], { identifier: string; version: number }>(
    `SELECT rp.identifier, rpv.version FROM rego_policy_versions rpv
       JOIN rego_policies rp ON rp.id = rpv.rego_policy_id WHERE rpv.id = ?`,
  );
  const versionPage = db.prepare<[number, number, number], RegoPolicyVersionRow>(
    `SELECT ${VERSION_COLUMNS} FROM rego_policy_versions rpv WHERE rpv.rego_policy_id = ?
     ORDER BY rpv.version DESC LIMIT ? OFFSET ?`,
  );
  const listing = (order: string) =>
    db.prepare<[ListParameters & { limit: number; offset: number }], RegoPolicyRow>(
      `SELECT ${COLUMNS} FROM rego_policies rp WHERE ${LISTED} ORDER BY rp.identifier ${order}
       LIMIT @limit OFFSET @offset`,
    );
  const lists = { asc: listing("ASC"), desc: listing("DESC") };
  const counting = db
    .prepare<[ListParameters], number>(`SELECT count(*) FROM rego_policies rp WHERE ${LISTED}`)
    .pluck();

  const find = (organizationId: number, identifier: string): RegoPolicyRow | null =>
    byIdentifier.get(organizationId, identifier) ?? null;

  function get(id: number): RegoPolicyRow {
    const row = byId.get(id);
    if (!row) throw new Error(`Rego policy ${id} is gone`);
    return row;
  }

  const findVersion = (policy: RegoPolicyRow, version: number): RegoPolicyVersionRow | null =>
    versionByNumber.get(policy.id, version) ?? null;

  function getVersion(policy: RegoPolicyRow): RegoPolicyVersionRow {
    const row = findVersion(policy, policy.version);
    if (!row) throw new Error(`version ${policy.version} of Rego policy ${policy.id} is gone`);
    return row;
  }

  type Version = { policyId: number; version: number; user: string };
  const writeVersion = (place: Version, content: NewRegoPolicyVersion): void =>
    void insertVersion.run({ ...content, ...place, at: now() });

  const parameters = (organization: number, { search, archived }: RegoPolicyFilter): ListParameters => ({
    organization,
    archived: archived ? 1 : 0,
    search: fold(search),
  });

  return {
    /** The policy with that identifier, archived or not; null without one. */
    find,
    /** The policy with that identifier, archived or not. @throws AppError not_found (newer-clients 4.4) */
    require(organization: OrganizationKey, identifier: string): RegoPolicyRow {
      const row = find(organization.id, identifier);
      if (!row) throw notFound(`Rego policy '${identifier}' does not exist in org '${organization.name}'`);
      return row;
    },
    /** The latest version. */
    getVersion,
    /** @throws AppError not_found where the policy has no such version (newer-clients 4.4) */
    requireVersion(policy: RegoPolicyRow, version: number): RegoPolicyVersionRow {
      const row = findVersion(policy, version);
      if (!row) throw notFound(`Rego policy '${policy.identifier}' has no version ${version}`);
      return row;
    },
    /** Identifier and number of the version with this row id. */
    getVersionName(id: number): { identifier: string; version: number } {
      const row = versionById.get(id);
      if (!row) throw new Error(`version ${id} of a Rego policy is gone`);
      return row;
    },
    /** By identifier, read one by one. The connection is busy until the iterator ends. */
    list: (
      organizationId: number,
      filter: RegoPolicyFilter,
      { direction, ...window }: Window,
    ): IterableIterator<RegoPolicyRow> =>
      lists[direction].iterate({ ...parameters(organizationId, filter), ...window }),
    count: (organizationId: number, filter: RegoPolicyFilter): number =>
      counting.get(parameters(organizationId, filter)) ?? 0,
    /** The versions of a policy, newest first, read one by one. The connection is busy until the iterator ends. */
    listVersions: (
      policy: RegoPolicyRow,
      { limit, offset }: Omit<Window, "direction">,
    ): IterableIterator<RegoPolicyVersionRow> => versionPage.iterate(policy.id, limit, offset),

    /** Creates a policy with its version 1; the identifier must be free. `user`: the display name of the caller. */
    create(
      organizationId: number,
      { identifier, name, description }: Pick<RegoPolicyRow, "identifier" | "name" | "description">,
      { content, user }: { content: NewRegoPolicyVersion; user: string },
    ): RegoPolicyRow {
      const at = now();
      const row = insert.run(newId(), organizationId, identifier, name, fold(name), description, user, at, at);
      const id = Number(row.lastInsertRowid);
      writeVersion({ policyId: id, version: 1, user }, content);
      return get(id);
    },
    /** Adds the next version, unless the latest has this content. @returns whether it was added */
    publish(policy: RegoPolicyRow, content: NewRegoPolicyVersion, user: string): boolean {
      if (getVersion(policy).sha256 === content.sha256) return false;
      writeVersion({ policyId: policy.id, version: policy.version + 1, user }, content);
      setVersion.run(policy.version + 1, now(), policy.id);
      return true;
    },
    /** Changes name and description, which makes no version. @returns whether anything changed */
    rename(policy: RegoPolicyRow, { name, description }: Pick<RegoPolicyRow, "name" | "description">): boolean {
      if (name === policy.name && description === policy.description) return false;
      rename.run(name, fold(name), description, now(), policy.id);
      return true;
    },
    /** @returns whether that changed anything */
    setArchived(policy: RegoPolicyRow, archived: 0 | 1): boolean {
      if (policy.archived === archived) return false;
      setArchived.run(archived, now(), policy.id);
      return true;
    },
  };
}
