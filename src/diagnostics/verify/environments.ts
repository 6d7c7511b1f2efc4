/**
 * Whether snapshots, intervals, counts and groups agree on what ran where. The server may write meanwhile: each window
 * of snapshots is read in one transaction, and snapshots never change.
 */
import { computeEnvironmentVerdict } from "../../domain/compliance/environment.ts";
import { identityOf } from "../../domain/snapshot/diff.ts";
import { isNumberList, readStoredJson } from "../../domain/stored-json.ts";
import { messageOf } from "../../domain/text/system-errors.ts";
import { fromSqlBoolean } from "../../store/db/database.ts";
import type { DbReader } from "../../store/db/types.ts";
import { digestOf } from "../../store/environments/snapshot-survey.ts";
import { OPEN } from "../../store/environments/snapshots.ts";
import { isDamagedFile, yieldToEventLoop } from "./check.ts";
import type { Findings, ReportDamage } from "./check.ts";
import { checkGroup } from "./groups.ts";
import { boundsOf, groupBy } from "./window.ts";
import type { Environment, Snapshot, SnapshotWindow, WindowBounds } from "./window.ts";

/** Environment key -> the last snapshot that was checked: snapshots never change, so each is checked once. */
export type SnapshotProgress = Map<number, number>;

/**
 * Snapshots that are checked in one transaction, with everything that ran in them. Bounds the memory and the duration
 * of a transaction.
 */
const WINDOW_SNAPSHOTS = 1_000;

/**
 * Checks all snapshots that are newer than `progress`, and moves `progress`.
 * @param onSnapshots is called with the number of snapshots checked so far
 */
export async function checkEnvironments(
  db: DbReader,
  findings: Findings,
  {
    progress = new Map(),
    onSnapshots = () => undefined,
    windowSize = WINDOW_SNAPSHOTS,
  }: { progress?: SnapshotProgress; onSnapshots?: (done: number) => void; windowSize?: number | undefined } = {},
): Promise<void> {
  const ids = db.prepare<[], number>("SELECT id FROM environments ORDER BY id").pluck().all();
  const findEnvironment = db.prepare<[number], Environment>(
    `SELECT id, name, type, snapshot_count, last_changed_at, last_reported_at, state, running_digest
     FROM environments WHERE id = ?`,
  );
  let done = 0;
  /** Checks the next window; returns whether there are more. */
  const checkWindow = db.transaction((id: number): boolean => {
    const environment = findEnvironment.get(id);
    if (!environment) return false;
    const from = progress.get(id) ?? 0;
    const until = Math.min(environment.snapshot_count, from + windowSize);
    const isLast = until === environment.snapshot_count;
    const report: ReportDamage = (problem) => findings.damage(`environment ${environment.name} (${id})`, problem);
    const window: SnapshotWindow = { db, environment, from, until, isLast, report };
    const snapshots = readSnapshots(window);
    checkNumbers(window, snapshots);
    if (isLast) checkLatest(window, snapshots);
    if (environment.type === "logical") checkGroup(window, snapshots);
    else checkIntervals(window, snapshots);
    progress.set(id, until);
    findings.count("snapshots", until - from);
    onSnapshots((done += until - from));
    return !isLast;
  });
  for (const id of ids) {
    try {
      while (checkWindow(id)) await yieldToEventLoop();
    } catch (error) {
      // A damaged page ends the check; damaged JSON in any column only ends that of the environment.
      if (isDamagedFile(error)) throw error;
      findings.damage(`environment ${id}`, `its snapshots cannot be read: ${messageOf(error)}`);
    }
  }
  findings.count("environments", ids.length);
}

/** A digest of the names and fingerprints that run, in any order: the value of `environments.running_digest`. */
export const runningDigest = (running: readonly { name: string; fingerprint: string }[]): string =>
  digestOf(
    [...running]
      .sort((a, b) => compare(a.name, b.name) || compare(a.fingerprint, b.fingerprint))
      .map((artifact) => ({ ...artifact, instances: { created: [] } })),
  );

const compare = (a: string, b: string): number => (a === b ? 0 : a < b ? -1 : 1);

const readSnapshots = (window: SnapshotWindow): Snapshot[] =>
  window.db
    .prepare<WindowBounds, Snapshot>(
      `SELECT idx, timestamp, compliant, compliant_count, non_compliant_count, unknown_count, policy_versions_json,
              member_id, member_index
       FROM snapshots WHERE environment_id = @environment AND idx >= @from AND (idx <= @until OR @isLast)
       ORDER BY idx`,
    )
    .all(boundsOf(window));

