/** Trails: beginning and reading them. */
import { Type } from "typebox";
import { FINGERPRINT_PREFIX, matches } from "../../domain/names.ts";
import { invalid } from "../../errors.ts";
import { NO_BODY, RECORD_BOUNDS } from "../../http/operation.ts";
import { CheckedByHandler, Closed, ExactlyOne, Message, Ok, OneOf, Pagination, named } from "../../http/schema.ts";
import type { FlowRow } from "../../store/flows/flows.ts";
import type { SummarizedTrailRow, TrailFilter } from "../../store/flows/trails.ts";
import { documentLane } from "./flows.ts";
import { JsonList } from "../../json/text.ts";
import { largeRead, operation } from "../context.ts";
import type { LargeReadContext } from "../context.ts";
import { PageOf, StateCounts, definePaging, totalIn } from "../paging.ts";
import { presentPagination } from "../../http/pagination.ts";
import { CausesQuery } from "../../contract/causes.ts";
import { presentTrailSummaries } from "../../contract/present-trail-summary.ts";
import { presentTrailEvents, presentTrailOutline } from "../../contract/present-trail.ts";
import { listAllIds, writeTrail, writeTrails } from "../../contract/trail-texts.ts";
import { TrailEvent, TrailResponse, TrailSummary } from "../../contract/trail-shapes.ts";
import { CreateTrail, beginOrUpdateTrail } from "./begin-trail.ts";
import type { PageWindow } from "../paging.ts";
import { FlowPath, OrgPath, NoQuery, ReadTrailPath } from "../paths.ts";

const TrailListPage = PageOf("TrailListPage", TrailResponse);
const TrailSummaryPage = named(
  "TrailSummaryPage",
  Closed({
    data: Type.Array(TrailSummary),
    pagination: Pagination,
    states: StateCounts,
  }),
);

export const createTrail = operation({
  id: "create_trail",
  method: "PUT",
  path: "/trails/{org}/{flow_name}",
  tag: "Trails",
  summary: "Begin or update a trail",
  description:
    "Creates the trail, or updates it: absent and null fields keep their stored value. Without a file, the trail " +
    "uses the current template of its flow at each begin; a file of its own stays in force until it is replaced. " +
    "Everything in the trail is then evaluated.",
  permission: "trail:write",
  audit: "trail.begun",
  isRepeatable: true,
  params: FlowPath,
  query: NoQuery,
  body: {
    kind: "form",
    component: "CreateTrailForm",
    part: "data_json",
    schema: CreateTrail,
    bounds: RECORD_BOUNDS,
    file: {
      part: "template_file",
      description: "The trail's own template: YAML in UTF-8, at most 10 MB",
      kind: "memory",
    },
  },
  responses: {
    200: { description: "Updated; the trail existed, possibly because a report had named it", schema: Ok },
    201: { description: "Begun", schema: Ok },
    404: { description: "No such flow, or it has been archived", schema: Message },
  },
  example: {
    params: { org: "acme", flow_name: "payments" },
    body: {
      name: "release-1.4.0",
      description: "Release of the payment service",
      git_commit_info: {
        sha1: "0f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112",
        message: "Round half to even",
        author: "Ada <ada@example.com>",
        branch: "main",
        timestamp: 1700000000,
      },
    },
    file: "version: 1\ntrail:\n  attestations:\n    - name: pull-request\n      type: pull_request\n",
  },
  // Reading a large template takes a while, so it happens before the transaction.
  async prepare(context, { params, file }) {
    const { store, organization, documents } = context;
    store.flows.requireWritable(organization, params.flow_name);
    return file ? documents.readTemplate(documentLane(context), file.bytes) : null;
  },
  handle(context, { params, body }, template) {
    const flow = context.store.flows.requireWritable(context.organization, params.flow_name);
    return beginOrUpdateTrail(context, flow, { report: body, template });
  },
});

