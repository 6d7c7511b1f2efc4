/**
 * The difference between two snapshots for people. Names, counts and verdicts of all artifacts are compared in memory;
 * evaluations, commits and times are read only for what the answer shows.
 */
import type { Static } from "typebox";
import { fromSqlBoolean } from "../../store/db/database.ts";
import {
  DIFF_KINDS,
  artifactKey,
  byUrgency,
  compareSnapshotRows,
  splitName,
  versionOf,
} from "../../domain/snapshot/comparison.ts";
import type { ArtifactChange, DiffKind, PolicyChange } from "../../domain/snapshot/comparison.ts";
import type { RunningKeyRow, SelectedArtifactRow } from "../../store/environments/snapshot-pages.ts";
import { NO_CAUSES } from "../../store/environments/verdict-causes.ts";
import { memoize } from "../memoize.ts";
import { presentPagination } from "../../http/pagination.ts";
import { UNREADABLE } from "../placeholders.ts";
import type { PresenterContext } from "../presenter-context.ts";
import { createWouldReader } from "./would-start.ts";
import type { DiffArtifact, DiffEntry, SnapshotDiff } from "./snapshot-diff-shapes.ts";
import { changedPolicies, createPolicyTurnFinder, partsOf, presentPolicy, presentTurn } from "./snapshot-turns.ts";
import type { SnapshotPlace } from "../snapshot-rows.ts";
import { createBuildReader, groupUpgrades, presentSet } from "./upgrade-sets.ts";
import type { BuildReader, ComparedArtifact, UpgradeSet } from "./upgrade-sets.ts";

type Row = ComparedArtifact;
type Change = ArtifactChange<Row>;
type Artifact = Static<typeof DiffArtifact>;
type Entry = Static<typeof DiffEntry>;
type Value = Static<typeof SnapshotDiff>;
type Sides = { from: SnapshotPlace; to: SnapshotPlace };

const MAX_SETS = 10;
/** Artifacts that began to fail, named in full. */
const MAX_FAILING = 3;
/** Names of what did not change. */
const MAX_UNCHANGED = 3;

/** Which changes are shown. `set`: the id of a set of upgrades. */
type DiffSelection = {
  kind: DiffKind | null;
  search: string;
  set: string | null;
  page: number;
  perPage: number;
  offset: number;
};

/** @param selection.evaluatedAt epoch seconds at which versions are tried in the other environment; null: not at all */
export function presentSnapshotDiff(
  context: PresenterContext,
  { from, to }: Sides,
  selection: DiffSelection & { evaluatedAt: number | null },
): Value {
  const isSame = from.environment.id === to.environment.id;
  const builds = createBuildReader(context);
  const { evaluatedAt } = selection;
  const would = evaluatedAt === null ? () => null : createWouldReader(context, { from, to }, evaluatedAt);
  const reader = createReader(context, { from, to }, { builds, would });
  const findPolicyTurn = isSame ? createPolicyTurnFinder(context, { from, to }) : () => null;
  const compared = compareArtifacts(context, { from, to }, selection);
  const { changes } = compared;
  const policies = changedPolicies(context, from, to);
  const sets = groupUpgrades(context, changes.upgraded);
  const { all, counts, unchanged } = select({ ...compared, policies, sets }, selection);
  const shown = all.slice(selection.offset, selection.offset + selection.perPage);
  const newlyFailing = [changes.verdict, changes.started].flatMap((list) =>
    list.filter(({ after }) => after?.compliant === false),
  );
  const rows = reader.read(
    [...shown, ...newlyFailing.slice(0, MAX_FAILING)].flatMap((change) => ("kind" in change ? change : [])),
  );
  return {
    from: presentSide(context, from),
    to: presentSide(context, to),
    snapshots_between: isSame ? Math.max(0, Math.abs(to.snapshot.idx - from.snapshot.idx) - 1) : null,
    turned: isSame ? findTurn(context, { from, to }) : null,
    last_compliant: isSame ? findLastCompliant(context, to) : null,
    counts,
    unchanged,
    failing: newlyFailing.slice(0, MAX_FAILING).map(({ after }) => rows.artifact(after as Row)),
    failing_total: newlyFailing.length,
    sets: sets.slice(0, MAX_SETS).map((set) => presentSet(set, builds)),
    sets_total: sets.length,
    data: shown.map(
      (change): Entry =>
        "kind" in change
          ? rows.entry(change)
          : { ...NO_ARTIFACTS, policy: presentPolicy(change), at: findPolicyTurn(change) },
    ),
    pagination: presentPagination(all.length, selection.page, selection.perPage),
  };
}

