/**
 * The events of environments: rows of snapshot_artifacts whose annotation is not "unchanged" (schema.sql). The events
 * of a logical environment are those of the member snapshots that caused its own snapshots (semantics 6.3): they remain
 * events of the member, but the logical snapshot determines their place in the order and in a range. Read-only.
 *
 * Pages and counts walk the index of the events, and rows are read only for what is shown.
 */
import { selectorColumn } from "../flows/artifact-selector.ts";
import { snapshotTimes } from "./snapshot-times.ts";
import type { EnvironmentRow } from "./environments.ts";
import type { StoredAnnotation } from "./snapshots.ts";
import type { EventKind } from "../../domain/snapshot/events.ts";
import type { DbReader } from "../db/types.ts";

/** Events that a search examines, the newest or oldest of its range: they are read in some milliseconds. */
export const MAX_SEARCHED_EVENTS = 5_000;

export type EnvironmentEventRow = {
  id: number;
  /** Index of the snapshot of the requested environment; for a physical one the same as snapshot_index. */
  position: number;
  /** The physical environment in which it happened. */
  environment_id: number;
  /** Its current name. */
  environment_name: string;
  snapshot_index: number;
  /** Epoch seconds of the snapshot. */
  timestamp: number;
  snapshot_compliant: 0 | 1 | null;
  /** The author of the report, or of the change to the policies or the allowlist. */
  user_name: string;
  fingerprint: string;
  name: string;
  /** The snapshot in which the artifact started. */
  started_index: number;
  annotation: StoredAnnotation;
  was: number;
  now: number;
  compliant: 0 | 1 | null;
  /** Facts of the evaluation (domain/compliance/environment.ts). */
  facts_json: string;
};

/** Snapshots of the environment by index, both inclusive. Empty when first > last. */
export type IndexRange = { first: number; last: number };
/** `repoIds`: only events of artifacts whose provenance was then one of these repositories; null for all. */
type EventFilter = IndexRange & { repoIds: readonly number[] | null };
/** `text`: part of the artifact's name or the beginning of its fingerprint; empty: any. `kinds`: empty: any. */
type EventSearch = { text: string; kinds: readonly EventKind[] };

/** An artifact that exited, in one of its flows; `referenceName` is its name there. */
export type Exit = {
  environmentId: number;
  flowId: number;
  referenceName: string;
  fingerprint: string;
  startedIndex: number;
  exitedIndex: number;
};

/** The record of what runs in place of an artifact that exited. */
type SuccessorRow = { git_commit: string | null; commit_url: string; repo_url: string | null };

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
 * Where events are found. `id` and `position` are SQL expressions; `distinct` is set where a query may return an event
 * several times.
 */
type Source = { id: string; position: string; from: string; where: string; distinct: "" | "DISTINCT" };

const PHYSICAL = "event.environment_id = @environment AND event.first_index >= @first AND event.first_index <= @last";
const LOGICAL = "s.environment_id = @environment AND s.idx >= @first AND s.idx <= @last";
const IS_EVENT = "event.annotation <> 'unchanged'";
/** The usual filter names one repository, whose events the index has in order. */
const ONE_REPO = "event.repo_id = @repo";
const SEVERAL_REPOS = "event.repo_id IN (SELECT value FROM json_each(@repos))";

const ofMembers = (table: string, condition: string): string =>
  `snapshots s CROSS JOIN ${table} event
     ON event.environment_id = s.member_id AND event.first_index = s.member_index AND ${condition}`;
const SOURCES = {
  physical: {
    all: {
      id: "event.id",
      position: "event.first_index",
      from: "snapshot_artifacts event",
      where: `${PHYSICAL} AND ${IS_EVENT}`,
      distinct: "",
    },
    one: {
      id: "event.event_id",
      position: "event.first_index",
      from: "environment_event_repos event",
      where: `${PHYSICAL} AND ${ONE_REPO}`,
      distinct: "",
    },
    several: {
      id: "event.event_id",
      position: "event.first_index",
      from: "environment_event_repos event",
      where: `${PHYSICAL} AND ${SEVERAL_REPOS}`,
      distinct: "DISTINCT",
    },
  },
  logical: {
    all: {
      id: "event.id",
      position: "s.idx",
      from: ofMembers("snapshot_artifacts", IS_EVENT),
      where: LOGICAL,
      distinct: "",
    },
    one: {
      id: "event.event_id",
      position: "s.idx",
      from: ofMembers("environment_event_repos", ONE_REPO),
      where: LOGICAL,
      distinct: "",
    },
    several: {
      id: "event.event_id",
      position: "s.idx",
      from: ofMembers("environment_event_repos", SEVERAL_REPOS),
      where: LOGICAL,
      distinct: "DISTINCT",
    },
  },
} as const satisfies Record<string, Record<string, Source>>;

