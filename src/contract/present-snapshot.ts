/**
 * A snapshot as responses show it (semantics 6.5). A snapshot may have more artifacts than fit into memory, so they are
 * read and presented a batch at a time, while the answer is written. Everything besides their own rows is read in one
 * statement per kind and batch.
 */
import { shownCommit } from "../domain/commit.ts";
import type { Static } from "typebox";
import { rewordReasons, expandStoredVerdict, withFlowNames } from "../domain/compliance/environment.ts";
import type { Facts, FlowRecord, StoredVerdict } from "../domain/compliance/environment.ts";
import type { PolicyDocument } from "../domain/policy/ast.ts";
import { dumpPolicy } from "../domain/policy/document.ts";
import { presentRuleVerdicts } from "../domain/policy/evaluate.ts";
import { fromSqlBoolean } from "../store/db/database.ts";
import type { EnvironmentRow } from "../store/environments/environments.ts";
import type { EvaluatedArtifactRow, ReplacedRow, ShownRecordRow } from "../store/environments/snapshots.ts";
import { NO_CAUSES } from "../store/environments/verdict-causes.ts";
import type { PaginationValue } from "../http/schema.ts";
import { JsonList } from "../json/text.ts";
import type { PresenterContext } from "./presenter-context.ts";
import { firstStartOf } from "./instances.ts";
import type { ShownInstances } from "./instances.ts";
import { listAllowance, replaceStubs } from "./large-json.ts";
import type { Allowance } from "./large-json.ts";
import { memoize } from "./memoize.ts";
import { presentSameName } from "./same-name.ts";
import { replacementUrl } from "./present-deployment.ts";
import { presentCommit } from "./shapes.ts";
import { presentTurn } from "./comparison/snapshot-turns.ts";
import type {
  AppliedPolicy,
  PolicyDump,
  SnapshotArtifact,
  SnapshotArtifactFlow,
  SnapshotDeploymentDiff,
  SnapshotResponse,
} from "./snapshot-shapes.ts";
import { listFailing, listParts, listPolicyVersions, readBatches, selectFailing, selectRows } from "./snapshot-rows.ts";
import type { FailingArtifact, Part, Row, Selection, SnapshotPlace, StoredFacts } from "./snapshot-rows.ts";
import { UNREADABLE, presentEach } from "./placeholders.ts";
import type { PolicyEvaluation } from "./policy-evaluation.ts";

type Snapshot = Static<typeof SnapshotResponse>;
type Artifact = Static<typeof SnapshotArtifact>;
type ArtifactFlow = Static<typeof SnapshotArtifactFlow>;
type Diff = Static<typeof SnapshotDeploymentDiff>;
type Dump = Static<typeof PolicyDump>;

/** The keys of the rows that artifacts share. */
type SharedKeys = {
  artifactIds: readonly number[];
  deploymentIds: readonly number[];
  flowIds: readonly number[];
};

/** The presenter's context with everything that artifacts share, read for all of them together. */
type SnapshotContext = PresenterContext & {
  records: Map<number, ShownRecordRow>;
  replaced: Map<number, ReplacedRow>;
  /** Current names of flows by key. */
  flowNames: Map<number, string>;
  /** Rules by the key of the policy version; null for a version that this program cannot read. */
  findDocument(versionId: number): PolicyDocument | null;
} & Shared;

/** What all artifacts of a response share. */
type Shared = {
  /** Fingerprints of the artifacts that run in an environment now. */
  findFingerprints(environment: EnvironmentRow): Set<string>;
  /** What the response may still show of long texts. */
  allowance: Allowance;
};

/** A SnapshotResponse whose long lists are made while it is written. */
type WrittenSnapshot = Omit<Snapshot, "applied_policies" | "artifacts"> & {
  applied_policies: (Omit<Static<typeof AppliedPolicy>, "failing_artifacts"> & { failing_artifacts: JsonList })[];
  artifacts: JsonList<Artifact>;
};

/**
 * Presents a whole snapshot. An artifact with a damaged record becomes a placeholder and never fails the rest
 * (semantics 9).
 */
