// What an attestation is bound to (semantics 3.2): the trail, artifacts already in it, or artifacts reported later. The
// two functions are halves of one relation: in whatever order artifact and attestation arrive, the same pairs result.
// The one exception is a target without a commit, which means the latest artifact of that name at the time of the
// report.

/** An artifact record of the trail. `sequence` increases with each report; `gitCommit` is the whole commit id. */
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
  /** Commit id from the commit info of the report. */
  commit: string | null;
  artifactsInTrail: readonly ArtifactInTrail[];
};

export type Binding =
  /** A trail attestation. */
  | { kind: "trail" }
  /** Bound to these artifact records, at least one, and to no later report of another fingerprint. */
  | { kind: "artifacts"; artifactIds: string[] }
  /** Bound to these records, possibly none, and to every later one with one of `referenceNames` and this commit. */
  | { kind: "pending"; artifactIds: string[]; referenceNames: string[]; commit: string }
  /** The trail has no artifact with that fingerprint: 404 (messages 5). */
  | { kind: "unknown_fingerprint" }
  /** The target is not in the trail, and neither commit nor fingerprint identifies it: 400 naming both (messages 5). */
  | { kind: "needs_commit_or_fingerprint"; attestation: string; artifact: string };

/**
 * Binds a reported attestation. A fingerprint alone binds it to all records of that fingerprint, under any reference
 * name. A target name binds only together with a commit, or to the latest artifact of that name (semantics
 * 3.2.1 to 3.2.6).
 */
export function bindAttestation(input: BindingInput): Binding {
  const { artifactFingerprint: fingerprint, targetArtifacts, commit, artifactsInTrail } = input;
  if (fingerprint !== null) {
    const artifactIds = idsOf(artifactsInTrail.filter((artifact) => artifact.fingerprint === fingerprint));
    return artifactIds.length === 0 ? { kind: "unknown_fingerprint" } : { kind: "artifacts", artifactIds };
  }
  const referenceNames = [...new Set(targetArtifacts)];
  if (referenceNames.length === 0) return { kind: "trail" };
  if (commit !== null) {
    const bound = artifactsInTrail.filter((artifact) => isTarget(artifact, referenceNames, commit));
    return { kind: "pending", artifactIds: idsOf(bound), referenceNames, commit };
  }
  const latest: ArtifactInTrail[] = [];
  for (const name of referenceNames) {
    const artifact = findLatestNamed(name, artifactsInTrail);
    if (artifact === null)
      return { kind: "needs_commit_or_fingerprint", attestation: input.attestationName, artifact: name };
    latest.push(artifact);
  }
  return { kind: "artifacts", artifactIds: idsOf(latest) };
}

/** A reported attestation of the trail that names an artifact. */
export type ArtifactAttestation = {
  attestationId: string;
  artifactFingerprint: string | null;
  targetArtifacts: readonly string[];
  commit: string | null;
};

/**
 * Ids of the trail's attestations to bind to a newly reported artifact, in the given order: those of its fingerprint (a
 * re-report under another reference name), and those pending for its reference name and commit.
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

/** A pending attestation matches by reference name and commit, never by fingerprint (semantics 3.2.1). */
function isTarget(
  artifact: Pick<ArtifactInTrail, "referenceName" | "gitCommit">,
  referenceNames: readonly string[],
  commit: string,
): boolean {
  return (
    artifact.referenceName !== null && artifact.gitCommit === commit && referenceNames.includes(artifact.referenceName)
  );
}

function findLatestNamed(referenceName: string, artifacts: readonly ArtifactInTrail[]): ArtifactInTrail | null {
  let latest: ArtifactInTrail | null = null;
  for (const artifact of artifacts) {
    if (artifact.referenceName === referenceName && (latest === null || artifact.sequence > latest.sequence))
      latest = artifact;
  }
  return latest;
}

const idsOf = (artifacts: readonly ArtifactInTrail[]): string[] => artifacts.map(({ artifactId }) => artifactId);
