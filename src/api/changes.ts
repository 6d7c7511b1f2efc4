/**
 * Changes with audit entries of their own, by the principal of a request. Each appends its entry in the transaction of
 * the change, so the operation replies with `unaudited`.
 */
import { createAccountChanges } from "../auth/account-changes.ts";
import type { AccountChanges, ChangeAuthor } from "../auth/account-changes.ts";
import { keyDigest } from "../store/accounts/api-keys.ts";
import type { OrganizationRow, OrganizationSettings } from "../store/accounts/organizations.ts";
import type { DeliveryRow } from "../store/notifications/delivery-log.ts";
import type { InboundWebhookRow, WebhookKind } from "../store/notifications/inbound-webhooks.ts";
import type {
  LegalHoldRow,
  RetentionDays,
  RetentionRuleRow,
  RetentionScope,
} from "../store/retention/retention-rules.ts";
import type { Store } from "../store/index.ts";
import type { OperationContext } from "./context.ts";

/** What the history of memberships names as the source of a change. */
export const sourceOf = ({ principal }: OperationContext): "app" | "script" =>
  principal.kind === "operator" ? "script" : "app";

/** The changes by the principal of a request. Call them inside the write. */
export function changesOf(context: OperationContext): Changes {
  const { actor, operation, requestId } = context.auditEntry();
  const { displayName } = context.principal;
  return createChanges(context.store, { actor, operation, requestId, displayName, source: sourceOf(context) });
}

/** The holder of a key; `name` is its display name: ops, or acme/ci-bot. */
type NamedKeyOwner =
  | { userId: number; name: string }
  | { serviceAccountId: number; organizationId: number; name: string };

export type Changes = ReturnType<typeof createChanges>;

/** Appends an audit entry. */
type Note = AccountChanges["audit"];

/** Call every method inside a transaction. */
export function createChanges(store: Store, author: ChangeAuthor) {
  const changes = createAccountChanges(store, author);
  const { audit: note } = changes;
  return {
    ...changes,
    ...profileChanges(store, note),
    ...webhookChanges(store, note, author),
    ...keyChanges(store, note),
    ...deliveryChanges(store, note),
    ...retentionChanges(store, note),
  };
}

const profileChanges = (store: Store, note: Note) => ({
  configureOrganization(row: OrganizationRow, settings: OrganizationSettings): void {
    store.organizations.updateSettings(row.id, settings);
    const { isPublic, controlsEnabled, evaluationsEnabled, decisionsNeedPublishedPolicy } = settings;
    note(row.id, "organization.updated", row.name, {
      public: isPublic,
      controls: controlsEnabled,
      ...(evaluationsEnabled === undefined ? {} : { evaluations: evaluationsEnabled }),
      ...(decisionsNeedPublishedPolicy === undefined
        ? {}
        : { decisions_need_published_policy: decisionsNeedPublishedPolicy }),
    });
  },
  describeUser(user: { id: number; name: string }, fields: { displayName: string; email: string | null }): void {
    store.users.updateProfile(user.id, fields);
    note(null, "user.updated", user.name, { display_name: fields.displayName, email: fields.email });
  },
});

/** Finds a free name for the service account of a webhook. */
function findFreeAccountName(store: Store, organizationId: number, kind: WebhookKind): string {
  const name = `${kind}-webhook`;
  for (let number = 1; ; number += 1) {
    const candidate = number === 1 ? name : `${name}-${number}`;
    if (!store.serviceAccounts.find(organizationId, candidate)) return candidate;
  }
}

