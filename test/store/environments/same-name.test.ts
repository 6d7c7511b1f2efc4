import { suite } from "uvu";
import * as assert from "uvu/assert";
import { opened, plan, scans } from "../given.ts";

const test = suite("store/environments/same-name");
const [A, B, C] = ["a", "b", "c"].map((digit) => digit.repeat(64)) as [string, string, string];

/** Records of a name, reported one after the other, each to a trail of its own. */
function reported(...records: [name: string, fingerprint: string][]) {
  const house = opened();
  const flow = house.flow("backend");
  const ids = records.map(([filename, fingerprint], index) => {
    const trail = house.trail(flow.id, `t-${index}`);
    return house.artifact(flow.id, trail.id, fingerprint, { filename });
  });
  return { ...house, flow, ids };
}

test("finds the latest record of a name as it was reported", () => {
  const { store, organizationId } = reported(["web:1", A], ["web:1", B], ["WEB:1", C], ["docker.io/web:1", C]);
  const found = store.sameNames.find(organizationId, { name: "web:1", fingerprint: "d".repeat(64) });
  assert.equal({ ...found, artifactId: "" }, { flow: "backend", trail: "t-1", fingerprint: B, artifactId: "" });
  assert.is(store.sameNames.find(organizationId, { name: "web:2", fingerprint: "d".repeat(64) }), null);
  assert.is(store.sameNames.find(organizationId + 1, { name: "web:1", fingerprint: "d".repeat(64) }), null);
});

test("finds nothing for a fingerprint that a flow knows under any name, or that is not resolved", () => {
  const { store, organizationId } = reported(["web:1", A], ["app", B]);
  assert.is(store.sameNames.find(organizationId, { name: "web:1", fingerprint: B }), null);
  assert.is(store.sameNames.find(organizationId, { name: "web:1", fingerprint: "" }), null);
});

test("an index serves each look-up, and gives the records of a name from the latest one", () => {
  const { db, sql } = reported(["web:1", A]);
  const queries = sql.filter((text) =>
    /AS newest\s+CROSS JOIN flows f|AS environment FROM snapshot_artifacts sa/.test(text),
  );
  const plans = queries.map((text) => plan(db, text));
  assert.is(plans.length, 2);
  for (const [index, text] of queries.entries()) assert.equal(scans(db, text), [], plans[index]?.join("; "));
  // The look-up compares a hundred records at most, and SQLite may sort those again.
  const [latest] = plans.filter((steps) => steps.some((step) => step.includes("artifacts_by_name")));
  const sorted = latest?.findIndex((step) => step.includes("TEMP B-TREE")) ?? -1;
  const read = latest?.findIndex((step) => step.includes("SCAN newest")) ?? -1;
  assert.ok(latest && (sorted === -1 || sorted > read), latest?.join("; "));
});

test.run();
