/**
 * Explains a snapshot from the database alone: its artifacts with the facts their evaluations rest on, the policy
 * versions and attestations that decided, and whether a re-evaluation gives the same result.
 *
 * Invariants: writes nothing; damaged data never throws, it becomes an entry of `problems`, so that the rest stays
 * readable.
 */
import { expandStoredVerdict, verdictWithFlowNames, withFlowNames } from "../../domain/compliance/environment.ts";
import type { Facts, FlowRecord, StoredVerdict } from "../../domain/compliance/environment.ts";
import { checkLogicalSnapshot, checkSnapshot, replay } from "../../domain/compliance/replay.ts";
import type { SnapshotVerdict } from "../../domain/compliance/replay.ts";
import type { PolicyDocument } from "../../domain/policy/document.ts";
import { explainVerdict as reasonsOf } from "../../domain/policy/reasons.ts";
import { isListOf, isNumber, isText, readStoredJson } from "../../domain/stored-json.ts";
import { fromSqlBoolean } from "../db/database.ts";
import type { Db } from "../db/types.ts";
import type { flowStore } from "../flows/flows.ts";
import type { policyStore } from "../policies/policies.ts";
import type { EnvironmentRow, environmentStore } from "./environments.ts";
import type {
  ExplainedArtifact,
  ExplainedAttestation,
  ExplainedEntry,
  ExplainedVersion,
  Explanation,
} from "./explanation-types.ts";
import type { EvaluatedArtifactRow, SnapshotRow, snapshotStore } from "./snapshots.ts";

