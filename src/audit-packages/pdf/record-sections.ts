/** The sections of the report on trails, artifacts and attestations. */
import { formatBytes, formatTime } from "../format.ts";
import { verdictText } from "../records.ts";
import type { AuditReport, ReportArtifact, ReportAttestation } from "../report.ts";
import { COLOR } from "./canvas.ts";
import { drawChecklist } from "./checklist.ts";
import type { Cell, Sheet } from "./sheet.ts";
import { colorOfState, stateBadge } from "./states.ts";
import { warnIfSampled } from "./truncation.ts";

export function drawArtifacts(sheet: Sheet, report: AuditReport): void {
  const isArtifactReport = report.about.kind === "artifact";
  sheet.heading(isArtifactReport ? "Records of the artifact" : "Artifacts");
  if (report.artifacts.total === 0) {
    sheet.text("None reported.");
    return;
  }
  for (const artifact of report.artifacts.items) {
    sheet.titleWithBadge(artifact.name, stateBadge(artifact.state));
    sheet.facts([
      ["File", artifact.filename],
      ["Fingerprint", artifact.fingerprint, "mono"],
      ["Trail", isArtifactReport ? (artifact.trail ?? "none") : null],
      artifact.commit === null ? ["Commit", "no commit"] : ["Commit", artifact.commit, "mono"],
      ["Build", artifact.build],
      ["Reported", `${formatTime(artifact.createdAt)} by ${artifact.createdBy}`],
      ["Running in", describeCurrentEnvironments(report, artifact)],
    ]);
    sheet.bullets(artifact.reasons, { color: COLOR.bad });
    sheet.space(4);
    // The report of a trail shows them in the trail's checklist.
    if (isArtifactReport) drawChecklist(sheet, artifact.statuses);
    sheet.space(4);
  }
  warnIfSampled(sheet, report.artifacts, { items: "artifact records", file: "artifacts.json" });
}

function describeCurrentEnvironments({ runs: { items, total } }: AuditReport, { fingerprint }: ReportArtifact): string {
  const environments = new Set(
    items
      .filter((run) => run.is_running && !run.environment.archived && run.artifact.fingerprint === fingerprint)
      .map(({ environment }) => environment.name),
  );
  if (environments.size > 0) return [...environments].join(", ");
  return total > items.length ? "none of the environments shown in this report" : "no environment";
}

export function drawTrails(sheet: Sheet, { trails }: AuditReport): void {
  if (trails.total === 0) return;
  sheet.heading("Trails");
  for (const trail of trails.items) {
    sheet.titleWithBadge(trail.name, stateBadge(trail.state));
    sheet.facts([
      ["Description", trail.description],
      ["Started", `${formatTime(trail.createdAt)} by ${trail.createdBy}`],
      ["Last changed", formatTime(trail.changedAt)],
    ]);
    sheet.bullets(trail.reasons);
    sheet.space(4);
    drawChecklist(sheet, trail.status?.attestations_statuses ?? null);
    sheet.space(4);
  }
  warnIfSampled(sheet, trails, { items: "trails", file: "trails.json" });
}

export function drawOverrides(sheet: Sheet, { attestations: { items, total } }: AuditReport): void {
  const overrides = items.filter(({ override }) => override !== null);
  if (overrides.length === 0) return;
  sheet.heading("Overrides");
  sheet.table(
    [
      { title: "Attestation", share: 18 },
      { title: "Overridden to", share: 15 },
      { title: "Reason", share: 37 },
      { title: "By", share: 15 },
      { title: "Time", share: 15 },
    ],
    overrides.map(({ name, compliant, override, reportedBy, createdAt, belongsTo }): Cell[] => [
      { text: `${name} of ${belongsTo}` },
      { text: verdictText(compliant), style: "bold", color: colorOfState(verdictText(compliant)) },
      { text: override?.reason ?? "" },
      { text: reportedBy },
      { text: formatTime(createdAt) },
    ]),
  );
  if (items.length < total)
    sheet.text(
      `This table covers the last ${items.length} of ${total} attestations. ` +
        "attestations.json in the audit package has all of them.",
      { color: COLOR.dim },
    );
}

export function drawAttestations(sheet: Sheet, { attestations }: AuditReport): void {
  sheet.heading("Attestations");
  if (attestations.total === 0) {
    sheet.text("None reported.");
    return;
  }
  sheet.text(
    "All attestations, oldest first. Of several with the same name on one trail or artifact, the latest counts.",
    { color: COLOR.dim },
  );
  sheet.space(6);
  for (const attestation of attestations.items) drawAttestation(sheet, attestation);
  warnIfSampled(sheet, attestations, { items: "attestations", file: "attestations.json" });
}

function drawAttestation(sheet: Sheet, attestation: ReportAttestation): void {
  const { override, evidence } = attestation;
  sheet.titleWithBadge(attestation.name, stateBadge(verdictText(attestation.compliant)));
  sheet.facts(
    [
      ["Type", override ? `override of ${override.type}` : attestation.type],
      ["Belongs to", attestation.belongsTo],
      ["Reported", `${formatTime(attestation.createdAt)} by ${attestation.reportedBy}`],
      ["Reason given", override?.reason ?? null],
      ["Description", attestation.description],
      ["Evidence", evidence && describeEvidence(evidence)],
      ["SHA-256", evidence?.digest ?? null, "mono"],
      ["Record", attestation.id, "mono"],
    ],
    { maxLines: 8 },
  );
  sheet.bullets(attestation.facts, { maxLines: 2, color: COLOR.dim });
  sheet.bullets(attestation.warnings, { maxLines: 3, color: COLOR.open });
  sheet.bullets(attestation.reasons, { color: COLOR.bad });
  sheet.space(8);
}

const EVIDENCE_NOTES = { included: "", missing: ", MISSING on the server", damaged: ", DAMAGED on the server" };

const describeEvidence = ({ name, size, state }: NonNullable<ReportAttestation["evidence"]>): string =>
  `${name} (${formatBytes(size)})${EVIDENCE_NOTES[state]}`;
