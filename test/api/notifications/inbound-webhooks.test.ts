/** Inbound webhooks: signed bodies become flows, trails and attestations (semantics 8.6). */
import { createHmac } from "node:crypto";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { WebhookKind } from "../../../src/store/notifications/inbound-webhooks.ts";
import { fresh, freshFingerprint, startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { dial } from "../../http/socket.ts";
import { newSecret } from "../../../src/clock.ts";

const test = suite("api/notifications/inbound-webhooks");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type Json = Record<string, any>;
type At = { org: string; key: string };
type Hook = ReturnType<TestServer["given"]["webhook"]>;
const SHA = "c739069ec7105e01303e8b3065a81141aad9f129";
const HEADERS: Record<WebhookKind, string> = {
  sonar: "X-Sonar-Webhook-HMAC-SHA256",
  "launch-darkly": "x-ld-signature",
};

/** An organization with an enabled webhook of that kind. */
function givenWebhook(kind: WebhookKind, settings?: object): { at: At; hook: Hook } {
  const at = server.given.org();
  return { at, hook: server.given.webhook(at.org, kind, settings ? { settings } : {}) };
}
const sign = (hook: Hook, text: string): string => createHmac("sha256", hook.secret).update(text).digest("hex");
const send = (hook: Hook, body: unknown, signature?: string | null) => {
  const raw = typeof body === "string" ? body : JSON.stringify(body);
  const sent = signature === undefined ? sign(hook, raw) : signature;
  return server.call("POST", `/webhooks/${hook.kind}/${hook.id}`, {
    raw,
    headers: { "Content-Type": "application/json", ...(sent === null ? {} : { [HEADERS[hook.kind]]: sent }) },
  });
};
const scan = (properties: Json = {}, more: Json = {}): Json => ({
  serverUrl: "https://sonar.test",
  taskId: fresh("task"),
  status: "SUCCESS",
  analysedAt: "2026-01-31T12:00:00+0100",
  revision: SHA,
  project: { key: "web", name: "Web Shop", url: "https://sonar.test/dashboard?id=web" },
  qualityGate: {
    name: "Sonar way",
    status: "OK",
    conditions: [{ metric: "new_coverage", operator: "LESS_THAN", errorThreshold: "80", status: "NO_VALUE" }],
  },
  properties: Object.fromEntries(
    Object.entries(properties).map(([name, value]) => [`sonar.analysis.kosli_${name}`, value]),
  ),
  ...more,
});
const read = async (at: At, path: string): Promise<any> => {
  const answer = await server.call("GET", path, { key: at.key });
  assert.is(answer.status, 200, answer.text);
  return answer.body;
};
/** Row counts of all tables, to show that a refusal stores nothing. */
const rowCounts = (): Json =>
  Object.fromEntries(
    (
      server.db
        .prepare("SELECT name FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite_%'")
        .pluck()
        .all() as string[]
    ).map((name) => [name, server.db.prepare(`SELECT count(*) FROM ${name}`).pluck().get()]),
  );
async function assertRefused(answer: () => ReturnType<typeof send>, status: number, body: Json): Promise<void> {
  const before = rowCounts();
  const { status: got, body: told } = await answer();
  assert.equal({ got, told }, { got: status, told: body });
  assert.equal(rowCounts(), before);
}

test("records a scan where its properties say, by the webhook's service account", async () => {
  const { at, hook } = givenWebhook("sonar");
  const sent = scan({
    flow: "backend",
    trail: "release-7",
    attestation: "quality",
    flow_description: "The back end",
    trail_description: "Release 7",
  });
  const answer = await send(hook, sent);
  assert.equal({ status: answer.status, body: answer.body }, { status: 200, body: "OK" });
  const flow = await read(at, `/flows/${at.org}/backend`);
  assert.equal(
    { description: flow.description, visibility: flow.visibility, template: flow.template },
    { description: "The back end", visibility: "private", template: "version: 1" },
  );
  const trail = await read(at, `/trails/${at.org}/backend/release-7`);
  assert.equal(
    { description: trail.description, compliance_state: trail.compliance_state, created_by: trail.created_by },
    { description: "Release 7", compliance_state: "COMPLIANT", created_by: "sonar-webhook" },
  );
  assert.equal(
    trail.events.map(({ type }: Json) => type),
    ["trail_reported", "trail_attestation_reported"],
  );
  const [record, ...more] = await read(at, `/attestations/${at.org}/backend/trail/release-7/quality`);
  assert.equal(more, []);
  assert.equal(
    {
      attestation_type: record.attestation_type,
      is_compliant: record.is_compliant,
      reported_by: record.reported_by,
      origin_url: record.origin_url,
      sha1: record.git_commit_info.sha1,
      sonar_results: record.sonar_results,
    },
    {
      attestation_type: "sonar",
      is_compliant: true,
      reported_by: "sonar-webhook",
      origin_url: "https://sonar.test/dashboard?id=web",
      sha1: SHA,
      sonar_results: sent,
    },
  );
  const [audited] = server.db
    .prepare(
      "SELECT event, operation, actor_kind, actor_name, key_id, target, detail_json FROM audit_log " +
        "ORDER BY id DESC LIMIT 1",
    )
    .all() as Json[];
  assert.equal(
    { ...audited, detail_json: null },
    {
      event: "webhook.received",
      operation: "sonar_qube_webhook",
      actor_kind: "service_account",
      actor_name: "sonar-webhook",
      key_id: "",
      // The id of the webhook is half of a credential.
      target: "/webhooks/sonar/{hook_uid}",
      detail_json: null,
    },
  );
  assert.equal(JSON.parse(audited?.["detail_json"]), {
    flow: "backend",
    created: true,
    trail_begun: "release-7",
    attestation_id: record.attestation_id,
    attestation_name: "quality",
    attestation_type: "sonar",
    is_compliant: true,
    trail_state: "COMPLIANT",
    webhook: "sonar",
    trail: "release-7",
  });
  assert.not.match(server.lines.join(""), hook.id);
});

test("without properties uses project and revision; existing flows and trails are unchanged", async () => {
  const { at, hook } = givenWebhook("sonar", { from: "name", prefix: "sonar-", suffix: "" });
  assert.is((await send(hook, scan({ flow_description: "first" }))).status, 200);
  assert.is(
    (
      await send(
        hook,
        scan(
          { flow_description: "second", trail_description: "second" },
          { qualityGate: { name: "Sonar way", status: "ERROR", conditions: [] } },
        ),
      )
    ).status,
    200,
  );
  const flow = await read(at, `/flows/${at.org}/sonar-Web-Shop`);
  const trail = await read(at, `/trails/${at.org}/sonar-Web-Shop/${SHA}`);
  assert.equal(
    {
      flowDescription: flow.description,
      trailDescription: trail.description,
      trailState: trail.compliance_state,
    },
    { flowDescription: "first", trailDescription: "", trailState: "NON-COMPLIANT" },
  );
  const records = await read(at, `/attestations/${at.org}/sonar-Web-Shop/trail/${SHA}/sonar`);
  assert.equal(
    records.map(({ is_compliant }: Json) => is_compliant),
    [false, true],
  );
});

test("a scan without a quality gate is not compliant; one without a revision requires a trail", async () => {
  const { at, hook } = givenWebhook("sonar");
  assert.is(
    (await send(hook, scan({ trail: "t" }, { revision: undefined, qualityGate: undefined, status: "FAILED" }))).status,
    200,
  );
  const [record] = await read(at, `/attestations/${at.org}/web/trail/t/sonar`);
  assert.equal(
    {
      is_compliant: record.is_compliant,
      git_commit_info: record.git_commit_info,
      revision: record.sonar_results.revision,
    },
    { is_compliant: false, git_commit_info: null, revision: "" },
  );
  await assertRefused(() => send(hook, scan({}, { revision: undefined })), 400, {
    message: "Input payload validation failed",
    errors: {
      "properties.sonar.analysis.kosli_trail": "The scan has no revision to name a trail after: set this property",
    },
  });
});

/** The body that SonarQube sends for a task that ended without an analysis. */
const unfinished = (status: string, properties: Json = {}): Json => {
  const whole = scan(properties, { taskId: fresh("AXouyx-"), status });
  const { analysedAt: _at, revision: _revision, qualityGate: _gate, ...rest } = whole;
  const branch = { name: "main", type: "BRANCH", isMain: true, url: "https://sonar.test/dashboard?id=web" };
  return { ...rest, branch };
};

for (const status of ["FAILED", "CANCELED"])
  test(`records a ${status} task as not compliant with the reason, in a trail named after it`, async () => {
    const { at, hook } = givenWebhook("sonar");
    const sent = unfinished(status);
    const now = server.clock.at;
    const answer = await send(hook, sent);
    assert.equal({ status: answer.status, body: answer.body }, { status: 200, body: "OK" });
    const [record, ...more] = await read(at, `/attestations/${at.org}/web/trail/${sent.taskId}/sonar`);
    assert.equal(more, []);
    assert.equal(
      {
        compliant: record.is_compliant,
        commit: record.git_commit_info,
        results: record.sonar_results,
        origin: record.origin_url,
      },
      { compliant: false, commit: null, results: { ...sent, revision: "" }, origin: sent.project.url },
    );
    assert.ok(record.created_at > now && record.created_at <= server.clock.at, "the time is that of the server");
    assert.is((await read(at, `/trails/${at.org}/web/${sent.taskId}`)).compliance_state, "NON-COMPLIANT");
    const reasonsOf = server.db.prepare("SELECT reasons_json FROM attestations WHERE public_id = ?").pluck();
    const reason = `SonarQube task '${sent.taskId}' has status '${status}': there is no analysis`;
    assert.equal(JSON.parse(reasonsOf.get(record.attestation_id) as string), [reason]);
  });

test("records a failed task where its properties say; a commit in them names its trail", async () => {
  const { at, hook } = givenWebhook("sonar");
  const properties = { flow: "backend", trail: "release-7", attestation: "quality" };
  assert.is((await send(hook, unfinished("FAILED", properties))).status, 200);
  assert.is((await read(at, `/attestations/${at.org}/backend/trail/release-7/quality`)).length, 1);
  assert.is((await send(hook, unfinished("FAILED", { git_commit: SHA }))).status, 200);
  const [record] = await read(at, `/attestations/${at.org}/web/trail/${SHA}/sonar`);
  assert.equal(
    { is_compliant: record.is_compliant, sha1: record.git_commit_info.sha1 },
    { is_compliant: false, sha1: SHA },
  );
});

test("requires a trail for a failed task without an id, and the analysis time for a finished one", async () => {
  const { hook } = givenWebhook("sonar");
  const problem = "The scan has no revision to name a trail after: set this property";
  await assertRefused(() => send(hook, { ...unfinished("FAILED"), taskId: null }), 400, {
    message: "Input payload validation failed",
    errors: { "properties.sonar.analysis.kosli_trail": problem },
  });
  for (const status of ["SUCCESS", "PENDING", null])
    await assertRefused(() => send(hook, { ...unfinished("x"), status }), 400, {
      message: "Input payload validation failed",
      errors: { analysedAt: "Field required" },
    });
});

test("identifies artifacts by fingerprint or by a dotted name", async () => {
  const { at, hook } = givenWebhook("sonar");
  const flow = await server.given.flow(at, { name: "backend" });
  const trail = await server.given.trail(at, { flow, name: "t" });
  const fingerprint = await server.given.artifact(at, { flow, trail, name: "server", commit: SHA });
  assert.is((await send(hook, scan({ flow, trail, artifact_fingerprint: fingerprint }))).status, 200);
  assert.is((await send(hook, scan({ flow, trail, attestation: "server.quality" }))).status, 200);
  const artifact = `/attestations/${at.org}/${flow}/artifact/${fingerprint}`;
  assert.is((await read(at, `${artifact}/sonar`)).length, 1);
  assert.equal(
    (await read(at, `${artifact}/quality`)).map(({ target_artifacts }: Json) => target_artifacts),
    [["server"]],
  );

  const unknown = freshFingerprint();
  await assertRefused(() => send(hook, scan({ flow: "elsewhere", trail, artifact_fingerprint: unknown })), 404, {
    message:
      `Artifact with fingerprint ${unknown} does not exist in trail "${trail}" of flow "elsewhere" belonging to ` +
      `organization "${at.org}"`,
  });
  await assertRefused(
    () => send(hook, scan({ flow, trail, attestation: "client.quality" }, { revision: "4711" })),
    400,
    {
      message:
        `Attestation 'quality' for artifact 'client', which is not in trail '${trail}', requires at least one of: ` +
        "artifact_fingerprint or git_commit_info.",
    },
  );
});

test("refuses invalid bodies by field and stores nothing", async () => {
  const { hook } = givenWebhook("sonar");
  await assertRefused(() => send(hook, scan({ flow: "-", artifact_fingerprint: "abc" })), 400, {
    message: "Input payload validation failed",
    errors: {
      "properties.sonar.analysis.kosli_flow":
        "String should match pattern '^[a-zA-Z0-9][a-zA-Z0-9\\.\\-_~]*$' [input: -]",
      "properties.sonar.analysis.kosli_artifact_fingerprint":
        "String should match pattern '^[a-f0-9]{64}$' [input: abc]",
    },
  });
  await assertRefused(() => send(hook, { analysedAt: 5, project: {} }), 400, {
    message: "Input payload validation failed",
    errors: { analysedAt: "Input should be a valid string [input: 5]", "project.key": "Field required" },
  });
  await assertRefused(() => send(hook, "{"), 400, {
    message: "Input payload validation failed",
    errors: { body: "Input should be valid JSON: unexpected character at position 1 (line 1 column 2)" },
  });
  await assertRefused(() => send(hook, "[]"), 400, {
    message: "Input payload validation failed",
    errors: { body: "Input should be a valid object [input: []]" },
  });
});

test("distinguishes an unknown id from a bad signature, and refuses both", async () => {
  for (const kind of ["sonar", "launch-darkly"] as const) {
    const { hook } = givenWebhook(kind);
    const [known, other] = [givenWebhook(kind).hook, givenWebhook(kind === "sonar" ? "launch-darkly" : "sonar").hook];
    const body = JSON.stringify(scan());
    const unauthenticated = { message: "Authentication credentials are missing or invalid" };
    for (const signature of [null, "", "x", sign(known, body), `${sign(hook, body)}00`, sign(hook, `${body} `)])
      await assertRefused(() => send(hook, body, signature), 401, unauthenticated);
    await assertRefused(() => server.call("POST", `/webhooks/${kind}/${hook.id}`), 401, unauthenticated);
    await assertRefused(() => send({ ...hook, id: newSecret() }, body), 404, { message: "Webhook not found" });
    await assertRefused(() => send({ ...other, kind }, body), 404, { message: "Webhook not found" });
    // An API key is accepted and ignored.
    const keyed = await server.call("POST", `/webhooks/${kind}/${hook.id}`, {
      raw: body,
      headers: { Authorization: "Bearer nonsense", [HEADERS[kind]]: sign(hook, body).toUpperCase() },
    });
    assert.is(keyed.status, 200, keyed.text);
  }
});

test("records a body once; a repeated delivery changes nothing", async () => {
  const { at, hook } = givenWebhook("sonar");
  const good = scan({ trail: "t" });
  const bad = scan({ trail: "t" }, { qualityGate: { name: "Sonar way", status: "ERROR", conditions: [] } });
  for (const body of [good, bad]) assert.is((await send(hook, body)).status, 200);
  await assertRefused(() => send(hook, good), 200, "OK" as never);
  assert.is((await read(at, `/trails/${at.org}/web/t`)).compliance_state, "NON-COMPLIANT");
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, number) =>
      send(hook, scan({ flow: "many", trail: "t" }, { taskId: `task-${number % 10}` })),
    ),
  );
  assert.equal(
    answers.map(({ status }) => status),
    answers.map(() => 200),
  );
  assert.is((await read(at, `/attestations/${at.org}/many/trail/t/sonar`)).length, 10);
});

