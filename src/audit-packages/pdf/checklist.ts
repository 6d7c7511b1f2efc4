/** Checklists: what the template expects, next to what was reported. */
import type { AttestationStatus } from "../../domain/compliance/attestation.ts";
import { typeWordOf } from "../../domain/attestation/kinds.ts";
import type { ReportTrail } from "../report.ts";
import { verdictText } from "../records.ts";
import { COLOR } from "./canvas.ts";
import type { Cell, Sheet } from "./sheet.ts";
import { colorOfState, stateBadge } from "./states.ts";
import { warnIfCut } from "./truncation.ts";

/** Artifacts of one trail whose checklists are shown. */
const MAX_CHECKLISTS = 100;
/** Entries of one checklist that are shown. */
const MAX_ENTRIES = 300;

/** The section with the checklists of a trail and its artifacts. */
export function drawTrailChecklists(sheet: Sheet, { status }: ReportTrail): void {
  sheet.heading("Checklist");
  if (!status) {
    sheet.text("The stored verdict of the trail cannot be read.");
    return;
  }
  const artifacts = Object.entries(status.artifacts_statuses);
  if (status.attestations_statuses.length === 0 && artifacts.length === 0) {
    sheet.text("The template expects nothing, and nothing was reported.");
    return;
  }
  if (status.attestations_statuses.length > 0) {
    sheet.text("Trail", { style: "bold", size: 10 });
    sheet.space(3);
    drawEntries(sheet, status.attestations_statuses);
  }
  const listed = artifacts.slice(0, MAX_CHECKLISTS);
  for (const [name, artifact] of listed) {
    sheet.space(5);
    const title = `Artifact ${name}${artifact.unexpected ? " (unexpected)" : ""}`;
    sheet.titleWithBadge(title, stateBadge(artifact.status));
    sheet.space(3);
    drawChecklist(sheet, artifact.attestations_statuses);
  }
  warnIfCut(sheet, {
    shown: listed.length,
    total: artifacts.length,
    part: "first",
    items: "artifacts",
    file: "trail.json",
  });
}

/** One checklist; null where it cannot be read. */
export function drawChecklist(sheet: Sheet, entries: readonly AttestationStatus[] | null): void {
  if (entries === null) sheet.text("The stored checklist cannot be read.");
  else if (entries.length === 0) sheet.text("No attestations expected or reported.", { color: COLOR.dim });
  else drawEntries(sheet, entries);
}

function drawEntries(sheet: Sheet, entries: readonly AttestationStatus[]): void {
  const listed = entries.slice(0, MAX_ENTRIES);
  sheet.table(
    [
      { title: "Attestation", share: 23 },
      { title: "Type", share: 16 },
      { title: "Expected", share: 11 },
      { title: "Verdict", share: 19 },
      { title: "Record", share: 31 },
    ],
    listed.map((entry): Cell[] => [
      { text: entry.attestation_name },
      { text: typeWordOf(entry.attestation_type) },
      { text: entry.unexpected ? "no" : "yes" },
      verdictCell(entry),
      { text: describeRecord(entry), color: COLOR.dim },
    ]),
  );
  warnIfCut(sheet, {
    shown: listed.length,
    total: entries.length,
    part: "first",
    items: "entries",
    file: "trail.json",
  });
}

function verdictCell({ status, is_compliant, overridden_attestation_id }: AttestationStatus): Cell {
  if (status === "MISSING") return { text: "MISSING", style: "bold", color: COLOR.open };
  const verdict = verdictText(is_compliant);
  const text = overridden_attestation_id === null ? verdict : `${verdict}, overridden`;
  return { text, style: "bold", color: colorOfState(verdict) };
}

function describeRecord({ attestation_id, overridden_attestation_id }: AttestationStatus): string {
  if (overridden_attestation_id === null) return attestation_id ?? "";
  return attestation_id === null
    ? `override ${overridden_attestation_id}`
    : `${attestation_id}, override ${overridden_attestation_id}`;
}
