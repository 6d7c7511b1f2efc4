/** The queries behind audit packages: none reads a whole table, and what is sorted are keys of one subject. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { openMemory } from "../../../src/store/db/database.ts";
import { auditPackageStore } from "../../../src/store/flows/audit-packages.ts";
import { plan } from "../given.ts";
import type { Db } from "../../../src/store/db/types.ts";

const test = suite("store/flows/audit-packages");

test("every query is served by an index, and only keys, and the files of one subject, are sorted", () => {
  const db = openMemory();
  const sql: string[] = [];
  const recorder = new Proxy(db, {
    get: (target, name) =>
      name === "prepare"
        ? (text: string) => (sql.push(text), target.prepare(text))
        : (Reflect.get(target, name) as unknown),
  }) as Db;
  auditPackageStore(recorder);
  assert.ok(sql.length > 12);
  for (const text of sql) {
    const steps = plan(db, text);
    assert.equal(
      steps.filter((step) => step.includes("SCAN")),
      [],
      text,
    );
    const keysOnly = /^SELECT (att\.)?id FROM/.test(text) || text.includes("GROUP BY att.evidence_digest");
    if (!keysOnly)
      assert.equal(
        steps.filter((step) => step.includes("TEMP B-TREE")),
        [],
        text,
      );
  }
  db.close();
});

test.run();
