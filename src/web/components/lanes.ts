/** Times at which something ran, one lane for each place: a chart made on the server. */
import { scaleUtc } from "d3-scale";
import { html } from "../html.ts";
import type { Html, Value } from "../html.ts";
import { chartLink } from "./charts.ts";
import { formatDate } from "./time.ts";

/** @property to epoch seconds; null: until now @property href the snapshot with which it began */
export type Span = { from: number; to: number | null; isCompliant: boolean | null; href: string; words: string };
type Lane = {
  name: Value;
  href: string;
  spans: readonly Span[];
  /** What the lane shows, in a sentence, for people who do not see it. */
  label: string;
  /** At the right of the lane: the present state. */
  state: Value;
};

const DAY = 86_400;
const TICKS = 4;
/** Percent of the width: a shorter time is still seen. */
const MIN_WIDTH = 0.5;
/** Percent from which on a bar is a link: 24 px where a lane is narrow (WCAG 2.5.8). The log has what is shorter. */
export const MIN_LINK_WIDTH = 10;
/** Percent from the ends in which a label of the axis would cover the one of the end. */
const END_LABELS = 14;
/** The same for a start that is a time with its zone. */
const START_LABEL_UTC = 18;
/** The same for the start of a narrow axis; the style sheet says what is narrow. */
const START_LABEL_NARROW = 28;
/** And for its end. */
const END_LABEL_NARROW = 20;

const percent = (value: number): string => `${Math.round(value * 100) / 100}%`;

/** @param from epoch seconds at the left; earlier times are cut */
export function lanes(
  items: readonly Lane[],
  { from, now, end = "now" }: { from: number; now: number; end?: string },
): Html {
  const scale = scaleUtc()
    .domain([from * 1000, Math.max(now, from + 1) * 1000])
    .range([0, 100])
    .clamp(true);
  const at = (seconds: number): number => scale(seconds * 1000);
  const isShort = now - from < 2 * DAY;
  const ticks = scale
    .ticks(TICKS)
    .map((date) => ({ seconds: date.getTime() / 1000, x: scale(date) }))
    .filter(({ x }) => x > (isShort ? START_LABEL_UTC : END_LABELS) && x < 100 - END_LABELS);
  const label = (seconds: number): string =>
    isShort ? new Date(seconds * 1000).toISOString().slice(11, 16) : formatDate(seconds, now);
  const grid = ticks.map(({ x }) => html`<line class="c-grid" x1="${percent(x)}" x2="${percent(x)}" y1="0" y2="20"/>`);
  const rows = items.map(
    (
      lane,
    ) => html`<div class="lane-row"><a class="lane-n cut" href="${lane.href}">${lane.name}</a><svg class="chart lane"
height="20" role="group" aria-label="${lane.label}">${grid}<rect class="c-track" width="100%" y="4" height="12"
rx="3"/>${lane.spans.map((span) => bar(span, at, now))}</svg><span class="lane-s">${lane.state}</span></div>`,
  );
  const text = (x: number, anchor: "start" | "middle" | "end", shown: string): Html => {
    const isNear = x > 0 && x < 100 && (x < START_LABEL_NARROW || x > 100 - END_LABEL_NARROW);
    const look = html`class="c-text${isNear && " c-near"}"`;
    return html`<text ${look} x="${percent(x)}" y="12" text-anchor="${anchor}">${shown}</text>`;
  };
  return html`<div class="lanes">${rows}<svg class="chart axis" height="16" aria-hidden="true">${text(
    0,
    "start",
    `${label(from)}${isShort ? " UTC" : ""}`,
  )}${ticks.map(({ seconds, x }) => text(x, "middle", label(seconds)))}${text(100, "end", end)}</svg></div>`;
}

function bar({ from, to, isCompliant, href, words }: Span, at: (seconds: number) => number, now: number): Html {
  const end = at(to ?? now);
  const width = Math.max(end - at(from), MIN_WIDTH);
  const colour = isCompliant === true ? "c-ok" : isCompliant === false ? "c-bad" : "c-none";
  const x = percent(Math.min(at(from), 100 - width));
  const place = html`x="${x}" width="${percent(width)}"`;
  const drawn = html`<rect class="${colour}" ${place} y="4" height="12" rx="3"/>`;
  return width < MIN_LINK_WIDTH ? drawn : stretchLink({ href, words }, html`${place} y="-2"`, drawn);
}

/** A stretch of time as a link. @param place its position and width in the strip, as attributes */
export const stretchLink = (stretch: { href: string; words: string }, place: Html, drawn: Value): Html =>
  chartLink(stretch, { area: html`${place} height="24"`, drawn, isTabStop: true });

/** What the colours mean. */
export const lanesLegend = (): Html =>
  html`<div class="legend right">${[
    ["c-ok", "compliant"],
    ["c-bad", "non-compliant"],
    ["c-none", "unknown"],
  ].map(
    ([colour, word]) =>
      html`<span><svg aria-hidden="true"><rect class="${colour}" width="8" height="8"/></svg>${word}</span>`,
  )}</div>`;
