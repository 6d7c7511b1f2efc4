/**
 * Explains a snapshot from the database alone: its artifacts with the facts their evaluations rest on, the policy
 * versions and attestations that decided, and whether a re-evaluation gives the same result.
 *
 * Invariants: writes nothing; damaged data never throws, it becomes an entry of `problems`, so that the rest stays
 * readable.
 */
import {
  buildSubject,
  expandStoredVerdict,
  verdictWithFlowNames,
  withFlowNames,
} from "../../domain/compliance/environment.ts";
import type { Facts, FlowRecord, StoredVerdict } from "../../domain/compliance/environment.ts";
import { checkLogicalSnapshot, checkSnapshot, countVerdicts, replay } from "../../domain/compliance/replay.ts";
import type { ReplayCounts, SnapshotVerdict } from "../../domain/compliance/replay.ts";
import { explainConditions } from "../../domain/policy/conditions.ts";
import type { PolicyDocument } from "../../domain/policy/document.ts";
import type { AttestationCandidate } from "../../domain/policy/evaluate.ts";
import { explainVerdict as reasonsOf } from "../../domain/policy/reasons.ts";
import { isListOf, isNumberList, isRecordOf, isText, readStoredJson } from "../../domain/stored-json.ts";
import { fromSqlBoolean } from "../db/database.ts";
import type { DbReader } from "../db/types.ts";
import type { ExplainedAttestation, explainedAttestationStore } from "../attestations/explained-attestations.ts";
import type { flowStore } from "../flows/flows.ts";
import type { sameNameStore } from "./same-name.ts";
import type { policyStore } from "../policies/policies.ts";
import type { GetVersion, explainedVersionStore } from "../policies/explained-versions.ts";
import type { EnvironmentRow, environmentStore } from "./environments.ts";
import { rankArtifact } from "./explanation-types.ts";
import type { ArtifactSelection, ExplainedArtifact, ExplainedEntry, Explanation } from "./explanation-types.ts";
import type { ArtifactOutlineRow, EvaluatedArtifactRow, SnapshotRow, snapshotStore } from "./snapshots.ts";

