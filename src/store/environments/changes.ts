/**
 * What changes in environments, announced to areas that environments do not know (store/index.ts says to which), inside
 * the write of the change. `at`: epoch seconds.
 */
export type EnvironmentChanges = {
  /** A physical or logical environment has a new snapshot. */
  onSnapshotMade(environmentId: number, index: number, at: number): void;
  /** An allowlist entry was added. */
  onArtifactAllowed(environmentId: number, allowlistId: number, at: number): void;
};
