/**
 * The events of an environment: one for each artifact that started, exited or changed with a snapshot (semantics 6.8).
 * A logical environment has the events of its members, with the names and snapshot indexes of the members.
 */
import { Type } from "typebox";
import type { Static } from "typebox";
import { withFlowNames } from "../../domain/compliance/environment.ts";
import type { Facts, FlowRecord } from "../../domain/compliance/environment.ts";
import { BOUND_PATTERN, INTERVAL_PATTERN } from "../../domain/snapshot/expression.ts";
import { EVENT_KINDS, describeEvent, kindOf } from "../../domain/snapshot/events.ts";
import type { EventKind } from "../../domain/snapshot/events.ts";
import { hasMembers, isListOf, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import { buildCompareUrl } from "../../domain/network/urls.ts";
import { NO_BODY } from "../../http/operation.ts";
import { CheckedByHandler, Closed, Deprecated, Message, Nullable, OneOf, Repeated, named } from "../../http/schema.ts";
import { readSelector } from "../../store/flows/artifact-selector.ts";
import { fromSqlBoolean } from "../../store/db/database.ts";
import { MAX_SEARCHED_EVENTS } from "../../store/environments/environment-events.ts";
import type { EnvironmentEventRow, Exit } from "../../store/environments/environment-events.ts";
import type { EnvironmentRow } from "../../store/environments/environments.ts";
import { MAX_PATH_CHARS } from "../../contract/shapes.ts";
import { operation } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { PAGING_HEADERS, definePaging, buildPagingHeaders } from "../paging.ts";
import { replacementUrl } from "../../contract/present-deployment.ts";
import { UNREADABLE, presentEach } from "../../contract/placeholders.ts";
import { EnvironmentPath } from "../paths.ts";
import { resolveEventRange } from "./event-range.ts";

const EnvironmentEventFlow = named(
  "EnvironmentEventFlow",
  Closed({
    flow_name: Type.String(),
    deployments: Nullable(Type.Array(Type.Integer(), { description: "Always null" })),
  }),
);
const Addresses = Type.Object({ self: Type.String(), html: Type.String() }, { additionalProperties: false });
const EnvironmentEvent = named(
  "EnvironmentEvent",
  Closed({
    type: Type.String({
      description:
        "The annotation of the artifact in the snapshot: `started-compliant`, `exited`, `became-compliant`, ...",
    }),
    environment_name: Type.String({ description: "In a logical environment, the member in which the event occurred" }),
    snapshot_index: Type.Integer(),
    artifact_name: Type.String(),
    sha256: Type.String({ description: "Fingerprint; empty if the reporter could not resolve the image" }),
    description: Type.String(),
    reported_at: Type.Number({ description: "Epoch seconds" }),
    pipeline: Type.String({ description: "The first flow; empty without provenance" }),
    deployments: Type.Array(Type.Integer(), { description: "Always empty" }),
    flows: Type.Array(EnvironmentEventFlow, {
      description: "The flows to which the artifact had been reported at that time",
    }),
    artifact_compliance: Nullable(Type.Boolean()),
    snapshot_compliance: Nullable(Type.Boolean()),
    code_diff: Nullable(
      Type.String({
        description:
          "URL that compares the commit of a started artifact with the commit of the artifact it replaced, or the " +
          "commit of an exited artifact with the commit of the artifact that replaced it",
      }),
    ),
    _links: Closed({ artifact: Nullable(Addresses), snapshot: Addresses }),
  }),
);
type EventValue = Static<typeof EnvironmentEvent>;

const PAGES = definePaging({ perPage: 15, maxPerPage: 100 });
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
    "Newest first, in pages. The headers `X-Total-Count`, `X-Per-Page`, `X-Current-Page` and `X-Total-Pages` have " +
    "the counts; `Link` points to the other pages, if any. Of several ranges, the first in this order applies: " +
    "`from`/`to`, `start_ts`/`end_ts`, `start`/`end`, `interval`. All bounds are inclusive.",
  permission: "environment:read",
  audit: null,
  params: EnvironmentPath,
  query: Closed({
    // Deprecated since the parameters that replace it exist (semantics 11).
    interval: CheckedByHandler(
      { pattern: INTERVAL_PATTERN },
      Deprecated("2026-05-26", Type.Optional(Type.String({ description: "`1..5`, `~3..NOW`; use `start` and `end`" }))),
    ),
    ...PAGES.query,
    reverse: Type.Boolean({ default: false, description: "Oldest first" }),
    repo_name: Repeated(Type.String(), {
      description: "Artifacts that had provenance from any of these repositories at that time",
    }),
    start_ts: Moment("Same as `from`"),
    end_ts: Moment("Same as `to`"),
    start: Bound(
      "First snapshot, 1 by default: an index, a negative index from the latest, `NOW`, a duration before now " +
        "(`1hour`, `2days`, `30mins`), or a Unix timestamp above 1000000000",
    ),
    end: Bound("Last snapshot, `NOW` by default; same format as `start`"),
    search: Type.Optional(
      Type.String({
        maxLength: MAX_PATH_CHARS,
        description:
          `Part of the name of the artifact, in any case, or the beginning of its fingerprint. With \`search\` or ` +
          `\`kind\`, the first ${MAX_SEARCHED_EVENTS} events of the range are searched`,
      }),
    ),
    kind: Repeated(OneOf(EVENT_KINDS), { description: "Events of any of these kinds" }),
    from: Moment("Epoch seconds: events reported at this time or later"),
    to: Moment("Epoch seconds: events reported at this time or earlier"),
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
    const range = resolveEventRange(context, environment, query);
    const filter = { ...range, repoIds: requireRepoIds(context, query.repo_name) };
    const window = PAGES.window(query);
    const { rows, total } = readPage(context, environment, {
      filter,
      search: { text: query.search ?? "", kinds: query.kind ?? [] },
      page: { reverse: query.reverse, limit: window.limit, offset: window.offset },
    });
    const address = urls.environmentEventsApi(organization.name, environment.name);
    return {
      status: 200,
      body: presentEvents(context, rows),
      headers: buildPagingHeaders(total, window, { address, query }),
    };
  },
});

