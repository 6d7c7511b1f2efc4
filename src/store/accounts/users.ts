/** Users: people with a login name. Memberships connect them to organizations. */
import type { Role } from "../../domain/access.ts";
import { number, orNull, selectList, string } from "../db/columns.ts";
import type { RowOf } from "../db/columns.ts";
import type { Db, SchemaSources } from "../db/types.ts";

const USER = {
  id: number,
  public_id: string,
  name: string,
  display_name: string,
  email: orNull(string),
  default_organization_id: orNull(number),
  created_at: number,
  last_modified_at: number,
};
export type UserRow = RowOf<typeof USER>;

type UserMembership = {
  organization_id: number;
  organization: string;
  kind: "personal" | "shared";
  is_public: 0 | 1;
  role: Role;
  created_at: number;
};

const COLUMNS = selectList(USER);

export function userStore(db: Db, { now, newId }: SchemaSources) {
  const byName = db.prepare<[string], UserRow>(`SELECT ${COLUMNS} FROM users WHERE name = ?`);
  const byId = db.prepare<[number], UserRow>(`SELECT ${COLUMNS} FROM users WHERE id = ?`);
  const byEmail = db.prepare<[string], UserRow>(
    `SELECT ${COLUMNS} FROM users WHERE lower(email) = lower(?) AND email IS NOT NULL`,
  );
  const fullNames = db.prepare<[string], { public_id: string; display_name: string }>(
    `SELECT public_id, display_name FROM users
     WHERE public_id IN (SELECT value FROM json_each(?)) AND display_name <> ''`,
  );
  const selectAll = db.prepare<[], UserRow>(`SELECT ${COLUMNS} FROM users ORDER BY name`);
  const memberships = db.prepare<[number], UserMembership>(
    `SELECT o.id AS organization_id, o.name AS organization, o.kind, o.is_public, m.role, m.created_at
     FROM memberships m JOIN organizations o ON o.id = m.organization_id WHERE m.user_id = ? ORDER BY o.name`,
  );
  const membershipPage = db.prepare<[number, number, number], UserMembership>(
    `SELECT o.id AS organization_id, o.name AS organization, o.kind, o.is_public, m.role, m.created_at
     FROM memberships m JOIN organizations o ON o.id = m.organization_id WHERE m.user_id = ?
     ORDER BY o.name LIMIT ? OFFSET ?`,
  );
  const membershipCount = db.prepare<[number], { n: number }>(
    "SELECT count(*) AS n FROM memberships WHERE user_id = ?",
  );
  const count = db.prepare<[], { n: number }>("SELECT count(*) AS n FROM users");
  const insert = db.prepare(
    "INSERT INTO users (public_id, name, display_name, email, created_at, last_modified_at) VALUES (?, ?, ?, ?, ?, ?)",
  );
  const update = db.prepare("UPDATE users SET display_name = ?, email = ?, last_modified_at = ? WHERE id = ?");
  const setDefault = db.prepare("UPDATE users SET default_organization_id = ?, last_modified_at = ? WHERE id = ?");

  return {
    find: (name: string): UserRow | null => byName.get(name) ?? null,
    /** The user with this e-mail address, ignoring case (semantics 1.3). */
    findByEmail: (email: string): UserRow | null => byEmail.get(email) ?? null,
    /** Full names by the public ids of users; those without one are left out. */
    findFullNames: (publicIds: Iterable<string>): ReadonlyMap<string, string> =>
      new Map(
        fullNames
          .all(JSON.stringify([...new Set(publicIds)]))
          .map(({ public_id: id, display_name: name }) => [id, name]),
      ),
    get(id: number): UserRow {
      const row = byId.get(id);
      if (!row) throw new Error(`user ${id} is gone`);
      return row;
    },
    /** All users, ordered by name. */
    list: (): UserRow[] => selectAll.all(),
    /** The memberships of a user, ordered by the name of the organization. */
    listMemberships: (id: number): UserMembership[] => memberships.all(id),
    /** One page of the memberships of a user, ordered by the name of the organization. */
    listMembershipPage: (id: number, window: { limit: number; offset: number }): UserMembership[] =>
      membershipPage.all(id, window.limit, window.offset),
    countMemberships: (id: number): number => membershipCount.get(id)?.n ?? 0,
    count: (): number => count.get()?.n ?? 0,
    /** Creates a user; name and e-mail address must be free. @returns its id. */
    create(fields: { name: string; displayName: string; email: string | null }): number {
      const at = now();
      return Number(insert.run(newId(), fields.name, fields.displayName, fields.email, at, at).lastInsertRowid);
    },
    /** Replaces the display name and the e-mail address. */
    updateProfile: (id: number, fields: { displayName: string; email: string | null }): void =>
      void update.run(fields.displayName, fields.email, now(), id),
    setDefaultOrganization: (id: number, organizationId: number): void =>
      void setDefault.run(organizationId, now(), id),
  };
}
