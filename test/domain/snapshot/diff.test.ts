import { suite } from "uvu";
import * as assert from "uvu/assert";
import { compareRunning, identityOf } from "../../../src/domain/snapshot/diff.ts";
import type { Annotation, Cause, EvaluatedArtifact } from "../../../src/domain/snapshot/diff.ts";

const test = suite("domain/snapshot/diff");

const A = "a".repeat(64);
const B = "b".repeat(64);
const CAUSES: Cause[] = ["report", "policies", "policy_version", "allowlist"];

const web = (more: Partial<EvaluatedArtifact> = {}): EvaluatedArtifact => ({
  name: "web",
  fingerprint: A,
  instances: 1,
  compliant: true,
  hasNewProvenance: false,
  ...more,
});
const api = (more: Partial<EvaluatedArtifact> = {}): EvaluatedArtifact => web({ name: "api", fingerprint: B, ...more });

/** An artifact as text: name, start of its fingerprint, annotation, instances before and after. */
type Shown = [artifact: string, annotation: Annotation, was: number, now: number];
type Row = [
  what: string,
  cause: Cause | readonly Cause[],
  before: EvaluatedArtifact[] | null,
  after: EvaluatedArtifact[],
  snapshot: boolean,
  shown: Shown[],
];

const rows: Row[] = [
  // The table of semantics 6.4, line by line.
  ["first report", "report", null, [web()], true, [["web a", "started-compliant", 0, 1]]],
  [
    "first report with all verdicts",
    "report",
    null,
    [web(), api({ compliant: false }), web({ name: "job", compliant: null, instances: 3 })],
    true,
    [
      ["web a", "started-compliant", 0, 1],
      ["api b", "started-non-compliant", 0, 1],
      ["job a", "started-unknown", 0, 3],
    ],
  ],
  ["first report of nothing", "report", null, [], true, []],
  [
    "fingerprint new",
    "report",
    [web()],
    [web(), api()],
    true,
    [
      ["web a", "unchanged", 1, 1],
      ["api b", "started-compliant", 0, 1],
    ],
  ],
  [
    "fingerprint new, not compliant",
    "report",
    [web()],
    [web(), api({ compliant: false, instances: 2 })],
    true,
    [
      ["web a", "unchanged", 1, 1],
      ["api b", "started-non-compliant", 0, 2],
    ],
  ],
  ["fingerprint new, unknown", "report", [], [web({ compliant: null })], true, [["web a", "started-unknown", 0, 1]]],
  [
    "name new for a fingerprint",
    "report",
    [web()],
    [web(), web({ name: "web-2" })],
    true,
    [
      ["web a", "unchanged", 1, 1],
      ["web-2 a", "started-compliant", 0, 1],
    ],
  ],
  [
    "name changed",
    "report",
    [web({ instances: 2 })],
    [web({ name: "web-2", instances: 2 })],
    true,
    [
      ["web-2 a", "started-compliant", 0, 2],
      ["web a", "exited", 2, 0],
    ],
  ],
  [
    "fingerprint gone",
    "report",
    [web(), api({ instances: 4 })],
    [web()],
    true,
    [
      ["web a", "unchanged", 1, 1],
      ["api b", "exited", 4, 0],
    ],
  ],
  [
    "everything gone",
    "report",
    [web(), api()],
    [],
    true,
    [
      ["web a", "exited", 1, 0],
      ["api b", "exited", 1, 0],
    ],
  ],
  [
    "fingerprint replaced",
    "report",
    [web()],
    [web({ fingerprint: B, compliant: false })],
    true,
    [
      ["web b", "started-non-compliant", 0, 1],
      ["web a", "exited", 1, 0],
    ],
  ],
  [
    "became compliant",
    ["report", "policies", "policy_version", "allowlist"],
    [web({ compliant: false })],
    [web()],
    true,
    [["web a", "became-compliant", 1, 1]],
  ],
  [
    "became non-compliant",
    ["report", "policies", "policy_version", "allowlist"],
    [web()],
    [web({ compliant: false })],
    true,
    [["web a", "became-non-compliant", 1, 1]],
  ],
  [
    "provenance changed",
    ["report", "policies"],
    [web()],
    [web({ hasNewProvenance: true })],
    true,
    [["web a", "updated-provenance", 1, 1]],
  ],
  [
    "provenance changed while unknown",
    "report",
    [web({ compliant: null })],
    [web({ compliant: null, hasNewProvenance: true })],
    true,
    [["web a", "updated-provenance", 1, 1]],
  ],
  [
    "provenance changed, but nobody reported",
    ["policy_version", "allowlist"],
    [web()],
    [web({ hasNewProvenance: true })],
    false,
    [["web a", "updated-provenance", 1, 1]],
  ],
  [
    "only the number of instances changed",
    ["report", "policy_version", "allowlist"],
    [web({ instances: 3 })],
    [web({ instances: 5 })],
    false,
    [["web a", "unchanged", 3, 5]],
  ],
  [
    "nothing changed",
    ["report", "policy_version", "allowlist"],
    [web(), api({ compliant: null })],
    [web(), api({ compliant: null })],
    false,
    [
      ["web a", "unchanged", 1, 1],
      ["api b", "unchanged", 1, 1],
    ],
  ],
  ["still nothing runs", ["report", "policy_version", "allowlist"], [], [], false, []],
  ["policy attached or detached, no flip", "policies", [web()], [web()], true, [["web a", "unchanged", 1, 1]]],
  ["policy attached or detached where nothing runs", "policies", [], [], true, []],
  ["policies or allowlist before the first report", ["policies", "policy_version", "allowlist"], null, [], false, []],

  // Unknown, before and after.
  [
    "unknown became compliant",
    CAUSES,
    [web({ compliant: null })],
    [web()],
    true,
    [["web a", "became-compliant", 1, 1]],
  ],
  [
    "unknown became non-compliant",
    CAUSES,
    [web({ compliant: null })],
    [web({ compliant: false })],
    true,
    [["web a", "became-non-compliant", 1, 1]],
  ],
  ["compliant became unknown", CAUSES, [web()], [web({ compliant: null })], true, [["web a", "unchanged", 1, 1]]],
  [
    "non-compliant became unknown",
    CAUSES,
    [web({ compliant: false })],
    [web({ compliant: null })],
    true,
    [["web a", "unchanged", 1, 1]],
  ],
  [
    "unknown as before",
    ["report", "policy_version", "allowlist"],
    [web({ compliant: null })],
    [web({ compliant: null })],
    false,
    [["web a", "unchanged", 1, 1]],
  ],

  // Several differences at once.
  [
    "a flip hides new provenance",
    CAUSES,
    [web({ compliant: false })],
    [web({ hasNewProvenance: true })],
    true,
    [["web a", "became-compliant", 1, 1]],
  ],
  [
    "a flip with other instances",
    "report",
    [web()],
    [web({ compliant: false, instances: 6 })],
    true,
    [["web a", "became-non-compliant", 1, 6]],
  ],
  [
    "provenance with other instances",
    "report",
    [web({ instances: 2 })],
    [web({ hasNewProvenance: true, instances: 1 })],
    true,
    [["web a", "updated-provenance", 2, 1]],
  ],
  [
    "counts are stored with a snapshot of another reason",
    "report",
    [web({ instances: 2 })],
    [web({ instances: 7 }), api()],
    true,
    [
      ["web a", "unchanged", 2, 7],
      ["api b", "started-compliant", 0, 1],
    ],
  ],
  [
    "one flips while another's provenance changes, and nobody reported",
    "allowlist",
    [web({ compliant: false }), api()],
    [web(), api({ hasNewProvenance: true })],
    true,
    [
      ["web a", "became-compliant", 1, 1],
      ["api b", "updated-provenance", 1, 1],
    ],
  ],
  [
    "all at once",
    "report",
    [web(), api(), web({ name: "flips" }), web({ name: "enriched" }), web({ name: "still" })],
    [
      web({ name: "still", instances: 2 }),
      web({ name: "enriched", hasNewProvenance: true }),
      web({ name: "flips", compliant: false }),
      api({ fingerprint: A }),
    ],
    true,
    [
      ["still a", "unchanged", 1, 2],
      ["enriched a", "updated-provenance", 1, 1],
      ["flips a", "became-non-compliant", 1, 1],
      ["api a", "started-compliant", 0, 1],
      ["web a", "exited", 1, 0],
      ["api b", "exited", 1, 0],
    ],
  ],

  // Identity.
  [
    "one fingerprint under two names is two artifacts",
    "report",
    [web(), web({ name: "web-2", instances: 2 })],
    [web({ name: "web-2", instances: 2 })],
    true,
    [
      ["web-2 a", "unchanged", 2, 2],
      ["web a", "exited", 1, 0],
    ],
  ],
  [
    "one name with two fingerprints is two artifacts",
    "report",
    [web(), web({ fingerprint: B, instances: 2 })],
    [web(), web({ fingerprint: B, instances: 2, compliant: false })],
    true,
    [
      ["web a", "unchanged", 1, 1],
      ["web b", "became-non-compliant", 2, 2],
    ],
  ],
  [
    "names and fingerprints do not mix",
    "report",
    [web({ name: "x", fingerprint: A }), web({ name: "y", fingerprint: B })],
    [web({ name: "x", fingerprint: B }), web({ name: "y", fingerprint: A })],
    true,
    [
      ["x b", "started-compliant", 0, 1],
      ["y a", "started-compliant", 0, 1],
      ["x a", "exited", 1, 0],
      ["y b", "exited", 1, 0],
    ],
  ],
  [
    "the same empty fingerprint again is nothing new",
    "report",
    [web({ fingerprint: "" })],
    [web({ fingerprint: "" })],
    false,
    [["web ", "unchanged", 1, 1]],
  ],
  [
    "several names without fingerprint",
    "report",
    [web({ fingerprint: "" }), api({ fingerprint: "" })],
    [api({ fingerprint: "" })],
    true,
    [
      ["api ", "unchanged", 1, 1],
      ["web ", "exited", 1, 0],
    ],
  ],
  [
    "a fingerprint that becomes known is another artifact",
    "report",
    [web({ fingerprint: "" })],
    [web()],
    true,
    [
      ["web a", "started-compliant", 0, 1],
      ["web ", "exited", 1, 0],
    ],
  ],
  [
    "another order is no difference",
    "report",
    [web(), api()],
    [api(), web()],
    false,
    [
      ["api b", "unchanged", 1, 1],
      ["web a", "unchanged", 1, 1],
    ],
  ],
  [
    "names that every object has",
    "report",
    [web({ name: "__proto__" })],
    [web({ name: "__proto__" }), web({ name: "constructor" })],
    true,
    [
      ["__proto__ a", "unchanged", 1, 1],
      ["constructor a", "started-compliant", 0, 1],
    ],
  ],
];

