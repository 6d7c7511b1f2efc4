/**
 * Flows. Both forms of PUT are an upsert by name with the semantics of *apply*: description and template are always
 * replaced, and cleared if absent. Visibility and repo_url stay unchanged if absent.
 */
import { Type } from "typebox";
import { ATTESTATION_NAME, FLOW_NAME } from "../../domain/names.ts";
import { MAX_TEMPLATE_ENTRIES } from "../../domain/flow-template/template.ts";
import { repairRepoUrl } from "../../domain/network/urls.ts";
import { isRecordOf, isText, readStoredJson } from "../../domain/stored-json.ts";
import { invalid } from "../../errors.ts";
import { NO_BODY, json } from "../../http/operation.ts";
import { Closed, ExactlyOne, Maybe, Message, Nullable, Ok, OneOf, Open, Repeated, named } from "../../http/schema.ts";
import type { FlowListRow, FlowRow } from "../../store/flows/flows.ts";
import { listAllowance, spendText } from "../../contract/large-json.ts";
import type { Allowance } from "../../contract/large-json.ts";
import { stubBytes } from "../../store/db/large-json.ts";
import { JsonList } from "../../json/text.ts";
import { largeRead, operation } from "../context.ts";
import type { ReadingContext, LargeReadContext } from "../context.ts";
import { PageOf, definePaging } from "../paging.ts";
import { presentPagination } from "../../http/pagination.ts";
import { CONTRACT_DEPRECATION_DATE, Name, RemoteUrl, MAX_TEXT_CHARS, Text } from "../../contract/shapes.ts";
import { presentOneByOne } from "../../contract/placeholders.ts";
import { Tags } from "../../contract/tags.ts";
import { parseTagFilters, hasSpaceFilter, archivedActionsDetail } from "../filters.ts";
import { FlowPath, OrgPath, NoQuery } from "../paths.ts";
import { configurationForm } from "../uploads.ts";
import { applyFlow, templateOfNames } from "./apply-flow.ts";

const VISIBILITIES = ["public", "private"] as const;
const FlowName = Name(FLOW_NAME, { description: "Name of the flow, unique in the organization" });
const NewVisibility = Maybe(
  OneOf(VISIBILITIES, { description: "By default a new flow is private, and an existing one stays unchanged" }),
);

/** One less than the entries of a template, because the artifact is one of them. */
const MAX_LEGACY_NAMES = MAX_TEMPLATE_ENTRIES - 1;
const LegacyTemplate = Maybe(
  Type.Array(Name(ATTESTATION_NAME, { minLength: 1 }), {
    maxItems: MAX_LEGACY_NAMES,
    description:
      "Names of the attestations, of any type, that are expected of one artifact called `artifact`; the entry " +
      "`artifact` itself is ignored",
  }),
);

const CreateFlow = named(
  "CreateFlow",
  Open({
    name: FlowName,
    description: Type.Optional(Type.String({ default: "", maxLength: MAX_TEXT_CHARS })),
    visibility: NewVisibility,
    template: LegacyTemplate,
  }),
);

const LegacyCreateFlow = named(
  "LegacyCreateFlow",
  Open({
    name: FlowName,
    description: Text,
    visibility: NewVisibility,
    template: LegacyTemplate,
    repo_url: Maybe(RemoteUrl),
  }),
);

const RenameFlow = named(
  "RenameFlow",
  Closed({ new_name: Name(FLOW_NAME, { description: "The new name, which no other flow may have" }) }),
);

const flowProperties = {
  name: Type.String(),
  description: Type.String(),
  visibility: OneOf(VISIBILITIES),
  org: Type.String(),
  template: Type.String({ description: "YAML text, exactly as uploaded" }),
  repo_url: Nullable(Type.String()),
  tags: Tags,
};

const FlowResponse = named(
  "FlowResponse",
  Closed({ ...flowProperties, last_deployment_at: Nullable(Type.Number({ description: "Epoch seconds" })) }),
);

const FlowListItem = named(
  "FlowListItem",
  Closed({
    ...flowProperties,
    latest_activity_at: Nullable(
      Type.Number({ description: "Epoch seconds of the latest change to one of its trails" }),
    ),
    latest_state: Nullable(Type.String({ description: "State of the most recently changed trail" })),
  }),
);
const FlowListPage = PageOf("FlowListPage", FlowListItem);

const presentFlow = (
  row: FlowRow,
  { org, template, tags }: { org: string; template: string; tags: Record<string, string> },
) => ({
  name: row.name,
  description: row.description,
  visibility: row.visibility,
  org,
  template,
  repo_url: repairRepoUrl(row.repo_url),
  tags,
});

const isTags = isRecordOf(isText);

