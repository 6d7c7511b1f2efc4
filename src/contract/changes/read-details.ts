/** What the shown changes of artifacts say besides: causes, builds, pull requests. */
import { withFlowNames } from "../../domain/compliance/environment.ts";
import type { FlowRecord } from "../../domain/compliance/environment.ts";
import { hasMembers, isListOf, isText, readStoredJsonOrNull, textOrNull } from "../../domain/stored-json.ts";
import type { SnapshotChange } from "../../domain/snapshot/period-changes.ts";
import { stubBytes } from "../../store/db/large-json.ts";
import type { EvaluatedArtifactRow } from "../../store/environments/snapshots.ts";
import { NO_CAUSES } from "../../store/environments/verdict-causes.ts";
import type { CausesValue } from "../../store/environments/verdict-causes.ts";
import { createCommitBudget, presentCommitsBetween } from "../comparison/commits-between.ts";
import type { CommitsBetweenValue } from "../comparison/commits-between.ts";
import { memoize } from "../memoize.ts";
import { UNREADABLE } from "../placeholders.ts";
import type { PresenterContext } from "../presenter-context.ts";
import type { GatheredChange } from "./scope.ts";
import type { ChangeValue } from "./shapes.ts";

const MAX_PULL_REQUESTS = 10;

type Context = Pick<PresenterContext, "store" | "urls" | "organization">;

export type ChangeReader = ReturnType<typeof createChangeReader>;

/** Reads what the shown changes of artifacts say besides: one statement of each kind for all of them. */
export function createChangeReader({ store, organization }: Context, shown: readonly GatheredChange[]) {
  const events = shown.flatMap((change) =>
    change.of === "snapshot" && change.change.event ? [{ ...change.change, event: change.change.event }] : [],
  );
  /** What an artifact that turned compliant failed before. */
  const earlier = new Map(
    events.flatMap(({ kind, event, replaced, after }): [number, number][] => {
      if (kind !== "verdict" || after !== true || replaced !== null) return [];
      const id = store.periodChanges.findEarlierRow(event.id);
      return id === null ? [] : [[event.id, id]];
    }),
  );
  const ids = new Set([...events.map(({ event }) => event.id), ...earlier.values()]);
  const rows = new Map(store.snapshotPages.listByKeys([...ids]).map((row) => [row.id, row]));
  const evaluations = new Map([...rows].map(([id, row]) => [id, readEvaluation(store, row)]));
  const flows = new Map(
    [...evaluations].flatMap(([id, evaluation]): [number, FlowRecord][] => {
      const flow = evaluation?.facts.flows[0];
      return flow ? [[id, flow]] : [];
    }),
  );
  const builds = store.periodChanges.findBuilds([...flows.values()].map(({ artifact_id }) => artifact_id));
  const upgrades = events.flatMap(({ replaced, event }) =>
    replaced === null ? [] : (flows.get(event.id)?.deployment_id ?? []),
  );
  const replaced = store.snapshots.findReplaced(upgrades);
  const findReplaced = ({ deployment_id: id }: FlowRecord) => (id === null ? null : (replaced.get(id) ?? null));
  const builtOf = memoize((artifactId: number) => store.builtCommits.findBuild(artifactId));
  const budget = createCommitBudget();
  /** By the ids of two records: what many environments get has the same commits. */
  const commits = new Map<string, CommitsBetweenValue | null>();
  const trailIds = events.flatMap(({ kind, event }) =>
    kind === "upgraded" || kind === "started" ? (flows.get(event.id)?.trail_id ?? []) : [],
  );
  const pullRequests = readPullRequests(store.periodChanges.listPullRequests(new Set(trailIds)));
  return {
    flowOf: (id: number): FlowRecord | null => flows.get(id) ?? null,
    buildOf: (flow: FlowRecord) => builds.get(flow.artifact_id) ?? null,
    replacedOf: findReplaced,
    /** The commits of an upgrade; null where what it replaced is not known. */
    commitsOf(flow: FlowRecord): CommitsBetweenValue | null {
      const earlier = findReplaced(flow)?.artifact_id;
      const [before, after] = [earlier === undefined ? null : builtOf(earlier), builtOf(flow.artifact_id)];
      if (!before || !after) return null;
      const key = `${before.id} ${after.id}`;
      const known = commits.get(key);
      if (known !== undefined) return known;
      const between = presentCommitsBetween(store, { before, after }, budget);
      commits.set(key, between);
      return between;
    },
    pullRequestsOf: ({ trail_id: id }: FlowRecord) => (id === null ? [] : (pullRequests.get(id) ?? [])),
    /** Why an artifact fails, or had failed before it turned compliant. */
    causesOf({ kind, event, after }: SnapshotChange): CausesValue {
      if (event === null) return NO_CAUSES;
      if (evaluations.get(event.id) === null) return DAMAGED;
      if (kind === "exited" || kind === "scaled") return NO_CAUSES;
      const id = after === false ? event.id : earlier.get(event.id);
      const evaluation = id === undefined ? null : evaluations.get(id);
      return evaluation ? store.verdictCauses.explainEvaluation(organization.id, evaluation) : NO_CAUSES;
    },
  };
}

export const DAMAGED: CausesValue = { causes: [{ subject: "", text: UNREADABLE }], further_causes: 0 };

/** With the present names of flows; null where the record is damaged. */
export function readEvaluation(
  { snapshots, flows }: Context["store"],
  row: Pick<EvaluatedArtifactRow, "evaluation_id" | "facts_json" | "verdicts_json">,
) {
  try {
    const { facts, verdicts } = snapshots.parseEvaluation(row);
    const names = flows.findPresentNames(new Set(facts.flows.map(({ flow_id }) => flow_id)));
    return { facts: withFlowNames(facts, (id) => names.get(id)), verdicts };
  } catch {
    return null;
  }
}

type PullRequest = NonNullable<ChangeValue["build"]>["pull_requests"][number];
type StoredPullRequest = { url: string; title?: unknown; author?: unknown };

const isPullRequest = (value: unknown): value is StoredPullRequest =>
  hasMembers<{ url: unknown }>("url")(value) && isText(value.url);
const isPayload = hasMembers<{ pull_requests: unknown }>("pull_requests");
const isPullRequestList = isListOf(isPullRequest);

/** By trail. A payload that is longer than usual names none. */
function readPullRequests(
  rows: readonly { trail_id: number; payload_json: string }[],
): Map<number, readonly PullRequest[]> {
  const found = new Map<number, Map<string, PullRequest>>();
  for (const { trail_id: trail, payload_json: text } of rows) {
    if (stubBytes(text) !== null) continue;
    const payload = readStoredJsonOrNull(text, isPayload);
    const known = found.get(trail) ?? new Map<string, PullRequest>();
    found.set(trail, known);
    if (!payload || !isPullRequestList(payload.pull_requests))
      known.set("", { url: "", title: UNREADABLE, author: null });
    else
      for (const { url, title, author } of payload.pull_requests)
        if (known.size < MAX_PULL_REQUESTS && !known.has(url))
          known.set(url, { url, title: textOrNull(title), author: textOrNull(author) });
  }
  return new Map([...found].map(([trail, all]) => [trail, [...all.values()]]));
}
