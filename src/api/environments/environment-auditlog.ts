/**
 * The events of an environment as a CSV file, oldest first. Events are written while they are read, so a file of any
 * size takes the memory of a few hundred lines.
 */
import { shownCommit } from "../../domain/commit.ts";
import { Type } from "typebox";
import { formatCsvLine } from "../../domain/text/csv.ts";
import type { FlowRecord } from "../../domain/compliance/environment.ts";
import { EVENT_KINDS, describeEvent, kindOf } from "../../domain/snapshot/events.ts";
import type { EventKind } from "../../domain/snapshot/events.ts";
import { invalid } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { CheckedByHandler, Closed, Message, Repeated } from "../../http/schema.ts";
import type { EnvironmentEventRow, IndexRange } from "../../store/environments/environment-events.ts";
import type { EnvironmentRow } from "../../store/environments/environments.ts";
import { readFlowsByEvent, requireRepoIds } from "./environment-events.ts";
import { operation } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { csvStream } from "../csv.ts";
import { UNREADABLE } from "../../contract/placeholders.ts";
import { EnvironmentPath } from "../paths.ts";

const COLUMNS = [
  "timestamp",
  "time",
  "environment",
  "snapshot_index",
  "event_type",
  "description",
  "artifact_name",
  "artifact_fingerprint",
  "compliance",
  "flows",
  "git_commit",
  "commit_url",
  "reported_by",
];

/** In `flow_names`: artifacts without a flow (wire-contract 9). Names of flows have no spaces. */
const NO_PROVENANCE = "no provenance";

/** null: no filter. */
type Filter = { kinds: ReadonlySet<EventKind> | null; flows: FlowFilter | null; repoIds: ReadonlySet<number> | null };
/** `withoutProvenance`: artifacts without provenance match too. */
type FlowFilter = { ids: ReadonlySet<number>; withoutProvenance: boolean };

export const getEnvAuditlog = operation({
  id: "get_env_auditlog",
  method: "GET",
  path: "/environments/{org}/{env_name}/auditlog",
  tag: "Environments",
  summary: "Download the events of an environment",
  description:
    "All events as `text/csv` in UTF-8, oldest first, after a line with the column names. All filters must match; " +
    "bounds are inclusive. A value that a spreadsheet would evaluate as a formula is prefixed with an apostrophe.",
  permission: "environment:read",
  audit: null,
  params: EnvironmentPath,
  query: Closed({
    from_timestamp: Type.Optional(Type.Number({ description: "Epoch seconds" })),
    to_timestamp: Type.Optional(Type.Number({ description: "Epoch seconds" })),
    event_types: Repeated(CheckedByHandler({ pattern: `^(?:${EVENT_KINDS.join("|")})?$` }, Type.String()), {
      description: "`started`, `exited` and `changed`, separated by commas; `changed` covers all other events",
    }),
    flow_names: Repeated(Type.String(), {
      description: "Artifacts that had been reported to any of these flows; `no provenance`: to no flow",
    }),
    repo_names: Repeated(Type.String(), { description: "Artifacts with provenance from any of these repositories" }),
  }),
  body: NO_BODY,
  responses: {
    200: { description: "The events", schema: Type.String(), contentType: "text/csv", isStream: true },
    404: { description: "No such environment, or no such repository", schema: Message },
  },
  example: {
    params: { org: "acme", env_name: "production" },
    query: { event_types: "started,exited", flow_names: "payments" },
  },
  handle(context, { params, query }) {
    const { store, organization } = context;
    const environment = store.environments.require(organization, params.env_name);
    const repoIds = requireRepoIds(context, query.repo_names);
    const filter: Filter = {
      kinds: parseKinds(nonEmpty(query.event_types)),
      flows: findFlowFilter(context, nonEmpty(query.flow_names)),
      repoIds: repoIds && new Set(repoIds),
    };
    const range = store.environmentEvents.findRange(environment, {
      from: query.from_timestamp ?? -Infinity,
      to: query.to_timestamp ?? Infinity,
      now: context.now(),
    });
    return {
      status: 200,
      stream: csvStream({
        filename: `${environment.name}-auditlog.csv`,
        columns: COLUMNS,
        slices: () => generateLines(store, { environment, range, filter }),
      }),
    };
  },
});

