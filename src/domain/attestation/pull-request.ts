import { verdictFromReasons } from "./verdict.ts";
import type { AttestationVerdict } from "./verdict.ts";

/** The reduced form that older clients send (semantics 3.3). */
type PullRequestV1 = { url: string; state: string; merge_commit: string; approvers?: readonly string[] | null };

/** A commit of a pull request; `timestamp` in epoch seconds (wire-contract 28). */
type PullRequestCommit = {
  sha1: string;
  message?: string | null;
  author?: string | null;
  author_username?: string | null;
  branch?: string | null;
  timestamp?: number | null;
  url?: string | null;
  parents?: readonly string[] | null;
  verified?: boolean | null;
  signature_state?: string | null;
};

/** An approver; plain text in the old form. */
type PullRequestApprover = string | { username: string; state?: string | null; timestamp?: number | null };

/** The current form (wire-contract 28). Times in epoch seconds; `author` may be empty. */
type PullRequestV2 = {
  url: string;
  state: string;
  author: string;
  title?: string | null;
  created_at?: number | null;
  merged_at?: number | null;
  head_ref?: string | null;
  base_ref?: string | null;
  merge_commit?: string | null;
  approvers?: readonly PullRequestApprover[] | null;
  commits: readonly PullRequestCommit[];
};

/** The part of a pull request report that its verdict depends on (wire-contract 6.1). */
type PullRequestPayload = {
  git_provider: "github" | "gitlab" | "bitbucket" | "azure";
  pull_requests: readonly (PullRequestV1 | PullRequestV2)[];
};

/** Compliant when there is any pull request; state and approvals are left to policies (semantics 3.3). */
export function evaluatePullRequest({ pull_requests: pullRequests }: PullRequestPayload): AttestationVerdict {
  return verdictFromReasons(pullRequests.length === 0 ? ["No pull request was found"] : []);
}
