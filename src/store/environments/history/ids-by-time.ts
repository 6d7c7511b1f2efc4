/** Finds the rows of a period in a table that an organization only appends to, by their ids, which rise with time. */
import type { DbReader } from "../../db/types.ts";

/** Tables with an index on organization and id, and the columns with their times. */
const TIMES = { allowlist_entries: "timestamp", artifacts: "created_at" } as const;
type AppendedTable = keyof typeof TIMES;

/** What a clock that is set back may shift, in seconds: the range has this much more on either side. */
const SLACK_S = 3_600;

export function idsByTime(db: DbReader, table: AppendedTable) {
  const latest = db
    .prepare<[number], number>(`SELECT id FROM ${table} WHERE organization_id = ? ORDER BY id DESC LIMIT 1`)
    .pluck();
  const from = db.prepare<[number, number], { id: number; timestamp: number }>(
    `SELECT id, ${TIMES[table]} AS timestamp FROM ${table} WHERE organization_id = ? AND id >= ? ORDER BY id LIMIT 1`,
  );

  /** The lowest id from which on rows are of this time or later; beyond the latest one where none is. */
  function findFirst(organizationId: number, time: number): number {
    let low = 1;
    let high = (latest.get(organizationId) ?? 0) + 1;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      const row = from.get(organizationId, middle);
      if (row === undefined || row.timestamp >= time) high = middle;
      else low = row.id + 1;
    }
    return low;
  }

  return {
    /** Ids, both inclusive, that include the rows of a period; empty when first > last. The caller compares times. */
    findRange: (
      organizationId: number,
      { from: begin, to }: { from: number; to: number },
    ): { first: number; last: number } => ({
      first: findFirst(organizationId, begin - SLACK_S),
      last: findFirst(organizationId, to + SLACK_S + 1) - 1,
    }),
  };
}
