/** Environments as of a moment: snapshots in force then, with the verdicts that were stored. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { running, runningIn } from "./given.ts";

const test = suite("api/environments/past");
let server: TestServer;
let world: ReturnType<typeof runningIn>;
test.before(async () => {
  server = await startServer();
  world = runningIn(server);
});
test.after(() => server.stop());

const PRINTS = ["a", "b", "c"].map((digit) => digit.repeat(64)) as [string, string, string];
const DAY = 86_400;
const POLICY = "artifacts:\n  provenance:\n    required: true\n";
type At = { org: string; key: string };

const call = (at: At, path: string, moment: string | number, more = "") =>
  server.call("GET", `/past/${at.org}/${path}?at=${encodeURIComponent(moment)}${more}`, { key: at.key });
const read = async (at: At, path: string, moment: string | number, more = ""): Promise<Record<string, any>> => {
  const { status, body } = await call(at, path, moment, more);
  assert.is(status, 200, JSON.stringify(body));
  return body;
};
const pass = (seconds: number): number => (server.clock.at += seconds);

/** production: a compliant snapshot, then one that fails, then a compliant one. Times between them. */
async function story() {
  const at = server.given.org();
  const born = pass(60);
  const production = world.environment(at);
  pass(60);
  world.report(at, production, [running("shell", PRINTS[0])]);
  const unknown = pass(60);
  await server.given.policy(at, { name: "provenance", yaml: POLICY });
  world.attach(at, production, "provenance");
  const failing = pass(60);
  world.allow(at, production, PRINTS[0]);
  const allowed = pass(60);
  return { at, production, born, unknown, failing, allowed };
}

test("an environment is that of its snapshot in force, with the stored verdict and policy versions", async () => {
  const { at, production, born, unknown, failing, allowed } = await story();
  const of = async (moment: number) => {
    const one = await read(at, `environments/${production}`, moment);
    return { state: one["state"], index: one["snapshot_index"], policies: one["policies"] };
  };
  assert.equal(await of(born + 1), { state: null, index: 0, policies: [] });
  assert.equal(await of(unknown), { state: null, index: 1, policies: [] });
  assert.equal(await of(failing), { state: false, index: 2, policies: [{ name: "provenance", version: 1 }] });
  assert.equal(await of(allowed), { state: true, index: 3, policies: [{ name: "provenance", version: 1 }] });
  // A later version of the policy evaluates the present; what was stored stays.
  await server.given.policy(at, { name: "provenance", yaml: `${POLICY}  # again\n` });
  assert.equal(await of(failing), { state: false, index: 2, policies: [{ name: "provenance", version: 1 }] });
  const whole = await read(at, `environments/${production}`, failing);
  assert.equal(
    { ...whole, last_changed_at: 0 },
    {
      name: production,
      type: "docker",
      state: false,
      snapshot_index: 2,
      last_changed_at: 0,
      compliant_count: 0,
      non_compliant_count: 1,
      unknown_count: 0,
      policies: [{ name: "provenance", version: 1 }],
      archived_since: false,
      html_url: `http://assay.test/${at.org}/environments/${production}/2`,
    },
  );
});

test("an environment that did not exist then, or was archived by then, is not found", async () => {
  const { at, production, born, allowed } = await story();
  const { status, body } = await call(at, `environments/${production}`, born - 30);
  assert.is(status, 404);
  assert.equal(body, { message: `Environment '${production}' did not exist at that moment` });
  assert.is((await call(at, "environments/absent", allowed)).status, 404);
  const archived = await server.call("PUT", `/environments/${at.org}/${production}/archive`, { key: at.key });
  assert.is(archived.status, 200, JSON.stringify(archived.body));
  const [then] = (await read(at, "environments", allowed))["data"];
  assert.equal([then.state, then.archived_since], [true, true]);
  assert.is((await read(at, `environments/${then.name}`, allowed))["snapshot_index"], 3);
  pass(1);
  assert.equal((await read(at, "environments", server.clock.at))["data"], []);
  assert.is((await call(at, `environments/${then.name}`, server.clock.at)).status, 404);
});

