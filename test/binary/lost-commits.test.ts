// A write-ahead log that was damaged while the server was not running: what the start says, what it refuses, and how
// the operator goes on.

import { copyFileSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { describeLoss } from "../../src/store/db/commit-number.ts";
import { openReadOnly } from "../../src/store/db/connection.ts";
import { inDirectory, run, start } from "./executable.ts";
import type { Running } from "./executable.ts";

const test = suite("binary/lost-commits");

const serve = (data: string): string[] => ["serve", "--data", data, "--listen", "127.0.0.1:0"];

async function call(
  { url }: Pick<Running, "url">,
  key: string,
  { method, path, body }: { method: string; path: string; body?: object },
): Promise<{ status: number; body: any }> {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  return { status: response.status, body: await response.json() };
}

const readiness = async ({ url }: Running): Promise<any> => (await fetch(`${url}/readyz`)).json();
const createFlow = (server: Running, key: string, name: string) =>
  call(server, key, {
    method: "PUT",
    path: "/api/v2/flows/acme",
    body: { name, description: "", visibility: "public" },
  });
const flows = async (server: Running, key: string): Promise<string[]> =>
  (await call(server, key, { method: "GET", path: "/api/v2/flows/acme" })).body.map(({ name }: any) => name).sort();

/** Initializes a directory, reports eight flows one after another, kills the server, and flips a bit of its log. */
async function damaged(data: string): Promise<{ key: string; log: Buffer }> {
  const key = (await run(["init", "--data", data, "--org", "acme", "--user", "ops"])).stdout.trim();
  const server = await start(serve(data));
  for (let count = 1; count <= 8; count += 1) {
    const { status, body } = await createFlow(server, key, `flow-${count}`);
    assert.is(status, 201, JSON.stringify(body));
  }
  await server.stop("SIGKILL");
  const file = join(data, "assay.db-wal");
  const log = readFileSync(file);
  const offset = Math.floor(log.length * 0.6);
  log.writeUInt8(log.readUInt8(offset) ^ 1, offset);
  writeFileSync(file, log);
  return { key, log };
}

const copies = (data: string): string[] => readdirSync(data).filter((name) => name.startsWith("assay.lost-"));

test("a damaged log is told, kept, and keeps the server read-only until the operator accepts the loss", () =>
  inDirectory(async (data) => {
    const { key, log } = await damaged(data);
    const command = await run(["user", "create", "eve", "--data", data]);
    assert.is(command.code, 5);
    assert.match(
      command.stderr,
      /lacks \d commits that were acknowledged; nothing was changed\..*assay accept-loss --data/,
    );

    const server = await start(serve(data));
    const left = await flows(server, key);
    assert.ok(left.length < 8, "the damage lost nothing");
    const [name = "", ...more] = copies(data);
    assert.equal(more, []);
    assert.equal(readFileSync(join(data, name)), log);
    const line = server
      .output()
      .split("\n")
      .filter((text) => text.startsWith("{"))
      .map((text) => JSON.parse(text))
      .find(({ msg }) => msg.startsWith("acknowledged commits are missing"));
    assert.equal({ level: line?.level, copy: line?.log_copy }, { level: "error", copy: join(data, name) });
    const missing: number = line.missing_commits;
    assert.ok(missing >= 8 - left.length);

    const ready = await readiness(server);
    assert.is(ready.state, "read-only");
    assert.match(ready.reason, new RegExp(`lacks ${missing} commits? that (was|were) acknowledged.*assay accept-loss`));
    const refused = await createFlow(server, key, "refused");
    assert.is(refused.status, 507);
    assert.match(refused.body.message, /read-only mode.*assay accept-loss/);
    assert.equal(await flows(server, key), left);
    const second = await run(["user", "create", "eve", "--data", data]);
    assert.is(second.code, 5);
    const doctor = await run(["doctor", "--data", data]);
    assert.match(doctor.stdout, new RegExp(`FAIL +commits +${describeLoss(missing)}: the write-ahead log was damaged`));
    const verify = await run(["verify", "--data", data]);
    assert.is(verify.code, 5);
    assert.match(verify.stdout, describeLoss(missing));
    const backup = await run(["backup", join(data, "b.tar"), "--data", data]);
    assert.is(backup.code, 5);
    assert.not.ok(existsSync(join(data, "b.tar")));

    // A restart changes nothing about it.
    await server.stop();
    const again = await start(serve(data));
    assert.is((await readiness(again)).state, "read-only");
    assert.equal(copies(data), [name]);

    const accepted = await run(["accept-loss", "--data", data]);
    assert.is(accepted.code, 0, accepted.stderr);
    assert.is(
      accepted.stdout,
      `accepted the loss: ${describeLoss(missing)}; the copy of the log is ${join(data, name)}\n`,
    );
    await again.wrote(/left read-only mode/);
    assert.is((await createFlow(again, key, "later")).status, 201);
    assert.equal(await flows(again, key), [...left, "later"].sort());
    const db = openReadOnly(data);
    const entry = db.prepare<[], any>("SELECT * FROM audit_log WHERE event = 'loss.accepted'").get();
    assert.equal(
      { actor: entry.actor_name, operation: entry.operation, detail: JSON.parse(entry.detail_json) },
      { actor: "operator", operation: "accept-loss", detail: { missing_commits: missing, log_copy: name } },
    );
    db.close();
    assert.equal(readFileSync(join(data, name)), log, "the copy stays");
    assert.is((await run(["accept-loss", "--data", data])).stdout, "no commit is missing; nothing was changed\n");
    await again.stop("SIGKILL");
    const last = await start(serve(data));
    assert.is((await readiness(last)).state, "ready");
    await last.stop();
  }));

test("the loss can be accepted without a server, which keeps the log as a start does", () =>
  inDirectory(async (data) => {
    const { key, log } = await damaged(data);
    const accepted = await run(["accept-loss", "--data", data, "--json"]);
    const { missing_commits: missing, log_copy: copy } = JSON.parse(accepted.stdout);
    assert.ok(missing > 0);
    assert.equal(readFileSync(copy), log);
    const server = await start(serve(data));
    assert.is((await createFlow(server, key, "later")).status, 201);
    await server.stop();
  }));

test("a log that was removed after a kill is told as well", () =>
  inDirectory(async (data) => {
    const { key } = await damaged(data);
    rmSync(join(data, "assay.db-wal"));
    const server = await start(serve(data));
    assert.is((await createFlow(server, key, "refused")).status, 507);
    assert.equal(copies(data), []);
    await server.stop();
  }));

test("a directory that is killed and started, copied, or restored from its backup, lost nothing", () =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    const key = (await run(["init", "--data", data, "--org", "acme", "--user", "ops"])).stdout.trim();
    const first = await start(serve(data));
    await createFlow(first, key, "one");
    const archive = join(directory, "backup.tar");
    assert.is((await run(["backup", archive, "--data", data])).code, 0);
    await createFlow(first, key, "two");
    await first.stop("SIGKILL");
    const second = await start(serve(data));
    assert.equal(await flows(second, key), ["one", "two"]);
    assert.is((await createFlow(second, key, "three")).status, 201);
    await second.stop();

    // An older backup in the place of the database: the file of the later commits is still there.
    const restored = join(directory, "restored");
    assert.is((await run(["restore", archive, "--data", restored])).code, 0);
    assert.not.ok(existsSync(join(restored, "assay.commits")));
    copyFileSync(join(data, "assay.commits"), join(restored, "assay.commits"));
    const third = await start(serve(restored));
    assert.equal(await flows(third, key), ["one"]);
    assert.is((await createFlow(third, key, "four")).status, 201);
    assert.match(third.output(), "of another database");
    await third.stop();
  }));

test.run();
