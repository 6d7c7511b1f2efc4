import { suite } from "uvu";
import * as assert from "uvu/assert";
import { AppError } from "../../../src/errors.ts";
import { openMemory } from "../../../src/store/db/database.ts";
import { flowStore } from "../../../src/store/flows/flows.ts";
import type { FlowRow } from "../../../src/store/flows/flows.ts";
import { openStore } from "../../../src/store/index.ts";
import { templateStore } from "../../../src/store/flows/templates.ts";
import type { Db } from "../../../src/store/db/types.ts";
import { createFlow } from "../given.ts";

const test = suite("store/flows/flows");

let image: Buffer | null = null;
/** An empty database with one organization; the clock stands still unless the test advances it. */
function opened() {
  image ??= openMemory().serialize();
  const db = openMemory(image);
  const clock = { at: 1_700_000_000.75 };
  let ids = 0;
  const store = openStore(db, { now: () => clock.at, newId: () => String(++ids) });
  const id = store.organizations.create({ name: "acme", kind: "shared", isPublic: false, controlsEnabled: true });
  const acme = { id, name: "acme" };
  const flow = (name: string): FlowRow => createFlow(store, id, name);
  return { db, store, clock, acme, flow };
}

const message = (work: () => unknown): string => {
  try {
    work();
  } catch (error) {
    if (error instanceof AppError && error.code === "not_found") return error.message;
    throw error;
  }
  return "nothing was thrown";
};

test("two flows of the same name archived in one second get different suffixes", () => {
  const { store, acme, flow } = opened();
  const names = [1, 2, 3].map(() => store.flows.archive(flow("a")));
  assert.equal(names, ["a-archived-at-1700000000", "a-archived-at-1700000001", "a-archived-at-1700000002"]);
  for (const name of names) {
    const found = store.flows.find(acme.id, name);
    assert.equal(
      { name: found?.name, archived_name: found?.archived_name, archived_at: found?.archived_at },
      { name, archived_name: "a", archived_at: 1_700_000_000.75 },
    );
  }
  assert.is(store.flows.find(acme.id, "a"), null);
});

test("archiving skips a suffixed name that an active flow has", () => {
  const { store, flow } = opened();
  flow("a-archived-at-1700000000");
  assert.is(store.flows.archive(flow("a")), "a-archived-at-1700000001");
});

test("archiving releases an alias of the suffixed name", () => {
  const { store, acme, flow } = opened();
  const other = flow("a-archived-at-1700000000");
  store.flows.rename(other, "b");
  store.flows.archive(flow("a"));
  assert.is(store.flows.find(acme.id, "a-archived-at-1700000000")?.archived_name, "a");
  assert.is(store.flows.find(acme.id, "b")?.id, other.id);
});

test("gives different errors for unknown, archived and read-only flows", () => {
  const { store, acme, flow } = opened();
  const suffixed = store.flows.archive(flow("a"));
  const { find, require, requireWritable } = store.flows;
  assert.is(
    message(() => require(acme, "x")),
    "Flow named 'x' does not exist for organization 'acme'",
  );
  assert.is(
    message(() => require(acme, "a")),
    "Flow named 'a' has been archived for organization 'acme'",
  );
  assert.is(
    message(() => requireWritable(acme, "x")),
    "Flow named 'x' does not exist for organization 'acme'",
  );
  assert.is(
    message(() => requireWritable(acme, suffixed)),
    `Flow named '${suffixed}' has been archived for organization 'acme'`,
  );
  assert.is(require(acme, suffixed).archived_name, "a");
  assert.is(find(acme.id, "x"), null);
});

test("a name is never a flow and an alias at once", () => {
  const { db, store, acme, flow } = opened();
  const a = flow("a");
  store.flows.rename(a, "b");
  store.flows.rename(store.flows.get(a.id), "c");
  const second = flow("a");
  store.flows.rename(second, "b");
  store.flows.rename(store.flows.get(second.id), "a");
  assert.is(store.flows.find(acme.id, "b")?.id, second.id);
  assert.is(store.flows.find(acme.id, "c")?.id, a.id);
  const both = db
    .prepare(
      "SELECT a.name FROM flow_aliases a JOIN flows f ON f.organization_id = a.organization_id AND f.name = a.name",
    )
    .all();
  assert.equal(both, []);
  const aliases = db.prepare("SELECT name, flow_id FROM flow_aliases").all();
  assert.equal(aliases, [{ name: "b", flow_id: second.id }]);
});

test("touch records time and state, and nothing else", () => {
  const { store, clock, flow } = opened();
  const before = flow("a");
  clock.at += 10;
  store.flows.touch(before.id, 5.5, "NON-COMPLIANT");
  assert.equal(store.flows.get(before.id), { ...before, latest_activity_at: 5.5, latest_state: "NON-COMPLIANT" });
});

test("stores a template text once for a flow, and each text as a row of its own", () => {
  const { store } = opened();
  const first = store.templates.intern("version: 1");
  assert.equal(store.templates.intern("version: 1", first.id), first);
  const second = store.templates.intern("version: 1\n", first.id);
  assert.is.not(second.id, first.id);
  assert.equal(store.templates.get(second.id), { id: second.id, public_id: second.public_id, content: "version: 1\n" });
  assert.throws(() => store.templates.get(99), /template 99 is gone/);
  assert.throws(() => store.templates.getParsed(99), /template 99 is gone/);
});