const webhookChanges = (store: Store, note: Note, author: ChangeAuthor) => ({
  /** Creates an inbound webhook and the service account that it acts as, under a free name. */
  createWebhook(
    organizationId: number,
    fields: { kind: WebhookKind; settings: object; publicId: string; secret: string },
  ): InboundWebhookRow {
    const { kind, settings, publicId, secret } = fields;
    const accountName = findFreeAccountName(store, organizationId, kind);
    const serviceAccountId = store.serviceAccounts.create({
      organizationId,
      name: accountName,
      description: `Acts for the ${kind} webhook`,
      privilege: "member",
      creatingUserId: author.actor.publicId,
      forWebhook: true,
    });
    note(organizationId, "service_account.created", accountName, { privilege: "member", for_webhook: true });
    store.inboundWebhooks.create({ publicId, organizationId, kind, secret, serviceAccountId, settings });
    note(organizationId, "webhook.enabled", kind, { settings, service_account: accountName });
    const hook = store.inboundWebhooks.findEnabled(organizationId, kind);
    if (!hook) throw new Error(`the ${kind} webhook that was just created is missing`);
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
});

const keyChanges = (store: Store, note: Note) => ({
  /** Stores a new key; `expiresAt` in epoch seconds, 0 for never. @returns its public id. */
  createKey(owner: NamedKeyOwner, fields: { key: string; description: string; expiresAt: number }): string {
    const { key, description, expiresAt } = fields;
    const id = store.apiKeys.create(owner, { digest: keyDigest(key), description, expiresAt });
    note(organizationIdOf(owner), "api_key.created", id, { owner: owner.name, description, expires_at: expiresAt });
    return id;
  },
  /** Revokes a live key. */
  revokeKey(owner: NamedKeyOwner, key: { public_id: string; description: string }): void {
    store.apiKeys.revoke(key.public_id);
    note(organizationIdOf(owner), "api_key.revoked", key.public_id, {
      owner: owner.name,
      description: key.description,
    });
  },
});

const deliveryChanges = (store: Store, note: Note) => ({
  /** Schedules a dead or waiting message for an immediate attempt. @returns whether it was dead or waiting. */
  retryDelivery(row: Pick<DeliveryRow, "id" | "public_id" | "organization_id" | "subject">): boolean {
    const isRetried = store.outbox.retry(row.id);
    if (isRetried) note(row.organization_id, "delivery.retried", row.public_id, { subject: row.subject });
    return isRetried;
  },
  /** Deletes a dead message. @returns whether it was dead. */
  purgeDelivery(row: DeliveryRow): boolean {
    const isPurged = store.outbox.deleteDead(row.id);
    if (isPurged) note(row.organization_id, "delivery.purged", row.public_id, { subject: row.subject });
    return isPurged;
  },
  /** Gives a WEBHOOK target a new secret. `owner` is the number of its action, or a type of notifications. */
  setTargetSecret(organizationId: number, target: { id: number; owner: string }, secret: string): void {
    store.notificationTargets.setSecret(target.id, secret);
    note(organizationId, "action.secret_rotated", target.owner, { target: target.id });
  },
});

const organizationIdOf = (owner: NamedKeyOwner): number | null =>
  "organizationId" in owner ? owner.organizationId : null;

/** A scope with its name: acme, or acme/payments. */
export type NamedScope = RetentionScope & { name: string };

/** What a hold is on, as people name it: acme, acme/payments or acme/payments/release-7. */
export const heldScopeNameOf = ({ organization_name, flow_name, trail_name }: LegalHoldRow): string =>
  [organization_name, flow_name, trail_name].filter((part) => part !== null).join("/");

const retentionChanges = ({ retentionRules: rules }: Store, note: Note) => ({
  /** Creates or replaces a rule. @returns it */
  setRetentionRule({ name, ...scope }: NamedScope, days: RetentionDays): RetentionRuleRow {
    rules.set(scope, days);
    note(scope.organizationId, "retention.rule_set", name, {
      trails_after_days: days.trails,
      evidence_after_days: days.evidence,
    });
    const rule = rules.listOf(scope.organizationId).find(({ flow_id }) => flow_id === scope.flowId);
    if (!rule) throw new Error(`the retention rule of ${name} that was just set is missing`);
    return rule;
  },
  /** @returns whether there was a rule */
  removeRetentionRule({ name, ...scope }: NamedScope): boolean {
    const isRemoved = rules.delete(scope);
    if (isRemoved) note(scope.organizationId, "retention.rule_removed", name, {});
    return isRemoved;
  },
  /** @param trail null: the whole flow or organization */
  placeHold(
    { name, ...scope }: NamedScope,
    trail: { public_id: string; name: string } | null,
    why: { reason: string; by: string },
  ): LegalHoldRow {
    const id = rules.createHold(scope, trail, why);
    const on = trail ? `${name}/${trail.name}` : name;
    note(scope.organizationId, "retention.hold_placed", id, { on, ...why });
    return rules.findHold(id) as LegalHoldRow;
  },
  /** @returns the hold as it is now; null if it was released before */
  releaseHold(hold: LegalHoldRow, by: string): LegalHoldRow | null {
    if (!rules.releaseHold(hold.id, by)) return null;
    note(hold.organization_id, "retention.hold_released", hold.public_id, {
      on: heldScopeNameOf(hold),
      reason: hold.reason,
      by,
    });
    return rules.findHold(hold.public_id);
  },
});
