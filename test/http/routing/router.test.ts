/** Routing, from the request line to the operation, and the headers of answers. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { fresh, freshCommit, startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { dial, exchange, head, holdings, logged } from "../socket.ts";
import type { RawAnswer } from "../socket.ts";

const test = suite("http/router");
let server: TestServer;
let at: { org: string; key: string };
test.before(async () => {
  server = await startServer();
  at = server.given.org();
  await server.given.flow(at, { name: "flow" });
});
test.after(() => server.stop());

const NOT_FOUND = {
  message: "The requested URL was not found on the server: the API is described at /api/v2/doc/ of this server",
};
const NOT_ALLOWED = { message: "The method is not allowed for the requested URL" };
const refused = (errors: Record<string, string>) => ({ message: "Input payload validation failed", errors });

/** Sends a request whose target is not normalised. */
const raw = (method: string, target: string, headers: Record<string, string> = {}, body = ""): Promise<RawAnswer> =>
  exchange(
    server.url,
    `${method} ${target} HTTP/1.1\r\n${Object.entries({
      Host: "assay.test",
      Authorization: `Bearer ${at.key}`,
      ...headers,
    })
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join("")}\r\n${body}`,
  );
const get = (path: string, headers: Record<string, string> = {}) => raw("GET", `/api/v2${path}`, headers);

