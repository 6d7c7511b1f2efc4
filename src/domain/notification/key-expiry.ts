/** Warnings that an API key is about to expire (operations 15): when they are due, and their text. */
import { formatDaysLeft, formatMinute } from "../time.ts";
import { renderMessage } from "./chat-and-mail.ts";
import type { NotificationMessage } from "./chat-and-mail.ts";
import { PAYLOAD_VERSION } from "./targets.ts";
import { timestampOf } from "./webhook.ts";
import type { Payload } from "./webhook.ts";

/** Kinds of notifications that the server sends without an action. */
export const NOTIFICATION_TYPES = ["api_key_expiry"] as const;

/**
 * The warnings, each sent once per expiry of a key: due while at most `days` and more than `until` days are left, so a
 * missed warning is sent later, until the next one is due. A key that was created for no more than `days` days gets no
 * such warning: its owner has just chosen that expiry.
 */
export const EXPIRY_WARNINGS = [
  { days: 3, until: 0 },
  { days: 14, until: 3 },
] as const;

/** An API key that expires at `expires_at` (epoch seconds). `org` is null for a personal key. */
export type ExpiringKey = { id: string; description: string; expires_at: number; holder: string; org: string | null };

const nameKey = ({ holder, org }: ExpiringKey): string =>
  org === null ? `Your API key` : `The API key of service account ${holder} in organization ${org}`;

function describeExpiry(key: ExpiringKey, now: number): string {
  const left = formatDaysLeft(key.expires_at, now);
  return `${nameKey(key)} (${key.description}) expires in ${left}, on ${formatMinute(key.expires_at)}`;
}

/** @param url the page on which keys are managed */
export const composeExpiryMessage = (key: ExpiringKey, now: number, url: string): NotificationMessage =>
  renderMessage({
    heading: key.org === null ? "Your API key expires soon" : `${key.org}: the API key of ${key.holder} expires soon`,
    lines: [describeExpiry(key, now), "Create a new key or rotate this one before it expires."],
    link: { url, text: "Open the server" },
    footer:
      key.org === null
        ? "You receive this message because the key is yours."
        : "You receive this message because you are notified of expiring API keys in this organization.",
  });

/** The WEBHOOK payload about a service account's key; every scalar is a string, as in the payloads of actions. */
export const buildExpiryPayload = (key: ExpiringKey & { org: string }, now: number): Payload => ({
  version: PAYLOAD_VERSION,
  timestamp: timestampOf(now),
  org: key.org,
  event_type: "API_KEY_EXPIRY",
  description: describeExpiry(key, now),
  api_key: {
    id: key.id,
    description: key.description,
    service_account: key.holder,
    expires_at: timestampOf(key.expires_at),
  },
});
