/**
 * Flows. Both forms of PUT are an upsert by name with the semantics of *apply*: description and template are always
 * replaced, by nothing where nothing was sent. Visibility and repo_url have no such rule: what is not sent stays.
 */
import { Type } from "typebox";
import { MAX_INLINE_DOCUMENT_BYTES } from "../../domain/documents.ts";
import { ATTESTATION_NAME, FLOW_NAME } from "../../domain/names.ts";
import { EMPTY_TEMPLATE_TEXT, legacyTemplate, MAX_TEMPLATE_ENTRIES } from "../../domain/flow-template/template.ts";
import { repairRepoUrl } from "../../domain/network/urls.ts";
import { invalid } from "../../errors.ts";
import { NO_BODY, json } from "../../http/operation.ts";
import { Closed, Maybe, Message, Nullable, Ok, OneOf, Repeated, named } from "../../http/schema.ts";
import type { StoredTemplateFile } from "../../workers/documents.ts";
import type { FlowListRow, FlowRow, Visibility } from "../../store/flows/flows.ts";
import { listAllowance, takeText } from "../../contract/large-json.ts";
import type { Allowance } from "../../contract/large-json.ts";
import { stubBytes } from "../../store/db/large-json.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { PageOf, pages, pagination } from "../paging.ts";
import { FIRST_DEPRECATIONS, Name, RemoteUrl, TEXT_LENGTH, Text } from "../../contract/shapes.ts";
import { presentEach } from "../../contract/placeholders.ts";
import { Tags } from "../../contract/tags.ts";
import { tagFilters, isSpaceFilter, archivedWith } from "../filters.ts";
import { FlowPath, OrgPath, NoQuery } from "../paths.ts";
import { configurationForm } from "../uploads.ts";

const VISIBILITIES = ["public", "private"] as const;
const FlowName = Name(FLOW_NAME, { description: "Name of the flow, unique in the organization" });
const NewVisibility = Maybe(
  OneOf(VISIBILITIES, { description: "Not sent: a new flow is private, an existing one stays as it is" }),
);

/** One less than the entries of a template: the artifact is one of them. */
const MAX_LEGACY_NAMES = MAX_TEMPLATE_ENTRIES - 1;
const LegacyTemplate = Maybe(
  Type.Array(Name(ATTESTATION_NAME, { minLength: 1 }), {
    maxItems: MAX_LEGACY_NAMES,
    description:
      "Names of attestations that one artifact called `artifact` is expected to have, of any type; the entry `artifact` itself is left out",
  }),
);

const CreateFlow = named(
  "CreateFlow",
  Closed({
    name: FlowName,
    description: Type.Optional(Type.String({ default: "", maxLength: TEXT_LENGTH })),
    visibility: NewVisibility,
    template: LegacyTemplate,
  }),
);

const LegacyCreateFlow = named(
  "LegacyCreateFlow",
  Closed({
    name: FlowName,
    description: Text,
    visibility: NewVisibility,
    template: LegacyTemplate,
    repo_url: Maybe(RemoteUrl),
  }),
);

const RenameFlow = named(
  "RenameFlow",
  Closed({ new_name: Name(FLOW_NAME, { description: "The new name, held by no other flow" }) }),
);

const flowProperties = {
  name: Type.String(),
  description: Type.String(),
  visibility: OneOf(VISIBILITIES),
  org: Type.String(),
  template: Type.String({ description: "YAML text, exactly as it was uploaded" }),
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
    latest_activity_at: Nullable(Type.Number({ description: "Epoch seconds of the last change of one of its trails" })),
    latest_state: Nullable(Type.String({ description: "State of the trail that changed last" })),
  }),
);
const FlowListPage = PageOf("FlowListPage", FlowListItem);

const presentFlow = (row: FlowRow, org: string, template: string, tags: Record<string, string>) => ({
  name: row.name,
  description: row.description,
  visibility: row.visibility,
  org,
  template,
  repo_url: repairRepoUrl(row.repo_url),
  tags,
});

function presentListed(
  { store }: Pick<OperationContext, "store">,
  row: FlowListRow,
  org: string,
  allowance: Allowance,
) {
  if (row.template === null) throw new Error(`template ${row.template_id} is gone`);
  const template = stubBytes(row.template) === null ? row.template : store.templates.get(row.template_id).content;
  takeText(allowance, template);
  return {
    ...presentFlow(row, org, template, JSON.parse(row.tags_json) as Record<string, string>),
    latest_activity_at: row.latest_activity_at,
    latest_state: row.latest_state,
  };
}

