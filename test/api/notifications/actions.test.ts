/** Actions and environment notifications, two views of one record (operations 2; wire-contract 20 and 25). */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { runningIn } from "../environments/given.ts";
import { HOOK, actionsIn } from "./receivers.ts";

const test = suite("api/notifications/actions");
let server: TestServer;
let tell: ReturnType<typeof actionsIn>;
test.before(async () => {
  server = await startServer();
  tell = actionsIn(server);
});
test.after(() => server.stop());

type At = { org: string; key: string };
type Json = Record<string, any>;
const VALIDATION = "Input payload validation failed";
const WEBHOOK = { type: "WEBHOOK", webhook: HOOK };
const body = (environments: string[], more: Json = {}): Json => ({
  name: "alerts",
  type: "env",
  environments,
  triggers: ["ON_NON_COMPLIANT_ENV"],
  targets: [WEBHOOK],
  ...more,
});
const flowBody = (flows: string[], more: Json = {}): Json => ({
  name: "builds",
  flows,
  triggers: ["ON_STARTED_TRAIL"],
  targets: [WEBHOOK],
  ...more,
});

const put = (at: At, json: unknown) =>
  server.call("PUT", `/actions/${at.org}/environments`, { key: at.key, body: json });
const putFlow = (at: At, json: unknown) => server.call("PUT", `/actions/${at.org}/flows`, { key: at.key, body: json });
const callNotifications = (at: At, method: string, number: number | string | null = null, json?: unknown) =>
  server.call(method, `/organizations/${at.org}/environments_notifications${number === null ? "" : `/${number}`}`, {
    key: at.key,
    ...(json === undefined ? {} : { body: json }),
  });
const list = async (at: At): Promise<Json[]> => (await server.call("GET", `/actions/${at.org}`, { key: at.key })).body;
const get = (at: At, number: number | string) => server.call("GET", `/actions/${at.org}/${number}`, { key: at.key });
const organizationOf = (at: At) => server.store.organizations.find(at.org) as { id: number; name: string };

/** Row counts of the tables that hold actions. */
const TABLES = [
  "actions",
  "action_numbers",
  "action_environments",
  "action_flows",
  "notification_targets",
  "audit_log",
];
const rowCounts = (): Json =>
  Object.fromEntries(TABLES.map((table) => [table, server.db.prepare(`SELECT count(*) FROM ${table}`).pluck().get()]));
const auditEntries = (at: At): unknown[] =>
  (
    server.db
      .prepare(
        "SELECT event, detail_json FROM audit_log WHERE organization_id = ? AND event LIKE 'action.%' ORDER BY id",
      )
      .all(organizationOf(at).id) as Json[]
  ).map(({ event, detail_json }) => [event, JSON.parse(detail_json)]);
const secrets = (at: At): Json[] =>
  server.db
    .prepare("SELECT id, type, secret FROM notification_targets WHERE organization_id = ? ORDER BY action_id, position")
    .all(organizationOf(at).id) as Json[];

