/**
 * Artifacts: reports and reads. A trail has one record for each (fingerprint, reference name): a repeated report
 * updates it, and the history keeps every report. Reports without a trail come from older clients and belong to the
 * flow alone.
 */
import { Type } from "typebox";
import { FINGERPRINT_PREFIX, PUBLIC_ID, matches } from "../../domain/names.ts";
import type { State } from "../../domain/compliance/artifact.ts";
import { notFound } from "../../errors.ts";
import { NO_BODY, RECORD_BOUNDS, json } from "../../http/operation.ts";
import { Closed, ExactlyOne, Matching, Message, Nullable, Ok, OneOf, Pagination, named } from "../../http/schema.ts";
import type { ArtifactFilter } from "../../store/flows/artifact-lists.ts";
import type { PlacedArtifactRow } from "../../store/flows/artifacts.ts";
import { JsonList } from "../../json/text.ts";
import { largeRead, operation } from "../context.ts";
import type { LargeReadContext } from "../context.ts";
import { definePaging, ENVELOPE, StateCounts, totalIn } from "../paging.ts";
import { presentPagination } from "../../http/pagination.ts";
import { CausesQuery } from "../../contract/causes.ts";
import {
  ArtifactListItemResponse,
  ArtifactResponse,
  presentArtifact,
  presentArtifactItems,
  presentArtifacts,
} from "../../contract/present-artifact.ts";
import { CONTRACT_DEPRECATION_DATE } from "../../contract/shapes.ts";
import { CreateArtifact, recordArtifact } from "./report-artifact.ts";
import { requireTrail } from "./trails.ts";
import { FlowPath, OrgPath, NoQuery } from "../paths.ts";

const EXAMPLE_FINGERPRINT = "7b1f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccd";
const EXAMPLE_COMMIT = "0f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112";

export const createArtifact = operation({
  id: "create_artifact",
  method: "POST",
  path: "/artifacts/{org}/{flow_name}",
  tag: "Artifacts",
  summary: "Report an artifact",
  description:
    "Records the artifact in a trail, which is begun if it does not exist. The same fingerprint may be reported " +
    "again, also under another name of the template. Pending attestations for an artifact of this name and commit " +
    "are bound to it. An artifact without a commit has none of these, and reads show its `git_commit` as 40 zeros.",
  permission: "artifact:write",
  audit: "artifact.reported",
  isRepeatable: true,
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
    recordArtifact(context, flow, body);
    return { status: 201, body: "OK" };
  },
});

const TrailFilter = Type.Optional(Type.String({ description: "Name of a trail: only artifacts reported to it" }));

const FingerprintPath = Closed({
  ...FlowPath.properties,
  fingerprint: Matching(FINGERPRINT_PREFIX, { description: "The fingerprint, or at least its first 5 characters" }),
});

/**
 * The key of the trail in a query; an empty text is no filter. @throws AppError 404 for an unknown one (messages 12)
 */
const requireTrailId = (
  context: LargeReadContext,
  flow: { id: number; name: string },
  trail: string | undefined,
): number | null => (trail ? requireTrail(context, flow, trail).id : null);

/**
 * The whole fingerprint of an artifact that was reported to a flow.
 * @param flow `name`: as the caller wrote it
 * @param prefix the fingerprint or a prefix of it
 * @throws AppError 404 for an unknown or ambiguous one
 */
export function requireFingerprint(
  { store, organization }: LargeReadContext,
  flow: { id: number; name: string },
  prefix: string,
): string {
  const fingerprint = store.artifacts.resolveFingerprint(flow.id, prefix);
  if (fingerprint === null || !store.artifacts.findLatest(flow.id, fingerprint, null))
    throw store.artifacts.notFoundError(prefix, flow.name, organization.name);
  return fingerprint;
}

/** The latest record that matches every filter; null if there is none. */
function findRecord(
  { store }: LargeReadContext,
  { flowId, fingerprint }: { flowId: number; fingerprint: string },
  filter: { trailId: number | null; artifact_id?: string; attestation_id?: string },
): PlacedArtifactRow | null {
  const { trailId, artifact_id: id, attestation_id: attestation } = filter;
  if (id === undefined && attestation === undefined) return store.artifacts.findLatest(flowId, fingerprint, trailId);
  if (id === undefined) return store.artifacts.findLatestBound(attestation as string, { flowId, fingerprint, trailId });
  const row = store.artifacts.findByPublicId(flowId, fingerprint, id);
  if (row === null || (trailId !== null && row.trail_id !== trailId)) return null;
  return attestation === undefined || store.artifacts.isBound(row.id, attestation) ? row : null;
}

