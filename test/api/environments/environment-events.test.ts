import { suite } from "uvu";
import * as assert from "uvu/assert";
import { fresh, freshCommit, freshFingerprint, startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { runtime } from "../../runtime.ts";
import type { RunningArtifact } from "../../runtime.ts";

const test = suite("api/environments/environment-events");
let server: TestServer;
let world: ReturnType<typeof runtime>;
test.before(async () => {
  server = await startServer();
  world = runtime(server);
});
test.after(() => server.stop());

type Place = { org: string; key: string; env: string; id: number };
const validationError = (errors: Record<string, string>) => ({ message: "Input payload validation failed", errors });
const organizationId = (org: string): number => (server.store.organizations.find(org) as { id: number }).id;

/** An environment with one snapshot per report. */
function givenEnvironment(...reports: RunningArtifact[][]): Place {
  const at = server.given.org();
  const env = fresh("env");
  const id = world.environment(organizationId(at.org), env);
  for (const report of reports) world.report(id, report);
  return { ...at, env, id };
}
const events = (at: Place, query = "", env = at.env) =>
  server.call("GET", `/environments/${at.org}/${env}/events${query}`, { key: at.key });
const summaries = async (at: Place, query = ""): Promise<string[]> => {
  const { status, body, text } = await events(at, query);
  assert.is(status, 200, text);
  return body.map((event: any) => `${event.snapshot_index} ${event.artifact_name} ${event.type}`);
};
/** Snapshot N starts the artifact `aN` and changes no other. */
const oneStartPerSnapshot = (n: number): RunningArtifact[][] => {
  const all = Array.from({ length: n }, (_, place) => ({ name: `a${place + 1}`, fingerprint: freshFingerprint() }));
  return all.map((_, place) => all.slice(0, place + 1));
};
const headersOf = (headers: Headers) =>
  ["X-Total-Count", "X-Per-Page", "X-Current-Page", "X-Total-Pages", "Link"].map((name) => headers.get(name));

test("shows an event with its artifact and provenance", async () => {
  const at = givenEnvironment();
  const [fingerprint, commit, before] = [freshFingerprint(), freshCommit(), freshCommit()];
  const flow = await server.given.flow(at);
  const url = (sha: string) => `https://github.com/acme/payments/commit/${sha}`;
  const old = await server.given.artifact(at, {
    flow,
    trail: "t-0",
    name: "server",
    commit: before,
    commit_url: url(before),
  });
  await server.given.artifact(at, { flow, trail: "t-1", name: "server", fingerprint, commit, commit_url: url(commit) });
  const other = await server.given.flow(at);
  await server.given.artifact(at, { flow: other, trail: null, fingerprint, commit });
  world.requireProvenance(organizationId(at.org), at.id);
  world.report(at.id, [{ name: "payments:1", fingerprint: old, instances: 2 }]);
  world.report(at.id, [
    { name: "payments:2", fingerprint },
    { name: "sidecar", fingerprint: "" },
  ]);
  const { status, body, headers } = await events(at);
  assert.is(status, 200);
  assert.equal(headersOf(headers), ["4", "15", "1", "1", null]);
  const [stopped, unresolved, started, first] = body;
  const artifact = (
    await server.call("GET", `/artifacts/${at.org}/${flow}/fingerprint/${fingerprint}`, { key: at.key })
  ).body;
  const snapshot = (index: number) => ({
    self: `http://assay.test/api/v2/snapshots/${at.org}/${at.env}/${index}`,
    html: `http://assay.test/${at.org}/environments/${at.env}/${index}`,
  });
  assert.equal(started, {
    type: "started-compliant",
    environment_name: at.env,
    snapshot_index: 2,
    artifact_name: "payments:2",
    sha256: fingerprint,
    description: "1 instance started running (from 0 to 1)",
    reported_at: server.store.snapshots.find(at.id, 2)?.timestamp,
    pipeline: flow,
    deployments: [],
    flows: [
      { flow_name: flow, deployments: null },
      { flow_name: other, deployments: null },
    ],
    artifact_compliance: true,
    snapshot_compliance: false,
    code_diff: `https://github.com/acme/payments/compare/${before}...${commit}`,
    _links: { artifact: { self: artifact.api_url, html: artifact.html_url }, snapshot: snapshot(2) },
  });
  assert.equal(unresolved, {
    type: "started-non-compliant",
    environment_name: at.env,
    snapshot_index: 2,
    artifact_name: "sidecar",
    sha256: "",
    description: "1 instance started running (from 0 to 1)",
    reported_at: started.reported_at,
    pipeline: "",
    deployments: [],
    flows: [],
    artifact_compliance: false,
    snapshot_compliance: false,
    code_diff: null,
    _links: { artifact: null, snapshot: snapshot(2) },
  });
  assert.equal(
    {
      type: stopped.type,
      artifact_name: stopped.artifact_name,
      description: stopped.description,
      code_diff: stopped.code_diff,
      self: stopped._links.artifact.self,
    },
    {
      type: "exited",
      artifact_name: "payments:1",
      description: "2 instances stopped running (from 2 to 0)",
      code_diff: started.code_diff,
      self: `http://assay.test/api/v2/artifacts/${at.org}/${flow}/fingerprint/${old}`,
    },
  );
  assert.equal(
    {
      type: first.type,
      snapshot_compliance: first.snapshot_compliance,
      code_diff: first.code_diff,
      description: first.description,
    },
    {
      type: "started-compliant",
      snapshot_compliance: true,
      code_diff: null,
      description: "2 instances started running (from 0 to 2)",
    },
  );
});

test("compares an exited artifact with its running successor of the same flow and name", async () => {
  const at = givenEnvironment();
  const [flow, other] = [await server.given.flow(at), await server.given.flow(at)];
  const build = async (name: string | undefined, fields: { flow?: string; commit_url?: string } = {}) => {
    const commit = freshCommit();
    const url = `https://github.com/acme/payments/commit/${commit}`;
    const fingerprint = await server.given.artifact(at, {
      flow,
      trail: "t",
      ...(name === undefined ? {} : { name }),
      commit,
      commit_url: url,
      ...fields,
    });
    return { name: name ?? "nameless", fingerprint, commit };
  };
  const [first, second, third, client] = [
    await build("server"),
    await build("server"),
    await build("server"),
    await build("client"),
  ];
  const elsewhere = await build("server", { flow: other });
  const [nameless, nameless2] = [await build(undefined), await build(undefined)];
  const unplaced = await build("client", { commit_url: "https://git.test/1" });
  const late = { name: "server", fingerprint: freshFingerprint(), commit: freshCommit() };
  const compare = (from: { commit: string }, to: { commit: string }) =>
    `https://github.com/acme/payments/compare/${from.commit}...${to.commit}`;
  const exits = async (...running: { name: string; fingerprint: string }[]) => {
    world.report(
      at.id,
      running.map(({ name, fingerprint }) => ({ name, fingerprint })),
    );
    const { body } = await events(at);
    const latest = body[0].snapshot_index;
    return Object.fromEntries(
      body
        .filter((event: any) => event.snapshot_index === latest && event.type === "exited")
        .map((event: any) => [event.sha256, event.code_diff]),
    );
  };
  await exits(first, client, elsewhere, nameless);
  assert.equal(
    await exits(first, second, client, elsewhere, nameless2),
    { [nameless.fingerprint]: null },
    "without a name nothing is in its place",
  );
  assert.equal(
    await exits(second, client, elsewhere),
    { [first.fingerprint]: compare(first, second), [nameless2.fingerprint]: null },
    "started a snapshot before",
  );
  assert.equal(
    await exits(third, unplaced),
    {
      [second.fingerprint]: compare(second, third),
      [client.fingerprint]: null,
      [elsewhere.fingerprint]: null,
    },
    "no address of a commit, no comparison; the other flow runs nothing any more",
  );
  assert.equal(
    await exits(first),
    { [third.fingerprint]: compare(third, first), [unplaced.fingerprint]: null },
    "also back to an earlier one",
  );
  assert.equal(await exits(), { [first.fingerprint]: null });
  // Reported to its flow while running: its commit is known, although its start was not a deployment.
  await exits(late);
  await server.given.artifact(at, {
    flow,
    trail: "t",
    name: "server",
    fingerprint: late.fingerprint,
    commit: late.commit,
    commit_url: `https://github.com/acme/payments/commit/${late.commit}`,
  });
  await exits(late);
  assert.equal(await exits(second), { [late.fingerprint]: compare(late, second) });
  // Replaced, rolled back and then stopped: nothing of that flow runs.
  await exits(second, third);
  assert.equal(await exits(second), { [third.fingerprint]: null });
  assert.equal(await exits(), { [second.fingerprint]: null });
  const { body } = await events(at, "?per_page=100");
  const told = body.find((event: any) => event.snapshot_index === 3 && event.sha256 === first.fingerprint);
  assert.is(told.code_diff, compare(first, second), "what runs later does not change what is told of earlier exits");
});

test("an artifact that gets provenance while it runs has a change event", async () => {
  const fingerprint = freshFingerprint();
  const at = givenEnvironment([{ name: "app", fingerprint }]);
  const flow = await server.given.flow(at);
  await server.given.artifact(at, { flow, trail: "t", fingerprint });
  world.report(at.id, [{ name: "app", fingerprint }]);
  const { body } = await events(at);
  assert.equal(
    body.map((event: any) => [
      event.type,
      event.description,
      event.pipeline,
      event.artifact_compliance,
      event.snapshot_compliance,
    ]),
    [
      ["updated-provenance", "1 instance changed", flow, null, null],
      ["started-unknown", "1 instance started running (from 0 to 1)", "", null, null],
    ],
  );
});

test("describes pages in headers, with links that keep the query", async () => {
  const at = givenEnvironment(...oneStartPerSnapshot(5));
  const address = `http://assay.test/api/v2/environments/${at.org}/${at.env}/events`;
  const page = async (query: string) => {
    const { body, headers } = await events(at, query);
    return [body.map((event: any) => event.artifact_name).join(), ...headersOf(headers)];
  };
  const link = (rel: string, query: string) => `<${address}?${query}>; rel="${rel}"`;
  const query = (number: number) => `per_page=2&reverse=false&page=${number}`;
  assert.equal(await page(""), ["a5,a4,a3,a2,a1", "5", "15", "1", "1", null]);
  assert.equal(await page("?per_page=2"), [
    "a5,a4",
    "5",
    "2",
    "1",
    "3",
    [link("first", query(1)), link("next", query(2)), link("last", query(3))].join(", "),
  ]);
  assert.equal(await page("?per_page=2&page=2"), [
    "a3,a2",
    "5",
    "2",
    "2",
    "3",
    [link("first", query(1)), link("prev", query(1)), link("next", query(3)), link("last", query(3))].join(", "),
  ]);
  assert.equal(await page("?per_page=2&page=3"), [
    "a1",
    "5",
    "2",
    "3",
    "3",
    [link("first", query(1)), link("prev", query(2)), link("last", query(3))].join(", "),
  ]);
  assert.equal(await page("?per_page=2&page=9"), [
    "",
    "5",
    "2",
    "9",
    "3",
    [link("first", query(1)), link("prev", query(3)), link("last", query(3))].join(", "),
  ]);
  const { headers } = await events(at, "?reverse=true&per_page=1&interval=2..4&start=");
  const next = headers.get("Link")?.match(/<([^>]*)>; rel="next"/)?.[1] as string;
  assert.is(next, `${address}?interval=2..4&per_page=1&reverse=true&start=&page=2`);
  assert.equal(await summaries(at, next.slice(address.length)), ["3 a3 started-unknown"]);
  const none = givenEnvironment();
  assert.equal(headersOf((await events(none)).headers), ["0", "15", "1", "0", null]);
});

test("lists the oldest first with reverse", async () => {
  const at = givenEnvironment(...oneStartPerSnapshot(3));
  assert.equal(await summaries(at, "?reverse=true&interval="), [
    "1 a1 started-unknown",
    "2 a2 started-unknown",
    "3 a3 started-unknown",
  ]);
  assert.equal(await summaries(at, "?reverse=false&interval="), [
    "3 a3 started-unknown",
    "2 a2 started-unknown",
    "1 a1 started-unknown",
  ]);
});

test("prefers from/to to start_ts/end_ts to start/end to interval", async () => {
  const at = givenEnvironment(...oneStartPerSnapshot(6));
  const time = (index: number): number => server.store.snapshots.find(at.id, index)?.timestamp ?? 0;
  const indexes = async (query: string) =>
    (await summaries(at, `?reverse=true&${query}`)).map((line) => Number(line.split(" ")[0]));
  const now = server.clock.at;
  const ago = (index: number): string => `${Math.floor(now - time(index)) + 100}s`;
  for (const [query, expected] of [
    ["", [1, 2, 3, 4, 5, 6]],
    ["interval=&start=&end=&repo_name=", [1, 2, 3, 4, 5, 6]],
    ["interval=2..4", [2, 3, 4]],
    ["interval=~2..NOW", [4, 5, 6]],
    ["interval=..4", [4, 5, 6]],
    ["interval=NOW", [6]],
    ["interval=5", [5, 6]],
    ["interval=7", []],
    ["interval=7..NOW", []],
    ["interval=8..~1", []],
    ["interval=9..5", [5, 6]],
    ["start=3", [3, 4, 5, 6]],
    ["end=2", [1, 2]],
    ["start=-2", [5, 6]],
    ["start=-2&end=NOW", [5, 6]],
    ["start=-99&end=-5", [1, 2]],
    ["start=4&end=2", []],
    ["interval=4..2", [2, 3, 4]],
    ["interval=@{2000-01-01T00:00:00}..2", [1, 2]],
    ["interval=2..@{2000-01-01T00:00:00}", []],
    ["start=7", []],
    ["start=NOW", [6]],
    ["start=1hour", [1, 2, 3, 4, 5, 6]],
    [`start=${ago(1)}&end=3`, [1, 2, 3]],
    ["end=30mins", []],
    [`start=${time(3)}`, [3, 4, 5, 6]],
    [`start=${time(3)}&end=${time(4)}`, [3, 4]],
    [`start=${time(4)}&end=${time(3)}`, []],
    ["start=2&interval=4..5", [2, 3, 4, 5, 6]],
    [`start_ts=${time(2)}&end_ts=${time(3)}`, [2, 3]],
    [`start_ts=${time(2) + 0.5}`, [3, 4, 5, 6]],
    [`end_ts=${time(2)}&start=4`, [1, 2]],
    [`from=${time(5)}`, [5, 6]],
    [`to=${time(2)}`, [1, 2]],
    [`from=${time(5)}&start_ts=${time(1)}&end_ts=${time(1)}&start=2&end=2&interval=3..3`, [5, 6]],
    [`from=${time(6)}&to=${time(1)}`, []],
    [`from=${time(6) + 1}`, []],
    ["to=0", []],
    ["from=-5", [1, 2, 3, 4, 5, 6]],
  ] as const)
    assert.equal(await indexes(query), expected, query);
});

test("counts the events in the range", async () => {
  const at = givenEnvironment(...oneStartPerSnapshot(6));
  assert.equal(headersOf((await events(at, "?start=2&end=4&per_page=2")).headers).slice(0, 4), ["3", "2", "1", "2"]);
});

test("refuses malformed ranges and pages, even if overridden", async () => {
  const at = givenEnvironment(...oneStartPerSnapshot(2));
  const bound = (text: string) =>
    `Input should be an index, 'NOW', a duration such as '1hour' or a unix timestamp [input: ${text}]`;
  const interval = (text: string) => `Input should be an interval such as '1..5', '~3..NOW' or 'NOW' [input: ${text}]`;
  for (const [query, errors] of [
    ["start=yesterday", { start: bound("yesterday") }],
    ["end=1.5", { end: bound("1.5") }],
    ["start=x&end=y&interval=z", { start: bound("x"), end: bound("y"), interval: interval("z") }],
    ["from=1&start=x", { start: bound("x") }],
    ["interval=1..2..3", { interval: interval("1..2..3") }],
    ["from=now", { from: "Input should be a valid number [input: now]" }],
    ["to=", { to: "Input should be a valid number [input: ]" }],
    ["start_ts=1e400", { start_ts: "Input should be a valid number [input: 1e400]" }],
    ["page=0", { page: "Input should be greater than or equal to 1 [input: 0]" }],
    ["per_page=101", { per_page: "Input should be less than or equal to 100 [input: 101]" }],
    ["per_page=", { per_page: "Input should be a valid integer [input: ]" }],
    ["reverse=", { reverse: "Input should be a valid boolean [input: ]" }],
    ["reverse=sometimes", { reverse: "Input should be a valid boolean [input: sometimes]" }],
  ] as const) {
    const { status, body } = await events(at, `?${query}`);
    assert.equal({ status, body }, { status: 400, body: validationError(errors) }, query);
  }
});

test("filters by the repository that the artifact had at that time", async () => {
  const at = givenEnvironment();
  const flow = await server.given.flow(at);
  const repo = (name: string) => ({ repo_info: { id: name, name, url: "https://git.test/r" } });
  const [one, two, three] = [
    await server.given.artifact(at, { flow, trail: "t", ...repo("acme/one") }),
    await server.given.artifact(at, { flow, trail: "t", ...repo("acme/two") }),
    freshFingerprint(),
  ];
  world.report(at.id, [
    { name: "one", fingerprint: one },
    { name: "two", fingerprint: two },
    { name: "three", fingerprint: three },
  ]);
  await server.given.artifact(at, { flow, trail: "t", fingerprint: three, ...repo("acme/one") });
  world.report(at.id, []);
  assert.equal(await summaries(at, "?repo_name=acme/one"), ["2 one exited", "1 one started-unknown"]);
  assert.equal(await summaries(at, "?repo_name=acme/one&repo_name=acme/two&reverse=true&end=1"), [
    "1 one started-unknown",
    "1 two started-unknown",
  ]);
  assert.equal(await summaries(at, "?repo_name=acme/one,acme/two&start=2"), ["2 two exited", "2 one exited"]);
  assert.is((await summaries(at, "?repo_name=")).length, 6);
  assert.equal((await events(at, "?repo_name=acme/two&per_page=1")).headers.get("X-Total-Count"), "2");
  const unknown = await events(at, "?repo_name=acme/one,acme/none");
  assert.equal(
    { status: unknown.status, body: unknown.body },
    { status: 404, body: { message: `Repo 'acme/none' not found in organization '${at.org}'` } },
  );
});

test("events of a logical environment have the name and indexes of the member", async () => {
  const at = givenEnvironment(...oneStartPerSnapshot(2));
  const second = world.environment(organizationId(at.org), "second");
  const group = world.environment(organizationId(at.org), "group", "logical", [at.id, second]);
  world.report(second, [{ name: "b", fingerprint: freshFingerprint() }]);
  world.report(at.id, []);
  const { body, headers } = await events(at, "", "group");
  assert.equal(
    body.map((event: any) => [
      event.environment_name,
      event.snapshot_index,
      event.artifact_name,
      event.type,
      event._links.snapshot.html,
    ]),
    [
      [at.env, 3, "a2", "exited", `http://assay.test/${at.org}/environments/${at.env}/3`],
      [at.env, 3, "a1", "exited", `http://assay.test/${at.org}/environments/${at.env}/3`],
      ["second", 1, "b", "started-unknown", `http://assay.test/${at.org}/environments/second/1`],
    ],
  );
  assert.is(headers.get("X-Total-Count"), "3");
  // A range refers to the snapshots of the logical environment.
  assert.equal(
    (await events(at, "?start=1&end=1", "group")).body.map((event: any) => event.artifact_name),
    ["b"],
  );
  assert.equal(
    (await events(at, "?start=2", "group")).body.map((event: any) => event.artifact_name),
    ["a2", "a1"],
  );
  assert.is(server.store.environments.get(group).snapshot_count, 2);
});

test("finds an archived environment under its suffixed name only", async () => {
  const at = givenEnvironment(...oneStartPerSnapshot(1));
  const archived = `${at.env}-archived-at-1`;
  server.db
    .prepare("UPDATE environments SET archived_at = 1, archived_name = name, name = ? WHERE id = ?")
    .run(archived, at.id);
  assert.equal((await events(at)).body, {
    message: `Environment named '${at.env}' has been archived for organization '${at.org}'`,
  });
  const [event] = (await events(at, "", archived)).body;
  assert.equal(
    { environment_name: event.environment_name, snapshot_index: event.snapshot_index },
    { environment_name: archived, snapshot_index: 1 },
  );
});

test("replaces a damaged record by a placeholder and shows the others", async () => {
  const [one, two] = [freshFingerprint(), freshFingerprint()];
  const at = givenEnvironment(
    [{ name: "one", fingerprint: one }],
    [
      { name: "one", fingerprint: one },
      { name: "two", fingerprint: two },
    ],
  );
  for (const facts of ["{", "null", '{"flows":3}', '{"flows":[null]}', '{"flows":["x"]}']) {
    server.db
      .prepare(
        "UPDATE evaluations SET facts_json = ? WHERE environment_id = ? AND id = (SELECT min(id) " +
          "FROM evaluations WHERE environment_id = ?)",
      )
      .run(facts, at.id, at.id);
    const { status, body } = await events(at);
    assert.is(status, 200, facts);
    const [good, bad] = body;
    assert.equal(
      { artifact_name: good.artifact_name, description: good.description },
      { artifact_name: "two", description: "1 instance started running (from 0 to 1)" },
    );
    assert.equal(
      {
        artifact_name: bad.artifact_name,
        sha256: bad.sha256,
        snapshot_index: bad.snapshot_index,
        pipeline: bad.pipeline,
        description: bad.description,
        artifact: bad._links.artifact,
      },
      {
        artifact_name: "one",
        sha256: one,
        snapshot_index: 1,
        pipeline: "",
        description: "This record is damaged and cannot be shown. Tell the operator of the server its name",
        artifact: null,
      },
    );
  }
});

test("answers 404 for an unknown environment, and 403 to non-members", async () => {
  const at = givenEnvironment();
  const { status, body } = await events(at, "", "none");
  assert.equal(
    { status, body },
    { status: 404, body: { message: `Environment named 'none' does not exist for organization '${at.org}'` } },
  );
  const stranger = await events({ ...at, key: server.given.user(at.org, null) });
  assert.equal(
    { status: stranger.status, body: stranger.body },
    { status: 403, body: { message: "You don't have permission to access this resource" } },
  );
  assert.is((await events({ ...at, key: server.given.user(at.org, "reader") })).status, 200);
});

test.run();
