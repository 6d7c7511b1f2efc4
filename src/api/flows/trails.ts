/**
 * Trails. A begin is an upsert with the semantics of a *patch*: what is absent or null keeps its stored value,
 * everything else replaces it, an empty text and `{}` included. The history gets `trail_reported` when the trail comes
 * into being, whether by a begin or by a report that named it first, and `trail_updated` at every begin after that.
 */
import { Type } from "typebox";
import type { Static } from "typebox";
import { TRAIL_NAME, FINGERPRINT_PREFIX, matches } from "../../domain/names.ts";
import { inheritTemplate } from "../../domain/flow-template/inherit.ts";
import { invalid } from "../../errors.ts";
import { NO_BODY, RECORD_BOUNDS } from "../../http/operation.ts";
import { CheckedByHandler, Closed, Maybe, Message, Ok, named } from "../../http/schema.ts";
import { validate } from "../../http/validate.ts";
import type { FlowRow } from "../../store/flows/flows.ts";
import type { TrailFields, TrailFilter, TrailRow } from "../../store/flows/trails.ts";
import { documentLane } from "./flows.ts";
import type { StoredTemplateFile } from "../../workers/documents.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { PageOf, pages, pagination } from "../paging.ts";
import { TrailResponse, presentTrail, presentTrails } from "../../contract/present-trail.ts";
import {
  ExternalUrls,
  GitCommit,
  Name,
  RepoInfoPostInput,
  Text,
  UserData,
  WebUrl,
  presentCommit,
  presentEventRepoInfo,
  repoFacts,
  storedCommit,
  toJson,
} from "../../contract/shapes.ts";
import { FlowPath, OrgPath, NoQuery } from "../paths.ts";

const CreateTrail = named(
  "CreateTrail",
  Closed({
    name: Name(TRAIL_NAME, { description: "Name of the trail, unique in its flow: often a commit id or a release" }),
    description: Maybe(Text),
    git_commit_info: Maybe(GitCommit),
    repo_info: Maybe(RepoInfoPostInput),
    origin_url: Maybe(WebUrl),
    external_urls: Maybe(ExternalUrls),
    user_data: Maybe(UserData),
  }),
);
type Begin = Static<typeof CreateTrail>;

const TrailListPage = PageOf("TrailListPage", TrailResponse);

/** What an event says beside its type: who, with which template, about which commit and repository. */
function eventOf(
  { store, principal }: OperationContext,
  templateId: number,
  report: Pick<Begin, "git_commit_info" | "repo_info"> | null,
) {
  return {
    template_id: store.templates.publicIdOf(templateId),
    setting_user_id: principal.publicId,
    git_commit_info: report?.git_commit_info ? storedCommit(report.git_commit_info) : null,
    repo_info: presentEventRepoInfo(report?.repo_info),
  };
}

const ReportedTrail = Closed({ trail_name: Name(TRAIL_NAME) });
const NOTHING_TOLD = {
  description: null,
  git_commit_info_json: null,
  origin_url: null,
  external_urls_json: null,
  user_data_json: null,
} as const;

/**
 * The trail of that name in a flow, created with the flow's template if a report names it first (semantics 2.3);
 * `description` is for the case that it is. Whoever calls it evaluates the trail in the same write.
 * @throws AppError 400 on `trail_name` for a name that no trail can have.
 */
export function beginImplicitly(
  context: OperationContext,
  flow: FlowRow,
  trailName: string,
  description: string | null = null,
): TrailRow {
  const { store, organization, principal, note } = context;
  const existing = store.trails.find(flow.id, trailName);
  if (existing) return existing;
  const problems = validate(ReportedTrail, { trail_name: trailName }, { mode: "plain", root: "path" });
  if (problems) throw invalid(problems);
  const { templateId } = inheritTemplate({ trail: null, flowTemplateId: flow.template_id, givenTemplateId: null });
  const trail = store.trails.create(
    { organizationId: organization.id, flowId: flow.id, name: trailName, createdBy: principal.displayName },
    { ...NOTHING_TOLD, description, template_id: templateId, template_inherited: 1 },
  );
  store.trails.addEvent(trail.id, "trail_reported", trail.created_at, eventOf(context, templateId, null));
  note({ trail_begun: trailName });
  return trail;
}

/** Fields of `changes` and what they are stored in. */
const CHANGEABLE = [
  ["description", "description"],
  ["git_commit_info", "git_commit_info_json"],
  ["origin_url", "origin_url"],
  ["external_urls", "external_urls_json"],
  ["user_data", "user_data_json"],
] as const satisfies readonly (readonly [keyof Begin, keyof TrailFields])[];

/**
 * Facts in one form, so that `changes` names only what a reader would see change: a description that was never given
 * reads as an empty text, and older records keep null for the optional keys of a commit.
 */
