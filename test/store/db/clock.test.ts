import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { AuditEntry } from "../../../src/store/db/audit-log.ts";
import { openStore } from "../../../src/store/index.ts";
import { opened } from "../given.ts";

const test = suite("store/db/clock");

const DAY = 86_400;
const HOUR = 3_600;
const T = 1_700_000_000;
const YEARS = 730 * DAY;

const ENTRY: AuditEntry = {
  organizationId: null,
  actor: { kind: "operator", publicId: "", name: "test", keyPublicId: "" },
  operation: "test",
  event: "test",
  target: "",
  requestId: "",
  detail: null,
};

function world() {
  const { db } = opened();
  const clock = { at: T };
  const store = openStore(db, { now: () => clock.at, newId: () => "unused" });
  /** Records a change at that time. */
  const change = (at: number): void => {
    clock.at = at;
    store.auditLog.append(ENTRY);
  };
  return { db, store, clock, change };
}

test("changes move the last known good time, written at most once an hour", () => {
  const { db, store, change } = world();
  assert.is(store.clock.read(), null);
  change(T);
  assert.equal(store.clock.read(), { goodAt: T, jumpFrom: null, jumpTo: null, isOpen: false });
  const writes = (): unknown => db.prepare("SELECT total_changes() AS n").pluck().get();
  const before = Number(writes());
  change(T + HOUR);
  assert.is(Number(writes()) - before, 1, "the entry alone");
  change(T + HOUR + 1);
  assert.is(store.clock.read()?.goodAt, T + HOUR + 1);
  change(T + 20 * HOUR);
  change(T + 40 * HOUR);
  assert.equal(
    store.clock.read(),
    { goodAt: T + 40 * HOUR, jumpFrom: null, jumpTo: null, isOpen: false },
    "each within a day",
  );
});

test("a change more than a day after the newest record and the good time opens a jump; later ones leave it", () => {
  const { store, change } = world();
  change(T);
  change(T + 2 * HOUR);
  change(T + 2 * HOUR + YEARS);
  const jump = { goodAt: T + 2 * HOUR, jumpFrom: T + 2 * HOUR, jumpTo: T + 2 * HOUR + YEARS, isOpen: true };
  assert.equal(store.clock.read(), jump);
  change(T + YEARS + 9 * DAY);
  assert.equal(store.clock.read(), jump, "the first change of the jump counts");
  change(T + 3 * HOUR);
  assert.equal(store.clock.read(), { ...jump, goodAt: T + 3 * HOUR, isOpen: false }, "the clock is right again");
});

test("a good time stored without a change counts too", () => {
  const { store, change } = world();
  change(T);
  store.clock.confirm(T + 5 * DAY);
  change(T + 5 * DAY + HOUR);
  assert.is(store.clock.read()?.isOpen, false);
  change(T + 7 * DAY);
  assert.is(store.clock.read()?.isOpen, true);
});

test("judges a database without a clock row by its newest record", () => {
  const { db, store, change } = world();
  change(T);
  db.exec("DELETE FROM clock");
  const fresh = openStore(db, { now: () => T + YEARS, newId: () => "unused" });
  fresh.auditLog.append(ENTRY);
  assert.equal(store.clock.read(), { goodAt: T, jumpFrom: T, jumpTo: T + YEARS, isOpen: true });
});

test("a snapshot after a jump has the time of the clock, also when only the newest record is known", () => {
  const { db, store, change } = world();
  change(T);
  change(T + YEARS);
  assert.is(store.clock.timeOfSnapshot(T + 60, T + YEARS), T + 60);
  change(T + 60);
  db.exec("DELETE FROM clock");
  assert.is(store.clock.timeOfSnapshot(T + 90, T + YEARS), T + 90);
  assert.is(store.clock.timeOfSnapshot(T - 9 * DAY, T), T, "a clock behind the newest record");
});

test("makes due what was postponed to the time of the jump, and nothing else", () => {
  const { db, store, clock, change } = world();
  change(T);
  clock.at = T + YEARS;
  const early = store.jobs.add("reevaluate", {}, T + DAY);
  change(T + YEARS);
  const late = store.jobs.add("reevaluate", {});
  db.exec(`INSERT INTO organizations (id, public_id, name, kind, created_at, last_modified_at) VALUES (9, 'o9',
      'org9', 'shared', 0, 0);
    INSERT INTO deliveries (public_id, organization_id, queue, has_target, subject, type, target_json,
    message_json, state, created_at, waiting_since, due_at)
    VALUES ('d1', 9, 'q', 0, '', 'SLACK', '{}', '{}', 'waiting', 0, 0, ${T + YEARS}), ('d2', 9, 'q', 0, '',
    'SLACK', '{}', '{}', 'waiting', 0, 0, ${T})`);
  change(T + 60);
  assert.equal(
    [early, late].map((id) => store.jobs.find(id)?.due_at),
    [T + DAY, T + 60],
  );
  assert.equal(db.prepare("SELECT due_at FROM deliveries ORDER BY id").pluck().all(), [T + 60, T]);
});

test.run();
