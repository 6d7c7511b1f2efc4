/**
 * Sends one message to its target. Everything that leaves this server because of an event leaves here, and only when a
 * message asks for it: before that nothing is connected, looked up or even loaded.
 */
import { isListOf, isText, isObject, readStoredJson } from "../domain/stored-json.ts";
import type { Guard } from "../domain/stored-json.ts";
import type { Timer } from "../domain/time.ts";
import { MAIL_TIMEOUT_S, sendMail } from "./mail-client.ts";
import type { MailSettings } from "./mail-client.ts";
import { outcome, STOPPED, TIMED_OUT } from "./outcome.ts";
import type { Outcome } from "./outcome.ts";
import type { Resolve } from "./resolver.ts";
import { signatureOf } from "./signature.ts";
import { postWebhook, WEBHOOK_TIMEOUT_S } from "./webhook-client.ts";

/**
 * A message as stored (store/notifications/outbox.ts). `target_json` and `message_json` have the shape that `type`
 * implies; `secret` signs the messages to a WEBHOOK.
 */
export type OutboundMessage = {
  public_id: string;
  type: "WEBHOOK" | "SLACK" | "EMAIL";
  target_json: string;
  message_json: string;
  secret: string | null;
};

export type SenderOptions = {
  resolve: Resolve;
  /** Epoch seconds. */
  now(): number;
  timer: Timer;
  /** The address ranges that the operator allows (webhook-allow). */
  allow: readonly string[];
  /** null where no mail server is configured. */
  mail: MailSettings | null;
  /** CA certificates in PEM; null for those of Node. */
  ca: readonly string[] | null;
  /** The version of this program. */
  version: string;
};

export type Sender = {
  /** Makes one attempt, within the time limit of the message's type. Never rejects. */
  send(message: OutboundMessage): Promise<Outcome>;
  /** Aborts running attempts, and starts no more. */
  close(): void;
};

type MailContent = { subject: string; text: string; html: string };

const hasWebhook: Guard<{ webhook: string }> = (value): value is { webhook: string } =>
  isObject(value) && isText(value["webhook"]);
const hasEmails: Guard<{ emails: string[] }> = (value): value is { emails: string[] } =>
  isObject(value) && isListOf(isText)(value["emails"]);
const isMailContent: Guard<MailContent> = (value): value is MailContent =>
  isObject(value) && isText(value["subject"]) && isText(value["text"]) && isText(value["html"]);

export function createSender(options: SenderOptions): Sender {
  const running = new Set<AbortController>();
  let isClosed = false;
  return {
    async send(message) {
      if (isClosed) return outcome("stopped", null);
      const controller = new AbortController();
      running.add(controller);
      const timeoutS = message.type === "EMAIL" ? MAIL_TIMEOUT_S : WEBHOOK_TIMEOUT_S;
      const cancel = options.timer(timeoutS, () => controller.abort(TIMED_OUT));
      try {
        return await attempt(options, message, controller.signal);
      } catch (error) {
        // The stored message cannot be read, which a retry would not change.
        return outcome("hopeless", "The stored message could not be read", { detail: String(error) });
      } finally {
        cancel();
        running.delete(controller);
      }
    },
    close() {
      isClosed = true;
      for (const controller of running) controller.abort(STOPPED);
    },
  };
}

async function attempt(options: SenderOptions, message: OutboundMessage, signal: AbortSignal): Promise<Outcome> {
  const { resolve, now, allow, mail, ca, version } = options;
  if (message.type === "EMAIL") {
    if (!mail)
      return outcome("hopeless", "No mail server is configured", {
        detail: "set smtp-url and smtp-from, then assay deliveries retry",
      });
    const { emails } = readStoredJson(message.target_json, hasEmails);
    const content = readStoredJson(message.message_json, isMailContent);
    return sendMail({ resolve, settings: mail, ca, now }, { id: message.public_id, emails, ...content }, signal);
  }
  const { webhook } = readStoredJson(message.target_json, hasWebhook);
  const headers = {
    "Content-Type": "application/json",
    "User-Agent": `Assay/${version}`,
    ...(message.type === "WEBHOOK" ? webhookHeaders(message, now()) : {}),
  };
  return postWebhook({ resolve, allow, ca, now }, { url: webhook, headers, body: message.message_json }, signal);
}

/** Headers that identify a message and its event to a webhook, and authenticate it. */
function webhookHeaders({ public_id, message_json, secret }: OutboundMessage, at: number): Record<string, string> {
  const { event_type: event } = readStoredJson(message_json, isObject);
  return {
    "X-Assay-Delivery": public_id,
    ...(typeof event === "string" && /^[\w.-]{1,64}$/.test(event) ? { "X-Assay-Event": event } : {}),
    ...(secret === null ? {} : { "X-Assay-Signature": signatureOf(secret, at, message_json) }),
  };
}
