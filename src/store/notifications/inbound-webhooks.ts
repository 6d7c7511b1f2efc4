/**
 * Doors for the webhooks of other products. A door is known by an unguessable id in its address; what comes through
 * must be signed with its secret, which is kept as it is because a signature can be checked with nothing else.
 *
 * Invariant: a signed body is recorded once. Signatures carry no time, so whoever saw a call could send it again later
 * and bring back a verdict that was superseded; the digest of each body is kept for that.
 */
import { createHash } from "node:crypto";
import type { Db, SchemaSources } from "../db/types.ts";

export const WEBHOOK_KINDS = ["sonar", "launch-darkly"] as const;
export type WebhookKind = (typeof WEBHOOK_KINDS)[number];

export type InboundWebhookRow = {
  id: number;
  public_id: string;
  organization_id: number;
  kind: WebhookKind;
  secret: string;
  /** null: its account is gone, which happens to disabled ones only. */
  service_account_id: number | null;
  settings_json: string;
  created_at: number;
  disabled_at: number | null;
  last_received_at: number | null;
};

const COLUMNS =
  "id, public_id, organization_id, kind, secret, service_account_id, settings_json, created_at, disabled_at, last_received_at";

export function inboundWebhookStore(db: Db, { now }: Pick<SchemaSources, "now">) {
  const byPublicId = db.prepare<[string, WebhookKind], InboundWebhookRow>(
    `SELECT ${COLUMNS} FROM inbound_webhooks WHERE public_id = ? AND kind = ? AND disabled_at IS NULL`,
  );
  const inUse = db.prepare<[number, WebhookKind], InboundWebhookRow>(
    `SELECT ${COLUMNS} FROM inbound_webhooks WHERE organization_id = ? AND kind = ? AND disabled_at IS NULL`,
  );
  const ofOrganization = db.prepare<[number], InboundWebhookRow>(
    `SELECT ${COLUMNS} FROM inbound_webhooks WHERE organization_id = ? ORDER BY id`,
  );
  const insert = db.prepare(
    `INSERT INTO inbound_webhooks (public_id, organization_id, kind, secret, service_account_id, settings_json, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
  );
  const disable = db.prepare("UPDATE inbound_webhooks SET disabled_at = ? WHERE id = ? AND disabled_at IS NULL");
  const setSecret = db.prepare("UPDATE inbound_webhooks SET secret = ? WHERE id = ?");
  const setSettings = db.prepare("UPDATE inbound_webhooks SET settings_json = ? WHERE id = ?");
  const remember = db.prepare(
    "INSERT INTO inbound_webhook_receipts (webhook_id, digest, received_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
  );
  const touch = db.prepare("UPDATE inbound_webhooks SET last_received_at = ? WHERE id = ?");

  return {
    /** The door with that id, null when there is none of that kind or it was closed. */
    find: (kind: WebhookKind, publicId: string): InboundWebhookRow | null => byPublicId.get(publicId, kind) ?? null,
    /** The door of that kind that an organization uses, null for none. */
    findEnabled: (organizationId: number, kind: WebhookKind): InboundWebhookRow | null =>
      inUse.get(organizationId, kind) ?? null,
    /** All doors of an organization, oldest first, closed ones included. */
    list: (organizationId: number): InboundWebhookRow[] => ofOrganization.all(organizationId),
    /**
     * Opens a door; the organization must have none of that kind in use. `publicId` and `secret` are secrets of the
     * caller's making.
     */
    create(fields: {
      publicId: string;
      organizationId: number;
      kind: WebhookKind;
      secret: string;
      serviceAccountId: number;
      settings: object;
    }): void {
      insert.run(
        fields.publicId,
        fields.organizationId,
        fields.kind,
        fields.secret,
        fields.serviceAccountId,
        JSON.stringify(fields.settings),
        now(),
      );
    },
    /** Closes a door for good. */
    disable: (id: number): void => void disable.run(now(), id),
    /** From now on only this secret counts. */
    setSecret: (id: number, secret: string): void => void setSecret.run(secret, id),
    updateSettings: (id: number, settings: object): void => void setSettings.run(JSON.stringify(settings), id),
    /**
     * Notes that a body came through. To be called in the write that records it. @returns false when it had come
     * before.
     */
    recordReceipt(id: number, body: Buffer): boolean {
      const at = now();
      if (remember.run(id, createHash("sha256").update(body).digest(), at).changes === 0) return false;
      touch.run(at, id);
      return true;
    },
  };
}
