import { suite } from "uvu";
import * as assert from "uvu/assert";
import { bindAttestation, findPendingAttestations } from "../../../src/domain/attestation/binding.ts";
import type { ArtifactInTrail, Binding, BindingInput } from "../../../src/domain/attestation/binding.ts";

const test = suite("domain/attestation/binding");

const artifact = (
  artifactId: string,
  fingerprint: string,
  referenceName: string | null,
  gitCommit: string | null,
  sequence: number,
): ArtifactInTrail => ({
  artifactId,
  fingerprint,
  referenceName,
  gitCommit,
  sequence,
});
// The latest `app` is deliberately not the last of the list.
const trail = [
  artifact("a1", "f1", "app", "c1", 1),
  artifact("a4", "f4", "app", "c2", 4),
  artifact("a2", "f2", "app", "c1", 2),
  artifact("a3", "f1", "db", "c1", 3),
  artifact("a5", "f5", null, "c1", 5),
];

type Given = Partial<Pick<BindingInput, "artifactFingerprint" | "targetArtifacts" | "commit">>;
const bind = (given: Given, artifactsInTrail = trail): Binding =>
  bindAttestation({
    attestationName: "scan",
    artifactFingerprint: null,
    targetArtifacts: [],
    commit: null,
    artifactsInTrail,
    ...given,
  });

const table: [what: string, given: Given, expected: Binding][] = [
  ["nothing given", {}, { kind: "trail" }],
  ["a commit alone", { commit: "c1" }, { kind: "trail" }],
  [
    "a fingerprint, under all its names",
    { artifactFingerprint: "f1" },
    { kind: "artifacts", artifactIds: ["a1", "a3"] },
  ],
  [
    "a fingerprint decides over target and commit",
    { artifactFingerprint: "f2", targetArtifacts: ["db"], commit: "c9" },
    { kind: "artifacts", artifactIds: ["a2"] },
  ],
  ["an unknown fingerprint (semantics 13.46)", { artifactFingerprint: "f9" }, { kind: "unknown_fingerprint" }],
  [
    "an unknown fingerprint with a good target",
    { artifactFingerprint: "f9", targetArtifacts: ["app"], commit: "c1" },
    { kind: "unknown_fingerprint" },
  ],
  [
    "target and commit, all of that name and commit",
    { targetArtifacts: ["app"], commit: "c1" },
    { kind: "pending", artifactIds: ["a1", "a2"], referenceNames: ["app"], commit: "c1" },
  ],
  [
    "target and another commit floats",
    { targetArtifacts: ["app"], commit: "c9" },
    { kind: "pending", artifactIds: [], referenceNames: ["app"], commit: "c9" },
  ],
  [
    "target not yet there, with commit",
    { targetArtifacts: ["web"], commit: "c1" },
    { kind: "pending", artifactIds: [], referenceNames: ["web"], commit: "c1" },
  ],
  [
    "two targets, one twice",
    { targetArtifacts: ["app", "db", "app"], commit: "c1" },
    { kind: "pending", artifactIds: ["a1", "a2", "a3"], referenceNames: ["app", "db"], commit: "c1" },
  ],
  [
    "target without commit: the latest of the name (semantics 13.45)",
    { targetArtifacts: ["app"] },
    { kind: "artifacts", artifactIds: ["a4"] },
  ],
  [
    "target without commit and not there (semantics 13.45)",
    { targetArtifacts: ["web"] },
    { kind: "needs_commit_or_fingerprint", attestation: "scan", artifact: "web" },
  ],
  [
    "one of two targets not there",
    { targetArtifacts: ["app", "web"] },
    { kind: "needs_commit_or_fingerprint", attestation: "scan", artifact: "web" },
  ],
];
for (const [what, given, expected] of table) test(what, () => assert.equal(bind(given), expected));

test("finds the attestations pending for a new artifact, in the given order", () => {
  const attestations = [
    { attestationId: "byName", artifactFingerprint: null, targetArtifacts: ["db", "app"], commit: "c1" },
    { attestationId: "otherCommit", artifactFingerprint: null, targetArtifacts: ["app"], commit: "c2" },
    { attestationId: "otherName", artifactFingerprint: null, targetArtifacts: ["web"], commit: "c1" },
    { attestationId: "noCommit", artifactFingerprint: null, targetArtifacts: ["app"], commit: null },
    { attestationId: "trail", artifactFingerprint: null, targetArtifacts: [], commit: "c1" },
    { attestationId: "byFingerprint", artifactFingerprint: "f1", targetArtifacts: [], commit: null },
    { attestationId: "otherFingerprint", artifactFingerprint: "f2", targetArtifacts: ["app"], commit: "c1" },
  ];
  assert.equal(findPendingAttestations(artifact("n", "f1", "app", "c1", 9), attestations), ["byName", "byFingerprint"]);
  assert.equal(findPendingAttestations(artifact("n", "f9", null, "c1", 9), attestations), []);
  assert.equal(findPendingAttestations(artifact("n", "f9", "app", null, 9), attestations), []);
});

test("binds the same pairs in any order of arrival when there is a commit or a fingerprint", () => {
  const givens: Given[] = [
    { targetArtifacts: ["app"], commit: "c1" },
    { targetArtifacts: ["app", "db"], commit: "c2" },
  ];
  for (const given of givens) {
    const after = bind(given);
    const before = trail.filter(
      (one) =>
        findPendingAttestations(one, [
          { attestationId: "x", artifactFingerprint: null, targetArtifacts: [], commit: null, ...given },
        ]).length === 1,
    );
    assert.equal(
      "artifactIds" in after ? after.artifactIds : null,
      before.map(({ artifactId }) => artifactId),
    );
  }
});

test.run();
