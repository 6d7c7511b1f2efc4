import { verdictFromReasons } from "./verdict.ts";
import type { AttestationVerdict } from "./verdict.ts";

/** An issue that the commit references, and whether it exists in Jira (wire-contract 28). */
type JiraItem = {
  issue_id: string;
  issue_url: string;
  issue_exists: boolean;
  issue_fields?: Readonly<Record<string, unknown>>;
};

/** The part of a Jira report that its verdict depends on (wire-contract 6.1). */
type JiraPayload = { jira_results: readonly JiraItem[] };

/** Compliant when at least one issue is referenced and all of them exist (semantics 3.3). */
export function evaluateJira({ jira_results: items }: JiraPayload): AttestationVerdict {
  if (items.length === 0) return verdictFromReasons(["No Jira issue is referenced"]);
  return verdictFromReasons(
    items.filter((item) => !item.issue_exists).map((item) => `Jira issue '${item.issue_id}' does not exist`),
  );
}
