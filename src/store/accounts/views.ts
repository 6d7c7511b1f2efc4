/**
 * Saved views: a list page with its parameters under a name, of a member or of the whole organization. Those of a
 * member end with the membership, by a foreign key.
 */
import { number, orNull, selectList, string } from "../db/columns.ts";
import type { RowOf } from "../db/columns.ts";
import type { Db, SchemaSources } from "../db/types.ts";

const VIEW = {
  id: number,
  public_id: string,
  organization_id: number,
  /** null: of the organization. */
  user_id: orNull(number),
  name: string,
  page: string,
  /** Texts by the names of parameters. */
  parameters_json: string,
  /** The display name of the creator at the time. */
  created_by: string,
  /** Epoch seconds. */
  created_at: number,
  last_modified_at: number,
};
export type ViewRow = RowOf<typeof VIEW>;

/** Whose views: those of a member, or of the organization (`userId` null). */
export type ViewOwner = { organizationId: number; userId: number | null };
type ViewFields = Pick<ViewRow, "name" | "page" | "parameters_json">;

const COLUMNS = selectList(VIEW);
/** By name as people read it; names that differ in case only have a fixed order, too. */
const ORDER = "ORDER BY name COLLATE NOCASE, name";

export function viewStore(db: Db, { now, newId }: SchemaSources) {
  const ofOrganization = db.prepare<[number], ViewRow>(
    `SELECT ${COLUMNS} FROM views WHERE organization_id = ? AND user_id IS NULL ${ORDER}`,
  );
  const ofMember = db.prepare<[number, number], ViewRow>(
    `SELECT ${COLUMNS} FROM views WHERE user_id = ? AND organization_id = ? ${ORDER}`,
  );
  const byId = db.prepare<[string, number], ViewRow>(
    `SELECT ${COLUMNS} FROM views WHERE public_id = ? AND organization_id = ?`,
  );
  const insert = db.prepare(
    `INSERT INTO views (public_id, organization_id, user_id, name, page, parameters_json, created_by, created_at,
                        last_modified_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const update = db.prepare(
    "UPDATE views SET name = ?, page = ?, parameters_json = ?, last_modified_at = ? WHERE id = ?",
  );
  const remove = db.prepare("DELETE FROM views WHERE id = ?");
  const removeOfUser = db.prepare("DELETE FROM views WHERE user_id = ?");
  const countOfUser = db.prepare<[number], { n: number }>("SELECT count(*) AS n FROM views WHERE user_id = ?");
  const countOfOrganization = db.prepare<[number], { n: number }>(
    "SELECT count(*) AS n FROM views WHERE organization_id = ? AND user_id IS NULL",
  );

  const list = ({ organizationId, userId }: ViewOwner): ViewRow[] =>
    userId === null ? ofOrganization.all(organizationId) : ofMember.all(userId, organizationId);

  return {
    /** The views of one owner, by name. */
    list,
    /** The view of that public id in an organization, of any owner; null without one. */
    find: (organizationId: number, publicId: string): ViewRow | null => byId.get(publicId, organizationId) ?? null,
    /** The view of one owner with that name; null without one. */
    findByName: (owner: ViewOwner, name: string): ViewRow | null =>
      list(owner).find((view) => view.name === name) ?? null,
    /** Those of a user in all organizations, or of an organization. */
    count: ({ organizationId, userId }: ViewOwner): number =>
      (userId === null ? countOfOrganization.get(organizationId) : countOfUser.get(userId))?.n ?? 0,
    /** The name must be free. @returns the public id */
    create({ organizationId, userId }: ViewOwner, fields: ViewFields & { createdBy: string }): string {
      const { name, page, parameters_json: parameters, createdBy } = fields;
      const [publicId, at] = [newId(), now()];
      insert.run(publicId, organizationId, userId, name, page, parameters, createdBy, at, at);
      return publicId;
    },
    update: (id: number, { name, page, parameters_json: parameters }: ViewFields): void =>
      void update.run(name, page, parameters, now(), id),
    delete: (id: number): void => void remove.run(id),
    /** Those of a user in all organizations. @returns how many */
    deleteByUser: (userId: number): number => removeOfUser.run(userId).changes,
  };
}
