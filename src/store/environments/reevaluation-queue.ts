/** Requests for the re-evaluation of environments: jobs, added in the transaction of the change that caused them. */
import type { EnvironmentRow } from "./environments.ts";
import type { jobStore } from "../db/jobs.ts";
import type { staleArtifactStore } from "./stale-artifacts.ts";
import type { DbReader } from "../db/types.ts";
import type { Actor } from "../actor.ts";

/** Payload of the jobs of kind `reevaluate`: the environment, and the cause that its snapshot will record. */
export type ReevaluatePayload = {
  environment_id: number;
  /** Number of its snapshots when the job was added. */
  snapshot_count: number;
  cause: "policy_version" | "policies" | "allowlist";
  /** Public id of the user who changed the policy, the attachments or the allowlist. */
  user_id: string;
  /** The display name of that user at the time. */
  user_name: string;
};

type ReevaluationParts = { jobs: ReturnType<typeof jobStore>; staleness: ReturnType<typeof staleArtifactStore> };

export function reevaluationQueue(db: DbReader, { jobs, staleness }: ReevaluationParts) {
  const environmentsOf = db.prepare<[number], { id: number; snapshot_count: number }>(
    `SELECT env.id, env.snapshot_count FROM environment_policies ep JOIN environments env ON env.id = ep.environment_id
     WHERE ep.policy_id = ? AND env.archived_at IS NULL ORDER BY ep.environment_id`,
  );
  /** Adds the job. @returns its id. */
  function enqueue(
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
    enqueue,
    /**
     * Adds a job for every active environment that a policy with a new version is attached to.
     * @param by the author of the version.
     * @returns the ids of the jobs.
     */
    enqueueForPolicy(policyId: number, by: Actor): number[] {
      return environmentsOf.all(policyId).map((environment) => {
        staleness.markPoliciesChanged(environment.id);
        return enqueue(environment, "policy_version", by);
      });
    },
  };
}
