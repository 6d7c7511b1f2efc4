/** The parts that pages are made of: heads, cards, tabs, tables, figures, empty states. */
import { html } from "../html.ts";
import type { Html, Value } from "../html.ts";
import { copyButton } from "./identifier.ts";
import { icon } from "./icon.ts";
import type { IconName } from "./icon.ts";
import { count } from "./state.ts";

/** The head of a page. `state` is a badge; `actions` are buttons. */
export function pageHead({
  title,
  state,
  sub,
  meta = [],
  actions = [],
  above,
}: {
  title: Value;
  state?: Value;
  sub?: string | null;
  meta?: readonly Value[];
  actions?: readonly Value[];
  above?: string;
}): Html {
  const shown = meta.filter((item) => item !== null && item !== undefined && item !== false);
  const buttons = actions.filter((item) => item !== null && item !== undefined && item !== false);
  return html`<div class="ph"><div class="ph-main">${above && html`<p class="sub">${above}</p>`}
<div class="ph-title"><h1>${title}</h1>${state}</div>
${sub && html`<p class="ph-sub">${sub}</p>`}
${shown.length > 0 && html`<div class="meta">${shown.map((item) => html`<span>${item}</span>`)}</div>`}</div>
${buttons.length > 0 && html`<div class="actions">${buttons}</div>`}</div>`;
}

/** A link that looks like a button. */
export const linkButton = (
  href: string,
  text: Value,
  { icon: name, kind = "" }: { icon?: IconName; kind?: "primary" | "danger" | "small" | "" } = {},
): Html => {
  const look = { primary: " btn-primary", danger: " btn-danger", small: " btn-s", "": "" }[kind];
  return html`<a class="btn${look}" href="${href}">${name && icon(name)}${text}</a>`;
};

/** A link that downloads a file. */
export const downloadButton = (href: string, text: string, kind: "" | "small" = ""): Html =>
  html`<a class="btn${kind === "small" && " btn-s"}" href="${href}" download>${icon("download")}${text}</a>`;

type Tab = { text: string; href: string; isCurrent: boolean; count?: number | null };

/** Tabs of a page; each is a link, so that it can be shared. */
export const tabs = (label: string, items: readonly (Tab | null | false)[]): Html =>
  html`<nav class="tabs" aria-label="${label}">${items.map(
    (item) =>
      item &&
      html`<a href="${item.href}"${item.isCurrent && html` aria-current="page"`}>${item.text}${
        item.count !== undefined && item.count !== null && html` ${count(item.count)}`
      }</a>`,
  )}</nav>`;

/** A box with a heading. `more` is a link or buttons at its right; `body` comes without padding. */
export function card({
  id,
  title,
  note,
  more,
  body,
  foot,
}: {
  /** Id of the heading, unique in the page. */
  id: string;
  title: Value;
  note?: Value;
  more?: Value;
  body: Value;
  foot?: Value;
}): Html {
  return html`<section class="card" aria-labelledby="${id}"><div class="card-h"><h2 id="${id}">${title}</h2>${
    note && html`<span class="sub">${note}</span>`
  }${more}</div>${body}${foot && html`<div class="card-f">${foot}</div>`}</section>`;
}

/** The link at the right of the head of a card. */
export const moreLink = (href: string, text: Value): Html => html`<a class="more" href="${href}">${text}</a>`;

/** Padding for the body of a card that is not a table or list. */
export const padded = (body: Value): Html => html`<div class="card-b">${body}</div>`;

/** A column of a table. `sort` is the link that sorts by it. */
export type TableColumn = {
  text: string;
  isRight?: boolean;
  /** Hidden on phones, which show the value elsewhere. */
  className?: string;
  isHidden?: boolean;
  sort?: { href: string; direction: "ascending" | "descending" | null };
};

/** A table. `rows` are `tr` or `tbody` elements; a caption says to screen readers what the table holds. */
export function table({
  caption,
  columns,
  rows,
  hasGroups = false,
  isOneLine = false,
}: {
  caption: string;
  columns: readonly TableColumn[];
  rows: readonly Value[];
  hasGroups?: boolean;
  isOneLine?: boolean;
}): Html {
  const head = columns.map(({ text, isRight, isHidden, sort, className }) => {
    const classes = [isRight && "r", className].filter(Boolean).join(" ");
    const label = isHidden ? html`<span class="vh">${text}</span>` : text;
    const sorted = sort?.direction && html` aria-sort="${sort.direction}"`;
    const mark = sort?.direction && icon(sort.direction === "ascending" ? "chevron-up" : "chevron-down", "12");
    return html`<th scope="col"${classes !== "" && html` class="${classes}"`}${sorted}>${
      sort ? html`<a href="${sort.href}">${label}${mark}</a>` : label
    }</th>`;
  });
  const body = hasGroups ? rows : html`<tbody>${rows}</tbody>`;
  return html`<table class="t t-stack${isOneLine && " t-one"}"><caption class="vh">${caption}</caption>
<thead><tr>${head}</tr></thead>${body}</table>`;
}