/** The changes that are asked for, in the order of their kinds; and how many of each kind match the search. */
function select(
  {
    changes,
    unlisted,
    policies,
    sets,
  }: Compared & {
    policies: readonly PolicyChange[];
    sets: readonly UpgradeSet[];
  },
  { kind: chosen, search, set }: DiffSelection,
): { all: (Change | PolicyChange)[] } & Pick<Value, "counts" | "unchanged"> {
  const text = search.toLowerCase();
  const matches = ({ before, after }: Change): boolean =>
    [before, after].some(
      (row) => row?.name.toLowerCase().includes(text) || (text.length > 4 && row?.fingerprint.startsWith(text)),
    );
  const matching = (list: Change[]): Change[] => (text === "" ? list : list.filter(matches));
  const lists = new Map<DiffKind, (Change | PolicyChange)[]>(
    DIFF_KINDS.map((kind) => [
      kind,
      kind === "policy" ? policies.filter(({ name }) => name.toLowerCase().includes(text)) : matching(changes[kind]),
    ]),
  );
  const counts = Object.fromEntries([...lists].map(([kind, list]) => [kind, list.length])) as Value["counts"];
  counts.unchanged += unlisted;
  const unchanged = matching(changes.unchanged).slice(0, MAX_UNCHANGED);
  const asked = DIFF_KINDS.filter((kind) => (chosen === null ? kind !== "unchanged" : kind === chosen));
  return {
    all:
      set === null
        ? asked.flatMap((kind) => lists.get(kind) ?? [])
        : matching(sets.find(({ id }) => id === set)?.changes ?? []),
    counts,
    unchanged: unchanged.map(({ after }) => after?.name ?? ""),
  };
}

const presentSide = (
  { urls, organization }: PresenterContext,
  { environment, snapshot }: SnapshotPlace,
): Value["from"] => ({
  environment: environment.name,
  type: environment.type,
  index: snapshot.idx,
  timestamp: snapshot.timestamp,
  compliant: fromSqlBoolean(snapshot.compliant),
  html_url: urls.snapshotPage(organization.name, environment.name, snapshot.idx),
});

/** `unlisted`: what did not change and is not in the list, of which the answer shows the number only. */
type Compared = { changes: ReturnType<typeof compareSnapshotRows<Row>>; unlisted: number };

/**
 * Whether only what differs is read: of one environment, unless the answer has what does not. Of ten thousand artifacts
 * most run in both snapshots.
 */
const hasDifferencesOnly = ({ from, to }: Sides, { kind, search }: Pick<DiffSelection, "kind" | "search">): boolean =>
  from.environment.id === to.environment.id &&
  from.environment.type !== "logical" &&
  kind !== "unchanged" &&
  search === "";

/** How many rows of artifacts a comparison goes through, counted up to `limit`. */
export function countComparedRows(
  context: PresenterContext,
  { from, to }: Sides,
  { limit, ...selection }: Pick<DiffSelection, "kind" | "search"> & { limit: number },
): number {
  const parts = hasDifferencesOnly({ from, to }, selection)
    ? [{ id: from.environment.id, index: Math.min(from.snapshot.idx, to.snapshot.idx) }]
    : [from, to].flatMap((place) => partsOf(context, place));
  let count = 0;
  for (const { id, index } of parts)
    if (count < limit) count += context.store.snapshotPages.countSince(id, index, limit - count);
  return count;
}

