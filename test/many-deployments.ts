/** Deployments without the reports that make them, for what is counted up to a limit. */
import type { TestServer } from "./given.ts";

/** Repeats the one deployment of an organization `times` times. */
export function repeatDeployment({ db }: Pick<TestServer, "db">, organization: string, times: number): void {
  const { changes } = db
    .prepare(
      `WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
       INSERT INTO deployments (organization_id, environment_id, snapshot_index, deployed_at, fingerprint,
                                artifact_name, compliant, ordinal, flow_id, artifact_id, reference_name)
       SELECT dep.organization_id, environment_id, snapshot_index, deployed_at, dep.fingerprint,
              artifact_name, compliant, ordinal, flow_id, artifact_id, reference_name
       FROM deployments dep JOIN organizations o ON o.id = dep.organization_id, numbers WHERE o.name = ?`,
    )
    .run(times, organization);
  if (changes !== times) throw new Error(`${organization} has ${changes / times} deployments`);
}
