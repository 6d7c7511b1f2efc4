/** Builds: the first report of each fingerprint (semantics 8.1, wire-contract 22). */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { freshFingerprint, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";

const test = suite("api/flows/builds");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
type Json = Record<string, any>;
const DAY = 86_400;

const get = (at: At, path = ""): Promise<Answer> => server.call("GET", `/builds/${at.org}${path}`, { key: at.key });
const both = ({ status, body }: Answer) => [status, body];

async function world() {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const build = (
    repo: { id: string; name: string; provider?: string } | null = null,
    fields: Json = {},
  ): Promise<string> =>
    server.given.artifact(at, {
      flow,
      trail: "t",
      ...(repo ? { repo_info: { url: `https://github.com/${repo.name}`, ...repo } } : {}),
      ...fields,
    });
  const list = async (query = ""): Promise<string[]> => {
    const { status, body } = await get(at, query);
    assert.is(status, 200, JSON.stringify(body));
    return body.builds.map((one: Json) => one["fingerprint"]);
  };
  const times = async (query = ""): Promise<number[]> => (await get(at, `/statistics${query}`)).body.timestamps;
  return { at, flow, build, list, times };
}

const SHOP = { id: "1", name: "acme/shop", provider: "github" };

test("lists a build with all fields, and nothing before the first", async () => {
  const { at, flow, build } = await world();
  const counts = { page: 1, per_page: 15, total_pages: 0, total_count: 0 };
  assert.equal(both(await get(at)), [200, { ...counts, builds: [] }]);
  const first = await build(SHOP);
  const alone = await build(null, { trail: null });
  const repo = (await server.call("GET", `/repos/${at.org}/acme/shop`, { key: at.key })).body;
  const artifact = async (fingerprint: string): Promise<Json> =>
    (await server.call("GET", `/artifacts/${at.org}/${flow}/fingerprint/${fingerprint}`, { key: at.key })).body;
  const [one, two] = [await artifact(first), await artifact(alone)];
  const reported = ({ filename, git_commit, commit_url, build_url }: Json) => ({
    artifact_name: filename,
    git_commit,
    commit_url,
    build_url,
  });
  const links = ({ api_url, html_url }: Json) => ({ self: { href: api_url }, html: { href: html_url } });
  assert.equal(both(await get(at)), [
    200,
    {
      page: 1,
      per_page: 15,
      total_pages: 1,
      total_count: 2,
      builds: [
        {
          created_at: Number(two["created_at"]),
          fingerprint: alone,
          ...reported(two),
          flow_name: flow,
          trail_name: "",
          repo_info: null,
          _links: { artifact: links(two) },
        },
        {
          created_at: Number(one["created_at"]),
          fingerprint: first,
          ...reported(one),
          flow_name: flow,
          trail_name: "t",
          repo_info: { name: "acme/shop", repo_id: "1" },
          _links: { artifact: links(one), repo: { self: repo._links.self, html: repo._links.html } },
        },
      ],
    },
  ]);
});

test("a fingerprint has one build, wherever and however often it is reported", async () => {
  const { at, flow, build, list, times } = await world();
  const release = await server.given.flow(at);
  const fingerprint = await build(SHOP);
  const [at1] = await times();
  await build(SHOP, { fingerprint });
  await build(null, { fingerprint, trail: "other" });
  await build(null, { fingerprint, trail: "other", name: "app" });
  await build(null, { fingerprint, flow: release });
  await build(null, { fingerprint, trail: null });
  assert.equal({ list: await list(), times: await times() }, { list: [fingerprint], times: [at1] });
  const [{ flow_name, trail_name }] = (await get(at)).body.builds;
  assert.equal({ flow_name, trail_name }, { flow_name: flow, trail_name: "t" });
  const other = await world();
  await other.build(null, { fingerprint });
  assert.equal(
    { list: await other.list(), "list.length": (await list()).length },
    { list: [fingerprint], "list.length": 1 },
  );
});

test("concurrent reports of one new fingerprint create one build", async () => {
  const { at, flow, list } = await world();
  const fingerprint = freshFingerprint();
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, n) =>
      server.call("POST", `/artifacts/${at.org}/${flow}`, {
        key: at.key,
        body: {
          filename: "app",
          fingerprint,
          git_commit: "c".repeat(40),
          build_url: "",
          commit_url: "",
          trail_name: `t-${n}`,
          repo_info: { ...SHOP, url: "https://github.com/x" },
        },
      }),
    ),
  );
  assert.equal([...new Set(answers.map(({ status }) => status))], [201]);
  assert.equal(await list(), [fingerprint]);
  assert.is((await server.call("GET", `/repos/${at.org}`, { key: at.key })).body.total_count, 1);
});

