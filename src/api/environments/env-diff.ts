/**
 * The difference between two snapshots, of the same environment or of two (semantics 6.9). Each may have tens of
 * thousands of artifacts: names and counts of all are compared in memory, and their details are read while the answer
 * is written.
 */
import { Type } from "typebox";
import type { Static } from "typebox";
import type { Facts } from "../../domain/compliance/environment.ts";
import { hasMembers, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Message, Nullable, named } from "../../http/schema.ts";
import type { EnvironmentRow } from "../../store/environments/environments.ts";
import type { RunningDetailRow, RunningKeyRow } from "../../store/environments/snapshot-pages.ts";
import type { SnapshotRow } from "../../store/environments/snapshots.ts";
import { podNamesOf, readInstances, startsOf } from "../../contract/instances.ts";
import type { ShownInstances } from "../../contract/instances.ts";
import { rethrowLarge } from "../../contract/placeholders.ts";
import { JsonList } from "../../json/text.ts";
import { largeRead } from "../context.ts";
import type { LargeReadContext } from "../context.ts";
import { SideExpression, countArtifacts, findSide, parseSides } from "./diff-sides.ts";
import type { RequestedSide } from "./diff-sides.ts";
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
    total: Type.Optional(Type.Integer({ description: "With `limit`: the artifacts before it was applied" })),
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

/** Artifacts of both sides together that are compared here: some milliseconds of work. */
const MAX_INLINE_ARTIFACTS = 1_500;

export const environmentDiff = largeRead({
  id: "environment_diff",
  method: "GET",
  path: "/env-diff/{org}",
  tag: "EnvDiff",
  summary: "Compare the artifacts of two snapshots",
  description:
    "Compares by fingerprint. `changed` has the artifacts that run in both with different instance counts. With " +
    "`limit`, each of the four lists has at most that many artifacts, by name, and their `total`.",
  permission: "environment:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    snappish1: SideExpression,
    snappish2: SideExpression,
    limit: Type.Optional(
      Type.Integer({ minimum: 0, maximum: 1_000, description: "Artifacts of each list; all without it" }),
    ),
  }),
  body: NO_BODY,
  responses: {
    200: { description: "The differences", schema: EnvironmentDiffResponse },
    404: { description: "No such environment or snapshot", schema: Message },
  },
  example: { params: { org: "acme" }, query: { snappish1: "staging", snappish2: "production~0" } },
  async prepare(context, { query }) {
    const { snappish1, snappish2 } = parseSides(
      { snappish1: query.snappish1, snappish2: query.snappish2 },
      context.now(),
    );
    return [snappish1, snappish2] as const;
  },
  isLarge: (context, _input, [first, second]) =>
    countArtifacts(findSide(context, first)) + countArtifacts(findSide(context, second)) > MAX_INLINE_ARTIFACTS,
  handle: (context, { query }, [first, second]) => ({
    status: 200,
    body: present(context, compare(readSide(context, first), readSide(context, second)), query.limit ?? null),
  }),
});

/**
 * An artifact in one snapshot: the row of the first of its names, with the instances of all its rows. The rows become
 * artifacts without being copied: there may be thousands, and few have a second name.
 */
type RunningArtifact = RunningKeyRow & { otherIds?: number[] };
const idsOf = ({ id, otherIds = [] }: RunningArtifact): number[] => [id, ...otherIds];
type Side = { id: string; artifacts: Map<string, RunningArtifact> };

/** The artifacts of the snapshot that an expression refers to. @throws AppError not_found */
function readSide(context: LargeReadContext, side: RequestedSide): Side {
  const { environment, snapshot } = findSide(context, side);
  const artifacts = new Map<string, RunningArtifact>();
  for (const row of readRunning(context, environment, snapshot)) {
    const key = keyOf(row);
    const artifact = artifacts.get(key);
    artifacts.set(key, artifact ? joinRows(artifact, row) : row);
  }
  return { id: `${environment.name}#${snapshot.idx}`, artifacts };
}

/** Unresolved images share only the lack of a fingerprint. */
const keyOf = ({ fingerprint, name }: RunningKeyRow): string => (fingerprint === "" ? `:${name}` : fingerprint);

function joinRows(artifact: RunningArtifact, row: RunningKeyRow): RunningArtifact {
  const now = artifact.now + row.now;
  return row.name > artifact.name
    ? { ...artifact, now, otherIds: [...(artifact.otherIds ?? []), row.id] }
    : { ...row, now, otherIds: idsOf(artifact) };
}

function readRunning({ store }: LargeReadContext, environment: EnvironmentRow, { idx }: SnapshotRow): RunningKeyRow[] {
  if (environment.type !== "logical") return store.snapshotPages.listRunningKeys(environment.id, idx);
  return store.snapshots
    .listMembers(environment.id, idx)
    .flatMap(({ member_id, member_index }) => store.snapshotPages.listRunningKeys(member_id, member_index));
}

const isFacts = hasMembers<Facts>("flows");

/** The artifacts of the second snapshot, and in `onlyFirst` those that only the first one has. */
type Comparison = { s1: Side; s2: Side } & Record<"onlyFirst" | "onlySecond" | "changed" | "same", RunningArtifact[]>;