const comparable = <T extends Pick<TrailFields, "description" | "git_commit_info_json">>(fields: T): T => ({
  ...fields,
  description: fields.description ?? "",
  git_commit_info_json: commitText(fields.git_commit_info_json),
});

/** A damaged record stays as it is: it differs from whatever replaces it. */
function commitText(json: string | null): string | null {
  try {
    return toJson(presentCommit(json));
  } catch {
    return json;
  }
}

/** Begins a trail or updates it. @param template the uploaded template, null when none came. */
function begin(
  context: OperationContext,
  flow: FlowRow,
  report: Begin,
  template: StoredTemplateFile | null,
): { status: 200 | 201; body: "OK" } {
  const { store, organization, principal, note } = context;
  const known = store.trails.find(flow.id, report.name);
  // The trails of a flow mostly bring one and the same file: its text is then kept once.
  const likely = known?.template_id ?? store.trails.latestTemplate(flow.id) ?? flow.template_id;
  const { decision, templateId, inherited, changed } = inheritTemplate({
    trail: known && { templateId: known.template_id, inherited: known.template_inherited === 1 },
    flowTemplateId: flow.template_id,
    givenTemplateId: template === null ? null : store.templates.intern(template.text, likely, template.parsedJson).id,
  });
  const stored = known ?? NOTHING_TOLD;
  const fields: TrailFields = {
    description: report.description ?? stored.description,
    git_commit_info_json: report.git_commit_info
      ? JSON.stringify(storedCommit(report.git_commit_info))
      : stored.git_commit_info_json,
    origin_url: report.origin_url ?? stored.origin_url,
    external_urls_json: toJson(report.external_urls) ?? stored.external_urls_json,
    user_data_json: toJson(report.user_data) ?? stored.user_data_json,
    template_id: templateId,
    template_inherited: inherited ? 1 : 0,
  };
  const repo = repoFacts(report.repo_info);
  const repoId = repo && store.repos.capture(organization.id, repo);
  const event = eventOf(context, templateId, report);

  if (!known) {
    const trail = store.trails.create(
      { organizationId: organization.id, flowId: flow.id, name: report.name, createdBy: principal.displayName },
      fields,
    );
    if (repoId !== null) store.trails.addRepo(trail.id, repoId);
    store.trails.addEvent(trail.id, "trail_reported", trail.created_at, event);
    const { status } = store.evaluation.evaluate(trail.id, trail.created_at);
    note({ trail: report.name, created: true, template: decision, trail_state: status });
    return { status: 201, body: "OK" };
  }
  const at = context.now();
  const [before, after] = [comparable(known), comparable(fields)];
  const changes: string[] = CHANGEABLE.filter(([, column]) => after[column] !== before[column]).map(([field]) => field);
  if (repoId !== null && store.trails.addRepo(known.id, repoId)) changes.push("repo_info");
  if (changed) changes.push("template");
  store.trails.update(known.id, fields);
  store.trails.addEvent(known.id, "trail_updated", at, { changes, ...event });
  const { status } = store.evaluation.evaluate(known.id, at);
  note({ trail: report.name, created: false, template: decision, changes, trail_state: status });
  return { status: 200, body: "OK" };
}

export const createTrail = operation({
  id: "create_trail",
  method: "PUT",
  path: "/trails/{org}/{flow_name}",
  tag: "Trails",
  summary: "Begin or update a trail",
  description:
    "Creates the trail, or updates it: a field that is absent or null keeps what is stored. Without a file the trail takes the template of its flow, and takes its current one again at each begin; a file of its own stays until another one comes. Everything in the trail is then evaluated.",
  permission: "trail:write",
  audit: "trail.begun",
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
    200: { description: "Updated: the trail existed, perhaps because a report had named it", schema: Ok },
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
  // A large template takes a while to read: that is done before the transaction, not in it.
  async prepare(context, { params, file }) {
    const { store, organization, documents } = context;
    store.flows.requireWritable(organization, params.flow_name);
    return file ? documents.readTemplate(documentLane(context), file.bytes) : null;
  },
  handle: (context, { params, body }, template) =>
    begin(context, context.store.flows.requireWritable(context.organization, params.flow_name), body, template),
});

export const getTrail = operation({
  id: "get_trail",
  method: "GET",
  path: "/trails/{org}/{flow_name}/{trail_name}",
  tag: "Trails",
  summary: "Read a trail",
  description: "With its template, its history and its verdict, as it was when something was last reported.",
  permission: "trail:read",
  audit: null,
  params: Closed({ ...FlowPath.properties, trail_name: Type.String({ description: "Name of the trail" }) }),
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "The trail", schema: TrailResponse },
    404: { description: "No such flow or trail", schema: Message },
  },
  example: { params: { org: "acme", flow_name: "payments", trail_name: "release-1.4.0" } },
  handle(context, { params }) {
    const { store, organization } = context;
    const flow = store.flows.require(organization, params.flow_name);
    const trail = requireTrail(context, { id: flow.id, name: params.flow_name }, params.trail_name);
    return { status: 200, body: presentTrail(context, store.trails.listed(trail.id)) };
  },
});

