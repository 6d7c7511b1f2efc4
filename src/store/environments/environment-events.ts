/**
 * The events of environments: rows of snapshot_artifacts that say something else than "unchanged" (schema.sql). Those
 * of a logical environment are the events of the member snapshots that caused its own (semantics 6.3); they stay events
 * of the member, but their place in the order, and in a range, is the logical snapshot.
 *
 * Pages and counts walk the index of the events and read rows only for what is shown.
 */
import { selectorColumn } from "../flows/artifact-selector.ts";
import { snapshotTimes } from "./snapshot-times.ts";
import type { EnvironmentRow } from "./environments.ts";
import type { StoredAnnotation } from "./snapshots.ts";
import type { Db } from "../db/types.ts";

export type EnvironmentEventRow = {
  id: number;
  /** Index of the snapshot of the environment that was asked for; of a physical one the same as snapshot_index. */
  position: number;
  /** The physical environment in which it happened. */
  environment_id: number;
  /** Its present name. */
  environment_name: string;
  snapshot_index: number;
  /** Epoch seconds of the snapshot. */
  timestamp: number;
  snapshot_compliant: 0 | 1 | null;
  /** Who reported, or changed the policies or the allowlist. */
  user_name: string;
  fingerprint: string;
  name: string;
  /** The snapshot with which the artifact started. */
  started_index: number;
  annotation: StoredAnnotation;
  was: number;
  now: number;
  compliant: 0 | 1 | null;
  /** Facts of the evaluation (domain/compliance/environment.ts). */
  facts_json: string;
};

/** Snapshots of the environment by index, both included. None when first > last. */
export type IndexRange = { first: number; last: number };
/** `repoIds`: only events of artifacts that then had provenance from one of these repositories; null for all. */
type EventFilter = IndexRange & { repoIds: readonly number[] | null };

/** An artifact that exited, in one of its flows; `referenceName` is its name there. */
export type Exit = {
  environmentId: number;
  flowId: number;
  referenceName: string;
  fingerprint: string;
  startedIndex: number;
  exitedIndex: number;
};

/** The record of what runs in the place of an artifact that exited. */
export type SuccessorRow = { git_commit: string; commit_url: string; repo_url: string | null };

/** A record of an artifact as events refer to it. */
type EventRecordRow = {
  id: number;
  public_id: string;
  flow_name: string;
  repo_id: number | null;
  repo_url: string | null;
  selector_json: string;
};

type Environment = Pick<EnvironmentRow, "id" | "type">;
type Values = { environment: number; first: number; last: number };
type Repos = { repo: number | null; repos: string | null };
type KeyRow = Pick<EnvironmentEventRow, "id" | "position">;

/**
 * Where events are found. `id` and `position` are SQL expressions; `distinct` where one event may be found several
 * times.
 */
type Source = { id: string; position: string; from: string; where: string; distinct: "" | "DISTINCT" };

const PHYSICAL = "x.environment_id = @environment AND x.first_index >= @first AND x.first_index <= @last";
const LOGICAL = "l.environment_id = @environment AND l.idx >= @first AND l.idx <= @last";
const EVENT = "x.annotation <> 'unchanged'";
/** The usual filter has one repository, whose events lie in order. */
const ONE_REPO = "x.repo_id = @repo";
const SEVERAL_REPOS = "x.repo_id IN (SELECT value FROM json_each(@repos))";

const ofMembers = (table: string, condition: string): string =>
  `snapshots l CROSS JOIN ${table} x ON x.environment_id = l.member_id AND x.first_index = l.member_index AND ${condition}`;

