/**
 * A snapshot as answers show it (semantics 6.5). A snapshot holds up to some thousand artifacts, so everything beside
 * their own rows is read in one statement for each kind, and what is shared by many is made once. More than half of
 * the answer is decisions of policies, which never change but for the names of flows: their text is kept from read to
 * read, so the answer is put together as text.
 */
import type { Static } from "typebox";
import { reasonsOn, expandStoredVerdict, withFlowNames } from "../domain/compliance/environment.ts";
import type { Facts, FlowRecord, StoredVerdict } from "../domain/compliance/environment.ts";
import type { PolicyDocument } from "../domain/policy/ast.ts";
import { policyDump } from "../domain/policy/document.ts";
import { presentRuleVerdicts } from "../domain/policy/evaluate.ts";
import type { Instances } from "../domain/snapshot/normalize.ts";
import { compareUrl } from "../domain/network/urls.ts";
import { fromSqlBoolean } from "../store/db/database.ts";
import type { EnvironmentRow } from "../store/environments/environments.ts";
import type {
  EvaluatedArtifactRow,
  KeptEvaluation,
  ReplacedRow,
  ShownRecordRow,
  SnapshotRow,
} from "../store/environments/snapshots.ts";
import type { PresenterContext } from "./presenter-context.ts";
import { fromJson, presentCommit } from "./shapes.ts";
import type {
  AppliedPolicy,
  PolicyDump,
  SnapshotArtifact,
  SnapshotArtifactFlow,
  SnapshotDeploymentDiff,
  SnapshotResponse,
} from "./snapshot-shapes.ts";
import { UNREADABLE, presentEach } from "./placeholders.ts";
import type { PolicyEvaluation } from "./policy-evaluation.ts";

type Snapshot = Static<typeof SnapshotResponse>;
type Artifact = Static<typeof SnapshotArtifact>;
type ArtifactFlow = Static<typeof SnapshotArtifactFlow>;
type Diff = Static<typeof SnapshotDeploymentDiff>;
type Dump = Static<typeof PolicyDump>;

/** A physical environment at one of its snapshots: the whole of a physical one's, a part of a logical one's. */
type Part = {
  environment: EnvironmentRow;
  snapshot: SnapshotRow;
  /** Whether this snapshot tells how things came to be so: of a logical one's members, only the one that caused it. */
  telling: boolean;
  /** Sent with the artifacts of logical environments only. */
  memberName: string | null;
};

type Kept = { evaluation: KeptEvaluation; reasons: readonly string[]; instances: Instances };
/** `kept` is null for a row whose JSON is damaged. */
type Row = { part: Part; row: EvaluatedArtifactRow; kept: Kept | null };

/** What artifacts share, read for all of them together. */
type Shared = {
  records: Map<number, ShownRecordRow>;
  replaced: Map<number, ReplacedRow>;
  /** Present names of flows by their keys. */
  flowNames: Map<number, string>;
  /** Rules by the key of the policy version; null for one that this program cannot read. */
  document(versionId: number): PolicyDocument | null;
  /** What runs in an environment now. */
  fingerprints(environment: EnvironmentRow): Set<string>;
};

/**
 * A snapshot in full: the JSON text of a SnapshotResponse, in pieces. An artifact whose record is damaged becomes a
 * placeholder and never fails the rest (semantics 9).
 */
export function presentSnapshot(
  context: PresenterContext,
  environment: EnvironmentRow,
  snapshot: SnapshotRow,
): string[] {
  const { store, organization, urls } = context;
  const parts = partsOf(context, environment, snapshot);
  const rows = parts.flatMap((part) => rowsOf(context, part));
  const shared = sharedBy(context, rows);
  const next =
    snapshot.idx < environment.snapshot_count ? store.snapshots.find(environment.id, snapshot.idx + 1) : null;
  const head: Omit<Snapshot, "artifacts"> = {
    index: snapshot.idx,
    is_latest: snapshot.idx === environment.snapshot_count,
    timestamp: snapshot.timestamp,
    next_snapshot_timestamp: next?.timestamp ?? null,
    type: environment.type,
    compliant: snapshot.compliant === 1,
    artifact_compliance_count: {
      true: snapshot.compliant_count,
      false: snapshot.non_compliant_count,
      null: snapshot.unknown_count,
    },
    html_url: urls.snapshotPage(organization.name, environment.name, snapshot.idx),
    user_id: snapshot.user_id,
    user_name: snapshot.user_name,
    applied_policies: presentPolicies(context, shared, parts, rows),
  };
  const artifacts = presentEach(
    rows,
    (row) => presentArtifact(context, shared, row),
    (row) => [JSON.stringify(placeholder(row))],
  );
  return withMember(head, "artifacts", [
    "[",
    ...artifacts.flatMap((pieces, place) => (place === 0 ? pieces : [",", ...pieces])),
    "]",
  ]);
}

