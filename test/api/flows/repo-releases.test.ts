/** The releases of a repository: running artifacts and deployments (semantics 8.1). */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { freshCommit, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";
import { running, runningIn } from "../environments/given.ts";

const test = suite("api/flows/repo-releases");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
type Json = Record<string, any>;
const DAY = 86_400;

const get = (at: At, path: string): Promise<Answer> => server.call("GET", `/repos/${at.org}${path}`, { key: at.key });
const both = ({ status, body }: Answer) => [status, body];

/**
 * An organization with a flow, two environments and a logical one of both, and helpers that report artifacts.
 */
async function world() {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const { environment, report, attach, times, idOf } = runningIn(server);
  const [prod, stage] = [environment(at, { name: `prod-${flow}` }), environment(at, { name: `stage-${flow}` })];
  const everywhere = environment(at, { name: `all-${flow}`, type: "logical", members: [prod, stage] });
  const build = (repo: { id: string; name: string; provider?: string } | null, fields: Json = {}): Promise<string> =>
    server.given.artifact(at, {
      flow,
      trail: "t",
      ...(repo ? { repo_info: { url: `https://github.com/${repo.name}`, ...repo } } : {}),
      ...fields,
    });
  const idOfRepo = async (name: string): Promise<string> => (await get(at, `/${name}`)).body.id;
  return { at, flow, prod, stage, everywhere, build, idOfRepo, report, attach, times, idOf, environment };
}

const SHOP = { id: "1", name: "acme/shop", provider: "github" };
const CART = { id: "2", name: "acme/cart", provider: "github" };

test("lists the running artifacts of a repository with environment, verdict and start", async () => {
  const { at, flow, prod, stage, build, idOfRepo, report, attach, times, idOf } = await world();
  const commit = freshCommit();
  const shop = await build(SHOP, { commit, commit_url: `https://github.com/acme/shop/commit/${commit}` });
  const bare = await build(SHOP, { commit_url: "" });
  const cart = await build(CART);
  const policy = await server.given.policy(at, { yaml: "artifacts:\n  provenance: {required: true}\n" });
  attach(at, prod, policy);
  report(at, prod, [running("web", shop), running("cart", cart)]);
  report(at, stage, [running("web", shop), running("other", bare)]);
  report(at, prod, [running("web", shop), running("unknown", "f".repeat(64))]);

  const id = await idOfRepo("acme/shop");
  const root = "http://assay.test";
  const publicId = (name: string): string => server.store.environments.get(idOf(at, name)).public_id;
  const artifact = async (fingerprint: string): Promise<Json> =>
    (await server.call("GET", `/artifacts/${at.org}/${flow}/fingerprint/${fingerprint}`, { key: at.key })).body;
  const [one, two] = [await artifact(shop), await artifact(bare)];
  const entry = (
    name: string,
    artifact_id: string,
    artifact_name: string,
    snapshot_index: number,
    started: number,
    compliance: string | null,
  ) => ({
    environment_id: publicId(name),
    artifact_id,
    artifact_name,
    snapshot_index,
    compliance,
    started_at: times(at, name)[started - 1],
    _links: {
      snapshot: {
        self: { href: `${root}/api/v2/snapshots/${at.org}/${name}/${snapshot_index}` },
        html: { href: `${root}/${at.org}/environments/${name}/${snapshot_index}` },
      },
    },
  });
  const place = (name: string) => ({
    id: publicId(name),
    name,
    type: "docker",
    _links: {
      self: { href: `${root}/api/v2/environments/${at.org}/${name}` },
      html: { href: `${root}/${at.org}/environments/${name}` },
    },
  });
  const shown = (
    { id: artifactId, fingerprint, flow_name, api_url, html_url }: Json,
    commit_sha: string,
    commit_url: string | null,
  ) => ({
    id: artifactId,
    fingerprint,
    flow_name,
    commit_sha,
    commit_url,
    _links: { self: { href: api_url }, html: { href: html_url } },
  });
  const self = `${root}/api/v2/repos/${at.org}/live-artifacts/${id}?id=${id}`;
  const body = {
    live_artifacts: [
      entry(prod, one["id"], "web", 2, 1, "COMPLIANT"),
      entry(stage, two["id"], "other", 1, 1, null),
      entry(stage, one["id"], "web", 1, 1, null),
    ],
    _embedded: {
      artifacts: [shown(one, commit, one["commit_url"]), shown(two, two["git_commit"], null)],
      environments: [place(prod), place(stage)],
    },
    _links: { self: { href: self }, repo: { href: `${root}/api/v2/repos/${at.org}/${id}?id=${id}` } },
  };
  assert.is(times(at, prod).length, 2);
  for (const path of ["acme/shop", "acme%2Fshop", "acme/shop?provider=github", `x?id=${id}`])
    assert.equal(both(await get(at, `/live-artifacts/${path}`)), [200, body], path);
  assert.equal((await get(at, "/live-artifacts/acme/cart")).body.live_artifacts, []);
});

test("of several repositories with a name the one created last is selected", async () => {
  const { at, prod, build, report } = await world();
  const older = await build(SHOP);
  const newer = await build({ ...SHOP, provider: "gitlab" });
  report(at, prod, [running("older", older), running("newer", newer)]);
  const live = async (query = ""): Promise<string[]> =>
    (await get(at, `/live-artifacts/acme/shop${query}`)).body.live_artifacts.map(
      (entry: Json) => entry["artifact_name"],
    );
  assert.equal(
    {
      live: await live(),
      "with provider github": await live("?provider=github"),
      "with provider gitlab": await live("?provider=gitlab"),
      "with an empty id": await live("?id="),
    },
    {
      live: ["newer"],
      "with provider github": ["older"],
      "with provider gitlab": ["newer"],
      "with an empty id": ["newer"],
    },
  );
  for (const [path, name] of [
    ["acme/none", "acme/none"],
    ["acme/shop?provider=git", "acme/shop"],
    ["acme/shop?id=none", "none"],
  ])
    assert.equal(
      both(await get(at, `/live-artifacts/${path}`)),
      [404, { message: `Repo '${name}' not found in organization '${at.org}'` }],
      path,
    );
});

test("leaves out artifacts in archived environments", async () => {
  const { at, prod, build, report } = await world();
  report(at, prod, [running("web", await build(SHOP))]);
  assert.is((await get(at, "/live-artifacts/acme/shop")).body.live_artifacts.length, 1);
  await server.call("PUT", `/environments/${at.org}/${prod}/archive`, { key: at.key });
  const { body } = await get(at, "/live-artifacts/acme/shop");
  assert.equal(
    { live_artifacts: body.live_artifacts, _embedded: body._embedded },
    { live_artifacts: [], _embedded: { artifacts: [], environments: [] } },
  );
});

test("lists the deployments of a repository by window and environment, as the organization's list does", async () => {
  const { at, prod, stage, everywhere, build, idOfRepo, report } = await world();
  const [shop, again, cart] = [
    await build(SHOP, { name: "app" }),
    await build(SHOP, { name: "app" }),
    await build(CART),
  ];
  report(at, prod, [running("web", shop), running("cart", cart)]);
  report(at, stage, [running("web", shop)]);
  report(at, prod, [running("web", again)]);
  const id = await idOfRepo("acme/shop");
  const { body: all } = await server.call("GET", `/deployments/${at.org}?repo_name=acme/shop`, { key: at.key });
  assert.equal(both(await get(at, `/${id}/deployments`)), [200, all]);
  assert.equal(
    {
      total_count: all.total_count,
      deployments: all.deployments.map((one: Json) => [one["environment_name"], one["fingerprint"]]),
    },
    {
      total_count: 3,
      deployments: [
        [prod, again],
        [stage, shop],
        [prod, shop],
      ],
    },
  );

  const list = async (query: string): Promise<string[]> =>
    (await get(at, `/${id}/deployments${query}`)).body.deployments.map(
      (one: Json) => `${one["environment_name"]} ${one["fingerprint"]}`,
    );
  const [third, second, first] = [`${prod} ${again}`, `${stage} ${shop}`, `${prod} ${shop}`];
  const [newest, , oldest] = all.deployments.map((one: Json) => one["deployed_at"]) as [number, number, number];
  const cases: [string, string[]][] = [
    [`?env=${prod}`, [third, first]],
    [`?env=${prod}&env=${stage}`, [third, second, first]],
    [`?env=${prod},${stage}`, [third, second, first]],
    [`?env=${everywhere}`, [third, second, first]],
    [`?env=${everywhere}&env=${prod}`, [third, second, first]],
    ["?env=nothing", []],
    [`?env=nothing&env=${stage}`, [second]],
    ["?env=", [third, second, first]],
    [`?start_ts=${oldest}&end_ts=${oldest}`, [first]],
    [`?start-ts=${newest}`, [third]],
    [`?end-ts=${oldest}&start-ts=0`, [first]],
    [`?start_ts=${newest}&start-ts=0`, [third]],
    [`?end_ts=${oldest + 29 * DAY}`, []],
    ["?per_page=2", [third, second]],
    ["?per_page=2&page=2", [first]],
  ];
  for (const [query, expected] of cases) assert.equal(await list(query), expected, query);
  assert.equal((await get(at, `/${id}/deployments?per_page=0`)).body, {
    page: 1,
    per_page: 0,
    total_pages: 0,
    total_count: 3,
    deployments: [],
  });
  assert.equal((await get(at, `/${id}/deployments?page=7`)).body, {
    page: 7,
    per_page: 15,
    total_pages: 1,
    total_count: 3,
    deployments: [],
  });
  const refusals: [string, Record<string, string>][] = [
    ["?per_page=51", { per_page: "Input should be less than or equal to 50 [input: 51]" }],
    ["?per_page=-1", { per_page: "Input should be greater than or equal to 0 [input: -1]" }],
    ["?start_ts=yesterday", { start_ts: "Input should be a valid number [input: yesterday]" }],
  ];
  for (const [query, errors] of refusals)
    assert.equal(
      both(await get(at, `/${id}/deployments${query}`)),
      [400, { message: "Input payload validation failed", errors }],
      query,
    );
});

test("statistics have a series for each physical environment, not aggregated", async () => {
  const { at, prod, stage, everywhere, build, idOfRepo, report, environment } = await world();
  const [shop, again] = [await build(SHOP, { name: "app" }), await build(SHOP, { name: "app" })];
  report(at, prod, [running("web", shop), running("cart", await build(CART))]);
  report(at, prod, [running("web", again)]);
  report(at, stage, [running("web", shop)]);
  const idle = environment(at, { name: `idle-${prod}` });
  const id = await idOfRepo("acme/shop");
  const { body: all } = await server.call("GET", `/deployments/${at.org}?repo_name=acme/shop`, { key: at.key });
  const series = (name: string) => {
    const of: Json[] = all.deployments.filter((one: Json) => one["environment_name"] === name).reverse();
    return {
      environment_name: name,
      deployed_at: of.map((one) => one["deployed_at"]),
      lead_time_seconds: of.map((one) => one["lead_time_seconds"]),
    };
  };
  const statistics = async (query = "") => {
    const { status, body } = await get(at, `/${id}/deployment-statistics${query}`);
    assert.is(status, 200, JSON.stringify(body));
    assert.is(body.end_ts - body.start_ts, 28 * DAY);
    return body.environments;
  };
  assert.equal(series(prod).lead_time_seconds.length, 2);
  assert.equal(await statistics(), [series(prod), series(stage)]);
  assert.equal(await statistics(`?env=${stage}`), [series(stage)]);
  assert.equal(await statistics(`?env=${everywhere}&env=${idle}`), [
    { environment_name: idle, deployed_at: [], lead_time_seconds: [] },
    series(prod),
    series(stage),
  ]);
  assert.equal(await statistics("?env=nothing"), []);
  const [last] = series(stage).deployed_at;
  assert.equal((await get(at, `/${id}/deployment-statistics?start_ts=${last}&end_ts=${last}`)).body, {
    start_ts: last,
    end_ts: last,
    environments: [series(stage)],
  });
  assert.equal((await get(at, `/${id}/deployment-statistics?start-ts=5&end-ts=6`)).body, {
    start_ts: 5,
    end_ts: 6,
    environments: [],
  });
});

test("both accept only the id of a repository of the organization", async () => {
  const { at, build, idOfRepo } = await world();
  await build(SHOP);
  const id = await idOfRepo("acme/shop");
  const other = server.given.org();
  for (const what of ["deployments", "deployment-statistics"]) {
    assert.equal(both(await get(other, `/${id}/${what}`)), [
      404,
      { message: `Repo '${id}' not found in organization '${other.org}'` },
    ]);
    const unknown = "00000000-0000-0000-0000-00000000";
    assert.equal(both(await get(at, `/${unknown}/${what}`)), [
      404,
      { message: `Repo '${unknown}' not found in organization '${at.org}'` },
    ]);
    assert.equal(both(await get(at, `/acme%2Fshop/${what}`)), [
      404,
      { message: `Repo 'acme/shop/${what}' not found in organization '${at.org}'` },
    ]);
  }
});

test.run();
