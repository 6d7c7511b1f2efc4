/**
 * What ran where: whether snapshots, intervals, counts and groups say the same thing. Nobody need stop writing
 * meanwhile: each window of snapshots is looked at in one transaction, and snapshots never change.
 */
import { computeEnvironmentVerdict, computeLogicalVerdict } from "../../domain/compliance/environment.ts";
import { identityOf } from "../../domain/snapshot/diff.ts";
import { fromSqlBoolean } from "../../store/db/database.ts";
import { digestOf } from "../../store/environments/snapshot-survey.ts";
import { OPEN } from "../../store/environments/snapshots.ts";
import { yieldToEventLoop, isDamagedFile, errorMessage } from "./check.ts";
import type { Findings } from "./check.ts";
import type { Db } from "../../store/db/types.ts";

/** How far earlier looks got, by the key of the environment: snapshots never change, so each is looked at once. */
export type SnapshotProgress = Map<number, number>;

/**
 * So many snapshots are looked at in one transaction, with everything that ran in them: it bounds memory and how long a
 * transaction lasts.
 */
const WINDOW_SNAPSHOTS = 1_000;

/**
 * Of a chunk of snapshots: those before `from` were looked at before, those behind `until` are for later. `isLast`:
 * there are none.
 */
type Window = { from: number; until: number; isLast: boolean };

type Environment = {
  id: number;
  name: string;
  type: string;
  snapshot_count: number;
  last_changed_at: number | null;
  last_reported_at: number | null;
  state: 0 | 1 | null;
  running_digest: string | null;
};
type Snapshot = {
  idx: number;
  timestamp: number;
  compliant: 0 | 1 | null;
  compliant_count: number;
  non_compliant_count: number;
  unknown_count: number;
  policy_versions_json: string;
  member_id: number | null;
  member_index: number | null;
};
type Row = {
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
  judged: 0 | 1 | null;
  versions: string;
};
type Member = {
  member_id: number;
  member_index: number;
  position: number;
  first_index: number;
  last_index: number;
  state: 0 | 1 | null;
  compliant_count: number;
  non_compliant_count: number;
  unknown_count: number;
  existing: number | null;
};
type Say = (problem: string) => void;

/**
 * Looks at everything that is newer than what `looked` says, and moves it. @param step is told how many snapshots were
 * looked at.
 */
export async function checkEnvironments(
  db: Db,
  sink: Findings,
  looked: SnapshotProgress = new Map(),
  step: (done: number) => void = () => undefined,
  window = WINDOW_SNAPSHOTS,
): Promise<void> {
  const ids = db.prepare<[], number>("SELECT id FROM environments ORDER BY id").pluck().all();
  const environmentOf = db.prepare<[number], Environment>(
    "SELECT id, name, type, snapshot_count, last_changed_at, last_reported_at, state, running_digest FROM environments WHERE id = ?",
  );
  let done = 0;
  /** @returns whether there is more of it. */
  const turn = db.transaction((id: number): boolean => {
    const environment = environmentOf.get(id);
    if (!environment) return false;
    const from = looked.get(id) ?? 0;
    const until = Math.min(environment.snapshot_count, from + window);
    const part: Window = { from, until, isLast: until === environment.snapshot_count };
    const say: Say = (problem) => sink.damage(`environment ${environment.name} (${id})`, problem);
    const snapshots = numbered(db, environment, part, say);
    if (environment.type === "logical") inspectGroup(db, environment, part, snapshots, say);
    else inspectRows(db, environment, part, snapshots, say);
    looked.set(id, until);
    sink.count("snapshots", until - from);
    step((done += until - from));
    return !part.isLast;
  });
  for (const id of ids) {
    try {
      while (turn(id)) await yieldToEventLoop();
    } catch (error) {
      // JSON that is none, in whatever column; a page that is none ends the check.
      if (isDamagedFile(error)) throw error;
      sink.damage(`environment ${id}`, `its snapshots cannot be read: ${errorMessage(error)}`);
    }
  }
  sink.count("environments", ids.length);
}

