/** What the next trails of a flow would be under a draft of its template, as a preview of it says. */
import type { previewChange } from "../../../api/policies/change-preview.ts";
import type { AnswerOf } from "../../../http/in-process.ts";
import { causesLine } from "../../components/causes.ts";
import { icon } from "../../components/icon.ts";
import type { Preview } from "../../components/impact.ts";
import { card, padded } from "../../components/layout.ts";
import { flip, formatNumber } from "../../components/state.ts";
import { html } from "../../html.ts";
import type { Html, Value } from "../../html.ts";
import type { Visit } from "../../page/page.ts";

type NextTrails = NonNullable<AnswerOf<typeof previewChange>["next_trails"]>;
type Turn = NextTrails["flips"][number];

/** Trails that are listed. */
const MAX_TURNS = 6;

/** The card beside the draft. @param preview the answer about the template of a flow */
export function nextTrailsCard(visit: Visit, preview: Preview): Html {
  const title = { id: "h-next", title: "What the next trails would be" };
  if ("failed" in preview)
    return card({ ...title, body: padded(html`<p>${icon("alert")} It is not known. ${preview.failed}</p>`) });
  const next = preview.next_trails as NextTrails;
  const shown = next.flips.slice(0, MAX_TURNS);
  const notes = [
    next.trails > 0 && next.own_template > 0 && `Left out: ${ownTemplates(next.own_template)}.`,
    preview.stopped !== null && "The preview took too long and stopped early.",
  ].filter((note) => note !== false);
  const unknown = next.unknown_trails.map(({ trail, reason }) =>
    row(visit.to.trail(next.flow, trail), { trail, verdict: null, why: html`<div class="sub">${reason}</div>` }),
  );
  const rest = next.flips.length - shown.length;
  const more = rest > 0 && html`<li><span class="muted">and ${formatNumber(rest)} more</span></li>`;
  const rows = html`${shown.map((turn) => turnRow(visit, next.flow, turn))}${more}${unknown}`;
  return card({
    ...title,
    body: html`${padded(html`<p>${sentenceOf(next)}</p>`)}${
      shown.length + unknown.length > 0 && html`<ul class="rows">${rows}</ul>`
    }`,
    foot: notes.length > 0 && notes.join(" "),
  });
}

function sentenceOf({ trails, own_template: own, left, would_fail, would_pass, unknown }: NextTrails): Value {
  if (trails === 0 && own + left === 0)
    return "The flow has no trails yet, so there is nothing to try the template on.";
  if (trails === 0)
    return own === 0
      ? "No trail was looked at."
      : `The ${left === 0 ? "" : "newest "}trails of the flow have templates of their own, which they keep.`;
  const newest = trails === 1 ? "the newest trail" : `the ${formatNumber(trails)} newest trails`;
  const counts = [
    would_fail > 0 && html`<b class="bad">${formatNumber(would_fail)} would not be compliant</b>`,
    would_pass > 0 && html`<b class="ok">${formatNumber(would_pass)} would be compliant</b>`,
    unknown > 0 && `${formatNumber(unknown)} cannot be evaluated`,
  ].filter((part) => part !== false);
  const found =
    counts.length > 0
      ? counts.map((part, index) => html`${index > 0 && ", "}${part}`)
      : trails === 1
        ? "it would keep its verdict"
        : "all would keep their verdicts";
  return html`If ${newest} began now, with this template and what was reported to ${
    trails === 1 ? "it" : "them"
  }: ${found}.`;
}

const ownTemplates = (own: number): string =>
  own === 1 ? "1 trail that has its own template" : `${formatNumber(own)} trails that have their own template`;

/** @param verdict beside the name; @param why below it */
const row = (href: string, { trail, verdict, why }: { trail: string; verdict: Value; why: Html }): Html =>
  html`<li><div class="grow"><div class="row"><a class="name" href="${href}"><bdi>${trail}</bdi></a>${
    verdict
  }</div>${why}</div></li>`;

const turnRow = ({ to }: Visit, flow: string, turn: Turn): Html =>
  row(to.trail(flow, turn.trail), {
    trail: turn.trail,
    verdict: flip(turn.before, turn.after),
    why: causesLine(turn) ?? html`<div class="muted">nothing is missing any more</div>`,
  });
