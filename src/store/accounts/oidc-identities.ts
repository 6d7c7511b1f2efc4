/**
 * Identities of users at OpenID providers. A blocked identity cannot log in, and cannot create a second user either.
 */
import { number, orNull, selectList, string } from "../db/columns.ts";
import type { RowOf } from "../db/columns.ts";
import type { Db, SchemaSources } from "../db/types.ts";

const IDENTITY = {
  issuer: string,
  subject: string,
  user_id: number,
  created_at: number,
  blocked_at: orNull(number),
};
export type IdentityRow = RowOf<typeof IDENTITY>;

const COLUMNS = selectList(IDENTITY);

export function identityStore(db: Db, { now }: SchemaSources) {
  const byKey = db.prepare<[string, string], IdentityRow>(
    `SELECT ${COLUMNS} FROM identities WHERE issuer = ? AND subject = ?`,
  );
  const byUser = db.prepare<[number], IdentityRow>(
    `SELECT ${COLUMNS} FROM identities WHERE user_id = ? ORDER BY issuer, subject`,
  );
  const insert = db.prepare("INSERT INTO identities (issuer, subject, user_id, created_at) VALUES (?, ?, ?, ?)");
  const block = db.prepare("UPDATE identities SET blocked_at = ? WHERE user_id = ? AND blocked_at IS NULL");
  const unblock = db.prepare("UPDATE identities SET blocked_at = NULL WHERE user_id = ? AND blocked_at IS NOT NULL");

  return {
    find: (issuer: string, subject: string): IdentityRow | null => byKey.get(issuer, subject) ?? null,
    listByUser: (userId: number): IdentityRow[] => byUser.all(userId),
    /** Adds an identity that does not exist yet. */
    create: (issuer: string, subject: string, userId: number): void => void insert.run(issuer, subject, userId, now()),
    /** Blocks all identities of a user. @returns how many were not blocked before. */
    block: (userId: number): number => block.run(now(), userId).changes,
    /** @returns how many were blocked before. */
    unblock: (userId: number): number => unblock.run(userId).changes,
  };
}
