/** From a change to the messages in the outbox (semantics 8.4), over the whole server. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { NotifyPayload } from "../../src/store/notifications/triggers.ts";
import { ENVIRONMENT_TRIGGERS, FLOW_TRIGGERS } from "../../src/domain/notification/triggers.ts";
import { freshCommit, freshFingerprint, startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { running, runningIn } from "../api/environments/given.ts";
import { HOOK, actionsIn } from "../api/notifications/receivers.ts";

const test = suite("notifications/compose-messages");
let server: TestServer;
let world: ReturnType<typeof runningIn>;
let tell: ReturnType<typeof actionsIn>;
test.before(async () => {
  server = await startServer();
  world = runningIn(server);
  tell = actionsIn(server);
});
test.after(() => server.stop());

type At = { org: string; key: string };
const PROVENANCE = "artifacts:\n  provenance:\n    required: true\n";
/** The events of the messages sent, each with its artifact. */
const events = async (at: At): Promise<string[]> =>
  (await tell.sent(at)).map(({ body }) =>
    [body["event_type"], body["artifact"]?.name].filter((word) => word !== undefined).join(" "),
  );
const BASE = "http://assay.test";

test("a snapshot adds no job without an action that listens to one of its triggers", async () => {
  const at = server.given.org();
  const [one, two] = [world.environment(at), world.environment(at)];
  await tell.action(at, { environments: [one], triggers: ["ON_ALLOWED_ARTIFACT"] });
  await tell.action(at, { environments: [one], triggers: [] });
  world.report(at, one, [running("web", freshFingerprint())]);
  world.report(at, two, [running("web", freshFingerprint())]);
  assert.is(tell.waiting(), 0);
  assert.equal(await tell.sent(at), []);
});

test("sends starts, changes, exits and changes of compliance in order, as the contract says", async () => {
  const at = server.given.org();
  const env = world.environment(at);
  const flow = await server.given.flow(at);
  const trail = await server.given.trail(at, { flow });
  const [known, unknown] = [freshFingerprint(), freshFingerprint()];
  const commit = freshCommit();
  await server.given.artifact(at, {
    flow,
    trail,
    fingerprint: known,
    commit,
    filename: "web:1",
    build_url: "https://ci.test/7",
    commit_url: "https://git.test/c",
  });
  const policy = await server.given.policy(at, { yaml: PROVENANCE });
  world.attach(at, env, policy);
  const name = await tell.action(at, { environments: [env], triggers: ENVIRONMENT_TRIGGERS });

  world.report(at, env, [running("web", known, 1, 2)]);
  const snapshotAt = world.times(at, env)[0] as number;
  const [first, ...none] = await tell.sent(at);
  assert.equal(none, []);
  const artifactId = server.db.prepare("SELECT public_id FROM artifacts WHERE fingerprint = ?").pluck().get(known);
  const targetId = server.db
    .prepare("SELECT t.id FROM notification_targets t JOIN actions a ON a.id = t.action_id WHERE a.name = ?")
    .pluck()
    .get(name);
  assert.equal(first, {
    type: "WEBHOOK",
    subject: `${name}: STARTED_ARTIFACT in ${env} #1`,
    queue: `target ${targetId}`,
    target: { webhook: HOOK },
    body: {
      version: "1.0",
      timestamp: String(Math.floor(snapshotAt)),
      org: at.org,
      environment: env,
      event_type: "STARTED_ARTIFACT",
      description: `Artifact web started running (2 instances, compliant) in environment ${env}`,
      snapshot: {
        index: "1",
        status: "compliant",
        html_url: `${BASE}/${at.org}/environments/${env}/1`,
        api_url: `${BASE}/api/v2/snapshots/${at.org}/${env}/1`,
      },
      artifact: {
        name: "web",
        fingerprint: known,
        provenance: {
          flow,
          status: "compliant",
          commit,
          commit_url: "https://git.test/c",
          html_url: `${BASE}/${at.org}/flows/${flow}/artifacts/${known}?artifact_id=${artifactId}`,
          api_url: `${BASE}/api/v2/artifacts/${at.org}/${flow}/fingerprint/${known}`,
          build_url: "https://ci.test/7",
        },
      },
    },
  });

  world.report(at, env, [running("web", known, 1, 2), running("odd", unknown)]);
  world.allow(at, env, unknown);
  world.report(at, env, [running("web", known, 1, 2, 3, 4)]);
  const later = (await tell.sent(at)).slice(1).map(({ body }) => body);
  assert.equal(
    later.map(({ event_type, description, snapshot, artifact }) => [
      event_type,
      description,
      snapshot.index,
      snapshot.status,
      artifact ?? null,
    ]),
    [
      [
        "NON_COMPLIANT_ENV",
        `Environment ${env} is non-compliant: 1 artifact is not compliant`,
        "2",
        "non-compliant",
        null,
      ],
      [
        "STARTED_ARTIFACT",
        `Artifact odd started running (1 instance, non-compliant) in environment ${env}`,
        "2",
        "non-compliant",
        { name: "odd", fingerprint: unknown },
      ],
      ["COMPLIANT_ENV", `Environment ${env} is compliant again`, "3", "compliant", null],
      [
        "SCALED_ARTIFACT",
        `Artifact odd became compliant in environment ${env}`,
        "3",
        "compliant",
        { name: "odd", fingerprint: unknown },
      ],
      [
        "EXITED_ARTIFACT",
        `Artifact odd stopped running (1 instance) in environment ${env}`,
        "4",
        "compliant",
        { name: "odd", fingerprint: unknown },
      ],
    ],
  );
  const strings = (value: unknown): boolean =>
    typeof value === "object" && value !== null ? Object.values(value).every(strings) : typeof value === "string";
  assert.ok(later.every(strings), "every scalar of a payload is a string");
});

