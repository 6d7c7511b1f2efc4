import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  MAX_TRAIL_ARTIFACTS,
  MAX_TRAIL_CHECKS,
  findTrailSizeProblem,
} from "../../../src/domain/compliance/trail-size.ts";

const test = suite("domain/compliance/trail-size");

const named = (count: number, prefix = "check") =>
  Array.from({ length: count }, (_, n) => ({ name: `${prefix}-${n}`, type: "generic" }));
const reported = (count: number, prefix = "check") =>
  named(count, prefix).map((one) => ({
    ...one,
    attestationId: "1",
    overriddenAttestationId: null,
    isCompliant: true,
  }));
const artifact = (referenceName: string | null, attestations = reported(0)) => ({
  artifactId: "1",
  fingerprint: "a".repeat(64),
  referenceName,
  attestations,
});
const trail = (more: object) => ({
  template: { version: 1, trail: { attestations: named(0), artifacts: [{ name: "app", attestations: named(0) }] } },
  trailAttestations: reported(0),
  artifacts: [artifact("app")],
  ...more,
});
const ofApp = (count: number, own = 0) => ({
  template: {
    version: 1,
    trail: { attestations: named(own), artifacts: [{ name: "app", attestations: named(count) }] },
  },
});
const isTooLarge = (more: object): boolean => findTrailSizeProblem("t", trail(more) as never) !== null;

test("a trail has at most 2,000 artifacts", () => {
  const artifacts = Array.from({ length: MAX_TRAIL_ARTIFACTS }, () => artifact(null));
  assert.is(isTooLarge({ artifacts }), false);
  assert.is(
    findTrailSizeProblem("t", trail({ artifacts: [...artifacts, artifact(null)] }) as never),
    "Trail 't' has 2000 artifacts, which is the most that it may have. Report to another trail",
  );
});

test("what a template expects counts for each artifact of its name", () => {
  const half = ofApp(MAX_TRAIL_CHECKS / 2);
  assert.is(isTooLarge({ ...half, artifacts: [artifact("app"), artifact("app")] }), false);
  assert.is(
    findTrailSizeProblem(
      "t",
      trail({ ...half, artifacts: [artifact("app"), artifact("app"), artifact("app")] }) as never,
    ),
    "Trail 't' and its artifacts would have more than 10000 attestations of different names, expected or reported, " +
      "which is the most that it may have. Report to another trail",
  );
  assert.is(isTooLarge({ ...half, artifacts: [artifact("app"), artifact("app"), artifact("other")] }), false);
});

test("what is expected of the trail, and of an artifact that is missing, counts once", () => {
  const other = { ...ofApp(MAX_TRAIL_CHECKS - 1), trailAttestations: reported(1, "other") };
  assert.is(isTooLarge({ ...other, artifacts: [] }), false);
  assert.is(isTooLarge({ ...other, artifacts: [], trailAttestations: reported(2, "other") }), true);
  assert.is(isTooLarge({ ...other, artifacts: [artifact("app"), artifact("app")] }), true);
});

test("a template that expects more by itself, as earlier versions took them, leaves room for what it expects", () => {
  const more = ofApp(MAX_TRAIL_CHECKS, 1);
  for (const artifacts of [[], [artifact("app")], [artifact("app", reported(MAX_TRAIL_CHECKS))]])
    assert.is(isTooLarge({ ...more, artifacts, trailAttestations: reported(1) }), false);
  assert.is(isTooLarge({ ...more, artifacts: [], trailAttestations: reported(1, "other") }), true);
  assert.is(isTooLarge({ ...more, artifacts: [artifact("app"), artifact("app")] }), true);
});

test("an attestation that is expected and reported counts once, another one by itself", () => {
  const full = ofApp(MAX_TRAIL_CHECKS - 10, 10);
  const artifacts = [artifact("app", reported(MAX_TRAIL_CHECKS - 10))];
  assert.is(isTooLarge({ ...full, artifacts, trailAttestations: reported(10) }), false);
  assert.is(isTooLarge({ ...full, artifacts, trailAttestations: reported(1, "other") }), true);
  assert.is(isTooLarge({ ...full, artifacts: [artifact("app", reported(1, "other"))] }), true);
});

test.run();
