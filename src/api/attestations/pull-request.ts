import { Type } from "typebox";
import { judgePullRequest } from "../../domain/attestation/pull-request.ts";
import { Maybe, OneOf, WithinBytes, named } from "../../http/schema.ts";
import { GitCommit, LIST_LENGTH, MAX_RESULTS_BYTES, TEXT_LENGTH, Text, WebUrl } from "../../contract/shapes.ts";
import { attestation } from "./report.ts";

/** A merge commit, or empty where the pull request was not merged. */
const MergeCommit = Type.String({ pattern: "^([a-f0-9]{40})?$", maxLength: 40 });

/**
 * What clients gather from a forge is never refused for a key that is not known here: it is kept and returned, and only
 * the known keys are checked (newer-clients 3).
 */
const open = { additionalProperties: true };
const EpochSeconds = Type.Number({ description: "Epoch seconds" });

const PullRequestApprover = named(
  "PullRequestApprover",
  Type.Object(
    {
      username: Text,
      state: Maybe(Text),
      timestamp: Maybe(EpochSeconds),
      commit_sha: Maybe(Type.String({ maxLength: TEXT_LENGTH, description: "The commit that was approved" })),
    },
    open,
  ),
);
const PullRequestReview = named(
  "PullRequestReview",
  Type.Object(
    {
      username: Maybe(Text),
      state: Maybe(
        Type.String({
          maxLength: TEXT_LENGTH,
          description: "Such as APPROVED, CHANGES_REQUESTED, COMMENTED or DISMISSED",
        }),
      ),
      timestamp: Maybe(EpochSeconds),
      commit_sha: Maybe(Type.String({ maxLength: TEXT_LENGTH, description: "The commit that was reviewed" })),
      author_type: Maybe(Type.String({ maxLength: TEXT_LENGTH, description: "Such as user, bot or other" })),
      has_write_access: Maybe(Type.Boolean()),
    },
    open,
  ),
);
const optionalKeys = {
  title: Maybe(Text),
  created_at: Maybe(EpochSeconds),
  merged_at: Maybe(EpochSeconds),
  head_ref: Maybe(Text),
  head_sha: Maybe(Type.String({ maxLength: TEXT_LENGTH, description: "The last commit of the pull request" })),
  base_ref: Maybe(Text),
  approvers: Maybe(Type.Array(Type.Union([PullRequestApprover, Text]), { maxItems: LIST_LENGTH })),
  reviews: Maybe(Type.Array(PullRequestReview, { maxItems: LIST_LENGTH })),
};
const Commits = Type.Array(GitCommit, { maxItems: LIST_LENGTH });

/** The older form is known by its merge commit. Keys of the newer form that stand in it are checked all the same. */
const FoundPullRequestV1 = named(
  "FoundPullRequestV1",
  Type.Object(
    {
      url: WebUrl,
      state: Text,
      merge_commit: MergeCommit,
      author: Type.Optional(Text),
      commits: Type.Optional(Commits),
      ...optionalKeys,
    },
    open,
  ),
);
const FoundPullRequestV2 = named(
  "FoundPullRequestV2",
  Type.Object(
    { url: WebUrl, state: Text, author: Text, commits: Commits, merge_commit: Maybe(MergeCommit), ...optionalKeys },
    open,
  ),
);

export const postPullRequest = attestation({
  segment: "pull_request",
  input: "PullRequestAttestationPostInput",
  form: "PullRequestAttestationForm",
  summary: "Report the pull requests behind a commit",
  description:
    "Compliant when there is at least one pull request; its state, approvals and reviews are kept for policies of" +
    " your own, but not judged. Further keys of pull requests, approvers, reviews and commits are kept and " +
    "returned.",
  payload: {
    git_provider: OneOf(["github", "gitlab", "bitbucket", "azure"]),
    // The newer form comes first: of a report that fits neither, its problems are the ones to name.
    pull_requests: WithinBytes(
      MAX_RESULTS_BYTES,
      Type.Array(Type.Union([FoundPullRequestV2, FoundPullRequestV1]), { maxItems: LIST_LENGTH }),
    ),
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
        commits: [
          {
            sha1: "0f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112",
            author: "Ada <ada@example.com>",
            message: "Pay faster",
            timestamp: 1767222000,
            verified: true,
          },
        ],
      },
    ],
  },
});
