/** The period of a tab of a repository: its choice, and the counts in it as a chart. */
import { DAY_S } from "../../../domain/time.ts";
import { barChart } from "../../components/charts.ts";
import { linkButton } from "../../components/layout.ts";
import { formatNumber } from "../../components/state.ts";
import { formatDate } from "../../components/time.ts";
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

/** Links to the other periods. */
export const periodChoice = ({ here }: Visit, { days }: Period): Html =>
  html`<nav class="btn-group more" aria-label="Period">${PERIODS.map(
    (one) =>
      html`<a class="btn btn-s" href="${here({ days: one })}"${
        one === days && html` aria-current="true"`
      }>${one} days</a>`,
  )}</nav>`;

/** Where a shorter period has nothing. */
export const longerPeriod = ({ here }: Visit, { days }: Period): Html | null =>
  days === PERIODS.at(-1) ? null : linkButton(here({ days: PERIODS.at(-1) as number }), "Show 90 days");

/** How often something happened, by day or week. @param times epoch seconds @param what names it: "Builds" */
export function frequencyChart(
  times: readonly number[],
  { period, now, what }: { period: Period; now: number; what: string },
): Html {
  const { days, from } = period;
  const width = days > MAX_DAILY ? WEEK_DAYS : 1;
  const size = Math.ceil(days / width);
  // The last bar ends today; the first one may begin before the period.
  const start = from - (size * width - days) * DAY_S;
  const counts = Array.from({ length: size }, () => 0);
  for (const time of times) {
    const at = Math.floor((time - start) / (width * DAY_S));
    if (at >= 0 && at < size) counts[at] = (counts[at] as number) + 1;
  }
  // Few labels fit, the last one under the last bar.
  const every = Math.ceil(size / MAX_LABELS);
  const bars = counts.map((value, index) => ({
    label: (size - 1 - index) % every === 0 ? formatDate(start + index * width * DAY_S, now) : "",
    parts: [{ colour: "bar", value }] as const,
    isCurrent: index === size - 1,
  }));
  const unit = width === 1 ? "day" : "week";
  return barChart(
    bars,
    `${what} a ${unit} from ${formatDate(from, now)} to ${formatDate(now, now)}: ${formatNumber(times.length)} in all`,
  );
}
