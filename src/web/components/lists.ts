/** Lists that page and filter. All of it is in the address, so a list can be shared as it is seen. */
import { html } from "../html.ts";
import type { Html, Value } from "../html.ts";
import type { Visit } from "../page/page.ts";
import { icon } from "./icon.ts";
import { formatNumber } from "./state.ts";

export type Pagination = { total: number; page: number; per_page: number; page_count: number };

/** The page number in the address; 1 for anything that is not one. */
export function pageOf(query: URLSearchParams): number {
  const number = Number(query.get("page") ?? "1");
  return Number.isInteger(number) && number >= 1 && number <= 1_000_000 ? number : 1;
}

/** Below a list: the range that it shows, and the way to the other pages. */
export function pager({ here }: Pick<Visit, "here">, { total, page, per_page, page_count }: Pagination): Html | null {
  if (page_count <= 1 && page === 1) return null;
  const first = Math.min((page - 1) * per_page + 1, total);
  const last = Math.min(page * per_page, total);
  const link = (to: number, text: Value, label: string): Html =>
    to < 1 || to > page_count
      ? html`<span class="btn btn-s" aria-disabled="true">${text}</span>`
      : html`<a class="btn btn-s" href="${here({ page: to })}" aria-label="${label}">${text}</a>`;
  const range = `${formatNumber(first)} to ${formatNumber(last)} of ${formatNumber(total)}`;
  const position = `Page ${page} of ${Math.max(page_count, 1)}`;
  const previous = link(page - 1, html`${icon("chevron-left")}Previous`, "Previous page");
  const next = link(page + 1, html`Next${icon("chevron-right")}`, "Next page");
  return html`<nav class="pager" aria-label="Pages"><span class="num">${range}</span>
<span class="btn-group">${previous}<span class="btn btn-s" aria-current="page">${position}</span>${next}</span></nav>`;
}

/** As `pager`, for lists that do not count: whether there is a next page is all that is known. */
export function endlessPager(
  { here, query }: Pick<Visit, "here" | "query">,
  { hasMore }: { hasMore: boolean },
): Html | null {
  const page = pageOf(query);
  if (page === 1 && !hasMore) return null;
  const last = hasMore ? page + 1 : page;
  const button = (to: number, text: Value): Html =>
    to >= 1 && to <= last
      ? html`<a class="btn btn-s" href="${here({ page: to })}">${text}</a>`
      : html`<span class="btn btn-s" aria-disabled="true">${text}</span>`;
  const [newer, older] = [html`${icon("chevron-left")}Newer`, html`Older${icon("chevron-right")}`];
  return html`<nav class="pager" aria-label="Pages"><span class="num">Page ${page}</span>
<span class="btn-group">${button(page - 1, newer)}${button(page + 1, older)}</span></nav>`;
}

type Choice = { value: string; text: string };
export type Filter =
  | { kind: "search"; name: string; label: string }
  | { kind: "choice"; name: string; label: string; choices: readonly Choice[] }
  | { kind: "text"; name: string; label: string }
  /** A day, in UTC. */
  | { kind: "day"; name: string; label: string };

/**
 * The form above a list. Its fields are query parameters; others of the page that must stay are in `keep`.
 * @param total what the list has with these filters; null where it does not count
 */
export function filters(
  { query, here, path, to }: Pick<Visit, "query" | "here" | "path" | "to">,
  {
    items,
    more = [],
    keep = [],
    total,
    what,
  }: {
    items: readonly Filter[];
    /** Filters that are rarely needed: folded until one of them is set. */
    more?: readonly Filter[];
    keep?: readonly string[];
    total: number | null;
    what: string;
  },
): Html {
  const names = [...items, ...more].map(({ name }) => name);
  const isFiltered = names.some((name) => (query.get(name) ?? "") !== "");
  const kept = keep.map((name) => {
    const value = query.get(name);
    return value && html`<input type="hidden" name="${name}" value="${value}">`;
  });
  const cleared = here(Object.fromEntries([...names, "page", "after"].map((name) => [name, null])));
  const action = to.path(path.slice(1));
  const fields = items.map((item) => filterField(item, query.get(item.name) ?? ""));
  const button = html`<button class="btn" type="submit">Filter</button>`;
  const counted = total !== null && html`<span class="num">${formatNumber(total)} ${what}</span>`;
  const clear = isFiltered && html`<a href="${cleared}">Clear filters</a>`;
  return html`<div class="list-head"><form class="filters" method="get" action="${action}">
${kept}${fields}${button}${moreFilters(query, more)}</form><div class="chips">${counted}${clear}</div></div>`;
}

/** Filters that are folded until one of them is set. */
function moreFilters(query: URLSearchParams, items: readonly Filter[]): Html | null {
  if (items.length === 0) return null;
  const isSet = items.some(({ name }) => (query.get(name) ?? "") !== "");
  const fields = items.map((item) => filterField(item, query.get(item.name) ?? ""));
  return html`<details class="filters-more"${isSet && html` open`}>
<summary>More filters${icon("chevron-down", "12")}</summary><div class="filters-row">${fields}</div></details>`;
}

function filterField(item: Filter, value: string): Html {
  const { name, label } = item;
  const attributes = html`name="${name}" aria-label="${label}" placeholder="${label}" value="${value}"`;
  if (item.kind === "choice")
    return html`<select class="field" name="${item.name}" aria-label="${item.label}">${item.choices.map(
      (choice) =>
        html`<option value="${choice.value}"${choice.value === value && html` selected`}>${choice.text}</option>`,
    )}</select>`;
  if (item.kind === "day") {
    const input = html`<input class="field" type="date" name="${name}" value="${value}">`;
    return html`<label class="filter-day">${label}${input}</label>`;
  }
  if (item.kind === "text") return html`<input class="field" ${attributes}>`;
  return html`<span class="search">${icon("search")}<input type="search" ${attributes}></span>`;
}
