/** Versions of a control (semantics 7.1). */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";

const test = suite("api/policies/control-versions");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
const call = (at: At, method: string, path: string, body?: unknown): Promise<Answer> =>
  server.call(method, `/controls/${at.org}/c${path}`, { key: at.key, ...(body === undefined ? {} : { body }) });

/** A control that was created, edited by another user, archived and unarchived. */
async function givenHistory(at: At): Promise<Record<string, unknown>[]> {
  await server.given.control(at, { identifier: "c", name: "one", description: "d", links: { a: "1" } });
  const other = { ...at, key: server.given.user(at.org, "admin") };
  await call(other, "PUT", "", { name: "two", description: null, links: { b: "2" } });
  await call(at, "POST", "/archive");
  await call(at, "POST", "/unarchive");
  const rows = server.db
    .prepare(
      `SELECT v.timestamp, v.created_by
       FROM control_versions v JOIN controls c ON c.id = v.control_id JOIN organizations o ON o.id = c.organization_id
       WHERE o.name = ? ORDER BY v.version`,
    )
    .all(at.org) as { timestamp: number; created_by: string }[];
  const copies = [
    ["created", "one", "d", { a: "1" }],
    ["edited", "two", null, { b: "2" }],
    ["archived", "two", null, { b: "2" }],
    ["unarchived", "two", null, { b: "2" }],
  ] as const;
  return copies.map(([status, name, description, links], index) => ({
    identifier: "c",
    version: index + 1,
    status,
    name,
    description,
    links,
    created_at: rows[index]?.timestamp,
    created_by: rows[index]?.created_by,
  }));
}

test("lists versions newest first, each with its cause, user, time and fields", async () => {
  const at = server.given.org();
  const all = await givenHistory(at);
  const admin = `${at.org}-admin`;
  assert.equal(
    all.map(({ created_by }) => created_by === admin),
    [true, false, true, true],
  );
  const times = all.map(({ created_at }) => created_at as number);
  assert.equal(
    [...times].sort((a, b) => a - b),
    times,
  );
  const answer = await call(at, "GET", "/versions");
  assert.equal(
    { status: answer.status, body: answer.body },
    { status: 200, body: { page: 1, per_page: 15, total_pages: 1, total_count: 4, versions: [...all].reverse() } },
  );
  assert.equal((await call(at, "GET", "/versions?sort_direction=asc&per_page=3")).body, {
    page: 1,
    per_page: 3,
    total_pages: 2,
    total_count: 4,
    versions: all.slice(0, 3),
  });
  assert.equal((await call(at, "GET", "/versions?page=2&per_page=3")).body, {
    page: 2,
    per_page: 3,
    total_pages: 2,
    total_count: 4,
    versions: [all[0]],
  });
  assert.equal((await call(at, "GET", "/versions?page=3&per_page=3")).body.versions, []);
  for (const one of all) {
    const read = await call(at, "GET", `/versions/${one["version"]}`);
    assert.equal({ status: read.status, body: read.body }, { status: 200, body: one });
  }
});

test("answers 404 for an unknown version and 400 for an invalid number", async () => {
  const at = server.given.org();
  await givenHistory(at);
  for (const number of ["0", "5", "-1", "9007199254740991"]) {
    const answer = await call(at, "GET", `/versions/${number}`);
    assert.equal(
      { status: answer.status, body: answer.body },
      {
        status: 404,
        body: { message: `Version '${number}' of control 'c' does not exist in organization '${at.org}'` },
      },
    );
  }
  for (const number of ["one", "1.5", "1e3", "%20"]) {
    const answer = await call(at, "GET", `/versions/${number}`);
    assert.equal(
      { status: answer.status, message: answer.body.message },
      { status: 400, message: "Input payload validation failed" },
      number,
    );
    assert.equal(Object.keys(answer.body.errors), ["version_number"]);
  }
});

test.run();
