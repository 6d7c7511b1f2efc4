/**
 * What started, stopped or changed in an environment: one event for each artifact that a snapshot shows changed
 * (semantics
 * 6.8). The events of a logical environment are those of its members, with the name and the numbers of the member.
 */
import { Type } from "typebox";
import type { Static } from "typebox";
import { withFlowNames } from "../../domain/compliance/environment.ts";
import type { Facts, FlowRecord } from "../../domain/compliance/environment.ts";
import {
  BOUND_PATTERN,
  INTERVAL_PATTERN,
  beginsBeyond,
  parseBound,
  parseInterval,
  resolvePosition,
} from "../../domain/snapshot/expression.ts";
import type { Position } from "../../domain/snapshot/expression.ts";
import { describeEvent, kindOf } from "../../domain/snapshot/events.ts";
import { compareUrl } from "../../domain/network/urls.ts";
import { invalid } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { CheckedByHandler, Closed, Deprecated, Message, Nullable, Repeated, named } from "../../http/schema.ts";
import { selectorOf } from "../../store/flows/artifact-selector.ts";
import { fromSqlBoolean } from "../../store/db/database.ts";
import type { EnvironmentEventRow, Exit, IndexRange } from "../../store/environments/environment-events.ts";
import type { EnvironmentRow } from "../../store/environments/environments.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { PAGING_HEADERS, pages, pagingHeaders } from "../paging.ts";
import { replacementUrl } from "../../contract/present-snapshot.ts";
import { UNREADABLE, presentEach } from "../../contract/placeholders.ts";
import { EnvironmentPath } from "../paths.ts";

const EnvironmentEventFlow = named(
  "EnvironmentEventFlow",
  Closed({ flow_name: Type.String(), deployments: Type.Null({ description: "Always null" }) }),
);
const Addresses = Type.Object({ self: Type.String(), html: Type.String() }, { additionalProperties: false });
const EnvironmentEvent = named(
  "EnvironmentEvent",
  Closed({
    type: Type.String({
      description: "How the snapshot annotates the artifact: `started-compliant`, `exited`, `became-compliant`, ...",
    }),
    environment_name: Type.String({ description: "Of a logical environment: the member in which it happened" }),
    snapshot_index: Type.Integer(),
    artifact_name: Type.String(),
    sha256: Type.String({ description: "Fingerprint; empty where the reporter could not resolve the image" }),
    description: Type.String(),
    reported_at: Type.Number({ description: "Epoch seconds" }),
    pipeline: Type.String({ description: "The first flow; empty without provenance" }),
    deployments: Type.Array(Type.Integer(), { description: "Always empty" }),
    flows: Type.Array(EnvironmentEventFlow, {
      description: "The flows that the artifact had been reported to by then",
    }),
    artifact_compliance: Nullable(Type.Boolean()),
    snapshot_compliance: Nullable(Type.Boolean()),
    code_diff: Nullable(
      Type.String({
        description:
          "Compares the commit of an artifact that started with that of the one it replaced, or that of an artifact that exited with that of the one in its place",
      }),
    ),
    _links: Closed({ artifact: Nullable(Addresses), snapshot: Addresses }),
  }),
);
type EventValue = Static<typeof EnvironmentEvent>;

const PAGES = pages({ perPage: 15, most: 100 });
const Bound = (description: string) =>
  CheckedByHandler({ pattern: BOUND_PATTERN }, Type.Optional(Type.String({ description })));
const Moment = (description: string) => Type.Optional(Type.Number({ description }));

