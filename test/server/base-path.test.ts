/** A server with a base path: everything is below it, and nothing but the probes outside. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { until } from "../patience.ts";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { ask } from "./client.ts";

const test = suite("server/base-path");

const BASE = "/tools/assay";
let server: TestServer;
test.before(async () => {
  server = await startServer({ baseUrl: `https://example.com${BASE}`, network: { basePath: BASE } });
});
test.after(() => server.stop());

const get = (path: string, key?: string) => ask(server.url, { path, ...(key === undefined ? {} : { key }) });

test("serves the API, its alias and the probes below the path, and links there in responses", async () => {
  const { org, key } = server.given.org();
  for (const root of ["/api/v2", "/api/fastapi"]) {
    const made = await ask(server.url, {
      method: "PUT",
      path: `${BASE}${root}/flows/${org}`,
      key,
      body: JSON.stringify({ name: "f", description: "" }),
    });
    assert.is(made.status, root === "/api/v2" ? 201 : 200, made.text);
    assert.is((await get(`${BASE}${root}/flows/${org}/f`, key)).body.name, "f");
  }
  const form = new FormData();
  form.append("data_json", JSON.stringify({ name: "t", description: "" }));
  const trail = await fetch(`${server.url}${BASE}/api/v2/trails/${org}/f`, {
    method: "PUT",
    body: form,
    headers: { Authorization: `Bearer ${key}` },
  });
  assert.is(
    ((await trail.json()) as any).html_url ?? (await get(`${BASE}/api/v2/trails/${org}/f/t`, key)).body.html_url,
    `https://example.com${BASE}/${org}/flows/f/trails/t`,
  );
  assert.is((await get(`${BASE}/api/v2/openapi.json?x=1`)).body.servers[0].url, `https://example.com${BASE}/api/v2`);
  for (const probe of ["/ready", "/healthz", `${BASE}/ready`, `${BASE}/healthz`])
    assert.is((await get(probe)).text, "OK", probe);
});

test("answers 404 in JSON outside the path, with the usual log line", async () => {
  const { org, key } = server.given.org();
  for (const path of [
    "/",
    "/api/v2/openapi.json",
    `/api/v2/flows/${org}`,
    "/doc",
    "/api/v2/doc/",
    "/tools",
    "/tools/",
    "/tools/assayx/api/v2/openapi.json",
    "/TOOLS/ASSAY/api/v2/openapi.json",
    "/tools/%61ssay/api/v2/openapi.json",
    `/tools/../tools/assay/ready`,
    `/${BASE}/ready`,
    "/tools/assay%2Fready",
  ]) {
    const answer = await ask(server.url, { path, key, headers: { "X-Request-ID": "outside" } });
    assert.equal(
      {
        status: answer.status,
        "content-type": answer.headers["content-type"],
        bodyKeys: Object.keys(answer.body),
      },
      { status: 404, "content-type": "application/json; charset=utf-8", bodyKeys: ["message"] },
      path,
    );
    await until(`the line of ${path}`, () => server.lines.some((line) => JSON.parse(line).path === path));
  }
  // With a key: a browser is led from the root to the sign-in.
  for (const path of [BASE, `${BASE}/`, `${BASE}?x`, `${BASE}/nothing`, `${BASE}${BASE}/ready`, `${BASE}//ready`])
    assert.is((await get(path, key)).status, 404, path);
});

test("logs the whole path, and audits the path of the API", async () => {
  const { org, key } = server.given.org();
  await ask(server.url, {
    method: "PUT",
    path: `${BASE}/api/v2/flows/${org}`,
    key,
    body: JSON.stringify({ name: "f", description: "" }),
    headers: { "X-Request-ID": "whole-path" },
  });
  const line = await until("the line", () =>
    server.lines.map((one) => JSON.parse(one)).find((one) => one.request_id === "whole-path"),
  );
  assert.equal(
    { path: line.path, route: line.route, client: line.client },
    { path: `${BASE}/api/v2/flows/${org}`, route: "create_flow", client: "127.0.0.1" },
  );
  const targets = server.db.prepare("SELECT target FROM audit_log WHERE request_id = 'whole-path'").pluck().all();
  assert.equal(targets, [`/api/v2/flows/${org}`]);
});

test("hides the id of an inbound webhook in the log below a path too", async () => {
  const id = "a-secret-half";
  await ask(server.url, {
    method: "POST",
    path: `${BASE}/api/v2/webhooks/sonar/${id}`,
    body: "{}",
    headers: { "X-Request-ID": "hidden" },
  });
  await until("the line", () => server.lines.find((line) => line.includes('"hidden"')));
  assert.ok(server.lines.every((line) => !line.includes(id)));
});

test("serves the API reference and everything that it links to", async () => {
  for (const from of ["/doc", "/doc/", "/api/v2/doc", "/api/fastapi/doc"]) {
    const redirect = await get(`${BASE}${from}`);
    assert.is(redirect.status, 302);
    const target = new URL(String(redirect.headers["location"]), `https://example.com${BASE}${from}`);
    assert.is((await get(target.pathname)).status, 200, from);
  }
  const page = `${BASE}/api/v2/doc/`;
  const { text } = await get(page);
  const links = [...text.matchAll(/(?:href|src|data-[a-z-]+)="([^"#]+)"/g)]
    .map((match) => match[1] as string)
    .filter((link) => !link.startsWith("https:"));
  assert.ok(links.length >= 5, `${links}`);
  for (const link of links) {
    const { pathname } = new URL(link, `https://example.com${page}`);
    assert.ok(pathname.startsWith(`${BASE}/`), pathname);
    assert.is((await get(pathname)).status, 200, pathname);
  }
  assert.ok(
    links.some((link) => link.endsWith("openapi.json")),
    `the document is linked relatively: ${links}`,
  );
});

test("serves the login pages, their links and their form targets below the path", async () => {
  const page = `${BASE}/login`;
  const { status, text } = await get(page);
  assert.is(status, 200);
  const [links, forms] = [/href="([^"#]+)"/g, /action="([^"]+)"/g].map((pattern) =>
    [...text.matchAll(pattern)].map((match) => new URL(match[1] as string, `https://example.com${page}`).pathname),
  );
  assert.ok(links && links.length >= 3 && forms && forms.length >= 1, text);
  for (const link of links) assert.ok(link.startsWith(`${BASE}/`) && (await get(link)).status < 400, link);
  assert.equal(forms, [`${BASE}/login`]);
  assert.is((await get("/login")).status, 404);
  const away = await ask(server.url, { path: `${BASE}/account`, headers: { Accept: "text/html" } });
  assert.equal(
    {
      status: away.status,
      pathname: new URL(String(away.headers["location"]), `https://example.com${BASE}/account`).pathname,
    },
    { status: 303, pathname: `${BASE}/login` },
  );
});

test.run();
