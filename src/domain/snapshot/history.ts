/** The history of an environment as a strip: snapshots, or runs of snapshots where there are too many of them. */

/** A snapshot with its time in epoch seconds and its verdict; null: unknown. */
type HistoryPoint = { index: number; timestamp: number; compliant: boolean | null };

/** Snapshots that follow each other. `to`: time of the snapshot after the last one, or the end of the history. */
type HistoryRun = {
  first_index: number;
  last_index: number;
  from: number;
  to: number;
  compliant: boolean | null;
};

/**
 * At most `limit` runs, oldest first: single snapshots if there are no more than that, otherwise runs of equal verdict,
 * otherwise runs that also join what is shorter than a `limit`th of the history. A run has the worst verdict in it, so
 * that no failure disappears.
 * @param points oldest first @param end epoch seconds
 */
export function runsOf(points: readonly HistoryPoint[], { limit, end }: { limit: number; end: number }): HistoryRun[] {
  const times = risingTimes(points, end);
  const single = points.map(
    ({ index, compliant }, at): HistoryRun => ({
      first_index: index,
      last_index: index,
      from: times[at] as number,
      to: times[at + 1] ?? end,
      compliant,
    }),
  );
  if (single.length <= limit) return single;
  const equal = joined(single, (run, next) => run.compliant === next.compliant);
  if (equal.length <= limit) return equal;
  const first = times[0] ?? 0;
  const part = Math.max(1, (end - first) / Math.max(1, limit - 1));
  const partOf = ({ from }: HistoryRun): number => Math.floor((from - first) / part);
  return joined(equal, (run, next) => partOf(run) === partOf(next));
}

/** The times without setbacks: a clock that ran ahead may have dated a snapshot after the next one or the end. */
function risingTimes(points: readonly HistoryPoint[], end: number): number[] {
  let latest = 0;
  return points.map(({ timestamp }) => (latest = Math.max(latest, Math.min(timestamp, end))));
}

/** Joins neighbours for as long as they belong together. */
function joined(runs: readonly HistoryRun[], belong: (run: HistoryRun, next: HistoryRun) => boolean): HistoryRun[] {
  const result: HistoryRun[] = [];
  for (const next of runs) {
    const run = result.at(-1);
    if (run && belong(run, next))
      result[result.length - 1] = {
        ...run,
        last_index: next.last_index,
        to: next.to,
        compliant: worse(run.compliant, next.compliant),
      };
    else result.push(next);
  }
  return result;
}

/** Failing is worse than unknown, which is worse than compliant. */
const worse = (one: boolean | null, other: boolean | null): boolean | null =>
  one === false || other === false ? false : one === null || other === null ? null : true;