const placeholder = (row: FlowListRow, org: string, mark: string): ReturnType<typeof presentListed> => ({
  name: row.name,
  description: mark,
  visibility: row.visibility,
  org,
  template: "",
  repo_url: null,
  tags: {},
  latest_activity_at: null,
  latest_state: null,
});

const PAGES = pages({ perPage: 20, most: 100, onRequest: true });

export const getFlows = operation({
  id: "get_flows",
  method: "GET",
  path: "/flows/{org}",
  tag: "Flows",
  summary: "List flows",
  description:
    "The active flows of the organization: a bare list of all of them, or with `page` or `per_page` one page in an envelope.",
  permission: "flow:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    search_by_name: Type.Optional(Type.String({ description: "A part of the name" })),
    case_sensitive: Type.Optional(
      Type.Boolean({ default: true, description: "Whether search_by_name tells upper from lower case" }),
    ),
    ...PAGES.query,
    space_id: Repeated(Type.String(), {
      description: "Flows of these spaces and the spaces below them; any may match",
    }),
    tag: Repeated(Type.String(), { description: "`key` or `key:value`; all must match" }),
    sort: Type.Optional(OneOf(["name", "latest_activity"], { default: "name" })),
    sort_direction: Type.Optional(
      OneOf(["asc", "desc"], { description: "Not given: asc by name, desc by latest activity" }),
    ),
  }),
  body: NO_BODY,
  responses: {
    200: {
      description: "All flows, or one page of them",
      schema: Type.Union([FlowListPage, Type.Array(FlowListItem)]),
    },
  },
  example: { params: { org: "acme" }, query: { page: "1", search_by_name: "pay", tag: "team:payments" } },
  handle({ store, organization }, { query }) {
    const filter = {
      search: query.search_by_name ?? "",
      caseSensitive: query.case_sensitive ?? true,
      tags: tagFilters(query.tag),
    };
    const by = query.sort ?? "name";
    const order = { by, direction: query.sort_direction ?? (by === "name" ? "asc" : "desc") } as const;
    // Every flow is at the root as long as there are no spaces, so a filter by space finds nothing.
    const nowhere = isSpaceFilter(query.space_id);
    const window = PAGES.windowIfAsked(query);
    const rows = nowhere ? [] : store.flows.list(organization.id, filter, order, window);
    const allowance = listAllowance();
    const data = presentEach(
      rows,
      (row) => presentListed({ store }, row, organization.name, allowance),
      (row, mark) => placeholder(row, organization.name, mark),
    );
    if (!window) return { status: 200, body: data };
    const total = nowhere ? 0 : store.flows.count(organization.id, filter);
    return { status: 200, body: { data, pagination: pagination(total, window.page, window.perPage) } };
  },
});
export const getFlow = operation({
  id: "get_flow",
  method: "GET",
  path: "/flows/{org}/{flow_name}",
  tag: "Flows",
  summary: "Read a flow",
  description: "With its template, exactly as it was uploaded. An archived flow is found under its suffixed name only.",
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
    const last_deployment_at = store.deployments.latestOfFlow(organization.id, row.id);
    return {
      status: 200,
      body: { ...presentFlow(row, organization.name, content, store.flows.tags(row.id)), last_deployment_at },
    };
  },
});

type FlowInput = {
  name: string;
  description: string;
  /** null: not sent. */
  visibility: Visibility | null;
  template: StoredTemplateFile;
  /** undefined: not sent. */
  repoUrl: string | null | undefined;
};

/**
 * Creates or updates. @throws AppError not_found for the suffixed name of an archived flow, which refuses every write.
 */
function applyFlow(
  { store, organization, note }: OperationContext,
  { name, description, visibility, template, repoUrl }: FlowInput,
): { status: 200 | 201; body: "OK" } {
  const existing = store.flows.holder(organization.id, name) && store.flows.requireWritable(organization, name);
  const fields = {
    description,
    visibility: visibility ?? existing?.visibility ?? "private",
    templateId: store.templates.intern(template.text, existing?.template_id, template.parsedJson).id,
    repoUrl: repoUrl === undefined ? (existing?.repo_url ?? null) : repoUrl,
  };
  if (existing) store.flows.update(existing.id, fields);
  else store.flows.create(organization.id, { name, ...fields });
  note({ flow: name, created: !existing });
  return { status: existing ? 200 : 201, body: "OK" };
}

