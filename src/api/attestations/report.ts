/**
 * Reporting attestations: one factory for all kinds. A kind is its payload and its judge; everything that is the same
 * for all of them (binding, history, evaluation, evidence) is here.
 */
import { Type } from "typebox";
import type { Static, TObject, TSchema } from "typebox";
import { bindAttestation } from "../../domain/attestation/binding.ts";
import type { Binding } from "../../domain/attestation/binding.ts";
import type { AttestationVerdict } from "../../domain/attestation/verdict.ts";
import { storedLabel } from "../../domain/attestation/kinds.ts";
import { ATTESTATION_NAME } from "../../domain/names.ts";
import { badRequest, notFound } from "../../errors.ts";
import { RECORD_BOUNDS, json } from "../../http/operation.ts";
import type { Example, FormBody, UploadedFile } from "../../http/operation.ts";
import type { JsonBounds } from "../../http/body/read-json.ts";
import { stringifyJson } from "../../json/text.ts";
import { Closed, Maybe, Message, Ok, named } from "../../http/schema.ts";
import type { ArtifactInTrailRow } from "../../store/flows/artifacts.ts";
import type { FlowRow } from "../../store/flows/flows.ts";
import type { TrailRow } from "../../store/flows/trails.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import {
  Annotations,
  ExternalUrls,
  Fingerprint,
  GitCommit,
  LIST_LENGTH,
  MAX_FREE_FORM_BYTES,
  Name,
  RepoInfoPostInput,
  Text,
  UserData,
  WebUrl,
  presentEventRepoInfo,
  repoFacts,
  storedCommit,
  toJson,
} from "../../contract/shapes.ts";
import { beginImplicitly } from "../flows/trails.ts";
import type { NewAttestation, AttestationRow } from "../../store/attestations/attestation-rows.ts";
import { TrailPath } from "../paths.ts";

/** A report with fields of its own: its `user_data`, its data, and as much again for the rest. */
const MAX_OPEN_REPORT_BYTES = 3 * MAX_FREE_FORM_BYTES;

/** The fields that every kind has (semantics 3.1). */
export const COMMON = {
  attestation_name: Name(ATTESTATION_NAME, {
    description: "Name of the attestation, without the artifact's part of a dotted name",
  }),
  origin_url: Maybe(WebUrl),
  description: Maybe(Text),
  artifact_fingerprint: Maybe(Fingerprint),
  target_artifacts: Maybe(
    Type.Array(Name(ATTESTATION_NAME), {
      maxItems: LIST_LENGTH,
      description: "Names of the template's artifacts that this belongs to; clients send one",
    }),
  ),
  git_commit_info: Maybe(GitCommit),
  repo_info: Maybe(RepoInfoPostInput),
  external_urls: Maybe(ExternalUrls),
  annotations: Maybe(Annotations),
  user_data: Maybe(UserData),
};
const Common = Closed(COMMON);
type CommonFields = Static<typeof Common>;
type Params = Static<typeof TrailPath>;

type Kind<P extends Record<string, TSchema>, Prepared> = {
  /** Last segment of the path. */
  segment: string;
  /** Name of the input shape, and of the form where there is one. */
  input: string;
  form: string | null;
  summary: string;
  description: string;
  payload: P;
  /** How much JSON is taken, where that is not what all kinds take. */
  bounds?: JsonBounds;
  /** Whether further fields are taken; `facts` decides what becomes of them. */
  open?: true;
  /**
   * Finds what the judge needs and cannot find inside a transaction, after all that may be refused at once was refused.
   * @throws AppError for a report that is refused; nothing of it is stored then.
   */
  prepare?(context: OperationContext, payload: Static<TObject<P>>): Promise<Prepared>;
  judge(payload: Static<TObject<P>>, prepared: Prepared): AttestationVerdict;
  /** What the stored record shows beside the common fields. */
  facts(payload: Static<TObject<P>>, prepared: Prepared): Record<string, unknown>;
  /** The stored label, where that is not the segment. */
  label?(payload: Static<TObject<P>>): string;
  /** What has columns of its own in the record. */
  columns?(
    context: OperationContext,
    payload: Static<TObject<P>>,
    prepared: Prepared,
  ): Partial<Pick<NewAttestation, "type_version" | "control" | "control_version">>;
  /** Of an override: the client's word for the type of what it overrides. */
  originalType?(payload: Static<TObject<P>>): string;
  example: Record<string, unknown>;
};

/** The identity with types: a kind that others than its operation record too (api/inbound-webhooks.ts). */
export const kind = <P extends Record<string, TSchema>>(declaration: Kind<P, null>): Kind<P, null> => declaration;

/**
 * The operation that reports a kind: multipart with an optional attachment, or plain JSON where the kind has no form.
 */