function compareArtifacts(
  context: PresenterContext,
  { from, to }: Sides,
  selection: Pick<DiffSelection, "kind" | "search">,
): Compared {
  if (hasDifferencesOnly({ from, to }, selection)) return compareDiffering(context, { from, to });
  const keepsPlaces = from.environment.id === to.environment.id && from.environment.type === "logical";
  const [before, after] = [listRows(context, from, { keepsPlaces }), listRows(context, to, { keepsPlaces })];
  return { changes: compareSnapshotRows(before, after), unlisted: 0 };
}

function compareDiffering({ store: { snapshotPages } }: PresenterContext, { from, to }: Sides): Compared {
  const { id } = from.environment;
  const [first, last] = [from.snapshot.idx, to.snapshot.idx].sort((a, b) => a - b) as [number, number];
  const range = { environment: id, first, last };
  const isForward = first === from.snapshot.idx;
  const differing = snapshotPages.listDiffering(range);
  // Of an artifact with several names, some may run in both snapshots.
  const others = new Set(snapshotPages.listSharedKeys(range));
  const keys = new Set(differing.map(artifactKey).filter((key) => others.delete(key)));
  const shared = keys.size === 0 ? [] : snapshotPages.listShared(range, keys).map((row) => toRow(row, id));
  const rowsOf = (isFirst: boolean): Row[] => [
    ...differing.filter(({ is_first }) => (is_first === 1) === isFirst).map((row) => toRow(row, id)),
    ...shared,
  ];
  const changes = compareSnapshotRows(rowsOf(isForward), rowsOf(!isForward));
  const named = new Map<string, Row>();
  let known: number;
  do {
    known = named.size;
    const without = [...keys, ...named.keys()];
    // Of an artifact with several names, the first counts.
    for (const row of snapshotPages.listSharedFirst(range, { without, limit: MAX_UNCHANGED - known }))
      if (!named.has(artifactKey(row))) named.set(artifactKey(row), toRow(row, id));
  } while (named.size > known && named.size < Math.min(MAX_UNCHANGED, others.size));
  for (const row of named.values()) changes.unchanged.push({ kind: "unchanged", before: row, after: row });
  changes.unchanged.sort(byUrgency);
  return { changes, unlisted: others.size - named.size };
}

const toRow = ({ id, name, fingerprint, now, compliant }: RunningKeyRow, owner: number): Row => ({
  id,
  name,
  fingerprint,
  now,
  compliant: fromSqlBoolean(compliant),
  owner,
  place: "",
});

/** @param options.keepsPlaces whether what runs in one member is compared with the same member only */
function listRows(context: PresenterContext, place: SnapshotPlace, { keepsPlaces }: { keepsPlaces: boolean }): Row[] {
  return partsOf(context, place).flatMap(({ id, index }) =>
    context.store.snapshotPages
      .listRunningKeys(id, index)
      .map((row) => ({ ...toRow(row, id), place: keepsPlaces ? String(id) : "" })),
  );
}

/** The snapshot since which the environment has the verdict of `to`; null where it had it in `from`, too. */
function findTurn(context: PresenterContext, { from, to }: Sides): Value["turned"] {
  const { snapshots, snapshotPages } = context.store;
  const { environment, snapshot } = to;
  if (from.snapshot.compliant === snapshot.compliant || from.snapshot.idx >= snapshot.idx) return null;
  const range = { first: from.snapshot.idx, last: snapshot.idx };
  const index = snapshotPages.findTurn(environment.id, range, snapshot.compliant);
  const made = index === null ? null : snapshots.find(environment.id, index);
  return made && presentTurn(context, { environment, snapshot: made });
}

/** The latest compliant snapshot before one that is not. */
function findLastCompliant(
  { store }: PresenterContext,
  { environment, snapshot }: SnapshotPlace,
): Value["last_compliant"] {
  if (snapshot.compliant === 1) return null;
  const index = store.snapshotPages.findLastCompliant(environment.id, snapshot.idx);
  const found = index === null ? null : store.snapshots.find(environment.id, index);
  return found && { index: found.idx, timestamp: found.timestamp };
}

/** The members of an entry about a policy that are about artifacts. */
const NO_ARTIFACTS = {
  kind: "policy",
  before: null,
  after: null,
  commits: null,
  build: null,
  would: null,
} as const;