test("refuses a body if the secret was replaced or the webhook disabled while it arrives", async () => {
  const { at, hook } = givenWebhook("sonar");
  const { id } = server.store.inboundWebhooks.findEnabled(
    (server.store.organizations.find(at.org) as { id: number }).id,
    "sonar",
  ) as { id: number };
  const text = JSON.stringify(scan());
  const head =
    `POST /api/v2/webhooks/sonar/${hook.id} HTTP/1.1\r\nHost: a\r\nContent-Length: ${Buffer.byteLength(text)}\r\n` +
    `${HEADERS.sonar}: ${sign(hook, text)}\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n\r\n`;
  const before = rowCounts();
  const answerTo = async (change: () => void) => {
    const wire = await dial(server.url);
    await wire.send(head);
    // 100 Continue: the webhook was found.
    assert.is((await wire.answer()).status, 100);
    change();
    await wire.send(text);
    const { status, body } = await wire.answer();
    wire.vanish();
    return [status, body];
  };
  assert.equal(await answerTo(() => server.store.inboundWebhooks.setSecret(id, "another")), [
    401,
    { message: "Authentication credentials are missing or invalid" },
  ]);
  server.store.inboundWebhooks.setSecret(id, hook.secret);
  assert.equal(await answerTo(() => server.store.inboundWebhooks.disable(id)), [404, { message: "Webhook not found" }]);
  assert.equal(rowCounts(), before);
});

