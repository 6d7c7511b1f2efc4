/** The audit log: every change of an organization, filtered and page by page, as JSON and as CSV, for admins alone. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { DENIED, invalid, organizationId, signIn } from "../administration.ts";
import type { At } from "../administration.ts";

const test = suite("api/accounts/audit-log");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

const read = (at: At, query = "") => server.call("GET", `/audit-log/${at.org}${query}`, { key: at.key });
const csv = async (at: At, query = "") => {
  const { status, text, headers } = await server.call("GET", `/audit-log/${at.org}/csv${query}`, { key: at.key });
  return { status, lines: text.split("\r\n").slice(0, -1), headers };
};
const eventsOf = async (at: At, query = "") =>
  (await read(at, query)).body.entries.map(({ event, target }: Record<string, string>) => `${event} ${target}`);
/** Appends an entry as if an operation had. */
const append = (at: At, fields: { event: string; target?: string; name?: string; detail?: Record<string, unknown> }) =>
  server.store.auditLog.append({
    organizationId: organizationId(server, at.org),
    operation: "op",
    event: fields.event,
    target: fields.target ?? "t",
    requestId: "r",
    detail: fields.detail ?? null,
    actor: { kind: "user", publicId: "p", name: fields.name ?? "ann", keyPublicId: "k" },
  });

test("shows each change with its author, how it came and its facts, newest first", async () => {
  const at = server.given.org();
  await server.given.flow(at, { name: "payments" });
  const admin = server.store.users.find(`${at.org}-admin`) as { id: number };
  const session = signIn(server, admin.id);
  await session.call("PATCH", `/organizations/${at.org}/settings`, { body: { is_public: true } });
  const elsewhere = server.given.org();
  await server.given.flow(elsewhere);
  const { status, body } = await read(at);
  assert.equal([status, body.next, body.entries.length], [200, null, 2]);
  const [settings, flow] = body.entries;
  assert.equal(
    { ...settings, timestamp: 0, request_id: "" },
    {
      timestamp: 0,
      event: "organization.updated",
      target: at.org,
      actor: {
        kind: "user",
        name: `${at.org}-admin`,
        full_name: null,
        credential: { kind: "session", id: session.id },
      },
      operation: "update_organization_settings",
      request_id: "",
      detail: { public: true, controls: true, evaluations: true, decisions_need_published_policy: false },
    },
  );
  assert.equal(
    [flow.event, flow.target, flow.actor.credential.kind],
    ["flow.applied", `/api/v2/flows/${at.org}/template_file`, "api_key"],
  );
  assert.ok(flow.timestamp < settings.timestamp);
});

test("every filter selects, and all of them must match", async () => {
  const at = server.given.org();
  append(at, { event: "member.added", target: "bob", name: "Ann" });
  const from = server.clock.at + 1;
  append(at, { event: "member.removed", target: "bob", name: "joanna" });
  append(at, { event: "membership.odd", target: "carol", name: "dan" });
  const to = server.clock.at;
  append(at, { event: "flow.applied", target: "/api/v2/flows/Bobsled", name: "dan" });
  const [flow, odd, removed, added] = [
    "flow.applied /api/v2/flows/Bobsled",
    "membership.odd carol",
    "member.removed bob",
    "member.added bob",
  ];
  const cases: [string, unknown[]][] = [
    ["", [flow, odd, removed, added]],
    ["?event=member", [removed, added]],
    ["?event=member.added", [added]],
    ["?event=mem", []],
    ["?actor=ANN", [removed, added]],
    ["?actor=%25", []],
    ["?target=bob", [flow, removed, added]],
    [`?from_timestamp=${from}`, [flow, odd, removed]],
    [`?to_timestamp=${to}`, [odd, removed, added]],
    [`?from_timestamp=${from}&to_timestamp=${to}`, [odd, removed]],
    ["?actor=ann&event=member.added&target=BOB", [added]],
    ["?actor=dan&event=member", []],
  ];
  for (const [query, expected] of cases) {
    assert.equal(await eventsOf(at, query), expected, query);
    assert.is((await csv(at, query)).lines.length, expected.length + 1, query);
  }
});