test("creates, reads, lists and replaces an action by name, through both resources", async () => {
  const at = server.given.org();
  const [prod, staging] = [await server.given.environment(at), await server.given.environment(at)];
  const logical = await server.given.environment(at, { members: [prod] });
  const flow = await server.given.flow(at);
  const created = await put(
    at,
    body([staging, logical, prod, staging], {
      triggers: ["ON_SCALED_ARTIFACT", "ON_ALLOWED_ARTIFACT", "ON_SCALED_ARTIFACT"],
    }),
  );
  assert.equal({ status: created.status, body: created.body }, { status: 201, body: "OK" });
  const flowCreated = await putFlow(
    at,
    flowBody([flow], { triggers: ["ON_RELEASE", "ON_APPROVAL", "ON_ATTESTATION"] }),
  );
  assert.equal({ status: flowCreated.status, body: flowCreated.body }, { status: 201, body: "OK" });

  const [env, ofFlow] = await list(at);
  const shown = {
    name: "alerts",
    type: "env",
    number: 1,
    created_by: `${at.org}-admin`,
    is_created_from_slack_app: false,
    created_at: env?.["created_at"],
    last_modified_at: env?.["created_at"],
    triggers: ["ON_SCALED_ARTIFACT", "ON_ALLOWED_ARTIFACT"],
    targets: [{ type: "WEBHOOK", webhook: HOOK, payload_version: "1.0", last_success_at: null, last_failure_at: null }],
    is_failing: false,
    last_success_timestamp: null,
    last_failure_timestamp: null,
  };
  assert.equal(env, { ...shown, environments: [staging, logical, prod], flows: null });
  assert.type(env?.["created_at"], "number");
  assert.equal(
    {
      number: ofFlow?.["number"],
      type: ofFlow?.["type"],
      flows: ofFlow?.["flows"],
      environments: ofFlow?.["environments"],
      triggers: ofFlow?.["triggers"],
    },
    {
      number: 2,
      type: "flow",
      flows: [flow],
      environments: null,
      triggers: ["ON_RELEASE", "ON_APPROVAL", "ON_ATTESTATION"],
    },
  );
  assert.equal((await get(at, 1)).body, env);
  assert.equal((await callNotifications(at, "GET", 1)).body, { ...shown, environments: [staging, logical, prod] });
  assert.equal((await callNotifications(at, "GET")).body, [{ ...shown, environments: [staging, logical, prod] }]);

  const replaced = await callNotifications(at, "PUT", null, body([prod]));
  assert.equal({ status: replaced.status, body: replaced.body }, { status: 200, body: "OK" });
  const after = (await get(at, 1)).body;
  assert.equal(
    { environments: after.environments, triggers: after.triggers, created_at: after.created_at },
    { environments: [prod], triggers: ["ON_NON_COMPLIANT_ENV"], created_at: env?.["created_at"] },
  );
  assert.ok(after.last_modified_at > env?.["last_modified_at"]);
  // A repeated request does not change the modification time.
  assert.is((await put(at, body([prod]))).status, 200);
  assert.equal((await get(at, 1)).body, after);
  const detail = { action: "alerts", number: 1, targets: ["WEBHOOK"] };
  assert.equal(auditEntries(at), [
    ["action.put", { ...detail, created: true }],
    ["action.put", { action: "builds", number: 2, created: true, targets: ["WEBHOOK"] }],
    ["action.put", { ...detail, created: false, changed: true }],
    ["action.put", { ...detail, created: false, changed: false }],
  ]);
  assert.equal(await list(server.given.org()), []);
});

test("never reuses a number; each organization counts on its own", async () => {
  const at = server.given.org();
  const env = await server.given.environment(at);
  for (const name of ["a", "b", "c"]) await put(at, body([env], { name }));
  const gone = await server.call("DELETE", `/actions/${at.org}/3`, { key: at.key });
  assert.equal({ status: gone.status, body: gone.body }, { status: 200, body: "OK" });
  assert.equal(
    [(await callNotifications(at, "DELETE", 2)).status, (await callNotifications(at, "DELETE", 2)).status],
    [200, 404],
  );
  await put(at, body([env], { name: "c" }));
  assert.equal(
    (await list(at)).map(({ number, name }) => [number, name]),
    [
      [1, "a"],
      [4, "c"],
    ],
  );
  assert.equal(auditEntries(at).slice(3, 5), [
    ["action.deleted", { action: "c", number: 3 }],
    ["action.deleted", { action: "b", number: 2 }],
  ]);
  const other = server.given.org();
  await put(other, body([await server.given.environment(other)]));
  assert.is((await list(other))[0]?.["number"], 1);
});

test("answers 404 for unknown actions, and for flow actions as environment notifications", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const env = await server.given.environment(at);
  await putFlow(at, flowBody([flow]));
  const missing = (number: string | number) => [
    404,
    { message: `Action '${number}' does not exist in organization '${at.org}'` },
  ];
  const before = rowCounts();
  for (const number of [7, 0, -1, 9007199254740993n, "99999999999999999999"]) {
    const shown = String(Number(number));
    for (const answer of [
      await get(at, String(number)),
      await server.call("DELETE", `/actions/${at.org}/${number}`, { key: at.key }),
    ])
      assert.equal([answer.status, answer.body], missing(shown));
  }
  for (const answer of [
    await callNotifications(at, "GET", 1),
    await callNotifications(at, "PUT", 1, body([env])),
    await callNotifications(at, "DELETE", 1),
    await callNotifications(at, "PUT", 9, body([env])),
  ])
    assert.equal(
      [answer.status, answer.body.message.replace(/'\d'/, "'1'")],
      missing(1).map((part) => (typeof part === "object" ? (part as Json)["message"] : part)),
    );
  const word = await get(at, "seven");
  assert.equal(
    { status: word.status, body: word.body },
    {
      status: 400,
      body: { message: VALIDATION, errors: { action_number: "Input should be a valid integer [input: seven]" } },
    },
  );
  assert.equal(rowCounts(), before);
});

