/**
 * No read scans a table. Every GET operation is requested with each of its query parameters and with generated
 * combinations of them; SQLite then explains the plan of each statement that ran. (What a plan does not show, the
 * length of an index range, is measured by make bench on a large database.)
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import fc from "fast-check";
import { isReading } from "../../src/http/operation.ts";
import { operations } from "../../src/api/index.ts";
import { startServer } from "../given.ts";
import { plan } from "../store/given.ts";
import type { TestServer } from "../given.ts";
import { createClient, valid, write } from "./requests.ts";
import { createWatcher } from "./watch.ts";
import { createWorld } from "./world.ts";
import type { World } from "./world.ts";

/** Requests for each operation: enough that every parameter occurs alone and with others. */
const RUNS = 25;

/** Tables that may be scanned, each with the reason. */
const SMALL: Readonly<Record<string, string>> = {};

/** Reads that query no table of ours; every other read must run a statement. */
const READS_NOTHING: Readonly<Record<string, string>> = {
  get_version: "facts of the program",
  get_openapi: "the document is made once, from the operations",
  environment_policy_schema_v1: "a text that never changes",
  flow_template_schema_v1: "a text that never changes",
};

/** Reads by a thread on a connection of its own; test/store/environments/audit-packages.test.ts checks their plans. */
const READ_ELSEWHERE: readonly string[] = [
  "get_audit_package",
  "download_trail_audit_package",
  "download_trail_audit_pdf",
  "download_audit_binder",
];

const test = suite("whole/plans");
const watcher = createWatcher();
let world: World;
let server: TestServer;
let tables: ReadonlySet<string>;
test.before(async () => {
  world = await createWorld();
  server = await startServer({ from: world.image, wrapDatabase: watcher.watch });
  tables = new Set(server.db.prepare<[], string>("SELECT name FROM sqlite_schema WHERE type = 'table'").pluck().all());
});
test.after(async () => {
  await server.stop();
  await world.stop();
});

/** Aliases of our tables in a statement. */
function aliases(sql: string): Map<string, string> {
  const found = new Map([...tables].map((table) => [table, table]));
  for (const [, table, alias] of sql.matchAll(/\b(?:FROM|JOIN|,)\s+(\w+)\s+(?:AS\s+)?(\w+)/gi))
    if (table && alias && tables.has(table)) found.set(alias, table);
  return found;
}

/** The tables of ours that a statement scans. */
function scanned(sql: string): string[] {
  const known = aliases(sql);
  return plan(server.db, sql).flatMap((step) => {
    const name = /^SCAN (\w+)/.exec(step)?.[1];
    const table = name === undefined || /VIRTUAL TABLE/.test(step) ? undefined : known.get(name);
    return table === undefined ? [] : [table];
  });
}

test("detects a scan", () => {
  assert.equal(scanned("SELECT name FROM trails t WHERE t.description = ?"), ["trails"]);
  assert.equal(scanned("SELECT count(*) FROM flows"), ["flows"]);
  assert.equal(scanned("SELECT value FROM json_each(?)"), []);
});

for (const operation of operations.filter((one) => isReading(one) && one.status !== "removed"))
  test(operation.id, async () => {
    const client = createClient(server.url);
    const drafts = fc.sample(valid(operation, world), { seed: 1, numRuns: RUNS });
    const statuses: number[] = [];
    const ran = await watcher.during(async () => {
      for (const draft of drafts) {
        // A write in between, so that no response comes from a cache.
        server.db.exec("UPDATE organizations SET last_modified_at = last_modified_at + 1");
        const { status } = await client.send(write({ ...draft, role: "admin" }, world));
        statuses.push(status);
      }
    });
    client.close();
    const reads = ran.filter((sql) => /^\s*(SELECT|WITH)/i.test(sql));
    assert.ok(
      statuses.includes(200) || READ_ELSEWHERE.includes(operation.id),
      `${operation.id} was never answered with 200`,
    );
    // Every operation with a key looks up the principal.
    assert.is(reads.length === 0, operation.id in READS_NOTHING, `${operation.id} ran ${reads.length} statements`);
    const offences = reads.flatMap((sql) =>
      scanned(sql)
        .filter((table) => !(table in SMALL))
        .map((table) => `${table} in ${sql.replace(/\s+/g, " ")}`),
    );
    assert.equal(offences, []);
  });

test.run();