test("the list has what existed then, what failed first, with filters and the number in each state", async () => {
  const { at, production, failing } = await story();
  const later = world.environment(at);
  const names = async (moment: number, more = "") =>
    (await read(at, "environments", moment, more))["data"].map(({ name }: any) => name);
  assert.equal(await names(failing), [production]);
  const both = await read(at, "environments", server.clock.at);
  assert.equal(both["states"], { COMPLIANT: 1, "NON-COMPLIANT": 0, UNKNOWN: 1 });
  assert.equal(await names(server.clock.at), [production, later]);
  assert.equal(await names(server.clock.at, "&state=UNKNOWN"), [later]);
  assert.equal(await names(server.clock.at, `&name=${production.toUpperCase()}`), [production]);
  const second = await read(at, "environments", server.clock.at, "&per_page=1&page=2");
  assert.equal(
    second["data"].map(({ name }: any) => name),
    [later],
  );
  assert.equal(second["pagination"], { total: 2, page: 2, per_page: 1, page_count: 2 });
  const worst = world.environment(at, { name: "zzz" });
  world.attach(at, worst, "provenance");
  world.report(at, worst, [running("stray", PRINTS[1])]);
  assert.equal(await names(pass(10)), [worst, production, later], "what fails comes first, what is unknown last");
});

test("the overview has what failed then with its reasons, and the numbers of now beside it", async () => {
  const { at, production, born, failing } = await story();
  const logical = world.environment(at, { type: "logical", members: [production] });
  const then = await read(at, "overview", failing);
  const { items, ...totals } = then["environments"];
  assert.equal(totals, { total: 1, compliant: 0, non_compliant: 1, unknown: 0 });
  assert.equal(
    items.map(({ name }: any) => name),
    [production],
  );
  assert.equal(then["running"], { total: 1, non_compliant: 1, unknown: 0 });
  assert.equal(then["now"], { environments: 2, running: 1, non_compliant: 0 });
  const [artifact] = then["failing"];
  assert.equal(
    [artifact.environment_name, artifact.snapshot_index, artifact.name, artifact.policies],
    [production, 2, "shell", [{ name: "provenance", version: 1 }]],
  );
  assert.ok(artifact.causes.length > 0 && artifact.reasons.length > 0, JSON.stringify(artifact));
  assert.equal(then["policies"], {
    total: 1,
    items: [{ name: "provenance", version: 1, environments: [production], environment_count: 1 }],
  });
  assert.equal(then["deployments"], { days: 14, total: 0, commit_lead_time: null, measured: 0 });
  const before = await read(at, "overview", born - 30);
  assert.equal(before["environments"], { total: 0, compliant: 0, non_compliant: 0, unknown: 0, items: [] });
  assert.equal(before["failing"], []);
  const present = await read(at, "overview", server.clock.at);
  assert.equal(present["failing"], []);
  assert.ok(present["environments"].items.some(({ name }: any) => name === logical));
});

test("a policy has its version of then, and the environments in which it was in force", async () => {
  const { at, production, unknown, failing } = await story();
  await server.given.policy(at, { name: "other", yaml: POLICY });
  await server.given.policy(at, { name: "provenance", yaml: `${POLICY}# again\n` });
  const later = pass(60);
  const of = async (moment: number, more = "") =>
    (await read(at, "policies", moment, more))["data"].map(
      ({ name, version, environments, environment_count }: any) => ({
        name,
        version,
        environments,
        environment_count,
      }),
    );
  const inForce = { environment_name: production, version: 1 };
  const first = { name: "provenance", version: 1, environments: [inForce], environment_count: 1 };
  assert.equal(await of(unknown - 1), []);
  assert.equal(await of(failing), [first]);
  assert.equal(await of(later), [
    { name: "other", version: 1, environments: [], environment_count: 0 },
    { ...first, version: 2 },
  ]);
  assert.equal(await of(later, "&name=PROV"), [{ ...first, version: 2 }]);
  const used = (name: string) => read(at, "environments", failing, `&policy=${name}`);
  assert.equal((await used("provenance"))["pagination"].total, 1);
  assert.equal((await used("other"))["data"], []);
});

