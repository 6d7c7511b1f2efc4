import Database from "better-sqlite3";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { loadAddon } from "../../../src/store/db/native-addon.ts";
import { applyMigrations, migrations } from "../../../src/store/db/database.ts";
import { opened, plan } from "../given.ts";
import type { Db } from "../../../src/store/db/types.ts";

const test = suite("store/accounts/membership-audit-log");

test("an index serves every order, without sorting or scanning", () => {
  const { db, sql } = opened();
  const lists = sql.filter((text) => text.includes("FROM membership_events"));
  assert.is(lists.length, 11);
  for (const text of lists) {
    const steps = plan(db, text).filter((step) => !/json_each|^LIST SUBQUERY|^CREATE BLOOM FILTER/.test(step));
    assert.equal(
      steps.filter((step) => !/^SEARCH membership_events USING INDEX/.test(step)),
      [],
      text,
    );
  }
});

test("the migration keeps older events and adds the names", () => {
  const db: Db = new Database(":memory:", { nativeBinding: loadAddon() as unknown as string });
  const steps = migrations();
  applyMigrations(
    db,
    steps.filter(({ version }) => version < 3),
  );
  db.exec(`
    INSERT INTO organizations (id, public_id, name, kind, created_at, last_modified_at) VALUES (1, 'o', 'acme',
    'shared', 1, 1);
    INSERT INTO users (public_id, name, display_name, created_at, last_modified_at) VALUES ('u', 'ann',
    'Ann B.', 1, 1), ('v', 'bob', '', 1, 1);
    INSERT INTO membership_events (organization_id, timestamp, event_type, user_name, role, previous_role,
    changed_by, source)
    VALUES (1, 5, 'added', 'ann', 'admin', NULL, 'operator', 'script'), (1, 6, 'changed', 'bob', 'member',
    'reader', 'operator', 'script');
  `);
  applyMigrations(
    db,
    steps.filter(({ version }) => version >= 3),
  );
  assert.equal(
    db
      .prepare(
        `SELECT id, timestamp, event_type, user_name, user_shown, role, previous_role, changed_by, source,
            search_text FROM membership_events`,
      )
      .raw()
      .all(),
    [
      [1, 5, "added", "ann", "Ann B.", "admin", null, "operator", "script", "ann\nann b.\noperator"],
      [2, 6, "changed", "bob", "bob", "member", "reader", "operator", "script", "bob\n\noperator"],
    ],
  );
});

test.run();