const SOURCES = {
  physical: {
    all: {
      id: "x.id",
      position: "x.first_index",
      from: "snapshot_artifacts x",
      where: `${PHYSICAL} AND ${EVENT}`,
      distinct: "",
    },
    one: {
      id: "x.event_id",
      position: "x.first_index",
      from: "environment_event_repos x",
      where: `${PHYSICAL} AND ${ONE_REPO}`,
      distinct: "",
    },
    several: {
      id: "x.event_id",
      position: "x.first_index",
      from: "environment_event_repos x",
      where: `${PHYSICAL} AND ${SEVERAL_REPOS}`,
      distinct: "DISTINCT",
    },
  },
  logical: {
    all: { id: "x.id", position: "l.idx", from: ofMembers("snapshot_artifacts", EVENT), where: LOGICAL, distinct: "" },
    one: {
      id: "x.event_id",
      position: "l.idx",
      from: ofMembers("environment_event_repos", ONE_REPO),
      where: LOGICAL,
      distinct: "",
    },
    several: {
      id: "x.event_id",
      position: "l.idx",
      from: ofMembers("environment_event_repos", SEVERAL_REPOS),
      where: LOGICAL,
      distinct: "DISTINCT",
    },
  },
} as const satisfies Record<string, Record<string, Source>>;

/** Later starts of a flow and reference name that are looked at for what is in the place of an artifact that exited. */
const MAX_SUCCESSORS = 20;

/** What is shown of the events with these keys, in no order. */
const SHOWN = `SELECT x.id, x.environment_id, x.started_index, n.name AS environment_name, x.first_index AS snapshot_index, s.timestamp, s.compliant AS snapshot_compliant,
    s.user_name, x.fingerprint, x.name, x.annotation, x.was, x.now, x.compliant, e.facts_json
  FROM json_each(?) key CROSS JOIN snapshot_artifacts x ON x.id = key.value CROSS JOIN evaluations e ON e.id = x.evaluation_id
  CROSS JOIN snapshots s ON s.environment_id = x.environment_id AND s.idx = x.first_index CROSS JOIN environments n ON n.id = x.environment_id`;