export const getArtifactByFingerprint = largeRead({
  id: "get_artifact_by_fingerprint",
  method: "GET",
  path: "/artifacts/{org}/{flow_name}/fingerprint/{fingerprint}",
  tag: "Artifacts",
  summary: "Read an artifact by fingerprint",
  description:
    "The newest record in the flow. The filters select among several records: `trail` by the trail that it was " +
    "reported to, `artifact_id` by its own id, `attestation_id` by an attestation bound to it. All given filters " +
    "must match.",
  permission: "artifact:read",
  audit: null,
  cacheable: true,
  params: FingerprintPath,
  query: Closed({
    trail: TrailFilter,
    artifact_id: Type.Optional(Matching(PUBLIC_ID, { description: "Id of the record" })),
    attestation_id: Type.Optional(Matching(PUBLIC_ID, { description: "Id of an attestation of the artifact" })),
  }),
  body: NO_BODY,
  responses: {
    200: { description: "The artifact", schema: ArtifactResponse },
    404: { description: "No such flow, trail or artifact, or an ambiguous fingerprint", schema: Message },
  },
  example: { params: { org: "acme", flow_name: "payments", fingerprint: EXAMPLE_FINGERPRINT } },
  handle(context, { params, query }) {
    const { store, organization } = context;
    const flow = store.flows.require(organization, params.flow_name);
    const trailId = requireTrailId(context, { id: flow.id, name: params.flow_name }, query.trail);
    const fingerprint = store.artifacts.resolveFingerprint(flow.id, params.fingerprint);
    const row =
      fingerprint === null ? null : findRecord(context, { flowId: flow.id, fingerprint }, { ...query, trailId });
    if (!row) throw store.artifacts.notFoundError(params.fingerprint, params.flow_name, organization.name);
    const body = presentArtifact(context, row);
    // A prefix may become ambiguous by a report of any other artifact.
    if (params.fingerprint !== row.fingerprint) return { status: 200, body };
    return {
      status: 200,
      body,
      dependsOn: row.trail_id === null ? [row.fingerprint] : [row.fingerprint, row.trail_id],
    };
  },
});

/** A commit id or a prefix of it; shorter prefixes are too ambiguous (semantics 8.2). */
const COMMIT_PREFIX = "^[a-f0-9]{5,40}$";

export const getArtifactByCommit = largeRead({
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
    commit_sha: Type.String({ description: "The commit id, or at least its first 5 characters" }),
  }),
  query: Closed({ trail: TrailFilter }),
  body: NO_BODY,
  responses: {
    200: { description: "The artifacts", schema: Type.Array(ArtifactResponse) },
    404: { description: "No such flow or trail, or no artifact of a single matching commit", schema: Message },
  },
  example: { params: { org: "acme", flow_name: "payments", commit_sha: EXAMPLE_COMMIT } },
  handle(context, { params, query }) {
    const { store, organization } = context;
    const flow = store.flows.require(organization, params.flow_name);
    const trailId = requireTrailId(context, { id: flow.id, name: params.flow_name }, query.trail);
    const rows = matches(COMMIT_PREFIX, params.commit_sha)
      ? store.artifacts.listByCommit(flow.id, params.commit_sha, trailId)
      : [];
    if (rows.length === 0)
      throw notFound(
        `Artifact with git commit '${params.commit_sha}' does not exist in flow '${params.flow_name}' belonging to ` +
          `organization '${organization.name}'`,
      );
    return { status: 200, body: new JsonList(presentArtifacts(context, rows)) };
  },
});

const LatestCommitResponse = named("LatestCommitResponse", Closed({ latest_commit: Nullable(Type.String()) }));

export const getLatestArtifactCommit = largeRead({
  id: "get_latest_artifact_commit",
  method: "GET",
  path: "/artifacts/{org}/{flow_name}/{fingerprint}/latest_commit",
  tag: "Artifacts",
  summary: "Read the latest commit of an artifact",
  description:
    "The commit of the newest record with the fingerprint, null if there is none. With `branch`, of the newest " +
    "record with that branch in its commit or its list of commits.",
  permission: "artifact:read",
  audit: null,
  params: FingerprintPath,
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
    const fingerprint = store.artifacts.resolveFingerprint(flow.id, params.fingerprint);
    const commit =
      fingerprint === null ? null : store.artifacts.findLatestCommit(flow.id, fingerprint, query.branch || null);
    return { status: 200, body: { latest_commit: commit } };
  },
});

