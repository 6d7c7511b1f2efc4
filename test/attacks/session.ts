/** A session of a user, for attacks on pages. */
import { createHash } from "node:crypto";
import type { openCopy } from "../../src/store/db/connection.ts";

const TOKEN = "pages-000000000000000000000000000000000000000";

/** The headers of a browser with that session. */
export const SIGNED_IN = { Cookie: `assay=${TOKEN}`, Accept: "text/html" };

/** Gives a user the session. */
export function signIn(db: ReturnType<typeof openCopy>, user: string): void {
  const now = Date.now() / 1000;
  db.prepare(
    `INSERT INTO sessions (public_id, digest, csrf_token, user_id, method, address, user_agent, created_at,
                           last_used_at, rotated_at, idle, expires_at)
     SELECT 'pages', ?, ?, id, 'password', '127.0.0.1', '', ?, ?, ?, 100000, ? FROM users WHERE name = ?`,
  ).run(createHash("sha256").update(TOKEN).digest(), "c".repeat(43), now, now, now, now + 100_000, user);
}