/**
 * The JSON text of `value`, which is no empty object, with one member more; `texts` is the JSON text of that member.
 * Both in pieces.
 */
const withMember = (value: object, name: string, texts: readonly string[]): string[] => [
  `${JSON.stringify(value).slice(0, -1)},"${name}":`,
  ...texts,
  "}",
];

function partsOf({ store }: PresenterContext, environment: EnvironmentRow, snapshot: SnapshotRow): Part[] {
  if (environment.type !== "logical") return [{ environment, snapshot, telling: true, memberName: null }];
  return store.snapshots.members(environment.id, snapshot.idx).map(({ member_id, member_index }) => {
    const member = store.environments.get(member_id);
    const own = store.snapshots.find(member_id, member_index);
    if (!own) throw new Error(`snapshot ${member_index} of environment ${member_id} is gone`);
    return { environment: member, snapshot: own, telling: member_id === snapshot.member_id, memberName: member.name };
  });
}

function rowsOf(context: PresenterContext, part: Part): Row[] {
  const rows = context.store.snapshots.evaluated(part.environment.id, part.snapshot.idx);
  return (part.telling ? rows : rows.filter(({ now }) => now > 0)).map((row) => ({
    part,
    row,
    kept: keptOf(context, row),
  }));
}

function keptOf({ store }: PresenterContext, row: EvaluatedArtifactRow): Kept | null {
  try {
    const reasons = JSON.parse(row.reasons_json) as string[];
    const instances = JSON.parse(row.instances_json) as Instances;
    const evaluation = store.snapshots.kept(row);
    return Array.isArray(reasons) && Array.isArray(instances.created) ? { evaluation, reasons, instances } : null;
  } catch {
    return null;
  }
}

function sharedBy({ store }: PresenterContext, rows: readonly Row[]): Shared {
  const artifactIds = new Set<number>();
  const deploymentIds = new Set<number>();
  const flowIds = new Set<number>();
  for (const { kept } of rows)
    for (const { artifact_id, deployment_id, flow_id } of kept?.evaluation.facts.flows ?? []) {
      artifactIds.add(artifact_id);
      flowIds.add(flow_id);
      if (deployment_id !== null) deploymentIds.add(deployment_id);
    }
  return {
    records: store.snapshots.records(artifactIds),
    replaced: deploymentIds.size === 0 ? new Map() : store.snapshots.replaced(deploymentIds),
    flowNames: store.flows.presentNames(flowIds),
    document: once((versionId: number): PolicyDocument | null => {
      try {
        return store.policies.parsed(versionId);
      } catch {
        return null;
      }
    }),
    fingerprints: once(({ id, snapshot_count }: EnvironmentRow) => store.snapshots.fingerprints(id, snapshot_count)),
  };
}

/** The function with a memory of what it gave for each key. */
function once<Key, Value>(make: (key: Key) => Value): (key: Key) => Value {
  const made = new Map<Key, Value>();
  return (key) => {
    let value = made.get(key);
    if (value === undefined) made.set(key, (value = make(key)));
    return value;
  };
}

