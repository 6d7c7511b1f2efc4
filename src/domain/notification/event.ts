/**
 * Notification events: an event in an environment or a flow, with everything that messages about it contain. The caller
 * supplies the facts and the URLs of pages.
 */
import type { EnvironmentTrigger, FlowTrigger } from "./triggers.ts";
import { formatDaysLeft, formatMinute } from "../time.ts";
import { triggerOf } from "./triggers.ts";

/** Builds URLs of pages and of API objects. */
export type EventLinks = {
  environmentPage(org: string, environment: string): string;
  environmentApi(org: string, environment: string): string;
  snapshotPage(org: string, environment: string, index: number): string;
  snapshotApi(org: string, environment: string, index: number): string;
  artifactPage(org: string, flow: string, artifact: { fingerprint: string; id: string }): string;
  /** @param selector query parameters that select the record among those of its fingerprint in the flow */
  artifactApi(org: string, flow: string, artifact: { fingerprint: string; selector: ArtifactSelector }): string;
  flowPage(org: string, flow: string): string;
  flowApi(org: string, flow: string): string;
  trailPage(org: string, flow: string, trail: string): string;
  trailApi(org: string, flow: string, trail: string): string;
  attestationPage(org: string, attestation: { flow: string; trail: string; id: string }): string;
  attestationApi(org: string, id: string): string;
};

/** Query parameters of the artifact read that select a record among those of its fingerprint in the flow. */
export type ArtifactSelector = { readonly trail?: string; readonly artifact_id?: string };

/** The artifact record in the build flow that gives an artifact its provenance. */
export type Provenance = {
  flow: string;
  /** The artifact's state in that flow, as the API writes it. */
  state: string;
  fingerprint: string;
  /** null: reported without one. */
  commit: string | null;
  commitUrl: string;
  buildUrl: string;
  artifactId: string;
  selector: ArtifactSelector;
};

/** A snapshot of an environment. `index` is 0 before the first report; `compliant` null means unknown. */
export type SnapshotRef = { org: string; environment: string; index: number; compliant: boolean | null };

export type EventArtifact = { name: string; fingerprint: string; provenance: Provenance | null };

/**
 * An event of a snapshot about one artifact. `member` is the member environment of a logical environment in which it
 * happened, null for a physical one.
 */
export type ArtifactEvent = EventArtifact & {
  annotation: string;
  /** Instances before and after. */
  was: number;
  now: number;
  compliant: boolean | null;
  member: string | null;
  /** Why it is not compliant, in a few words; absent where it is, and where no person reads it. */
  why?: string;
};

/** An artifact that is not compliant, and why, in a few words. */
export type ArtifactFailure = { name: string; why: string };

/** An allowlist entry with an end, in epoch seconds. */
type AllowlistEntry = { id: string; reason: string; expiresAt: number };

export type NotificationEvent =
  | {
      subject: "artifact";
      trigger: EnvironmentTrigger;
      at: number;
      snapshot: SnapshotRef;
      artifact: EventArtifact;
      description: string;
      /** Of an allowlist entry that ends soon. */
      allowlistEntry?: AllowlistEntry;
    }
  | {
      subject: "environment";
      trigger: EnvironmentTrigger;
      at: number;
      snapshot: SnapshotRef;
      description: string;
      nonCompliant: number;
      /** The artifacts that changed last, for messages to people. */
      failing: readonly ArtifactFailure[];
    }
  | ({ subject: "flow"; trigger: FlowTrigger; at: number; description: string } & EventFlow);

/** An event in a flow. `trail` is null for an artifact reported to the flow without a trail. */
export type EventFlow = {
  org: string;
  flow: string;
  /** `state` at the time of the message, right after the event. */
  trail: { name: string; state: string } | null;
  artifact: {
    id: string;
    name: string;
    fingerprint: string;
    state: string;
    commit: string | null;
    commitUrl: string;
    buildUrl: string;
    selector: ArtifactSelector;
  } | null;
  attestation: { id: string; name: string; type: string; compliant: boolean; by: string } | null;
};