test("PUT by number renames, and refuses the name of another action of either kind", async () => {
  const at = server.given.org();
  const env = await server.given.environment(at);
  const flow = await server.given.flow(at);
  await put(at, body([env], { name: "one" }));
  await put(at, body([env], { name: "two" }));
  await putFlow(at, flowBody([flow], { name: "three" }));
  const before = rowCounts();
  for (const [name, kind] of [
    ["two", "An environment"],
    ["three", "A flow"],
  ]) {
    const answer = await callNotifications(at, "PUT", 1, body([env], { name }));
    assert.equal(
      { status: answer.status, body: answer.body },
      {
        status: 400,
        body: {
          message: VALIDATION,
          errors: { name: `${kind} action with this name already exists [input: ${name}]` },
        },
      },
    );
  }
  const env3 = await put(at, body([env], { name: "three" }));
  assert.equal(
    { status: env3.status, body: env3.body },
    {
      status: 400,
      body: { message: VALIDATION, errors: { name: "A flow action with this name already exists [input: three]" } },
    },
  );
  const flow1 = await putFlow(at, flowBody([flow], { name: "one" }));
  assert.equal(
    { status: flow1.status, body: flow1.body },
    {
      status: 400,
      body: {
        message: VALIDATION,
        errors: { name: "An environment action with this name already exists [input: one]" },
      },
    },
  );
  assert.equal(rowCounts(), before);
  assert.equal(
    [
      (await callNotifications(at, "PUT", 1, body([env], { name: "one/b~.c" }))).status,
      (await callNotifications(at, "PUT", 1, body([env], { name: "one/b~.c" }))).status,
    ],
    [200, 200],
  );
  assert.equal(
    (await list(at)).map(({ number, name }) => [number, name]),
    [
      [1, "one/b~.c"],
      [2, "two"],
      [3, "three"],
    ],
  );
});

