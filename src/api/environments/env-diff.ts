/** What differs between two snapshots, of one environment or of two (semantics 6.9). */
import { Type } from "typebox";
import type { Static } from "typebox";
import type { Facts } from "../../domain/compliance/environment.ts";
import { SNAPPISH_PATTERN, parseSnapshotExpression } from "../../domain/snapshot/expression.ts";
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
      description: "Empty where the reporter could not resolve the image; such artifacts are compared by name",
    }),
    name: Type.String(),
    most_recent_timestamp: Type.Integer({ description: "Start of the latest instance, epoch seconds" }),
    flow: Type.String({ description: "The first flow, empty without provenance" }),
    commit_url: Nullable(Type.String()),
    instance_count: Type.Integer({ description: "In the second snapshot, or in the only one that has it" }),
    s1_instance_count: Type.Integer(),
    s2_instance_count: Type.Integer(),
    pods: Type.Array(Type.String(), { description: "Names of the pods; K8S only" }),
  }),
);

const DiffItem = named(
  "DiffItem",
  Closed({
    snapshot_id: Nullable(Type.String({ description: "`ENV#N`; null in the groups of both" })),
    artifacts: Type.Array(ArtifactInfo),
  }),
);

const EnvironmentDiffResponse = named(
  "EnvironmentDifference",
  Closed(
    { snappish1: DiffItem, snappish2: DiffItem, changed: DiffItem, "not-changed": DiffItem },
    {
      description:
        "What only the first has, what only the second has, what has another number of instances, what is the same",
    },
  ),
);

const Expression = CheckedByHandler(
  { pattern: SNAPPISH_PATTERN },
  Type.String({ description: "`ENV`, `ENV#N`, `ENV~N` or `ENV@{...}`; a bare name is the latest snapshot" }),
);

export const environmentDiff = operation({
  id: "environment_diff",
  method: "GET",
  path: "/env-diff/{org}",
  tag: "EnvDiff",
  summary: "Compare the artifacts of two snapshots",
  description: "By fingerprint. `changed` are those that run in both with another number of instances.",
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
      sideOf(context, { label: query.snappish1, now }, first),
      sideOf(context, { label: query.snappish2, now }, second),
    ];
    return { status: 200, body: compare(s1, s2) };
  },
});

/** An artifact of one side, all its instances together. `flow` is the name of its first flow, "" without provenance. */
type Found = {
  fingerprint: string;
  name: string;
  latest: number;
  flowId: number | null;
  flow: string;
  commitUrl: string | null;
  instances: number;
  pods: Set<string>;
};
type Side = { id: string; artifacts: Map<string, Found> };

/** @throws AppError not_found for an unknown environment or an index that does not exist. */
function sideOf(
  context: OperationContext,
  asked: { label: string; now: number },
  { environment: name, position }: NonNullable<ReturnType<typeof parseSnapshotExpression>>,
): Side {
  const environment = context.store.environments.require(context.organization, name);
  const snapshot = requireSnapshot(context, environment, position, { ...asked, name });
  const artifacts = new Map<string, Found>();
  for (const row of runningIn(context, environment, snapshot)) {
    // Unresolved images have no fingerprint in common, only the lack of one.
    const key = row.fingerprint === "" ? `:${row.name}` : row.fingerprint;
    const known = artifacts.get(key);
    const found = known ?? {
      fingerprint: row.fingerprint,
      name: row.name,
      latest: 0,
      instances: 0,
      pods: new Set<string>(),
      ...provenanceOf(row),
    };
    if (!known) artifacts.set(key, found);
    const { created, pods } = instancesOf(row);
    found.instances += row.now;
    for (const start of created) found.latest = Math.max(found.latest, start);
    for (const pod of Object.keys(pods ?? {})) found.pods.add(pod);
  }
  const flowNames = context.store.flows.presentNames([...artifacts.values()].flatMap(({ flowId }) => flowId ?? []));
  for (const found of artifacts.values())
    if (found.flowId !== null) found.flow = flowNames.get(found.flowId) ?? found.flow;
  return { id: `${environment.name}#${snapshot.idx}`, artifacts };
}

function runningIn(
  { store }: OperationContext,
  environment: EnvironmentRow,
  { idx }: SnapshotRow,
): RunningArtifactRow[] {
  if (environment.type !== "logical") return store.snapshots.running(environment.id, idx);
  return store.snapshots
    .members(environment.id, idx)
    .flatMap(({ member_id, member_index }) => store.snapshots.running(member_id, member_index));
}

/** The first flow as stored. A damaged record reads as without provenance: it must not fail the rest (semantics 9). */
function provenanceOf({ facts_json }: RunningArtifactRow): Pick<Found, "flowId" | "flow" | "commitUrl"> {
  try {
    const first = (JSON.parse(facts_json) as Facts).flows[0];
    return { flowId: first?.flow_id ?? null, flow: first?.flow ?? "", commitUrl: first?.commit_url ?? null };
  } catch {
    return { flowId: null, flow: "", commitUrl: null };
  }
}

/** None where the record is damaged; how many they are stands in the row. */
function instancesOf({ instances_json }: RunningArtifactRow): Instances {
  try {
    const instances = JSON.parse(instances_json) as Instances;
    return Array.isArray(instances.created) ? instances : { created: [] };
  } catch {
    return { created: [] };
  }
}

function compare(s1: Side, s2: Side): Static<typeof EnvironmentDiffResponse> {
  const onlyFirst: Info[] = [];
  const onlySecond: Info[] = [];
  const changed: Info[] = [];
  const same: Info[] = [];
  for (const [key, found] of s1.artifacts)
    if (!s2.artifacts.has(key)) onlyFirst.push(infoOf(found, found.instances, 0));
  for (const [key, found] of s2.artifacts) {
    const before = s1.artifacts.get(key)?.instances ?? 0;
    const group = before === 0 ? onlySecond : before === found.instances ? same : changed;
    group.push(infoOf(found, before, found.instances));
  }
  return {
    snappish1: { snapshot_id: s1.id, artifacts: onlyFirst },
    snappish2: { snapshot_id: s2.id, artifacts: onlySecond },
    changed: { snapshot_id: null, artifacts: changed },
    "not-changed": { snapshot_id: null, artifacts: same },
  };
}

type Info = Static<typeof ArtifactInfo>;

const infoOf = (
  { fingerprint, name, latest, flow, commitUrl, instances, pods }: Found,
  s1: number,
  s2: number,
): Info => ({
  fingerprint,
  name,
  most_recent_timestamp: latest,
  flow,
  commit_url: commitUrl,
  instance_count: instances,
  s1_instance_count: s1,
  s2_instance_count: s2,
  pods: [...pods].sort(),
});
