/** Recording an attestation of any kind: binding, record, event and evaluation of the trail (semantics 3). */
import type { Static, TObject, TSchema } from "typebox";
import { bindAttestation } from "../../domain/attestation/binding.ts";
import type { Binding } from "../../domain/attestation/binding.ts";
import { storedLabelOf } from "../../domain/attestation/kinds.ts";
import { badRequest, notFound } from "../../errors.ts";
import type { UploadedFile } from "../../http/operation.ts";
import { stringifyJson } from "../../json/text.ts";
import type { ArtifactInTrailRow } from "../../store/flows/artifacts.ts";
import type { FlowRow } from "../../store/flows/flows.ts";
import type { TrailRow } from "../../store/flows/trails.ts";
import type { OperationContext } from "../context.ts";
import { presentEventRepoInfo, parseRepoInfo, toStoredCommit, toStoredJson } from "../../contract/shapes.ts";
import type { GitCommitInfoValue } from "../../contract/shapes.ts";
import type { NewAttestation, AttestationRow } from "../../store/attestations/attestation-rows.ts";
import type { TrailPath } from "../paths.ts";

import type { AttestationKind, CommonFields } from "./kind.ts";

type TrailParams = Static<typeof TrailPath>;
type Bound = Exclude<Binding, { kind: "unknown_fingerprint" } | { kind: "needs_commit_or_fingerprint" }>;
/** Where a report belongs, with the artifacts that it is bound to. */
type Target = { binding: Bound; artifacts: readonly ArtifactInTrailRow[] };

/**
 * Determines where a report belongs (semantics 3.2).
 * @throws AppError 404 for a fingerprint that is not in the trail, 400 for an unidentifiable target (messages 5)
 */
export function bindReport(
  { store, organization }: OperationContext,
  { flow_name, trail_name }: TrailParams,
  { trailId, common }: { trailId: number; common: CommonFields },
): Target {
  const artifacts = store.artifacts.listByTrail(trailId);
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
      `Artifact with fingerprint ${common.artifact_fingerprint} does not exist in trail "${trail_name}" of flow ` +
        `"${flow_name}" belonging to organization "${organization.name}"`,
    );
  if (binding.kind === "needs_commit_or_fingerprint")
    throw badRequest(
      `Attestation '${binding.attestation}' for artifact '${binding.artifact}', which is not in trail ` +
        `'${trail_name}', requires at least one of: artifact_fingerprint or git_commit_info.`,
    );
  if (binding.kind === "trail") return { binding, artifacts: [] };
  return { binding, artifacts: artifacts.filter((row) => binding.artifactIds.includes(String(row.id))) };
}

/**
 * The attestation that a report follows: the current one of its name on its target, or a waiting one with the same
 * target. Null for the first report of a name.
 */
function findPrevious(
  { store }: OperationContext,
  { binding, artifacts }: Target,
  { trailId, name }: { trailId: number; name: string },
): AttestationRow | null {
  if (binding.kind === "trail") return store.attestations.findCurrent(trailId, null, name);
  for (const { id } of artifacts) {
    const current = store.attestations.findCurrent(trailId, id, name);
    if (current) return current;
  }
  if (binding.kind !== "pending") return null;
  for (const target of binding.referenceNames) {
    const waiting = store.attestations.findLatestPending(
      { trailId, referenceName: target, commit: binding.commit },
      name,
    );
    if (waiting) return waiting;
  }
  return null;
}

type AttestationReport<P, Prepared> = {
  params: TrailParams;
  flow: FlowRow;
  trail: TrailRow;
  common: CommonFields;
  payload: P;
  /** The result of the kind's own `prepare`, null without one. */
  prepared: Prepared;
  file: UploadedFile | null;
};

/** The columns of an override; all null for other kinds. */
type OverrideColumns = Pick<NewAttestation, "overridden_type" | "original_id" | "control" | "control_version">;

/**
 * Appends the record, binds it, adds the event and evaluates the trail.
 * @throws AppError as `bindReport`
 */