const PAGING = definePaging({ perPage: 15, maxPerPage: null });
const ArtifactList = Type.Array(ArtifactListItemResponse);
const ArtifactListPage = named(
  "ArtifactListPage",
  Closed({
    data: ArtifactList,
    pagination: Pagination,
    states: StateCounts,
  }),
);

/** The place that a query names, and what narrows it. @throws AppError 404 for an unknown flow or repository */
function filterOf(
  { store, organization }: LargeReadContext,
  query: { flow_name?: string; repo_name?: string; state?: State; name?: string },
): ArtifactFilter {
  const filter = { organizationId: organization.id, state: query.state ?? null, search: query.name ?? "" };
  if (query.flow_name) return { ...filter, flowId: store.flows.require(organization, query.flow_name).id };
  if (!query.repo_name) return filter;
  return { ...filter, repoIds: store.repos.requireByName(organization, query.repo_name).map(({ id }) => id) };
}

/** Comparing so many names takes up to ten milliseconds, and a page with its counts compares them three times. */
const MAX_NAMES_HERE = 50_000;

export const listArtifacts = largeRead({
  id: "list_artifacts",
  method: "GET",
  path: "/artifacts/{org}",
  tag: "Artifacts",
  summary: "List artifacts",
  description:
    "The artifacts of the organization, of one flow or of one repository, newest first, in pages. `flow_name` takes " +
    "precedence over `repo_name`.",
  permission: "artifact:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    flow_name: Type.Optional(Type.String({ description: "Name of a flow" })),
    repo_name: Type.Optional(Type.String({ description: "Name of a repository" })),
    state: Type.Optional(OneOf(["INCOMPLETE", "COMPLIANT", "NON-COMPLIANT"], { description: "Only artifacts in it" })),
    name: Type.Optional(Type.String({ description: "Part of the name, in any case" })),
    ...ENVELOPE,
    ...CausesQuery,
    ...PAGING.query,
  }),
  body: NO_BODY,
  responses: {
    200: { description: "One page", schema: ExactlyOne([ArtifactListPage, ArtifactList]) },
    404: { description: "No such flow or repository", schema: Message },
  },
  example: { params: { org: "acme" }, query: { flow_name: "payments", page: "1", per_page: "15" } },
  isLarge: ({ store, organization }, { query }) =>
    Boolean(query.name) && store.artifactLists.isMoreThan(organization.id, MAX_NAMES_HERE),
  handle(context, { query }) {
    const window = PAGING.window(query);
    const selection = context.store.artifactLists.select(filterOf(context, query));
    const data = new JsonList(
      presentArtifactItems(context, selection.list(window), { withCauses: query.causes === true }),
    );
    if (!query.envelope) return { status: 200, body: data };
    const states = selection.countStates();
    const pagination = presentPagination(totalIn(states, query.state), window.page, window.perPage);
    return { status: 200, body: { data, pagination, states } };
  },
});

export const listArtifactsDeprecated = largeRead({
  id: "list_artifacts_deprecated",
  method: "GET",
  path: "/artifacts/{org}/{flow_name}",
  tag: "Artifacts",
  summary: "List the artifacts of a flow",
  description: "Newest first, in pages. Use `GET /artifacts/{org}` with `flow_name` instead.",
  deprecation: { since: CONTRACT_DEPRECATION_DATE, successor: "/artifacts/{org}?flow_name={flow_name}" },
  permission: "artifact:read",
  audit: null,
  params: FlowPath,
  query: Closed({ ...PAGING.query }),
  body: NO_BODY,
  responses: {
    200: { description: "One page", schema: ArtifactList },
    404: { description: "No such flow", schema: Message },
  },
  example: { params: { org: "acme", flow_name: "payments" }, query: { page: "1", per_page: "15" } },
  handle(context, { params, query }) {
    const rows = context.store.artifactLists.select(filterOf(context, params)).list(PAGING.window(query));
    return { status: 200, body: new JsonList(presentArtifactItems(context, rows)) };
  },
});
