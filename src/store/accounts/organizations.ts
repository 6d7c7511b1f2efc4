/** Organizations, their members and the append-only history of memberships, which membership-audit-log.ts reads. */
import type { Role } from "../../domain/access.ts";
import type { MembershipEventRow } from "./membership-audit-log.ts";
import { membershipEventWriter } from "./membership-audit-log.ts";
import { flag, number, selectList, string, stringOf } from "../db/columns.ts";
import type { RowOf } from "../db/columns.ts";
import type { Db, SchemaSources } from "../db/types.ts";

const ORGANIZATION = {
  id: number,
  public_id: string,
  name: string,
  kind: stringOf<"personal" | "shared">(),
  is_public: flag,
  controls_enabled: flag,
  /** Whether Rego policies are evaluated. */
  evaluations_enabled: flag,
  /** Whether an evaluation with a decision has to name a published policy. */
  decisions_need_published_policy: flag,
  created_at: number,
  last_modified_at: number,
};
export type OrganizationRow = RowOf<typeof ORGANIZATION>;

export type MemberRow = {
  user_id: number;
  name: string;
  display_name: string;
  email: string | null;
  role: Role;
  /** Epoch seconds: the start of the membership; changes of the role do not move it. */
  created_at: number;
};

/** Who changed a membership, as the history names them, and by which way. */
export type MembershipAuthor = { changedBy: string; source?: MembershipEventRow["source"] };

/** Those that are absent stay as they are. */
export type OrganizationSettings = {
  isPublic: boolean;
  controlsEnabled: boolean;
  evaluationsEnabled?: boolean;
  decisionsNeedPublishedPolicy?: boolean;
};

const COLUMNS = selectList(ORGANIZATION);

type MemberSearch = { organization: number; search: string; folded: string };
const searchFor = (organization: number, search: string): MemberSearch => ({
  organization,
  search,
  folded: search.toLowerCase(),
});

