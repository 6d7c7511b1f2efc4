import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../given.ts";
import type { Answer, TestServer } from "../given.ts";

const test = suite("api/tags");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
const patch = (at: At, kind: string, id: string, body: unknown): Promise<Answer> =>
  server.call("PATCH", `/tags/${at.org}/${kind}/${id}`, { key: at.key, body });
const tagsOf = async (at: At, flow: string): Promise<unknown> =>
  (await server.call("GET", `/flows/${at.org}/${flow}`, { key: at.key })).body.tags;

function answers(answer: Answer, status: number, body: unknown): void {
  assert.equal(answer.body, body);
  assert.is(answer.status, status);
}

async function refuses(call: () => Promise<Answer>, status: number, body: unknown): Promise<void> {
  const rows = () =>
    ["flow_tags", "environment_tags", "control_tags", "repo_tags", "audit_log"].map((table) =>
      server.db.prepare(`SELECT count(*) FROM ${table}`).pluck().get(),
    );
  const before = rows();
  answers(await call(), status, body);
  assert.equal(rows(), before);
}

test("sets, overwrites and removes tags, visible in the next read", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  assert.equal(await tagsOf(at, flow), {});
  answers(
    await patch(at, "flow", flow, { set_tags: { team: "pay", "managed-by": "terraform" }, remove_tags: [] }),
    200,
    "OK",
  );
  assert.equal(await tagsOf(at, flow), { "managed-by": "terraform", team: "pay" });
  answers(
    await patch(at, "flows", flow, {
      set_tags: { team: "shop", "a.b_c~d": "" },
      remove_tags: ["managed-by", "never-there"],
    }),
    200,
    "OK",
  );
  assert.equal(await tagsOf(at, flow), { "a.b_c~d": "", team: "shop" });
  answers(await patch(at, "flow", flow, { set_tags: null, remove_tags: ["team", "a.b_c~d"] }), 200, "OK");
  assert.equal(await tagsOf(at, flow), {});
});

test("either list may be null or absent; without both nothing changes", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  for (const body of [
    { set_tags: { k: "v" }, remove_tags: null },
    {},
    { set_tags: {} },
    { remove_tags: [] },
    { set_tags: null, remove_tags: null },
  ])
    answers(await patch(at, "flow", flow, body), 200, "OK");
  assert.equal(await tagsOf(at, flow), { k: "v" });
});

test("a key that is both removed and set is set", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  await patch(at, "flow", flow, { set_tags: { k: "old" } });
  answers(await patch(at, "flow", flow, { set_tags: { k: "new" }, remove_tags: ["k"] }), 200, "OK");
  assert.equal(await tagsOf(at, flow), { k: "new" });
});

test("property names of JavaScript are ordinary tag keys", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const set_tags = { constructor: "a", toString: "b", hasOwnProperty: "c" };
  answers(await patch(at, "flow", flow, { set_tags }), 200, "OK");
  assert.equal(await tagsOf(at, flow), set_tags);
});

test("names all invalid keys and values", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const refused = (errors: Record<string, string>) => ({ message: "Input payload validation failed", errors });
  const pattern = String.raw`String should match pattern '^[a-zA-Z0-9][a-zA-Z0-9\-_.~]*$'`;
  const cases: [unknown, Record<string, string>][] = [
    [
      { set_tags: { ok: "1", "-a": "1", "b c": "2", "": "3", é: "4" } },
      {
        "set_tags.-a": `${pattern} [input: -a]`,
        "set_tags.b c": `${pattern} [input: b c]`,
        "set_tags.": `${pattern} [input: ]`,
        "set_tags.é": `${pattern} [input: é]`,
      },
    ],
    [
      { set_tags: { a: 1, b: null } },
      {
        "set_tags.a": "Input should be a valid string [input: 1]",
        "set_tags.b": "Input should be a valid string [input: null]",
      },
    ],
    [{ set_tags: ["a"] }, { set_tags: 'Input should be a valid object [input: ["a"]]' }],
    [{ remove_tags: "a" }, { remove_tags: "Input should be a valid array [input: a]" }],
    [{ remove_tags: [1] }, { "remove_tags.0": "Input should be a valid string [input: 1]" }],
    [{ tags: {} }, { tags: "Extra inputs are not permitted [input: {}]; possible keys: set_tags, remove_tags" }],
  ];
  for (const [body, errors] of cases) await refuses(() => patch(at, "flow", flow, body), 400, refused(errors));
  const own = '{"set_tags": {"__proto__": "x"}}';
  await refuses(
    () =>
      server.call("PATCH", `/tags/${at.org}/flow/${flow}`, {
        key: at.key,
        raw: own,
        headers: { "Content-Type": "application/json" },
      }),
    400,
    refused({ "set_tags.__proto__": `${pattern} [input: __proto__]` }),
  );
});

