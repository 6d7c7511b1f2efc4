/** What the frame shows about time: the menu in the top bar, and the band below it on every page of the past. */
import { DAY_S } from "../../domain/time.ts";
import { hiddenField } from "../components/forms.ts";
import { icon } from "../components/icon.ts";
import { linkButton } from "../components/layout.ts";
import { formatPast, formatPastLong, formatUtc } from "../components/time.ts";
import { Html, html } from "../html.ts";
import { queryText } from "./links.ts";
import { momentText } from "./moment.ts";
import type { Content, Visit } from "./page.ts";

/** Parameters that belong to one moment, or to one step. */
const NOT_KEPT: readonly string[] = ["at", "moment", "page", "after", "done", "ask"];

/** The field for a moment, which shows this page as of then. @param id of the field, unique in the page */
export function momentForm(
  { query, to, path }: Pick<Visit, "query" | "to" | "path">,
  {
    id,
    value,
    problem,
    timePath = path,
  }: { id: string; value: string; problem: string | null; timePath?: string | undefined },
): Html {
  const kept = [...(timePath === path ? query : [])]
    .filter(([name]) => !NOT_KEPT.includes(name))
    .map(([name, text]) => hiddenField(name, text));
  const invalid = problem !== null && html` aria-invalid="true"`;
  return html`<form method="get" action="${to.path(timePath.slice(1))}">${kept}<label for="${id}">Show everything as
of</label><div class="field-go"><input class="field" id="${id}" type="text" name="at" value="${value}" maxlength="300"
placeholder="2026-10-12 09:00" autocomplete="off" required aria-describedby="${id}-${
    problem === null ? "hint" : "error"
  }"${invalid}><button class="btn btn-primary" type="submit">Go</button></div>${
    problem === null
      ? html`<p class="hint" id="${id}-hint">A date, a time in UTC, or an expression: <code>2.days.ago</code>,
<code>12hours</code>, <code>prod#12</code></p>`
      : html`<p class="field-error" id="${id}-error">${icon("alert-fill", "12")}${problem}</p>`
  }</form>`;
}

/** This page at another moment, or what stands for it there. @param seconds null for the present */
function addressAt({ here, to }: Visit, path: string | undefined, seconds: number | null): string {
  const at = seconds === null ? null : momentText(seconds);
  return path === undefined ? here({ at, after: null, ask: null }) : `${to.path(path.slice(1))}${queryText({ at })}`;
}

/** The button in the top bar with its menu, which works without scripts. */
export function timeMenu(visit: Visit, { moments = [], timePath }: Content): Html {
  const { moment, now } = visit;
  const at = (seconds: number | null): string => addressAt(visit, timePath, seconds);
  const present = moment?.now ?? now;
  const offered = [...namedMoments(present), ...moments.map(({ text, at }) => ({ text, at }))].filter(
    ({ at }) => at <= present,
  );
  const links = offered.map(
    ({ text, at: seconds }) =>
      html`<li><a href="${at(seconds)}"><bdi class="cut">${text}</bdi><span
class="sub">${formatPast(seconds, present)}</span></a></li>`,
  );
  const label = moment === null ? "Now" : formatPast(moment.at, present);
  const value = moment === null ? "" : formatUtc(moment.at).slice(0, 16);
  const form = momentForm(visit, { id: "as-of", value, problem: null, timePath });
  const back = moment !== null && html`<li><a href="${at(null)}">Back to now</a></li>`;
  const mark = html`${icon("clock")}<span><span class="vh">Time: </span>${label}</span>${icon("chevron-down", "12")}`;
  const look = moment === null ? "when" : "when when-past";
  return html`<details class="when-menu" data-menu><summary class="${look}" data-time-menu
title="The time that pages show">${mark}</summary><div class="pop pop-when"><div class="pop-part">${form}</div><ul
class="pop-part pop-links">${links}${back}</ul><p class="pop-part hint">Pages then show stored verdicts and policies of
that time. Nothing is re-evaluated, and nothing can be changed there.</p></div></details>`;
}

function namedMoments(now: number): { text: string; at: number }[] {
  const midnight = Math.floor(now / DAY_S) * DAY_S;
  const date = new Date(now * 1000);
  const quarter = Date.UTC(date.getUTCFullYear(), date.getUTCMonth() - (date.getUTCMonth() % 3), 1) / 1000;
  return [
    { text: "Yesterday, 18:00 UTC", at: midnight - DAY_S / 4 },
    { text: "A week ago", at: midnight - 7 * DAY_S },
    { text: "Start of this quarter", at: quarter },
    { text: "End of last quarter", at: quarter - 1 },
  ];
}

/** The band below the top bar. */
export function asOfBand(visit: Visit, { compareWithNow, timePath }: Content): Html | null {
  const { moment, org, toNow } = visit;
  if (moment === null) return null;
  const { at, now, text } = moment;
  const to = (seconds: number | null): string => addressAt(visit, timePath, seconds);
  const day = (offset: number, words: Html): Html =>
    at + offset > now
      ? html`<span class="btn btn-s hide-s" aria-disabled="true">${words}</span>`
      : html`<a class="btn btn-s hide-s" href="${to(at + offset)}">${words}</a>`;
  const iso = new Date(at * 1000).toISOString();
  const shownAt = html`<time datetime="${iso}" title="${formatUtc(at)}">${formatPastLong(at)}</time>`;
  const compare = compareWithNow ?? toNow.changes({ from: text, to: "now" });
  return html`<aside class="asof" aria-label="Time">${icon("history")}<p class="grow">You are viewing
<b><bdi>${org}</bdi> as of ${shownAt}</b><span class="hide-s">${ageOf(
    now - at,
  )}.<span class="asof-note"> As stored, read only.</span></span></p><span class="asof-do">${day(
    -DAY_S,
    html`${icon("chevron-left")}Day before`,
  )}${day(DAY_S, html`Day after${icon("chevron-right")}`)}${linkButton(compare, "Compare with now", {
    kind: "small",
  })}${linkButton(to(null), "Back to now", { kind: "small" })}</span></aside>`;
}

const YEAR_DAYS = 365;

function ageOf(seconds: number): string {
  const days = Math.floor(seconds / DAY_S);
  if (days >= 2 * YEAR_DAYS) return `, ${Math.floor(days / YEAR_DAYS)} years ago`;
  if (days > 1) return `, ${days} days ago`;
  const hours = Math.floor(seconds / 3_600);
  return hours > 1 ? `, ${hours} hours ago` : "";
}

/**
 * A part of a page as of a moment: forms that ask keep the moment, those that change something are left out, and times
 * are absolute. This is the only place that does so, so no page can forget it.
 */
export function asOf(part: Html, moment: string): Html {
  const kept = hiddenField("at", moment).text;
  const text = part.text
    .replace(/(<form\b[^>]*>)(.*?<\/form>)/gs, (form, start: string, rest: string) => {
      if (/ method="post"/.test(start)) return "";
      return / name="at"/.test(rest) ? form : `${start}${kept}${rest}`;
    })
    .replace(MOVING_TIME, (_all, start: string, iso: string) => {
      return `${start}>${formatPast(Date.parse(iso) / 1000, Date.parse(moment) / 1000)}<`;
    });
  return new Html(text);
}

/** A time that is relative to now, or that scripts show in the zone of the reader. */
const MOVING_TIME = /(<time datetime="([^"]*)"[^>]*) data-(?:relative|absolute)>[^<]*</g;
