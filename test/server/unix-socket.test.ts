/** Serving on a Unix socket: who may connect, and how its file is handled. */
import { chmodSync, existsSync, lstatSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { spawnSync } from "node:child_process";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parseTrustedProxies } from "../../src/http/client-address.ts";
import { startServer } from "../given.ts";
import type { Network } from "../given.ts";
import { cli, start } from "../cli/in-process.ts";
import { logged } from "../http/socket.ts";
import { FIRST } from "./certificates.ts";
import { allOf, ask, dialPlain } from "./client.ts";

const test = suite("server/unix-socket");

let directory: string;
test.before(() => {
  directory = mkdtempSync(join(tmpdir(), "assay-unix-"));
});
test.after(() => rmSync(directory, { recursive: true, force: true }));

const served = async (
  network: Network,
  use: (server: Awaited<ReturnType<typeof startServer>>) => Promise<void>,
): Promise<void> => {
  const server = await startServer({ network });
  try {
    await use(server);
  } finally {
    await server.stop();
  }
};

/** Leaves a socket file behind, like a server that was killed. */
function abandon(path: string): void {
  const script =
    `require("node:net").createServer().listen(${JSON.stringify(path)}, ` +
    `() => process.kill(process.pid, "SIGKILL"))`;
  spawnSync(process.execPath, ["-e", script]);
  if (!lstatSync(path).isSocket()) throw new Error("no socket was left");
}

test("serves owner and group, and removes the file at the stop", async () => {
  const path = join(directory, "assay.sock");
  await served({ address: { path } }, async (server) => {
    assert.is(server.url, `unix:${path}`);
    assert.is(lstatSync(path).mode & 0o777, 0o660);
    assert.is((await ask(server.url, { path: "/ready" })).text, "OK");
    const { org, key } = server.given.org();
    const made = await ask(server.url, {
      method: "PUT",
      path: `/api/v2/flows/${org}`,
      key,
      body: JSON.stringify({ name: "f", description: "" }),
    });
    assert.is(made.status, 201);
  });
  assert.not(existsSync(path));
});

test("time limits apply to a Unix socket too", async () => {
  await served(
    { address: { path: join(directory, "slow.sock") }, limits: { headerTimeout: 1, requestTimeout: 1 } },
    async (server) => {
      const slow = await dialPlain(server.url);
      slow.write("GET /ready HTTP/1.1\r\nHost: x\r\nX-A: ");
      assert.match(await allOf(slow), /^HTTP\/1\.1 408 Request Timeout\r\n[^]*The request did not arrive in time/);
    },
  );
});

test("the word unix trusts the proxy at the socket; otherwise its headers are ignored", async () => {
  const headers = {
    "X-Forwarded-For": "203.0.113.9",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "assay.example.com",
  };
  for (const [proxies, client, server] of [
    [["unix"], "203.0.113.9", "https://assay.example.com"],
    [["0.0.0.0/0", "::/0"], "unix", "http://assay.test"],
  ] as const) {
    await served(
      {
        address: { path: join(directory, "proxy.sock") },
        connections: { trust: parseTrustedProxies(proxies) },
        followsProxies: true,
      },
      async (running) => {
        const { body } = await ask(running.url, {
          path: "/api/v2/openapi.json",
          headers: { ...headers, "X-Request-ID": "who" },
        });
        assert.is(body.servers[0].url, `${server}/api/v2`);
        assert.is((await logged(running, "who"))["client"], client);
      },
    );
  }
});

test("replaces the file of a killed server, and not that of a running one", async () => {
  const path = join(directory, "stale.sock");
  abandon(path);
  await served({ address: { path } }, async (server) => {
    assert.is((await ask(server.url, { path: "/ready" })).status, 200);
    const data = join(directory, "second");
    const { code, out, err } = await cli(["serve", "--data", data, "--listen", `unix:${path}`]);
    assert.equal(
      { code, out, err },
      {
        code: 1,
        out: "",
        err:
          `assay: cannot listen on unix:${path}: another program is listening there; stop it, ` +
          "or choose another path with " +
          `--listen unix:/PATH or ASSAY_LISTEN\n`,
      },
    );
    assert.is((await ask(server.url, { path: "/ready" })).status, 200, "the running server was not disturbed");
  });
});

test("keeps and reports a file that is not a socket, and reports a missing directory", async () => {
  const path = join(directory, "file");
  writeFileSync(path, "somebody's");
  const serve = (listen: string) => cli(["serve", "--data", join(directory, "third"), "--listen", listen]);
  const { code, err } = await serve(`unix:${path}`);
  assert.equal(
    { code, err },
    {
      code: 1,
      err:
        `assay: cannot listen on unix:${path}: the path is a file, not a socket; remove it, or choose another path ` +
        `with --listen unix:/PATH or ASSAY_LISTEN\n`,
    },
  );
  assert.ok(lstatSync(path).isFile());
  symlinkSync(path, join(directory, "link"));
  assert.match((await serve(`unix:${join(directory, "link")}`)).err, "not a socket");
  assert.match(
    (await serve(`unix:${join(directory, "missing", "a.sock")}`)).err,
    "its directory is missing, or this user may not write to it; create the directory,",
  );
});

test("reports a path beyond the length limit of the system", async () => {
  const { code, err } = await cli(["serve", "--data", directory, "--listen", `unix:${directory}/${"x".repeat(107)}`]);
  assert.is(code, 2);
  assert.match(err, "unix:/PATH with a path of at most 107 bytes");
});

test("serve prints where it listens, and uses localhost in its base URL by default", async () => {
  const path = join(directory, "base-url.sock");
  const server = start(["serve", "--data", join(directory, "data"), "--listen", `unix:${path}`, "--base-path", "/x"]);
  await server.wrote(/API reference/);
  assert.ok(
    server.out().startsWith(`listening on unix:${path}\nAPI reference: http://localhost/x/api/v2/doc/\n`),
    server.out(),
  );
  assert.is(
    (await ask(`unix:${path}`, { path: "/x/api/v2/openapi.json" })).body.servers[0].url,
    "http://localhost/x/api/v2",
  );
  assert.is((await server.stop()).code, 0);
  assert.not(existsSync(path));
});

test("assay health reaches it, also over TLS", async () => {
  const [path, crt, key] = [join(directory, "health.sock"), join(directory, "tls.crt"), join(directory, "tls.key")];
  writeFileSync(crt, FIRST.certificate);
  writeFileSync(key, FIRST.key, { mode: 0o600 });
  for (const tls of [[], ["--tls-cert", crt, "--tls-key", key]]) {
    const options = ["--listen", `unix:${path}`, ...tls];
    const server = start(["serve", "--data", join(directory, "healthy"), ...options]);
    await server.wrote(/API reference/);
    assert.equal(await cli(["health", ...options]), { code: 0, out: "ready\n", err: "" });
    assert.is((await server.stop()).code, 0);
  }
});

test("a running server that cannot be contacted keeps its file too", async () => {
  const path = join(directory, "closed.sock");
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(path, resolve));
  chmodSync(path, 0o600);
  try {
    await startServer({ network: { address: { path } } }).then(
      () => assert.unreachable("it replaced the file"),
      (error: Error & { code?: string }) => assert.is(error.code, "EADDRINUSE"),
    );
  } finally {
    await new Promise((resolve) => other.close(resolve));
  }
});

test.run();