test("refuses calls to a disabled webhook, and when its service account may no longer write", async () => {
  const { at, hook } = givenWebhook("sonar");
  server.store.serviceAccounts.setPrivilege(hook.account, "reader");
  await assertRefused(() => send(hook, scan()), 403, { message: "You don't have permission to access this resource" });
  server.store.serviceAccounts.setPrivilege(hook.account, "member");
  const organizationId = (server.store.organizations.find(at.org) as { id: number }).id;
  const row = server.store.inboundWebhooks.findEnabled(organizationId, "sonar");
  server.store.inboundWebhooks.setSecret(row?.id ?? 0, "another");
  await assertRefused(() => send(hook, scan()), 401, { message: "Authentication credentials are missing or invalid" });
  assert.is((await send({ ...hook, secret: "another" }, scan())).status, 200);
  server.store.inboundWebhooks.disable(row?.id ?? 0);
  await assertRefused(() => send({ ...hook, secret: "another" }, scan()), 404, { message: "Webhook not found" });
});

test("records a flag change in the trail of the flag, in the flow of the environment", async () => {
  const { at, hook } = givenWebhook("launch-darkly");
  const change = (verb: string) => ({
    _id: fresh("entry"),
    kind: "flag",
    name: "New checkout",
    titleVerb: verb,
    comment: "rollout",
    date: 1_769_860_800_000,
    member: { email: "ada@example.com", firstName: "Ada", lastName: "Lovelace" },
    target: {
      name: "New checkout",
      resources: ["proj/web:env/production:flag/new-checkout", "proj/web:env/test:flag/new-checkout"],
    },
  });
  const [on, off] = [change("turned on the flag"), change("turned off the flag")];
  for (const body of [on, off]) assert.equal((await send(hook, body)).body, "OK");
  for (const environment of ["production", "test"]) {
    const flow = `launch-darkly-${environment}`;
    assert.is(
      (await read(at, `/flows/${at.org}/${flow}`)).description,
      `Changes of LaunchDarkly flags in ${environment}`,
    );
    const trail = await read(at, `/trails/${at.org}/${flow}/new-checkout`);
    assert.equal(
      { description: trail.description, created_by: trail.created_by, is_compliant: trail.is_compliant },
      { description: "LaunchDarkly flag new-checkout", created_by: "launch-darkly-webhook", is_compliant: true },
    );
    const records = await read(at, `/attestations/${at.org}/${flow}/trail/new-checkout/flag-change`);
    assert.equal(
      records.map(({ attestation_type, description, annotations, user_data }: Json) => ({
        attestation_type,
        description,
        annotations,
        user_data,
      })),
      [off, on].map((user_data) => ({
        attestation_type: "generic",
        description: `Ada Lovelace ${user_data.titleVerb} New checkout: rollout`,
        annotations: { project: "web", environment, flag: "new-checkout" },
        user_data,
      })),
    );
  }
});