/** The first cell of a row: a link with a grey second line. */
export const nameCell = ({
  href,
  name,
  sub,
  mark,
  after,
}: {
  href: string | null;
  name: Value;
  sub?: Value;
  mark?: Value;
  after?: Value;
}): Html => {
  const label =
    href === null
      ? html`<span class="t-name">${name}</span>`
      : html`<a class="t-name" href="${href}" data-prefetch>${name}</a>`;
  const inner = html`<div>${label}${after && html` ${after}`}${sub && html`<div class="sub">${sub}</div>`}</div>`;
  return html`<td class="lead">${mark ? html`<div class="name-cell">${mark}${inner}</div>` : inner}</td>`;
};

/** Names in a row of a table: each goes to the next line as a whole, with its comma. */
export const nameList = (names: readonly Html[]): Html =>
  html`<span class="names">${names.map(
    (name, at) => html`${at > 0 && " "}<span>${name}${at < names.length - 1 && ","}</span>`,
  )}</span>`;

/** `a, b and c` within a sentence. */
export const inSentence = (names: readonly Value[]): Html =>
  html`${names.map((name, at) => html`${at > 0 && (at === names.length - 1 ? " and " : ", ")}${name}`)}`;

/** A list with label and value. Entries without a value are left out. */
export function facts(entries: readonly (readonly [label: string, value: Value])[]): Html {
  const shown = entries.filter(([, value]) => value !== null && value !== undefined && value !== false && value !== "");
  const pairs = shown.map(([label, value]) => html`<dt class="cut-block">${label}</dt><dd>${value}</dd>`);
  return html`<dl class="facts">${pairs}</dl>`;
}

/** @property href the list that it counts */
type Figure = { label: string; value: Value; note?: Value; state?: "ok" | "bad" | "wait" | ""; href?: string };

/** A strip of figures, each with its base. */
export const figures = (items: readonly Figure[]): Html =>
  html`<dl class="figures${items.length === 3 && " figures-3"}">${items.map(
    ({ label, value, note, state = "", href }) =>
      html`<div><dt>${label}</dt><dd><span class="fig ${state}">${
        href === undefined ? value : html`<a href="${href}">${value}</a>`
      }</span>${note && html` <span class="sub">${note}</span>`}</dd></div>`,
  )}</dl>`;

/** What a list shows when it has nothing: what belongs there, and how it gets there. */
export const empty = ({
  icon: name,
  title,
  text,
  command,
  actions,
}: {
  icon: IconName;
  title: Value;
  text: Value;
  /** To paste into a shell. */
  command?: string;
  actions?: Value;
}): Html =>
  html`<div class="empty">${icon(name)}<h2>${title}</h2><p>${text}</p>${command !== undefined && snippet(command)}${
    actions && html`<div class="actions">${actions}</div>`
  }</div>`;

/**
 * Text to paste, with a button that copies it. A long line is wrapped, but neither within an option and its value, if
 * that is short, nor before the backslash at its end; an address between the parts of its path and query.
 */
export const snippet = (text: string): Html =>
  html`<div class="snippet"><pre tabindex="0">${text
    .split(/(?<=\s)(--[\w-]+(?:[ =][^\s\\-]\S{0,19})?(?=\s|$)(?: \\(?=\n))?|\S{1,40} \\(?=\n))/)
    .map((part, at) =>
      at % 2 === 1 ? html`<span class="nowrap">${part}</span>` : withBreaks(part),
    )}</pre>${copyButton(text, "this text")}</div>`;

/** Browsers break a line at spaces and hyphens only; the scheme stays with the host. */
const withBreaks = (text: string): Value =>
  text.split(/(?<=[^/][/?&])(?=\w)/).map((part, at) => (at === 0 ? part : html`<wbr>${part}`));

/** A box that says why something is not compliant, or that something went wrong. */
export const reasonsBox = ({
  state = "bad",
  title,
  reasons,
  actions,
  mark,
}: {
  state?: "bad" | "wait" | "ok" | "none";
  /** In place of the icon of the state. */
  mark?: IconName;
  title: Value;
  reasons: readonly Value[];
  actions?: Value;
}): Html => {
  const look = { bad: "x-circle-fill", wait: "hourglass", ok: "check-circle-fill", none: "info" } as const;
  return html`<div class="why why-${state}">${icon(mark ?? look[state])}<div><h2>${title}</h2>${
    reasons.length > 0 && html`<ul>${reasons.map((reason) => html`<li>${reason}</li>`)}</ul>`
  }${actions && html`<div class="why-do">${actions}</div>`}</div></div>`;
};