/** Sends a request and reads the answer as text: an answer to HEAD claims to be JSON but has no body. */
async function fetchText(method: string, path: string) {
  const response = await fetch(`${server.url}/api/v2${path}`, {
    method,
    headers: { Authorization: `Bearer ${at.key}` },
  });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

test("an unknown path under /api/ is a JSON 404, also with an invalid key", async () => {
  for (const target of [
    "/api",
    "/api/",
    "/api/v1/projects/acme",
    "/api/v2",
    "/api/v2/",
    "/api/v20/openapi.json",
    "/api/v2x",
    "/api/fastapi",
    "/api/v2/nothing",
    "/api/v2/flows",
    "/api/v2/FLOWS/acme",
    "/api/V2/openapi.json",
    "/api/v2/openapi.json/",
    "/api/v2/../../etc/passwd",
    "/api//v2/openapi.json",
    "/api/v2//openapi.json",
    `/api/v2/flows/${"x"}/flow/`,
    "/api/v2/flows//flow",
    "/api/v2/%66lows/x/y",
    "/api/v2/constructor/x",
    "/api/v2/__proto__/x",
  ])
    for (const headers of [{}, { Authorization: "nonsense" }]) {
      const answer = await raw("GET", target, headers);
      assert.equal(
        { status: answer.status, body: answer.body, "content-type": answer.headers["content-type"] },
        { status: 404, body: NOT_FOUND, "content-type": "application/json; charset=utf-8" },
        target,
      );
    }
});

test("a known path with another method is 405 with Allow", async () => {
  for (const [method, path, allow] of [
    ["POST", `/flows/${at.org}/flow`, "GET, HEAD"],
    ["DELETE", `/flows/${at.org}`, "GET, HEAD, PUT"],
    ["OPTIONS", `/flows/${at.org}/flow`, "GET, HEAD"],
    ["PROPFIND", `/flows/${at.org}/flow`, "GET, HEAD"],
    ["GET", `/flows/${at.org}/flow/rename`, "PUT"],
    ["HEAD", `/flows/${at.org}/flow/rename`, "PUT"],
    ["PUT", "/openapi.json", "GET, HEAD"],
  ]) {
    const answer = await fetchText(method as string, path as string);
    assert.equal(
      { status: answer.status, Allow: answer.headers.get("Allow"), text: answer.text },
      { status: 405, Allow: allow, text: method === "HEAD" ? "" : JSON.stringify(NOT_ALLOWED) },
      `${method} ${path}`,
    );
  }
});

test("the alias answers like the API itself", async () => {
  for (const path of [
    `/flows/${at.org}/flow`,
    `/flows/${at.org}/none`,
    `/flows/${at.org}?page=0`,
    "/nothing",
    "/openapi.json",
  ]) {
    const [one, other] = [await get(path), await raw("GET", `/api/fastapi${path}`)];
    assert.equal({ status: other.status, body: other.body }, { status: one.status, body: one.body }, path);
  }
});

test("a literal segment wins over a parameter", async () => {
  const there = server.given.org({ name: "default-org" });
  assert.equal((await get("/user/default-org", { Authorization: `Bearer ${there.key}` })).body, {
    default_org_name: "",
  });
  // `template_file` is not the name of a flow here.
  const answer = await server.call("PUT", `/flows/${at.org}/template_file`, { key: at.key, body: {} });
  assert.equal(answer.body, { message: "Content-Type should be multipart/form-data with the part 'data_json'" });
  const list = await get(`/attestations/${at.org}/list_attestations_for_criteria?commit_list=${freshCommit()}`);
  assert.is(list.status, 200, list.text);
  assert.not.match((await get(`/attestations/${at.org}/list_attestations_for_criteria2`)).text, /commit_list/);
});

test("an operation passes a path that its pattern matches by accident to the next pattern", async () => {
  const missing = (name: string) => ({ message: `Repo '${name}' not found in organization '${at.org}'` });
  const id = "00000000-0000-0000-0000-00000000";
  assert.equal((await get(`/repos/${at.org}/${id}/deployments`)).body, missing(id));
  assert.equal((await get(`/repos/${at.org}/acme/deployments`)).body, missing("acme/deployments"));
  assert.equal((await get(`/repos/${at.org}/${id}/x/deployments`)).body, missing(`${id}/x/deployments`));
  for (const path of [`/repos/${at.org}/acme/deployments`, `/repos/${at.org}/${id}/deployments`]) {
    const answer = await fetchText("PUT", path);
    assert.equal(
      { status: answer.status, Allow: answer.headers.get("Allow") },
      { status: 405, Allow: "GET, HEAD" },
      path,
    );
  }
});

test("the method decides between operations with the same path", async () => {
  const path = `/attestations/${at.org}/flow/trail/none/generic`;
  assert.is((await get(path)).status, 404);
  const posted = await server.call("POST", path, { key: at.key, body: {} });
  assert.equal(
    { status: posted.status, body: posted.body },
    { status: 400, body: { message: "Content-Type should be multipart/form-data with the part 'data_json'" } },
  );
});

test("HEAD is GET without the body, whatever the answer", async () => {
  for (const path of [`/flows/${at.org}/flow`, `/flows/${at.org}/none`, "/nothing"]) {
    const [got, asked] = [await fetchText("GET", path), await fetchText("HEAD", path)];
    assert.equal(
      { status: asked.status, text: asked.text, "Content-Length": asked.headers.get("Content-Length") },
      { status: got.status, text: "", "Content-Length": got.headers.get("Content-Length") },
      path,
    );
  }
});

// --- spelling of paths

test("segments are decoded after routing: an encoded slash stays inside its segment", async () => {
  assert.is((await get(`/flows/${at.org}/%66l%6Fw`)).body.name, "flow");
  assert.equal((await get(`/flows/${at.org}/a%2Fb`)).body, {
    message: `Flow named 'a/b' does not exist for organization '${at.org}'`,
  });
  assert.equal((await get(`/flows/${at.org}/a%20%7E%23b%3F`)).body, {
    message: `Flow named 'a ~#b?' does not exist for organization '${at.org}'`,
  });
  assert.equal((await get(`/flows/${at.org}/%25zz`)).body, {
    message: `Flow named '%zz' does not exist for organization '${at.org}'`,
  });
  assert.equal((await get(`/flows/${at.org}/%E2%82%AC`)).body, {
    message: `Flow named '€' does not exist for organization '${at.org}'`,
  });
});

test("an invalid encoding is taken literally: some clients encode nothing", async () => {
  for (const name of [
    "%",
    "%zz",
    "%2",
    "100%",
    "%ff",
    "a%ED%A0%80",
    "a+b",
    "[x]",
    "a|b",
    '"',
    "{a}",
    "@{now}",
    "..%2f",
    "a;b=c",
  ])
    assert.equal((await get(`/flows/${at.org}/${name}`)).status, 404, name);
  assert.equal((await get(`/flows/${at.org}/%zz`)).body, {
    message: `Flow named '%zz' does not exist for organization '${at.org}'`,
  });
});

test("NUL in a path or query is refused with 400, in the organization with 403", async () => {
  const NUL = "String should not contain a NUL character";
  for (const [path, errors] of [
    [`/flows/${at.org}/%00`, { flow_name: NUL }],
    [`/flows/${at.org}/flow%00.yml`, { flow_name: NUL }],
    [`/flows/${at.org}?search_by_name=a%00`, { search_by_name: NUL }],
    [`/flows/${at.org}?tag=a&tag=%00`, { tag: NUL }],
  ] as const) {
    const answer = await get(path);
    assert.equal({ status: answer.status, body: answer.body }, { status: 400, body: refused(errors) }, path);
  }
  assert.is((await get("/flows/%00")).status, 403);
  assert.is((await raw("PUT", "/api/v2/user/a%00b")).status, 400);
});

test("an absolute target is reduced to its path, whatever precedes it", async () => {
  for (const start of ["http://assay.test", "https://elsewhere:1", "http://[", "x://", "http://a:99999999"])
    assert.is((await raw("GET", `${start}/api/v2/flows/${at.org}/flow`)).body?.name, "flow", start);
  for (const target of ["http://[", "http://", "*", "//", "//x/api/v2/openapi.json", "/\\", "/?", "/#"])
    assert.is((await raw("GET", target)).status, 404, target);
});

test("a long URL is accepted up to the limit for headers", async () => {
  const name = "n".repeat(100_000);
  assert.is((await get(`/flows/${at.org}/${name}`)).status, 404);
  assert.is((await get(`/${"a/".repeat(50_000)}`)).status, 404);
  assert.is((await get(`/flows/${"o".repeat(100_000)}`)).status, 403);
  const absurd = await get(`/flows/${at.org}/${"n".repeat(300_000)}`);
  assert.equal(
    { status: absurd.status, body: absurd.body },
    { status: 431, body: { message: "The address and the headers of the request are too long" } },
  );
});

// --- the query

test("a list may be repeated, joined by commas, or both", async () => {
  const commits = Array.from({ length: 4 }, () => freshCommit());
  const [a, b, c, d] = commits as [string, string, string, string];
  const path = `/attestations/${at.org}/list_attestations_for_criteria`;
  for (const query of [
    `commit_list=${a}&commit_list=${b}`,
    `commit_list=${a},${b}`,
    `commit_list=${a},${b}&commit_list=${c},${d}`,
    `commit_list=${a}%2C${b}`,
  ]) {
    const answer = await get(`${path}?${query}`);
    assert.is(answer.status, 200, answer.text);
  }
  const wrong = await get(`${path}?commit_list=${a},x&commit_list=y`);
  assert.equal(
    wrong.body,
    refused({
      "commit_list.1": "String should match pattern '^[a-f0-9]{40}$' [input: x]",
      "commit_list.2": "String should match pattern '^[a-f0-9]{40}$' [input: y]",
    }),
  );
});

test("a list contains each value once", async () => {
  const wrong = await get(`/attestations/${at.org}/list_attestations_for_criteria?commit_list=x,y,x&commit_list=y`);
  const problem = (value: string) => `String should match pattern '^[a-f0-9]{40}$' [input: ${value}]`;
  assert.equal(wrong.body, refused({ "commit_list.0": problem("x"), "commit_list.1": problem("y") }));
});

test("thousands of parameters are read, and more are refused instead of dropped", async () => {
  const path = `/attestations/${at.org}/list_attestations_for_criteria`;
  const many = Array.from({ length: 4000 }, () => `commit_list=${freshCommit()}`).join("&");
  assert.is((await get(`${path}?${many}`)).status, 200);
  const junk = await get(`/flows/${at.org}?${Array.from({ length: 4999 }, (_, i) => `k${i}=v`).join("&")}&page=0`);
  assert.equal(junk.body, refused({ page: "Input should be greater than or equal to 1 [input: 0]" }));
  const tooMany = await get(`/flows/${at.org}?${"a&".repeat(5000)}page=1`);
  assert.equal(
    { status: tooMany.status, body: tooMany.body },
    { status: 400, body: { message: "The query has more than 5000 parameters" } },
  );
});

test("the last value of a single parameter counts; unknown parameters are ignored", async () => {
  assert.is((await get(`/flows/${at.org}?page=0&page=1&per_page=1`)).body.pagination.page, 1);
  assert.is((await get(`/flows/${at.org}?page=1&page=0`)).status, 400);
  for (const query of [
    "",
    "?",
    "?&&&",
    "?=",
    "?__proto__=1&constructor=2&toString",
    "?%ff=%ff",
    "?unknown=%00",
    "?page[]=1",
    "?%70age=1",
    "?a=b=c&;",
  ])
    assert.is((await get(`/flows/${at.org}${query}`)).status, 200, query);
});

// --- requests of real clients

test("operations without a body accept null, nothing, and anything else", async () => {
  for (const [headers, body] of [
    [{ "Content-Type": "application/json; charset=utf-8", "Content-Length": "4" }, "null"],
    [{ "Content-Length": "0" }, ""],
    [{}, ""],
    [{ "Content-Type": "application/json" }, ""],
    [{ "Transfer-Encoding": "chunked" }, "4\r\nnull\r\n0\r\n\r\n"],
    [{ "Content-Type": "text/plain", "Content-Length": "3" }, "{}!"],
    [{ "Content-Type": "multipart/form-data", "Content-Length": "2" }, "{}"],
  ] as [Record<string, string>, string][]) {
    const name = await server.given.flow(at);
    const archived = await raw("PUT", `/api/v2/flows/${at.org}/${name}/archive`, headers, body);
    assert.equal(
      { status: archived.status, body: archived.body },
      { status: 200, body: "OK" },
      JSON.stringify(headers),
    );
    const chosen = await raw("PUT", `/api/v2/user/${at.org}`, headers, body);
    assert.equal({ status: chosen.status, body: chosen.body }, { status: 200, body: "OK" }, JSON.stringify(headers));
    const listed = await raw("GET", `/api/v2/flows/${at.org}/flow`, headers, body);
    assert.equal(
      { status: listed.status, name: listed.body.name },
      { status: 200, name: "flow" },
      JSON.stringify(headers),
    );
  }
});

test("an unused body is read to its end, so that the connection serves the next request", async () => {
  const wire = await dial(server.url);
  const large = " ".repeat(500_000);
  for (let i = 0; i < 3; i++) {
    await wire.send(
      head("GET", `/flows/${at.org}/flow`, { Authorization: `Bearer ${at.key}`, "Content-Length": large.length }),
    );
    await wire.send(large);
    const answer = await wire.answer();
    assert.equal(
      { status: answer.status, name: answer.body.name, connection: answer.headers["connection"] },
      { status: 200, name: "flow", connection: "keep-alive" },
    );
  }
  await wire.send(
    `${head("DELETE", `/flows/${at.org}/flow`, { Authorization: `Bearer ${at.key}`, "Content-Length": 4 })}null`,
  );
  assert.is((await wire.answer()).status, 405);
  wire.vanish();
});

test("pipelined requests are answered in order", async () => {
  const wire = await dial(server.url);
  const ask = (path: string) => head("GET", path, { Authorization: `Bearer ${at.key}` });
  await wire.send(ask(`/flows/${at.org}/flow`) + ask("/nothing") + head("GET", "//healthz", {}));
  assert.equal(
    [(await wire.answer()).status, (await wire.answer()).status, (await wire.answer()).text],
    [200, 404, "OK"],
  );
  wire.vanish();
});

// --- headers and log

test("every answer has a request id: the client's own if it is well-formed", async () => {
  for (const path of [`/flows/${at.org}/flow`, "/nothing"]) {
    assert.is((await get(path, { "X-Request-ID": "my-id_1.0" })).headers["x-request-id"], "my-id_1.0");
    for (const id of ["", "a b", "a\tb", "é", "x".repeat(101), "<script>", "a,b"])
      assert.match(
        (await get(path, { "X-Request-ID": id })).headers["x-request-id"] ?? "",
        /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{8}$/,
        id,
      );
  }
});

test("an answer states its type and length, and nothing about the server software", async () => {
  for (const answer of [await get(`/flows/${at.org}/flow`), await get("/nothing")]) {
    assert.is(answer.headers["content-type"], "application/json; charset=utf-8");
    assert.is(Number(answer.headers["content-length"]), Buffer.byteLength(answer.text));
    assert.equal(
      ["server", "x-powered-by", "set-cookie"].filter((name) => name in answer.headers),
      [],
    );
  }
});

test("one line is logged per request, never with the key, however it was sent", async () => {
  const basic = Buffer.from(`${at.key}:`).toString("base64");
  const ids: string[] = [];
  for (const [headers, query] of [
    [{ Authorization: `Bearer ${at.key}` }, ""],
    [{ Authorization: `Basic ${basic}` }, ""],
    [{ Authorization: at.key }, ""],
    [{ Authorization: `bearer  ${at.key}` }, ""],
    [{ Authorization: "x", Cookie: `session=${at.key}`, "X-Api-Key": at.key }, ""],
    [{ Authorization: "x" }, `?api_key=${at.key}`],
    [{ Authorization: "x" }, `?whatever=${at.key}`],
  ] as [Record<string, string>, string][]) {
    const id = fresh("log");
    ids.push(id);
    const answer = await get(`/flows/${at.org}/flow${query}`, { ...headers, "X-Request-ID": id });
    const line = await logged(server, id);
    assert.equal(
      { status: line["status"], route: line["route"], path: line["path"], org: line["org"], method: line["method"] },
      { status: answer.status, route: "get_flow", path: `/api/v2/flows/${at.org}/flow`, org: at.org, method: "GET" },
    );
    assert.not.ok(answer.text.includes(at.key));
  }
  for (const id of ids)
    assert.is(server.lines.filter((line) => line.includes(`"${id}"`) && line.includes('"status"')).length, 1);
  const log = server.lines.join("");
  assert.not.ok(log.includes(at.key) || log.includes(basic));
});

test("a read that SQLite rolled back fails with its own error, and the next request is served", async () => {
  const { flows } = server.store;
  const { require } = flows;
  flows.require = () => {
    server.db.exec("ROLLBACK");
    throw new Error("disk I/O error");
  };
  try {
    const id = fresh("lost");
    assert.is((await get(`/flows/${at.org}/flow`, { "X-Request-ID": id })).status, 500);
    await logged(server, id);
    const line = server.lines.find((text) => text.includes(`"${id}"`) && text.includes("unexpected error")) ?? "";
    assert.ok(line.includes("disk I/O error"), line);
  } finally {
    flows.require = require;
  }
  assert.is((await get(`/flows/${at.org}/flow`)).status, 200);
});

test("a refused request leaves nothing behind", async () => {
  const before = holdings(server);
  await raw("PUT", `/api/v2/flows/${at.org}/flow/archive`, { Authorization: "Bearer nobody" });
  await raw("PUT", `/api/v2/flows/no-such/flow/archive`);
  await raw("PUT", `/api/v2/flows/${at.org}/flow/none`);
  await raw("POST", `/api/v2/flows/${at.org}/flow/archive`);
  assert.equal(holdings(server), before);
});

test.run();