test("names an unknown resource in the message of its kind", async () => {
  const at = server.given.org();
  const text: [string[], string][] = [
    [["flow", "flows"], `Flow named 'x' does not exist for organization '${at.org}'`],
    [["env", "environment", "environments"], `Environment named 'x' does not exist for organization '${at.org}'`],
    [["control", "controls"], `"Control 'x' does not exist in organization '${at.org}'"`],
    [["repo", "repos"], `Repo 'x' not found in organization '${at.org}'`],
  ];
  for (const [kinds, message] of text)
    for (const kind of kinds)
      await refuses(() => patch(at, kind, "x", { set_tags: { a: "b" }, remove_tags: [] }), 404, { message });
});

test("refuses an unknown kind with the list of kinds", async () => {
  const at = server.given.org();
  for (const kind of ["trail", "FLOW", "constructor"])
    await refuses(() => patch(at, kind, "x", {}), 400, {
      message: "Input payload validation failed",
      errors: {
        resource_type:
          "Input should be 'flow', 'flows', 'env', 'environment', 'environments', 'control', 'controls', 'repo' " +
          `or 'repos' [input: ${kind}]`,
      },
    });
});

test("tags a flow by its former name too, and refuses an archived one", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const renamed = `${flow}-new`;
  await server.call("PUT", `/flows/${at.org}/${flow}/rename`, { key: at.key, body: { new_name: renamed } });
  answers(await patch(at, "flow", flow, { set_tags: { a: "b" } }), 200, "OK");
  assert.equal(await tagsOf(at, renamed), { a: "b" });
  await server.call("PUT", `/flows/${at.org}/${renamed}/archive`, { key: at.key });
  await refuses(() => patch(at, "flow", renamed, { set_tags: { a: "c" } }), 404, {
    message: `Flow named '${renamed}' has been archived for organization '${at.org}'`,
  });
});

test("tags an environment by all words of its kind and its former name, and refuses an archived one", async () => {
  const at = server.given.org();
  const name = await server.given.environment(at);
  const read = async (): Promise<any> =>
    (await server.call("GET", `/environments/${at.org}/${name}`, { key: at.key })).body;
  const { last_modified_at } = await read();
  answers(
    await patch(at, "env", name, { set_tags: { team: "pay", "managed-by": "terraform" }, remove_tags: [] }),
    200,
    "OK",
  );
  answers(
    await patch(at, "environment", name, { set_tags: { team: "shop" }, remove_tags: ["managed-by", "never-there"] }),
    200,
    "OK",
  );
  await server.call("PUT", `/environments/${at.org}/${name}/rename`, {
    key: at.key,
    body: { new_name: `${name}-new` },
  });
  answers(
    await patch(at, "environments", name, { set_tags: { "a.b": "https://x.test/" }, remove_tags: null }),
    200,
    "OK",
  );
  const after = await read();
  assert.equal(after.tags, { "a.b": "https://x.test/", team: "shop" });
  assert.ok(after.last_modified_at > last_modified_at);
  answers(await patch(at, "env", name, { remove_tags: ["a.b", "team"] }), 200, "OK");
  assert.equal((await read()).tags, {});
  const pattern = String.raw`String should match pattern '^[a-zA-Z0-9][a-zA-Z0-9\-_.~]*$' [input: b c]`;
  await refuses(() => patch(at, "env", name, { set_tags: { ok: "1", "b c": "2" } }), 400, {
    message: "Input payload validation failed",
    errors: { "set_tags.b c": pattern },
  });
  await server.call("PUT", `/environments/${at.org}/${name}/archive`, { key: at.key });
  await refuses(() => patch(at, "env", name, { set_tags: { a: "c" } }), 404, {
    message: `Environment named '${name}' has been archived for organization '${at.org}'`,
  });
});

