/**
 * Actions that tell every day what changed (notifications/daily-changes.ts).
 *
 * Invariant: an action with the trigger has one row, and one job that names the row by `started_at`. A job without its
 * row ends, so that a trigger which was removed and added again, or got another hour, leaves one job.
 *
 * Times are epoch seconds. Call everything that changes something inside a write.
 */
import { findDailyEnd, nextDailyTime } from "../../domain/notification/daily-time.ts";
import type { DailyTime } from "../../domain/notification/daily-time.ts";
import type { jobStore } from "../db/jobs.ts";
import type { Db, SchemaSources } from "../db/types.ts";

/** Payload of the jobs of kind `daily_changes`; `action` is the number of the action. */
export type DailyChangesPayload = { organization_id: number; action: number; started_at: number };

type DailyChangesRow = { started_at: number; covered_until: number; hour: number; time_zone: string };
/** Later than any other start of the same action, whatever the clock says. */
const STEP_S = 0.001;
type ActionKey = { id: number; organization_id: number; number: number };

export function dailyChangesStore(db: Db, { now }: Pick<SchemaSources, "now">, jobs: ReturnType<typeof jobStore>) {
  const byAction = db.prepare<[number], DailyChangesRow>(
    "SELECT started_at, covered_until, hour, time_zone FROM daily_changes WHERE action_id = ?",
  );
  const insert = db.prepare(
    `INSERT OR REPLACE INTO daily_changes (action_id, started_at, covered_until, hour, time_zone)
     VALUES (?, ?, ?, ?, ?)`,
  );
  const update = db.prepare("UPDATE daily_changes SET covered_until = ? WHERE action_id = ?");
  const remove = db.prepare("DELETE FROM daily_changes WHERE action_id = ?");
  const find = (actionId: number): DailyChangesRow | null => byAction.get(actionId) ?? null;
  return {
    /** null for an action without the trigger. */
    find,
    /**
     * The first message is about the time since the latest end of a period; that at another hour, about the time since
     * the message before it. @returns whether anything changed
     */
    start({ id, organization_id, number: action }: ActionKey, daily: DailyTime): boolean {
      const known = find(id);
      if (known && known.hour === daily.hour && known.time_zone === daily.timeZone) return false;
      const at = now();
      const startedAt = Math.max(at, (known?.started_at ?? 0) + STEP_S);
      insert.run(id, startedAt, known?.covered_until ?? findDailyEnd(at, daily), daily.hour, daily.timeZone);
      jobs.add(
        "daily_changes",
        { organization_id, action, started_at: startedAt } satisfies DailyChangesPayload,
        nextDailyTime(at, daily),
      );
      return true;
    },
    stop: ({ id }: Pick<ActionKey, "id">): void => void remove.run(id),
    /** The messages so far are about everything up to `until`. */
    cover: ({ id }: Pick<ActionKey, "id">, until: number): void => void update.run(until, id),
  };
}