type Events = ReadingContext["store"]["environmentEvents"];

function readPage(
  { store: { environmentEvents } }: ReadingContext,
  environment: EnvironmentRow,
  {
    filter,
    search,
    page,
  }: {
    filter: Parameters<Events["list"]>[1];
    search: { text: string; kinds: readonly EventKind[] };
    page: Parameters<Events["list"]>[2];
  },
): { rows: EnvironmentEventRow[]; total: number } {
  if (search.text !== "" || search.kinds.length > 0)
    return environmentEvents.search(environment, { ...filter, ...search }, page);
  return {
    rows: environmentEvents.list(environment, filter, page),
    total: environmentEvents.count(environment, filter),
  };
}

/**
 * Keys of the repositories in a filter; empty texts are ignored, and null is no filter.
 * @throws AppError 404 for an unknown repository
 */
export function requireRepoIds(
  { store, organization }: ReadingContext,
  names: readonly string[] | undefined,
): number[] | null {
  const nonEmpty = (names ?? []).filter((name) => name !== "");
  if (nonEmpty.length === 0) return null;
  return nonEmpty.flatMap((name) => store.repos.requireByName(organization, name).map(({ id }) => id));
}

/** The flows of each event under their present names, the first flow first; null for a damaged record. */
export function readFlowsByEvent(
  { flows }: ReadingContext["store"],
  rows: readonly EnvironmentEventRow[],
): Map<EnvironmentEventRow, readonly FlowRecord[] | null> {
  const stored = new Map(rows.map((row) => [row, readStoredJsonOrNull(row.facts_json, isFacts)]));
  const names = flows.findPresentNames(
    [...stored.values()].flatMap((facts) => facts?.flows.map(({ flow_id }) => flow_id) ?? []),
  );
  return new Map(
    Array.from(stored, ([row, facts]) => [row, facts && withFlowNames(facts, (id) => names.get(id)).flows]),
  );
}

const hasFlows = hasMembers<Facts>("flows");
const isFlowList = isListOf(hasMembers<FlowRecord>("flow", "flow_id"));
const isFacts = (value: unknown): value is Facts => hasFlows(value) && isFlowList(value.flows);

