/**
 * Custom attestation types of organizations, and their versions (semantics 3.4).
 *
 * Invariants: versions are immutable, and those of a type are numbered 1, 2, 3, ... without gaps; a type keeps its name
 * for ever, so that a record that names it can always be explained.
 */
import { notFound } from "../../errors.ts";
import { number, orNull, selectList, string, stringOf } from "../db/columns.ts";
import type { RowOf } from "../db/columns.ts";
import { columnOrStub } from "../db/large-json.ts";
import type { OrganizationRow } from "../accounts/organizations.ts";
import type { Db, SchemaSources } from "../db/types.ts";

const CUSTOM_TYPE = {
  id: number,
  public_id: string,
  organization_id: number,
  name: string,
  /** null without one. */
  description: orNull(string),
  archived_at: orNull(number),
  /** The display name of the creator at the time. */
  created_by: string,
  created_at: number,
  last_modified_at: number,
};
export type CustomTypeRow = RowOf<typeof CUSTOM_TYPE>;

const VERSION = {
  id: number,
  type_id: number,
  /** 1 for the oldest. */
  version: number,
  timestamp: number,
  created_by: string,
  comment: orNull(string),
  /** A JSON object, null for a type that takes any data. */
  /** A JSON object; null for a type that accepts any data. */
  schema_json: orNull(string),
  content_type: stringOf<"jq" | "default">(),
  /** A list of texts. */
  rules_json: string,
  /** A list of `{name, expression}`; null without one. */
  summary_json: orNull(string),
};
export type CustomTypeVersionRow = RowOf<typeof VERSION>;

type CustomTypePut = Pick<CustomTypeRow, "name" | "description"> &
  Pick<CustomTypeVersionRow, "schema_json" | "content_type" | "rules_json" | "summary_json"> & {
    /** The display name of the caller. */
    user: string;
  };

/** To SQLite, a negative limit is none. */
const WHOLE = { limit: -1, offset: 0 };

type OrganizationKey = Pick<OrganizationRow, "id" | "name">;

const COLUMNS = selectList(CUSTOM_TYPE);
const VERSION_COLUMNS = selectList(VERSION);

/** For responses: a long schema is a stub (db/large-json.ts). */
const LISTED_COLUMNS = VERSION_COLUMNS.replace("schema_json", `${columnOrStub("schema_json")} AS schema_json`);

/** `search`: part of the name, in any case; empty matches all. */
type TypeFilter = { organizationId: number; search: string };