/** The trail of that name. `flow.name` is the name that the caller used. @throws AppError 404 (messages 12). */
export const requireTrail = (
  { store, organization }: OperationContext,
  flow: { id: number; name: string },
  trailName: string,
): TrailRow => store.trails.require({ organization: organization.name, flow }, trailName);

const PAGES = pages({ perPage: 20, most: 100 });
const PAGES_IF_ASKED = pages({ perPage: 20, most: 100, onRequest: true });

export const listTrails = operation({
  id: "list_trails",
  method: "GET",
  path: "/trails/{org}/{flow_name}",
  tag: "Trails",
  summary: "List the trails of a flow",
  description: "Newest first: a bare list of all of them, or with `per_page` one page in an envelope.",
  permission: "trail:read",
  audit: null,
  params: FlowPath,
  query: Closed({ ...PAGES_IF_ASKED.query }),
  body: NO_BODY,
  responses: {
    200: {
      description: "All trails, or one page of them",
      schema: Type.Union([TrailListPage, Type.Array(TrailResponse)]),
    },
    404: { description: "No such flow", schema: Message },
  },
  example: { params: { org: "acme", flow_name: "payments" }, query: { page: "1", per_page: "20" } },
  handle(context, { params, query }) {
    const { store, organization } = context;
    const flow = store.flows.require(organization, params.flow_name);
    const filter: TrailFilter = { organizationId: organization.id, flowId: flow.id, flowTag: null, fingerprint: null };
    // `page` alone asks for no envelope (semantics 2.5).
    if (query.per_page === undefined)
      return { status: 200, texts: presentTrails(context, store.trails.list(filter, null, 0)) };
    return onePage(context, filter, PAGES_IF_ASKED.window(query));
  },
});

export const listTrailsForOrg = operation({
  id: "list_trails_for_org",
  method: "GET",
  path: "/trails/{org}",
  tag: "Trails",
  summary: "List the trails of an organization",
  description: "Newest first, in pages. The filters combine; a flow that does not exist gives an empty list.",
  permission: "trail:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    flow: Type.Optional(Type.String({ description: "Name of a flow" })),
    flow_tag: CheckedByHandler(
      { pattern: String.raw`^[^\x00=]*=[^\x00]*$` },
      Type.Optional(Type.String({ description: "`key=value`: trails of the flows with that tag" })),
    ),
    fingerprint: Type.Optional(
      Type.String({ description: "Trails to which this artifact was reported; the first 5 characters or more" }),
    ),
    ...PAGES.query,
  }),
  body: NO_BODY,
  responses: { 200: { description: "One page", schema: TrailListPage } },
  example: {
    params: { org: "acme" },
    query: { flow: "payments", flow_tag: "team=payments", page: "1", per_page: "20" },
  },
  handle(context, { query }) {
    const { store, organization } = context;
    const window = PAGES.window(query);
    const flowTag = query.flow_tag === undefined ? null : tagOf(query.flow_tag);
    // An empty text filters nothing.
    const fingerprint = query.fingerprint || null;
    const flow = query.flow ? store.flows.find(organization.id, query.flow) : null;
    if ((query.flow && !flow) || (fingerprint !== null && !matches(FINGERPRINT_PREFIX, fingerprint)))
      return { status: 200, body: { data: [], pagination: pagination(0, window.page, window.perPage) } };
    return onePage(
      context,
      { organizationId: organization.id, flowId: flow?.id ?? null, flowTag, fingerprint },
      window,
    );
  },
});

/** `key=value`; the value may hold further `=`. @throws AppError 400 on `flow_tag`. */
function tagOf(text: string): { key: string; value: string } {
  const at = text.indexOf("=");
  if (at === -1) throw invalid({ flow_tag: `Input should be a tag as 'key=value' [input: ${text}]` });
  return { key: text.slice(0, at), value: text.slice(at + 1) };
}

/** One page in its envelope. */
function onePage(
  context: OperationContext,
  filter: TrailFilter,
  { limit, offset, page, perPage }: ReturnType<typeof PAGES.window>,
): { status: 200; texts: string[] } {
  const { trails } = context.store;
  const data = presentTrails(context, trails.list(filter, limit, offset));
  return {
    status: 200,
    texts: ['{"data":', ...data, `,"pagination":${JSON.stringify(pagination(trails.count(filter), page, perPage))}}`],
  };
}
