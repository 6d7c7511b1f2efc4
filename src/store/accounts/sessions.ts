/**
 * Login sessions of people.
 *
 * Invariants: only the SHA-256 of the cookie is stored; a session that ended never opens again; the cookie before the
 * current one is accepted for a short grace period only. The time of last use is kept in memory and flushed at
 * intervals, so that a read costs no write; after a crash a session may appear unused for a minute longer.
 */
import { createHash } from "node:crypto";
import { number, selectList, string, stringOf } from "../db/columns.ts";
import type { RowOf } from "../db/columns.ts";
import type { Db, SchemaSources } from "../db/types.ts";

export type LoginMethod = "password" | "oidc" | "setup";

const SESSION = {
  public_id: string,
  user_id: number,
  method: stringOf<LoginMethod>(),
  address: string,
  user_agent: string,
  created_at: number,
  last_used_at: number,
  rotated_at: number,
  /** Seconds without use after which the session expires. */
  idle: number,
  expires_at: number,
};
export type SessionRow = RowOf<typeof SESSION>;

/** A session that was not ended, with its user. */
export type SessionHolder = SessionRow & {
  user_public_id: string;
  name: string;
  display_name: string;
  csrf_token: string;
  /** Whether the presented cookie is the one before the current one. */
  is_previous: 0 | 1;
};

export type NewSession = {
  digest: Buffer;
  csrfToken: string;
  userId: number;
  method: LoginMethod;
  address: string;
  userAgent: string;
  /** Seconds. */
  idleTimeoutS: number;
  lifetimeS: number;
};

/**
 * Seconds for which the previous cookie is still accepted, for requests that were in flight when the response with the
 * new cookie arrived, also over a slow link.
 */
const GRACE_S = 60;

/** Longer User-Agent headers are truncated. */
const MAX_USER_AGENT_CHARS = 300;

/** Marks the id of a session where records name the id of a key, as in the audit log. */
const PREFIX = "session:";
export const sessionActorId = (publicId: string): string => `${PREFIX}${publicId}`;
/** The public id of the session in an id made by `sessionActorId`; null for the id of a key. */
export const parseSessionActorId = (keyPublicId: string): string | null =>
  keyPublicId.startsWith(PREFIX) ? keyPublicId.slice(PREFIX.length) : null;

/** The SHA-256 under which a cookie is stored, 32 bytes. */
export const cookieDigest = (value: string): Buffer => createHash("sha256").update(value).digest();

const COLUMNS = selectList(SESSION);

