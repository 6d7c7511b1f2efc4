/** A deployment (the start of an artifact in an environment) as responses show it. */
import { shownCommit } from "../domain/commit.ts";
import { FINGERPRINT } from "../domain/names.ts";
import type { Static } from "typebox";
import { Type } from "typebox";
import { Closed, Matching, Nullable, named } from "../http/schema.ts";
import { PageLinks, linksTo } from "./shapes.ts";
import { readSelector } from "../store/flows/artifact-selector.ts";
import { fromSqlBoolean } from "../store/db/database.ts";
import type { FlowRecord } from "../domain/compliance/environment.ts";
import type { DeploymentRow } from "../store/environments/deployments.ts";
import type { ReplacedRow } from "../store/environments/snapshots.ts";
import { spendRow } from "./large-json.ts";
import type { PresenterContext } from "./presenter-context.ts";
import { UNREADABLE } from "./placeholders.ts";
import { buildCompareUrl } from "../domain/network/urls.ts";

const ReplacedArtifact = named(
  "ReplacedArtifact",
  Closed({
    fingerprint: Matching(FINGERPRINT),
    artifact_name: Type.String(),
    trail_name: Nullable(Type.String()),
    git_commit: Nullable(Type.String()),
    commit_url: Nullable(Type.String()),
    snapshot_index: Type.Integer({ description: "The snapshot in which it had started" }),
    deployed_at: Type.Number({ description: "Epoch seconds" }),
    compliant: Nullable(Type.Boolean()),
    diff_url: Nullable(Type.String({ description: "Page of the code host that compares both commits" })),
  }),
);

export const DeploymentResponse = named(
  "DeploymentResponse",
  Closed({
    environment_name: Type.String(),
    fingerprint: Matching(FINGERPRINT),
    artifact_name: Nullable(Type.String({ description: "The name under which it started" })),
    flow_name: Nullable(Type.String({ description: "The flow that it was first reported to" })),
    trail_name: Nullable(Type.String()),
    repo_name: Nullable(Type.String()),
    git_commit: Nullable(Type.String()),
    commit_url: Nullable(Type.String()),
    snapshot_index: Nullable(Type.Integer({ description: "The snapshot in which it started" })),
    deployed_at: Type.Number({ description: "Epoch seconds" }),
    lead_time_seconds: Nullable(Type.Number({ description: "Time from the report of the build to the start" })),
    is_first_start: Type.Optional(
      Type.Boolean({ description: "With `first_starts`: whether the fingerprint had not started there before" }),
    ),
    commit_lead_time_seconds: Type.Optional(
      Nullable(
        Type.Number({
          description:
            "With `first_starts`: time from the commit to this start, if it is the first one; null for later starts " +
            "and where the time of the commit is unknown",
        }),
      ),
    ),
    compliant: Nullable(Type.Boolean({ description: "Verdict at the start; null if no policy was attached" })),
    replaced: Nullable(ReplacedArtifact),
    _links: Closed({ environment: PageLinks, snapshot: PageLinks, artifact: Type.Optional(PageLinks) }),
  }),
);

export function presentDeployment(
  context: Pick<PresenterContext, "urls" | "organization" | "answerBounds">,
  row: DeploymentRow,
  { hasFirstStarts = false }: { hasFirstStarts?: boolean } = {},
): Static<typeof DeploymentResponse> {
  spendRow(context, row);
  const { urls, organization } = context;
  const { name: org } = organization;
  const { snapshot_index: index, flow_name, artifact_public_id } = row;
  const environment = row.environment_name ?? UNREADABLE;
  return {
    environment_name: environment,
    fingerprint: row.fingerprint,
    artifact_name: row.artifact_name,
    flow_name,
    trail_name: row.trail_name,
    repo_name: row.repo_name,
    git_commit: artifact_public_id === null ? null : shownCommit(row.git_commit),
    commit_url: row.commit_url,
    snapshot_index: index,
    deployed_at: row.deployed_at,
    lead_time_seconds: row.built_at === null ? null : row.deployed_at - row.built_at,
    ...(hasFirstStarts ? presentFirstStart(row) : {}),
    compliant: fromSqlBoolean(row.compliant),
    replaced: presentReplaced(row),
    _links: {
      environment: linksTo(urls.environmentApi(org, environment), urls.environmentPage(org, environment)),
      snapshot: linksTo(urls.snapshotApi(org, environment, index), urls.snapshotPage(org, environment, index)),
      ...(flow_name === null || artifact_public_id === null
        ? {}
        : {
            artifact: linksTo(
              urls.artifactApi(org, flow_name, { fingerprint: row.fingerprint, selector: readSelector(row) }),
              urls.artifactPage(org, flow_name, { fingerprint: row.fingerprint, id: artifact_public_id }),
            ),
          }),
    },
  };
}

const presentFirstStart = ({ is_first: isFirst, committed_at: committed, deployed_at: started }: DeploymentRow) => ({
  is_first_start: isFirst === 1,
  commit_lead_time_seconds: isFirst === 0 || committed === null ? null : started - committed,
});

/** For the query of lists of deployments. */
export const FIRST_STARTS = {
  first_starts: Type.Optional(
    Type.Boolean({
      default: false,
      description: "Adds which starts are the first ones, and how long after the commit",
    }),
  ),
};

/** The artifact that ran before; null when there was none, or when its record is gone. */
function presentReplaced(row: DeploymentRow): Static<typeof ReplacedArtifact> | null {
  if (
    row.previous_fingerprint === null ||
    row.previous_name === null ||
    row.previous_snapshot_index === null ||
    row.previous_deployed_at === null
  )
    return null;
  return {
    fingerprint: row.previous_fingerprint,
    artifact_name: row.previous_name,
    trail_name: row.previous_trail_name,
    git_commit: row.previous_commit_url === null ? null : shownCommit(row.previous_commit),
    commit_url: row.previous_commit_url,
    snapshot_index: row.previous_snapshot_index,
    deployed_at: row.previous_deployed_at,
    compliant: fromSqlBoolean(row.previous_compliant),
    diff_url: diffUrl(row),
  };
}

/** The page that compares the commit with that of the replaced artifact; null unless both are known. */
function diffUrl({
  git_commit,
  commit_url,
  repo_url,
  previous_commit,
  previous_commit_url,
  previous_repo_url,
}: DeploymentRow): string | null {
  return buildCompareUrl(
    { sha: previous_commit, commitUrl: previous_commit_url ?? "", repoUrl: previous_repo_url },
    { sha: git_commit, commitUrl: commit_url ?? "", repoUrl: repo_url },
  );
}

/**
 * The page that compares the commit of an artifact with that of the artifact it replaced.
 * @param repoUrl of the artifact's record
 */
export const replacementUrl = (previous: ReplacedRow, flow: FlowRecord, repoUrl: string | null): string | null =>
  buildCompareUrl(
    { sha: previous.git_commit, commitUrl: previous.commit_url, repoUrl: previous.repo_url },
    { sha: flow.git_commit, commitUrl: flow.commit_url, repoUrl },
  );