test("changed instance counts raise nothing, new provenance does", async () => {
  const at = server.given.org();
  const env = world.environment(at);
  const fingerprint = freshFingerprint();
  world.report(at, env, [running("web", fingerprint)]);
  await tell.action(at, { environments: [env], triggers: ["ON_SCALED_ARTIFACT"] });
  world.report(at, env, [running("web", fingerprint, 1, 2, 3)]);
  assert.equal(await events(at), []);
  const flow = await server.given.flow(at);
  await server.given.artifact(at, { flow, trail: await server.given.trail(at, { flow }), fingerprint });
  world.report(at, env, [running("web", fingerprint, 1, 2, 3)]);
  const [sent] = await tell.sent(at);
  assert.is(sent?.body["description"], `Artifact web has new provenance (unknown) in environment ${env}`);
  assert.equal(
    { status: sent?.body["snapshot"].status, flow: sent?.body["artifact"].provenance.flow },
    { status: "non-compliant", flow },
  );
});

test("an environment of unknown compliance can become non-compliant, but compliant only after that", async () => {
  const at = server.given.org();
  const policy = await server.given.policy(at, { yaml: PROVENANCE });
  const flow = await server.given.flow(at);
  const good = await server.given.artifact(at, { flow, trail: await server.given.trail(at, { flow }) });
  const bad = freshFingerprint();
  const [unknownToBad, unknownToGood, detached] = [world.environment(at), world.environment(at), world.environment(at)];
  await tell.action(at, {
    environments: [unknownToBad, unknownToGood, detached],
    triggers: ["ON_COMPLIANT_ENV", "ON_NON_COMPLIANT_ENV"],
  });
  const sentEvents = async () =>
    (await tell.sent(at)).map(({ body }) => `${body["event_type"]} ${body["environment"]} ${body["snapshot"].index}`);

  world.report(at, unknownToBad, [running("web", bad)]);
  assert.equal(await sentEvents(), []);
  world.attach(at, unknownToBad, policy);
  world.report(at, unknownToGood, [running("web", good)]);
  world.attach(at, unknownToGood, policy);
  assert.equal(await sentEvents(), [`NON_COMPLIANT_ENV ${unknownToBad} 2`]);

  // Without policies in between, compliance is unknown, and the last known value counts.
  world.attach(at, detached, policy);
  world.report(at, detached, [running("web", bad)]);
  const organization = server.store.organizations.find(at.org) as { id: number; name: string };
  server.store.environments.detachPolicies(world.idOf(at, detached), [
    server.store.policies.require(organization, policy).id,
  ]);
  server.store.snapshotRecorder.record(server.store.environments.get(world.idOf(at, detached)), {
    cause: "policies",
    artifacts: null,
    actor: {
      publicId: "u",
      displayName: "U",
    },
  });
  world.attach(at, detached, policy);
  assert.equal(await sentEvents(), [`NON_COMPLIANT_ENV ${unknownToBad} 2`, `NON_COMPLIANT_ENV ${detached} 1`]);
  world.report(at, detached, [running("web", good)]);
  assert.equal((await sentEvents()).slice(2), [`COMPLIANT_ENV ${detached} 4`]);
});

