/** Coverage of a control (semantics 7.3). */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";

const test = suite("api/policies/control-coverage");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
type Json = Record<string, any>;
const get = (at: At, query = "", identifier = "C-1"): Promise<Answer> =>
  server.call("GET", `/controls/${at.org}/${identifier}/coverage${query}`, { key: at.key });
const policy = (at: At, name: string, ...controls: string[]): Promise<string> =>
  server.given.policy(at, {
    name,
    yaml: [
      "artifacts:",
      "  attestations:",
      ...controls.map((control) => `    - {type: decision, for_control: "${control}"}`),
      "    - {type: generic, name: tests}",
      "",
    ].join("\n"),
  });
const rows = async (at: At, query = ""): Promise<unknown[]> =>
  (await get(at, query)).body.environments.map(({ name, covered, policies }: Json) => [name, covered, policies]);
const summary = async (at: At, query = ""): Promise<Json> => (await get(at, query)).body.summary;

test("covers 0 percent without environments", async () => {
  const at = server.given.org();
  await server.given.control(at, { identifier: "C-1" });
  const { status, body } = await get(at);
  assert.equal(
    { status, body },
    {
      status: 200,
      body: {
        summary: { total: 0, covered: 0, coverage_percent: 0 },
        page: 1,
        per_page: 15,
        total_pages: 0,
        total_count: 0,
        environments: [],
      },
    },
  );
});

test("covers active physical environments with an attached policy that requires the control", async () => {
  const at = server.given.org();
  for (const identifier of ["C-1", "C-2"]) await server.given.control(at, { identifier });
  await policy(at, "strict", "C-1", "C-2", "C-1");
  await policy(at, "other", "C-2");
  await policy(at, "board", "C-1");
  await server.given.policy(at, { name: "empty", yaml: null });
  await server.given.environment(at, { name: "prod", policies: ["empty", "strict", "other", "board"] });
  await server.given.environment(at, { name: "staging", type: "ECS", policies: ["other"] });
  await server.given.environment(at, { name: "dev", policies: ["empty"] });
  await server.given.environment(at, { name: "all", members: ["prod", "staging"] });
  await server.given.environment(at, { name: "old", policies: ["strict"] });
  await server.call("PUT", `/environments/${at.org}/old/archive`, { key: at.key });
  const environments = [
    { name: "dev", type: "K8S", covered: false, policies: [] },
    { name: "prod", type: "K8S", covered: true, policies: ["strict", "board"] },
    { name: "staging", type: "ECS", covered: false, policies: [] },
  ];
  assert.equal((await get(at)).body, {
    summary: { total: 3, covered: 1, coverage_percent: 33.3 },
    page: 1,
    per_page: 15,
    total_pages: 1,
    total_count: 3,
    environments,
  });
  assert.equal((await get(at, "", "C-2")).body.summary, { total: 3, covered: 2, coverage_percent: 66.7 });
  const control = await server.call("GET", `/controls/${at.org}/C-1`, { key: at.key });
  assert.equal(control.body.policies_referencing, ["board", "strict"]);

  await policy(at, "strict", "C-2");
  await policy(at, "board", "C-2");
  assert.equal(await summary(at), { total: 3, covered: 0, coverage_percent: 0 }, "older versions do not count");
  assert.equal((await server.call("GET", `/controls/${at.org}/C-1`, { key: at.key })).body.policies_referencing, []);
  await policy(at, "other", "C-1");
  assert.equal(await rows(at), [
    ["dev", false, []],
    ["prod", true, ["other"]],
    ["staging", true, ["other"]],
  ]);
  await server.call("DELETE", `/environments/${at.org}/staging/policies`, {
    key: at.key,
    body: { policy_names: ["other"] },
  });
  assert.equal(await summary(at), { total: 3, covered: 1, coverage_percent: 33.3 });
  await server.call("POST", `/controls/${at.org}/C-1/archive`, { key: at.key });
  assert.equal(
    await summary(at),
    { total: 3, covered: 1, coverage_percent: 33.3 },
    "an archived control is read all the same",
  );
});

test("filters and pages do not affect the summary", async () => {
  const at = server.given.org();
  await server.given.control(at, { identifier: "C-1" });
  await policy(at, "p", "C-1");
  for (const [name, covered] of [
    ["Prod-eu", true],
    ["prod-us", true],
    ["stage_1", false],
    ["stage-2", false],
    ["dev", true],
  ] as const)
    await server.given.environment(at, { name, policies: covered ? ["p"] : [] });
  const whole = { total: 5, covered: 3, coverage_percent: 60 };
  for (const [query, found] of [
    ["", ["Prod-eu", "dev", "prod-us", "stage-2", "stage_1"]],
    ["?covered=true", ["Prod-eu", "dev", "prod-us"]],
    ["?covered=false", ["stage-2", "stage_1"]],
    ["?search=PROD", ["Prod-eu", "prod-us"]],
    ["?search=_", ["stage_1"]],
    ["?search=e&covered=true", ["Prod-eu", "dev"]],
    ["?search=nothing", []],
  ] as const) {
    const { body } = await get(at, query);
    assert.equal(
      {
        environments: body.environments.map(({ name }: Json) => name),
        total_count: body.total_count,
        summary: body.summary,
      },
      { environments: found, total_count: found.length, summary: whole },
      query,
    );
  }
  const page = (await get(at, "?page=2&per_page=2&covered=true")).body;
  assert.equal(
    {
      environments: page.environments.map(({ name }: Json) => name),
      page: page.page,
      total_pages: page.total_pages,
      total_count: page.total_count,
      summary: page.summary,
    },
    { environments: ["prod-us"], page: 2, total_pages: 2, total_count: 3, summary: whole },
  );
  assert.equal((await get(at, "?page=5")).body.environments, []);
  for (const [query, errors] of [
    ["covered=some", { covered: "Input should be a valid boolean [input: some]" }],
    ["per_page=0", { per_page: "Input should be greater than or equal to 1 [input: 0]" }],
  ] as const) {
    const answer = await get(at, `?${query}`);
    assert.equal(
      { status: answer.status, body: answer.body },
      { status: 400, body: { message: "Input payload validation failed", errors } },
    );
  }
});

test.run();