export const getTrail = largeRead({
  id: "get_trail",
  method: "GET",
  path: "/trails/{org}/{flow_name}/{trail_name}",
  tag: "Trails",
  summary: "Read a trail",
  description: "Includes its template, its history and its verdict as of the last report.",
  permission: "trail:read",
  audit: null,
  params: ReadTrailPath,
  query: Closed({
    events: Type.Optional(
      Type.Boolean({ default: true, description: "false: without the history, which may be long; see its own list" }),
    ),
  }),
  body: NO_BODY,
  responses: {
    200: { description: "The trail", schema: TrailResponse },
    404: { description: "No such flow or trail", schema: Message },
  },
  example: { params: { org: "acme", flow_name: "payments", trail_name: "release-1.4.0" } },
  handle(context, { params, query }) {
    const row = context.store.trails.getListed(requireTrailAt(context, params).trail.id);
    return query.events === false
      ? { status: 200, body: presentTrailOutline(context, row) }
      : { status: 200, texts: writeTrail(context, row) };
  },
});

const EVENT_PAGING = definePaging({ perPage: 25, maxPerPage: 100 });

export const listTrailEvents = largeRead({
  id: "list_trail_events",
  method: "GET",
  path: "/trails/{org}/{flow_name}/{trail_name}/events",
  tag: "Trails",
  summary: "List the events of a trail",
  description:
    "The history of the trail in pages: what was reported to it, and where its artifacts started and stopped " +
    "running. A damaged record has `unreadable` with the reason.",
  permission: "trail:read",
  audit: null,
  origin: "assay",
  params: ReadTrailPath,
  query: Closed({
    order: Type.Optional(OneOf(["newest", "oldest"], { default: "newest", description: "Which events come first" })),
    ...EVENT_PAGING.query,
  }),
  body: NO_BODY,
  responses: {
    200: { description: "One page", schema: PageOf("TrailEventListPage", TrailEvent) },
    404: { description: "No such flow or trail", schema: Message },
  },
  example: { params: { org: "acme", flow_name: "payments", trail_name: "release-1.4.0" }, query: { order: "oldest" } },
  handle(context, { params, query }) {
    const { trail } = requireTrailAt(context, params);
    const { limit, offset, page, perPage } = EVENT_PAGING.window(query);
    const isOldestFirst = query.order === "oldest";
    const { events, total } = presentTrailEvents(context, trail, (all) => {
      if (isOldestFirst) return { limit, offset: Math.min(offset, all) };
      const end = Math.max(all - offset, 0);
      return { limit: Math.min(limit, end), offset: Math.max(end - limit, 0) };
    });
    return {
      status: 200,
      body: {
        data: new JsonList(isOldestFirst ? events : events.reverse()),
        pagination: presentPagination(total, page, perPage),
      },
    };
  },
});

/** The trail of that name. @param flow `name`: as the caller wrote it. @throws AppError 404 (messages 12) */
export const requireTrail = (
  { store, organization }: LargeReadContext,
  flow: { id: number; name: string },
  trailName: string,
): SummarizedTrailRow => store.trails.require({ organization: organization.name, flow }, trailName);

/** The trail of a path, with its flow. @throws AppError 404 (messages 11 and 12) */
export function requireTrailAt(
  context: LargeReadContext,
  { flow_name, trail_name }: { flow_name: string; trail_name: string },
): { flow: FlowRow; trail: SummarizedTrailRow } {
  const flow = context.store.flows.require(context.organization, flow_name);
  return { flow, trail: requireTrail(context, { id: flow.id, name: flow_name }, trail_name) };
}

const PAGING = definePaging({ perPage: 20, maxPerPage: 100 });
const OPTIONAL_PAGING = definePaging({ perPage: 20, maxPerPage: 100, optional: true });

