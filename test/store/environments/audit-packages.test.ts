/** The queries of audit packages: none scans a table, and only the ids of one subject are sorted. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { openMemory } from "../../../src/store/db/database.ts";
import { auditPackageStore } from "../../../src/store/environments/audit-packages.ts";
import { plan, scans } from "../given.ts";
import type { Db } from "../../../src/store/db/types.ts";

const test = suite("store/environments/audit-packages");

test("an index serves every query, and only ids and the files of one subject are sorted", () => {
  const db = openMemory();
  const sql: string[] = [];
  const recorder = new Proxy(db, {
    get: (target, name) =>
      name === "prepare"
        ? (text: string) => {
            sql.push(text);
            return target.prepare(text);
          }
        : (Reflect.get(target, name) as unknown),
  }) as Db;
  auditPackageStore(recorder);
  assert.ok(sql.length > 12);
  for (const text of sql) {
    assert.equal(scans(db, text), [], text);
    const keysOnly = /^SELECT (att\.)?id FROM/.test(text) || text.includes("GROUP BY att.evidence_digest");
    if (!keysOnly)
      assert.equal(
        plan(db, text).filter((step) => step.includes("TEMP B-TREE")),
        [],
        text,
      );
  }
  db.close();
});

test.run();
