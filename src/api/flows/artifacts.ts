/**
 * Artifacts. A report gives one record in its trail for each (fingerprint, reference name): a further report of the
 * same updates it, the history keeps every one. Reports without a trail are those of older clients and belong to the
 * flow alone.
 */
import { Type } from "typebox";
import type { Static } from "typebox";
import { pendingFor } from "../../domain/attestation/binding.ts";
import {
  ATTESTATION_NAME,
  COMMIT_SHA,
  FINGERPRINT_PREFIX,
  PUBLIC_ID,
  REFERENCE_NAME,
  TRAIL_NAME,
  matches,
} from "../../domain/names.ts";
import { ANY_TYPE } from "../../domain/attestation/kinds.ts";
import type { Template, TemplateAttestation } from "../../domain/flow-template/template.ts";
import { notFound } from "../../errors.ts";
import { NO_BODY, RECORD_BOUNDS, json } from "../../http/operation.ts";
import { Closed, Matching, Maybe, Message, Nullable, Ok, WithinBytes, named } from "../../http/schema.ts";
import type { ArtifactFields, PlacedArtifactRow } from "../../store/flows/artifacts.ts";
import { toSqlBoolean } from "../../store/db/database.ts";
import type { FlowRow } from "../../store/flows/flows.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { pages } from "../paging.ts";
import {
  ArtifactListItemResponse,
  ArtifactResponse,
  presentArtifact,
  presentArtifactItems,
  presentArtifacts,
} from "../../contract/present-artifact.ts";
import {
  Annotations,
  ExternalUrls,
  FIRST_DEPRECATIONS,
  Fingerprint,
  GitCommit,
  LIST_LENGTH,
  MAX_RESULTS_BYTES,
  Name,
  PATH_LENGTH,
  RemoteUrl,
  RepoInfoPostInput,
  Text,
  UserData,
  WebUrl,
  presentEventRepoInfo,
  repoFacts,
  storedCommit,
  toJson,
} from "../../contract/shapes.ts";
import { beginImplicitly, requireTrail } from "./trails.ts";
import { FlowPath, OrgPath, NoQuery } from "../paths.ts";

const TemplateName = Name(ATTESTATION_NAME);

const CreateArtifact = named(
  "CreateArtifact",
  Closed({
    fingerprint: Fingerprint,
    filename: Type.String({
      minLength: 1,
      maxLength: PATH_LENGTH,
      description: "Name of the file, directory or image",
    }),
    git_commit: Matching(COMMIT_SHA, { maxLength: 40, description: "Full commit id, 40 lower-case hex characters" }),
    build_url: WebUrl,
    commit_url: WebUrl,
    trail_name: Maybe(
      Name(TRAIL_NAME, {
        description: "The trail, begun if it does not exist; absent or null: the artifact belongs to the flow alone",
      }),
    ),
    template_reference_name: Maybe(
      Name(REFERENCE_NAME, { description: "The artifact of the template that this one is" }),
    ),
    description: Maybe(Text),
    git_commit_info: Maybe(GitCommit),
    repo_info: Maybe(RepoInfoPostInput),
    repo_url: Maybe(RemoteUrl),
    external_urls: Maybe(ExternalUrls),
    annotations: Maybe(Annotations),
    user_data: Maybe(UserData),
    commits_list: Maybe(
      WithinBytes(
        MAX_RESULTS_BYTES,
        Type.Array(GitCommit, {
          maxItems: LIST_LENGTH,
          description: "Commits since the previous artifact, newest first",
        }),
      ),
    ),
    template: Maybe(
      Type.Union([Type.Array(TemplateName, { maxItems: LIST_LENGTH }), Type.String({ maxLength: PATH_LENGTH })], {
        description:
          "Without a trail only: names of the attestations that the artifact should have, as a list or separated by commas",
      }),
    ),
    is_compliant: Maybe(
      Type.Boolean({ description: "Without a trail only: false marks the artifact as not compliant" }),
    ),
  }),
);
type Report = Static<typeof CreateArtifact>;

/** What a template expects of the artifact with that name; nothing of one that it does not know. */
const expectedOf = (template: Template, referenceName: string | null): string[] =>
  template.trail.artifacts.find(({ name }) => name === referenceName)?.attestations.map(({ name }) => name) ?? [];

