/** Set-up for tests of environments: environments, members, policies and reports, written directly to the store. */
import type { ReportedArtifact } from "../../../src/domain/snapshot/normalize.ts";
import { storableReport } from "../../../src/store/environments/snapshot-survey.ts";
import type { Cause } from "../../../src/domain/snapshot/diff.ts";
import type { EnvironmentType, PhysicalType } from "../../../src/store/environments/environments.ts";
import { fresh } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { newPublicId } from "../../../src/clock.ts";

type At = { org: string; key: string };

export const REPORTER = { publicId: "reporter-id", displayName: "Reporter" };

/** The possible keys of an item in a report of each type, as the refusal of another key lists them. */
export const ITEM_KEYS: Record<PhysicalType, string> = {
  K8S: "digests, creationTimestamp, podName, namespace, owners",
  ECS: "digests, creationTimestamp, taskArn, cluster_name, service_name",
  S3: "digests, creationTimestamp",
  lambda: "digests, creationTimestamp",
  server: "digests, creationTimestamp",
  docker: "digests, creationTimestamp",
  "azure-apps": "digests, creationTimestamp, digests_source, app_name, app_kind",
  "cloud-run": "digests, creationTimestamp, kind, serviceName, revisionName, jobName",
};

export function runningIn({ store, db, clock }: TestServer) {
  const organizationId = ({ org }: At): number => (store.organizations.find(org) as { id: number }).id;
  const idOf = (at: At, name: string): number =>
    (store.environments.find(organizationId(at), name) as { id: number }).id;

  function look(environmentId: number, cause: Cause, artifacts: readonly ReportedArtifact[] | null): number | null {
    const { snapshotRecorder, environments } = store;
    return snapshotRecorder.apply(
      snapshotRecorder.plan(
        snapshotRecorder.readCurrent(environments.get(environmentId), cause, artifacts && storableReport(artifacts)),
      ),
      REPORTER,
    );
  }

  return {
    idOf,
    /** Creates an environment and returns its name. `members`: names. */
    environment(
      at: At,
      {
        name = fresh("env"),
        type = "docker",
        members = [],
      }: { name?: string; type?: EnvironmentType; members?: string[] } = {},
    ): string {
      db.prepare(
        "INSERT INTO environments (public_id, organization_id, name, type, created_at, last_modified_at) " +
          "VALUES (?, ?, ?, ?, ?, ?)",
      ).run(newPublicId(), organizationId(at), name, type, clock.at, clock.at);
      for (const [position, member] of members.entries())
        db.prepare("INSERT INTO environment_members (logical_id, position, member_id) VALUES (?, ?, ?)").run(
          idOf(at, name),
          position,
          idOf(at, member),
        );
      return name;
    },
    /** Attaches policies and re-evaluates the environment. */
    attach(at: At, environment: string, ...policies: string[]): void {
      const id = idOf(at, environment);
      for (const policy of policies)
        db.prepare(
          "INSERT INTO environment_policies (environment_id, policy_id, position) VALUES (@id, @policy, " +
            "(SELECT count(*) FROM environment_policies WHERE environment_id = @id))",
        ).run({ id, policy: store.policies.require({ id: organizationId(at), name: at.org }, policy).id });
      store.staleArtifacts.markPoliciesChanged(id);
      look(id, "policies", null);
    },
    /** Reports what runs. Returns the index of the new snapshot; null when none was made. */
    report: (at: At, environment: string, artifacts: readonly ReportedArtifact[]): number | null =>
      look(idOf(at, environment), "report", artifacts),
    /** Allows a fingerprint and re-evaluates the environment. */
    allow(at: At, environment: string, fingerprint: string): void {
      const id = idOf(at, environment);
      db.prepare(
        `INSERT INTO allowlist_entries
           (public_id, organization_id, environment_id, fingerprint, artifact_name, description, user_id, user_name,
            timestamp)
         VALUES (?, ?, ?, ?, 'x', 'because', 'u', 'U', 1)`,
      ).run(newPublicId(), organizationId(at), id, fingerprint);
      store.staleArtifacts.markAllowlisted(id, fingerprint);
      look(id, "allowlist", null);
    },
    /** The times of all snapshots of an environment, oldest first. */
    times: (at: At, environment: string): number[] =>
      db
        .prepare<[number], number>("SELECT timestamp FROM snapshots WHERE environment_id = ? ORDER BY idx")
        .pluck()
        .all(idOf(at, environment)),
  };
}

/** A running artifact with one instance per start. */
export const running = (name: string, fingerprint: string, ...created: number[]): ReportedArtifact => ({
  name,
  fingerprint,
  instances: { created: created.length === 0 ? [1_690_000_000] : created },
});
