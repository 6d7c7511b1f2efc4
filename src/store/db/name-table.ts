/**
 * Names of flows and environments (semantics 1.8): present ones, earlier ones (aliases), and those that archived ones
 * had. Each kind has a table of its own and one of its aliases, of the same shape.
 *
 * Invariants: `name` is unique in the organization among active and archived ones alike, because an archived one
 * carries its suffix there. A name never is both a present one and an alias: whoever takes a name removes the alias of
 * that name. Aliases of an archived one stay, so that its earlier names still say what became of it, but they no longer
 * resolve.
 */
import { archivedName } from "../../domain/time.ts";
import { notFound } from "../../errors.ts";
import type { AppError } from "../../errors.ts";
import type { Db } from "./types.ts";

type Named = { id: number; organization_id: number; name: string; archived_at: number | null };
type OrganizationKey = { id: number; name: string };

/**
 * `table`, `aliases` and `owner` are names of schema.sql; `columns` are those of a row, each qualified by `as`; `kind`
 * begins the texts of refusals.
 */
export type NameTable = {
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
    `SELECT ${columns} FROM ${aliases} AS alias JOIN ${table} AS ${as} ON ${as}.id = alias.${owner} WHERE alias.organization_id = ? AND alias.name = ?`,
  );
  const byArchivedName = db.prepare<[number, string], { id: number }>(
    `SELECT id FROM ${table} WHERE organization_id = ? AND archived_name = ? LIMIT 1`,
  );
  const setName = db.prepare(`UPDATE ${table} SET name = ?, last_modified_at = ? WHERE id = ?`);
  const setArchived = db.prepare(
    `UPDATE ${table} SET name = ?, archived_name = ?, archived_at = ?, last_modified_at = ? WHERE id = ?`,
  );
  const dropAlias = db.prepare(`DELETE FROM ${aliases} WHERE organization_id = ? AND name = ?`);
  const putAlias = db.prepare(`INSERT INTO ${aliases} (organization_id, name, ${owner}) VALUES (?, ?, ?)`);

  const archivedError = (organization: OrganizationKey, name: string): AppError =>
    notFound(`${kind} named '${name}' has been archived for organization '${organization.name}'`);

  /** The one of that name, else the active one that once had it; an archived one only under its suffixed name. */
  function find(organizationId: number, name: string): Row | null {
    const row = byName.get(organizationId, name) ?? byAlias.get(organizationId, name);
    return row && (row.archived_at === null || row.name === name) ? row : null;
  }

  /** As find. @throws AppError not_found that tells an unknown one from an archived one (messages 9 and 11). */
  function require(organization: OrganizationKey, name: string): Row {
    const row = find(organization.id, name);
    if (row) return row;
    // An alias that find passed over belongs to an archived one.
    const archived = byArchivedName.get(organization.id, name) ?? byAlias.get(organization.id, name);
    throw archived
      ? archivedError(organization, name)
      : notFound(`${kind} named '${name}' does not exist for organization '${organization.name}'`);
  }

  return {
    find,
    require,
    /**
     * As require, and refuses an archived one under its suffixed name too, which is read-only (semantics 1.8). @throws
     * AppError not_found.
     */
    requireWritable(organization: OrganizationKey, name: string): Row {
      const row = require(organization, name);
      if (row.archived_at !== null) throw archivedError(organization, name);
      return row;
    },
    /**
     * The one, active or archived, whose name this is at present; aliases do not count. What decides whether a name is
     * taken.
     */
    findHolder: (organizationId: number, name: string): Row | null => byName.get(organizationId, name) ?? null,
    /** Before a name is given to a new one: an alias of that name ends. */
    releaseAlias: (organizationId: number, name: string): void => void dropAlias.run(organizationId, name),
    /** Gives an active one a new name that none holds; the old one becomes an alias. @param at epoch seconds. */
    rename(row: Row, name: string, at: number): void {
      dropAlias.run(row.organization_id, name);
      setName.run(name, at, row.id);
      putAlias.run(row.organization_id, row.name, row.id);
    },
    /**
     * Archives an active one: it goes on under a suffixed name, and its plain name is free. Of two of one name archived
     * in one second, the later one takes the next second. @param at epoch seconds. @returns the suffixed name.
     */
    archive(row: Row, at: number): string {
      let name = archivedName(row.name, at);
      for (let second = at + 1; byName.get(row.organization_id, name); second += 1)
        name = archivedName(row.name, second);
      dropAlias.run(row.organization_id, name);
      setArchived.run(name, row.name, at, at, row.id);
      return name;
    },
  };
}
