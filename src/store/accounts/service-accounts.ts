/** Service accounts: principals for machines, each in one shared organization, with a role of its own. */
import type { Role } from "../../domain/access.ts";
import type { MembershipAuthor } from "./organizations.ts";
import { membershipEventWriter } from "./membership-audit-log.ts";
import { flag, number, orNull, selectList, string, stringOf } from "../db/columns.ts";
import type { RowOf } from "../db/columns.ts";
import type { Db, SchemaSources } from "../db/types.ts";

const ACCOUNT = {
  id: number,
  public_id: string,
  organization_id: number,
  name: string,
  description: orNull(string),
  privilege: stringOf<Role>(),
  creating_user_id: string,
  for_webhook: flag,
  created_at: number,
};
export type ServiceAccountRow = RowOf<typeof ACCOUNT>;

const COLUMNS = selectList(ACCOUNT);

export function serviceAccountStore(db: Db, { now, newId }: SchemaSources) {
  const byName = db.prepare<[number, string], ServiceAccountRow>(
    `SELECT ${COLUMNS} FROM service_accounts WHERE organization_id = ? AND name = ?`,
  );
  const byId = db.prepare<[number], ServiceAccountRow>(`SELECT ${COLUMNS} FROM service_accounts WHERE id = ?`);
  const insert = db.prepare(
    `INSERT INTO service_accounts (public_id, organization_id, name, description, privilege, creating_user_id,
                                   for_webhook, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const byOrganization = db.prepare<[number], ServiceAccountRow>(
    `SELECT ${COLUMNS} FROM service_accounts WHERE organization_id = ? ORDER BY name`,
  );
  const updatePrivilege = db.prepare("UPDATE service_accounts SET privilege = ? WHERE id = ?");
  const withOrganization = db.prepare<
    [number],
    { organization_id: number; organization: string; name: string; privilege: Role }
  >(
    `SELECT acc.organization_id, o.name AS organization, acc.name, acc.privilege
     FROM service_accounts acc JOIN organizations o ON o.id = acc.organization_id WHERE acc.id = ?`,
  );
  const appendEvent = membershipEventWriter(db);
  const updateDescription = db.prepare("UPDATE service_accounts SET description = ? WHERE id = ?");
  const remove = db.prepare("DELETE FROM service_accounts WHERE id = ?");
  const enabledWebhookKinds = db.prepare<[number], { kind: string }>(
    "SELECT kind FROM inbound_webhooks WHERE service_account_id = ? AND disabled_at IS NULL ORDER BY kind",
  );

  return {
    find: (organizationId: number, name: string): ServiceAccountRow | null => byName.get(organizationId, name) ?? null,
    get(id: number): ServiceAccountRow {
      const row = byId.get(id);
      if (!row) throw new Error(`service account ${id} is gone`);
      return row;
    },
    /**
     * Creates an account; the name must be free in the organization. `creatingUserId` is '' for the operator.
     * @returns its id.
     */
    create(fields: {
      organizationId: number;
      name: string;
      description: string | null;
      privilege: Role;
      creatingUserId: string;
      forWebhook?: boolean;
    }): number {
      return Number(
        insert.run(
          newId(),
          fields.organizationId,
          fields.name,
          fields.description,
          fields.privilege,
          fields.creatingUserId,
          Number(fields.forWebhook ?? false),
          now(),
        ).lastInsertRowid,
      );
    },
    /** The accounts of an organization, ordered by name. */
    list: (organizationId: number): ServiceAccountRow[] => byOrganization.all(organizationId),
    /**
     * Assigns a privilege and appends the change to the history of memberships; no effect when the account has it.
     * @param author the operator's command line unless given.
     * @returns whether it changed.
     */
    setPrivilege(
      id: number,
      privilege: Role,
      { changedBy, source = "script" }: MembershipAuthor = { changedBy: "operator" },
    ): boolean {
      const account = withOrganization.get(id);
      if (!account) throw new Error(`service account ${id} is gone`);
      if (account.privilege === privilege) return false;
      updatePrivilege.run(privilege, id);
      appendEvent(account.organization_id, {
        timestamp: now(),
        event_type: "changed",
        user_name: `${account.organization}/${account.name}`,
        user_shown: account.name,
        role: privilege,
        previous_role: account.privilege,
        changed_by: changedBy,
        source,
      });
      return true;
    },
    setDescription: (id: number, description: string | null): void => void updateDescription.run(description, id),
    /** Deletes an account and its keys. No enabled inbound webhook may use it. */
    delete: (id: number): void => void remove.run(id),
    /** The kinds of the enabled inbound webhooks that act as this account. */
    listEnabledWebhookKinds: (id: number): string[] => enabledWebhookKinds.all(id).map(({ kind }) => kind),
  };
}
