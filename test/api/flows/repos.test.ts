/**
 * Repositories: read, listed, filtered; only reports create them (semantics 8.1, wire-contract 17).
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { fresh, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";

const test = suite("api/flows/repos");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
type Json = Record<string, any>;
type RepoInfo = { id: string; name: string; url?: string; [field: string]: unknown };

const get = (at: At, path: string): Promise<Answer> => server.call("GET", `/repos/${at.org}${path}`, { key: at.key });
const both = ({ status, body }: Answer) => [status, body];
const UNREADABLE = "This record is damaged and cannot be shown. Tell the operator of the server its name";

/** An organization with a flow, and a helper that reports a repository to it. */
async function world() {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const trail = (info: RepoInfo, name = fresh("trail")): Promise<string> =>
    server.given.trail(at, { flow, name, repo_info: { url: `https://github.com/${info.name}`, ...info } });
  const names = async (query = ""): Promise<string[]> => {
    const { status, body } = await get(at, query);
    assert.is(status, 200, JSON.stringify(body));
    return body.repos.map(({ name }: Json) => name);
  };
  const read = async (name: string): Promise<Json> => {
    const { status, body } = await get(at, `/${name}`);
    assert.is(status, 200, JSON.stringify(body));
    return body;
  };
  return { at, flow, trail, names, read };
}

test("a trail, an artifact or an attestation that names a repository creates it with all fields", async () => {
  const { at, flow, trail, read, names } = await world();
  assert.equal(await names(), []);
  await trail(
    {
      id: "17",
      name: "acme/shop",
      provider: "github",
      description: "A shop",
      namespace_path: ["acme"],
      additional_info: { stars: 3 },
    },
    "t",
  );
  const { body: trailBody } = await server.call("GET", `/trails/${at.org}/${flow}/t`, { key: at.key });
  const repo = await read("acme/shop");
  const id = repo["id"] as string;
  assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{8}$/);
  assert.equal(trailBody.repo_ids, [id]);
  const root = `http://assay.test/api/v2/repos/${at.org}`;
  assert.equal(repo, {
    id,
    name: "acme/shop",
    url: "https://github.com/acme/shop",
    provider: "github",
    repo_id: "17",
    description: "A shop",
    vcs_instance: "github.com",
    namespace_path: ["acme"],
    additional_info: { stars: 3 },
    tags: {},
    created_at: repo["created_at"],
    last_modified_at: repo["created_at"],
    latest_activity: repo["created_at"],
    _links: {
      self: { href: `${root}/${id}?id=${id}` },
      html: { href: `http://assay.test/${at.org}/repos/${id}` },
      deployments: { href: `${root}/${id}/deployments` },
      live_artifacts: { href: `${root}/live-artifacts/${id}?id=${id}` },
    },
  });
  assert.equal(
    await server.call("GET", `/repos/${at.org}/${id}?id=${id}`, { key: at.key }).then(both),
    [200, repo],
    "its own link leads to it",
  );

  await server.given.artifact(at, {
    flow,
    trail: "t",
    repo_info: { id: "18", name: "acme/cart", url: "https://git.test:8443/cart" },
  });
  await server.given.attestation(at, {
    flow,
    trail: "t",
    repo_info: { id: "19", name: "plain", url: "https://git.test/plain" },
  });
  assert.equal(await names(), ["acme/cart", "acme/shop", "plain"]);
  const [cart, plain] = [await read("acme/cart"), await read("plain")];
  assert.equal(
    {
      provider: cart["provider"],
      description: cart["description"],
      vcs_instance: cart["vcs_instance"],
      namespace_path: cart["namespace_path"],
      additional_info: cart["additional_info"],
    },
    {
      provider: null,
      description: null,
      vcs_instance: "git.test:8443",
      namespace_path: ["acme"],
      additional_info: null,
    },
  );
  assert.equal(plain["namespace_path"], []);
});

