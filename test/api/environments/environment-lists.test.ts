import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";

const test = suite("api/environments/environment-lists");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
const list = (at: At, query = ""): Promise<Answer> =>
  server.call("GET", `/environments/${at.org}${query}`, { key: at.key });
const namesOf = (answer: Answer): string[] => answer.body.map((environment: { name: string }) => environment.name);
const names = async (at: At, query: string): Promise<string[]> => namesOf(await list(at, query));
const tag = (at: At, name: string, set_tags: Record<string, string>): Promise<Answer> =>
  server.call("PATCH", `/tags/${at.org}/env/${name}`, { key: at.key, body: { set_tags } });

/** An organization with these environments. */
async function givenEnvironments(...all: string[]): Promise<At> {
  const at = server.given.org();
  for (const name of all) await server.given.environment(at, { name });
  return at;
}

function assertAnswer(answer: Answer, status: number, body: unknown): void {
  assert.equal(answer.body, body);
  assert.is(answer.status, status);
}

test("returns an empty list or page without environments", async () => {
  const at = server.given.org();
  assertAnswer(await list(at), 200, []);
  assertAnswer(await list(at, "?page=1"), 200, {
    page: 1,
    per_page: 15,
    total_pages: 0,
    total_count: 0,
    environments: [],
  });
});

test("lists an environment as it is read alone, with tags, policies and members", async () => {
  const at = await givenEnvironments("a", "b");
  const policies = [
    await server.given.policy(at, { yaml: null }),
    await server.given.policy(at, { yaml: null }),
  ].reverse();
  await server.given.environment(at, {
    name: "c",
    policies,
    include_scaling: true,
    require_provenance: true,
    description: "d",
  });
  await server.given.environment(at, { name: "all", members: ["c", "a"] });
  await tag(at, "c", { "managed-by": "terraform", "b.c": '"ü"' });
  server.db
    .prepare(
      "UPDATE environments SET state = 1, last_reported_at = 5.25, last_changed_at = 4.5 WHERE name = 'c' " +
        "AND description = 'd'",
    )
    .run();
  const alone = await Promise.all(
    ["a", "all", "b", "c"].map(
      async (name) => (await server.call("GET", `/environments/${at.org}/${name}`, { key: at.key })).body,
    ),
  );
  assertAnswer(await list(at), 200, alone);
  const { last_modified_at, ...c } = alone[3];
  assert.equal(c, {
    org: at.org,
    name: "c",
    type: "K8S",
    description: "d",
    last_reported_at: 5.25,
    last_changed_at: 4.5,
    state: true,
    include_scaling: true,
    require_provenance: true,
    tags: { "b.c": '"ü"', "managed-by": "terraform" },
    policies,
    included_environments: null,
  });
  assert.is(typeof last_modified_at, "number");
  assertAnswer(await list(at, "?per_page=2&page=2"), 200, {
    page: 2,
    per_page: 2,
    total_pages: 2,
    total_count: 4,
    environments: alone.slice(2),
  });
});

test("uses the envelope with either paging parameter, and echoes a page beyond the end", async () => {
  const at = await givenEnvironments("a", "b", "c");
  const page = async (query: string) => {
    const { status, body } = await list(at, query);
    assert.is(status, 200);
    const { environments, ...counts } = body;
    return [environments.map(({ name }: { name: string }) => name), counts];
  };
  assert.equal(await page("?page=1"), [["a", "b", "c"], { page: 1, per_page: 15, total_pages: 1, total_count: 3 }]);
  assert.equal(await page("?per_page=2"), [["a", "b"], { page: 1, per_page: 2, total_pages: 2, total_count: 3 }]);
  assert.equal(await page("?per_page=2&page=3"), [[], { page: 3, per_page: 2, total_pages: 2, total_count: 3 }]);
  assert.equal(await page("?page=1&name=b"), [["b"], { page: 1, per_page: 15, total_pages: 1, total_count: 1 }]);
  assert.equal(await page("?per_page=50&page=9007199254740991"), [
    [],
    { page: 9007199254740991, per_page: 50, total_pages: 1, total_count: 3 },
  ]);
});

test("refuses out-of-range parameters by name", async () => {
  const at = server.given.org();
  const cases: [string, Record<string, string>][] = [
    ["page=0", { page: "Input should be greater than or equal to 1 [input: 0]" }],
    ["page=two", { page: "Input should be a valid integer [input: two]" }],
    ["per_page=0", { per_page: "Input should be greater than or equal to 1 [input: 0]" }],
    ["per_page=51", { per_page: "Input should be less than or equal to 50 [input: 51]" }],
    ["sort=age", { sort: "Input should be 'name', 'last_modified_at', 'last_changed_at' or 'state' [input: age]" }],
    ["sort=", { sort: "Input should be 'name', 'last_modified_at', 'last_changed_at' or 'state' [input: ]" }],
    ["sort_direction=up", { sort_direction: "Input should be 'asc' or 'desc' [input: up]" }],
    [
      "type=K8S&type=k8s",
      {
        "type.1":
          "Input should be 'K8S', 'ECS', 'S3', 'lambda', 'server', 'docker', 'azure-apps', 'cloud-run' or " +
          "'logical' [input: k8s]",
      },
    ],
  ];
  for (const [query, errors] of cases)
    assertAnswer(await list(at, `?${query}`), 400, { message: "Input payload validation failed", errors });
});

