import { suite } from "uvu";
import * as assert from "uvu/assert";
import { opened, plan } from "../given.ts";

const test = suite("store/environments/allowlists");
const [RUNNING, GONE, NEVER] = ["a".repeat(64), "b".repeat(64), "c".repeat(64)];

function world() {
  const setup = opened();
  const { store, db, organizationId } = setup;
  const environment = (name: string) =>
    store.environments.create(organizationId, {
      name,
      type: "K8S",
      description: "",
      includeScaling: false,
      requireProvenance: false,
    });
  const allow = (row: { id: number; organization_id: number }, fingerprint: string, description = "why") =>
    store.allowlists.create(row, {
      fingerprint,
      artifact_name: "app",
      description,
      user_id: "u-1",
      user_name: "Ada",
      expires_at: null,
    });
  const report = (name: string, ...fingerprints: string[]) => {
    const artifacts = fingerprints.map((fingerprint) => ({
      name: fingerprint[0] as string,
      fingerprint,
      instances: { created: [1] },
    }));
    return store.snapshotRecorder.record(store.environments.require({ id: organizationId, name: "acme" }, name), {
      cause: "report",
      artifacts,
      actor: { publicId: "r", displayName: "reporter" },
    });
  };
  const stale = () => db.prepare("SELECT environment_id, fingerprint FROM stale_artifacts ORDER BY 1, 2").raw().all();
  return { ...setup, environment, allow, report, stale };
}

const ALL = { environmentId: null, fingerprint: null, inForce: false };
const EVERYTHING = { limit: -1, offset: 0 };

test("the latest entry of a fingerprint counts, in its environment only", () => {
  const { store, environment, allow, clock, organizationId } = world();
  const [prod, staging] = [environment("prod"), environment("staging")];
  assert.is(store.allowlists.findLatest(prod.id, NEVER), null);
  const first = allow(prod, NEVER, "one");
  const second = allow(prod, NEVER, "two");
  const at = clock.at;
  const entry = {
    environment_id: prod.id,
    fingerprint: NEVER,
    artifact_name: "app",
    user_id: "u-1",
    user_name: "Ada",
    expires_at: null,
  };
  const latest = { ...entry, id: 2, public_id: second, description: "two", timestamp: at };
  assert.equal(store.allowlists.findLatest(prod.id, NEVER), latest);
  assert.is(store.allowlists.findLatest(staging.id, NEVER), null);
  assert.is(store.allowlists.findLatest(prod.id, GONE), null);
  assert.equal(
    [...store.allowlists.list(organizationId, ALL, EVERYTHING)],
    [
      { ...latest, environment_name: "prod" },
      { ...entry, id: 1, public_id: first, description: "one", timestamp: at - 1, environment_name: "prod" },
    ],
  );
  assert.equal([...store.allowlists.list(99, ALL, EVERYTHING)], []);
});

test("an entry raises the revision, and marks the artifact only where it runs", () => {
  const { store, environment, allow, report, stale } = world();
  const [prod, staging] = [environment("prod"), environment("staging")];
  report("prod", RUNNING, GONE);
  report("prod", RUNNING);
  report("staging", RUNNING);
  const revisions = () => [prod, staging].map(({ id }) => store.environments.get(id).revision);
  const [before, elsewhere] = revisions() as [number, number];
  allow(prod, NEVER);
  allow(prod, GONE);
  assert.equal(stale(), []);
  assert.ok((revisions()[0] as number) >= before + 2, "also of what does not run: it may be about to start");
  allow(prod, RUNNING);
  allow(prod, RUNNING);
  assert.equal(stale(), [[prod.id, RUNNING]]);
  assert.is(revisions()[1], elsewhere);
});

test("an index serves every query on allowlists, without sorting", () => {
  const { db, sql } = world();
  const about = sql.filter((text) => /\b(FROM|JOIN) allowlist_entries\b/.test(text) && text.startsWith("SELECT"));
  assert.ok(about.length >= 3);
  for (const text of about)
    assert.equal(
      plan(db, text).filter(
        (step) => /^SCAN (?!\w+ VIRTUAL TABLE)/.test(step) || /TEMP B-TREE(?! FOR count)/.test(step),
      ),
      [],
      text,
    );
});

test.run();
