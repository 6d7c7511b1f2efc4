/** Charts, drawn on the server: geometry in attributes, colours by class, and a sentence that says what they show. */
import { scaleBand, scaleLinear } from "d3-scale";
import { html } from "../html.ts";
import type { Html, Value } from "../html.ts";
import { icon } from "./icon.ts";
import { formatNumber, plural } from "./state.ts";

type Colour = "ok" | "bad" | "allow" | "none" | "bar" | "cover" | "track";
/** @property href the list that it counts */
type Part = { colour: Colour; value: number; words?: string; href?: string };

/** The list that a bar counts, and what a link to it says. */
type Counted = { href: string; words: string };
/** One bar: its parts from the base line up. `label` stands below it, empty for none. */
type Bar = { label: string; parts: readonly Part[]; isCurrent?: boolean; counted?: Counted | null };

/** A part of a chart as a link. @param area what can be hit, as attributes of a rectangle */
export const chartLink = (
  { href, words }: Counted,
  { area, drawn, isTabStop }: { area: Html; drawn: Value; isTabStop: boolean },
): Html =>
  html`<a class="c-link" href="${href}"${!isTabStop && html` tabindex="-1"`} aria-label="${words}"><title>${
    words
  }</title><rect class="c-hit" ${area}/>${drawn}</a>`;

/**
 * A bar as a link, for a pointer. It may be thinner than 24 px (WCAG 2.5.8): beside every chart with such links there
 * are others to the same lists, which are those for the keyboard.
 */
const barLink = (counted: Counted, area: Html, drawn: Value): Html =>
  chartLink(counted, { area, drawn, isTabStop: false });

/** Of a bar that counts something in a day or week; null for none. */
export const countedIn = (
  amount: number,
  { day, what = "deployment", href }: { day: string; what?: string; href: string },
): Counted | null => (amount === 0 ? null : { href, words: `${day}: ${plural(amount, what)}` });

/** What a chart with links is to a screen reader: an image has no links in it. */
const roleOf = (hasLinks: boolean): string => (hasLinks ? "group" : "img");

/** The lists behind the bars of a chart, for keyboards and fingers. @param summary what the bars stand for: "By day" */
export const barList = (summary: string, bars: readonly (Counted | null)[]): Html | null => {
  const links = bars.flatMap((bar) =>
    bar === null ? [] : [html`<li><a class="grow name" href="${bar.href}">${bar.words}</a></li>`],
  );
  return links.length === 0
    ? null
    : html`<details class="bar-list"><summary>${summary}${icon("chevron-down", "12")}</summary><ul
class="rows rows-dense">${links.reverse()}</ul></details>`;
};

const HEIGHT = 116;
/** Of a chart in a side card; its text has the size that it is given as long as the card is as wide. */
const SIDE_WIDTH = 288;
/** Of a chart in a card of half the page. */
export const HALF_WIDTH = 440;
const [TOP, BASE] = [12, 92];
const AXIS_WIDTH = 22;
/** Digits of the axis above which it needs more room. */
const DIGIT_WIDTH = 6;
const RADIUS = 2;

/**
 * Bars over time.
 * @param sentence says what the chart shows, for those who do not see it
 * @param width what it is drawn for, in pixels
 */
export function barChart(bars: readonly Bar[], sentence: string, width = SIDE_WIDTH): Html {
  const totals = bars.map(({ parts }) => parts.reduce((sum, { value }) => sum + value, 0));
  const most = totals.reduce((highest, total) => Math.max(highest, total), 1);
  const y = scaleLinear([0, most], [BASE, TOP]).nice(2);
  const ticks = y.ticks(2).filter((tick) => Number.isInteger(tick));
  const left = AXIS_WIDTH + Math.max(0, formatNumber(ticks.at(-1) ?? 0).length - 2) * DIGIT_WIDTH;
  const x = scaleBand([...bars.keys()], [left, width]).padding(0.36);
  const grid = ticks.map((tick) => {
    const at = Math.round(y(tick)) + 0.5;
    return html`<line class="c-grid" x1="${left - 4}" x2="${width}" y1="${at}" y2="${at}"/><text class="c-text"
x="${left - 10}" y="${at + 3.5}" text-anchor="end">${formatNumber(tick)}</text>`;
  });
  // A long label of the last bar ends with the chart.
  const shiftOf = (label: string, index: number): number =>
    index < bars.length - 1
      ? 0
      : Math.min(0, width - (x(index) ?? 0) - x.bandwidth() / 2 - (label.length * DIGIT_WIDTH) / 2);
  const drawn = bars.map(({ label, parts, isCurrent, counted = null }, index) => {
    const at = round(x(index) ?? 0);
    const text =
      label !== "" &&
      html`<text class="c-text${isCurrent && " c-strong"}" x="${round(at + x.bandwidth() / 2 + shiftOf(label, index))}"
y="112" text-anchor="middle">${label}</text>`;
    const bar = stack(parts, { x: at, width: round(x.bandwidth()), heightOf: (value) => BASE - y(value) });
    const slot = html`x="${round(at - (x.step() - x.bandwidth()) / 2)}" width="${round(x.step())}" y="0"
height="${BASE}"`;
    return html`${counted === null ? bar : barLink(counted, slot, bar)}${text}`;
  });
  const role = roleOf(bars.some(({ counted = null }) => counted !== null));
  return html`<svg class="chart chart-bars" viewBox="0 0 ${width} ${HEIGHT}" role="${role}"
aria-label="${sentence}">${grid}${drawn}</svg>`;
}