/** The JSON text of an Artifact, in pieces. @throws Error for a damaged record. */
function presentArtifact(context: PresenterContext, shared: Shared, { part, row, kept }: Row): string[] {
  if (!kept) throw new Error("the record is damaged");
  const { evaluation, instances } = kept;
  const facts = withFlowNames(evaluation.facts, (id) => shared.flowNames.get(id));
  const flows = facts.flows.map((flow) => presentFlow(context, shared, part, row, flow, instances));
  const first = flows[0];
  const artifact: Omit<Artifact, "policy_decisions"> = {
    ...outline({ part, row }),
    reasons_for_incompliance: row.compliant === 0 ? [...reasonsFor(shared, kept, facts)] : [],
    creationTimestamp: instances.created as number[],
    pods: (instances.pods ?? null) as Artifact["pods"],
    ecs_context: instances.ecs ?? null,
    flow_name: first?.flow_name ?? null,
    git_commit: first?.git_commit ?? null,
    commit_url: first?.commit_url ?? null,
    html_url: first?.html_url ?? null,
    flow_html_url: first?.flow_html_url ?? null,
    deployment_diff: first?.deployment_diff ?? null,
    commit_lead_time: first?.commit_lead_time ?? null,
    flows,
  };
  return withMember(artifact, "policy_decisions", [decisionsOf(context, shared, row.evaluation_id, evaluation, facts)]);
}

/** The stored reasons, unless they name a flow that is called otherwise now. */
function reasonsFor(shared: Shared, { evaluation, reasons }: Kept, facts: Facts): readonly string[] {
  if (facts === evaluation.facts) return reasons;
  return reasonsOn(facts, evaluation.verdicts, shared.document) ?? reasons;
}

/** What a row tells by itself. */
function outline({ part, row }: Pick<Row, "part" | "row">) {
  const own = part.telling && row.first_index === part.snapshot.idx;
  return {
    name: row.name,
    fingerprint: row.fingerprint,
    ...(part.memberName === null ? {} : { environment_name: part.memberName }),
    compliant: fromSqlBoolean(row.compliant),
    annotation: own
      ? { type: row.annotation, was: row.was, now: row.now }
      : { type: "unchanged" as const, was: row.now, now: row.now },
    deployments: [],
  };
}

/**
 * The row without what is stored as JSON. Clients fail on running artifacts without a single start (wire-contract 11).
 */
const placeholder = ({ part, row }: Row): Artifact => ({
  ...outline({ part, row }),
  reasons_for_incompliance: [UNREADABLE],
  creationTimestamp: row.now > 0 ? [0] : [],
  pods: null,
  ecs_context: null,
  policy_decisions: [],
  flow_name: null,
  git_commit: null,
  commit_url: null,
  html_url: null,
  flow_html_url: null,
  deployment_diff: null,
  commit_lead_time: null,
  flows: [],
});

function presentFlow(
  { urls, organization }: PresenterContext,
  shared: Shared,
  { environment }: Part,
  { fingerprint }: EvaluatedArtifactRow,
  flow: FlowRecord,
  { created }: Instances,
): ArtifactFlow {
  const record = shared.records.get(flow.artifact_id);
  if (!record) throw new Error(`artifact ${flow.artifact_id} is gone`);
  const replaced = flow.deployment_id === null ? undefined : shared.replaced.get(flow.deployment_id);
  return {
    flow_name: flow.flow,
    trail_name: flow.trail,
    template_reference_name: flow.reference_name,
    git_commit: flow.git_commit,
    commit_url: flow.commit_url,
    git_commit_info: presentCommit(record.git_commit_info_json),
    html_url: urls.artifactPage(organization.name, flow.flow, fingerprint, record.public_id),
    flow_html_url: urls.flowPage(organization.name, flow.flow),
    deployment_diff: replaced ? presentDiff(replaced, flow, record, shared.fingerprints(environment)) : null,
    commit_lead_time: leadTime(created, flow.committed_at),
    artifact_compliance_in_flow: flow.state === "COMPLIANT",
    flow_reasons_for_non_compliance: flow.reasons.map((reason) => ({ reason })),
  };
}

/**
 * Seconds from the commit to the earliest start; null when either is not known: reporters send 0 for a start they
 * cannot tell.
 */
function leadTime([earliest]: readonly number[], committedAt: number | null): number | null {
  return committedAt === null || earliest === undefined || earliest === 0 ? null : earliest - committedAt;
}

