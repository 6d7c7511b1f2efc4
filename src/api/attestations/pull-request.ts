/** Pull request attestations: the pull requests behind a commit. */
import { Type } from "typebox";
import { evaluatePullRequest } from "../../domain/attestation/verdicts.ts";
import { ExactlyOne, Maybe, OneOf, WithinBytes, named } from "../../http/schema.ts";
import { GitCommit, MAX_LIST_ITEMS, MAX_RESULTS_BYTES, MAX_TEXT_CHARS, Text, WebUrl } from "../../contract/shapes.ts";
import { attestationOperation } from "./report.ts";

/** A merge commit; empty for a pull request that is not merged. */
const MergeCommit = Type.String({ pattern: "^([a-f0-9]{40})?$", maxLength: 40 });

/**
 * Clients collect these objects from code hosts. Unknown keys are never refused, but stored and returned; only known
 * keys are checked (newer-clients 3.1).
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
      commit_sha: Maybe(Type.String({ maxLength: MAX_TEXT_CHARS, description: "The commit that was approved" })),
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
          maxLength: MAX_TEXT_CHARS,
          description: "Such as APPROVED, CHANGES_REQUESTED, COMMENTED or DISMISSED",
        }),
      ),
      timestamp: Maybe(EpochSeconds),
      commit_sha: Maybe(Type.String({ maxLength: MAX_TEXT_CHARS, description: "The commit that was reviewed" })),
      author_type: Maybe(Type.String({ maxLength: MAX_TEXT_CHARS, description: "Such as user, bot or other" })),
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
  head_sha: Maybe(Type.String({ maxLength: MAX_TEXT_CHARS, description: "The last commit of the pull request" })),
  base_ref: Maybe(Text),
  approvers: Maybe(Type.Array(ExactlyOne([PullRequestApprover, Text]), { maxItems: MAX_LIST_ITEMS })),
  reviews: Maybe(Type.Array(PullRequestReview, { maxItems: MAX_LIST_ITEMS })),
};
const Commits = Type.Array(GitCommit, { maxItems: MAX_LIST_ITEMS });

/** The older form, recognized by its merge commit. Keys of the newer form are checked here as well. */
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

export const postPullRequest = attestationOperation({
  segment: "pull_request",
  input: "PullRequestAttestationPostInput",
  form: "PullRequestAttestationForm",
  summary: "Report the pull requests behind a commit",
  description:
    "Compliant if there is at least one pull request. States, approvals and reviews are stored, but not evaluated. " +
    "Further keys of pull requests, approvers, reviews and commits are stored and returned.",
  payload: {
    git_provider: OneOf(["github", "gitlab", "bitbucket", "azure"]),
    // The newer form comes first: the errors of a report that matches neither form are about the first one.
    pull_requests: WithinBytes(
      MAX_RESULTS_BYTES,
      Type.Array(Type.Union([FoundPullRequestV2, FoundPullRequestV1]), { maxItems: MAX_LIST_ITEMS }),
    ),
  },
  evaluate: evaluatePullRequest,
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