export function attestation<P extends Record<string, TSchema>, Prepared = null>(kind: Kind<P, Prepared>) {
  const fields = { ...COMMON, ...kind.payload };
  const schema = named(
    kind.input,
    kind.open
      ? Type.Object(fields, { additionalProperties: true, "x-max-bytes": MAX_OPEN_REPORT_BYTES })
      : Closed(fields),
  ) as unknown as TObject<typeof COMMON & P>;
  const form: FormBody<typeof schema> = {
    kind: "form",
    component: kind.form ?? "",
    part: "data_json",
    schema,
    bounds: kind.bounds ?? RECORD_BOUNDS,
    file: { part: "attachment_file", description: "Evidence: one file of any kind", kind: "evidence" },
  };
  const example: Example = {
    params: { org: "acme", flow_name: "backend", trail_name: "release-1" },
    body: { attestation_name: kind.segment.replace("_", "-"), ...kind.example },
    ...(kind.form ? { file: "the evidence itself" } : {}),
  };
  return operation({
    id: `post_${kind.segment}_attestation`,
    method: "POST",
    path: `/attestations/{org}/{flow_name}/trail/{trail_name}/${kind.segment}`,
    tag: "Attestation",
    summary: kind.summary,
    description: kind.description,
    permission: "attestation:write",
    audit: "attestation.reported",
    params: TrailPath,
    query: Closed({}),
    body: kind.form ? form : json(schema, kind.bounds ?? RECORD_BOUNDS),
    responses: {
      201: { description: "Recorded", schema: Ok },
      404: { description: "No such flow, or the trail holds no artifact of that fingerprint", schema: Message },
    },
    example,
    // Whatever can be refused is refused before the evidence gets its lasting name, so that a refusal leaves no file.
    async prepare(context, { params, body, file }): Promise<Prepared | null> {
      if (file === null && !kind.prepare) return null;
      const flow = context.store.flows.requireWritable(context.organization, params.flow_name);
      const trail = context.store.trails.find(flow.id, params.trail_name);
      const common = body as CommonFields;
      bind(context, params, trail?.id ?? NO_TRAIL, common);
      repoFacts(common.repo_info);
      return kind.prepare ? await kind.prepare(context, body as unknown as Static<TObject<P>>) : null;
    },
    handle(context, { params, body, file }, prepared: Prepared | null) {
      const flow = context.store.flows.requireWritable(context.organization, params.flow_name);
      const trail =
        context.store.trails.find(flow.id, params.trail_name) ?? beginImplicitly(context, flow, params.trail_name);
      recordAttestation(context, kind, {
        params,
        flow,
        trail,
        common: body as CommonFields,
        payload: body as unknown as Static<TObject<P>>,
        prepared: prepared as Prepared,
        file,
      });
      return { status: 201, body: "OK" };
    },
  });
}

/** The key of no trail: nothing was reported to a trail that does not exist yet. */
const NO_TRAIL = -1;

type Bound = Exclude<Binding, { kind: "unknown_fingerprint" } | { kind: "needs_commit_or_fingerprint" }>;

/**
 * To what the report belongs (semantics 3.2).
 * @throws AppError 404 for a fingerprint that the trail does not hold, 400 for a target that nothing identifies
 * (messages 5).
 */
function bind(
  context: OperationContext,
  { flow_name, trail_name }: Params,
  trailId: number,
  common: CommonFields,
): { binding: Bound; artifacts: ArtifactInTrailRow[] } {
  const artifacts = context.store.artifacts.inTrail(trailId);
  const binding = bindAttestation({
    attestationName: common.attestation_name,
    artifactFingerprint: common.artifact_fingerprint ?? null,
    targetArtifacts: common.target_artifacts ?? [],
    commit: common.git_commit_info?.sha1 ?? null,
    artifactsInTrail: artifacts.map((row) => ({
      artifactId: String(row.id),
      fingerprint: row.fingerprint,
      referenceName: row.reference_name,
      gitCommit: row.git_commit,
      sequence: row.id,
    })),
  });
  if (binding.kind === "unknown_fingerprint")
    throw notFound(
      `Artifact with fingerprint ${common.artifact_fingerprint} does not exist in trail "${trail_name}" of flow "${flow_name}" belonging to organization "${context.organization.name}"`,
    );
  if (binding.kind === "needs_commit_or_fingerprint")
    throw badRequest(
      `Attestation '${binding.attestation}' for artifact '${binding.artifact}', which is not in trail '${trail_name}', requires at least one of: artifact_fingerprint or git_commit_info.`,
    );
  return { binding, artifacts };
}

/**
 * What a report follows under its name: what counts where it belongs, or what waits there with it. Null for the first
 * of its name.
 */
function previousOf(
  { store }: OperationContext,
  trailId: number,
  name: string,
  binding: Bound,
  bound: readonly ArtifactInTrailRow[],
): AttestationRow | null {
  if (binding.kind === "trail") return store.attestations.current(trailId, null, name);
  for (const { id } of bound) {
    const current = store.attestations.current(trailId, id, name);
    if (current) return current;
  }
  if (binding.kind !== "pending") return null;
  for (const target of binding.referenceNames) {
    const waiting = store.attestations.latestWaiting(trailId, target, binding.commit, name);
    if (waiting) return waiting;
  }
  return null;
}

