/**
 * API keys, of users and of service accounts.
 *
 * Invariants: only the SHA-256 of a key is stored, its text exists once, in the response that creates it; a revoked or
 * closed key never becomes valid again. The time of last use is kept in memory and flushed at intervals, so that a read
 * costs no write. All times are epoch seconds.
 */
import { createHash } from "node:crypto";
import type { Role } from "../../domain/access.ts";
import type { AuditEntry } from "../db/audit-log.ts";
import type { jobStore } from "../db/jobs.ts";
import { number, orNull, selectList, string } from "../db/columns.ts";
import type { RowOf } from "../db/columns.ts";
import type { Db, SchemaSources } from "../db/types.ts";

/** An unrevoked key with its holder: exactly one of user and service account. */
export type KeyHolder = {
  key_public_id: string;
  expires_at: number;
  grace_period_expires_at: number | null;
  user_id: number | null;
  service_account_id: number | null;
  holder_public_id: string;
  name: string;
  display_name: string;
  /** Set for a service account: the only organization in which it acts, and its role there. */
  organization_id: number | null;
  privilege: Role | null;
};

const API_KEY = {
  id: number,
  public_id: string,
  description: string,
  created_at: number,
  expires_at: number,
  last_used_at: number,
  grace_period_expires_at: orNull(number),
  revoked_at: orNull(number),
  /** Public id of the key that replaced this one in a rotation. */
  replaced_by: orNull(string),
};
export type ApiKeyRow = RowOf<typeof API_KEY>;

/** An expired key whose record has not been closed yet. */
export type LapsedKey = {
  public_id: string;
  /** When it ended: its expiry, or the end of the grace period after a rotation. */
  ended_at: number;
  /** Name of the user or the service account. */
  holder: string;
  /** Set for a service account. */
  organization_id: number | null;
};

/** Payload of the jobs of kind `lapse_key`: a rotated key, and the audit entry for its end. */
export type LapsePayload = { key_id: string; entry: AuditEntry };

/**
 * A key to store. `expiresAt` is 0 for a key that never expires; `creatingUserId` is the public id of the user who
 * creates it, absent for other creators.
 */
type NewKey = { digest: Buffer; description: string; expiresAt: number; creatingUserId?: string | null };

export type KeyOwner = { userId: number } | { serviceAccountId: number };

const COLUMNS = selectList(API_KEY);

/** The SHA-256 under which a key is stored, 32 bytes. */
export const keyDigest = (key: string): Buffer => createHash("sha256").update(key).digest();

const isActiveAt = (key: Pick<ApiKeyRow, "expires_at" | "grace_period_expires_at">, at: number): boolean =>
  (key.expires_at === 0 || key.expires_at > at) &&
  (key.grace_period_expires_at === null || key.grace_period_expires_at > at);

