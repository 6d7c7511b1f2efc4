/** Recording a reported artifact: its shape, its record, the attestations that waited for it, and its verdict. */
import { Type } from "typebox";
import type { Static } from "typebox";
import { NO_COMMIT, shownCommit } from "../../domain/commit.ts";
import { findPendingAttestations } from "../../domain/attestation/binding.ts";
import { ANY_TYPE } from "../../domain/attestation/kinds.ts";
import { MAX_WAITING_ATTESTATIONS, tooManyWaiting } from "../../domain/compliance/trail-size.ts";
import type { Template, TemplateAttestation } from "../../domain/flow-template/template.ts";
import { ATTESTATION_NAME, COMMIT_SHA, REFERENCE_NAME, TRAIL_NAME } from "../../domain/names.ts";
import { badRequest } from "../../errors.ts";
import { Matching, Maybe, Open, WithinBytes, named } from "../../http/schema.ts";
import { toSqlBoolean } from "../../store/db/database.ts";
import type { ArtifactFields } from "../../store/flows/artifacts.ts";
import type { FlowRow } from "../../store/flows/flows.ts";
import type { OperationContext } from "../context.ts";
import {
  ExternalUrls,
  Fingerprint,
  FreeAnnotations,
  GitCommit,
  MAX_LIST_ITEMS,
  MAX_PATH_CHARS,
  MAX_RESULTS_BYTES,
  Name,
  RemoteUrl,
  RepoInfoPostInput,
  Text,
  UserData,
  WebUrl,
  parseRepoInfo,
  presentEventRepoInfo,
  toStoredCommit,
  toStoredJson,
} from "../../contract/shapes.ts";
import { findOrBeginTrail } from "./begin-trail.ts";

const TemplateName = Name(ATTESTATION_NAME);

export const CreateArtifact = named(
  "CreateArtifact",
  Open({
    fingerprint: Fingerprint,
    filename: Type.String({
      minLength: 1,
      maxLength: MAX_PATH_CHARS,
      description: "Name of the file, directory or image",
    }),
    git_commit: Maybe(
      Matching(COMMIT_SHA, {
        maxLength: 40,
        description: "Full commit id, 40 lowercase hex characters; 40 zeros are the same as none",
      }),
    ),
    build_url: WebUrl,
    commit_url: WebUrl,
    trail_name: Maybe(
      Name(TRAIL_NAME, {
        description: "The trail, begun if it does not exist; without one, the artifact belongs to the flow alone",
      }),
    ),
    template_reference_name: Maybe(Name(REFERENCE_NAME, { description: "Name of the artifact in the template" })),
    description: Maybe(Text),
    git_commit_info: Maybe(GitCommit),
    repo_info: Maybe(RepoInfoPostInput),
    repo_url: Maybe(RemoteUrl),
    external_urls: Maybe(ExternalUrls),
    annotations: Maybe(FreeAnnotations),
    user_data: Maybe(UserData),
    commits_list: Maybe(
      WithinBytes(
        MAX_RESULTS_BYTES,
        Type.Array(GitCommit, {
          maxItems: MAX_LIST_ITEMS,
          description: "Commits since the previous artifact, newest first",
        }),
      ),
    ),
    template: Maybe(
      Type.Union([Type.Array(TemplateName, { maxItems: MAX_LIST_ITEMS }), Type.String({ maxLength: MAX_PATH_CHARS })], {
        description: "Without a trail only: names of the expected attestations, as a list or separated by commas",
      }),
    ),
    is_compliant: Maybe(
      Type.Boolean({ description: "Without a trail only: false marks the artifact as non-compliant" }),
    ),
  }),
);
type Report = Static<typeof CreateArtifact>;

/** Names of the attestations that a template expects of an artifact; none for an artifact that it does not name. */
const findExpectedNames = (template: Template, referenceName: string | null): string[] =>
  template.trail.artifacts.find(({ name }) => name === referenceName)?.attestations.map(({ name }) => name) ?? [];

