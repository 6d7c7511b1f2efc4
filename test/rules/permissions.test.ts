/** Every operation, asked by everybody: what the table in domain/access.ts promises is what the server does. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { operations, operatorOperations } from "../../src/api/index.ts";
import { ROLES, allows, isOrgPermission } from "../../src/domain/access.ts";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";

const test = suite("rules/permissions");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

const UNAUTHENTICATED = { message: "Authentication credentials are missing or invalid" };
const DENIED = { message: "You don't have permission to access this resource" };

/**
 * The path with the organization put in; what else it names does not exist, which is not decided before permission is.
 */
const pathFor = (path: string, example: Record<string, string>, org: string): string =>
  path.replace(/\{(\w+)\*?\}/g, (_all, name: string) =>
    name === "org" ? org : encodeURIComponent(example[name] ?? "x"),
  );

test("each operation answers each role as the table says", async () => {
  const { org } = server.given.org();
  const open = server.given.org({ public: true });
  const keys = Object.fromEntries(ROLES.map((role) => [role, server.given.user(org, role)]));
  const bots = Object.fromEntries(ROLES.map((role) => [role, server.given.serviceAccount(org, role)]));
  const stranger = server.given.user(org, null);
  for (const operation of operations) {
    const path = pathFor(operation.path, operation.example.params ?? {}, org);
    const ask = (key: string | null, at = path) => server.call(operation.method, at, { key });
    const anonymous = await ask(null);
    if (operation.permission === "public") {
      assert.is.not(anonymous.status, 401, operation.id);
      continue;
    }
    if (operation.permission === "signed") {
      assert.equal(
        { status: anonymous.status, body: anonymous.body },
        { status: 404, body: { message: "Webhook not found" } },
        operation.id,
      );
      continue;
    }
    assert.is(anonymous.status, 401, `${operation.id} without a key`);
    assert.equal(anonymous.body, UNAUTHENTICATED);
    assert.is((await ask("no-such-key")).status, 401, `${operation.id} with an unknown key`);
    if (!isOrgPermission(operation.permission)) continue;
    for (const role of ROLES) {
      for (const key of [keys[role], bots[role]] as string[]) {
        const answer = await ask(key);
        const label = `${operation.id} as ${role}`;
        if (allows(operation.permission, { role, isPublic: false }))
          assert.not.equal([answer.status, answer.body], [403, DENIED], label);
        else assert.equal({ status: answer.status, body: answer.body }, { status: 403, body: DENIED }, label);
        assert.ok(answer.status < 500, `${label}: ${answer.status} ${answer.text}`);
      }
    }
    assert.equal(
      [403, DENIED],
      await ask(stranger).then((answer) => [answer.status, answer.body]),
      `${operation.id} as a stranger`,
    );
    const elsewhere = await ask(stranger, pathFor(operation.path, operation.example.params ?? {}, "no-such-org"));
    assert.equal(
      { status: elsewhere.status, body: elsewhere.body },
      { status: 403, body: DENIED },
      `${operation.id} in no organization`,
    );
    const inPublic = await ask(stranger, pathFor(operation.path, operation.example.params ?? {}, open.org));
    if (allows(operation.permission, { role: null, isPublic: true }))
      assert.is.not(inPublic.status, 403, `${operation.id} in a public organization`);
    else
      assert.equal(
        { status: inPublic.status, body: inPublic.body },
        { status: 403, body: DENIED },
        `${operation.id} in a public organization`,
      );
  }
});

test("no key of any role may do what only the operator may, whatever the path names", async () => {
  const { org } = server.given.org();
  const keys = ROLES.flatMap((role) => [server.given.user(org, role), server.given.serviceAccount(org, role)]);
  const before = server.db.prepare("SELECT count(*) FROM audit_log").pluck().get();
  for (const operation of operatorOperations)
    for (const [params, at] of [
      [operation.example.params ?? {}, org],
      [{}, "no-such-org"],
    ] as const) {
      const path = pathFor(operation.path, params, at);
      const anonymous = await server.call(operation.method, path);
      assert.equal({ status: anonymous.status, body: anonymous.body }, { status: 401, body: UNAUTHENTICATED });
      const bodies = operation.body.kind === "none" ? [{}] : [{ body: operation.example.body }, { raw: "{no json" }];
      for (const key of [...keys, server.given.user(org, null)])
        for (const more of bodies) {
          const answer = await server.call(operation.method, path, { key, ...more });
          assert.equal({ status: answer.status, body: answer.body }, { status: 403, body: DENIED }, operation.id);
        }
    }
  assert.ok(operatorOperations.length > 10);
  assert.is(server.db.prepare("SELECT count(*) FROM audit_log").pluck().get(), before);
});

test(
  "an operation of a feature that is switched off answers every role like a missing permission, before " +
    "anything is looked at or read",
  async () => {
    for (const isPublic of [false, true]) {
      const { org } = server.given.org({ public: isPublic, controls: false });
      const keys = ROLES.flatMap((role) => [server.given.user(org, role), server.given.serviceAccount(org, role)]);
      const rows = () => server.db.prepare("SELECT count(*) FROM audit_log").pluck().get();
      const before = rows();
      for (const operation of operations.filter(({ feature }) => feature)) {
        const path = pathFor(operation.path, operation.example.params ?? {}, org);
        for (const key of [...keys, server.given.user(org, null)])
          for (const more of [
            {},
            operation.body.kind === "none" ? {} : { raw: "{no json", headers: { "Content-Type": "application/json" } },
          ]) {
            const answer = await server.call(operation.method, path, { key, ...more });
            assert.equal({ status: answer.status, body: answer.body }, { status: 403, body: DENIED }, operation.id);
          }
        assert.is((await server.call(operation.method, path)).status, 401, `${operation.id} without a key`);
      }
      assert.is(rows(), before);
    }
  },
);

test("a refused call leaves nothing but its log line", async () => {
  const { org } = server.given.org();
  const reader = server.given.user(org, "reader");
  const rows = () => server.db.prepare("SELECT count(*) FROM audit_log").pluck().get();
  const before = rows();
  await server.call("PUT", `/flows/${org}/template_file`, { key: reader, form: { json: { name: "f" } } });
  assert.is(rows(), before);
});

test.run();