test("reports problems by field and stores nothing", async () => {
  const at = server.given.org();
  const env = await server.given.environment(at);
  const archived = await server.given.environment(at);
  await server.call("PUT", `/environments/${at.org}/${archived}/archive`, { key: at.key });
  const before = rowCounts();
  const target = (more: Json, without: string[] = []) => {
    const json: Json = { ...WEBHOOK, ...more };
    for (const name of without) delete json[name];
    return { targets: [{ note: "kept" }, json] };
  };
  const pattern = String.raw`String should match pattern '^[a-zA-Z0-9][a-zA-Z0-9\-_\.~/]*$' [input: /x]`;
  const triggers =
    "Input should be 'ON_STARTED_ARTIFACT', 'ON_EXITED_ARTIFACT', 'ON_SCALED_ARTIFACT', 'ON_ALLOWED_ARTIFACT', " +
    "'ON_ALLOWLIST_EXPIRY', 'ON_NON_COMPLIANT_ENV', 'ON_COMPLIANT_ENV' or 'ON_DAILY_CHANGES' [input: ON_STARTED_TRAIL]";
  const table: [Json, Record<string, string>][] = [
    [{ name: "/x" }, { name: pattern }],
    [{ type: "flow" }, { type: "Input should be 'env' [input: flow]" }],
    [{ triggers: ["ON_STARTED_TRAIL"] }, { "triggers.0": triggers }],
    [
      { flows: ["f"] },
      {
        flows:
          'Extra inputs are not permitted [input: ["f"]]; possible keys: name, type, environments, triggers, ' +
          "daily_at, targets",
      },
    ],
    [
      { environments: ["none", env] },
      { environments: `Environment named 'none' does not exist for organization '${at.org}' [input: none]` },
    ],
    [
      { environments: [archived, "none"] },
      {
        environments:
          `Environment named '${archived}' has been archived for organization '${at.org}' [input: ${archived}]; ` +
          `Environment named 'none' does not exist for organization '${at.org}' [input: none]`,
      },
    ],
    [{ daily_at: { hour: 24 } }, { "daily_at.hour": "Input should be less than or equal to 23 [input: 24]" }],
    [
      { daily_at: { hour: 7, time_zone: "Europe/Atlantis" } },
      {
        "daily_at.time_zone": "Input should be a time zone such as 'Europe/Berlin' or 'UTC' [input: Europe/Atlantis]",
      },
    ],
    [{ daily_at: { time_zone: "UTC" } }, { "daily_at.hour": "Field required" }],
    [target({ payload_version: "2.0" }), { "targets.1.payload_version": "Input should be '1.0' [input: 2.0]" }],
    [target({}, ["webhook"]), { "targets.1.webhook": "Field required" }],
    [target({ webhook: 7 }), { "targets.1.webhook": "Input should be a valid string [input: 7]" }],
    [
      target({ emails: ["a@b.c"] }),
      {
        "targets.1.emails":
          'Extra inputs are not permitted [input: ["a@b.c"]]' +
          "; possible keys: type, last_success_at, last_failure_at, webhook, payload_version",
      },
    ],
    [
      target({ type: "SLACK", payload_version: "1.0" }),
      {
        "targets.1.payload_version":
          "Extra inputs are not permitted [input: 1.0]" +
          "; possible keys: type, last_success_at, last_failure_at, webhook, context",
      },
    ],
    [
      target({ type: "SLACK", context: { channel_id: "C" } }),
      { "targets.1.context.channel_name": "Field required", "targets.1.context.team_id": "Field required" },
    ],
    [
      { targets: [{ type: "EMAIL", emails: [] }] },
      { "targets.0.emails": "List should have at least 1 item [input: []]" },
    ],
    [
      target({ webhook: "http://127.0.0.1/x" }),
      {
        "targets.1.webhook":
          "The address 127.0.0.1 is not allowed as a target: it is loopback [input: http://127.0.0.1/x]",
      },
    ],
    [
      target({ webhook: "ftp://example.com/x" }),
      { "targets.1.webhook": "The URL must begin with https:// or http:// [input: ftp://example.com/x]" },
    ],
    [{ targets: ["x"] }, { "targets.0": "Input should be a valid object [input: x]" }],
  ];
  for (const [more, errors] of table) {
    const answer = await put(at, body([env], more));
    assert.equal(
      {
        status: answer.status,
        message: answer.body.message,
        fields: Object.keys(answer.body.errors),
      },
      { status: 400, message: VALIDATION, fields: Object.keys(errors) },
      JSON.stringify(more),
    );
    // domain/network defines the texts for addresses.
    const told = JSON.stringify(more).includes("127.0.0.1")
      ? { "targets.1.webhook": answer.body.errors["targets.1.webhook"].replace(/it is .* \[/, "it is loopback [") }
      : answer.body.errors;
    assert.equal(told, errors, JSON.stringify(more));
    assert.is((await callNotifications(at, "PUT", null, body([env], more))).status, 400);
  }
  for (const address of [
    "",
    "ada",
    "ada@",
    "@x.org",
    "a b@x.org",
    "a@x.org,b@x.org",
    "Ada <a@x.org>",
    "a@x.org\r\nBcc: b@x.org",
    "a@-x.org",
  ]) {
    const answer = await put(at, body([env], { targets: [{ type: "EMAIL", emails: [address] }] }));
    assert.equal(
      { status: answer.status, fields: Object.keys(answer.body.errors) },
      { status: 400, fields: ["targets.0.emails.0"] },
      address,
    );
  }
  for (const missing of ["name", "environments", "triggers", "targets"]) {
    const { [missing]: _gone, ...rest } = body([env]);
    assert.equal((await put(at, rest)).body, { message: VALIDATION, errors: { [missing]: "Field required" } });
  }
  const flow = await putFlow(at, flowBody(["none"], { triggers: ["ON_COMPLIANT_ENV"] }));
  assert.equal(Object.keys(flow.body.errors), ["triggers.0"]);
  assert.equal((await putFlow(at, flowBody(["none"]))).body, {
    message: VALIDATION,
    errors: { flows: `Flow named 'none' does not exist for organization '${at.org}' [input: none]` },
  });
  assert.equal(rowCounts(), before);
});

test("returns targets as sent, including objects of unknown types", async () => {
  const at = server.given.org();
  const env = await server.given.environment(at);
  const context = { channel_id: "C1", channel_name: "ops", team_id: "T1" };
  const times = { last_success_at: null, last_failure_at: null };
  const targets = [
    { type: "PAGER", deep: { list: [1, null] } },
    {},
    { type: "SLACK", webhook: "https://hooks.slack.com/services/x", context },
    { type: "SLACK", webhook: "https://hooks.slack.com/services/y" },
    { type: "EMAIL", emails: ["Ada@Example.com", "ops+x@example.org"] },
    {
      type: "WEBHOOK",
      webhook: "https://Hooks.example.com/A/",
      payload_version: "1.0",
      last_success_at: 5,
      last_failure_at: null,
    },
    { webhook: HOOK },
  ];
  assert.is((await put(at, body([env], { targets }))).status, 201);
  const [shown] = await list(at);
  assert.equal(shown?.["targets"], [
    { type: "PAGER", deep: { list: [1, null] } },
    {},
    { type: "SLACK", webhook: "https://hooks.slack.com/services/x", context, ...times },
    { type: "SLACK", webhook: "https://hooks.slack.com/services/y", context: null, ...times },
    { type: "EMAIL", emails: ["Ada@Example.com", "ops+x@example.org"], ...times },
    { type: "WEBHOOK", webhook: "https://Hooks.example.com/A/", payload_version: "1.0", ...times },
    { webhook: HOOK },
  ]);
  assert.is(shown?.["is_created_from_slack_app"], true);
  // Sending back a read action changes nothing.
  assert.is((await put(at, body([env], { targets: shown?.["targets"] }))).status, 200);
  assert.equal((await list(at))[0], shown);
  assert.equal(
    secrets(at).map(({ type, secret }) => [type, secret === null]),
    [
      [null, true],
      [null, true],
      ["SLACK", true],
      ["SLACK", true],
      ["EMAIL", true],
      ["WEBHOOK", false],
      [null, true],
    ],
  );
});

test("an unchanged target keeps its secret and times; no response contains a secret", async () => {
  const at = server.given.org();
  const env = await server.given.environment(at);
  const second = { type: "WEBHOOK", webhook: "https://hooks.example.com/b" };
  await put(at, body([env], { targets: [WEBHOOK, second] }));
  const [one, two] = secrets(at);
  assert.match(one?.["secret"], /^[\w-]{43}$/);
  assert.is.not(one?.["secret"], two?.["secret"]);
  server.db
    .prepare(
      "UPDATE notification_targets SET last_success_at = 10, last_failure_at = 20, last_error = 'refused' WHERE id = ?",
    )
    .run(one?.["id"]);
  server.db
    .prepare("UPDATE notification_targets SET last_success_at = 15, last_failure_at = 5 WHERE id = ?")
    .run(two?.["id"]);
  const failing = (await get(at, 1)).body;
  assert.equal(
    {
      is_failing: failing.is_failing,
      last_success_timestamp: failing.last_success_timestamp,
      last_failure_timestamp: failing.last_failure_timestamp,
    },
    { is_failing: true, last_success_timestamp: 15, last_failure_timestamp: 20 },
  );

  const third = { type: "WEBHOOK", webhook: "https://hooks.example.com/c" };
  await put(
    at,
    body([env], {
      targets: [third, second, { type: "EMAIL", emails: ["a@example.com"] }],
      triggers: ["ON_STARTED_ARTIFACT"],
    }),
  );
  const after = secrets(at);
  assert.equal({ second: after[1], count: after.length }, { second: two, count: 3 });
  assert.ok(after[0]?.["secret"] !== one?.["secret"] && after[0]?.["secret"] !== two?.["secret"]);
  const text =
    (await get(at, 1)).text + (await callNotifications(at, "GET", 1)).text + JSON.stringify(auditEntries(at));
  for (const { secret } of [one, two, ...after] as Json[]) if (secret !== null) assert.not.ok(text.includes(secret));
  assert.not.ok(
    JSON.stringify(auditEntries(at)).includes("hooks.example.com"),
    "addresses of webhooks are secrets too",
  );
  const shown = (await get(at, 1)).body;
  assert.equal(
    {
      is_failing: shown.is_failing,
      last_success_timestamp: shown.last_success_timestamp,
      last_failure_timestamp: shown.last_failure_timestamp,
    },
    { is_failing: false, last_success_timestamp: 15, last_failure_timestamp: 5 },
  );
  assert.equal(
    shown.targets.map(({ last_success_at }: Json) => last_success_at),
    [null, 15, null],
  );
});

test("hides targets from outsiders of a public organization", async () => {
  const at = server.given.org({ public: true });
  const env = await server.given.environment(at);
  await put(at, body([env]));
  const outsider = { ...at, key: server.given.user(at.org, null) };
  const reader = { ...at, key: server.given.user(at.org, "reader") };
  assert.is((await list(reader))[0]?.["targets"].length, 1);
  for (const { status, body, text } of [await get(outsider, 1), await callNotifications(outsider, "GET", 1)]) {
    assert.equal({ status, name: body.name, targets: body.targets }, { status: 200, name: "alerts", targets: [] });
    assert.not.ok(text.includes("hooks.example.com"));
  }
  assert.equal(
    {
      actionTargets: (await list(outsider))[0]?.["targets"],
      notificationTargets: (await callNotifications(outsider, "GET")).body[0].targets,
    },
    { actionTargets: [], notificationTargets: [] },
  );
  const before = rowCounts();
  for (const answer of [
    await put(outsider, body([env])),
    await put(reader, body([env])),
    await callNotifications(reader, "DELETE", 1),
    await callNotifications(reader, "PUT", 1, body([env])),
  ])
    assert.equal(
      { status: answer.status, body: answer.body },
      { status: 403, body: { message: "You don't have permission to access this resource" } },
    );
  assert.equal(rowCounts(), before);
});

test("archiving removes an environment or flow from actions, and deletes an action with its last one", async () => {
  const at = server.given.org();
  const [one, two, flow] = [
    await server.given.environment(at),
    await server.given.environment(at),
    await server.given.flow(at),
  ];
  await put(at, body([one], { name: "only" }));
  await put(at, body([two, one], { name: "both" }));
  await putFlow(at, flowBody([flow]));
  const [, both] = await list(at);
  assert.is((await server.call("PUT", `/environments/${at.org}/${one}/archive`, { key: at.key })).status, 200);
  const left = await list(at);
  assert.equal(
    left.map(({ number, environments, flows }) => [number, environments ?? flows]),
    [
      [2, [two]],
      [3, [flow]],
    ],
  );
  assert.ok(left[0]?.["last_modified_at"] > both?.["last_modified_at"]);
  assert.is((await server.call("PUT", `/flows/${at.org}/${flow}/archive`, { key: at.key })).status, 200);
  assert.equal(
    (await list(at)).map(({ number }) => number),
    [2],
  );
  const details = (
    server.db
      .prepare("SELECT detail_json FROM audit_log WHERE organization_id = ? AND event LIKE '%.archived' ORDER BY id")
      .all(organizationOf(at).id) as Json[]
  ).map(({ detail_json }) => JSON.parse(detail_json));
  assert.equal(
    details.map(({ actions_changed, actions_deleted }) => [actions_changed, actions_deleted]),
    [
      [[2], [1]],
      [undefined, [3]],
    ],
  );
  assert.equal(secrets(at).length, 1);
  // A renamed environment stays in the action under its new name.
  assert.is(
    (
      await server.call("PUT", `/environments/${at.org}/${two}/rename`, {
        key: at.key,
        body: { new_name: `${two}-new` },
      })
    ).status,
    200,
  );
  assert.equal((await get(at, 2)).body.environments, [`${two}-new`]);
});

test("drops pending messages for a removed target", async () => {
  const at = server.given.org();
  const env = await server.given.environment(at);
  const name = await tell.action(at, { environments: [env], triggers: ["ON_STARTED_ARTIFACT"] });
  runningIn(server).report(at, env, [{ name: "web", fingerprint: "", instances: { created: [1] } }]);
  assert.is((await tell.sent(at)).length, 1);
  const targets = () =>
    server.db.prepare("SELECT target_id FROM deliveries WHERE organization_id = ?").pluck().all(organizationOf(at).id);
  assert.type(targets()[0], "number");
  await put(at, body([env], { name, targets: [] }));
  assert.equal(targets(), [null]);
});

test("fifty concurrent requests create one action per name, each with its own number", async () => {
  const at = server.given.org();
  const env = await server.given.environment(at);
  const same = await Promise.all(
    Array.from({ length: 50 }, (_, n) =>
      n % 2 === 0 ? put(at, body([env])) : callNotifications(at, "PUT", null, body([env])),
    ),
  );
  assert.equal(same.map(({ status }) => status).sort(), [...Array.from({ length: 49 }, () => 200), 201]);
  const others = await Promise.all(Array.from({ length: 20 }, (_, n) => put(at, body([env], { name: `n${n}` }))));
  assert.ok(others.every(({ status }) => status === 201));
  assert.equal(
    (await list(at)).map(({ number }) => number),
    Array.from({ length: 21 }, (_, n) => n + 1),
  );
});

test("supports the calls of Terraform: create, find by name, read, rename, delete, read again", async () => {
  const at = server.given.org();
  const env = await server.given.environment(at);
  const body = {
    name: "tf",
    type: "env",
    environments: [env],
    triggers: ["ON_SCALED_ARTIFACT", "ON_COMPLIANT_ENV"],
    targets: [WEBHOOK],
  };
  assert.is((await callNotifications(at, "PUT", null, body)).status, 201);
  const found = (await callNotifications(at, "GET")).body.find(({ name }: Json) => name === "tf");
  const read = await callNotifications(at, "GET", found.number);
  assert.equal(
    {
      environments: read.body.environments,
      triggers: read.body.triggers,
      webhook: read.body.targets[0].webhook,
      payload_version: read.body.targets[0].payload_version,
    },
    { environments: [env], triggers: body.triggers, webhook: HOOK, payload_version: "1.0" },
  );
  assert.equal((await callNotifications(at, "PUT", found.number, { ...body, name: "tf2", triggers: [] })).body, "OK");
  assert.equal(
    {
      name: (await callNotifications(at, "GET", found.number)).body.name,
      number: (await callNotifications(at, "GET", found.number)).body.number,
    },
    { name: "tf2", number: found.number },
  );
  const gone = await callNotifications(at, "DELETE", found.number);
  assert.equal({ status: gone.status, body: gone.body }, { status: 200, body: "OK" });
  assert.is((await callNotifications(at, "GET", found.number)).status, 404);
});

test("lists survive a damaged record", async () => {
  const at = server.given.org();
  const env = await server.given.environment(at);
  await put(at, body([env], { name: "good" }));
  await put(at, body([env], { name: "odd" }));
  server.db
    .prepare("UPDATE actions SET triggers_json = '[' WHERE name = 'odd' AND organization_id = ?")
    .run(organizationOf(at).id);
  assert.equal(
    (await list(at)).map(({ name, triggers, environments }) => [name, triggers, environments]),
    [
      ["good", ["ON_NON_COMPLIANT_ENV"], [env]],
      ["odd", ["This record is damaged and cannot be shown. Tell the operator of the server its name"], [env]],
    ],
  );
  assert.equal(
    (await callNotifications(at, "GET")).body.map(({ name }: Json) => name),
    ["good", "odd"],
  );
  server.db
    .prepare(
      "UPDATE notification_targets SET target_json = '[' WHERE action_id = (SELECT id FROM actions " +
        "WHERE name = 'good' AND organization_id = ?)",
    )
    .run(organizationOf(at).id);
  assert.equal((await get(at, 1)).body.targets, [
    { unreadable: "This record is damaged and cannot be shown. Tell the operator of the server its name" },
  ]);
  // Reports still succeed.
  assert.is(runningIn(server).report(at, env, [{ name: "web", fingerprint: "", instances: { created: [1] } }]), 1);
});

test.run();