test("tags a control under both words of its kind, also when archived, and keeps its version", async () => {
  const at = server.given.org();
  const identifier = await server.given.control(at, { identifier: "SDLC.7~a" });
  const read = async (): Promise<any> =>
    (await server.call("GET", `/controls/${at.org}/${identifier}`, { key: at.key })).body;
  answers(
    await patch(at, "control", identifier, { set_tags: { team: "pay", "managed-by": "terraform" }, remove_tags: [] }),
    200,
    "OK",
  );
  assert.equal((await read()).tags, { "managed-by": "terraform", team: "pay" });
  await server.call("POST", `/controls/${at.org}/${identifier}/archive`, { key: at.key });
  const { version } = await read();
  answers(
    await patch({ ...at, key: server.given.user(at.org, "member") }, "controls", identifier, {
      set_tags: { team: "shop" },
      remove_tags: ["managed-by", "never-there"],
    }),
    200,
    "OK",
  );
  assert.equal({ tags: (await read()).tags, version: (await read()).version }, { tags: { team: "shop" }, version });
  answers(await patch(at, "control", identifier, { set_tags: null, remove_tags: ["team"] }), 200, "OK");
  assert.equal((await read()).tags, {});
  const pattern = String.raw`String should match pattern '^[a-zA-Z0-9][a-zA-Z0-9\-_.~]*$' [input: b c]`;
  await refuses(() => patch(at, "control", identifier, { set_tags: { ok: "1", "b c": "2" } }), 400, {
    message: "Input payload validation failed",
    errors: { "set_tags.b c": pattern },
  });
  const stranger = server.given.org();
  await refuses(() => patch(stranger, "control", identifier, { set_tags: { a: "b" } }), 404, {
    message: `"Control '${identifier}' does not exist in organization '${stranger.org}'"`,
  });
  const others = (["snapshotter", "reader"] as const).map((role) => server.given.user(at.org, role));
  for (const key of others)
    await refuses(() => patch({ ...at, key }, "control", identifier, { set_tags: { a: "b" } }), 403, {
      message: "You don't have permission to access this resource",
    });
});

test("tags a repository by its id only, under both words of its kind", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  await server.given.trail(at, { flow, repo_info: { id: "17", name: "acme/shop", url: "https://git.test/shop" } });
  const read = async (): Promise<any> => (await server.call("GET", `/repos/${at.org}/acme/shop`, { key: at.key })).body;
  const { id, last_modified_at, latest_activity } = await read();
  answers(
    await patch(at, "repo", id, { set_tags: { team: "pay", "managed-by": "terraform" }, remove_tags: null }),
    200,
    "OK",
  );
  answers(
    await patch(at, "repos", id, {
      set_tags: { team: "shop", url: "https://x.test/" },
      remove_tags: ["managed-by", "never-there"],
    }),
    200,
    "OK",
  );
  const after = await read();
  assert.equal(after.tags, { team: "shop", url: "https://x.test/" });
  assert.ok(after.last_modified_at > last_modified_at);
  assert.is(after.latest_activity, latest_activity, "a tag is no report");
  answers(await patch(at, "repo", id, { set_tags: null, remove_tags: ["team", "url"] }), 200, "OK");
  assert.equal((await read()).tags, {});

  const pattern = String.raw`String should match pattern '^[a-zA-Z0-9][a-zA-Z0-9\-_.~]*$' [input: b c]`;
  await refuses(() => patch(at, "repo", id, { set_tags: { ok: "1", "b c": "2" } }), 400, {
    message: "Input payload validation failed",
    errors: { "set_tags.b c": pattern },
  });
  for (const name of ["17", "acme%2Fshop"])
    await refuses(() => patch(at, "repo", name, { set_tags: { a: "b" } }), 404, {
      message: `Repo '${decodeURIComponent(name)}' not found in organization '${at.org}'`,
    });
  const other = server.given.org();
  await refuses(() => patch(other, "repo", id, { set_tags: { a: "b" } }), 404, {
    message: `Repo '${id}' not found in organization '${other.org}'`,
  });
  const reader = { org: at.org, key: server.given.user(at.org, "reader") };
  await refuses(() => patch(reader, "repo", id, { set_tags: { a: "b" } }), 403, {
    message: "You don't have permission to access this resource",
  });
});

test("a flow and an environment of the same name have separate tags", async () => {
  const at = server.given.org();
  const name = await server.given.flow(at);
  await server.given.environment(at, { name });
  await patch(at, "flow", name, { set_tags: { kind: "flow" } });
  await patch(at, "env", name, { set_tags: { kind: "environment" } });
  assert.equal(await tagsOf(at, name), { kind: "flow" });
  assert.equal((await server.call("GET", `/environments/${at.org}/${name}`, { key: at.key })).body.tags, {
    kind: "environment",
  });
});

test.run();
