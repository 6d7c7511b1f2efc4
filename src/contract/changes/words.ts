/** What changed, in a sentence without a full stop, for lists, feeds and messages. */
import { formatState } from "../../domain/notification/event.ts";
import { versionOf, splitName } from "../../domain/snapshot/comparison.ts";
import { STALE_AFTER_S } from "../../domain/snapshot/period-changes.ts";
import type { SnapshotChange } from "../../domain/snapshot/period-changes.ts";
import { formatMinute } from "../../domain/time.ts";
import type { GatheredChange } from "./scope.ts";

/** `acme/backend-api:2.41.0 turned non-compliant in production-eu`. */
export function describeChange(change: GatheredChange): string {
  switch (change.of) {
    case "snapshot":
      return describeSnapshotChange(change.change, change.environment.name);
    case "attachment": {
      const { name, before, after } = change.shift;
      const place = change.environment.name;
      if (before === null && after === null) return `Policies of ${place} changed`;
      if (before === null) return `Policy ${name} v${after} was attached to ${place}`;
      if (after === null) return `Policy ${name} v${before} was detached from ${place}`;
      return `Policy ${name} v${after} is in force in ${place} instead of v${before}`;
    }
    case "policy":
      return describePolicy(change.row);
    case "allowed": {
      const { artifact_name: name, expires_at: end } = change.row;
      return `${name} was allowed in ${change.environment.name}${end === null ? "" : ` until ${formatMinute(end)}`}`;
    }
    case "member": {
      const { user_shown: name, role, previous_role: previous } = change.row;
      if (role === null) return `${name} was removed, and had the role ${previous ?? "unknown"}`;
      return previous === null ? `${name} was added as ${role}` : `${name} is now ${role} instead of ${previous}`;
    }
    case "key": {
      const { event, account } = change.row;
      const done = keyChangeOf(event);
      return `A key of ${account || "an account"} ${done === "lapsed" ? "lapsed" : `was ${done}`}`;
    }
    case "record":
      return change.row.text;
    case "reporter":
      return `No report from ${change.environment.name} for ${STALE_AFTER_S / 3600} h`;
  }
}

/** `rotated` of `api_key.rotated`. */
export const keyChangeOf = (event: string): string => event.slice(event.indexOf(".") + 1).replaceAll("_", " ");

function describeSnapshotChange({ kind, event, replaced, after }: SnapshotChange, place: string): string {
  if (event === null) return `${place} turned ${formatState(after)}`;
  const { name, was, now } = event;
  switch (kind) {
    case "verdict":
      return after === null
        ? `${name} has no verdict any more in ${place}`
        : `${name} turned ${formatState(after)} in ${place}`;
    case "upgraded":
      return `${splitName(name).service} went from ${versionOf(replaced ?? event)} to ${versionOf(event)} in ${place}`;
    case "started":
      return `${name} started in ${place}${after === null ? "" : `, ${formatState(after)}`}`;
    case "exited":
      return `${name} exited in ${place}`;
    case "scaled":
      return `${name} was scaled from ${was} to ${now} in ${place}`;
    case "provenance":
      return `${name} got other provenance in ${place}`;
  }
}

function describePolicy({ policy, type, version }: Extract<GatheredChange, { of: "policy" }>["row"]): string {
  switch (type) {
    case "creation":
      return `Policy ${policy} was created`;
    case "new_version":
      return version === 1 ? `Policy ${policy} was created` : `Policy ${policy} v${version ?? "?"} was saved`;
    case "metadata_update":
      return `The description of policy ${policy} was changed`;
    case "renaming":
      return `Policy ${policy} was renamed`;
    default:
      return `Policy ${policy} was archived`;
  }
}
