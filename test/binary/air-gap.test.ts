// The executable opens no connection by itself. The end-to-end test runs in a network namespace that has nothing but
// its own loopback, with a library loaded before the C library that writes down each address to which the server tries
// to connect or send, also in vain; so does the reference page in Chromium, in a namespace where no other host can be
// reached.

import { spawn, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { EXECUTABLE } from "./executable.ts";

const PATH = "/usr/sbin:/usr/bin:/sbin:/bin";
const CHECKOUT = join(import.meta.dirname, "..", "..");
const scratch = mkdtempSync(join(tmpdir(), "assay-air-gap-"));
const shim = join(scratch, "connects.so");
const log = join(scratch, "connects");
/** Stands in for the executable. */
const watched = join(scratch, "assay");

const alone = ["-n", "sh", "-c", 'ip link set lo up && exec "$0" "$@"'];
const separable = spawnSync("unshare", [...alone, "true"], { env: { PATH } }).status === 0;
const compiled =
  spawnSync("cc", ["-shared", "-fPIC", "-O1", "-o", shim, join(import.meta.dirname, "connects.c"), "-ldl"], {
    env: { PATH },
  }).status === 0;
if (!separable) console.log("skipped: this process may not make a network namespace (unshare -n, ip)");
if (!compiled) console.log("skipped: there is no C compiler, so connections are not written down");

const test = suite("air gap");
const apart = separable ? test : test.skip;
const seen = separable && compiled ? test : test.skip;
test.before(() => {
  writeFileSync(watched, `#!/bin/sh\nLD_PRELOAD='${shim}' CONNECTS='${log}' exec '${EXECUTABLE}' "$@"\n`);
  chmodSync(watched, 0o700);
});
test.after(() => rmSync(scratch, { recursive: true }));

/** Runs tests of this suite in a namespace of their own. */
function runApart(pattern: string, executable: string) {
  const { status, stdout } = spawnSync(
    "unshare",
    [...alone, process.execPath, join(CHECKOUT, "test", "run.ts"), pattern],
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

const addresses = (): string[] => (existsSync(log) ? readFileSync(log, "utf8").trimEnd().split("\n") : []);

seen("the library sees what is opened", async () => {
  const server = createServer((socket) => socket.end()).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as AddressInfo;
  const own = join(scratch, "own");
  const code = `require("net").connect(${port}, "127.0.0.1").resume().on("close", () => require("dgram").createSocket("udp4").send("x", 9, "192.0.2.1", () => process.exit()))`;
  const child = spawn(process.execPath, ["-e", code], { env: { LD_PRELOAD: shim, CONNECTS: own } });
  await new Promise((resolve) => child.once("close", resolve));
  server.close();
  const lines = readFileSync(own, "utf8");
  assert.match(lines, `connect 127.0.0.1 ${port}\n`);
  assert.match(lines, /send\w+ 192\.0\.2\.1 9\n/);
});

seen("a whole release, end to end, opens no connection", () => {
  const { status, stdout, passed } = runApart("^binary/end-to-end", watched);
  assert.is(status, 0, stdout);
  assert.ok(passed >= 2, stdout);
  assert.equal(addresses(), []);
});

seen("webhooks and mail go where they are told to, and nothing goes anywhere else", () => {
  const { status, stdout, passed } = runApart("^binary/release", watched);
  assert.is(status, 0, stdout);
  assert.ok(passed >= 1, stdout);
  const targets = addresses();
  assert.ok(targets.length > 0);
  assert.equal(
    targets.filter((line) => !/^connect 127\.0\.0\.1 \d+$/.test(line)),
    [],
  );
});

apart("the reference page works in a browser that reaches no other host", () => {
  const { status, stdout, passed } = runApart("^web/chromium", EXECUTABLE);
  assert.is(status, 0, stdout);
  assert.ok(passed > 0 || /Chromium is not installed/.test(stdout), stdout);
});

test.run();
