/** Data directories with snapshots for the tests of `assay explain`, with reproducible times and ids. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { EnvironmentType } from "../../../src/store/environments/environments.ts";
import { opened } from "../../store/given.ts";
import { inDirectory } from "../in-process.ts";

export const A = "a".repeat(64);
export const B = "b".repeat(64);
const ADA = { publicId: "ada-id", displayName: "Ada" };

/** Creates organization acme with environment prod (K8S) and a flow, and helpers to create more of both. */
export function world() {
  const house = opened();
  const { store, organizationId } = house;
  const environment = (name: string, type: EnvironmentType = "K8S"): number =>
    store.environments.create(organizationId, {
      name,
      type,
      description: "",
      includeScaling: false,
      requireProvenance: false,
    }).id;
  const prod = environment("prod");
  const flow = house.flow("backend");
  const policy = (name: string, yaml: string): number =>
    store.policies.put(organizationId, {
      name,
      description: "",
      user: "ada",
      file: { yaml: `_schema: https://assay.example.com/schemas/policy/v1\n${yaml}`, comment: "first" },
    }).policy.id;
  return {
    ...house,
    environment,
    prod,
    flow,
    otherFlow: house.flow,
    policy,
    attach: (environmentId: number, policyId: number): boolean =>
      store.environments.attachPolicies(environmentId, [policyId]),
    /** Reports running artifacts as [name, fingerprint]. @returns the index of the snapshot. */
    report: (environmentId: number, ...running: [string, string][]): number | null =>
      store.snapshotRecorder.record(store.environments.get(environmentId), {
        cause: "report",
        artifacts: running.map(([name, fingerprint]) => ({ name, fingerprint, instances: { created: [100] } })),
        actor: ADA,
      }),
    again: (environmentId: number, cause: "policies" | "policy_version" | "allowlist"): number | null =>
      store.snapshotRecorder.record(store.environments.get(environmentId), { cause, artifacts: null, actor: ADA }),
    allow: (environmentId: number, fingerprint: string, description: string): string =>
      store.allowlists.create(
        { id: environmentId, organization_id: organizationId },
        { fingerprint, artifact_name: "app", description, user_id: "eve-id", user_name: "Eve", expires_at: null },
      ),
    /** Reports an artifact to a new trail. */
    build(fingerprint: string, trailName: string): { trail: number; id: number } {
      const trail = house.trail(flow.id, trailName).id;
      const id = house.artifact(flow.id, trail, fingerprint, {
        referenceName: "app",
        git_commit: fingerprint.slice(0, 40),
      });
      store.trailEvaluation.evaluate(trail, house.clock.at);
      return { trail, id };
    },
    attest(at: { trail: number; id: number }, name: string, compliant: 0 | 1, evidence: string | null = null): string {
      const record = house.attestation(flow.id, at.trail, name, {
        scope: "artifact",
        is_compliant: compliant,
        evidence_digest: evidence,
        evidence_size: evidence === null ? null : 5,
        evidence_filename: evidence && "report.xml",
      });
      store.attestations.bindToArtifact({ trailId: at.trail, artifactId: at.id }, { id: record.id, name });
      store.trailEvaluation.evaluate(at.trail, house.clock.at);
      return record.publicId;
    },
  };
}

export const NEEDS_TESTS =
  "artifacts:\n  provenance:\n    required: true\n  attestations:\n    - name: tests\n      type: generic\n";

/** Calls `body` with a data directory that contains a copy of `db`. */
export const asDirectory = (db: { serialize(): Buffer }, body: (data: string) => Promise<void>): Promise<void> =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    mkdirSync(data, { mode: 0o700 });
    writeFileSync(join(data, "assay.db"), db.serialize(), { mode: 0o600 });
    await body(data);
  });