export const getEnvEvents = operation({
  id: "get_env_events",
  method: "GET",
  path: "/environments/{org}/{env_name}/events",
  tag: "Environments",
  summary: "List the events of an environment",
  description:
    "Newest first, in pages; the headers `X-Total-Count`, `X-Per-Page`, `X-Current-Page` and `X-Total-Pages` tell how many, and `Link` leads to other pages when there are any. Of several ranges `from`/`to` count, then `start_ts`/`end_ts`, then `start`/`end`, then `interval`. All bounds are inclusive.",
  permission: "environment:read",
  audit: null,
  params: EnvironmentPath,
  query: Closed({
    // Since the day of the parameters that replace it (semantics 11).
    interval: CheckedByHandler(
      { pattern: INTERVAL_PATTERN },
      Deprecated("2026-05-26", Type.Optional(Type.String({ description: "`1..5`, `~3..NOW`; use `start` and `end`" }))),
    ),
    ...PAGES.query,
    reverse: Type.Boolean({ default: false, description: "Oldest first" }),
    repo_name: Repeated(Type.String(), {
      description: "Only artifacts that then had provenance from one of these repositories",
    }),
    start_ts: Moment("As `from`"),
    end_ts: Moment("As `to`"),
    start: Bound(
      "First snapshot, 1 unless given: an index, a negative one from the latest, `NOW`, `1hour`, `2days`, `30mins` ago, or " +
        "a unix timestamp above 1000000000",
    ),
    end: Bound("Last snapshot, `NOW` unless given; as `start`"),
    from: Moment("Epoch seconds: what was reported then or later"),
    to: Moment("Epoch seconds: what was reported then or earlier"),
  }),
  body: NO_BODY,
  responses: {
    200: { description: "One page", schema: Type.Array(EnvironmentEvent), headers: PAGING_HEADERS },
    404: { description: "No such environment, or no such repository", schema: Message },
  },
  example: { params: { org: "acme", env_name: "production" }, query: { start: "2days", page: "1", per_page: "15" } },
  handle(context, { params, query }) {
    const { store, organization, urls } = context;
    const environment = store.environments.require(organization, params.env_name);
    const range = rangeOf(context, environment, query);
    const filter = { ...range, repoIds: requireRepoIds(context, query.repo_name) };
    const window = PAGES.window(query);
    const total = store.environmentEvents.count(environment, filter);
    const rows = store.environmentEvents.page(environment, filter, query.reverse, window.limit, window.offset);
    const address = urls.environmentEventsApi(organization.name, environment.name);
    return { status: 200, body: presentEvents(context, rows), headers: pagingHeaders(total, window, address, query) };
  },
});

type Ranges = {
  from?: number | undefined;
  to?: number | undefined;
  start_ts?: number | undefined;
  end_ts?: number | undefined;
  start?: string | undefined;
  end?: string | undefined;
  interval?: string | undefined;
};

/**
 * The snapshots that a query asks for (semantics 13, number 78). An empty text is absent; a range that does not count
 * must be well formed all the same. @throws AppError 400 on the malformed parameters.
 */
function rangeOf({ store, now }: OperationContext, environment: EnvironmentRow, query: Ranges): IndexRange {
  const at = now();
  const problems: Record<string, string> = {};
  const read = <T>(
    name: "start" | "end" | "interval",
    parse: (text: string, now: number) => T | null,
    expected: string,
  ): T | null => {
    const text = query[name] || null;
    const value = text === null ? null : parse(text, at);
    if (text !== null && value === null) problems[name] = `Input should be ${expected} [input: ${text}]`;
    return value;
  };
  const bound = "an index, 'NOW', a duration such as '1hour' or a unix timestamp";
  const [start, end] = [read("start", parseBound, bound), read("end", parseBound, bound)];
  const interval = read("interval", parseInterval, "an interval such as '1..5', '~3..NOW' or 'NOW'");
  if (Object.keys(problems).length > 0) throw invalid(problems);

  for (const [from, to] of [
    [query.from, query.to],
    [query.start_ts, query.end_ts],
  ])
    if (from !== undefined || to !== undefined)
      return store.environmentEvents.between(environment, { from: from ?? -Infinity, to: to ?? Infinity, now: at });
  const bounded = { store, environment, now: at };
  if (start || end) return indexesOf(bounded, start ?? FIRST, end ?? LATEST);
  if (!interval) return { first: 1, last: environment.snapshot_count };
  // An omitted left side is NOW, so the sides of an interval come in either order (domain/snappish.ts, resolveRange).
  const { first, last } = indexesOf(bounded, interval.from, interval.to);
  const isReversed =
    first > last &&
    interval.from.kind !== "time" &&
    interval.to.kind !== "time" &&
    !beginsBeyond(interval.to, first, environment.snapshot_count);
  return isReversed ? { first: last, last: first } : { first, last };
}

const FIRST: Position = { kind: "index", index: 1 };
const LATEST: Position = { kind: "index", index: -1 };

/** A time bounds what was reported, so the snapshot that was in force then is left out. */
function indexesOf(
  { store, environment, now }: { store: OperationContext["store"]; environment: EnvironmentRow; now: number },
  from: Position,
  to: Position,
): IndexRange {
  const index = (position: Position, side: "first" | "last"): number => {
    if (position.kind !== "time") return resolvePosition(position, environment.snapshot_count, () => 0);
    const bounds = side === "first" ? { from: position.at, to: Infinity } : { from: -Infinity, to: position.at };
    return store.environmentEvents.between(environment, { ...bounds, now })[side];
  };
  return { first: index(from, "first"), last: index(to, "last") };
}

/**
 * The repositories of a filter; null when there is none, and empty texts are none. @throws AppError 404 for an unknown
 * one.
 */
export function requireRepoIds(
  { store, organization }: OperationContext,
  names: readonly string[] | undefined,
): number[] | null {
  const given = (names ?? []).filter((name) => name !== "");
  if (given.length === 0) return null;
  return given.flatMap((name) => store.repos.requireNamed(organization, name).map(({ id }) => id));
}

