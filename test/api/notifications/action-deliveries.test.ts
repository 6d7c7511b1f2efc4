/** Messages of an action: tested through the real queue, listed without secrets, sent again on request. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { DENIED, entriesOf, refused } from "../administration.ts";
import type { At } from "../administration.ts";
import { HOOK, actionsIn } from "./receivers.ts";

const test = suite("api/notifications/action-deliveries");
let server: TestServer;
let tell: ReturnType<typeof actionsIn>;
test.before(async () => {
  server = await startServer();
  tell = actionsIn(server);
});
test.after(() => server.stop());

const path = (at: At, rest: string, number = 1) => `/actions/${at.org}/${number}${rest}`;
const tryOut = (at: At, number = 1) => server.call("POST", path(at, "/test", number), { key: at.key });
const list = (at: At, query = "") => server.call("GET", path(at, `/deliveries${query}`), { key: at.key });
const retry = (at: At, id: string, number = 1) =>
  server.call("POST", path(at, `/deliveries/${id}/retry`, number), { key: at.key });
const SLACK = { type: "SLACK", webhook: "https://slack.example.com/services/secret" };
const EMAIL = { type: "EMAIL", emails: ["ann@example.com", "bob@example.com"] };

/** An organization with one action on a flow. */
async function given(targets: readonly Record<string, unknown>[] = [{ type: "WEBHOOK", webhook: HOOK }]): Promise<At> {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  await tell.action(at, { name: "builds", triggers: ["ON_STARTED_TRAIL"], targets, flows: [flow] });
  return at;
}
/** Records an attempt of the first message that waits for the first target. */
function attempt(
  at: At,
  fields: { status: number | null; error: string | null; public: string | null; dead?: boolean },
) {
  const action = server.store.actions.find(server.store.organizations.find(at.org)?.id as number, 1);
  assert.ok(action);
  const [target] = server.store.actions.listTargets(action);
  const message = server.store.outbox.findFirst(`target ${target?.id}`);
  assert.ok(message);
  const startedAt = server.clock.at;
  server.store.outbox.recordAttempt(
    message,
    { startedAt, seconds: 0.25, address: "10.0.0.7", status: fields.status, error: fields.error },
    {
      outcome:
        fields.error === null
          ? { state: "delivered" }
          : fields.dead
            ? { state: "dead" }
            : { state: "waiting", dueAt: startedAt + 500, left: null },
      publicError: fields.public,
    },
  );
  return { id: message.public_id, startedAt };
}

test("queues a message for each target, which says in every form that it is a test", async () => {
  const at = await given([{ type: "WEBHOOK", webhook: HOOK }, SLACK, EMAIL, { type: "PAGER", number: 7 }]);
  let shown: Record<string, unknown>[] = [];
  const entries = await entriesOf(server, async () => {
    const { status, body } = await tryOut(at);
    assert.is(status, 201);
    shown = body.deliveries;
  });
  const ids = shown.map(({ id }) => id);
  assert.equal(entries, [
    {
      event: "action.tested",
      target: `/api/v2/actions/${at.org}/1/test`,
      operation: "test_action",
      actor_name: `${at.org}-admin`,
      detail: { action: "builds", number: 1, deliveries: ids },
    },
  ]);
  const waiting = {
    subject: "builds: TEST",
    is_test: true,
    state: "waiting",
    attempts: 0,
    last_attempt_at: null,
    finished_at: null,
    last_status: null,
    last_error: null,
  };
  assert.equal(
    shown.map(({ id: _id, created_at: _at, next_attempt_at: _next, ...rest }) => rest),
    [
      { ...waiting, type: "WEBHOOK", to: "https://hooks.example.com/..." },
      { ...waiting, type: "SLACK", to: "https://slack.example.com/..." },
      { ...waiting, type: "EMAIL", to: "ann@example.com, bob@example.com" },
    ],
  );
  const sent = server.db
    .prepare<[], { message_json: string }>("SELECT message_json FROM deliveries ORDER BY id DESC LIMIT 3")
    .all()
    .map(({ message_json }) => JSON.parse(message_json));
  const sender = `organization ${at.org}, sent by ${at.org}-admin`;
  const text = `Test of action builds (number 1) of ${sender}: nothing has happened`;
  const webhook = sent[2];
  assert.match(webhook.timestamp, /^[0-9]+$/);
  assert.equal(
    { ...webhook, timestamp: "" },
    {
      version: "1.0",
      timestamp: "",
      org: at.org,
      event_type: "TEST",
      description: text,
      action: { name: "builds", number: "1" },
    },
  );
  assert.is(sent[1].text, `Test of action builds - ${text}`);
  assert.is(sent[0].subject, "Test of action builds");
  assert.ok(sent[0].text.includes(text));
  // It waits for its turn like any other message, and a second test waits for the first.
  assert.is(server.db.prepare("SELECT count(*) FROM jobs WHERE kind IN ('deliver', 'deliver_mail')").pluck().get(), 3);
  await refused(server, () => tryOut(at), {
    status: 400,
    body: { message: "An earlier test of action 'builds' is still waiting: see its deliveries" },
  });
});

