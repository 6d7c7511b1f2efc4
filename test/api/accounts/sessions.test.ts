/** The API with a browser session. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { operations } from "../../../src/api/index.ts";
import { saveCounts } from "../../../src/server/scheduler.ts";
import { ROLES, allows, isOrgPermission } from "../../../src/domain/access.ts";
import type { Role } from "../../../src/domain/access.ts";
import { cookieDigest } from "../../../src/store/accounts/sessions.ts";
import { fresh, startServer } from "../../given.ts";
import type { CallOptions, TestServer } from "../../given.ts";

const test = suite("api/accounts/sessions");

let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

const MISSING = { message: "CSRF token missing" };
const DENIED = { message: "You don't have permission to access this resource" };
const UNAUTHENTICATED = { message: "Authentication credentials are missing or invalid" };

type Session = { id: string; user: string; cookie: string; token: string };

/** A session of a new user with that role in the organization. */
function given(org: string, role: Role | null): Session {
  const user = fresh("person");
  const userId = server.store.users.create({ name: user, displayName: "", email: null });
  const organization = server.store.organizations.find(org);
  if (role && organization)
    server.store.organizations.setRole(organization.id, { id: userId }, { role, changedBy: "test" });
  const [cookie, token] = [fresh("cookie"), fresh("token")];
  const id = server.store.sessions.create({
    digest: cookieDigest(cookie),
    csrfToken: token,
    userId,
    method: "password",
    address: "a",
    userAgent: "b",
    idleTimeoutS: 3600,
    lifetimeS: 86_400,
  });
  return { id, user, cookie, token };
}

/** A request with a session; `token` null sends none. */
const by = (
  { cookie, token }: Session,
  method: string,
  path: string,
  options: CallOptions & { token?: string | null } = {},
) => {
  const sent = options.token === undefined ? token : options.token;
  return server.call(method, path, {
    ...options,
    headers: { Cookie: `assay=${cookie}`, ...(sent === null ? {} : { "X-CSRF-Token": sent }), ...options.headers },
  });
};
const flow = (name = fresh("flow")) => ({ form: { json: { name, description: "" } } });
const statusAndBody = async (answering: ReturnType<typeof by>) => answering.then(({ status, body }) => [status, body]);
const audited = () => server.db.prepare("SELECT count(*) FROM audit_log").pluck().get();

test("reads require the cookie, changes the session's token as well", async () => {
  const { org } = server.given.org();
  const admin = given(org, "admin");
  assert.is((await by(admin, "GET", `/flows/${org}`, { token: null })).status, 200);
  assert.is(
    (await fetch(`${server.url}/api/v2/flows/${org}`, { method: "HEAD", headers: { Cookie: `assay=${admin.cookie}` } }))
      .status,
    200,
  );
  const before = audited();
  for (const token of [null, "", "wrong", given(org, "admin").token])
    assert.equal(await statusAndBody(by(admin, "PUT", `/flows/${org}/template_file`, { ...flow(), token })), [
      403,
      MISSING,
    ]);
  for (const [method, path] of [
    ["PUT", `/environments/${org}`],
    ["POST", `/controls/${org}`],
    ["DELETE", `/service-accounts/${org}/x`],
    ["PATCH", `/environments/${org}/x`],
  ] as const) {
    assert.equal(
      await statusAndBody(by(admin, method, path, { token: null, ...(method === "DELETE" ? {} : { body: {} }) })),
      [403, MISSING],
      `${method} ${path}`,
    );
  }
  assert.is(audited(), before);
  assert.is((await by(admin, "PUT", `/flows/${org}/template_file`, flow())).status, 201);
});

test("checks the token before the permission and before reading a body", async () => {
  const { org } = server.given.org();
  const broken = { raw: "{no json", headers: { "Content-Type": "application/json" } };
  assert.equal(
    await statusAndBody(by(given(org, "reader"), "PUT", `/environments/${org}`, { ...broken, token: null })),
    [403, MISSING],
  );
  assert.equal(await statusAndBody(by(given(org, "reader"), "PUT", `/environments/${org}`, broken)), [403, DENIED]);
  assert.is((await by(given(org, "admin"), "PUT", `/environments/${org}`, broken)).status, 400);
});

