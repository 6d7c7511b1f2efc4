// A process beside the server that holds the write lock of the database: everything but changes is answered meanwhile,
// and changes wait for it or are refused, without a trace.

import Database from "better-sqlite3";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { loadAddon } from "../../src/store/db/native-addon.ts";
import { until } from "../patience.ts";
import { createClient, expectStatus } from "./client.ts";
import type { Client } from "./client.ts";
import { inDirectory, run, start } from "./executable.ts";
import type { Running } from "./executable.ts";

const test = suite("binary/write-lock");

/** A server with a flow, and a connection of this process to its database. */
const serving = (
  body: (parts: { server: Running; client: Client; other: Database.Database; data: string }) => Promise<void>,
): Promise<void> =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    const init = await run(["init", "--org", "acme", "--user", "ops", "--data", data]);
    assert.is(init.code, 0, init.stderr);
    const server = await start(["serve", "--data", data, "--listen", "127.0.0.1:0", "--metrics-key", "m".repeat(32)]);
    const other = new Database(join(data, "assay.db"), { nativeBinding: loadAddon() as unknown as string });
    try {
      const client = createClient(server.url, init.stdout.trim());
      await expectStatus(
        client.form("PUT", "/flows/acme/template_file", "data_json", { name: "backend", description: "" }),
        201,
      );
      await body({ server, client, other, data });
      if (other.inTransaction) other.exec("ROLLBACK");
      assert.equal(await server.stop(), { code: 0, signal: null }, server.output());
    } finally {
      other.close();
      await server.stop("SIGKILL");
    }
  });

const beginTrail = (client: Client, name: string) => client.form("PUT", "/trails/acme/backend", "data_json", { name });

const metric = async ({ url }: Running, name: string): Promise<number> => {
  const text = await (await fetch(`${url}/metrics`, { headers: { Authorization: `Bearer ${"m".repeat(32)}` } })).text();
  return Number(new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1]);
};

test("answers probes and reads while another process holds the lock, and stores what waited once it is free", () =>
  serving(async ({ server, client, other }) => {
    other.exec("BEGIN IMMEDIATE");
    const settled: string[] = [];
    const writes = ["one", "two", "three"].map(async (name) => {
      const answer = await beginTrail(client, name);
      settled.push(name);
      return answer.status;
    });
    // The gauge is above zero once the server has found the lock held.
    await until("the lock was found", async () => (await metric(server, "assay_write_lock_held_seconds")) > 0);
    assert.is((await fetch(`${server.url}/healthz`)).status, 200);
    const ready = await fetch(`${server.url}/readyz`);
    assert.is(((await ready.json()) as { state: string }).state, "ready");
    await expectStatus(client.json("GET", "/flows/acme/backend"), 200);
    assert.equal(settled, [], "a change was answered while the lock was held");
    other.exec("COMMIT");
    assert.equal(await Promise.all(writes), [201, 201, 201]);
    const trails = await expectStatus(client.json("GET", "/trails/acme/backend"), 200);
    assert.equal(trails.map(({ name }: { name: string }) => name).sort(), ["one", "three", "two"]);
    assert.is(await metric(server, "assay_write_lock_held_seconds"), 0);
  }));

test("refuses changes after five seconds, says what holds the lock, and leaves nothing behind", () =>
  serving(async ({ server, client, other }) => {
    other.exec("BEGIN IMMEDIATE");
    const refused = await beginTrail(client, "refused");
    assert.is(refused.status, 503);
    assert.is(refused.headers.get("Retry-After"), "5");
    assert.match(
      refused.body.message,
      new RegExp(
        `^Another process \\(.*, process ${process.pid}\\) has held the write lock of the database ` +
          "for \\d+ seconds\\. Nothing was changed\\. Please try again; if it keeps failing, the operator can " +
          "end that process \\(assay help database-files\\)$",
      ),
    );
    const ready = await fetch(`${server.url}/readyz`);
    assert.is(ready.status, 200);
    const report = (await ready.json()) as { state: string; reason: string };
    assert.is(report.state, "read-only");
    assert.match(report.reason, `process ${process.pid}) has held the write lock of the database for`);
    assert.match(await server.wrote(/another process holds the write lock/), `"pid":${process.pid}`);
    other.exec("COMMIT");
    await expectStatus(beginTrail(client, "later"), 201);
    await server.wrote(/the write lock of the database is free again/);
    assert.equal(await expectStatus(client.json("GET", "/trails/acme/backend"), 200).then(namesOf), ["later"]);
    const audited = other.prepare("SELECT target FROM audit_log WHERE event LIKE 'trail%'").pluck().all();
    assert.equal(audited, ["/api/v2/trails/acme/backend"]);
    assert.match(await (await fetch(`${server.url}/readyz`)).text(), '"state":"ready"');
  }));

test("stops while another process holds the lock, and says what it could not save", () =>
  serving(async ({ server, client, other }) => {
    other.exec("BEGIN IMMEDIATE");
    await expectStatus(client.json("GET", "/flows/acme/backend"), 200);
    assert.equal(await server.stop(), { code: 0, signal: null }, server.output());
    assert.match(server.output(), "the last uses of keys and sessions in the latest minute could not be saved");
  }));

const namesOf = (trails: { name: string }[]): string[] => trails.map(({ name }) => name);

test.run();