export function recordAttestation<P extends Record<string, TSchema>, Prepared>(
  context: OperationContext,
  kind: AttestationKind<P, Prepared>,
  report: AttestationReport<Static<TObject<P>>, Prepared>,
): void {
  const { store } = context;
  const { params, trail, common, payload, prepared, file } = report;
  const name = common.attestation_name;
  const at = context.now();
  const target = bindReport(context, params, { trailId: trail.id, common });
  const previous = findPrevious(context, target, { trailId: trail.id, name });
  const commit = common.git_commit_info ? toStoredCommit(common.git_commit_info) : null;
  const verdict = kind.evaluate(payload, prepared);
  const override = overrideColumns(previous, kind.originalType ? storedLabelOf(kind.originalType(payload)) : null);
  const type = override.overridden_type === null ? (kind.label?.(payload) ?? kind.segment) : "override";

  const record = store.attestations.create({
    ...reportedColumns(context, report),
    ...commitColumns(commit, override.overridden_type === null ? null : previous),
    ...override,
    scope: target.binding.kind === "trail" ? "trail" : "artifact",
    type,
    is_compliant: verdict.isCompliant ? 1 : 0,
    payload_json: stringifyJson(kind.facts(payload, prepared)),
    reasons_json: JSON.stringify(verdict.reasons),
    type_version: null,
    created_at: at,
    ...kind.columns?.(context, payload, prepared),
  });
  bindRecord(context, target, { trailId: trail.id, id: record.id, name });
  captureRepo(context, trail.id, common);

  const facts = { attestation_type: type, attestation_id: record.publicId, is_compliant: verdict.isCompliant };
  const { eventType, detail } = describeReport(context, target, common);
  const event = {
    ...facts,
    // The attestation's own name, which is its name in the template (wire-contract 4).
    template_reference_name: name,
    ...detail,
    // true for a repeated report, null for the first one of a name (semantics 3.5).
    is_reattestation: previous ? true : null,
    git_commit_info: commit,
    repo_info: presentEventRepoInfo(common.repo_info),
  };
  store.trails.addEvent(trail.id, { type: eventType, at, event });
  const { status } = store.trailEvaluation.evaluate(trail.id, at);
  context.note({
    attestation_id: record.publicId,
    attestation_name: name,
    attestation_type: type,
    is_compliant: verdict.isCompliant,
    trail_state: status,
    ...(file ? { evidence: file.digest } : {}),
  });
}

/** @param originalType the stored label of the overridden type that the client sent; null for other kinds */
function overrideColumns(previous: AttestationRow | null, originalType: string | null): OverrideColumns {
  if (originalType === null) return { overridden_type: null, original_id: null, control: null, control_version: null };
  return {
    overridden_type: previous?.overridden_type ?? previous?.type ?? originalType,
    // An override of an override belongs to the same original.
    original_id: previous?.overridden_type ? previous.original_id : (previous?.id ?? null),
    control: previous?.control ?? null,
    control_version: previous?.control_version ?? null,
  };
}

/**
 * @param original what an override overrides: without a commit of its own, lookups by commit find both by its commit
 */
function commitColumns(
  commit: GitCommitInfoValue | null,
  original: AttestationRow | null,
): Pick<NewAttestation, "git_commit" | "git_commit_info_json"> {
  return {
    git_commit: commit?.sha1 ?? original?.git_commit ?? null,
    git_commit_info_json: toStoredJson(commit) ?? original?.git_commit_info_json ?? null,
  };
}

/** The columns that hold the report as it was sent. */
const reportedColumns = (
  { organization, principal }: OperationContext,
  { flow, trail, common, file }: Pick<AttestationReport<unknown, unknown>, "flow" | "trail" | "common" | "file">,
) => ({
  organization_id: organization.id,
  flow_id: flow.id,
  trail_id: trail.id,
  name: common.attestation_name,
  artifact_fingerprint: common.artifact_fingerprint ?? null,
  target_artifacts_json: toStoredJson(common.target_artifacts),
  repo_info_json: toStoredJson(common.repo_info),
  origin_url: common.origin_url ?? null,
  description: common.description ?? null,
  annotations_json: JSON.stringify(common.annotations ?? {}),
  external_urls_json: toStoredJson(common.external_urls),
  user_data_json: toStoredJson(common.user_data),
  evidence_digest: file?.digest ?? null,
  evidence_size: file?.size ?? null,
  evidence_filename: file?.filename ?? null,
  evidence_content_type: file?.contentType ?? null,
  reported_by: principal.displayName,
});

/** Binds a record to the trail or to its artifacts; without one, it waits for an artifact of the target's name. */
function bindRecord(
  { store }: OperationContext,
  { binding, artifacts }: Target,
  { trailId, id, name }: { trailId: number; id: number; name: string },
): void {
  if (binding.kind === "trail") store.attestations.bindToTrail(trailId, id, name);
  for (const artifact of artifacts)
    store.attestations.bindToArtifact({ trailId, artifactId: artifact.id }, { id, name });
  if (binding.kind === "pending")
    for (const target of binding.referenceNames)
      store.attestations.addPendingBinding(id, { trailId, referenceName: target, commit: binding.commit });
}

function captureRepo({ store, organization }: OperationContext, trailId: number, { repo_info }: CommonFields): void {
  const repo = parseRepoInfo(repo_info);
  if (repo) store.trails.addRepo(trailId, store.repos.capture(organization.id, repo));
}

/** The type of a report's event, and the members that name its artifact. */
function describeReport({ store }: OperationContext, { binding, artifacts }: Target, common: CommonFields) {
  const [artifact] = artifacts;
  const fingerprint = common.artifact_fingerprint;
  const name = common.target_artifacts?.[0] ?? artifact?.reference_name ?? null;
  const artifactEvent = fingerprint ? "artifact_attestation_reported" : "trail_attestation_for_artifact_reported";
  return {
    eventType: binding.kind === "trail" ? "trail_attestation_reported" : artifactEvent,
    detail: {
      ...(name === null ? {} : { target_artifact: name }),
      ...(fingerprint ? { artifact_fingerprint: fingerprint } : {}),
      ...(artifact
        ? { artifact_id: artifact.public_id, artifact_name: store.artifacts.get(artifact.id).filename }
        : {}),
    },
  };
}
