// The life of a server process, seen from outside: data directory, lock, keys, bootstrap, signals and assay dev.

import { spawnSync } from "node:child_process";
import {
  closeSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { openDatabase } from "../../src/store/db/database.ts";
import { lockDirectory } from "../../src/store/db/data-directory-lock.ts";
import { EXECUTABLE, inDirectory, run, start } from "./executable.ts";

const test = suite("binary/server");

const serve = (data: string, ...options: string[]): string[] => [
  "serve",
  "--data",
  data,
  "--listen",
  "127.0.0.1:0",
  ...options,
];
const init = (data: string): Promise<string> =>
  run(["init", "--data", data, "--org", "acme", "--user", "ops"]).then(({ stdout }) => stdout.trim());

async function requestStatus(url: string, key: string): Promise<number> {
  const response = await fetch(`${url}/api/v2/organizations/acme`, { headers: { Authorization: `Bearer ${key}` } });
  await response.arrayBuffer();
  return response.status;
}

/** Expects what a stopped server leaves: a sound database in one file, no staged file, and no lock. */
function expectClean(data: string): void {
  assert.equal(
    readdirSync(data)
      .filter((name) => name.startsWith("assay"))
      .sort(),
    ["assay.commits", "assay.db", "assay.lock"],
  );
  assert.equal(readdirSync(join(data, "staging")), []);
  lockDirectory(data).release();
  const db = openDatabase(data, 0);
  assert.is(db.pragma("integrity_check", { simple: true }), "ok");
  db.close();
}

test("init prints the key once, and a second init is refused", () =>
  inDirectory(async (data) => {
    const key = await init(data);
    assert.match(key, /^[\w-]{43}$/);
    const again = await run(["init", "--data", data, "--org", "acme", "--user", "ops"]);
    assert.equal({ code: again.code, stdout: again.stdout }, { code: 1, stdout: "" });
    assert.match(again.stderr, "is already set up");
    const running = await start(serve(data));
    assert.is(await requestStatus(running.url, key), 200);
    assert.equal(await running.stop(), { code: 0, signal: null }, running.output());
    expectClean(data);
  }));

test("every file it writes is accessible to its owner only, whatever the umask", () =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    await init(data);
    const running = await start(serve(data));
    // The journal of the lock for sweeping evidence may come and go meanwhile.
    for (const name of readdirSync(data))
      assert.is((statSync(join(data, name), { throwIfNoEntry: false })?.mode ?? 0) & 0o077, 0, name);
    await running.stop();
  }));

test("a second server on the same data is refused with exit code 4, and a killed one leaves no lock", () =>
  inDirectory(async (data) => {
    const first = await start(serve(data));
    const second = await run(serve(data));
    assert.equal({ code: second.code, stdout: second.stdout }, { code: 4, stdout: "" });
    assert.match(second.stderr, `assay: the data directory ${data} is in use by another Assay process`);
    assert.is((await run(["dev", "--data", data, "--listen", "127.0.0.1:0"])).code, 4);
    await first.stop("SIGKILL");
    const third = await start(serve(data));
    assert.equal(await third.stop(), { code: 0, signal: null });
    expectClean(data);
  }));

test("a database of a newer version is refused with exit code 3 and left unchanged", () =>
  inDirectory(async (data) => {
    await init(data);
    const file = join(data, "assay.db");
    const descriptor = openSync(file, "r+");
    // The header has user_version at byte 60, big-endian.
    writeSync(descriptor, Buffer.from([0, 0, 0, 77]), 0, 4, 60);
    closeSync(descriptor);
    const before = readFileSync(file);
    for (const args of [serve(data), ["key", "list", "--user", "ops", "--data", data]]) {
      const { code, stdout, stderr } = await run(args);
      assert.equal({ code, stdout }, { code: 3, stdout: "" });
      assert.match(stderr, /schema version 77, but this program knows versions up to \d+/);
    }
    assert.ok(before.equals(readFileSync(file)));
  }));