test("a report without id, name and url records no repository and is accepted", async () => {
  const { at, flow, names } = await world();
  for (const repo_info of [
    { name: "a", url: "https://git.test/a" },
    { id: "", name: "a", url: "https://git.test/a" },
    { id: "1", name: "", url: "https://git.test/a" },
  ])
    await server.given.trail(at, { flow, repo_info });
  assert.equal(await names(), []);
  const answer = await server.call("PUT", `/trails/${at.org}/${flow}`, {
    key: at.key,
    form: { json: { name: "bad", repo_info: { id: "1", name: "a", url: "no-address" } } },
  });
  assert.equal(both(answer), [
    400,
    {
      message: "Input payload validation failed",
      errors: { "repo_info.url": "Input should be a valid URL with scheme and host [input: no-address]" },
    },
  ]);
  assert.equal(await names(), []);
});

test("identifies a repository by provider and id at the code host, while its name may change", async () => {
  const { trail, read, names } = await world();
  await trail({ id: "1", name: "acme/old", provider: "github" });
  const before = await read("acme/old");
  await trail({ id: "1", name: "acme/old", provider: "github" });
  const heard = await read("acme/old");
  assert.equal(heard, { ...before, latest_activity: heard["latest_activity"] });
  assert.ok(heard["latest_activity"] > before["latest_activity"]);
  await trail({ id: "1", name: "globex/new", provider: "github" });
  const after = await read("globex/new");
  assert.equal(
    { id: after["id"], namespace_path: after["namespace_path"], names: await names() },
    { id: before["id"], namespace_path: ["globex"], names: ["globex/new"] },
  );
  assert.ok(after["last_modified_at"] > before["last_modified_at"]);
  await trail({ id: "1", name: "globex/new", provider: "gitlab" });
  assert.equal(await names(), ["globex/new", "globex/new"]);
});

test("finds a repository by its name, escaped or not, under both API roots", async () => {
  const { at, trail } = await world();
  const name = "acme/web ü/50%/shop";
  await trail({ id: "1", name, url: "https://git.test/x" });
  await trail({ id: "2", name: "acme/shop" });
  for (const path of ["acme/shop", "acme%2Fshop", "acme%2fshop"])
    for (const root of ["/api/v2", "/api/fastapi"]) {
      const answer = await server.call("GET", `/${root}/repos/${at.org}/${path}`, { key: at.key });
      assert.equal({ status: answer.status, name: answer.body.name }, { status: 200, name: "acme/shop" }, path);
    }
  for (const path of [encodeURIComponent(name), name.split("/").map(encodeURIComponent).join("/")])
    assert.equal((await get(at, `/${path}`)).body.name, name, path);
});

test("finds a repository by name even if the name ends like another path", async () => {
  const { at, trail, read } = await world();
  const names = [
    "acme/deployments",
    "acme/deployment-statistics",
    "a/b/deployments",
    "deployments",
    "tags/x",
    "filter-options/x",
  ];
  for (const [place, name] of names.entries()) await trail({ id: `${place}`, name });
  for (const name of names) assert.is((await read(name))["name"], name);
  for (const name of names.slice(0, 3)) assert.is((await read(encodeURIComponent(name)))["name"], name);
  assert.equal(both(await get(at, "/none/deployments")), [
    404,
    { message: `Repo 'none/deployments' not found in organization '${at.org}'` },
  ]);
  const answer = await server.call("DELETE", `/repos/${at.org}/acme/deployments`, { key: at.key });
  assert.equal({ status: answer.status, Allow: answer.headers.get("Allow") }, { status: 405, Allow: "GET, HEAD" });

  // Literal segments take precedence (operations 1.6): these two are found by their ids.
  for (const name of ["tags", "live-artifacts/x"]) {
    await trail({ id: name, name });
    const [{ id }] = (await get(at, `?name=${name}`)).body.repos;
    assert.is((await get(at, `/${id}?id=${id}`)).body.name, name);
  }
});