test("an artifact is listed once it was reported, with where it ran then", async () => {
  const at = server.given.org();
  await server.given.flow(at, { name: "payments" });
  await server.given.trail(at, { flow: "payments", name: "release-1" });
  const production = world.environment(at);
  const before = pass(60);
  pass(60);
  await server.given.artifact(at, { flow: "payments", trail: "release-1", name: "app", fingerprint: PRINTS[0] });
  const reported = pass(60);
  world.report(at, production, [running("app", PRINTS[0])]);
  const ran = pass(60);
  world.report(at, production, []);
  const exited = pass(60);
  const of = async (moment: number) => (await read(at, "artifacts", moment))["data"];
  assert.equal(await of(before), []);
  const [listed, ...others] = await of(reported);
  assert.equal(others, []);
  assert.equal([listed.fingerprint, listed.flow_name, listed.trail_name], [PRINTS[0], "payments", "release-1"]);
  assert.equal(listed.ran_in, []);
  assert.equal((await of(ran))[0].ran_in, [{ environment_name: production, snapshot_index: 1, is_compliant: null }]);
  assert.equal((await of(exited))[0].ran_in, []);
  const runs = async (moment: number) => {
    const path = `/artifacts/${at.org}/fingerprint/${PRINTS[0]}/runs?at=${moment}`;
    const { status, body } = await server.call("GET", path, { key: at.key });
    assert.is(status, 200, JSON.stringify(body));
    return (body as any).environments.map(({ is_running, snapshot_index, runs: all }: any) => ({
      is_running,
      snapshot_index,
      ended: all.map(({ ended_at }: any) => ended_at !== null),
    }));
  };
  assert.equal(await runs(reported), []);
  assert.equal(await runs(ran), [{ is_running: true, snapshot_index: 1, ended: [false] }]);
  assert.equal(await runs(exited), [{ is_running: false, snapshot_index: 1, ended: [true] }]);
  const wrong = `/artifacts/${at.org}/fingerprint/${PRINTS[0]}/runs?at=yesterday`;
  assert.is((await server.call("GET", wrong, { key: at.key })).status, 400);
});

test("an artifact names the environments with the worst verdicts, and counts all of them", async () => {
  const at = server.given.org();
  await server.given.flow(at, { name: "payments" });
  await server.given.trail(at, { flow: "payments", name: "release-1" });
  await server.given.artifact(at, { flow: "payments", trail: "release-1", name: "app", fingerprint: PRINTS[0] });
  await server.given.policy(at, { name: "provenance", yaml: POLICY });
  await server.given.policy(at, {
    name: "tested",
    yaml: "artifacts:\n  attestations:\n    - name: unit\n      type: junit\n",
  });
  const run = (policy: string | null): string => {
    const name = world.environment(at);
    if (policy !== null) world.attach(at, name, policy);
    world.report(at, name, [running("app", PRINTS[0])]);
    return name;
  };
  const compliant = ["provenance", "provenance", "provenance"].map(run);
  const three = pass(60);
  const unknown = run(null);
  const failing = run("tested");
  const five = pass(60);
  const of = async (moment: number) => {
    const [{ ran_in: ran, ran_in_total: total }] = (await read(at, "artifacts", moment))["data"];
    return { ran: ran.map((one: any) => [one.environment_name, one.is_compliant]), total };
  };
  assert.equal(await of(three), { ran: compliant.map((name) => [name, true]), total: 3 });
  const worst = [
    [failing, false],
    [unknown, null],
    [compliant[0], true],
  ];
  assert.equal(await of(five), { ran: worst, total: 5 });
  for (let more = 0; more < 4; more++) run(null);
  assert.is((await of(pass(60))).total, null, "further environments are not looked at");
});

test("artifacts come in pages, newest first", async () => {
  const at = server.given.org();
  await server.given.flow(at, { name: "payments" });
  await server.given.trail(at, { flow: "payments", name: "release-1" });
  for (const [index, fingerprint] of PRINTS.entries()) {
    pass(60);
    await server.given.artifact(at, { flow: "payments", trail: "release-1", name: `app-${index}`, fingerprint });
  }
  const moment = pass(60);
  pass(60);
  await server.given.artifact(at, { flow: "payments", trail: "release-1", name: "later", fingerprint: "d".repeat(64) });
  const prints = ({ data }: Record<string, any>): string[] => data.map(({ fingerprint }: any) => fingerprint);
  const first = await read(at, "artifacts", moment, "&per_page=2");
  assert.equal(prints(first), [PRINTS[2], PRINTS[1]]);
  const second = await read(at, "artifacts", moment, `&per_page=2&after=${first["next"]}`);
  assert.equal([prints(second), second["next"]], [[PRINTS[0]], null]);
  assert.is((await call(at, "artifacts", moment, "&after=nonsense")).status, 400);
});

