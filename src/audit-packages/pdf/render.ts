/** The readable report of a package: what an auditor reads first, and may be all that they read. */
import type { AttestationStatus } from "../../domain/compliance/attestation.ts";
import { countText, sizeText, utc } from "../readme.ts";
import type {
  AuditReport,
  ReportArtifact,
  ReportedAttestation,
  ReportedRun,
  ReportedTrail,
  Sample,
} from "../report.ts";
import { COLOR, createSheet } from "./sheet.ts";
import type { Cell, Color, Sheet } from "./sheet.ts";

/** The report as PDF. The same report gives the same bytes. */
export function renderReport(report: AuditReport): Uint8Array {
  const { about, asOf } = report;
  const name = about.kind === "trail" ? about.trail : about.filename;
  const kind = about.kind === "trail" ? "Trail" : "Artifact";
  const sheet = createSheet({
    title: `Audit report: ${kind.toLowerCase()} ${name}`,
    subject: `${about.organization} / ${about.flow}`,
    at: asOf,
  });
  const parts = [
    () => first(sheet, report, kind, name),
    () => lost(sheet, report),
    () => about.kind === "trail" && report.trails.items.forEach((trail) => checklist(sheet, trail)),
    () => artifacts(sheet, report),
    () => about.kind === "artifact" && trails(sheet, report),
    () => overrides(sheet, report),
    () => attestations(sheet, report),
    () => runs(sheet, report),
    () => allowances(sheet, report),
    () => closing(sheet, report),
  ];
  for (const part of parts) {
    // A damaged record may have any shape; the rest of the report is worth having all the same.
    try {
      part();
    } catch {
      sheet.warning("A part of the report is missing here", [
        "A record is damaged in the database of the server, and what follows it in this section could not be shown.",
      ]);
    }
  }
  return sheet.finish({
    left: `${kind} ${name}`,
    right: `${about.organization} / ${about.flow}`,
    foot: `Audit report, records until ${utc(asOf)}`,
  });
}

const STATE_COLORS: Record<string, Color> = {
  COMPLIANT: COLOR.good,
  "NON-COMPLIANT": COLOR.bad,
  INCOMPLETE: COLOR.open,
  MISSING: COLOR.open,
};
const stateColor = (state: string): Color => STATE_COLORS[state] ?? COLOR.unknown;

function first(sheet: Sheet, report: AuditReport, kind: string, name: string): void {
  const { about, asOf } = report;
  sheet.text(`AUDIT REPORT · ${kind.toUpperCase()}`, { style: "bold", size: 8.5, color: COLOR.dim });
  sheet.space(4);
  sheet.text(name, { style: "bold", size: 19, most: 3 });
  sheet.space(6);
  // An artifact has no verdict of its own but one in each trail; the latest record is the one that answers show.
  const subject = about.kind === "trail" ? report.trails.items.at(-1) : report.artifacts.items.at(-1);
  if (subject) sheet.badgeLine(subject.state, stateColor(subject.state), 11);
  sheet.space(4);
  if (about.kind === "trail") trailFacts(sheet, report, report.trails.items[0]);
  else
    sheet.facts([
      ["Organization", about.organization],
      ["Flow", about.flow],
      ["Fingerprint", about.fingerprint, "mono"],
      ["Records", `${report.artifacts.total} in this flow`],
      ["Records until", utc(asOf)],
      ["Page", about.url],
    ]);
  if (!subject) return;
  sheet.heading("Why");
  if (subject.reasons.length > 0) sheet.bullets(subject.reasons);
  else
    sheet.text(
      subject.state === "COMPLIANT"
        ? "Everything that was expected was reported, and all of it is compliant."
        : "The server recorded no reasons.",
    );
}

function trailFacts(sheet: Sheet, { about, asOf, events }: AuditReport, trail: ReportedTrail | undefined): void {
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
      ["Committed", commit?.timestamp ? utc(commit.timestamp) : null],
      ["Origin", trail?.origin ?? null],
      ["Begun", trail ? `${utc(trail.createdAt)} by ${trail.createdBy}` : null],
      ["Last change", trail ? utc(trail.changedAt) : null],
      ["Records until", utc(asOf)],
      ["History", `${events} events`],
      ["Page", about.url],
    ],
    { most: 6 },
  );
}

