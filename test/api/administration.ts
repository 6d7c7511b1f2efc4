/** What tests of the operations for administrators share. */
import * as assert from "uvu/assert";
import { newSecret } from "../../src/clock.ts";
import { cookieDigest } from "../../src/store/accounts/sessions.ts";
import type { Answer, CallOptions, TestServer } from "../given.ts";

export type At = { org: string; key: string };
export const DENIED = { message: "You don't have permission to access this resource" };
export const UNAUTHENTICATED = { message: "Authentication credentials are missing or invalid" };

export const organizationId = (server: TestServer, org: string): number =>
  (server.store.organizations.find(org) as { id: number }).id;

type Entry = { event: string; target: string; operation: string; actor_name: string; detail: Record<string, unknown> };

/** The audit entries that `body` appends, of all organizations and of the server, in their order. */
export async function entriesOf(server: TestServer, body: () => Promise<unknown>): Promise<Entry[]> {
  const last = server.db.prepare<[], number>("SELECT coalesce(max(id), 0) FROM audit_log").pluck().get() ?? 0;
  await body();
  return server.db
    .prepare<[number], Omit<Entry, "detail"> & { detail_json: string | null }>(
      "SELECT event, target, operation, actor_name, detail_json FROM audit_log WHERE id > ? ORDER BY id",
    )
    .all(last)
    .map(({ detail_json, ...entry }) => ({ ...entry, detail: JSON.parse(detail_json ?? "{}") }));
}

/** Asserts that `body` changes no row of any table. */
export async function withoutTrace(server: TestServer, body: () => Promise<unknown>): Promise<void> {
  const tables = server.db
    .prepare<[], string>("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    .pluck()
    .all();
  const rows = () => tables.map((table) => [table, server.db.prepare(`SELECT * FROM "${table}"`).all()]);
  const before = rows();
  await body();
  assert.equal(rows(), before);
}

/** Asserts that a request is answered like this and changes nothing. */
export async function refused(
  server: TestServer,
  answering: () => Promise<Answer>,
  expected: { status: number; body: unknown },
): Promise<void> {
  await withoutTrace(server, async () => {
    const { status, body } = await answering();
    assert.equal({ status, body }, expected);
  });
}

export const invalid = (errors: Record<string, string>) => ({
  status: 400,
  body: { message: "Input payload validation failed", errors },
});

/** Signs a user in. @returns the id of the session, and a function that sends requests with it */
export function signIn(server: TestServer, userId: number) {
  const [cookie, token] = [newSecret(), newSecret()];
  const id = server.store.sessions.create({
    digest: cookieDigest(cookie),
    csrfToken: token,
    userId,
    method: "password",
    address: "127.0.0.1",
    userAgent: "test",
    idleTimeoutS: 3600,
    lifetimeS: 7200,
  });
  const call = (method: string, path: string, options: CallOptions = {}): Promise<Answer> =>
    server.call(method, path, { ...options, headers: { Cookie: `assay=${cookie}`, "X-CSRF-Token": token } });
  return { id, call };
}
