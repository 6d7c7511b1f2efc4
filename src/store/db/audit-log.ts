/** The audit log: one row for each change, written in the transaction of that change. Rows never change. */
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

type AuditRow = {
  id: number;
  timestamp: number;
  organization_id: number | null;
  actor_kind: string;
  actor_id: string;
  actor_name: string;
  key_id: string;
  operation: string;
  event: string;
  target: string;
  request_id: string;
  detail_json: string | null;
};

const COLUMNS =
  "timestamp, organization_id, actor_kind, actor_id, actor_name, key_id, operation, event, target, request_id, " +
  "detail_json";

export function auditLogStore(db: Db, { now }: SchemaSources, clock: ReturnType<typeof clockStore>) {
  const insert = db.prepare(`INSERT INTO audit_log (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`);
  const selectLatest = db.prepare<[number, number], AuditRow>(
    `SELECT id, ${COLUMNS} FROM audit_log WHERE organization_id = ? ORDER BY id DESC LIMIT ?`,
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
    /** The latest entries of an organization, newest first. */
    listLatest: (organizationId: number, limit: number): AuditRow[] => selectLatest.all(organizationId, limit),
  };
}
