/** The result of a preview while it is made: counts all artifacts, and lists those that change while there is room. */
import { verdictWord } from "../../domain/compliance/preview.ts";
import type { PreviewCause, PreviewedVerdict, PreviewReason, VerdictWord } from "../../domain/compliance/preview.ts";
import type { TrailFlip } from "./preview-hypotheses.ts";

export type PreviewBounds = {
  environments: number;
  /** Artifacts to evaluate, over all environments. */
  artifacts: number;
  /** Changed artifacts to list, over all environments, and reasons to list with each; all are counted. */
  listed: number;
  reasons: number;
  /** UTF-16 code units of all reasons, and of all causes as JSON. */
  chars: number;
  /** Whether the time is over; asked before each artifact. */
  isOver(): boolean;
};

type PreviewedArtifact = {
  name: string;
  fingerprint: string;
  /** The flow and trail that it was reported to, of several the first; null where there is none. */
  flow: string | null;
  trail: string | null;
  before: VerdictWord;
  after: VerdictWord;
  reasons_before: string[];
  reasons: PreviewReason[];
  causes: PreviewCause[];
  /** Reasons that are not listed. */
  further_reasons: number;
  /** Whether the allowlist would accept it, whatever its policies say. */
  allowed: boolean;
  stale: boolean;
};

type UnknownArtifact = { name: string; fingerprint: string; reason: string };

/** `before` and `after` are the verdict on the environment; UNKNOWN while artifacts are left that decide it. */
export type EnvironmentPreview = {
  environment: string;
  /** Index of the latest snapshot, 0 before the first. */
  snapshot: number;
  before: VerdictWord;
  after: VerdictWord;
  artifacts: number;
  unchanged: number;
  would_fail: number;
  would_pass: number;
  /** No policy would be left to decide. */
  would_be_unknown: number;
  /** Part of `unchanged`. */
  kept_by_allowlist: number;
  unknown: number;
  stale: number;
  /** Failing first. */
  flips: PreviewedArtifact[];
  allowlisted: PreviewedArtifact[];
  unknown_artifacts: UnknownArtifact[];
  /** Artifacts of the three lists that they have no room for. */
  not_listed: number;
};

/**
 * `snapshot`: index of its latest one, 0 before the first. It has the verdict, unless the preview evaluated the member
 * (`isEvaluated`).
 */
export type DecidingMember = {
  id: number;
  environment: string;
  snapshot: number;
  verdict: VerdictWord;
  isEvaluated: boolean;
};

export type LogicalPreview = {
  environment: string;
  before: VerdictWord;
  after: VerdictWord;
  /** How many there would be. */
  members: number;
  /** The members with the verdict that decides now; none without members. */
  deciding_before: DecidingMember[];
  further_deciding_before: number;
  /** The same after the change. */
  deciding: DecidingMember[];
  further_deciding: number;
};

/** `environments_left` counts those that are missing or not complete. */
type PreviewStop = {
  reason: "environments" | "artifacts" | "time";
  environments_left: number;
  artifacts_left: number;
};

export type ChangePreview = {
  /** The verdict on the trail that the change is about; null for another change. */
  trail: TrailFlip | null;
  environments: EnvironmentPreview[];
  /** What becomes of the logical environments that include an evaluated one, or whose members change. */
  logical_environments: LogicalPreview[];
  stopped: PreviewStop | null;
};

/** What is left of the bounds while the environments are evaluated. */
export type Rest = PreviewBounds & { stop: PreviewStop["reason"] | null };

/** @property isAllowed whether the allowlist would accept the artifact */
export type Previewed = PreviewedVerdict & { isAllowed: boolean } & Pick<PreviewedArtifact, "flow" | "trail">;

export type Attempt<T> = { value: T } | { failed: string };

/** The failing ones come first in an environment. */
export const rankOf = ({ after }: PreviewedArtifact): number =>
  ["NON-COMPLIANT", "UNKNOWN", "COMPLIANT"].indexOf(after);

export const emptyPreview = (
  place: Pick<EnvironmentPreview, "environment" | "snapshot" | "artifacts">,
): EnvironmentPreview => ({
  ...place,
  before: "UNKNOWN",
  after: "UNKNOWN",
  unchanged: 0,
  would_fail: 0,
  would_pass: 0,
  would_be_unknown: 0,
  kept_by_allowlist: 0,
  unknown: 0,
  stale: 0,
  flips: [],
  allowlisted: [],
  unknown_artifacts: [],
  not_listed: 0,
});

/** Counts an artifact, and lists it if it changes and the bounds have room. */
export function addArtifact(
  preview: EnvironmentPreview,
  {
    row,
    previewed,
    isStale,
  }: { row: { name: string; fingerprint: string }; previewed: Attempt<Previewed>; isStale: boolean },
  rest: Rest,
): void {
  const { name, fingerprint } = row;
  if ("failed" in previewed) {
    preview.unknown += 1;
    const reason = `It cannot be evaluated: ${previewed.failed}`;
    if (hasRoom(preview, rest)) preview.unknown_artifacts.push({ name, fingerprint, reason });
    return;
  }
  const { outcome, before, after, isAllowed, flow, trail } = previewed.value;
  if (outcome === "kept_by_allowlist") preview.kept_by_allowlist += 1;
  preview[outcome === "kept_by_allowlist" ? "unchanged" : outcome] += 1;
  if (outcome === "unchanged" || !hasRoom(preview, rest)) return;
  const reasonsBefore = takeReasons(previewed.value.reasonsBefore, rest, (text) => text.length);
  const reasons = takeReasons(previewed.value.reasons, rest, ({ text }) => text.length);
  const causes = takeReasons(previewed.value.causes, rest, (cause) => JSON.stringify(cause).length);
  const total = previewed.value.reasonsBefore.length + previewed.value.reasons.length;
  (outcome === "kept_by_allowlist" ? preview.allowlisted : preview.flips).push({
    name,
    fingerprint,
    flow,
    trail,
    before: verdictWord(before),
    after: verdictWord(after),
    reasons_before: reasonsBefore,
    reasons,
    causes,
    further_reasons: total - reasonsBefore.length - reasons.length,
    allowed: isAllowed,
    stale: isStale,
  });
}

function hasRoom(preview: EnvironmentPreview, rest: Rest): boolean {
  if (rest.listed > 0) {
    rest.listed -= 1;
    return true;
  }
  preview.not_listed += 1;
  return false;
}

function takeReasons<T>(reasons: readonly T[], rest: Rest, lengthOf: (reason: T) => number): T[] {
  const taken: T[] = [];
  for (const reason of reasons.slice(0, rest.reasons)) {
    if (lengthOf(reason) > rest.chars) break;
    rest.chars -= lengthOf(reason);
    taken.push(reason);
  }
  return taken;
}
