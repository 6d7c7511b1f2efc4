/**
 * `assay doctor` as root, as the guide runs it, on the data of a server with a user of its own: permissions are those
 * of that user, and nothing of root is left behind.
 */
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { CERTIFICATE, KEY } from "../notifications/certificates.ts";
import { findTool } from "../tools.ts";
import { createClient, expectStatus } from "./client.ts";
import { EXECUTABLE, run, start } from "./executable.ts";
import type { Running } from "./executable.ts";

const [SERVER, GROUP] = [12_345, 23_456];
/** Of the user of the server, with a supplementary group. */
const AS_SERVER = [`--reuid=${SERVER}`, `--regid=${SERVER}`, `--groups=${SERVER},${GROUP}`];

function findObstacle(): string | null {
  if (process.getuid?.() !== 0) return "only root can run a server as another user";
  const setpriv = findTool("setpriv");
  if (setpriv === null) return "there is no setpriv";
  const { status } = spawnSync(setpriv, [...AS_SERVER, EXECUTABLE, "version"], { env: {}, stdio: "ignore" });
  return status === 0 ? null : "another user cannot run the executable where it is";
}
const obstacle = findObstacle();
if (obstacle !== null) console.log(`skipped: assay doctor for the user of the server: ${obstacle}`);
const all = suite("binary/doctor");
const test = obstacle === null ? all : all.skip;

type Found = { check: string; level: string; found: string; todo: string | null };