function presentDiff(previous: ReplacedRow, flow: FlowRecord, record: ShownRecordRow, runningNow: Set<string>): Diff {
  return {
    diff_url: replacementUrl(previous, flow, record.repo_url),
    previous_git_commit: previous.git_commit,
    previous_git_commit_url: previous.commit_url,
    previous_fingerprint: previous.fingerprint,
    previous_artifact_name: previous.artifact_name,
    previous_artifact_compliance_state: previous.state,
    previous_running: runningNow.has(previous.fingerprint),
    previous_trail_name: previous.trail_name,
    previous_template_reference_name: previous.reference_name === "" ? null : previous.reference_name,
  };
}

/**
 * Where the commit of an artifact is compared with that of the one it replaced. @param repoUrl of the artifact's record
 */
export const replacementUrl = (previous: ReplacedRow, flow: FlowRecord, repoUrl: string | null): string | null =>
  compareUrl(
    { sha: previous.git_commit, commitUrl: previous.commit_url, repoUrl: previous.repo_url },
    { sha: flow.git_commit, commitUrl: flow.commit_url, repoUrl },
  );

/**
 * The JSON text of the decisions. They follow from the evaluation, the documents of the policies, of which a damaged
 * one is null, and the present names of the flows.
 * @param facts of the evaluation, with present names
 */
function decisionsOf(
  { store }: PresenterContext,
  shared: Shared,
  evaluationId: number,
  evaluation: KeptEvaluation,
  facts: Facts,
): string {
  const { verdicts } = evaluation;
  const documents = verdicts.map(({ version_id }) => shared.document(version_id));
  const names = facts.flows.map(({ flow }) => flow);
  return store.snapshots.textOf(evaluationId, evaluation, [...documents, ...names], () =>
    JSON.stringify(verdicts.map((verdict) => presentDecision(shared, verdict, facts))),
  );
}

/** Without rules where this program cannot read the policy: the status is the one that was found then. */
function presentDecision(shared: Shared, verdict: StoredVerdict, facts: Facts): Static<typeof PolicyEvaluation> {
  const document = shared.document(verdict.version_id);
  return {
    policy_name: verdict.policy,
    policy_version: verdict.version,
    status: verdict.status,
    rule_evaluations: (document
      ? presentRuleVerdicts(expandStoredVerdict(verdict, document, facts).rules)
      : []) as Static<typeof PolicyEvaluation>["rule_evaluations"],
  };
}

/** The policies in the order of their attachment; members of a logical environment that share one are shown it once. */
function presentPolicies(
  { store }: PresenterContext,
  shared: Shared,
  parts: readonly Part[],
  rows: readonly Row[],
): Static<typeof AppliedPolicy>[] {
  const versionIds = new Set(parts.flatMap(({ snapshot }) => fromJson<number[]>(snapshot.policy_versions_json) ?? []));
  if (versionIds.size === 0) return [];
  const failing = new Map([...versionIds].map((id) => [id, [] as { name: string; fingerprint: string }[]]));
  for (const { row, kept } of rows) {
    if (row.now === 0 || row.compliant !== 0) continue;
    for (const { version_id, status } of kept?.evaluation.verdicts ?? [])
      if (status === "NON-COMPLIANT") failing.get(version_id)?.push({ name: row.name, fingerprint: row.fingerprint });
  }
  const named = store.snapshots.policyVersions(versionIds);
  return [...versionIds].flatMap((id) => {
    const policy = named.get(id);
    if (!policy) return [];
    const document = shared.document(id);
    return {
      id: policy.public_id,
      name: policy.name,
      version: policy.version,
      policy_dump: document ? policyDump(document) : UNREADABLE_DUMP,
      failing_artifacts: failing.get(id) ?? [],
    };
  });
}

/** Marked by the name of a rule: a policy that nobody can read must not look like one that asks for nothing. */
const UNREADABLE_DUMP: Dump = {
  schema_version: "1",
  artifacts: {
    provenance: { required: false, exceptions: [] },
    trail_compliance: { required: false, exceptions: [] },
    attestations: [{ if_condition: null, name: UNREADABLE, type: "*", must_be_compliant: true, for_control: null }],
  },
};
