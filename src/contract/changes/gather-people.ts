/** Changes of members, keys and records in a period, from the history of memberships and the audit log. */
import { isObject, isText, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import type { AuditRow } from "../../store/db/audit-log.ts";
import type { MembershipEventRow } from "../../store/accounts/membership-audit-log.ts";
import { ACCOUNT_EVENTS } from "../../store/environments/history/audited-changes.ts";
import { UNREADABLE } from "../placeholders.ts";
import { isOfRecord, toRecordChange } from "./gather-records.ts";
import { cutOff, rowWindow } from "./scope.ts";
import type { GatherContext, GatheredChange, KeyChange, Limits } from "./scope.ts";

/** Who may read them, the caller decides. */
export const gatherPeople = (context: GatherContext, limits: Limits): GatheredChange[] =>
  [members(context, limits), audited(context, limits)].flat();

function members({ store, organization }: GatherContext, limits: Limits): GatheredChange[] {
  const { from, to, limit } = rowWindow(limits);
  const filter = { search: "", eventType: null, roles: null, sources: null, from, to };
  const order = { by: "when", direction: "desc" } as const;
  const rows = store.membershipAuditLog.list(organization.id, filter, { order, window: { limit, offset: 0 } });
  return cutOff(limits, rows).map((row) => ({
    of: "member",
    key: `member/${row.user_name}/${row.timestamp}`,
    kind: "member",
    at: row.timestamp,
    environment: null,
    row,
  }));
}

const isOfAccount = ({ event }: AuditRow): boolean => ACCOUNT_EVENTS.some((one) => one === event);

/**
 * Keys that were created, rotated or revoked, or that lapsed, service accounts that were created or deleted, and
 * records.
 */
function audited(context: GatherContext, limits: Limits): GatheredChange[] {
  const { store, organization } = context;
  const { auditEntries: most } = limits.bounds;
  const rows = cutOff(limits, store.periodChanges.listAudited(organization.id, rowWindow(limits, most)), most);
  // Entries have login names; what policies, snapshots and memberships say of a person has the full name.
  const names = store.users.findFullNames(rows.map(({ actor_id: id }) => id));
  return rows.flatMap((row): GatheredChange[] => {
    const by = names.get(row.actor_id) ?? row.actor_name;
    const common = { at: row.timestamp, environment: null };
    if (isOfRecord(row)) {
      const record = toRecordChange(row, by);
      return record ? [{ ...common, of: "record", key: `record/${row.id}`, kind: "record", row: record }] : [];
    }
    const change: GatheredChange = isOfAccount(row)
      ? {
          ...common,
          of: "member",
          key: `account/${row.id}`,
          kind: "member",
          row: toAccountChange(context, { row, by }),
        }
      : { ...common, of: "key", key: `key/${row.id}`, kind: "key", row: toKeyChange(row, by) };
    return [change];
  });
}

/** The texts of an entry's detail. */
function textsOf({ detail_json: text }: AuditRow): (name: string) => string | null {
  const detail = readStoredJsonOrNull(text, isObject) ?? (text === null ? {} : { account: UNREADABLE });
  return (name) => (isText(detail[name]) ? detail[name] : null);
}

function toKeyChange(row: AuditRow, by: string): KeyChange {
  const { event, target } = row;
  const textOf = textsOf(row);
  return {
    event,
    account: textOf("account") ?? textOf("owner") ?? "",
    keyId: textOf("key_id") ?? (target.startsWith("/") ? "" : target),
    by,
  };
}

function toAccountChange(
  { organization }: GatherContext,
  { row, by }: { row: AuditRow; by: string },
): MembershipEventRow {
  const textOf = textsOf(row);
  const name = textOf("account") ?? textOf("name") ?? row.target.split("/").at(-1) ?? "";
  const isNew = row.event === "service_account.created";
  const role = textOf("privilege") ?? "member";
  return {
    timestamp: row.timestamp,
    event_type: isNew ? "added" : "removed",
    user_name: `${organization.name}/${name}`,
    user_shown: name,
    role: isNew ? role : null,
    previous_role: isNew ? null : role,
    changed_by: by,
    source: "app",
  };
}