/** @throws StoredJsonError or Error for a damaged record; ResponseFullError */
function presentListItem(context: LargeReadContext, row: FlowListRow, allowance: Allowance) {
  const { organization } = context;
  if (row.template === null) throw new Error(`template ${row.template_id} is gone`);
  const template = context.answerBounds.isForPage ? "" : wholeTemplate(context, row.template, row.template_id);
  spendText(allowance, template);
  return {
    ...presentFlow(row, { org: organization.name, template, tags: readStoredJson(row.tags_json, isTags) }),
    latest_activity_at: row.latest_activity_at,
    latest_state: row.latest_state,
  };
}

const wholeTemplate = ({ store }: LargeReadContext, listed: string, id: number): string =>
  stubBytes(listed) === null ? listed : store.templates.get(id).content;

const presentPlaceholder = (row: FlowListRow, org: string, reason: string): ReturnType<typeof presentListItem> => ({
  name: row.name,
  description: reason,
  visibility: row.visibility,
  org,
  template: "",
  repo_url: null,
  tags: {},
  latest_activity_at: null,
  latest_state: null,
});

const PAGING = definePaging({ perPage: 20, maxPerPage: 100, optional: true });

export const getFlows = largeRead({
  id: "get_flows",
  method: "GET",
  path: "/flows/{org}",
  tag: "Flows",
  summary: "List flows",
  description:
    "The active flows of the organization: a bare list of all flows, or with `page` or `per_page` one page in an " +
    "envelope.",
  permission: "flow:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    search_by_name: Type.Optional(Type.String({ description: "Part of the name" })),
    case_sensitive: Type.Optional(
      Type.Boolean({ default: true, description: "Whether `search_by_name` is case-sensitive" }),
    ),
    ...PAGING.query,
    space_id: Repeated(Type.String(), {
      description: "Ids of spaces; flows in any of them, or in spaces below, match",
    }),
    tag: Repeated(Type.String(), { description: "`key` or `key:value`; all must match" }),
    sort: Type.Optional(OneOf(["name", "latest_activity"], { default: "name" })),
    sort_direction: Type.Optional(
      OneOf(["asc", "desc"], { description: "By default `asc` for the name and `desc` for the latest activity" }),
    ),
  }),
  body: NO_BODY,
  responses: {
    200: {
      description: "All flows, or one page of them",
      schema: ExactlyOne([FlowListPage, Type.Array(FlowListItem)]),
    },
  },
  example: { params: { org: "acme" }, query: { page: "1", search_by_name: "pay", tag: "team:payments" } },
  handle(context, { query }) {
    const { store, organization } = context;
    const filter = {
      search: query.search_by_name ?? "",
      caseSensitive: query.case_sensitive ?? true,
      tags: parseTagFilters(query.tag),
    };
    const by = query.sort ?? "name";
    const order = { by, direction: query.sort_direction ?? (by === "name" ? "asc" : "desc") } as const;
    // There are no spaces yet and every flow is at the root, so a filter by space matches nothing.
    const isEmpty = hasSpaceFilter(query.space_id);
    const window = PAGING.optionalWindow(query);
    const rows = isEmpty ? [] : store.flows.list(organization.id, filter, { order, window });
    const allowance = listAllowance(context);
    const data = new JsonList(
      presentOneByOne(
        rows,
        (row) => presentListItem(context, row, allowance),
        (row, reason) => presentPlaceholder(row, organization.name, reason),
      ),
    );
    if (!window) return { status: 200, body: data };
    const total = isEmpty ? 0 : store.flows.count(organization.id, filter);
    return { status: 200, body: { data, pagination: presentPagination(total, window.page, window.perPage) } };
  },
});

export const getFlow = largeRead({
  id: "get_flow",
  method: "GET",
  path: "/flows/{org}/{flow_name}",
  tag: "Flows",
  summary: "Read a flow",
  description: "Includes its template, exactly as uploaded. An archived flow is found under its suffixed name only.",
  permission: "flow:read",
  audit: null,
  params: FlowPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "The flow", schema: FlowResponse },
    404: { description: "No such flow, or it has been archived", schema: Message },
  },
  example: { params: { org: "acme", flow_name: "payments" } },
  handle({ store, organization }, { params }) {
    const row = store.flows.require(organization, params.flow_name);
    const { content } = store.templates.get(row.template_id);
    const last_deployment_at = store.deployments.findLatestTimeByFlow(organization.id, row.id);
    const facts = { org: organization.name, template: content, tags: store.flows.getTags(row.id) };
    return { status: 200, body: { ...presentFlow(row, facts), last_deployment_at } };
  },
});

/** The queue of an organization in the document reader, which serves organizations in turn. */
export const documentLane = ({ organization }: ReadingContext): string => `documents of ${organization.id}`;

