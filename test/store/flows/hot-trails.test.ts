import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createRowCaches } from "../../../src/store/db/row-caches.ts";
import { createHotTrails } from "../../../src/store/flows/hot-trails.ts";
import type { HotTrail } from "../../../src/store/flows/hot-trails.ts";
import { opened } from "../given.ts";

const test = suite("store/flows/hot-trails");

/** Kept trails inside a batch, the only place where they may be used. */
function inBatch() {
  const rowCaches = createRowCaches(opened().db);
  rowCaches.begin();
  return { rowCaches, hotTrails: createHotTrails(rowCaches) };
}

const trail = (id: number, fields: Partial<HotTrail> = {}): HotTrail => ({
  id,
  organizationId: 1,
  flowId: 1,
  name: `t${id}`,
  state: "COMPLIANT",
  templatePublicId: "template",
  template: { version: 1, trail: { attestations: [], artifacts: [] } },
  artifacts: [],
  facts: new Map(),
  markedIn: null,
  ...fields,
});
const artifact = (text: string): HotTrail["artifacts"][number] => ({
  id: 1,
  public_id: "a",
  fingerprint: "f".repeat(64),
  reference_name: null,
  filename: "app",
  git_commit: "c".repeat(40),
  state: "COMPLIANT",
  attestations_json: text,
  reasons_json: "[]",
});
const fact = (n: number) => ({
  name: `check-${n}`,
  type: "generic",
  attestationId: `${n}`,
  overriddenAttestationId: null,
  isCompliant: true,
});

test("finds a kept trail by id and by name, and only inside a batch", () => {
  const { rowCaches, hotTrails } = inBatch();
  const kept = trail(7);
  hotTrails.keep(kept);
  assert.is(hotTrails.get(7), kept);
  assert.is(hotTrails.find(1, "t7"), kept);
  assert.equal([hotTrails.get(8), hotTrails.find(1, "t8"), hotTrails.find(2, "t7")], [null, null, null]);
  rowCaches.end();
  assert.equal([hotTrails.get(7), hotTrails.find(1, "t7")], [null, null]);
});

/** What makes a trail large: more than half of what all kept trails may have together. */
const LARGE: Readonly<Record<string, () => Partial<HotTrail>>> = {
  artifacts: () => ({ artifacts: [artifact("x".repeat(5 << 20))] }),
  facts: () => ({ facts: new Map([[null, Array.from({ length: 25_000 }, (_, n) => fact(n))]]) }),
  environments: () => ({ markedIn: Array.from({ length: 600_000 }, (_, n) => n) }),
};
for (const [what, fields] of Object.entries(LARGE))
  test(`trails with many ${what} push each other out`, () => {
    const { hotTrails } = inBatch();
    hotTrails.keep(trail(1, fields()));
    assert.is.not(hotTrails.get(1), null);
    hotTrails.keep(trail(2, fields()));
    assert.is(hotTrails.get(1), null);
    assert.is.not(hotTrails.get(2), null);
  });

test("a trail that grows too large while it is kept is kept no longer", () => {
  const { hotTrails } = inBatch();
  const kept = trail(1);
  hotTrails.keep(kept);
  kept.markedIn = Array.from({ length: 1_100_000 }, (_, n) => n);
  hotTrails.keep(kept);
  assert.is(hotTrails.get(1), null);
});

test.run();
