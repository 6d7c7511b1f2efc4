/**
 * Sends one message to its target. Everything that leaves this server because of what happened in it leaves here, and
 * only when a message asks for it: nothing is connected, looked up or even loaded before.
 */
import type { Timer } from "../domain/time.ts";
import { HTTP_SECONDS, post } from "./webhook-client.ts";
import { MAIL_SECONDS, sendMail } from "./mail-client.ts";
import type { MailSettings } from "./mail-client.ts";
import { LATE, STOPPED, outcome } from "./outcome.ts";
import type { Outcome } from "./outcome.ts";
import type { Resolve } from "./resolver.ts";
import { signatureOf } from "./signature.ts";

/** A message as it is stored (store/deliveries.ts). `target_json` and `message_json` have the form of their type. */
export type Sendable = {
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
  /** The operator's ranges (webhook-allow). */
  allow: readonly string[];
  /** null where no mail server is configured. */
  mail: MailSettings | null;
  /** Certificates of authorities in PEM, instead of those of Node; null for those. */
  ca: readonly string[] | null;
  /** The version of this program. */
  version: string;
};

export type Sender = {
  /** Tries once, within the time of its type. Never rejects. */
  send(message: Sendable): Promise<Outcome>;
  /** Ends what is being sent, and sends nothing more. */
  close(): void;
};

export function createSender(options: SenderOptions): Sender {
  const { resolve, now, timer, allow, mail, ca, version } = options;
  const running = new Set<AbortController>();
  let closed = false;

  function attempt(message: Sendable, signal: AbortSignal): Promise<Outcome> {
    if (message.type === "EMAIL") {
      if (!mail)
        return Promise.resolve(
          outcome("hopeless", "No mail server is configured", {
            detail: "set smtp-url and smtp-from, then assay deliveries retry",
          }),
        );
      const { emails } = JSON.parse(message.target_json) as { emails: string[] };
      const content = JSON.parse(message.message_json) as { subject: string; text: string; html: string };
      return sendMail({ resolve, settings: mail, ca, now }, { id: message.public_id, emails, ...content }, signal);
    }
    const { webhook } = JSON.parse(message.target_json) as { webhook: string };
    const headers = {
      "Content-Type": "application/json",
      "User-Agent": `Assay/${version}`,
      ...(message.type === "WEBHOOK" ? marks(message) : {}),
    };
    return post({ resolve, allow, ca, now }, { url: webhook, headers, body: message.message_json }, signal);
  }

  /** What tells a receiver what this is, and that it is ours. */
  function marks({ public_id, message_json, secret }: Sendable): Record<string, string> {
    const { event_type: event } = JSON.parse(message_json) as { event_type?: unknown };
    return {
      "X-Assay-Delivery": public_id,
      ...(typeof event === "string" && /^[\w.-]{1,64}$/.test(event) ? { "X-Assay-Event": event } : {}),
      ...(secret === null ? {} : { "X-Assay-Signature": signatureOf(secret, now(), message_json) }),
    };
  }

  return {
    async send(message) {
      if (closed) return outcome("stopped", null);
      const controller = new AbortController();
      running.add(controller);
      const cancel = timer(message.type === "EMAIL" ? MAIL_SECONDS : HTTP_SECONDS, () => controller.abort(LATE));
      try {
        return await attempt(message, controller.signal);
      } catch (error) {
        // What is stored cannot be read: that is our mistake, and trying again will not mend it.
        return outcome("hopeless", "The message could not be made", { detail: String(error) });
      } finally {
        cancel();
        running.delete(controller);
      }
    },
    close() {
      closed = true;
      for (const controller of running) controller.abort(STOPPED);
    },
  };
}