test("selects among repositories of a name by provider, and by id first", async () => {
  const { at, trail } = await world();
  await trail({ id: "1", name: "acme/shop", provider: "gitlab" });
  await trail({ id: "2", name: "acme/shop", provider: "github" });
  const several = (providers: string) => ({
    message:
      `Multiple repos named 'acme/shop' exist (${providers}). Specify the 'provider' query parameter to choose ` +
      "one",
  });
  assert.equal(both(await get(at, "/acme/shop")), [400, several("github, gitlab")]);
  await trail({ id: "3", name: "acme/shop", provider: "github" });
  await trail({ id: "4", name: "acme/shop", url: "https://git.test/x" });
  assert.equal(both(await get(at, "/acme%2Fshop")), [400, several("github, gitlab, unknown")]);
  assert.is((await get(at, "/acme/shop?provider=gitlab")).body.repo_id, "1");
  assert.is((await get(at, "/acme/shop?provider=github")).body.repo_id, "3", "the one that was created last");
  const all: Json[] = (await get(at, "?name=acme/shop")).body.repos;
  for (const { id, repo_id } of all)
    assert.is((await get(at, `/whatever/it/is?id=${id}&provider=gitlab`)).body.repo_id, repo_id);
  assert.equal(both(await get(at, "/acme/shop?id=")), [400, several("github, gitlab, unknown")], "an empty id is none");
  assert.equal(both(await get(at, "/acme/shop?provider=git")), [
    404,
    { message: `Repo 'acme/shop' not found in organization '${at.org}'` },
  ]);
  assert.equal(both(await get(at, "/acme/shop?provider=GitHub")), [
    400,
    {
      message: "Input payload validation failed",
      errors: {
        provider:
          "Input should be 'github', 'gitlab', 'bitbucket', 'bitbucket_cloud', 'bitbucket_dc', 'azure-devops', " +
          "'azure_devops_services', 'azure_devops_server', 'circleci', 'git' or 'subversion' [input: GitHub]",
      },
    },
  ]);
});

test("unknown repositories and those of other organizations are 404", async () => {
  const { at, trail, read } = await world();
  const other = server.given.org();
  await trail({ id: "1", name: "acme/shop" });
  const { id } = await read("acme/shop");
  const missing = (name: string, { org } = at) => [
    404,
    { message: `Repo '${name}' not found in organization '${org}'` },
  ];
  assert.equal(both(await get(at, "/acme/nothing")), missing("acme/nothing"));
  assert.equal(both(await get(at, "/ACME/shop")), missing("ACME/shop"));
  assert.equal(both(await get(at, "/acme/shop?id=nothing")), missing("nothing"));
  assert.equal(both(await get(at, `/${id}`)), missing(id), "an id is no name");
  assert.equal(both(await get(other, "/acme/shop")), missing("acme/shop", other));
  assert.equal(both(await get(other, `/${id}?id=${id}`)), missing(id, other));
  assert.equal((await get(other, "")).body.repos, []);
});

test("lists repositories in pages, with order and limits", async () => {
  const { at, trail, names } = await world();
  for (const name of ["c", "a", "e", "b", "d"]) await trail({ id: name, name });
  assert.equal(await get(at, "").then(({ body: { repos, ...rest } }) => [repos.length, rest]), [
    5,
    { page: 1, per_page: 15, total_pages: 1, total_count: 5 },
  ]);
  assert.equal(await names("?page=2&per_page=2"), ["c", "d"]);
  assert.equal(await names("?sort_direction=desc&per_page=2"), ["e", "d"]);
  assert.equal((await get(at, "?page=9&per_page=2")).body, {
    page: 9,
    per_page: 2,
    total_pages: 3,
    total_count: 5,
    repos: [],
  });
  assert.is((await get(at, "?per_page=50")).status, 200);
  const refusals: [string, Record<string, string>][] = [
    ["?per_page=51", { per_page: "Input should be less than or equal to 50 [input: 51]" }],
    [
      "?per_page=0&page=0",
      {
        page: "Input should be greater than or equal to 1 [input: 0]",
        per_page: "Input should be greater than or equal to 1 [input: 0]",
      },
    ],
    ["?page=x", { page: "Input should be a valid integer [input: x]" }],
    ["?sort_direction=up", { sort_direction: "Input should be 'asc' or 'desc' [input: up]" }],
  ];
  for (const [query, errors] of refusals)
    assert.equal(both(await get(at, query)), [400, { message: "Input payload validation failed", errors }], query);
});