function compare(s1: Side, s2: Side): Comparison {
  const comparison: Comparison = { s1, s2, onlyFirst: [], onlySecond: [], changed: [], same: [] };
  for (const [key, artifact] of s1.artifacts) if (!s2.artifacts.has(key)) comparison.onlyFirst.push(artifact);
  for (const [key, artifact] of s2.artifacts) {
    const before = s1.artifacts.get(key)?.now ?? 0;
    comparison[before === 0 ? "onlySecond" : before === artifact.now ? "same" : "changed"].push(artifact);
  }
  return comparison;
}

type Info = Static<typeof ArtifactInfo>;
type Shown = { artifacts: JsonList<Info>; total?: number };

const byName = (a: RunningArtifact, b: RunningArtifact): number =>
  a.name < b.name ? -1 : a.name > b.name ? 1 : a.id - b.id;

/** Artifacts whose details are read at a time. */
const BATCH_SIZE = 200;

/** An EnvironmentDifference, whose lists are made while it is written. @param limit artifacts of each; null: all */
function present(context: LargeReadContext, comparison: Comparison, limit: number | null) {
  const { s1, s2, onlyFirst, onlySecond, changed, same } = comparison;
  const instancesIn = (side: Side, artifact: RunningArtifact): number => side.artifacts.get(keyOf(artifact))?.now ?? 0;
  function* presentAll(artifacts: readonly RunningArtifact[]): Generator<Info> {
    for (let start = 0; start < artifacts.length; start += BATCH_SIZE) {
      const batch = artifacts.slice(start, start + BATCH_SIZE);
      const details = readDetails(context, batch);
      for (const artifact of batch)
        yield {
          ...toInfo(artifact, details(artifact)),
          s1_instance_count: instancesIn(s1, artifact),
          s2_instance_count: instancesIn(s2, artifact),
        };
    }
  }
  const [first, second, both, unchanged] = [onlyFirst, onlySecond, changed, same].map((all) => ({
    artifacts: new JsonList(presentAll(all.sort(byName).slice(0, limit ?? undefined))),
    ...(limit === null ? {} : { total: all.length }),
  })) as [Shown, Shown, Shown, Shown];
  return {
    snappish1: { snapshot_id: s1.id, ...first },
    snappish2: { snapshot_id: s2.id, ...second },
    changed: { snapshot_id: null, ...both },
    "not-changed": { snapshot_id: null, ...unchanged },
  };
}

/** `latest`: start of the latest instance, epoch seconds. `flow`: name of the first flow, "" without provenance. */
type Details = { latest: number; flow: string; commitUrl: string | null; pods: readonly string[] };

/** The details of artifacts, read for all of them together. */
function readDetails(
  context: LargeReadContext,
  artifacts: readonly RunningArtifact[],
): (artifact: RunningArtifact) => Details {
  const { store } = context;
  const rows = store.snapshotPages.findRunningDetails(artifacts.flatMap(idsOf));
  const provenances = new Map(artifacts.map((artifact) => [artifact, readProvenance(rows.get(artifact.id))] as const));
  const flowNames = store.flows.findPresentNames([...provenances.values()].flatMap(({ flowId }) => flowId ?? []));
  return (artifact) => {
    const { flowId, flow, commitUrl } = provenances.get(artifact) ?? readProvenance(undefined);
    const pods = new Set<string>();
    let latest = 0;
    for (const id of idsOf(artifact)) {
      const instances = findInstances(context, rows.get(id));
      if (instances === null) continue;
      for (const start of startsOf(instances)) latest = Math.max(latest, start);
      for (const pod of podNamesOf(instances)) pods.add(pod);
    }
    const name = flowId === null ? undefined : flowNames.get(flowId);
    return { latest, flow: name ?? flow, commitUrl, pods: [...pods].sort() };
  };
}

/** null where the record is damaged; the row itself has the number of instances. @throws LargeAnswerError */
function findInstances(context: LargeReadContext, row: RunningDetailRow | undefined): ShownInstances | null {
  try {
    return row ? readInstances(context, row) : null;
  } catch (error) {
    rethrowLarge(error);
    return null;
  }
}

type Provenance = { flowId: number | null; flow: string; commitUrl: string | null };

/** The first flow as stored. A damaged record reads as without provenance, so that it does not fail the rest. */
function readProvenance(row: RunningDetailRow | undefined): Provenance {
  const first = readStoredJsonOrNull(row?.facts_json ?? "", isFacts)?.flows[0];
  return { flowId: first?.flow_id ?? null, flow: first?.flow ?? "", commitUrl: first?.commit_url ?? null };
}

const toInfo = (
  { fingerprint, name, now }: RunningArtifact,
  { latest, flow, commitUrl, pods }: Details,
): Omit<Info, "s1_instance_count" | "s2_instance_count"> => ({
  fingerprint,
  name,
  most_recent_timestamp: latest,
  flow,
  commit_url: commitUrl,
  instance_count: now,
  pods: [...pods],
});