test("an allowlist entry is sent before its consequences, also without a new snapshot", async () => {
  const at = server.given.org();
  const policy = await server.given.policy(at, { yaml: PROVENANCE });
  const env = world.environment(at, { type: "K8S" });
  const group = world.environment(at, { type: "logical", members: [env] });
  world.attach(at, env, policy);
  await tell.action(at, { name: "one", environments: [env], triggers: ["ON_ALLOWED_ARTIFACT", "ON_COMPLIANT_ENV"] });
  await tell.action(at, { name: "all", environments: [group], triggers: ["ON_ALLOWED_ARTIFACT"] });
  const fingerprint = freshFingerprint();
  const allow = (description: string) =>
    server.call("PUT", `/allowlists/${at.org}/${env}`, {
      key: at.key,
      body: { artifact_fingerprint: fingerprint, artifact_name: "nginx", description },
    });
  assert.is((await allow("")).status, 201);
  const [early, grouped, ...none] = await tell.sent(at);
  assert.equal(none, []);
  assert.equal(
    {
      event_type: early?.body["event_type"],
      description: early?.body["description"],
      snapshot: early?.body["snapshot"],
      artifact: early?.body["artifact"],
    },
    {
      event_type: "ALLOWED_ARTIFACT",
      description: `${at.org}-admin allowed artifact nginx in environment ${env}`,
      snapshot: {
        index: "0",
        status: "non-compliant",
        html_url: `${BASE}/${at.org}/environments/${env}`,
        api_url: `${BASE}/api/v2/environments/${at.org}/${env}`,
      },
      artifact: { name: "nginx", fingerprint },
    },
  );
  assert.is(grouped?.body["environment"], group);

  world.report(at, env, [running("nginx", fingerprint), running("other", freshFingerprint())]);
  assert.is((await allow("as agreed")).status, 201);
  assert.is((await allow("as agreed")).status, 201);
  const later = (await tell.sent(at)).slice(2);
  assert.equal(
    later.map(({ subject, body }) => [subject, body["description"], body["snapshot"].index]),
    [
      [
        `one: ALLOWED_ARTIFACT in ${env} #1`,
        `${at.org}-admin allowed artifact nginx in environment ${env}: as agreed`,
        "1",
      ],
      [
        `all: ALLOWED_ARTIFACT in ${group} #1`,
        `${at.org}-admin allowed artifact nginx in environment ${group}: as agreed`,
        "1",
      ],
    ],
  );
});

test("a logical environment sends events of its members under its own name and snapshot number", async () => {
  const at = server.given.org();
  const policy = await server.given.policy(at, { yaml: PROVENANCE });
  const [one, two] = [world.environment(at), world.environment(at)];
  world.attach(at, one, policy);
  world.attach(at, two, policy);
  const group = world.environment(at, { type: "logical", members: [one, two] });
  await tell.action(at, { environments: [group], triggers: ENVIRONMENT_TRIGGERS });
  const fingerprint = freshFingerprint();
  world.report(at, one, [running("web", fingerprint)]);
  world.report(at, two, [running("db", fingerprint)]);
  assert.equal(
    (await tell.sent(at)).map(({ body }) => [
      body["environment"],
      body["event_type"],
      body["snapshot"].index,
      body["snapshot"].html_url,
      body["description"],
    ]),
    [
      [
        group,
        "NON_COMPLIANT_ENV",
        "1",
        `${BASE}/${at.org}/environments/${group}/1`,
        `Environment ${group} is non-compliant: 1 artifact is not compliant`,
      ],
      [
        group,
        "STARTED_ARTIFACT",
        "1",
        `${BASE}/${at.org}/environments/${group}/1`,
        `Artifact web started running (1 instance, non-compliant) in environment ${one}`,
      ],
      [
        group,
        "STARTED_ARTIFACT",
        "2",
        `${BASE}/${at.org}/environments/${group}/2`,
        `Artifact db started running (1 instance, non-compliant) in environment ${two}`,
      ],
    ],
  );
});