export const listTrails = largeRead({
  id: "list_trails",
  method: "GET",
  path: "/trails/{org}/{flow_name}",
  tag: "Trails",
  summary: "List the trails of a flow",
  description: "Newest first: a bare list of all trails, or with `per_page` one page in an envelope.",
  permission: "trail:read",
  audit: null,
  params: FlowPath,
  query: Closed({
    ...OPTIONAL_PAGING.query,
    state: Type.Optional(OneOf(["INCOMPLETE", "COMPLIANT", "NON-COMPLIANT"], { description: "Only trails in it" })),
    search_by_name: Type.Optional(Type.String({ description: "Part of the name, in any case" })),
    summaries: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          "One page of short entries: what is wrong with each trail instead of its statuses, template and history; " +
          "with the number of trails in each state",
      }),
    ),
    ...CausesQuery,
  }),
  body: NO_BODY,
  responses: {
    200: {
      description: "All trails, or one page of them",
      schema: ExactlyOne([TrailListPage, Type.Array(TrailResponse), TrailSummaryPage]),
    },
    404: { description: "No such flow", schema: Message },
  },
  example: { params: { org: "acme", flow_name: "payments" }, query: { page: "1", per_page: "20" } },
  handle(context, { params, query }) {
    const { store, organization } = context;
    const flow = store.flows.require(organization, params.flow_name);
    const filter: TrailFilter = {
      organizationId: organization.id,
      flowId: flow.id,
      flowTag: null,
      fingerprint: null,
      state: query.state ?? null,
      search: query.search_by_name || null,
    };
    const window = { ...OPTIONAL_PAGING.window(query), withCauses: query.causes === true };
    if (query.summaries) return { status: 200, body: presentSummaries(context, filter, window) };
    // `page` alone does not request an envelope (semantics 2.5).
    if (query.per_page === undefined)
      return { status: 200, body: new JsonList(writeTrails(context, listAllIds(context, filter))) };
    return { status: 200, body: presentPage(context, filter, window) };
  },
});

export const listTrailsForOrg = largeRead({
  id: "list_trails_for_org",
  method: "GET",
  path: "/trails/{org}",
  tag: "Trails",
  summary: "List the trails of an organization",
  description: "Newest first, in pages. All filters must match; an unknown flow gives an empty list.",
  permission: "trail:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    flow: Type.Optional(Type.String({ description: "Name of a flow" })),
    flow_tag: CheckedByHandler(
      { pattern: String.raw`^[^\x00=]*=[^\x00]*$` },
      Type.Optional(Type.String({ description: "`key=value`: trails of flows with that tag" })),
    ),
    fingerprint: Type.Optional(
      Type.String({ description: "Trails that this artifact was reported to; at least its first 5 characters" }),
    ),
    ...PAGING.query,
  }),
  body: NO_BODY,
  responses: { 200: { description: "One page", schema: TrailListPage } },
  example: {
    params: { org: "acme" },
    query: { flow: "payments", flow_tag: "team=payments", page: "1", per_page: "20" },
  },
  handle(context, { query }) {
    const { store, organization } = context;
    const window = PAGING.window(query);
    const flowTag = query.flow_tag === undefined ? null : parseFlowTag(query.flow_tag);
    // An empty text is no filter.
    const fingerprint = query.fingerprint || null;
    const flow = query.flow ? store.flows.find(organization.id, query.flow) : null;
    if ((query.flow && !flow) || (fingerprint !== null && !matches(FINGERPRINT_PREFIX, fingerprint)))
      return {
        status: 200,
        body: { data: [], pagination: presentPagination(0, window.page, window.perPage) },
      };
    const filter: TrailFilter = { organizationId: organization.id, flowId: flow?.id ?? null, flowTag, fingerprint };
    return { status: 200, body: presentPage(context, filter, window) };
  },
});

/** Parses `key=value`; the value may contain further `=`. @throws AppError 400 on `flow_tag` */
function parseFlowTag(text: string): { key: string; value: string } {
  const at = text.indexOf("=");
  if (at === -1) throw invalid({ flow_tag: `Input should be a tag as 'key=value' [input: ${text}]` });
  return { key: text.slice(0, at), value: text.slice(at + 1) };
}

/** One page of short entries. A damaged trail is a placeholder, as in other lists. */
function presentSummaries(
  context: LargeReadContext,
  filter: TrailFilter,
  { limit, offset, page, perPage, withCauses }: PageWindow & { withCauses: boolean },
) {
  const { trails } = context.store;
  const states = trails.countStates(filter);
  const rows = trails.listIds(filter, { limit, offset }).map((id) => trails.getSummarized(id));
  return {
    data: new JsonList(presentTrailSummaries(context, rows, { withCauses })),
    pagination: presentPagination(totalIn(states, filter.state), page, perPage),
    states,
  };
}

/** One page in its envelope. */
function presentPage(
  context: LargeReadContext,
  filter: TrailFilter,
  { limit, offset, page, perPage, withCauses = false }: PageWindow & { withCauses?: boolean },
) {
  const { trails } = context.store;
  return {
    data: new JsonList(writeTrails(context, trails.listIds(filter, { limit, offset }), { withCauses })),
    pagination: presentPagination(trails.count(filter), page, perPage),
  };
}
