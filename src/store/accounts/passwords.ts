/** Password hashes: one scrypt hash for each user who has a password, with the parameters it was made with. */
import type { Db, SchemaSources } from "../db/types.ts";

export type PasswordHash = { hash: Buffer; salt: Buffer; cost: number; block_size: number; parallelism: number };
type PasswordRow = PasswordHash & { set_at: number };

export function passwordStore(db: Db, { now }: SchemaSources) {
  const byUser = db.prepare<[number], PasswordRow>(
    "SELECT hash, salt, cost, block_size, parallelism, set_at FROM passwords WHERE user_id = ?",
  );
  const upsert = db.prepare(
    `INSERT INTO passwords (user_id, hash, salt, cost, block_size, parallelism, set_at) VALUES (?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (user_id) DO UPDATE SET hash = excluded.hash, salt = excluded.salt, cost = excluded.cost,
       block_size = excluded.block_size, parallelism = excluded.parallelism, set_at = excluded.set_at`,
  );
  const remove = db.prepare("DELETE FROM passwords WHERE user_id = ?");

  return {
    find: (userId: number): PasswordRow | null => byUser.get(userId) ?? null,
    set: (userId: number, { hash, salt, cost, block_size, parallelism }: PasswordHash): void =>
      void upsert.run(userId, hash, salt, cost, block_size, parallelism, now()),
    /** @returns whether the user had a password. */
    delete: (userId: number): boolean => remove.run(userId).changes > 0,
    /** Whether this still is the user's password: it may change while its hash is being computed. */
    isCurrent: (userId: number, row: PasswordRow): boolean => byUser.get(userId)?.hash.equals(row.hash) ?? false,
  };
}
