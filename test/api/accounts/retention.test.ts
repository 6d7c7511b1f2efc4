/** Retention rules and legal holds as admins set them. They delete nothing. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { DENIED, entriesOf, refused } from "../administration.ts";
import type { At } from "../administration.ts";

const test = suite("api/accounts/retention");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

const rules = async (at: At) => (await server.call("GET", `/retention/${at.org}/rules`, { key: at.key })).body;
const put = (at: At, body: unknown) => server.call("PUT", `/retention/${at.org}/rules`, { key: at.key, body });
const drop = (at: At, query = "") => server.call("DELETE", `/retention/${at.org}/rules${query}`, { key: at.key });
const holds = async (at: At, query = "") =>
  (await server.call("GET", `/retention/${at.org}/holds${query}`, { key: at.key })).body;
const place = (at: At, body: unknown) => server.call("POST", `/retention/${at.org}/holds`, { key: at.key, body });
const release = (at: At, id: string) =>
  server.call("POST", `/retention/${at.org}/holds/${id}/release`, { key: at.key });
const days = (trails_after_days: number | null, evidence_after_days: number | null) => ({
  trails_after_days,
  evidence_after_days,
});
const noFlow = (at: At) => ({
  status: 404,
  body: { message: `Flow named 'missing' does not exist for organization '${at.org}'` },
});

test("sets, replaces and removes the rules of an organization and its flows", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const entries = await entriesOf(server, async () => {
    const { status, body } = await put(at, { flow, ...days(null, null) });
    assert.equal({ status, body }, { status: 200, body: { flow, ...days(null, null) } });
    assert.equal((await put(at, days(730, 180))).body, { flow: null, ...days(730, 180) });
    assert.is((await put(at, { flow: null, ...days(365, null) })).status, 200);
  });
  const common = { event: "retention.rule_set", operation: "put_retention_rule", actor_name: `${at.org}-admin` };
  assert.equal(entries, [
    { ...common, target: `${at.org}/${flow}`, detail: days(null, null) },
    { ...common, target: at.org, detail: days(730, 180) },
    { ...common, target: at.org, detail: days(365, null) },
  ]);
  const both = [
    { flow: null, ...days(365, null) },
    { flow, ...days(null, null) },
  ];
  assert.equal(await rules(at), both);
  await refused(server, () => put(at, days(365, null)), { status: 200, body: both[0] });
  const removed = await entriesOf(server, async () => {
    assert.equal((await drop(at, `?flow=${flow}`)).body, "OK");
    assert.equal((await drop(at)).body, "OK");
  });
  assert.equal(
    removed.map(({ event, target, operation }) => [event, target, operation]),
    [`${at.org}/${flow}`, at.org].map((target) => ["retention.rule_removed", target, "delete_retention_rule"]),
  );
  assert.equal(await rules(at), []);
  const none = (name: string) => ({ status: 404, body: { message: `There is no retention rule for '${name}'` } });
  await refused(server, () => drop(at), none(at.org));
  await refused(server, () => drop(at, `?flow=${flow}`), none(`${at.org}/${flow}`));
});

test("refuses unknown flows, files that outlive their trails, and days out of range", async () => {
  const at = server.given.org();
  for (const evidence of [30, 31])
    await refused(server, () => put(at, days(30, evidence)), {
      status: 400,
      body: {
        message: "Files are deleted before their trails: evidence_after_days must be less than trails_after_days",
      },
    });
  await refused(server, () => put(at, { flow: "missing", ...days(30, null) }), noFlow(at));
  await refused(server, () => drop(at, "?flow=missing"), noFlow(at));
  for (const body of [
    {},
    { trails_after_days: 30 },
    days(0, null),
    days(36_501, null),
    days(1.5, null),
    { ...days(30, null), flow: 7 },
  ])
    await refused(server, async () => ({ ...(await put(at, body)), body: null }), { status: 400, body: null });
});

test("places holds on an organization, a flow or a trail, lists them and releases each once", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const trail = await server.given.trail(at, { flow });
  const by = `${at.org}-admin`;
  const placed: Record<string, unknown>[] = [];
  const entries = await entriesOf(server, async () => {
    for (const body of [{ reason: "case 1" }, { reason: " case 2 ", flow }, { reason: "case 3", flow, trail }]) {
      const answer = await place(at, body);
      assert.is(answer.status, 201);
      placed.push(answer.body);
    }
  });
  const expected = [
    { flow: null, trail: null, reason: "case 1" },
    { flow, trail: null, reason: "case 2" },
    { flow, trail, reason: "case 3" },
  ].map((fields, index) => ({
    id: placed[index]?.["id"],
    ...fields,
    placed_by: by,
    placed_at: placed[index]?.["placed_at"],
    released_by: null,
    released_at: null,
  }));
  assert.equal(placed, expected);
  assert.equal(
    entries.map(({ event, target, detail }) => [event, target, detail["on"], detail["by"]]),
    [at.org, `${at.org}/${flow}`, `${at.org}/${flow}/${trail}`].map((on, index) => [
      "retention.hold_placed",
      placed[index]?.["id"],
      on,
      by,
    ]),
  );
  const newestFirst = [...expected].reverse();
  assert.equal(await holds(at), { holds: newestFirst, next: null });
  const page = await holds(at, "?per_page=2");
  assert.equal(page.holds, newestFirst.slice(0, 2));
  assert.equal(await holds(at, `?per_page=2&after=${page.next}`), { holds: newestFirst.slice(2), next: null });

  const id = placed[1]?.["id"] as string;
  let released: Record<string, unknown> = {};
  const ended = await entriesOf(server, async () => {
    released = (await release(at, id)).body;
  });
  assert.equal(released, { ...expected[1], released_by: by, released_at: released["released_at"] });
  assert.equal(ended, [
    {
      event: "retention.hold_released",
      target: id,
      operation: "release_legal_hold",
      actor_name: by,
      detail: { on: `${at.org}/${flow}`, reason: "case 2", by },
    },
  ]);
  await refused(server, () => release(at, id), {
    status: 400,
    body: { message: `The legal hold '${id}' was already released` },
  });
  assert.equal((await holds(at)).holds, [newestFirst[0], newestFirst[2]]);
  assert.equal((await holds(at, "?with_released=true")).holds, [newestFirst[0], released, newestFirst[2]]);
});

test("refuses holds without a reason or on what does not exist, and those of other organizations", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const missing = (message: string, status = 404) => ({ status, body: { message } });
  await refused(server, () => place(at, { reason: "x", flow: "missing" }), noFlow(at));
  await refused(
    server,
    () => place(at, { reason: "x", flow, trail: "missing" }),
    missing(`'${at.org}/${flow}' has no trail 'missing'`),
  );
  await refused(
    server,
    () => place(at, { reason: "x", trail: "t" }),
    missing("A trail belongs to a flow: give the flow too, or no trail", 400),
  );
  await refused(
    server,
    () => place(at, { reason: "  " }),
    missing("The reason of a legal hold must not be blank", 400),
  );
  for (const body of [{}, { reason: "" }, { reason: "x".repeat(1001) }])
    await refused(server, async () => ({ ...(await place(at, body)), body: null }), { status: 400, body: null });
  const other = server.given.org();
  const { body: hold } = await place(other, { reason: "x" });
  for (const id of [hold.id, "missing"])
    await refused(server, () => release(at, id), missing(`There is no legal hold '${id}'`));
});

test("only admins read and change retention", async () => {
  const at = server.given.org();
  const { body: hold } = await place(at, { reason: "x" });
  for (const role of ["member", "snapshotter", "reader", null] as const) {
    const as = { org: at.org, key: server.given.user(at.org, role) };
    for (const ask of [
      () => put(as, days(1, null)),
      () => drop(as),
      () => place(as, { reason: "x" }),
      () => release(as, hold.id),
    ])
      await refused(server, ask, { status: 403, body: DENIED });
    assert.equal([await rules(as), await holds(as)], [DENIED, DENIED]);
  }
});

test.run();