test("keys created and revoked on the command line take effect at once while it serves", () =>
  inDirectory(async (data) => {
    const running = await start(serve(data));
    assert.is(await requestStatus(running.url, await init(data)), 200);
    const made = await run([
      "key",
      "create",
      "--user",
      "ops",
      "--description",
      "d",
      "--expires-in",
      "1h",
      "--json",
      "--data",
      data,
    ]);
    const { key, id } = JSON.parse(made.stdout);
    assert.is(await requestStatus(running.url, key), 200);
    assert.is((await run(["key", "revoke", id, "--user", "ops", "--data", data])).code, 0);
    assert.is(await requestStatus(running.url, key), 401);
    assert.equal(await running.stop(), { code: 0, signal: null });
    expectClean(data);
  }));

test("reads the bootstrap file from the environment, and an apply file from standard input", () =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    const file = join(directory, "apply.yml");
    const key = "k-0123456789abcdef";
    writeFileSync(
      file,
      `organizations: [{name: acme, members: [{user: ops, role: admin}]}]\n` +
        `users: [{name: ops, api_keys: [{description: d, key: ${key}}]}]`,
    );
    const running = await start(serve(data), { env: { ASSAY_BOOTSTRAP: file } });
    assert.is(await requestStatus(running.url, key), 200);
    assert.not.match(running.output(), key);
    const applied = await run(
      ["-c", '"$0" apply - --data "$1" <"$2"', process.env["ASSAY_EXECUTABLE"] ?? "dist/assay", data, file],
      { executable: "/bin/sh" },
    );
    assert.is(applied.code, 0, applied.stderr);
    assert.ok(
      applied.stdout
        .split("\n")
        .slice(0, -1)
        .every((line) => line.startsWith("unchanged")),
      applied.stdout,
    );
    assert.is((await running.stop()).code, 0);

    writeFileSync(file, "users: [{name: 1}, {nam: x}]");
    const refused = await run(serve(data, "--bootstrap", file));
    assert.equal(
      { code: refused.code, stdout: refused.stdout, errorLines: refused.stderr.split("\n").length },
      { code: 1, stdout: "", errorLines: 5 },
    );
  }));

/** Opens a request whose body the caller sends in pieces. `answer` resolves with everything received until the end. */
function openRequest(url: string, key: string, body: string) {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  let received = "";
  socket.on("data", (bytes: Buffer) => (received += bytes.toString()));
  const answer = new Promise<string>((resolve) =>
    socket.on("close", () => resolve(received)).on("error", () => undefined),
  );
  const continues = new Promise<void>((resolve) =>
    socket.on("data", () => received.includes("100 Continue") && resolve()),
  );
  socket.write(
    `PUT /api/v2/flows/acme HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${body.length}\r\nExpect: 100-continue\r\n\r\n`,
  );
  return { socket, answer, continues };
}

const FLOW = JSON.stringify({ name: "late", description: "", template: ["artifact"] });

test("SIGTERM lets a running request finish, accepts no new one, and does not wait for idle connections", () =>
  inDirectory(async (data) => {
    const key = await init(data);
    const running = await start(serve(data));
    const unused = connect(Number(new URL(running.url).port), "127.0.0.1");
    const unusedClosed = new Promise((resolve) => unused.on("close", resolve).on("error", () => undefined));
    await new Promise((resolve) => unused.on("connect", resolve));
    const request = openRequest(running.url, key, FLOW);
    await request.continues;
    request.socket.write(FLOW.slice(0, 10));
    process.kill(running.pid, "SIGTERM");
    await running.wrote(/"msg":"stopping"/);
    await unusedClosed;
    await fetch(`${running.url}/ready`).then(
      () => assert.unreachable("it still accepts connections"),
      () => undefined,
    );
    request.socket.write(FLOW.slice(10));
    const answer = await request.answer;
    assert.match(answer, /HTTP\/1\.1 201 Created\r\n/);
    assert.match(answer, /\r\nConnection: close\r\n/);
    assert.equal(await running.exited, { code: 0, signal: null }, running.output());
    expectClean(data);
    const again = await start(serve(data));
    const flow = await fetch(`${again.url}/api/v2/flows/acme/late`, { headers: { Authorization: `Bearer ${key}` } });
    assert.is(((await flow.json()) as { name: string }).name, "late");
    await again.stop();
  }));

