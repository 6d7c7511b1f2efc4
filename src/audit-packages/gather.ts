import { trailParts, trailPlaceholder } from "../contract/present-trail.ts";
import { wholeAllowance } from "../contract/large-json.ts";
import type { TrailEventValue } from "../contract/present-trail.ts";
import type { GitCommitInfoValue } from "../contract/shapes.ts";
import type { AttestationStatus } from "../domain/compliance/attestation.ts";
import type { TrailStatus } from "../domain/compliance/trail.ts";
import type { PackageSubject } from "../store/flows/audit-packages.ts";
import type { PlacedArtifactRow } from "../store/flows/artifacts.ts";
import type { TrailEventRow, TrailRow } from "../store/flows/trails.ts";
import type { EvidenceFiles, EvidenceState } from "./evidence.ts";
import { evidenceFileName, policyMember, templateMember, typeMember } from "./file-names.ts";
import { jsonWithList } from "./members.ts";
import type { Members } from "./members.ts";
import {
  readable,
  readableTexts,
  toArtifactRecord,
  toAttestationRecord,
  toControlRecord,
  toPolicyRecord,
  toRunRecord,
  toTypeRecord,
} from "./records.ts";
import { fewLines, reportAttestation, sampler, shortText } from "./report.ts";
import type {
  About,
  LostEvidence,
  AuditReport,
  ReportedAllowance,
  ReportArtifact,
  ReportedAttestation,
  ReportedRun,
  ReportedTrail,
} from "./report.ts";
import type { PresenterContext } from "../contract/presenter-context.ts";
import { presentDeployment } from "../contract/present-deployment.ts";

/** What the report lists of each kind, at most. */
const LISTED = { trails: 50, artifacts: 200, attestations: 500, runs: 200, allowances: 100, lost: 200 };