/** Later starts under a flow and reference name that are examined to find what replaced an artifact. */
const MAX_SUCCESSORS = 20;

/** The rows of the events with these ids, unordered. */
const SHOWN = `SELECT sa.id, sa.environment_id, sa.started_index, env.name AS environment_name,
    sa.first_index AS snapshot_index, s.timestamp, s.compliant AS snapshot_compliant, s.user_name, sa.fingerprint,
    sa.name, sa.annotation, sa.was, sa.now, sa.compliant, ev.facts_json
  FROM json_each(?) wanted CROSS JOIN snapshot_artifacts sa ON sa.id = wanted.value
    CROSS JOIN evaluations ev ON ev.id = sa.evaluation_id
    CROSS JOIN snapshots s ON s.environment_id = sa.environment_id AND s.idx = sa.first_index
    CROSS JOIN environments env ON env.id = sa.environment_id`;

/**
 * For exits given as a JSON list of lists: what runs in their place. An artifact that started in the same snapshot as
 * the exited one is not its successor, and neither is one that had stopped again when it exited. Intervals are searched
 * from the latest one back, because an artifact that starts and stops often has thousands; EXISTS would ignore the
 * order.
 */
const SUCCESSORS = `SELECT exit.key AS place, a.git_commit, a.commit_url, a.repo_url
  FROM json_each(?) exit CROSS JOIN deployments dep ON dep.id = (
      SELECT page.id FROM (
          SELECT id, organization_id, environment_id, fingerprint, snapshot_index FROM deployments
          WHERE environment_id = exit.value ->> 0 AND flow_id = exit.value ->> 1 AND reference_name = exit.value ->> 2
            AND fingerprint <> exit.value ->> 3 AND snapshot_index > exit.value ->> 4
            AND snapshot_index <= exit.value ->> 5
          ORDER BY snapshot_index DESC, id DESC LIMIT ${MAX_SUCCESSORS}) page
      WHERE (
          SELECT 1 FROM snapshot_artifacts sa
          WHERE sa.organization_id = page.organization_id AND sa.fingerprint = page.fingerprint
            AND sa.environment_id = page.environment_id
            AND sa.first_index <= exit.value ->> 5 AND sa.last_index >= exit.value ->> 5 AND sa.now > 0
          ORDER BY sa.first_index DESC LIMIT 1)
      ORDER BY page.snapshot_index DESC, page.id DESC LIMIT 1)
    CROSS JOIN artifacts a ON a.id = dep.artifact_id`;

type SourceStatements = ReturnType<typeof prepareSource>;

function prepareSource(db: DbReader, { id, position, from, where, distinct }: Source) {
  const page = (direction: "ASC" | "DESC") =>
    db.prepare<Partial<Values & Repos> & { limit: number; offset: number }, KeyRow>(
      `SELECT ${distinct} ${id} AS id, ${position} AS position FROM ${from} WHERE ${where}
       ORDER BY ${position} ${direction}, ${id} ${direction} LIMIT @limit OFFSET @offset`,
    );
  // instr, not LIKE, so that `_` and `%` match themselves.
  const search = (direction: "ASC" | "DESC") =>
    db.prepare<Partial<Values & Repos> & { text: string; kinds: string }, KeyRow>(
      `SELECT page.id, page.position FROM (
         SELECT ${distinct} ${id} AS id, ${position} AS position FROM ${from} WHERE ${where}
         ORDER BY ${position} ${direction}, ${id} ${direction} LIMIT ${MAX_SEARCHED_EVENTS}) page
       CROSS JOIN snapshot_artifacts sa ON sa.id = page.id
       WHERE (@text = '' OR instr(lower(sa.name), lower(@text)) > 0 OR instr(sa.fingerprint, lower(@text)) = 1)
         AND (@kinds = '[]' OR CASE WHEN sa.annotation = 'exited' THEN 'exited'
           WHEN sa.annotation = 'started' OR sa.annotation LIKE 'started-%' THEN 'started'
           ELSE 'changed' END IN (SELECT value FROM json_each(@kinds)))
       ORDER BY page.position ${direction}, page.id ${direction}`,
    );
  return {
    newestFirst: page("DESC"),
    oldestFirst: page("ASC"),
    searchNewestFirst: search("DESC"),
    searchOldestFirst: search("ASC"),
    count: db.prepare<Partial<Values & Repos>, { n: number }>(
      `SELECT count(${distinct ? `DISTINCT ${id}` : "*"}) AS n FROM ${from} WHERE ${where}`,
    ),
  };
}

function prepareSources(db: DbReader, { all, one, several }: Record<"all" | "one" | "several", Source>) {
  const { id, position, from, where } = all;
  return {
    all: prepareSource(db, all),
    one: prepareSource(db, one),
    several: prepareSource(db, several),
    after: db.prepare<Values & { id: number; limit: number }, KeyRow>(
      `SELECT ${id} AS id, ${position} AS position FROM ${from}
       WHERE ${where} AND (${position} > @first OR ${id} > @id) ORDER BY ${position}, ${id} LIMIT @limit`,
    ),
  };
}

