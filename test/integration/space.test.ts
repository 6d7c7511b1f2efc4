// The executable on mostly expired data: retention beside a server that keeps writing, and the space that it frees.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { openDatabase } from "../../src/store/db/database.ts";
import { openStore } from "../../src/store/index.ts";
import { inDirectory, run, start } from "../binary/executable.ts";
import type { Result } from "../binary/executable.ts";
import { TRAIL_FIELDS, createFlow } from "../store/given.ts";

const test = suite("integration/space");

const EXECUTABLE = join(import.meta.dirname, "../../dist/assay");
const TRAILS = 800;

/**
 * Fills a data directory with the organization acme, whose flow `build` has `TRAILS` trails that ended long ago.
 * Returns the key of its admin.
 */
async function createExpiredTrails(data: string): Promise<string> {
  const { stdout } = await run(["init", "--data", data, "--org", "acme", "--user", "ops"]);
  const db = openDatabase(data, 1);
  let ids = 0;
  const store = openStore(db, { now: () => 1_600_000_000, newId: () => `old-${(ids += 1)}` });
  const organizationId = store.organizations.find("acme")?.id as number;
  const flow = createFlow(store, organizationId, "build");
  db.transaction(() => {
    for (let n = 0; n < TRAILS; n += 1) {
      const trail = store.trails.create(
        { organizationId, flowId: flow.id, name: `old-${n}`, createdBy: "ci" },
        {
          ...TRAIL_FIELDS,
          description: "x".repeat(3000),
          template_id: flow.template_id,
        },
      );
      for (let event = 0; event < 5; event += 1)
        store.trails.addEvent(trail.id, { type: "note", at: 1_600_000_000, event: { text: "x".repeat(2000) } });
      store.trailEvaluation.evaluate(trail.id, 1_600_000_000);
    }
  })();
  db.close();
  return stdout.trim();
}

const parseOutput = ({ code, stdout, stderr }: Result): any => {
  assert.is(code, 0, stderr);
  return JSON.parse(stdout);
};

function queryCount(data: string, sql: string): number {
  const db = openDatabase(data, 1);
  try {
    assert.equal(db.pragma("foreign_key_check"), []);
    return db.prepare<[], number>(sql).pluck().get() as number;
  } finally {
    db.close();
  }
}

test("retention resumes after a kill while the server keeps writing, and vacuum then shrinks the database", () =>
  inDirectory(async (data) => {
    const key = await createExpiredTrails(data);
    const options = ["--data", data, "--json"];
    const server = await start(["serve", "--data", data, "--listen", "127.0.0.1:0"]);
    const report = async (name: string): Promise<number> => {
      const form = new FormData();
      form.set("data_json", JSON.stringify({ name }));
      const response = await fetch(`${server.url}/api/v2/trails/acme/build`, {
        method: "PUT",
        headers: { Authorization: `Bearer ${key}` },
        body: form,
      });
      await response.arrayBuffer();
      return response.status;
    };
    assert.equal(
      parseOutput(await run(["retention", "set", "--org", "acme", "--trails-after", "365", ...options]))
        .trails_after_days,
      365,
    );
    const { plan, flows } = parseOutput(await run(["retention", "plan", ...options]));
    assert.is(flows[0].trails, TRAILS);

    // Kills the run as soon as it has deleted something. Reports keep arriving.
    const killed = spawn(EXECUTABLE, ["retention", "run", "--plan", plan, ...options], { stdio: "ignore", env: {} });
    const ended = once(killed, "close");
    let reported = 0;
    do {
      assert.is(await report(`new-${(reported += 1)}`), 201);
    } while (queryCount(data, "SELECT count(*) FROM tombstones") === 0);
    killed.kill("SIGKILL");
    await ended;
    const gone = queryCount(data, "SELECT count(*) FROM tombstones");
    assert.ok(gone > 0 && gone < TRAILS, `${gone}`);
    assert.is(
      queryCount(data, "SELECT count(*) FROM trails WHERE name LIKE 'old-%'"),
      TRAILS - gone,
      "each trail is either complete, or deleted with a tombstone",
    );
    assert.is(queryCount(data, "SELECT count(*) FROM audit_log WHERE event = 'trail.deleted'"), gone);

    let running = true;
    const second = run(["retention", "run", "--plan", plan, ...options]).finally(() => (running = false));
    while (running) assert.is(await report(`new-${(reported += 1)}`), 201);
    assert.equal(parseOutput(await second), { plan, trails: TRAILS - gone, stripped: 0, kept: 0, finished: true });
    assert.is(queryCount(data, "SELECT count(*) FROM trails"), reported);
    assert.is(queryCount(data, "SELECT trail_count FROM flows WHERE name = 'build'"), reported);
    assert.is(
      parseOutput(await run(["retention", "deleted", "--org", "acme", "--limit", "700", ...options])).deleted.length,
      700,
    );

    const refused = await run(["vacuum", "--data", data]);
    assert.equal({ code: refused.code, stdout: refused.stdout }, { code: 4, stdout: "" });
    await server.stop();
    const before = statSync(join(data, "assay.db")).size;
    const sizes = parseOutput(await run(["vacuum", ...options]));
    assert.equal(sizes, { bytes_before: before, bytes_after: statSync(join(data, "assay.db")).size });
    assert.ok(sizes.bytes_after < before, JSON.stringify(sizes));
    assert.is(queryCount(data, "SELECT count(*) FROM trails"), reported);
    const again = await start(["serve", "--data", data, "--listen", "127.0.0.1:0"]);
    assert.equal(await again.stop(), { code: 0, signal: null });
  }));

test("with --checkpoints external the server leaves the write-ahead log alone, also when it stops", () =>
  inDirectory(async (data) => {
    const key = await createExpiredTrails(data);
    // The process that runs checkpoints has the database open before the server starts and after it stops.
    const checkpointer = openDatabase(data, 1);
    checkpointer.pragma("wal_autocheckpoint = 0");
    checkpointer.pragma("wal_checkpoint(TRUNCATE)");
    const server = await start(["serve", "--data", data, "--listen", "127.0.0.1:0", "--checkpoints", "external"]);
    for (let n = 0; n < 100; n += 1) {
      const form = new FormData();
      form.set("data_json", JSON.stringify({ name: `new-${n}` }));
      assert.is(
        (
          await fetch(`${server.url}/api/v2/trails/acme/build`, {
            method: "PUT",
            headers: { Authorization: `Bearer ${key}` },
            body: form,
          })
        ).status,
        201,
      );
    }
    assert.equal(await server.stop(), { code: 0, signal: null }, server.output());
    assert.ok(existsSync(join(data, "assay.db-wal")), readdirSync(data).join());
    const [{ log, checkpointed }] = checkpointer.pragma("wal_checkpoint(NOOP)") as [
      { log: number; checkpointed: number },
    ];
    assert.ok(log > 100 && checkpointed === 0, `${log} ${checkpointed}`);
    checkpointer.close();
    assert.is(queryCount(data, "SELECT count(*) FROM trails WHERE name LIKE 'new-%'"), 100);
  }));

test("help prints the topics retention and space", async () => {
  for (const topic of ["retention", "space"])
    assert.match((await run(["help", topic])).stdout, /# (Retention|Space): /);
});

test.run();
