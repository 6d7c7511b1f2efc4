/** Allowlist entries with an end: from the request to the warning, the end and the re-evaluation. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { renderExplanation } from "../../../src/cli/explain-text.ts";
import { createAllowlistEnds } from "../../../src/jobs/end-allowlist-entries.ts";
import { freshFingerprint, startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { actionsIn } from "../notifications/receivers.ts";
import { running, runningIn } from "./given.ts";

const test = suite("api/environments/allowlist-ends");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
type Json = Record<string, any>;
const DAY = 86_400;
const TESTED = "artifacts:\n  attestations:\n    - {name: tests, type: junit}\n";
const input = (fingerprint: string, more: Json = {}) => ({
  artifact_fingerprint: fingerprint,
  artifact_name: "nginx",
  description: "INC-7",
  ...more,
});
const iso = (at: number): string => `${new Date(at * 1000).toISOString().slice(0, 16).replace("T", " ")} UTC`;

/** An environment in which an artifact runs, under a policy that requires tests, which it has not. */
async function given(host: TestServer = server) {
  const at = host.given.org();
  const world = runningIn(host);
  const env = world.environment(at, { type: "K8S" });
  const fingerprint = freshFingerprint();
  const flow = await host.given.flow(at);
  await host.given.artifact(at, { flow, trail: await host.given.trail(at, { flow }), fingerprint });
  world.attach(at, env, await host.given.policy(at, { yaml: TESTED }));
  world.report(at, env, [running("nginx", fingerprint)]);
  const id = world.idOf(at, env);
  return {
    at,
    env,
    id,
    fingerprint,
    world,
    end: (days: number): number => Math.floor(host.clock.at) + days * DAY,
    allow: (more: Json = {}) =>
      host.call("PUT", `/allowlists/${at.org}/${env}`, { key: at.key, body: input(fingerprint, more) }),
    list: async () => (await host.call<Json[]>("GET", `/allowlists/${at.org}`, { key: at.key })).body,
    assert: async () =>
      (
        await host.call("GET", `/asserts/${at.org}/fingerprint/${fingerprint}?environment_name=${env}`, {
          key: at.key,
        })
      ).body as Json,
    snapshots: () => host.store.environments.get(id).snapshot_count,
    state: () => host.store.environments.get(id).state,
  };
}
const auditOf = ({ org }: At, host = server) =>
  (
    host.db
      .prepare(
        "SELECT actor_kind, actor_name, operation, target, detail_json FROM audit_log " +
          "WHERE organization_id = (SELECT id FROM organizations WHERE name = ?) " +
          "AND event = 'artifact.allowance_ended' ORDER BY id",
      )
      .all(org) as Json[]
  ).map(({ detail_json, ...entry }) => ({ ...entry, detail: JSON.parse(detail_json) }));
const endJobs = (host = server) =>
  host.db.prepare("SELECT count(*) FROM jobs WHERE kind = 'allowlist_end'").pluck().get() as number;

/** Lets time pass and runs what is due. */
async function advanceTo(at: number, host = server): Promise<void> {
  host.clock.at = at;
  await host.settled();
}

test("an entry counts until its end; then the environment is re-evaluated, with event and audit entry", async () => {
  const { at, env, id, fingerprint, end, allow, list, assert: verdict, snapshots, state } = await given();
  const expires_at = end(10);
  const answer = await allow({ expires_at });
  assert.equal({ status: answer.status, body: answer.body }, { status: 201, body: input(fingerprint, { expires_at }) });
  assert.is((await list())[0]?.["expires_at"], expires_at);
  assert.equal([snapshots(), state()], [2, 1]);
  const before = await verdict();
  assert.equal([before["compliant"], before["allow_listing"]["expires_at"]], [true, expires_at]);

  await advanceTo(expires_at - 10);
  assert.equal([snapshots(), state(), auditOf(at)], [2, 1, []], "nothing happens before the end");
  await advanceTo(expires_at);
  assert.equal([snapshots(), state()], [3, 0]);
  const after = await verdict();
  assert.equal([after["compliant"], after["allow_listing"]], [false, null]);
  const allowlist_id = server.store.allowlists.findLatest(id, fingerprint)?.public_id;
  assert.equal(auditOf(at), [
    {
      actor_kind: "operator",
      actor_name: "scheduler",
      operation: "end allowlist entries",
      target: allowlist_id,
      detail: { environment: env, artifact_fingerprint: fingerprint, allowlist_id, expires_at },
    },
  ]);
  const { body: events } = await server.call<Json[]>("GET", `/environments/${at.org}/${env}/events`, { key: at.key });
  const [event] = events;
  assert.equal(
    [event?.["type"], event?.["artifact_name"], event?.["snapshot_index"], event?.["snapshot_compliance"]],
    ["became-non-compliant", "nginx", 3, false],
  );
  const made = server.store.snapshots.find(id, 3);
  assert.equal([made?.cause, made?.user_id, made?.user_name], ["allowlist", "", "scheduler"]);
  assert.is((await list())[0]?.["expires_at"], expires_at, "the record stays");
  assert.equal([endJobs(), server.db.prepare("SELECT count(*) FROM allowlist_ends").pluck().get()], [0, 0]);
});

