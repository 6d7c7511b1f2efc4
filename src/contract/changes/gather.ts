/**
 * What happened in an organization during a period, newest first, from snapshots, policies, allowlists, memberships and
 * the audit log. Of artifacts only keys and verdicts are read; artifacts.ts reads those that are shown.
 */
import { isNumberList, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import { comparePolicies } from "../../domain/snapshot/comparison.ts";
import type { PolicyChange } from "../../domain/snapshot/comparison.ts";
import {
  CHANGE_KINDS,
  PEOPLE_KINDS,
  STALE_AFTER_S,
  hasStarts,
  listSnapshotChanges,
} from "../../domain/snapshot/period-changes.ts";
import type { ChangeKind, ChangedSnapshot } from "../../domain/snapshot/period-changes.ts";
import { fromSqlBoolean } from "../../store/db/database.ts";
import type {
  ChangedEnvironmentRow,
  MomentRow,
  PolicyChangeRow,
} from "../../store/environments/history/period-changes.ts";
import { UNREADABLE_CHANGE, latestOfEach } from "../comparison/snapshot-turns.ts";
import { gatherPeople } from "./gather-people.ts";
import { INLINE, LONG, WHOLE, cutOff, rowWindow } from "./scope.ts";
import type { ChangeScope, GatherBounds, GatherContext, GatheredChange, Limits, FoundChange } from "./scope.ts";

const MAX_INLINE_ENVIRONMENTS = 200;

/** An environment with snapshots in the period: the first and the last of them, and the verdicts before and after. */
type ChangedPlace = { first: number; last: number; before: boolean | null; after: boolean | null };

export type Gathered = {
  /** All changes from this time on are here; later than the start of the period where there were too many. */
  since: number;
  changes: FoundChange[];
  /** The environments of the scope, by name. */
  environments: readonly ChangedEnvironmentRow[];
  /** By the ids of environments; those without snapshots in the period are left out. */
  places: ReadonlyMap<number, ChangedPlace>;
};

type ById = ReadonlyMap<number, ChangedEnvironmentRow>;

/** The kinds that an answer of this scope has. */
export const kindsOf = ({ seesPeople, environment }: Pick<ChangeScope, "seesPeople" | "environment">): ChangeKind[] =>
  CHANGE_KINDS.filter((kind) => !PEOPLE_KINDS.includes(kind) || (seesPeople && environment === null));

/** All environments but logical ones, or the named one with its members. @throws AppError not_found */
function listScope(
  { store, organization }: GatherContext,
  { environment: name }: ChangeScope,
): ChangedEnvironmentRow[] {
  const named = name === null ? null : store.environments.require(organization, name);
  const all = store.periodChanges.listEnvironments(organization.id);
  if (named === null) return all.filter(({ type }) => type !== "logical");
  const ids = new Set([named.id, ...(named.type === "logical" ? store.environments.listMemberIds(named.id) : [])]);
  return all.filter(({ id }) => ids.has(id));
}

/** Whether gathering takes longer than the main thread has. @throws AppError not_found */
export function isLargePeriod(context: GatherContext, scope: ChangeScope): boolean {
  const { periodChanges } = context.store;
  const { from, to } = scope;
  const environments = listScope(context, scope);
  if (environments.length > MAX_INLINE_ENVIRONMENTS) return true;
  const ids = environments.map(({ id }) => id);
  const moments = periodChanges.listMoments(ids, { from, to, limit: INLINE.moments + 1 });
  if (moments.length > INLINE.moments) return true;
  let events = 0;
  for (const moment of moments) {
    events += periodChanges.countEvents(moment, INLINE.events + 1);
    if (events > INLINE.events) return true;
  }
  if (!scope.seesPeople || scope.environment !== null) return false;
  const limit = INLINE.auditEntries + 1;
  return periodChanges.countAudited(context.organization.id, { from, to, limit }) === limit;
}

/** The newest changes of a period, as many as the bounds permit. @throws AppError not_found for the environment */
export function gatherChanges(context: GatherContext, scope: ChangeScope, bounds = WHOLE): Gathered {
  const environments = listScope(context, scope);
  const byId: ById = new Map(environments.map((one) => [one.id, one]));
  const { moments, since } = readMoments(context, [...byId.keys()], { ...scope, bounds });
  const limits: Limits = { ...scope, since, bounds };
  const isWhole = scope.environment === null;
  const changes = [
    snapshotChanges(context, moments, byId),
    attachments(context, moments, byId),
    allowed(context, limits, byId),
    stale(limits, environments),
    isWhole ? policies(context, limits) : [],
    isWhole && scope.seesPeople ? gatherPeople(context, limits) : [],
  ].flat();
  return {
    since: limits.since,
    changes: changes.filter(({ at }) => at >= limits.since).sort(newestFirst),
    environments,
    places: placesOf(context, moments),
  };
}

/** What is asked for of rules and people: the environments and policies that count; members and keys always do. */
type RuleScope = Omit<ChangeScope, "environment"> & {
  environmentIds: ReadonlySet<number>;
  policies: ReadonlySet<string>;
};

/**
 * Who changed policies, allowlists, members and keys in a period, newest first. Active environments only.
 * @returns `since`: all changes of rules from this time on are there; `peopleSince`: those of members and keys, null if
 *   they may not be read
 */
export function gatherRuleChanges(
  context: GatherContext,
  { environmentIds, policies: names, ...period }: RuleScope,
): { since: number; peopleSince: number | null; changes: GatheredChange[] } {
  const { periodChanges } = context.store;
  const scope: ChangeScope = { ...period, environment: null };
  const environments = periodChanges.listEnvironments(context.organization.id);
  const byId: ById = new Map(environments.flatMap((one) => (environmentIds.has(one.id) ? [[one.id, one]] : [])));
  const limits: Limits = { ...scope, since: scope.from, bounds: LONG };
  const people: Limits = { ...limits };
  const found = periodChanges.listRuleMoments([...byId.keys()], rowWindow(limits));
  const moments = cutOff(limits, found).map((row) => ({ row, rows: [] }));
  const ofRules = [attachments(context, moments, byId), allowed(context, limits, byId), policies(context, limits)]
    .flat()
    .filter((change) => change.of !== "policy" || names.has(change.row.policy));
  const ofPeople = scope.seesPeople ? gatherPeople(context, people) : [];
  return {
    since: limits.since,
    peopleSince: scope.seesPeople ? people.since : null,
    changes: [
      ...ofRules.filter(({ at }) => at >= limits.since),
      ...ofPeople.filter(({ at }) => at >= people.since),
    ].sort(newestFirst),
  };
}

const RANKS = new Map(CHANGE_KINDS.map((kind, rank) => [kind, rank]));
/** The verdict on an environment stands before those on artifacts, which made it. */
const rankOf = (change: FoundChange): number => (change.of === "snapshot" ? -1 : (RANKS.get(change.kind) ?? 0));

const newestFirst = (a: FoundChange, b: FoundChange): number =>
  b.at - a.at ||
  (a.environment?.id ?? 0) - (b.environment?.id ?? 0) ||
  rankOf(a) - rankOf(b) ||
  (a.key < b.key ? -1 : a.key > b.key ? 1 : 0);

/** `rows`: as domain/snapshot/period-changes.ts has them. */
type ReadMoment = { row: MomentRow; rows: readonly number[] };

/** The newest snapshots of the period with what they changed, newest first; as many as are looked at. */
function readMoments(
  { store: { periodChanges } }: GatherContext,
  ids: readonly number[],
  { from, to, bounds }: ChangeScope & { bounds: GatherBounds },
): { moments: readonly ReadMoment[]; since: number } {
  const moments: ReadMoment[] = [];
  let room = bounds.events;
  for (const row of periodChanges.listMoments(ids, { from, to, limit: bounds.moments + 1 })) {
    const rows = moments.length === bounds.moments ? null : periodChanges.listRows(row, room + 1);
    if (rows !== null && (rows.length <= room || moments.length === 0)) {
      moments.push({ row, rows: rows.slice(0, room).sort((a, b) => a - b) });
      room -= Math.min(room, rows.length);
      continue;
    }
    // Of several snapshots at one time, all count or none.
    const whole = moments.filter((one) => one.row.timestamp > row.timestamp);
    const kept = whole.length > 0 ? whole : moments;
    return { moments: kept, since: kept.at(-1)?.row.timestamp ?? from };
  }
  return { moments, since: from };
}

function snapshotChanges(context: GatherContext, moments: readonly ReadMoment[], byId: ById): FoundChange[] {
  const { periodChanges } = context.store;
  const authors = new Map(moments.map(({ row }) => [`${row.environment_id} ${row.idx}`, row.user_name]));
  const oldestFirst = moments.toReversed();
  const lastVerdicts = new Map<number, boolean | null>();
  for (const { row } of oldestFirst)
    if (!lastVerdicts.has(row.environment_id))
      lastVerdicts.set(row.environment_id, fromSqlBoolean(periodChanges.findLastVerdict(row.environment_id, row.idx)));
  const all = oldestFirst.map((moment) => toMoment(context, moment));
  const { verdicts, artifacts } = listSnapshotChanges(all, lastVerdicts);
  const commonOf = ({ environmentId, index, kind, at }: (typeof verdicts | typeof artifacts)[number]) => {
    const environment = byId.get(environmentId);
    const by = authors.get(`${environmentId} ${index}`) ?? "";
    return environment && { key: `${environment.public_id}/${index}/${kind}`, kind, at, environment, by };
  };
  return [
    ...verdicts.flatMap((change): FoundChange | [] => {
      const common = commonOf(change);
      return common ? { of: "snapshot", ...common, change } : [];
    }),
    ...artifacts.flatMap((changes): FoundChange | [] => {
      const common = commonOf(changes);
      return common ? { of: "artifacts", ...common, changes } : [];
    }),
  ];
}

function toMoment({ store: { periodChanges } }: GatherContext, { row, rows }: ReadMoment): ChangedSnapshot {
  const replacements = hasStarts(rows) ? periodChanges.listReplacements(row) : [];
  return {
    environmentId: row.environment_id,
    index: row.idx,
    at: row.timestamp,
    compliant: fromSqlBoolean(row.compliant),
    rows,
    replaced: new Map(
      replacements.map(({ id, fingerprint, name, compliant }) => [
        id,
        { fingerprint, name, compliant: fromSqlBoolean(compliant) },
      ]),
    ),
    readFingerprints: () => periodChanges.listTurnover(row, rows.length),
  };
}

/** null: the record is damaged. */
const versionsOf = (text: string): number[] | null => readStoredJsonOrNull(text, isNumberList);

/** Policies that were attached to an environment or detached, and new versions that turned a verdict in it. */
function attachments({ store }: GatherContext, moments: readonly ReadMoment[], byId: ById): GatheredChange[] {
  const turns = moments.flatMap(({ row }) =>
    (row.cause === "policies" || row.cause === "policy_version") && row.previous_versions_json !== null
      ? [{ row, before: versionsOf(row.previous_versions_json), after: versionsOf(row.policy_versions_json) }]
      : [],
  );
  const ids = new Set(turns.flatMap(({ before, after }) => [...(before ?? []), ...(after ?? [])]));
  const known = ids.size === 0 ? null : store.snapshots.findPolicyVersions(ids);
  const inForce = (versions: readonly number[]) => latestOfEach(versions.flatMap((id) => known?.get(id) ?? []));
  return turns.flatMap(({ row, before, after }) => {
    const environment = byId.get(row.environment_id);
    if (!environment) return [];
    const { idx: index, timestamp: at, user_name: by } = row;
    const toChange = (shift: PolicyChange): GatheredChange => {
      const key = [environment.public_id, index, "policy", shift.name].join("/");
      return { of: "attachment", key, kind: "policy", at, environment, by, index, shift };
    };
    const isReadable = before !== null && after !== null;
    return (isReadable ? comparePolicies(inForce(before), inForce(after)) : [UNREADABLE_CHANGE]).map(toChange);
  });
}

function policies({ store, organization }: GatherContext, limits: Limits): GatheredChange[] {
  const rows = cutOff(limits, store.periodChanges.listPolicyChanges(organization.id, rowWindow(limits)));
  // A policy that is created with a file has two events, of which the version says it all.
  const momentOf = (row: PolicyChangeRow): string => `${row.policy_id} ${row.timestamp}`;
  const isFirst = ({ type, version }: PolicyChangeRow): boolean => type === "new_version" && (version ?? 1) === 1;
  const first = new Set(rows.filter(isFirst).map(momentOf));
  return rows
    .filter((row) => row.type !== "creation" || !first.has(momentOf(row)))
    .map((row) => ({
      of: "policy",
      key: `policy/${row.policy_id}/${row.id}`,
      kind: "policy",
      at: row.timestamp,
      environment: null,
      row,
    }));
}

function allowed({ store, organization }: GatherContext, limits: Limits, byId: ById): GatheredChange[] {
  const rows = cutOff(limits, store.periodChanges.listAllowed(organization.id, rowWindow(limits)));
  return rows.flatMap((row): GatheredChange[] => {
    const environment = byId.get(row.environment_id);
    if (!environment) return [];
    return [{ of: "allowed", key: `allowlist/${row.id}`, kind: "allowlist", at: row.timestamp, environment, row }];
  });
}

/** Environments whose last report became too old in the period; of earlier silences nothing is stored. */
const stale = ({ since, to, now }: Limits, environments: readonly ChangedEnvironmentRow[]): GatheredChange[] =>
  environments.flatMap((environment): GatheredChange[] => {
    const { type, last_reported_at: reportedAt, public_id: id } = environment;
    if (type === "logical" || reportedAt === null) return [];
    const at = reportedAt + STALE_AFTER_S;
    if (at < since || at > Math.min(to, now)) return [];
    return [{ of: "reporter", key: `${id}/stale/${reportedAt}`, kind: "stale", at, environment, reportedAt }];
  });

function placesOf({ store }: GatherContext, moments: readonly ReadMoment[]): Map<number, ChangedPlace> {
  const byEnvironment = Map.groupBy(moments, ({ row }) => row.environment_id);
  return new Map(
    [...byEnvironment].flatMap(([id, all]): [number, ChangedPlace][] => {
      const [last, first] = [all[0]?.row, all.at(-1)?.row];
      if (!last || !first) return [];
      const earlier = first.idx > 1 ? store.snapshots.find(id, first.idx - 1) : null;
      const verdicts = { before: fromSqlBoolean(earlier?.compliant ?? null), after: fromSqlBoolean(last.compliant) };
      return [[id, { first: first.idx, last: last.idx, ...verdicts }]];
    }),
  );
}
