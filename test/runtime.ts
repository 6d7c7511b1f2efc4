/**
 * Environments, snapshots and what ran in them, put into the tables directly: for tests of what is told from them. Facts,
 * verdicts and times are what the test says; what a snapshot shows follows from them as the domain has it.
 */
import type { FlowRecord } from "../src/domain/compliance/environment.ts";
import { compareRunning } from "../src/domain/snapshot/diff.ts";
import type { Running } from "../src/domain/snapshot/diff.ts";
import type { Db } from "../src/store/database.ts";
import type { EnvironmentType } from "../src/store/environments.ts";

/** `flows`: what the facts say beside the defaults; at least the keys of the record, its flow and its trail. */
export type Ran = { name: string; fingerprint: string; instances?: number; compliant?: boolean | null; created?: number; flows?: readonly Partial<FlowRecord>[] };
type State = { id: number; count: number; running: (Running & { row: number; evaluation: number; facts: string })[] | null };

export function runtime(db: Db) {
  const states = new Map<number, State>();
  let ids = 0;
  const bit = (value: boolean | null): number | null => (value === null ? null : value ? 1 : 0);
  const insert = (table: string, values: Record<string, unknown>): number =>
    Number(
      db.prepare(`INSERT INTO ${table} (${Object.keys(values).join(", ")}) VALUES (${Object.keys(values).map(() => "?").join(", ")})`).run(...Object.values(values))
        .lastInsertRowid,
    );
  const organizationOf = (id: number) => db.prepare<[number], { organization_id: number }>("SELECT organization_id FROM environments WHERE id = ?").get(id)?.organization_id;

  /** Next to no facts; the test says what it is about. */
  const record = (flow: Partial<FlowRecord>): FlowRecord => ({
    flow_id: 0, flow: "flow", tags: {}, trail_id: null, trail: null, artifact_id: 0, reference_name: null, filename: "app", git_commit: "c".repeat(40),
    commit_url: "", committed_at: null, state: "COMPLIANT", reasons: [], candidates: [], deployment_id: null, ...flow,
  });

  function insertSnapshot(id: number, at: number, fields: Record<string, unknown>): number {
    const idx = db.prepare<[number], { n: number }>("SELECT snapshot_count + 1 AS n FROM environments WHERE id = ?").get(id)?.n ?? 0;
    insert("snapshots", {
      environment_id: id, idx, timestamp: at, cause: "report", compliant: null, compliant_count: 0, non_compliant_count: 0, unknown_count: 0,
      user_id: "user-1", user_name: "reporter", policy_versions_json: "[]", ...fields,
    });
    db.prepare("UPDATE environments SET snapshot_count = ?, last_changed_at = ? WHERE id = ?").run(idx, at, id);
    return idx;
  }

  return {
    /** An environment without snapshots; gives its key. */
    environment(organizationId: number, name: string, type: EnvironmentType = "K8S"): number {
      const id = insert("environments", { public_id: `env-${(ids += 1)}-${name}`, organization_id: organizationId, name, type, created_at: 0, last_modified_at: 0 });
      states.set(id, { id, count: 0, running: null });
      return id;
    },
    /** A snapshot of a physical environment if what runs changed; gives the index of the latest one. */
    snapshot(id: number, at: number, ran: readonly Ran[], { compliant = true, ...fields }: { compliant?: boolean | null; user_name?: string } = {}): number {
      const state = states.get(id) as State;
      const after = ran.map(({ name, fingerprint, instances = 1, compliant: verdict = true, created = at - 10, flows = [] }) => ({
        name, fingerprint, instances, compliant: verdict, provenance: JSON.stringify(flows), facts: JSON.stringify({ flows: flows.map(record) }),
        created: Array.from({ length: instances }, (_, place) => created + place),
      }));
      const { snapshot, running, exited } = compareRunning(state.running, after, "report");
      if (!snapshot) return state.count;
      const idx = (state.count = insertSnapshot(id, at, { compliant: bit(compliant), ...fields }));
      const organization_id = organizationOf(id);
      const close = db.prepare("UPDATE snapshot_artifacts SET last_index = ? WHERE environment_id = ? AND last_index > ?");
      close.run(idx - 1, id, idx);
      const evaluation = (verdict: boolean | null, facts: string): number =>
        insert("evaluations", { environment_id: id, compliant: bit(verdict), facts_json: facts, verdicts_json: "[]", reasons_json: "[]" });
      state.running = running.map(({ artifact, annotation, was, now }) => {
        const { name, fingerprint, facts, created, ...rest } = artifact;
        const evaluation_id = evaluation(rest.compliant, facts);
        const row = insert("snapshot_artifacts", {
          organization_id, environment_id: id, first_index: idx, fingerprint, name, annotation, was, now, compliant: bit(rest.compliant), evaluation_id,
          started_index: idx, instances_json: JSON.stringify({ created }),
        });
        return { name, fingerprint, facts, ...rest, row, evaluation: evaluation_id };
      });
      for (const { artifact, was } of exited)
        insert("snapshot_artifacts", {
          organization_id, environment_id: id, first_index: idx, last_index: idx, fingerprint: artifact.fingerprint, name: artifact.name, annotation: "exited",
          was, now: 0, compliant: bit(artifact.compliant), evaluation_id: artifact.evaluation, started_index: idx, instances_json: '{"created":[]}',
        });
      return idx;
    },
    /** A snapshot of a logical environment, caused by that one of a member. */
    caused(logical: number, at: number, member: number, memberIndex: number): number {
      return insertSnapshot(logical, at, { cause: "member", member_id: member, member_index: memberIndex });
    },
  };
}
