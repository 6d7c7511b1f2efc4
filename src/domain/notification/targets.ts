/**
 * Where messages go: what is configured, whether two targets are one, and the form in which notification configs are
 * kept.
 */

import { isObject, isText } from "../stored-json.ts";
import type { Guard } from "../stored-json.ts";

export type ChannelContext = { channel_id: string; channel_name: string; team_id: string };

/** Targets that something is sent to. `context` names the channel of a chat and is only kept. */
export type Target =
  | { type: "WEBHOOK"; webhook: string; payload_version?: "1.0" }
  | { type: "SLACK"; webhook: string; context?: ChannelContext | null }
  | { type: "EMAIL"; emails: readonly string[] };

export type TargetType = Target["type"];
export const TARGET_TYPES = ["SLACK", "WEBHOOK", "EMAIL"] as const satisfies readonly TargetType[];

/** The webhook payloads that there are. */
export const PAYLOAD_VERSION = "1.0";

/** An object of a form that nothing is sent to: it is kept as it came (decision 94). */
export type OtherTarget = Readonly<Record<string, unknown>>;

/** A target as it is kept; `type` null: nothing is sent to it. */
export type StoredTarget = { type: TargetType | null; target: Target | OtherTarget };

/**
 * A text that is the same for targets that are one and the same recipient, so that its times and its secret stay with
 * it.
 */
export function targetIdentityOf({ type, target }: StoredTarget): string {
  const { webhook, emails } = target as { webhook?: unknown; emails?: unknown };
  return JSON.stringify([type, type === null ? target : type === "EMAIL" ? emails : webhook]);
}

/**
 * Targets of a notification config in the form in which they are kept (wire-contract 20): hosts and the domains of
 * addresses in lower case, without a trailing slash, all addresses in one target, which stands where the first of them
 * stood; each address once.
 */
export function normalizeTargets(targets: readonly Target[]): Target[] {
  const emails = [
    ...new Set(targets.flatMap((target) => (target.type === "EMAIL" ? target.emails.map(normalizedAddress) : []))),
  ];
  const first = targets.findIndex(({ type }) => type === "EMAIL");
  return targets.flatMap((target, place): Target[] => {
    if (target.type !== "EMAIL") return [{ ...target, webhook: normalizedUrl(target.webhook) }];
    return place === first ? [{ type: "EMAIL", emails }] : [];
  });
}

/**
 * Only the host is changed, and one slash at the end of the path: the rest may be a secret of the receiver's own
 * making.
 */
function normalizedUrl(url: string): string {
  const [, scheme = "", user = "", host = "", rest = ""] = /^([a-z]+:\/\/)([^/?#]*@)?([^/?#]*)(.*)$/is.exec(url) ?? [];
  const path = rest.endsWith("/") && !/[?#]/.test(rest) ? rest.slice(0, -1) : rest;
  return `${scheme}${user}${host.toLowerCase()}${path}`;
}

/** The part before the `@` is the business of the receiving server, and may tell capital letters apart. */
function normalizedAddress(address: string): string {
  const at = address.lastIndexOf("@");
  return `${address.slice(0, at)}${address.slice(at).toLowerCase()}`;
}

/** Guards a stored target. What belongs to its type is not checked: it was when the target was stored. */
export const isTarget: Guard<Target> = (value): value is Target => isObject(value) && isText(value["type"]);

/**
 * A stored target as people see it: the origin of a webhook, whose path works as a password, or the e-mail addresses.
 * @param targetJson the stored JSON of a target
 */
export function describeTarget(targetJson: string): string {
  const { webhook, emails } = JSON.parse(targetJson) as { webhook?: string; emails?: string[] };
  if (emails) return emails.join(", ");
  return webhook !== undefined && URL.canParse(webhook) ? `${new URL(webhook).origin}/...` : "(no valid URL)";
}