test("an Authorization header takes precedence over the cookie, valid or not", async () => {
  const { org, key } = server.given.org();
  const stranger = given(org, null);
  const withKey = (Authorization: string) => ({ ...flow(), token: null, headers: { Authorization } });
  assert.is((await by(stranger, "PUT", `/flows/${org}/template_file`, withKey(`Bearer ${key}`))).status, 201);
  const admin = given(org, "admin");
  for (const header of ["Bearer wrong", "Basic", "Digest x", "Bearer "])
    assert.equal(
      await statusAndBody(
        by(admin, "PUT", `/flows/${org}/template_file`, { ...flow(), headers: { Authorization: header } }),
      ),
      [401, UNAUTHENTICATED],
      header,
    );
  const reader = server.given.user(org, "reader");
  assert.equal(await statusAndBody(by(admin, "PUT", `/flows/${org}/template_file`, withKey(`Bearer ${reader}`))), [
    403,
    DENIED,
  ]);
});

test("the audit log names the user and the session", async () => {
  const { org } = server.given.org();
  const admin = given(org, "admin");
  await by(admin, "PUT", `/flows/${org}/template_file`, flow());
  const { actor_kind, actor_name, key_id, event } =
    server.store.auditLog.listLatest(server.store.organizations.find(org)?.id as number, 1)[0] ?? {};
  assert.equal(
    { actor_kind, actor_name, key_id, event },
    { actor_kind: "user", actor_name: admin.user, key_id: `session:${admin.id}`, event: "flow.applied" },
  );
  const line = server.lines
    .map((text) => JSON.parse(text))
    .findLast(({ path, status }) => path === `/api/v2/flows/${org}/template_file` && status === 201);
  assert.is(line.actor, admin.user);
  assert.not.ok(
    server.lines.some((text) => text.includes(admin.cookie) || text.includes(admin.token)),
    "the log keeps secrets",
  );
});

test("an ended session is refused with the next request, without making the browser ask for a password", async () => {
  const { org } = server.given.org();
  const admin = given(org, "admin");
  const get = (token: string | null) => by(admin, "GET", `/flows/${org}`, { token });
  assert.is((await get(null)).status, 200);
  server.store.sessions.end(admin.id);
  const plain = await get(null);
  assert.equal(
    { status: plain.status, body: plain.body, "WWW-Authenticate": plain.headers.get("WWW-Authenticate") },
    {
      status: 401,
      body: UNAUTHENTICATED,
      "WWW-Authenticate": 'Bearer realm="assay", Basic realm="assay", charset="UTF-8"',
    },
  );
  const page = await get(admin.token);
  assert.equal(
    { status: page.status, body: page.body, "WWW-Authenticate": page.headers.get("WWW-Authenticate") },
    { status: 401, body: UNAUTHENTICATED, "WWW-Authenticate": 'Bearer realm="assay"' },
  );
  assert.equal(await statusAndBody(by(admin, "PUT", `/flows/${org}/template_file`, flow())), [401, UNAUTHENTICATED]);
});

