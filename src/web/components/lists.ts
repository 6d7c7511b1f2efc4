/** Lists that page and filter. All of it is in the address, so a list can be shared as it is seen. */
import { parseIsoTime } from "../../domain/time.ts";
import { html } from "../html.ts";
import type { Html, Value } from "../html.ts";
import { inWords } from "../page/field-words.ts";
import type { Visit } from "../page/page.ts";
import { icon } from "./icon.ts";
import { formatNumber, stateOf, stateWord } from "./state.ts";
import { saveView } from "./views.ts";

export type Pagination = { total: number; page: number; per_page: number; page_count: number };

/** Rows of a page. */
export const PER_PAGE = 25;

/** The page number in the address; 1 for anything that is not one. */
export function pageOf(query: URLSearchParams): number {
  const number = Number(query.get("page") ?? "1");
  return Number.isInteger(number) && number >= 1 && number <= 1_000_000 ? number : 1;
}

/** Where a list stands: a page of those that are counted, or records before the token of the next ones. */
export type ListPosition = Pagination | { next: string | null; total?: number };

/** Numbers on either side of the page that is shown. */
const NEIGHBOURS = 2;

/** Below a list: the range that it shows of all, and the way to the other pages. Null where there is one page only. */
export function pager({ here, query }: Pick<Visit, "here" | "query">, position: ListPosition): Html | null {
  if ("next" in position) {
    const isFirst = (query.get("after") ?? "") === "";
    const { next } = position;
    if (isFirst && next === null) return null;
    const newest = step(isFirst ? null : here({ after: null }), html`${icon("chevron-left")}Newest`);
    const older = step(next === null ? null : here({ after: next }), html`Older${icon("chevron-right")}`);
    return html`<nav class="pager" aria-label="Pages"><span class="row right">${newest}${older}</span></nav>`;
  }
  const { total, page, per_page, page_count } = position;
  if (page_count <= 1 && page === 1) return null;
  const [first, last] = [Math.min((page - 1) * per_page + 1, total), Math.min(page * per_page, total)];
  const at = (to: number): string | null => (to < 1 || to > page_count ? null : here({ page: to }));
  const numbers = pageNumbers(page, page_count).map((number) =>
    number === page
      ? html`<span class="btn btn-s" aria-current="page">${formatNumber(page)}</span>`
      : number === null
        ? html`<span aria-hidden="true">…</span>`
        : html`<a class="btn btn-s btn-quiet hide-s" href="${here({ page: number })}"
aria-label="Page ${number}">${formatNumber(number)}</a>`,
  );
  return html`<nav class="pager" aria-label="Pages"><span class="num">${formatNumber(first)} to ${formatNumber(last)} of
<b>${formatNumber(total)}</b></span><span class="row right">${step(
    at(page - 1),
    html`${icon("chevron-left")}Previous`,
    "Previous page",
  )}${numbers}${step(at(page + 1), html`Next${icon("chevron-right")}`, "Next page")}</span></nav>`;
}

/** A way that leads nowhere stays in its place. */
const step = (href: string | null, text: Html, label?: string): Html =>
  href === null
    ? html`<span class="btn btn-s" aria-disabled="true">${text}</span>`
    : html`<a class="btn btn-s" href="${href}"${label && html` aria-label="${label}"`}>${text}</a>`;

/** The first page, the last one, and those around the one that is shown; null where some are left out. */
function pageNumbers(page: number, count: number): (number | null)[] {
  const shown = [
    ...new Set([1, ...Array.from({ length: 2 * NEIGHBOURS + 1 }, (_, at) => page - NEIGHBOURS + at), count]),
  ]
    .filter((number) => number === page || (number >= 1 && number <= count))
    .sort((one, other) => one - other);
  return shown.flatMap((number, at) => {
    const left = at === 0 ? 0 : number - (shown[at - 1] as number) - 1;
    // Dots in place of a single number would be as wide as it.
    return left === 0 ? [number] : [left === 1 ? number - 1 : null, number];
  });
}

/** The rows of the page in the address, or of the last one, of a list that an operation answers as a whole. */
export function sliceOf<T>(
  query: URLSearchParams,
  rows: readonly T[],
  per_page = PER_PAGE,
): { rows: readonly T[]; position: Pagination } {
  const page_count = Math.ceil(rows.length / per_page);
  const page = Math.max(1, Math.min(pageOf(query), page_count));
  const shown = rows.slice((page - 1) * per_page, page * per_page);
  return { rows: shown, position: { total: rows.length, page, per_page, page_count } };
}

/** The tags that a filter names, for the query of an operation. */
export function tagsOf(query: URLSearchParams): { tag?: string[] } {
  const tag = (query.get("tag") ?? "").split(",").filter((text) => text.trim() !== "");
  return tag.length === 0 ? {} : { tag };
}

