/** A page with one list: what it reads, how it filters, its rows, and what it says when there is nothing. */
import { html } from "../html.ts";
import type { Html, Value } from "../html.ts";
import type { AnswerOf, CallInput } from "../../http/in-process.ts";
import type { Content, Section, Visit } from "../page/page.ts";
import { problemBox } from "./forms.ts";
import type { IconName } from "./icon.ts";
import { card, empty, linkButton, pageHead, table } from "./layout.ts";
import type { TableColumn } from "./layout.ts";
import { filters, pageOf, pager, PER_PAGE } from "./lists.ts";
import type { Filter, Pagination, ListPosition } from "./lists.ts";

type Callable = Parameters<Visit["call"]>[0];
type Envelope<O extends Callable> = Exclude<AnswerOf<O>, readonly unknown[]>;
/** A row of an answer: what its list holds. */
type RowOf<O extends Callable> = {
  [K in keyof Envelope<O>]-?: NonNullable<Envelope<O>[K]> extends readonly (infer R)[] ? R : never;
}[keyof Envelope<O>];

type Input<O extends Callable> = Pick<CallInput<O>, "query"> & { params?: Omit<CallInput<O>["params"] & {}, "org"> };
/** An envelope of either style. */
type Answer = Partial<PageCounts & { pagination: Pagination; states: Readonly<Record<string, number>> }>;
type PageCounts = { total_count: number; total_pages: number };

/** A part of a list. */
export type ListPart<Row> = {
  rows: readonly Row[];
  position: ListPosition;
  /** What is wrong with the filters; nothing was read then. */
  problem?: string;
  /** How many there are in each state, if the filter by state did not apply. */
  states?: Readonly<Record<string, number>>;
};

/**
 * Reads the page in the address from an operation with one of the envelopes of api/paging.ts.
 * @param inputOf the filters of the address as parameters of the operation
 */
export const pageFrom =
  <O extends Callable>(operation: O, inputOf: (visit: Visit) => Input<O>) =>
  async (visit: Visit): Promise<ListPart<RowOf<O>>> => {
    const window = { page: pageOf(visit.query), per_page: PER_PAGE };
    const { query, ...input } = inputOf(visit);
    const answer = (await visit.call(operation, { ...input, query: { ...window, ...query } } as never)) as Answer;
    const { pagination, states } = answer;
    const { total, page_count } = pagination ?? { total: answer.total_count, page_count: answer.total_pages };
    return {
      rows: Object.values<unknown>(answer).find(Array.isArray) as RowOf<O>[],
      position: { ...window, total: total as number, page_count: page_count as number },
      ...(states ? { states } : {}),
    };
  };

/** What stands where a list has nothing. */
export type Words = { icon: IconName; title: string; text: Value; command?: string; actions?: Value };

type List<Row> = {
  /** What it lists, of one and of several. */
  what: readonly [one: string, several: string];
  read(visit: Visit): Promise<ListPart<Row>>;
  filters: readonly Filter[] | ((visit: Visit, part: ListPart<Row>) => readonly Filter[] | Promise<readonly Filter[]>);
  /** Filters that are rarely needed. */
  more?: readonly Filter[];
  /** Parameters of the page that its filters keep. */
  keep?: readonly string[];
  /** Of the table; without one, what the list is. */
  caption?: string;
  columns: readonly TableColumn[] | ((visit: Visit) => readonly TableColumn[]);
  row(visit: Visit, row: Row): Html | Promise<Html>;
  /** Where there is nothing at all: what belongs there, and how it gets there. */
  empty: Words | ((visit: Visit) => Words);
  /** The head of its card; without one, the page says what the list is. */
  head?: (visit: Visit, total: number | null) => Omit<Parameters<typeof card>[0], "body">;
  /** Where nothing matches: what the filters look for; or more words about it. */
  none: string | ((visit: Visit) => Words | Promise<Words>);
};