test("refuses a change whose session or role ends while its body arrives", async () => {
  const { org } = server.given.org();
  for (const [end, status, body] of [
    [(one: Session) => server.store.sessions.end(one.id), 401, UNAUTHENTICATED],
    [
      (one: Session) => server.store.sessions.endByUser(server.store.users.find(one.user)?.id as number),
      401,
      UNAUTHENTICATED,
    ],
    [() => void (server.clock.at += 4000), 401, UNAUTHENTICATED],
    [
      (one: Session) =>
        server.store.organizations.removeMember(
          server.store.organizations.find(org)?.id as number,
          server.store.users.find(one.user) as { id: number },
          { changedBy: "test" },
        ),
      403,
      DENIED,
    ],
  ] as const) {
    const admin = given(org, "admin");
    const name = fresh("environment");
    const text = JSON.stringify({ name, type: "K8S", description: "" });
    let finish: (() => void) | null = null;
    const stream = new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(Buffer.from(text.slice(0, 5)));
        finish = () => {
          controller.enqueue(Buffer.from(text.slice(5)));
          controller.close();
        };
      },
    });
    // Authenticated once when the headers arrive; the body is sent only after that.
    const seen = new Promise<void>((resolve) => {
      const holder = server.store.sessions.recordUse;
      server.store.sessions.recordUse = (row) => {
        server.store.sessions.recordUse = holder;
        queueMicrotask(resolve);
        return holder(row);
      };
    });
    const answering = fetch(`${server.url}/api/v2/environments/${org}`, {
      method: "PUT",
      duplex: "half",
      body: stream,
      headers: { Cookie: `assay=${admin.cookie}`, "X-CSRF-Token": admin.token, "Content-Type": "application/json" },
    } as RequestInit);
    await seen;
    end(admin);
    (finish as unknown as () => void)();
    const answer = await answering;
    assert.equal({ status: answer.status, answer: await answer.json() }, { status, answer: body });
    assert.is(server.db.prepare("SELECT count(*) FROM environments WHERE name = ?").pluck().get(name), 0);
  }
});

test("operations respond to each role by session as by key", async () => {
  const { org } = server.given.org();
  const sessions = new Map(ROLES.map((role) => [role, given(org, role)]));
  const stranger = given(org, null);
  // One operation of each permission.
  const chosen = [
    ...new Map(
      operations
        .filter(({ permission, body }) => isOrgPermission(permission) && body.kind !== "form")
        .map((operation) => [operation.permission, operation]),
    ).values(),
  ];
  assert.ok(chosen.length > 20);
  for (const operation of chosen) {
    const path = operation.path.replace(/\{(\w+)\*?\}/g, (_all, name: string) =>
      name === "org" ? org : encodeURIComponent(operation.example.params?.[name] ?? "x"),
    );
    for (const [role, session] of sessions) {
      const answer = await by(session, operation.method, path);
      if (allows(operation.permission as Parameters<typeof allows>[0], { role, isPublic: false }))
        assert.not.equal([answer.status, answer.body], [403, DENIED], `${operation.id} as ${role}`);
      else
        assert.equal(
          { status: answer.status, body: answer.body },
          { status: 403, body: DENIED },
          `${operation.id} as ${role}`,
        );
      assert.ok(answer.status < 500 && answer.status !== 401, `${operation.id} as ${role}: ${answer.status}`);
    }
    assert.equal(
      await statusAndBody(by(stranger, operation.method, path)),
      [403, DENIED],
      `${operation.id} as a stranger`,
    );
  }
});

test("writes the last use of sessions together with that of keys", async () => {
  const { org } = server.given.org();
  const admin = given(org, "admin");
  const used = () =>
    server.db
      .prepare<[string], number>("SELECT last_used_at FROM sessions WHERE public_id = ?")
      .pluck()
      .get(admin.id) as number;
  const before = used();
  server.clock.at += 100;
  await by(admin, "GET", `/flows/${org}`);
  assert.is(used(), before, "a read writes nothing");
  await saveCounts(server);
  assert.ok(used() >= before + 100);
});

test("public and signed operations ignore sessions", async () => {
  const { org } = server.given.org();
  const admin = given(org, "admin");
  assert.is((await by(admin, "GET", "/openapi.json", { token: null })).status, 200);
  const hook = server.given.webhook(org, "launch-darkly");
  const answer = await by(admin, "POST", `/webhooks/launch-darkly/${hook.id}`, { body: {} });
  assert.ok(answer.status === 401 || answer.status === 404, String(answer.status));
});

test.run();