/** What a snapshot did to an artifact that differs: what was upgraded may have got other provenance later. */
const CHANGES = {
  verdict: "verdict",
  upgraded: "start",
  started: "start",
  exited: "any",
  scaled: "scale",
  unchanged: "any",
} as const;

/** Reads what the shown changes need, all of it together. */
function createReader(
  context: PresenterContext,
  { from, to }: Sides,
  { builds, would }: { builds: BuildReader; would: ReturnType<typeof createWouldReader> },
) {
  const { store, organization } = context;
  const isSame = from.environment.id === to.environment.id;
  const memberName = memoize((id: number): string => store.environments.get(id).name);
  const isLogical = from.environment.type === "logical" || to.environment.type === "logical";
  const indexesOf = (place: SnapshotPlace) => new Map(partsOf(context, place).map(({ id, index }) => [id, index]));
  const [first, last] = [indexesOf(from), indexesOf(to)];

  function read(changes: readonly Change[]) {
    const ids = changes.flatMap(({ before, after }) => [before?.id ?? [], after?.id ?? []].flat());
    const selected = new Map(store.snapshotPages.findSelected(ids).map((row) => [row.id, row]));
    const artifact = (row: Row): Artifact => ({
      name: row.name,
      ...splitService(row),
      fingerprint: row.fingerprint,
      instances: row.now,
      compliant: row.compliant,
      environment_name: isLogical ? memberName(row.owner) : null,
      ...presentEvaluation(context, selected.get(row.id)),
    });
    return {
      artifact,
      entry({ kind, before, after }: Change): Entry {
        const isUpgrade = kind === "upgraded" || (kind === "verdict" && before?.fingerprint !== after?.fingerprint);
        const built = isUpgrade && before && after ? builds.between(before, after) : { commits: null, build: null };
        return {
          kind,
          before: before && artifact(before),
          after: after && artifact(after),
          policy: null,
          at: isSame ? findChange(after ?? (before as Row), kind) : null,
          ...built,
          would: isSame ? null : would({ kind, before, after, commits: built.commits }),
        };
      },
    };
  }

  function findChange({ owner, fingerprint, name }: Row, kind: Change["kind"]): Entry["at"] {
    if (fingerprint === "") return null;
    const range = { first: first.get(owner) ?? 0, last: last.get(owner) ?? 0 };
    const found = store.snapshotPages.findChange({
      organization: organization.id,
      environment: owner,
      fingerprint,
      name,
      ...range,
      kind: CHANGES[kind],
    });
    return found && { index: found.idx, timestamp: found.timestamp, user_name: null };
  }
  return { read };
}

const splitService = (row: Row) => ({ service: splitName(row.name).service, version: versionOf(row) });

type Evaluated = Pick<Artifact, "flow" | "trail" | "policies" | "allowed" | "causes" | "further_causes">;
const UNKNOWN: Evaluated = { flow: null, trail: null, policies: [], allowed: null, ...NO_CAUSES };

/** A damaged evaluation has no flow, and says in place of causes that it cannot be read. */
function presentEvaluation({ store, organization }: PresenterContext, row: SelectedArtifactRow | undefined): Evaluated {
  if (row === undefined) return UNKNOWN;
  const allowed = row.allowed_by !== null && {
    user_name: row.allowed_by,
    description: row.allowed_because ?? "",
    expires_at: row.allowed_until,
  };
  try {
    const evaluation = store.snapshots.parseEvaluation(row);
    const [flow] = evaluation.facts.flows;
    const name = flow && (store.flows.findPresentNames([flow.flow_id]).get(flow.flow_id) ?? flow.flow);
    return {
      flow: name ?? null,
      trail: flow?.trail ?? null,
      policies: evaluation.verdicts
        .filter(({ status }) => status === "NON-COMPLIANT")
        .map(({ policy, version }) => ({ name: policy, version })),
      allowed: allowed || null,
      ...store.verdictCauses.explainEvaluation(organization.id, evaluation),
    };
  } catch {
    return { ...UNKNOWN, causes: [{ subject: "", text: UNREADABLE }], allowed: allowed || null };
  }
}