test("filters the list, and refuses filters that exclude each other", async () => {
  const { at, trail, names, read } = await world();
  await trail({ id: "1", name: "acme/Shop", provider: "github" });
  await trail({ id: "2", name: "acme/web/cart", provider: "gitlab", url: "https://git.test/cart" });
  await trail({ id: "1", name: "globex/shop", provider: "gitlab", url: "https://git.test/shop" });
  const tag = async (name: string, set_tags: Record<string, string>) =>
    assert.is(
      (
        await server.call("PATCH", `/tags/${at.org}/repo/${(await read(name))["id"]}`, {
          key: at.key,
          body: { set_tags, remove_tags: [] },
        })
      ).status,
      200,
    );
  await tag("acme/Shop", { team: "pay", tier: "1" });
  await tag("globex/shop", { team: "shop", tier: "1", url: "https://x:1/y" });
  const cases: [string, string[]][] = [
    ["?name=acme/Shop", ["acme/Shop"]],
    ["?name=acme%2FShop", ["acme/Shop"]],
    ["?name=acme/shop", []],
    ["?search=SHOP", ["acme/Shop", "globex/shop"]],
    ["?search=x/s", ["globex/shop"]],
    ["?search=nothing", []],
    ["?provider=gitlab", ["acme/web/cart", "globex/shop"]],
    ["?provider=subversion", []],
    ["?repo_id=1", ["acme/Shop", "globex/shop"]],
    ["?repo_id=1&provider=github", ["acme/Shop"]],
    ["?repo_id=2&name=acme/Shop", ["acme/web/cart"]],
    ["?repo_id=9", []],
    ["?vcs_instance=git.test", ["acme/web/cart", "globex/shop"]],
    ["?vcs_instance=GitHub.com", ["acme/Shop"]],
    ["?namespace=acme", ["acme/Shop", "acme/web/cart"]],
    ["?namespace=acme/web", ["acme/web/cart"]],
    ["?namespace=ac", []],
    ["?tag=team", ["acme/Shop", "globex/shop"]],
    ["?tag=team:pay", ["acme/Shop"]],
    ["?tag=tier:1&tag=team:shop", ["globex/shop"]],
    ["?tag=tier:1,team:shop", ["globex/shop"]],
    ["?tag=url:https%3A%2F%2Fx%3A1%2Fy", ["globex/shop"]],
    ["?tag=team:pay&tag=team:shop", []],
    ["?tag=TEAM", []],
    ["?tag=", []],
    ["?tag=team&namespace=globex&provider=gitlab&vcs_instance=git.test&search=op", ["globex/shop"]],
    ["?name=&search=&repo_id=&vcs_instance=&namespace=", ["acme/Shop", "acme/web/cart", "globex/shop"]],
    ["?name=&search=cart", ["acme/web/cart"]],
  ];
  for (const [query, expected] of cases) assert.equal(await names(query), expected, query);
  assert.is((await get(at, "?tag=team&per_page=1")).body.total_count, 2);
  for (const query of ["?name=a&search=b", "?name=a&search=b&repo_id=1"])
    assert.equal(both(await get(at, query)), [400, { message: "Only one of 'name' and 'search' can be given" }]);
});

