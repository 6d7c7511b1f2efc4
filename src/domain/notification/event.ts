/**
 * What is told: one notice is one event in the life of an environment, a flow or a key, with everything that the
 * messages about it say. Facts come in from outside, and so do the addresses of pages.
 */
import type { EnvironmentTrigger, FlowTrigger } from "./triggers.ts";
import { triggerOf } from "./triggers.ts";

/** Addresses of pages for people, and of objects of the API. */
export type EventLinks = {
  environmentPage(org: string, environment: string): string;
  environmentApi(org: string, environment: string): string;
  snapshotPage(org: string, environment: string, index: number): string;
  snapshotApi(org: string, environment: string, index: number): string;
  artifactPage(org: string, flow: string, artifact: { fingerprint: string; id: string }): string;
  /** @param selector query parameters that tell the record from others of its fingerprint in the flow. */
  artifactApi(org: string, flow: string, artifact: { fingerprint: string; selector: ArtifactSelector }): string;
  flowPage(org: string, flow: string): string;
  flowApi(org: string, flow: string): string;
  trailPage(org: string, flow: string, trail: string): string;
  trailApi(org: string, flow: string, trail: string): string;
  attestationPage(org: string, attestation: { flow: string; trail: string; id: string }): string;
  attestationApi(org: string, id: string): string;
};

/** What tells a record from the others of its fingerprint in the flow, as query parameters of the artifact read. */
export type ArtifactSelector = { readonly trail?: string; readonly artifact_id?: string };

/** The record from which an artifact has its provenance, in its build flow. */
export type Provenance = {
  flow: string;
  /** The artifact's state in that flow, as the API writes it. */
  state: string;
  fingerprint: string;
  commit: string;
  commitUrl: string;
  buildUrl: string;
  artifactId: string;
  selector: ArtifactSelector;
};

/** A place in the history of an environment. `index` 0: nothing was reported yet. `compliant` null: unknown. */
export type SnapshotRef = { org: string; environment: string; index: number; compliant: boolean | null };

export type EventArtifact = { name: string; fingerprint: string; provenance: Provenance | null };

/** An event of a snapshot about one artifact. `member` is where it happened, null for where it is told. */
export type ArtifactEvent = EventArtifact & {
  annotation: string;
  was: number;
  now: number;
  compliant: boolean | null;
  member: string | null;
};

export type NotificationEvent =
  | {
      subject: "artifact";
      trigger: EnvironmentTrigger;
      at: number;
      snapshot: SnapshotRef;
      artifact: EventArtifact;
      description: string;
    }
  | { subject: "environment"; trigger: EnvironmentTrigger; at: number; snapshot: SnapshotRef; description: string }
  | ({ subject: "flow"; trigger: FlowTrigger; at: number; description: string } & EventFlow);

/** What happened in a flow. `trail` null: an artifact that was reported to the flow alone. */
export type EventFlow = {
  org: string;
  flow: string;
  /** `state` as it was when the notice was made, right after the event. */
  trail: { name: string; state: string } | null;
  artifact: {
    id: string;
    name: string;
    fingerprint: string;
    state: string;
    commit: string;
    commitUrl: string;
    buildUrl: string;
    selector: ArtifactSelector;
  } | null;
  attestation: { id: string; name: string; type: string; compliant: boolean; by: string } | null;
};

export const formatState = (compliant: boolean | null): string =>
  compliant === null ? "unknown" : compliant ? "compliant" : "non-compliant";

/** Where a message leads to: the page of what it is about, and its name. */
export function buildEventLink(notice: NotificationEvent, links: EventLinks): { url: string; text: string } {
  return notice.subject === "flow"
    ? { url: flowFactsPage(notice, links), text: "Look at it" }
    : buildSnapshotLink(notice.snapshot, links);
}

export const buildSnapshotLink = (moment: SnapshotRef, links: EventLinks): { url: string; text: string } => ({
  url: snapshotPageUrl(moment, links),
  text: moment.index === 0 ? `Environment ${moment.environment}` : `Snapshot ${moment.index} of ${moment.environment}`,
});

function flowFactsPage({ org, flow, trail, artifact, attestation }: EventFlow, links: EventLinks): string {
  if (trail && attestation) return links.attestationPage(org, { flow, trail: trail.name, id: attestation.id });
  if (artifact) return links.artifactPage(org, flow, artifact);
  return trail ? links.trailPage(org, flow, trail.name) : links.flowPage(org, flow);
}

/** The page of a snapshot; of the environment where there is none yet. */
export const snapshotPageUrl = ({ org, environment, index }: SnapshotRef, links: EventLinks): string =>
  index === 0 ? links.environmentPage(org, environment) : links.snapshotPage(org, environment, index);

