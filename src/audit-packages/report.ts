/**
 * What the readable report and the page for the auditor tell. It is bounded whatever the package holds: of lists that
 * are too long it has a part and their length, and the report says so.
 */
import type { AttestationStatus } from "../domain/compliance/attestation.ts";
import type { TrailStatus } from "../domain/compliance/trail.ts";
import { truncate } from "../domain/text/excerpt.ts";
import type { EvidenceState } from "./evidence.ts";
import { readable, readableTexts } from "./records.ts";
import type { RunRecord } from "./records.ts";
import type { PlacedAttestationRow } from "../store/attestations/attestation-rows.ts";

/** A part of a list that may be long. */
export type Sample<T> = { items: T[]; total: number };

export type About =
  | { kind: "trail"; organization: string; flow: string; trail: string; trail_id: string; url: string }
  | { kind: "artifact"; organization: string; flow: string; fingerprint: string; filename: string; url: string };

export type ReportedTrail = {
  name: string;
  description: string | null;
  createdBy: string;
  createdAt: number;
  changedAt: number;
  origin: string | null;
  commit: { sha1: string; message: string; author: string; branch: string; timestamp: number } | null;
  state: string;
  reasons: string[];
  status: TrailStatus | null;
};

export type ReportArtifact = {
  name: string;
  fingerprint: string;
  filename: string;
  trail: string | null;
  commit: string;
  build: string;
  createdBy: string;
  createdAt: number;
  state: string;
  reasons: string[];
  /** Its own checklist, null where it cannot be read. */
  statuses: AttestationStatus[] | null;
};

export type ReportedAttestation = {
  id: string;
  name: string;
  type: string;
  compliant: boolean;
  reportedBy: string;
  createdAt: number;
  belongsTo: string;
  description: string | null;
  reasons: string[];
  facts: string[];
  evidence: { name: string; digest: string; size: number; state: EvidenceState } | null;
  override: { reason: string; type: string } | null;
};

export type ReportedRun = RunRecord;
export type ReportedAllowance = {
  environment: string;
  artifact: string;
  fingerprint: string;
  reason: string;
  by: string;
  at: number;
};
export type LostEvidence = { name: string; digest: string; size: number; state: EvidenceState };

export type AuditReport = {
  about: About;
  /** Epoch seconds of the last thing that the package tells. */
  asOf: number;
  /** One for a trail; for an artifact, the trails to which it was reported. */
  trails: Sample<ReportedTrail>;
  artifacts: Sample<ReportArtifact>;
  attestations: Sample<ReportedAttestation>;
  runs: Sample<ReportedRun>;
  allowances: Sample<ReportedAllowance>;
  events: number;
  deployments: number;
  evidence: { files: number; bytes: number };
  lost: Sample<LostEvidence>;
};

/** Collects the first `limit` of what comes, or the last, and counts all of it. */
export function sampler<T>(limit: number, keep: "first" | "last" = "first"): Sample<T> & { add(item: T): void } {
  const items: T[] = [];
  return {
    items,
    total: 0,
    add(item) {
      this.total += 1;
      if (items.length < limit) items.push(item);
      else if (keep === "last") {
        items.shift();
        items.push(item);
      }
    },
  };
}

/** Characters of a text that the report keeps. */
const TEXT = 1_000;
/** Reasons and facts of one record that the report keeps. */
const LINES = 12;

/** The first lines of a list, each cut, and a line that says how many follow. */
export function fewLines(lines: readonly string[]): string[] {
  const few = lines.slice(0, LINES).map((line) => truncate(line, TEXT));
  return lines.length > LINES ? [...few, `... and ${lines.length - LINES} more`] : few;
}

export const shortText = (text: string | null): string | null => (text === null ? null : truncate(text, TEXT));

/** A record as the report tells it. @param belongsTo of what it is, in words */
export function reportAttestation(
  row: PlacedAttestationRow,
  belongsTo: string,
  evidence: EvidenceState | null,
): ReportedAttestation {
  const facts = readable<Record<string, unknown>>(row.payload_json) ?? {};
  return {
    id: row.public_id,
    name: row.name,
    type: row.type,
    compliant: row.is_compliant === 1,
    reportedBy: row.reported_by,
    createdAt: row.created_at,
    belongsTo,
    description: shortText(row.description),
    reasons: fewLines(readableTexts(row.reasons_json) ?? []),
    facts: row.type === "override" ? [] : fewLines(factLines(facts, row)),
    evidence:
      row.evidence_digest === null || evidence === null
        ? null
        : {
            name: truncate(row.evidence_filename ?? "file", 200),
            digest: row.evidence_digest,
            size: row.evidence_size ?? 0,
            state: evidence,
          },
    override:
      row.overridden_type === null
        ? null
        : { reason: shortText(String(facts["reason"] ?? "")) ?? "", type: row.overridden_type },
  };
}

type Facts = Record<string, any>;

/** The facts of a kind in a few lines; the record in attestations.json has all of them. */
function factLines(facts: Facts, row: PlacedAttestationRow): string[] {
  try {
    const {
      junit_results: suites,
      processed_snyk_results: snyk,
      jira_results: jira,
      pull_requests: requests,
      sonar_results: sonar,
    } = facts;
    if (Array.isArray(suites))
      return suites.map(
        (suite: Facts) =>
          `${suite["name"] ?? "suite"}: ${suite["total"]} tests, ${suite["failures"]} failures, ${suite["errors"]} errors, ${suite["skipped"]} skipped`,
      );
    if (Array.isArray(snyk?.results))
      return snyk.results.map(
        (result: Facts, place: number) =>
          `Result ${place + 1}: ${result["high_count"]} high, ${result["medium_count"]} medium, ${result["low_count"]} low findings`,
      );
    if (Array.isArray(jira))
      return jira.map((issue: Facts) => `${issue["issue_id"]}: ${issue["issue_exists"] ? "exists" : "does not exist"}`);
    if (Array.isArray(requests))
      return requests.map(
        (request: Facts) =>
          `${request["url"]} (${request["state"] ?? "state not told"}), approved by ${approvers(request)}`,
      );
    if (sonar) return [`Quality gate: ${sonar["qualityGate"]?.status ?? "none"}`];
    if (row.control !== null)
      return [`Control ${row.control}${row.control_version === null ? "" : `, version ${row.control_version}`}`];
    const data = facts["attestation_data"];
    return data === undefined ? [] : [`Data: ${JSON.stringify(data)}`];
  } catch {
    return ["The facts of this record cannot be read"];
  }
}

function approvers(request: Facts): string {
  const names = ((request["approvers"] ?? []) as (string | Facts)[]).map((one) =>
    typeof one === "string" ? one : String(one["username"] ?? ""),
  );
  return names.length === 0 ? "nobody" : names.join(", ");
}
