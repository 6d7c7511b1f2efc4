import { verdictFromReasons } from "./verdict.ts";
import type { AttestationVerdict } from "./verdict.ts";

/** One issue found by a scan (wire-contract 28). */
type SnykIssue = {
  id: string;
  message: string;
  locations?: readonly { uri: string; lines?: string }[];
  priority_score?: number | null;
};

/** One scan of a project (wire-contract 28). The lists are samples; only the counts decide the verdict. */
type SnykResult = {
  low_count: number;
  medium_count: number;
  high_count: number;
  low?: readonly SnykIssue[] | null;
  medium?: readonly SnykIssue[] | null;
  high?: readonly SnykIssue[] | null;
};

/** The part of a Snyk report that its verdict depends on (wire-contract 6.1). */
type SnykPayload = {
  snyk_results: { schema_version?: number; tool: { name: string; version: string }; results: readonly SnykResult[] };
};

/**
 * Any finding of any severity in any result fails. An empty list of results passes: the scan ran and had nothing to
 * scan (semantics 3.3 and 13.22).
 */
export function evaluateSnyk({ snyk_results: { results } }: SnykPayload): AttestationVerdict {
  const reasons: string[] = [];
  for (const [index, { high_count: high, medium_count: medium, low_count: low }] of results.entries()) {
    if (high > 0 || medium > 0 || low > 0) {
      reasons.push(`Result ${index + 1} has ${high} high, ${medium} medium and ${low} low findings`);
    }
  }
  return verdictFromReasons(reasons);
}