export function presentSnapshot(context: PresenterContext, place: SnapshotPlace): WrittenSnapshot {
  const parts = listParts(context, place.environment, place.snapshot);
  const failingOf = (versionId: number): Iterable<FailingArtifact> => listFailing(context, parts, versionId);
  return {
    ...presentHead(context, place, { parts, failingOf, pagination: null }),
    artifacts: new JsonList(presentAll(context, parts)),
  };
}

/** Presents a page of a snapshot, as `presentSnapshot` does. */
export function presentSnapshotPage(
  context: PresenterContext,
  place: SnapshotPlace,
  selection: Selection,
): WrittenSnapshot {
  const parts = listParts(context, place.environment, place.snapshot);
  const { rows, pagination } = selectRows(context, parts, selection);
  const failingOf = (versionId: number): Iterable<FailingArtifact> => selectFailing(rows, versionId);
  const { sameNames, verdictCauses: why } = context.store;
  // Of what an allowlist entry excuses, too.
  const causesOf = (row?: Row) =>
    row?.stored ? why.explainEvaluation(context.organization.id, row.stored.evaluation) : NO_CAUSES;
  return {
    ...presentHead(context, place, { parts, failingOf, pagination }),
    ...(selection.show === "changed" ? { turn: presentTurn(context, place) } : {}),
    artifacts: new JsonList(
      presentArtifacts(context, rows).map((artifact, index) => ({
        ...artifact,
        ...causesOf(rows[index]),
        ...(artifact.flows.length > 0 ? {} : presentSameName(sameNames.find(context.organization.id, artifact))),
      })),
    ),
  };
}

/** The artifacts of all parts, batch by batch. */
function* presentAll(context: PresenterContext, parts: readonly Part[]): Generator<Artifact> {
  const shared = createShared(context);
  for (const part of parts)
    for (const rows of readBatches(context, part)) yield* presentArtifacts(context, rows, shared);
}

/** A SnapshotResponse without its artifacts. @param failingOf the artifacts that fail a policy version */
function presentHead(
  context: PresenterContext,
  { environment, snapshot }: SnapshotPlace,
  {
    parts,
    failingOf,
    pagination,
  }: {
    parts: readonly Part[];
    failingOf: (versionId: number) => Iterable<FailingArtifact>;
    pagination: PaginationValue | null;
  },
): Omit<WrittenSnapshot, "artifacts"> {
  const { store, organization, urls } = context;
  const next =
    snapshot.idx < environment.snapshot_count ? store.snapshots.find(environment.id, snapshot.idx + 1) : null;
  return {
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
    applied_policies: presentPolicies(context, parts, failingOf),
    ...(pagination ? { pagination } : {}),
  };
}

/** Some artifacts, with what they share read for all of them together. */
function presentArtifacts(context: PresenterContext, rows: readonly Row[], shared = createShared(context)): Artifact[] {
  const batch = { ...readShared(context, collectKeys(rows)), ...shared };
  return presentEach(rows, (row) => presentArtifact(batch, row), presentPlaceholder);
}

const createShared = (context: PresenterContext): Shared => ({
  findFingerprints: memoize(({ id, snapshot_count }: EnvironmentRow) =>
    context.store.snapshots.listFingerprints(id, snapshot_count),
  ),
  allowance: listAllowance(context),
});

/** The keys of everything that these artifacts share. */
function collectKeys(rows: readonly Row[]): SharedKeys {
  const artifactIds = new Set<number>();
  const deploymentIds = new Set<number>();
  const flowIds = new Set<number>();
  for (const { stored } of rows)
    for (const { artifact_id, deployment_id, flow_id } of stored?.evaluation.facts.flows ?? []) {
      artifactIds.add(artifact_id);
      flowIds.add(flow_id);
      if (deployment_id !== null) deploymentIds.add(deployment_id);
    }
  return { artifactIds: [...artifactIds], deploymentIds: [...deploymentIds], flowIds: [...flowIds] };
}