/** The parts of a bar, from the base line up, with a gap of a pixel between them. */
function stack(
  parts: readonly Part[],
  { x, width, heightOf }: { x: number; width: number; heightOf(value: number): number },
): Html[] {
  let bottom = BASE;
  return parts.flatMap(({ colour, value }) => {
    if (value <= 0) return [];
    const height = Math.max(heightOf(value), 1);
    const gap = bottom === BASE ? 0 : 1;
    const top = bottom - height;
    const shown = round(Math.max(height - gap, 1));
    bottom = top;
    return [
      html`<rect class="c-${colour}" x="${x}" y="${round(top)}" width="${width}" height="${shown}" rx="${RADIUS}"/>`,
    ];
  });
}

/** One bar in which each part has its share of the whole. Without parts, the track alone. */
export function segments(parts: readonly Part[], sentence: string): Html {
  const total = parts.reduce((sum, { value }) => sum + value, 0);
  let from = 0;
  const drawn = parts.map(({ colour, value, words = "", href }) => {
    if (value <= 0) return null;
    const share = (value / total) * 100;
    const at = from;
    from += share;
    const place = html`x="${at.toFixed(2)}%" width="${share.toFixed(2)}%" height="6"`;
    const rect = html`<rect class="c-${colour}" ${place}/>`;
    return href === undefined ? rect : barLink({ href, words: `${formatNumber(value)} ${words}` }, place, rect);
  });
  const track = total === 0 && html`<rect class="c-track" width="100%" height="6"/>`;
  const role = roleOf(total > 0 && parts.some(({ href }) => href !== undefined));
  return html`<svg class="seg" role="${role}" aria-label="${sentence}">${track}${drawn}</svg>`;
}

/** Artifacts by verdict. */
type Verdicts = { compliant: number; failing: number; unknown: number };

/**
 * `9 running, 1 failing`, with a bar of the shares.
 * @param listOf where these are listed: all of them, or those in a state
 * @param isPast whether it is about what ran
 */
export function verdictBar(
  { compliant, failing, unknown }: Verdicts,
  listOf: (show: "failing" | "compliant" | "unknown" | null) => string,
  { isPast = false }: { isPast?: boolean } = {},
): Html {
  const total = compliant + failing + unknown;
  const [running, fail] = isPast ? ["ran", "failed"] : ["running", "failing"];
  const text = html`<a href="${listOf(null)}">${formatNumber(total)} ${running}${failing > 0 && ","}</a>${
    failing > 0 && html` <a href="${listOf("failing")}">${formatNumber(failing)} ${fail}</a>`
  }`;
  const parts = [
    { colour: "ok", value: compliant, words: "compliant", href: listOf("compliant") },
    { colour: "bad", value: failing, words: "non-compliant", href: listOf("failing") },
    { colour: "none", value: unknown, words: "of unknown state", href: listOf("unknown") },
  ] as const;
  const named = parts.filter(({ value }) => value > 0).map(({ value, words }) => `${formatNumber(value)} ${words}`);
  const bar = segments(parts, named.join(", ") || (isPast ? "Nothing ran" : "Nothing runs"));
  return html`<div class="seg-cell"><span class="sub num"><span>${text}</span></span>${bar}</div>`;
}

const BARS_HEIGHT = 96;

/**
 * Bars side by side, one for each day.
 * @param days `label` names a day in its title @param finding the sentence for screen readers
 */
export function dayBars(
  days: readonly { label: string; amount: number; counted: Counted | null }[],
  finding: string,
): Html {
  const most = days.reduce((max, { amount }) => Math.max(max, amount), 1);
  const step = 100 / Math.max(1, days.length);
  const bars = days.map(({ label, amount, counted }, at) => {
    const height = Math.max(amount === 0 ? 2 : 4, Math.round((amount / most) * BARS_HEIGHT));
    const place = html`x="${(at * step).toFixed(2)}%" width="${(step * 0.72).toFixed(2)}%"`;
    const rect = html`<rect class="${amount === 0 ? "c-track" : "c-bar"}" ${place} y="${BARS_HEIGHT - height}"
height="${height}" rx="2">${counted === null && html`<title>${label}: ${amount}</title>`}</rect>`;
    const slot = html`x="${(at * step).toFixed(2)}%" width="${step.toFixed(2)}%" y="0" height="${BARS_HEIGHT}"`;
    return counted === null ? rect : barLink(counted, slot, rect);
  });
  const role = roleOf(days.some(({ counted }) => counted !== null));
  return html`<svg class="chart" height="${BARS_HEIGHT}" role="${role}" aria-label="${finding}">${bars}</svg><div
class="axis"
aria-hidden="true"><span>${days[0]?.label}</span><span>${days.at(-1)?.label}</span></div>`;
}

/** The colours of a chart in words. */
export const legend = (entries: readonly { colour: Colour; text: string }[]): Html =>
  html`<div class="legend gap-t2">${entries.map(
    ({ colour, text }) =>
      html`<span><svg aria-hidden="true"><rect class="c-${colour}" width="8" height="8"/></svg>${text}</span>`,
  )}</div>`;

const round = (value: number): number => Math.round(value * 10) / 10;