/**
 * What is expected of an artifact without trail and reference name: the list that was sent, else every name in the
 * flow's template, so that leaving out the trail never makes an artifact look better than its flow asks for. Each
 * name once, with the type that the flow's template gives it first; a name that is not in there may be of any type
 * (semantics 2.1).
 */
function expectedWithoutTrail({ trail }: Template, given: Report["template"]): TemplateAttestation[] {
  const types = new Map<string, string>();
  for (const { name, type } of [trail, ...trail.artifacts].flatMap(({ attestations }) => attestations))
    if (!types.has(name)) types.set(name, type);
  const words = typeof given === "string" ? given.split(",").map((name) => name.trim()) : given;
  const list = typeof given === "string" ? words?.filter((name) => name !== "") : words;
  return [...new Set(list ?? types.keys())].map((name) => ({ name, type: types.get(name) ?? ANY_TYPE }));
}

/** What is stored of a report. @throws AppError 400 for a repository whose URL is none. */
function fieldsOf(
  { store, organization }: OperationContext,
  report: Report,
  template: readonly string[],
): ArtifactFields {
  const repo = repoFacts(report.repo_info);
  return {
    filename: report.filename,
    description: report.description ?? null,
    git_commit: report.git_commit,
    git_commit_info_json: report.git_commit_info ? JSON.stringify(storedCommit(report.git_commit_info)) : null,
    commits_list_json: toJson(report.commits_list?.map(storedCommit)),
    repo_info_json: toJson(report.repo_info),
    repo_id: repo && store.repos.capture(organization.id, repo),
    repo_url: report.repo_url ?? null,
    build_url: report.build_url,
    commit_url: report.commit_url,
    external_urls_json: toJson(report.external_urls),
    annotations_json: toJson(report.annotations),
    user_data_json: toJson(report.user_data),
    template_json: JSON.stringify(template),
    legacy_is_compliant: null,
  };
}

/**
 * Creates the record of that identity or updates it; actions are told of a new one, and of a new commit. @returns its
 * key, and the commit that it had before, null for a new one.
 */
function put(
  { store, organization, principal }: OperationContext,
  flow: FlowRow,
  trailId: number | null,
  report: Report,
  fields: ArtifactFields,
  at: number,
) {
  const identity = {
    flowId: flow.id,
    trailId,
    fingerprint: report.fingerprint,
    // A record without a trail is the only one of its fingerprint in the flow.
    referenceName: trailId === null ? null : (report.template_reference_name ?? null),
  };
  const known = store.artifacts.find(identity);
  if (known) store.artifacts.update(known.id, fields, at);
  const id =
    known?.id ??
    store.artifacts.create(
      { ...identity, organizationId: organization.id, createdBy: principal.displayName },
      fields,
      at,
    );
  const previousCommit = known?.git_commit ?? null;
  // Not for the same once more: clients send a report again when its answer was lost.
  if (previousCommit !== report.git_commit) store.triggers.artifactReported(flow.id, id, at, principal.displayName);
  return { id, previousCommit };
}

/** A report to a trail: the record, what had been attested before it came, the event, the verdict. */
function reportToTrail(context: OperationContext, flow: FlowRow, trailName: string, report: Report): void {
  const { store, note } = context;
  const trail = beginImplicitly(context, flow, trailName);
  const at = context.now();
  const referenceName = report.template_reference_name ?? null;
  const fields = fieldsOf(context, report, expectedOf(store.templates.parsed(trail.template_id), referenceName));
  const { id, previousCommit } = put(context, flow, trail.id, report, fields, at);
  if (fields.repo_id !== null) store.trails.addRepo(trail.id, fields.repo_id);

  // A record with the same commit as before has everything already.
  if (previousCommit !== report.git_commit) {
    const artifact = { fingerprint: report.fingerprint, referenceName, gitCommit: report.git_commit };
    const candidates = store.attestations.candidatesFor(trail.id, artifact);
    const received = new Set(pendingFor(artifact, candidates));
    for (const candidate of candidates)
      if (received.has(candidate.attestationId))
        store.attestations.bindToArtifact(trail.id, id, candidate.id, candidate.name);
  }

  const { public_id } = store.artifacts.get(id);
  store.trails.addEvent(trail.id, "artifact_creation_reported", at, {
    artifact_id: public_id,
    artifact_name: report.filename,
    artifact_fingerprint: report.fingerprint,
    template_reference_name: referenceName,
    git_commit: report.git_commit,
    git_commit_info: report.git_commit_info ? storedCommit(report.git_commit_info) : null,
    repo_info: presentEventRepoInfo(report.repo_info),
  });
  const { status } = store.evaluation.evaluate(trail.id, at);
  note({
    artifact_id: public_id,
    artifact_fingerprint: report.fingerprint,
    trail: trailName,
    created: previousCommit === null,
    trail_state: status,
  });
}

