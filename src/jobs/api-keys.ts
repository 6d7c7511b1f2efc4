/**
 * The end of rotated keys. From the moment at which its grace period is over a key is refused at use, whether this job ran
 * or not; the job closes its record and tells the audit log.
 */
import type { LapsePayload } from "../store/api-keys.ts";
import type { Store } from "../store/index.ts";
import type { Writer } from "../store/writer.ts";

export const keyLapses = ({ store, writer }: { store: Pick<Store, "apiKeys" | "audit">; writer: Pick<Writer, "run"> }) => ({
  lapseKey: ({ key_id, entry }: LapsePayload): Promise<void> =>
    writer.run(() => {
      if (store.apiKeys.lapse(key_id)) store.audit.append(entry);
    }),
});
