/**
 * Inbound webhooks: endpoints that accept calls of other products. The unguessable id in its URL identifies an
 * endpoint, and every call must be signed with its secret, which is stored in plain text because verifying a signature
 * needs it.
 *
 * Invariant: a signed body is recorded once. Signatures carry no time, so an attacker who saw a call could replay it
 * later and bring back a superseded verdict; the digest of each body prevents that.
 */
import { createHash } from "node:crypto";
import { number, orNull, selectList, string, stringOf } from "../db/columns.ts";
import type { RowOf } from "../db/columns.ts";
import type { Db, SchemaSources } from "../db/types.ts";

export const WEBHOOK_KINDS = ["sonar", "launch-darkly"] as const;
export type WebhookKind = (typeof WEBHOOK_KINDS)[number];

const WEBHOOK = {
  id: number,
  public_id: string,
  organization_id: number,
  kind: stringOf<WebhookKind>(),
  secret: string,
  /** null when its account was deleted, which requires that it is disabled. */
  service_account_id: orNull(number),
  settings_json: string,
  created_at: number,
  disabled_at: orNull(number),
  last_received_at: orNull(number),
};
export type InboundWebhookRow = RowOf<typeof WEBHOOK>;

const COLUMNS = selectList(WEBHOOK);

export function inboundWebhookStore(db: Db, { now }: Pick<SchemaSources, "now">) {
  const byPublicId = db.prepare<[string, WebhookKind], InboundWebhookRow>(
    `SELECT ${COLUMNS} FROM inbound_webhooks WHERE public_id = ? AND kind = ? AND disabled_at IS NULL`,
  );
  const enabled = db.prepare<[number, WebhookKind], InboundWebhookRow>(
    `SELECT ${COLUMNS} FROM inbound_webhooks WHERE organization_id = ? AND kind = ? AND disabled_at IS NULL`,
  );
  const byOrganization = db.prepare<[number], InboundWebhookRow>(
    `SELECT ${COLUMNS} FROM inbound_webhooks WHERE organization_id = ? ORDER BY id`,
  );
  const insert = db.prepare(
    `INSERT INTO inbound_webhooks (public_id, organization_id, kind, secret, service_account_id, settings_json,
                                   created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?)`,
  );
  const disable = db.prepare("UPDATE inbound_webhooks SET disabled_at = ? WHERE id = ? AND disabled_at IS NULL");
  const setSecret = db.prepare("UPDATE inbound_webhooks SET secret = ? WHERE id = ?");
  const setSettings = db.prepare("UPDATE inbound_webhooks SET settings_json = ? WHERE id = ?");
  const insertReceipt = db.prepare(
    `INSERT INTO inbound_webhook_receipts (webhook_id, digest, received_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
  );
  const claim = db.prepare("INSERT INTO sonar_flows (flow_id, project_key) VALUES (?, ?) ON CONFLICT DO NOTHING");
  const owner = db.prepare<[number], string>("SELECT project_key FROM sonar_flows WHERE flow_id = ?").pluck();
  const touch = db.prepare("UPDATE inbound_webhooks SET last_received_at = ? WHERE id = ?");

  return {
    /** The enabled webhook with that id; null when there is none of that kind. */
    find: (kind: WebhookKind, publicId: string): InboundWebhookRow | null => byPublicId.get(publicId, kind) ?? null,
    /** The enabled webhook of that kind in an organization; null without one. */
    findEnabled: (organizationId: number, kind: WebhookKind): InboundWebhookRow | null =>
      enabled.get(organizationId, kind) ?? null,
    /** All webhooks of an organization, oldest first, disabled ones included. */
    list: (organizationId: number): InboundWebhookRow[] => byOrganization.all(organizationId),
    /**
     * Creates a webhook; the organization must have no enabled one of that kind. The caller makes `publicId` and
     * `secret`, which both are secrets.
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
    /** Disables a webhook for good. */
    disable: (id: number): void => void disable.run(now(), id),
    /** Replaces the secret; signatures with the old one are refused from now on. */
    setSecret: (id: number, secret: string): void => void setSecret.run(secret, id),
    updateSettings: (id: number, settings: object): void => void setSettings.run(JSON.stringify(settings), id),
    /**
     * Keeps a flow that is named after a SonarQube project for that project. Call it in the write that records a scan.
     * @returns the key of the project whose scans the flow records
     */
    claimFlow(flowId: number, projectKey: string): string {
      claim.run(flowId, projectKey);
      return owner.get(flowId) as string;
    },
    /** Records that a body was received. Call it in the write that records its content. @returns false for a replay. */
    recordReceipt(id: number, body: Buffer): boolean {
      const at = now();
      if (insertReceipt.run(id, createHash("sha256").update(body).digest(), at).changes === 0) return false;
      touch.run(at, id);
      return true;
    },
  };
}
