/**
 * API keys. Only the SHA-256 of a key is stored; its text exists once, in the answer that creates it. When a key was
 * last used is noted in memory and written every now and then, so that a read costs no write.
 */
import { createHash } from "node:crypto";
import type { Role } from "../../domain/access.ts";
import type { AuditEntry } from "../db/audit-log.ts";
import type { jobStore } from "../db/jobs.ts";
import type { Db, SchemaSources } from "../db/types.ts";

/** A live key with its holder: exactly one of user and service account. */
export type KeyHolder = {
  key_public_id: string;
  expires_at: number;
  grace_period_expires_at: number | null;
  user_id: number | null;
  service_account_id: number | null;
  holder_public_id: string;
  name: string;
  display_name: string;
  /** Of a service account: the only organization where it acts, and its role there. */
  organization_id: number | null;
  privilege: Role | null;
};

export type ApiKeyRow = {
  id: number;
  public_id: string;
  description: string;
  created_at: number;
  expires_at: number;
  last_used_at: number;
  grace_period_expires_at: number | null;
  revoked_at: number | null;
  /** Public id of the key that a rotation made in its place. */
  replaced_by: string | null;
};

/** A key whose time is over and whose record is open. */
export type LapsedKey = {
  public_id: string;
  /** When it ended: its expiry, or the end of the grace period after a rotation. Epoch seconds. */
  ended_at: number;
  /** Name of the user or the service account. */
  holder: string;
  /** Of a service account. */
  organization_id: number | null;
};

/** Payload of the jobs of kind `lapse_key`: a rotated key, and what the audit log will hold of its end. */
export type LapsePayload = { key_id: string; entry: AuditEntry };

/**
 * A key to be stored. `expiresAt` in epoch seconds, 0 for never; `creatingUserId` is the public id of the user who
 * makes it, left out for others.
 */
export type NewKey = { digest: Buffer; description: string; expiresAt: number; creatingUserId?: string | null };

export type KeyOwner = { userId: number } | { serviceAccountId: number };

const COLUMNS =
  "id, public_id, description, created_at, expires_at, last_used_at, grace_period_expires_at, revoked_at, replaced_by";

/** The SHA-256 under which a key is stored, 32 bytes. */
export const keyDigest = (key: string): Buffer => createHash("sha256").update(key).digest();