/** Reads what artifacts share. All of it can change, unlike the artifacts themselves. */
function readShared(context: PresenterContext, keys: SharedKeys): Omit<SnapshotContext, keyof Shared> {
  const { store } = context;
  return {
    store,
    urls: context.urls,
    organization: context.organization,
    records: store.snapshots.findRecords(keys.artifactIds),
    replaced: keys.deploymentIds.length === 0 ? new Map() : store.snapshots.findReplaced(keys.deploymentIds),
    flowNames: store.flows.findPresentNames(keys.flowIds),
    findDocument: documentFinder(context),
  };
}

/** null for a version that this program cannot read. */
const documentFinder = ({ store }: PresenterContext): SnapshotContext["findDocument"] =>
  memoize((versionId: number): PolicyDocument | null => {
    try {
      return store.policies.getDocument(versionId);
    } catch {
      return null;
    }
  });

/** @throws Error for a damaged record */
function presentArtifact(context: SnapshotContext, { part, row, stored, allowed }: Row): Artifact {
  if (!stored) throw new Error("the record is damaged");
  const { evaluation, instances } = stored;
  const facts = withFlowNames(evaluation.facts, (id) => context.flowNames.get(id));
  const flows = facts.flows.map((flow) => presentFlow(context, flow, { part, row, instances }));
  const first = flows[0];
  return {
    ...presentOutline({ part, row }),
    reasons_for_incompliance: row.compliant === 0 ? [...findReasons(context, stored, facts)] : [],
    creationTimestamp: instances.created as Artifact["creationTimestamp"],
    pods: (instances.pods ?? null) as Artifact["pods"],
    ecs_context: (instances.ecs ?? null) as Artifact["ecs_context"],
    flow_name: first?.flow_name ?? null,
    git_commit: first?.git_commit ?? null,
    commit_url: first?.commit_url ?? null,
    html_url: first?.html_url ?? null,
    flow_html_url: first?.flow_html_url ?? null,
    deployment_diff: first?.deployment_diff ?? null,
    commit_lead_time: first?.commit_lead_time ?? null,
    flows,
    ...allowed,
    policy_decisions: evaluation.verdicts.map((verdict) => presentDecision(context, verdict, facts)),
  };
}

/** The stored reasons, or new ones if a flow that they name has been renamed. */
function findReasons(context: SnapshotContext, { evaluation, reasons }: StoredFacts, facts: Facts): readonly string[] {
  if (facts === evaluation.facts) return reasons;
  return rewordReasons(facts, evaluation.verdicts, context.findDocument) ?? reasons;
}

/** The members that follow from the row's plain columns. */
function presentOutline({ part, row }: Pick<Row, "part" | "row">) {
  const isChanged = part.hasChanges && row.first_index === part.snapshot.idx;
  return {
    name: row.name,
    fingerprint: row.fingerprint,
    ...(part.memberName === null ? {} : { environment_name: part.memberName }),
    compliant: fromSqlBoolean(row.compliant),
    annotation: isChanged
      ? { type: row.annotation, was: row.was, now: row.now }
      : { type: "unchanged" as const, was: row.now, now: row.now },
    deployments: [],
  };
}