test("a user has the login name and the full name, and either is searched", async () => {
  const at = server.given.org();
  await server.given.flow(at, { name: "payments" });
  const { id, name } = server.store.users.find(`${at.org}-admin`) as { id: number; name: string };
  server.store.users.updateProfile(id, { displayName: "Rita Mann", email: null });
  append(at, { event: "member.added", target: "bob", name: "dan" });
  const { body } = await read(at);
  assert.equal(
    body.entries.map(({ actor }: { actor: { name: string; full_name: string | null } }) => [
      actor.name,
      actor.full_name,
    ]),
    [
      ["dan", null],
      [name, "Rita Mann"],
    ],
  );
  for (const query of ["?actor=rita", `?actor=${name}`])
    assert.equal(await eventsOf(at, query), [`flow.applied /api/v2/flows/${at.org}/template_file`], query);
  assert.equal(await eventsOf(at, "?actor=mann&event=member"), []);
});

test("pages follow each other without gap or repetition, also while entries are added", async () => {
  const at = server.given.org();
  for (let number = 1; number <= 7; number += 1) append(at, { event: "a.b", target: `n${number}` });
  const seen: string[] = [];
  let query = "?per_page=3";
  for (;;) {
    const { body } = await read(at, query);
    for (const { target } of body.entries) seen.push(target);
    if (body.next === null) break;
    append(at, { event: "a.b", target: "newer" });
    query = `?per_page=3&after=${body.next}`;
  }
  assert.equal(seen, ["n7", "n6", "n5", "n4", "n3", "n2", "n1"]);
});

test("a rare entry deep in the log is found, and a search that takes long continues with the next page", async () => {
  const at = server.given.org();
  append(at, { event: "rare.event", target: "needle" });
  const id = organizationId(server, at.org);
  server.db
    .prepare(
      `INSERT INTO audit_log (timestamp, organization_id, actor_kind, actor_id, actor_name, key_id, operation, event,
                              target, request_id)
       WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100500)
       SELECT i, ?, 'user', '', 'bot', '', 'op', 'common.event', 't', 'r' FROM n`,
    )
    .run(id);
  const first = await read(at, "?event=rare");
  assert.equal(first.body.entries, []);
  assert.type(first.body.next, "string");
  const second = await read(at, `?event=rare&after=${first.body.next}`);
  assert.equal([second.body.entries[0].target, second.body.next], ["needle", null]);
  assert.is((await csv(at, "?event=rare")).lines.length, 2);
});

test("the file has a line for each entry, and no value of it is a formula", async () => {
  const at = server.given.org();
  append(at, { event: "a.b", target: "=cmd|' /C calc'!A0", name: "+ann", detail: { text: 'say "hi", twice' } });
  const { status, lines, headers } = await csv(at);
  assert.equal(
    [status, headers.get("Content-Type"), headers.get("Content-Disposition")],
    [200, "text/csv; charset=utf-8", `attachment; filename="${at.org}-audit-log.csv"`],
  );
  const time = server.store.auditLog.listLatest(organizationId(server, at.org), 1)[0]?.timestamp as number;
  assert.equal(lines, [
    "timestamp,time,event,target,actor_kind,actor,credential,operation,request_id,detail",
    `${time},${new Date(time * 1000).toISOString()},a.b,'=cmd|' /C calc'!A0,user,'+ann,k,op,r,` +
      '"{""text"":""say \\""hi\\"", twice""}"',
  ]);
});

test("refuses invalid filters and tokens, and everyone but admins", async () => {
  const at = server.given.org();
  assert.equal(
    await read(at, "?after=x").then(({ status, body }) => ({ status, body })),
    invalid({ after: "Input should be the token of a previous page [input: x]" }),
  );
  for (const query of ["?event=a.b.c", "?event=%25", "?per_page=0", "?per_page=501", "?from_timestamp=x"])
    assert.is((await read(at, query)).status, 400, query);
  for (const role of ["member", "snapshotter", "reader", null] as const)
    for (const rest of ["", "/csv"]) {
      const key = server.given.user(at.org, role);
      const { status, body } = await server.call("GET", `/audit-log/${at.org}${rest}`, { key });
      assert.equal({ status, body }, { status: 403, body: DENIED });
    }
});

test("a damaged entry is shown as such", async () => {
  const at = server.given.org();
  append(at, { event: "a.b", detail: { fine: true } });
  server.db
    .prepare("UPDATE audit_log SET detail_json = '{broken' WHERE organization_id = ?")
    .run(organizationId(server, at.org));
  assert.match((await read(at)).body.entries[0].detail.unreadable, /damaged/);
  assert.match((await csv(at)).lines[1] as string, /damaged/);
});

test.run();
