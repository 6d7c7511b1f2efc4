import { once } from "node:events";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { getEnvAuditlog } from "../../../src/api/environments/environment-auditlog.ts";
import type { OperationContext } from "../../../src/api/context.ts";
import type { Stream } from "../../../src/http/operation.ts";
import { EPOCH, fresh, freshCommit, freshFingerprint, startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { runtime } from "../../runtime.ts";
import type { RunningArtifact } from "../../runtime.ts";

const test = suite("api/environments/environment-auditlog");
let server: TestServer;
let world: ReturnType<typeof runtime>;
test.before(async () => {
  server = await startServer();
  world = runtime(server);
});
test.after(() => server.stop());

type Place = { org: string; key: string; env: string; id: number };
const HEADER =
  "timestamp,time,environment,snapshot_index,event_type,description,artifact_name,artifact_fingerprint," +
  "compliance,flows,git_commit,commit_url,reported_by";
const validationError = (errors: Record<string, string>) => ({ message: "Input payload validation failed", errors });
const organizationId = (org: string): number => (server.store.organizations.find(org) as { id: number }).id;

function givenEnvironment(...reports: RunningArtifact[][]): Place {
  const at = server.given.org();
  const env = fresh("env");
  const id = world.environment(organizationId(at.org), env);
  for (const report of reports) world.report(id, report);
  return { ...at, env, id };
}
const log = (at: Place, query = "", env = at.env) =>
  server.call("GET", `/environments/${at.org}/${env}/auditlog${query}`, { key: at.key });
/** The lines after the header, for files whose cells hold no line breaks. */
async function lines(at: Place, query = "", env = at.env): Promise<string[]> {
  const { status, text } = await log(at, query, env);
  assert.is(status, 200, text);
  const [header, ...rest] = text.split("\r\n");
  assert.is(header, HEADER);
  assert.is(rest.pop(), "");
  return rest;
}
const summaries = async (at: Place, query = ""): Promise<string[]> =>
  (await lines(at, query)).map((line) => {
    const cells = line.split(",");
    return `${cells[3]} ${cells[6]} ${cells[4]}`;
  });

test("returns a CSV file of all events, oldest first", async () => {
  const at = givenEnvironment();
  const [fingerprint, other, commit] = [freshFingerprint(), freshFingerprint(), freshCommit()];
  const [flow, second] = [await server.given.flow(at), await server.given.flow(at)];
  await server.given.artifact(at, { flow, trail: "t", fingerprint, commit, commit_url: "https://git.test/c?a=1,2" });
  await server.given.artifact(at, { flow: second, trail: "t", fingerprint, commit });
  world.requireProvenance(organizationId(at.org), at.id);
  world.report(at.id, [{ name: "app", fingerprint, instances: 2 }], 'Ada "Countess" Lovelace');
  server.clock.at = EPOCH + 86_400.25;
  world.report(at.id, [{ name: "other", fingerprint: other }]);
  const answer = await log(at);
  assert.is(answer.status, 200);
  assert.equal(
    ["Content-Type", "Content-Disposition", "Content-Length"].map((name) => answer.headers.get(name)),
    ["text/csv; charset=utf-8", `attachment; filename="${at.env}-auditlog.csv"`, null],
  );
  const first = server.store.snapshots.find(at.id, 1)?.timestamp as number;
  const [second_, reporter] = [EPOCH + 86_401.25, '"Ada ""Countess"" Lovelace"'];
  const app = `app,${fingerprint},COMPLIANT,"${flow}, ${second}",${commit},"https://git.test/c?a=1,2"`;
  assert.is(
    answer.text,
    [
      HEADER,
      `${first},${new Date(first * 1000).toISOString()},${at.env},1,started-compliant,2 instances started ` +
        `running (from 0 to 2),${app},${reporter}`,
      `${second_},2023-11-15T22:13:21.250Z,${at.env},2,started-non-compliant,1 instance started running (from ` +
        `0 to 1),other,${other},NON-COMPLIANT,,,,reporter`,
      `${second_},2023-11-15T22:13:21.250Z,${at.env},2,exited,2 instances stopped running (from 2 to ` +
        `0),${app},reporter`,
      "",
    ].join("\r\n"),
  );
});

test("returns the header alone without events", async () => {
  assert.equal(await lines(givenEnvironment()), []);
});

test("escapes values that a spreadsheet would evaluate", async () => {
  const at = givenEnvironment(
    [{ name: "=cmd|'/c calc'!A0", fingerprint: "" }],
    [{ name: '@x,"y"', fingerprint: "" }],
    [{ name: "two\nlines", fingerprint: "" }],
  );
  const { text } = await log(at, "?event_types=started");
  for (const cell of [
    ",'=cmd|'/c calc'!A0,,UNKNOWN,,,,reporter\r\n",
    ',"\'@x,""y""",,UNKNOWN',
    ',"two\nlines",,UNKNOWN',
  ])
    assert.ok(text.includes(cell), cell);
});

/** One snapshot with each kind of event. */
async function givenEveryKind(): Promise<Place & { flow: string; time(index: number): number }> {
  const at = givenEnvironment();
  const flow = await server.given.flow(at);
  const [a, b] = [freshFingerprint(), freshFingerprint()];
  world.report(at.id, [{ name: "a", fingerprint: a }]);
  await server.given.artifact(at, {
    flow,
    trail: "t",
    fingerprint: a,
    repo_info: { id: "1", name: "acme/a", url: "https://git.test/r" },
  });
  world.report(at.id, [{ name: "a", fingerprint: a }]);
  world.report(at.id, [
    { name: "a", fingerprint: a },
    { name: "b", fingerprint: b },
  ]);
  world.report(at.id, []);
  return { ...at, flow, time: (index) => server.store.snapshots.find(at.id, index)?.timestamp as number };
}
const ALL = ["1 a started-unknown", "2 a updated-provenance", "3 b started-unknown", "4 a exited", "4 b exited"];

test("applies all filters together", async () => {
  const at = await givenEveryKind();
  const both = `from_timestamp=${at.time(2)}&to_timestamp=${at.time(3)}`;
  for (const [query, expected] of [
    ["", ALL],
    ["event_types=&flow_names=&repo_names=", ALL],
    ["event_types=started", [ALL[0], ALL[2]]],
    ["event_types=exited", [ALL[3], ALL[4]]],
    ["event_types=changed", [ALL[1]]],
    ["event_types=started,changed", ALL.slice(0, 3)],
    ["event_types=started&event_types=exited", [ALL[0], ALL[2], ALL[3], ALL[4]]],
    [both, [ALL[1], ALL[2]]],
    [`from_timestamp=${at.time(2) + 0.5}`, ALL.slice(2)],
    [`to_timestamp=${at.time(1)}`, ALL.slice(0, 1)],
    [`from_timestamp=${at.time(4) + 1}`, []],
    ["to_timestamp=5", []],
    [`flow_names=${at.flow}`, [ALL[1], ALL[3]]],
    ["flow_names=no+provenance", [ALL[0], ALL[2], ALL[4]]],
    [`flow_names=no%20provenance,${at.flow}`, ALL],
    ["flow_names=none", []],
    ["repo_names=acme/a", [ALL[1], ALL[3]]],
    ["repo_names=acme/a&event_types=exited", [ALL[3]]],
    ["repo_names=acme/a&flow_names=no+provenance", []],
    [`${both}&event_types=changed&flow_names=${at.flow}&repo_names=acme/a`, [ALL[1]]],
  ] as const)
    assert.equal(await summaries(at, `?${query}`), expected, query);
});

test("treats event kinds of older versions as changes", async () => {
  const at = await givenEveryKind();
  server.db
    .prepare(
      "UPDATE snapshot_artifacts SET annotation = 'scaled' WHERE environment_id = ? " +
        "AND annotation = 'updated-provenance'",
    )
    .run(at.id);
  assert.equal(await summaries(at, "?event_types=changed"), ["2 a scaled"]);
});

test("finds a renamed flow under all its names", async () => {
  const at = await givenEveryKind();
  await server.call("PUT", `/flows/${at.org}/${at.flow}/rename`, { key: at.key, body: { new_name: "renamed" } });
  assert.equal(await summaries(at, "?flow_names=renamed"), [ALL[1], ALL[3]]);
  assert.equal(await summaries(at, `?flow_names=${at.flow}`), [ALL[1], ALL[3]]);
});

test("refuses unknown kinds and repositories", async () => {
  const at = await givenEveryKind();
  const kind = (text: string) =>
    validationError({ event_types: `Input should be 'started', 'exited' or 'changed' [input: ${text}]` });
  for (const [query, status, body] of [
    ["event_types=stopped", 400, kind("stopped")],
    ["event_types=started,Exited", 400, kind("Exited")],
    ["from_timestamp=now", 400, validationError({ from_timestamp: "Input should be a valid number [input: now]" })],
    ["repo_names=acme/none", 404, { message: `Repo 'acme/none' not found in organization '${at.org}'` }],
  ] as const) {
    const answer = await log(at, `?${query}`);
    assert.equal({ status: answer.status, body: answer.body }, { status, body }, query);
  }
});

test("returns a long log completely and in order", async () => {
  const many = Array.from({ length: 450 }, (_, place) => ({
    name: `n${String(place).padStart(3, "0")}`,
    fingerprint: "",
  }));
  const at = givenEnvironment(many, many.slice(0, 100), many);
  const found = await summaries(at);
  assert.is(found.length, 450 + 350 + 350);
  const expected = [
    ...many.map(({ name }) => `1 ${name} started-unknown`),
    ...many.slice(100).map(({ name }) => `2 ${name} exited`),
    ...many.slice(100).map(({ name }) => `3 ${name} started-unknown`),
  ];
  assert.equal(found, expected);
});

test("excludes events recorded while the file is sent", async () => {
  const at = givenEnvironment([{ name: "a", fingerprint: "" }]);
  const { store } = server;
  const environment = store.environments.get(at.id);
  const range = store.environmentEvents.findRange(environment, { from: -Infinity, to: Infinity, now: 0 });
  world.report(at.id, []);
  assert.equal(
    store.environmentEvents.listAfter(environment, { ...range, id: 0 }, 10).map(({ annotation }) => annotation),
    ["started-unknown"],
  );
});

test("stops reading when the client disconnects, also when the filter excludes every event", async () => {
  const at = givenEnvironment([{ name: "a", fingerprint: "" }]);
  const organization = server.store.organizations.find(at.org);
  const [event] = server.store.environmentEvents.listAfter(
    server.store.environments.get(at.id),
    { first: 1, last: 1, id: 0 },
    1,
  );
  let looks = 0;
  const listAfter = () => {
    looks += 1;
    if (looks === 3) stream.destroy();
    return looks < 100 ? Array.from({ length: 200 }, () => event) : [];
  };
  const store = { ...server.store, environmentEvents: { ...server.store.environmentEvents, listAfter } };
  const { handle } = getEnvAuditlog;
  const reply = handle(
    { store, organization, now: () => server.clock.at } as unknown as OperationContext,
    { params: { org: at.org, env_name: at.env }, query: { event_types: ["exited"] } } as never,
    undefined as never,
  );
  const stream = (await (reply as { stream: Stream }).stream.open(new AbortController().signal)).resume();
  await once(stream, "close");
  assert.is(looks, 3);
});

test("a logical environment has the log of its members", async () => {
  const at = givenEnvironment();
  const other = world.environment(organizationId(at.org), "other");
  world.environment(organizationId(at.org), "group", "logical", [at.id, other]);
  world.report(at.id, [{ name: "a", fingerprint: "" }]);
  world.report(other, [{ name: "b", fingerprint: "" }]);
  world.report(at.id, []);
  const cells = (await lines(at, "", "group")).map((line) => line.split(","));
  assert.equal(
    cells.map((line) => [line[2], line[3], line[4]]),
    [
      [at.env, "1", "started-unknown"],
      ["other", "1", "started-unknown"],
      [at.env, "2", "exited"],
    ],
  );
});

test("marks a damaged record in its line, regardless of flow and repository filters", async () => {
  const at = await givenEveryKind();
  server.db
    .prepare(
      "UPDATE evaluations SET facts_json = '{' WHERE environment_id = ? AND id = (SELECT min(id) " +
        "FROM evaluations WHERE environment_id = ?)",
    )
    .run(at.id, at.id);
  const found = await lines(at, `?flow_names=${at.flow}`);
  assert.is(found.length, 3);
  assert.match(
    found[0] ?? "",
    new RegExp(
      ",started-unknown,This record is damaged and cannot be shown\\. Tell the operator of the server its name," +
        "a,[a-f0-9]{64},UNKNOWN,,,,reporter$",
    ),
  );
});

test("answers HEAD, refuses invalid requests, and requires read permission", async () => {
  const at = givenEnvironment([{ name: "a", fingerprint: "" }]);
  const head = await server.call("HEAD", `/environments/${at.org}/${at.env}/auditlog`, { key: at.key });
  assert.equal(
    { status: head.status, text: head.text, "Content-Type": head.headers.get("Content-Type") },
    { status: 200, text: "", "Content-Type": "text/csv; charset=utf-8" },
  );
  const none = await log(at, "", "none");
  assert.equal(
    { status: none.status, body: none.body },
    { status: 404, body: { message: `Environment named 'none' does not exist for organization '${at.org}'` } },
  );
  assert.is((await log({ ...at, key: server.given.user(at.org, "reader") })).status, 200);
  assert.is((await log({ ...at, key: server.given.user(at.org, null) })).status, 403);
});

test.run();