test("artifacts are searched by name and filtered by the verdict where they ran, with true totals", async () => {
  const { at, production, failing, allowed } = await story();
  const flow = await server.given.flow(at);
  await server.given.trail(at, { flow, name: "release" });
  const report = (filename: string, fingerprint: string) =>
    server.given.artifact(at, { flow, trail: "release", name: filename.replace("%", ""), filename, fingerprint });
  // Reported later than it ran, as by a pipeline that is late; only the record of the artifact is looked at.
  await report("shell", PRINTS[0]);
  await report("100%_tool", PRINTS[1]);
  const reported = pass(10);
  await report("later", PRINTS[2]);
  const list = async (more: string, moment = reported) => {
    const body = await read(at, "artifacts", moment, `&counts=true${more}`);
    return { names: body["data"].map(({ name }: any) => name), total: body["total"], states: body["states"] };
  };
  const states = { "NON-COMPLIANT": 0, UNKNOWN: 0, COMPLIANT: 1, "NOT-RUNNING": 1 };
  assert.equal(await list(""), { names: ["100%_tool", "shell"], total: 2, states });
  assert.equal(await list("&state=COMPLIANT"), { names: ["shell"], total: 1, states });
  assert.equal(await list("&state=NOT-RUNNING&per_page=1"), { names: ["100%_tool"], total: 1, states });
  assert.equal(await list("&state=NON-COMPLIANT"), { names: [], total: 0, states });
  const found = { ...states, COMPLIANT: 0 };
  assert.equal(await list(`&name=${encodeURIComponent("0%_TO")}`), { names: ["100%_tool"], total: 1, states: found });
  assert.equal((await list("&name=_hell")).names, [], "a wildcard is a character");
  assert.equal((await list("&name=shell&state=NOT-RUNNING")).total, 0);
  // As of an earlier moment nothing had been reported.
  assert.is((await list("", failing)).total, 0);
  assert.is((await list("", allowed)).total, 0);
  // A second environment where it fails decides: the worst verdict counts.
  const other = world.environment(at);
  world.attach(at, other, "provenance");
  await server.given.policy(at, { name: "named", yaml: "artifacts:\n  attestations:\n    - {type: junit, name: t}\n" });
  world.attach(at, other, "named");
  world.report(at, other, [running("shell", PRINTS[0])]);
  const worse = pass(10);
  assert.equal((await list("&state=NON-COMPLIANT", worse)).names, ["shell"]);
  assert.equal((await list("&state=COMPLIANT")).names, ["shell"], "what was stored then stays");
  const first = await read(at, "artifacts", worse, "&counts=true&per_page=2");
  assert.equal([first["data"].length, first["total"]], [2, 3]);
  const second = await read(at, "artifacts", worse, `&counts=true&per_page=2&after=${first["next"]}`);
  assert.equal([second["data"].length, second["total"], second["next"]], [1, 3, null]);
  // An archived flow had its artifacts before.
  const gone = await server.call("PUT", `/flows/${at.org}/${flow}/archive`, { key: at.key });
  assert.ok(gone.status < 300, gone.text);
  const after = pass(10);
  assert.equal([(await list("", worse)).total, (await list("", after)).total], [3, 0]);
  assert.is((await call(at, "artifacts", worse, "&state=INCOMPLETE")).status, 400);
  assert.is((await call(at, "artifacts", worse, `&name=${"x".repeat(257)}`)).status, 400);
  assert.not.ok("total" in (await read(at, "artifacts", worse)));
  assert.ok(production);
});