test("caches parsed templates, and does not mix them up after a rollback", () => {
  const { db, store } = opened();
  const text = (name: string) => `trail: {attestations: [{name: ${name}, type: junit}]}`;
  const names = (id: number) => store.templates.getParsed(id).trail.attestations.map(({ name }) => name);
  db.exec("BEGIN");
  const undone = store.templates.intern(text("undone"));
  assert.equal(names(undone.id), ["undone"]);
  db.exec("ROLLBACK");
  const kept = store.templates.intern(text("kept"));
  assert.is(kept.id, undone.id);
  assert.equal(names(kept.id), ["kept"]);
  assert.is(store.templates.getParsed(kept.id), store.templates.getParsed(kept.id));
  const copy = store.templates.intern(kept.content);
  assert.is.not(copy.id, kept.id);
  assert.is(store.templates.getParsed(copy.id), store.templates.getParsed(kept.id), "a text is parsed once");
  for (let n = 0; n < 300; n += 1) assert.equal(names(store.templates.intern(text(`n${n}`)).id), [`n${n}`]);
  assert.equal(names(kept.id), ["kept"]);
});

test("uses the stored form of a large template without parsing its text again", () => {
  const { store } = opened();
  const template = { version: 1 as const, trail: { attestations: [{ name: "scan", type: "snyk" }], artifacts: [] } };
  const text = `# ${"long ".repeat(2_000)}\n[this is not parsed`;
  const { id, public_id } = store.templates.intern(text, null, JSON.stringify(template));
  assert.equal(store.templates.getParsed(id), template);
  assert.equal(store.templates.get(id), { id, public_id, content: text });
  assert.is(store.templates.getPublicId(id), public_id);
  assert.throws(() => store.templates.getPublicId(99), /template 99 is gone/);
});

test("loads a template that exceeds the limits for new ones", () => {
  const { store } = opened();
  const entries = Array.from({ length: 3_000 }, (_, index) => ({
    name: `check-${index}${"x".repeat(index === 0 ? 300 : 0)}`,
    type: "junit",
  }));
  const lines = entries.map(({ name, type }) => `  - {name: ${name}, type: ${type}}\n`);
  const text = `trail:\n  attestations:\n${lines.join("")}`;
  assert.equal(store.templates.getParsed(store.templates.intern(text).id).trail.attestations, entries);
});

test("salvages what it can of a stored template that today's grammar refuses", () => {
  const { store } = opened();
  const { id } = store.templates.intern(
    "version: 1\ntrail:\n  attestations:\n  - {name: '', type: junit}\n" +
      "  artifacts:\n  - name: a b\n    attestations: [{name: old}]\n",
  );
  assert.equal(store.templates.getParsed(id), {
    version: 1,
    trail: {
      attestations: [{ name: "", type: "junit" }],
      artifacts: [{ name: "a b", attestations: [{ name: "old", type: "*" }] }],
    },
  });
});

/**
 * Plans of every statement of flows, tags and templates, by SQL. Virtual tables of json_each read a parameter, no table
 * of ours.
 */
function plans(): Map<string, string[]> {
  image ??= openMemory().serialize();
  const db = openMemory(image);
  const statements: string[] = [];
  const watched = new Proxy(db, {
    get(target, name) {
      if (name === "prepare")
        return (sql: string) => {
          statements.push(sql);
          return target.prepare(sql);
        };
      const value = Reflect.get(target, name) as unknown;
      return typeof value === "function" ? value.bind(target) : value;
    },
  }) as Db;
  const sources = { now: () => 0, newId: () => "" };
  flowStore(watched, sources, { onFlowChanged: () => undefined });
  templateStore(watched, sources);
  return new Map(
    statements.map((sql) => {
      const parameters = Object.fromEntries([...sql.matchAll(/@(\w+)/g)].map(([, name]) => [name, null]));
      const positional = [...sql.matchAll(/\?/g)].map(() => null);
      const explained = db.prepare(`EXPLAIN QUERY PLAN ${sql}`);
      const rows = (positional.length ? explained.all(...positional) : explained.all(parameters)) as {
        detail: string;
      }[];
      return [sql, rows.map(({ detail }) => detail)];
    }),
  );
}

test("no statement scans a table or sorts", () => {
  const all = plans();
  assert.ok(all.size >= 20);
  for (const [sql, details] of all)
    for (const detail of details)
      assert.not(/^SCAN (?!.*VIRTUAL TABLE)|TEMP B-TREE/.test(detail), `${detail} in ${sql}`);
  const listed = [...all].filter(([sql]) => sql.includes("@limit")).map(([, details]) => details[0]);
  assert.equal(listed, [
    "SEARCH f USING INDEX sqlite_autoindex_flows_2 (organization_id=?)",
    "SEARCH f USING INDEX sqlite_autoindex_flows_2 (organization_id=?)",
    "SEARCH f USING INDEX flows_by_activity (organization_id=?)",
    "SEARCH f USING INDEX flows_by_activity (organization_id=?)",
    "SEARCH f USING INDEX sqlite_autoindex_flows_2 (organization_id=? AND name>? AND name<?)",
  ]);
});

test.run();
