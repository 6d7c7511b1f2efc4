/** What an explanation of a snapshot consists of (explanations.ts). All times are epoch seconds. */
import type { Facts } from "../../domain/compliance/environment.ts";
import type { PolicyDocument } from "../../domain/policy/document.ts";
import type { PolicyVerdict } from "../../domain/policy/evaluate.ts";
import type { EnvironmentRow } from "./environments.ts";
import type { EvaluatedArtifactRow, SnapshotRow } from "./snapshots.ts";

/** A policy version and its author. */
export type ExplainedVersion = {
  versionId: number;
  /** Public id of the policy. */
  policyId: string;
  policy: string;
  version: number;
  comment: string;
  createdBy: string;
  createdAt: number;
  /** null when the stored text is not a valid policy, which is a problem. */
  document: PolicyDocument | null;
};

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

/** A record that an evaluation considered, as it was reported. */
export type ExplainedAttestation = {
  publicId: string;
  name: string;
  /** The stored type; `override` for an override. */
  type: string;
  isCompliant: boolean;
  /** Set for an override: the type of the record it overrides. */
  overriddenType: string | null;
  /** Set for a control decision: the version of the control at the time; null where the control did not exist. */
  controlVersion: number | null;
  description: string | null;
  reasons: string[];
  reportedBy: string;
  createdAt: number;
  /** SHA-256 of the attached file. */
  evidenceDigest: string | null;
  evidenceFilename: string | null;
};

export type ExplainedArtifact = {
  row: EvaluatedArtifactRow;
  /** Whether it stopped with this snapshot. Its verdict is then the last one it had. */
  exited: boolean;
  compliant: boolean | null;
  allowlist: ExplainedEntry | null;
  facts: Facts;
  verdicts: { version: ExplainedVersion; verdict: PolicyVerdict }[];
  /** By public id: every record that the facts name. */
  attestations: ReadonlyMap<string, ExplainedAttestation>;
  reasons: readonly string[];
  /** Empty when everything is readable and a re-evaluation gave the same result. */
  problems: string[];
};

export type Explanation = {
  environment: EnvironmentRow;
  snapshot: SnapshotRow;
  /** Those in force then, in the order of attachment. */
  policies: ExplainedVersion[];
  /** Of a physical environment, ordered by name. */
  artifacts: ExplainedArtifact[];
  /** Of a logical environment: the member snapshots that it shows, in the order of the members. */
  members: Explanation[];
  /** Of a logical environment: the member snapshot that caused this one. */
  causedBy: { environment: string; index: number } | null;
  /** Problems of the snapshot itself, without those of its artifacts. */
  problems: string[];
};

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