/** Indexes are 1, 2, 3, ..., and times go back only where a setback is recorded. */
function checkNumbers(window: SnapshotWindow, snapshots: readonly Snapshot[]): void {
  const { db, from, report } = window;
  const setbacks = new Map(
    db
      .prepare<WindowBounds, { idx: number; timestamp: number }>(
        `SELECT idx, timestamp FROM snapshot_setbacks
         WHERE environment_id = @environment AND idx > @from AND (idx <= @until OR @isLast)`,
      )
      .all(boundsOf(window))
      .map(({ idx, timestamp }) => [idx, timestamp]),
  );
  let expected = Math.max(from, 1);
  let previous = 0;
  for (const { idx, timestamp } of snapshots) {
    if (idx !== expected) report(`has snapshot ${idx} where ${expected} is expected`);
    const setback = setbacks.get(idx);
    setbacks.delete(idx);
    if (timestamp < previous && setback === undefined)
      report(`snapshot ${idx} is older than the one before it, and no setback is recorded`);
    if (setback !== undefined && (setback !== timestamp || timestamp >= previous))
      report(
        `snapshot ${idx} of ${timestamp} follows one of ${previous}, ` +
          `which contradicts its recorded setback to ${setback}`,
      );
    expected = idx + 1;
    previous = timestamp;
  }
  for (const idx of setbacks.keys()) report(`a setback is recorded for snapshot ${idx}, which does not exist`);
}

/** The row of the environment repeats its latest snapshot. */
function checkLatest({ environment, from, report }: SnapshotWindow, snapshots: readonly Snapshot[]): void {
  const latest = snapshots.at(-1);
  const count = latest?.idx ?? Math.max(from, 1) - 1;
  if (environment.snapshot_count !== count)
    report(`snapshot_count is ${environment.snapshot_count}, but there are ${count} snapshots`);
  if (environment.last_changed_at !== (latest?.timestamp ?? null))
    report(`last_changed_at is ${environment.last_changed_at}, but the latest snapshot is of ${latest?.timestamp}`);
  if (environment.state !== (latest?.compliant ?? null))
    report(`state is ${environment.state}, but the latest snapshot says ${latest?.compliant}`);
  if ((environment.last_reported_at === null) !== (latest === undefined || environment.type === "logical"))
    report(`last_reported_at is ${environment.last_reported_at}`);
}

type Interval = {
  id: number;
  fingerprint: string;
  name: string;
  first_index: number;
  last_index: number;
  annotation: string;
  was: number;
  now: number;
  compliant: 0 | 1 | null;
  started_index: number;
  /** The compliance of its evaluation, and the policy versions in it. */
  evaluated: 0 | 1 | null;
  versions: string;
};

/** Checks the intervals, and what follows from them in the snapshots. */
function checkIntervals(window: SnapshotWindow, snapshots: readonly Snapshot[]): void {
  const { db, environment, isLast, report } = window;
  const intervals = db
    .prepare<WindowBounds, Interval>(
      `SELECT sa.id, sa.fingerprint, sa.name, sa.first_index, sa.last_index, sa.annotation, sa.was, sa.now,
              sa.compliant, sa.started_index, ev.compliant AS evaluated,
              (SELECT json_group_array(value ->> 'version_id') FROM json_each(ev.verdicts_json)) AS versions
       FROM snapshot_artifacts sa JOIN evaluations ev ON ev.id = sa.evaluation_id
       WHERE sa.environment_id = @environment AND sa.last_index >= @from
         AND (sa.first_index <= @until OR @isLast)
       ORDER BY sa.first_index, sa.id`,
    )
    .all(boundsOf(window));
  for (const chain of groupBy(intervals, identityOf).values()) checkChain(window, chain);
  if (isLast) {
    const running = intervals.filter(({ last_index }) => last_index === OPEN);
    const digest = environment.snapshot_count === 0 ? null : runningDigest(running);
    if (environment.running_digest !== digest)
      report(`running_digest is ${environment.running_digest}, but the running artifacts have ${digest}`);
  }
  checkCounts(window, snapshots, intervals);
}

