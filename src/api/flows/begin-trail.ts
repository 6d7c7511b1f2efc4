/**
 * Beginning and updating a trail: an upsert with the semantics of a *patch*. Absent or null fields keep their stored
 * value, all others replace it, including an empty text and `{}`. The history gets `trail_reported` when the trail is
 * created, by a begin or by the first report that names it, and `trail_updated` at every further begin.
 */
import type { Static } from "typebox";
import { TRAIL_NAME } from "../../domain/names.ts";
import { inheritTemplate } from "../../domain/flow-template/inherit.ts";
import type { Inheritance } from "../../domain/flow-template/inherit.ts";
import { invalid } from "../../errors.ts";
import { Closed, Maybe, Open, named } from "../../http/schema.ts";
import { validate } from "../../http/validate.ts";
import type { FlowRow } from "../../store/flows/flows.ts";
import type { TrailFields, TrailRow } from "../../store/flows/trails.ts";
import type { StoredTemplateFile } from "../../workers/documents.ts";
import type { OperationContext } from "../context.ts";
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
  parseRepoInfo,
  toStoredCommit,
  toStoredJson,
} from "../../contract/shapes.ts";

export const CreateTrail = named(
  "CreateTrail",
  Open({
    name: Name(TRAIL_NAME, { description: "Name of the trail, unique in its flow; often a commit id or a release" }),
    description: Maybe(Text),
    git_commit_info: Maybe(GitCommit),
    repo_info: Maybe(RepoInfoPostInput),
    origin_url: Maybe(WebUrl),
    external_urls: Maybe(ExternalUrls),
    user_data: Maybe(UserData),
  }),
);
type TrailReport = Static<typeof CreateTrail>;

/** The members of an event besides its type: user, template, commit and repository. */
function eventDetail(
  { store, principal }: OperationContext,
  templateId: number,
  report: Pick<TrailReport, "git_commit_info" | "repo_info"> | null,
) {
  return {
    template_id: store.templates.getPublicId(templateId),
    setting_user_id: principal.publicId,
    git_commit_info: report?.git_commit_info ? toStoredCommit(report.git_commit_info) : null,
    repo_info: presentEventRepoInfo(report?.repo_info),
  };
}

const ReportedTrail = Closed({ trail_name: Name(TRAIL_NAME) });
const NO_FIELDS = {
  description: null,
  git_commit_info_json: null,
  origin_url: null,
  external_urls_json: null,
  user_data_json: null,
} as const;

/**
 * The trail of that name in a flow, created with the flow's template if a report names it first (semantics 2.3). The
 * caller must evaluate the trail in the same write.
 * @param description of a trail that is created
 * @throws AppError 400 on `trail_name` for an invalid name
 */
export function findOrBeginTrail(
  context: OperationContext,
  flow: FlowRow,
  { name, description = null }: { name: string; description?: string | null },
): TrailRow {
  const { store, organization, principal, note } = context;
  const existing = store.trails.find(flow.id, name);
  if (existing) return existing;
  const problems = validate(ReportedTrail, { trail_name: name }, { mode: "plain", root: "path" });
  if (problems) throw invalid(problems);
  const { templateId } = inheritTemplate({ trail: null, flowTemplateId: flow.template_id, ownTemplateId: null });
  const trail = store.trails.create(
    { organizationId: organization.id, flowId: flow.id, name, createdBy: principal.displayName },
    { ...NO_FIELDS, description, template_id: templateId, template_inherited: 1 },
  );
  store.trails.addEvent(trail.id, {
    type: "trail_reported",
    at: trail.created_at,
    event: eventDetail(context, templateId, null),
  });
  note({ trail_begun: name });
  return trail;
}

/** The fields that `changes` can name, and their columns. */
const CHANGEABLE_FIELDS = [
  ["description", "description"],
  ["git_commit_info", "git_commit_info_json"],
  ["origin_url", "origin_url"],
  ["external_urls", "external_urls_json"],
  ["user_data", "user_data_json"],
] as const satisfies readonly (readonly [keyof TrailReport, keyof TrailFields])[];

/**
 * Normalizes fields, so that `changes` names only visible changes: a missing description is shown as an empty text, and
 * older records hold null for the optional keys of a commit.
 */
const normalizeFields = <T extends Pick<TrailFields, "description" | "git_commit_info_json">>(fields: T): T => ({
  ...fields,
  description: fields.description ?? "",
  git_commit_info_json: normalizeCommit(fields.git_commit_info_json),
});

