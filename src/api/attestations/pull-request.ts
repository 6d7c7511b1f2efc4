import { Type } from "typebox";
import { judgePullRequest } from "../../domain/attestation/pull-request.ts";
import { Closed, Maybe, OneOf, named } from "../../http/schema.ts";
import { GitCommit, LIST_LENGTH, Text, Url } from "../shapes.ts";
import { attestation } from "./report.ts";

/** A merge commit, or empty where the pull request was not merged. */
const MergeCommit = Type.String({ pattern: "^([a-f0-9]{40})?$" });

const FoundPullRequestV1 = named(
  "FoundPullRequestV1",
  Closed({ url: Url, state: Text, merge_commit: MergeCommit, approvers: Maybe(Type.Array(Text, { maxItems: LIST_LENGTH })) }),
);
const PullRequestApprover = named(
  "PullRequestApprover",
  Closed({ username: Text, state: Maybe(Text), timestamp: Maybe(Type.Number({ description: "Epoch seconds" })) }),
);
const FoundPullRequestV2 = named(
  "FoundPullRequestV2",
  Closed({
    url: Url,
    state: Text,
    author: Text,
    title: Maybe(Text),
    created_at: Maybe(Type.Number({ description: "Epoch seconds" })),
    merged_at: Maybe(Type.Number({ description: "Epoch seconds" })),
    head_ref: Maybe(Text),
    merge_commit: Maybe(MergeCommit),
    approvers: Maybe(Type.Array(Type.Union([PullRequestApprover, Text]), { maxItems: LIST_LENGTH })),
    commits: Type.Array(GitCommit, { maxItems: LIST_LENGTH }),
    base_ref: Maybe(Text),
  }),
);

export const postPullRequest = attestation({
  segment: "pull_request",
  input: "PullRequestAttestationPostInput",
  form: "PullRequestAttestationForm",
  summary: "Report the pull requests behind a commit",
  description: "Compliant when there is at least one pull request; its state and approvals are kept for policies of your own, but not judged.",
  payload: {
    git_provider: OneOf(["github", "gitlab", "bitbucket", "azure"]),
    pull_requests: Type.Array(Type.Union([FoundPullRequestV1, FoundPullRequestV2]), { maxItems: LIST_LENGTH }),
  },
  judge: (payload) => judgePullRequest(payload as Parameters<typeof judgePullRequest>[0]),
  facts: ({ git_provider, pull_requests }) => ({ git_provider, pull_requests }),
  example: {
    git_provider: "github",
    pull_requests: [
      {
        url: "https://github.com/acme/backend/pull/17",
        state: "MERGED",
        author: "ada",
        title: "Pay invoices twice as fast",
        merge_commit: "0f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112",
        base_ref: "main",
        approvers: [{ username: "grace", state: "APPROVED", timestamp: 1767225600 }],
        commits: [{ sha1: "0f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112", author: "Ada <ada@example.com>", message: "Pay faster", timestamp: 1767222000, verified: true }],
      },
    ],
  },
});