export function gather(
  showing: PresenterContext,
  subject: PackageSubject,
  files: EvidenceFiles,
  members: Members | null,
): AuditReport {
  const { store, organization } = showing;
  const source = store.auditPackages;
  const trails = sampler<ReportedTrail>(LISTED.trails, "last");
  const artifacts = sampler<ReportArtifact>(LISTED.artifacts, "last");
  const attestations = sampler<ReportedAttestation>(LISTED.attestations, "last");
  const runs = sampler<ReportedRun>(LISTED.runs, "last");
  const allowances = sampler<ReportedAllowance>(LISTED.allowances, "last");
  const lost = sampler<LostEvidence>(LISTED.lost);
  const report: AuditReport = {
    about: aboutOf(showing, subject),
    asOf: 0,
    trails,
    artifacts,
    attestations,
    runs,
    allowances,
    events: 0,
    deployments: 0,
    evidence: { files: 0, bytes: 0 },
    lost,
  };
  const templates = new Set<string>();
  const versions = new Set<number>();
  const types = new Set<string>();
  const controls = new Set<string>();

  const seen = (time: number | null): void => void (report.asOf = Math.max(report.asOf, time ?? 0));

  /** Writes a list, or only goes through it. */
  function list<Row>(name: string, rows: Iterable<Row>, tell: (row: Row) => unknown): void {
    const told = (function* () {
      for (const row of rows) {
        const value = tell(row);
        if (members) yield value;
      }
    })();
    if (members) members.list(name, told);
    else for (const _ of told);
  }

  function trail(row: TrailRow): object {
    const parts = trailParts(showing, [row]);
    let outline: ReturnType<typeof parts.outline>;
    try {
      outline = parts.outline(row, wholeAllowance());
    } catch {
      const { events: _, ...rest } = trailPlaceholder(showing, row);
      outline = rest;
    }
    const reasons = readableTexts(row.reasons_json) ?? [];
    templates.add(store.templates.publicIdOf(row.template_id));
    seen(row.last_modified_at);
    trails.add({
      name: row.name,
      description: shortText(row.description),
      createdBy: row.created_by,
      createdAt: row.created_at,
      changedAt: row.last_modified_at,
      origin: row.origin_url,
      commit: readable<GitCommitInfoValue>(row.git_commit_info_json) as ReportedTrail["commit"],
      state: row.state,
      reasons: fewLines(reasons),
      status: readable<TrailStatus>(row.compliance_json),
    });
    const { template, ...shown } = outline;
    return {
      ...shown,
      audit: {
        trail_id: row.public_id,
        reasons,
        template_inherited: row.template_inherited === 1,
        template_file: templateMember(store.templates.publicIdOf(row.template_id)),
      },
      template,
    };
  }

  function* events(row: TrailRow): Generator<TrailEventValue> {
    for (const event of trailParts(showing, [row]).events(row, withoutDamage(store.trails.eachEvent(row.id)))) {
      report.events += 1;
      seen(event.timestamp);
      if (event.template_id !== undefined) templates.add(event.template_id);
      yield event;
    }
  }

  function artifact(row: PlacedArtifactRow): object {
    seen(row.last_modified_at);
    artifacts.add({
      name: row.reference_name ?? row.filename,
      fingerprint: row.fingerprint,
      filename: row.filename,
      trail: row.trail_name,
      commit: row.git_commit,
      build: row.build_url,
      createdBy: row.created_by,
      createdAt: row.created_at,
      state: row.state,
      reasons: fewLines(readableTexts(row.reasons_json) ?? []),
      statuses: readable<AttestationStatus[]>(row.attestations_json),
    });
    return toArtifactRecord(showing, row);
  }

  function evidenceState(digest: string | null, size: number | null): EvidenceState | null {
    return digest === null || size === null ? null : files.state(digest, size);
  }

  function template(publicId: string): void {
    const content = source.template(publicId);
    if (content !== null) members?.text(templateMember(publicId), [content]);
  }

  function policies(): void {
    list(
      "policies.json",
      [...versions].sort((a, b) => a - b).flatMap((id) => source.policyVersion(id) ?? []),
      (row) => {
        for (const control of controlsOf(row.id)) controls.add(control);
        return toPolicyRecord(row);
      },
    );
    for (const id of [...versions].sort((a, b) => a - b)) {
      const row = source.policyVersion(id);
      if (row) members?.text(policyMember(row.name, row.version), [row.policy_yaml]);
    }
  }

  const flowNames = new Map<number, string | undefined>();
  function flowName(flowId: number): string | undefined {
    if (!flowNames.has(flowId)) flowNames.set(flowId, store.flows.presentNames([flowId]).get(flowId));
    return flowNames.get(flowId);
  }

  function controlsOf(versionId: number): string[] {
    try {
      return store.policies.parsed(versionId).controls.map(({ control }) => control);
    } catch {
      return [];
    }
  }

  function customTypes(): void {
    const used = [...types].sort().flatMap((key) => {
      const [version, name] = JSON.parse(key) as [number, string];
      return source.typeVersion(organization.id, name, version) ?? [];
    });
    list("custom-types.json", used, toTypeRecord);
    for (const { name, version, schema_json } of used)
      if (schema_json !== null) members?.text(typeMember(name, version), [schema_json]);
  }

  function evidence(): void {
    for (const file of evidenceIn(showing, subject, files)) {
      if (file.state !== "included") {
        lost.add(file);
        continue;
      }
      report.evidence.files += 1;
      report.evidence.bytes += file.size;
      members?.evidence(file);
    }
  }

  const flow = store.flows.get(subject.kind === "trail" ? store.trails.get(subject.trailId).flow_id : subject.flowId);
  members?.json("flow.json", {
    name: flow.name,
    id: flow.public_id,
    description: flow.description,
    visibility: flow.visibility,
    tags: store.flows.tags(flow.id),
    archived: flow.archived_at !== null,
    created_at: flow.created_at,
    template_file: templateMember(store.templates.publicIdOf(flow.template_id)),
  });
  templates.add(store.templates.publicIdOf(flow.template_id));

  if (subject.kind === "trail") {
    const row = store.trails.get(subject.trailId);
    const outline = trail(row);
    if (members) members.text("trail.json", jsonWithList(outline, "events", events(row)));
    else for (const _ of events(row));
    list("artifacts.json", source.artifacts(subject), artifact);
  } else {
    const trailIds = new Set<number>();
    list("artifacts.json", source.artifacts(subject), (row) => {
      if (row.trail_id !== null) trailIds.add(row.trail_id);
      return artifact(row);
    });
    list("trails.json", trailIds, (id) => trail(store.trails.get(id)));
  }
  list("attestations.json", source.attestations(subject), (row) => {
    const state = evidenceState(row.evidence_digest, row.evidence_size);
    const told = toAttestationRecord(showing, row, state);
    seen(row.created_at);
    if (row.control !== null) controls.add(row.control);
    const version = told.audit.custom_type_version;
    if (version !== null && row.type.startsWith("custom:"))
      types.add(JSON.stringify([version, row.type.slice("custom:".length)]));
    attestations.add(
      reportAttestation(
        row,
        row.scope === "trail" ? "the trail" : belongsTo(told.audit.belongs_to, row.target_artifacts_json),
        state,
      ),
    );
    return told;
  });
  const fingerprints = source.fingerprints(subject);
  list(
    "environments.json",
    each(fingerprints, (fingerprint) => source.runs(organization.id, fingerprint)),
    (row) => {
      const run = toRunRecord(showing, row, { used: (version) => versions.add(version), flowName });
      seen(row.ended ?? row.started);
      runs.add(run);
      return run;
    },
  );
  list(
    "deployments.json",
    each(fingerprints, (fingerprint) => store.deployments.ofFingerprint(organization.id, fingerprint)),
    (row) => {
      report.deployments += 1;
      seen(row.deployed_at);
      return presentDeployment(showing, row);
    },
  );
  list(
    "allowlist.json",
    each(fingerprints, (fingerprint) => source.allowed(organization.id, fingerprint)),
    (row) => {
      seen(row.timestamp);
      const { environment_name: environment, artifact_name, description, user_name, timestamp } = row;
      allowances.add({
        environment,
        artifact: artifact_name,
        fingerprint: row.fingerprint,
        reason: shortText(description) ?? "",
        by: user_name,
        at: timestamp,
      });
      return row;
    },
  );
  policies();
  list(
    "controls.json",
    [...controls].sort().flatMap((identifier) => source.control(organization.id, identifier) ?? []),
    toControlRecord,
  );
  customTypes();
  for (const publicId of [...templates].sort()) template(publicId);
  evidence();
  return report;
}

