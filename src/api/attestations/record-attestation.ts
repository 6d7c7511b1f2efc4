/** Recording an attestation of any kind: binding, record, event and evaluation of the trail (semantics 3). */
import type { Static, TObject, TSchema } from "typebox";
import type { AttestationEventDetail } from "../../domain/attestation/event.ts";
import { bindAttestation } from "../../domain/attestation/binding.ts";
import type { Binding } from "../../domain/attestation/binding.ts";
import { storedLabelOf } from "../../domain/attestation/kinds.ts";
import { badRequest, notFound } from "../../errors.ts";
import type { UploadedFile } from "../../http/operation.ts";
import { stringifyJson } from "../../json/text.ts";
import type { ArtifactInTrailRow } from "../../store/flows/artifacts.ts";
import type { FlowRow } from "../../store/flows/flows.ts";
import type { LoadedTrail } from "../../store/flows/trail-evaluation.ts";
import type { OperationContext, ReadingContext } from "../context.ts";
import { parseRepoInfo, toStoredCommit, toStoredJson } from "../../contract/shapes.ts";
import type { GitCommitInfoValue } from "../../contract/shapes.ts";
import type { NewAttestation, AttestationRow } from "../../store/attestations/attestation-rows.ts";
import type { TrailPath } from "../paths.ts";
import type { AttestationKind, CommonFields } from "./kind.ts";
import { requireOriginalType } from "./original-type.ts";

/** What binding a report needs. */
type BindContext = Pick<ReadingContext, "store" | "organization">;
/** What recording needs. */
export type RecordContext = Pick<OperationContext, "store" | "organization" | "now" | "note"> & {
  readonly principal: { readonly displayName: string };
};
/** The part of a kind that recording needs. */
type RecordedKind<P extends Record<string, TSchema>, Prepared> = Pick<
  AttestationKind<P, Prepared>,
  "segment" | "evaluate" | "facts" | "label" | "columns" | "originalType"
>;

type TrailParams = Static<typeof TrailPath>;
type Bound = Exclude<Binding, { kind: "unknown_fingerprint" } | { kind: "needs_commit_or_fingerprint" }>;
/** Where a report belongs, with the artifacts that it is bound to. */
type Target = { binding: Bound; artifacts: readonly ArtifactInTrailRow[] };
/** The trail and the name of an attestation. */
type AttestationKey = { trail: LoadedTrail; name: string };

/**
 * Determines where a report belongs (semantics 3.2).
 * @param artifacts those of the trail, oldest first
 * @throws AppError 404 for a fingerprint that is not in the trail, 400 for an unidentifiable target (messages 5)
 */
