/**
 * Reads everything that belongs to a trail, or to an artifact in a flow, within one read transaction: members for the
 * package, and a bounded sample for the readable report. The order of the steps is the order of the members.
 */
import { presentDeployment } from "../contract/present-deployment.ts";
import { createTrailPresenter, presentTrailPlaceholder } from "../contract/present-trail.ts";
import type { TrailEventValue } from "../contract/present-trail.ts";
import { unlimitedAllowance } from "../contract/large-json.ts";
import type { AttestationStatus } from "../domain/compliance/attestation.ts";
import type { TrailStatus } from "../domain/compliance/trail.ts";
import { hasMembers, isListOf, isObject, readStoredJsonOrNull } from "../domain/stored-json.ts";
import type { PlacedArtifactRow } from "../store/flows/artifacts.ts";
import type { RunRow } from "../store/environments/audit-packages.ts";
import type { TrailEventRow } from "../store/flows/trail-events.ts";
import type { TrailRow } from "../store/flows/trails.ts";
import type { PlacedAttestationRow } from "../store/attestations/attestation-rows.ts";
import { templateFileName } from "./file-names.ts";
import { gatherEvidence } from "./gather-evidence.ts";
import { gatherReferences } from "./gather-references.ts";
import { addList, noteTime, startGathering } from "./gathering.ts";
import type { Gathering, PackageSource } from "./gathering.ts";
import { stringifyWithList } from "./members.ts";
import type { Members } from "./members.ts";
import { readTexts, toArtifactRecord, toAttestationRecord, toRunRecord } from "./records.ts";
import { toReportAttestation } from "./report-attestation.ts";
import { warnAboutSboms } from "./report-sboms.ts";
import { truncateLines, truncateText } from "./report.ts";
import type { AuditReport, ReportTrail } from "./report.ts";

/** @param members receives the members of the package; null when the report alone is wanted */
export function gatherRecords(source: PackageSource, members: Members | null): AuditReport {
  const gathering = startGathering(source, members);
  gatherFlow(gathering);
  if (source.subject.kind === "trail") gatherTrail(gathering, source.subject.trailId);
  else gatherArtifactAndTrails(gathering);
  gatherAttestations(gathering);
  const fingerprints = source.context.store.auditPackages.listFingerprints(source.subject);
  gatherRuns(gathering, fingerprints);
  gatherDeployments(gathering, fingerprints);
  gatherAllowlist(gathering, fingerprints);
  gatherReferences(gathering);
  gatherEvidence(gathering);
  return gathering.report;
}

function gatherFlow({ context, subject, members, references }: Gathering): void {
  const { flows, trails, templates } = context.store;
  const flow = flows.get(subject.kind === "trail" ? trails.get(subject.trailId).flow_id : subject.flowId);
  const templateId = templates.getPublicId(flow.template_id);
  members?.json("flow.json", {
    name: flow.name,
    id: flow.public_id,
    description: flow.description,
    visibility: flow.visibility,
    tags: flows.getTags(flow.id),
    archived: flow.archived_at !== null,
    created_at: flow.created_at,
    template_file: templateFileName(templateId),
  });
  references.templates.add(templateId);
}

/** The trail with its whole history, and its artifacts. */
function gatherTrail(gathering: Gathering, trailId: number): void {
  const { context, subject, members } = gathering;
  const row = context.store.trails.get(trailId);
  const outline = addTrail(gathering, row);
  const events = trailEvents(gathering, row);
  if (members) members.text("trail.json", stringifyWithList(outline, "events", events));
  else for (const _ of events);
  addList(gathering, "artifacts.json", {
    rows: context.store.auditPackages.listArtifacts(subject),
    toRecord: (artifact) => addArtifact(gathering, artifact),
  });
}

/** The records of the artifact, and the trails to which it was reported, without their history. */
function gatherArtifactAndTrails(gathering: Gathering): void {
  const { store } = gathering.context;
  const trailIds = new Set<number>();
  addList(gathering, "artifacts.json", {
    rows: store.auditPackages.listArtifacts(gathering.subject),
    toRecord(row) {
      if (row.trail_id !== null) trailIds.add(row.trail_id);
      return addArtifact(gathering, row);
    },
  });
  addList(gathering, "trails.json", {
    rows: trailIds,
    toRecord: (id) => addTrail(gathering, store.trails.get(id)),
  });
}

