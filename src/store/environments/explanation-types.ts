/** What an explanation of a snapshot consists of (explanations.ts). All times are epoch seconds. */
import type { Facts } from "../../domain/compliance/environment.ts";
import type { SameNameRecord } from "../../domain/compliance/same-name.ts";
import type { ConditionOutcome } from "../../domain/policy/conditions.ts";
import type { PolicyVerdict } from "../../domain/policy/evaluate.ts";
import type { ExplainedAttestation } from "../attestations/explained-attestations.ts";
import type { ExplainedVersion } from "../policies/explained-versions.ts";
import type { EnvironmentRow } from "./environments.ts";
import type { EvaluatedArtifactRow, SnapshotRow } from "./snapshots.ts";

/** The allowlist entry that allowed an artifact despite its policies. */
export type ExplainedEntry = {
  publicId: string;
  environmentId: number;
  fingerprint: string;
  artifactName: string;
  /** Why it was allowed. */
  description: string;
  userId: string;
  userName: string;
  timestamp: number;
  /** From then on it does not count; null when it does not end. */
  expiresAt: number | null;
};

export type ExplainedArtifact = {
  row: EvaluatedArtifactRow;
  /** Whether it stopped with this snapshot. Its verdict is then the last one it had. */
  exited: boolean;
  compliant: boolean | null;
  allowlist: ExplainedEntry | null;
  facts: Facts;
  /** `conditions`: of each rule, in the order of the verdict. They saw the names that flows had at the evaluation. */
  verdicts: { version: ExplainedVersion; verdict: PolicyVerdict; conditions: ConditionOutcome[][] }[];
  /** By public id: every record that the facts name. */
  attestations: ReadonlyMap<string, ExplainedAttestation>;
  reasons: readonly string[];
  /** Of an artifact that no flow knows: the latest record of its name, with another fingerprint; as of today. */
  sameName: SameNameRecord | null;
  /** Empty when everything is readable and a re-evaluation gave the same result. */
  problems: string[];
};

export type Explanation = {
  environment: EnvironmentRow;
  snapshot: SnapshotRow;
  /** Those in force then, in the order of attachment. */
  policies: ExplainedVersion[];
  /** Of a physical environment, by name; of a selection, in the order of `rankArtifact`. */
  artifacts: ExplainedArtifact[];
  /** Of a logical environment: the member snapshots that it shows, in the order of the members. */
  members: Explanation[];
  /** Of a logical environment: the member snapshot that caused this one. */
  causedBy: { environment: string; index: number } | null;
  /** Problems of the snapshot itself, without those of its artifacts. */
  problems: string[];
};

/**
 * The artifacts to explain: those with the fingerprint, or all for null; of these, `limit` after the first `offset`,
 * in the order of `rankArtifact` across all members of a logical environment.
 */
export type ArtifactSelection = { fingerprint: string | null; offset: number; limit: number };

/** The place of an artifact in an explanation: what runs and fails first, what stopped last. */
export const rankArtifact = ({ exited, compliant }: { exited: boolean; compliant: boolean | null }): number =>
  exited ? 3 : compliant === false ? 0 : compliant === null ? 1 : 2;

/** Every problem of a snapshot, its artifacts and its members, each as one line that says where it is. */
export function problemsOf({ environment, snapshot, artifacts, members, problems }: Explanation): string[] {
  const at = `${environment.name}#${snapshot.idx}`;
  return [
    ...problems.map((problem) => `${at}: ${problem}`),
    ...artifacts.flatMap(({ row, problems: own }) =>
      own.map((problem) => `${at}, '${row.name}' (${row.fingerprint || "no fingerprint"}): ${problem}`),
    ),
    ...members.flatMap(problemsOf),
  ];
}