/** A data directory of the server's user, in a directory that everybody may pass. */
async function installed(body: (home: string, data: string, key: string) => Promise<void>): Promise<void> {
  const home = mkdtempSync("/tmp/assay-doctor-");
  try {
    chmodSync(home, 0o755);
    const data = join(home, "data");
    const { code, stdout, stderr } = await run(["init", "--org", "acme", "--user", "ops", "--data", data]);
    assert.is(code, 0, stderr);
    for (const path of [data, ...entriesOf(data)]) chownSync(path, SERVER, SERVER);
    await body(home, data, stdout.trim());
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

const entriesOf = (data: string): string[] =>
  (readdirSync(data, { recursive: true }) as string[]).sort().map((name) => join(data, name));

const serve = (data: string, ...more: string[]): Promise<Running> =>
  start([...AS_SERVER, EXECUTABLE, "serve", "--data", data, "--listen", "127.0.0.1:0", ...more], {
    executable: findTool("setpriv") ?? "",
    cwd: "/",
  });

/** The checks by name, of doctor as root without any environment. */
async function doctor(data: string, ...more: string[]): Promise<Record<string, Found> & { user: object }> {
  const listen = more.includes("--listen") ? [] : ["--listen", "127.0.0.1:0"];
  const { stdout, stderr } = await run(["doctor", "--json", "--data", data, ...listen, ...more]);
  assert.is(stderr, "");
  const { checks, server_user } = JSON.parse(stdout) as { checks: Found[]; server_user: object };
  return Object.assign(Object.fromEntries(checks.map((check) => [check.check, check])), { user: server_user }) as never;
}
const describe = (check: Found | undefined): string => `${check?.level}: ${check?.found}`;

/** Names, owners, modes and inodes: what a command could change beside a server, whose files change anyway. */
const ownersIn = (data: string): string[] =>
  [data, ...entriesOf(data)]
    // It lasts as long as the server's own sweep, which may run at its start.
    .filter((path) => !path.endsWith("/evidence.lock-journal"))
    .map((path) => {
      const { mode, ino, uid, gid } = lstatSync(path);
      return `${path} ${uid}:${gid} ${mode} ${ino}`;
    });

/** Everything about a directory that a command could change. */
const state = (data: string): string[] =>
  [data, ...entriesOf(data)].map((path) => {
    const { size, mtimeMs, ctimeMs, mode, ino, uid, gid } = lstatSync(path);
    return `${path} ${uid}:${gid} ${mode} ${ino} ${size} ${mtimeMs} ${ctimeMs}`;
  });

test("finds the user of a running server, checks as that user, and leaves nothing of root beside it", () =>
  installed(async (_home, data, key) => {
    const server = await serve(data);
    await server.wrote(/"msg":"started"/);
    const before = ownersIn(data);
    const checks = await doctor(data);
    assert.equal(
      { level: checks["server user"]?.level, found: checks["server user"]?.found, user: checks.user },
      {
        level: "ok",
        found: `${SERVER}, as which process ${server.pid} serves the directory: files are checked as this user`,
        user: { uid: SERVER, gid: SERVER, groups: [SERVER, GROUP], name: null },
      },
    );
    assert.match(
      describe(checks["permissions"]),
      new RegExp(`^ok: mode 0700, user ${SERVER} owns and may use all \\d+ entries$`),
    );
    assert.is(describe(checks["database files"]), "ok: are those that the server has open");
    assert.equal(ownersIn(data), before);
    await expectStatus(
      createClient(server.url, key).form("PUT", "/flows/acme/template_file", "data_json", {
        name: "flow",
        description: "",
      }),
      201,
    );
    assert.equal(await server.stop(), { code: 0, signal: null }, server.output());
    const text = await run(["doctor", "--listen", "127.0.0.1:0", "--data", data]);
    assert.match(
      text.stdout,
      `ok    server user             ${SERVER}, the owner of the data directory: files are checked as this user\n`,
    );
    const again = await serve(data);
    await again.wrote(/"msg":"started"/);
    assert.equal(await again.stop(), { code: 0, signal: null }, again.output());
  }));

test("changes nothing after a stop and after a crash, and the server starts on it", () =>
  installed(async (_home, data) => {
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      const server = await serve(data);
      await server.wrote(/"msg":"started"/);
      await server.stop(signal);
      const before = state(data);
      await doctor(data);
      assert.equal(state(data), before, signal);
    }
    const server = await serve(data);
    await server.wrote(/"msg":"started"/);
    assert.equal(await server.stop(), { code: 0, signal: null }, server.output());
  }));

test("names what root left in the directory, which root itself could use", () =>
  installed(async (_home, data) => {
    const shard = join(data, "evidence", "ab");
    mkdirSync(shard);
    chownSync(shard, SERVER, SERVER);
    writeFileSync(join(shard, "c".repeat(62)), "evidence", { mode: 0o400 });
    chownSync(join(data, "assay.db"), 0, 0);
    const { permissions } = await doctor(data);
    assert.equal(permissions, {
      check: "permissions",
      level: "fail",
      found:
        `these entries do not belong to user ${SERVER}: assay.db (user 0, mode 0600), ` +
        `evidence/ab/${"c".repeat(62)} (user 0, mode 0400); a command was run as another user`,
      todo: `stop the server, and run chown -R --reference=${data} ${data}`,
    });
    for (const path of entriesOf(data)) chownSync(path, SERVER, SERVER);
    chmodSync(join(data, "staging"), 0o500);
    assert.match(
      describe((await doctor(data))["permissions"]),
      `fail: user ${SERVER} has no access to these entries: staging (user ${SERVER}, mode 0500)`,
    );
    chownSync(data, 0, 0);
    chmodSync(data, 0o700);
    const server = describe((await doctor(data))["server user"]);
    assert.match(server, "ok: 0 (root), the owner of the data directory");
  }));

test("names a directory on the way that the user of the server may not pass", () =>
  installed(async (home, data) => {
    chmodSync(home, 0o700);
    const { permissions } = await doctor(data);
    assert.equal(
      { level: permissions?.level, found: permissions?.found },
      {
        level: "fail",
        found: `user ${SERVER} cannot reach ${data}: ${home} has mode 0700 and belongs to user 0`,
      },
    );
  }));

test("checks the files of options with the groups of the running server", () =>
  installed(async (home, data) => {
    const at = (name: string): string => join(home, name);
    writeFileSync(at("cert.pem"), CERTIFICATE, { mode: 0o644 });
    writeFileSync(at("key.pem"), KEY, { mode: 0o640 });
    chownSync(at("key.pem"), 0, GROUP);
    mkdirSync(at("backups"));
    chmodSync(at("backups"), 0o2770);
    chownSync(at("backups"), 0, GROUP);
    mkdirSync(at("private"), { mode: 0o700 });
    writeFileSync(join(at("private"), "assay.yml"), "log_level: info\n", { mode: 0o644 });
    const tls = ["--tls-cert", at("cert.pem"), "--tls-key", at("key.pem")];
    const backups = ["--backup-directory", at("backups"), "--backup-every", "24h"];

    const stopped = (await doctor(data, ...tls, ...backups))["files of options"];
    assert.equal(
      { level: stopped?.level, found: stopped?.found },
      {
        level: "fail",
        found:
          `user ${SERVER} cannot read ${at("key.pem")} (--tls-key): it has mode 0640 and belongs to user 0; ` +
          `cannot write to ${at("backups")} (--backup-directory): it has mode 0770 and belongs to user 0`,
      },
    );
    assert.match(stopped?.todo ?? "", /^give that user or one of its groups access \(chgrp, chmod\), or let systemd/);

    const server = await serve(data);
    try {
      assert.is(
        describe((await doctor(data, ...tls, ...backups))["files of options"]),
        `ok: user ${SERVER} can use those of --tls-cert, --tls-key, --backup-directory`,
      );
      assert.is(
        describe((await doctor(data, "--config", join(at("private"), "assay.yml")))["files of options"]),
        `fail: user ${SERVER} cannot read ${at("private")}/assay.yml (--config): ` +
          `${at("private")} has mode 0700 and belongs to user 0`,
      );
      assert.is((await doctor(data))["files of options"], undefined);
    } finally {
      await server.stop();
    }
  }));

test("checks the directory of a Unix socket", () =>
  installed(async (home, data) => {
    const socket = `unix:${home}/assay.sock`;
    assert.is(
      describe((await doctor(data, "--listen", socket))["address"]),
      `fail: the server's user cannot create a socket in ${home}: it has mode 0755 and belongs to user 0`,
    );
    chownSync(home, SERVER, SERVER);
    assert.is(describe((await doctor(data, "--listen", socket))["address"]), `ok: ${socket} can be created`);
  }));

test("another user than root and that of the server is told that it cannot check", () =>
  installed(async (_home, data) => {
    chmodSync(data, 0o755);
    const { stdout } = await run(
      ["--reuid=4711", "--clear-groups", EXECUTABLE, "doctor", "--listen", "127.0.0.1:0", "--data", data],
      { executable: findTool("setpriv") ?? "", cwd: "/" },
    );
    assert.match(
      stdout,
      new RegExp(
        `WARN  server user +${SERVER}, the owner of the data directory, and this is user 4711: permissions are not ` +
          `checked\\n +-> run this command as root or as user ${SERVER}\n`,
      ),
    );
    assert.not.match(stdout, /permissions {2}/);
  }));

test("finds a log that a crash left cut, without touching it", () =>
  installed(async (_home, data) => {
    const server = await serve(data);
    await server.wrote(/"msg":"started"/);
    await server.stop("SIGKILL");
    truncateSync(join(data, "assay.db-wal"), 100);
    const before = state(data);
    assert.match(describe((await doctor(data))["write-ahead log"]), /^warn: 100 bytes, and no server runs/);
    assert.equal(state(data), before);
  }));

all.run();
