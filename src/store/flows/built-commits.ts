/** What builds of one name in a flow brought: the records between two of them. Read-only. */
import { columnOrStub } from "../db/large-json.ts";
import type { DbReader } from "../db/types.ts";

/** A record of what a flow built. */
export type ComparedBuildRow = {
  id: number;
  flow_id: number;
  reference_name: string | null;
  git_commit: string | null;
  commit_url: string;
  repo_url: string | null;
  build_url: string;
  created_by: string;
};

/** What one build brought. Longer texts are stubs (db/large-json.ts). */
export type BuiltCommitsRow = {
  id: number;
  git_commit: string | null;
  commit_url: string;
  git_commit_info_json: string | null;
  commits_list_json: string | null;
};

/** Records of a flow that are searched for builds of one name. */
export const MAX_SEARCHED = 5_000;

export function builtCommitStore(db: DbReader) {
  const build = db.prepare<[number], ComparedBuildRow>(
    `SELECT a.id, a.flow_id, a.reference_name, a.git_commit, a.commit_url, a.repo_url, a.build_url, a.created_by
     FROM artifacts a WHERE a.id = ?`,
  );
  const builds = db.prepare<[number, number, number, string | null], BuiltCommitsRow>(
    `SELECT a.id, a.git_commit, a.commit_url, ${columnOrStub("a.git_commit_info_json")} AS git_commit_info_json,
            ${columnOrStub("a.commits_list_json")} AS commits_list_json
     FROM (SELECT id FROM artifacts WHERE flow_id = ? AND id > ? AND id <= ?
           ORDER BY id DESC LIMIT ${MAX_SEARCHED}) searched
       CROSS JOIN artifacts a ON a.id = searched.id
     WHERE a.reference_name IS ? ORDER BY searched.id DESC`,
  );
  const searched = db
    .prepare<[number, number, number], number>(
      `SELECT count(*) FROM (SELECT id FROM artifacts WHERE flow_id = ? AND id > ? AND id <= ?
                             LIMIT ${MAX_SEARCHED + 1})`,
    )
    .pluck();
  return {
    /** null when it is gone. */
    findBuild: (artifactId: number): ComparedBuildRow | null => build.get(artifactId) ?? null,
    /** The builds of one name in a flow after one record up to another, the newest first, row by row. */
    iterateBetween: (
      { flow_id: flow, reference_name: name }: Pick<ComparedBuildRow, "flow_id" | "reference_name">,
      after: number,
      last: number,
    ): IterableIterator<BuiltCommitsRow> => builds.iterate(flow, after, last, name),
    /** Records between, of any name: more than MAX_SEARCHED where `iterateBetween` does not look at all of them. */
    countBetween: (flowId: number, after: number, last: number): number => searched.get(flowId, after, last) ?? 0,
  };
}
