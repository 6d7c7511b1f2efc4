/** An attestation as the readable report shows it: who reported what, and the facts of its kind in a few lines. */
import { readReportedMembers } from "../contract/reported-json.ts";
import { SBOM_LABEL, typeWordOf } from "../domain/attestation/kinds.ts";
import { describeFormat, describeSubject, describeTools, readSbomSummary } from "../domain/sbom/summary.ts";
import type { SbomSummary } from "../domain/sbom/summary.ts";
import { truncate } from "../domain/text/excerpt.ts";
import { isObject, readStoredJsonOrNull } from "../domain/stored-json.ts";
import { stringifyJson } from "../json/text.ts";
import type { PlacedAttestationRow } from "../store/attestations/attestation-rows.ts";
import type { EvidenceState } from "./evidence.ts";
import { readTexts } from "./records.ts";
import { truncateLines, truncateText } from "./report.ts";
import type { ReportAttestation } from "./report.ts";

/** Characters that the report shows of the name of an attached file. */
const MAX_FILE_NAME_CHARS = 200;

/** @param belongsTo the trail or the artifacts that the attestation was reported for, in words */
export function toReportAttestation(
  row: PlacedAttestationRow,
  belongsTo: string,
  evidence: EvidenceState | null,
): ReportAttestation {
  const payload = readStoredJsonOrNull(row.payload_json, isPayload) ?? {};
  return {
    id: row.public_id,
    name: row.name,
    type: typeWordOf(row.type),
    compliant: row.is_compliant === 1,
    reportedBy: row.reported_by,
    createdAt: row.created_at,
    belongsTo,
    description: truncateText(row.description),
    reasons: truncateLines(readTexts(row.reasons_json) ?? []),
    facts: row.type === "override" ? [] : truncateLines(describeFacts(payload, row)),
    warnings: [],
    sbom: row.type === SBOM_LABEL ? readSbomSummary(payload.attestation_data) : null,
    evidence:
      row.evidence_digest === null || evidence === null
        ? null
        : {
            name: truncate(row.evidence_filename ?? "file", MAX_FILE_NAME_CHARS),
            digest: row.evidence_digest,
            size: row.evidence_size ?? 0,
            state: evidence,
          },
    override:
      row.overridden_type === null
        ? null
        : { reason: truncateText(String(payload.reason ?? "")) ?? "", type: typeWordOf(row.overridden_type) },
  };
}

type JunitSuite = { name?: string; total: number; failures: number; errors: number; skipped: number };
type SnykResult = { high_count: number; medium_count: number; low_count: number };
type JiraIssue = { issue_id: string; issue_exists: boolean };
type PullRequest = { url: string; state?: string | null; approvers?: (string | { username?: string })[] | null };
/** The payloads of all kinds in one shape: each kind has fields of its own. */
type Payload = {
  reason?: unknown;
  junit_results?: JunitSuite[];
  processed_snyk_results?: { results?: SnykResult[] };
  jira_results?: JiraIssue[];
  pull_requests?: PullRequest[];
  sonar_results?: { qualityGate?: { status?: string } };
  attestation_data?: unknown;
};
const isPayload = (value: unknown): value is Payload => isObject(value);

/** The facts of an attestation in a few lines; attestations.json has all of them. */
function describeFacts(
  payload: Payload,
  { type, control, control_version, payload_json }: PlacedAttestationRow,
): string[] {
  // A damaged payload may have any shape.
  try {
    if (Array.isArray(payload.junit_results)) return payload.junit_results.map(describeSuite);
    const snykResults = payload.processed_snyk_results?.results;
    if (Array.isArray(snykResults)) return snykResults.map(describeSnykResult);
    if (Array.isArray(payload.jira_results)) return payload.jira_results.map(describeIssue);
    if (Array.isArray(payload.pull_requests)) return payload.pull_requests.map(describePullRequest);
    if (payload.sonar_results) return [`Quality gate: ${payload.sonar_results.qualityGate?.status ?? "none"}`];
    if (type === SBOM_LABEL) return describeSbom(readSbomSummary(payload.attestation_data));
    if (control !== null)
      return [`Control ${control}${control_version === null ? "" : `, version ${control_version}`}`];
    if (payload.attestation_data === undefined) return [];
    return [`Data: ${stringifyJson(readReportedMembers(payload_json)["attestation_data"])}`];
  } catch {
    return ["The facts of this record cannot be read"];
  }
}

function describeSbom({ format, createdAt, tools, subject, packages }: SbomSummary): string[] {
  const notStated = "not stated";
  return [
    `Format: ${describeFormat(format)}`,
    `About: ${describeSubject(subject) || notStated}`,
    `Packages: ${packages ?? notStated}`,
    `Tools: ${describeTools(tools) || notStated}`,
    `Created: ${createdAt ?? notStated}`,
  ];
}

const describeSuite = ({ name, total, failures, errors, skipped }: JunitSuite): string =>
  `${name ?? "suite"}: ${total} tests, ${failures} failures, ${errors} errors, ${skipped} skipped`;

const describeSnykResult = ({ high_count, medium_count, low_count }: SnykResult, index: number): string =>
  `Result ${index + 1}: ${high_count} high, ${medium_count} medium, ${low_count} low findings`;

const describeIssue = ({ issue_id, issue_exists }: JiraIssue): string =>
  `${issue_id}: ${issue_exists ? "exists" : "does not exist"}`;

function describePullRequest({ url, state, approvers }: PullRequest): string {
  const names = (approvers ?? []).map((approver) =>
    typeof approver === "string" ? approver : String(approver.username ?? ""),
  );
  const approval = names.length === 0 ? "not approved" : `approved by ${names.join(", ")}`;
  return `${url} (${state ?? "unknown state"}), ${approval}`;
}