const isCommit = hasMembers<NonNullable<ReportTrail["commit"]>>("sha1");
const isTrailStatus = hasMembers<TrailStatus>("attestations_statuses", "artifacts_statuses");
const isStatusList = isListOf(hasMembers<AttestationStatus>("attestation_name", "status"));

/** Reports a trail and returns its record, without its history. */
function addTrail(gathering: Gathering, row: TrailRow): object {
  const { templates } = gathering.context.store;
  const templateId = templates.getPublicId(row.template_id);
  const reasons = readTexts(row.reasons_json) ?? [];
  gathering.references.templates.add(templateId);
  noteTime(gathering, row.last_modified_at);
  gathering.report.trails.add({
    name: row.name,
    description: truncateText(row.description),
    createdBy: row.created_by,
    createdAt: row.created_at,
    changedAt: row.last_modified_at,
    origin: row.origin_url,
    commit: readStoredJsonOrNull(row.git_commit_info_json, isCommit),
    state: row.state,
    reasons: truncateLines(reasons),
    status: readStoredJsonOrNull(row.compliance_json, isTrailStatus),
  });
  const { template, ...outline } = trailOutline(gathering, row);
  return {
    ...outline,
    audit: {
      trail_id: row.public_id,
      reasons,
      template_inherited: row.template_inherited === 1,
      template_file: templateFileName(templateId),
    },
    template,
  };
}

/** The trail as the API shows it, without its history; a placeholder where the record is damaged. */
function trailOutline({ context }: Gathering, row: TrailRow) {
  const parts = createTrailPresenter(context, [row]);
  try {
    return parts.outline(row, unlimitedAllowance(context));
  } catch {
    const { events: _, ...placeholder } = presentTrailPlaceholder(context, row);
    return placeholder;
  }
}

function* trailEvents(gathering: Gathering, row: TrailRow): Generator<TrailEventValue> {
  const { context, report, references } = gathering;
  const rows = markUnreadable(context.store.trails.iterateEvents(row.id));
  for (const event of createTrailPresenter(context, [row]).events(row, rows)) {
    report.events += 1;
    noteTime(gathering, event.timestamp);
    if (event.template_id !== undefined) references.templates.add(event.template_id);
    yield event;
  }
}

/** An event that cannot be read keeps its type and time. */
function* markUnreadable(rows: Iterable<TrailEventRow>): Generator<TrailEventRow> {
  for (const row of rows)
    yield readStoredJsonOrNull(row.event_json, isObject) === null ? { ...row, event_json: '{"unreadable":true}' } : row;
}

/** Reports an artifact and returns its record. */
function addArtifact(gathering: Gathering, row: PlacedArtifactRow): object {
  noteTime(gathering, row.last_modified_at);
  gathering.report.artifacts.add({
    name: row.reference_name ?? row.filename,
    fingerprint: row.fingerprint,
    filename: row.filename,
    trail: row.trail_name,
    commit: row.git_commit,
    build: row.build_url,
    createdBy: row.created_by,
    createdAt: row.created_at,
    state: row.state,
    reasons: truncateLines(readTexts(row.reasons_json) ?? []),
    statuses: readStoredJsonOrNull(row.attestations_json, isStatusList),
  });
  return toArtifactRecord(gathering.context, row);
}

function gatherAttestations(gathering: Gathering): void {
  addList(gathering, "attestations.json", {
    rows: gathering.context.store.auditPackages.listAttestations(gathering.subject),
    toRecord: (row) => addAttestation(gathering, row),
  });
  warnAboutSboms(gathering.report.attestations.items, gathering.files);
}

const CUSTOM_TYPE_PREFIX = "custom:";

