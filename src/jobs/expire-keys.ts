/**
 * The end of rotated keys. From the moment at which its grace period is over a key is refused at use, whether this job
 * ran or not; the job closes its record and tells the audit log.
 */
import type { AuditEntry } from "../store/db/audit-log.ts";
import type { LapsedKey, LapsePayload } from "../store/accounts/api-keys.ts";
import type { Store } from "../store/index.ts";
import type { GroupCommitWriter } from "../store/db/group-commit.ts";
import type { Settlement } from "./job-runner.ts";

/** Seconds until a job asks again that came too early, because a wrong clock put it forward. */
const TOO_EARLY_S = 60;
/** Keys that are closed in one write: each is a row and an audit entry. */
const KEYS_PER_WRITE = 200;

type Parts = {
  store: Pick<Store, "apiKeys" | "auditLog">;
  writer: Pick<GroupCommitWriter, "run">;
  /**
   * The time by which keys end: not that of a clock that ran ahead, because nobody opens a record again. Epoch seconds.
   */
  now(): number;
};

export const keyLapses = ({ store, writer, now }: Parts) => ({
  async lapseKey({ key_id, entry }: LapsePayload): Promise<void | Settlement> {
    const end = store.apiKeys.findGraceEnd(key_id);
    if (end !== null && end > now()) return () => Math.max(end, now() + TOO_EARLY_S);
    await writer.run(() => {
      if (store.apiKeys.lapse(key_id)) store.auditLog.append(entry);
    });
  },
});

/**
 * Closes the records of all keys whose time is over, so that a clock that is set back revives none of them. Writes
 * nothing where there is none. @returns how many were closed.
 */
export async function closeLapsedKeys({ store, writer, now }: Parts): Promise<number> {
  let total = 0;
  for (let closed = KEYS_PER_WRITE; closed === KEYS_PER_WRITE; total += closed) {
    if (store.apiKeys.listLapsed(now(), 1).length === 0) break;
    closed = await writer.run(() => {
      const keys = store.apiKeys.listLapsed(now(), KEYS_PER_WRITE);
      for (const key of keys) {
        store.apiKeys.close(key);
        store.auditLog.append(entryOf(key));
      }
      return keys.length;
    });
  }
  return total;
}

/** Nobody asked for it: the end was decided when the key was made, or rotated. */
const entryOf = ({ public_id, organization_id, holder, ended_at }: LapsedKey): AuditEntry => ({
  organizationId: organization_id,
  actor: { kind: "operator", publicId: "", name: "scheduler", keyPublicId: "" },
  operation: "close lapsed keys",
  event: "api_key.lapsed",
  target: public_id,
  requestId: "",
  detail: { account: holder, key_id: public_id, ended_at },
});
