/** Changes of members, keys and records in a period, from the history of memberships and the audit log. */
import { isObject, isText, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import type { AuditRow } from "../../store/db/audit-log.ts";
import type { MembershipEventRow } from "../../store/accounts/membership-audit-log.ts";
import { UNREADABLE } from "../placeholders.ts";
import { OVERRIDES, RECORD_EVENTS, toRecordChange } from "./gather-records.ts";
import { MAX_OTHERS, cutOff, rowWindow } from "./scope.ts";
import type { GatherContext, GatheredChange, KeyChange, Limits } from "./scope.ts";

/** Entries of the audit log that are searched for keys at a time. */
const AUDIT_SLICE = 2_000;

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

const ACCOUNT_EVENTS: readonly string[] = ["service_account.created", "service_account.deleted"];

/**
 * Keys that were created, rotated or revoked, or that lapsed, and service accounts that were created or deleted; the
 * history of memberships has their changes.
 */
const audited = (context: GatherContext, limits: Limits): GatheredChange[] =>
  readAuditLog(context, limits, ["api_key", ...ACCOUNT_EVENTS, ...RECORD_EVENTS]).flatMap((row): GatheredChange[] => {
    const common = { at: row.timestamp, environment: null };
    if (RECORD_EVENTS.includes(row.event)) {
      const record = toRecordChange(row);
      return record ? [{ ...common, of: "record", key: `record/${row.id}`, kind: "record", row: record }] : [];
    }
    const change: GatheredChange = ACCOUNT_EVENTS.includes(row.event)
      ? { ...common, of: "member", key: `account/${row.id}`, kind: "member", row: toAccountChange(context, row) }
      : { ...common, of: "key", key: `key/${row.id}`, kind: "key", row: toKeyChange(row) };
    return [change];
  });

/** The entries of these events, newest first. The log is read in slices, because few of its entries match. */
function readAuditLog({ store, organization }: GatherContext, limits: Limits, events: readonly string[]): AuditRow[] {
  const { since, to } = limits;
  const filter = { actor: null, events, target: null, from: since, to, withDetail: OVERRIDES };
  const { first, last } = store.periodChanges.findAuditRange(organization.id, { from: since, to });
  const rows: AuditRow[] = [];
  let before: number | null = last + 1;
  for (let scanned = 0; before !== null && before > first; scanned += AUDIT_SLICE) {
    if (scanned >= limits.bounds.auditEntries || rows.length >= MAX_OTHERS) {
      limits.since = Math.max(since, store.periodChanges.findAuditTime(organization.id, before) ?? to);
      break;
    }
    const slice = store.auditLog.listSlice(organization.id, filter, {
      before,
      scanned: AUDIT_SLICE,
      limit: AUDIT_SLICE,
    });
    for (const row of slice.rows) rows.push(row);
    before = slice.before;
  }
  return rows;
}

/** The texts of an entry's detail. */
function textsOf({ detail_json: text }: AuditRow): (name: string) => string | null {
  const detail = readStoredJsonOrNull(text, isObject) ?? (text === null ? {} : { account: UNREADABLE });
  return (name) => (isText(detail[name]) ? detail[name] : null);
}

function toKeyChange(row: AuditRow): KeyChange {
  const { event, target, actor_name: by } = row;
  const textOf = textsOf(row);
  return {
    event,
    account: textOf("account") ?? textOf("owner") ?? "",
    keyId: textOf("key_id") ?? (target.startsWith("/") ? "" : target),
    by,
  };
}

function toAccountChange({ organization }: GatherContext, row: AuditRow): MembershipEventRow {
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
    changed_by: row.actor_name,
    source: "app",
  };
}
