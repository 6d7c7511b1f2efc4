// Files of the database that somebody replaces, removes, cuts or overwrites below a running server, and starts on a
// directory whose database is gone. No change is acknowledged after it, and none that was acknowledged is lost.

import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createClient, expectStatus } from "./client.ts";
import type { Client } from "./client.ts";
import { inDirectory, run, start } from "./executable.ts";
import type { Running } from "./executable.ts";

const test = suite("binary/replaced-files");

const METRICS_KEY = "m".repeat(32);

type Parts = {
  server: Running;
  client: Client;
  data: string;
  path(name: string): string;
  /** Starts the server again, after it was stopped. */
  again(): Promise<Client>;
};

/** A server with a flow and three trails. */
const serving = (body: (parts: Parts) => Promise<void>): Promise<void> =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    const init = await run(["init", "--org", "acme", "--user", "ops", "--data", data]);
    assert.is(init.code, 0, init.stderr);
    const key = init.stdout.trim();
    const servers: Running[] = [];
    const serve = async (): Promise<Running> => {
      const server = await start(["serve", "--data", data, "--listen", "127.0.0.1:0", "--metrics-key", METRICS_KEY]);
      servers.push(server);
      return server;
    };
    try {
      const server = await serve();
      const client = createClient(server.url, key);
      await expectStatus(
        client.form("PUT", "/flows/acme/template_file", "data_json", { name: "backend", description: "" }),
        201,
      );
      for (const name of TRAILS) await expectStatus(beginTrail(client, name), 201);
      await body({
        server,
        client,
        data,
        path: (name) => join(data, name),
        again: async () => createClient((await serve()).url, key),
      });
    } finally {
      for (const server of servers) await server.stop("SIGKILL");
    }
  });

const TRAILS = ["one", "two", "three"];

const beginTrail = (client: Client, name: string) => client.form("PUT", "/trails/acme/backend", "data_json", { name });

const trailsOf = async (client: Client): Promise<string[]> =>
  (await expectStatus(client.json("GET", "/trails/acme/backend"), 200))
    .map(({ name }: { name: string }) => name)
    .sort();

/** Expects that changes are refused for that reason from the first one on, and that everything says so. */
async function expectReadOnly({ server, client, data }: Parts, reason: string): Promise<void> {
  const text = `${reason} while the server was running (assay help database-files)`;
  const refused = await beginTrail(client, "late");
  assert.equal(
    { status: refused.status, body: refused.body, retryAfter: refused.headers.get("Retry-After") },
    {
      status: 507,
      body: { message: `The server is in read-only mode: ${text}. Nothing was stored` },
      retryAfter: "60",
    },
  );
  const report = (await (await fetch(`${server.url}/readyz`)).json()) as { state: string; reason: string };
  assert.equal(
    { state: report.state, reason: report.reason },
    { state: "read-only", reason: `The server is in read-only mode: ${text}` },
  );
  const metrics = await fetch(`${server.url}/metrics`, { headers: { Authorization: `Bearer ${METRICS_KEY}` } });
  assert.match(await metrics.text(), /^assay_read_only 1$/m);
  assert.ok((await server.wrote(/entered read-only mode/)).includes(`"reason":"${text}"`), server.output());
  // What was cut off cannot be read any more.
  if (!reason.includes("cut")) assert.equal(await trailsOf(client), [...TRAILS].sort());
  const doctor = await run(["doctor", "--data", data, "--listen", "127.0.0.1:0"]);
  assert.is(doctor.code, 1, doctor.stdout);
  if (!reason.includes("cut"))
    assert.match(doctor.stdout, /FAIL {2}database files +[^\n]* while the server was running/);
}

test("a database that is moved away and comes back: nothing acknowledged in between, and changes go on", () =>
  serving(async (parts) => {
    const { server, client, path } = parts;
    renameSync(path("assay.db"), path("away.db"));
    await expectReadOnly(parts, "assay.db was removed or moved away");
    assert.not(existsSync(path("assay.db")), "nothing is created in its place");
    renameSync(path("away.db"), path("assay.db"));
    await server.wrote(/left read-only mode/);
    await expectStatus(beginTrail(client, "after"), 201);
    assert.equal(await trailsOf(client), ["after", ...TRAILS].sort());
    assert.equal(await server.stop(), { code: 0, signal: null }, server.output());
    const verify = await run(["verify", "--data", parts.data]);
    assert.is(verify.code, 0, verify.stdout);
  }));

test("a database that another one replaces: changes are refused until a restart, which uses what is there", () =>
  serving(async (parts) => {
    const { server, data, path, again } = parts;
    const copy = await run(["backup", join(data, "..", "backup.tar"), "--data", data]);
    assert.is(copy.code, 0, copy.stderr);
    const restored = join(data, "..", "restored");
    assert.is((await run(["restore", join(data, "..", "backup.tar"), "--data", restored])).code, 0);
    renameSync(join(restored, "assay.db"), path("assay.db"));
    await expectReadOnly(parts, "assay.db was replaced by another file");
    assert.equal(await server.stop(), { code: 0, signal: null }, server.output());
    assert.match(server.output(), "the write-ahead log is left as it is: it was not copied into the database");
    // As the guide says: the log belongs to the other database.
    for (const name of ["assay.db-wal", "assay.db-shm"]) rmSync(path(name), { force: true });
    assert.equal(await trailsOf(await again()), [...TRAILS].sort());
  }));