export function apiKeyStore(db: Db, { now, newId }: SchemaSources, jobs: ReturnType<typeof jobStore>) {
  const holderByDigest = db.prepare<[Buffer], KeyHolder>(
    `SELECT k.public_id AS key_public_id, k.expires_at, k.grace_period_expires_at, k.user_id, k.service_account_id,
            coalesce(u.public_id, acc.public_id) AS holder_public_id, coalesce(u.name, acc.name) AS name,
            coalesce(u.display_name, '') AS display_name, acc.organization_id, acc.privilege
     FROM api_keys k
       LEFT JOIN users u ON u.id = k.user_id
       LEFT JOIN service_accounts acc ON acc.id = k.service_account_id
     WHERE k.digest = ? AND k.revoked_at IS NULL`,
  );
  const anyByDigest = db.prepare<[Buffer], ApiKeyRow & { user_id: number | null; service_account_id: number | null }>(
    `SELECT ${COLUMNS}, user_id, service_account_id FROM api_keys WHERE digest = ?`,
  );
  const insert = db.prepare(
    `INSERT INTO api_keys (public_id, digest, user_id, service_account_id, description, created_at, expires_at,
                           creating_user_id)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const byUser = db.prepare<[number], ApiKeyRow>(`SELECT ${COLUMNS} FROM api_keys WHERE user_id = ? ORDER BY id`);
  const byAccount = db.prepare<[number], ApiKeyRow>(
    `SELECT ${COLUMNS} FROM api_keys WHERE service_account_id = ? ORDER BY id`,
  );
  const unrevokedByAccount = db.prepare<[number], ApiKeyRow>(
    `SELECT ${COLUMNS} FROM api_keys WHERE service_account_id = ? AND revoked_at IS NULL ORDER BY id`,
  );
  const unrevokedByUser = db.prepare<[number], ApiKeyRow>(
    `SELECT ${COLUMNS} FROM api_keys WHERE user_id = ? AND revoked_at IS NULL ORDER BY id`,
  );
  const unrevoked = db.prepare<[string], ApiKeyRow & { user_id: number | null; service_account_id: number | null }>(
    `SELECT ${COLUMNS}, user_id, service_account_id FROM api_keys WHERE public_id = ? AND revoked_at IS NULL`,
  );
  const unrevokedId = db.prepare<[string], { one: number }>(
    "SELECT 1 AS one FROM api_keys WHERE public_id = ? AND revoked_at IS NULL",
  );
  const setRevoked = db.prepare("UPDATE api_keys SET revoked_at = ? WHERE public_id = ? AND revoked_at IS NULL");
  const setGrace = db.prepare("UPDATE api_keys SET grace_period_expires_at = ?, replaced_by = ? WHERE public_id = ?");
  const lapse = db.prepare(
    `UPDATE api_keys SET revoked_at = grace_period_expires_at
     WHERE public_id = ? AND revoked_at IS NULL AND grace_period_expires_at IS NOT NULL`,
  );
  const graceEnd = db.prepare<[string], { at: number | null }>(
    "SELECT grace_period_expires_at AS at FROM api_keys WHERE public_id = ? AND revoked_at IS NULL",
  );
  // A rotation never extends a key: the grace period ends no later than the key itself.
  const lapsed = db.prepare<{ at: number; limit: number }, LapsedKey>(
    `SELECT k.public_id, coalesce(u.name, acc.name) AS holder, acc.organization_id,
            coalesce(k.grace_period_expires_at, k.expires_at) AS ended_at
     FROM (SELECT id FROM api_keys
           WHERE expires_at > 0 AND expires_at <= @at AND revoked_at IS NULL AND grace_period_expires_at IS NULL
           UNION ALL
           SELECT id FROM api_keys
           WHERE grace_period_expires_at <= @at AND revoked_at IS NULL AND grace_period_expires_at IS NOT NULL) ended
       JOIN api_keys k ON k.id = ended.id
       LEFT JOIN users u ON u.id = k.user_id
       LEFT JOIN service_accounts acc ON acc.id = k.service_account_id
     LIMIT @limit`,
  );
  const touch = db.prepare("UPDATE api_keys SET last_used_at = max(last_used_at, ?) WHERE public_id = ?");
  // Keyed by public id: SQLite reuses the row ids of deleted keys.
  const unflushedUses = new Map<string, number>();

  const isActive = (key: ApiKeyRow): boolean => key.revoked_at === null && isActiveAt(key, now());
  /** Adds a use that has not been flushed yet. */
  const withLatestUse = <T extends ApiKeyRow>(row: T): T => ({
    ...row,
    last_used_at: Math.max(row.last_used_at, unflushedUses.get(row.public_id) ?? 0),
  });

  /** Stores a key that does not exist yet. @returns its public id. */
  function create(owner: KeyOwner, fields: NewKey): string {
    const publicId = newId();
    const user = "userId" in owner ? owner.userId : null;
    const account = "serviceAccountId" in owner ? owner.serviceAccountId : null;
    insert.run(
      publicId,
      fields.digest,
      user,
      account,
      fields.description,
      now(),
      fields.expiresAt,
      fields.creatingUserId ?? null,
    );
    return publicId;
  }

  /**
   * The active key of an owner with that public id; null when unknown, of another owner, revoked or expired.
   */
  function findActive(owner: KeyOwner, publicId: string): ApiKeyRow | null {
    const row = unrevoked.get(publicId);
    const isOwned =
      row && ("userId" in owner ? row.user_id === owner.userId : row.service_account_id === owner.serviceAccountId);
    return isOwned && isActive(row) ? withLatestUse(row) : null;
  }

  const onlyActive = (rows: readonly ApiKeyRow[]): ApiKeyRow[] => {
    const at = now();
    return rows.filter((key) => isActiveAt(key, at)).map(withLatestUse);
  };

  return {
    /** The holder of the key with this SHA-256, expired or not; null when it is unknown or revoked. */
    findHolder: (digest: Buffer): KeyHolder | null => holderByDigest.get(digest) ?? null,
    /**
     * Records a use of the key.
     * @param endedBy epoch seconds; by then it must not have expired either
     * @returns false when it has expired; then the request is not authenticated
     */
    recordUse(holder: KeyHolder, endedBy = -Infinity): boolean {
      const at = now();
      if (!isActiveAt(holder, Math.max(at, endedBy))) return false;
      unflushedUses.set(holder.key_public_id, at);
      return true;
    },
    create,
    /** The record of a key in any state, with its owner; null when it was never stored. */
    find: (digest: Buffer) => anyByDigest.get(digest) ?? null,
    /** The key with this public id, expired or not; null when it is unknown or revoked. */
    findUnrevoked: (publicId: string): ApiKeyRow | null => unrevoked.get(publicId) ?? null,
    /** All keys of an owner, oldest first, inactive ones included. */
    listByOwner: (owner: KeyOwner): ApiKeyRow[] =>
      "userId" in owner ? byUser.all(owner.userId) : byAccount.all(owner.serviceAccountId),
    isActive,
    /** The unrevoked key with that public id; it must exist. */
    get(publicId: string): ApiKeyRow {
      const row = unrevoked.get(publicId);
      if (!row) throw new Error(`the key ${publicId} is gone`);
      return row;
    },
    findActive,
    /** The active keys of a service account, oldest first. */
    listActive: (serviceAccountId: number): ApiKeyRow[] => onlyActive(unrevokedByAccount.all(serviceAccountId)),
    /** The active keys of a user, oldest first. */
    listActiveOfUser: (userId: number): ApiKeyRow[] => onlyActive(unrevokedByUser.all(userId)),
    /** Whether a key with that public id exists and is not revoked. */
    isUnrevoked: (publicId: string): boolean => unrevokedId.get(publicId) !== undefined,
    /**
     * Replaces an active key by a new one. The old key stays valid until `graceEnds`, but never longer than it would
     * have been without the rotation. Adds the job that closes its record then and appends the audit entry `lapsed`.
     * @returns the public id of the new key, and the end of the old one.
     */
    rotate(
      owner: KeyOwner,
      old: ApiKeyRow,
      fields: Omit<NewKey, "description"> & { graceEnds: number; lapsed: AuditEntry },
    ): { id: string; graceEnds: number } {
      const ends = [
        fields.graceEnds,
        old.grace_period_expires_at ?? Infinity,
        old.expires_at === 0 ? Infinity : old.expires_at,
      ];
      const graceEnds = Math.min(...ends);
      const id = create(owner, { ...fields, description: old.description });
      setGrace.run(graceEnds, id, old.public_id);
      jobs.add("lapse_key", { key_id: old.public_id, entry: fields.lapsed } satisfies LapsePayload, graceEnds);
      return { id, graceEnds };
    },
    /** Closes the record of a key after its grace period. @returns false when it was revoked or deleted before. */
    lapse: (publicId: string): boolean => lapse.run(publicId).changes > 0,
    /** When the grace period of a key ends; null for a key that was not rotated or is closed. */
    findGraceEnd: (publicId: string): number | null => graceEnd.get(publicId)?.at ?? null,
    /** At most `limit` keys that had expired at `at` and whose records are still open. */
    listLapsed: (at: number, limit: number): LapsedKey[] => lapsed.all({ at, limit }),
    /** Closes the record of an expired key, as of its end. */
    close: ({ public_id, ended_at }: Pick<LapsedKey, "public_id" | "ended_at">): void =>
      void setRevoked.run(ended_at, public_id),
    /** Whether a closed key expired, as opposed to being revoked. */
    hasLapsed: ({ revoked_at, expires_at, grace_period_expires_at }: ApiKeyRow): boolean =>
      revoked_at !== null && (revoked_at === expires_at || revoked_at === grace_period_expires_at),
    /** Revokes a key now. @returns false when no unrevoked key has that public id. */
    revoke: (publicId: string): boolean => setRevoked.run(now(), publicId).changes > 0,
    hasUnwrittenUses: (): boolean => unflushedUses.size > 0,
    /** Writes the recorded uses. Call it inside a write. */
    flushUses(): void {
      for (const [id, at] of unflushedUses) touch.run(at, id);
      unflushedUses.clear();
    },
  };
}
