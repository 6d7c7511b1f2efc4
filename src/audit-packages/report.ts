/**
 * The content of the readable report and of the package's README. Its size is bounded whatever the package holds: of a
 * long list it has a sample and the total, and the report says so.
 */
import type { AttestationStatus } from "../domain/compliance/attestation.ts";
import type { TrailStatus } from "../domain/compliance/trail.ts";
import type { SbomSummary } from "../domain/sbom/summary.ts";
import { truncate } from "../domain/text/excerpt.ts";
import type { EvidenceState } from "./evidence.ts";
import type { RunRecord } from "./records.ts";

/** Some items of a list, and how many items the whole list has. */
export type Sample<T> = { items: T[]; total: number };
export type Sampler<T> = Sample<T> & { add(item: T): void };

/** The subject of a package, as manifest.json names it under `about`. */
export type About =
  | { kind: "trail"; organization: string; flow: string; trail: string; trail_id: string; url: string }
  | { kind: "artifact"; organization: string; flow: string; fingerprint: string; filename: string; url: string };

/** The same of a package with a binder. Times in epoch seconds. */
export type BinderAbout = {
  kind: "binder";
  organization: string;
  of: "control" | "environment" | "flow";
  name: string;
  from: number;
  to: number;
  url: string;
};

export type ReportTrail = {
  name: string;
  description: string | null;
  createdBy: string;
  createdAt: number;
  changedAt: number;
  origin: string | null;
  commit: { sha1: string; message: string; author: string; branch: string; timestamp: number } | null;
  state: string;
  reasons: string[];
  /** The checklist of the trail and its artifacts; null where it cannot be read. */
  status: TrailStatus | null;
};

export type ReportArtifact = {
  name: string;
  fingerprint: string;
  filename: string;
  trail: string | null;
  /** null: reported without one. */
  commit: string | null;
  build: string;
  createdBy: string;
  createdAt: number;
  state: string;
  reasons: string[];
  /** Its own checklist; null where it cannot be read. */
  statuses: AttestationStatus[] | null;
};

export type ReportAttestation = {
  id: string;
  name: string;
  /** The word of templates and policies. */
  type: string;
  compliant: boolean;
  reportedBy: string;
  createdAt: number;
  /** The trail or the artifacts it was reported for, in words. */
  belongsTo: string;
  description: string | null;
  reasons: string[];
  facts: string[];
  /** What the reader should know, and no verdict. */
  warnings: string[];
  /** What was reported about an SBOM; null for other types. */
  sbom: SbomSummary | null;
  evidence: { name: string; digest: string; size: number; state: EvidenceState } | null;
  override: { reason: string; type: string } | null;
};

export type ReportRun = RunRecord;
type ReportAllowance = {
  environment: string;
  artifact: string;
  fingerprint: string;
  reason: string;
  by: string;
  at: number;
  /** null: it does not end. */
  until: number | null;
};
/** An attached file that the package does not include. */
export type OmittedEvidence = { name: string; digest: string; size: number; state: EvidenceState };

export type AuditReport = {
  about: About;
  /** Epoch seconds of the latest event in the package. */
  asOf: number;
  /** One for a trail; for an artifact, the trails to which it was reported. */
  trails: Sample<ReportTrail>;
  artifacts: Sample<ReportArtifact>;
  attestations: Sample<ReportAttestation>;
  runs: Sample<ReportRun>;
  allowances: Sample<ReportAllowance>;
  events: number;
  deployments: number;
  evidence: { files: number; bytes: number };
  omitted: Sample<OmittedEvidence>;
};

/** Keeps the first or the last `limit` items added, and counts all of them. */
export function createSampler<T>(limit: number, keep: "first" | "last"): Sampler<T> {
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

/** Characters that the report shows of a text. */
const MAX_TEXT_CHARS = 1_000;
/** Reasons or facts that the report shows of one record. */
const MAX_LINES = 12;

/** The first lines of a list, each truncated, and a line with the number of the others. */
export function truncateLines(lines: readonly string[]): string[] {
  const first = lines.slice(0, MAX_LINES).map((line) => truncate(line, MAX_TEXT_CHARS));
  return lines.length > MAX_LINES ? [...first, `... and ${lines.length - MAX_LINES} more`] : first;
}

export const truncateText = (text: string | null): string | null =>
  text === null ? null : truncate(text, MAX_TEXT_CHARS);