/** The value of a parameter, if it is one of those; else null. */
export const oneOf = <T extends string>(query: URLSearchParams, name: string, values: readonly T[]): T | null =>
  values.find((value) => value === query.get(name)) ?? null;

/** Epoch seconds of the day or time in a parameter, in UTC; null for any other text. `to` includes its day. */
export const dayBoundOf = (query: URLSearchParams, name: "from" | "to"): number | null =>
  parseIsoTime((query.get(name) ?? "").trim(), { endOfDay: name === "to" });

export type FilterChoice = { value: string; text: string };
/** Links with how many there are in each state; the first choice is all. */
type StateFilter = { kind: "state"; name: string; label: string; choices: readonly StateChoice[] };
type StateChoice = FilterChoice & { count: number | null };

/** The filter by state, with how many there are in each; without counts before they are known. */
export function stateFilter(
  states: readonly string[],
  counts: Readonly<Record<string, number>> | undefined,
): StateFilter {
  const of = (state: string): number | null => counts?.[state] ?? null;
  const all = counts === undefined ? null : states.reduce((sum, state) => sum + (of(state) ?? 0), 0);
  const choices = states.map((state) => ({ value: state, text: stateWord(stateOf(state)), count: of(state) }));
  return {
    kind: "state",
    name: "state",
    label: "State",
    choices: [{ value: "", text: "All", count: all }, ...choices],
  };
}

export type Filter =
  | { kind: "search"; name: string; label: string }
  | StateFilter
  | { kind: "choice"; name: string; label: string; choices: readonly FilterChoice[] }
  | { kind: "text"; name: string; label: string }
  /** A day, in UTC. */
  | { kind: "day"; name: string; label: string };

/**
 * The form above a list. Its fields are query parameters; others of the page that must stay are in `keep`.
 * @param total what the list has with these filters; null where it does not count
 */
export function filters(
  visit: Visit,
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
  const { query, here, path, to } = visit;
  const names = [...items, ...more].map(({ name }) => name);
  const isFiltered = names.some((name) => (query.get(name) ?? "") !== "");
  const kept = keep.map((name) => {
    const value = query.get(name);
    return value && html`<input type="hidden" name="${name}" value="${value}">`;
  });
  const cleared = here(Object.fromEntries([...names, "page", "after"].map((name) => [name, null])));
  const action = to.path(path.slice(1));
  // States are links: the button stands beside the fields that it sends, also where these take more than one line.
  const isState = ({ kind }: Filter): boolean => kind === "state";
  const fields = filterFields(
    { query, here },
    items.filter((item) => !isState(item)),
  );
  const states = items.filter(isState).map((item) => filterField({ query, here }, item));
  const button = html`<button class="btn" type="submit">Filter</button>`;
  const counted = total !== null && html`<span class="num">${formatNumber(total)} ${what}</span>`;
  const clear = isFiltered && html`<a href="${cleared}">Clear filters</a>`;
  return html`<div class="list-head"><form class="filters" method="get" action="${action}">
${kept}${fields}${button}${states}${moreFilters({ query, here }, more)}</form><div
class="chips">${counted}${clear}${saveView(visit)}</div></div>`;
}

/** The days of a period go to the next row together, behind the others. */
function filterFields(visit: Pick<Visit, "query" | "here">, items: readonly Filter[]): Html {
  const isDay = ({ kind }: Filter): boolean => kind === "day";
  const days = items.filter(isDay).map((item) => filterField(visit, item));
  const others = items.filter((item) => !isDay(item)).map((item) => filterField(visit, item));
  return html`${others}${days.length > 0 && html`<span class="filters-days">${days}</span>`}`;
}

/** Filters that are folded until one of them is set. */
function moreFilters(visit: Pick<Visit, "query" | "here">, items: readonly Filter[]): Html | null {
  if (items.length === 0) return null;
  const { query } = visit;
  const isSet = items.some(({ name }) => (query.get(name) ?? "") !== "");
  return html`<details class="filters-more"${isSet && html` open`}>
<summary>More filters${icon("chevron-down", "12")}</summary><div class="filters-row">${filterFields(
    visit,
    items,
  )}</div></details>`;
}

/** Of a wrong value, characters that are repeated beside its field. */
const MAX_REPEATED_CHARS = 40;

/** What is wrong with the value of a filter. The list is then one without this filter. */
function problemOf(item: Filter, value: string): string | undefined {
  const text = value.trim();
  const repeated = `“${[...text].slice(0, MAX_REPEATED_CHARS).join("")}”`;
  if (text === "" || item.kind === "search" || item.kind === "text") return undefined;
  if (item.kind === "day")
    return parseIsoTime(text) === null
      ? `${repeated} is not a date, so nothing is filtered by it. Write one such as 2026-01-31.`
      : undefined;
  return item.choices.some((choice) => choice.value === value)
    ? undefined
    : `${repeated} is not one of the choices, so nothing is filtered by it.`;
}

