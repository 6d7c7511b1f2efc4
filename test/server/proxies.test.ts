/** Absolute URLs behind proxies: whose headers decide them, and that no client gets those of another. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parseTrustedProxies } from "../../src/http/client-address.ts";
import { startServer } from "../given.ts";
import type { Network, TestServer } from "../given.ts";
import { logged } from "../http/socket.ts";
import { ask } from "./client.ts";

const test = suite("server/proxies");

const PROXY = {
  "X-Forwarded-For": "203.0.113.9",
  "X-Forwarded-Proto": "https",
  "X-Forwarded-Host": "assay.example.com",
};

/** One server for each way of deciding the public URL; all have the same flow. */
const servers = new Map<string, { server: TestServer; org: string; key: string }>();
test.before(async () => {
  const loopback = parseTrustedProxies(["127.0.0.0/8"]);
  const kinds: Record<string, Network & { baseUrl?: string }> = {
    trusting: { connections: { trust: loopback }, followsProxies: true },
    "trusting below a path": {
      connections: { trust: loopback },
      followsProxies: true,
      basePath: "/x",
      baseUrl: "http://assay.test/x",
    },
    configured: { connections: { trust: loopback }, baseUrl: "https://configured.example" },
    suspicious: { connections: { trust: parseTrustedProxies(["10.0.0.0/8"]) }, followsProxies: true },
  };
  for (const [kind, { baseUrl = "http://assay.test", ...network }] of Object.entries(kinds)) {
    const server = await startServer({ baseUrl, network });
    const { org, key } = server.given.org();
    const base = network.basePath ?? "";
    await ask(server.url, {
      method: "PUT",
      path: `${base}/api/v2/flows/${org}`,
      key,
      body: JSON.stringify({ name: "f", description: "" }),
    });
    const body = {
      fingerprint: "a".repeat(64),
      filename: "app",
      git_commit: "c".repeat(40),
      build_url: "https://ci.test",
      commit_url: "https://git.test",
      trail_name: null,
    };
    const artifact = await ask(server.url, {
      method: "POST",
      path: `${base}/api/v2/artifacts/${org}/f`,
      key,
      body: JSON.stringify(body),
    });
    if (artifact.status !== 201) throw new Error(artifact.text);
    servers.set(kind, { server, org, key });
  }
});
test.after(async () => {
  for (const { server } of servers.values()) await server.stop();
});

/** The origin and base path of the URLs in an artifact's response. */
async function rootAt(kind: string, headers: Record<string, string>, base = ""): Promise<string> {
  const { server, org, key } = servers.get(kind) as NonNullable<ReturnType<typeof servers.get>>;
  const { body, status, text } = await ask(server.url, {
    path: `${base}/api/v2/artifacts/${org}/f/fingerprint/${"a".repeat(64)}`,
    key,
    headers,
  });
  assert.is(status, 200, text);
  const root = body.html_url.slice(0, body.html_url.indexOf(`/${org}/flows`));
  assert.ok(body.api_url.startsWith(`${root}/api/v2/artifacts/${org}/`), body.api_url);
  return root;
}

const documented = async (kind: string, headers: Record<string, string>, base = ""): Promise<string> => {
  const { server } = servers.get(kind) as NonNullable<ReturnType<typeof servers.get>>;
  return (await ask(server.url, { path: `${base}/api/v2/openapi.json`, headers })).body.servers[0].url;
};

test("a trusted proxy decides the public URL where none is configured", async () => {
  assert.is(await rootAt("trusting", PROXY), "https://assay.example.com");
  assert.is(await documented("trusting", PROXY), "https://assay.example.com/api/v2");
  assert.is(await rootAt("trusting below a path", PROXY, "/x"), "https://assay.example.com/x");
  assert.is(await documented("trusting below a path", PROXY, "/x"), "https://assay.example.com/x/api/v2");
  assert.is(
    await rootAt("trusting", { Forwarded: 'for=203.0.113.9;proto=https;host="other.example:8443"' }),
    "https://other.example:8443",
  );
  assert.is(
    await rootAt("trusting", { "X-Forwarded-Proto": "https" }),
    "https://assay.example.com",
    "the host of the request",
  );
});

