/**
 * The ends of allowlist entries: a warning three days before, as a trigger of actions, then the end itself. Evaluations
 * stop counting an entry at its end, whether or not this job has run; the job records the end in the audit log and has
 * the environment re-evaluated.
 *
 * Everything is written with the end of the job or its next time, so that a warning is sent once and an end is recorded
 * once, whenever the process dies.
 */
import { findWarningTime } from "../domain/notification/allowlist-expiry.ts";
import type { Actor } from "../store/actor.ts";
import type { AuditEntry } from "../store/db/audit-log.ts";
import type { AllowlistEndPayload, EndedEntry } from "../store/environments/allowlist-ends.ts";
import type { EnvironmentRow } from "../store/environments/environments.ts";
import type { Store } from "../store/index.ts";
import type { Settlement } from "./job-runner.ts";

/** Pause of a job that came too early, because a wrong clock put it forward. */
const TOO_EARLY_RETRY_S = 60;
/** Entries of one environment whose end is recorded in one write: each is an audit entry and a few small updates. */
const ENTRIES_PER_WRITE = 200;

/** No person acts when an entry ends: its end was decided when it was added. */
const SCHEDULER: Actor = { publicId: "", displayName: "scheduler" };

type Parts = {
  store: Pick<
    Store,
    "allowlistEnds" | "auditLog" | "environments" | "reevaluationQueue" | "staleArtifacts" | "triggers"
  >;
  /** Epoch seconds. Not of a clock that runs ahead: an entry whose end was recorded never counts again. */
  trustedNow(): number;
  /** Epoch seconds by which jobs are due. */
  now(): number;
};

export const createAllowlistEnds = ({ store, trustedNow, now }: Parts) => ({
  /** Handles a job of kind `allowlist_end`. */
  endAllowlistEntry: async ({ entry_id }: AllowlistEndPayload): Promise<Settlement> => {
    return () => {
      const end = store.allowlistEnds.find(entry_id);
      if (!end) return null;
      const at = trustedNow();
      const environment = store.environments.get(end.environment_id);
      if (end.expires_at <= at) {
        recordEnds(store, environment, at);
        // Only if more entries ended together than one write records.
        return store.allowlistEnds.find(entry_id) ? at : null;
      }
      const warningAt = end.warned_at === null ? findWarningTime(end) : null;
      if (warningAt === null || warningAt > at) return Math.max(warningAt ?? end.expires_at, now() + TOO_EARLY_RETRY_S);
      store.allowlistEnds.markWarned(entry_id, at);
      if (environment.archived_at === null) store.triggers.raiseAllowlistExpiring(environment.id, entry_id, at);
      return end.expires_at;
    };
  },
});

/** Entries that ended together are recorded together, so that the environment is re-evaluated once. */
function recordEnds(store: Parts["store"], environment: EnvironmentRow, at: number): void {
  for (const entry of store.allowlistEnds.close(environment.id, at, ENTRIES_PER_WRITE)) {
    store.auditLog.append(auditEntryOf(environment, entry));
    store.staleArtifacts.markAllowlisted(environment.id, entry.fingerprint);
  }
  if (environment.archived_at !== null || environment.snapshot_count === 0) return;
  store.reevaluationQueue.enqueue(environment, "allowlist", SCHEDULER);
}

const auditEntryOf = (
  { name, organization_id }: EnvironmentRow,
  { public_id, fingerprint, expires_at }: EndedEntry,
): AuditEntry => ({
  organizationId: organization_id,
  actor: { kind: "operator", publicId: "", name: SCHEDULER.displayName, keyPublicId: "" },
  operation: "end allowlist entries",
  event: "artifact.allowance_ended",
  target: public_id,
  requestId: "",
  detail: { environment: name, artifact_fingerprint: fingerprint, allowlist_id: public_id, expires_at },
});