/** What is wrong with a filter whose choices do not stand among other filters; null for nothing. */
export const filterProblem = ({ query }: Pick<Visit, "query">, item: Filter): Html | null =>
  errorOf(item.name, problemOf(item, query.get(item.name) ?? ""));

/** A field, with what is wrong below it. */
const withProblem = (field: Html, name: string, problem: string | undefined): Html =>
  problem === undefined ? field : html`<span class="filter-field">${field}${errorOf(name, problem)}</span>`;

function filterField({ query, here }: Pick<Visit, "query" | "here">, item: Filter): Html {
  const value = query.get(item.name) ?? "";
  const { name, label } = item;
  const problem = problemOf(item, value);
  if (item.kind === "state") return withProblem(stateLinks({ here }, item, problem ? "" : value), name, problem);
  const attributes = html`name="${name}" aria-label="${label}" placeholder="${label}" value="${value}"`;
  if (item.kind === "choice")
    return withProblem(
      html`<select class="field" name="${name}" aria-label="${label}"${invalid(name, problem)}>${item.choices.map(
        (choice) =>
          html`<option value="${choice.value}"${choice.value === value && html` selected`}>${choice.text}</option>`,
      )}</select>`,
      name,
      problem,
    );
  if (item.kind === "day") {
    // The address may have a time of that day. A browser shows no other text, and complains about it.
    const day = problem === undefined ? value.trim().slice(0, 10) : "";
    const input = html`<input class="field" type="date" name="${name}" value="${day}"${invalid(name, problem)}>`;
    return withProblem(html`<label class="filter-label">${label}${input}</label>`, name, problem);
  }
  if (item.kind === "text") {
    const input = html`<input class="field" ${attributes}>`;
    // A text hides the placeholder that named the field.
    return value === "" ? input : html`<label class="filter-label">${label}${input}</label>`;
  }
  return html`<span class="search">${icon("search")}<input type="search" ${attributes}></span>`;
}

function stateLinks({ here }: Pick<Visit, "here">, { name, label, choices }: StateFilter, current: string): Html {
  const links = choices.map(({ value, text, count }) => {
    const amount = count !== null && html` <span class="num">${formatNumber(count)}</span>`;
    const mark = value === current && html` aria-current="true"`;
    return html`<a class="btn" href="${here({ [name]: value || null, after: null })}"${mark}>${text}${amount}</a>`;
  });
  const kept = current !== "" && html`<input type="hidden" name="${name}" value="${current}">`;
  return html`${kept}<span class="btn-group states" role="group" aria-label="${label}">${links}</span>`;
}

/** An example of a time stays in one line, because browsers break lines at hyphens. */
const withWholeTimes = (text: string): Value =>
  text
    .split(/(\d{4}-\d\d-\d\d(?:T[\d:]+)?,?)/)
    .map((part, at) => (at % 2 === 1 ? html`<span class="nowrap">${part}</span>` : part));

/** What is wrong with a field, below it. */
const errorOf = (name: string, problem: string | undefined): Html | null =>
  problem === undefined
    ? null
    : html`<p class="field-error" id="${name}-error">${icon("alert-fill", "12")}<span>${withWholeTimes(
        inWords(problem),
      )}</span></p>`;
/** The attributes of a field with something wrong. */
const invalid = (name: string, problem: string | undefined): Value =>
  problem !== undefined && html` aria-invalid="true" aria-describedby="${name}-error"`;

/** A list of choices; a value that is not among them is added. */
export function choiceField(
  name: string,
  label: string,
  { value, choices, problem }: { value: string; choices: readonly FilterChoice[]; problem: string | undefined },
): Html {
  const known = choices.some((choice) => choice.value === value) ? choices : [...choices, { value, text: value }];
  const options = known.map(
    (choice) =>
      html`<option value="${choice.value}"${choice.value === value && html` selected`}>${choice.text}</option>`,
  );
  return html`<span class="filter-field"><select class="field" name="${name}" aria-label="${label}"${invalid(
    name,
    problem,
  )}>${options}</select>${errorOf(name, problem)}</span>`;
}

/** A date, a time or a duration. */
export const timeField = (
  name: string,
  label: string,
  { value, placeholder, problem }: { value: string; placeholder: string; problem: string | undefined },
): Html => html`<span class="filter-field"><label class="filter-label">${label}<input class="field mono" name="${name}"
value="${value}" placeholder="${placeholder}" maxlength="100" autocomplete="off"${invalid(
  name,
  problem,
)}></label>${errorOf(name, problem)}</span>`;

/** A name that is typed. */
export const nameField = (
  name: string,
  label: string,
  { value, problem }: { value: string; problem: string | undefined },
): Html => html`<span class="filter-field"><input class="field" name="${name}" value="${value}" aria-label="${label}"
placeholder="${label}" maxlength="256" autocomplete="off" spellcheck="false"${invalid(name, problem)}>${errorOf(
  name,
  problem,
)}</span>`;
