/**
 * Raising: whoever changes something that actions may listen to says so here, in the same write. Where no action
 * listens that is one look at an index. Otherwise it adds a job, whatever the size of the change; the job makes the
 * messages right after the commit (jobs/notify.ts), from what is stored and does not change any more. So a message
 * comes from a change that was committed, and from each of them, in their order.
 *
 * The job names the actions that listened then: one that is made afterwards is told nothing of before. One that is gone
 * by then tells nobody.
 */
import { SNAPSHOT_TRIGGERS } from "../../domain/notification/triggers.ts";
import type { EnvironmentTrigger, FlowTrigger } from "../../domain/notification/triggers.ts";
import type { jobStore } from "../db/jobs.ts";
import type { Db } from "../db/types.ts";

/** What happened, by keys. `at`: epoch seconds; `index`: of the snapshot, or of the latest one then. */
export type ChangeRef =
  | { type: "snapshot"; environment_id: number; index: number; at: number }
  | { type: "allowed"; environment_id: number; index: number; at: number; allowlist_id: number }
  | { type: "trail"; flow_id: number; trail_id: number; at: number; by: string }
  | { type: "artifact"; flow_id: number; artifact_id: number; at: number; by: string }
  | { type: "attestation"; flow_id: number; attestation_id: number; at: number };

/**
 * Payload of the jobs of kind `notify`. `actions`: numbers of those that listened. `after`: of a snapshot whose
 * messages are made in several turns, the event with which the turn before ended; null for the first turn.
 */
export type NotifyPayload = ChangeRef & { organization_id: number; actions: readonly number[]; after: number | null };

type Listener = { organization_id: number; number: number; triggers_json: string };

export function triggerStore(db: Db, jobs: ReturnType<typeof jobStore>) {
  const ofEnvironment = db.prepare<[number], Listener>(
    `SELECT action.organization_id, action.number, action.triggers_json FROM action_environments place JOIN actions action ON action.id = place.action_id
     WHERE place.environment_id = ? ORDER BY action.number`,
  );
  const ofFlow = db.prepare<[number], Listener>(
    `SELECT action.organization_id, action.number, action.triggers_json FROM action_flows place JOIN actions action ON action.id = place.action_id
     WHERE place.flow_id = ? ORDER BY action.number`,
  );
  const groupsOf = db.prepare<[number], { id: number }>(
    "SELECT logical_id AS id FROM environment_members WHERE member_id = ? ORDER BY logical_id",
  );
  const latestIndex = db.prepare<[number], { snapshot_count: number }>(
    "SELECT snapshot_count FROM environments WHERE id = ?",
  );

  function raise(
    listeners: readonly Listener[],
    triggers: readonly (EnvironmentTrigger | FlowTrigger)[],
    happening: ChangeRef,
  ): void {
    // Not parsed: a damaged action must not refuse a report.
    const listening = listeners.filter(({ triggers_json }) =>
      triggers.some((trigger) => triggers_json.includes(`"${trigger}"`)),
    );
    const [first] = listening;
    if (!first) return;
    const payload: NotifyPayload = {
      ...happening,
      organization_id: first.organization_id,
      actions: listening.map(({ number }) => number),
      after: null,
    };
    jobs.add("notify", payload);
  }

  return {
    /** An environment, physical or logical, has a new snapshot. */
    raiseSnapshotMade: (environmentId: number, index: number, at: number): void =>
      raise(ofEnvironment.all(environmentId), SNAPSHOT_TRIGGERS, {
        type: "snapshot",
        environment_id: environmentId,
        index,
        at,
      }),

    /** An entry was added to the allowlist of an environment; the logical ones that include it tell of it as well. */
    raiseArtifactAllowed(environmentId: number, allowlistId: number, at: number): void {
      for (const { id } of [{ id: environmentId }, ...groupsOf.all(environmentId)]) {
        const index = latestIndex.get(id)?.snapshot_count ?? 0;
        raise(ofEnvironment.all(id), ["ON_ALLOWED_ARTIFACT"], {
          type: "allowed",
          environment_id: id,
          index,
          at,
          allowlist_id: allowlistId,
        });
      }
    },

    /** A trail was begun, by somebody or by a report that named it. */
    raiseTrailStarted: (flowId: number, trailId: number, at: number, by: string): void =>
      raise(ofFlow.all(flowId), ["ON_STARTED_TRAIL"], { type: "trail", flow_id: flowId, trail_id: trailId, at, by }),

    /** An artifact was reported that was not known so. */
    raiseArtifactReported: (flowId: number, artifactId: number, at: number, by: string): void =>
      raise(ofFlow.all(flowId), ["ON_ATTESTED_PROVENANCE"], {
        type: "artifact",
        flow_id: flowId,
        artifact_id: artifactId,
        at,
        by,
      }),

    /** An attestation of any kind was reported. */
    raiseAttested: (flowId: number, attestationId: number, at: number): void =>
      raise(ofFlow.all(flowId), ["ON_ATTESTATION"], {
        type: "attestation",
        flow_id: flowId,
        attestation_id: attestationId,
        at,
      }),
  };
}