test("a configured URL always wins; without a trusted or valid header the server's own URL is used", async () => {
  assert.is(await rootAt("configured", PROXY), "https://configured.example");
  assert.is(await documented("configured", PROXY), "https://configured.example/api/v2");
  assert.is(await rootAt("suspicious", PROXY), "http://assay.test");
  assert.is(await documented("suspicious", PROXY), "http://assay.test/api/v2");
  assert.is(await rootAt("trusting", {}), "http://assay.test");
  assert.is(await rootAt("trusting", { "X-Forwarded-Host": 'evil.example/"><script>' }), "http://assay.test");
  assert.is(
    await rootAt("trusting", { ...PROXY, Forwarded: "for=203.0.113.9;proto=https;host=evil.example" }),
    "http://assay.test",
    "two values contradict each other",
  );
});

test("cached responses belong to one public URL: no client gets those of another", async () => {
  const other = { ...PROXY, "X-Forwarded-Host": "other.example" };
  for (let round = 0; round < 3; round += 1) {
    assert.is(await rootAt("trusting", PROXY), "https://assay.example.com");
    assert.is(await rootAt("trusting", other), "https://other.example");
    assert.is(await rootAt("trusting", {}), "http://assay.test");
    assert.is(await documented("trusting", other), "https://other.example/api/v2");
    assert.is(await documented("trusting", PROXY), "https://assay.example.com/api/v2");
    assert.is(await documented("trusting", {}), "http://assay.test/api/v2");
  }
  for (let name = 0; name < 100; name += 1)
    assert.is(
      await rootAt("trusting", { ...PROXY, "X-Forwarded-Host": `h${name}.example` }),
      `https://h${name}.example`,
    );
  assert.is(await rootAt("trusting", other), "https://other.example");
});

test("links between pages use the public URL of the request", async () => {
  const { server, org, key } = servers.get("trusting") as NonNullable<ReturnType<typeof servers.get>>;
  const trail = await server.given.trail({ org, key }, { flow: "f" });
  for (let round = 0; round < 2; round += 1) await server.given.attestation({ org, key }, { flow: "f", trail });
  const { body, status, text } = await ask(server.url, {
    path: `/api/v2/attestations/${org}?per_page=1`,
    key,
    headers: PROXY,
  });
  assert.is(status, 200, text);
  assert.match(body._links.next.href, `https://assay.example.com/api/v2/attestations/${org}?`);

  const environment = await server.given.environment({ org, key }, { type: "server" });
  for (let round = 0; round < 2; round += 1) {
    const body = JSON.stringify({ artifacts: [{ digests: { app: String(round).repeat(64) }, creationTimestamp: 1 }] });
    assert.is(
      (
        await ask(server.url, {
          method: "PUT",
          path: `/api/v2/environments/${org}/${environment}/report/server`,
          key,
          body,
        })
      ).status,
      201,
    );
  }
  const events = await ask(server.url, {
    path: `/api/v2/environments/${org}/${environment}/events?per_page=1`,
    key,
    headers: PROXY,
  });
  assert.match(
    String(events.headers["link"]),
    `<https://assay.example.com/api/v2/environments/${org}/${environment}/events?`,
  );
});

test("the scheme from a trusted proxy decides about secure cookies and HSTS", async () => {
  for (const [kind, secure] of [
    ["trusting", true],
    ["suspicious", false],
  ] as const) {
    const { server } = servers.get(kind) as NonNullable<ReturnType<typeof servers.get>>;
    const { headers } = await ask(server.url, { path: "/login", headers: PROXY });
    assert.is(/; secure/i.test(String(headers["set-cookie"])), secure, String(headers["set-cookie"]));
    assert.is(headers["strict-transport-security"] !== undefined, secure);
  }
});

test("logs the address that a trusted proxy forwards, otherwise that of the connection", async () => {
  for (const [kind, client] of [
    ["trusting", "203.0.113.9"],
    ["suspicious", "127.0.0.1"],
  ] as const) {
    const { server } = servers.get(kind) as NonNullable<ReturnType<typeof servers.get>>;
    await ask(server.url, { path: "/api/v2/openapi.json", headers: { ...PROXY, "X-Request-ID": `client-${kind}` } });
    assert.is((await logged(server, `client-${kind}`))["client"], client);
  }
});

test.run();