test("explanations show the entry with its end where it counted, and replay to the same later", async () => {
  const { at, env, id, fingerprint, end, allow } = await given();
  const expires_at = end(5);
  await allow({ expires_at });
  await advanceTo(expires_at + 1);
  const explain = async (index: number) => {
    const environment = server.store.environments.get(id);
    const explanation = server.store.explanations.explain(environment, index);
    assert.ok(explanation);
    const question = { organization: at.org, expression: `${env}#${index}`, fingerprint };
    const path = `/explanations/${at.org}/environments/${env}/${index}?fingerprint=${fingerprint}`;
    const { body: json } = await server.call<Json>("GET", path, { key: at.key });
    return { json, text: renderExplanation(explanation, question) };
  };
  const [allowed, ended] = [await explain(2), await explain(3)];
  assert.equal([allowed.json["same"], allowed.json["snapshot"]["artifacts"][0]["compliant"]], [true, true]);
  assert.is(allowed.json["snapshot"]["artifacts"][0]["allowlist"]["expires_at"], expires_at);
  assert.match(allowed.text, ` until ${new Date(expires_at * 1000).toISOString()}: "INC-7"`);
  assert.equal([ended.json["same"], ended.json["snapshot"]["artifacts"][0]["allowlist"]], [true, null]);
  assert.match(ended.text, "because an allowlist entry ended");
});

test("audit packages have the end of an entry that has one", async () => {
  const { at, fingerprint, end, allow } = await given();
  const expires_at = end(5);
  await allow({ expires_at });
  await allow();
  const { id } = server.store.organizations.find(at.org) as { id: number };
  const packaged = server.store.auditPackages.listAllowlistEntries(id, fingerprint);
  assert.equal(
    packaged.map((entry) => ("expires_at" in entry ? entry.expires_at : "absent")),
    [expires_at, "absent"],
  );
});

test("an entry past its end does not count in reports and asserts, even before the job has run", async () => {
  const { at, env, end, allow, assert: verdict, world, fingerprint, snapshots, state } = await given();
  const expires_at = end(1);
  await allow({ expires_at });
  assert.is((await verdict())["compliant"], true);
  assert.is((await verdict())["compliant"], true, "a second answer");
  server.clock.at = expires_at;
  assert.is((await verdict())["compliant"], false, "no write came in between, and the cache has no old answer");
  assert.is(state(), 1, "the job has not run");
  world.report(at, env, [running("nginx", fingerprint)]);
  assert.equal([snapshots(), state()], [3, 0], "an unchanged report is evaluated");
  await server.settled();
  assert.equal([snapshots(), auditOf(at).length], [3, 1], "the job adds no second snapshot");
});

test("a report that only starts another artifact does not carry the ended entry on", async () => {
  const { at, env, end, allow, world, fingerprint, id } = await given();
  const expires_at = end(1);
  await allow({ expires_at });
  server.clock.at = expires_at;
  world.report(at, env, [running("nginx", fingerprint), running("web", freshFingerprint())]);
  assert.equal(
    server.store.snapshots.listArtifacts(id, 3).map(({ name, annotation }) => [name, annotation]),
    [
      ["nginx", "became-non-compliant"],
      ["web", "started-non-compliant"],
    ],
  );
});

test("a plan that was made before an end is not applied after it", async () => {
  const { end, allow, id } = await given();
  const expires_at = end(1);
  await allow({ expires_at });
  const { snapshotRecorder, environments } = server.store;
  const survey = snapshotRecorder.readCurrent(environments.get(id), "report", null);
  assert.is(snapshotRecorder.isCurrent(survey), true);
  server.clock.at = expires_at;
  assert.is(snapshotRecorder.isCurrent(survey), false);
});

test("a second request may extend, shorten or remove the end, and a repeated one adds nothing", async () => {
  const { end, allow, list, state, snapshots } = await given();
  const [first, later, sooner] = [end(10), end(20), end(15)];
  for (const expires_at of [first, first, later, sooner]) assert.is((await allow({ expires_at })).status, 201);
  assert.equal(
    (await list()).map(({ expires_at }) => expires_at),
    [sooner, later, first],
  );
  await advanceTo(first + 1);
  assert.is(state(), 1, "extended");
  await advanceTo(sooner + 1);
  assert.is(state(), 0, "shortened");
  await allow({ expires_at: end(10) });
  assert.equal([snapshots(), state()], [4, 1], "allowed again");
  const removed = await allow({});
  assert.not.ok("expires_at" in removed.body);
  assert.not.ok("expires_at" in ((await list())[0] as Json));
  await advanceTo(end(400));
  assert.equal([snapshots(), state(), endJobs()], [4, 1, 0]);
  assert.is((await allow({ expires_at: null })).status, 201, "null is no end");
  assert.is((await list()).length, 5, "and repeats the entry without one");
});

