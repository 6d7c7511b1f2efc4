/** The strip with the verdicts of an environment over time, a slider over it, and a field for a time. */
import { getSnapshotHistory } from "../../../api/environments/snapshot-history.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { MIN_LINK_WIDTH, stretchLink } from "../../components/lanes.ts";
import { formatNumber } from "../../components/state.ts";
import { formatDate, formatInput, formatSpan, formatUtc } from "../../components/time.ts";
import { html } from "../../html.ts";
import type { Html } from "../../html.ts";
import type { Visit } from "../../page/page.ts";
import type { ShownEnvironment } from "./types.ts";

type History = AnswerOf<typeof getSnapshotHistory>;
type Run = History["runs"][number];

/** Runs in a strip: each is some pixels wide. */
const MAX_RUNS = 120;
/** Per cent of the width that separates two runs. */
const GAP = 0.2;
const MIN_WIDTH = 0.4;
/** Positions of the slider. */
const STEPS = 400;
const TICKS = 5;
/** Periods that the sentence for screen readers names. */
const MAX_PERIODS = 5;

/** @param at the snapshot that is shown */
export async function historyCard(
  visit: Visit,
  { name }: ShownEnvironment,
  at: { index: number; timestamp: number },
): Promise<Html> {
  const history = await visit.call(getSnapshotHistory, {
    params: { env_name: name },
    query: { around: at.index, limit: MAX_RUNS },
  });
  const [first, last] = [history.runs[0], history.runs.at(-1)];
  if (!first || !last) return html``;
  const span = Math.max(1, history.end - first.from);
  const all = rangeOf({ ...first, last_index: last.last_index });
  const range = `${all}, ${formatSpan(history.end - first.from)}`;
  const rects = history.runs.map((run) =>
    runBar(run, { start: first.from, span, shown: at.index, href: visit.to.snapshot(name, run.first_index) }),
  );
  const action = visit.to.environment(name);
  const isNow = last.last_index === history.total;
  const shownAt = visit.moment?.at ?? at.timestamp;
  return html`<section class="card hist" aria-labelledby="h-hist"><div class="hist-top"><h2
id="h-hist">History</h2><span
class="sub">${range}</span>${momentForm(action, shownAt)}</div>
<svg class="chart" height="24" role="group" aria-label="${sentence(history)}">${rects}</svg>
${slider(action, { from: first.from, to: history.end, at: Math.min(shownAt, history.end) })}
<div class="axis" aria-hidden="true">${ticks({ from: first.from, span, now: visit.now, isNow })}</div></section>`;
}

function runBar(
  run: Run,
  { start, span, shown, href }: { start: number; span: number; shown: number; href: string },
): Html {
  const x = ((run.from - start) / span) * 100;
  const width = Math.max(MIN_WIDTH, ((run.to - run.from) / span) * 100 - GAP);
  const isCurrent = run.first_index <= shown && shown <= run.last_index;
  const look = run.compliant === null ? "c-none" : run.compliant ? "c-ok" : "c-bad";
  const [y, height] = run.compliant === false ? [0, 20] : [10, 10];
  const name = rangeOf(run);
  const mark = isCurrent && html`<rect class="c-mark" ${place(x, width)} y="22" height="2"/>`;
  const words = `${name}, from ${formatUtc(run.from)}`;
  const isLink = width >= MIN_LINK_WIDTH;
  const rect = html`<rect class="${look}" ${place(x, width)} y="${y}" height="${height}" rx="1">${
    !isLink && html`<title>${words}</title>`
  }</rect>${mark}`;
  // Ends where the slider begins.
  return isLink ? stretchLink({ href, words }, html`${place(x, width)} y="-8"`, rect) : rect;
}

const place = (x: number, width: number): Html =>
  html`x="${Math.min(x, 100 - MIN_WIDTH).toFixed(2)}%" width="${width.toFixed(2)}%"`;

/** Shows the environment as of another moment. @param at epoch seconds */
const momentForm = (action: string, at: number): Html =>
  html`<form class="right row" method="get" action="${action}"><label class="sub" for="at">State at
(UTC)</label><input
class="field" id="at" type="text" name="at" value="${formatInput(at)}" size="16" maxlength="300"
title="A time in UTC, or as in Diff: #12, ~1, @{2.days.ago}" required><button
class="btn"
type="submit">Go</button></form>`;

/** A position is a time, so that the thumb stands below what it shows. Scripts submit it when it was moved. */
function slider(action: string, { from, to, at }: { from: number; to: number; at: number }): Html {
  const step = Math.max(1, Math.round((to - from) / STEPS));
  // Not after now: that would be the future.
  const [low, high] = [Math.floor(from), Math.floor(to)];
  const value = low + Math.round((at - low) / step) * step;
  const range = html`min="${low}" max="${high}" step="${step}" value="${Math.min(value, high)}"`;
  return html`<form class="hist-slide" method="get" action="${action}"><label class="vh" for="moment">Time: show the
snapshot
in force then</label><input id="moment" type="range" name="at" ${range} data-submit><button class="btn btn-s no-js"
type="submit">Show</button></form>`;
}

function ticks({ from, span, now, isNow }: { from: number; span: number; now: number; isNow: boolean }): Html[] {
  return Array.from({ length: TICKS }, (_, at) => {
    const time = from + (span * at) / (TICKS - 1);
    const text = at === TICKS - 1 && isNow ? "now" : tickText(time, { span, now });
    return html`<span>${text}</span>`;
  });
}

const DAY_S = 86_400;
const tickText = (time: number, { span, now }: { span: number; now: number }): string =>
  span < 3 * DAY_S ? formatUtc(time).slice(11, 16) : formatDate(time, now);

/** `#7`, or `#1 to #7`. */
const rangeOf = ({ first_index: first, last_index: last }: Pick<Run, "first_index" | "last_index">): string =>
  first === last ? `#${first}` : `#${first} to #${last}`;

/** What the strip shows, in words. */
function sentence({ runs, end }: History): string {
  const snapshots = (runs.at(-1)?.last_index ?? 0) - (runs[0]?.first_index ?? 1) + 1;
  const failing: { from: number; to: number }[] = [];
  for (const { compliant, from, to } of runs) {
    if (compliant !== false) continue;
    const before = failing.at(-1);
    if (before?.to === from) before.to = to;
    else failing.push({ from, to });
  }
  const base = `${formatNumber(snapshots)} snapshots since ${formatUtc(runs[0]?.from ?? end)}`;
  if (failing.length === 0) return `${base}; none is non-compliant`;
  const periods = failing
    .slice(-MAX_PERIODS)
    .map(({ from, to }) => `${formatUtc(from)} ${to === end ? "until now" : `to ${formatUtc(to)}`}`);
  const more = failing.length > MAX_PERIODS ? `, and in ${failing.length - MAX_PERIODS} earlier periods` : "";
  return `${base}; non-compliant from ${periods.join(", from ")}${more}`;
}
