/** Organizations, their members and the append-only history of memberships. */
import type { Role } from "../domain/access.ts";
import type { Db, Sources } from "./database.ts";

export type OrganizationRow = {
  id: number;
  public_id: string;
  name: string;
  kind: "personal" | "shared";
  is_public: 0 | 1;
  controls_enabled: 0 | 1;
  created_at: number;
  last_modified_at: number;
};

const COLUMNS = "id, public_id, name, kind, is_public, controls_enabled, created_at, last_modified_at";

export function organizationStore(db: Db, { now, newId }: Sources) {
  const byName = db.prepare<[string], OrganizationRow>(`SELECT ${COLUMNS} FROM organizations WHERE name = ?`);
  const byId = db.prepare<[number], OrganizationRow>(`SELECT ${COLUMNS} FROM organizations WHERE id = ?`);
  const all = db.prepare<[], OrganizationRow>(`SELECT ${COLUMNS} FROM organizations ORDER BY name`);
  const insert = db.prepare(
    "INSERT INTO organizations (public_id, name, kind, is_public, controls_enabled, created_at, last_modified_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
  );
  const update = db.prepare("UPDATE organizations SET is_public = ?, controls_enabled = ?, last_modified_at = ? WHERE id = ?");
  const role = db.prepare<[number, number], { role: Role }>("SELECT role FROM memberships WHERE organization_id = ? AND user_id = ?");
  // A changed role leaves the date of the membership untouched (semantics 1.3).
  const setRole = db.prepare(
    `INSERT INTO memberships (organization_id, user_id, role, created_at) VALUES (?, ?, ?, ?)
     ON CONFLICT (organization_id, user_id) DO UPDATE SET role = excluded.role`,
  );
  const recordChange = db.prepare(
    `INSERT INTO membership_events (organization_id, timestamp, event_type, user_name, role, previous_role, changed_by, source)
     VALUES (?, ?, ?, ?, ?, ?, ?, 'script')`,
  );

  return {
    /** The organization of that name, null when there is none. */
    find: (name: string): OrganizationRow | null => byName.get(name) ?? null,
    /** The organization with that key; it must exist. */
    get(id: number): OrganizationRow {
      const row = byId.get(id);
      if (!row) throw new Error(`organization ${id} is gone`);
      return row;
    },
    list: (): OrganizationRow[] => all.all(),
    /** Creates an organization; the name must be free. @returns its key. */
    create(fields: { name: string; kind: "personal" | "shared"; isPublic: boolean; controlsEnabled: boolean }): number {
      const at = now();
      return Number(insert.run(newId(), fields.name, fields.kind, Number(fields.isPublic), Number(fields.controlsEnabled), at, at).lastInsertRowid);
    },
    /** Changes the settings. */
    configure(id: number, settings: { isPublic: boolean; controlsEnabled: boolean }): void {
      update.run(Number(settings.isPublic), Number(settings.controlsEnabled), now(), id);
    },
    /** The role of a user, null for somebody who is no member. */
    roleOf: (organizationId: number, userId: number): Role | null => role.get(organizationId, userId)?.role ?? null,
    /** Gives a role and appends the change to the history. Nothing happens when it is already held. @returns whether it changed. */
    setRole(organizationId: number, user: { id: number; name: string }, wanted: Role, changedBy: string): boolean {
      const previous = role.get(organizationId, user.id)?.role ?? null;
      if (previous === wanted) return false;
      const at = now();
      setRole.run(organizationId, user.id, wanted, at);
      recordChange.run(organizationId, at, previous === null ? "added" : "changed", user.name, wanted, previous, changedBy);
      return true;
    },
  };
}
