/**
 * Sessions of people who signed in. Only the SHA-256 of the cookie is stored. When a session was last used is noted in
 * memory and written every now and then, so that a read costs no write: after a crash a session may look unused for a
 * minute longer.
 */
import { createHash } from "node:crypto";
import type { Db, SchemaSources } from "../db/types.ts";

export type LoginMethod = "password" | "oidc" | "setup";

export type SessionRow = {
  public_id: string;
  user_id: number;
  method: LoginMethod;
  address: string;
  user_agent: string;
  created_at: number;
  last_used_at: number;
  rotated_at: number;
  /** Seconds without use that end it. */
  idle: number;
  expires_at: number;
};

/** A session that nobody ended, with its user. */
export type SessionHolder = SessionRow & {
  user_public_id: string;
  name: string;
  display_name: string;
  csrf_token: string;
  /** Whether the cookie is the one before the present one. */
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
  idle: number;
  lifetime: number;
};

/**
 * Seconds for which the cookie before the present one is still let in: requests that were sent beside the one that
 * brought the new cookie, also over a slow link.
 */
const GRACE = 60;

/** Characters of a User-Agent that are kept. */
const AGENT_CHARACTERS = 300;

/** What names a session where keys have their id, as in the audit log. */
const PREFIX = "session:";
export const sessionActorId = (publicId: string): string => `${PREFIX}${publicId}`;
/** The session that `sessionActor` named; null for the id of a key. */
export const parseSessionActorId = (keyPublicId: string): string | null =>
  keyPublicId.startsWith(PREFIX) ? keyPublicId.slice(PREFIX.length) : null;

/** The SHA-256 under which a cookie is stored, 32 bytes. */
export const cookieDigest = (value: string): Buffer => createHash("sha256").update(value).digest();

const COLUMNS =
  "public_id, user_id, method, address, user_agent, created_at, last_used_at, rotated_at, idle, expires_at";

export function sessionStore(db: Db, { now, newId }: SchemaSources) {
  const holding = (column: "digest" | "previous_digest") =>
    db.prepare<[Buffer], SessionHolder>(
      `SELECT ${COLUMNS.split(", ")
        .map((name) => `s.${name}`)
        .join(", ")}, s.csrf_token, ${column === "digest" ? 0 : 1} AS is_previous,
              u.public_id AS user_public_id, u.name, u.display_name
       FROM sessions s JOIN users u ON u.id = s.user_id WHERE s.${column} = ? AND s.ended_at IS NULL`,
    );
  const [byDigest, byPrevious] = [holding("digest"), holding("previous_digest")];
  const byId = db.prepare<[string], SessionRow>(
    `SELECT ${COLUMNS} FROM sessions WHERE public_id = ? AND ended_at IS NULL`,
  );
  const insert = db.prepare(
    `INSERT INTO sessions (public_id, digest, csrf_token, user_id, method, address, user_agent, created_at, last_used_at, rotated_at, idle, expires_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const rotate = db.prepare(
    "UPDATE sessions SET previous_digest = digest, digest = ?, rotated_at = ? WHERE public_id = ? AND digest = ? AND ended_at IS NULL",
  );
  const end = db.prepare("UPDATE sessions SET ended_at = ? WHERE public_id = ? AND ended_at IS NULL");
  const endOfUser = db.prepare(
    "UPDATE sessions SET ended_at = ? WHERE user_id = ? AND ended_at IS NULL AND public_id <> ?",
  );
  const ofUser = db.prepare<[number], SessionRow>(
    `SELECT ${COLUMNS} FROM sessions WHERE user_id = ? AND ended_at IS NULL ORDER BY id`,
  );
  const all = db.prepare<[], SessionRow>(`SELECT ${COLUMNS} FROM sessions WHERE ended_at IS NULL ORDER BY user_id, id`);
  const touch = db.prepare("UPDATE sessions SET last_used_at = max(last_used_at, ?) WHERE public_id = ?");
  const sweep = db.prepare(
    "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE expires_at < ? ORDER BY expires_at LIMIT ?)",
  );
  const used = new Map<string, number>();

  /** With the use that is not written yet. */
  const withLatestUse = <T extends SessionRow>(row: T): T => ({
    ...row,
    last_used_at: Math.max(row.last_used_at, used.get(row.public_id) ?? 0),
  });
  const alive = (row: SessionRow, at: number): boolean =>
    row.expires_at > at && withLatestUse(row).last_used_at + row.idle > at;
  /** Whether the cookie has been replaced for so long that nobody should come with it any more. */
  const isStale = (holder: SessionHolder, at: number): boolean =>
    holder.is_previous === 1 && holder.rotated_at + GRACE <= at;
  const open = (rows: readonly SessionRow[]): SessionRow[] => {
    const at = now();
    return rows.filter((row) => alive(row, at)).map(withLatestUse);
  };

  return {
    /** Who has the cookie with this SHA-256, or had it before its latest change; null when it is unknown or ended. */
    findHolder: (digest: Buffer): SessionHolder | null => byDigest.get(digest) ?? byPrevious.get(digest) ?? null,
    isStale,
    /** Notes a use of the session. @returns false when its time is over, or that of the cookie: then it is none. */
    recordUse(holder: SessionHolder): boolean {
      const at = now();
      if (!alive(holder, at) || isStale(holder, at)) return false;
      used.set(holder.public_id, at);
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
        fields.userAgent.slice(0, AGENT_CHARACTERS),
        at,
        at,
        at,
        fields.idle,
        at + fields.lifetime,
      );
      return publicId;
    },
    /** Gives the session another cookie. @returns false when it does not have the old one any more, or ended. */
    rotate: (publicId: string, from: Buffer, to: Buffer): boolean => rotate.run(to, now(), publicId, from).changes > 0,
    /** Whether the session of that public id still is one. */
    isOpen(publicId: string): boolean {
      const row = byId.get(publicId);
      return row !== undefined && alive(row, now());
    },
    /** @returns whether it was open. */
    end(publicId: string): boolean {
      used.delete(publicId);
      return end.run(now(), publicId).changes > 0;
    },
    /** Ends the sessions of a user, all but one where that is said. @returns how many were not ended before. */
    endByUser: (userId: number, except = ""): number => endOfUser.run(now(), userId, except).changes,
    /** The open session of that public id; null when there is none. */
    find(publicId: string): SessionRow | null {
      const row = byId.get(publicId);
      return row ? (open([row])[0] ?? null) : null;
    },
    /** Those that are open, oldest first; of everybody by user. */
    list: (userId: number | null = null): SessionRow[] => open(userId === null ? all.all() : ofUser.all(userId)),
    /** Deletes records whose time was over at `before`. @returns how many. */
    deleteExpired: (before: number, limit: number): number => sweep.run(before, limit).changes,
    hasUnwrittenUses: (): boolean => used.size > 0,
    /** Writes the noted uses; to be called inside a write. */
    flushUses(): void {
      for (const [id, at] of used) touch.run(at, id);
      used.clear();
    },
  };
}