for (const [what, causes, before, after, snapshot, shown] of rows) {
  for (const cause of typeof causes === "string" ? [causes] : causes) {
    test(`${what} (${cause})`, () => {
      const found = compareRunning(before, after, cause);
      const all = [...found.running, ...found.exited].map(
        ({ artifact, annotation, was, now }): Shown => [
          `${artifact.name} ${artifact.fingerprint.slice(0, 1)}`,
          annotation,
          was,
          now,
        ],
      );
      assert.equal(all, shown);
      assert.is(found.snapshot, snapshot);
    });
  }
}

test("returns running artifacts as given, and the earlier record of exited ones", () => {
  const earlier = { ...web(), row: 1 };
  const gone = { ...api(), row: 2 };
  const later = { ...web({ compliant: false }), evaluation: 3 };
  const { running, exited } = compareRunning([earlier, gone], [later], "report");
  assert.is(running[0]?.artifact, later);
  assert.is(exited[0]?.artifact, gone);
});

test("does not modify its arguments", () => {
  const before = [web(), api()];
  const after = [api({ instances: 2 })];
  const copies = structuredClone([before, after]);
  compareRunning(before, after, "report");
  assert.equal([before, after], copies);
});

test("gives different artifacts different identities", () => {
  const artifacts = ["", ":", "web", `${A}:`, ":web"].flatMap((name) =>
    ["", A, B].map((fingerprint) => ({ name, fingerprint })),
  );
  assert.is(new Set(artifacts.map(identityOf)).size, artifacts.length);
});

test.run();
