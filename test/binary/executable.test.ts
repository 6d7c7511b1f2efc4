// The executable by itself, as an operator copies it to a machine that has nothing else of Assay.

import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { readBuildInfo } from "../../src/assets.ts";
import { EXECUTABLE, inDirectory, run, start } from "./executable.ts";

const test = suite("binary/executable");

/** The arguments for serving `data` on a free port. */
const serve = (data: string): string[] => ["serve", "--data", data, "--listen", "127.0.0.1:0"];

async function readReadiness(url: string): Promise<number> {
  const response = await fetch(`${url}/ready`);
  await response.arrayBuffer();
  return response.status;
}

test("starts, serves and stops alone in an empty directory, without an environment, Node or a home", () =>
  inDirectory(async (directory) => {
    copyFileSync(EXECUTABLE, join(directory, "assay"));
    const server = await start(serve("data"), {
      executable: join(directory, "assay"),
      cwd: directory,
      env: { HOME: "/nonexistent" },
    });
    assert.is(await readReadiness(server.url), 200);
    assert.equal(await server.stop(), { code: 0, signal: null }, server.output());
    assert.equal(readdirSync(directory).sort(), ["assay", "data"], "nothing is left beside the data");
  }));

test("ps shows its name and its command line", () =>
  inDirectory(async (directory) => {
    const server = await start(serve(directory));
    assert.is(readFileSync(`/proc/${server.pid}/comm`, "utf8"), "assay\n");
    assert.match(readFileSync(`/proc/${server.pid}/cmdline`, "utf8"), `\0serve\0--data\0${directory}\0`);
    await server.stop();
  }));

test("SIGINT stops it cleanly, like SIGTERM", () =>
  inDirectory(async (directory) => {
    const server = await start(serve(directory));
    assert.equal(await server.stop("SIGINT"), { code: 0, signal: null }, server.output());
  }));

test("runs with a home directory that it cannot write to", () =>
  inDirectory(async (directory) => {
    const server = await start(serve(directory), { env: { HOME: "/proc" } });
    assert.is(await readReadiness(server.url), 200);
    assert.is((await server.stop()).code, 0);
  }));

test("loading the native library leaves no file behind, even when the process is killed", () =>
  inDirectory(async (directory) => {
    const native = join(directory, "native");
    mkdirSync(native);
    const server = await start(serve(join(directory, "data")), { env: { ASSAY_NATIVE_DIR: native } });
    assert.equal(readdirSync(native), []);
    assert.is((await server.stop("SIGKILL")).signal, "SIGKILL");
    assert.equal(readdirSync(native), []);
  }));

test("starts on the data of a killed process", () =>
  inDirectory(async (directory) => {
    await (await start(serve(directory))).stop("SIGKILL");
    const server = await start(serve(directory));
    assert.is(await readReadiness(server.url), 200);
    assert.is((await server.stop()).code, 0);
  }));

test("eight simultaneous first starts all succeed", () =>
  inDirectory(async (directory) => {
    const data = Array.from({ length: 8 }, (_, index) => join(directory, `data-${index}`));
    const servers = await Promise.all(data.map((path) => start(serve(path), { env: { TMPDIR: directory } })));
    const statuses = await Promise.all(servers.map((server) => readReadiness(server.url)));
    assert.equal(statuses, Array(8).fill(200));
    const exits = await Promise.all(servers.map((server) => server.stop()));
    assert.equal(
      exits.map((exit) => exit.code),
      Array(8).fill(0),
    );
  }));

for (const hostile of [
  "--require /nonexistent.cjs",
  "--import /nonexistent.mjs",
  "--no-such-option",
  "--inspect-brk=127.0.0.1:0",
]) {
  test(`NODE_OPTIONS="${hostile}" is ignored`, async () => {
    const plain = await run(["version"]);
    assert.equal(await run(["version"], { env: { NODE_OPTIONS: hostile } }), plain);
  });
}

test("SIGUSR1 does not open Node's debugger", () =>
  inDirectory(async (directory) => {
    const server = await start(serve(directory));
    process.kill(server.pid, "SIGUSR1");
    assert.is(await readReadiness(server.url), 200);
    assert.equal(await server.stop(), { code: 0, signal: null });
    assert.not.match(server.output(), "Debugger");
  }));

test("refuses Node's own command-line options", async () => {
  const result = await run(["--eval", "process.exit(42)"], { env: { HOME: "/nonexistent" } });
  assert.is.not(result.code, 42);
  assert.is.not(result.code, 0);
});

test("a command whose result finds no space fails and says so; one whose reader has gone away succeeds", () => {
  const shell = (script: string) => {
    const { status, stderr } = spawnSync("bash", ["-c", script, EXECUTABLE], { encoding: "utf8", env: { HOME: "/" } });
    return { status, stderr };
  };
  const full =
    "cannot write to standard output: no space is left on the disk (ENOSPC); free some space, or use another disk";
  assert.equal(shell('"$0" version >/dev/full'), { status: 1, stderr: `assay: ${full}\n` });
  assert.equal(shell('"$0" config explain --json >/dev/full'), { status: 1, stderr: `{"error":"${full}"}\n` });
  assert.equal(shell('set -o pipefail; "$0" openapi | true'), { status: 0, stderr: "" });
});

test("version prints the versions of Assay, Node and SQLite, and the commit", async () => {
  const result = await run(["version"]);
  assert.is(result.code, 0, result.stderr);
  const lines = result.stdout.trimEnd().split("\n");
  assert.is(lines[0], `assay ${readBuildInfo().version}`);
  assert.match(lines[1] ?? "", /^commit ([0-9a-f]{40}(-modified)?|unknown)$/);
  assert.is(lines[2], `node ${process.version}`);
  assert.match(lines[3] ?? "", /^sqlite 3\.\d+\.\d+$/);
});

test.run();