/** The values of a parameter without empty texts; null when none is left, which is no filter. */
function nonEmpty(texts: readonly string[] | undefined): string[] | null {
  const values = (texts ?? []).filter((text) => text !== "");
  return values.length > 0 ? values : null;
}

/**
 * The flows that have these names, or had them before a rename. The events of an archived flow match its suffixed name,
 * never its former name, which another flow may have taken (semantics 1.8).
 */
function findFlowFilter({ store, organization }: ReadingContext, names: readonly string[] | null): FlowFilter | null {
  return (
    names && {
      ids: new Set(names.flatMap((name) => store.flows.find(organization.id, name)?.id ?? [])),
      withoutProvenance: names.includes(NO_PROVENANCE),
    }
  );
}

/** @throws AppError invalid on `event_types` for an unknown word */
function parseKinds(words: readonly string[] | null): ReadonlySet<EventKind> | null {
  const unknown = words?.find((word) => !EVENT_KINDS.some((kind) => kind === word));
  if (unknown !== undefined)
    throw invalid({ event_types: `Input should be 'started', 'exited' or 'changed' [input: ${unknown}]` });
  return words && new Set(words as EventKind[]);
}

/** Events that are read at a time. */
const PAGE_SIZE = 200;

function* generateLines(
  store: ReadingContext["store"],
  { environment, range, filter }: { environment: EnvironmentRow; range: IndexRange; filter: Filter },
): Generator<string> {
  let from = { ...range, id: 0 };
  for (;;) {
    const rows = store.environmentEvents.listAfter(environment, from, PAGE_SIZE);
    yield rows.flatMap(createLineRenderer(store, rows, filter)).join("");
    const last = rows.at(-1);
    if (!last || rows.length < PAGE_SIZE) return;
    from = { ...from, first: last.position, id: last.id };
  }
}

/** Returns a function that renders an event of the page as a line, or as nothing when the filter excludes it. */
function createLineRenderer(
  store: ReadingContext["store"],
  rows: readonly EnvironmentEventRow[],
  { kinds, flows, repoIds }: Filter,
) {
  const flowsByEvent = readFlowsByEvent(store, rows);
  const records =
    repoIds &&
    store.environmentEvents.findRecords(
      [...flowsByEvent.values()].flatMap((provenance) => provenance?.map(({ artifact_id }) => artifact_id) ?? []),
    );
  const matchesFlows = (provenance: readonly FlowRecord[]): boolean =>
    !flows ||
    (provenance.length === 0 ? flows.withoutProvenance : provenance.some(({ flow_id }) => flows.ids.has(flow_id)));
  const matchesRepos = (provenance: readonly FlowRecord[]): boolean =>
    !repoIds || provenance.some(({ artifact_id }) => repoIds.has(records?.get(artifact_id)?.repo_id ?? 0));

  return (row: EnvironmentEventRow): string[] => {
    if (kinds && !kinds.has(kindOf(row.annotation))) return [];
    const provenance = flowsByEvent.get(row) ?? null;
    // A damaged event is never excluded: a gap in the log would look as if nothing had happened.
    if (provenance === null) return [renderLine(row, [], UNREADABLE)];
    if (!matchesFlows(provenance) || !matchesRepos(provenance)) return [];
    return [renderLine(row, provenance, describeEvent(row))];
  };
}

function renderLine(row: EnvironmentEventRow, flows: readonly FlowRecord[], description: string): string {
  const first = flows[0];
  return formatCsvLine([
    row.timestamp,
    new Date(row.timestamp * 1000).toISOString(),
    row.environment_name,
    row.snapshot_index,
    row.annotation,
    description,
    row.name,
    row.fingerprint,
    row.compliant === null ? "UNKNOWN" : row.compliant === 1 ? "COMPLIANT" : "NON-COMPLIANT",
    flows.map(({ flow }) => flow).join(", "),
    first ? shownCommit(first.git_commit) : null,
    first?.commit_url ?? null,
    row.user_name,
  ]);
}
