/** The triggers of actions, and the trigger of each event (semantics 8.4). */
import { kindOf } from "../snapshot/events.ts";

/** Ours: ON_ALLOWLIST_EXPIRY, an allowlist entry ends in three days; ON_DAILY_CHANGES, what changed in a day. */
export const ENVIRONMENT_TRIGGERS = [
  "ON_STARTED_ARTIFACT",
  "ON_EXITED_ARTIFACT",
  "ON_SCALED_ARTIFACT",
  "ON_ALLOWED_ARTIFACT",
  "ON_ALLOWLIST_EXPIRY",
  "ON_NON_COMPLIANT_ENV",
  "ON_COMPLIANT_ENV",
  "ON_DAILY_CHANGES",
] as const;
export type EnvironmentTrigger = (typeof ENVIRONMENT_TRIGGERS)[number];

/** ON_APPROVAL and ON_RELEASE are accepted but never fire (semantics 13.86). */
export const FLOW_TRIGGERS = [
  "ON_STARTED_TRAIL",
  "ON_ATTESTED_PROVENANCE",
  "ON_ATTESTATION",
  "ON_APPROVAL",
  "ON_RELEASE",
] as const;
export type FlowTrigger = (typeof FLOW_TRIGGERS)[number];

/** The triggers that a snapshot may fire. */
export const SNAPSHOT_TRIGGERS = [
  "ON_STARTED_ARTIFACT",
  "ON_EXITED_ARTIFACT",
  "ON_SCALED_ARTIFACT",
  "ON_NON_COMPLIANT_ENV",
  "ON_COMPLIANT_ENV",
] as const satisfies readonly EnvironmentTrigger[];

/** The triggers of a snapshot that concern one artifact. */
export const ARTIFACT_TRIGGERS = [
  "ON_STARTED_ARTIFACT",
  "ON_EXITED_ARTIFACT",
  "ON_SCALED_ARTIFACT",
] as const satisfies readonly EnvironmentTrigger[];
export type ArtifactTrigger = (typeof ARTIFACT_TRIGGERS)[number];

/** The `event_type` of messages about a trigger (semantics 13.26). */
export const eventTypeOf = (trigger: EnvironmentTrigger | FlowTrigger): string => trigger.slice("ON_".length);

const TRIGGER_OF_KIND = {
  started: "ON_STARTED_ARTIFACT",
  exited: "ON_EXITED_ARTIFACT",
  changed: "ON_SCALED_ARTIFACT",
} as const;

/**
 * The trigger of a snapshot event. `ON_SCALED_ARTIFACT` is a historical name: it fires when a running artifact changes,
 * but not for its number of instances.
 */
export const triggerOf = (annotation: string): ArtifactTrigger => TRIGGER_OF_KIND[kindOf(annotation)];

/**
 * The trigger of a change in an environment's verdict, null without a change. Unknown verdicts in between do not count.
 * A first known verdict of non-compliant is a change, because silence would suggest compliance; a first known verdict
 * of compliant is not.
 * @param change.lastKnown the latest known verdict before, null without one
 * @param change.verdict the current verdict, null if unknown
 */
export function findTransition({
  lastKnown,
  verdict,
}: {
  lastKnown: boolean | null;
  verdict: boolean | null;
}): "ON_NON_COMPLIANT_ENV" | "ON_COMPLIANT_ENV" | null {
  if (verdict === false && lastKnown !== false) return "ON_NON_COMPLIANT_ENV";
  return verdict === true && lastKnown === false ? "ON_COMPLIANT_ENV" : null;
}
