/** What actions listen to, and which of it a change is (semantics 8.4). */
import { kindOf } from "../snapshot/events.ts";

export const ENVIRONMENT_TRIGGERS = [
  "ON_STARTED_ARTIFACT",
  "ON_EXITED_ARTIFACT",
  "ON_SCALED_ARTIFACT",
  "ON_ALLOWED_ARTIFACT",
  "ON_NON_COMPLIANT_ENV",
  "ON_COMPLIANT_ENV",
] as const;
export type EnvironmentTrigger = (typeof ENVIRONMENT_TRIGGERS)[number];

/** The last two stay valid and never fire (decision 86). */
export const FLOW_TRIGGERS = [
  "ON_STARTED_TRAIL",
  "ON_ATTESTED_PROVENANCE",
  "ON_ATTESTATION",
  "ON_APPROVAL",
  "ON_RELEASE",
] as const;
export type FlowTrigger = (typeof FLOW_TRIGGERS)[number];

/** Those that a snapshot may raise. */
export const SNAPSHOT_TRIGGERS = [
  "ON_STARTED_ARTIFACT",
  "ON_EXITED_ARTIFACT",
  "ON_SCALED_ARTIFACT",
  "ON_NON_COMPLIANT_ENV",
  "ON_COMPLIANT_ENV",
] as const satisfies readonly EnvironmentTrigger[];

/** Those of them that are about one artifact. */
export const ARTIFACT_TRIGGERS = [
  "ON_STARTED_ARTIFACT",
  "ON_EXITED_ARTIFACT",
  "ON_SCALED_ARTIFACT",
] as const satisfies readonly EnvironmentTrigger[];
export type ArtifactTrigger = (typeof ARTIFACT_TRIGGERS)[number];

/** The word of messages for a trigger (decision 26). */
export const eventTypeOf = (trigger: EnvironmentTrigger | FlowTrigger): string => trigger.slice("ON_".length);

const OF_KIND = {
  started: "ON_STARTED_ARTIFACT",
  exited: "ON_EXITED_ARTIFACT",
  changed: "ON_SCALED_ARTIFACT",
} as const;

/**
 * What an event of a snapshot raises. `ON_SCALED_ARTIFACT` is a historic name: a running artifact changed, never its
 * number of instances.
 */
export const triggerOf = (annotation: string): ArtifactTrigger => OF_KIND[kindOf(annotation)];

/**
 * Whether a snapshot turns its environment over. `lastKnown` is the latest state before it that was known, null when
 * there was none: states in between that nobody knew are no news of their own. An environment that turns out to be
 * non-compliant as soon as something is known of it has turned too, because silence would read as compliance; one that
 * turns out to be compliant has not.
 */
export function findTransition(
  lastKnown: boolean | null,
  state: boolean | null,
): "ON_NON_COMPLIANT_ENV" | "ON_COMPLIANT_ENV" | null {
  if (state === false && lastKnown !== false) return "ON_NON_COMPLIANT_ENV";
  return state === true && lastKnown === false ? "ON_COMPLIANT_ENV" : null;
}