test("warns actions once, three days before the end, across a restart; another end is warned of again", async () => {
  const directory = mkdtempSync(join(tmpdir(), "assay-ends-"));
  let host = await startServer({ directory });
  const { at, env, fingerprint, end, allow, world } = await given(host);
  const group = world.environment(at, { type: "logical", members: [env] });
  const targets = [
    { type: "WEBHOOK", webhook: "https://hooks.example.com/a" },
    { type: "SLACK", webhook: "https://hooks.slack.com/services/x" },
    { type: "EMAIL", emails: ["ops@example.com"] },
  ];
  const triggers = ["ON_ALLOWLIST_EXPIRY"] as const;
  await actionsIn(host).action(at, { name: "ends", environments: [env], triggers, targets });
  await actionsIn(host).action(at, { name: "group", environments: [group], triggers });
  const expires_at = end(30);
  assert.is((await allow({ expires_at })).status, 201);
  const restart = async (clock: number): Promise<void> => {
    await host.stop();
    host = await startServer({ directory });
    host.clock.at = clock;
  };
  try {
    await restart(expires_at - 3 * DAY - 1);
    assert.equal(await actionsIn(host).sent(at), []);
    await advanceTo(expires_at - 3 * DAY, host);
    const sent = await actionsIn(host).sent(at);
    const description =
      `The allowlist entry for artifact nginx in environment ${env} (INC-7) expires in 3 days, ` +
      `on ${iso(expires_at)}`;
    assert.equal(
      sent.map(({ type, subject }) => [type, subject]),
      [
        ["WEBHOOK", `ends: ALLOWLIST_EXPIRY in ${env} #2`],
        ["SLACK", `ends: ALLOWLIST_EXPIRY in ${env} #2`],
        ["EMAIL", `ends: ALLOWLIST_EXPIRY in ${env} #2`],
        ["WEBHOOK", `group: ALLOWLIST_EXPIRY in ${group} #1`],
      ],
    );
    const [hook, slack, mail] = sent.map(({ body }) => body);
    const allowlistId = host.db.prepare("SELECT public_id FROM allowlist_entries").pluck().get();
    assert.equal(
      {
        event_type: hook?.["event_type"],
        description: hook?.["description"],
        artifact: [hook?.["artifact"].name, hook?.["artifact"].fingerprint],
        allowlist_entry: hook?.["allowlist_entry"],
      },
      {
        event_type: "ALLOWLIST_EXPIRY",
        description,
        artifact: ["nginx", fingerprint],
        allowlist_entry: { id: allowlistId, description: "INC-7", expires_at: String(expires_at) },
      },
    );
    for (const letter of [slack, mail]) {
      assert.ok(JSON.stringify(letter).includes(description), JSON.stringify(letter));
      assert.ok(JSON.stringify(letter).includes("allowlist entry expires soon"), JSON.stringify(letter));
    }
    await restart(expires_at - 2 * DAY);
    assert.is((await actionsIn(host).sent(at)).length, 4, "once");

    const again = expires_at + 30 * DAY;
    await host.call("PUT", `/allowlists/${at.org}/${env}`, {
      key: at.key,
      body: input(fingerprint, { expires_at: again }),
    });
    // The server was stopped while the warning became due.
    await restart(again - DAY / 2);
    const later = (await actionsIn(host).sent(at)).slice(4);
    assert.match(later[0]?.body["description"], / expires in 1 day, on /);
    assert.is(later.length, 4);
    await restart(again + DAY);
    assert.is((await actionsIn(host).sent(at)).length, 8, "the end itself is no warning");
    assert.equal(
      [auditOf(at, host).length, host.store.environments.get(1).state],
      [1, 0],
      "it ended during a downtime",
    );
  } finally {
    await host.stop();
    rmSync(directory, { recursive: true, force: true });
  }
});

