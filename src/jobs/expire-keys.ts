/**
 * The end of rotated keys. A key is refused as soon as its grace period is over, whether or not this job has run; the
 * job closes its record and writes the audit entry.
 */
import type { LapsedKey, LapsePayload } from "../store/accounts/api-keys.ts";
import type { AuditEntry } from "../store/db/audit-log.ts";
import type { GroupCommitWriter } from "../store/db/group-commit.ts";
import type { Store } from "../store/index.ts";
import type { Settlement } from "./job-runner.ts";

/** Pause of a job that came too early, because a wrong clock put it forward. */
const TOO_EARLY_RETRY_S = 60;
/** Keys closed in one write: each is a row and an audit entry. */
const KEYS_PER_WRITE = 200;

type Parts = {
  store: Pick<Store, "apiKeys" | "auditLog">;
  writer: Pick<GroupCommitWriter, "run">;
};

/**
 * @param parts.trustedNow epoch seconds. Not of a clock that runs ahead: a closed record is never opened again
 * @param parts.now epoch seconds by which jobs are due; of a clock that runs ahead, too
 */
export const createKeyExpiry = ({
  store,
  writer,
  trustedNow,
  now,
}: Parts & { trustedNow(): number; now(): number }) => ({
  /** Handles a job of kind `lapse_key`. */
  async expireKey({ key_id, entry }: LapsePayload): Promise<void | Settlement> {
    const end = store.apiKeys.findGraceEnd(key_id);
    if (end !== null && end > trustedNow()) return () => Math.max(end, now() + TOO_EARLY_RETRY_S);
    await writer.run(() => {
      if (store.apiKeys.lapse(key_id)) store.auditLog.append(entry);
    });
  },
});

/**
 * Closes the records of all expired keys, so that a clock that is set back revives none of them. Writes nothing when
 * there is none.
 * @param parts.endedBy epoch seconds, of a clock that is neither ahead nor behind
 * @returns how many were closed
 */
export async function closeExpiredKeys({ store, writer, endedBy }: Parts & { endedBy(): number }): Promise<number> {
  let total = 0;
  for (let closed = KEYS_PER_WRITE; closed === KEYS_PER_WRITE; total += closed) {
    if (store.apiKeys.listLapsed(endedBy(), 1).length === 0) break;
    closed = await writer.run(() => {
      const keys = store.apiKeys.listLapsed(endedBy(), KEYS_PER_WRITE);
      for (const key of keys) {
        store.apiKeys.close(key);
        store.auditLog.append(auditEntryOf(key));
      }
      return keys.length;
    });
  }
  return total;
}

/** The scheduler is the actor: the end was decided when the key was created or rotated, and no person acts now. */
const auditEntryOf = ({ public_id, organization_id, holder, ended_at }: LapsedKey): AuditEntry => ({
  organizationId: organization_id,
  actor: { kind: "operator", publicId: "", name: "scheduler", keyPublicId: "" },
  operation: "close lapsed keys",
  event: "api_key.lapsed",
  target: public_id,
  requestId: "",
  detail: { account: holder, key_id: public_id, ended_at },
});
