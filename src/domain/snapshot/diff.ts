/**
 * Whether a change makes a new snapshot, and the annotation of each artifact in it: the table of semantics 6.4 as one
 * pure function. An artifact is a name with a fingerprint: one fingerprint under two names is two artifacts, and so is
 * one name with two fingerprints.
 */

/** Why the environment is re-evaluated. `report`: a new report; `policies`: a policy was attached or detached. */
export type Cause = "report" | "policies" | "policy_version" | "allowlist";

export type RunningArtifact = {
  name: string;
  fingerprint: string;
  /** Number of instances, at least 1. */
  instances: number;
  compliant: boolean | null;
};

/**
 * A running artifact that was just evaluated. `hasNewProvenance`: whether its provenance (compliance/environment.ts)
 * differs from that in the latest snapshot, if it ran there.
 */
export type EvaluatedArtifact = RunningArtifact & { hasNewProvenance: boolean };

export type Annotation =
  | "started-compliant"
  | "started-non-compliant"
  | "started-unknown"
  | "exited"
  | "became-compliant"
  | "became-non-compliant"
  | "updated-provenance"
  | "unchanged";

/** An artifact in a snapshot, with its annotation and its number of instances before and after. */
export type AnnotatedArtifact<T extends RunningArtifact> = {
  artifact: T;
  annotation: Annotation;
  was: number;
  now: number;
};

type Comparison<Before extends RunningArtifact, After extends EvaluatedArtifact> = {
  /** Whether the change makes a new snapshot. */
  snapshot: boolean;
  /** Everything that runs afterwards, in the given order. */
  running: AnnotatedArtifact<After>[];
  /** Everything that no longer runs. */
  exited: AnnotatedArtifact<Before>[];
};

/**
 * Compares the artifacts of the latest snapshot with those that run now.
 * @param before null before the first snapshot, which even an empty report makes
 * @param after newly evaluated; for causes other than a report, the same artifacts as before
 */
export function compareRunning<Before extends RunningArtifact, After extends EvaluatedArtifact>(
  before: readonly Before[] | null,
  after: readonly After[],
  cause: Cause,
): Comparison<Before, After> {
  const earlier = new Map<string, Before>();
  for (const artifact of before ?? []) earlier.set(identityOf(artifact), artifact);

  let started = false;
  let flipped = false;
  let enriched = false;
  const running = after.map((artifact): AnnotatedArtifact<After> => {
    const key = identityOf(artifact);
    const previous = earlier.get(key);
    earlier.delete(key);
    const now = artifact.instances;
    if (!previous) {
      started = true;
      return { artifact, annotation: startAnnotationOf(artifact.compliant), was: 0, now };
    }
    const was = previous.instances;
    if (previous.compliant !== artifact.compliant) {
      flipped = true;
      return { artifact, annotation: changeAnnotationOf(artifact.compliant), was, now };
    }
    if (artifact.hasNewProvenance) {
      enriched = true;
      return { artifact, annotation: "updated-provenance", was, now };
    }
    return { artifact, annotation: "unchanged", was, now };
  });
  const exited = [...earlier.values()].map(
    (artifact): AnnotatedArtifact<Before> => ({ artifact, annotation: "exited", was: artifact.instances, now: 0 }),
  );

  const changed = started || flipped || exited.length > 0;
  const snapshot =
    before === null ? cause === "report" : cause === "policies" || changed || (cause === "report" && enriched);
  return { snapshot, running, exited };
}

/** The identity of an artifact as a text. It is unique, because fingerprints are empty or of a fixed length. */
export const identityOf = ({ name, fingerprint }: { name: string; fingerprint: string }): string =>
  `${fingerprint}:${name}`;

function startAnnotationOf(compliant: boolean | null): Annotation {
  if (compliant === null) return "started-unknown";
  return compliant ? "started-compliant" : "started-non-compliant";
}

/** The contract has no annotation for a verdict that becomes unknown, as when the last policy is detached. */
function changeAnnotationOf(compliant: boolean | null): Annotation {
  if (compliant === null) return "unchanged";
  return compliant ? "became-compliant" : "became-non-compliant";
}