/** A text that is the same for two lists of the same names and fingerprints: the one that environments keep. */
export const runningDigest = (running: readonly { name: string; fingerprint: string }[]): string =>
  digestOf(
    [...running]
      .sort((a, b) => order(a.name, b.name) || order(a.fingerprint, b.fingerprint))
      .map((artifact) => ({ ...artifact, instances: { created: [] } })),
  );

const order = (a: string, b: string): number => (a === b ? 0 : a < b ? -1 : 1);

/**
 * Indexes 1, 2, 3, ... with times that go back only where that is noted, and the environment's row says what the latest
 * snapshot does. @returns those from `from` on.
 */
function numbered(db: Db, environment: Environment, { from, until, isLast }: Window, say: Say): Snapshot[] {
  const snapshots = db
    .prepare(
      `SELECT idx, timestamp, compliant, compliant_count, non_compliant_count, unknown_count, policy_versions_json, member_id, member_index
       FROM snapshots WHERE environment_id = ? AND idx >= ? AND (idx <= ? OR ?) ORDER BY idx`,
    )
    .all(environment.id, from, until, isLast ? 1 : 0) as Snapshot[];
  const setbacks = new Map(
    db
      .prepare<[number, number, number, number], { idx: number; timestamp: number }>(
        "SELECT idx, timestamp FROM snapshot_setbacks WHERE environment_id = ? AND idx > ? AND (idx <= ? OR ?)",
      )
      .all(environment.id, from, until, isLast ? 1 : 0)
      .map(({ idx, timestamp }) => [idx, timestamp]),
  );
  let expected = Math.max(from, 1);
  let time = 0;
  for (const { idx, timestamp } of snapshots) {
    if (idx !== expected) say(`snapshot ${idx} stands where ${expected} is expected`);
    // The first of a window was looked at with the window before it.
    const noted = setbacks.get(idx);
    setbacks.delete(idx);
    if (timestamp < time && noted === undefined)
      say(`snapshot ${idx} is older than the one before it, which is not noted`);
    if (noted !== undefined && (noted !== timestamp || timestamp >= time))
      say(`snapshot ${idx} of ${timestamp} is noted as set back to ${noted}, behind one of ${time}`);
    expected = idx + 1;
    time = timestamp;
  }
  for (const idx of setbacks.keys()) say(`a setback is noted for snapshot ${idx}, which is not there`);
  if (!isLast) return snapshots;
  const latest = snapshots.at(-1);
  if (environment.snapshot_count !== expected - 1)
    say(`snapshot_count is ${environment.snapshot_count}, there are ${expected - 1} snapshots`);
  if (environment.last_changed_at !== (latest?.timestamp ?? null))
    say(`last_changed_at is ${environment.last_changed_at}, the latest snapshot's time ${latest?.timestamp}`);
  if (environment.state !== (latest?.compliant ?? null))
    say(`state is ${environment.state}, the latest snapshot's ${latest?.compliant}`);
  if ((environment.last_reported_at === null) !== (latest === undefined || environment.type === "logical"))
    say(`last_reported_at is ${environment.last_reported_at}`);
  return snapshots;
}