/** Counts, state and policy versions of every snapshot must follow from the intervals present in it. */
function checkCounts(
  { from, report }: SnapshotWindow,
  snapshots: readonly Snapshot[],
  intervals: readonly Interval[],
): void {
  const present = intervals.filter(({ annotation }) => annotation !== "exited");
  const starting = groupBy(present, ({ first_index }) => first_index);
  let current = present.filter(({ first_index }) => first_index < from);
  for (const snapshot of snapshots) {
    const { idx } = snapshot;
    current = [...current.filter(({ last_index }) => last_index >= idx), ...(starting.get(idx) ?? [])];
    const verdicts = current.map(({ compliant }) => fromSqlBoolean(compliant));
    const actual = [true, false, null].map((wanted) => verdicts.filter((verdict) => verdict === wanted).length);
    const stored = [snapshot.compliant_count, snapshot.non_compliant_count, snapshot.unknown_count];
    if (String(actual) !== String(stored))
      report(`snapshot ${idx} counts ${stored} (compliant, non-compliant, unknown), but its rows are ${actual}`);
    const policies = readStoredJson(snapshot.policy_versions_json, isNumberList).length;
    const state = computeEnvironmentVerdict(verdicts, policies);
    if (fromSqlBoolean(snapshot.compliant) !== state)
      report(`snapshot ${idx} says ${snapshot.compliant}, but its rows lead to ${state}`);
    const others = current.filter(({ versions }) => versions !== snapshot.policy_versions_json);
    if (others[0])
      report(
        `snapshot ${idx} was evaluated under ${snapshot.policy_versions_json}, ` +
          `but ${others.length} of its rows under others (${others[0].versions})`,
      );
  }
}

/** The intervals of one name and fingerprint in their order: each begins where the last one ended, or starts anew. */
function checkChain({ environment, from, until, isLast, report }: SnapshotWindow, chain: readonly Interval[]): void {
  const count = environment.snapshot_count;
  let before: Interval | null = null;
  for (const row of chain) {
    const end = row.last_index === OPEN ? "now" : row.last_index;
    const reportRow: ReportDamage = (problem) =>
      report(`row ${row.id} (${row.name}, ${row.first_index} to ${end}, ${row.annotation}) ${problem}`);
    if (row.first_index > count || (row.last_index !== OPEN && row.last_index > count))
      reportRow(`is beyond snapshot ${count}`);
    if (row.compliant !== row.evaluated) reportRow(`says ${row.compliant}, but its evaluation says ${row.evaluated}`);
    if (before && before.last_index >= row.first_index) reportRow(`overlaps row ${before.id}`);
    const exited = row.annotation === "exited";
    if (exited && row.last_index !== row.first_index) reportRow("is longer than one snapshot");
    if (exited !== (row.now === 0)) reportRow(`has ${row.now} instances`);
    if (before && before.annotation !== "exited" && before.last_index !== row.first_index - 1)
      reportRow(`leaves a gap after row ${before.id}`);
    if (row.first_index > from) checkTransition(before?.annotation === "exited" ? null : before, row, reportRow);
    before = row;
  }
  const ended = before && (isLast ? before.last_index !== OPEN : before.last_index < until);
  if (before && ended && before.annotation !== "exited")
    report(`row ${before.id} (${before.name}) ends with ${before.last_index}, but its exit is missing`);
}

/** Checks an interval against the one before it, null where the artifact did not run. */
function checkTransition(before: Interval | null, row: Interval, report: ReportDamage): void {
  const { annotation, compliant } = row;
  const word = compliant === null ? "unknown" : compliant === 1 ? "compliant" : "non-compliant";
  if (!before) {
    if (annotation !== `started-${word}`) report(`has no row before it and should be started-${word}`);
    if (row.started_index !== row.first_index || row.was !== 0)
      report(`starts with started_index ${row.started_index} and was ${row.was}`);
    return;
  }
  if (row.started_index !== before.started_index)
    report(`started with ${row.started_index}, but the row before it with ${before.started_index}`);
  if (row.was !== before.now) report(`was ${row.was}, but the row before it has ${before.now} instances`);
  const flipped = compliant !== before.compliant;
  const possible = flipped
    ? [compliant === null ? "unchanged" : `became-${word}`]
    : ["unchanged", "updated-provenance", "exited"];
  if (!possible.includes(annotation))
    report(`should be ${possible.join(" or ")}: before it was ${before.compliant}, now ${compliant}`);
}
