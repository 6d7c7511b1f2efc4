// The network side of the executable: certificate changes, a base path, proxies, Unix sockets, sockets of systemd, and
// shutdown.

import { spawn, spawnSync } from "node:child_process";
import { existsSync, lstatSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo, Server } from "node:net";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { FIRST, SECOND } from "../server/certificates.ts";
import { allOf, ask, dialPlain, dialTls, fingerprintAt, fingerprintOf, slowRequest } from "../server/client.ts";
import { canReceive, startReceiver } from "../server/receiver.ts";
import { until } from "../patience.ts";
import { EXECUTABLE, inDirectory, run, start } from "../binary/executable.ts";

const test = suite("integration/listening");

const init = (data: string): Promise<string> =>
  run(["init", "--data", data, "--org", "acme", "--user", "ops"]).then(({ stdout }) => stdout.trim());
const flow = (name: string): string => JSON.stringify({ name, description: "" });
/** The files of the database. A stopped server leaves one: its write-ahead log is checkpointed and removed. */
const listDatabaseFiles = (data: string): string[] => readdirSync(data).filter((name) => name.startsWith("assay.db"));

/** Writes a certificate and its key. Returns the options that name them. */
function writeCertificate(directory: string, { certificate, key }: { certificate: string; key: string }): string[] {
  const [crt, pem] = [join(directory, "tls.crt"), join(directory, "tls.key")];
  writeFileSync(crt, certificate);
  writeFileSync(pem, key);
  return ["--tls-cert", crt, "--tls-key", pem];
}

test("a slow TLS upload survives good and bad certificate reloads, and SIGTERM waits for it", () =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    const key = await init(data);
    const running = await start([
      "serve",
      "--data",
      data,
      "--listen",
      "127.0.0.1:0",
      ...writeCertificate(directory, FIRST),
    ]);
    const { url } = running;
    assert.match(url, /^https:\/\//);
    assert.is(await fingerprintAt(url), fingerprintOf(FIRST));
    const socket = await dialTls(url);
    const upload = slowRequest(socket, { path: "/api/v2/flows/acme", key, body: flow("slow") });
    await upload.goesOn;
    socket.write(flow("slow").slice(0, 9));

    writeCertificate(directory, SECOND);
    process.kill(running.pid, "SIGHUP");
    await running.wrote(/"msg":"certificate reloaded/);
    assert.is(await fingerprintAt(url), fingerprintOf(SECOND));
    writeCertificate(directory, { ...SECOND, key: FIRST.key });
    process.kill(running.pid, "SIGHUP");
    await running.wrote(/cannot be used; the current one stays in use/);
    assert.is(await fingerprintAt(url), fingerprintOf(SECOND));
    assert.is((await ask(url, { method: "PUT", path: "/api/v2/flows/acme", key, body: flow("other") })).status, 201);

    process.kill(running.pid, "SIGTERM");
    await running.wrote(/"msg":"stopping"/);
    await ask(url, { path: "/ready" }).then(
      () => assert.unreachable("it still accepts connections"),
      () => undefined,
    );
    socket.write(flow("slow").slice(9));
    assert.match(await upload.answer, /HTTP\/1\.1 201 Created\r\n/);
    assert.equal(await running.exited, { code: 0, signal: null }, running.output());
    assert.equal(listDatabaseFiles(data), ["assay.db"]);
  }));

test("SIGHUP without a certificate does no harm, and a certificate with another key fails the start", () =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    const running = await start(["serve", "--data", data, "--listen", "127.0.0.1:0"]);
    process.kill(running.pid, "SIGHUP");
    await running.wrote(/there is nothing to reload/);
    assert.is((await ask(running.url, { path: "/ready" })).status, 200);
    assert.is((await running.stop()).code, 0);
    const { code, stdout, stderr } = await run([
      "serve",
      "--data",
      data,
      ...writeCertificate(directory, { ...FIRST, key: SECOND.key }),
    ]);
    assert.equal({ code, stdout }, { code: 1, stdout: "" });
    assert.match(stderr, "does not belong to the certificate in");
  }));

