// To what an attestation belongs (semantics 3.2): the trail, artifacts already in it, or artifacts yet to come. The two
// functions are two halves of one relation: whatever order artifact and attestation arrive in, the same pairs result.
// The one exception is a target without commit, which means the latest artifact of that name at the moment of the
// report.

/** An artifact record of the trail. `sequence` grows with each report; `gitCommit` is the whole commit id. */
export type ArtifactInTrail = {
  artifactId: string;
  fingerprint: string;
  referenceName: string | null;
  gitCommit: string | null;
  sequence: number;
};

export type BindingInput = {
  attestationName: string;
  artifactFingerprint: string | null;
  /** Reference names; clients send at most one (wire-contract 6.1). */
  targetArtifacts: readonly string[];
  /** Commit id of the report's commit info. */
  commit: string | null;
  artifactsInTrail: readonly ArtifactInTrail[];
};

export type Binding =
  /** A trail attestation. */
  | { kind: "trail" }
  /** Belongs to these artifact records, at least one, and to no later report of another fingerprint. */
  | { kind: "artifacts"; artifactIds: string[] }
  /**
   * Belongs to these records, possibly none, and to every later one with a name of `referenceNames` and this commit.
   */
  | { kind: "pending"; artifactIds: string[]; referenceNames: string[]; commit: string }
  /** No artifact of that fingerprint in the trail: 404 (messages 5). */
  | { kind: "unknown_fingerprint" }
  /** The target is not in the trail and nothing tells which one is meant: 400 naming both (messages 5). */
  | { kind: "needs_commit_or_fingerprint"; attestation: string; artifact: string };

/**
 * Binds a reported attestation. A fingerprint decides alone and binds to all records of it, under whatever reference
 * name; a target does so only together with a commit, or by being the latest of its name (semantics 3.2, 1 to 6).
 */
export function bindAttestation(input: BindingInput): Binding {
  const { artifactFingerprint: fingerprint, targetArtifacts, commit, artifactsInTrail } = input;
  if (fingerprint !== null) {
    const artifactIds = ids(artifactsInTrail.filter((artifact) => artifact.fingerprint === fingerprint));
    return artifactIds.length === 0 ? { kind: "unknown_fingerprint" } : { kind: "artifacts", artifactIds };
  }
  const referenceNames = [...new Set(targetArtifacts)];
  if (referenceNames.length === 0) return { kind: "trail" };
  if (commit !== null) {
    const bound = artifactsInTrail.filter((artifact) => isTarget(artifact, referenceNames, commit));
    return { kind: "pending", artifactIds: ids(bound), referenceNames, commit };
  }
  const latest: ArtifactInTrail[] = [];
  for (const name of referenceNames) {
    const artifact = latestNamed(name, artifactsInTrail);
    if (artifact === null)
      return { kind: "needs_commit_or_fingerprint", attestation: input.attestationName, artifact: name };
    latest.push(artifact);
  }
  return { kind: "artifacts", artifactIds: ids(latest) };
}

/** An attestation of the trail that names an artifact, as it was reported. */
export type ArtifactAttestation = {
  attestationId: string;
  artifactFingerprint: string | null;
  targetArtifacts: readonly string[];
  commit: string | null;
};

/**
 * The attestations of the trail that a newly reported artifact receives, in the order given: those of its fingerprint
 * (a re-report under another reference name), and those that wait for its reference name and commit.
 */
export function findPendingAttestations(
  artifact: Pick<ArtifactInTrail, "fingerprint" | "referenceName" | "gitCommit">,
  attestations: readonly ArtifactAttestation[],
): string[] {
  const received = attestations.filter(({ artifactFingerprint, targetArtifacts, commit }) =>
    artifactFingerprint === null
      ? commit !== null && isTarget(artifact, targetArtifacts, commit)
      : artifactFingerprint === artifact.fingerprint,
  );
  return received.map(({ attestationId }) => attestationId);
}

/** The match key of an early attestation is (reference name, commit), never the fingerprint (semantics 3.2, 1). */
function isTarget(
  artifact: Pick<ArtifactInTrail, "referenceName" | "gitCommit">,
  referenceNames: readonly string[],
  commit: string,
): boolean {
  return (
    artifact.referenceName !== null && artifact.gitCommit === commit && referenceNames.includes(artifact.referenceName)
  );
}

function latestNamed(referenceName: string, artifacts: readonly ArtifactInTrail[]): ArtifactInTrail | null {
  let latest: ArtifactInTrail | null = null;
  for (const artifact of artifacts) {
    if (artifact.referenceName === referenceName && (latest === null || artifact.sequence > latest.sequence))
      latest = artifact;
  }
  return latest;
}

function ids(artifacts: readonly ArtifactInTrail[]): string[] {
  return artifacts.map(({ artifactId }) => artifactId);
}