/** Intervals, and the counts that follow from them. */
function inspectRows(
  db: Db,
  environment: Environment,
  { from, until, isLast }: Window,
  snapshots: readonly Snapshot[],
  say: Say,
): void {
  const rows = db
    .prepare(
      `SELECT a.id, a.fingerprint, a.name, a.first_index, a.last_index, a.annotation, a.was, a.now, a.compliant, a.started_index, e.compliant AS judged,
              (SELECT json_group_array(value ->> 'version_id') FROM json_each(e.verdicts_json)) AS versions
       FROM snapshot_artifacts a JOIN evaluations e ON e.id = a.evaluation_id
       WHERE a.environment_id = ? AND a.last_index >= ? AND (a.first_index <= ? OR ?) ORDER BY a.first_index, a.id`,
    )
    .all(environment.id, from, until, isLast ? 1 : 0) as Row[];
  const chains = new Map<string, Row[]>();
  for (const row of rows) {
    const key = identityOf(row);
    const chain = chains.get(key);
    if (chain) chain.push(row);
    else chains.set(key, [row]);
  }
  const count = environment.snapshot_count;
  for (const chain of chains.values()) inspectChain(chain, { from, until, isLast }, count, say);

  if (isLast) {
    const running = rows.filter(({ last_index }) => last_index === OPEN);
    const digest = count === 0 ? null : runningDigest(running);
    if (environment.running_digest !== digest)
      say(`running_digest is ${environment.running_digest}, what runs has ${digest}`);
  }

  const begin = new Map<number, Row[]>();
  for (const row of rows)
    if (row.annotation !== "exited") begin.set(row.first_index, [...(begin.get(row.first_index) ?? []), row]);
  let present = rows.filter((row) => row.annotation !== "exited" && row.first_index < from);
  for (const snapshot of snapshots) {
    const { idx } = snapshot;
    present = [...present.filter(({ last_index }) => last_index >= idx), ...(begin.get(idx) ?? [])];
    const verdicts = present.map(({ compliant }) => fromSqlBoolean(compliant));
    const counted = [true, false, null].map((wanted) => verdicts.filter((verdict) => verdict === wanted).length);
    const told = [snapshot.compliant_count, snapshot.non_compliant_count, snapshot.unknown_count];
    if (String(counted) !== String(told))
      say(`snapshot ${idx} counts ${told} (compliant, not, unknown), its rows are ${counted}`);
    const policies = (JSON.parse(snapshot.policy_versions_json) as number[]).length;
    const state = computeEnvironmentVerdict(verdicts, policies);
    if (fromSqlBoolean(snapshot.compliant) !== state)
      say(`snapshot ${idx} says ${snapshot.compliant}, its rows lead to ${state}`);
    const others = present.filter(({ versions }) => versions !== snapshot.policy_versions_json);
    if (others[0])
      say(
        `snapshot ${idx} was evaluated under ${snapshot.policy_versions_json}, ${others.length} of its rows under others (${others[0].versions})`,
      );
  }
}

/** The rows of one name and fingerprint, in their order: each begins where the one before it ended, or starts anew. */
function inspectChain(chain: readonly Row[], { from, until, isLast }: Window, count: number, say: Say): void {
  let before: Row | null = null;
  for (const row of chain) {
    const until = row.last_index === OPEN ? "now" : row.last_index;
    const wrong: Say = (problem) =>
      say(`row ${row.id} (${row.name}, ${row.first_index} to ${until}, ${row.annotation}) ${problem}`);
    if (row.first_index > count || (row.last_index !== OPEN && row.last_index > count))
      wrong(`is beyond snapshot ${count}`);
    if (row.compliant !== row.judged) wrong(`says ${row.compliant}, its evaluation ${row.judged}`);
    if (before && before.last_index >= row.first_index) wrong(`overlaps row ${before.id}`);
    const exited = row.annotation === "exited";
    if (exited && row.last_index !== row.first_index) wrong("is longer than one snapshot");
    if (exited !== (row.now === 0)) wrong(`has ${row.now} instances`);
    if (before && before.annotation !== "exited" && before.last_index !== row.first_index - 1)
      wrong(`leaves a gap behind row ${before.id}`);
    if (row.first_index > from) inspectStep(before?.annotation === "exited" ? null : before, row, wrong);
    before = row;
  }
  if (before && (isLast ? before.last_index !== OPEN : before.last_index < until) && before.annotation !== "exited")
    say(`row ${before.id} (${before.name}) ends with ${before.last_index}, and nothing says that it exited`);
}