export const snapshotApiUrl = ({ org, environment, index }: SnapshotRef, links: EventLinks): string =>
  index === 0 ? links.environmentApi(org, environment) : links.snapshotApi(org, environment, index);

const instances = (count: number): string => `${count} ${count === 1 ? "instance" : "instances"}`;

/** One sentence about an event of a snapshot. */
export function createArtifactEvent(
  event: ArtifactEvent,
  at: number,
  moment: SnapshotRef,
): Extract<NotificationEvent, { subject: "artifact" }> {
  const { name, fingerprint, provenance } = event;
  return {
    subject: "artifact",
    trigger: triggerOf(event.annotation),
    at,
    snapshot: moment,
    artifact: { name, fingerprint, provenance },
    description: `Artifact ${name} ${describeArtifactEvent(event)} in environment ${event.member ?? moment.environment}`,
  };
}

/** What happened to an artifact, without its name and place. */
export function describeArtifactEvent({
  annotation,
  was,
  now,
  compliant,
}: Pick<ArtifactEvent, "annotation" | "was" | "now" | "compliant">): string {
  switch (annotation) {
    case "exited":
      return `stopped running (${instances(was)})`;
    case "became-compliant":
      return "became compliant";
    case "became-non-compliant":
      return "became non-compliant";
    case "updated-provenance":
      return `has new provenance (${formatState(compliant)})`;
    default:
      return triggerOf(annotation) === "ON_STARTED_ARTIFACT"
        ? `started running (${instances(now)}, ${formatState(compliant)})`
        : "changed";
  }
}

/** @param nonCompliant how many artifacts are the reason. */
export function createEnvironmentEvent(
  trigger: "ON_NON_COMPLIANT_ENV" | "ON_COMPLIANT_ENV",
  at: number,
  moment: SnapshotRef,
  nonCompliant: number,
): Extract<NotificationEvent, { subject: "environment" }> {
  const why = nonCompliant === 1 ? "1 artifact is not compliant" : `${nonCompliant} artifacts are not compliant`;
  const description =
    trigger === "ON_COMPLIANT_ENV"
      ? `Environment ${moment.environment} is compliant again`
      : `Environment ${moment.environment} is non-compliant: ${why}`;
  return { subject: "environment", trigger, at, snapshot: moment, description };
}

/** @param by who allowed it; @param reason as they wrote it. */
export function createAllowedEvent(
  at: number,
  moment: SnapshotRef,
  artifact: EventArtifact,
  { by, reason }: { by: string; reason: string },
): Extract<NotificationEvent, { subject: "artifact" }> {
  const because = reason === "" ? "" : `: ${reason}`;
  return {
    subject: "artifact",
    trigger: "ON_ALLOWED_ARTIFACT",
    at,
    snapshot: moment,
    artifact,
    description: `${by} allowed artifact ${artifact.name} in environment ${moment.environment}${because}`,
  };
}

/** @param by who began or reported it. */
export function createFlowEvent(
  trigger: FlowTrigger,
  at: number,
  facts: EventFlow,
  by: string,
): Extract<NotificationEvent, { subject: "flow" }> {
  const { flow, trail, artifact, attestation } = facts;
  const place = trail ? `trail ${trail.name} of flow ${flow}` : `flow ${flow}`;
  const description = attestation
    ? `${by} reported attestation ${attestation.name} (${attestation.type}) to ${place}: ${formatState(attestation.compliant)}`
    : artifact
      ? `${by} reported artifact ${artifact.name} to ${place}`
      : `${by} began ${place}`;
  return { subject: "flow", trigger, at, description, ...facts };
}

/** A heading of a message: the event in words, and where. */
export const formatHeading = (trigger: EnvironmentTrigger | FlowTrigger, place: string): string =>
  `${place}: ${WORDS[trigger]}`;

const WORDS: Readonly<Record<EnvironmentTrigger | FlowTrigger, string>> = {
  ON_STARTED_ARTIFACT: "artifact started",
  ON_EXITED_ARTIFACT: "artifact stopped",
  ON_SCALED_ARTIFACT: "artifact changed",
  ON_ALLOWED_ARTIFACT: "artifact allowed",
  ON_COMPLIANT_ENV: "compliant",
  ON_NON_COMPLIANT_ENV: "non-compliant",
  ON_STARTED_TRAIL: "trail begun",
  ON_ATTESTED_PROVENANCE: "artifact reported",
  ON_ATTESTATION: "attestation reported",
  ON_APPROVAL: "approval",
  ON_RELEASE: "release",
};