function lost(sheet: Sheet, { lost: { items, total } }: AuditReport): void {
  if (total === 0) return;
  sheet.space(10);
  const few = items.slice(0, 8).map(({ name, state, size }) => `${state}: ${name} (${sizeText(size)})`);
  sheet.warning(
    total === 1 ? "One evidence file is not in the package" : `${total} evidence files are not in the package`,
    [
      "They were recorded, but the server does not have them any more, or what it has is not what was uploaded.",
      ...few,
      ...(total > few.length ? [`and ${total - few.length} more, which manifest.json lists`] : []),
    ],
  );
}

/** What the template expects, against what was reported. */
function checklist(sheet: Sheet, { status }: ReportedTrail): void {
  sheet.heading("Checklist");
  if (!status) return sheet.text("The stored verdict of the trail cannot be read.");
  const entries = Object.entries(status.artifacts_statuses);
  if (status.attestations_statuses.length === 0 && entries.length === 0)
    return sheet.text("The template expects nothing, and nothing was reported.");
  if (status.attestations_statuses.length > 0) {
    sheet.text("The trail", { style: "bold", size: 10 });
    sheet.space(3);
    statuses(sheet, status.attestations_statuses);
  }
  const listed = entries.slice(0, MOST_CHECKLISTS);
  for (const [name, artifact] of listed) {
    sheet.space(5);
    sheet.titled(
      artifact.status,
      stateColor(artifact.status),
      `Artifact ${name}${artifact.unexpected ? " (unexpected)" : ""}`,
    );
    sheet.space(3);
    checklistOf(sheet, artifact.attestations_statuses);
  }
  cutNote(sheet, listed.length, entries.length, "artifacts", "trail.json", "first");
}

function checklistOf(sheet: Sheet, all: readonly AttestationStatus[] | null): void {
  if (all === null) sheet.text("The stored checklist cannot be read.");
  else if (all.length === 0) sheet.text("No attestations expected or reported.", { color: COLOR.dim });
  else statuses(sheet, all);
}

const MOST_CHECKLISTS = 100;
const MOST_STATUSES = 300;

function statuses(sheet: Sheet, all: readonly AttestationStatus[]): void {
  const listed = all.slice(0, MOST_STATUSES);
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
      { text: entry.attestation_type },
      { text: entry.unexpected ? "no" : "yes" },
      verdictCell(entry),
      { text: recordText(entry), color: COLOR.dim },
    ]),
  );
  cutNote(sheet, listed.length, all.length, "entries", "trail.json", "first");
}

function verdictCell({ status, is_compliant, overridden_attestation_id }: AttestationStatus): Cell {
  if (status === "MISSING") return { text: "MISSING", style: "bold", color: COLOR.open };
  const word = is_compliant === null ? "UNKNOWN" : is_compliant ? "COMPLIANT" : "NON-COMPLIANT";
  return {
    text: overridden_attestation_id === null ? word : `${word}, overridden`,
    style: "bold",
    color: stateColor(word),
  };
}

function recordText({ attestation_id, overridden_attestation_id }: AttestationStatus): string {
  if (overridden_attestation_id === null) return attestation_id ?? "";
  return attestation_id === null
    ? `override ${overridden_attestation_id}`
    : `${attestation_id}, override ${overridden_attestation_id}`;
}

function artifacts(sheet: Sheet, report: AuditReport): void {
  sheet.heading(report.about.kind === "trail" ? "Artifacts" : "Records of the artifact");
  if (report.artifacts.total === 0) return sheet.text("None was reported.");
  for (const artifact of report.artifacts.items) {
    sheet.titled(artifact.state, stateColor(artifact.state), artifact.name);
    sheet.facts([
      ["File", artifact.filename],
      ["Fingerprint", artifact.fingerprint, "mono"],
      ...(report.about.kind === "artifact" ? [["Trail", artifact.trail ?? "none"] as const] : []),
      ["Commit", artifact.commit, "mono"],
      ["Build", artifact.build],
      ["Reported", `${utc(artifact.createdAt)} by ${artifact.createdBy}`],
      ["Runs in", whereNow(report, artifact)],
    ]);
    sheet.bullets(artifact.reasons, { color: COLOR.bad });
    sheet.space(4);
    // In a trail they stand in its checklist.
    if (report.about.kind === "artifact") checklistOf(sheet, artifact.statuses);
    sheet.space(4);
  }
  cutOf(sheet, report.artifacts, "artifact records", "artifacts.json");
}

