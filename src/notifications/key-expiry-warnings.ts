/**
 * Warns of API keys that expire soon, 14 and 3 days before, each once: a periodic task. A warning and the mark that it
 * was sent are one write, so neither a crash nor a second run sends it twice.
 */
import { composeExpiryMessage, buildExpiryPayload } from "../domain/notification/key-expiry.ts";
import type { ExpiringKey } from "../domain/notification/key-expiry.ts";
import { renderForPeople, renderForTarget } from "../domain/notification/render.ts";
import { isTarget } from "../domain/notification/targets.ts";
import type { Target } from "../domain/notification/targets.ts";
import { readStoredJson } from "../domain/stored-json.ts";
import type { EndingKeyRow } from "../store/accounts/key-expiry.ts";
import type { GroupCommitWriter } from "../store/db/group-commit.ts";
import type { Store } from "../store/index.ts";
import { queueOf } from "../store/notifications/notification-targets.ts";

/** Keys per write: each adds a few messages. */
const KEYS_PER_WRITE = 50;

type Parts = {
  store: Store;
  writer: Pick<GroupCommitWriter, "run">;
  /** Epoch seconds. */
  now(): number;
  /** The public address of the server. */
  url(): string;
};

/** Adds all warnings that are due to the outbox. @returns how many keys they were about */
export async function warnOfExpiringKeys(parts: Parts): Promise<number> {
  const { store, writer } = parts;
  let total = 0;
  for (let warned = KEYS_PER_WRITE; warned === KEYS_PER_WRITE; total += warned) {
    // As long as nothing is due, nothing is written and no write is waited for.
    if (store.keyExpiry.listDue(1).length === 0) break;
    warned = await writer.run(() => {
      const due = store.keyExpiry.listDue(KEYS_PER_WRITE);
      for (const warning of due) {
        addWarning(parts, warning.key);
        store.keyExpiry.markWarned(warning);
      }
      return due.length;
    });
  }
  return total;
}

function addWarning(parts: Parts, key: EndingKeyRow): void {
  const { organization_id, org, user_id } = key;
  if (organization_id !== null && org !== null) warnOrganization(parts, key, { id: organization_id, name: org });
  else if (user_id !== null) warnOwner(parts, key, user_id);
}

const keyFacts = <Org extends string | null>(key: EndingKeyRow, org: Org): ExpiringKey & { org: Org } => ({
  id: key.public_id,
  description: key.description,
  expires_at: key.expires_at,
  holder: key.holder,
  org,
});

/** The key of a service account: warns the configured targets, or else the people responsible for the key. */
function warnOrganization(
  { store, now, url }: Parts,
  key: EndingKeyRow,
  { id: organizationId, name }: { id: number; name: string },
): void {
  const facts = keyFacts(key, name);
  const at = now();
  const subject = `API key of ${key.holder} ends`;
  const add = (target: Target, targetId: number | null, queue: string): void => {
    const message = renderForTarget(
      target,
      () => buildExpiryPayload(facts, at),
      () => composeExpiryMessage(facts, at, url()),
    );
    store.outbox.add({ organizationId, queue, targetId, subject, message });
  };
  const configured = store.notificationTargets.list({ organizationId, notificationType: "api_key_expiry" });
  for (const { id, target_json } of configured) add(readStoredJson(target_json, isTarget), id, queueOf(id));
  if (configured.length > 0) return;
  const emails = store.keyExpiry.listRecipients(organizationId, key.creating_user_id);
  if (emails.length > 0) add({ type: "EMAIL", emails }, null, `key expiry ${organizationId}`);
}

/** A personal key: warns its owner alone, whatever an organization configured. */
function warnOwner({ store, now, url }: Parts, key: EndingKeyRow, userId: number): void {
  const owner = store.keyExpiry.findOwner(userId);
  if (!owner) return;
  const letter = composeExpiryMessage(keyFacts(key, null), now(), url());
  store.outbox.add({
    organizationId: owner.organizationId,
    queue: `key expiry user ${userId}`,
    targetId: null,
    subject: "API key ends",
    message: renderForPeople({ type: "EMAIL", emails: [owner.email] }, letter),
  });
}
