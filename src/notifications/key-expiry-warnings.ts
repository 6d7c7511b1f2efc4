/**
 * Warns of API keys that are about to end, 14 and 3 days before, each once: a chore that looks every now and then. A
 * warning and the mark that it was given are one write, so that neither a crash nor a second look gives it twice.
 */
import { letterTo, messageTo } from "../domain/notification/render.ts";
import { expiryLetter, expiryPayload } from "../domain/notification/key-expiry.ts";
import type { Target } from "../domain/notification/targets.ts";
import type { Store } from "../store/index.ts";
import type { DueWarning, EndingKeyRow } from "../store/accounts/key-expiry.ts";
import { queueOf } from "../store/notifications/notification-targets.ts";
import type { GroupCommitWriter } from "../store/db/group-commit.ts";

/** Keys of one write: a few messages each. */
const PER_WRITE = 50;

type Parts = {
  store: Store;
  writer: Pick<GroupCommitWriter, "run">;
  /** Epoch seconds. */
  now(): number;
  /** The public address of the server. */
  url(): string;
};

/** Gives all warnings that are due. @returns how many keys were looked after. */
export async function warnOfEndingKeys({ store, writer, now, url }: Parts): Promise<number> {
  let total = 0;
  for (let given = PER_WRITE; given === PER_WRITE; total += given) {
    // Nothing is written, and no write waited for, as long as nothing is due.
    if (store.keyExpiry.listDue(1).length === 0) break;
    given = await writer.run(() => {
      const due = store.keyExpiry.listDue(PER_WRITE);
      for (const warning of due) {
        warn(warning);
        store.keyExpiry.markWarned(warning);
      }
      return due.length;
    });
  }
  return total;

  function warn({ key }: DueWarning): void {
    const { organization_id, org, user_id } = key;
    if (organization_id !== null && org !== null) warnOrganization(key, organization_id, org);
    else if (user_id !== null) warnOwner(key, user_id);
  }

  function warnOrganization(key: EndingKeyRow, organizationId: number, org: string): void {
    const about = {
      id: key.public_id,
      description: key.description,
      expires_at: key.expires_at,
      holder: key.holder,
      org,
    };
    const at = now();
    const subject = `API key of ${key.holder} ends`;
    const add = (target: Target, targetId: number | null, queue: string): void => {
      const message = messageTo(
        target,
        () => expiryPayload(about, at),
        () => expiryLetter(about, at, url()),
      );
      store.outbox.add({ organizationId, queue, targetId, subject, message });
    };
    const configured = store.notificationTargets.list({ organizationId, notificationType: "api_key_expiry" });
    for (const { id, target_json } of configured) add(JSON.parse(target_json) as Target, id, queueOf(id));
    if (configured.length > 0) return;
    const emails = store.keyExpiry.listRecipients(organizationId, key.creating_user_id);
    if (emails.length > 0) add({ type: "EMAIL", emails }, null, `key expiry ${organizationId}`);
  }

  /** A personal key is nobody else's business, whatever an organization configured. */
  function warnOwner(key: EndingKeyRow, userId: number): void {
    const owner = store.keyExpiry.findOwner(userId);
    if (!owner) return;
    const at = now();
    const about = {
      id: key.public_id,
      description: key.description,
      expires_at: key.expires_at,
      holder: key.holder,
      org: null,
    };
    const message = letterTo({ type: "EMAIL", emails: [owner.email] }, expiryLetter(about, at, url()));
    store.outbox.add({
      organizationId: owner.organizationId,
      queue: `key expiry user ${userId}`,
      targetId: null,
      subject: "API key ends",
      message,
    });
  }
}