type ExplanationParts = {
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
  expires_at: number | null;
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

/** Returns a policy version; an explanation of a snapshot reads each version once. */
type GetVersion = (versionId: number) => ExplainedVersion;

/** What the functions of an explanation share. */
type Context = ExplanationParts & { statements: ReturnType<typeof prepareStatements> };

const prepareStatements = (db: Db) => ({
  versionById: db.prepare<[number], VersionRow>(
    `SELECT pv.id, pol.public_id AS policy_public_id, pol.name, pv.version, pv.comment, pv.created_by, pv.timestamp
     FROM policy_versions pv JOIN policies pol ON pol.id = pv.policy_id WHERE pv.id = ?`,
  ),
  entryById: db.prepare<[number], EntryRow>(
    `SELECT public_id, environment_id, fingerprint, artifact_name, description, user_id, user_name, timestamp,
            expires_at
     FROM allowlist_entries WHERE id = ?`,
  ),
  recordByPublicId: db.prepare<[string, number], RecordRow>(
    `SELECT public_id, name, type, is_compliant, overridden_type, control_version, description, reasons_json,
            reported_by, created_at, evidence_digest, evidence_filename
     FROM attestations WHERE public_id = ? AND organization_id = ?`,
  ),
  environmentNames: db.prepare<[number], { name: string }>(
    "SELECT name FROM environments WHERE organization_id = ? ORDER BY name",
  ),
});

export function explanationStore(db: Db, parts: ExplanationParts) {
  const context: Context = { ...parts, statements: prepareStatements(db) };
  return {
    /**
     * Everything about one snapshot; null when there is none with that index. Flows have the names they had at the
     * evaluation. Reads many rows: call it in one transaction.
     */
    explain: (environment: EnvironmentRow, index: number): Explanation | null => explain(context, environment, index),
    /**
     * The explanation with the current names of flows, for people. Each record keeps the name it was evaluated under.
     */
    withPresentFlowNames(explanation: Explanation): Explanation {
      const ids = listArtifacts(explanation).flatMap(({ facts }) => facts.flows.map(({ flow_id }) => flow_id));
      const names = parts.flows.findPresentNames(ids);
      return renameFlows(explanation, (id) => names.get(id));
    },
    /** Names of all environments of an organization, archived ones included. */
    listEnvironmentNames: (organizationId: number): string[] =>
      context.statements.environmentNames.all(organizationId).map(({ name }) => name),
  };
}

function explain(context: Context, environment: EnvironmentRow, index: number): Explanation | null {
  const snapshot = context.snapshots.find(environment.id, index);
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
  if (environment.type === "logical") explainMembers(context, explanation);
  else explainArtifacts(context, explanation);
  return explanation;
}

function explainArtifacts(context: Context, explanation: Explanation): void {
  const { environment, snapshot, problems } = explanation;
  const getVersion = versionReader(context);
  let versionIds: number[] = [];
  try {
    versionIds = readStoredJson(snapshot.policy_versions_json, isListOf(isNumber));
    explanation.policies = versionIds.map(getVersion);
  } catch (error) {
    problems.push(`the policy versions of the snapshot cannot be read: ${messageOf(error)}`);
  }
  explanation.artifacts = context.snapshots
    .listEvaluated(environment.id, snapshot.idx)
    .map((row) => explainArtifact(context, row, { environment, getVersion }));
  const running = explanation.artifacts.filter(({ exited }) => !exited);
  const differences = checkSnapshot(
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
  for (const difference of differences) problems.push(difference);
}

function explainMembers(context: Context, explanation: Explanation): void {
  const { environments, snapshots } = context;
  const { environment, snapshot, problems } = explanation;
  for (const { member_id, member_index } of snapshots.listMembers(environment.id, snapshot.idx)) {
    const member = environments.get(member_id);
    const shown = explain(context, member, member_index);
    if (shown) explanation.members.push(shown);
    else problems.push(`snapshot ${member_index} of the member '${member.name}' is gone`);
  }
  if (snapshot.member_id !== null && snapshot.member_index !== null)
    explanation.causedBy = { environment: environments.get(snapshot.member_id).name, index: snapshot.member_index };
  const differences = checkLogicalSnapshot(
    verdictOf(snapshot),
    explanation.members.map((member) => verdictOf(member.snapshot)),
  );
  for (const difference of differences) problems.push(difference);
}

function explainArtifact(
  context: Context,
  row: EvaluatedArtifactRow,
  { environment, getVersion }: { environment: EnvironmentRow; getVersion: GetVersion },
): ExplainedArtifact {
  const problems: string[] = [];
  const explained: ExplainedArtifact = {
    row,
    exited: row.annotation === "exited",
    compliant: fromSqlBoolean(row.compliant),
    allowlist: findEntry(context, row, problems),
    facts: { flows: [] },
    verdicts: [],
    attestations: new Map(),
    reasons: [],
    problems,
  };
  // Damaged JSON can be wrong in any way, and an evaluation that cannot be read has no better description than the
  // error.
  try {
    // Parsed without guards: the replay below finds whatever is wrong, and these parts are worth showing even so.
    explained.facts = JSON.parse(row.facts_json) as Facts;
    const verdicts = JSON.parse(row.verdicts_json) as StoredVerdict[];
    explained.reasons = JSON.parse(row.reasons_json) as string[];
    explained.attestations = listAttestations(context, environment.organization_id, explained);
    const documentOf = (versionId: number): PolicyDocument =>
      getVersion(versionId).document ?? context.policies.getDocument(versionId);
    checkEvaluation(explained, verdicts, { documentOf, getVersion });
    explained.verdicts = verdicts.map((verdict) => ({
      version: getVersion(verdict.version_id),
      verdict: expandStoredVerdict(verdict, documentOf(verdict.version_id), explained.facts),
    }));
  } catch (error) {
    problems.push(`the stored evaluation cannot be read: ${messageOf(error)}`);
    if (!hasShownParts(explained.facts)) explained.facts = { flows: [] };
    if (!isListOf(isText)(explained.reasons)) explained.reasons = [];
  }
  return explained;
}

/** Re-evaluates an artifact and adds every difference from the stored evaluation to its problems. */
function checkEvaluation(
  { row, compliant, facts, reasons, problems }: ExplainedArtifact,
  verdicts: StoredVerdict[],
  { documentOf, getVersion }: { documentOf: (versionId: number) => PolicyDocument; getVersion: GetVersion },
): void {
  const stored = {
    artifact: row,
    facts,
    allowlisted: row.allowlist_id !== null,
    stored: { compliant, verdicts, reasons: [...reasons] },
  };
  for (const difference of replay(stored, documentOf).differences) problems.push(difference);
  for (const verdict of verdicts) {
    const version = getVersion(verdict.version_id);
    if (version.policy !== verdict.policy || version.version !== verdict.version)
      problems.push(
        `the verdict of policy '${verdict.policy}' version ${verdict.version} ` +
          `names version ${version.version} of '${version.policy}'`,
      );
  }
}

function versionReader({ statements, policies }: Context): GetVersion {
  const cache = new Map<number, ExplainedVersion>();
  function read(versionId: number): ExplainedVersion {
    const row = statements.versionById.get(versionId);
    if (!row) throw new Error(`policy version ${versionId} is gone`);
    return {
      versionId,
      policyId: row.policy_public_id,
      policy: row.name,
      version: row.version,
      comment: row.comment,
      createdBy: row.created_by,
      createdAt: row.timestamp,
      document: nullOnError(() => policies.getDocument(versionId)),
    };
  }
  return (versionId) => {
    const version = cache.get(versionId) ?? read(versionId);
    cache.set(versionId, version);
    return version;
  };
}

function findEntry({ statements }: Context, row: EvaluatedArtifactRow, problems: string[]): ExplainedEntry | null {
  if (row.allowlist_id === null) return null;
  const entry = statements.entryById.get(row.allowlist_id);
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
    expiresAt: entry.expires_at,
  };
}

/**
 * The records that the facts name. Records never change, so one that is gone or differs from the facts is a problem.
 */
function listAttestations(
  { statements }: Context,
  organizationId: number,
  { facts, problems }: ExplainedArtifact,
): Map<string, ExplainedAttestation> {
  const attestations = new Map<string, ExplainedAttestation>();
  for (const { attestationId, name, isCompliant } of facts.flows.flatMap(({ candidates }) => candidates)) {
    const row = statements.recordByPublicId.get(attestationId, organizationId);
    if (!row) {
      problems.push(`attestation ${attestationId} ('${name}') is gone`);
      continue;
    }
    if (row.name !== name || (row.is_compliant === 1) !== isCompliant)
      problems.push(`attestation ${attestationId} is not what the evaluation saw as '${name}'`);
    attestations.set(attestationId, {
      publicId: row.public_id,
      name: row.name,
      type: row.type,
      isCompliant: row.is_compliant === 1,
      overriddenType: row.overridden_type,
      controlVersion: row.control_version,
      description: row.description,
      reasons: readStoredJson(row.reasons_json, isListOf(isText)),
      reportedBy: row.reported_by,
      createdAt: row.created_at,
      evidenceDigest: row.evidence_digest,
      evidenceFilename: row.evidence_filename,
    });
  }
  return attestations;
}

/** Every artifact of an explanation, those of its members included. */
const listArtifacts = ({ artifacts, members }: Explanation): ExplainedArtifact[] => [
  ...artifacts,
  ...members.flatMap(listArtifacts),
];

function renameFlows(explanation: Explanation, nameOf: (flowId: number) => string | undefined): Explanation {
  return {
    ...explanation,
    artifacts: explanation.artifacts.map((artifact) => {
      const facts = withFlowNames(artifact.facts, nameOf);
      if (facts === artifact.facts) return artifact;
      const verdicts = artifact.verdicts.map(({ version, verdict }) => ({
        version,
        verdict: verdictWithFlowNames(verdict, facts),
      }));
      const reworded = verdicts.flatMap(({ version, verdict }) => reasonsOf(verdict, version.policy));
      // Where the verdicts cannot be read, the stored reasons are all there is.
      const reasons = verdicts.length === 0 ? artifact.reasons : reworded;
      return { ...artifact, facts, verdicts, reasons };
    }),
    members: explanation.members.map((member) => renameFlows(member, nameOf)),
  };
}

const verdictOf = (snapshot: SnapshotRow): SnapshotVerdict => ({
  verdict: fromSqlBoolean(snapshot.compliant),
  compliant: snapshot.compliant_count,
  nonCompliant: snapshot.non_compliant_count,
  unknown: snapshot.unknown_count,
});

/** Whether the parts of facts that are shown to people have the right shape. */
const hasShownParts = (facts: Facts | null): boolean =>
  Array.isArray(facts?.flows) &&
  facts.flows.every(
    (flow: FlowRecord | null) =>
      Array.isArray(flow?.candidates) &&
      isListOf(isText)(flow.reasons) &&
      typeof flow.tags === "object" &&
      flow.tags !== null,
  );

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

function nullOnError<T>(work: () => T): T | null {
  try {
    return work();
  } catch {
    return null;
  }
}