/** The flows of each event, the first one first, under their present names; null for a damaged record. */
export function readFlowsByEvent(
  { flows }: OperationContext["store"],
  rows: readonly EnvironmentEventRow[],
): Map<EnvironmentEventRow, readonly FlowRecord[] | null> {
  const stored = new Map(rows.map((row) => [row, storedFlows(row)]));
  const names = flows.presentNames([...stored.values()].flatMap((of) => of?.map(({ flow_id }) => flow_id) ?? []));
  const shown = (of: readonly FlowRecord[]) => withFlowNames({ flows: of }, (id) => names.get(id)).flows;
  return new Map([...stored].map(([row, of]) => [row, of && shown(of)]));
}

function storedFlows({ facts_json }: EnvironmentEventRow): readonly FlowRecord[] | null {
  try {
    const { flows } = JSON.parse(facts_json) as Facts;
    return Array.isArray(flows) && flows.every((record) => typeof record?.flow === "string") ? flows : null;
  } catch {
    return null;
  }
}

function presentEvents(context: OperationContext, rows: readonly EnvironmentEventRow[]): EventValue[] {
  const { store, urls } = context;
  const org = context.organization.name;
  const flows = readFlowsByEvent(store, rows);
  const known = [...flows.values()].flatMap((of) => of ?? []);
  const records = store.environmentEvents.records(known.map(({ artifact_id }) => artifact_id));
  const replaced = store.snapshots.replaced(known.flatMap(({ deployment_id }) => deployment_id ?? []));

  const exits = new Map<FlowRecord, Exit>();
  for (const row of rows)
    if (kindOf(row.annotation) === "exited")
      for (const flow of flows.get(row) ?? []) {
        if (flow.reference_name === null) continue;
        exits.set(flow, {
          environmentId: row.environment_id,
          flowId: flow.flow_id,
          referenceName: flow.reference_name,
          fingerprint: row.fingerprint,
          startedIndex: row.started_index,
          exitedIndex: row.snapshot_index,
        });
      }
  const successors = store.environmentEvents.successors(exits);

  /** The first flow in which the commits of an artifact and of its counterpart can be compared tells. */
  function codeDiff(
    of: readonly FlowRecord[],
    compare: (flow: FlowRecord, repoUrl: string | null) => string | null,
  ): string | null {
    for (const flow of of) {
      const url = compare(flow, records.get(flow.artifact_id)?.repo_url ?? null);
      if (url !== null) return url;
    }
    return null;
  }
  function withReplaced(flow: FlowRecord, repoUrl: string | null): string | null {
    const before = flow.deployment_id === null ? undefined : replaced.get(flow.deployment_id);
    return before ? replacementUrl(before, flow, repoUrl) : null;
  }
  function withSuccessor(flow: FlowRecord, repoUrl: string | null): string | null {
    const after = successors.get(flow);
    if (!after) return null;
    return compareUrl(
      { sha: flow.git_commit, commitUrl: flow.commit_url, repoUrl },
      { sha: after.git_commit, commitUrl: after.commit_url, repoUrl: after.repo_url },
    );
  }
  function codeDiffOf({ annotation }: EnvironmentEventRow, of: readonly FlowRecord[]): string | null {
    const kind = kindOf(annotation);
    if (kind === "changed") return null;
    return codeDiff(of, kind === "started" ? withReplaced : withSuccessor);
  }

  function present(row: EnvironmentEventRow, of: readonly FlowRecord[]): EventValue {
    const first = of[0];
    const record = first && records.get(first.artifact_id);
    return {
      type: row.annotation,
      environment_name: row.environment_name,
      snapshot_index: row.snapshot_index,
      artifact_name: row.name,
      sha256: row.fingerprint,
      description: describeEvent(row),
      reported_at: row.timestamp,
      pipeline: first?.flow ?? "",
      deployments: [],
      flows: of.map(({ flow }) => ({ flow_name: flow, deployments: null })),
      artifact_compliance: fromSqlBoolean(row.compliant),
      snapshot_compliance: fromSqlBoolean(row.snapshot_compliant),
      code_diff: codeDiffOf(row, of),
      _links: {
        artifact: record
          ? {
              self: urls.artifactApi(org, record.flow_name, row.fingerprint, selectorOf(record)),
              html: urls.artifactPage(org, record.flow_name, row.fingerprint, record.public_id),
            }
          : null,
        snapshot: {
          self: urls.snapshotApi(org, row.environment_name, row.snapshot_index),
          html: urls.snapshotPage(org, row.environment_name, row.snapshot_index),
        },
      },
    };
  }

  return presentEach(
    rows,
    (row) => present(row, flows.get(row) ?? damaged(row)),
    (row) => ({ ...present(row, []), description: UNREADABLE }),
  );
}

function damaged(row: EnvironmentEventRow): never {
  throw new Error(`the facts of event ${row.id} cannot be read`);
}
