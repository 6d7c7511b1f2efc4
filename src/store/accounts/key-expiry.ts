/**
 * Which API keys are about to end, who is told of it, and what they were told: a mark for each warning of each key and
 * end, so that it is given once, whatever ends the process in between.
 */
import { WARNINGS } from "../../domain/notification/key-expiry.ts";
import { DAY } from "../../domain/time.ts";
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
  /** Public id of who made it, null when the operator did. */
  creating_user_id: string | null;
  /** Of the user or the service account. */
  holder: string;
  /** Of a service account. */
  organization_id: number | null;
  org: string | null;
};

export type DueWarning = { key: EndingKeyRow; days: number };

export function keyExpiryStore(db: Db, { now }: Pick<SchemaSources, "now">) {
  // Keys that a rotation replaced end on purpose.
  const ending = db.prepare<{ after: number; until: number; days: number; limit: number }, EndingKeyRow>(
    `SELECT k.id, k.public_id, k.description, k.created_at, k.expires_at, k.user_id, k.service_account_id, k.creating_user_id,
            coalesce(u.name, a.name) AS holder, a.organization_id, o.name AS org
     FROM api_keys k LEFT JOIN users u ON u.id = k.user_id LEFT JOIN service_accounts a ON a.id = k.service_account_id
       LEFT JOIN organizations o ON o.id = a.organization_id
     WHERE k.expires_at > @after AND k.expires_at <= @until AND k.expires_at > 0 AND k.revoked_at IS NULL AND k.grace_period_expires_at IS NULL
       AND k.created_at < k.expires_at - @days * ${DAY}
       AND NOT EXISTS (SELECT 1 FROM api_key_warnings w WHERE w.key_id = k.id AND w.expires_at = k.expires_at AND w.days <= @days)
     ORDER BY k.expires_at LIMIT @limit`,
  );
  const mark = db.prepare("INSERT INTO api_key_warnings (key_id, expires_at, days, warned_at) VALUES (?, ?, ?, ?)");
  const addressOf = db.prepare<[number], { email: string | null }>("SELECT email FROM users WHERE id = ?");
  const responsible = db.prepare<[number, string], { email: string }>(
    `SELECT u.email FROM memberships m JOIN users u ON u.id = m.user_id
     WHERE m.organization_id = ? AND u.email IS NOT NULL AND (m.role = 'admin' OR u.public_id = ?) ORDER BY u.name`,
  );
  const homeOf = db.prepare<[number], { id: number }>(
    `SELECT o.id FROM memberships m JOIN organizations o ON o.id = m.organization_id JOIN users u ON u.id = m.user_id
     WHERE m.user_id = ? ORDER BY o.kind = 'personal' AND o.name = u.name DESC, o.id = u.default_organization_id DESC, o.id LIMIT 1`,
  );

  return {
    /** Warnings that are due and were not given, at most so many; the keys that end first come first. */
    listDue(limit: number): DueWarning[] {
      const at = now();
      const found = WARNINGS.flatMap(({ days, until }) =>
        ending
          .all({ after: at + until * DAY, until: at + days * DAY, days, limit })
          .map((key): DueWarning => ({ key, days })),
      );
      return found.slice(0, limit);
    },
    /** Notes that a warning was given, or that there is nobody to give it to. */
    markWarned: ({ key, days }: DueWarning): void => void mark.run(key.id, key.expires_at, days, now()),
    /**
     * Addresses of those who are told of a key of a service account unless others were configured: admins, and the
     * member who made it.
     */
    listRecipients: (organizationId: number, creator: string | null): string[] =>
      responsible.all(organizationId, creator ?? "").map(({ email }) => email),
    /**
     * The address of a user, and the organization in whose log their mail is kept: their personal one, their default
     * one, any; null when there is no address or no organization.
     */
    findOwner(userId: number): { email: string; organizationId: number } | null {
      const email = addressOf.get(userId)?.email ?? null;
      const home = homeOf.get(userId);
      return email === null || !home ? null : { email, organizationId: home.id };
    },
  };
}