/** From the row before to this one; null where the artifact did not run. */
function inspectStep(before: Row | null, row: Row, wrong: Say): void {
  const { annotation, compliant } = row;
  const word = compliant === null ? "unknown" : compliant === 1 ? "compliant" : "non-compliant";
  if (!before) {
    if (annotation !== `started-${word}`) wrong(`has no row before it and should be started-${word}`);
    if (row.started_index !== row.first_index || row.was !== 0)
      wrong(`starts with started_index ${row.started_index} and was ${row.was}`);
    return;
  }
  if (row.started_index !== before.started_index)
    wrong(`started with ${row.started_index}, the row before it with ${before.started_index}`);
  if (row.was !== before.now) wrong(`was ${row.was}, the row before it has ${before.now} instances`);
  const flipped = compliant !== before.compliant;
  const possible = flipped
    ? [compliant === null ? "unchanged" : `became-${word}`]
    : ["unchanged", "updated-provenance", "exited"];
  if (!possible.includes(annotation))
    wrong(`should be ${possible.join(" or ")}: before it was ${before.compliant}, now ${compliant}`);
}

/**
 * Snapshots of a group show one snapshot of each member, and there is one for every snapshot of a member since it is
 * one.
 */
function inspectGroup(
  db: Db,
  group: Environment,
  { from, until, isLast }: Window,
  snapshots: readonly Snapshot[],
  say: Say,
): void {
  const rows = db
    .prepare(
      `SELECT m.member_id, m.member_index, m.position, m.first_index, m.last_index, s.idx AS existing, s.compliant AS state, s.compliant_count,
              s.non_compliant_count, s.unknown_count
       FROM snapshot_members m LEFT JOIN snapshots s ON s.environment_id = m.member_id AND s.idx = m.member_index
       WHERE m.environment_id = ? AND m.last_index >= ? AND (m.first_index <= ? OR ?) ORDER BY m.first_index`,
    )
    .all(group.id, from, until, isLast ? 1 : 0) as Member[];
  for (const row of rows) {
    if (row.existing === null) say(`shows snapshot ${row.member_index} of member ${row.member_id}, which is not there`);
    if (Math.max(row.first_index, row.last_index === OPEN ? 0 : row.last_index) > group.snapshot_count)
      say(`member ${row.member_id} is beyond snapshot ${group.snapshot_count}`);
  }
  const latest = new Map<number, number>();
  const begin = new Map<number, Member[]>();
  for (const row of rows) begin.set(row.first_index, [...(begin.get(row.first_index) ?? []), row]);
  let present = rows.filter((row) => row.first_index < from);
  for (const {
    idx,
    compliant,
    compliant_count,
    non_compliant_count,
    unknown_count,
    member_id,
    member_index,
  } of snapshots) {
    present = [...present.filter(({ last_index }) => last_index >= idx), ...(begin.get(idx) ?? [])];
    for (const what of ["member_id", "position"] as const)
      if (new Set(present.map((row) => row[what])).size !== present.length)
        say(`snapshot ${idx} shows two members of one ${what}`);
    const cause = present.find((row) => row.member_id === member_id);
    if (cause?.member_index !== member_index)
      say(
        `snapshot ${idx} was caused by snapshot ${member_index} of member ${member_id}, and shows ${cause?.member_index}`,
      );
    const sum = (column: "compliant_count" | "non_compliant_count" | "unknown_count"): number =>
      present.reduce((total, row) => total + row[column], 0);
    const counted = [sum("compliant_count"), sum("non_compliant_count"), sum("unknown_count")];
    const told = [compliant_count, non_compliant_count, unknown_count];
    if (String(counted) !== String(told))
      say(`snapshot ${idx} counts ${told} (compliant, not, unknown), its members ${counted}`);
    // Members without a snapshot count as unknown and leave no row.
    const state = computeLogicalVerdict(present.map((row) => fromSqlBoolean(row.state)));
    if (fromSqlBoolean(compliant) !== state && !(compliant === null && state === true))
      say(`snapshot ${idx} says ${compliant}, its members lead to ${state}`);
    // Not each snapshot of a member: it may have left the group for a while.
    const before = latest.get(member_id as number);
    if (before !== undefined && (member_index as number) <= before)
      say(`snapshot ${idx} is of snapshot ${member_index} of member ${member_id}, after ${before}`);
    latest.set(member_id as number, member_index as number);
  }
}