/** A report without a trail (semantics 2.4). */
function reportToFlow(context: OperationContext, flow: FlowRow, report: Report): void {
  const { store, note } = context;
  const at = context.now();
  const expected = expectedWithoutTrail(store.templates.parsed(flow.template_id), report.template);
  const isCompliant = report.is_compliant ?? null;
  const template = expected.map(({ name }) => name);
  const fields = { ...fieldsOf(context, report, template), legacy_is_compliant: toSqlBoolean(isCompliant) };
  const { id, previousCommit } = put(context, flow, null, report, fields, at);
  const state = store.evaluation.evaluateLegacy(id, flow.id, { expected, isCompliant }, at);
  note({
    artifact_id: store.artifacts.get(id).public_id,
    artifact_fingerprint: report.fingerprint,
    trail: null,
    created: previousCommit === null,
    artifact_state: state,
  });
}

const EXAMPLE_FINGERPRINT = "7b1f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccd";
const EXAMPLE_COMMIT = "0f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112";

export const createArtifact = operation({
  id: "create_artifact",
  method: "POST",
  path: "/artifacts/{org}/{flow_name}",
  tag: "Artifacts",
  summary: "Report an artifact",
  description:
    "Into a trail, which is begun if it does not exist. The same fingerprint may be reported again, also under another name of the template. Attestations that waited for an artifact of this name and commit now belong to it.",
  permission: "artifact:write",
  audit: "artifact.reported",
  params: FlowPath,
  query: NoQuery,
  body: json(CreateArtifact, RECORD_BOUNDS),
  responses: {
    201: { description: "Recorded", schema: Ok },
    404: { description: "No such flow, or it has been archived", schema: Message },
  },
  example: {
    params: { org: "acme", flow_name: "payments" },
    body: {
      fingerprint: EXAMPLE_FINGERPRINT,
      filename: "payments:1.4.0",
      git_commit: EXAMPLE_COMMIT,
      build_url: "https://ci.example.com/payments/17",
      commit_url: `https://git.example.com/payments/commit/${EXAMPLE_COMMIT}`,
      repo_url: "https://git.example.com/payments",
      repo_info: {
        id: "4711",
        name: "acme/payments",
        url: "https://git.example.com/acme/payments",
        provider: "github",
      },
      trail_name: "release-1.4.0",
      template_reference_name: "server",
    },
  },
  handle(context, { params, body }) {
    const flow = context.store.flows.requireWritable(context.organization, params.flow_name);
    const trailName = body.trail_name ?? null;
    if (trailName === null) reportToFlow(context, flow, body);
    else reportToTrail(context, flow, trailName, body);
    return { status: 201, body: "OK" };
  },
});

const TrailFilter = Type.Optional(Type.String({ description: "Only what was reported to this trail" }));

/**
 * The key of the trail that a query names; an empty text names none. @throws AppError 404 for an unknown one (messages
 * 12).
 */
const trailIdOf = (
  context: OperationContext,
  flow: { id: number; name: string },
  trail: string | undefined,
): number | null => (trail ? requireTrail(context, flow, trail).id : null);

