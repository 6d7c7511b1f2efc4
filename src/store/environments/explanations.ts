/**
 * Why a snapshot says what it says, from the database alone: its artifacts with the facts they were judged on, the
 * policy versions and attestations that decided, and whether judging them again gives the same. Reads, writes nothing.
 * Whatever of it is damaged is told in `problems` instead of being thrown, so that the rest can still be read.
 */
import { expandStoredVerdict, verdictWithFlowNames, withFlowNames } from "../../domain/compliance/environment.ts";
import type { Facts, FlowRecord, Evaluation, StoredVerdict } from "../../domain/compliance/environment.ts";
import { checkLogicalSnapshot, checkSnapshot, replay } from "../../domain/compliance/replay.ts";
import type { SnapshotVerdict } from "../../domain/compliance/replay.ts";
import type { PolicyDocument } from "../../domain/policy/document.ts";
import type { PolicyVerdict } from "../../domain/policy/evaluate.ts";
import { reasons as reasonsOf } from "../../domain/policy/reasons.ts";
import { fromSqlBoolean } from "../db/database.ts";
import type { EnvironmentRow, environmentStore } from "./environments.ts";
import type { flowStore } from "../flows/flows.ts";
import type { policyStore } from "../policies/policies.ts";
import type { EvaluatedArtifactRow, SnapshotRow, snapshotStore } from "./snapshots.ts";
import type { Db } from "../db/types.ts";

/** A policy version and who made it. */
export type ExplainedVersion = {
  versionId: number;
  /** Public id of the policy. */
  policyId: string;
  policy: string;
  version: number;
  comment: string;
  createdBy: string;
  /** Epoch seconds. */
  createdAt: number;
  /** null when the stored text is no policy, which is a problem. */
  document: PolicyDocument | null;
};

/** The allowlist entry that made up for what the policies miss. */
export type ExplainedEntry = {
  publicId: string;
  environmentId: number;
  fingerprint: string;
  artifactName: string;
  /** Why it was allowed. */
  description: string;
  userId: string;
  userName: string;
  /** Epoch seconds. */
  timestamp: number;
};

/** A record that an evaluation looked at, as it was reported. */
export type ExplainedAttestation = {
  publicId: string;
  name: string;
  /** Label as stored; `override` for an override. */
  type: string;
  isCompliant: boolean;
  /** Of an override: the type of what it overrides. */
  overriddenType: string | null;
  /** Of a decision: the version that its control had then; null where there was no such control. */
  controlVersion: number | null;
  description: string | null;
  reasons: string[];
  reportedBy: string;
  /** Epoch seconds. */
  createdAt: number;
  /** SHA-256 of the attached file. */
  evidenceDigest: string | null;
  evidenceFilename: string | null;
};

export type ExplainedArtifact = {
  row: EvaluatedArtifactRow;
  /** Whether it stopped with this snapshot; its verdict is then the last one it had. */
  exited: boolean;
  compliant: boolean | null;
  allowlist: ExplainedEntry | null;
  facts: Facts;
  verdicts: { version: ExplainedVersion; verdict: PolicyVerdict }[];
  /** By public id: all that the facts name. */
  attestations: ReadonlyMap<string, ExplainedAttestation>;
  reasons: readonly string[];
  /** Empty when everything is readable and judging again gave the same answer. */
  problems: string[];
};

export type Explanation = {
  environment: EnvironmentRow;
  snapshot: SnapshotRow;
  /** In force then, in the order of attaching. */
  policies: ExplainedVersion[];
  /** Of a physical environment, by name. */
  artifacts: ExplainedArtifact[];
  /** Of a logical environment: the snapshots of its members that it shows, in their order. */
  members: Explanation[];
  /** Of a logical environment: the snapshot of a member that caused this one. */
  causedBy: { environment: string; index: number } | null;
  /** What is wrong with the snapshot beside its artifacts. */
  problems: string[];
};

export type ExplanationParts = {
  environments: ReturnType<typeof environmentStore>;
  flows: ReturnType<typeof flowStore>;
  policies: ReturnType<typeof policyStore>;
  snapshots: ReturnType<typeof snapshotStore>;
};

