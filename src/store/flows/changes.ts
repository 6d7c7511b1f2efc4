/**
 * What changes in flows, announced to areas that flows do not know (store/index.ts says to which), inside the write of
 * the change. Times are epoch seconds.
 */
export type FlowChanges = {
  /** A trail was created, explicitly or by a report that named it. */
  onTrailStarted(flowId: number, trail: { trailId: number; at: number; by: string }): void;
  /** A trail that has artifacts changed: these, their attestations or a verdict. */
  onTrailChanged(organizationId: number, trailId: number): void;
  /** An artifact that was reported without a trail changed. */
  onArtifactChanged(artifactId: number): void;
  /** The name or the tags of a flow changed. */
  onFlowChanged(organizationId: number, flowId: number): void;
};