test("a second signal ends the process at once", () =>
  inDirectory(async (data) => {
    const key = await init(data);
    const running = await start(serve(data));
    const request = openRequest(running.url, key, FLOW);
    await request.continues;
    process.kill(running.pid, "SIGTERM");
    await running.wrote(/"msg":"stopping"/);
    assert.equal(await running.stop("SIGINT"), { code: 130, signal: null });
    await request.answer;
    // As after any sudden end, the next start cleans up.
    assert.is((await (await start(serve(data))).stop()).code, 0);
    expectClean(data);
  }));

test("a reader that closes the pipe early does not cause a failure", async () => {
  const { code, stdout, stderr } = await run(
    ["-c", '"$0" openapi | head -c 20', process.env["ASSAY_EXECUTABLE"] ?? "dist/assay"],
    { executable: "/bin/sh", env: { PATH: "/usr/bin:/bin" } },
  );
  assert.equal({ code, stdout, stderr }, { code: 0, stdout: '{\n  "openapi": "3.1.0"'.slice(0, 20), stderr: "" });
});

const curl = spawnSync("curl", ["--version"]).status === 0;
if (!curl) console.log("skipped: running the block that assay dev prints needs curl");
const testWithCurl = curl ? test : test.skip;

testWithCurl(
  "the shell block that assay dev prints records an attestation and an environment, also on a second run",
  () =>
    inDirectory(async (directory) => {
      const data = join(directory, "data");
      const running = await start(["dev", "--data", data, "--listen", "127.0.0.1:0"]);
      const block = /^export KOSLI_HOST=.*^\)$/ms.exec(await running.wrote(/^\)$/m))?.[0] ?? "";
      // The shell of a newcomer does not find the executable by its name.
      const next = `${realpathSync(EXECUTABLE)} explain first-environment --org acme --data ${data}`;
      for (const round of ["first", "second"]) {
        const shell = spawnSync("/bin/sh", ["-eu"], {
          input: `${block}\n`,
          encoding: "utf8",
          env: { PATH: process.env["PATH"] ?? "", TMPDIR: directory },
        });
        assert.equal(
          { status: shell.status, stderr: shell.stderr },
          { status: 0, stderr: "" },
          `${shell.stderr}\n${running.output()}`,
        );
        assert.is(
          shell.stdout,
          "flow with a template: done\ntrail build-1: done\nartifact app: done\n" +
            "attestation unit-tests, with evidence: done\npolicy tested: done\nenvironment with the policy: done\n" +
            "report of what runs there: done\n\n" +
            "app is COMPLIANT in first-flow and COMPLIANT in first-environment: " +
            `open ${running.url}/acme/environments/first-environment, and see why with ${next}\n`,
          round,
        );
        assert.equal(readdirSync(directory), ["data"], "the block removes its temporary files");
      }
      const explained = spawnSync("/bin/sh", ["-c", next], { encoding: "utf8", env: { HOME: directory } });
      assert.match(explained.stdout, /^first-environment#\d+ is COMPLIANT: /, explained.stderr);
      const refused = spawnSync("/bin/sh", ["-eu"], {
        input: `${block.replace(/^export KOSLI_API_TOKEN=.*$/m, "export KOSLI_API_TOKEN=wrong")}\n`,
        encoding: "utf8",
        env: { PATH: process.env["PATH"] ?? "", TMPDIR: directory },
      });
      assert.equal(
        { status: refused.status, stdout: refused.stdout.replace(/\{.*\}/, "{}") },
        { status: 1, stdout: "flow with a template: {}\n" },
      );
      assert.equal(await running.stop(), { code: 0, signal: null }, running.output());
      expectClean(data);
      const db = openDatabase(data, 0);
      assert.is(db.prepare("SELECT count(*) FROM small_evidence").pluck().get(), 1, "the evidence of the first run");
      db.close();
    }),
);

test.run();