/** Every attached file once for each name that it has in the package, by digest. */
function* evidenceIn(
  { store }: PresenterContext,
  subject: PackageSubject,
  files: EvidenceFiles,
): Generator<LostEvidence & { mtime: number }> {
  let digest = "";
  let given = new Set<string>();
  for (const file of store.auditPackages.evidence(subject)) {
    const name = evidenceFileName(file.digest, file.filename);
    // One content under names that become the same is one member.
    if (file.digest !== digest) [digest, given] = [file.digest, new Set()];
    if (given.has(name)) continue;
    given.add(name);
    yield {
      name,
      digest: file.digest,
      size: file.size,
      state: files.state(file.digest, file.size),
      mtime: file.reported_at,
    };
  }
}

/** Every file that cannot be put into the package. */
export function* lostEvidence(
  showing: PresenterContext,
  subject: PackageSubject,
  files: EvidenceFiles,
): Generator<LostEvidence> {
  for (const { mtime: _, ...file } of evidenceIn(showing, subject, files)) if (file.state !== "included") yield file;
}

function aboutOf({ store, organization, urls }: PresenterContext, subject: PackageSubject): About {
  if (subject.kind === "trail") {
    const row = store.trails.get(subject.trailId);
    const flow = store.flows.get(row.flow_id).name;
    return {
      kind: "trail",
      organization: organization.name,
      flow,
      trail: row.name,
      trail_id: row.public_id,
      url: urls.trailPage(organization.name, flow, row.name),
    };
  }
  const { flowId, fingerprint } = subject;
  const row = store.artifacts.latest(flowId, fingerprint, null);
  if (!row) throw new Error(`artifact ${fingerprint} is gone`);
  const url = urls.artifactPage(organization.name, row.flow_name, fingerprint, row.public_id);
  return {
    kind: "artifact",
    organization: organization.name,
    flow: row.flow_name,
    fingerprint,
    filename: row.filename,
    url,
  };
}

/** What a record that is not the trail's own belongs to, in words. */
function belongsTo(fingerprints: readonly string[], targetsJson: string | null): string {
  const targets = readableTexts(targetsJson ?? "[]") ?? [];
  const name = targets.length > 0 ? `artifact ${targets.join(", ")}` : "artifact";
  if (fingerprints.length === 0) return `${name} (not reported yet)`;
  return `${name} ${fingerprints
    .slice(0, 3)
    .map((one) => one.slice(0, 12))
    .join(", ")}${fingerprints.length > 3 ? ` and ${fingerprints.length - 3} more` : ""}`;
}

function* each<Key, Row>(keys: Iterable<Key>, rowsOf: (key: Key) => Iterable<Row>): Generator<Row> {
  for (const key of keys) yield* rowsOf(key);
}

/** An event that cannot be read is told as one, with its type and time. */
function* withoutDamage(rows: Iterable<TrailEventRow>): Generator<TrailEventRow> {
  for (const row of rows)
    yield readable<object>(row.event_json) === null ? { ...row, event_json: '{"unreadable":true}' } : row;
}
