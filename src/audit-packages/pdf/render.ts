/** The readable report of a package: the first thing an auditor reads, and perhaps the only one. */
import { formatBytes, pluralize, formatTime } from "../format.ts";
import type { AuditReport, ReportTrail } from "../report.ts";
import { COLOR } from "./canvas.ts";
import { drawTrailChecklists } from "./checklist.ts";
import { drawAllowances, drawRuns } from "./environment-sections.ts";
import { drawArtifacts, drawAttestations, drawOverrides, drawTrails } from "./record-sections.ts";
import { createSheet } from "./sheet.ts";
import type { Sheet } from "./sheet.ts";
import { colorOfState } from "./states.ts";

/** The report as PDF. The same report gives the same bytes. */
export function renderReport(report: AuditReport): Uint8Array {
  const { about, asOf } = report;
  const kind = about.kind === "trail" ? "Trail" : "Artifact";
  const name = about.kind === "trail" ? about.trail : about.filename;
  const sheet = createSheet({
    title: `Audit report: ${kind.toLowerCase()} ${name}`,
    subject: `${about.organization} / ${about.flow}`,
    at: asOf,
  });
  for (const drawSection of SECTIONS) {
    // A damaged record may have any shape; the other sections are still useful.
    try {
      drawSection(sheet, report);
    } catch {
      sheet.warning("Part of this section is missing", [
        "A record is damaged in the server's database. The rest of this section cannot be shown.",
      ]);
    }
  }
  return sheet.finish({
    left: `${kind} ${name}`,
    right: `${about.organization} / ${about.flow}`,
    foot: `Audit report, records up to ${formatTime(asOf)}`,
  });
}

const SECTIONS: readonly ((sheet: Sheet, report: AuditReport) => void)[] = [
  drawSummary,
  warnOfOmittedEvidence,
  (sheet, { about, trails }) => {
    if (about.kind === "trail") for (const trail of trails.items) drawTrailChecklists(sheet, trail);
  },
  drawArtifacts,
  (sheet, report) => {
    if (report.about.kind === "artifact") drawTrails(sheet, report);
  },
  drawOverrides,
  drawAttestations,
  drawRuns,
  drawAllowances,
  drawAboutThisReport,
];

function drawSummary(sheet: Sheet, report: AuditReport): void {
  const { about } = report;
  const name = about.kind === "trail" ? about.trail : about.filename;
  sheet.text(`AUDIT REPORT · ${about.kind.toUpperCase()}`, { style: "bold", size: 8.5, color: COLOR.dim });
  sheet.space(4);
  sheet.text(name, { style: "bold", size: 19, maxLines: 3 });
  sheet.space(6);
  // An artifact has no verdict of its own but one per trail; the API shows that of the latest record.
  const subject = about.kind === "trail" ? report.trails.items.at(-1) : report.artifacts.items.at(-1);
  if (subject) sheet.badge({ word: subject.state, color: colorOfState(subject.state), size: 11 });
  sheet.space(4);
  if (about.kind === "trail") drawTrailFacts(sheet, report, report.trails.items[0]);
  else
    sheet.facts([
      ["Organization", about.organization],
      ["Flow", about.flow],
      ["Fingerprint", about.fingerprint, "mono"],
      ["Records", `${report.artifacts.total} in this flow`],
      ["Records up to", formatTime(report.asOf)],
      ["Page", about.url],
    ]);
  if (!subject) return;
  sheet.heading("Reasons");
  if (subject.reasons.length > 0) sheet.bullets(subject.reasons);
  else if (subject.state === "COMPLIANT") sheet.text("Everything that was expected was reported and is compliant.");
  else sheet.text("The server recorded no reasons.");
}

function drawTrailFacts(sheet: Sheet, { about, asOf, events }: AuditReport, trail: ReportTrail | undefined): void {
  const commit = trail?.commit ?? null;
  sheet.facts(
    [
      ["Organization", about.organization],
      ["Flow", about.flow],
      ["Description", trail?.description ?? null],
      ["Commit", commit?.sha1 ?? null, "mono"],
      ["Message", commit?.message ?? null],
      ["Author", commit?.author ?? null],
      ["Branch", commit?.branch ?? null],
      ["Committed", commit?.timestamp ? formatTime(commit.timestamp) : null],
      ["Origin", trail?.origin ?? null],
      ["Started", trail ? `${formatTime(trail.createdAt)} by ${trail.createdBy}` : null],
      ["Last changed", trail ? formatTime(trail.changedAt) : null],
      ["Records up to", formatTime(asOf)],
      ["History", pluralize(events, "event")],
      ["Page", about.url],
    ],
    { maxLines: 6 },
  );
}

/** Omitted files that are named; manifest.json has all of them. */
const MAX_OMITTED_SHOWN = 8;

function warnOfOmittedEvidence(sheet: Sheet, { omitted: { items, total } }: AuditReport): void {
  if (total === 0) return;
  sheet.space(10);
  const listed = items.slice(0, MAX_OMITTED_SHOWN);
  sheet.warning(
    total === 1 ? "One evidence file is not in the package" : `${total} evidence files are not in the package`,
    [
      total === 1
        ? "It was recorded, but the server no longer has it, or its copy differs from what was uploaded."
        : "They were recorded, but the server no longer has them, or its copies differ from what was uploaded.",
      ...listed.map(({ name, state, size }) => `${state}: ${name} (${formatBytes(size)})`),
      ...(total > listed.length ? [`and ${total - listed.length} more, listed in manifest.json`] : []),
    ],
  );
}

function drawAboutThisReport(sheet: Sheet, { evidence, attestations, artifacts, deployments }: AuditReport): void {
  sheet.heading("About this report");
  const counts = [
    pluralize(artifacts.total, "artifact record"),
    pluralize(attestations.total, "attestation"),
    pluralize(deployments, "deployment"),
  ].join(", ");
  const files = `${pluralize(evidence.files, "evidence file")} (${formatBytes(evidence.bytes)})`;
  sheet.text(
    `This report was made from records that were read at the same moment: ${counts} and ${files}. ` +
      "Times are in UTC. The audit package it belongs to has the complete records, the evidence, the texts of " +
      "templates and policies, and the SHA-256 of each file. Characters that cannot be printed are shown as their " +
      "Unicode code point, such as <U+200B>. Texts that are too long end in an ellipsis; they are complete in the " +
      "audit package.",
    { color: COLOR.dim },
  );
}