type VersionRow = {
  id: number;
  policy_public_id: string;
  name: string;
  version: number;
  comment: string;
  created_by: string;
  timestamp: number;
};
type EntryRow = {
  public_id: string;
  environment_id: number;
  fingerprint: string;
  artifact_name: string;
  description: string;
  user_id: string;
  user_name: string;
  timestamp: number;
};
type RecordRow = {
  public_id: string;
  name: string;
  type: string;
  is_compliant: 0 | 1;
  overridden_type: string | null;
  control_version: number | null;
  description: string | null;
  reasons_json: string;
  reported_by: string;
  created_at: number;
  evidence_digest: string | null;
  evidence_filename: string | null;
};

export function explanationStore(db: Db, { environments, flows, policies, snapshots }: ExplanationParts) {
  const versionById = db.prepare<[number], VersionRow>(
    `SELECT v.id, p.public_id AS policy_public_id, p.name, v.version, v.comment, v.created_by, v.timestamp
     FROM policy_versions v JOIN policies p ON p.id = v.policy_id WHERE v.id = ?`,
  );
  const entryById = db.prepare<[number], EntryRow>(
    "SELECT public_id, environment_id, fingerprint, artifact_name, description, user_id, user_name, timestamp FROM allowlist_entries WHERE id = ?",
  );
  const recordByPublicId = db.prepare<[string, number], RecordRow>(
    `SELECT public_id, name, type, is_compliant, overridden_type, control_version, description, reasons_json, reported_by, created_at, evidence_digest, evidence_filename
     FROM attestations WHERE public_id = ? AND organization_id = ?`,
  );
  const namesOf = db.prepare<[number], { name: string }>(
    "SELECT name FROM environments WHERE organization_id = ? ORDER BY name",
  );

  /** A policy version by its key. @throws Error when it is gone. */
  function version(versionId: number): ExplainedVersion {
    const row = versionById.get(versionId);
    if (!row) throw new Error(`policy version ${versionId} is gone`);
    return {
      versionId,
      policyId: row.policy_public_id,
      policy: row.name,
      version: row.version,
      comment: row.comment,
      createdBy: row.created_by,
      createdAt: row.timestamp,
      document: attempt(() => policies.getDocument(versionId)),
    };
  }

  function entryOf(row: EvaluatedArtifactRow, problems: string[]): ExplainedEntry | null {
    if (row.allowlist_id === null) return null;
    const entry = entryById.get(row.allowlist_id);
    if (!entry) {
      problems.push(`the allowlist entry ${row.allowlist_id} is gone`);
      return null;
    }
    if (entry.fingerprint !== row.fingerprint || entry.environment_id !== row.environment_id)
      problems.push(`the allowlist entry ${entry.public_id} is for another artifact or environment`);
    return {
      publicId: entry.public_id,
      environmentId: entry.environment_id,
      fingerprint: entry.fingerprint,
      artifactName: entry.artifact_name,
      description: entry.description,
      userId: entry.user_id,
      userName: entry.user_name,
      timestamp: entry.timestamp,
    };
  }

  /** The records that the facts name; one that is gone or says otherwise is a problem, because records never change. */
  function attestationsOf(organizationId: number, facts: Facts, problems: string[]): Map<string, ExplainedAttestation> {
    const found = new Map<string, ExplainedAttestation>();
    for (const { attestationId, name, isCompliant } of facts.flows.flatMap(({ candidates }) => candidates)) {
      const row = recordByPublicId.get(attestationId, organizationId);
      if (!row) {
        problems.push(`attestation ${attestationId} ('${name}') is gone`);
        continue;
      }
      if (row.name !== name || (row.is_compliant === 1) !== isCompliant)
        problems.push(`attestation ${attestationId} is not what the evaluation saw as '${name}'`);
      found.set(attestationId, {
        publicId: row.public_id,
        name: row.name,
        type: row.type,
        isCompliant: row.is_compliant === 1,
        overriddenType: row.overridden_type,
        controlVersion: row.control_version,
        description: row.description,
        reasons: JSON.parse(row.reasons_json) as string[],
        reportedBy: row.reported_by,
        createdAt: row.created_at,
        evidenceDigest: row.evidence_digest,
        evidenceFilename: row.evidence_filename,
      });
    }
    return found;
  }

  function artifact(
    environment: EnvironmentRow,
    row: EvaluatedArtifactRow,
    known: (versionId: number) => ExplainedVersion,
  ): ExplainedArtifact {
    const compliant = fromSqlBoolean(row.compliant);
    const problems: string[] = [];
    const explained: ExplainedArtifact = {
      row,
      exited: row.annotation === "exited",
      compliant,
      allowlist: entryOf(row, problems),
      facts: { flows: [] },
      verdicts: [],
      attestations: new Map(),
      reasons: [],
      problems,
    };
    // Anything may be wrong with damaged JSON, and an evaluation that cannot be read has no better description than the
    // error.
    try {
      explained.facts = JSON.parse(row.facts_json) as Facts;
      const verdicts = JSON.parse(row.verdicts_json) as StoredVerdict[];
      explained.reasons = JSON.parse(row.reasons_json) as string[];
      explained.attestations = attestationsOf(environment.organization_id, explained.facts, problems);
      const documentOf = (versionId: number): PolicyDocument =>
        known(versionId).document ?? policies.getDocument(versionId);
      const kept: Evaluation = { compliant, verdicts, reasons: [...explained.reasons] };
      const again = replay(
        { artifact: row, facts: explained.facts, allowlisted: row.allowlist_id !== null, kept },
        documentOf,
      );
      for (const difference of again.differences) problems.push(difference);
      for (const verdict of verdicts) {
        const named = known(verdict.version_id);
        if (named.policy !== verdict.policy || named.version !== verdict.version)
          problems.push(
            `the verdict of policy '${verdict.policy}' version ${verdict.version} names version ${named.version} of '${named.policy}'`,
          );
      }
      explained.verdicts = verdicts.map((verdict) => ({
        version: known(verdict.version_id),
        verdict: expandStoredVerdict(verdict, documentOf(verdict.version_id), explained.facts),
      }));
    } catch (error) {
      problems.push(`the stored evaluation cannot be read: ${error instanceof Error ? error.message : String(error)}`);
      if (!isReadable(explained.facts)) explained.facts = { flows: [] };
      if (!isTexts(explained.reasons)) explained.reasons = [];
    }
    return explained;
  }

  /** Each version is read once for a snapshot. */
  function knownVersions(): (versionId: number) => ExplainedVersion {
    const seen = new Map<number, ExplainedVersion>();
    return (versionId) => {
      const found = seen.get(versionId) ?? version(versionId);
      seen.set(versionId, found);
      return found;
    };
  }

  function explain(environment: EnvironmentRow, index: number): Explanation | null {
    const snapshot = snapshots.find(environment.id, index);
    if (!snapshot) return null;
    const explanation: Explanation = {
      environment,
      snapshot,
      policies: [],
      artifacts: [],
      members: [],
      causedBy: null,
      problems: [],
    };
    if (environment.type === "logical") explainMembers(explanation);
    else explainArtifacts(explanation);
    return explanation;
  }

  function explainArtifacts(explanation: Explanation): void {
    const { environment, snapshot, problems } = explanation;
    const known = knownVersions();
    let versionIds: number[] = [];
    try {
      versionIds = JSON.parse(snapshot.policy_versions_json) as number[];
      explanation.policies = versionIds.map(known);
    } catch (error) {
      problems.push(
        `the policy versions of the snapshot cannot be read: ${error instanceof Error ? error.message : String(error)}`,
      );
    }
    explanation.artifacts = snapshots
      .listEvaluated(environment.id, snapshot.idx)
      .map((row) => artifact(environment, row, known));
    const running = explanation.artifacts.filter(({ exited }) => !exited);
    const found = checkSnapshot(
      verdictOf(snapshot),
      versionIds,
      running.map(({ row, compliant, verdicts, problems: own }) => ({
        name: row.name,
        fingerprint: row.fingerprint,
        compliant,
        versionIds:
          own.length > 0 && verdicts.length === 0 ? null : verdicts.map(({ version: { versionId } }) => versionId),
      })),
    );
    for (const problem of found) problems.push(problem);
  }

  function explainMembers(explanation: Explanation): void {
    const { environment, snapshot, problems } = explanation;
    for (const { member_id, member_index } of snapshots.listMembers(environment.id, snapshot.idx)) {
      const member = environments.get(member_id);
      const shown = explain(member, member_index);
      if (shown) explanation.members.push(shown);
      else problems.push(`snapshot ${member_index} of the member '${member.name}' is gone`);
    }
    if (snapshot.member_id !== null && snapshot.member_index !== null)
      explanation.causedBy = { environment: environments.get(snapshot.member_id).name, index: snapshot.member_index };
    const found = checkLogicalSnapshot(
      verdictOf(snapshot),
      explanation.members.map((member) => verdictOf(member.snapshot)),
    );
    for (const problem of found) problems.push(problem);
  }

  /** Every artifact of an explanation, those of its members included. */
  const artifactsOf = ({ artifacts, members }: Explanation): ExplainedArtifact[] => [
    ...artifacts,
    ...members.flatMap(artifactsOf),
  ];

  function withNames(explanation: Explanation, nameOf: (flowId: number) => string | undefined): Explanation {
    return {
      ...explanation,
      artifacts: explanation.artifacts.map((artifact) => {
        const facts = withFlowNames(artifact.facts, nameOf);
        if (facts === artifact.facts) return artifact;
        const verdicts = artifact.verdicts.map(({ version, verdict }) => ({
          version,
          verdict: verdictWithFlowNames(verdict, facts),
        }));
        const worded = verdicts.flatMap(({ version, verdict }) => reasonsOf(verdict, version.policy));
        // Where verdicts cannot be read, the stored reasons are all there is.
        const reasons = verdicts.length === 0 ? artifact.reasons : worded;
        return { ...artifact, facts, verdicts, reasons };
      }),
      members: explanation.members.map((member) => withNames(member, nameOf)),
    };
  }

  return {
    /**
     * Everything about one snapshot, null when there is none of that index. Flows have the names of the evaluations.
     * Reads many rows: call it in one transaction.
     */
    explain,
    /**
     * The explanation with the present names of flows, for people. Each record keeps the name it was evaluated under.
     */
    withPresentFlowNames(explanation: Explanation): Explanation {
      const ids = artifactsOf(explanation).flatMap(({ facts }) => facts.flows.map(({ flow_id }) => flow_id));
      const names = flows.findPresentNames(ids);
      return withNames(explanation, (id) => names.get(id));
    },
    /** Names of all environments of an organization, archived ones included. */
    listEnvironmentNames: (organizationId: number): string[] => namesOf.all(organizationId).map(({ name }) => name),
  };
}

/** Every problem of a snapshot, its artifacts and its members, each as one line that says where. */
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

const verdictOf = (snapshot: SnapshotRow): SnapshotVerdict => ({
  verdict: fromSqlBoolean(snapshot.compliant),
  compliant: snapshot.compliant_count,
  nonCompliant: snapshot.non_compliant_count,
  unknown: snapshot.unknown_count,
});

/** Whether the parts of facts that people are shown are what they should be. */
const isReadable = (facts: Facts | null): boolean =>
  Array.isArray(facts?.flows) &&
  facts.flows.every(
    (flow: FlowRecord | null) =>
      Array.isArray(flow?.candidates) && isTexts(flow.reasons) && typeof flow.tags === "object" && flow.tags !== null,
  );

const isTexts = (texts: unknown): boolean => Array.isArray(texts) && texts.every((text) => typeof text === "string");

/** null in place of an exception. */
function attempt<T>(work: () => T): T | null {
  try {
    return work();
  } catch {
    return null;
  }
}