type ExplanationParts = {
  environments: ReturnType<typeof environmentStore>;
  flows: ReturnType<typeof flowStore>;
  policies: ReturnType<typeof policyStore>;
  versions: ReturnType<typeof explainedVersionStore>;
  records: ReturnType<typeof explainedAttestationStore>;
  snapshots: ReturnType<typeof snapshotStore>;
  sameNames: ReturnType<typeof sameNameStore>;
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
/** What the functions of an explanation share. */
type Context = ExplanationParts & { statements: ReturnType<typeof prepareStatements> };

const prepareStatements = (db: DbReader) => ({
  entryById: db.prepare<[number], EntryRow>(
    `SELECT public_id, environment_id, fingerprint, artifact_name, description, user_id, user_name, timestamp,
            expires_at
     FROM allowlist_entries WHERE id = ?`,
  ),
  environmentNames: db.prepare<[number], { name: string }>(
    "SELECT name FROM environments WHERE organization_id = ? ORDER BY name",
  ),
});

export function explanationStore(db: DbReader, parts: ExplanationParts) {
  const context: Context = { ...parts, statements: prepareStatements(db) };
  return {
    /**
     * Everything about one snapshot; null when there is none with that index. Flows have the names they had at the
     * evaluation. Reads many rows: call it in one transaction.
     */
    explain: (environment: EnvironmentRow, index: number): Explanation | null =>
      explain(context, environment, { index, isSelection: false, outlines: readOutlines(context, environment, index) }),
    /**
     * As `explain`, for some artifacts of a snapshot, which must exist.
     * @returns `total`: how many artifacts the selection would have without its limit
     */
    explainSome(
      environment: EnvironmentRow,
      index: number,
      selection: ArtifactSelection,
    ): { explanation: Explanation; total: number } {
      const { outlines, total } = choose(context, { environment, index }, selection);
      const explanation = explain(context, environment, { index, isSelection: true, outlines });
      if (!explanation) throw new Error(`snapshot ${index} of environment ${environment.id} is gone`);
      return { explanation, total };
    },
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

/**
 * The artifacts of a physical snapshot that are explained, by name, and how many run in it in all. By the id of the
 * environment.
 */
type Outlines = ReadonlyMap<number, { rows: readonly ArtifactOutlineRow[]; counts: ReplayCounts }>;
type Choice = { index: number; isSelection: boolean; outlines: Outlines };
type Part = { id: number; index: number };

const isExited = ({ annotation }: Pick<ArtifactOutlineRow, "annotation">): boolean => annotation === "exited";

/** The snapshot itself, or those of the members of a logical environment, in the order of the members. */
const listParts = ({ snapshots }: Context, environment: EnvironmentRow, index: number): Part[] =>
  environment.type === "logical"
    ? snapshots
        .listMembers(environment.id, index)
        .map(({ member_id, member_index }) => ({ id: member_id, index: member_index }))
    : [{ id: environment.id, index }];

/** Reads the selected artifacts, and not all of a snapshot of ten thousand. */
function choose(
  context: Context,
  { environment, index }: { environment: EnvironmentRow; index: number },
  { fingerprint, offset, limit }: ArtifactSelection,
): { outlines: Outlines; total: number } {
  const { snapshots } = context;
  const rankOf = (row: ArtifactOutlineRow): number =>
    rankArtifact({ exited: isExited(row), compliant: fromSqlBoolean(row.compliant) });
  const parts = listParts(context, environment, index).map((part) => ({
    ...part,
    rows: snapshots.listRankedOutlines(part.id, part.index, { fingerprint, limit: offset + limit }),
    counts: snapshots.countVerdicts(part.id, part.index, fingerprint),
  }));
  const first = parts.flatMap(({ rows }) => rows).sort((a, b) => rankOf(a) - rankOf(b));
  const chosen = new Set(first.slice(offset, offset + limit).map(({ id }) => id));
  return {
    outlines: new Map(
      parts.map(({ id, rows, counts }) => [id, { rows: rows.filter((row) => chosen.has(row.id)), counts }]),
    ),
    total: parts.reduce((sum, { counts }) => sum + counts.selected, 0),
  };
}

/** All artifacts of a snapshot, those of its members included. */
const readOutlines = (context: Context, environment: EnvironmentRow, index: number): Outlines =>
  new Map(
    listParts(context, environment, index).map((part) => {
      const rows = context.snapshots.listOutlines(part.id, part.index);
      const running = rows.filter((row) => !isExited(row));
      return [part.id, { rows, counts: countVerdicts(running.map(({ compliant }) => fromSqlBoolean(compliant))) }];
    }),
  );

function explain(context: Context, environment: EnvironmentRow, choice: Choice): Explanation | null {
  const snapshot = context.snapshots.find(environment.id, choice.index);
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
  if (environment.type === "logical") explainMembers(context, explanation, choice);
  else explainArtifacts(context, explanation, choice);
  return explanation;
}

function explainArtifacts(context: Context, explanation: Explanation, choice: Choice): void {
  const { environment, snapshot, problems } = explanation;
  const getVersion = context.versions.createReader();
  let versionIds: number[] = [];
  try {
    versionIds = readStoredJson(snapshot.policy_versions_json, isNumberList);
    explanation.policies = versionIds.map(getVersion);
  } catch (error) {
    problems.push(`the policy versions of the snapshot cannot be read: ${messageOf(error)}`);
  }
  const { rows = [], counts = countVerdicts([]) } = choice.outlines.get(environment.id) ?? {};
  const evaluatedUnder = new Map<number, number[] | null>();
  for (const { id, name } of rows) {
    const row = context.snapshots.findEvaluated(id);
    if (!row) {
      problems.push(`the evaluation of '${name}' is gone`);
      continue;
    }
    const artifact = explainArtifact(context, row, { environment, getVersion });
    explanation.artifacts.push(artifact);
    evaluatedUnder.set(id, evaluatedVersions(artifact));
  }
  if (choice.isSelection) explanation.artifacts.sort((a, b) => rankArtifact(a) - rankArtifact(b));
  const differences = checkSnapshot(verdictOf(snapshot), versionIds, {
    counts,
    evaluated: rows
      .filter((row) => !isExited(row))
      .map(({ id, name, fingerprint }) => ({ name, fingerprint, versionIds: evaluatedUnder.get(id) ?? null })),
  });
  for (const difference of differences) problems.push(difference);
}

/** The policy versions of an evaluation; null when it cannot be read. */
const evaluatedVersions = ({ verdicts, problems }: ExplainedArtifact): number[] | null =>
  problems.length > 0 && verdicts.length === 0 ? null : verdicts.map(({ version: { versionId } }) => versionId);

function explainMembers(context: Context, explanation: Explanation, choice: Choice): void {
  const { environments, snapshots } = context;
  const { environment, snapshot, problems } = explanation;
  for (const { member_id, member_index } of snapshots.listMembers(environment.id, snapshot.idx)) {
    const member = environments.get(member_id);
    const explained = explain(context, member, { ...choice, index: member_index });
    if (explained) explanation.members.push(explained);
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
    exited: isExited(row),
    compliant: fromSqlBoolean(row.compliant),
    allowlist: findEntry(context, row, problems),
    facts: { flows: [] },
    verdicts: [],
    attestations: new Map(),
    reasons: [],
    sameName: null,
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
    if (!hasShownParts(explained.facts)) throw new Error("the facts do not have the shape that was written");
    const subject = buildSubject(row, explained.facts);
    explained.verdicts = verdicts.map((verdict) => ({
      version: getVersion(verdict.version_id),
      verdict: expandStoredVerdict(verdict, documentOf(verdict.version_id), explained.facts),
      conditions: explainConditions(documentOf(verdict.version_id), subject),
    }));
  } catch (error) {
    problems.push(`the stored evaluation cannot be read: ${messageOf(error)}`);
    if (!hasShownParts(explained.facts)) explained.facts = { flows: [] };
    if (!isListOf(isText)(explained.reasons)) explained.reasons = [];
  }
  if (explained.facts.flows.length === 0) explained.sameName = context.sameNames.find(environment.organization_id, row);
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
  { records }: Context,
  organizationId: number,
  { facts, problems }: ExplainedArtifact,
): Map<string, ExplainedAttestation> {
  const attestations = new Map<string, ExplainedAttestation>();
  for (const { attestationId, name, isCompliant } of facts.flows.flatMap(({ candidates }) => candidates)) {
    const record = records.find(attestationId, organizationId);
    if (!record) {
      problems.push(`attestation ${attestationId} ('${name}') is gone`);
      continue;
    }
    if (record.name !== name || record.isCompliant !== isCompliant)
      problems.push(`attestation ${attestationId} is not what the evaluation saw as '${name}'`);
    if (record.reasons === null) problems.push(`the reasons of attestation ${attestationId} ('${name}') are damaged`);
    attestations.set(attestationId, record);
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
      const verdicts = artifact.verdicts.map(({ verdict, ...others }) => ({
        ...others,
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
      isText(flow?.flow) &&
      isText(flow.state) &&
      isListOf(isText)(flow.reasons) &&
      isRecordOf(isText)(flow.tags) &&
      Array.isArray(flow.candidates) &&
      flow.candidates.every(
        (candidate: AttestationCandidate | null) =>
          isText(candidate?.attestationId) && isText(candidate.name) && isText(candidate.type),
      ),
  );

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