type Report<P, Prepared> = {
  params: Params;
  flow: FlowRow;
  trail: TrailRow;
  common: CommonFields;
  payload: P;
  /** What the kind's own `prepare` gave, null where it has none. */
  prepared: Prepared;
  file: UploadedFile | null;
};

/**
 * Appends the record, binds it, adds the event and evaluates the trail.
 * @throws AppError as `bind` does.
 */
export function recordAttestation<P extends Record<string, TSchema>, Prepared>(
  context: OperationContext,
  kind: Kind<P, Prepared>,
  report: Report<Static<TObject<P>>, Prepared>,
): void {
  const { store, organization, principal } = context;
  const { params, flow, trail, common, payload, prepared, file } = report;
  const { binding, artifacts } = bind(context, params, trail.id, common);
  const bound = binding.kind === "trail" ? [] : artifacts.filter((row) => binding.artifactIds.includes(String(row.id)));
  const name = common.attestation_name;
  const at = context.now();
  const verdict = kind.judge(payload, prepared);
  const previous = previousOf(context, trail.id, name, binding, bound);
  const overridden = kind.originalType
    ? (previous?.overridden_type ?? previous?.type ?? storedLabel(kind.originalType(payload)))
    : null;
  const original =
    overridden === null ? null : previous?.overridden_type ? previous.original_id : (previous?.id ?? null);
  const type = overridden === null ? (kind.label?.(payload) ?? kind.segment) : "override";
  const commit = common.git_commit_info ? storedCommit(common.git_commit_info) : null;
  // An override without a commit is about the commit of what it overrides, so that look-ups by commit find both.
  const commitOfOriginal = overridden !== null && commit === null ? previous : null;
  const repo = repoFacts(common.repo_info);

  const { id, publicId } = store.attestations.create({
    organization_id: organization.id,
    flow_id: flow.id,
    trail_id: trail.id,
    scope: binding.kind === "trail" ? "trail" : "artifact",
    name,
    type,
    is_compliant: verdict.isCompliant ? 1 : 0,
    artifact_fingerprint: common.artifact_fingerprint ?? null,
    target_artifacts_json: toJson(common.target_artifacts),
    git_commit: commit?.sha1 ?? commitOfOriginal?.git_commit ?? null,
    git_commit_info_json: toJson(commit) ?? commitOfOriginal?.git_commit_info_json ?? null,
    repo_info_json: toJson(common.repo_info),
    origin_url: common.origin_url ?? null,
    description: common.description ?? null,
    annotations_json: JSON.stringify(common.annotations ?? {}),
    external_urls_json: toJson(common.external_urls),
    user_data_json: toJson(common.user_data),
    payload_json: stringifyJson(kind.facts(payload, prepared)),
    reasons_json: JSON.stringify(verdict.reasons),
    overridden_type: overridden,
    original_id: original,
    control: overridden === null ? null : (previous?.control ?? null),
    control_version: overridden === null ? null : (previous?.control_version ?? null),
    type_version: null,
    evidence_digest: file?.digest ?? null,
    evidence_size: file?.size ?? null,
    evidence_filename: file?.filename ?? null,
    evidence_content_type: file?.contentType ?? null,
    reported_by: principal.displayName,
    created_at: at,
    ...kind.columns?.(context, payload, prepared),
  });

  if (binding.kind === "trail") store.attestations.bindToTrail(trail.id, id, name);
  for (const artifact of bound) store.attestations.bindToArtifact(trail.id, artifact.id, id, name);
  if (binding.kind === "pending")
    for (const target of binding.referenceNames)
      store.attestations.waitForArtifact(trail.id, target, binding.commit, id);
  if (repo) store.trails.addRepo(trail.id, store.repos.capture(organization.id, repo));

  const target = common.target_artifacts?.[0] ?? bound[0]?.reference_name ?? null;
  const eventType =
    binding.kind === "trail"
      ? "trail_attestation_reported"
      : common.artifact_fingerprint
        ? "artifact_attestation_reported"
        : "trail_attestation_for_artifact_reported";
  store.trails.addEvent(trail.id, eventType, at, {
    attestation_type: type,
    attestation_id: publicId,
    is_compliant: verdict.isCompliant,
    // The attestation's own name, which is what the template calls it (wire-contract 4).
    template_reference_name: name,
    ...(target === null ? {} : { target_artifact: target }),
    ...(common.artifact_fingerprint ? { artifact_fingerprint: common.artifact_fingerprint } : {}),
    ...(bound[0] ? { artifact_id: bound[0].public_id, artifact_name: store.artifacts.get(bound[0].id).filename } : {}),
    // true on a repeat, null on the first report of a name (semantics 3.5).
    is_reattestation: previous ? true : null,
    git_commit_info: commit,
    repo_info: presentEventRepoInfo(common.repo_info),
  });
  const status = store.evaluation.evaluate(trail.id, at);
  context.note({
    attestation_id: publicId,
    attestation_name: name,
    attestation_type: type,
    is_compliant: verdict.isCompliant,
    trail_state: status.status,
    ...(file ? { evidence: file.digest } : {}),
  });
}