export function apiKeyStore(db: Db, { now, newId }: SchemaSources, jobs: ReturnType<typeof jobStore>) {
  const byDigest = db.prepare<[Buffer], KeyHolder>(
    `SELECT k.public_id AS key_public_id, k.expires_at, k.grace_period_expires_at, k.user_id, k.service_account_id,
            coalesce(u.public_id, a.public_id) AS holder_public_id, coalesce(u.name, a.name) AS name,
            coalesce(u.display_name, '') AS display_name, a.organization_id, a.privilege
     FROM api_keys k LEFT JOIN users u ON u.id = k.user_id LEFT JOIN service_accounts a ON a.id = k.service_account_id
     WHERE k.digest = ? AND k.revoked_at IS NULL`,
  );
  const anyByDigest = db.prepare<[Buffer], ApiKeyRow & { user_id: number | null; service_account_id: number | null }>(
    `SELECT ${COLUMNS}, user_id, service_account_id FROM api_keys WHERE digest = ?`,
  );
  const insert = db.prepare(
    `INSERT INTO api_keys (public_id, digest, user_id, service_account_id, description, created_at, expires_at, creating_user_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const ofUser = db.prepare<[number], ApiKeyRow>(`SELECT ${COLUMNS} FROM api_keys WHERE user_id = ? ORDER BY id`);
  const ofAccount = db.prepare<[number], ApiKeyRow>(
    `SELECT ${COLUMNS} FROM api_keys WHERE service_account_id = ? ORDER BY id`,
  );
  const unrevokedOfAccount = db.prepare<[number], ApiKeyRow>(
    `SELECT ${COLUMNS} FROM api_keys WHERE service_account_id = ? AND revoked_at IS NULL ORDER BY id`,
  );
  const unrevoked = db.prepare<[string], ApiKeyRow & { service_account_id: number | null }>(
    `SELECT ${COLUMNS}, service_account_id FROM api_keys WHERE public_id = ? AND revoked_at IS NULL`,
  );
  const isUnrevoked = db.prepare<[string], { one: number }>(
    "SELECT 1 AS one FROM api_keys WHERE public_id = ? AND revoked_at IS NULL",
  );
  const revoke = db.prepare("UPDATE api_keys SET revoked_at = ? WHERE public_id = ? AND revoked_at IS NULL");
  const rotate = db.prepare("UPDATE api_keys SET grace_period_expires_at = ?, replaced_by = ? WHERE public_id = ?");
  const lapse = db.prepare(
    "UPDATE api_keys SET revoked_at = grace_period_expires_at WHERE public_id = ? AND revoked_at IS NULL AND grace_period_expires_at IS NOT NULL",
  );
  const graceEnd = db.prepare<[string], { at: number | null }>(
    "SELECT grace_period_expires_at AS at FROM api_keys WHERE public_id = ? AND revoked_at IS NULL",
  );
  // A rotation never moves the end of a key: its grace period ends no later than the key itself would.
  const lapsed = db.prepare<{ at: number; limit: number }, LapsedKey>(
    `SELECT k.public_id, coalesce(u.name, a.name) AS holder, a.organization_id,
            coalesce(k.grace_period_expires_at, k.expires_at) AS ended_at
     FROM (SELECT id FROM api_keys WHERE expires_at > 0 AND expires_at <= @at AND revoked_at IS NULL AND grace_period_expires_at IS NULL
           UNION ALL
           SELECT id FROM api_keys WHERE grace_period_expires_at <= @at AND revoked_at IS NULL AND grace_period_expires_at IS NOT NULL) found
       JOIN api_keys k ON k.id = found.id
       LEFT JOIN users u ON u.id = k.user_id LEFT JOIN service_accounts a ON a.id = k.service_account_id
     LIMIT @limit`,
  );
  const close = db.prepare("UPDATE api_keys SET revoked_at = ? WHERE public_id = ? AND revoked_at IS NULL");
  const touch = db.prepare("UPDATE api_keys SET last_used_at = max(last_used_at, ?) WHERE public_id = ?");
  // By public id: SQLite gives the number of a key that was removed to another one.
  const used = new Map<string, number>();

  const alive = (key: { expires_at: number; grace_period_expires_at: number | null }, at: number): boolean =>
    (key.expires_at === 0 || key.expires_at > at) &&
    (key.grace_period_expires_at === null || key.grace_period_expires_at > at);

  const isAlive = (key: ApiKeyRow): boolean => key.revoked_at === null && alive(key, now());
  /** With the uses that are not written yet. */
  const withLatestUse = <T extends ApiKeyRow>(row: T): T => ({
    ...row,
    last_used_at: Math.max(row.last_used_at, used.get(row.public_id) ?? 0),
  });

  /** Stores a new key, which must not be known yet. @returns its public id. */
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
   * The key of a service account that works, by its public id; null for one that is unknown, of somebody else, revoked
   * or past its time.
   */
  function findActive(serviceAccountId: number, publicId: string): ApiKeyRow | null {
    const row = unrevoked.get(publicId);
    return row && row.service_account_id === serviceAccountId && isAlive(row) ? withLatestUse(row) : null;
  }

  return {
    /** Who holds the key with this SHA-256, alive or not any more; null when it is unknown or revoked. */
    findHolder: (digest: Buffer): KeyHolder | null => byDigest.get(digest) ?? null,
    /** Notes a use of the key. @returns false when its time is over: then it is none. */
    recordUse(holder: KeyHolder): boolean {
      const at = now();
      if (!alive(holder, at)) return false;
      used.set(holder.key_public_id, at);
      return true;
    },
    create,
    /** The record of a key whatever its state, with its owner; null when it was never stored. */
    find: (digest: Buffer) => anyByDigest.get(digest) ?? null,
    /** All keys of an owner, oldest first, dead ones included. */
    listByOwner: (owner: KeyOwner): ApiKeyRow[] =>
      "userId" in owner ? ofUser.all(owner.userId) : ofAccount.all(owner.serviceAccountId),
    isAlive,
    /** A key by its public id, revoked by nobody; it must be there. */
    get(publicId: string): ApiKeyRow {
      const row = unrevoked.get(publicId);
      if (!row) throw new Error(`the key ${publicId} is gone`);
      return row;
    },
    findActive,
    /** The keys of a service account that work, oldest first. */
    listActive(serviceAccountId: number): ApiKeyRow[] {
      const at = now();
      return unrevokedOfAccount
        .all(serviceAccountId)
        .filter((key) => alive(key, at))
        .map(withLatestUse);
    },
    /** Whether the key of that public id is still there and not revoked. */
    isUnrevoked: (publicId: string): boolean => isUnrevoked.get(publicId) !== undefined,
    /**
     * Puts a new key in the place of an active one, which goes on until `graceEnds`, epoch seconds, and asks for the
     * job that then closes its record; `lapsed` is what the audit log will hold of that. An earlier end is never moved,
     * and the end of the key itself counts too. @returns the public id of the new key, and the end of the old one.
     */
    rotate(
      serviceAccountId: number,
      old: ApiKeyRow,
      fields: Omit<NewKey, "description"> & { graceEnds: number; lapsed: AuditEntry },
    ): { id: string; graceEnds: number } {
      const ends = [
        fields.graceEnds,
        old.grace_period_expires_at ?? Infinity,
        old.expires_at === 0 ? Infinity : old.expires_at,
      ];
      const graceEnds = Math.min(...ends);
      const id = create({ serviceAccountId }, { ...fields, description: old.description });
      rotate.run(graceEnds, id, old.public_id);
      jobs.add("lapse_key", { key_id: old.public_id, entry: fields.lapsed } satisfies LapsePayload, graceEnds);
      return { id, graceEnds };
    },
    /** Closes the record of a key whose grace period is over. @returns false when it was revoked or removed before. */
    lapse: (publicId: string): boolean => lapse.run(publicId).changes > 0,
    /** When the grace period of a key ends, epoch seconds; null for one that was not rotated, or that is closed. */
    findGraceEnd: (publicId: string): number | null => graceEnd.get(publicId)?.at ?? null,
    /** At most so many keys whose time was over at `at` (epoch seconds) and whose records are open. */
    listLapsed: (at: number, limit: number): LapsedKey[] => lapsed.all({ at, limit }),
    /** Closes the record of a key whose time is over, as of its end. */
    close: ({ public_id, ended_at }: Pick<LapsedKey, "public_id" | "ended_at">): void =>
      void close.run(ended_at, public_id),
    /** Whether a closed key ended by its time, and not because somebody revoked it. */
    hasLapsed: ({ revoked_at, expires_at, grace_period_expires_at }: ApiKeyRow): boolean =>
      revoked_at !== null && (revoked_at === expires_at || revoked_at === grace_period_expires_at),
    /** Revokes at once. @returns false when there is no such live key. */
    revoke: (publicId: string): boolean => revoke.run(now(), publicId).changes > 0,
    /** Whether uses were noted that are not written yet. */
    hasUnwrittenUses: (): boolean => used.size > 0,
    /** Writes the noted uses; to be called inside a write. */
    flushUses(): void {
      for (const [id, at] of used) touch.run(at, id);
      used.clear();
    },
  };
}
