/** The period of a tab of a repository: its choice, and the counts in it as a chart. */
import { DAY_S, parseIsoTime } from "../../../domain/time.ts";
import { barChart, barList, countedIn } from "../../components/charts.ts";
import { linkButton } from "../../components/layout.ts";
import { formatNumber } from "../../components/state.ts";
import { formatDate, formatUtc } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";

const PERIODS = [7, 14, 30, 90] as const;
const DEFAULT_DAYS = 30;
/** Longer periods are shown by the week. */
const MAX_DAILY = 30;
const WEEK_DAYS = 7;
const MAX_LABELS = 4;

/** `from` and `to` in epoch seconds; whole days in UTC, today included. */
export type Period = { days: number; from: number; to: number };

/** The period in the address. */
export function periodOf({ query, now }: Pick<Visit, "query" | "now">): Period {
  const days = PERIODS.find((one) => String(one) === query.get("days")) ?? DEFAULT_DAYS;
  const end = (Math.floor(now / DAY_S) + 1) * DAY_S;
  return { days, from: end - days * DAY_S, to: end - 1 };
}

/** The days of one bar that the address asks for, which the list then shows; null for the whole period. */
function barOf({ query }: Pick<Visit, "query">, { from, to }: Period): { start_ts: number; end_ts: number } | null {
  const first = parseIsoTime(query.get("from") ?? "");
  const last = parseIsoTime(query.get("to") ?? "", { endOfDay: true });
  if (first === null || last === null || first > last || first > to || last < from) return null;
  return { start_ts: Math.max(first, from), end_ts: Math.min(last, to) };
}

/** The part of the period that the list shows, and how many of what it counts there are. */
export function listWindow(visit: Visit, period: Period) {
  const bar = barOf(visit, period);
  const all = html`<a href="${visit.here(WHOLE)}">Show all ${period.days} days</a>`;
  return {
    window: bar ?? { start_ts: period.from, end_ts: period.to },
    note: (total: number): Html =>
      bar === null
        ? html`${formatNumber(total)} in ${period.days} days`
        : html`${formatNumber(total)} from ${formatDate(bar.start_ts, visit.now)} to ${formatDate(
            bar.end_ts,
            visit.now,
          )}. ${all}`,
  };
}

const WHOLE = { from: null, to: null } as const;

/** Links to the other periods. */
export const periodChoice = ({ here }: Visit, { days }: Period): Html =>
  html`<nav class="btn-group more" aria-label="Period">${PERIODS.map(
    (one) =>
      html`<a class="btn btn-s" href="${here({ days: one, ...WHOLE })}"${
        one === days && html` aria-current="true"`
      }>${one} days</a>`,
  )}</nav>`;

/** Where a shorter period has nothing. */
export const longerPeriod = ({ here }: Visit, { days }: Period): Html | null =>
  days === PERIODS.at(-1) ? null : linkButton(here({ days: PERIODS.at(-1) as number, ...WHOLE }), "Show 90 days");

/**
 * How often something happened, by day or week. A bar leads to its days in the list of the tab.
 * @param times epoch seconds @param width that of the chart, if not of one in a side card
 */
export function frequencyChart(
  { now, here }: Pick<Visit, "now" | "here">,
  times: readonly number[],
  { period, what, width }: { period: Period; what: "build" | "deployment"; width?: number },
): Html {
  const { days, from } = period;
  const span = days > MAX_DAILY ? WEEK_DAYS : 1;
  const size = Math.ceil(days / span);
  // The last bar ends today; the first one may begin before the period.
  const start = from - (size * span - days) * DAY_S;
  const counts = Array.from({ length: size }, () => 0);
  for (const time of times) {
    const at = Math.floor((time - start) / (span * DAY_S));
    if (at >= 0 && at < size) counts[at] = (counts[at] as number) + 1;
  }
  // Few labels fit, the last one under the last bar.
  const every = Math.ceil(size / MAX_LABELS);
  const bars = counts.map((value, index) => {
    const first = start + index * span * DAY_S;
    const last = first + (span - 1) * DAY_S;
    const day = span === 1 ? formatDate(first, now) : `${formatDate(first, now)} to ${formatDate(last, now)}`;
    return {
      label: (size - 1 - index) % every === 0 ? formatDate(first, now) : "",
      parts: [{ colour: "bar", value }] as const,
      isCurrent: index === size - 1,
      counted: countedIn(value, { day, what, href: here({ from: dateOf(first), to: dateOf(last) }) }),
    };
  });
  const unit = span === 1 ? "day" : "week";
  const [first, last, all] = [formatDate(from, now), formatDate(now, now), formatNumber(times.length)];
  const chart = barChart(
    bars,
    `${what === "build" ? "Builds" : "Deployments"} a ${unit} from ${first} to ${last}: ${all} in all`,
    width,
  );
  const counted = bars.map((bar) => bar.counted);
  return html`${chart}${barList(span === 1 ? "By day" : "By week", counted)}`;
}

const dateOf = (seconds: number): string => formatUtc(seconds).slice(0, 10);