/** What the events of one page have in common, read with one query each. */
type PageFacts = {
  flows: ReadonlyMap<EnvironmentEventRow, readonly FlowRecord[] | null>;
  records: ReturnType<ReadingContext["store"]["environmentEvents"]["findRecords"]>;
  replaced: ReturnType<ReadingContext["store"]["snapshots"]["findReplaced"]>;
  successors: ReturnType<typeof readSuccessors>;
};

function presentEvents(context: ReadingContext, rows: readonly EnvironmentEventRow[]): EventValue[] {
  const { store } = context;
  const flows = readFlowsByEvent(store, rows);
  const known = [...flows.values()].flatMap((provenance) => provenance ?? []);
  const facts: PageFacts = {
    flows,
    records: store.environmentEvents.findRecords(known.map(({ artifact_id }) => artifact_id)),
    replaced: store.snapshots.findReplaced(known.flatMap(({ deployment_id }) => deployment_id ?? [])),
    successors: readSuccessors(store, rows, flows),
  };
  return presentEach(
    rows,
    (row) => presentEvent(context, facts, { row, provenance: flows.get(row) ?? throwUnreadable(row) }),
    (row) => ({ ...presentEvent(context, facts, { row, provenance: [] }), description: UNREADABLE }),
  );
}

function throwUnreadable(row: EnvironmentEventRow): never {
  throw new Error(`the facts of event ${row.id} cannot be read`);
}

/** The artifacts that took the place of those that exited, by the flow record of the exited artifact. */
function readSuccessors(
  store: ReadingContext["store"],
  rows: readonly EnvironmentEventRow[],
  flows: PageFacts["flows"],
) {
  const exits = new Map<FlowRecord, Exit>();
  for (const row of rows) {
    if (kindOf(row.annotation) !== "exited") continue;
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
  }
  return store.environmentEvents.findSuccessors(exits);
}

type Provenance = readonly FlowRecord[];

/** @param event `provenance`: its flows, the first one first */
function presentEvent(
  { urls, organization }: ReadingContext,
  facts: PageFacts,
  { row, provenance }: { row: EnvironmentEventRow; provenance: Provenance },
): EventValue {
  const org = organization.name;
  const first = provenance[0];
  const record = first && facts.records.get(first.artifact_id);
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
    flows: provenance.map(({ flow }) => ({ flow_name: flow, deployments: null })),
    artifact_compliance: fromSqlBoolean(row.compliant),
    snapshot_compliance: fromSqlBoolean(row.snapshot_compliant),
    code_diff: findCodeDiff(facts, row, provenance),
    _links: {
      artifact: record
        ? {
            self: urls.artifactApi(org, record.flow_name, {
              fingerprint: row.fingerprint,
              selector: readSelector(record),
            }),
            html: urls.artifactPage(org, record.flow_name, { fingerprint: row.fingerprint, id: record.public_id }),
          }
        : null,
      snapshot: {
        self: urls.snapshotApi(org, row.environment_name, row.snapshot_index),
        html: urls.snapshotPage(org, row.environment_name, row.snapshot_index),
      },
    },
  };
}

/** Compares the commits of the artifact and its counterpart in the first flow where that is possible. */
function findCodeDiff(facts: PageFacts, { annotation }: EnvironmentEventRow, provenance: Provenance): string | null {
  const kind = kindOf(annotation);
  if (kind === "changed") return null;
  const compare = kind === "started" ? compareWithReplaced : compareWithSuccessor;
  for (const flow of provenance) {
    const url = compare(facts, flow);
    if (url !== null) return url;
  }
  return null;
}

const repoUrlOf = ({ records }: PageFacts, flow: FlowRecord): string | null =>
  records.get(flow.artifact_id)?.repo_url ?? null;

function compareWithReplaced(facts: PageFacts, flow: FlowRecord): string | null {
  const before = flow.deployment_id === null ? undefined : facts.replaced.get(flow.deployment_id);
  return before ? replacementUrl(before, flow, repoUrlOf(facts, flow)) : null;
}

function compareWithSuccessor(facts: PageFacts, flow: FlowRecord): string | null {
  const after = facts.successors.get(flow);
  if (!after) return null;
  return buildCompareUrl(
    { sha: flow.git_commit, commitUrl: flow.commit_url, repoUrl: repoUrlOf(facts, flow) },
    { sha: after.git_commit, commitUrl: after.commit_url, repoUrl: after.repo_url },
  );
}