export const createFlowWithTemplate = operation({
  id: "create_flow_with_template",
  method: "PUT",
  path: "/flows/{org}/template_file",
  tag: "Flows",
  summary: "Create or update a flow",
  description:
    "Creates the flow, or replaces its description and template. Without a file and without a list of names, the " +
    "flow gets the empty template `version: 1`; a file takes precedence over a list. The name of an archived flow " +
    "can be used again.",
  permission: "flow:write",
  audit: "flow.applied",
  params: OrgPath,
  query: NoQuery,
  body: configurationForm({
    component: "CreateFlowForm",
    part: "data_json",
    schema: CreateFlow,
    file: { part: "template_file", description: "The template: YAML in UTF-8, at most 10 MB" },
  }),
  responses: {
    200: { description: "Updated", schema: Ok },
    201: { description: "Created", schema: Ok },
    404: { description: "The name is the suffixed name of an archived flow", schema: Message },
  },
  example: {
    params: { org: "acme" },
    body: { name: "payments", description: "Builds of the payment service", visibility: "private" },
    file:
      "version: 1\ntrail:\n  attestations:\n    - name: pull-request\n      type: pull_request\n  artifacts:\n" +
      "    - name: server\n      attestations:\n        - name: unit-tests\n          type: junit\n",
  },
  // Reading a large template takes a while, so it happens before the transaction.
  prepare: async (context, { body, file }) =>
    file ? context.documents.readTemplate(documentLane(context), file.bytes) : templateOfNames(body.template),
  handle: (context, { body }, template) =>
    applyFlow(context, {
      name: body.name,
      description: body.description ?? "",
      visibility: body.visibility ?? null,
      template,
      repoUrl: undefined,
    }),
});

export const createFlow = operation({
  id: "create_flow",
  method: "PUT",
  path: "/flows/{org}",
  tag: "Flows",
  summary: "Create or update a flow with a list of names as its template",
  description:
    "The former operation, for clients without template files. Use `PUT /flows/{org}/template_file` instead. The " +
    "list is stored as the equivalent template.",
  deprecation: { since: CONTRACT_DEPRECATION_DATE, successor: "/flows/{org}/template_file" },
  permission: "flow:write",
  audit: "flow.applied",
  params: OrgPath,
  query: NoQuery,
  body: json(LegacyCreateFlow),
  responses: {
    200: { description: "Updated", schema: Ok },
    201: { description: "Created", schema: Ok },
    404: { description: "The name is the suffixed name of an archived flow", schema: Message },
  },
  example: {
    params: { org: "acme" },
    body: { name: "payments", description: "Builds of the payment service", template: ["artifact", "unit-tests"] },
  },
  prepare: async (_context, { body }) => templateOfNames(body.template),
  handle: (context, { body }, template) =>
    applyFlow(context, {
      name: body.name,
      description: body.description,
      visibility: body.visibility ?? null,
      template,
      repoUrl: body.repo_url,
    }),
});

export const archiveFlow = operation({
  id: "archive_flow",
  method: "PUT",
  path: "/flows/{org}/{flow_name}/archive",
  tag: "Flows",
  summary: "Archive a flow",
  description:
    "Removes the flow from the lists and renames it to `<name>-archived-at-<epoch seconds>`, under which it stays " +
    "readable with its evidence. Another flow can use its name. Actions drop the flow; actions of this flow alone " +
    "are deleted.",
  permission: "flow:write",
  audit: "flow.archived",
  params: FlowPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "Archived", schema: Ok },
    404: { description: "No such flow, or it is already archived", schema: Message },
  },
  example: { params: { org: "acme", flow_name: "payments" } },
  handle({ store, organization, note }, { params }) {
    const flow = store.flows.requireWritable(organization, params.flow_name);
    const actions = store.actions.removeArchivedPlace("flow", flow.id);
    note({ flow: flow.name, archived_as: store.flows.archive(flow), ...archivedActionsDetail(actions) });
    return { status: 200, body: "OK" };
  },
});

export const renameFlow = operation({
  id: "rename_flow",
  method: "PUT",
  path: "/flows/{org}/{flow_name}/rename",
  tag: "Flows",
  summary: "Rename a flow",
  description: "The old name keeps working until another flow takes it.",
  permission: "flow:write",
  audit: "flow.renamed",
  params: FlowPath,
  query: NoQuery,
  body: json(RenameFlow),
  responses: {
    200: { description: "Renamed", schema: Ok },
    404: { description: "No such flow, or it has been archived", schema: Message },
  },
  example: { params: { org: "acme", flow_name: "payments" }, body: { new_name: "payment-service" } },
  handle({ store, organization, note }, { params, body }) {
    const flow = store.flows.requireWritable(organization, params.flow_name);
    const holder = store.flows.findHolder(organization.id, body.new_name);
    if (holder && holder.id !== flow.id)
      throw invalid({ new_name: `A flow with this name already exists [input: ${body.new_name}]` });
    if (!holder) store.flows.rename(flow, body.new_name);
    note({ from: flow.name, to: body.new_name });
    return { status: 200, body: "OK" };
  },
});