/** The row without its JSON columns. Clients fail on running artifacts without a single start (wire-contract 11). */
const presentPlaceholder = ({ part, row }: Row): Artifact => ({
  ...presentOutline({ part, row }),
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
  context: SnapshotContext,
  flow: FlowRecord,
  { part, row, instances }: { part: Part; row: EvaluatedArtifactRow; instances: ShownInstances },
): ArtifactFlow {
  const { urls, organization } = context;
  const listed = context.records.get(flow.artifact_id);
  if (!listed) throw new Error(`artifact ${flow.artifact_id} is gone`);
  const record = replaceStubs(context, listed, { table: "artifacts", allowance: context.allowance });
  const replaced = flow.deployment_id === null ? undefined : context.replaced.get(flow.deployment_id);
  return {
    flow_name: flow.flow,
    trail_name: flow.trail,
    template_reference_name: flow.reference_name,
    git_commit: shownCommit(flow.git_commit),
    commit_url: flow.commit_url,
    git_commit_info: presentCommit(record.git_commit_info_json),
    html_url: urls.artifactPage(organization.name, flow.flow, { fingerprint: row.fingerprint, id: record.public_id }),
    flow_html_url: urls.flowPage(organization.name, flow.flow),
    deployment_diff: replaced
      ? {
          diff_url: replacementUrl(replaced, flow, record.repo_url),
          ...presentReplaced(replaced, context.findFingerprints(part.environment)),
        }
      : null,
    commit_lead_time: findLeadTime(firstStartOf(instances), flow.committed_at),
    artifact_compliance_in_flow: flow.state === "COMPLIANT",
    flow_reasons_for_non_compliance: flow.reasons.map((reason) => ({ reason })),
  };
}

/**
 * Seconds from the commit to the earliest start; null when either is unknown: reporters send 0 for a start that they do
 * not know.
 */
function findLeadTime(earliest: number | undefined, committedAt: number | null): number | null {
  return committedAt === null || earliest === undefined || earliest === 0 ? null : earliest - committedAt;
}

/** @param running fingerprints of the artifacts that run in the environment now */
function presentReplaced(previous: ReplacedRow, running: Set<string>): Omit<Diff, "diff_url"> {
  return {
    previous_git_commit: shownCommit(previous.git_commit),
    previous_git_commit_url: previous.commit_url,
    previous_fingerprint: previous.fingerprint,
    previous_artifact_name: previous.artifact_name,
    previous_artifact_compliance_state: previous.state,
    previous_running: running.has(previous.fingerprint),
    previous_trail_name: previous.trail_name,
    previous_template_reference_name: previous.reference_name === "" ? null : previous.reference_name,
  };
}

/** Without rules if this program cannot read the policy, and for pages; the status is the stored one. */
function presentDecision(
  context: SnapshotContext,
  verdict: StoredVerdict,
  facts: Facts,
): Static<typeof PolicyEvaluation> {
  // Pages show which policies an artifact fails; the page of its verdict has the rules.
  const { isForPage } = context.allowance.answerBounds;
  const document = isForPage ? null : context.findDocument(verdict.version_id);
  return {
    policy_name: verdict.policy,
    policy_version: verdict.version,
    status: verdict.status,
    rule_evaluations: (document
      ? presentRuleVerdicts(expandStoredVerdict(verdict, document, facts).rules)
      : []) as Static<typeof PolicyEvaluation>["rule_evaluations"],
  };
}

/** The policies in order of attachment. A policy that several members of a logical environment share is shown once. */
function presentPolicies(
  context: PresenterContext,
  parts: readonly Part[],
  failingOf: (versionId: number) => Iterable<FailingArtifact>,
): WrittenSnapshot["applied_policies"] {
  const lists = parts.map(listPolicyVersions);
  const versionIds = new Set(lists.flatMap((ids) => ids ?? []));
  const unreadable = lists.includes(null) ? [UNREADABLE_POLICY] : [];
  if (versionIds.size === 0) return unreadable;
  const policies = context.store.snapshots.findPolicyVersions(versionIds);
  const findDocument = documentFinder(context);
  const versions = [...versionIds].flatMap((id) => {
    const policy = policies.get(id);
    if (!policy) return [];
    const document = context.answerBounds?.isForPage ? null : findDocument(id);
    return {
      id: policy.public_id,
      name: policy.name,
      version: policy.version,
      policy_dump: document ? dumpPolicy(document) : UNREADABLE_DUMP,
      failing_artifacts: new JsonList(failingOf(id)),
    };
  });
  return [...versions, ...unreadable];
}

/** Marked in the name of a rule: an unreadable policy must not look like a policy without rules. */
const UNREADABLE_DUMP: Dump = {
  schema_version: "1",
  artifacts: {
    provenance: { required: false, exceptions: [] },
    trail_compliance: { required: false, exceptions: [] },
    attestations: [{ if_condition: null, name: UNREADABLE, type: "*", must_be_compliant: true, for_control: null }],
  },
};

/** In place of policies that a damaged record does not tell: a snapshot must not look as if none had been in force. */
const UNREADABLE_POLICY: WrittenSnapshot["applied_policies"][number] = {
  id: "",
  name: UNREADABLE,
  version: 0,
  policy_dump: UNREADABLE_DUMP,
  failing_artifacts: new JsonList([]),
};
