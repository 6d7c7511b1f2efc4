/** The targets of messages: their types, their identity, and the normalized form in notification configs. */

import { isObject, isText } from "../stored-json.ts";
import type { Guard } from "../stored-json.ts";

type ChannelContext = { channel_id: string; channel_name: string; team_id: string };

/** Targets that messages are sent to. `context` names the channel of a chat; it is stored and not used. */
export type Target =
  | { type: "WEBHOOK"; webhook: string; payload_version?: "1.0" }
  | { type: "SLACK"; webhook: string; context?: ChannelContext | null }
  | { type: "EMAIL"; emails: readonly string[] };

export type TargetType = Target["type"];
export const TARGET_TYPES = ["SLACK", "WEBHOOK", "EMAIL"] as const satisfies readonly TargetType[];

/** The only version of webhook payloads. */
export const PAYLOAD_VERSION = "1.0";

/** An object of unknown form, stored as it is; no messages are sent to it (semantics 13.94). */
export type OtherTarget = Readonly<Record<string, unknown>>;

/** A stored target. `type` is null for an object that no messages are sent to. */
export type StoredTarget = { type: TargetType | null; target: Target | OtherTarget };

/** The identity of a target as a text. A target with the same identity keeps its delivery times and its secret. */
export function targetIdentityOf({ type, target }: StoredTarget): string {
  const { webhook, emails } = target as { webhook?: unknown; emails?: unknown };
  return JSON.stringify([type, type === null ? target : type === "EMAIL" ? emails : webhook]);
}

/**
 * The stored form of the targets in a notification config (wire-contract 20): hosts and mail domains are in lower case,
 * URLs have no trailing slash, and all mail addresses, each once, are in one target at the position of the first.
 */
export function normalizeTargets(targets: readonly Target[]): Target[] {
  const emails = [
    ...new Set(targets.flatMap((target) => (target.type === "EMAIL" ? target.emails.map(normalizeMailAddress) : []))),
  ];
  const first = targets.findIndex(({ type }) => type === "EMAIL");
  return targets.flatMap((target, index): Target[] => {
    if (target.type !== "EMAIL") return [{ ...target, webhook: normalizeUrl(target.webhook) }];
    return index === first ? [{ type: "EMAIL", emails }] : [];
  });
}

/** Changes only the host and one slash at the end of the path: the rest may be the receiver's secret. */
function normalizeUrl(url: string): string {
  const [, scheme = "", user = "", host = "", rest = ""] = /^([a-z]+:\/\/)([^/?#]*@)?([^/?#]*)(.*)$/is.exec(url) ?? [];
  const path = rest.endsWith("/") && !/[?#]/.test(rest) ? rest.slice(0, -1) : rest;
  return `${scheme}${user}${host.toLowerCase()}${path}`;
}

/** Keeps the part before the `@`, which may be case-sensitive on the receiving server. */
function normalizeMailAddress(address: string): string {
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
