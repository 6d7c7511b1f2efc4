/** The sections of the report on where artifacts ran, and on the allowlist. */
import { pluralize, formatTime } from "../format.ts";
import type { AuditReport, ReportRun } from "../report.ts";
import { COLOR } from "./canvas.ts";
import type { Cell, Sheet } from "./sheet.ts";
import { colorOfState, stateBadge } from "./states.ts";
import { warnIfCut, warnIfSampled } from "./truncation.ts";

export function drawRuns(sheet: Sheet, { runs }: AuditReport): void {
  sheet.heading("Environments");
  if (runs.total === 0) {
    sheet.text("No environment has reported it as running.");
    return;
  }
  sheet.text("Where it ran, with the verdict of the policies in force at that time.", { color: COLOR.dim });
  sheet.space(6);
  for (const run of runs.items) drawRun(sheet, run);
  warnIfSampled(sheet, runs, { items: "entries", file: "environments.json" });
}

/** Policies of one run, and rules of one policy, that are shown. */
const MAX_POLICIES = 5;
const MAX_RULES = 12;

function drawRun(sheet: Sheet, run: ReportRun): void {
  const { environment, artifact, first_snapshot: first, last_snapshot: last, policies, reasons } = run;
  const title = `${environment.name}${environment.archived ? " (archived)" : ""}: ${artifact.name}`;
  sheet.titleWithBadge(title, stateBadge(run.verdict));
  sheet.facts([
    ["Fingerprint", artifact.fingerprint || "not resolved", "mono"],
    ["Snapshots", `${describeSnapshots(run)}, ${run.event.type}, ${pluralize(run.event.instances, "instance")}`],
    ["Time", `${formatTime(first.timestamp)}${last?.ended_at ? ` to ${formatTime(last.ended_at)}` : ""}`],
    ["Allowlist", run.allowlist_entry === null ? null : "allowed regardless of the policies"],
    ["Policies", describeMissingPolicies(policies)],
  ]);
  const listed = (policies ?? []).slice(0, MAX_POLICIES);
  for (const policy of listed) drawPolicy(sheet, policy);
  warnIfCut(sheet, {
    shown: listed.length,
    total: policies?.length ?? 0,
    part: "first",
    items: "policies",
    file: "environments.json",
  });
  if (policies === null) sheet.bullets((reasons ?? []).slice(0, MAX_RULES), { color: COLOR.bad });
  sheet.space(8);
}

function describeSnapshots({ first_snapshot: { index: first }, last_snapshot: last }: ReportRun): string {
  if (last === null) return `#${first} until now`;
  return last.index === first ? `#${first}` : `#${first} to #${last.index}`;
}

/** null when there are policies to show. */
function describeMissingPolicies(policies: ReportRun["policies"]): string | null {
  if (policies === null) return "the stored verdict cannot be read";
  return policies.length === 0 ? "none attached: the verdict is unknown" : null;
}

function drawPolicy(sheet: Sheet, policy: NonNullable<ReportRun["policies"]>[number]): void {
  sheet.text(`${policy.policy}, version ${policy.version}: ${policy.status}`, {
    style: "bold",
    color: colorOfState(policy.status),
    maxLines: 2,
  });
  if (policy.rules === null) {
    sheet.bullets(["The rules can no longer be read."], { indent: 8 });
    return;
  }
  const listed = policy.rules.slice(0, MAX_RULES);
  sheet.bullets(
    listed.map(({ rule, satisfied, outcomes }) => `${describeOutcome(satisfied)}: ${rule}; ${outcomes.join("; ")}`),
    { indent: 8, maxLines: 4 },
  );
  warnIfCut(sheet, {
    shown: listed.length,
    total: policy.rules.length,
    part: "first",
    items: "rules",
    file: "environments.json",
  });
}

const describeOutcome = (satisfied: boolean | null): string =>
  satisfied === null ? "Not applicable" : satisfied ? "Satisfied" : "Not satisfied";

export function drawAllowances(sheet: Sheet, { allowances }: AuditReport): void {
  if (allowances.total === 0) return;
  sheet.heading("Allowlist entries");
  sheet.table(
    [
      { title: "Environment", share: 18 },
      { title: "Artifact", share: 24 },
      { title: "Reason", share: 30 },
      { title: "By", share: 12 },
      { title: "Time", share: 16 },
    ],
    allowances.items.map(({ environment, artifact, fingerprint, reason, by, at, until }): Cell[] => [
      { text: environment },
      { text: `${artifact} (${fingerprint.slice(0, 12)})` },
      { text: reason },
      { text: by },
      { text: until === null ? formatTime(at) : `${formatTime(at)} until ${formatTime(until)}` },
    ]),
  );
  warnIfSampled(sheet, allowances, { items: "entries", file: "allowlist.json" });
}