test("lists messages newest first, by state and page by page, with errors that the organization may read", async () => {
  const at = await given();
  const { id: first, startedAt } = await tryOut(at).then(() =>
    attempt(at, { status: 500, error: "status 500: inner secrets", public: "The receiver answered with status 500" }),
  );
  const row = (await list(at)).body.deliveries[0];
  assert.equal(row, {
    id: first,
    subject: "builds: TEST",
    is_test: true,
    type: "WEBHOOK",
    to: "https://hooks.example.com/...",
    state: "waiting",
    attempts: 1,
    created_at: row.created_at,
    last_attempt_at: startedAt,
    next_attempt_at: startedAt + 500,
    finished_at: null,
    last_status: 500,
    last_error: "The receiver answered with status 500",
  });
  attempt(at, { status: 200, error: null, public: null });
  const delivered = (await list(at)).body.deliveries[0];
  assert.equal(
    [delivered.state, delivered.attempts, delivered.last_status, delivered.last_error, delivered.next_attempt_at],
    ["delivered", 2, 200, null, null],
  );
  const ids = [first];
  for (const error of ["connect ECONNREFUSED 10.0.0.7", "again"]) {
    await tryOut(at);
    ids.unshift(attempt(at, { status: null, error, public: "The receiver could not be reached", dead: true }).id);
  }
  const idsOf = (answer: { body: { deliveries: { id: string }[] } }) => answer.body.deliveries.map(({ id }) => id);
  const all = await list(at);
  assert.equal(idsOf(all), ids);
  assert.equal(all.body.next, null);
  assert.not.match(all.text, /ECONNREFUSED|10\.0\.0\.7|secret/);
  assert.equal(
    all.body.deliveries.map((one: Record<string, unknown>) => one["last_error"]),
    ["The receiver could not be reached", null, null],
  );
  assert.equal(idsOf(await list(at, "?state=dead")), ids.slice(0, 2));
  assert.equal(idsOf(await list(at, "?state=delivered")), [first]);
  assert.equal(idsOf(await list(at, "?state=waiting")), []);
  const page = await list(at, "?per_page=2");
  assert.equal(idsOf(page), ids.slice(0, 2));
  const rest = await list(at, `?per_page=2&after=${page.body.next}`);
  assert.equal([idsOf(rest), rest.body.next], [ids.slice(2), null]);
  for (const query of ["?state=lost", "?per_page=0", "?per_page=101", "?after=x"])
    assert.is((await list(at, query)).status, 400, query);
});

test("sends a dead message again, and no delivered one", async () => {
  const at = await given();
  await tryOut(at);
  const { id } = attempt(at, { status: 410, error: "gone", public: "The receiver is gone", dead: true });
  const entries = await entriesOf(server, async () => {
    const { status, body } = await retry(at, id);
    assert.equal([status, body.state, body.attempts, body.finished_at], [200, "waiting", 0, null]);
  });
  assert.equal(entries, [
    {
      event: "delivery.retried",
      target: id,
      operation: "retry_action_delivery",
      actor_name: `${at.org}-admin`,
      detail: { subject: "builds: TEST" },
    },
  ]);
  attempt(at, { status: 200, error: null, public: null });
  await refused(server, () => retry(at, id), {
    status: 400,
    body: { message: `Message '${id}' was delivered: only dead or waiting messages can be sent again` },
  });
});

test("messages of other actions and organizations are unknown, and so are actions that do not exist", async () => {
  const [at, other] = [await given(), await given()];
  const { body } = await tryOut(other);
  const { id } = body.deliveries[0];
  await refused(server, () => retry(at, id), {
    status: 404,
    body: { message: `Action 'builds' has no message '${id}'` },
  });
  assert.equal((await list(at)).body, { deliveries: [], next: null });
  const missing = {
    status: 404,
    body: { message: `Action '9' does not exist in organization '${at.org}'` },
  };
  for (const ask of [() => tryOut(at, 9), () => retry(at, id, 9)]) await refused(server, ask, missing);
  const without = await given([{ type: "PAGER" }]);
  await refused(server, () => tryOut(without), {
    status: 400,
    body: { message: "Action 'builds' has no target that messages can be sent to" },
  });
});

test("members and admins test and retry, readers see, outsiders of a public organization see nothing", async () => {
  const at = await given();
  server.db.prepare("UPDATE organizations SET is_public = 1 WHERE name = ?").run(at.org);
  await tryOut(at);
  const { id } = attempt(at, { status: 410, error: "gone", public: "gone", dead: true });
  for (const role of ["snapshotter", "reader", null] as const) {
    const as = { org: at.org, key: server.given.user(at.org, role) };
    for (const ask of [() => tryOut(as), () => retry(as, id)])
      await refused(server, ask, { status: 403, body: DENIED });
    assert.is((await list(as)).status, role === null ? 403 : 200);
  }
  const member = { org: at.org, key: server.given.user(at.org, "member") };
  assert.is((await retry(member, id)).status, 200);
});

test.run();