test("records a change of all environments in each that knows the flag", async () => {
  const { at, hook } = givenWebhook("launch-darkly");
  for (const environment of ["production", "staging"])
    await send(hook, { _id: environment, target: { resources: [`proj/web:env/${environment}:flag/old`] } });
  await send(hook, { target: { resources: ["proj/web:env/test:flag/other"] } });
  await server.given.trail(at, { flow: await server.given.flow(at, { name: "backend" }), name: "old" });
  const removal = {
    kind: "flag",
    name: "Old checkout",
    titleVerb: "deleted the flag",
    member: { email: "ann@example.com" },
    accesses: [{ action: "deleteFlag", resource: "proj/web:env/*:flag/old" }],
    target: { resources: ["proj/web:env/*:flag/old"] },
  };
  assert.equal((await send(hook, removal)).body, "OK");
  for (const environment of ["production", "staging"]) {
    const records = await read(at, `/attestations/${at.org}/launch-darkly-${environment}/trail/old/flag-change`);
    assert.equal(
      records.map(({ description }: Json) => description),
      ["ann@example.com deleted the flag Old checkout", "Someone changed the flag old"],
    );
    assert.equal(records[0].annotations, { project: "web", environment, flag: "old" });
  }
  assert.equal((await read(at, `/trails/${at.org}?per_page=50`)).data.map(({ name }: Json) => name).sort(), [
    "old",
    "old",
    "old",
    "other",
  ]);
  const accesses = Array.from({ length: 101 }, (_, number) => ({ resource: `proj/web:env/*:flag/f${number}` }));
  await assertRefused(() => send(hook, { accesses }), 400, {
    message: "Input payload validation failed",
    errors: { target: "A change may touch at most 100 flags and environments [input: 101]" },
  });
});

