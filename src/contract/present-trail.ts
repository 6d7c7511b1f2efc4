/** A trail as responses show it: its fields, the template in force, the stored verdict and the whole history. */
import type { Static } from "typebox";
import { EMPTY_TEMPLATE_TEXT } from "../domain/flow-template/template.ts";
import type { Template } from "../domain/flow-template/template.ts";
import { StoredJsonError, hasMembers, isObject, isRecordOf, readStoredJson } from "../domain/stored-json.ts";
import { mergeByTime, iterateByTime } from "../domain/time.ts";
import { JsonText, stringifyJson } from "../json/text.ts";
import type { FlowRow } from "../store/flows/flows.ts";
import type { TrailTransitionRow } from "../store/environments/artifact-locations.ts";
import type { TrailEventRow, TrailEventText } from "../store/flows/trail-events.ts";
import { isTrailStatus } from "../store/flows/trails.ts";
import type { SummarizedTrailRow, TrailRow } from "../store/flows/trails.ts";
import {
  eventTextReader,
  listAllowance,
  replaceStubs,
  singleAllowance,
  unlimitedAllowance,
  withLargeJson,
} from "./large-json.ts";
import type { Allowance, WithLargeJson } from "./large-json.ts";
import { readFreeForm, readNullableReported } from "./reported-json.ts";
import type { Stored } from "./reported-json.ts";
import { presentCommit, presentEvent, presentEventRepoInfo, presentEventText, readRepoInfo } from "./shapes.ts";
import { memoize } from "./memoize.ts";
import { UNREADABLE, presentEach } from "./placeholders.ts";
import type { ExternalUrl, TrailEvent, TrailResponse } from "./trail-shapes.ts";
import type { PresenterContext } from "./presenter-context.ts";

type TrailValue = Static<typeof TrailResponse>;
export type TrailEventValue = Static<typeof TrailEvent>;

/** A trail row as responses show it, apart from the history. */
export type TrailOutline = Omit<TrailValue, "events">;
type FlowFacts = { flow: FlowRow; tags: Record<string, string> };
/** The JSON text of an event, and its time in epoch seconds. */
type TimedText = { timestamp: number; text: string };
type TemplateFacts = Template & { content: string };
/** The members that every event of a trail has. */
type EventOrigin = { org_id: string; flow_id: string; trail_id: string };

/** Presents a trail without its history, which may be long. @param row as lists have it (store.trails.listed) */
export const presentTrailOutline = (context: PresenterContext, row: TrailRow): TrailValue => ({
  ...createTrailPresenter(context, []).outline(row, singleAllowance(context)),
  events: [],
});

/**
 * A part of the history, oldest first, and how many events it has. Starts and stops of artifacts are few compared with
 * reports, so those are merged into the part of the stored events that can hold the page: an event of the page lies at
 * most as many places before its place in the page as there are starts and stops.
 */
export function presentTrailEvents(
  context: PresenterContext,
  row: SummarizedTrailRow,
  windowOf: (total: number) => { limit: number; offset: number },
): { events: TrailEventValue[]; total: number } {
  const { trails } = context.store;
  const presenter = createTrailPresenter(context, [row]);
  const moves = presenter.countMoves(row);
  const total = trails.countEvents(row.id) + moves;
  const { limit, offset } = windowOf(total);
  const start = Math.max(0, offset - moves);
  const allowance = listAllowance(context);
  const window = { limit: offset + limit - start, offset: start };
  const stored = trails.listEventWindow(row.id, window, eventTextReader(context, allowance));
  const merged = presenter.listedEvents(row, stored, allowance);
  return { events: merged.slice(offset - start, offset - start + limit), total };
}

/**
 * Presents trails in two parts, because a history may be longer than memory: all but the history, and the history event
 * by event. Flows, templates and artifact moves that the trails share are read once.
 */