export const formatState = (compliant: boolean | null): string =>
  compliant === null ? "unknown" : compliant ? "compliant" : "non-compliant";

/** The link of a message: the page of its subject, and a text. */
export function buildEventLink(event: NotificationEvent, links: EventLinks): { url: string; text: string } {
  return event.subject === "flow"
    ? { url: flowEventPageUrl(event, links), text: "View details" }
    : buildSnapshotLink(event.snapshot, links);
}

export const buildSnapshotLink = (snapshot: SnapshotRef, links: EventLinks): { url: string; text: string } => ({
  url: snapshotPageUrl(snapshot, links),
  text:
    snapshot.index === 0
      ? `Environment ${snapshot.environment}`
      : `Snapshot ${snapshot.index} of ${snapshot.environment}`,
});

function flowEventPageUrl({ org, flow, trail, artifact, attestation }: EventFlow, links: EventLinks): string {
  if (trail && attestation) return links.attestationPage(org, { flow, trail: trail.name, id: attestation.id });
  if (artifact) return links.artifactPage(org, flow, artifact);
  return trail ? links.trailPage(org, flow, trail.name) : links.flowPage(org, flow);
}

/** The page of a snapshot, or of the environment before its first snapshot. */
export const snapshotPageUrl = ({ org, environment, index }: SnapshotRef, links: EventLinks): string =>
  index === 0 ? links.environmentPage(org, environment) : links.snapshotPage(org, environment, index);

export const snapshotApiUrl = ({ org, environment, index }: SnapshotRef, links: EventLinks): string =>
  index === 0 ? links.environmentApi(org, environment) : links.snapshotApi(org, environment, index);

const formatInstances = (count: number): string => `${count} ${count === 1 ? "instance" : "instances"}`;

/** @param at epoch seconds */
export function createArtifactEvent(
  event: ArtifactEvent,
  at: number,
  snapshot: SnapshotRef,
): Extract<NotificationEvent, { subject: "artifact" }> {
  const { name, fingerprint, provenance } = event;
  const environment = event.member ?? snapshot.environment;
  return {
    subject: "artifact",
    trigger: triggerOf(event.annotation),
    at,
    snapshot,
    artifact: { name, fingerprint, provenance },
    description: `Artifact ${name} ${describeArtifactEvent(event)} in environment ${environment}`,
  };
}

/** Describes an artifact event without the names of artifact and environment. */
export function describeArtifactEvent({
  annotation,
  was,
  now,
  compliant,
}: Pick<ArtifactEvent, "annotation" | "was" | "now" | "compliant">): string {
  switch (annotation) {
    case "exited":
      return `stopped running (${formatInstances(was)})`;
    case "became-compliant":
      return "became compliant";
    case "became-non-compliant":
      return "became non-compliant";
    case "updated-provenance":
      return `has new provenance (${formatState(compliant)})`;
    default:
      return triggerOf(annotation) === "ON_STARTED_ARTIFACT"
        ? `started running (${formatInstances(now)}, ${formatState(compliant)})`
        : "changed";
  }
}

/**
 * @param details.at epoch seconds
 * @param details.nonCompliant number of artifacts that are not compliant
 * @param details.failing the first of them
 */
export function createEnvironmentEvent(
  trigger: "ON_NON_COMPLIANT_ENV" | "ON_COMPLIANT_ENV",
  {
    at,
    snapshot,
    nonCompliant,
    failing,
  }: { at: number; snapshot: SnapshotRef; nonCompliant: number; failing: readonly ArtifactFailure[] },
): Extract<NotificationEvent, { subject: "environment" }> {
  const why = nonCompliant === 1 ? "1 artifact is not compliant" : `${nonCompliant} artifacts are not compliant`;
  const description =
    trigger === "ON_COMPLIANT_ENV"
      ? `Environment ${snapshot.environment} is compliant again`
      : `Environment ${snapshot.environment} is non-compliant: ${why}`;
  return { subject: "environment", trigger, at, snapshot, description, nonCompliant, failing };
}

