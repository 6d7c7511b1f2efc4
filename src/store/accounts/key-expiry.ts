/**
 * Warnings before API keys expire: which are due, who receives them, and which were sent.
 *
 * Invariant: a row of api_key_warnings for each key, expiry and threshold, so that a warning is sent once, whenever the
 * process dies.
 */
import { EXPIRY_WARNINGS } from "../../domain/notification/key-expiry.ts";
import { DAY_S } from "../../domain/time.ts";
import type { Db, SchemaSources } from "../db/types.ts";

/** A key for which a warning is due. Exactly one of `user_id` and `service_account_id` is set. */
export type EndingKeyRow = {
  id: number;
  public_id: string;
  description: string;
  created_at: number;
  expires_at: number;
  user_id: number | null;
  service_account_id: number | null;
  /** Public id of the user who created it; null when the operator did. */
  creating_user_id: string | null;
  /** Name of the user or the service account. */
  holder: string;
  /** Set for a service account. */
  organization_id: number | null;
  org: string | null;
};

/** A key of a service account of an organization that expires soon. */
type ExpiringKeyRow = {
  public_id: string;
  description: string;
  created_at: number;
  expires_at: number;
  /** Name of the service account. */
  account: string;
};

type DueWarning = { key: EndingKeyRow; days: number };

export function keyExpiryStore(db: Db, { now }: Pick<SchemaSources, "now">) {
  // Keys that a rotation replaced expire on purpose.
  const ending = db.prepare<{ after: number; until: number; days: number; limit: number }, EndingKeyRow>(
    `SELECT k.id, k.public_id, k.description, k.created_at, k.expires_at, k.user_id, k.service_account_id,
            k.creating_user_id, coalesce(u.name, acc.name) AS holder, acc.organization_id, o.name AS org
     FROM api_keys k
       LEFT JOIN users u ON u.id = k.user_id
       LEFT JOIN service_accounts acc ON acc.id = k.service_account_id
       LEFT JOIN organizations o ON o.id = acc.organization_id
     WHERE k.expires_at > @after AND k.expires_at <= @until AND k.expires_at > 0 AND k.revoked_at IS NULL
       AND k.grace_period_expires_at IS NULL AND k.created_at < k.expires_at - @days * ${DAY_S}
       AND NOT EXISTS (SELECT 1 FROM api_key_warnings w
                       WHERE w.key_id = k.id AND w.expires_at = k.expires_at AND w.days <= @days)
     ORDER BY k.expires_at LIMIT @limit`,
  );
  const expiring = db.prepare<{ organization: number; after: number; until: number; limit: number }, ExpiringKeyRow>(
    `SELECT k.public_id, k.description, k.created_at, k.expires_at, acc.name AS account
     FROM service_accounts acc CROSS JOIN api_keys k ON k.service_account_id = acc.id
     WHERE acc.organization_id = @organization AND k.revoked_at IS NULL AND k.grace_period_expires_at IS NULL
       AND k.expires_at > @after AND k.expires_at <= @until
     ORDER BY k.expires_at, k.id LIMIT @limit`,
  );
  const mark = db.prepare("INSERT INTO api_key_warnings (key_id, expires_at, days, warned_at) VALUES (?, ?, ?, ?)");
  const emailOf = db.prepare<[number], { email: string | null }>("SELECT email FROM users WHERE id = ?");
  const recipients = db.prepare<[number, string], { email: string }>(
    `SELECT u.email FROM memberships m JOIN users u ON u.id = m.user_id
     WHERE m.organization_id = ? AND u.email IS NOT NULL AND (m.role = 'admin' OR u.public_id = ?) ORDER BY u.name`,
  );
  const homeOf = db.prepare<[number], { id: number }>(
    `SELECT o.id FROM memberships m JOIN organizations o ON o.id = m.organization_id JOIN users u ON u.id = m.user_id
     WHERE m.user_id = ?
     ORDER BY o.kind = 'personal' AND o.name = u.name DESC, o.id = u.default_organization_id DESC, o.id LIMIT 1`,
  );

  return {
    /** At most `limit` warnings that are due and were not sent; keys that expire first come first. */
    listDue(limit: number): DueWarning[] {
      const at = now();
      const warnings = EXPIRY_WARNINGS.flatMap(({ days, until }) =>
        ending
          .all({ after: at + until * DAY_S, until: at + days * DAY_S, days, limit })
          .map((key): DueWarning => ({ key, days })),
      );
      return warnings.slice(0, limit);
    },
    /**
     * At most `limit` valid keys of service accounts that expire within `seconds`, the next one first. Keys that a
     * rotation replaced are left out: they expire on purpose.
     */
    listExpiring(organizationId: number, { seconds, limit }: { seconds: number; limit: number }): ExpiringKeyRow[] {
      const at = now();
      return expiring.all({ organization: organizationId, after: at, until: at + seconds, limit });
    },
    /** Records that a warning was sent, or that it has no recipient. */
    markWarned: ({ key, days }: DueWarning): void => void mark.run(key.id, key.expires_at, days, now()),
    /**
     * The default recipients for a key of a service account: the admins of the organization, and the member who created
     * the key.
     */
    listRecipients: (organizationId: number, creator: string | null): string[] =>
      recipients.all(organizationId, creator ?? "").map(({ email }) => email),
    /**
     * The address of a user, and the organization whose delivery log gets the mail: the personal one, else the default
     * one, else any. null without an address or an organization.
     */
    findOwner(userId: number): { email: string; organizationId: number } | null {
      const email = emailOf.get(userId)?.email ?? null;
      const home = homeOf.get(userId);
      return email === null || !home ? null : { email, organizationId: home.id };
    },
  };
}