export function createTrailPresenter(context: PresenterContext, rows: readonly SummarizedTrailRow[]) {
  const { store, organization } = context;
  const moves = store.artifactLocations.listTransitionsByTrail(rows.map(({ id }) => id));
  const findFlow = memoize((id: number): FlowFacts => ({ flow: store.flows.get(id), tags: store.flows.getTags(id) }));
  const isForPage = context.answerBounds?.isForPage === true;
  const findTemplate = memoize(
    (id: number): TemplateFacts => ({
      ...store.templates.getParsed(id),
      // The pages of a trail show its entries, not its text.
      content: isForPage ? "" : store.templates.get(id).content,
    }),
  );
  const originOf = (row: SummarizedTrailRow): EventOrigin => ({
    org_id: organization.public_id,
    flow_id: findFlow(row.flow_id).flow.public_id,
    trail_id: row.public_id,
  });
  const presentMove = createMovePresenter(context);
  const movesOf = (row: SummarizedTrailRow): readonly TrailTransitionRow[] => moves.get(row.id) ?? [];

  return {
    /**
     * @param listed a whole row, or one of a list
     * @throws ResponseFullError when the response has no room for the trail
     */
    outline(listed: TrailRow, allowance: Allowance): TrailOutline {
      const row = withLargeJson(context, listed, { table: "trails", allowance });
      return presentOutline(context, row, { ...findFlow(row.flow_id), template: findTemplate(row.template_id) });
    },
    /** How many starts and stops of artifacts the history has. */
    countMoves: (row: SummarizedTrailRow): number => movesOf(row).length,
    /** The history, oldest first. @param rows the history of the trail as stored */
    events(row: TrailRow, rows: Iterable<TrailEventRow>): Generator<TrailEventValue> {
      const origin = originOf(row);
      return iterateByTime(
        presentStoredEvents(rows, origin),
        movesOf(row).map((move) => ({ ...presentMove(move, unlimitedAllowance(context)), ...origin })),
      );
    },
    /** As `events`, for a list: a damaged event is marked, and never fails the list (semantics 9). */
    listedEvents(row: SummarizedTrailRow, rows: readonly TrailEventRow[], allowance: Allowance): TrailEventValue[] {
      const origin = originOf(row);
      const stored = presentEach(
        rows,
        (event) => presentStoredEvent(event, origin),
        ({ type, timestamp }, unreadable) => ({ ...commonMembers({ type, timestamp }, origin), unreadable }),
      );
      const moved = presentEach(
        movesOf(row),
        (move): TrailEventValue => ({ ...presentMove(move, allowance), ...origin }),
        (move, unreadable) => ({
          ...presentMove({ ...move, git_commit_info_json: null, repo_info_json: null }, allowance),
          ...origin,
          unreadable,
        }),
      );
      return mergeByTime(stored, moved);
    },
    /**
     * The JSON texts of events, assembled from stored text: most of a trail is history, which would be parsed only to
     * be serialized again.
     * @throws Error for a damaged record
     */
    *eventTexts(row: TrailRow, events: Iterable<TrailEventText>): Generator<TimedText & { id: number }> {
      const origin = JSON.stringify(originOf(row)).slice(1, -1);
      for (const event of events)
        yield { id: event.id, timestamp: event.timestamp, text: assembleEventText(event, origin, row.id) };
    },
    /** As `eventTexts`, for starts and stops of its artifacts; each text is made when it is read. */
    moveTexts(row: TrailRow, allowance: Allowance): TimedText[] {
      const origin = originOf(row);
      return movesOf(row).map((move) => ({
        timestamp: move.timestamp,
        get text() {
          return stringifyJson({ ...presentMove(move, allowance), ...origin });
        },
      }));
    },
  };
}

const isUrlRecord = isRecordOf(hasMembers<Static<typeof ExternalUrl>>("href"));
const isUserData = (value: unknown): value is NonNullable<TrailValue["user_data"]> =>
  isObject(value) || Array.isArray(value);

const presentOutline = (
  context: PresenterContext,
  row: WithLargeJson<TrailRow>,
  { template, ...flow }: FlowFacts & { template: TemplateFacts },
): TrailOutline => ({
  ...presentFacts(context, row, flow),
  template,
  compliance_status: readStoredJson(row.compliance_json, isTrailStatus),
});

const presentFacts = (
  { store, organization, urls }: PresenterContext,
  row: WithLargeJson<SummarizedTrailRow>,
  flow: FlowFacts,
) => ({
  ...presentTrailHead({ organization, urls }, row, flow),
  origin_url: row.origin_url,
  user_data: presentUserData(row.user_data_json),
  repo_ids: store.trails.listRepoIds(row.id),
  external_urls: readNullableReported(row.external_urls_json, isUrlRecord),
});

/** Presents a trail without its template, statuses and history. @param row as lists have it */
export function presentTrailFacts(context: PresenterContext, row: SummarizedTrailRow) {
  const { flows } = context.store;
  const flow = { flow: flows.get(row.flow_id), tags: flows.getTags(row.flow_id) };
  const allowance = singleAllowance(context);
  return presentFacts(context, withLargeJson(context, row, { table: "trails", allowance }), flow);
}

