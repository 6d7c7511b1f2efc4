/**
 * Names of flows and environments (semantics 1.8): current names, former names (aliases), and the names of archived
 * rows. Flows and environments have a table each, and a table of aliases each, of the same shape.
 *
 * Invariants: `name` is unique in the organization among active and archived rows, because archiving appends a suffix
 * to it. A name is never both a current name and an alias: taking a name deletes its alias. Aliases of an
 * archived row remain, so that a request for a former name gets the right error, but they no longer resolve.
 */
import { formatArchivedName } from "../../domain/time.ts";
import { notFound } from "../../errors.ts";
import type { AppError } from "../../errors.ts";
import type { Db } from "./types.ts";

type Named = { id: number; organization_id: number; name: string; archived_at: number | null };
type OrganizationKey = { id: number; name: string };

/**
 * `table`, `aliases` and `owner` are identifiers of schema.sql; `columns` are the columns of a row, qualified by `as`;
 * `kind` begins the error messages.
 */
type NameTable = {
  table: string;
  as: string;
  columns: string;
  aliases: string;
  owner: string;
  kind: "Flow" | "Environment";
};

export function nameTable<Row extends Named>(db: Db, { table, as, columns, aliases, owner, kind }: NameTable) {
  const byName = db.prepare<[number, string], Row>(
    `SELECT ${columns} FROM ${table} AS ${as} WHERE organization_id = ? AND name = ?`,
  );
  const byAlias = db.prepare<[number, string], Row>(
    `SELECT ${columns} FROM ${aliases} AS alias JOIN ${table} AS ${as} ON ${as}.id = alias.${owner}
     WHERE alias.organization_id = ? AND alias.name = ?`,
  );
  const aliasesOf = db
    .prepare<[number, number], string>(`SELECT name FROM ${aliases} WHERE organization_id = ? AND ${owner} = ?`)
    .pluck();
  const byArchivedName = db.prepare<[number, string], { id: number }>(
    `SELECT id FROM ${table} WHERE organization_id = ? AND archived_name = ? LIMIT 1`,
  );
  const setName = db.prepare(`UPDATE ${table} SET name = ?, last_modified_at = ? WHERE id = ?`);
  const setArchived = db.prepare(
    `UPDATE ${table} SET name = ?, archived_name = ?, archived_at = ?, last_modified_at = ? WHERE id = ?`,
  );
  const deleteAlias = db.prepare(`DELETE FROM ${aliases} WHERE organization_id = ? AND name = ?`);
  const insertAlias = db.prepare(`INSERT INTO ${aliases} (organization_id, name, ${owner}) VALUES (?, ?, ?)`);

  const archivedError = (organization: OrganizationKey, name: string): AppError =>
    notFound(`${kind} named '${name}' has been archived for organization '${organization.name}'`);

  /**
   * The row with that name, else the active row with that alias. Archived rows are found by their suffixed name only.
   */
  function find(organizationId: number, name: string): Row | null {
    const row = byName.get(organizationId, name) ?? byAlias.get(organizationId, name);
    return row && (row.archived_at === null || row.name === name) ? row : null;
  }

  /** As `find`. @throws AppError not_found, with different texts for unknown and archived names (messages 9 and 11). */
  function require(organization: OrganizationKey, name: string): Row {
    const row = find(organization.id, name);
    if (row) return row;
    // An alias that `find` ignored belongs to an archived row.
    const archived = byArchivedName.get(organization.id, name) ?? byAlias.get(organization.id, name);
    throw archived
      ? archivedError(organization, name)
      : notFound(`${kind} named '${name}' does not exist for organization '${organization.name}'`);
  }

  return {
    find,
    require,
    /**
     * As `require`, but also refuses archived rows, which are read-only (semantics 1.8).
     * @throws AppError not_found.
     */
    requireWritable(organization: OrganizationKey, name: string): Row {
      const row = require(organization, name);
      if (row.archived_at !== null) throw archivedError(organization, name);
      return row;
    },
    /** Whether this is the name of an archived row, now or before it was archived, and of no other. */
    isArchived(organizationId: number, name: string): boolean {
      const row = find(organizationId, name);
      if (row) return row.archived_at !== null;
      return (byArchivedName.get(organizationId, name) ?? byAlias.get(organizationId, name)) !== undefined;
    },
    /**
     * The active or archived row with exactly this current name; aliases do not count. Decides whether a name is free.
     */
    findHolder: (organizationId: number, name: string): Row | null => byName.get(organizationId, name) ?? null,
    /** Former names of a row that no other one took since. */
    listAliases: ({ organization_id: organization, id }: Pick<Row, "organization_id" | "id">): string[] =>
      aliasesOf.all(organization, id),
    /** Deletes the alias with this name, before a new row takes the name. */
    releaseAlias: (organizationId: number, name: string): void => void deleteAlias.run(organizationId, name),
    /** Renames an active row; the new name must be free, and the old one becomes an alias. @param at epoch seconds. */
    rename(row: Row, name: string, at: number): void {
      deleteAlias.run(row.organization_id, name);
      setName.run(name, at, row.id);
      insertAlias.run(row.organization_id, row.name, row.id);
    },
    /**
     * Archives an active row: it gets a suffixed name, and its plain name becomes free. When two rows of the same name
     * are archived in one second, the later one takes the next second. @param at epoch seconds. @returns the suffixed
     * name.
     */
    archive(row: Row, at: number): string {
      let name = formatArchivedName(row.name, at);
      for (let second = at + 1; byName.get(row.organization_id, name); second += 1)
        name = formatArchivedName(row.name, second);
      deleteAlias.run(row.organization_id, name);
      setArchived.run(name, row.name, at, at, row.id);
      return name;
    },
  };
}
