/**
 * What clients sent that this server does not know: keys that were ignored, routes and kinds of attestations
 * (domain/network/client.ts). Counted in memory and written at intervals, so that no request waits for it; what was
 * counted since the last write is lost with a loss of power. Bounded: clients choose most of it.
 */
import { OTHER_CLIENT } from "../../domain/network/client.ts";
import type { UnknownInput } from "../../domain/network/client.ts";
import type { Db, DbReader } from "../db/types.ts";

/** Times are epoch seconds, to the minute. */
export type UnknownInputRow = Pick<UnknownInput, "client" | "kind" | "operation" | "name"> & {
  count: number;
  first_at: number;
  last_at: number;
};

/** Rows of all organizations. Each has its share, so that one does not push out what the others sent. */
export const MAX_UNKNOWN_INPUTS = 100;
/** Of one organization between two writes. */
const MAX_PENDING = 100;
/** Of all organizations between two writes: a few hundred kilobytes. */
const MAX_ALL_PENDING = 1_000;
/** Rows that were not seen for so long are deleted: the client is gone, or this server knows the input by now. */
const KEPT_S = 90 * 86_400;

export function unknownInputStore(db: Db) {
  const pending = new Map<string, { input: UnknownInput; count: number }>();
  const pendingOf = new Map<number | null, number>();
  const add = db.prepare<[number | null, string, string, string, string, number, number, number], UnknownInputRow>(
    `INSERT INTO unknown_inputs (organization_id, client, kind, operation, name, count, first_at, last_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (coalesce(organization_id, 0), client, kind, operation, name)
     DO UPDATE SET count = count + excluded.count, last_at = excluded.last_at
     RETURNING client, kind, operation, name, count, first_at, last_at`,
  );
  const deleteOld = db.prepare<[number]>("DELETE FROM unknown_inputs WHERE last_at < ?");
  // In each organization releases of the CLI come first, and then what was seen last.
  const deleteMore = db.prepare<[number]>(
    `DELETE FROM unknown_inputs WHERE id IN (
       SELECT id FROM (
         SELECT id, last_at, row_number() OVER (
           PARTITION BY organization_id ORDER BY client = '${OTHER_CLIENT}', last_at DESC, id DESC) AS place
         FROM unknown_inputs)
       ORDER BY place, last_at DESC, id DESC LIMIT -1 OFFSET ?)`,
  );
  const columns = "client, kind, operation, name, count, first_at, last_at";
  const byOrganization = db.prepare<[number], UnknownInputRow>(
    `SELECT ${columns} FROM unknown_inputs WHERE organization_id = ?
     ORDER BY client = '${OTHER_CLIENT}', client DESC, last_at DESC, id DESC`,
  );

  return {
    /** Counts one input. What exceeds the bounds is not counted. */
    note(input: UnknownInput): void {
      const { organizationId, client, kind, operation, name } = input;
      const key = JSON.stringify([organizationId, client, kind, operation, name]);
      const known = pending.get(key);
      if (known) {
        known.count += 1;
        return;
      }
      const count = pendingOf.get(organizationId) ?? 0;
      if (count >= MAX_PENDING || pending.size >= MAX_ALL_PENDING) return;
      pendingOf.set(organizationId, count + 1);
      pending.set(key, { input, count: 1 });
    },
    hasUnwritten: (): boolean => pending.size > 0,
    /**
     * Writes what was counted. Call it inside a write.
     * @param at epoch seconds
     * @returns what was not seen before
     */
    flush(at: number): UnknownInputRow[] {
      const fresh: UnknownInputRow[] = [];
      for (const { input, count } of pending.values()) {
        const { organizationId, client, kind, operation, name } = input;
        const row = add.get(organizationId, client, kind, operation, name, count, at, at);
        if (row?.count === count) fresh.push(row);
      }
      pending.clear();
      pendingOf.clear();
      deleteOld.run(at - KEPT_S);
      deleteMore.run(MAX_UNKNOWN_INPUTS);
      return fresh;
    },
    /** Those of an organization: newest releases of the CLI first, other clients last. */
    listByOrganization: (organizationId: number): UnknownInputRow[] => byOrganization.all(organizationId),
  };
}

/** All rows together, as metrics and `assay doctor` show them. The doctor has no other store open. */
export const summarizeUnknownInputs = (db: DbReader): UnknownInputRow[] =>
  db
    .prepare<[], UnknownInputRow>(
      `SELECT client, kind, operation, name, sum(count) AS count, min(first_at) AS first_at, max(last_at) AS last_at
       FROM unknown_inputs GROUP BY client, kind, operation, name
       ORDER BY client = '${OTHER_CLIENT}', client DESC, kind, operation, name`,
    )
    .all();
