import { verdictFromReasons } from "./verdict.ts";
import type { AttestationVerdict } from "./verdict.ts";

/** An issue that the commit refers to, and whether Jira knows it (wire-contract 28). */
export type JiraItem = {
  issue_id: string;
  issue_url: string;
  issue_exists: boolean;
  issue_fields?: Readonly<Record<string, unknown>>;
};

/** The part of a Jira report that is judged (wire-contract 6.1). */
export type JiraPayload = { jira_results: readonly JiraItem[] };

/** Compliant with at least one reference, all of which exist (semantics 3.3). */
export function evaluateJira({ jira_results: items }: JiraPayload): AttestationVerdict {
  if (items.length === 0) return verdictFromReasons(["No Jira issue is referenced"]);
  return verdictFromReasons(
    items.filter((item) => !item.issue_exists).map((item) => `Jira issue '${item.issue_id}' does not exist`),
  );
}
