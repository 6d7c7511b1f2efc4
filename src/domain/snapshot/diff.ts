/**
 * When a snapshot is made, and what it says of each artifact: the table of semantics 6.4 as one pure function. An
 * artifact is a name with a fingerprint; the same fingerprint under two names is two artifacts, and so is one name with
 * two.
 */

/** What made somebody look at the environment again. `report`: a reporter; `policies`: attached or detached. */
export type Cause = "report" | "policies" | "policy_version" | "allowlist";

/**
 * An artifact at one moment. `provenance` is a text that differs when the provenance does (compliance/environment.ts).
 */
export type RunningArtifact = {
  name: string;
  fingerprint: string;
  /** Number of instances, at least 1. */
  instances: number;
  compliant: boolean | null;
  provenance: string;
};

export type Annotation =
  | "started-compliant"
  | "started-non-compliant"
  | "started-unknown"
  | "exited"
  | "became-compliant"
  | "became-non-compliant"
  | "updated-provenance"
  | "unchanged";

/** What a snapshot says of an artifact: how it came to be so, and its instances before and after. */
export type AnnotatedArtifact<T extends RunningArtifact> = {
  artifact: T;
  annotation: Annotation;
  was: number;
  now: number;
};

export type Comparison<Before extends RunningArtifact, After extends RunningArtifact> = {
  /** Whether this makes a snapshot. */
  snapshot: boolean;
  /** Everything that runs afterwards, in the order given. */
  running: AnnotatedArtifact<After>[];
  /** What no longer runs. */
  exited: AnnotatedArtifact<Before>[];
};

/**
 * Compares what ran in the latest snapshot with what runs now.
 * @param before null when there is no snapshot yet: then even an empty report makes one.
 * @param after evaluated anew; for other causes than a report the same artifacts as before.
 */
export function compareRunning<Before extends RunningArtifact, After extends RunningArtifact>(
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
    const known = earlier.get(key);
    earlier.delete(key);
    const now = artifact.instances;
    if (!known) {
      started = true;
      return { artifact, annotation: startOf(artifact.compliant), was: 0, now };
    }
    const was = known.instances;
    if (known.compliant !== artifact.compliant) {
      flipped = true;
      return { artifact, annotation: flipTo(artifact.compliant), was, now };
    }
    if (known.provenance !== artifact.provenance) {
      enriched = true;
      return { artifact, annotation: "updated-provenance", was, now };
    }
    return { artifact, annotation: "unchanged", was, now };
  });
  const exited = [...earlier.values()].map(
    (artifact): AnnotatedArtifact<Before> => ({ artifact, annotation: "exited", was: artifact.instances, now: 0 }),
  );

  const moved = started || flipped || exited.length > 0;
  const snapshot =
    before === null ? cause === "report" : cause === "policies" || moved || (cause === "report" && enriched);
  return { snapshot, running, exited };
}

/** The identity of an artifact as one text. Fingerprints have a fixed length or none, so no two pairs share a text. */
export const identityOf = ({ name, fingerprint }: { name: string; fingerprint: string }): string =>
  `${fingerprint}:${name}`;

function startOf(compliant: boolean | null): Annotation {
  if (compliant === null) return "started-unknown";
  return compliant ? "started-compliant" : "started-non-compliant";
}

/** There is no word for becoming unknown, which happens when the last policy goes: such an artifact is unchanged. */
function flipTo(compliant: boolean | null): Annotation {
  if (compliant === null) return "unchanged";
  return compliant ? "became-compliant" : "became-non-compliant";
}
