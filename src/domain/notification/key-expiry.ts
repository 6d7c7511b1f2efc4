/** Warnings that an API key is about to end (operations, Notification Config): when they are due, and what they say. */
import { DAY_S } from "../time.ts";
import { renderMessage } from "./chat-and-mail.ts";
import type { NotificationMessage } from "./chat-and-mail.ts";
import { PAYLOAD_VERSION } from "./targets.ts";
import { timestampOf } from "./webhook.ts";
import type { Payload } from "./webhook.ts";

/** The one kind of notification that the server raises by itself. */
export const NOTIFICATION_TYPES = ["api_key_expiry"] as const;
export type NotificationType = (typeof NOTIFICATION_TYPES)[number];

/**
 * The warnings, each once for every end of a key: due when at most `days` days are left, and more than `until`. One
 * that was missed is so made up for until the next one is due. A key that was made for no more than those days gets
 * none: nobody has to be told what they just chose.
 */
export const EXPIRY_WARNINGS = [
  { days: 3, until: 0 },
  { days: 14, until: 3 },
] as const;

/** A key that ends. `org` and `account` are null for a personal one. */
export type ExpiringKey = { id: string; description: string; expires_at: number; holder: string; org: string | null };

const timeText = (at: number): string => `${new Date(at * 1000).toISOString().slice(0, 16).replace("T", " ")} UTC`;

const whose = ({ holder, org }: ExpiringKey): string =>
  org === null ? `Your API key` : `The API key of service account ${holder} in organization ${org}`;

function sentenceOf(key: ExpiringKey, now: number): string {
  const days = Math.max(1, Math.round((key.expires_at - now) / DAY_S));
  return `${whose(key)} (${key.description}) ends in ${days} ${days === 1 ? "day" : "days"}, on ${timeText(key.expires_at)}`;
}

/** @param url where keys are looked after. */
export const composeExpiryMessage = (key: ExpiringKey, now: number, url: string): NotificationMessage =>
  renderMessage({
    heading: key.org === null ? "Your API key ends soon" : `${key.org}: the API key of ${key.holder} ends soon`,
    lines: [sentenceOf(key, now), "Make a new key, or rotate this one, before it stops working."],
    link: { url, text: "Open the server" },
    footer:
      key.org === null
        ? "You get this because the key is yours."
        : "You get this because you are told of API keys that end in this organization.",
  });

/**
 * What is sent to a WEBHOOK about a key of a service account: as in the payloads of actions every scalar is a string.
 */
export const buildExpiryPayload = (key: ExpiringKey & { org: string }, now: number): Payload => ({
  version: PAYLOAD_VERSION,
  timestamp: timestampOf(now),
  org: key.org,
  event_type: "API_KEY_EXPIRY",
  description: sentenceOf(key, now),
  api_key: {
    id: key.id,
    description: key.description,
    service_account: key.holder,
    expires_at: timestampOf(key.expires_at),
  },
});
