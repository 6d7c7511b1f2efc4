import type { Db, SchemaSources } from "../db/types.ts";

export type IdentityRow = {
  issuer: string;
  subject: string;
  user_id: number;
  created_at: number;
  blocked_at: number | null;
};

const COLUMNS = "issuer, subject, user_id, created_at, blocked_at";

export function identityStore(db: Db, { now }: SchemaSources) {
  const one = db.prepare<[string, string], IdentityRow>(
    `SELECT ${COLUMNS} FROM identities WHERE issuer = ? AND subject = ?`,
  );
  const ofUser = db.prepare<[number], IdentityRow>(
    `SELECT ${COLUMNS} FROM identities WHERE user_id = ? ORDER BY issuer, subject`,
  );
  const insert = db.prepare("INSERT INTO identities (issuer, subject, user_id, created_at) VALUES (?, ?, ?, ?)");
  const block = db.prepare("UPDATE identities SET blocked_at = ? WHERE user_id = ? AND blocked_at IS NULL");
  const unblock = db.prepare("UPDATE identities SET blocked_at = NULL WHERE user_id = ? AND blocked_at IS NOT NULL");

  return {
    find: (issuer: string, subject: string): IdentityRow | null => one.get(issuer, subject) ?? null,
    listByUser: (userId: number): IdentityRow[] => ofUser.all(userId),
    /** The identity must not be known yet. */
    create: (issuer: string, subject: string, userId: number): void => void insert.run(issuer, subject, userId, now()),
    /** Refuses the logins of a user from now on. @returns how many identities that were let in before. */
    block: (userId: number): number => block.run(now(), userId).changes,
    /** @returns how many identities that were refused before. */
    unblock: (userId: number): number => unblock.run(userId).changes,
  };
}
