/** The verdicts of an environment in a period, without a gap. */
import { fromSqlBoolean } from "../../store/db/database.ts";
import { snapshotRange } from "./scope.ts";
import type { Binder } from "./scope.ts";
import type { VerdictValue } from "./shapes.ts";

/** Snapshots in a row with the same verdict; `first` null: before the first snapshot. Times in epoch seconds. */
type Interval = {
  compliant: boolean | null;
  since: number;
  until: number;
  first: number | null;
  last: number | null;
  failing: number;
};

export type Verdicts = {
  intervals: Interval[];
  snapshots: number;
  /** Seconds, whole ones; together the length of the period. */
  seconds: { compliant: number; nonCompliant: number; unknown: number };
};

/** Each interval is clipped to the period. */
export function gatherVerdicts(binder: Binder, environmentId: number): Verdicts {
  const { from, to } = binder.scope;
  const range = snapshotRange(binder, environmentId);
  const intervals: Interval[] = [];
  let snapshots = 0;
  if (range !== null)
    for (const row of binder.context.store.binders.listVerdicts(environmentId, range.first, range.last)) {
      const at = Math.min(to, Math.max(from, row.timestamp));
      const compliant = fromSqlBoolean(row.compliant);
      if (row.timestamp >= from) snapshots += 1;
      if (intervals.length === 0 && at > from) intervals.push(beforeFirst(from, at));
      const last = intervals.at(-1);
      if (last && last.first !== null && last.compliant === compliant) {
        last.last = row.idx;
        last.failing = Math.max(last.failing, row.non_compliant_count);
        continue;
      }
      if (last) last.until = at;
      const failing = row.non_compliant_count;
      intervals.push({ compliant, since: at, until: to, first: row.idx, last: row.idx, failing });
    }
  if (intervals.length === 0) intervals.push(beforeFirst(from, to));
  return { intervals, snapshots, seconds: sumSeconds(intervals, to - from) };
}

const beforeFirst = (since: number, until: number): Interval => ({
  compliant: null,
  since,
  until,
  first: null,
  last: null,
  failing: 0,
});

function sumSeconds(intervals: readonly Interval[], length: number): Verdicts["seconds"] {
  const sumOf = (verdict: boolean): number =>
    intervals.reduce((sum, one) => sum + (one.compliant === verdict ? Math.max(0, one.until - one.since) : 0), 0);
  // Rounded down, and never up to more than there was: what is left is not known.
  const [compliant, nonCompliant] = [Math.floor(sumOf(true)), Math.ceil(sumOf(false))];
  return { compliant, nonCompliant, unknown: Math.max(0, Math.round(length) - compliant - nonCompliant) };
}

export function presentVerdict({ context, scope }: Binder, environment: string, interval: Interval): VerdictValue {
  const { urls, organization } = context;
  const { compliant, since, until, first, last, failing } = interval;
  return {
    compliant,
    since,
    until: until >= scope.to ? null : until,
    first_snapshot: first,
    last_snapshot: last,
    non_compliant_artifacts: failing,
    html_url:
      first === null
        ? urls.environmentPage(organization.name, environment)
        : urls.snapshotPage(organization.name, environment, first),
  };
}