/**
 * The attestations expected of an artifact without a trail (semantics 2.4): the reported list, else the entries of the
 * trail in the flow's template and those of the artifact that the report names. For a report that names none, or one
 * that the template does not have, the entries of all artifacts are expected: omitting the trail or the name never
 * makes an artifact look better than its flow requires. Each name occurs once, with the first type that the template
 * gives it; a name that is not in the template may have any type (semantics 2.1).
 */
function findExpectedWithoutTrail(
  { trail }: Template,
  { template: given, template_reference_name: referenceName }: Report,
): TemplateAttestation[] {
  const namesakes = trail.artifacts.filter(({ name }) => name === referenceName);
  const levels = [trail, ...(namesakes.length > 0 ? namesakes : trail.artifacts)];
  const expected = firstTypes(levels);
  const types = new Map([...firstTypes([trail, ...trail.artifacts]), ...expected]);
  const names = typeof given === "string" ? splitNames(given) : given;
  return [...new Set(names ?? expected.keys())].map((name) => ({ name, type: types.get(name) ?? ANY_TYPE }));
}

/** The first type of each name. */
function firstTypes(levels: readonly { attestations: readonly TemplateAttestation[] }[]): Map<string, string> {
  const types = new Map<string, string>();
  for (const { name, type } of levels.flatMap(({ attestations }) => attestations))
    if (!types.has(name)) types.set(name, type);
  return types;
}

const splitNames = (text: string): string[] =>
  text
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");

/** The commit of a report; null without one. Clients may send back what reads show of an artifact without a commit. */
const commitOf = ({ git_commit: sha }: Pick<Report, "git_commit">): string | null =>
  sha === undefined || sha === NO_COMMIT ? null : sha;

/**
 * The columns of a report.
 * @param template names of the expected attestations
 * @throws AppError 400 for an invalid repository URL
 */
function toFields(
  { store, organization }: OperationContext,
  report: Report,
  template: readonly string[],
): ArtifactFields {
  const repo = parseRepoInfo(report.repo_info);
  return {
    filename: report.filename,
    description: report.description ?? null,
    git_commit: commitOf(report),
    git_commit_info_json: report.git_commit_info ? JSON.stringify(toStoredCommit(report.git_commit_info)) : null,
    commits_list_json: toStoredJson(report.commits_list?.map(toStoredCommit)),
    repo_info_json: toStoredJson(report.repo_info),
    repo_id: repo && store.repos.capture(organization.id, repo),
    repo_url: report.repo_url ?? null,
    build_url: report.build_url,
    commit_url: report.commit_url,
    external_urls_json: toStoredJson(report.external_urls),
    annotations_json: toStoredJson(report.annotations),
    user_data_json: toStoredJson(report.user_data),
    template_json: JSON.stringify(template),
    legacy_is_compliant: null,
  };
}

/** The record that a report is about; a record without a trail is the only one of its fingerprint in the flow. */
type Identity = { flowId: number; trailId: number | null; fingerprint: string; referenceName: string | null };

/**
 * Creates the record or updates it. Actions are notified of a new record and of a new commit.
 * @param at epoch seconds
 * @returns the key of the record, whether it is new, and whether its commit is another one than before
 */
function upsertArtifact(
  { store, organization, principal }: OperationContext,
  identity: Identity,
  { fields, at }: { fields: ArtifactFields; at: number },
): { id: number; isNew: boolean; hasNewCommit: boolean } {
  const existing = store.artifacts.find(identity);
  const author = { organizationId: organization.id, createdBy: principal.displayName };
  if (existing) store.artifacts.update(existing.id, fields, at);
  const id = existing?.id ?? store.artifacts.create({ ...identity, ...author }, fields, at);
  const isNew = existing === null;
  const hasNewCommit = fields.git_commit !== null && fields.git_commit !== existing?.git_commit;
  // A repeated report triggers nothing: clients send a report again when its response was lost.
  if (isNew || hasNewCommit)
    store.triggers.raiseArtifactReported(identity.flowId, { artifactId: id, at, by: principal.displayName });
  return { id, isNew, hasNewCommit };
}