function whereNow({ runs: { items, total } }: AuditReport, { fingerprint }: ReportArtifact): string {
  const places = new Set(
    items
      .filter((run) => run.is_running && !run.environment.archived && run.artifact.fingerprint === fingerprint)
      .map(({ environment }) => environment.name),
  );
  if (places.size > 0) return [...places].join(", ");
  return total > items.length ? "none of the environments that this report lists" : "no environment";
}

function trails(sheet: Sheet, { trails: sample }: AuditReport): void {
  if (sample.total === 0) return;
  sheet.heading("Trails");
  for (const trail of sample.items) {
    sheet.titled(trail.state, stateColor(trail.state), trail.name);
    sheet.facts([
      ["Description", trail.description],
      ["Begun", `${utc(trail.createdAt)} by ${trail.createdBy}`],
      ["Last change", utc(trail.changedAt)],
    ]);
    sheet.bullets(trail.reasons);
    sheet.space(4);
    checklistOf(sheet, trail.status?.attestations_statuses ?? null);
    sheet.space(4);
  }
  cutOf(sheet, sample, "trails", "trails.json");
}

function overrides(sheet: Sheet, { attestations: { items, total } }: AuditReport): void {
  const found = items.filter(({ override }) => override !== null);
  if (found.length === 0) return;
  sheet.heading("Overrides");
  sheet.table(
    [
      { title: "Attestation", share: 18 },
      { title: "Overridden to", share: 15 },
      { title: "Reason", share: 37 },
      { title: "By", share: 15 },
      { title: "When", share: 15 },
    ],
    found.map(({ name, compliant, override, reportedBy, createdAt, belongsTo }): Cell[] => [
      { text: `${name} of ${belongsTo}` },
      { text: compliant ? "COMPLIANT" : "NON-COMPLIANT", style: "bold", color: compliant ? COLOR.good : COLOR.bad },
      { text: override?.reason ?? "" },
      { text: reportedBy },
      { text: utc(createdAt) },
    ]),
  );
  if (items.length < total)
    sheet.text(
      `Those among the last ${items.length} of ${total} attestations; attestations.json in the audit package has all of them.`,
      { color: COLOR.dim },
    );
}

function attestations(sheet: Sheet, { attestations: sample }: AuditReport): void {
  sheet.heading("Attestations");
  if (sample.total === 0) return sheet.text("None was reported.");
  sheet.text("Every report, oldest first. Of several with one name on the same trail or artifact the latest counts.", {
    color: COLOR.dim,
  });
  sheet.space(6);
  for (const one of sample.items) attestation(sheet, one);
  cutOf(sheet, sample, "attestations", "attestations.json");
}

function attestation(sheet: Sheet, one: ReportedAttestation): void {
  const verdict = one.compliant ? "COMPLIANT" : "NON-COMPLIANT";
  sheet.titled(verdict, stateColor(verdict), one.name);
  sheet.facts(
    [
      ["Type", one.override ? `override of ${one.override.type}` : one.type],
      ["Belongs to", one.belongsTo],
      ["Reported", `${utc(one.createdAt)} by ${one.reportedBy}`],
      ["Reason given", one.override?.reason ?? null],
      ["Description", one.description],
      ["Evidence", one.evidence ? evidenceText(one.evidence) : null],
      ["SHA-256", one.evidence?.digest ?? null, "mono"],
      ["Record", one.id, "mono"],
    ],
    { most: 8 },
  );
  sheet.bullets(one.facts, { most: 2, color: COLOR.dim });
  sheet.bullets(one.reasons, { color: COLOR.bad });
  sheet.space(8);
}

const evidenceText = ({ name, size, state }: NonNullable<ReportedAttestation["evidence"]>): string =>
  `${name} (${sizeText(size)})${state === "included" ? "" : `, ${state === "missing" ? "MISSING on the server" : "DAMAGED on the server"}`}`;

function runs(sheet: Sheet, { runs: sample }: AuditReport): void {
  sheet.heading("Environments");
  if (sample.total === 0) return sheet.text("No environment reported that it runs or ran.");
  sheet.text("Where it ran and runs, with the verdict of the policies that were in force there.", { color: COLOR.dim });
  sheet.space(6);
  for (const run of sample.items) place(sheet, run);
  cutOf(sheet, sample, "entries", "environments.json");
}

