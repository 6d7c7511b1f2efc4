import fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { problemsOf } from "../../src/store/explanations.ts";
import { factStore } from "../../src/store/facts.ts";
import { recordsDigest, RetentionChangedError } from "../../src/store/retention.ts";
import { opened } from "./given.ts";
import { arbitraryWorld, built, carriedOut, DAY, planOf, retentionOf } from "./retention-given.ts";

const test = suite("store/retention");

type World = ReturnType<typeof built>;
const all = (db: World["db"], sql: string, ...values: unknown[]): unknown[] => db.prepare(sql).all(...values);

/** Everything that every snapshot says, judged again; when an interval ends is no part of it. */
function pictures({ store, db }: Pick<World, "store" | "db">): string[] {
  const snapshots = db.prepare<[], { environment_id: number; idx: number }>("SELECT environment_id, idx FROM snapshots ORDER BY environment_id, idx").all();
  return snapshots.map(({ environment_id, idx }) => {
    const explanation = store.explanations.explain(store.environments.get(environment_id), idx);
    assert.ok(explanation);
    assert.equal(problemsOf(explanation), []);
    return JSON.stringify(explanation, (key, value: unknown) => (key === "environment" || key === "last_index" ? undefined : value instanceof Map ? [...value] : value));
  });
}

/** What a policy would look at for every fingerprint that was ever reported, flows in the order of their keys. */
function factsOfAll({ db, store, organizationId }: World, fingerprints: readonly string[]): Map<string, string> {
  const facts = factStore(db, { attestations: store.attestations, flows: store.flows });
  return new Map(fingerprints.map((fingerprint) => [fingerprint, JSON.stringify([...facts.of(organizationId, fingerprint).flows].sort((a, b) => a.flow_id - b.flow_id))]));
}

/** The derived tables are what follows from the records. */
function derivedTablesHold(db: World["db"]): void {
  assert.equal(db.pragma("foreign_key_check"), []);
  assert.equal(
    all(db, "SELECT artifact_id FROM builds ORDER BY 1"),
    all(db, "SELECT min(id) AS artifact_id FROM artifacts GROUP BY organization_id, fingerprint ORDER BY 1"), "builds",
  );
  assert.equal(all(db, "SELECT attestation_id AS id FROM attestation_series_records ORDER BY 1"), all(db, "SELECT id FROM attestations ORDER BY 1"), "series records");
  assert.equal(all(db, "SELECT id FROM attestation_series s WHERE NOT EXISTS (SELECT 1 FROM attestation_series_records r WHERE r.series_id = s.id)"), [], "empty series");
  assert.equal(all(db, "SELECT id FROM flows f WHERE trail_count <> (SELECT count(*) FROM trails t WHERE t.flow_id = f.id)"), [], "counts of trails");
  for (const table of ["current_attestations", "pending_bindings"]) assert.equal(all(db, `SELECT 1 FROM ${table} WHERE attestation_id NOT IN (SELECT id FROM attestations) OR trail_id NOT IN (SELECT id FROM trails)`), [], table);
  assert.equal(all(db, "SELECT 1 FROM current_attestations WHERE artifact_id <> 0 AND artifact_id NOT IN (SELECT id FROM artifacts)"), []);
}

test("whatever the world and the rules: a run deletes what the plan showed, and changes no verdict", async () => {
  const seen = { worlds: 0, deleting: 0, stripping: 0, held: 0, ran: 0, shared: 0 };
  await fc.assert(
    fc.asyncProperty(arbitraryWorld, async (arbitrary) => {
      const world = built(arbitrary);
      const { db, store, retention, organizationId } = world;
      const fingerprints = db.prepare<[], string>("SELECT DISTINCT fingerprint FROM artifacts").pluck().all();
      const trails = db.prepare<[], { id: number; public_id: string }>("SELECT id, public_id FROM trails").all();
      const [told, facts] = [pictures(world), factsOfAll(world, fingerprints)];
      const plan = planOf(world, retention, organizationId);
      const going = new Set(retention.plans.going().filter(({ action }) => action === "trail").map(({ public_id }) => public_id));
      const sum = (of: (flow: (typeof plan.flows)[number]) => number): number => plan.flows.reduce((total, flow) => total + of(flow), 0);
      const counts = (): number[] => ["trails", "artifacts", "attestations"].map((table) => db.prepare<[], number>(`SELECT count(*) FROM ${table}`).pluck().get() as number);
      const files = (): string[] => db.prepare<[], string>("SELECT DISTINCT evidence_digest FROM attestations WHERE evidence_digest IS NOT NULL ORDER BY 1").pluck().all();
      const [before, filesBefore] = [counts(), files()];

      const done = await carriedOut(world, retention, plan);

      assert.equal({ trails: done.trails, stripped: done.stripped, kept: done.kept }, { trails: going.size, stripped: sum(({ stripped }) => stripped), kept: 0 });
      assert.is(sum((flow) => flow.trails), going.size);
      const after = counts();
      assert.equal(before.map((count, place) => count - (after[place] as number)), [sum((flow) => flow.trails), sum((flow) => flow.artifacts), sum((flow) => flow.attestations)]);
      assert.is(filesBefore.length - files().length, sum((flow) => flow.files), "files that no record names any more");
      assert.equal(trails.filter(({ id }) => !db.prepare("SELECT 1 FROM trails WHERE id = ?").get(id)).map(({ public_id }) => public_id).sort(), [...going].sort());
      assert.ok(store.trails.find(world.foreign, "late-1"), "another organization");

      assert.equal(pictures(world), told, "every snapshot says what it said");
      for (const [fingerprint, now] of factsOfAll(world, fingerprints)) if (now !== "[]") assert.is(now, facts.get(fingerprint), fingerprint);
      derivedTablesHold(db);
      assert.is(db.prepare("SELECT count(*) FROM tombstones WHERE kind = 'trail'").pluck().get(), going.size);
      assert.equal(planOf(world, retention, organizationId).flows.map((flow) => flow.trails + flow.stripped).filter((count) => count > 0), [], "nothing is left of the plan");

      seen.worlds += 1;
      seen.deleting += done.trails > 0 ? 1 : 0;
      seen.stripping += done.stripped > 0 ? 1 : 0;
      for (const why of ["held", "ran", "shared"] as const) seen[why] += sum(({ kept }) => kept[why]) > 0 ? 1 : 0;
    }),
    { numRuns: 60, seed: 20_261_121, includeErrorInReport: true },
  );
  assert.ok(Object.values(seen).every((count) => count > 2), JSON.stringify(seen));
});

test.run();