/**
 * @param details.at epoch seconds
 * @param details.by name of the user who allowed the artifact
 * @param details.reason the user's reason, "" without one
 * @param details.until the end of the entry in epoch seconds, null without one
 */
export function createAllowedEvent(
  artifact: EventArtifact,
  {
    at,
    snapshot,
    by,
    reason,
    until,
  }: { at: number; snapshot: SnapshotRef; by: string; reason: string; until: number | null },
): Extract<NotificationEvent, { subject: "artifact" }> {
  const because = `${until === null ? "" : ` until ${formatMinute(until)}`}${reason === "" ? "" : `: ${reason}`}`;
  return {
    subject: "artifact",
    trigger: "ON_ALLOWED_ARTIFACT",
    at,
    snapshot,
    artifact,
    description: `${by} allowed artifact ${artifact.name} in environment ${snapshot.environment}${because}`,
  };
}

/**
 * An allowlist entry ends soon.
 * @param details.at epoch seconds
 */
export function createAllowlistExpiryEvent(
  artifact: EventArtifact,
  { at, snapshot, entry }: { at: number; snapshot: SnapshotRef; entry: AllowlistEntry },
): Extract<NotificationEvent, { subject: "artifact" }> {
  const reason = entry.reason === "" ? "" : ` (${entry.reason})`;
  return {
    subject: "artifact",
    trigger: "ON_ALLOWLIST_EXPIRY",
    at,
    snapshot,
    artifact,
    allowlistEntry: entry,
    description:
      `The allowlist entry for artifact ${artifact.name} in environment ${snapshot.environment}${reason} ` +
      `expires in ${formatDaysLeft(entry.expiresAt, at)}, on ${formatMinute(entry.expiresAt)}`,
  };
}

/**
 * @param details.at epoch seconds
 * @param details.by name of the user who began the trail or sent the report
 */
export function createFlowEvent(
  trigger: FlowTrigger,
  facts: EventFlow,
  { at, by }: { at: number; by: string },
): Extract<NotificationEvent, { subject: "flow" }> {
  return { subject: "flow", trigger, at, description: `${by} ${describeFlowEvent(facts)}`, ...facts };
}

function describeFlowEvent({ flow, trail, artifact, attestation }: EventFlow): string {
  const place = trail ? `trail ${trail.name} of flow ${flow}` : `flow ${flow}`;
  if (attestation) {
    const { name, type, compliant } = attestation;
    return `reported attestation ${name} (${type}) to ${place}: ${formatState(compliant)}`;
  }
  return artifact ? `reported artifact ${artifact.name} to ${place}` : `began ${place}`;
}

/**
 * The heading of a message.
 * @param place name of the environment or flow
 */
export const formatHeading = (trigger: EnvironmentTrigger | FlowTrigger, place: string): string =>
  `${place}: ${HEADINGS[trigger]}`;

const HEADINGS: Readonly<Record<EnvironmentTrigger | FlowTrigger, string>> = {
  ON_STARTED_ARTIFACT: "artifact started",
  ON_EXITED_ARTIFACT: "artifact stopped",
  ON_SCALED_ARTIFACT: "artifact changed",
  ON_ALLOWED_ARTIFACT: "artifact allowed",
  ON_ALLOWLIST_EXPIRY: "allowlist entry expires soon",
  ON_COMPLIANT_ENV: "compliant",
  ON_NON_COMPLIANT_ENV: "non-compliant",
  ON_DAILY_CHANGES: "what changed",
  ON_STARTED_TRAIL: "trail begun",
  ON_ATTESTED_PROVENANCE: "artifact reported",
  ON_ATTESTATION: "attestation reported",
  ON_APPROVAL: "approval",
  ON_RELEASE: "release",
};