test("lists the filter options and the tags in use", async () => {
  const { at, trail, read } = await world();
  const options = async (query = "") => (await get(at, `/filter-options${query}`)).body;
  assert.equal(await options(), { providers: [], vcs_instances: [], namespace_values: [] });
  assert.equal(both(await get(at, "/tags")), [200, []]);
  await trail({ id: "1", name: "acme/shop", provider: "github" });
  await trail({ id: "2", name: "acme/web/cart", provider: "gitlab", url: "https://git.test/cart" });
  await trail({ id: "3", name: "globex/site", url: "https://git.test/site" });
  for (const [name, tier] of [
    ["acme/shop", "1"],
    ["acme/web/cart", "2"],
  ] as const)
    await server.call("PATCH", `/tags/${at.org}/repo/${(await read(name))["id"]}`, {
      key: at.key,
      body: { set_tags: { team: "pay", tier } },
    });
  assert.equal(await options(), {
    providers: ["github", "gitlab"],
    vcs_instances: ["git.test", "github.com"],
    namespace_values: ["acme", "globex"],
  });
  assert.equal(await options("?provider=gitlab"), {
    providers: ["github", "gitlab"],
    vcs_instances: ["git.test"],
    namespace_values: ["acme"],
  });
  assert.equal(await options("?vcs_instance=GIT.test&namespace=acme"), {
    providers: ["gitlab"],
    vcs_instances: ["git.test", "github.com"],
    namespace_values: ["acme/web"],
  });
  assert.equal(await options("?tag=team&tag=tier:1"), {
    providers: ["github"],
    vcs_instances: ["github.com"],
    namespace_values: ["acme"],
  });
  assert.equal(await options("?namespace=&vcs_instance="), await options());
  assert.equal(both(await get(at, "/tags")), [
    200,
    [
      { key: "team", value: "pay" },
      { key: "tier", value: "1" },
      { key: "tier", value: "2" },
    ],
  ]);
  assert.is((await get(at, "/filter-options?provider=nothing")).status, 400);
  const other = server.given.org();
  assert.equal((await server.call("GET", `/repos/${other.org}/tags`, { key: other.key })).body, []);
});

test("marks a damaged record without failing its list or its own read", async () => {
  const { at, trail, read } = await world();
  await trail({
    id: "1",
    name: "a/damaged",
    description: "was fine",
    namespace_path: ["a"],
    additional_info: { b: 1 },
  });
  await trail({ id: "2", name: "a/whole" });
  const before = await read("a/damaged");
  for (const column of ["namespace_path_json", "additional_info_json"]) {
    const original = server.db.prepare(`SELECT ${column} FROM repos WHERE public_id = ?`).pluck().get(before["id"]);
    server.db.prepare(`UPDATE repos SET ${column} = '{' WHERE public_id = ?`).run(before["id"]);
    const marked = { ...before, additional_info: null, namespace_path: ["a"], description: UNREADABLE };
    const { status, body } = await get(at, "");
    assert.equal(
      { status, repos: body.repos.map(({ name }: Json) => name), "repos[0]": body.repos[0] },
      { status: 200, repos: ["a/damaged", "a/whole"], "repos[0]": marked },
    );
    assert.equal(await read("a/damaged"), marked);
    server.db.prepare(`UPDATE repos SET ${column} = ? WHERE public_id = ?`).run(original, before["id"]);
  }
});

test("fifty concurrent reports of one new repository create it once, and all are accepted", async () => {
  const { at, flow, read } = await world();
  const repo_info = { id: "99", name: "acme/rush", url: "https://github.com/acme/rush", provider: "github" };
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, n) =>
      server.call("PUT", `/trails/${at.org}/${flow}`, {
        key: at.key,
        form: { json: { name: `rush-${n}`, repo_info } },
      }),
    ),
  );
  assert.equal([...new Set(answers.map(({ status, text }) => `${status} ${text}`))], ['201 "OK"']);
  const { body } = await get(at, "?name=acme/rush");
  assert.is(body.total_count, 1);
  const { id } = await read("acme/rush");
  assert.is(
    server.db
      .prepare("SELECT count(*) FROM trail_repos JOIN repos ON repos.id = repo_id WHERE public_id = ?")
      .pluck()
      .get(id),
    50,
  );
});

test("a refused report leaves no repository behind", async () => {
  const { at, flow, names } = await world();
  const repo_info = { id: "1", name: "acme/ghost", url: "https://github.com/acme/ghost" };
  const unknown = await server.call("POST", `/attestations/${at.org}/${flow}/trail/t/generic`, {
    key: at.key,
    form: { json: { attestation_name: "a", is_compliant: true, artifact_fingerprint: "a".repeat(64), repo_info } },
  });
  assert.is(unknown.status, 404);
  assert.equal(await names(), []);
});

test.run();