/** The latest record that matches all that was asked for, null when none does. */
function chosenRecord(
  { store }: OperationContext,
  flowId: number,
  fingerprint: string,
  asked: { trailId: number | null; artifact_id?: string; attestation_id?: string },
): PlacedArtifactRow | null {
  const { trailId, artifact_id: id, attestation_id: attestation } = asked;
  if (id === undefined && attestation === undefined) return store.artifacts.latest(flowId, fingerprint, trailId);
  if (id === undefined) return store.artifacts.latestBound(flowId, fingerprint, trailId, attestation as string);
  const row = store.artifacts.byPublicId(flowId, fingerprint, id);
  if (row === null || (trailId !== null && row.trail_id !== trailId)) return null;
  return attestation === undefined || store.artifacts.isBound(row.id, attestation) ? row : null;
}

export const getArtifactByFingerprint = operation({
  id: "get_artifact_by_fingerprint",
  method: "GET",
  path: "/artifacts/{org}/{flow_name}/fingerprint/{fingerprint}",
  tag: "Artifacts",
  summary: "Read an artifact by fingerprint",
  description:
    "The newest record in the flow. `trail`, `artifact_id` and `attestation_id` choose among several: the trail " +
    "it was reported to, its own id, an attestation that belongs to it. Given together, all of them must match.",
  permission: "artifact:read",
  audit: null,
  cacheable: true,
  params: Closed({
    ...FlowPath.properties,
    fingerprint: Matching(FINGERPRINT_PREFIX, { description: "The fingerprint or at least its first 5 characters" }),
  }),
  query: Closed({
    trail: TrailFilter,
    artifact_id: Type.Optional(Matching(PUBLIC_ID, { description: "Id of the record" })),
    attestation_id: Type.Optional(Matching(PUBLIC_ID, { description: "Id of an attestation of the artifact" })),
  }),
  body: NO_BODY,
  responses: {
    200: { description: "The artifact", schema: ArtifactResponse },
    404: { description: "No such flow, trail or artifact, or several with that beginning", schema: Message },
  },
  example: { params: { org: "acme", flow_name: "payments", fingerprint: EXAMPLE_FINGERPRINT } },
  handle(context, { params, query }) {
    const { store, organization } = context;
    const flow = store.flows.require(organization, params.flow_name);
    const trailId = trailIdOf(context, { id: flow.id, name: params.flow_name }, query.trail);
    const fingerprint = store.artifacts.resolve(flow.id, params.fingerprint);
    const row = fingerprint === null ? null : chosenRecord(context, flow.id, fingerprint, { ...query, trailId });
    if (!row) throw store.artifacts.missing(params.fingerprint, params.flow_name, organization.name);
    return { status: 200, body: presentArtifact(context, row) };
  },
});

/** Below this a prefix says nothing (semantics 8.2). */
const COMMIT_PREFIX = "^[a-f0-9]{5,40}$";

export const getArtifactByCommit = operation({
  id: "get_artifact_by_commit_sha",
  method: "GET",
  path: "/artifacts/{org}/{flow_name}/commit_sha/{commit_sha}",
  tag: "Artifacts",
  summary: "Read the artifacts of a commit",
  description: "Every record in the flow that was built from the commit, newest first.",
  permission: "artifact:read",
  audit: null,
  params: Closed({
    ...FlowPath.properties,
    commit_sha: Type.String({ description: "The commit id or at least its first 5 characters" }),
  }),
  query: Closed({ trail: TrailFilter }),
  body: NO_BODY,
  responses: {
    200: { description: "The artifacts", schema: Type.Array(ArtifactResponse) },
    404: { description: "No such flow or trail, or no artifact of one such commit", schema: Message },
  },
  example: { params: { org: "acme", flow_name: "payments", commit_sha: EXAMPLE_COMMIT } },
  handle(context, { params, query }) {
    const { store, organization } = context;
    const flow = store.flows.require(organization, params.flow_name);
    const trailId = trailIdOf(context, { id: flow.id, name: params.flow_name }, query.trail);
    const rows = matches(COMMIT_PREFIX, params.commit_sha)
      ? store.artifacts.ofCommit(flow.id, params.commit_sha, trailId)
      : [];
    if (rows.length === 0)
      throw notFound(
        `Artifact with git commit '${params.commit_sha}' does not exist in flow '${params.flow_name}' belonging to organization '${organization.name}'`,
      );
    return { status: 200, body: presentArtifacts(context, rows) };
  },
});

const LatestCommitResponse = named("LatestCommitResponse", Closed({ latest_commit: Nullable(Type.String()) }));