test("flows send events of trails, also of those that a report begins, artifacts and attestations", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  await tell.action(at, { name: "all", flows: [flow], triggers: FLOW_TRIGGERS });
  await server.given.trail(at, { flow, name: "t1" });
  await server.given.trail(at, { flow, name: "t1" });
  const fingerprint = await server.given.artifact(at, {
    flow,
    trail: "t2",
    name: "app",
    commit: "c".repeat(40),
    build_url: "https://ci.test/1",
    commit_url: "https://git.test/1",
  });
  await server.given.artifact(at, { flow, trail: "t2", name: "app", commit: "c".repeat(40), fingerprint });
  const attestation = await server.given.attestation(at, {
    flow,
    trail: "t2",
    name: "scan",
    fingerprint,
    is_compliant: false,
  });
  await server.given.attestation(at, { flow, trail: "t3", name: "review" });
  await server.given.artifact(at, { flow, trail: null, name: "lonely" });

  const sent = await tell.sent(at);
  assert.equal(
    sent.map(({ subject, body }) => [subject, body["description"]]),
    [
      [`all: STARTED_TRAIL in ${flow}/t1`, `${at.org}-admin began trail t1 of flow ${flow}`],
      [`all: STARTED_TRAIL in ${flow}/t2`, `${at.org}-admin began trail t2 of flow ${flow}`],
      [`all: ATTESTED_PROVENANCE in ${flow}/t2`, `${at.org}-admin reported artifact app to trail t2 of flow ${flow}`],
      [
        `all: ATTESTATION in ${flow}/t2`,
        `${at.org}-admin reported attestation scan (generic) to trail t2 of flow ${flow}: non-compliant`,
      ],
      [`all: STARTED_TRAIL in ${flow}/t3`, `${at.org}-admin began trail t3 of flow ${flow}`],
      [
        `all: ATTESTATION in ${flow}/t3`,
        `${at.org}-admin reported attestation review (generic) to trail t3 of flow ${flow}: compliant`,
      ],
      [`all: ATTESTED_PROVENANCE in ${flow}`, `${at.org}-admin reported artifact lonely to flow ${flow}`],
    ],
  );
  const artifactId = server.db
    .prepare("SELECT public_id FROM artifacts WHERE fingerprint = ?")
    .pluck()
    .get(fingerprint);
  const { timestamp, ...payload } = (sent[3]?.body ?? {}) as Record<string, unknown>;
  assert.match(String(timestamp), /^\d{10}$/);
  assert.equal(payload, {
    version: "1.0",
    org: at.org,
    flow,
    event_type: "ATTESTATION",
    description: `${at.org}-admin reported attestation scan (generic) to trail t2 of flow ${flow}: non-compliant`,
    trail: {
      name: "t2",
      status: "non-compliant",
      html_url: `${BASE}/${at.org}/flows/${flow}/trails/t2`,
      api_url: `${BASE}/api/v2/trails/${at.org}/${flow}/t2`,
    },
    artifact: {
      name: "app",
      fingerprint,
      status: "non-compliant",
      commit: "c".repeat(40),
      commit_url: "https://git.test/1",
      html_url: `${BASE}/${at.org}/flows/${flow}/artifacts/${fingerprint}?artifact_id=${artifactId}`,
      api_url: `${BASE}/api/v2/artifacts/${at.org}/${flow}/fingerprint/${fingerprint}`,
      build_url: "https://ci.test/1",
    },
    attestation: {
      id: attestation,
      name: "scan",
      type: "generic",
      status: "non-compliant",
      html_url: `${BASE}/${at.org}/flows/${flow}/trails/t2?attestation_id=${attestation}`,
      api_url: `${BASE}/api/v2/attestations/${at.org}?attestation_id=${attestation}`,
    },
  });
  assert.equal(Object.keys(sent[6]?.body ?? {}), [
    "version",
    "timestamp",
    "org",
    "flow",
    "event_type",
    "description",
    "html_url",
    "api_url",
    "artifact",
  ]);
});

