/** Deployments: lists, single ones and the frequency (semantics 6.10, operations 11, 13). */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { repeatDeployment } from "../../many-deployments.ts";
import { fresh, freshCommit, freshFingerprint, startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";

const test = suite("api/environments/deployments");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
type Json = Record<string, any>;
const DAY = 86_400;

const get = (at: At, path: string) => server.call("GET", path, { key: at.key });
const organizationOf = (at: At) => server.store.organizations.find(at.org) as { id: number; name: string };
/**
 * Reports that exactly these run in the environment, at a time of the test clock or now. Returns the time of the
 * snapshot.
 */
function reportRunning(
  at: At,
  environment: string,
  fingerprints: readonly string[],
  time = server.clock.at + 1,
): number {
  server.clock.at = time - 1;
  const artifacts = fingerprints.map((fingerprint) => ({
    name: `run-${fingerprint.slice(-4)}`,
    fingerprint,
    instances: { created: [1] },
  }));
  const row = server.store.environments.require(organizationOf(at), environment);
  server.store.snapshotRecorder.record(row, {
    cause: "report",
    artifacts,
    actor: { publicId: "reporter", displayName: "reporter" },
  });
  return server.store.environments.get(row.id).last_changed_at as number;
}
const summarize = (deployments: Json[]) =>
  deployments.map(({ environment_name, fingerprint }) => [environment_name, fingerprint]);

test("shows a deployment with the artifact that it replaced, if any", async () => {
  const at = server.given.org();
  const [flow, environment] = [await server.given.flow(at), await server.given.environment(at)];
  const [c1, c2] = [freshCommit(), freshCommit()];
  const report = { flow, trail: "t", name: "app" };
  const repo_info = { id: "17", name: "acme/shop", url: "https://github.com/acme/shop", provider: "github" };
  const first = await server.given.artifact(at, {
    ...report,
    commit: c1,
    commit_url: `https://github.com/acme/shop/commit/${c1}`,
    repo_info,
  });
  const firstAt = reportRunning(at, environment, [first]);
  const policy = await server.given.policy(at, { yaml: "artifacts:\n  provenance: {required: true}\n" });
  assert.is(
    (
      await server.call("POST", `/environments/${at.org}/${environment}/policies`, {
        key: at.key,
        body: { policy_names: [policy] },
      })
    ).status,
    200,
  );
  const second = await server.given.artifact(at, {
    ...report,
    commit: c2,
    commit_url: `https://github.com/acme/shop/commit/${c2}`,
    repo_info,
  });
  const secondAt = reportRunning(at, environment, [second]);

  const built = async (fingerprint: string) =>
    (await get(at, `/artifacts/${at.org}/${flow}/fingerprint/${fingerprint}`)).body;
  const links = async (fingerprint: string, index: number) => {
    const { html_url, api_url } = await built(fingerprint);
    const root = "http://assay.test";
    return {
      environment: {
        self: { href: `${root}/api/v2/environments/${at.org}/${environment}` },
        html: { href: `${root}/${at.org}/environments/${environment}` },
      },
      snapshot: {
        self: { href: `${root}/api/v2/snapshots/${at.org}/${environment}/${index}` },
        html: { href: `${root}/${at.org}/environments/${environment}/${index}` },
      },
      artifact: { self: { href: api_url }, html: { href: html_url } },
    };
  };
  const shared = { environment_name: environment, flow_name: flow, trail_name: "t", repo_name: "acme/shop" };
  const older = {
    ...shared,
    fingerprint: first,
    artifact_name: `run-${first.slice(-4)}`,
    git_commit: c1,
    commit_url: `https://github.com/acme/shop/commit/${c1}`,
    snapshot_index: 1,
    deployed_at: firstAt,
    lead_time_seconds: firstAt - Number((await built(first)).created_at),
    compliant: null,
    replaced: null,
    _links: await links(first, 1),
  };
  const newer = {
    ...shared,
    fingerprint: second,
    artifact_name: `run-${second.slice(-4)}`,
    git_commit: c2,
    commit_url: `https://github.com/acme/shop/commit/${c2}`,
    snapshot_index: 3,
    deployed_at: secondAt,
    lead_time_seconds: secondAt - Number((await built(second)).created_at),
    compliant: true,
    replaced: {
      fingerprint: first,
      artifact_name: older.artifact_name,
      trail_name: "t",
      git_commit: c1,
      commit_url: older.commit_url,
      snapshot_index: 1,
      deployed_at: firstAt,
      compliant: null,
      diff_url: `https://github.com/acme/shop/compare/${c1}...${c2}`,
    },
    _links: await links(second, 3),
  };
  const page = { page: 1, total_pages: 1, total_count: 2, deployments: [newer, older] };
  const answers = [
    [`/deployments/${at.org}`, { ...page, per_page: 15 }],
    [`/environments/${at.org}/${environment}/deployments`, { ...page, page_size: 50 }],
    [`/deployments/${at.org}/${environment}/${first}`, older],
    [`/deployments/${at.org}/${environment}/${second}`, newer],
  ] as const;
  for (const [path, body] of answers)
    assert.equal(await get(at, path).then((answer) => [answer.status, answer.body]), [200, body], path);
  assert.is((await get(at, `/flows/${at.org}/${flow}`)).body.last_deployment_at, secondAt);
});

test("counts each start with provenance as one deployment, in the first flow", async () => {
  const at = server.given.org();
  const [build, release, unused] = [
    await server.given.flow(at),
    await server.given.flow(at),
    await server.given.flow(at),
  ];
  const environment = await server.given.environment(at);
  const fingerprint = await server.given.artifact(at, { flow: build, trail: "t" });
  await server.given.artifact(at, { flow: release, trail: "r", fingerprint });
  reportRunning(at, environment, [fingerprint, freshFingerprint()]);
  reportRunning(at, environment, [fingerprint]);
  reportRunning(at, environment, []);
  const again = reportRunning(at, environment, [fingerprint]);
  const { body } = await get(at, `/deployments/${at.org}`);
  assert.equal(
    body.deployments.map((one: Json) => [one["fingerprint"], one["flow_name"], one["snapshot_index"]]),
    [
      [fingerprint, build, 4],
      [fingerprint, build, 1],
    ],
  );
  assert.is((await get(at, `/deployments/${at.org}/${environment}/${fingerprint}`)).body.deployed_at, again);
  const last = async (flow: string) => (await get(at, `/flows/${at.org}/${flow}`)).body.last_deployment_at;
  assert.equal(
    { build: await last(build), release: await last(release), unused: await last(unused) },
    { build: again, release: again, unused: null },
  );
});

test("omits the comparison without a known commit page, and the trail without a trail", async () => {
  const at = server.given.org();
  const [flow, environment] = [await server.given.flow(at), await server.given.environment(at)];
  const [older, newer] = [
    await server.given.artifact(at, { flow, trail: "t", name: "app" }),
    await server.given.artifact(at, { flow, trail: "t", name: "app" }),
  ];
  reportRunning(at, environment, [older]);
  reportRunning(at, environment, [newer]);
  const { body } = await get(at, `/deployments/${at.org}/${environment}/${newer}`);
  assert.equal(
    { fingerprint: body.replaced.fingerprint, diff_url: body.replaced.diff_url, repo_name: body.repo_name },
    { fingerprint: older, diff_url: null, repo_name: null },
  );
  const alone = await server.given.artifact(at, { flow, trail: null });
  reportRunning(at, environment, [alone]);
  const { body: bare } = await get(at, `/deployments/${at.org}/${environment}/${alone}`);
  assert.equal(
    { trail_name: bare.trail_name, replaced: bare.replaced, flow_name: bare.flow_name },
    { trail_name: null, replaced: null, flow_name: flow },
  );
});

test("lists the deployments of an organization in pages, with filters", async () => {
  const at = server.given.org();
  const [flow, other] = [await server.given.flow(at), await server.given.flow(at)];
  const [prod, staging] = [await server.given.environment(at), await server.given.environment(at)];
  const everywhere = await server.given.environment(at, { members: [prod, staging] });
  const repo_info = { id: "1", name: "shop", url: "https://git.test/shop" };
  const [one, two] = [
    await server.given.artifact(at, { flow, trail: "t", repo_info }),
    await server.given.artifact(at, { flow, trail: "t" }),
  ];
  reportRunning(at, prod, [one]);
  reportRunning(at, staging, [one]);
  reportRunning(at, prod, [one, two]);
  const list = async (query: string) => {
    const { status, body } = await get(at, `/deployments/${at.org}${query}`);
    assert.is(status, 200, JSON.stringify(body));
    return body;
  };
  const [first, second, third] = [
    [prod, one],
    [staging, one],
    [prod, two],
  ];
  for (const [query, expected] of [
    ["", [third, second, first]],
    [`?env_name=${prod}`, [third, first]],
    [`?env_name=${everywhere}`, [third, second, first]],
    ["?env_name=", [third, second, first]],
    ["?repo_name=shop", [second, first]],
    [`?repo_name=shop&env_name=${staging}`, [second]],
    ["?repo_name=", [third, second, first]],
    ["?repo_name=nothing", []],
    ["?env_name=nothing", []],
    [`?repo_name=nothing&env_name=${prod}`, []],
    [`?repo_name=shop&env_name=nothing`, []],
    [`?flow_name=${flow}`, [third, second, first]],
    [`?flow_name=${other}&repo_name=shop`, [], "a flow takes precedence"],
    ["?flow_name=nothing", []],
    ["?flow_name=", [third, second, first]],
  ] as const) {
    const body = await list(query);
    assert.equal(summarize(body.deployments), expected, query);
    assert.is(body.total_count, expected.length, query);
  }
  const counts = async (query: string) => {
    const { deployments, ...rest } = await list(query);
    return [summarize(deployments), rest];
  };
  assert.equal(await counts("?per_page=2"), [
    [third, second],
    { page: 1, per_page: 2, total_pages: 2, total_count: 3 },
  ]);
  assert.equal(await counts("?per_page=2&page=2"), [[first], { page: 2, per_page: 2, total_pages: 2, total_count: 3 }]);
  assert.equal(await counts("?per_page=2&page=9"), [[], { page: 9, per_page: 2, total_pages: 2, total_count: 3 }]);
  assert.equal(await counts("?per_page=0"), [[], { page: 1, per_page: 0, total_pages: 0, total_count: 3 }]);
  for (const [query, field] of [
    ["per_page=51", "per_page"],
    ["per_page=-1", "per_page"],
    ["page=0", "page"],
    ["start_ts=x", "start_ts"],
    ["end-ts=x", "end-ts"],
    ["start_ts=", "start_ts"],
  ] as const) {
    const { status, body } = await get(at, `/deployments/${at.org}?${query}`);
    assert.equal(
      { status, message: body.message, fields: Object.keys(body.errors) },
      { status: 400, message: "Input payload validation failed", fields: [field] },
      query,
    );
  }
});

test("the time window is inclusive, starts 28 days before its end, and has two spellings", async () => {
  const at = server.given.org();
  const [flow, environment] = [await server.given.flow(at), await server.given.environment(at)];
  const [one, two] = [
    await server.given.artifact(at, { flow, trail: "t" }),
    await server.given.artifact(at, { flow, trail: "t" }),
  ];
  const start = server.clock.at + 10;
  reportRunning(at, environment, [one], start);
  reportRunning(at, environment, [one, two], start + 20 * DAY);
  const names = async (query: string) =>
    (await get(at, `/deployments/${at.org}?${query}`)).body.deployments.map(({ fingerprint }: Json) =>
      fingerprint === one ? 1 : 2,
    );
  const end = start + 20 * DAY;
  for (const [query, expected] of [
    ["", [2, 1]],
    [`start_ts=${start}&end_ts=${end}`, [2, 1]],
    [`start-ts=${start}&end-ts=${end}`, [2, 1]],
    [`start_ts=${start}.5`, [2]],
    [`start-ts=${start}.5`, [2]],
    [`end_ts=${end - 1}`, [1]],
    [`end-ts=${end - 1}`, [1]],
    [`start_ts=${start}&start-ts=${end}`, [2, 1]],
    [`end_ts=${start}&end-ts=${end}`, [1]],
    [`end_ts=${start + 28 * DAY}`, [2, 1]],
    [`end_ts=${start + 28 * DAY + 1}`, [2]],
    [`start_ts=${end}&end_ts=${start}`, []],
    ["end_ts=0", []],
    ["start_ts=-5", [2, 1]],
    ["start_ts=99999999999999999999", []],
  ] as const)
    assert.equal(await names(query), expected, query);
  server.clock.at = end + 28 * DAY + 1;
  assert.equal(await names(""), []);
  assert.equal(await names(`start_ts=${start}`), [2, 1]);
});

test("only a first start has the time since its commit, and an unknown one is not replaced", async () => {
  const at = server.given.org();
  const [flow, environment] = [await server.given.flow(at), await server.given.environment(at)];
  const artifact = (timestamp: number | null) =>
    server.given.artifact(at, {
      flow,
      trail: "t",
      git_commit_info:
        timestamp === null ? null : { sha1: "a".repeat(40), message: "", author: "", branch: "", timestamp, url: "" },
    });
  const committed = server.clock.at - 500;
  const known = await artifact(committed);
  const unknown = await artifact(null);
  const start = committed + 600;
  reportRunning(at, environment, [known, unknown], start);
  reportRunning(at, environment, [unknown], start + 10);
  reportRunning(at, environment, [known, unknown], start + 20);
  server.clock.at = start + 30;
  const read = async (path: string) => {
    const { body } = await get(at, `${path}?first_starts=true`);
    return body.deployments.map((one: Json) => [
      one["fingerprint"] === known,
      one["is_first_start"],
      one["commit_lead_time_seconds"],
    ]);
  };
  const expected = [
    [true, false, null],
    [false, true, null],
    [true, true, start - committed],
  ];
  for (const path of [`/environments/${at.org}/${environment}/deployments`, `/deployments/${at.org}`]) {
    const found = await read(path);
    assert.equal(found.map(String).sort(), expected.map(String).sort(), path);
  }
  const [plain] = (await get(at, `/deployments/${at.org}`)).body.deployments;
  assert.not.ok(Object.hasOwn(plain, "is_first_start"));
  const overview = (await get(at, `/overview/${at.org}?first_starts=true`)).body.deployments;
  assert.equal([overview.commit_lead_time, overview.unknown_commit_times], [start - committed, 1]);
  assert.equal([overview.measured, overview.total], [3, 3]);
});

test("the overview says that lead times are of the latest 500 deployments", async () => {
  const at = server.given.org();
  const [flow, environment] = [await server.given.flow(at), await server.given.environment(at)];
  reportRunning(at, environment, [await server.given.artifact(at, { flow, trail: "t" })], server.clock.at);
  repeatDeployment(server, at.org, 500);
  server.clock.at += 1;
  const { measured, total } = (await get(at, `/overview/${at.org}?first_starts=true`)).body.deployments;
  assert.equal({ measured, total }, { measured: 500, total: 501 });
  const past = (await get(at, `/past/${at.org}/overview?at=${server.clock.at}`)).body;
  assert.equal([past.deployments.measured, past.deployments.total], [500, 501]);
});

test("lists the deployments of an environment with ISO times, over 30 days, in pages of 50", async () => {
  const at = server.given.org();
  const [flow, environment, other] = [
    await server.given.flow(at),
    await server.given.environment(at),
    await server.given.environment(at),
  ];
  const logical = await server.given.environment(at, { members: [environment, other] });
  const empty = await server.given.environment(at, { members: [] });
  const artifacts = [1, 2, 3].map(() => server.given.artifact(at, { flow, trail: "t" }));
  const [one, two, three] = (await Promise.all(artifacts)) as [string, string, string];
  const midnight = (Math.ceil(server.clock.at / DAY) + 1) * DAY;
  const date = new Date(midnight * 1000).toISOString().slice(0, 10);
  reportRunning(at, environment, [one], midnight);
  reportRunning(at, environment, [one, two], midnight + DAY - 0.5);
  reportRunning(at, other, [three], midnight + DAY);
  const list = async (query: string, of = environment) => {
    const { status, body } = await get(at, `/environments/${at.org}/${of}/deployments${query}`);
    assert.is(status, 200, JSON.stringify(body));
    return body;
  };
  const names = async (query: string, of = environment) =>
    (await list(query, of)).deployments.map(({ fingerprint }: Json) => [one, two, three].indexOf(fingerprint) + 1);
  for (const [query, expected] of [
    ["", [2, 1]],
    [`?from=${date}`, [2, 1]],
    [`?from=${date}&to=${date}`, [2, 1]],
    [`?from=${date}T00:00:00Z&to=${date}T00:00:00Z`, [1]],
    [`?from=${date}T00:00:01`, [2]],
    [`?to=${date}T23:59:59`, [1]],
    [`?to=${date}T23:59:59.5`, [2, 1]],
    [`?to=${date}T01:00:00%2B02:00`, []],
    [`?to=${date}T02:00:00+02:00`, [1]],
    ["?to=2023-01-01", []],
    ["?from=&to=", [2, 1]],
    [`?from=${date}&to=2023-01-01`, []],
  ] as const)
    assert.equal(await names(query), expected, query);
  assert.equal(await names("", logical), [3, 2, 1]);
  assert.equal(await names(`?to=${date}`, logical), [2, 1]);
  assert.equal(await list("", empty), { page: 1, page_size: 50, total_pages: 0, total_count: 0, deployments: [] });
  assert.equal(
    (await list("", logical)).deployments.map(({ environment_name }: Json) => environment_name),
    [other, environment, environment],
  );
  const { deployments, ...counts } = await list("?page=2&page_size=1");
  assert.equal(
    { deployments: summarize(deployments), counts },
    { deployments: [[environment, one]], counts: { page: 2, page_size: 1, total_pages: 2, total_count: 2 } },
  );
  assert.is((await get(at, `/deployments/${at.org}/${logical}/${three}`)).body.environment_name, other);

  server.clock.at = midnight + 30 * DAY + 60;
  assert.equal(await names(""), [2]);
  assert.equal(await names(`?from=${date}`), [2, 1]);

  const text = (value: string) => `Input should be a valid ISO 8601 date or time [input: ${value}]`;
  for (const [query, errors] of [
    ["from=yesterday", { from: text("yesterday") }],
    ["to=2023-02-30", { to: text("2023-02-30") }],
    ["from=1700000000&to=x", { from: text("1700000000"), to: text("x") }],
  ] as const) {
    const answer = await get(at, `/environments/${at.org}/${environment}/deployments?${query}`);
    assert.equal(
      { status: answer.status, body: answer.body },
      { status: 400, body: { message: "Input payload validation failed", errors } },
    );
  }
  for (const query of ["page_size=0", "page_size=101", "page=0"])
    assert.is((await get(at, `/environments/${at.org}/${environment}/deployments?${query}`)).status, 400, query);
});

test("counts deployments per UTC day over 28 days, of all flows or of one by id or name", async () => {
  const at = server.given.org();
  const [flow, other] = [await server.given.flow(at), await server.given.flow(at)];
  const environment = await server.given.environment(at);
  const logical = await server.given.environment(at, { members: [environment] });
  const make = (name: string) => server.given.artifact(at, { flow: name, trail: "t" });
  const [one, two, three] = [await make(flow), await make(other), await make(flow)];
  const today = (Math.ceil(server.clock.at / DAY) + 40) * DAY;
  reportRunning(at, environment, [one], today - 28 * DAY);
  reportRunning(at, environment, [], today - 28 * DAY + 5);
  reportRunning(at, environment, [one, two], today - 27 * DAY);
  reportRunning(at, environment, [one, two, three], today + 50);
  const frequency = async (query = "", of = environment) => {
    server.clock.at = today + 999;
    const { status, body } = await get(at, `/environments/${at.org}/${of}/deployment_frequency${query}`);
    assert.is(status, 200, JSON.stringify(body));
    return body;
  };
  const dates = Array.from({ length: 28 }, (_none, place) =>
    new Date((today - (27 - place) * DAY) * 1000).toISOString().slice(0, 10),
  );
  const daily = (first: number, last: number) =>
    dates.map((date, place) => ({ date, count: place === 0 ? first : place === 27 ? last : 0 }));
  const body = await frequency();
  const shared = {
    environment_name: environment,
    flow_id: null,
    start_ts: today - 27 * DAY,
    end_ts: body.end_ts,
    median_per_day: 0,
  };
  assert.ok(body.end_ts >= today + 999 && body.end_ts < today + 1100);
  assert.equal(body, { ...shared, total: 3, daily: daily(2, 1) });
  const flowId = server.db.prepare("SELECT public_id FROM flows WHERE name = ?").pluck().get(flow) as string;
  for (const flow_id of [flowId, flow]) {
    const ofFlow = await frequency(`?flow_id=${flow_id}`);
    assert.equal(ofFlow, { ...shared, flow_id, end_ts: ofFlow.end_ts, total: 2, daily: daily(1, 1) });
  }
  const ofMembers = await frequency("?flow_id=", logical);
  assert.equal(ofMembers, {
    ...shared,
    environment_name: logical,
    end_ts: ofMembers.end_ts,
    total: 3,
    daily: daily(2, 1),
  });

  const foreign = server.given.org();
  for (const name of ["nothing", flowId]) {
    const where = name === "nothing" ? at : foreign;
    const place = name === "nothing" ? environment : await server.given.environment(foreign);
    const answer = await get(where, `/environments/${where.org}/${place}/deployment_frequency?flow_id=${name}`);
    assert.equal(
      { status: answer.status, body: answer.body },
      { status: 404, body: { message: `Flow '${name}' does not exist in organization '${where.org}'` } },
    );
  }
});

test("answers 404 for what does not exist, and keeps the history of archived environments", async () => {
  const [at, foreign] = [server.given.org(), server.given.org()];
  const [flow, environment] = [await server.given.flow(at), await server.given.environment(at)];
  const fingerprint = await server.given.artifact(at, { flow, trail: "t" });
  const unknown = freshFingerprint();
  const refusals = async (where: At, name: string, message: string) => {
    for (const path of [
      `/deployments/${where.org}/${name}/${fingerprint}`,
      `/environments/${where.org}/${name}/deployments`,
      `/environments/${where.org}/${name}/deployment_frequency`,
    ]) {
      const answer = await get(where, path);
      assert.equal({ status: answer.status, body: answer.body }, { status: 404, body: { message } }, path);
    }
  };
  await refusals(at, "nothing", `Environment named 'nothing' does not exist for organization '${at.org}'`);
  await refusals(
    foreign,
    environment,
    `Environment named '${environment}' does not exist for organization '${foreign.org}'`,
  );
  for (const what of [fingerprint, unknown, fingerprint.slice(0, 12), "x"]) {
    const answer = await get(at, `/deployments/${at.org}/${environment}/${what}`);
    assert.equal(
      { status: answer.status, body: answer.body },
      { status: 404, body: { message: `Deployment '${what}' does not exist in organization '${at.org}'` } },
    );
  }

  reportRunning(at, environment, [fingerprint]);
  const renamed = fresh("renamed");
  await server.call("PUT", `/environments/${at.org}/${environment}/rename`, {
    key: at.key,
    body: { new_name: renamed },
  });
  assert.is((await get(at, `/deployments/${at.org}/${environment}/${fingerprint}`)).body.environment_name, renamed);
  assert.is((await get(at, `/deployments/${at.org}?env_name=${environment}`)).body.total_count, 1);
  await server.call("PUT", `/environments/${at.org}/${renamed}/archive`, { key: at.key });
  await refusals(at, renamed, `Environment named '${renamed}' has been archived for organization '${at.org}'`);
  assert.equal((await get(at, `/deployments/${at.org}?env_name=${renamed}`)).body.deployments, []);
  const { body } = await get(at, `/deployments/${at.org}`);
  const suffixed = body.deployments[0].environment_name as string;
  assert.ok(suffixed.startsWith(`${renamed}-archived-at-`));
  assert.is((await get(at, `/deployments/${at.org}/${suffixed}/${fingerprint}`)).status, 200);
});

test("lists deployments whose related records are missing", async () => {
  const at = server.given.org();
  const [flow, environment] = [await server.given.flow(at), await server.given.environment(at)];
  const [older, newer] = [
    await server.given.artifact(at, { flow, trail: "t", name: "app" }),
    await server.given.artifact(at, { flow, trail: "t", name: "app" }),
  ];
  reportRunning(at, environment, [older]);
  reportRunning(at, environment, [newer]);
  server.db.pragma("foreign_keys = OFF");
  server.db.prepare("DELETE FROM artifacts WHERE fingerprint = ?").run(older);
  const list = async () => (await get(at, `/deployments/${at.org}`)).body.deployments as Json[];
  const [second, first] = (await list()) as [Json, Json];
  assert.equal(
    {
      fingerprint: second["replaced"].fingerprint,
      git_commit: second["replaced"].git_commit,
      diff_url: second["replaced"].diff_url,
    },
    { fingerprint: older, git_commit: null, diff_url: null },
  );
  assert.equal(
    {
      fingerprint: first["fingerprint"],
      git_commit: first["git_commit"],
      lead_time_seconds: first["lead_time_seconds"],
      artifact: first["_links"].artifact,
    },
    { fingerprint: older, git_commit: null, lead_time_seconds: null, artifact: undefined },
  );
  server.db.prepare("DELETE FROM deployments WHERE fingerprint = ?").run(older);
  server.db.pragma("foreign_keys = ON");
  assert.equal(
    (await list()).map(({ fingerprint, replaced }) => [fingerprint, replaced]),
    [[newer, null]],
  );
});

test.run();