export function bindReport(
  { organization }: Pick<OperationContext, "organization">,
  { flow_name, trail_name }: TrailParams,
  { artifacts, common }: { artifacts: readonly ArtifactInTrailRow[]; common: CommonFields },
): Target {
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

/** The artifacts that a report is bound to, by their keys; null stands for the trail itself. */
const targetsOf = ({ binding, artifacts }: Target): (number | null)[] =>
  binding.kind === "trail" ? [null] : artifacts.map(({ id }) => id);

/** Whether the trail (null) or an artifact of it has a current record of that name. */
const isReported = ({ trail, name }: AttestationKey, target: number | null): boolean =>
  trail.facts.get(target)?.some((fact) => fact.name === name) ?? false;

/**
 * Whether a report has a predecessor: a current record of its name on its target, or a waiting one with the same
 * target.
 */
function isRepeated({ store }: RecordContext, target: Target, key: AttestationKey): boolean {
  return targetsOf(target).some((id) => isReported(key, id)) || findWaiting(store, target, key) !== null;
}

/** The predecessor of a report, see `isRepeated`; null for the first report of a name. */
function findPrevious({ store }: BindContext, target: Target, { trail, name }: AttestationKey): AttestationRow | null {
  for (const id of targetsOf(target)) {
    const current = store.attestations.findCurrent(trail.id, id, name);
    if (current) return current;
  }
  return findWaiting(store, target, { trail, name });
}

function findWaiting(
  { attestations }: ReadingContext["store"],
  { binding }: Target,
  { trail, name }: AttestationKey,
): AttestationRow | null {
  if (binding.kind !== "pending") return null;
  for (const referenceName of binding.referenceNames) {
    const key = { trailId: trail.id, referenceName, commit: binding.commit };
    const waiting = attestations.findLatestPending(key, name);
    if (waiting) return waiting;
  }
  return null;
}

type AttestationReport<P, Prepared> = {
  params: TrailParams;
  flow: FlowRow;
  trail: LoadedTrail;
  common: CommonFields;
  payload: P;
  /** The payload as it was sent, for the record. */
  asSent: P;
  /** The JSON of its facts, of a long one that was serialised before the write. */
  facts?: string | null;
  /** The result of the kind's own `prepare`, null without one. */
  prepared: Prepared;
  file: UploadedFile | null;
};

/** The columns of an override; all null for other kinds. */
type OverrideColumns = Pick<NewAttestation, "overridden_type" | "original_id" | "control" | "control_version">;

/**
 * Appends the record, binds it, adds the event and evaluates the trail. @returns row id and public id of the record
 * @throws AppError as `bindReport`
 */
export function recordAttestation<P extends Record<string, TSchema>, Prepared>(
  context: RecordContext,
  kind: RecordedKind<P, Prepared>,
  report: AttestationReport<Static<TObject<P>>, Prepared>,
): { id: number; publicId: string } {
  const { store } = context;
  const { params, trail, common, payload, asSent, facts = null, prepared, file } = report;
  const name = common.attestation_name;
  const at = context.now();
  const target = bindReport(context, params, { artifacts: trail.artifacts, common });
  // Only an override takes columns from its predecessor.
  const previous = kind.originalType ? findPrevious(context, target, { trail, name }) : null;
  const originalType = kind.originalType?.(payload) ?? null;
  if (originalType !== null)
    requireOriginalType(originalType, { trail, name, targets: targetsOf(target), previous, ...waitsFor(target) });
  const isReattestation = previous !== null || (!kind.originalType && isRepeated(context, target, { trail, name }));
  const commit = common.git_commit_info ? toStoredCommit(common.git_commit_info) : null;
  const verdict = kind.evaluate(payload, prepared);
  const override = overrideColumns(previous, originalType && storedLabelOf(originalType));
  const type = override.overridden_type === null ? (kind.label?.(payload) ?? kind.segment) : "override";

  const { isCompliant, reasons } = verdict;
  const record = store.attestations.create({
    ...reportedColumns(context, report),
    ...commitColumns(commit, override.overridden_type === null ? null : previous),
    ...override,
    scope: target.binding.kind === "trail" ? "trail" : "artifact",
    type,
    is_compliant: isCompliant ? 1 : 0,
    payload_json: facts ?? stringifyJson(kind.facts(asSent, prepared)),
    reasons_json: JSON.stringify(reasons),
    type_version: null,
    created_at: at,
    ...kind.columns?.(context, payload, prepared),
  });
  bindRecord(context, target, { trailId: trail.id, id: record.id, name });
  captureRepo(context, trail.id, common);

  const event = describeReport(target, { common, isReattestation });
  store.trails.addAttestationEvent(trail.id, { ...event, at }, record.id);
  const fact = { name, type, attestationId: record.publicId, overriddenAttestationId: null, isCompliant };
  // One of several artifacts may have the name already.
  const targets = targetsOf(target);
  const grows = targets.every((id) => isReported({ trail, name }, id)) ? null : params.trail_name;
  const { status } =
    override.overridden_type === null
      ? store.trailEvaluation.evaluateRecorded(trail, { fact, targets, grows }, at)
      : store.trailEvaluation.evaluate(trail.id, at, { grows });
  context.note({
    attestation_id: record.publicId,
    attestation_name: name,
    attestation_type: type,
    is_compliant: isCompliant,
    trail_state: status,
    ...(file ? { evidence: file.digest } : {}),
  });
  return record;
}

/**
 * What an override of this name would belong to: the trail (null) and artifacts by their keys.
 * @param override.originalType the type that it names for what it overrides
 * @throws AppError as recordAttestation
 */
export function bindOverride(
  context: BindContext,
  params: TrailParams,
  { trail, common, originalType }: { trail: LoadedTrail; common: CommonFields; originalType: string },
): (number | null)[] {
  const name = common.attestation_name;
  const target = bindReport(context, params, { artifacts: trail.artifacts, common });
  const previous = findPrevious(context, target, { trail, name });
  requireOriginalType(originalType, { trail, name, targets: targetsOf(target), previous, ...waitsFor(target) });
  return targetsOf(target);
}

/** The names of artifacts that a report waits for. */
const waitsFor = ({ binding }: Target): { referenceNames: readonly string[] } => ({
  referenceNames: binding.kind === "pending" ? binding.referenceNames : [],
});

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
  { organization, principal }: RecordContext,
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
  annotations_json: stringifyJson(common.annotations ?? {}),
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
  { store }: RecordContext,
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

function captureRepo({ store, organization }: RecordContext, trailId: number, { repo_info }: CommonFields): void {
  const repo = parseRepoInfo(repo_info);
  if (repo) store.trails.addRepo(trailId, store.repos.capture(organization.id, repo));
}

/** The type of a report's event, and what its record does not have. */
function describeReport(
  { binding, artifacts }: Target,
  { common, isReattestation }: { common: CommonFields; isReattestation: boolean },
): { type: string; detail: AttestationEventDetail } {
  const [artifact] = artifacts;
  const name = common.target_artifacts?.[0] ?? artifact?.reference_name ?? null;
  const artifactEvent = common.artifact_fingerprint
    ? "artifact_attestation_reported"
    : "trail_attestation_for_artifact_reported";
  return {
    type: binding.kind === "trail" ? "trail_attestation_reported" : artifactEvent,
    detail: {
      ...(name === null ? {} : { target_artifact: name }),
      ...(artifact ? { artifact_id: artifact.public_id, artifact_name: artifact.filename } : {}),
      is_reattestation: isReattestation ? true : null,
      // The record of an override has the commit of its original.
      ...(common.git_commit_info ? {} : { git_commit_info: null }),
    },
  };
}