/** The record of an attestation; notes what it refers to. */
export function readAttestation(
  { context, files, references }: Pick<Gathering, "context" | "files" | "references">,
  row: PlacedAttestationRow,
) {
  const { evidence_digest: digest, evidence_size: size } = row;
  const evidence = digest === null || size === null ? null : files.state(digest, size);
  const record = toAttestationRecord(context, row, evidence);
  if (row.control !== null) references.controls.add(row.control);
  const version = record.audit.custom_type_version;
  if (version !== null && row.type.startsWith(CUSTOM_TYPE_PREFIX))
    references.customTypes.add(JSON.stringify([version, row.type.slice(CUSTOM_TYPE_PREFIX.length)]));
  return { record, evidence };
}

/** Reports an attestation and returns its record. */
function addAttestation(gathering: Gathering, row: PlacedAttestationRow): object {
  const { report } = gathering;
  const { record, evidence } = readAttestation(gathering, row);
  noteTime(gathering, row.created_at);
  const belongsTo =
    row.scope === "trail" ? "the trail" : describeArtifacts(record.audit.belongs_to, row.target_artifacts_json);
  report.attestations.add(toReportAttestation(row, belongsTo, evidence));
  return record;
}

/** Fingerprints that the report shows of the artifacts of one attestation, and characters of each. */
const MAX_SHOWN_FINGERPRINTS = 3;
const SHORT_FINGERPRINT_CHARS = 12;

/** The artifacts that an attestation was reported for, in words. */
function describeArtifacts(fingerprints: readonly string[], targetsJson: string | null): string {
  const targets = readTexts(targetsJson) ?? [];
  const name = targets.length > 0 ? `artifact ${targets.join(", ")}` : "artifact";
  if (fingerprints.length === 0) return `${name} (not reported yet)`;
  const shown = fingerprints
    .slice(0, MAX_SHOWN_FINGERPRINTS)
    .map((fingerprint) => fingerprint.slice(0, SHORT_FINGERPRINT_CHARS));
  const others = fingerprints.length - shown.length;
  return `${name} ${shown.join(", ")}${others > 0 ? ` and ${others} more` : ""}`;
}

/** Where the artifacts ran, with the evaluation behind each verdict. */
function gatherRuns(gathering: Gathering, fingerprints: readonly string[]): void {
  const { context, report, references } = gathering;
  const { store, organization } = context;
  const flowNames = new Map<number, string | undefined>();
  const flowName = (flowId: number): string | undefined => {
    if (!flowNames.has(flowId)) flowNames.set(flowId, store.flows.findPresentNames([flowId]).get(flowId));
    return flowNames.get(flowId);
  };
  const onPolicyVersion = (versionId: number): void => void references.policyVersions.add(versionId);
  addList(gathering, "environments.json", {
    rows: flatMapEach(fingerprints, (fingerprint) => store.auditPackages.listRuns(organization.id, fingerprint)),
    toRecord(row: RunRow) {
      const run = toRunRecord(context, row, { onPolicyVersion, flowName });
      noteTime(gathering, row.ended ?? row.started);
      report.runs.add(run);
      return run;
    },
  });
}

function gatherDeployments(gathering: Gathering, fingerprints: readonly string[]): void {
  const { store, organization } = gathering.context;
  addList(gathering, "deployments.json", {
    rows: flatMapEach(fingerprints, (fingerprint) => store.deployments.listByFingerprint(organization.id, fingerprint)),
    toRecord(row) {
      gathering.report.deployments += 1;
      noteTime(gathering, row.deployed_at);
      return presentDeployment(gathering.context, row);
    },
  });
}

function gatherAllowlist(gathering: Gathering, fingerprints: readonly string[]): void {
  const { store, organization } = gathering.context;
  addList(gathering, "allowlist.json", {
    rows: flatMapEach(fingerprints, (fingerprint) =>
      store.auditPackages.listAllowlistEntries(organization.id, fingerprint),
    ),
    toRecord(row) {
      noteTime(gathering, row.timestamp);
      gathering.report.allowances.add({
        environment: row.environment_name,
        artifact: row.artifact_name,
        fingerprint: row.fingerprint,
        reason: truncateText(row.description) ?? "",
        by: row.user_name,
        at: row.timestamp,
        until: row.expires_at ?? null,
      });
      return row;
    },
  });
}

function* flatMapEach<Key, Row>(keys: Iterable<Key>, rowsOf: (key: Key) => Iterable<Row>): Generator<Row> {
  for (const key of keys) yield* rowsOf(key);
}