/** A damaged value stays as it is: it differs from any replacement. */
function normalizeCommit(json: string | null): string | null {
  try {
    return toStoredJson(presentCommit(json));
  } catch {
    return json;
  }
}

/** Begins or updates a trail. @param template the uploaded template, null without one */
export function beginOrUpdateTrail(
  context: OperationContext,
  flow: FlowRow,
  { report, template }: { report: TrailReport; template: StoredTemplateFile | null },
): { status: 200 | 201; body: "OK" } {
  const { store } = context;
  const existing = store.trails.find(flow.id, report.name);
  // The trails of a flow usually upload the same file, whose text is then stored once.
  const likely = existing?.template_id ?? store.trails.findLatestTemplateId(flow.id) ?? flow.template_id;
  const inheritance = inheritTemplate({
    trail: existing && { templateId: existing.template_id, inherited: existing.template_inherited === 1 },
    flowTemplateId: flow.template_id,
    ownTemplateId: template === null ? null : store.templates.intern(template.text, likely, template.parsedJson).id,
  });
  if (existing) {
    updateTrail(context, existing, { report, inheritance });
    return { status: 200, body: "OK" };
  }
  createNewTrail(context, flow, { report, inheritance });
  return { status: 201, body: "OK" };
}

type Begin = { report: TrailReport; inheritance: Inheritance };

function createNewTrail(context: OperationContext, flow: FlowRow, { report, inheritance }: Begin): void {
  const { store, organization, principal, note } = context;
  const fields = mergeFields(NO_FIELDS, report, inheritance);
  const repoId = captureRepo(context, report);
  const trail = store.trails.create(
    { organizationId: organization.id, flowId: flow.id, name: report.name, createdBy: principal.displayName },
    fields,
  );
  if (repoId !== null) store.trails.addRepo(trail.id, repoId);
  const event = eventDetail(context, inheritance.templateId, report);
  store.trails.addEvent(trail.id, { type: "trail_reported", at: trail.created_at, event });
  const { status } = store.trailEvaluation.evaluate(trail.id, trail.created_at);
  note({ trail: report.name, created: true, template: inheritance.outcome, trail_state: status });
}

function updateTrail(context: OperationContext, existing: TrailRow, { report, inheritance }: Begin): void {
  const { store, note } = context;
  const fields = mergeFields(existing, report, inheritance);
  const repoId = captureRepo(context, report);
  const at = context.now();
  const [before, after] = [normalizeFields(existing), normalizeFields(fields)];
  const changes: string[] = CHANGEABLE_FIELDS.filter(([, column]) => after[column] !== before[column]).map(
    ([field]) => field,
  );
  if (repoId !== null && store.trails.addRepo(existing.id, repoId)) changes.push("repo_info");
  if (inheritance.changed) changes.push("template");
  store.trails.update(existing.id, fields);
  const event = eventDetail(context, inheritance.templateId, report);
  store.trails.addEvent(existing.id, { type: "trail_updated", at, event: { changes, ...event } });
  const grows = inheritance.changed ? report.name : null;
  const { status } = store.trailEvaluation.evaluate(existing.id, at, { grows });
  note({ trail: report.name, created: false, template: inheritance.outcome, changes, trail_state: status });
}

/** The key of the repository that the report names, null without one. @throws AppError 400 for an invalid URL */
function captureRepo({ store, organization }: OperationContext, report: TrailReport): number | null {
  const repo = parseRepoInfo(report.repo_info);
  return repo && store.repos.capture(organization.id, repo);
}

/** The columns of a trail after a report: absent and null fields keep their stored value. */
function mergeFields(
  stored: Omit<TrailFields, "template_id" | "template_inherited">,
  report: TrailReport,
  { templateId, inherited }: Inheritance,
): TrailFields {
  return {
    description: report.description ?? stored.description,
    git_commit_info_json: report.git_commit_info
      ? JSON.stringify(toStoredCommit(report.git_commit_info))
      : stored.git_commit_info_json,
    origin_url: report.origin_url ?? stored.origin_url,
    external_urls_json: toStoredJson(report.external_urls) ?? stored.external_urls_json,
    user_data_json: toStoredJson(report.user_data) ?? stored.user_data_json,
    template_id: templateId,
    template_inherited: inherited ? 1 : 0,
  };
}
