/**
 * Times. The server writes UTC, relative where a time is recent; the script shows absolute ones in the zone of the
 * reader. The title has the exact time in UTC.
 */
import { describeNoDate, isCalendarTime } from "../../domain/time.ts";
import { html } from "../html.ts";
import type { Html } from "../html.ts";

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"] as const;

/** `2 h ago`, `in 6 days`, `12 Oct`, `12 Oct 2025`. @param seconds epoch seconds */
function formatRelative(seconds: number, now: number): string {
  const age = now - seconds;
  const distance = Math.abs(age);
  if (distance < MINUTE) return age >= 0 ? "just now" : "in a moment";
  const text =
    distance < HOUR
      ? `${Math.floor(distance / MINUTE)} min`
      : distance < 2 * DAY
        ? `${Math.floor(distance / HOUR)} h`
        : distance < 14 * DAY
          ? `${Math.floor(distance / DAY)} days`
          : null;
  if (text === null) return formatDate(seconds, now);
  return age >= 0 ? `${text} ago` : `in ${text}`;
}

/** `12 Oct`, with the year where it is not the present one; in UTC. */
export function formatDate(seconds: number, now: number): string {
  if (!isCalendarTime(seconds)) return describeNoDate(seconds);
  const date = new Date(seconds * 1000);
  const year = date.getUTCFullYear();
  const day = `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
  return year === new Date(now * 1000).getUTCFullYear() ? day : `${day} ${year}`;
}

/** `2026-11-20 07:14:09 UTC`. */
export const formatUtc = (seconds: number): string =>
  isCalendarTime(seconds) ? `${isoOf(seconds).slice(0, 19).replace("T", " ")} UTC` : describeNoDate(seconds);

/** For a field with a date and time in UTC: `2026-11-20 07:14`; empty for a time without a date. */
export const formatInput = (seconds: number): string =>
  isCalendarTime(seconds) ? isoOf(seconds).slice(0, 16).replace("T", " ") : "";

const isoOf = (seconds: number): string => new Date(seconds * 1000).toISOString();

/** A reported time that has no date. */
const noDate = (seconds: number): Html =>
  html`<span title="Times are seconds since 1970; this number has no date">${describeNoDate(seconds)}</span>`;

/** A time, relative where it is recent. Null and 0 are shown as a dash. */
export function time(seconds: number | null | undefined, now: number): Html {
  if (!seconds) return html`<span class="muted">–</span>`;
  if (!isCalendarTime(seconds)) return noDate(seconds);
  const attributes = html`datetime="${isoOf(seconds)}" title="${formatUtc(seconds)}"`;
  return html`<time ${attributes} data-relative>${formatRelative(seconds, now)}</time>`;
}

/** A time of day and its date, always absolute: for logs, where the order matters more than the age. */
export function timestamp(seconds: number): Html {
  if (!isCalendarTime(seconds)) return noDate(seconds);
  const iso = isoOf(seconds);
  const text = iso.slice(0, 16).replace("T", " ");
  return html`<time datetime="${iso}" title="${formatUtc(seconds)}" data-absolute>${text}</time>`;
}

/** A time in UTC, always absolute and to the second, for documents whose columns say that times are in UTC. */
export const utcTime = (seconds: number): Html =>
  isCalendarTime(seconds)
    ? html`<time datetime="${isoOf(seconds)}"><span class="nowrap">${isoOf(seconds).slice(0, 10)}</span> ${isoOf(
        seconds,
      ).slice(11, 19)}</time>`
    : noDate(seconds);

const WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"] as const;

/** `09:14` of the present day, `Thu 22:05` of the last six days, `12 Oct 22:05`; in UTC. */
export function formatMoment(seconds: number, now: number): string {
  if (!isCalendarTime(seconds)) return describeNoDate(seconds);
  const clock = isoOf(seconds).slice(11, 16);
  const [day, today] = [Math.floor(seconds / DAY), Math.floor(now / DAY)];
  if (day === today) return clock;
  const age = today - day;
  return age > 0 && age < 7
    ? `${WEEKDAYS[new Date(seconds * 1000).getUTCDay()]} ${clock}`
    : `${formatDate(seconds, now)} ${clock}`;
}

/** `12 Oct, 08:41`, with the year where it is not that of `now`; in UTC. For pages of the past. */
export const formatPast = (seconds: number, now: number): string =>
  isCalendarTime(seconds) ? `${formatDate(seconds, now)}, ${isoOf(seconds).slice(11, 16)}` : describeNoDate(seconds);

/** `Mon 12 Oct 2026, 09:00 UTC`, with seconds where there are some. @param seconds a time with a date */
export function formatPastLong(seconds: number): string {
  const date = new Date(seconds * 1000);
  const clock = isoOf(seconds).slice(11, date.getUTCSeconds() === 0 ? 16 : 19);
  const day = `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]} ${date.getUTCFullYear()}`;
  return `${WEEKDAYS[date.getUTCDay()]} ${day}, ${clock} UTC`;
}

/** A moment among others of a few days, for pages that say that their times are in UTC. */
export const moment = (seconds: number, now: number): Html =>
  isCalendarTime(seconds)
    ? html`<time datetime="${isoOf(seconds)}" title="${formatUtc(seconds)}">${formatMoment(seconds, now)}</time>`
    : noDate(seconds);

/** `3 h 12 min`, `2 days 4 h`, `40 s`; no line ends before a unit. @param seconds a duration */
export function formatSpan(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < MINUTE) return `${whole}\u00a0s`;
  if (whole < HOUR) return `${Math.floor(whole / MINUTE)}\u00a0min`;
  if (whole < 2 * DAY) return joinUnits([whole / HOUR, "h"], [(whole % HOUR) / MINUTE, "min"]);
  return joinUnits([whole / DAY, "days"], [(whole % DAY) / HOUR, "h"]);
}

/** As formatSpan, without hours where there are many days. @param seconds a duration */
export const shortSpan = (seconds: number): string =>
  seconds < 10 * DAY ? formatSpan(seconds) : `${Math.round(seconds / DAY)}\u00a0days`;

type Part = readonly [amount: number, unit: string];
const joinUnits = (...parts: readonly [Part, Part]): string =>
  parts
    .map(([amount, unit]) => [Math.floor(amount), unit] as const)
    .filter(([amount]) => amount > 0)
    .map(([amount, unit]) => `${amount}\u00a0${unit}`)
    .join(" ");
