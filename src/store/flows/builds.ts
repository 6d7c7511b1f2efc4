/**
 * Builds: the first record of each fingerprint in an organization (semantics 8.1), in a table of their own, so that a
 * time window is an index range.
 *
 * Invariant: derived from the artifact records and written in their transaction.
 */
import { selectorColumn } from "./artifact-selector.ts";
import type { Db } from "../db/types.ts";

/** A build as responses show it, with current names. Columns of a deleted row are null. */
export type BuildRow = {
  /** Epoch seconds of the first report. */
  created_at: number;
  artifact_public_id: string | null;
  selector_json: string;
  fingerprint: string | null;
  filename: string | null;
  git_commit: string | null;
  commit_url: string | null;
  build_url: string | null;
  flow_name: string | null;
  /** null also for an artifact reported without a trail. */
  trail_name: string | null;
  repo_name: string | null;
  repo_public_id: string | null;
  repo_external_id: string | null;
};

/** The builds that a list includes. `repoIds` null: any repository. Both bounds, in epoch seconds, are inclusive. */
export type BuildFilter = { organizationId: number; repoIds: readonly number[] | null; from: number; to: number };

const IN_WINDOW = "build.created_at >= @from AND build.created_at <= @to";
/** Each has an index that ends in the time. */
const CHOICES = {
  organization: "build.organization_id = @organization",
  repo: "build.repo_id = @repo",
  repos: "build.repo_id IN (SELECT value FROM json_each(@repos))",
};

type Parameters = { organization: number; repo: number | null; repos: string; from: number; to: number };

export function buildStore(db: Db) {
  const prepareChoice = (choice: string) => {
    const where = `builds AS build WHERE ${choice} AND ${IN_WINDOW}`;
    return {
      list: db.prepare<[Parameters & { limit: number; offset: number }], BuildRow>(
        `SELECT page.created_at, a.public_id AS artifact_public_id, a.fingerprint, a.filename, a.git_commit,
                a.commit_url, a.build_url, f.name AS flow_name, t.name AS trail_name, r.name AS repo_name,
                r.public_id AS repo_public_id,
                r.external_id AS repo_external_id, ${selectorColumn("a")}
         FROM (SELECT build.artifact_id, build.repo_id, build.created_at FROM ${where}
               ORDER BY build.created_at DESC, build.artifact_id DESC LIMIT @limit OFFSET @offset) AS page
           LEFT JOIN artifacts a ON a.id = page.artifact_id
           LEFT JOIN flows f ON f.id = a.flow_id
           LEFT JOIN trails t ON t.id = a.trail_id
           LEFT JOIN repos r ON r.id = page.repo_id
         ORDER BY page.created_at DESC, page.artifact_id DESC`,
      ),
      count: db.prepare<[Parameters], number>(`SELECT count(*) FROM ${where}`).pluck(),
      times: db
        .prepare<[Parameters], number>(`SELECT build.created_at FROM ${where} ORDER BY build.created_at`)
        .pluck(),
    };
  };
  const statements = {
    organization: prepareChoice(CHOICES.organization),
    repo: prepareChoice(CHOICES.repo),
    repos: prepareChoice(CHOICES.repos),
  };
  // The first record has the lowest id.
  const insertIfFirst = db.prepare(
    `INSERT INTO builds (artifact_id, organization_id, repo_id, created_at)
     SELECT a.id, a.organization_id, a.repo_id, a.created_at FROM artifacts a
     WHERE a.id = ? AND a.id = (SELECT min(same.id) FROM artifacts same
                                WHERE same.organization_id = a.organization_id AND same.fingerprint = a.fingerprint)`,
  );
  const setRepo = db.prepare(
    "UPDATE builds SET repo_id = @repo WHERE artifact_id = @artifact AND repo_id IS NOT @repo",
  );

  /** The statements for a filter, and their parameters. */
  function choose({ organizationId, repoIds, from, to }: BuildFilter) {
    const parameters: Parameters = {
      organization: organizationId,
      repo: repoIds?.[0] ?? null,
      repos: JSON.stringify(repoIds ?? []),
      from,
      to,
    };
    return { ...statements[repoIds === null ? "organization" : repoIds.length === 1 ? "repo" : "repos"], parameters };
  }

  return {
    /** Adds a build if a new artifact record is the first of its fingerprint. Call it in the write of the record. */
    recordArtifact: (artifactId: number): void => void insertIfFirst.run(artifactId),
    /** Replaces the repository of a build after a further report. Call it in the write of the report. */
    setRepo: (artifactId: number, repoId: number | null): void =>
      void setRepo.run({ artifact: artifactId, repo: repoId }),
    /** One page, newest first. */
    list(filter: BuildFilter, { limit, offset }: { limit: number; offset: number }): BuildRow[] {
      if (limit === 0) return [];
      const { list, parameters } = choose(filter);
      return list.all({ ...parameters, limit, offset });
    },
    /** How many builds `list` has on all pages. */
    count(filter: BuildFilter): number {
      const { count, parameters } = choose(filter);
      return count.get(parameters) ?? 0;
    },
    /** The times of all matching builds in epoch seconds, oldest first. */
    listTimes(filter: BuildFilter): number[] {
      const { times, parameters } = choose(filter);
      return times.all(parameters);
    },
  };
}
