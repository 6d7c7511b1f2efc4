/** What a snapshot changed against the one before it, in short: policies, and what it started or upgraded to fail. */
import type { Static } from "typebox";
import { comparePolicies, pairUpgrades, splitName, versionOf } from "../../domain/snapshot/comparison.ts";
import type { PolicyChange, PolicyInForce } from "../../domain/snapshot/comparison.ts";
import { isNumberList, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import { fromSqlBoolean } from "../../store/db/database.ts";
import type { SnapshotRow } from "../../store/environments/snapshots.ts";
import { memoize } from "../memoize.ts";
import { UNREADABLE } from "../placeholders.ts";
import type { PresenterContext } from "../presenter-context.ts";
import type { DiffPolicy, SnapshotTurn } from "./snapshot-diff-shapes.ts";
import type { SnapshotPlace } from "../snapshot-rows.ts";

type Turn = Static<typeof SnapshotTurn>;

/** Upgrades and starts that are named. */
const MAX_NAMED = 3;
/** Artifacts that one snapshot changed, and that are looked at for these. */
const MAX_TURNED = 2_000;
/** Snapshots that changed policies, and are searched for those that changed certain ones. */
const MAX_POLICY_TURNS = 50;

/** The physical environments of a snapshot, each at its own snapshot. */
export const partsOf = (
  { store }: PresenterContext,
  { environment, snapshot }: SnapshotPlace,
): { id: number; index: number }[] =>
  environment.type === "logical"
    ? store.snapshots
        .listMembers(environment.id, snapshot.idx)
        .map(({ member_id, member_index }) => ({ id: member_id, index: member_index }))
    : [{ id: environment.id, index: snapshot.idx }];

/** In place of the changes that a damaged record does not tell: it must not look as if nothing had changed. */
export const UNREADABLE_CHANGE: PolicyChange = { name: UNREADABLE, before: null, after: null };

/** What two snapshots differ in about policies. */
export function changedPolicies(context: PresenterContext, from: SnapshotPlace, to: SnapshotPlace): PolicyChange[] {
  const [before, after] = [policiesOf(context, from), policiesOf(context, to)];
  return before && after ? comparePolicies(before, after) : [UNREADABLE_CHANGE];
}

/** In a logical snapshot those of its members, the latest version of each; null for a damaged record. */
function policiesOf(context: PresenterContext, place: SnapshotPlace): PolicyInForce[] | null {
  const { store } = context;
  const snapshots =
    place.environment.type === "logical"
      ? partsOf(context, place).flatMap(({ id, index }) => store.snapshots.find(id, index) ?? [])
      : [place.snapshot];
  const lists = snapshots.map((one) => readStoredJsonOrNull(one.policy_versions_json, isNumberList));
  if (lists.includes(null)) return null;
  const ids = lists.flatMap((list) => list ?? []);
  return latestOfEach(store.snapshots.findPolicyVersions(new Set(ids)).values());
}

/** The policies of some versions, each in the latest of them. */
export function latestOfEach(
  versions: Iterable<{ public_id: string; name: string; version: number }>,
): PolicyInForce[] {
  const found = new Map<string, PolicyInForce>();
  for (const { public_id: policy, name, version } of versions)
    if ((found.get(policy)?.version ?? 0) < version) found.set(policy, { policy, name, version });
  return [...found.values()];
}

export const presentPolicy = ({ name, before, after }: PolicyChange): Static<typeof DiffPolicy> => ({
  name,
  change: before === null && after !== null ? "attached" : before !== null && after === null ? "detached" : "changed",
  before,
  after,
});

/** What a snapshot changed; of a logical environment, what its member did. Null for the first one. */
export function presentTurn(context: PresenterContext, { environment, snapshot }: SnapshotPlace): Turn | null {
  const { store } = context;
  const previous = store.snapshots.find(environment.id, snapshot.idx - 1);
  if (!previous) return null;
  const member = findMember(context, { environment, snapshot }, previous);
  return {
    index: snapshot.idx,
    timestamp: snapshot.timestamp,
    cause: snapshot.cause,
    user_name: snapshot.user_name,
    environment_name: member?.place.environment.name ?? null,
    before: fromSqlBoolean(previous.compliant),
    after: fromSqlBoolean(snapshot.compliant),
    ...(environment.type === "logical"
      ? member
        ? changesOf(context, member.place, member.previous)
        : NOTHING
      : changesOf(context, { environment, snapshot }, previous)),
  };
}

/** The member of a logical environment whose snapshot made this one; null for one that was only added or removed. */
function findMember(
  context: PresenterContext,
  { environment, snapshot: { member_id: id, member_index: index } }: SnapshotPlace,
  previous: SnapshotRow,
): { place: SnapshotPlace; previous: SnapshotRow } | null {
  if (id === null || index === null) return null;
  const { snapshots, environments } = context.store;
  const parts = partsOf(context, { environment, snapshot: previous });
  if (!parts.some((part) => part.id === id && part.index === index - 1)) return null;
  const [before, made] = [snapshots.find(id, index - 1), snapshots.find(id, index)];
  return before && made && { place: { environment: environments.get(id), snapshot: made }, previous: before };
}

type Explanations = Pick<Turn, "policies" | "upgrades" | "started" | "exited" | "reevaluated">;
const NOTHING: Explanations = { policies: [], upgrades: [], started: [], exited: [], reevaluated: [] };

/** What explains the verdict of a snapshot of a physical environment. */
function changesOf(context: PresenterContext, place: SnapshotPlace, previous: SnapshotRow): Explanations {
  const { environment, snapshot } = place;
  const changed = context.store.snapshotPages
    .listTurned(environment.id, snapshot.idx, MAX_TURNED)
    .map((row) => ({ ...row, compliant: fromSqlBoolean(row.compliant), place: "" }));
  const verdict = fromSqlBoolean(snapshot.compliant);
  const { upgraded, started, exited } = pairUpgrades(changed);
  const fails = ({ compliant }: { compliant: boolean | null }): boolean => compliant === false;
  const policies = changedPolicies(context, { environment, snapshot: previous }, place);
  return {
    policies: policies.filter((one) => one !== UNREADABLE_CHANGE).map(presentPolicy),
    upgrades: upgraded
      .filter((pair) => (verdict === true ? fails(pair.before) : fails(pair.after)))
      .slice(0, MAX_NAMED)
      .map((pair) => ({
        service: splitName(pair.after.name).service,
        before: versionOf(pair.before),
        after: versionOf(pair.after),
      })),
    started: namesOf(started.filter(fails)),
    exited: verdict === true ? namesOf(exited.filter(fails)) : [],
    reevaluated: namesOf(changed.filter(({ was, now, compliant }) => was > 0 && now > 0 && compliant === verdict)),
  };
}

const namesOf = (rows: readonly { name: string }[]): string[] => rows.slice(0, MAX_NAMED).map(({ name }) => name);

/**
 * The latest snapshot between two of one environment that made a change of a policy; null for a logical environment,
 * and where there were more than MAX_POLICY_TURNS later ones.
 */
export function createPolicyTurnFinder(
  context: PresenterContext,
  { from, to }: { from: SnapshotPlace; to: SnapshotPlace },
) {
  const { store } = context;
  const { id } = to.environment;
  const changesIn = memoize((index: number): PolicyChange[] => {
    const [previous, snapshot] = [store.snapshots.find(id, index - 1), store.snapshots.find(id, index)];
    const { environment } = to;
    return previous && snapshot
      ? changedPolicies(context, { environment, snapshot: previous }, { environment, snapshot })
      : [];
  });
  const turns = store.snapshotPages.listPolicyTurns(id, {
    first: from.snapshot.idx,
    last: to.snapshot.idx,
    limit: MAX_POLICY_TURNS,
  });
  return ({ name, after }: PolicyChange) => {
    const turn = turns.find(({ idx }) => changesIn(idx).some((one) => one.name === name && one.after === after));
    return turn ? { index: turn.idx, timestamp: turn.timestamp, user_name: turn.user_name } : null;
  };
}
