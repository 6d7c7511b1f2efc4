/** A search through series finds the same records as a full scan, for any filter and any distribution of matches. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import fc from "fast-check";
import { attestationSearchStore } from "../../../src/store/attestations/attestation-search.ts";
import type { AttestationFilter } from "../../../src/store/attestations/attestation-search.ts";
import { applyMigrations, migrations } from "../../../src/store/db/database.ts";
import { opened } from "../given.ts";

const test = suite("store/attestations/attestation-search");

const NAMES = ["review", "scan", "tests"];
const TYPES = ["generic", "junit", "override"];

/** About sixty records in two flows; the clock is set back now and then. */
function filled() {
  const all = opened();
  const flows = ["f0", "f1"].map((name) => all.flow(name).id);
  const trails = flows.map((flow) => all.trail(flow, "t").id);
  for (let n = 0; n < 60; n += 1) {
    const type = n < 6 ? "junit" : n % 7 === 0 ? "override" : "generic";
    all.attestation(flows[n % 2] as number, trails[n % 2] as number, NAMES[(n * n) % 3] as string, {
      type,
      overridden_type: type === "override" ? "junit" : null,
      is_compliant: n % 11 === 0 ? 0 : 1,
      created_at: 1_000 + n - (n % 13 === 0 ? 9 : 0),
    });
  }
  return { ...all, flows };
}

const one = <T>(values: readonly T[]) => fc.option(fc.subarray([...values], { minLength: 1 }), { freq: 2 });

test("finds the same records as a full scan, page by page", () => {
  const { db, flows, organizationId } = filled();
  type Row = {
    id: number;
    name: string;
    flow_id: number;
    type: string;
    overridden_type: string | null;
    is_compliant: number;
    created_at: number;
  };
  const rows = db
    .prepare<[], Row>(
      `SELECT id, name, flow_id, type, overridden_type, is_compliant, created_at FROM attestations
          ORDER BY created_at DESC, id DESC`,
    )
    .all();
  const filters = fc.record({
    names: one(NAMES),
    flowIds: one(flows),
    types: one(TYPES),
    isCompliant: fc.option(fc.boolean(), { freq: 2 }),
    from: fc.option(fc.integer({ min: 990, max: 1_070 }), { freq: 2 }),
    to: fc.option(fc.integer({ min: 990, max: 1_070 }), { freq: 2 }),
  });
  for (const newest of [1, 5, 40, 2_000]) {
    const search = attestationSearchStore(db, newest);
    fc.assert(
      fc.property(filters, fc.integer({ min: 1, max: 9 }), (some, limit) => {
        const filter: AttestationFilter = { organizationId, publicId: null, commit: null, before: null, ...some };
        const expected = rows.filter(
          (row) =>
            (filter.names?.includes(row.name) ?? true) &&
            (filter.flowIds?.includes(row.flow_id) ?? true) &&
            (filter.types === null ||
              filter.types.includes(row.type) ||
              filter.types.includes(row.overridden_type ?? "-")) &&
            (filter.isCompliant === null || filter.isCompliant === (row.is_compliant === 1)) &&
            (filter.from === null || row.created_at >= filter.from) &&
            (filter.to === null || row.created_at <= filter.to),
        );
        const found: number[] = [];
        for (let before: number | null = null; ; before = found.at(-1) as number) {
          const page = search.search({ ...filter, before }, limit);
          found.push(...page.map(({ id }) => id));
          if (page.length < limit) break;
        }
        assert.equal(
          found,
          expected.map(({ id }) => id),
        );
      }),
      { seed: 1, numRuns: 150 },
    );
  }
});

test("knows what was reported by name and type, an override as the type that it overrides too", () => {
  const { store, organizationId, flows, trail, attestation } = { ...filled() };
  const { isReported } = store.attestationSearch;
  const later = trail(flows[0] as number, "later").id;
  attestation(flows[0] as number, later, "fresh", { type: "override", overridden_type: "snyk" });
  const asked = (name: string, type: string): boolean => isReported(organizationId, { name, type });
  assert.equal(
    ["snyk", "override", "*", "junit"].map((type) => asked("fresh", type)),
    [true, true, true, false],
  );
  assert.equal([asked("review", "*"), asked("revie", "*"), asked("review", "custom:x")], [true, false, false]);
  assert.is(isReported(organizationId + 1, { name: "review", type: "*" }), false);
});

test("no query plan scans a table", () => {
  const { db, sql, store, flows, organizationId } = filled();
  const before = sql.length;
  const filter = {
    organizationId,
    publicId: null,
    commit: null,
    before: 30,
    names: NAMES,
    flowIds: flows,
    types: ["junit"],
    isCompliant: false,
    from: 0,
    to: 2_000,
  };
  store.attestationSearch.search(filter, 3);
  attestationSearchStore(db, 1).search(filter, 3);
  for (const text of sql.slice(before)) {
    const steps = db
      .prepare<unknown[], { detail: string }>(`EXPLAIN QUERY PLAN ${text}`)
      .all(...(text.match(/\?/g) ?? []).map(() => 1));
    assert.equal(
      steps
        .filter(({ detail }) => /^SCAN (?!json_each|CONSTANT)/.test(detail) && !detail.includes("VIRTUAL TABLE"))
        .map(({ detail }) => detail),
      [],
      text,
    );
  }
});

test("the migration derives the same series as the writes do", () => {
  const { db } = filled();
  const readAll = (sql: string): unknown[] => db.prepare(sql).raw().all();
  const SERIES =
    "SELECT flow_id, name, type, overridden_type, is_compliant FROM attestation_series ORDER BY 1, 2, 3, 4, 5";
  const RECORDS = `SELECT r.attestation_id, r.created_at, s.flow_id, s.name, s.type, s.overridden_type, s.is_compliant
        FROM attestation_series_records r JOIN attestation_series s ON s.id = r.series_id ORDER BY 1`;
  const [series, records] = [readAll(SERIES), readAll(RECORDS)];
  assert.is(records.length, 60);
  const last = migrations().find(({ sql }) => sql.includes("INSERT INTO attestation_series_records"));
  const derived = (last as { sql: string }).sql.match(/INSERT INTO attestation_series[\s\S]*?;/g) ?? [];
  assert.is(derived.length, 2);
  db.exec("DELETE FROM attestation_series_records; DELETE FROM attestation_series");
  applyMigrations(db, [
    { version: db.pragma("user_version", { simple: true }) as number, name: "again", sql: derived.join("\n") },
  ]);
  assert.equal({ SERIES: readAll(SERIES), RECORDS: readAll(RECORDS) }, { SERIES: series, RECORDS: records });
});

test.run();