export const getLatestArtifactCommit = operation({
  id: "get_latest_artifact_commit",
  method: "GET",
  path: "/artifacts/{org}/{flow_name}/{fingerprint}/latest_commit",
  tag: "Artifacts",
  summary: "Read the latest commit of an artifact",
  description:
    "The commit of the newest record with the fingerprint, null when there is none. With `branch`, of the newest record that names that branch in its commit or its list of commits.",
  permission: "artifact:read",
  audit: null,
  params: Closed({
    ...FlowPath.properties,
    fingerprint: Matching(FINGERPRINT_PREFIX, { description: "The fingerprint or at least its first 5 characters" }),
  }),
  query: Closed({ branch: Type.Optional(Type.String({ description: "Short name of the branch" })) }),
  body: NO_BODY,
  responses: {
    200: { description: "The commit", schema: LatestCommitResponse },
    404: { description: "No such flow", schema: Message },
  },
  example: {
    params: { org: "acme", flow_name: "payments", fingerprint: EXAMPLE_FINGERPRINT },
    query: { branch: "main" },
  },
  handle({ store, organization }, { params, query }) {
    const flow = store.flows.require(organization, params.flow_name);
    const fingerprint = store.artifacts.resolve(flow.id, params.fingerprint);
    const commit =
      fingerprint === null ? null : store.artifacts.latestCommit(flow.id, fingerprint, query.branch || null);
    return { status: 200, body: { latest_commit: commit } };
  },
});

const PAGES = pages({ perPage: 15, most: null });
const Listed = Type.Array(ArtifactListItemResponse);

export const listArtifacts = operation({
  id: "list_artifacts",
  method: "GET",
  path: "/artifacts/{org}",
  tag: "Artifacts",
  summary: "List artifacts",
  description:
    "Newest first, in pages: those of the organization, of one flow or of one repository. With both filters the flow counts.",
  permission: "artifact:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    flow_name: Type.Optional(Type.String({ description: "Name of a flow" })),
    repo_name: Type.Optional(Type.String({ description: "Name of a repository" })),
    ...PAGES.query,
  }),
  body: NO_BODY,
  responses: {
    200: { description: "One page", schema: Listed },
    404: { description: "No such flow or repository", schema: Message },
  },
  example: { params: { org: "acme" }, query: { flow_name: "payments", page: "1", per_page: "15" } },
  handle(context, { query }) {
    const { store, organization } = context;
    const { limit, offset } = PAGES.window(query);
    if (query.flow_name) {
      const flow = store.flows.require(organization, query.flow_name);
      return { status: 200, body: presentArtifactItems(context, store.artifacts.listFlow(flow.id, limit, offset)) };
    }
    if (query.repo_name) {
      const repos = store.repos.requireNamed(organization, query.repo_name);
      const rows = store.artifacts.listRepos(
        repos.map(({ id }) => id),
        limit,
        offset,
      );
      return { status: 200, body: presentArtifactItems(context, rows) };
    }
    return {
      status: 200,
      body: presentArtifactItems(context, store.artifacts.listOrganization(organization.id, limit, offset)),
    };
  },
});

export const listArtifactsDeprecated = operation({
  id: "list_artifacts_deprecated",
  method: "GET",
  path: "/artifacts/{org}/{flow_name}",
  tag: "Artifacts",
  summary: "List the artifacts of a flow",
  description: "Newest first, in pages. Use `GET /artifacts/{org}` with `flow_name`.",
  deprecation: { since: FIRST_DEPRECATIONS, successor: "/artifacts/{org}?flow_name={flow_name}" },
  permission: "artifact:read",
  audit: null,
  params: FlowPath,
  query: Closed({ ...PAGES.query }),
  body: NO_BODY,
  responses: {
    200: { description: "One page", schema: Listed },
    404: { description: "No such flow", schema: Message },
  },
  example: { params: { org: "acme", flow_name: "payments" }, query: { page: "1", per_page: "15" } },
  handle(context, { params, query }) {
    const { store, organization } = context;
    const { limit, offset } = PAGES.window(query);
    const flow = store.flows.require(organization, params.flow_name);
    return { status: 200, body: presentArtifactItems(context, store.artifacts.listFlow(flow.id, limit, offset)) };
  },
});
