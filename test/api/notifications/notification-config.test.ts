/** Recipients of warnings about expiring keys (operations 15; wire-contract 20). */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { warnOfExpiringKeys } from "../../../src/notifications/key-expiry-warnings.ts";
import { startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";

const test = suite("api/notifications/notification-config");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
type Json = Record<string, any>;
const PATH = (at: At) => `/notification-config/${at.org}/api_key_expiry`;
const get = (at: At) => server.call("GET", PATH(at), { key: at.key });
const put = (at: At, targets: unknown) => server.call("PUT", PATH(at), { key: at.key, body: { targets } });
const remove = (at: At) => server.call("DELETE", PATH(at), { key: at.key });
const counts = (): unknown =>
  ["notification_targets", "audit_log"].map((table) =>
    server.db.prepare(`SELECT count(*) FROM ${table}`).pluck().get(),
  );
const config = (targets: Json[], more: Json = {}): Json => ({
  notification_type: "api_key_expiry",
  scope: null,
  targets,
  detection: {},
  last_notified_at: null,
  last_failure: null,
  ...more,
});
const VALIDATION = "Input payload validation failed";

test("is empty by default; is set, replaced and removed, normalized as the contract says", async () => {
  const at = server.given.org();
  assert.equal({ status: (await get(at)).status, body: (await get(at)).body }, { status: 200, body: config([]) });
  const sent = [
    { type: "EMAIL", emails: ["Ada@EXAMPLE.com"] },
    { type: "WEBHOOK", webhook: "https://Hooks.Example.com/keys/", payload_version: "1.0" },
    { type: "EMAIL", emails: ["bob@example.com", "Ada@example.com"] },
    { type: "SLACK", webhook: "https://hooks.slack.com/services/X" },
  ];
  const kept = [
    { type: "EMAIL", emails: ["Ada@example.com", "bob@example.com"] },
    { type: "WEBHOOK", webhook: "https://hooks.example.com/keys", payload_version: "1.0" },
    { type: "SLACK", webhook: "https://hooks.slack.com/services/X" },
  ];
  const set = await put(at, sent);
  assert.equal({ status: set.status, body: set.body }, { status: 201, body: config(kept) });
  assert.equal((await get(at)).body, config(kept));
  // Sending the response back gives the same response: an empty plan.
  const again = await put(at, kept);
  assert.equal({ status: again.status, body: again.body }, { status: 201, body: config(kept) });
  assert.equal(
    (await put(at, [{ type: "WEBHOOK", webhook: "https://a.org" }])).body,
    config([{ type: "WEBHOOK", webhook: "https://a.org" }]),
  );
  assert.equal(
    {
      removed: (await remove(at)).body,
      removedAgain: (await remove(at)).status,
      config: (await get(at)).body,
    },
    { removed: "OK", removedAgain: 200, config: config([]) },
  );
  const organization = server.store.organizations.find(at.org) as { id: number };
  const audited = (
    server.db
      .prepare("SELECT event, detail_json FROM audit_log WHERE organization_id = ? ORDER BY id")
      .all(organization.id) as Json[]
  ).map(({ event, detail_json }) => [event, JSON.parse(detail_json)]);
  const type = { notification_type: "api_key_expiry" };
  assert.equal(audited, [
    ["notification_config.put", { ...type, changed: true, targets: ["EMAIL", "WEBHOOK", "SLACK"] }],
    ["notification_config.put", { ...type, changed: false, targets: ["EMAIL", "WEBHOOK", "SLACK"] }],
    ["notification_config.put", { ...type, changed: true, targets: ["WEBHOOK"] }],
    ["notification_config.deleted", { ...type, removed: 1 }],
    ["notification_config.deleted", { ...type, removed: 0 }],
  ]);
});

test("reports problems by field and changes nothing", async () => {
  const at = server.given.org();
  await put(at, [{ type: "EMAIL", emails: ["a@b.org"] }]);
  const before = [counts(), (await get(at)).body];
  const table: [unknown, Record<string, string>][] = [
    [[], { targets: "List should have at least 1 item [input: []]" }],
    [[{ type: "PAGER" }], { "targets.0.type": "Input should be 'EMAIL', 'SLACK' or 'WEBHOOK' [input: PAGER]" }],
    [[{ type: "WEBHOOK" }], { "targets.0.webhook": "Field required" }],
    [[{ type: "EMAIL" }], { "targets.0.emails": "Field required" }],
    [
      [
        { type: "EMAIL", emails: ["a@b.org"] },
        { type: "SLACK", webhook: "http://hooks.slack.com/x" },
      ],
      { "targets.1.webhook": "The URL must begin with https:// [input: http://hooks.slack.com/x]" },
    ],
    [
      [{ type: "WEBHOOK", webhook: "https://a.org", payload_version: "2.0" }],
      { "targets.0.payload_version": "Input should be '1.0' [input: 2.0]" },
    ],
    [
      [{ type: "SLACK", webhook: "https://a.org", payload_version: "1.0" }],
      { "targets.0.payload_version": "Extra inputs are not permitted [input: 1.0]" },
    ],
    [
      [{ type: "EMAIL", emails: ["a@b.org"], webhook: "https://a.org" }],
      { "targets.0.webhook": "Extra inputs are not permitted [input: https://a.org]" },
    ],
    [
      [{ type: "EMAIL", emails: ["a@b.org"], name: "x" }],
      {
        "targets.0.name":
          "Extra inputs are not permitted [input: x]; possible keys: type, webhook, payload_version, emails",
      },
    ],
    [[{ type: "EMAIL", emails: [] }], { "targets.0.emails": "List should have at least 1 item [input: []]" }],
  ];
  for (const [targets, errors] of table) {
    const answer = await put(at, targets);
    assert.equal(
      { status: answer.status, body: answer.body },
      { status: 400, body: { message: VALIDATION, errors } },
      JSON.stringify(targets),
    );
  }
  for (const webhook of [
    "https://169.254.169.254/latest",
    "https://localhost/x",
    "https://10.1.2.3",
    "https://u:p@a.org/",
  ])
    assert.equal(
      {
        status: (await put(at, [{ type: "WEBHOOK", webhook }])).status,
        'keys of put(at, [{ type: "WEBHOOK", webhook }]).body.errors': Object.keys(
          (await put(at, [{ type: "WEBHOOK", webhook }])).body.errors,
        ),
      },
      { status: 400, 'keys of put(at, [{ type: "WEBHOOK", webhook }]).body.errors': ["targets.0.webhook"] },
      webhook,
    );
  assert.equal((await server.call("PUT", PATH(at), { key: at.key, body: {} })).body, {
    message: VALIDATION,
    errors: { targets: "Field required" },
  });
  for (const method of ["GET", "PUT", "DELETE"]) {
    const answer = await server.call(method, `/notification-config/${at.org}/disk_full`, {
      key: at.key,
      ...(method === "PUT" ? { body: { targets: [{ type: "EMAIL", emails: ["a@b.org"] }] } } : {}),
    });
    assert.equal(
      { status: answer.status, body: answer.body },
      {
        status: 400,
        body: {
          message: VALIDATION,
          errors: { notification_type: "Input should be 'api_key_expiry' [input: disk_full]" },
        },
      },
    );
  }
  assert.equal([counts(), (await get(at)).body], before);
});

test("every role reads, admins write, and outsiders of a public organization do neither", async () => {
  const at = server.given.org({ public: true });
  await put(at, [{ type: "EMAIL", emails: ["a@b.org"] }]);
  const before = counts();
  const denied = [403, { message: "You don't have permission to access this resource" }];
  for (const role of ["member", "snapshotter", "reader"] as const) {
    const who = { ...at, key: server.given.user(at.org, role) };
    assert.equal((await get(who)).body.targets, [{ type: "EMAIL", emails: ["a@b.org"] }]);
    for (const answer of [await put(who, [{ type: "EMAIL", emails: ["c@b.org"] }]), await remove(who)])
      assert.equal([answer.status, answer.body], denied, role);
  }
  const outsider = { ...at, key: server.given.user(at.org, null) };
  assert.equal([(await get(outsider)).status, (await get(outsider)).body], denied);
  assert.equal(counts(), before);
});

test("shows the latest delivery and the latest failure", async () => {
  const at = server.given.org();
  await put(at, [
    { type: "EMAIL", emails: ["a@b.org"] },
    { type: "WEBHOOK", webhook: "https://a.org" },
  ]);
  const set = server.db.prepare(
    "UPDATE notification_targets SET last_success_at = ?, last_failure_at = ?, last_error = ? WHERE type = ? " +
      "AND organization_id = (SELECT id FROM organizations WHERE name = ?)",
  );
  set.run(10.5, null, null, "EMAIL", at.org);
  set.run(7, 12, "The server answered 500", "WEBHOOK", at.org);
  const { last_notified_at, last_failure } = (await get(at)).body;
  assert.equal(
    { last_notified_at, last_failure },
    { last_notified_at: 10.5, last_failure: { failed_at: 12, error: "The server answered 500" } },
  );
  // An unchanged target keeps its delivery times.
  assert.equal((await put(at, [{ type: "WEBHOOK", webhook: "https://a.org/" }])).body.last_failure, last_failure);
});

test("the member who created or rotated a key is warned of its expiry, in addition to the admins", async () => {
  const at = server.given.org();
  const member = { ...at, key: server.given.user(at.org, "member") };
  const set = (name: string, email: string) =>
    server.db.prepare("UPDATE users SET email = ? WHERE name = ?").run(email, name);
  set(`${at.org}-admin`, "admin@x.org");
  const name = server.db
    .prepare(
      "SELECT u.name FROM users u JOIN memberships m ON m.user_id = u.id WHERE m.role = 'member' " +
        "AND m.organization_id = (SELECT id FROM organizations WHERE name = ?)",
    )
    .pluck()
    .get(at.org) as string;
  set(name, "member@x.org");
  assert.is(
    (
      await server.call("POST", `/service-accounts/${at.org}`, {
        key: member.key,
        body: { name: "ci", privilege: "member" },
      })
    ).status,
    201,
  );
  const end = Math.floor(server.clock.at) + 100 * 86_400;
  const keys = `/service-accounts/${at.org}/ci/api-keys`;
  const made = await server.call("POST", keys, { key: at.key, body: { description: "one", expires_at: end } });
  assert.is(
    (await server.call("POST", keys, { key: member.key, body: { description: "two", expires_at: end + 1 } })).status,
    201,
  );
  assert.is((await server.call("POST", `${keys}/${made.body.id}/rotate`, { key: member.key })).status, 201);
  server.clock.at += 90 * 86_400;
  const warned = await warnOfExpiringKeys({
    store: server.store,
    writer: server.writer,
    now: () => server.clock.at,
    url: () => "http://assay.test",
  });
  assert.is(warned, 2, "not of the one that was replaced");
  const told = server.db
    .prepare("SELECT target_json FROM deliveries WHERE organization_id = (SELECT id FROM organizations WHERE name = ?)")
    .pluck()
    .all(at.org);
  assert.equal(
    told,
    Array.from({ length: 2 }, () => JSON.stringify({ emails: ["admin@x.org", "member@x.org"] })),
  );
});

test.run();