test("a refused write sends nothing", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  await tell.action(at, { flows: [flow], triggers: FLOW_TRIGGERS });
  const jobs = tell.waiting();
  // The report begins the trail, and its refusal rolls that back.
  const answer = await server.call("POST", `/attestations/${at.org}/${flow}/trail/new/generic`, {
    key: at.key,
    form: { json: { attestation_name: "a", is_compliant: true, artifact_fingerprint: freshFingerprint() } },
  });
  assert.is(answer.status, 404);
  assert.is(tell.waiting(), jobs);
  assert.equal(await tell.sent(at), []);
});

test("people get one message per trigger and snapshot, webhooks one per event, in short turns", async () => {
  const at = server.given.org();
  const env = world.environment(at);
  await tell.action(at, {
    name: "both",
    environments: [env],
    triggers: ["ON_STARTED_ARTIFACT", "ON_EXITED_ARTIFACT"],
    targets: [
      { type: "WEBHOOK", webhook: HOOK },
      { type: "SLACK", webhook: "https://hooks.slack.com/x" },
      { type: "EMAIL", emails: ["ada@example.com", "bob@example.com"] },
      { type: "PAGER", number: 7 },
    ],
  });
  const many = Array.from({ length: 250 }, (_, n) => running(`web-${String(n).padStart(3, "0")}`, freshFingerprint()));
  world.report(at, env, many);
  const first = tell.waiting();
  assert.is(first, 1, "one job, whatever the size of the snapshot");
  const sent = await tell.sent(at);
  const of = (type: string) => sent.filter((message) => message.type === type);
  assert.equal(
    {
      webhooks: of("WEBHOOK").length,
      chats: of("SLACK").length,
      mails: of("EMAIL").length,
      all: sent.length,
    },
    { webhooks: 250, chats: 1, mails: 1, all: 252 },
  );
  assert.equal(
    of("WEBHOOK").map(({ body }) => body["artifact"].name),
    many.map(({ name }) => name),
    "each once and in order",
  );
  const [mail] = of("EMAIL");
  assert.equal(mail?.target, { emails: ["ada@example.com", "bob@example.com"] });
  assert.is(mail?.body["subject"], `${env}: artifact started (250)`);
  assert.match(mail?.body["text"], /web-019 started running \(1 instance, unknown\)\n- and 230 more\n/);
  assert.is.not(/web-020/.test(mail?.body["text"]), true);
  assert.is(tell.waiting(), 0);

  world.report(at, env, many.slice(1));
  const exits = (await tell.sent(at)).slice(252);
  assert.equal(
    exits.map(({ type, subject }) => [type, subject]),
    [
      ["SLACK", `both: EXITED_ARTIFACT in ${env} #2`],
      ["EMAIL", `both: EXITED_ARTIFACT in ${env} #2`],
      ["WEBHOOK", `both: EXITED_ARTIFACT in ${env} #2`],
    ],
  );
});

test("an action created after the change gets nothing, and a deleted action sends nothing", async () => {
  const at = server.given.org();
  const env = world.environment(at);
  const triggers = ["ON_STARTED_ARTIFACT"] as const;
  await tell.action(at, { name: "first", environments: [env], triggers });
  await tell.action(at, { name: "gone", environments: [env], triggers });
  world.report(at, env, [running("web", freshFingerprint())]);
  assert.is(tell.waiting(), 1);
  // Directly in the tables, because a commit through the API would wake the runner before the change is done.
  const organization = server.store.organizations.find(at.org) as { id: number; name: string };
  const gone = server.store.actions.findByName(organization.id, "gone");
  if (gone) server.store.actions.delete(gone);
  const fields = { name: "late", triggers, places: [world.idOf(at, env)], targets: [], newSecret: () => "s" };
  server.store.actions.create(
    organization.id,
    { kind: "env", ...fields, targets: [{ type: "WEBHOOK", target: { type: "WEBHOOK", webhook: HOOK } }] },
    { user: "u", fromChat: false },
  );
  assert.equal(
    (await tell.sent(at)).map(({ subject }) => subject),
    [`first: STARTED_ARTIFACT in ${env} #1`],
  );
});

