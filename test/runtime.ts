import type { EnvironmentType } from "../src/store/environments/environments.ts";
import type { Store } from "../src/store/index.ts";
import type { Db } from "../src/store/db/types.ts";

/** `created`: start of the first instance in epoch seconds; each further instance starts a second later. */
export type RunningArtifact = { name: string; fingerprint: string; instances?: number; created?: number };

/** Creates environments, and reports what runs in them, directly through the stores. */
export function runtime({ db, store }: { db: Db; store: Store }) {
  let ids = 0;
  return {
    /** Creates an environment without snapshots, or a logical one with these members; returns its id. */
    environment(
      organizationId: number,
      name: string,
      type: EnvironmentType = "K8S",
      members: readonly number[] = [],
    ): number {
      const id = Number(
        db
          .prepare(
            `INSERT INTO environments (public_id, organization_id, name, type, created_at, last_modified_at)
             VALUES (?, ?, ?, ?, 0, 0)`,
          )
          .run(`environment-${(ids += 1)}-${name}`, organizationId, name, type).lastInsertRowid,
      );
      const addMember = db.prepare(
        "INSERT INTO environment_members (logical_id, position, member_id) VALUES (?, ?, ?)",
      );
      for (const [position, member] of members.entries()) addMember.run(id, position, member);
      return id;
    },
    /** Attaches a policy that requires provenance; call it before the first report. */
    requireProvenance(organizationId: number, environment: number): void {
      const policy = Number(
        db
          .prepare(
            `INSERT INTO policies (public_id, organization_id, name, created_by, created_at, last_modified_at)
             VALUES (?, ?, ?, '', 0, 0)`,
          )
          .run(`policy-${(ids += 1)}`, organizationId, `policy-${ids}`).lastInsertRowid,
      );
      db.prepare(
        "INSERT INTO policy_versions (policy_id, version, timestamp, created_by, policy_yaml) VALUES (?, 1, 0, '', ?)",
      ).run(
        policy,
        "_schema: https://assay.example.com/schemas/policy/v1\nartifacts:\n  provenance:\n    required: true\n",
      );
      db.prepare("INSERT INTO environment_policies (environment_id, policy_id, position) VALUES (?, ?, 0)").run(
        environment,
        policy,
      );
      db.prepare("UPDATE environments SET revision = revision + 1 WHERE id = ?").run(environment);
    },
    /** Reports what runs; returns the index of the new snapshot, null if nothing changed. */
    report(environment: number, running: readonly RunningArtifact[], reporter = "reporter"): number | null {
      const artifacts = running.map(({ name, fingerprint, instances = 1, created = 1_600_000_000 }) => ({
        name,
        fingerprint,
        instances: { created: Array.from({ length: instances }, (_, index) => created + index) },
      }));
      return store.snapshotRecorder.record(store.environments.get(environment), {
        cause: "report",
        artifacts,
        actor: {
          publicId: `id-of-${reporter}`,
          displayName: reporter,
        },
      });
    },
  };
}
