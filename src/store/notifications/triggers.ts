/**
 * Raises the triggers of notification actions: every change that actions may watch calls this, in its own write, most
 * of them as an announcement (store/index.ts).
 * Without a watching action that costs one index lookup; otherwise it adds one job, however large the change. The job
 * makes the messages after the commit (notifications/compose-messages.ts), from rows that no longer change. So every
 * committed change gets its messages, in order, and a rolled-back one gets none.
 *
 * The job names the actions that were watching: later actions get no messages about earlier changes, and deleted ones
 * none at all.
 */
import { SNAPSHOT_TRIGGERS } from "../../domain/notification/triggers.ts";
import type { EnvironmentTrigger, FlowTrigger } from "../../domain/notification/triggers.ts";
import type { jobStore } from "../db/jobs.ts";
import type { DbReader } from "../db/types.ts";

/** A change, by the ids of its rows. `at`: epoch seconds; `index`: that of the snapshot, or of the latest one then. */
type ChangeRef =
  | { type: "snapshot"; environment_id: number; index: number; at: number }
  | { type: "allowed"; environment_id: number; index: number; at: number; allowlist_id: number }
  | { type: "allowlist_expiry"; environment_id: number; index: number; at: number; allowlist_id: number }
  | { type: "trail"; flow_id: number; trail_id: number; at: number; by: string }
  | { type: "artifact"; flow_id: number; artifact_id: number; at: number; by: string }
  | { type: "attestation"; flow_id: number; attestation_id: number; at: number };

/**
 * Payload of the jobs of kind `notify`. `actions`: numbers of the watching actions. `after`: for a snapshot whose
 * messages are made in several runs, the last event of the previous run; null for the first run.
 */
export type NotifyPayload = ChangeRef & { organization_id: number; actions: readonly number[]; after: number | null };

type Watcher = { organization_id: number; number: number; triggers_json: string };

export function triggerStore(db: DbReader, jobs: ReturnType<typeof jobStore>) {
  const watchersOf = (table: "action_environments" | "action_flows", column: "environment_id" | "flow_id") =>
    db.prepare<[number], Watcher>(
      `SELECT act.organization_id, act.number, act.triggers_json
       FROM ${table} watched JOIN actions act ON act.id = watched.action_id
       WHERE watched.${column} = ? ORDER BY act.number`,
    );
  const byEnvironment = watchersOf("action_environments", "environment_id");
  const byFlow = watchersOf("action_flows", "flow_id");
  const groupsOf = db.prepare<[number], { id: number }>(
    "SELECT logical_id AS id FROM environment_members WHERE member_id = ? ORDER BY logical_id",
  );
  const latestIndex = db.prepare<[number], { snapshot_count: number }>(
    "SELECT snapshot_count FROM environments WHERE id = ?",
  );

  function raise(
    watchers: readonly Watcher[],
    triggers: readonly (EnvironmentTrigger | FlowTrigger)[],
    change: ChangeRef,
  ): void {
    // Matches the text without parsing it: a damaged action must not make a report fail.
    const watching = watchers.filter(({ triggers_json }) =>
      triggers.some((trigger) => triggers_json.includes(`"${trigger}"`)),
    );
    const [first] = watching;
    if (!first) return;
    const payload: NotifyPayload = {
      ...change,
      organization_id: first.organization_id,
      actions: watching.map(({ number }) => number),
      after: null,
    };
    jobs.add("notify", payload);
  }

  /** For a change of an allowlist: of the environment, and of the logical environments that include it. */
  function raiseForEntry(
    environmentId: number,
    trigger: EnvironmentTrigger,
    entry: Pick<Extract<ChangeRef, { allowlist_id: number }>, "type" | "allowlist_id" | "at">,
  ): void {
    for (const { id } of [{ id: environmentId }, ...groupsOf.all(environmentId)]) {
      const index = latestIndex.get(id)?.snapshot_count ?? 0;
      raise(byEnvironment.all(id), [trigger], { ...entry, environment_id: id, index });
    }
  }

  return {
    /** A physical or logical environment has a new snapshot. */
    raiseSnapshotMade: (environmentId: number, index: number, at: number): void =>
      raise(byEnvironment.all(environmentId), SNAPSHOT_TRIGGERS, {
        type: "snapshot",
        environment_id: environmentId,
        index,
        at,
      }),

    /** An allowlist entry was added; raised for the logical environments that include the environment as well. */
    raiseArtifactAllowed: (environmentId: number, allowlistId: number, at: number): void =>
      raiseForEntry(environmentId, "ON_ALLOWED_ARTIFACT", { type: "allowed", allowlist_id: allowlistId, at }),

    /** An allowlist entry ends soon; raised for logical environments as well. */
    raiseAllowlistExpiring: (environmentId: number, allowlistId: number, at: number): void =>
      raiseForEntry(environmentId, "ON_ALLOWLIST_EXPIRY", { type: "allowlist_expiry", allowlist_id: allowlistId, at }),

    /** A trail was created, explicitly or by a report that named it. */
    raiseTrailStarted: (flowId: number, { trailId, at, by }: { trailId: number; at: number; by: string }): void =>
      raise(byFlow.all(flowId), ["ON_STARTED_TRAIL"], {
        type: "trail",
        flow_id: flowId,
        trail_id: trailId,
        at,
        by,
      }),

    /** A new artifact record was created. */
    raiseArtifactReported: (
      flowId: number,
      { artifactId, at, by }: { artifactId: number; at: number; by: string },
    ): void =>
      raise(byFlow.all(flowId), ["ON_ATTESTED_PROVENANCE"], {
        type: "artifact",
        flow_id: flowId,
        artifact_id: artifactId,
        at,
        by,
      }),

    /** An attestation of any kind was reported. */
    raiseAttested: (flowId: number, attestationId: number, at: number): void =>
      raise(byFlow.all(flowId), ["ON_ATTESTATION"], {
        type: "attestation",
        flow_id: flowId,
        attestation_id: attestationId,
        at,
      }),
  };
}