test("a flow renamed before the message is composed has its current name", async () => {
  const at = server.given.org();
  const env = world.environment(at);
  const flow = await server.given.flow(at);
  const fingerprint = await server.given.artifact(at, { flow, trail: "t" });
  await tell.action(at, { environments: [env], triggers: ["ON_STARTED_ARTIFACT"] });
  world.report(at, env, [running("web", fingerprint)]);
  const renamed = await server.call("PUT", `/flows/${at.org}/${flow}/rename`, {
    key: at.key,
    body: { new_name: `${flow}-moved` },
  });
  assert.is(renamed.status, 200, renamed.text);
  await server.given.flow(at, { name: flow });
  const [sent] = await tell.sent(at);
  assert.ok(sent);
  const { provenance } = sent.body["artifact"];
  assert.is(provenance.flow, `${flow}-moved`);
  for (const address of [provenance.html_url, provenance.api_url])
    assert.ok(address.includes(`/${flow}-moved/`), address);
});

test("an artifact with damaged facts is sent without provenance", async () => {
  const at = server.given.org();
  const env = world.environment(at);
  await tell.action(at, { environments: [env], triggers: ["ON_STARTED_ARTIFACT"] });
  world.report(at, env, [running("web", freshFingerprint())]);
  server.db.prepare("UPDATE evaluations SET facts_json = '{' WHERE environment_id = ?").run(world.idOf(at, env));
  const [sent] = await tell.sent(at);
  assert.equal(Object.keys(sent?.body["artifact"]), ["name", "fingerprint"]);
});

test("a damaged action or target does not affect other recipients", async () => {
  const at = server.given.org();
  const env = world.environment(at);
  const targets = [
    { type: "WEBHOOK", webhook: HOOK },
    { type: "SLACK", webhook: "https://hooks.slack.com/x" },
  ];
  for (const name of ["good", "half", "odd"])
    await tell.action(at, { name, environments: [env], triggers: ["ON_STARTED_ARTIFACT"], targets });
  world.report(at, env, [running("web", freshFingerprint())]);
  const damage = (table: string, column: string, name: string, more = "") =>
    server.db
      .prepare(
        `UPDATE ${table} SET ${column} = '{' WHERE ${table === "actions" ? "id" : "action_id"} =
           (SELECT id FROM actions
             WHERE name = ? AND organization_id = (SELECT id FROM organizations WHERE name = ?)) ${more}`,
      )
      .run(name, at.org);
  damage("actions", "triggers_json", "odd");
  damage("notification_targets", "target_json", "half", "AND type = 'SLACK'");
  assert.equal(
    (await tell.sent(at)).map(({ type, subject }) => `${type} ${subject}`),
    [
      `SLACK good: STARTED_ARTIFACT in ${env} #1`,
      `WEBHOOK good: STARTED_ARTIFACT in ${env} #1`,
      `WEBHOOK half: STARTED_ARTIFACT in ${env} #1`,
    ],
  );
  assert.is(tell.waiting(), 0);
});

test("a job repeated after a crash adds no message twice", async () => {
  const at = server.given.org();
  const env = world.environment(at);
  await tell.action(at, { environments: [env], triggers: ["ON_STARTED_ARTIFACT"] });
  world.report(at, env, [running("web", freshFingerprint())]);
  const job = server.db.prepare("SELECT id, payload_json FROM jobs WHERE kind = 'notify'").get() as {
    id: number;
    payload_json: string;
  };
  assert.equal(Object.keys(JSON.parse(job.payload_json) as NotifyPayload).sort(), [
    "actions",
    "after",
    "at",
    "environment_id",
    "index",
    "organization_id",
    "type",
  ]);
  // The lease of a dead process: none of its work is stored, because the outbox and the job are one write.
  server.db.prepare("UPDATE jobs SET leased_until = 9e9, attempts = 1 WHERE id = ?").run(job.id);
  assert.equal(await tell.sent(at), []);
  server.store.jobs.releaseAllLeases();
  assert.is((await tell.sent(at)).length, 1);
});

test.run();