export function customAttestationTypeStore(db: Db, { now, newId }: SchemaSources) {
  const byName = db.prepare<[number, string], CustomTypeRow>(
    `SELECT ${COLUMNS} FROM custom_types WHERE organization_id = ? AND name = ?`,
  );
  // instr, not LIKE, so that `_` and `%` match themselves. lower() handles ASCII only, and names contain nothing else.
  const listed = "organization_id = @organizationId AND instr(lower(name), lower(@search)) > 0";
  const byOrganization = db.prepare<[TypeFilter & { limit: number; offset: number }], CustomTypeRow>(
    `SELECT ${COLUMNS} FROM custom_types WHERE ${listed} ORDER BY name LIMIT @limit OFFSET @offset`,
  );
  const counting = db.prepare<[TypeFilter], number>(`SELECT count(*) FROM custom_types WHERE ${listed}`).pluck();
  const insert = db.prepare(
    `INSERT INTO custom_types (public_id, organization_id, name, description, created_by, created_at, last_modified_at)
     VALUES (?, ?, ?, ?, ?, ?, ?)`,
  );
  const update = db.prepare(
    "UPDATE custom_types SET description = ?, archived_at = NULL, last_modified_at = ? WHERE id = ?",
  );
  const setArchived = db.prepare(
    "UPDATE custom_types SET archived_at = ?, last_modified_at = ? WHERE id = ? AND archived_at IS NULL",
  );
  const versionsByType = db.prepare<[number, number], CustomTypeVersionRow>(
    `SELECT ${LISTED_COLUMNS} FROM custom_type_versions WHERE type_id = ? ORDER BY version DESC LIMIT ?`,
  );
  const versionsWithoutSchema = db.prepare<[number, number], CustomTypeVersionRow>(
    `SELECT ${VERSION_COLUMNS.replace("schema_json", "NULL AS schema_json")} FROM custom_type_versions
     WHERE type_id = ? ORDER BY version DESC LIMIT ?`,
  );
  const versionByNumber = db.prepare<[number, number], CustomTypeVersionRow>(
    `SELECT ${LISTED_COLUMNS} FROM custom_type_versions WHERE type_id = ? AND version = ?`,
  );
  const latestVersion = db.prepare<[number], CustomTypeVersionRow>(
    `SELECT ${VERSION_COLUMNS} FROM custom_type_versions WHERE type_id = ? ORDER BY version DESC LIMIT 1`,
  );
  // Without the definition, which may be long.
  const latestNumber = db.prepare<[number], { version: number }>(
    "SELECT version FROM custom_type_versions WHERE type_id = ? ORDER BY version DESC LIMIT 1",
  );
  const insertVersion = db.prepare(
    `INSERT INTO custom_type_versions (type_id, version, timestamp, created_by, schema_json, content_type, rules_json,
                                       summary_json)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
  );

  const find = (organizationId: number, name: string): CustomTypeRow | null => byName.get(organizationId, name) ?? null;

  return {
    /** The type with that name, archived or not; null when there is none. */
    find,
    /** The type with that name, archived or not. @throws AppError not_found with the text of messages 6. */
    require(organization: OrganizationKey, name: string): CustomTypeRow {
      const row = find(organization.id, name);
      if (!row) throw notFound(`Custom attestation type '${name}' does not exist for org '${organization.name}'`);
      return row;
    },
    /** The types of an organization, ordered by name, archived ones included; all of them without a window. */
    list: (filter: TypeFilter, { limit, offset }: { limit: number; offset: number } = WHOLE): CustomTypeRow[] =>
      byOrganization.all({ ...filter, limit, offset }),
    /** How many types match. */
    count: (filter: TypeFilter): number => counting.get(filter) ?? 0,
    /**
     * The newest versions first (semantics 3.4), row by row: each may have a schema of megabytes.
     * @param options `limit`: null for all versions; `hasSchemas`: false leaves the schemas null
     */
    listVersions: (
      typeId: number,
      { limit = null, hasSchemas = true }: { limit?: number | null; hasSchemas?: boolean } = {},
    ): IterableIterator<CustomTypeVersionRow> =>
      (hasSchemas ? versionsByType : versionsWithoutSchema).iterate(typeId, limit ?? WHOLE.limit),
    /** The version with that number; null when there is none. */
    findVersion: (typeId: number, version: number): CustomTypeVersionRow | null =>
      versionByNumber.get(typeId, version) ?? null,
    /** The version in force. */
    getLatestVersion(typeId: number): CustomTypeVersionRow {
      const row = latestVersion.get(typeId);
      if (!row) throw new Error(`custom attestation type ${typeId} has no version`);
      return row;
    },
    /**
     * Adds a version to a new type, or to the type with that name, which becomes active again (semantics 3.4,
     * 13.50). Call it inside a write, whose serial order numbers the versions. The description is stored as given.
     */
    put(organizationId: number, put: CustomTypePut): { created: boolean; version: number } {
      const at = now();
      const existing = find(organizationId, put.name);
      const id =
        existing?.id ??
        Number(insert.run(newId(), organizationId, put.name, put.description, put.user, at, at).lastInsertRowid);
      if (existing) update.run(put.description, at, id);
      const version = (latestNumber.get(id)?.version ?? 0) + 1;
      insertVersion.run(id, version, at, put.user, put.schema_json, put.content_type, put.rules_json, put.summary_json);
      return { created: existing === null, version };
    },
    /** Archives a type. @returns whether it was active. */
    archive(id: number): boolean {
      const at = now();
      return setArchived.run(at, at, id).changes === 1;
    },
  };
}
