/** The overview of an organization. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { running, runningIn } from "./given.ts";

const test = suite("api/environments/overview");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

const DAY = 86_400;
const PRINTS = ["a", "b", "c"].map((digit) => digit.repeat(64)) as [string, string, string];
const POLICY = "artifacts:\n  provenance:\n    required: true\n";

const read = async (at: { org: string; key: string }): Promise<Record<string, any>> => {
  const { status, body } = await server.call("GET", `/overview/${at.org}`, { key: at.key });
  assert.is(status, 200, JSON.stringify(body));
  return body;
};

test("is empty for an organization without anything", async () => {
  const body = await read(server.given.org());
  assert.equal(body["environments"], { total: 0, compliant: 0, non_compliant: 0, unknown: 0, items: [] });
  assert.equal(body["running"], { total: 0, non_compliant: 0, unknown: 0 });
  assert.equal(body["failing"], []);
  assert.equal(body["trails"], { days: 7, total: 0, items: [] });
  assert.equal(body["flows"], { total: 0, items: [] });
  const { daily, ...deployments } = body["deployments"];
  assert.equal(deployments, { days: 14, total: 0, previous_total: 0, lead_time: null, previous_lead_time: null });
  assert.is(daily.length, 14);
  const today = new Date(server.clock.at * 1000).toISOString().slice(0, 10);
  assert.equal(daily.at(-1), { date: today, compliant: 0, non_compliant: 0, unknown: 0 });
});

test("counts environments and what runs in them, and lists what fails with its reasons", async () => {
  const at = server.given.org();
  const { environment, attach, report, allow, times } = runningIn(server);
  await server.given.policy(at, { name: "provenance", yaml: POLICY });
  const [prod, stage, lone] = [environment(at), environment(at), environment(at)];
  const all = environment(at, { type: "logical", members: [prod, stage] });
  attach(at, prod, "provenance");
  attach(at, stage, "provenance");
  report(at, prod, [running("shell", PRINTS[0])]);
  report(at, prod, [running("shell", PRINTS[0]), running("tool", PRINTS[1])]);
  report(at, stage, [running("tool", PRINTS[1])]);
  allow(at, stage, PRINTS[1]);
  report(at, lone, [running("free", PRINTS[2])]);
  const body = await read(at);
  const { items, ...totals } = body["environments"];
  assert.equal(totals, { total: 4, compliant: 1, non_compliant: 2, unknown: 1 });
  const stateOf = (name: string): boolean | null => items.find((row: any) => row.name === name).state;
  assert.equal([prod, all, stage, lone].map(stateOf), [false, false, true, null]);
  assert.equal(
    items.map(({ state }: any) => state),
    [false, false, true, null],
    "what fails comes first",
  );
  const shown = items.find(({ name }: any) => name === stage);
  assert.equal(
    { ...shown, last_changed_at: 0, last_reported_at: 0 },
    {
      name: stage,
      type: "docker",
      state: true,
      snapshot_index: 2,
      last_changed_at: 0,
      last_reported_at: 0,
      policy_count: 1,
      compliant_count: 1,
      allowlisted_count: 1,
      non_compliant_count: 0,
      unknown_count: 0,
      html_url: `http://assay.test/${at.org}/environments/${stage}`,
    },
  );
  assert.equal(body["running"], { total: 4, non_compliant: 2, unknown: 1 }, "a logical environment adds nothing");
  const started = times(at, prod);
  assert.equal(
    body["failing"].map(({ name, since }: any) => [name, since]),
    [
      ["tool", started[1]],
      ["shell", started[0]],
    ],
  );
  const { reasons, causes, further_causes, ...failing } = body["failing"][1];
  assert.equal(causes, [{ subject: "No provenance", text: "No provenance: not reported to any flow" }]);
  assert.is(further_causes, 0);
  assert.is(reasons.length, 1);
  assert.match(reasons[0], /provenance/);
  assert.equal(failing, {
    environment_name: prod,
    snapshot_index: 2,
    name: "shell",
    fingerprint: PRINTS[0],
    flow_name: null,
    policies: [{ name: "provenance", version: 1 }],
    since: started[0],
    html_url: `http://assay.test/${at.org}/environments/${prod}/2`,
  });
});

test("a damaged evaluation is marked, and the rest of the overview stays", async () => {
  const at = server.given.org();
  const { environment, attach, report } = runningIn(server);
  await server.given.policy(at, { name: "provenance", yaml: POLICY });
  const prod = environment(at);
  attach(at, prod, "provenance");
  report(at, prod, [running("shell", PRINTS[0])]);
  server.db
    .prepare(
      "UPDATE evaluations SET reasons_json = 'x' " +
        "WHERE id IN (SELECT evaluation_id FROM snapshot_artifacts WHERE name = 'shell')",
    )
    .run();
  const [failing] = (await read(at))["failing"];
  assert.match(failing.reasons[0], /damaged/);
  assert.equal([failing.name, failing.policies, failing.causes], ["shell", [], []]);
});

test("lists trails of this week that are not compliant, and flows by their latest activity", async () => {
  const at = server.given.org();
  const template = "version: 1\ntrail:\n  attestations:\n    - { name: review, type: generic }\n";
  const [old, open, done] = [
    await server.given.flow(at, { template }),
    await server.given.flow(at, { template }),
    await server.given.flow(at, { template }),
  ];
  await server.given.trail(at, { flow: old, name: "last-month" });
  server.clock.at += 8 * DAY;
  await server.given.trail(at, { flow: done, name: "fine" });
  await server.given.attestation(at, { flow: done, trail: "fine", name: "review" });
  await server.given.trail(at, { flow: open, name: "waits" });
  const body = await read(at);
  assert.is(body["trails"].total, 1);
  const [trail] = body["trails"].items;
  assert.equal([trail.flow_name, trail.name, trail.state], [open, "waits", "INCOMPLETE"]);
  assert.match(trail.reasons[0], /review/);
  assert.equal(trail.causes, [{ subject: "review", text: "review is missing" }]);
  assert.is(trail.html_url, `http://assay.test/${at.org}/flows/${open}/trails/waits`);
  assert.equal(
    body["flows"].items.map(({ name, latest_state, trail_count }: any) => [name, latest_state, trail_count]),
    [
      [open, "INCOMPLETE", 1],
      [done, "COMPLIANT", 1],
      [old, "INCOMPLETE", 1],
    ],
  );
  await server.call("PUT", `/flows/${at.org}/${open}/archive`, { key: at.key });
  const after = await read(at);
  assert.is(after["trails"].total, 0, "trails of archived flows need no attention");
  assert.is(after["flows"].total, 2);
});

test("counts deployments by day and verdict, and compares them with the days before", async () => {
  const at = server.given.org();
  const { environment, report, times } = runningIn(server);
  const flow = await server.given.flow(at);
  const prod = environment(at);
  const deploy = async (print: string): Promise<void> => {
    await server.given.artifact(at, { flow, trail: "t", name: "app", fingerprint: print });
    server.clock.at += 100;
    report(at, prod, [running("app", print)]);
  };
  await deploy(PRINTS[0]);
  server.clock.at += 15 * DAY;
  await deploy(PRINTS[1]);
  server.clock.at += 2 * DAY;
  const { deployments } = (await read(at)) as any;
  assert.equal([deployments.total, deployments.previous_total], [1, 1]);
  const day = new Date((times(at, prod)[1] as number) * 1000).toISOString().slice(0, 10);
  assert.equal(
    deployments.daily.filter((row: any) => row.compliant + row.non_compliant + row.unknown > 0),
    [{ date: day, compliant: 0, non_compliant: 0, unknown: 1 }],
  );
  assert.ok(deployments.lead_time >= 100 && deployments.lead_time < 200, String(deployments.lead_time));
  assert.ok(deployments.previous_lead_time >= 100);

  report(at, prod, []);
  server.clock.at += DAY;
  report(at, prod, [running("app", PRINTS[1])]);
  const again = ((await read(at)) as any).deployments;
  assert.is(again.total, 2);
  assert.is(again.lead_time, deployments.lead_time, "what starts again has no new lead time");
});

const readAttention = async (at: { org: string; key: string }): Promise<unknown> => {
  const { status, body } = await server.call("GET", `/overview/${at.org}/attention`, { key: at.key });
  assert.is(status, 200, JSON.stringify(body));
  return body;
};

test("attention counts environments that fail, logical ones included, and trails that the overview lists", async () => {
  const at = server.given.org();
  assert.equal(await readAttention(at), { non_compliant_environments: 0, open_trails: 0, days: 7 });
  const { environment, attach, report } = runningIn(server);
  await server.given.policy(at, { name: "provenance", yaml: POLICY });
  const [prod, gone, lone, silent] = [environment(at), environment(at), environment(at), environment(at)];
  environment(at, { type: "logical", members: [prod, lone] });
  environment(at, { type: "logical", members: [lone, silent] });
  for (const name of [prod, gone]) {
    attach(at, name, "provenance");
    report(at, name, [running("shell", PRINTS[0])]);
  }
  report(at, lone, [running("free", PRINTS[2])]);
  const flow = await server.given.flow(at, {
    template: "version: 1\ntrail:\n  attestations:\n    - { name: review, type: generic }\n",
  });
  await server.given.trail(at, { flow, name: "last-week" });
  server.clock.at += 8 * DAY;
  await server.given.trail(at, { flow, name: "waits" });
  assert.equal(await readAttention(at), { non_compliant_environments: 3, open_trails: 1, days: 7 });

  await server.call("PUT", `/environments/${at.org}/${gone}/archive`, { key: at.key });
  await server.call("PUT", `/flows/${at.org}/${flow}/archive`, { key: at.key });
  assert.equal(await readAttention(at), { non_compliant_environments: 2, open_trails: 0, days: 7 });
});

test("attention stops counting at 100", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at, {
    template: "version: 1\ntrail:\n  attestations:\n    - { name: review, type: generic }\n",
  });
  for (const count of [99, 100, 100]) {
    const present = ((await readAttention(at)) as { open_trails: number }).open_trails;
    for (let n = present; n < count; n += 1) await server.given.trail(at, { flow, name: `t-${n}` });
    if (present === 100) await server.given.trail(at, { flow, name: "one-more" });
    assert.equal(await readAttention(at), { non_compliant_environments: 0, open_trails: count, days: 7 });
  }
  for (let n = 0; n < 101; n += 1) runningIn(server).environment(at);
  const fail = server.db.prepare(
    "UPDATE environments SET state = 0 WHERE organization_id = (SELECT id FROM organizations WHERE name = ?)",
  );
  fail.run(at.org);
  assert.equal(await readAttention(at), { non_compliant_environments: 100, open_trails: 100, days: 7 });
});

test("is refused to those who may not read the organization", async () => {
  const [at, other] = [server.given.org(), server.given.org()];
  for (const path of [`/overview/${at.org}`, `/overview/${at.org}/attention`]) {
    assert.is((await server.call("GET", path, { key: other.key })).status, 403);
    assert.is((await server.call("GET", path)).status, 401);
  }
});

test.run();
