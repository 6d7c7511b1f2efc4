/**
 * The events of an environment as a CSV file: all of them, oldest first, written while they are read, so that a file of
 * any size takes the memory of a few hundred lines.
 */
import { Readable } from "node:stream";
import { setImmediate } from "node:timers/promises";
import { Type } from "typebox";
import { csvLine } from "../../domain/text/csv.ts";
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
import type { OperationContext } from "../context.ts";
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

/** Stands for artifacts without a flow among flow_names (wire-contract 9). No flow has a name with a space. */
const NO_PROVENANCE = "no provenance";

/** null: not filtered by. */
type Filter = { kinds: ReadonlySet<EventKind> | null; flows: FlowFilter | null; repoIds: ReadonlySet<number> | null };
/** `none`: artifacts without provenance too. */
type FlowFilter = { ids: ReadonlySet<number>; none: boolean };

export const getEnvAuditlog = operation({
  id: "get_env_auditlog",
  method: "GET",
  path: "/environments/{org}/{env_name}/auditlog",
  tag: "Environments",
  summary: "Download the changes of an environment",
  description:
    "All events as `text/csv` in UTF-8, oldest first, below a line with the names of the columns. The filters combine; bounds are inclusive. A text that a spreadsheet would take for a formula has an apostrophe in front.",
  permission: "environment:read",
  audit: null,
  params: EnvironmentPath,
  query: Closed({
    from_timestamp: Type.Optional(Type.Number({ description: "Epoch seconds" })),
    to_timestamp: Type.Optional(Type.Number({ description: "Epoch seconds" })),
    event_types: Repeated(CheckedByHandler({ pattern: `^(?:${EVENT_KINDS.join("|")})?$` }, Type.String()), {
      description: "Of `started`, `exited` and `changed`, separated by commas; `changed` is everything else",
    }),
    flow_names: Repeated(Type.String(), {
      description: "Artifacts that had been reported to one of these flows; `no provenance`: to none",
    }),
    repo_names: Repeated(Type.String(), { description: "Artifacts with provenance from one of these repositories" }),
  }),
  body: NO_BODY,
  responses: {
    200: { description: "The file", schema: Type.String(), contentType: "text/csv", isStream: true },
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
      kinds: kindsOf(given(query.event_types)),
      flows: flowFilterOf(context, given(query.flow_names)),
      repoIds: repoIds && new Set(repoIds),
    };
    const range = store.environmentEvents.between(environment, {
      from: query.from_timestamp ?? -Infinity,
      to: query.to_timestamp ?? Infinity,
      now: context.now(),
    });
    return {
      status: 200,
      stream: {
        contentType: "text/csv; charset=utf-8",
        filename: `${environment.name}-auditlog.csv`,
        open: () => Readable.from(lines(store, environment, range, filter)),
      },
    };
  },
});

/** The values of a parameter; empty texts are none, and none is no filter. */
function given(texts: readonly string[] | undefined): string[] | null {
  const words = (texts ?? []).filter((text) => text !== "");
  return words.length > 0 ? words : null;
}

/**
 * Names stand for the flows that have them now, or had them before a rename; the evidence of a flow that was archived
 * is found under its suffixed name, never under that of the flow that took its name (semantics 1.8).
 */
function flowFilterOf({ store, organization }: OperationContext, names: readonly string[] | null): FlowFilter | null {
  return (
    names && {
      ids: new Set(names.flatMap((name) => store.flows.find(organization.id, name)?.id ?? [])),
      none: names.includes(NO_PROVENANCE),
    }
  );
}

function kindsOf(words: readonly string[] | null): ReadonlySet<EventKind> | null {
  const unknown = words?.find((word) => !EVENT_KINDS.some((kind) => kind === word));
  if (unknown !== undefined)
    throw invalid({ event_types: `Input should be 'started', 'exited' or 'changed' [input: ${unknown}]` });
  return words && new Set(words as EventKind[]);
}

/** Events read at once. Between two such pages other requests have their turn. */
const LINES = 200;

async function* lines(
  store: OperationContext["store"],
  environment: EnvironmentRow,
  range: IndexRange,
  filter: Filter,
): AsyncGenerator<string> {
  yield csvLine(COLUMNS);
  let from = { ...range, id: 0 };
  for (;;) {
    const rows = store.environmentEvents.after(environment, from, LINES);
    // Also where nothing is left of a page: only here does the reading end when the client has gone.
    yield rows.flatMap(selector(store, rows, filter)).join("");
    const last = rows.at(-1);
    if (!last || rows.length < LINES) return;
    from = { ...from, first: last.position, id: last.id };
    await setImmediate();
  }
}

/** Turns an event of a page into its line, or into none when the filter leaves it out. */
function selector(
  store: OperationContext["store"],
  rows: readonly EnvironmentEventRow[],
  { kinds, flows, repoIds }: Filter,
) {
  const facts = readFlowsByEvent(store, rows);
  const records =
    repoIds &&
    store.environmentEvents.records(
      [...facts.values()].flatMap((of) => of?.map(({ artifact_id }) => artifact_id) ?? []),
    );
  const ofFlows = (of: readonly FlowRecord[]): boolean =>
    !flows || (of.length === 0 ? flows.none : of.some(({ flow_id }) => flows.ids.has(flow_id)));
  const ofRepos = (of: readonly FlowRecord[]): boolean =>
    !repoIds || of.some(({ artifact_id }) => repoIds.has(records?.get(artifact_id)?.repo_id ?? 0));

  return (row: EnvironmentEventRow): string[] => {
    if (kinds && !kinds.has(kindOf(row.annotation))) return [];
    const of = facts.get(row) ?? null;
    // What nobody can read is never left out: a gap in a log would look like nothing happened.
    if (of === null) return [lineOf(row, [], UNREADABLE)];
    return ofFlows(of) && ofRepos(of) ? [lineOf(row, of, describeEvent(row))] : [];
  };
}

function lineOf(row: EnvironmentEventRow, flows: readonly FlowRecord[], description: string): string {
  const first = flows[0];
  return csvLine([
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
    first?.git_commit ?? null,
    first?.commit_url ?? null,
    row.user_name,
  ]);
}