/** What a trail and its summary share. */
export const presentTrailHead = (
  { organization, urls }: Pick<PresenterContext, "organization" | "urls">,
  row: WithLargeJson<SummarizedTrailRow>,
  { flow, tags }: { flow: Pick<FlowRow, "name">; tags: Record<string, string> },
) => ({
  name: row.name,
  description: row.description ?? "",
  git_commit_info: presentCommit(row.git_commit_info_json),
  created_at: row.created_at,
  last_modified_at: row.last_modified_at,
  created_by: row.created_by,
  flow: { name: flow.name, tags },
  html_url: urls.trailPage(organization.name, flow.name, row.name),
  compliance_state: row.state,
  is_compliant: row.state === "COMPLIANT",
});

/** Text that a query verified to be JSON is passed on unparsed. @throws StoredJsonError for a damaged record */
function presentUserData(stored: Stored | null): TrailValue["user_data"] {
  const value = readFreeForm(stored);
  if (value === null || isUserData(value)) return value;
  throw new StoredJsonError("user_data is neither an object nor a list");
}

function* presentStoredEvents(rows: Iterable<TrailEventRow>, origin: EventOrigin): Generator<TrailEventValue> {
  for (const row of rows) yield presentStoredEvent(row, origin);
}

/** The members that an event has whatever its type. */
const commonMembers = (
  { type, timestamp }: Pick<TrailEventRow, "type" | "timestamp">,
  origin: EventOrigin,
): TrailEventValue => ({ type: type as TrailEventValue["type"], timestamp, ...origin });

/** @throws StoredJsonError for a damaged record */
const presentStoredEvent = (row: TrailEventRow, origin: EventOrigin): TrailEventValue => ({
  ...commonMembers(row, origin),
  ...presentEvent(readStoredJson(row.event_json, isObject)),
});

/**
 * The members of the stored text are appended to the common ones.
 * @param origin the members of the origin as JSON text
 * @throws Error for a damaged record
 */
function assembleEventText({ type, timestamp, event_json }: TrailEventText, origin: string, id: number): string {
  if (!event_json?.startsWith("{")) throw new Error(`an event of trail ${id} is damaged`);
  const head = `{"type":${JSON.stringify(type)},"timestamp":${JSON.stringify(timestamp)},${origin}`;
  return event_json === "{}" ? `${head}}` : `${head},${presentEventText(event_json).slice(1)}`;
}

/**
 * Presents starts and stops of artifacts: events that follow from environment reports (semantics 2.5). An artifact may
 * have thousands, with the same commit and repository.
 */
function createMovePresenter(context: PresenterContext) {
  const commitOf = rememberShort(presentCommit);
  const repoOf = rememberShort((stored) => presentEventRepoInfo(readRepoInfo(stored)));
  return (listed: TrailTransitionRow, allowance: Allowance) => {
    const move = replaceStubs(context, listed, { table: "artifacts", allowance });
    const hasStopped = move.annotation === "exited";
    return {
      type: hasStopped ? ("artifact_stopped_running" as const) : ("artifact_started_running" as const),
      timestamp: move.timestamp,
      artifact_id: move.artifact_id,
      artifact_name: move.filename,
      artifact_fingerprint: move.fingerprint,
      template_reference_name: move.reference_name,
      environment_id: move.environment_id,
      environment_name: move.environment_name,
      snapshot_index: move.snapshot_index,
      replica_number: hasStopped ? move.was : move.now,
      repo_info: repoOf(move.repo_info_json),
      git_commit_info: commitOf(move.git_commit_info_json),
    };
  };
}

/** Computes the value of each column once; that of a long text anew, which is not kept. */
function rememberShort<Value>(compute: (stored: Stored | null) => Value): (stored: Stored | null) => Value {
  const known = memoize(compute);
  return (stored) => (stored instanceof JsonText ? compute(stored) : known(stored));
}

/** The placeholder of a damaged trail. */
export function presentTrailPlaceholder(
  { store, organization, urls }: PresenterContext,
  row: TrailRow,
  reason = UNREADABLE,
): TrailValue {
  const flow = store.flows.get(row.flow_id).name;
  return {
    name: row.name,
    description: reason,
    git_commit_info: null,
    origin_url: null,
    user_data: null,
    repo_ids: [],
    created_at: row.created_at,
    last_modified_at: row.last_modified_at,
    created_by: row.created_by,
    flow: { name: flow, tags: {} },
    external_urls: null,
    html_url: urls.trailPage(organization.name, flow, row.name),
    template: { version: 1, trail: { attestations: [], artifacts: [] }, content: EMPTY_TEMPLATE_TEXT },
    compliance_status: {
      status: row.state,
      is_compliant: row.state === "COMPLIANT",
      attestations_statuses: [],
      artifacts_statuses: {},
      evaluated_at: row.last_modified_at,
      flow_template_id: "",
    },
    compliance_state: row.state,
    is_compliant: row.state === "COMPLIANT",
    events: [],
  };
}
