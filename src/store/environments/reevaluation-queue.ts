import type { EnvironmentRow } from "./environments.ts";
import type { jobStore } from "../db/jobs.ts";
import type { staleArtifactStore } from "./stale-artifacts.ts";
import type { Db } from "../db/types.ts";
import type { Actor } from "../actor.ts";

/** Payload of the jobs of kind `reevaluate`: which environment, and what its snapshot tells of its cause. */
export type ReevaluatePayload = {
  environment_id: number;
  /** Number of its snapshots when this was asked for. */
  snapshot_count: number;
  cause: "policy_version" | "policies" | "allowlist";
  /** Public id of who changed the policy, what is attached, or the allowlist. */
  user_id: string;
  /** The name that people saw of them. */
  user_name: string;
};

export type ReevaluationParts = { jobs: ReturnType<typeof jobStore>; staleness: ReturnType<typeof staleArtifactStore> };

export function reevaluationQueue(db: Db, { jobs, staleness }: ReevaluationParts) {
  const using = db.prepare<[number], { id: number; snapshot_count: number }>(
    `SELECT environment.id, environment.snapshot_count FROM environment_policies attachment JOIN environments environment ON environment.id = attachment.environment_id
     WHERE attachment.policy_id = ? AND environment.archived_at IS NULL ORDER BY attachment.environment_id`,
  );
  /** Adds the job. @returns its id. */
  function ask(
    { id, snapshot_count }: Pick<EnvironmentRow, "id" | "snapshot_count">,
    cause: ReevaluatePayload["cause"],
    by: Actor,
  ): number {
    const payload: ReevaluatePayload = {
      environment_id: id,
      snapshot_count,
      cause,
      user_id: by.publicId,
      user_name: by.displayName,
    };
    return jobs.add("reevaluate", payload);
  }

  return {
    enqueue: ask,
    /**
     * A policy got a new version: every active environment that it is attached to is evaluated again, by a job.
     * @param by who made the version.
     * @returns the ids of the jobs.
     */
    enqueueForPolicy(policyId: number, by: Actor): number[] {
      return using.all(policyId).map((environment) => {
        staleness.markPoliciesChanged(environment.id);
        return ask(environment, "policy_version", by);
      });
    },
  };
}