export function environmentEventStore(db: Db) {
  const shown = db.prepare<[string], Omit<EnvironmentEventRow, "position">>(SHOWN);
  const statements = ({ id, position, from, where, distinct }: Source) => {
    const page = (direction: "ASC" | "DESC") =>
      db.prepare<Partial<Values & Repos> & { limit: number; offset: number }, KeyRow>(
        `SELECT ${distinct} ${id} AS id, ${position} AS position FROM ${from} WHERE ${where} ORDER BY ${position} ${direction}, ${id} ${direction} LIMIT @limit OFFSET @offset`,
      );
    return {
      newestFirst: page("DESC"),
      oldestFirst: page("ASC"),
      count: db.prepare<Partial<Values & Repos>, { n: number }>(
        `SELECT count(${distinct ? `DISTINCT ${id}` : "*"}) AS n FROM ${from} WHERE ${where}`,
      ),
    };
  };
  const after = ({ id, position, from, where }: Source) =>
    db.prepare<Values & { id: number; limit: number }, KeyRow>(
      `SELECT ${id} AS id, ${position} AS position FROM ${from} WHERE ${where} AND (${position} > @first OR ${id} > @id) ORDER BY ${position}, ${id} LIMIT @limit`,
    );
  const preparedFor = ({ all, one, several }: Record<"all" | "one" | "several", Source>) => ({
    all: statements(all),
    one: statements(one),
    several: statements(several),
    after: after(all),
  });
  const prepared = { physical: preparedFor(SOURCES.physical), logical: preparedFor(SOURCES.logical) };
  const times = snapshotTimes(db);
  const records = db.prepare<[string], EventRecordRow>(
    `SELECT a.id, a.public_id, f.name AS flow_name, a.repo_id, a.repo_url, ${selectorColumn("a")}
     FROM json_each(?) k CROSS JOIN artifacts a ON a.id = k.value CROSS JOIN flows f ON f.id = a.flow_id`,
  );

  // Exits come as one JSON list of lists. What started together with an artifact is not in its place, and neither is
  // what had stopped again when the artifact exited.
  const successors = db.prepare<[string], SuccessorRow & { place: number }>(
    `SELECT k.key AS place, a.git_commit, a.commit_url, a.repo_url
     FROM json_each(?) k CROSS JOIN deployments d ON d.id = (
         SELECT page.id FROM (
             SELECT id, organization_id, environment_id, fingerprint, snapshot_index FROM deployments
             WHERE environment_id = k.value ->> 0 AND flow_id = k.value ->> 1 AND reference_name = k.value ->> 2
               AND fingerprint <> k.value ->> 3 AND snapshot_index > k.value ->> 4 AND snapshot_index <= k.value ->> 5
             ORDER BY snapshot_index DESC, id DESC LIMIT ${MAX_SUCCESSORS}) page
         WHERE EXISTS (
             SELECT 1 FROM snapshot_artifacts x
             WHERE x.organization_id = page.organization_id AND x.fingerprint = page.fingerprint
               AND x.environment_id = page.environment_id
               AND x.first_index <= k.value ->> 5 AND x.last_index >= k.value ->> 5 AND x.now > 0)
         ORDER BY page.snapshot_index DESC, page.id DESC LIMIT 1)
       CROSS JOIN artifacts a ON a.id = d.artifact_id`,
  );

  const sourceOf = ({ type }: Environment) => prepared[type === "logical" ? "logical" : "physical"];
  /** The statements for a filter, and what is bound in them. */
  function forFilter(environment: Environment, { first, last, repoIds }: EventFilter) {
    const values = { environment: environment.id, first, last };
    const source = sourceOf(environment);
    if (!repoIds) return { found: source.all, values };
    const [repo] = repoIds;
    return repoIds.length === 1 && repo !== undefined
      ? { found: source.one, values: { ...values, repo } }
      : { found: source.several, values: { ...values, repos: JSON.stringify(repoIds) } };
  }

  /** The events with these keys, in the order of the keys. */
  function rowsOf(keys: readonly KeyRow[]): EnvironmentEventRow[] {
    const rows = new Map(shown.all(JSON.stringify(keys.map(({ id }) => id))).map((row) => [row.id, row]));
    return keys.flatMap(({ id, position }) => {
      const row = rows.get(id);
      return row ? [{ ...row, position }] : [];
    });
  }

  return {
    /** One page, newest first unless `reverse`; within a snapshot in the order of recording, turned with the rest. */
    list(
      environment: Environment,
      filter: EventFilter,
      reverse: boolean,
      limit: number,
      offset: number,
    ): EnvironmentEventRow[] {
      const { found, values } = forFilter(environment, filter);
      return rowsOf(found[reverse ? "oldestFirst" : "newestFirst"].all({ ...values, limit, offset }));
    },
    count(environment: Environment, filter: EventFilter): number {
      const { found, values } = forFilter(environment, filter);
      return found.count.get(values)?.n ?? 0;
    },
    /**
     * The next events after one, oldest first: for reading all of them with little memory.
     * @param from `first`: position of the event after which to go on, `id` its id; 0 to begin with `first`.
     */
    listAfter: (environment: Environment, from: IndexRange & { id: number }, limit: number): EnvironmentEventRow[] =>
      rowsOf(sourceOf(environment).after.all({ environment: environment.id, ...from, limit })),
    /**
     * The snapshots of an environment made from one time to another, both included; infinite: without bound. From `now`
     * on all are in, whatever time a clock that ran ahead gave them. Times in epoch seconds.
     */
    findRange(
      { id, snapshot_count }: Pick<EnvironmentRow, "id" | "snapshot_count">,
      { from, to, now }: { from: number; to: number; now: number },
    ): IndexRange {
      const first = from === -Infinity ? 1 : times.findLastBefore(id, from) + 1;
      return { first, last: to >= now ? snapshot_count : times.findLastUntil(id, to) };
    },
    /**
     * What runs in the place of artifacts that exited: of the same flow and reference name, started after them, and
     * the latest of those that ran when they exited. Exits that nothing replaced are not in the answer.
     */
    findSuccessors<Key>(exits: ReadonlyMap<Key, Exit>): Map<Key, SuccessorRow> {
      if (exits.size === 0) return new Map();
      const keys = [...exits.keys()];
      const values = [...exits.values()].map((exit) => [
        exit.environmentId,
        exit.flowId,
        exit.referenceName,
        exit.fingerprint,
        exit.startedIndex,
        exit.exitedIndex,
      ]);
      return new Map(successors.all(JSON.stringify(values)).map(({ place, ...row }) => [keys[place] as Key, row]));
    },
    /** Records by key; keys without a record are left out. */
    findRecords: (ids: Iterable<number>): Map<number, EventRecordRow> =>
      new Map(records.all(JSON.stringify([...ids])).map((row) => [row.id, row])),
  };
}