export function organizationStore(db: Db, { now, newId }: SchemaSources) {
  const byName = db.prepare<[string], OrganizationRow>(`SELECT ${COLUMNS} FROM organizations WHERE name = ?`);
  const byId = db.prepare<[number], OrganizationRow>(`SELECT ${COLUMNS} FROM organizations WHERE id = ?`);
  const all = db.prepare<[], OrganizationRow>(`SELECT ${COLUMNS} FROM organizations ORDER BY name`);
  const insert = db.prepare(
    `INSERT INTO organizations (public_id, name, kind, is_public, controls_enabled, created_at, last_modified_at)
     VALUES (?, ?, ?, ?, ?, ?, ?)`,
  );
  const update = db.prepare(
    `UPDATE organizations SET is_public = ?, controls_enabled = ?, last_modified_at = ?,
       evaluations_enabled = coalesce(?, evaluations_enabled),
       decisions_need_published_policy = coalesce(?, decisions_need_published_policy)
     WHERE id = ?`,
  );
  const roleOf = db.prepare<[number, number], { role: Role }>(
    "SELECT role FROM memberships WHERE organization_id = ? AND user_id = ?",
  );
  // A changed role leaves the date of the membership untouched (semantics 1.3).
  const upsertMembership = db.prepare(
    `INSERT INTO memberships (organization_id, user_id, role, created_at) VALUES (?, ?, ?, ?)
     ON CONFLICT (organization_id, user_id) DO UPDATE SET role = excluded.role`,
  );
  const deleteMembership = db.prepare("DELETE FROM memberships WHERE organization_id = ? AND user_id = ?");
  const clearDefault = db.prepare(
    `UPDATE users SET default_organization_id = NULL, last_modified_at = ?
     WHERE id = ? AND default_organization_id = ?`,
  );
  const members = db.prepare<[number], MemberRow>(
    `SELECT u.id AS user_id, u.name, u.display_name, u.email, m.role, m.created_at
     FROM memberships m JOIN users u ON u.id = m.user_id WHERE m.organization_id = ? ORDER BY u.name`,
  );
  // instr, not LIKE, so that `_` and `%` match themselves; the empty text is in every name.
  const found = `FROM memberships m JOIN users u ON u.id = m.user_id WHERE m.organization_id = @organization
     AND (instr(lower(u.name), @folded) > 0 OR instr(lower(u.display_name), @folded) > 0
       OR instr(u.display_name, @search) > 0 OR instr(lower(u.email), @folded) > 0)`;
  const memberPage = db.prepare<[MemberSearch & { limit: number; offset: number }], MemberRow>(
    `SELECT u.id AS user_id, u.name, u.display_name, u.email, m.role, m.created_at
     ${found} ORDER BY u.name LIMIT @limit OFFSET @offset`,
  );
  const memberCount = db.prepare<[MemberSearch], { total: number }>(`SELECT count(*) AS total ${found}`);
  const member = db.prepare<[number, number], MemberRow>(
    `SELECT u.id AS user_id, u.name, u.display_name, u.email, m.role, m.created_at
     FROM memberships m JOIN users u ON u.id = m.user_id WHERE m.organization_id = ? AND m.user_id = ?`,
  );
  const namesOf = db.prepare<[number], { name: string; shown: string }>(
    "SELECT name, coalesce(nullif(display_name, ''), name) AS shown FROM users WHERE id = ?",
  );
  const appendEvent = membershipEventWriter(db);

  const findRole = (organizationId: number, userId: number): Role | null =>
    roleOf.get(organizationId, userId)?.role ?? null;

  function recordChange(
    organizationId: number,
    userId: number,
    change: {
      at: number;
      type: "added" | "changed" | "removed";
      role: Role | null;
      previous: Role | null;
      changedBy: string;
      source: MembershipEventRow["source"];
    },
  ): void {
    const user = namesOf.get(userId);
    if (!user) throw new Error(`user ${userId} is gone`);
    const { at, type, role, previous, changedBy, source } = change;
    appendEvent(organizationId, {
      timestamp: at,
      event_type: type,
      user_name: user.name,
      user_shown: user.shown,
      role,
      previous_role: previous,
      changed_by: changedBy,
      source,
    });
  }

  return {
    /** The organization with that name; null when there is none. */
    find: (name: string): OrganizationRow | null => byName.get(name) ?? null,
    /** The organization with that id; it must exist. */
    get(id: number): OrganizationRow {
      const row = byId.get(id);
      if (!row) throw new Error(`organization ${id} is gone`);
      return row;
    },
    list: (): OrganizationRow[] => all.all(),
    /** Creates an organization; the name must be free. @returns its id. */
    create(fields: { name: string; kind: "personal" | "shared"; isPublic: boolean; controlsEnabled: boolean }): number {
      const at = now();
      return Number(
        insert.run(newId(), fields.name, fields.kind, Number(fields.isPublic), Number(fields.controlsEnabled), at, at)
          .lastInsertRowid,
      );
    },
    /** Replaces the settings. */
    updateSettings(
      id: number,
      { isPublic, controlsEnabled, evaluationsEnabled, decisionsNeedPublishedPolicy }: OrganizationSettings,
    ): void {
      const toNumber = (isOn: boolean | undefined): number | null => (isOn === undefined ? null : Number(isOn));
      const rego = { evaluations: toNumber(evaluationsEnabled), published: toNumber(decisionsNeedPublishedPolicy) };
      update.run(Number(isPublic), Number(controlsEnabled), now(), rego.evaluations, rego.published, id);
    },
    /** The role of a user; null when the user is not a member. */
    findRole,
    /**
     * Assigns a role and appends the change to the history; no effect when the user has it. @returns whether it
     * changed.
     */
    setRole(
      organizationId: number,
      user: { id: number },
      { role, changedBy, source = "script" }: MembershipAuthor & { role: Role },
    ): boolean {
      const previous = findRole(organizationId, user.id);
      if (previous === role) return false;
      const at = now();
      upsertMembership.run(organizationId, user.id, role, at);
      const type = previous === null ? "added" : "changed";
      recordChange(organizationId, user.id, { at, type, role, previous, changedBy, source });
      return true;
    },
    /**
     * Ends a membership and appends the change to the history; the organization is no longer the user's default. No
     * effect for a user who is not a member. @returns whether the user was one.
     */
    removeMember(
      organizationId: number,
      user: { id: number },
      { changedBy, source = "script" }: MembershipAuthor,
    ): boolean {
      const previous = findRole(organizationId, user.id);
      if (previous === null) return false;
      const at = now();
      deleteMembership.run(organizationId, user.id);
      clearDefault.run(at, user.id, organizationId);
      recordChange(organizationId, user.id, { at, type: "removed", role: null, previous, changedBy, source });
      return true;
    },
    /** The members of an organization, ordered by name. */
    listMembers: (organizationId: number): MemberRow[] => members.all(organizationId),
    /**
     * One page of the members, ordered by name.
     * @param search part of the name, display name or e-mail address, ASCII letters in any case; empty matches all
     */
    listMemberPage: (organizationId: number, search: string, window: { limit: number; offset: number }): MemberRow[] =>
      memberPage.all({ ...searchFor(organizationId, search), limit: window.limit, offset: window.offset }),
    countMembers: (organizationId: number, search: string): number =>
      memberCount.get(searchFor(organizationId, search))?.total ?? 0,
    /** The membership of a user; it must exist. */
    getMember(organizationId: number, userId: number): MemberRow {
      const row = member.get(organizationId, userId);
      if (!row) throw new Error(`user ${userId} is not a member of organization ${organizationId}`);
      return row;
    },
  };
}