export function environmentEventStore(db: DbReader) {
  const byKeys = db.prepare<[string], Omit<EnvironmentEventRow, "position">>(SHOWN);
  const prepared = {
    physical: prepareSources(db, SOURCES.physical),
    logical: prepareSources(db, SOURCES.logical),
  };
  const times = snapshotTimes(db);
  const records = db.prepare<[string], EventRecordRow>(
    `SELECT a.id, a.public_id, f.name AS flow_name, a.repo_id, a.repo_url, ${selectorColumn("a")}
     FROM json_each(?) wanted CROSS JOIN artifacts a ON a.id = wanted.value CROSS JOIN flows f ON f.id = a.flow_id`,
  );
  const successors = db.prepare<[string], SuccessorRow & { place: number }>(SUCCESSORS);

  const sourceOf = ({ type }: Environment) => prepared[type === "logical" ? "logical" : "physical"];
  /** The statements for a filter, and their parameters. */
  function choose(
    environment: Environment,
    { first, last, repoIds }: EventFilter,
  ): { statements: SourceStatements; values: Values & Partial<Repos> } {
    const values = { environment: environment.id, first, last };
    const source = sourceOf(environment);
    if (!repoIds) return { statements: source.all, values };
    const [repo] = repoIds;
    return repoIds.length === 1 && repo !== undefined
      ? { statements: source.one, values: { ...values, repo } }
      : { statements: source.several, values: { ...values, repos: JSON.stringify(repoIds) } };
  }

  /** The events with these ids, in the order of the keys. */
  function readRows(keys: readonly KeyRow[]): EnvironmentEventRow[] {
    const rows = new Map(byKeys.all(JSON.stringify(keys.map(({ id }) => id))).map((row) => [row.id, row]));
    return keys.flatMap(({ id, position }) => {
      const row = rows.get(id);
      return row ? [{ ...row, position }] : [];
    });
  }

  return {
    /** One page, newest first unless `reverse`; within a snapshot in the order of recording, reversed along with it. */
    list(
      environment: Environment,
      filter: EventFilter,
      { reverse, limit, offset }: { reverse: boolean; limit: number; offset: number },
    ): EnvironmentEventRow[] {
      const { statements, values } = choose(environment, filter);
      return readRows(statements[reverse ? "oldestFirst" : "newestFirst"].all({ ...values, limit, offset }));
    },
    /**
     * As `list`, of the events that match a search, with their number. Of a longer range, only the first
     * MAX_SEARCHED_EVENTS in the order are searched.
     */
    search(
      environment: Environment,
      filter: EventFilter & EventSearch,
      { reverse, limit, offset }: { reverse: boolean; limit: number; offset: number },
    ): { rows: EnvironmentEventRow[]; total: number } {
      const { statements, values } = choose(environment, filter);
      const found = statements[reverse ? "searchOldestFirst" : "searchNewestFirst"].all({
        ...values,
        text: filter.text,
        kinds: JSON.stringify(filter.kinds),
      });
      return { rows: readRows(found.slice(offset, offset + limit)), total: found.length };
    },
    count(environment: Environment, filter: EventFilter): number {
      const { statements, values } = choose(environment, filter);
      return statements.count.get(values)?.n ?? 0;
    },
    /**
     * The next events after one, oldest first: reads all events with little memory.
     * @param from `first` and `id`: position and id of the event to continue after; id 0 starts with `first`.
     */
    listAfter: (environment: Environment, from: IndexRange & { id: number }, limit: number): EnvironmentEventRow[] =>
      readRows(sourceOf(environment).after.all({ environment: environment.id, ...from, limit })),
    /**
     * The snapshots of an environment between two times, both inclusive; infinite: unbounded. If `to` is not before
     * `now`, all snapshots up to the latest are in, also those that a clock running ahead dated later. Times in epoch
     * seconds.
     */
    findRange(
      { id, snapshot_count }: Pick<EnvironmentRow, "id" | "snapshot_count">,
      { from, to, now }: { from: number; to: number; now: number },
    ): IndexRange {
      const first = from === -Infinity ? 1 : times.findLastBefore(id, from) + 1;
      return { first, last: to >= now ? snapshot_count : times.findLastUntil(id, to) };
    },
    /**
     * What runs in place of artifacts that exited: the latest of those with the same flow and reference name that
     * started after them and ran when they exited. Exits that nothing replaced are left out.
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
    /** Records by id; ids without a record are left out. */
    findRecords: (ids: Iterable<number>): Map<number, EventRecordRow> =>
      new Map(records.all(JSON.stringify([...ids])).map((row) => [row.id, row])),
  };
}