export function sessionStore(db: Db, { now, newId }: SchemaSources) {
  const holderBy = (column: "digest" | "previous_digest") => {
    return db.prepare<[Buffer], SessionHolder>(
      `SELECT ${selectList(SESSION, "ses")}, ses.csrf_token, ${column === "digest" ? 0 : 1} AS is_previous,
              u.public_id AS user_public_id, u.name, u.display_name
       FROM sessions ses JOIN users u ON u.id = ses.user_id WHERE ses.${column} = ? AND ses.ended_at IS NULL`,
    );
  };
  const [byDigest, byPreviousDigest] = [holderBy("digest"), holderBy("previous_digest")];
  const byPublicId = db.prepare<[string], SessionRow>(
    `SELECT ${COLUMNS} FROM sessions WHERE public_id = ? AND ended_at IS NULL`,
  );
  const insert = db.prepare(
    `INSERT INTO sessions (public_id, digest, csrf_token, user_id, method, address, user_agent, created_at,
                           last_used_at, rotated_at, idle, expires_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const replaceDigest = db.prepare(
    `UPDATE sessions SET previous_digest = digest, digest = ?, rotated_at = ?
     WHERE public_id = ? AND digest = ? AND ended_at IS NULL`,
  );
  const end = db.prepare("UPDATE sessions SET ended_at = ? WHERE public_id = ? AND ended_at IS NULL");
  const endByUser = db.prepare(
    "UPDATE sessions SET ended_at = ? WHERE user_id = ? AND ended_at IS NULL AND public_id <> ?",
  );
  const byUser = db.prepare<[number], SessionRow>(
    `SELECT ${COLUMNS} FROM sessions WHERE user_id = ? AND ended_at IS NULL ORDER BY id`,
  );
  const selectAll = db.prepare<[], SessionRow>(
    `SELECT ${COLUMNS} FROM sessions WHERE ended_at IS NULL ORDER BY user_id, id`,
  );
  const touch = db.prepare("UPDATE sessions SET last_used_at = max(last_used_at, ?) WHERE public_id = ?");
  const deleteExpired = db.prepare(
    "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE expires_at < ? ORDER BY expires_at LIMIT ?)",
  );
  // Over the time of expiry, which every session has and an index covers. Records are kept for days only.
  const lastLogins = db.prepare<[number], { user_id: number; at: number }>(
    `SELECT ses.user_id, max(ses.created_at) AS at
     FROM sessions ses CROSS JOIN memberships m ON m.organization_id = ? AND m.user_id = ses.user_id
     WHERE ses.expires_at > 0 GROUP BY ses.user_id`,
  );
  const unflushedUses = new Map<string, number>();

  /** Adds a use that has not been flushed yet. */
  const withLatestUse = <T extends SessionRow>(row: T): T => ({
    ...row,
    last_used_at: Math.max(row.last_used_at, unflushedUses.get(row.public_id) ?? 0),
  });
  const isOpenAt = (row: SessionRow, at: number): boolean =>
    row.expires_at > at && withLatestUse(row).last_used_at + row.idle > at;
  /** Whether the cookie was replaced so long ago that only a stolen copy can still present it. */
  const isStale = (holder: SessionHolder, at: number): boolean =>
    holder.is_previous === 1 && holder.rotated_at + GRACE_S <= at;
  const onlyOpen = (rows: readonly SessionRow[]): SessionRow[] => {
    const at = now();
    return rows.filter((row) => isOpenAt(row, at)).map(withLatestUse);
  };
  return {
    /** The session whose current or previous cookie has this SHA-256; null when it is unknown or was ended. */
    findHolder: (digest: Buffer): SessionHolder | null => byDigest.get(digest) ?? byPreviousDigest.get(digest) ?? null,
    isStale,
    /**
     * Records a use of the session.
     * @param endedBy epoch seconds; by then its lifetime must not have ended either
     * @returns false when the session or the cookie has expired
     */
    recordUse(holder: SessionHolder, endedBy = -Infinity): boolean {
      const at = now();
      if (holder.expires_at <= endedBy || !isOpenAt(holder, at) || isStale(holder, at)) return false;
      unflushedUses.set(holder.public_id, at);
      return true;
    },
    /** @returns the public id. */
    create(fields: NewSession): string {
      const publicId = newId();
      const at = now();
      insert.run(
        publicId,
        fields.digest,
        fields.csrfToken,
        fields.userId,
        fields.method,
        fields.address,
        fields.userAgent.slice(0, MAX_USER_AGENT_CHARS),
        at,
        at,
        at,
        fields.idleTimeoutS,
        at + fields.lifetimeS,
      );
      return publicId;
    },
    /** Replaces the cookie of a session. @returns false when `from` is no longer its cookie, or the session ended. */
    rotate: (publicId: string, from: Buffer, to: Buffer): boolean =>
      replaceDigest.run(to, now(), publicId, from).changes > 0,
    /** Whether the session with that public id is open. */
    isOpen(publicId: string): boolean {
      const row = byPublicId.get(publicId);
      return row !== undefined && isOpenAt(row, now());
    },
    /** @returns whether it was open. */
    end(publicId: string): boolean {
      unflushedUses.delete(publicId);
      return end.run(now(), publicId).changes > 0;
    },
    /** Ends all sessions of a user, except the one with the public id `except`. @returns how many it ended. */
    endByUser: (userId: number, except = ""): number => endByUser.run(now(), userId, except).changes,
    /** The open session with that public id; null when there is none. */
    find(publicId: string): SessionRow | null {
      const row = byPublicId.get(publicId);
      return row ? (onlyOpen([row])[0] ?? null) : null;
    },
    /** The open sessions of a user, oldest first; without a user, those of all users, grouped by user. */
    list: (userId: number | null = null): SessionRow[] =>
      onlyOpen(userId === null ? selectAll.all() : byUser.all(userId)),
    /**
     * When the members of an organization last signed in, by user id. Only logins whose session has not expired yet
     * are certain to be known, ended ones included.
     */
    listLastLogins: (organizationId: number): ReadonlyMap<number, number> =>
      new Map(lastLogins.all(organizationId).map(({ user_id, at }) => [user_id, at])),
    /** Deletes records that had expired at `before`. @returns how many. */
    deleteExpired: (before: number, limit: number): number => deleteExpired.run(before, limit).changes,
    hasUnwrittenUses: (): boolean => unflushedUses.size > 0,
    /** Writes the recorded uses. Call it inside a write. */
    flushUses(): void {
      for (const [id, at] of unflushedUses) touch.run(at, id);
      unflushedUses.clear();
    },
  };
}