/** Records a report to a trail: the record, the attestations that waited for it, the event, the verdict. */
function recordInTrail(context: OperationContext, flow: FlowRow, report: Report & { trail_name: string }): void {
  const { store, note } = context;
  const trail = findOrBeginTrail(context, flow, { name: report.trail_name });
  const at = context.now();
  const referenceName = report.template_reference_name ?? null;
  const template = findExpectedNames(store.templates.getParsed(trail.template_id), referenceName);
  const fields = toFields(context, report, template);
  const identity = { flowId: flow.id, trailId: trail.id, fingerprint: report.fingerprint, referenceName };
  const { id, isNew, hasNewCommit } = upsertArtifact(context, identity, { fields, at });
  if (fields.repo_id !== null) store.trails.addRepo(trail.id, fields.repo_id);
  // A record whose commit is unchanged has its attestations already.
  const grows = isNew || hasNewCommit ? report.trail_name : null;
  if (grows !== null) bindWaitingAttestations(context, { id: trail.id, name: grows }, { id, report });

  const { public_id } = store.artifacts.get(id);
  const event = {
    artifact_id: public_id,
    artifact_name: report.filename,
    artifact_fingerprint: report.fingerprint,
    template_reference_name: referenceName,
    git_commit: shownCommit(fields.git_commit),
    git_commit_info: report.git_commit_info ? toStoredCommit(report.git_commit_info) : null,
    repo_info: presentEventRepoInfo(report.repo_info),
  };
  store.trails.addEvent(trail.id, { type: "artifact_creation_reported", at, event });
  const { status } = store.trailEvaluation.evaluate(trail.id, at, { grows });
  note({
    artifact_id: public_id,
    artifact_fingerprint: report.fingerprint,
    trail: report.trail_name,
    created: isNew,
    trail_state: status,
  });
}

/** Binds the attestations that were reported to the trail before their artifact. @throws AppError 400 for too many */
function bindWaitingAttestations(
  { store }: OperationContext,
  { id: trailId, name }: { id: number; name: string },
  { id, report }: { id: number; report: Report },
): void {
  const { fingerprint } = report;
  const referenceName = report.template_reference_name ?? null;
  const artifact = { fingerprint, referenceName, gitCommit: commitOf(report) };
  const candidates = store.attestations.listBindingCandidates(trailId, artifact, MAX_WAITING_ATTESTATIONS + 1);
  if (candidates.length > MAX_WAITING_ATTESTATIONS) throw badRequest(tooManyWaiting(name));
  const waiting = new Set(findPendingAttestations(artifact, candidates));
  for (const candidate of candidates)
    if (waiting.has(candidate.attestationId))
      store.attestations.bindToArtifact({ trailId, artifactId: id }, { id: candidate.id, name: candidate.name });
}

/** Records a report without a trail (semantics 2.4). */
function recordInFlow(context: OperationContext, flow: FlowRow, report: Report): void {
  const { store, note } = context;
  const at = context.now();
  const expected = findExpectedWithoutTrail(store.templates.getParsed(flow.template_id), report);
  const isCompliant = report.is_compliant ?? null;
  const template = expected.map(({ name }) => name);
  const fields = { ...toFields(context, report, template), legacy_is_compliant: toSqlBoolean(isCompliant) };
  const referenceName = report.template_reference_name ?? null;
  const identity = { flowId: flow.id, trailId: null, fingerprint: report.fingerprint, referenceName };
  const { id, isNew } = upsertArtifact(context, identity, { fields, at });
  store.artifacts.setReferenceName(id, referenceName);
  const state = store.trailEvaluation.evaluateLegacy(
    { artifactId: id, flowId: flow.id },
    { expected, isCompliant },
    at,
  );
  note({
    artifact_id: store.artifacts.get(id).public_id,
    artifact_fingerprint: report.fingerprint,
    trail: null,
    created: isNew,
    artifact_state: state,
  });
}

/** Records a reported artifact, in its trail or in the flow alone. @throws AppError 400 for an invalid report */
export function recordArtifact(context: OperationContext, flow: FlowRow, report: Report): void {
  const { trail_name } = report;
  if (trail_name === null || trail_name === undefined) recordInFlow(context, flow, report);
  else recordInTrail(context, flow, { ...report, trail_name });
}