/**
 * The flow of that name, or that once had it, created with the empty template where there is none: for reports of other
 * products, which nobody prepared a flow for. @throws AppError not_found for the suffixed name of an archived flow.
 */
export function flowFor(context: OperationContext, name: string, description: string): FlowRow {
  const { store, organization } = context;
  if (!store.flows.find(organization.id, name)) {
    applyFlow(context, { name, description, visibility: null, template: EMPTY_TEMPLATE, repoUrl: undefined });
  }
  return store.flows.requireWritable(organization, name);
}

const EMPTY_TEMPLATE: StoredTemplateFile = { text: EMPTY_TEMPLATE_TEXT, parsedJson: null };

/** The lane of an organization among those whose files are read. */
export const documentLane = ({ organization }: OperationContext): string => `documents of ${organization.id}`;

/** The template that a list of names stands for; none: the empty template. */
function listedTemplate(names: readonly string[] | null | undefined): StoredTemplateFile {
  if (names === null || names === undefined) return EMPTY_TEMPLATE;
  const { text, template } = legacyTemplate(names);
  return { text, parsedJson: text.length > MAX_INLINE_DOCUMENT_BYTES ? JSON.stringify(template) : null };
}

export const createFlowWithTemplate = operation({
  id: "create_flow_with_template",
  method: "PUT",
  path: "/flows/{org}/template_file",
  tag: "Flows",
  summary: "Create or update a flow",
  description:
    "Creates the flow, or replaces its description and template. Without a file, and without a list of names in its place, the flow gets the empty template `version: 1`; a file counts more than a list. A name that an archived flow had is free.",
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
    404: { description: "The name is that of an archived flow, suffix included", schema: Message },
  },
  example: {
    params: { org: "acme" },
    body: { name: "payments", description: "Builds of the payment service", visibility: "private" },
    file: "version: 1\ntrail:\n  attestations:\n    - name: pull-request\n      type: pull_request\n  artifacts:\n    - name: server\n      attestations:\n        - name: unit-tests\n          type: junit\n",
  },
  // A large template takes a while to read: that is done before the transaction, not in it.
  prepare: async (context, { body, file }) =>
    file ? context.documents.readTemplate(documentLane(context), file.bytes) : listedTemplate(body.template),
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
  summary: "Create or update a flow with a list as template",
  description:
    "The older form, for clients that know no template files: use `PUT /flows/{org}/template_file`. The list is stored as the template it stands for.",
  deprecation: { since: FIRST_DEPRECATIONS, successor: "/flows/{org}/template_file" },
  permission: "flow:write",
  audit: "flow.applied",
  params: OrgPath,
  query: NoQuery,
  body: json(LegacyCreateFlow),
  responses: {
    200: { description: "Updated", schema: Ok },
    201: { description: "Created", schema: Ok },
    404: { description: "The name is that of an archived flow, suffix included", schema: Message },
  },
  example: {
    params: { org: "acme" },
    body: { name: "payments", description: "Builds of the payment service", template: ["artifact", "unit-tests"] },
  },
  prepare: async (_context, { body }) => listedTemplate(body.template),
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
    "The flow leaves the lists and goes on, read-only, as `<name>-archived-at-<epoch seconds>`; its evidence stays. Its name is free for another flow. Actions go on without it; those that it was the only flow of are deleted.",
  permission: "flow:write",
  audit: "flow.archived",
  params: FlowPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "Archived", schema: Ok },
    404: { description: "No such flow, or it has been archived before", schema: Message },
  },
  example: { params: { org: "acme", flow_name: "payments" } },
  handle({ store, organization, note }, { params }) {
    const flow = store.flows.requireWritable(organization, params.flow_name);
    const actions = store.actions.placeArchived("flow", flow.id);
    note({ flow: flow.name, archived_as: store.flows.archive(flow), ...archivedWith(actions) });
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
    const holder = store.flows.holder(organization.id, body.new_name);
    if (holder && holder.id !== flow.id)
      throw invalid({ new_name: `A flow with this name already exists [input: ${body.new_name}]` });
    if (!holder) store.flows.rename(flow, body.new_name);
    note({ from: flow.name, to: body.new_name });
    return { status: 200, body: "OK" };
  },
});