test("does not warn of an end less than three days ahead, a removed one, or in an archived environment", async () => {
  const { at, env, end, allow } = await given();
  const tell = actionsIn(server);
  await tell.action(at, { environments: [env], triggers: ["ON_ALLOWLIST_EXPIRY"] });
  const soon = end(2);
  await allow({ expires_at: soon });
  await advanceTo(soon - 10);
  assert.equal(await tell.sent(at), []);
  await allow({ expires_at: end(10) });
  await allow();
  await advanceTo(end(8));
  assert.equal(await tell.sent(at), []);
  const last = end(10);
  await allow({ expires_at: last });
  assert.is((await server.call("PUT", `/environments/${at.org}/${env}/archive`, { key: at.key })).status, 200);
  await advanceTo(last + 1);
  assert.equal(await tell.sent(at), []);
  assert.is(auditOf(at).length, 1, "its end is recorded all the same");
});

test("the allowed event names the end", async () => {
  const { at, env, end, allow } = await given();
  const tell = actionsIn(server);
  await tell.action(at, { environments: [env], triggers: ["ON_ALLOWED_ARTIFACT"] });
  const expires_at = end(2);
  await allow({ expires_at });
  assert.is(
    (await tell.sent(at))[0]?.body["description"],
    `${at.org}-admin allowed artifact nginx in environment ${env} until ${iso(expires_at)}: INC-7`,
  );
});

test("entries that end together are recorded in one write and re-evaluate the environment once", async () => {
  const { at, env, world, fingerprint, end, snapshots, state } = await given();
  const fingerprints = [fingerprint, ...Array.from({ length: 250 }, freshFingerprint)];
  world.report(
    at,
    env,
    fingerprints.map((one, place) => running(`app-${place}`, one)),
  );
  const expires_at = end(2);
  for (const one of fingerprints)
    await server.call("PUT", `/allowlists/${at.org}/${env}`, { key: at.key, body: input(one, { expires_at }) });
  const before = snapshots();
  assert.is(state(), 1);
  await advanceTo(expires_at);
  assert.is(state(), 0);
  assert.is(auditOf(at).length, 251);
  assert.ok(snapshots() - before <= 2, `${snapshots() - before} snapshots`);
  assert.is(endJobs(), 0);
});

test("a clock that runs ahead records no end, and one that is set back revives no ended entry", async () => {
  const { at, id, fingerprint, end, allow } = await given();
  const expires_at = end(5);
  await allow({ expires_at });
  const entry = server.store.allowlists.findLatest(id, fingerprint) as { id: number };
  const trusted = server.clock.at;
  const ahead = expires_at + 700 * DAY;
  const { endAllowlistEntry } = createAllowlistEnds({
    store: server.store,
    trustedNow: () => trusted,
    now: () => ahead,
  });
  const settle = await endAllowlistEntry({ entry_id: entry.id });
  assert.is(settle(), ahead + 60, "the job comes again, but not at once");
  assert.equal(auditOf(at), []);
  await advanceTo(expires_at);
  assert.is(auditOf(at).length, 1);
  assert.is(
    server.store.allowlists.findInForce(id, fingerprint, () => trusted),
    null,
  );
});

test("refuses an end that is past, no integer or too far away, and leaves nothing behind", async () => {
  const { at, env, allow, list, fingerprint, snapshots } = await given();
  const revision = server.db.prepare("SELECT revision FROM environments WHERE name = ?").pluck();
  const before = [revision.get(env), snapshots(), endJobs()];
  const past = Math.floor(server.clock.at);
  const integer = (value: unknown) => `Input should be a valid integer [input: ${String(value)}]`;
  for (const [expires_at, problem] of [
    [past, `Expiry must be in the future [input: ${past}]`],
    [0, "Expiry must be in the future [input: 0]"],
    [-1, "Expiry must be in the future [input: -1]"],
    [past + 0.5, integer(past + 0.5)],
    [String(past + DAY), integer(past + DAY)],
    [true, integer(true)],
    [4_102_444_801, "Input should be less than or equal to 4102444800 [input: 4102444801]"],
  ] as const) {
    const answer = await allow({ expires_at });
    assert.equal(
      { status: answer.status, body: answer.body },
      { status: 400, body: { message: "Input payload validation failed", errors: { expires_at: problem } } },
    );
  }
  assert.equal([revision.get(env), snapshots(), endJobs()], before);
  assert.equal(await list(), []);
  assert.is(server.store.allowlists.findLatest(1, fingerprint), null);
  assert.equal(auditOf(at), []);
});

test("clients that send no end see the same bodies as before", async () => {
  const { at, env, fingerprint, allow, list, assert: verdict } = await given();
  const answer = await allow();
  assert.equal(answer.body, input(fingerprint));
  const [entry] = await list();
  assert.equal(entry, {
    artifact_name: "nginx",
    fingerprint,
    environment_name: env,
    timestamp: entry?.["timestamp"],
    user_name: `${at.org}-admin`,
    description: "INC-7",
  });
  assert.equal(Object.keys((await verdict())["allow_listing"]), [
    "allowlist_id",
    "allowed_by_user_id",
    "timestamp",
    "description",
  ]);
});

test.run();
