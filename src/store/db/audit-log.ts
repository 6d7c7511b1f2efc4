/** The audit log: one row for each change, written in the transaction of that change. Rows never change. */
import { number, orNull, selectList, string } from "./columns.ts";
import type { RowOf } from "./columns.ts";
import type { clockStore } from "./clock.ts";
import type { Db, SchemaSources } from "./types.ts";

export type AuditEntry = {
  /** null for a change of the whole server. */
  organizationId: number | null;
  actor: { kind: "user" | "service_account" | "operator"; publicId: string; name: string; keyPublicId: string };
  operation: string;
  event: string;
  target: string;
  requestId: string;
  detail: Readonly<Record<string, unknown>> | null;
};

const ENTRY = {
  timestamp: number,
  organization_id: orNull(number),
  actor_kind: string,
  actor_id: string,
  actor_name: string,
  key_id: string,
  operation: string,
  event: string,
  target: string,
  request_id: string,
  detail_json: orNull(string),
};
export type AuditRow = RowOf<typeof ENTRY> & { id: number };

/** Filters of the log; null: no filter. All must match. */
export type AuditFilter = {
  /** Part of the name of the actor or, of a user, of the full name, in any case (ASCII). */
  actor: string | null;
  /** Whole events, or their parts before the dot; any of them. */
  events: readonly string[] | null;
  /** Part of the target, in any case (ASCII). */
  target: string | null;
  /** Epoch seconds, inclusive. */
  from: number | null;
  to: number | null;
};

/** The matching entries among the next ones, and the id from which to go on; null at the end of the log. */
export type AuditSlice = { rows: AuditRow[]; before: number | null };

export const AUDIT_COLUMNS = selectList(ENTRY);

export function auditLogStore(db: Db, { now }: SchemaSources, clock: ReturnType<typeof clockStore>) {
  const insert = db.prepare(`INSERT INTO audit_log (${AUDIT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`);
  const selectLatest = db.prepare<[number, number], AuditRow>(
    `SELECT id, ${AUDIT_COLUMNS} FROM audit_log WHERE organization_id = ? ORDER BY id DESC LIMIT ?`,
  );
  const lowest = db.prepare<[number, number, number], { id: number }>(
    "SELECT id FROM audit_log WHERE organization_id = ? AND id < ? ORDER BY id DESC LIMIT 1 OFFSET ?",
  );
  // A filter on the time does not end the search: entries are in the order of their ids, and the clock may have been
  // set back between two of them.
  const slice = db.prepare<
    Omit<AuditFilter, "events"> & {
      events: string | null;
      organization: number;
      before: number;
      lowest: number;
      limit: number;
    },
    AuditRow
  >(
    `SELECT id, ${AUDIT_COLUMNS} FROM audit_log
     WHERE organization_id = @organization AND id < @before AND id >= @lowest
       AND (@actor IS NULL OR instr(lower(actor_name), lower(@actor)) > 0
            OR instr(lower((SELECT display_name FROM users WHERE public_id = actor_id)), lower(@actor)) > 0)
       AND (@events IS NULL OR instr(@events, char(10) || event || char(10)) > 0
            OR instr(@events, char(10) || substr(event, 1, instr(event, '.') - 1) || char(10)) > 0)
       AND (@target IS NULL OR instr(lower(target), lower(@target)) > 0)
       AND (@from IS NULL OR timestamp >= @from) AND (@to IS NULL OR timestamp <= @to)
     ORDER BY id DESC LIMIT @limit`,
  );
  return {
    /** Appends an entry and checks its time against the last known good time (clock.ts). Call it inside a write. */
    append({ organizationId, actor, operation, event, target, requestId, detail }: AuditEntry): void {
      const json = detail === null ? null : JSON.stringify(detail);
      const at = now();
      clock.observe(at);
      insert.run(
        at,
        organizationId,
        actor.kind,
        actor.publicId,
        actor.name,
        actor.keyPublicId,
        operation,
        event,
        target,
        requestId,
        json,
      );
    },
    /**
     * At most `limit` matching entries, newest first, among the next `scanned` ones before the id `before`: however
     * few entries match, a call takes a bounded time. @param before null: from the newest entry
     */
    listSlice(
      organizationId: number,
      filter: AuditFilter,
      { before, scanned, limit }: { before: number | null; scanned: number; limit: number },
    ): AuditSlice {
      const from = before ?? Number.MAX_SAFE_INTEGER;
      const end = lowest.get(organizationId, from, scanned - 1)?.id ?? null;
      const events = filter.events && `\n${filter.events.join("\n")}\n`;
      const rows = slice.all({
        ...filter,
        events,
        organization: organizationId,
        before: from,
        lowest: end ?? 0,
        limit,
      });
      const last = rows.at(-1);
      return { rows, before: last && rows.length === limit ? last.id : end };
    },
    /** The latest entries of an organization, newest first. */
    listLatest: (organizationId: number, limit: number): AuditRow[] => selectLatest.all(organizationId, limit),
  };
}
