/** The data of make bench at a small size: deterministic, complete, and consistent with the rules. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { openMemory } from "../../src/store/db/database.ts";
import { openStore } from "../../src/store/index.ts";
import { fill } from "../bench/data.ts";
import type { Db } from "../../src/store/db/types.ts";

const test = suite("whole/bench-data");
const ARTIFACTS = 60;

async function filled(): Promise<Db> {
  const db = openMemory();
  await fill(db, { artifacts: ARTIFACTS });
  return db;
}

/** Every row of every table. */
function contents(db: Db): Record<string, unknown[]> {
  const tables = db
    .prepare<[], string>(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
    )
    .pluck()
    .all();
  return Object.fromEntries(
    tables.map((table) => {
      const columns = db.prepare<[string], string>("SELECT name FROM pragma_table_info(?)").pluck().all(table);
      return [
        table,
        db
          .prepare(`SELECT ${columns.join(", ")} FROM ${table}`)
          .raw()
          .all(),
      ];
    }),
  );
}

test("the same size gives the same rows", async () => {
  const [one, other] = await Promise.all([filled(), filled()]);
  assert.equal(contents(one), contents(other));
});

test("the data is complete, and every stored verdict follows from its facts", async () => {
  const db = await filled();
  const count = (table: string): unknown => db.prepare(`SELECT count(*) FROM ${table}`).pluck().get();
  assert.equal(
    {
      "count artifacts": count("artifacts"),
      "count attestations": count("attestations"),
      "count trails": count("trails"),
      "count attestation_series_records": count("attestation_series_records"),
    },
    {
      "count artifacts": ARTIFACTS,
      "count attestations": 5 * ARTIFACTS,
      "count trails": ARTIFACTS / 2,
      "count attestation_series_records": 5 * ARTIFACTS,
    },
  );
  for (const table of ["repos", "deployments", "snapshots", "evaluations", "flow_tags", "audit_log"])
    assert.ok((count(table) as number) > 0, table);
  assert.equal(db.pragma("foreign_key_check"), []);
  assert.equal(db.pragma("integrity_check", { simple: true }), "ok");
  const store = openStore(db, { now: () => 0, newId: () => "-" });
  type Trail = { id: number; state: string; compliance_json: string; last_modified_at: number };
  for (const trail of db.prepare<[], Trail>("SELECT id, state, compliance_json, last_modified_at FROM trails").all()) {
    const { result } = store.trailEvaluation.computeVerdicts(trail.id, trail.last_modified_at);
    assert.equal(
      { status: result.compliance_status.status, compliance_status: JSON.stringify(result.compliance_status) },
      { status: trail.state, compliance_status: trail.compliance_json },
    );
  }
});

test.run();
