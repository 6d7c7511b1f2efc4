/** Rate limits over HTTP: by address before anything is read, by key once it is authenticated. */
import { request } from "node:http";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createRateLimits } from "../../src/http/rate-limits.ts";
import { fresh, startServer } from "../given.ts";
import type { ServerOptions, TestServer } from "../given.ts";
import { dial, head, holdings, logged } from "./socket.ts";

const test = suite("http/rate-limits");

const clock = { at: 50 };
const now = (): number => clock.at;

async function withServer(
  options: ServerOptions,
  work: (server: TestServer, at: { org: string; key: string }) => Promise<void>,
): Promise<void> {
  const server = await startServer(options);
  try {
    await work(server, server.given.org());
  } finally {
    await server.stop();
  }
}

/** A request from an address of this machine. */
const from = (server: TestServer, localAddress: string, path: string): Promise<number> =>
  new Promise((resolve, reject) => {
    request(`${server.url}${path}`, { localAddress }, (response) =>
      response.resume().on("end", () => resolve(response.statusCode ?? 0)),
    )
      .on("error", reject)
      .end();
  });

test("refuses an address over its limit with Retry-After, before its key or body is read", () =>
  withServer({ rates: { address: 3, now } }, async (server, at) => {
    const path = `/flows/${at.org}`;
    assert.is((await server.call("GET", path, { key: at.key })).status, 200);
    assert.is((await server.call("GET", path)).status, 401);
    assert.is((await server.call("GET", "//api/v2/doc/")).status, 200, "pages count too");
    const before = holdings(server);
    for (const [method, target, options] of [
      ["GET", path, { key: at.key }],
      ["GET", path, {}],
      ["GET", "/nothing", {}],
      ["PUT", path, { key: at.key, body: { name: fresh("flow"), description: "" } }],
      ["GET", "//elsewhere", {}],
    ] as const) {
      const answer = await server.call(method, target, options);
      assert.equal(
        {
          status: answer.status,
          body: answer.body,
          "Retry-After": answer.headers.get("Retry-After"),
          "Cache-Control": answer.headers.get("Cache-Control"),
          "X-Content-Type-Options": answer.headers.get("X-Content-Type-Options"),
        },
        {
          status: 429,
          body: { message: "Too many requests from this address. Please try again in 20 seconds" },
          "Retry-After": "20",
          "Cache-Control": "no-store",
          "X-Content-Type-Options": "nosniff",
        },
        `${method} ${target}`,
      );
    }
    const wire = await dial(server.url);
    await wire.send(
      head("PUT", path, { Authorization: `Bearer ${at.key}`, "Content-Length": 1_000_000, "X-Request-ID": "unread" }),
    );
    assert.equal(
      { "answer.status": (await wire.answer()).status, "logged.status": (await logged(server, "unread"))["status"] },
      { "answer.status": 429, "logged.status": 429 },
      "no byte of the body had arrived",
    );
    wire.vanish();
    assert.equal(holdings(server), before);
    for (const probe of ["//ready", "//healthz"]) assert.is((await server.call("GET", probe)).status, 200, probe);
    assert.is(await from(server, "127.0.0.2", `/api/v2${path}`), 401, "another address has its own count");
    clock.at += 19.5;
    const last = await server.call("GET", path, { key: at.key });
    assert.equal(
      { "Retry-After": last.headers.get("Retry-After"), body: last.body },
      { "Retry-After": "1", body: { message: "Too many requests from this address. Please try again in 1 second" } },
    );
    clock.at += 0.5;
    assert.equal(
      [
        (await server.call("GET", path, { key: at.key })).status,
        (await server.call("GET", path, { key: at.key })).status,
      ],
      [200, 429],
    );
  }));

test("refuses a key over its limit, and no other client", () =>
  withServer({ rates: { key: 2, now } }, async (server, at) => {
    const other = server.given.user(at.org, "member");
    const path = `/flows/${at.org}`;
    const ask = (key: string | null) => server.call("GET", path, { key });
    assert.equal(
      {
        "ask.status": (await ask(at.key)).status,
        "call.status": (await server.call("GET", `/flows/${fresh("org")}`, { key: at.key })).status,
      },
      { "ask.status": 200, "call.status": 403 },
      "refusals count",
    );
    const before = holdings(server);
    const answer = await server.call("PUT", path, {
      key: at.key,
      body: { name: fresh("flow"), description: "" },
      headers: { "X-Request-ID": "limited" },
    });
    assert.equal(
      { status: answer.status, body: answer.body, "Retry-After": answer.headers.get("Retry-After") },
      {
        status: 429,
        body: { message: "Too many requests with this key. Please try again in 30 seconds" },
        "Retry-After": "30",
      },
    );
    assert.equal(holdings(server), before);
    const { status, error_code, actor, route, client } = await logged(server, "limited");
    assert.equal(
      { status, error_code, actor, route, client },
      { status: 429, error_code: "too_many", actor: `${at.org}-admin`, route: "create_flow", client: "127.0.0.1" },
    );
    assert.is((await ask(other)).status, 200);
    for (let n = 0; n < 5; n++)
      assert.is((await ask("nonsense")).status, 401, "wrong keys do not count against any valid key");
    for (let n = 0; n < 5; n++)
      assert.is(
        (await server.call("GET", "/openapi.json", { key: at.key })).status,
        200,
        "public operations do not count against the key",
      );
    clock.at += 30;
    assert.is((await ask(at.key)).status, 200);
  }));

test("counts nothing without a limit, and no peer without an IP address", () => {
  const off = createRateLimits({ address: null, key: null, now });
  const on = createRateLimits({ address: 1, key: 1, now });
  for (let n = 0; n < 1000; n++) {
    off.countAddress("192.0.2.1");
    off.countKey("k");
    on.countAddress("unix");
  }
  on.countAddress("2001:db8::1");
  assert.throws(() => on.countAddress("2001:db8::ffff"), /from this address/);
  on.countAddress("2001:db8:0:1::1");
});

test.run();