test("a deleted database is copied from what the server has open, as the guide says", () =>
  serving(async (parts) => {
    const { server, path, again } = parts;
    rmSync(path("assay.db"));
    await expectReadOnly(parts, "assay.db was removed or moved away");
    const descriptors = `/proc/${server.pid}/fd`;
    const openAs = (name: string): string | undefined =>
      readdirSync(descriptors).find((descriptor) => {
        const link = readlinkSync(join(descriptors, descriptor));
        return link === path(name) || link === `${path(name)} (deleted)`;
      });
    for (const name of ["assay.db", "assay.db-wal"])
      copyFileSync(join(descriptors, openAs(name) as string), path(`${name}.saved`));
    await server.stop();
    for (const name of ["assay.db", "assay.db-wal"]) renameSync(path(`${name}.saved`), path(name));
    assert.equal(await trailsOf(await again()), [...TRAILS].sort());
  }));

for (const name of ["assay.db-wal", "assay.db-shm"])
  test(`a removed ${name}: changes are refused, and after kill -9 everything acknowledged is there`, () =>
    serving(async (parts) => {
      const { server, path, again } = parts;
      rmSync(path(name));
      await expectReadOnly(parts, `${name} was removed or moved away`);
      if (name === "assay.db-wal") await server.wrote(/copied the lost write-ahead log into the database/);
      await server.stop("SIGKILL");
      assert.equal(await trailsOf(await again()), [...TRAILS].sort());
    }));

test("a removed log, and a stop: everything acknowledged is there", () =>
  serving(async (parts) => {
    const { server, path, again } = parts;
    rmSync(path("assay.db-wal"));
    await expectReadOnly(parts, "assay.db-wal was removed or moved away");
    assert.equal(await server.stop(), { code: 0, signal: null }, server.output());
    assert.equal(await trailsOf(await again()), [...TRAILS].sort());
  }));

test("a database that was cut: changes are refused, and doctor says so after the stop", () =>
  serving(async (parts) => {
    const { server, data, path } = parts;
    truncateSync(path("assay.db"), 0);
    await expectReadOnly(parts, "assay.db was cut or overwritten");
    assert.equal(await server.stop(), { code: 0, signal: null }, server.output());
    const started = await run(["serve", "--data", data, "--listen", "127.0.0.1:0"]);
    assert.is(started.code, 1);
    assert.match(
      started.stderr,
      "holds a write-ahead log and the number of its latest commit (assay.commits), but its database assay.db is empty",
    );
  }));

test("an older copy over the database: changes are refused, and the log is not written into it", () =>
  serving(async (parts) => {
    const { server, data, path, again } = parts;
    assert.is(await server.stop().then(({ code }) => code), 0);
    copyFileSync(path("assay.db"), join(data, "..", "old.db"));
    const client = await again();
    // The database grows, and a checkpoint of another program copies that into the file.
    for (let trail = 0; trail < 30; trail += 1)
      await expectStatus(
        client.form("PUT", "/trails/acme/backend", "data_json", { name: `t-${trail}`, description: "x".repeat(5_000) }),
        201,
      );
    const before = readdirSync(data);
    assert.ok(before.includes("assay.db-wal"));
    const { default: Database } = await import("better-sqlite3");
    const { loadAddon } = await import("../../src/store/db/native-addon.ts");
    const other = new Database(path("assay.db"), { nativeBinding: loadAddon() as unknown as string });
    other.pragma("wal_checkpoint(PASSIVE)");
    other.close();
    await expectStatus(beginTrail(client, "last"), 201);
    copyFileSync(join(data, "..", "old.db"), path("assay.db"));
    const refused = await beginTrail(client, "late");
    assert.is(refused.status, 507);
    assert.match(refused.body.message, "assay.db was cut or overwritten while the server was running");
  }));

const withoutDatabase = (body: (data: string) => Promise<void>): Promise<void> =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    mkdirSync(join(data, "evidence", "ab"), { recursive: true });
    writeFileSync(join(data, "evidence", "ab", "cd"), "evidence");
    await body(data);
  });

const BEGINNINGS: readonly (readonly string[])[] = [
  ["serve", "--listen", "127.0.0.1:0"],
  ["dev", "--listen", "127.0.0.1:0"],
  ["init", "--org", "acme", "--user", "ops"],
];

for (const [name = "", ...args] of BEGINNINGS)
  test(`assay ${name} refuses a directory with evidence and without a database, and leaves it as it is`, () =>
    withoutDatabase(async (data) => {
      const before = readdirSync(data, { recursive: true });
      const { code, stderr } = await run([name, ...args, "--data", data]);
      assert.is(code, 1);
      assert.ok(
        stderr.endsWith(
          `assay: ${data} holds evidence, but its database assay.db is missing. Nothing was changed. Move assay.db ` +
            "back if it was moved away, or restore a backup: move this directory away and run assay restore (assay " +
            "help restore). Only to begin without any records, run this again with --new-database\n",
        ),
        stderr,
      );
      assert.equal(readdirSync(data, { recursive: true }), before);
    }));

test("with --new-database a start begins an empty database there", () =>
  withoutDatabase(async (data) => {
    const server = await start(["serve", "--data", data, "--listen", "127.0.0.1:0", "--new-database"]);
    assert.match(server.output(), "there are no accounts yet: create the first administrator at");
    assert.is((await server.stop()).code, 0);
  }));

test.run();