test("matches part of the name, case-insensitively and without wildcards", async () => {
  const at = await givenEnvironments("Prod-eu", "prod_us.v2", "staging");
  assert.equal(await names(at, "?name=PROD"), ["Prod-eu", "prod_us.v2"]);
  assert.equal(await names(at, "?name="), ["Prod-eu", "prod_us.v2", "staging"]);
  for (const part of ["_us", ".v2", "_", "US.V"]) assert.equal(await names(at, `?name=${part}`), ["prod_us.v2"]);
  for (const none of ["%", "p%", "?", "*", "' OR 1=1 --"])
    assert.equal(await names(at, `?name=${encodeURIComponent(none)}`), []);
});

test("matches any of several types", async () => {
  const at = await givenEnvironments("a");
  await server.given.environment(at, { name: "b", type: "ECS" });
  await server.given.environment(at, { name: "c", members: ["a"] });
  assert.equal(await names(at, "?type=K8S"), ["a"]);
  assert.equal(await names(at, "?type=ECS&type=logical"), ["b", "c"]);
  assert.equal(await names(at, "?type=ECS,K8S"), ["a", "b"]);
  assert.equal(await names(at, "?type=S3"), []);
  assert.equal((await list(at, "?type=ECS&page=1")).body.total_count, 1);
});

test("matches all tag filters, by key or key and value; an empty one matches nothing", async () => {
  const at = await givenEnvironments("a", "b", "c");
  await tag(at, "a", { team: "pay", tier: "1", url: "https://x:1/y" });
  await tag(at, "b", { team: "shop", tier: "1", none: "" });
  assert.equal(await names(at, "?tag=team"), ["a", "b"]);
  assert.equal(await names(at, "?tag=team:pay"), ["a"]);
  assert.equal(await names(at, "?tag=tier:1&tag=team:shop"), ["b"]);
  assert.equal(await names(at, "?tag=tier:1,team:shop"), ["b"]);
  assert.equal(await names(at, "?tag=url:https%3A%2F%2Fx%3A1%2Fy"), ["a"]);
  assert.equal(await names(at, "?tag=none:"), ["b"]);
  for (const none of ["tag=team:", "tag=TEAM", "tag=team:pay&tag=team:shop", "tag=", "tag=team&tag=", "tag=:pay"])
    assert.equal(await names(at, `?${none}`), []);
  assert.is((await list(at, "?tag=tier&per_page=1")).body.total_count, 2);
});

test("finds nothing with a space filter, and ignores an empty one", async () => {
  const at = await givenEnvironments("a");
  for (const none of ["space_id=x", "space_id=x&space_id=", "space_id=x,y"])
    assertAnswer(await list(at, `?${none}`), 200, []);
  for (const all of ["space_id=", "space_id=null"]) assert.equal(await names(at, `?${all}`), ["a"]);
  assertAnswer(await list(at, "?space_id=x&page=2"), 200, {
    page: 2,
    per_page: 15,
    total_pages: 0,
    total_count: 0,
    environments: [],
  });
});

test("sorts by name ascending by default, or by the times shown", async () => {
  const at = await givenEnvironments("b", "C", "a", "d");
  await server.given.environment(at, { name: "all", members: ["b"] });
  const organization = server.store.organizations.find(at.org) as { id: number; name: string };
  const set = (name: string, modified: number, changed: number | null) =>
    server.db
      .prepare("UPDATE environments SET last_modified_at = ?, last_changed_at = ? WHERE id = ?")
      .run(modified, changed, server.store.environments.require(organization, name).id);
  set("a", 20, 7);
  set("b", 30, 5);
  set("C", 10, null);
  set("d", 40, 6);
  set("all", 99, null);
  assert.equal(await names(at, ""), ["C", "a", "all", "b", "d"]);
  assert.equal(await names(at, "?sort=name&sort_direction=desc"), ["d", "b", "all", "a", "C"]);
  assert.equal(await names(at, "?sort=last_modified_at"), ["C", "a", "all", "b", "d"]);
  assert.equal(await names(at, "?sort=last_modified_at&sort_direction=desc"), ["d", "all", "b", "a", "C"]);
  assert.equal(await names(at, "?sort=last_changed_at"), ["C", "all", "b", "d", "a"]);
  assert.equal(await names(at, "?sort=last_changed_at&sort_direction=desc"), ["a", "d", "all", "b", "C"]);
});

test.run();
