// The executable opens no connection by itself. The end-to-end test runs in a network namespace with only its own
// loopback, and a library loaded before the C library logs every address to which the server tries to connect or send,
// whether or not the attempt succeeds. The API reference page runs in Chromium in a namespace from which no other host
// can be reached.

import { spawn, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { EXECUTABLE } from "../binary/executable.ts";

const PATH = "/usr/sbin:/usr/bin:/sbin:/bin";
const CHECKOUT = join(import.meta.dirname, "..", "..");
const scratch = mkdtempSync(join(tmpdir(), "assay-air-gap-"));
const shim = join(scratch, "connects.so");
const log = join(scratch, "connects");
/** A script that runs the executable with the logging library. */
const wrapper = join(scratch, "assay");

const UNSHARE_ARGS = ["-n", "sh", "-c", 'ip link set lo up && exec "$0" "$@"'];
const canIsolate = spawnSync("unshare", [...UNSHARE_ARGS, "true"], { env: { PATH } }).status === 0;
const compiled =
  spawnSync("cc", ["-shared", "-fPIC", "-O1", "-o", shim, join(import.meta.dirname, "connects.c"), "-ldl"], {
    env: { PATH },
  }).status === 0;
if (!canIsolate) console.log("skipped: this process may not create a network namespace (unshare -n, ip)");
if (!compiled) console.log("skipped: logging connections needs a C compiler");

const test = suite("integration/air-gap");
const testIsolated = canIsolate ? test : test.skip;
const testLogged = canIsolate && compiled ? test : test.skip;
test.before(() => {
  writeFileSync(wrapper, `#!/bin/sh\nLD_PRELOAD='${shim}' CONNECTS='${log}' exec '${EXECUTABLE}' "$@"\n`);
  chmodSync(wrapper, 0o700);
});
test.after(() => rmSync(scratch, { recursive: true }));

/** Runs the matching test files of this suite in a network namespace of their own. */
function runIsolated(pattern: string, executable: string) {
  const { status, stdout } = spawnSync(
    "unshare",
    [...UNSHARE_ARGS, process.execPath, join(CHECKOUT, "test", "run.ts"), pattern],
    {
      cwd: CHECKOUT,
      encoding: "utf8",
      env: {
        PATH: `${join(process.execPath, "..")}:${PATH}`,
        HOME: process.env["HOME"] ?? "/",
        ASSAY_EXECUTABLE: executable,
      },
    },
  );
  return { status, stdout, passed: Number(/^(\d+) passed, 0 failed$/m.exec(stdout)?.[1] ?? 0) };
}

const readLog = (): string[] => (existsSync(log) ? readFileSync(log, "utf8").trimEnd().split("\n") : []);

testLogged("the library logs connections and datagrams", async () => {
  const server = createServer((socket) => socket.end()).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as AddressInfo;
  const own = join(scratch, "own");
  const code = `
    const datagram = () => require("dgram").createSocket("udp4").send("x", 9, "192.0.2.1", () => process.exit());
    require("net").connect(${port}, "127.0.0.1").resume().on("close", datagram);`;
  const child = spawn(process.execPath, ["-e", code], { env: { LD_PRELOAD: shim, CONNECTS: own } });
  await new Promise((resolve) => child.once("close", resolve));
  server.close();
  const lines = readFileSync(own, "utf8");
  assert.match(lines, `connect 127.0.0.1 ${port}\n`);
  assert.match(lines, /send\w+ 192\.0\.2\.1 9\n/);
});

testLogged("a whole release, from an empty directory to a verdict, opens no connection", () => {
  const { status, stdout, passed } = runIsolated("^binary/end-to-end", wrapper);
  assert.is(status, 0, stdout);
  assert.ok(passed >= 2, stdout);
  assert.equal(readLog(), []);
});

testLogged("webhooks go to their configured targets, and nothing connects anywhere else", () => {
  const { status, stdout, passed } = runIsolated("^binary/release", wrapper);
  assert.is(status, 0, stdout);
  assert.ok(passed >= 1, stdout);
  const targets = readLog();
  assert.ok(targets.length > 0);
  assert.equal(
    targets.filter((line) => !/^connect 127\.0\.0\.1 \d+$/.test(line)),
    [],
  );
});

testIsolated("the API reference page works in a browser that can reach no other host", () => {
  const { status, stdout, passed } = runIsolated("^integration/reference", EXECUTABLE);
  assert.is(status, 0, stdout);
  assert.ok(passed > 0 || /Chromium is not installed/.test(stdout), stdout);
});

test.run();