test("serves below a base path behind a proxy: API reference, probes, metrics, links and log", () =>
  inDirectory(async (data) => {
    const running = await start([
      "serve",
      "--data",
      data,
      "--listen",
      "127.0.0.1:0",
      "--base-path",
      "/assay",
      "--trusted-proxies",
      "127.0.0.1",
      "--metrics-key",
      "0123456789abcdef",
    ]);
    const page = await ask(running.url, { path: "/assay/api/v2/doc/" });
    assert.is(page.status, 200);
    const links = [...page.text.matchAll(/(?:href|src)="([^"#:]+)"/g)].map(
      (match) => new URL(match[1] as string, "http://x/assay/api/v2/doc/").pathname,
    );
    assert.ok(links.length >= 4, page.text);
    for (const link of links) assert.is((await ask(running.url, { path: link })).status, 200, link);
    assert.equal(
      await Promise.all(
        ["/ready", "/assay/ready", "/api/v2/openapi.json", "/"].map(
          async (path) => (await ask(running.url, { path })).status,
        ),
      ),
      [200, 200, 404, 404],
    );
    assert.equal(
      await Promise.all(
        ["/assay/metrics", "/metrics"].map(
          async (path) => (await ask(running.url, { path, key: "0123456789abcdef" })).status,
        ),
      ),
      [200, 404],
    );
    const headers = {
      "X-Forwarded-For": "6.6.6.6, 203.0.113.9",
      "X-Forwarded-Proto": "https",
      "X-Forwarded-Host": "tools.example.com",
    };
    const document = await ask(running.url, { path: "/assay/api/v2/openapi.json", headers });
    assert.is(document.body.servers[0].url, "https://tools.example.com/assay/api/v2");
    assert.match(String(document.headers["strict-transport-security"]), "max-age=");
    assert.is(
      (await ask(running.url, { path: "/assay/api/v2/openapi.json" })).body.servers[0].url,
      `${running.url}/assay/api/v2`,
    );
    assert.match(await running.wrote(/"client":"203\.0\.113\.9"/), '"path":"/assay/api/v2/openapi.json"');
    await running.stop();
  }));

test("a Unix socket is group-accessible, replaced after a kill, refused while in use, and removed on exit", () =>
  inDirectory(async (directory) => {
    const path = join(directory, "assay.sock");
    const serve = (data: string): string[] => ["serve", "--data", join(directory, data), "--listen", `unix:${path}`];
    const killed = await start(serve("one"));
    assert.is(killed.url, `unix:${path}`);
    assert.is(lstatSync(path).mode & 0o777, 0o660);
    await killed.stop("SIGKILL");
    assert.ok(existsSync(path));
    const running = await start(serve("one"));
    assert.is((await ask(running.url, { path: "/ready" })).text, "OK");
    const second = await run(serve("two"));
    assert.is(second.code, 1);
    assert.match(second.stderr, "another program is listening there");
    assert.is((await ask(running.url, { path: "/ready" })).text, "OK");
    assert.is((await running.stop()).code, 0);
    assert.not(existsSync(path));
  }));

/** Binds a listening socket, as systemd would. Returns it with its file descriptor. */
async function bindSocket(portOrPath: string | number): Promise<{ server: Server; fd: number }> {
  const server = createServer();
  await new Promise<void>((resolve) =>
    typeof portOrPath === "number"
      ? server.listen(portOrPath, "127.0.0.1", resolve)
      : server.listen(portOrPath, resolve),
  );
  return { server, fd: (server as unknown as { _handle: { fd: number } })._handle.fd };
}

/** A shell command that runs its arguments as socket activation does, with `$1` sockets. */
const ACTIVATE = 'LISTEN_PID=$$ LISTEN_FDS="$1"; export LISTEN_PID LISTEN_FDS; shift; exec "$@"';

test("listens on inherited sockets in place of --listen, and binds nothing else", () =>
  inDirectory(async (directory) => {
    const path = join(directory, "handed.sock");
    const [tcp, unix] = [await bindSocket(0), await bindSocket(`${path}.first`)];
    // Closing our end removes the file under the name that it was bound to, so the socket gets another name.
    renameSync(`${path}.first`, path);
    const { port } = tcp.server.address() as AddressInfo;
    const running = await start(
      ["-c", ACTIVATE, "sh", "2", EXECUTABLE, "serve", "--data", join(directory, "data"), "--listen", "192.0.2.1:1"],
      {
        executable: "/bin/sh",
        descriptors: [tcp.fd, unix.fd],
      },
    );
    // From here on only the executable holds the sockets.
    for (const { server } of [tcp, unix]) server.close();
    assert.is(running.url, `http://127.0.0.1:${port}`);
    assert.match(
      await running.wrote(/API reference/),
      `listening on http://127.0.0.1:${port}\nlistening on fd:4\nAPI reference: http://127.0.0.1:${port}/api/v2/doc/\n`,
    );
    await running.wrote(
      /"descriptors":\[3,4\],"in_place_of":"192\.0\.2\.1:1","msg":"listening on sockets passed by systemd"/,
    );
    assert.is((await ask(running.url, { path: "/ready" })).text, "OK");
    assert.is((await ask(`unix:${path}`, { path: "/ready" })).text, "OK");
    assert.equal(await running.stop(), { code: 0, signal: null }, running.output());
    assert.ok(existsSync(path), "the process that created the socket keeps its file");
  }));

test("ignores LISTEN_* variables of another process, and reports a descriptor that is not a listening socket", () =>
  inDirectory(async (directory) => {
    const other = await start(["serve", "--data", join(directory, "data"), "--listen", "127.0.0.1:0"], {
      env: { LISTEN_PID: "1", LISTEN_FDS: "1" },
    });
    assert.not.match(other.output(), "passed by systemd");
    assert.is((await other.stop()).code, 0);
    const { code, stderr } = await run(
      ["-c", `exec 3</dev/null; ${ACTIVATE}`, "sh", "1", EXECUTABLE, "serve", "--data", join(directory, "data")],
      { executable: "/bin/sh" },
    );
    assert.is(code, 1);
    assert.match(stderr, "cannot listen on a socket passed by systemd");
    assert.match(stderr, "its unit needs ListenStream= and Accept=no");
  }));

const activator = "/usr/bin/systemd-socket-activate";
if (!existsSync(activator)) console.log(`skipped: socket activation by systemd's own program needs ${activator}`);
const testActivation = existsSync(activator) ? test : test.skip;

testActivation("systemd-socket-activate starts it on the first connection, which it answers", () =>
  inDirectory(async (directory) => {
    const path = join(directory, "activated.sock");
    const child = spawn(activator, ["-l", path, EXECUTABLE, "serve", "--data", join(directory, "data")], {
      stdio: ["ignore", "pipe", "pipe"],
      env: {},
    });
    const ended = new Promise((resolve) => child.once("close", resolve));
    let said = "";
    child.stderr.on("data", (chunk: Buffer) => void (said += chunk));
    try {
      // The socket has its path before it takes connections.
      await until("it listens", () => said.includes(`Listening on ${path}`));
      const answer = await ask(`unix:${path}`, { path: "/ready" });
      assert.is(answer.text, "OK");
    } finally {
      // By exec the child has become the server.
      child.kill("SIGTERM");
      assert.is(await ended, 0);
    }
  }),
);

const testNotify = canReceive ? test : test.skip;
if (!canReceive) console.log("skipped: notifying systemd needs /usr/bin/systemd-notify and python3");

testNotify("notifies systemd of the start, a reload and the stop", () =>
  inDirectory(async (directory) => {
    const receiver = await startReceiver(join(directory, "notify.sock"));
    try {
      const running = await start(["serve", "--data", join(directory, "data"), "--listen", "127.0.0.1:0"], {
        env: { NOTIFY_SOCKET: join(directory, "notify.sock") },
      });
      await receiver.heard(1);
      process.kill(running.pid, "SIGHUP");
      await receiver.heard(3);
      assert.is((await running.stop()).code, 0);
      await receiver.heard(4);
      const [pid, status] = [`MAINPID=${running.pid}`, `STATUS=listening on ${running.url}`];
      assert.equal(receiver.messages(), [
        [pid, "READY=1", status],
        [pid, "MONOTONIC_USEC=n", "RELOADING=1"],
        [pid, "READY=1", status],
        [pid, "STATUS=stopping: waiting for running requests", "STOPPING=1"],
      ]);
      assert.not.match(running.output(), '"level":"warn"');
    } finally {
      receiver.stop();
    }
  }),
);

test("answers headers that arrive too slowly with 408, with and without TLS", () =>
  inDirectory(async (directory) => {
    for (const tls of [[], writeCertificate(directory, FIRST)]) {
      const running = await start([
        "serve",
        "--data",
        join(directory, "data"),
        "--listen",
        "127.0.0.1:0",
        "--header-timeout",
        "1s",
        ...tls,
      ]);
      const socket = tls.length > 0 ? await dialTls(running.url) : await dialPlain(running.url);
      const answer = allOf(socket);
      socket.write("GET /ready HTTP/1.1\r\nHost: x\r\nX-Slow: ");
      const dribble = setInterval(() => socket.writable && socket.write("a"), 50);
      assert.match(await answer, /^HTTP\/1\.1 408 Request Timeout\r\n[^]*The request did not arrive in time/);
      clearInterval(dribble);
      await running.stop();
    }
  }));

test("help prints the topics tls and proxies", () => {
  for (const [topic, title] of Object.entries({ tls: "TLS", proxies: "Proxies" })) {
    const { status, stdout } = spawnSync(EXECUTABLE, ["help", topic], { encoding: "utf8", env: {} });
    assert.equal({ status, hasHeading: stdout.startsWith(`# ${title}: `) }, { status: 0, hasHeading: true }, topic);
  }
});

test.run();