test("selects the repository by the most specific of three filters", async () => {
  const { at, build, list, times } = await world();
  const shop = await build(SHOP);
  const twin = await build({ ...SHOP, provider: "gitlab" });
  const cart = await build({ id: "2", name: "acme/cart" });
  const bare = await build();
  const idOf = async (name: string, query = ""): Promise<string> =>
    (await server.call("GET", `/repos/${at.org}/${name}${query}`, { key: at.key })).body.id;
  const [shopId, cartId] = [await idOf("acme/shop", "?provider=github"), await idOf("acme/cart")];
  const cases: [string, string[]][] = [
    ["", [bare, cart, twin, shop]],
    ["?repo_name=acme/shop", [twin, shop]],
    ["?repo_name=acme%2Fcart", [cart]],
    ["?repo_name=acme/none", []],
    ["?repo_id=1", [twin, shop]],
    ["?repo_id=none", []],
    [`?repo_inner_id=${shopId}`, [shop]],
    ["?repo_inner_id=none", []],
    [`?repo_inner_id=${cartId}&repo_id=1&repo_name=acme/shop`, [cart]],
    ["?repo_id=2&repo_name=acme/shop", [cart]],
    ["?repo_name=&repo_id=&repo_inner_id=", [bare, cart, twin, shop]],
  ];
  for (const [query, expected] of cases) {
    assert.equal(await list(query), expected, query);
    assert.is((await times(query)).length, expected.length, query);
  }
  const other = server.given.org();
  assert.equal((await get(other, `?repo_inner_id=${shopId}`)).body.builds, []);

  // The name is the current one; the id at the code host stays.
  await build({ id: "2", name: "acme/basket" });
  assert.equal(
    {
      "by the former name": await list("?repo_name=acme/cart"),
      "count by the current name": (await list("?repo_name=acme/basket")).length,
      "count by id": (await list("?repo_id=2")).length,
    },
    { "by the former name": [], "count by the current name": 2, "count by id": 2 },
  );
});