test("a moment is a time, an age, or the time of a snapshot", async () => {
  const { at, production, failing } = await story();
  const [, second] = world.times(at, production);
  const moment = async (text: string) => (await read(at, "moment", text))["at"];
  assert.is(await moment(`${production}#2`), second);
  assert.is(await moment(`${production}~1`), second);
  assert.is(await moment("2001-01-02"), Date.UTC(2001, 0, 2) / 1000);
  assert.is(await moment("2001-01-02 09:30"), Date.UTC(2001, 0, 2, 9, 30) / 1000);
  assert.is(await moment(" 2.days.ago "), server.clock.at - 2 * 86_400);
  assert.is(await moment("@{1.hours.ago}"), server.clock.at - 3_600);
  assert.is(await moment("12hours"), server.clock.at - 12 * 3_600);
  assert.is(await moment(`${production}@{now}`), server.clock.at);
  // The snapshot that is meant is in force at its own time.
  assert.is((await read(at, `environments/${production}`, `${production}#2`))["snapshot_index"], 2);
  assert.ok(failing > (second as number));
});

test("what names no moment is refused at the parameter", async () => {
  const { at, production } = await story();
  const problem = async (text: string) => {
    const { status, body } = await call(at, "moment", text);
    assert.is(status, 400, `${text}: ${JSON.stringify(body)}`);
    return JSON.stringify(body);
  };
  for (const wrong of [
    "yesterday",
    "2001-02-30",
    "#2",
    "-1",
    production,
    "@{2001-02-30T00:00:00}",
    "",
    "x".repeat(301),
  ])
    assert.match(await problem(wrong), '"at', wrong);
  assert.match(await problem("2999-01-01"), "Input should not lie in the future");
  assert.match(await problem(`${production}@{2999-01-01T00:00:00}`), "Input should not lie in the future");
  assert.match(await problem(`${production}#9`), "There is no such snapshot");
  assert.match(await problem("absent#1"), "There is no such snapshot");
  for (const path of ["overview", "environments", `environments/${production}`])
    assert.is((await server.call("GET", `/past/${at.org}/${path}`, { key: at.key })).status, 400, path);
});

test("a clock that was set back does not hide the snapshots after it", async () => {
  const at = server.given.org();
  const name = world.environment(at);
  const start = pass(10);
  world.report(at, name, [running("one", PRINTS[0])]);
  // By days: within hours, a snapshot takes the time of the one before it.
  pass(10 * DAY);
  world.report(at, name, [running("two", PRINTS[1])]);
  server.clock.at = start + 100;
  world.report(at, name, [running("three", PRINTS[2])]);
  const indexAt = async (moment: number) => (await read(at, `environments/${name}`, moment))["snapshot_index"];
  const listed = async (moment: number) => (await read(at, "environments", moment))["data"][0].snapshot_index;
  pass(50);
  const direct = await server.call(
    "GET",
    `/snapshots/${at.org}/${name}/@{${new Date(server.clock.at * 1000).toISOString().slice(0, 19)}}`,
    { key: at.key },
  );
  assert.is(await indexAt(server.clock.at), (direct.body as any).index);
  assert.is(await listed(server.clock.at), (direct.body as any).index);
  const [first = 0, second = 0, third = 0] = world.times(at, name);
  assert.ok(first < third && third < second, "the third snapshot is earlier than the second");
  // Later than the time of the second snapshot, which is not the latest.
  server.clock.at = start + 12 * DAY;
  const later = start + 11 * DAY;
  assert.equal([await indexAt(later), await listed(later)], [3, 3]);
});

test("rights are those of now", async () => {
  const { at, failing } = await story();
  const stranger = server.given.org();
  const former = server.given.user(at.org, "admin");
  const name = server.db.prepare<[], string>("SELECT name FROM users ORDER BY id DESC LIMIT 1").pluck().get();
  const paths = ["overview", "environments", "moment", "policies", "artifacts"];
  for (const path of paths)
    assert.is((await call({ ...at, key: former }, path, failing)).status, 200, `${path} of a member`);
  await server.call("DELETE", `/members/${at.org}/${name}`, { key: at.key });
  const refused = { message: "You don't have permission to access this resource" };
  for (const path of paths)
    for (const key of [stranger.key, former])
      assert.equal((await call({ ...at, key }, path, failing)).body, refused, path);
});

test.run();
