/** The difference between two snapshots, of the same environment or of two (semantics 6.9). */
import { Type } from "typebox";
import type { Static } from "typebox";
import type { Facts } from "../../domain/compliance/environment.ts";
import { hasMembers, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import { SNAPSHOT_EXPRESSION_PATTERN, parseSnapshotExpression } from "../../domain/snapshot/expression.ts";
import type { Instances } from "../../domain/snapshot/normalize.ts";
import { invalid } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { CheckedByHandler, Closed, Message, Nullable, named } from "../../http/schema.ts";
import type { EnvironmentRow } from "../../store/environments/environments.ts";
import type { RunningArtifactRow, SnapshotRow } from "../../store/environments/snapshots.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { expressionProblem, requireSnapshot } from "./snapshots.ts";
import { OrgPath } from "../paths.ts";

const ArtifactInfo = named(
  "ArtifactInfo",
  Closed({
    fingerprint: Type.String({
      description: "Empty if the reporter could not resolve the image; such artifacts are compared by name",
    }),
    name: Type.String(),
    most_recent_timestamp: Type.Integer({ description: "Start of the latest instance, epoch seconds" }),
    flow: Type.String({ description: "The first flow; empty without provenance" }),
    commit_url: Nullable(Type.String()),
    instance_count: Type.Integer({
      description: "In the second snapshot, or in the only snapshot that has the artifact",
    }),
    s1_instance_count: Type.Integer(),
    s2_instance_count: Type.Integer(),
    pods: Type.Array(Type.String(), { description: "Names of the pods; K8S only" }),
  }),
);

const DiffItem = named(
  "DiffItem",
  Closed({
    snapshot_id: Nullable(Type.String({ description: "`ENV#N`; null in `changed` and `not-changed`" })),
    artifacts: Type.Array(ArtifactInfo),
  }),
);

const EnvironmentDiffResponse = named(
  "EnvironmentDifference",
  Closed(
    { snappish1: DiffItem, snappish2: DiffItem, changed: DiffItem, "not-changed": DiffItem },
    {
      description:
        "Artifacts only in the first snapshot, only in the second, in both with different instance counts, and in " +
        "both with the same instance count",
    },
  ),
);

const Expression = CheckedByHandler(
  { pattern: SNAPSHOT_EXPRESSION_PATTERN },
  Type.String({ description: "`ENV`, `ENV#N`, `ENV~N` or `ENV@{...}`; a bare name is the latest snapshot" }),
);

export const environmentDiff = operation({
  id: "environment_diff",
  method: "GET",
  path: "/env-diff/{org}",
  tag: "EnvDiff",
  summary: "Compare the artifacts of two snapshots",
  description: "Compares by fingerprint. `changed` has the artifacts that run in both with different instance counts.",
  permission: "environment:read",
  audit: null,
  params: OrgPath,
  query: Closed({ snappish1: Expression, snappish2: Expression }),
  body: NO_BODY,
  responses: {
    200: { description: "The differences", schema: EnvironmentDiffResponse },
    404: { description: "No such environment or snapshot", schema: Message },
  },
  example: { params: { org: "acme" }, query: { snappish1: "staging", snappish2: "production~0" } },
  handle(context, { query }) {
    const now = context.now();
    const [first, second] = [
      parseSnapshotExpression(query.snappish1, now),
      parseSnapshotExpression(query.snappish2, now),
    ];
    if (!first || !second)
      throw invalid({
        ...(first ? {} : { snappish1: expressionProblem(query.snappish1) }),
        ...(second ? {} : { snappish2: expressionProblem(query.snappish2) }),
      });
    const [s1, s2] = [
      readSide(context, { label: query.snappish1, now }, first),
      readSide(context, { label: query.snappish2, now }, second),
    ];
    return { status: 200, body: compare(s1, s2) };
  },
});

/** An artifact in one snapshot, with all its instances. `flow`: name of its first flow, "" without provenance. */
type RunningArtifact = {
  fingerprint: string;
  name: string;
  latest: number;
  flowId: number | null;
  flow: string;
  commitUrl: string | null;
  instances: number;
  pods: Set<string>;
};
type Side = { id: string; artifacts: Map<string, RunningArtifact> };

/**
 * The artifacts of the snapshot that an expression refers to. `label`: the expression as sent.
 * @throws AppError not_found for an unknown environment or snapshot
 */
function readSide(
  context: OperationContext,
  request: { label: string; now: number },
  { environment: name, position }: NonNullable<ReturnType<typeof parseSnapshotExpression>>,
): Side {
  const environment = context.store.environments.require(context.organization, name);
  const snapshot = requireSnapshot(context, environment, { ...request, position, name });
  const artifacts = new Map<string, RunningArtifact>();
  for (const row of readRunning(context, environment, snapshot)) {
    // Unresolved images share only the lack of a fingerprint.
    const key = row.fingerprint === "" ? `:${row.name}` : row.fingerprint;
    let artifact = artifacts.get(key);
    if (!artifact) {
      artifact = toRunningArtifact(row);
      artifacts.set(key, artifact);
    }
    addInstances(artifact, row);
  }
  const flowNames = context.store.flows.findPresentNames([...artifacts.values()].flatMap(({ flowId }) => flowId ?? []));
  for (const artifact of artifacts.values())
    if (artifact.flowId !== null) artifact.flow = flowNames.get(artifact.flowId) ?? artifact.flow;
  return { id: `${environment.name}#${snapshot.idx}`, artifacts };
}

const toRunningArtifact = (row: RunningArtifactRow): RunningArtifact => ({
  fingerprint: row.fingerprint,
  name: row.name,
  latest: 0,
  instances: 0,
  pods: new Set<string>(),
  ...readProvenance(row),
});

function addInstances(artifact: RunningArtifact, row: RunningArtifactRow): void {
  // Without them where the record is damaged; the row itself has their number.
  const { created, pods } = readStoredJsonOrNull(row.instances_json, isInstances) ?? { created: [] };
  artifact.instances += row.now;
  for (const start of created) artifact.latest = Math.max(artifact.latest, start);
  for (const pod of Object.keys(pods ?? {})) artifact.pods.add(pod);
}

function readRunning(
  { store }: OperationContext,
  environment: EnvironmentRow,
  { idx }: SnapshotRow,
): RunningArtifactRow[] {
  if (environment.type !== "logical") return store.snapshots.listRunning(environment.id, idx);
  return store.snapshots
    .listMembers(environment.id, idx)
    .flatMap(({ member_id, member_index }) => store.snapshots.listRunning(member_id, member_index));
}

const isFacts = hasMembers<Facts>("flows");
const hasCreated = hasMembers<Instances>("created");
const isInstances = (value: unknown): value is Instances => hasCreated(value) && Array.isArray(value.created);

/** The first flow as stored. A damaged record reads as without provenance, so that it does not fail the rest. */
function readProvenance({ facts_json }: RunningArtifactRow): Pick<RunningArtifact, "flowId" | "flow" | "commitUrl"> {
  const first = readStoredJsonOrNull(facts_json, isFacts)?.flows[0];
  return { flowId: first?.flow_id ?? null, flow: first?.flow ?? "", commitUrl: first?.commit_url ?? null };
}

type Info = Static<typeof ArtifactInfo>;

function compare(s1: Side, s2: Side): Static<typeof EnvironmentDiffResponse> {
  const onlyFirst: Info[] = [];
  const onlySecond: Info[] = [];
  const changed: Info[] = [];
  const same: Info[] = [];
  for (const [key, artifact] of s1.artifacts)
    if (!s2.artifacts.has(key)) onlyFirst.push(toInfo(artifact, { s1: artifact.instances, s2: 0 }));
  for (const [key, artifact] of s2.artifacts) {
    const before = s1.artifacts.get(key)?.instances ?? 0;
    const group = before === 0 ? onlySecond : before === artifact.instances ? same : changed;
    group.push(toInfo(artifact, { s1: before, s2: artifact.instances }));
  }
  return {
    snappish1: { snapshot_id: s1.id, artifacts: onlyFirst },
    snappish2: { snapshot_id: s2.id, artifacts: onlySecond },
    changed: { snapshot_id: null, artifacts: changed },
    "not-changed": { snapshot_id: null, artifacts: same },
  };
}

/** @param instances how many each snapshot has */
const toInfo = (artifact: RunningArtifact, instances: { s1: number; s2: number }): Info => ({
  fingerprint: artifact.fingerprint,
  name: artifact.name,
  most_recent_timestamp: artifact.latest,
  flow: artifact.flow,
  commit_url: artifact.commitUrl,
  instance_count: artifact.instances,
  s1_instance_count: instances.s1,
  s2_instance_count: instances.s2,
  pods: [...artifact.pods].sort(),
});