test("refuses a project whose flow would be that of another, unless a property names the flow", async () => {
  const { at, hook } = givenWebhook("sonar");
  const of = (key: string, status: string, properties: Json = {}) =>
    scan(properties, {
      project: { key, name: key, url: "https://sonar.test" },
      qualityGate: { status, conditions: [] },
    });
  assert.is((await send(hook, of("my:key", "OK"))).status, 200);
  await assertRefused(() => send(hook, of("my-key", "ERROR")), 400, {
    message: "Input payload validation failed",
    errors: {
      "project.key":
        "The flow 'my-key' records the project 'my:key'. Set the analysis property sonar.analysis.kosli_flow of one " +
        "of the two projects [input: my-key]",
    },
  });
  assert.is((await read(at, `/trails/${at.org}/my-key/${SHA}`)).compliance_state, "COMPLIANT");
  assert.is((await send(hook, of("my:key", "OK"))).status, 200, "its own scans go on");
  assert.is((await send(hook, of("my-key", "ERROR", { flow: "my-key-2" }))).status, 200);
  assert.is((await send(hook, of("third", "OK", { flow: "my-key" }))).status, 200, "who names a flow may share it");
});

test("accepts a change without an environment, but does not record it", async () => {
  const { at, hook } = givenWebhook("launch-darkly");
  const answer = await send(hook, {
    kind: "flag",
    titleVerb: "created the flag",
    target: { resources: ["proj/web:env/*:flag/new"] },
  });
  const message = "Nothing was recorded: the change names no flag in an environment";
  assert.equal({ status: answer.status, body: answer.body }, { status: 200, body: { message } });
  assert.equal(await read(at, `/flows/${at.org}`), []);
  const resources = Array.from({ length: 101 }, (_, number) => `proj/web:env/e${number}:flag/f`);
  await assertRefused(() => send(hook, { target: { resources } }), 400, {
    message: "Input payload validation failed",
    errors: { target: "A change may touch at most 100 flags and environments [input: 101]" },
  });
});

test("finds a renamed flow under its former name, and creates a new one for an archived flow", async () => {
  const { at, hook } = givenWebhook("sonar");
  assert.is((await send(hook, scan({ trail: "one" }))).status, 200);
  await server.call("PUT", `/flows/${at.org}/web/rename`, { key: at.key, body: { new_name: "shop" } });
  assert.is((await send(hook, scan({ trail: "two" }))).status, 200);
  assert.is((await read(at, `/trails/${at.org}/shop/two`)).name, "two");
  await server.call("PUT", `/flows/${at.org}/shop/archive`, { key: at.key });
  assert.is((await send(hook, scan({ flow: "shop", trail: "three" }))).status, 200);
  assert.equal(
    (await read(at, `/trails/${at.org}?flow=shop`)).data.map(({ name }: Json) => name),
    ["three"],
  );
});

test.run();