function place(sheet: Sheet, run: ReportedRun): void {
  const { environment, artifact, first_snapshot: from, last_snapshot: to, policies, reasons } = run;
  sheet.titled(
    run.verdict,
    stateColor(run.verdict),
    `${environment.name}${environment.archived ? " (archived)" : ""}: ${artifact.name}`,
  );
  const snapshots =
    to === null
      ? `#${from.index} until now`
      : to.index === from.index
        ? `#${from.index}`
        : `#${from.index} to #${to.index}`;
  sheet.facts([
    ["Fingerprint", artifact.fingerprint || "not resolved", "mono"],
    ["Snapshots", `${snapshots}, ${run.event.type}, ${countText(run.event.instances, "instance")}`],
    ["Time", `${utc(from.timestamp)}${to?.ended_at ? ` to ${utc(to.ended_at)}` : ""}`],
    ["Allowlist", run.allowlist_entry === null ? null : "allowed whatever the policies say"],
    [
      "Policies",
      policies === null
        ? "the stored verdict cannot be read"
        : policies.length === 0
          ? "none attached: the verdict is unknown"
          : null,
    ],
  ]);
  for (const policy of (policies ?? []).slice(0, MOST_POLICIES)) {
    sheet.text(`${policy.policy}, version ${policy.version}: ${policy.status}`, {
      style: "bold",
      color: stateColor(policy.status),
      most: 2,
    });
    const rules = policy.rules ?? [];
    sheet.bullets(
      rules
        .slice(0, MOST_RULES)
        .map(
          ({ rule, satisfied, outcomes }) =>
            `${satisfied === null ? "Not applicable" : satisfied ? "Satisfied" : "Not satisfied"}: ${rule}; ${outcomes.join("; ")}`,
        ),
      { indent: 8, most: 4 },
    );
    if (policy.rules === null) sheet.bullets(["The rules cannot be read any more."], { indent: 8 });
    cutNote(sheet, Math.min(rules.length, MOST_RULES), rules.length, "rules", "environments.json", "first");
  }
  cutNote(
    sheet,
    Math.min(policies?.length ?? 0, MOST_POLICIES),
    policies?.length ?? 0,
    "policies",
    "environments.json",
    "first",
  );
  if (policies === null) sheet.bullets((reasons ?? []).slice(0, MOST_RULES), { color: COLOR.bad });
  sheet.space(8);
}

const MOST_POLICIES = 5;
const MOST_RULES = 12;

function allowances(sheet: Sheet, { allowances: sample }: AuditReport): void {
  if (sample.total === 0) return;
  sheet.heading("Allowlist entries");
  sheet.table(
    [
      { title: "Environment", share: 18 },
      { title: "Artifact", share: 24 },
      { title: "Reason", share: 30 },
      { title: "By", share: 12 },
      { title: "When", share: 16 },
    ],
    sample.items.map(({ environment, artifact, fingerprint, reason, by, at }): Cell[] => [
      { text: environment },
      { text: `${artifact} (${fingerprint.slice(0, 12)})` },
      { text: reason },
      { text: by },
      { text: utc(at) },
    ]),
  );
  cutOf(sheet, sample, "entries", "allowlist.json");
}

function closing(
  sheet: Sheet,
  { evidence, attestations: { total }, artifacts: { total: records }, deployments }: AuditReport,
): void {
  sheet.heading("About this report");
  sheet.text(
    `It was made from the records of the server, all read at one moment: ${countText(records, "artifact record")}, ${countText(total, "attestation")}, ${countText(deployments, "deployment")} and ${countText(evidence.files, "evidence file")} of ${sizeText(evidence.bytes)}. Times are in UTC. ` +
      "The audit package that it belongs to holds the records in full, the evidence, the texts of templates and policies, and the SHA-256 of each file. " +
      "Characters that cannot be printed are shown by their Unicode code point, such as <U+200B>; texts that are too long end in dots, and are complete in the audit package.",
    { color: COLOR.dim },
  );
}

const cutOf = (sheet: Sheet, { items, total }: Sample<unknown>, what: string, file: string): void =>
  cutNote(sheet, items.length, total, what, file, "last");

/** A list that was cut never looks complete. */
function cutNote(
  sheet: Sheet,
  listed: number,
  total: number,
  what: string,
  file: string,
  which: "first" | "last",
): void {
  if (listed < total)
    sheet.warning(`The ${which} ${listed} of ${total} ${what}`, [
      `This list is cut. ${file} in the audit package has all of them.`,
    ]);
}