test("accepts windows and pages in both spellings", async () => {
  const { at, build, list, times } = await world();
  const first = await build();
  server.clock.at += 27 * DAY;
  const [second, third] = [await build(), await build()];
  const [t1, t2, t3] = (await times()) as [number, number, number];
  const cases: [string, string[]][] = [
    ["", [third, second, first]],
    [`?start_ts=${t2}`, [third, second]],
    [`?start_ts=${t1}&end_ts=${t2}`, [second, first]],
    [`?start-ts=${t1}&end-ts=${t1}`, [first]],
    [`?start_ts=${t3}&start-ts=${t1}`, [third]],
    [`?end_ts=${t1}`, [first]],
    [`?end_ts=${t1 + 28 * DAY}`, [third, second, first]],
    [`?end_ts=${t1 + 28 * DAY + 1}`, [third, second]],
    [`?start_ts=${t3}&end_ts=${t1}`, []],
  ];
  for (const [query, expected] of cases) {
    assert.equal(await list(query), expected, query);
    assert.is((await times(query)).length, expected.length, query);
  }
  server.clock.at = t3 + 28 * DAY;
  assert.equal(await list(), [], "twenty-eight days are over");
  const whole = `start_ts=0&end_ts=${t3}`;
  assert.equal((await get(at, `/statistics?${whole}`)).body, {
    start_ts: 0,
    end_ts: t3,
    count: 3,
    timestamps: [t1, t2, t3],
  });
  const exponents = "start_ts=1.7e%2B09&end_ts=1.700000001e+09";
  const inExponents = (await get(at, `/statistics?${exponents}`)).body;
  const window = [inExponents.start_ts, inExponents.end_ts];
  assert.equal(window, [1_700_000_000, 1_700_000_001], "the exponent form of typed clients");
  assert.equal((await get(at, "/statistics?start-ts=1&end-ts=2")).body, {
    start_ts: 1,
    end_ts: 2,
    count: 0,
    timestamps: [],
  });
  assert.equal(
    {
      "first page": await list(`?${whole}&per_page=2`),
      "second page": await list(`?${whole}&per_page=2&page=2`),
    },
    { "first page": [third, second], "second page": [first] },
  );
  assert.equal((await get(at, `?${whole}&per_page=0`)).body, {
    page: 1,
    per_page: 0,
    total_pages: 0,
    total_count: 3,
    builds: [],
  });
  assert.equal((await get(at, `?${whole}&page=5&per_page=2`)).body, {
    page: 5,
    per_page: 2,
    total_pages: 2,
    total_count: 3,
    builds: [],
  });
  const { body } = await get(at, "/statistics");
  assert.is(body.end_ts - body.start_ts, 28 * DAY);
});

test("refuses numbers out of range", async () => {
  const { at } = await world();
  const refusals: [string, Record<string, string>][] = [
    ["?per_page=51", { per_page: "Input should be less than or equal to 50 [input: 51]" }],
    ["?per_page=-1", { per_page: "Input should be greater than or equal to 0 [input: -1]" }],
    ["?page=0", { page: "Input should be greater than or equal to 1 [input: 0]" }],
    [
      "?start_ts=x&end-ts=y",
      { start_ts: "Input should be a valid number [input: x]", "end-ts": "Input should be a valid number [input: y]" },
    ],
    ["/statistics?end_ts=x", { end_ts: "Input should be a valid number [input: x]" }],
  ];
  for (const [query, errors] of refusals)
    assert.equal(both(await get(at, query)), [400, { message: "Input payload validation failed", errors }], query);
});

test("counts and marks a build whose record is gone", async () => {
  const { at, build } = await world();
  const [gone, whole] = [await build(SHOP), await build(SHOP)];
  server.db.pragma("foreign_keys = OFF");
  server.db.prepare("DELETE FROM artifacts WHERE fingerprint = ?").run(gone);
  server.db.pragma("foreign_keys = ON");
  const { status, body } = await get(at);
  assert.equal(
    { status, total_count: body.total_count, fingerprint: body.builds[0].fingerprint },
    { status: 200, total_count: 2, fingerprint: whole },
  );
  const { created_at, _links, ...rest } = body.builds[1];
  assert.equal(rest, {
    fingerprint: "",
    artifact_name: "This record is damaged and cannot be shown. Tell the operator of the server its name",
    git_commit: null,
    commit_url: null,
    build_url: null,
    flow_name: "This record is damaged and cannot be shown. Tell the operator of the server its name",
    trail_name: "",
    repo_info: { name: "acme/shop", repo_id: "1" },
  });
  assert.equal(
    { "typeof created_at": typeof created_at, "keys of _links": Object.keys(_links) },
    { "typeof created_at": "number", "keys of _links": ["repo"] },
  );
});

test("a refused report creates no build", async () => {
  const { at, flow, list } = await world();
  const body = {
    filename: "",
    fingerprint: freshFingerprint(),
    git_commit: "c".repeat(40),
    build_url: "",
    commit_url: "",
    trail_name: "t",
  };
  assert.is((await server.call("POST", `/artifacts/${at.org}/${flow}`, { key: at.key, body })).status, 400);
  assert.is(
    (await server.call("POST", `/artifacts/${at.org}/none`, { key: at.key, body: { ...body, filename: "app" } }))
      .status,
    404,
  );
  assert.equal(await list(), []);
});

test.run();