/** A list with its filters and pages. `isNew`: there is nothing yet, so that the way to the first one is shown. */
export async function renderList<Row>(visit: Visit, list: List<Row>): Promise<{ body: Html; isNew: boolean }> {
  const { query, here } = visit;
  const part = await list.read(visit);
  const { rows, position } = part;
  const { more = [], keep = [] } = list;
  const items = typeof list.filters === "function" ? await list.filters(visit, part) : list.filters;
  const narrowing = [...[...items, ...more].map(({ name }) => name), "page", "after"];
  const isNarrowed = narrowing.some((name) => (query.get(name) ?? "") !== "");
  if (rows.length === 0 && !isNarrowed) return { body: inCard(empty(wordsFor(visit, list.empty))), isNew: true };
  const total = position.total ?? null;
  const what = list.what[total === 1 ? 0 : 1];
  const form = items.length + more.length > 0 && filters(visit, { items, more, keep, total, what });
  const clear = here(Object.fromEntries(narrowing.map((name) => [name, null])));
  const body =
    part.problem !== undefined
      ? problemBox(part.problem)
      : rows.length === 0
        ? inCard(empty(await describeNothing(visit, list, { total, clear })))
        : html`${await renderRows(visit, list, { rows, total })}${pager(visit, position)}`;
  return { body: html`${form}${body}`, isNew: false };
}

async function renderRows<Row>(
  visit: Visit,
  list: List<Row>,
  { rows, total }: { rows: readonly Row[]; total: number | null },
): Promise<Html> {
  const [, several] = list.what;
  const label = `${several[0]?.toUpperCase()}${several.slice(1)}`;
  const columns = typeof list.columns === "function" ? list.columns(visit) : list.columns;
  const shown = await Promise.all(rows.map((row) => list.row(visit, row)));
  const body = table({ caption: list.caption ?? label, columns, rows: shown });
  const head = list.head?.(visit, total);
  return head ? card({ ...head, body }) : html`<section class="card" aria-label="${label}">${body}</section>`;
}

/** Why nothing is listed: the page is beyond the end, or nothing matches. */
function describeNothing<Row>(
  visit: Visit,
  { what: [one], none }: List<Row>,
  { total, clear }: { total: number | null; clear: string },
): Words | Promise<Words> {
  if (total !== null && total > 0)
    return {
      icon: "search",
      title: "This page is beyond the end",
      text: "The list has fewer pages.",
      actions: linkButton(visit.here({ page: null }), "First page"),
    };
  if (typeof none === "function") return none(visit);
  return { icon: "search", title: `No ${one} matches`, text: none, actions: linkButton(clear, "Clear filters") };
}

const wordsFor = (visit: Visit, words: Words | ((visit: Visit) => Words)): Words =>
  typeof words === "function" ? words(visit) : words;

const inCard = (body: Html): Html => html`<section class="card">${body}</section>`;

/** The page of a list of the organization. */
export const listPage =
  <Row>(
    page: List<Row> & {
      /** Of the window; `heading` where that of the page differs. */
      title: string;
      heading?: string;
      section: Section;
      sub?: string;
      crumbs?: (visit: Visit) => Content["crumbs"];
      crumb?: string;
      /** Buttons in the head that are always there. */
      actions?: (visit: Visit) => readonly Value[];
      /** The form that creates one: at the head, or in the empty list. */
      create?: { operation: Parameters<Visit["may"]>[0]; text: string };
      /** Between the head and the list. */
      above?: (visit: Visit) => Html;
      below?: (visit: Visit) => Promise<Html | null>;
    },
  ) =>
  async (visit: Visit): Promise<Content> => {
    const { title, section, sub, create } = page;
    const button =
      create !== undefined &&
      visit.may(create.operation) &&
      linkButton(visit.here({ ask: "create" }), create.text, { icon: "plus", kind: "primary" });
    const list = await renderList(visit, { ...page, empty: { actions: button, ...wordsFor(visit, page.empty) } });
    const below = await page.below?.(visit);
    const actions = [...(page.actions?.(visit) ?? []), !list.isNew && button];
    const head = pageHead({ title: page.heading ?? title, ...(sub === undefined ? {} : { sub }), actions });
    const body = below ? html`<div class="stack"><div>${list.body}</div>${below}</div>` : list.body;
    return {
      title,
      section,
      crumbs: page.crumbs?.(visit) ?? [],
      ...(page.crumb === undefined ? {} : { crumb: page.crumb }),
      main: html`${head}${page.above?.(visit)}${body}`,
    };
  };
