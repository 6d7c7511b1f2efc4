/**
 * What the operator changes from the command line. Every change is made here and nowhere else in cli/ (but for
 * retention, whose store makes it), because here each one gets its audit entry, in the transaction of the change.
 */
import { newPublicId } from "../server/app.ts";
import type { Role } from "../domain/access.ts";
import { changesBy } from "../auth/account-changes.ts";
import { keyDigest } from "../store/accounts/api-keys.ts";
import type { DeliveryRow } from "../store/notifications/delivery-log.ts";
import type { InboundWebhookRow, WebhookKind } from "../store/notifications/inbound-webhooks.ts";
import type { Store } from "../store/index.ts";
import type { OrganizationRow } from "../store/accounts/organizations.ts";

/** The holder of a key; `name` is how people know it: ops, or acme/ci-bot. */
export type Owner =
  | { userId: number; name: string }
  | { serviceAccountId: number; organizationId: number; name: string };

export type Operator = ReturnType<typeof operatorOf>;

/**
 * Who is written down as the one who did it in the audit log. The history of memberships also names the user of the
 * operating system.
 */
const OPERATOR = "operator";

/** `operation` names the command in the audit log. All methods belong inside a transaction. */
export function operatorOf(store: Store, operation: string) {
  const changes = changesBy(store, {
    operation,
    requestId: newPublicId(),
    shown: store.operatorName(),
    source: "script",
    actor: { kind: "operator", publicId: "", name: OPERATOR, keyPublicId: "" },
  });
  const { note } = changes;

  return {
    ...changes,
    configureOrganization(row: OrganizationRow, settings: { isPublic: boolean; controlsEnabled: boolean }): void {
      store.organizations.updateSettings(row.id, settings);
      note(row.id, "organization.updated", row.name, { public: settings.isPublic, controls: settings.controlsEnabled });
    },
    describeUser(user: { id: number; name: string }, fields: { displayName: string; email: string | null }): void {
      store.users.updateProfile(user.id, fields);
      note(null, "user.updated", user.name, { display_name: fields.displayName, email: fields.email });
    },
    /** The name must be free in the organization. @returns its key. */
    createServiceAccount(
      organizationId: number,
      account: { name: string; privilege: Role; description?: string | null },
    ): number {
      const { name, privilege, description = null } = account;
      const id = store.serviceAccounts.create({ organizationId, name, description, privilege, creatingUserId: "" });
      note(organizationId, "service_account.created", name, { privilege });
      return id;
    },
    /** Removes an account through which no enabled webhook acts, with its keys. @returns how many of them worked. */
    deleteServiceAccount(account: { id: number; organization_id: number; name: string; privilege: Role }): number {
      const keys = store.apiKeys.listActive(account.id).map((key) => key.public_id);
      note(account.organization_id, "service_account.deleted", account.name, { privilege: account.privilege, keys });
      store.serviceAccounts.delete(account.id);
      return keys.length;
    },
    setPrivilege(
      account: { id: number; organization_id: number; name: string; privilege: Role },
      privilege: Role,
    ): void {
      store.serviceAccounts.setPrivilege(account.id, privilege, { changedBy: store.operatorName(), source: "script" });
      note(account.organization_id, "service_account.updated", account.name, {
        privilege,
        previous_privilege: account.privilege,
      });
    },
    /** Opens a door for the webhooks of another product, and the account that acts for it. @returns the door. */
    createWebhook(
      organizationId: number,
      fields: { kind: WebhookKind; settings: object; publicId: string; secret: string; accountName: string },
    ): InboundWebhookRow {
      const { kind, settings, publicId, secret, accountName } = fields;
      const serviceAccountId = store.serviceAccounts.create({
        organizationId,
        name: accountName,
        description: `Acts for the ${kind} webhook`,
        privilege: "member",
        creatingUserId: "",
        forWebhook: true,
      });
      note(organizationId, "service_account.created", accountName, { privilege: "member", for_webhook: true });
      store.inboundWebhooks.create({ publicId, organizationId, kind, secret, serviceAccountId, settings });
      note(organizationId, "webhook.enabled", kind, { settings, service_account: accountName });
      const hook = store.inboundWebhooks.findEnabled(organizationId, kind);
      if (!hook) throw new Error(`the ${kind} webhook that was just made is gone`);
      return hook;
    },
    configureWebhook(organizationId: number, hook: InboundWebhookRow, settings: object): void {
      store.inboundWebhooks.updateSettings(hook.id, settings);
      note(organizationId, "webhook.updated", hook.kind, { settings });
    },
    setWebhookSecret(organizationId: number, hook: InboundWebhookRow, secret: string): void {
      store.inboundWebhooks.setSecret(hook.id, secret);
      note(organizationId, "webhook.secret_rotated", hook.kind, {});
    },
    disableWebhook(organizationId: number, hook: InboundWebhookRow): void {
      store.inboundWebhooks.disable(hook.id);
      note(organizationId, "webhook.disabled", hook.kind, {});
    },
    /** Stores a key that is not known yet; `expiresAt` in epoch seconds, 0 for never. @returns its public id. */
    createKey(owner: Owner, fields: { key: string; description: string; expiresAt: number }): string {
      const { key, description, expiresAt } = fields;
      const id = store.apiKeys.create(owner, { digest: keyDigest(key), description, expiresAt });
      note(organizationOf(owner), "api_key.created", id, { owner: owner.name, description, expires_at: expiresAt });
      return id;
    },
    /** Has a message that is dead or waits tried at once. @returns whether there was one. */
    retryDelivery(row: DeliveryRow): boolean {
      const isTried = store.outbox.retry(row.id);
      if (isTried) note(row.organization_id, "delivery.retried", row.public_id, { subject: row.subject });
      return isTried;
    },
    /** Deletes a dead message. @returns whether there was one. */
    purgeDelivery(row: DeliveryRow): boolean {
      const isPurged = store.outbox.deleteDead(row.id);
      if (isPurged) note(row.organization_id, "delivery.purged", row.public_id, { subject: row.subject });
      return isPurged;
    },
    /** Revokes a live key. */
    revokeKey(owner: Owner, key: { public_id: string; description: string }): void {
      store.apiKeys.revoke(key.public_id);
      note(organizationOf(owner), "api_key.revoked", key.public_id, {
        owner: owner.name,
        description: key.description,
      });
    },
    /** Has the database name another place for the evidence, which is complete there. */
    moveEvidence(from: string, to: string): void {
      store.evidenceLocation.set(to);
      note(null, "evidence.moved", to, { from });
    },
    /** Gives a WEBHOOK another secret. @param of the number of its action, or a type of notifications. */
    setTargetSecret(organizationId: number, of: string, targetId: number, secret: string): void {
      store.notificationTargets.setSecret(targetId, secret);
      note(organizationId, "action.secret_rotated", of, { target: targetId });
    },
  };
}

const organizationOf = (owner: Owner): number | null => ("organizationId" in owner ? owner.organizationId : null);
