/**
 * Asking for environments to be evaluated again, in the write of the change that makes it necessary (semantics 5.5). The job
 * finds out by itself what changed, so that asking twice costs time and nothing else.
 */
import type { Db } from "./database.ts";
import type { jobStore } from "./jobs.ts";

/** Payload of the jobs of kind `reevaluate`: which environment, and what its snapshot tells of its cause. */
export type ReevaluatePayload = {
  environment_id: number;
  cause: "policy_version" | "policies";
  /** Public id of who changed the policy. */
  user_id: string;
  /** The name that people saw of them. */
  user_name: string;
};

export function reevaluationStore(db: Db, { jobs }: { jobs: Pick<ReturnType<typeof jobStore>, "add"> }) {
  const using = db.prepare<[number], { id: number }>(
    `SELECT environment.id FROM environment_policies attachment JOIN environments environment ON environment.id = attachment.environment_id
     WHERE attachment.policy_id = ? AND environment.archived_at IS NULL ORDER BY attachment.environment_id`,
  );
  const move = db.prepare("UPDATE environments SET revision = revision + 1 WHERE id = ?");

  return {
    /**
     * A policy got a new version: every active environment that it is attached to is evaluated again, by a job.
     * @param by who made the version.
     * @returns the ids of the jobs.
     */
    policyVersion(policyId: number, by: { publicId: string; shownName: string }): number[] {
      return using.all(policyId).map(({ id }) => {
        move.run(id);
        const payload: ReevaluatePayload = { environment_id: id, cause: "policy_version", user_id: by.publicId, user_name: by.shownName };
        return jobs.add("reevaluate", payload);
      });
    },
  };
}
